//! A client inside a game loop: so many ticks per second, and none of them ever waits for the network.
//!
//! Each tick takes what the socket has, moves the game, publishes where the player is, and writes what the socket takes.
//! `ClientCore` decides when to connect, to try again and to give up; the game goes on meanwhile. Try it:
//!
//! ```text
//! cargo run -p nolag-cli -- dev                          # a broker, in another terminal
//! cargo run -p nolag-core --example embed_core_ticks     # takes a ws:// address and a token, if you have others
//! ```
//!
//! Start it twice, or without the broker.

#![allow(clippy::disallowed_methods, reason = "whoever embeds the core brings the clock and the randomness")]

#[path = "embed_core/connection.rs"]
mod connection;

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::RandomState},
    error::Error,
    hash::{BuildHasher, Hasher},
    io,
    net::TcpStream,
    process::ExitCode,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, channel},
    },
    thread,
    time::{self, Duration},
};

use connection::{Connection, Heard, host_and_port, not_opened};
use nolag_core::{
    Action, ClientCore, Config, Disconnect, Event, Instant, Outcome, Payload, Publish, Status, Subscribe,
    TransportId,
};
use tungstenite::{Error as WsError, HandshakeError, WebSocket};

const TOPIC: &str = "demo/general/positions";

/// Ticks from one published position to the next. Brokers take 50 messages per second from one connection.
const PUBLISH_EVERY: u32 = 3;

/// Positions under way at once. With more the network is behind, and the next position is worth more than this one.
const MAX_IN_FLIGHT: usize = 4;

