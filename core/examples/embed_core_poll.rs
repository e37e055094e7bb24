//! A client in a plain readiness loop: one thread, one non-blocking socket, no adapter, no async runtime.
//!
//! `ClientCore` decides everything, this file moves bytes: `mio` says when the socket is ready, `tungstenite` turns
//! bytes into WebSocket messages. The loop is in [`run`], the socket below it. Try it:
//!
//! ```text
//! cargo run -p nolag-cli -- dev                          # a broker, in another terminal
//! cargo run -p nolag-core --example embed_core_poll      # takes a ws:// address and a token, if you have others
//! ```
//!
//! Stop the broker meanwhile and start it again: every message still gets through.

#![allow(clippy::disallowed_methods, reason = "whoever embeds the core brings the clock and the randomness")]

#[path = "embed_core/connection.rs"]
mod connection;

use std::{
    collections::hash_map::RandomState,
    error::Error,
    hash::{BuildHasher, Hasher},
    io::ErrorKind,
    mem,
    net::{SocketAddr, ToSocketAddrs},
    process::ExitCode,
    time::{self, Duration},
};

use connection::{Connection, Heard, host_and_port, not_opened};
use mio::{Events, Interest, Poll, Token, net::TcpStream};
use nolag_core::{
    Action, ClientCore, Config, Disconnect, Event, Instant, OfflinePolicy, Outcome, Payload, Publish,
    ResendPolicy, Subscribe, TransportId,
};
use tungstenite::{
    ClientHandshake, Error as WsError, HandshakeError, client::IntoClientRequest, handshake::MidHandshake,
};

const TOPIC: &str = "demo/general/messages";

