//! What can go wrong on purpose.

use std::{fmt, str::FromStr, time::Duration};

use crate::ConnectionId;

/// Which way a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From a client to the broker.
    FromClient,
    /// From the broker to a client.
    ToClient,
}

/// What a [`Fault`] does when it strikes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// The connection is dropped without a close frame, and the frame with it.
    Cut,
    /// The frame goes on so much later. Frames that are not delayed overtake it.
    Delay(Duration),
    /// The frame is lost.
    Drop,
    /// The connection's token has expired; the frame goes on. See
    /// [`BrokerCore::expire_token`](crate::BrokerCore::expire_token).
    ExpireToken,
    /// The frame waits until the fault is removed. Other frames overtake it.
    Hold,
    /// The client's frame is answered with this error instead of being acted upon, in the form that belongs to its
    /// type: `auth` is refused, `publish` gets an error with `topic` and `msgRef`, and so on. A broker's frame is lost.
    Refuse(String),
    /// The broker restarts without its memory; see [`BrokerCore::restart`](crate::BrokerCore::restart).
    Restart,
    /// Nothing gets through any more in either direction, although the connection stays open: a half-open link.
    Silence,
}

/// Something that goes wrong on purpose: an effect, and what sets it off.
///
/// It concerns existing and new connections alike, and counts over all of them. Where several faults could strike, the
/// one added first does.
///
/// ```
/// use std::time::Duration;
/// use nolag_broker::Fault;
///
/// // Two attempts to authenticate fail, the third works.
/// let fail_twice = Fault::refuse("broker_unavailable").on("auth").times(2);
/// // Acknowledgements to alice come half a second late.
/// let slow_acks = Fault::delay(Duration::from_millis(500)).on_reply("published").actor("alice");
/// // The third message is lost.
/// let gap = Fault::drop().on_reply("message").nth(3);
///
/// // The same as text, for command lines.
/// assert_eq!("refuse=broker_unavailable on=auth times=2".parse(), Ok(fail_twice));
/// assert_eq!("delay=500ms reply=published actor=alice".parse(), Ok(slow_acks));
/// assert_eq!(gap.to_string(), "drop reply=message skip=2 times=1");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fault {
    pub(crate) effect: Effect,
    pub(crate) trigger: Trigger,
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) actor: Option<String>,
    pub(crate) skip: u32,
    pub(crate) times: Option<u32>,
}

/// What sets a fault off.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Trigger {
    /// A frame in this direction; of this type, if there is one.
    Frame(Direction, Option<String>),
    /// A connection opens.
    Open,
}

impl Fault {
    /// A fault of any effect, set off by any frame from a client.
    pub fn new(effect: Effect) -> Self {
        let trigger = Trigger::Frame(Direction::FromClient, None);
        Self { effect, trigger, connection: None, actor: None, skip: 0, times: None }
    }

    /// [`Effect::Cut`].
    pub fn cut() -> Self {
        Self::new(Effect::Cut)
    }

    /// [`Effect::Delay`].
    pub fn delay(by: Duration) -> Self {
        Self::new(Effect::Delay(by))
    }

    /// [`Effect::Drop`].
    pub fn drop() -> Self {
        Self::new(Effect::Drop)
    }

    /// [`Effect::ExpireToken`].
    pub fn expire_token() -> Self {
        Self::new(Effect::ExpireToken)
    }

    /// [`Effect::Hold`].
    pub fn hold() -> Self {
        Self::new(Effect::Hold)
    }

    /// [`Effect::Refuse`].
    pub fn refuse(error: &str) -> Self {
        Self::new(Effect::Refuse(error.into()))
    }

    /// [`Effect::Restart`].
    pub fn restart() -> Self {
        Self::new(Effect::Restart)
    }

    /// [`Effect::Silence`].
    pub fn silence() -> Self {
        Self::new(Effect::Silence)
    }

    /// Set off by clients' frames of this type. The empty message has the type `heartbeat`.
    #[must_use]
    pub fn on(mut self, frame_type: &str) -> Self {
        self.trigger = Trigger::Frame(Direction::FromClient, Some(frame_type.into()));
        self
    }

    /// Set off by the broker's frames of this type. The empty message has the type `heartbeat`.
    #[must_use]
    pub fn on_reply(mut self, frame_type: &str) -> Self {
        self.trigger = Trigger::Frame(Direction::ToClient, Some(frame_type.into()));
        self
    }

    /// Set off by any frame from the broker.
    #[must_use]
    pub fn on_any_reply(mut self) -> Self {
        self.trigger = Trigger::Frame(Direction::ToClient, None);
        self
    }

    /// Set off when a connection opens. Only `cut`, `restart` and `silence` can strike there.
    #[must_use]
    pub fn on_open(mut self) -> Self {
        self.trigger = Trigger::Open;
        self
    }

    /// Only on this connection.
    #[must_use]
    pub fn connection(mut self, conn: ConnectionId) -> Self {
        self.connection = Some(conn);
        self
    }

    /// Only on connections of this actor, once they are authenticated.
    #[must_use]
    pub fn actor(mut self, actor_id: &str) -> Self {
        self.actor = Some(actor_id.into());
        self
    }

    /// Lets the first `n` occasions pass.
    #[must_use]
    pub fn skip(mut self, n: u32) -> Self {
        self.skip = n;
        self
    }