/// What happened.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) ticks: u32,
    pub(crate) sessions: u64,
    pub(crate) failed_attempts: u32,
    pub(crate) acked: u64,
    /// Positions that may or may not have arrived, because the connection broke.
    pub(crate) lost: u64,
    pub(crate) received: u64,
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "ws://localhost:8080/ws".into());
    let token = args.next().unwrap_or_else(|| "dev-token-alice".into());
    match run(&url, &token, 600, Duration::from_secs(1) / 60, &AtomicBool::new(false)) {
        Ok(Summary { ticks, sessions, acked, lost, received, .. }) => {
            println!("left after {ticks} ticks and {sessions} connection(s)");
            println!("{acked} positions confirmed, {lost} lost, {received} received");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays for so many ticks, or until told to `quit`.
pub(crate) fn run(
    url: &str,
    token: &str,
    ticks: u32,
    tick: Duration,
    quit: &AtomicBool,
) -> Result<Summary, Box<dyn Error>> {
    // The core has no clock and no randomness of its own.
    let started = time::Instant::now();
    let clock = || Instant::ZERO + started.elapsed();
    let seed = RandomState::new().build_hasher().finish();
    let mut config = Config::new(token);
    // A game does without a connection until there is one.
    config.retry_first_connect = true;
    config.reconnect.max_attempts = None;
    let mut core = ClientCore::new(config, seed, clock())?;
    let host = host_and_port(url)?;
    let mut link = Link::None;

    let mut summary = Summary::default();
    let mut in_flight = BTreeSet::new();
    let mut others = BTreeMap::new();
    let (mut leaving, mut left) = (false, false);
    core.connect(clock())?;
    core.subscribe(clock(), Subscribe::new(TOPIC))?;
    for n in 0.. {
        // The one place that waits, and only for the clock. A late tick does not.
        thread::sleep((tick * n).saturating_sub(started.elapsed()));
        let now = clock();

        // 1. The core hears what happened since the last tick.
        if core.poll_timeout().is_some_and(|at| at <= now) {
            core.handle_timeout(now);
        }
        link.read(&mut core, now);

        // 2. The game hears about it.
        while let Some(event) = core.poll_event() {
            match event {
                Event::Connected { session, .. } => println!("tick {n}: connected as {}", session.actor_id),
                Event::Disconnected { cause, retry_in: Some(delay) } => {
                    println!("tick {n}: playing alone: {cause}; next attempt in {delay:.1?}");
                }
                Event::AttemptFailed { cause, retry_in: Some(delay), .. } => {
                    summary.failed_attempts += 1;
                    println!("tick {n}: playing alone: {cause}; next attempt in {delay:.1?}");
                }
                Event::GaveUp { cause } => return Err(cause.into()),
                Event::Done { outcome: Outcome::Disconnected, .. } => left = true,
                Event::Done { op, outcome } => match outcome.error() {
                    None => summary.acked += u64::from(in_flight.remove(&op)),
                    Some(_) if in_flight.remove(&op) => summary.lost += 1,
                    Some(error) if !leaving => return Err(error.into()),
                    Some(_) => {} // What had not been done yet.
                },
                _ => {}
            }
        }
        while let Some(message) = core.poll_message() {
            summary.received += 1;
            if let Ok(position) = message.payload().decode::<(f32, f32)>() {
                let who = message.sender().unwrap_or("somebody");
                others.insert(who.to_owned(), position);
            }
        }

        // 3. The game moves, and says so.
        if !leaving {
            summary.ticks += 1;
            let angle = n as f32 / 60.0;
            let position = (angle.cos(), angle.sin());
            let online = core.status() == Status::Connected;
            if online && n % PUBLISH_EVERY == 0 && in_flight.len() < MAX_IN_FLIGHT {
                // Ours comes back as well, where the broker does that. `echo = false` would spare it.
                let publish = Publish::new(TOPIC, Payload::encode(&position)?);
                in_flight.insert(core.publish(now, publish)?);
            }
            if n % 60 == 59 {
                println!("tick {n}: I am at {position:.2?}; heard of {others:.2?}");
            }
            if summary.ticks == ticks || quit.load(Ordering::Relaxed) {
                leaving = true;
                core.disconnect(now, Disconnect::Drain(Duration::from_secs(2)));
            }
        }

        // 4. The socket gets what the core has to send, and what it asks for.
        link.write(&mut core, now);
        while let Some(action) = core.poll_action() {
            match action {
                Action::OpenTransport { id } => link = Link::Opening(id, open(url.into(), host.clone())),
                Action::CloseTransport { id, code, reason } => link.close(id, code, reason),
                _ => {} // `NeedToken` is for those who have a provider of tokens.
            }
        }
        if left {
            break;
        }
    }
    summary.sessions = core.stats().sessions;
    Ok(summary)
}

type Opened = Result<WebSocket<Heard<TcpStream>>, WsError>;

/// What has become of the connection that the core asked for.
enum Link {
    None,
    Opening(TransportId, Receiver<Opened>),
    Open(Box<Connection<TcpStream>>),
}

impl Link {
    fn read(&mut self, core: &mut ClientCore, now: Instant) {
        match self {
            Self::None => {}
            Self::Opening(id, opening) => match opening.try_recv() {
                Ok(Ok(socket)) => *self = Self::Open(Connection::opened(*id, socket, core, now).into()),
                Ok(Err(error)) => {
                    not_opened(*id, &error, core, now);
                    *self = Self::None;
                }
                // Not yet. The core waits only so long.
                Err(_) => {}
            },
            Self::Open(connection) => _ = connection.read(core, now),
        }
    }

    fn write(&mut self, core: &mut ClientCore, now: Instant) {
        if let Self::Open(connection) = self {
            connection.write(core, now);
        }
    }

    fn close(&mut self, id: TransportId, code: u16, reason: &'static str) {
        match self {
            Self::Open(connection) => connection.close(id, code, reason),
            _ => *self = Self::None,
        }
    }
}

/// Opens a connection in a thread of its own, because looking up the name, connecting and upgrading all wait.
fn open(url: String, host: (String, u16)) -> Receiver<Opened> {
    let (sender, receiver) = channel();
    let connect = move || -> Opened {
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        // The core waits no longer than this.
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        match tungstenite::client(url, Heard::new(stream)) {
            Ok((socket, _)) => {
                socket.get_ref().stream.set_nonblocking(true)?;
                Ok(socket)
            }
            Err(HandshakeError::Interrupted(_)) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            Err(HandshakeError::Failure(error)) => Err(error),
        }
    };
    // If nobody waits for it any more, the connection is dropped.
    thread::spawn(move || _ = sender.send(connect()));
    receiver
}
