//! How bad the network is, and how often what goes wrong.

use std::{fmt, ops::RangeInclusive, str::FromStr, time::Duration};

use nolag_core::Instant;

use crate::{ClientId, Cut, Fault, LinkConfig, Way, network::between};

/// A kind of network, and of luck.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// Fast links, something goes wrong now and then.
    Lan,
    /// Links of telephones: slow, uneven, often gone.
    Mobile,
    /// Everything goes wrong all the time.
    #[default]
    Hostile,
}

/// The numbers of a profile. Ranges include both ends.
struct Numbers {
    latency: RangeInclusive<Duration>,
    jitter: Duration,
    bandwidth: Option<RangeInclusive<u64>>,
    /// Between two faults of one client, on average.
    every: Duration,
    /// Between two stops of the broker, on average.
    restart_every: Duration,
    /// How long faults last.
    spans: RangeInclusive<Duration>,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lan, Self::Mobile, Self::Hostile];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lan => "lan",
            Self::Mobile => "mobile",
            Self::Hostile => "hostile",
        }
    }

    fn numbers(self) -> Numbers {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        match self {
            Self::Lan => Numbers {
                latency: ms(0)..=ms(1),
                jitter: ms(1),
                bandwidth: None,
                every: s(900),
                restart_every: s(1_200),
                spans: s(0)..=s(30),
            },
            Self::Mobile => Numbers {
                latency: ms(20)..=ms(200),
                jitter: ms(300),
                bandwidth: Some(16_384..=262_144),
                every: s(180),
                restart_every: s(1_200),
                spans: s(0)..=s(60),
            },
            Self::Hostile => Numbers {
                latency: ms(0)..=ms(500),
                jitter: ms(1_000),
                bandwidth: Some(8_192..=1_048_576),
                every: s(60),
                restart_every: s(300),
                spans: s(0)..=s(90),
            },
        }
    }

    pub(crate) fn links(self) -> LinkConfig {
        let Numbers { latency, jitter, bandwidth, .. } = self.numbers();
        LinkConfig { latency, jitter, bandwidth }
    }

    /// Everything that goes wrong until `end`, when all of it is over, in order.
    pub(crate) fn faults(
        self,
        rng: &mut fastrand::Rng,
        clients: usize,
        end: Instant,
    ) -> Vec<(Instant, Fault)> {
        let numbers = self.numbers();
        let mut faults = Vec::new();
        for client in (0..clients).map(ClientId::new) {
            let mut at = Instant::ZERO;
            loop {
                at = at + between(rng, &(Duration::ZERO..=numbers.every * 2));
                if at >= end {
                    break;
                }
                faults.push((at, numbers.draw(rng, client, end.saturating_since(at))));
            }
        }
        let mut at = Instant::ZERO;
        loop {
            at = at + between(rng, &(Duration::ZERO..=numbers.restart_every * 2));
            if at >= end {
                break;
            }
            let span = between(rng, &numbers.spans).min(end.saturating_since(at));
            faults.push((at, Fault::Restart { span, forget: rng.bool() }));
        }
        faults.sort_by_key(|(at, _)| *at);
        faults
    }
}

impl Numbers {
    fn draw(&self, rng: &mut fastrand::Rng, client: ClientId, left: Duration) -> Fault {
        let span = between(rng, &self.spans).min(left);
        match rng.u8(0..16) {
            0..=3 => {
                let cut =
                    *rng.choice(&[Cut::BrokerBlind, Cut::ClientBlind, Cut::Noticed]).unwrap_or(&Cut::Noticed);
                Fault::Cut { client, cut, keep: [rng.u16(0..=1000), rng.u16(0..=1000)] }
            }
            4..=6 => {
                let way = *rng.choice(&[None, Some(Way::ToBroker), Some(Way::ToClient)]).unwrap_or(&None);
                Fault::Silence { client, way, span: rng.bool().then_some(span) }
            }
            7 => Fault::Refuse { client, span },
            8 => Fault::Ignore { client, span },
            9 => Fault::Stop { client, span },
            10 => Fault::Slow { client, gap: between(rng, &(Duration::ZERO..=Duration::from_secs(2))), span },
            11 | 12 => Fault::Freeze { client, span },
            13 => {
                // Ahead by a minute and a half, or back by five seconds, at most.
                let by = rng.i64(-5_000_000..=90_000_000);
                Fault::Clock { client, by }
            }
            14 => Fault::ExpireToken { client },
            _ => Fault::Revoke { client, span },
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| format!("{text:?} is no profile; there are lan, mobile and hostile"))
    }
}