    /// Strikes `n` times and is then gone, except that a `hold` keeps what it holds.
    #[must_use]
    pub fn times(mut self, n: u32) -> Self {
        self.times = Some(n);
        self
    }

    /// Strikes at the `n`-th occasion only, counting from 1.
    #[must_use]
    pub fn nth(self, n: u32) -> Self {
        self.skip(n.saturating_sub(1)).times(1)
    }
}

/// The text that [`FromStr`] reads.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.effect {
            Effect::Cut => f.write_str("cut")?,
            Effect::Delay(by) => write!(f, "delay={}ms", by.as_millis())?,
            Effect::Drop => f.write_str("drop")?,
            Effect::ExpireToken => f.write_str("expire-token")?,
            Effect::Hold => f.write_str("hold")?,
            Effect::Refuse(error) => write!(f, "refuse={error}")?,
            Effect::Restart => f.write_str("restart")?,
            Effect::Silence => f.write_str("silence")?,
        }
        match &self.trigger {
            Trigger::Open => f.write_str(" open")?,
            Trigger::Frame(Direction::FromClient, None) => {}
            Trigger::Frame(Direction::FromClient, Some(frame_type)) => write!(f, " on={frame_type}")?,
            Trigger::Frame(Direction::ToClient, None) => f.write_str(" reply")?,
            Trigger::Frame(Direction::ToClient, Some(frame_type)) => write!(f, " reply={frame_type}")?,
        }
        if let Some(conn) = self.connection {
            write!(f, " conn={}", conn.as_u64())?;
        }
        if let Some(actor) = &self.actor {
            write!(f, " actor={actor}")?;
        }
        if self.skip > 0 {
            write!(f, " skip={}", self.skip)?;
        }
        match self.times {
            Some(times) => write!(f, " times={times}"),
            None => Ok(()),
        }
    }
}

/// Why a text is no fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultError(String);

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; expected an effect (cut, delay=500ms, drop, expire-token, hold, refuse=ERROR, restart, silence) \
             and any of on=TYPE, reply=TYPE, reply, open, conn=N, actor=ID, skip=N, nth=N, times=N",
            self.0
        )
    }
}

impl std::error::Error for FaultError {}

/// Words separated by spaces: an effect, then what sets it off.
impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let mut words = text.split_whitespace().map(|word| match word.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (word, None),
        });
        let mut fault = match words.next() {
            Some(("cut", None)) => Self::cut(),
            Some(("delay", Some(time))) => Self::delay(duration(time)?),
            Some(("drop", None)) => Self::drop(),
            Some(("expire-token", None)) => Self::expire_token(),
            Some(("hold", None)) => Self::hold(),
            Some(("refuse", Some(error))) => Self::refuse(error),
            Some(("restart", None)) => Self::restart(),
            Some(("silence", None)) => Self::silence(),
            Some((effect, _)) => {
                return Err(FaultError(format!("{effect:?} is not an effect, or lacks its value")));
            }
            None => return Err(FaultError("nothing given".into())),
        };
        for word in words {
            fault = match word {
                ("on", Some(frame_type)) => fault.on(frame_type),
                ("reply", Some(frame_type)) => fault.on_reply(frame_type),
                ("reply", None) => fault.on_any_reply(),
                ("open", None) => fault.on_open(),
                ("conn", Some(conn)) => fault.connection(ConnectionId::from_u64(number(conn)?)),
                ("actor", Some(actor)) => fault.actor(actor),
                ("skip", Some(n)) => fault.skip(number(n)?),
                ("nth", Some(n)) => fault.nth(number(n)?),
                ("times", Some(n)) => fault.times(number(n)?),
                (other, _) => {
                    return Err(FaultError(format!("{other:?} is not known here, or lacks its value")));
                }
            };
        }
        Ok(fault)
    }
}

fn number<N: FromStr>(text: &str) -> Result<N, FaultError> {
    text.parse().map_err(|_| FaultError(format!("{text:?} is not a whole number")))
}

/// Reads `500ms` or `2s`.
fn duration(text: &str) -> Result<Duration, FaultError> {
    if let Some(millis) = text.strip_suffix("ms") {
        return number(millis).map(Duration::from_millis);
    }
    match text.strip_suffix('s') {
        Some(seconds) => number(seconds).map(Duration::from_secs),
        None => Err(FaultError(format!("{text:?} is no time such as 500ms or 2s"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let texts = [
            "cut",
            "cut open times=2",
            "delay=1500ms reply conn=7",
            "drop on=heartbeat actor=ann",
            "expire-token on=publish skip=2 times=1",
            "hold reply=published",
            "refuse=access_denied on=auth times=3",
            "restart on=subscribe",
            "silence",
        ];
        for text in texts {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        assert_eq!("drop nth=3".parse::<Fault>(), Ok(Fault::drop().nth(3)));
        assert_eq!("delay=2s".parse::<Fault>(), Ok(Fault::delay(Duration::from_secs(2))));
    }

    #[test]
    fn faults_in_faults_are_named() {
        for (text, part) in [
            ("", "nothing given"),
            ("explode", "\"explode\""),
            ("delay", "\"delay\""),
            ("delay=5m", "\"5m\""),
            ("cut on", "\"on\""),
            ("cut times=x", "\"x\""),
            ("cut often=1", "\"often\""),
        ] {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("refuse=ERROR"), "{error}");
        }
    }
}
