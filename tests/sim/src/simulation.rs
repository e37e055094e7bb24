//! Whole runs: many clients with busy applications, an hour of faults, and a verdict.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    time::Duration,
};

use nolag_broker::{AuthConfig, BrokerConfig, NewActor};
use nolag_core::{Config, Disconnect, Instant, OfflinePolicy, ResendPolicy};

use crate::{
    ClientId, Fault, Moment, Observation, Observer, Profile, Violation, World,
    chatter::{Chatter, Issuer, Manners, ROOM, Times, Wanted, hall, lobby, topic},
    invariants::{Counts, Expected, Invariants, nothing_is_left_open, what_was_asked_for_stands},
};

/// How long after the last fault everything must stand again: a broker's idle timeout, a heartbeat that goes unanswered,
/// the longest delay between two attempts, and the answers, each a minute at most, with a minute left over.
pub const SETTLING: Duration = Duration::from_secs(300);

/// How long leaving may take at the end.
const LEAVING: Duration = Duration::from_secs(120);

/// What every token of a simulation holds, so that one that is shown is found.
const SECRET: &str = "dev-token-";

/// The first bytes of every token that an issuer signs.
const SIGNED: &str = "eyJ";

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How many clients. Default: 20.
    pub clients: usize,
    /// How long things go wrong, in virtual time. Default: an hour.
    pub span: Duration,
    /// How badly. Default: hostile.
    pub profile: Profile,
    /// Whether a failure is run again and again, to find out which faults it needs. Default: yes.
    pub minimise: bool,
    /// How many lines of the history a failure shows. Default: 60.
    pub lines: usize,
    /// A fault in the client itself, to see whether it is found. Default: none.
    #[cfg(feature = "planted")]
    pub planted: Option<crate::Planted>,
}

impl Settings {
    /// These, and everything else at its default.
    pub fn new(clients: usize, span: Duration, profile: Profile) -> Self {
        Self { clients, span, profile, ..Self::default() }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clients: 20,
            span: Duration::from_secs(3600),
            profile: Profile::default(),
            minimise: true,
            lines: 60,
            #[cfg(feature = "planted")]
            planted: None,
        }
    }
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Totals.
    pub counts: Counts,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// A digest of everything that came out of every client.
    pub digest: u64,
}

/// A run in which something did not hold.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What did not hold.
    pub violation: Violation,
    /// The faults that are needed for it, as far as that was found out.
    pub faults: Vec<(Instant, Fault)>,
    /// How many faults the run had at first.
    pub faults_before: usize,
    /// The last that happened to the client, one line each.
    pub trace: Vec<String>,
}

/// Runs a seed and judges it.
///
/// # Errors
/// The first invariant that does not hold, with the faults that are needed for that and the last lines of the history.
pub fn simulate(seed: u64, settings: &Settings) -> Result<Summary, Box<Failure>> {
    let faults = Run::faults(seed, settings);
    let violation = match attempt(seed, settings, &faults, None, None) {
        Ok(summary) => return Ok(summary),
        Err(violation) => violation,
    };
    Err(Box::new(minimise(seed, settings, faults, violation)))
}

/// Runs a seed twice, the second time with polls and timeouts that nothing asks for and in random order.
///
/// # Errors
/// When the clients did not do the same both times, as `polling_changes_nothing`.
pub fn polling_changes_nothing(seed: u64, settings: &Settings, first: &Summary) -> Result<(), Box<Failure>> {
    let faults = Run::faults(seed, settings);
    let violation = match attempt(seed, settings, &faults, Some(seed), None) {
        Ok(second) if second.digest == first.digest => return Ok(()),
        Ok(_) => difference(seed, settings, &faults),
        Err(violation) => violation,
    };
    let faults_before = faults.len();
    Err(Box::new(Failure { seed, violation, faults, faults_before, trace: Vec::new() }))
}

/// The first thing that a client did otherwise when it was polled otherwise.
fn difference(seed: u64, settings: &Settings, faults: &[(Instant, Fault)]) -> Violation {
    let lines = |polls| {
        let mut run = Run::new(seed, settings, faults, polls, true);
        // Both runs are known to pass.
        let _ = run.run();
        let mut by_client: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for line in run.world.history().lines() {
            let Some((at, what)) = line.split_once(" client ") else { continue };
            let Some((client, what)) = what.split_once(' ') else { continue };
            let Ok(client) = client.parse() else { continue };
            let at = at.split(' ').next().unwrap_or_default();
            // Of one moment the order says nothing.
            by_client.entry(client).or_default().insert(format!("{at:>16} {what}"));
        }
        by_client
    };
    let (plain, other) = (lines(None), lines(Some(seed)));
    let differences = plain.iter().filter_map(|(client, lines)| {
        let others = other.get(client)?;
        let first = lines.symmetric_difference(others).next()?;
        let which = if lines.contains(first) { "only with plain polls" } else { "only with other polls" };
        Some((first.clone(), *client, which))
    });
    let (detail, client) = match differences.min() {
        Some((line, client, which)) => (format!("{which}: {}", line.trim()), client),
        None => ("with other polls the clients did something else".into(), 0),
    };
    let client = ClientId::new(client);
    Violation { invariant: "polling_changes_nothing", client, at: Instant::ZERO, detail }
}