/// What happened.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) acked: u64,
    pub(crate) received: u64,
    pub(crate) sessions: u64,
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "ws://localhost:8080/ws".into());
    let token = args.next().unwrap_or_else(|| "dev-token-alice".into());
    let second = Duration::from_secs(1);
    match run(&url, &token, 10, second, second) {
        Ok(Summary { acked, received, sessions }) => {
            println!("left: {acked} messages confirmed, {received} came back, over {sessions} connection(s)");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Publishes so many messages, with a pause after the confirmation of each. Waits for `linger` in the end for what comes
/// back, because some brokers send nobody his own messages.
pub(crate) fn run(
    url: &str,
    token: &str,
    messages: u64,
    pause: Duration,
    linger: Duration,
) -> Result<Summary, Box<dyn Error>> {
    // The core has no clock and no randomness of its own.
    let started = time::Instant::now();
    let clock = || Instant::ZERO + started.elapsed();
    let seed = RandomState::new().build_hasher().finish();
    let mut config = Config::new(token);
    // What is published without a connection waits for one, and what was not confirmed is sent again.
    config.offline = OfflinePolicy::Queue { max_messages: 100, max_bytes: 1 << 20, max_age: None };
    config.resend = ResendPolicy::AtLeastOnce;
    let mut core = ClientCore::new(config, seed, clock())?;
    let mut socket = Socket::new(url)?;
    let mut ready = Events::with_capacity(8);

    let mut summary = Summary::default();
    let (mut in_flight, mut next, mut left) = (None, None, false);
    core.connect(clock())?;
    core.subscribe(clock(), Subscribe::new(TOPIC))?;
    while !left {
        // 1. The core hears what happened.
        let now = clock();
        if core.poll_timeout().is_some_and(|at| at <= now) {
            core.handle_timeout(now);
        }
        let mut busy = socket.read(&mut core, now);

        // 2. The application hears about it …
        while let Some(event) = core.poll_event() {
            busy = true;
            match event {
                Event::Connected { session, .. } => println!("connected as {}", session.actor_id),
                Event::Disconnected { cause, retry_in: Some(delay) }
                | Event::AttemptFailed { cause, retry_in: Some(delay), .. } => {
                    println!("not connected: {cause}; next attempt in {delay:.1?}");
                }
                Event::GaveUp { cause } => return Err(cause.into()),
                Event::Done { op, outcome } => match (outcome.error(), outcome) {
                    (Some(error), _) => return Err(error.into()),
                    (_, Outcome::Disconnected) => left = true,
                    (_, Outcome::Subscribed { .. }) => next = Some(now),
                    _ if in_flight == Some(op) => {
                        summary.acked += 1;
                        println!("message {} is confirmed", summary.acked);
                        in_flight = None;
                        let last = summary.acked == messages;
                        next = Some(now + if last { linger } else { pause });
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        while let Some(message) = core.poll_message() {
            busy = true;
            summary.received += 1;
            println!("{}: {}", message.topic(), message.payload().text().unwrap_or("(no text)"));
        }

        // 3. … and says what it wants: to publish one message after the other, and to leave when all came back.
        let published = summary.acked == messages;
        if next.is_some_and(|at| at <= now || (published && summary.received >= messages)) {
            (busy, next) = (true, None);
            if published {
                core.disconnect(now, Disconnect::Drain(Duration::from_secs(5)));
            } else {
                let text = Payload::encode(&format!("message {}", summary.acked + 1))?;
                in_flight = Some(core.publish(now, Publish::new(TOPIC, text))?);
            }
        }

        // 4. The socket gets what the core has to send, and what it asks for.
        busy |= socket.write(&mut core, now);
        while let Some(action) = core.poll_action() {
            busy = true;
            match action {
                Action::OpenTransport { id } => socket.open(id, &mut core, now),
                Action::CloseTransport { id, code, reason } => socket.close(id, code, reason),
                _ => {} // `NeedToken` is for those who have a provider of tokens.
            }
        }

        // 5. Wait for the socket and the clock, but not while one step may have made work for another.
        let wake_up = core.poll_timeout().into_iter().chain(next).min();
        let wait = wake_up.map(|at| at.saturating_since(clock()));
        match socket.poll.poll(&mut ready, if busy { Some(Duration::ZERO) } else { wait }) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
    }
    summary.sessions = core.stats().sessions;
    Ok(summary)
}

/// The socket, and what has become of the connection that the core asked for.
struct Socket {
    poll: Poll,
    url: String,
    address: SocketAddr,
    link: Link,
}

enum Link {
    None,
    Connecting(TransportId, TcpStream),
    Upgrading(TransportId, MidHandshake<ClientHandshake<Heard<TcpStream>>>),
    Open(Connection<TcpStream>),
}

impl Socket {
    fn new(url: &str) -> Result<Self, Box<dyn Error>> {
        // Blocks, once. One of the addresses will do here; brokers for development listen on IPv4.
        let addresses = host_and_port(url)?.to_socket_addrs()?;
        let address = addresses.min_by_key(SocketAddr::is_ipv6).ok_or("the host has no address")?;
        Ok(Self { poll: Poll::new()?, url: url.into(), address, link: Link::None })
    }

    fn open(&mut self, id: TransportId, core: &mut ClientCore, now: Instant) {
        let connecting = TcpStream::connect(self.address).and_then(|mut stream| {
            let interests = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, Token(0), interests)?;
            Ok(stream)
        });
        match connecting {
            Ok(stream) => self.link = Link::Connecting(id, stream),
            Err(error) => not_opened(id, &error.into(), core, now),
        }
    }

    fn close(&mut self, id: TransportId, code: u16, reason: &'static str) {
        match &mut self.link {
            Link::Open(connection) => connection.close(id, code, reason),
            // The core never has two at a time.
            _ => self.link = Link::None,
        }
    }

    /// Reads, or goes on with opening. Returns whether anything came of it.
    fn read(&mut self, core: &mut ClientCore, now: Instant) -> bool {
        let link = mem::replace(&mut self.link, Link::None);
        let id = match link {
            Link::None => return false,
            Link::Connecting(id, _) | Link::Upgrading(id, _) => id,
            Link::Open(mut connection) => {
                let busy = connection.read(core, now);
                self.link = Link::Open(connection);
                return busy;
            }
        };
        match self.open_further(link, core, now) {
            Ok(link) => self.link = link,
            Err(error) => not_opened(id, &error, core, now),
        }
        !matches!(self.link, Link::Connecting(..) | Link::Upgrading(..))
    }

    fn open_further(&self, link: Link, core: &mut ClientCore, now: Instant) -> Result<Link, WsError> {
        match link {
            Link::Connecting(id, stream) => {
                match stream.take_error()?.map_or_else(|| stream.peer_addr(), Err) {
                    Err(error) if error.kind() == ErrorKind::NotConnected => Ok(Link::Connecting(id, stream)),
                    Err(error) => Err(error.into()),
                    Ok(_) => {
                        stream.set_nodelay(true)?;
                        let request = self.url.as_str().into_client_request()?;
                        let upgrade = ClientHandshake::start(Heard::new(stream), request, None)?;
                        self.open_further(Link::Upgrading(id, upgrade), core, now)
                    }
                }
            }
            Link::Upgrading(id, upgrade) => match upgrade.handshake() {
                Ok((socket, _)) => Ok(Link::Open(Connection::opened(id, socket, core, now))),
                Err(HandshakeError::Interrupted(upgrade)) => Ok(Link::Upgrading(id, upgrade)),
                Err(HandshakeError::Failure(error)) => Err(error),
            },
            link => Ok(link),
        }
    }

    fn write(&mut self, core: &mut ClientCore, now: Instant) -> bool {
        match &mut self.link {
            Link::Open(connection) => connection.write(core, now),
            _ => false,
        }
    }
}