/// One run, in which a panic is a violation too; to its end, or only until a time.
fn attempt(
    seed: u64,
    settings: &Settings,
    faults: &[(Instant, Fault)],
    polls: Option<u64>,
    until: Option<Instant>,
) -> Result<Summary, Violation> {
    let run = || {
        let mut run = Run::new(seed, settings, faults, polls, false);
        match until {
            Some(until) => run.run_to(until)?,
            None => run.run()?,
        }
        Ok(run.summary())
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        let detail = text.unwrap_or_else(|| "without a word".into());
        let client = ClientId::new(0);
        Err(Violation { invariant: "nothing_panics", client, at: Instant::ZERO, detail })
    })
}

/// Runs that are tried to find out which faults matter.
const TRIES: usize = 60;

/// Leaves out faults as long as the same invariant does not hold without them.
fn minimise(seed: u64, settings: &Settings, all: Vec<(Instant, Fault)>, first: Violation) -> Failure {
    let faults_before = all.len();
    let mut violation = first;
    let mut faults = all;
    // What breaks in the middle breaks there again, or a little later.
    let until = (violation.at > Instant::ZERO && violation.at < Instant::ZERO + settings.span)
        .then(|| violation.at + SETTLING);
    if until.is_some() {
        faults.retain(|(at, _)| *at <= violation.at);
    }
    let mut chunk = faults.len().div_ceil(2).max(1);
    let mut tries = 0;
    while settings.minimise && !faults.is_empty() && tries < TRIES {
        let mut start = 0;
        let mut shrunk = false;
        while start < faults.len() && tries < TRIES {
            let mut fewer = faults.clone();
            fewer.drain(start..(start + chunk).min(fewer.len()));
            tries += 1;
            match attempt(seed, settings, &fewer, None, until) {
                Err(again) if again.invariant == violation.invariant => {
                    (faults, violation, shrunk) = (fewer, again, true);
                }
                _ => start += chunk,
            }
        }
        if chunk == 1 && !shrunk {
            break;
        }
        chunk = (chunk / 2).max(1);
    }
    let trace = trace(seed, settings, &faults, &violation);
    Failure { seed, violation, faults, faults_before, trace }
}

/// The last lines about a client.
fn trace(seed: u64, settings: &Settings, faults: &[(Instant, Fault)], violation: &Violation) -> Vec<String> {
    let run = Rc::new(RefCell::new(Run::new(seed, settings, faults, None, true)));
    // A panic leaves the world where it was.
    let _ = catch_unwind(AssertUnwindSafe(|| run.borrow_mut().run()));
    let run = run.borrow();
    let about = format!("client {} ", violation.client);
    let lines = run.world.history().lines().rev().filter(|line| line.contains(&about)).take(settings.lines);
    let mut lines: Vec<String> = lines.map(String::from).collect();
    lines.reverse();
    lines
}

struct Run {
    world: World,
    invariants: Rc<RefCell<Invariants>>,
    expected: Vec<Expected>,
    settles: Instant,
    faults: BTreeMap<&'static str, u64>,
}

/// Lets the run see what the observer has counted.
struct Watched(Rc<RefCell<Invariants>>);

impl Observer for Watched {
    fn observe(&mut self, moment: &Moment<'_>, what: &Observation<'_>) -> Result<(), Violation> {
        self.0.borrow_mut().observe(moment, what)
    }
}

impl Run {
    fn faults(seed: u64, settings: &Settings) -> Vec<(Instant, Fault)> {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x000F_A017);
        settings.profile.faults(&mut rng, settings.clients, Instant::ZERO + settings.span)
    }

    fn new(
        seed: u64,
        settings: &Settings,
        faults: &[(Instant, Fault)],
        polls: Option<u64>,
        words: bool,
    ) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let clients = settings.clients;
        let wall_clock = Duration::from_millis(rng.u64(1_600_000_000_000..=1_700_000_000_000));
        let broker = BrokerConfig { wall_clock, seed: rng.u64(..), ..BrokerConfig::default() };
        let mut world = World::new(rng.u64(..), broker)
            .with_links(settings.profile.links())
            .with_tokens(move |revoked| tokens(clients, revoked));
        if !words {
            world = world.without_words();
        }
        if let Some(seed) = polls {
            world = world.with_random_polls(seed);
        }
        #[cfg(feature = "planted")]
        if let Some(planted) = settings.planted {
            world = world.with_planted(planted);
        }
        let settles = Instant::ZERO + settings.span;
        let times = Times { settles, ends: settles + SETTLING };
        let configs: Vec<Config> = (0..clients).map(config).collect();
        let mut expected = Vec::new();
        for (number, config) in configs.iter().enumerate() {
            let wanted: Rc<RefCell<Wanted>> = Rc::default();
            let issuer = is_renewed(number).then(|| Issuer {
                auth: tokens(clients, &BTreeSet::new()),
                actor: actor(number),
                wall_clock,
            });
            let manners = Manners { tracked: number % 10 != 9, burst: rng.u64(1..=30) };
            let chatter = Chatter::new(number, rng.u64(..), times, manners, issuer, wanted.clone());
            world.add_application(config.clone(), chatter);
            expected.push(Expected { actor: actor(number), group: number / ROOM, wanted });
        }
        let secrets = vec![SECRET.into(), SIGNED.into()];
        let invariants = Rc::new(RefCell::new(Invariants::new(configs, secrets)));
        if polls.is_none() {
            // With other polls an event can come after a message that it explains.
            world.watch(Watched(invariants.clone()));
        }
        let mut kinds = BTreeMap::new();
        for (at, fault) in faults {
            *kinds.entry(fault.kind()).or_default() += 1;
            world.plan(*at, fault.clone());
        }
        Self { world, invariants, expected, settles, faults: kinds }
    }

    fn summary(self) -> Summary {
        let counts = self.invariants.borrow().counts();
        Summary { counts, faults: self.faults, digest: self.world.digest() }
    }

    fn run(&mut self) -> Result<(), Violation> {
        self.run_to(self.settles + SETTLING)?;
        what_was_asked_for_stands(&self.world, &self.expected)?;
        for client in self.world.clients() {
            self.world.with(client, |client| client.disconnect(Disconnect::Drain(Duration::from_secs(60))));
        }
        self.run_to(self.settles + SETTLING + LEAVING)?;
        nothing_is_left_open(&self.world)
    }

    fn run_to(&mut self, end: Instant) -> Result<(), Violation> {
        self.world.run_for(end.saturating_since(self.world.now()));
        self.world.violation().cloned().map_or(Ok(()), Err)
    }
}

fn actor(number: usize) -> String {
    format!("sim-{number}")
}

/// Whether a client has its tokens from a provider.
fn is_renewed(number: usize) -> bool {
    number % 3 == 1
}

/// Clients differ in all policies.
fn config(number: usize) -> Config {
    let mut config = if is_renewed(number) {
        Config::with_token_provider()
    } else {
        Config::new(NewActor::new(&actor(number)).token())
    };
    config.retry_first_connect = true;
    config.client_id = number.is_multiple_of(4).then(|| format!("device-{number}"));
    if number.is_multiple_of(2) {
        config.resend = ResendPolicy::AtLeastOnce;
        config.offline = OfflinePolicy::Queue { max_messages: 10_000, max_bytes: 8 << 20, max_age: None };
        // Longer than it takes anybody to notice a dead link: a broker, to which nothing comes, a minute.
        config.operation_timeout = Duration::from_secs(120);
        config.reconnect.max_attempts = None;
    } else if number % 5 == 1 {
        let max_age = Some(Duration::from_secs(20));
        config.offline = OfflinePolicy::Queue { max_messages: 100, max_bytes: 64 << 10, max_age };
    }
    if number % 5 == 3 {
        config.limits.max_inbound_messages = 32;
    }
    if number % 10 == 9 {
        config.publish_rate = None;
    }
    config
}

fn tokens(clients: usize, revoked: &BTreeSet<ClientId>) -> AuthConfig {
    let none = AuthConfig::from_json(r#"{"tokens": {}}"#).expect("a file without tokens");
    (0..clients).filter(|number| !revoked.contains(&ClientId::new(*number))).fold(
        none.with_signing_key("sim-key", "sim-secret"),
        |auth, number| {
            let group = number / ROOM;
            let mut new = NewActor::new(&actor(number)).can_watch(&lobby(group));
            for name in ["chat", "tagged", "work"] {
                new = new.can_use(&topic(group, name));
            }
            for hall_number in 0..2 {
                new = new.can_use(&format!("sim/{}/any", hall(group, hall_number)));
            }
            auth.with_actor(new)
        },
    )
}
