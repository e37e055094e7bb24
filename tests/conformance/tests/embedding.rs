//! The examples that embed the core in loops of their own, against every broker.

#![allow(clippy::duplicate_mod, reason = "each example is a program of its own and has all of its parts")]

#[allow(dead_code, reason = "the examples use all of it")]
#[path = "../../../core/examples/embed_core/connection.rs"]
mod connection;
#[allow(dead_code, reason = "its `main` is for people")]
#[path = "../../../core/examples/embed_core_poll.rs"]
mod poll;
#[allow(dead_code, reason = "its `main` is for people")]
#[path = "../../../core/examples/embed_core_ticks.rs"]
mod ticks;

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    io::{self, ErrorKind, Read, Write},
    net::TcpListener,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant as SystemInstant},
};

use bytes::BytesMut;
use connection::{Connection, Heard};
use nolag_broker::{BlockingTestBroker, ConnectionId, Expected, Fault, Profile, TestBroker};
use nolag_core::{
    Action, ClientCore, Config, Error, Event, Instant, Status, TransportErrorKind,
    wire::{AuthReply, ClientFrame, ServerFrame, Text},
};
use tungstenite::{
    Error as WsError, Message, WebSocket,
    protocol::{CloseFrame, Role},
};

/// Longer than anything here takes, so that a failure is a failure and not a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ticks of a game so fast that it publishes 33 times per second.
const TICK: Duration = Duration::from_millis(10);

/// An example that runs in a thread of its own.
struct Running<T>(Receiver<Result<T, String>>);

fn start<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, Box<dyn std::error::Error>> + Send + 'static,
) -> Running<T> {
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(run().map_err(|error| error.to_string())));
    Running(receiver)
}

impl<T> Running<T> {
    fn end(self) -> T {
        self.0.recv_timeout(PATIENCE).expect("it ends").expect("it ends well")
    }
}

fn broker(profile: Profile) -> BlockingTestBroker {
    BlockingTestBroker::start_with(TestBroker::builder().profile(profile))
}

/// Whether a client receives what it publishes itself.
fn echoes(profile: Profile) -> bool {
    !profile.rules().hides_own_messages
}

/// How many such frames there were on each connection, oldest first.
fn frames(broker: &BlockingTestBroker, expected: &Expected) -> Vec<u64> {
    let mut counts: BTreeMap<ConnectionId, u64> = BTreeMap::new();
    for frame in broker.block_on(broker.recorder().matching(expected)) {
        *counts.entry(frame.conn).or_default() += 1;
    }
    counts.into_values().collect()
}

#[track_caller]
fn wait_until(condition: impl Fn() -> bool) {
    let started = SystemInstant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "it does not come true");
        thread::sleep(Duration::from_millis(5));
    }
}

fn talk(broker: &BlockingTestBroker, messages: u64, linger: Duration) -> Running<poll::Summary> {
    let (url, token) = (broker.url(), broker.token("alice"));
    start(move || poll::run(&url, &token, messages, Duration::from_millis(1), linger))
}

#[test]
fn the_readiness_loop_gets_everything_through_with_every_broker() {
    for profile in Profile::ALL {
        let broker = broker(profile);
        let linger = if echoes(profile) { PATIENCE } else { Duration::ZERO };
        let summary = talk(&broker, 20, linger).end();
        let received = if echoes(profile) { 20 } else { 0 };
        assert_eq!((summary.acked, summary.received, summary.sessions), (20, received, 1), "{profile:?}");
        assert_eq!(frames(&broker, &Expected::from_client("publish")), [20], "{profile:?}");
        wait_until(|| broker.block_on(broker.connections()).is_empty());
    }
}

#[test]
fn the_readiness_loop_gets_everything_through_although_it_is_cut_off() {
    for profile in Profile::ALL {
        let broker = broker(profile);
        // It waits for the confirmation of the fifth message, which does not come over this connection.
        broker.block_on(broker.fault(Fault::drop().on("publish").nth(5)));
        let talk = talk(&broker, 10, Duration::ZERO);
        let five = Expected::from_client("publish").times(5).within(PATIENCE);
        broker.block_on(broker.recorder().expect(five));
        broker.block_on(broker.cut_all());

        let summary = talk.end();
        assert_eq!((summary.acked, summary.sessions), (10, 2), "{profile:?}");
        assert_eq!(frames(&broker, &Expected::from_client("publish")), [5, 6], "{profile:?}");
        // What follows a confirmation before the next one has been read by then.
        let received = if echoes(profile) { 8..=10 } else { 0..=0 };
        assert!(received.contains(&summary.received), "{profile:?}: {summary:?}");
        wait_until(|| broker.block_on(broker.connections()).is_empty());
    }
}

#[test]
fn the_readiness_loop_says_why_it_cannot_connect() {
    let broker = BlockingTestBroker::start();
    broker.block_on(broker.fault(Fault::refuse("access_denied").on("auth")));
    let (url, token) = (broker.url(), broker.token("alice"));
    let refused = start(move || {
        let error = poll::run(&url, &token, 1, Duration::ZERO, Duration::ZERO).expect_err("no connection");
        Ok(error.to_string())
    });
    assert_eq!(refused.end(), "connect refused: access_denied");

    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = start(move || {
        let url = format!("ws://{nobody}/ws");
        let error = poll::run(&url, "token", 1, Duration::ZERO, Duration::ZERO).expect_err("no connection");
        Ok(error.to_string())
    });
    assert!(refused.end().starts_with("cannot connect: "));
}

#[test]
fn addresses_without_tls_are_understood_and_others_refused() {
    let host = |url: &str| connection::host_and_port(url).map_err(|_| ());
    assert_eq!(host("ws://localhost:8080/ws"), Ok(("localhost".into(), 8080)));
    assert_eq!(host("ws://[::1]/ws"), Ok(("::1".into(), 80)));
    for url in ["wss://localhost/ws", "http://localhost/ws", "localhost:8080", "localhost", ""] {
        assert_eq!(host(url), Err(()), "{url}");
    }
}

/// A game, and what ends it.
fn play(broker: &BlockingTestBroker) -> (Running<ticks::Summary>, Arc<AtomicBool>) {
    let quit = Arc::new(AtomicBool::new(false));
    let (url, token, quit_too) = (broker.url(), broker.token("alice"), quit.clone());
    (start(move || ticks::run(&url, &token, u32::MAX, TICK, &quit_too)), quit)
}

#[test]
fn the_game_loop_gets_every_position_through_with_every_broker() {
    for profile in Profile::ALL {
        let broker = broker(profile);
        let (game, quit) = play(&broker);
        let published = Expected::to_client("published");
        wait_until(|| frames(&broker, &published).iter().sum::<u64>() >= 5);
        quit.store(true, Ordering::Relaxed);

        let summary = game.end();
        let positions = frames(&broker, &Expected::from_client("publish"))[0];
        assert_eq!((summary.acked, summary.lost, summary.sessions), (positions, 0, 1), "{profile:?}");
        assert_eq!(summary.failed_attempts, 0, "{profile:?}");
        // It leaves with the last confirmation, which what comes back follows.
        let received = if echoes(profile) { positions - 1..=positions } else { 0..=0 };
        assert!(received.contains(&summary.received), "{profile:?}: {summary:?}");
        wait_until(|| broker.block_on(broker.connections()).is_empty());
    }
}

#[test]
fn the_game_loop_goes_on_although_it_is_cut_off() {
    for profile in Profile::ALL {
        let broker = broker(profile);
        let (game, quit) = play(&broker);
        let published = Expected::to_client("published");
        wait_until(|| frames(&broker, &published).iter().sum::<u64>() >= 3);
        broker.block_on(broker.cut_all());
        wait_until(|| frames(&broker, &published).get(1) >= Some(&3));
        quit.store(true, Ordering::Relaxed);

        let summary = game.end();
        let replies = frames(&broker, &published);
        assert_eq!(summary.sessions, 2, "{profile:?}");
        assert!((replies[1]..=replies[0] + replies[1]).contains(&summary.acked), "{replies:?} {summary:?}");
        let sent: u64 = frames(&broker, &Expected::from_client("publish")).iter().sum();
        assert!(summary.acked + summary.lost >= sent, "{sent} {summary:?}");
        assert_eq!(summary.received > 0, echoes(profile), "{profile:?}: {summary:?}");
        wait_until(|| broker.block_on(broker.connections()).is_empty());
    }
}

#[test]
fn the_game_loop_makes_all_its_ticks_while_the_upgrade_is_not_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    let game =
        start(move || ticks::run(&url, "token", 500, Duration::from_millis(1), &AtomicBool::new(false)));
    let (mut silent, _) = listener.accept().unwrap();
    let mut request = [0; 3];
    silent.read_exact(&mut request).unwrap();
    assert_eq!(&request, b"GET");

    let summary = game.end();
    // A loop that waits for the answer does so until the attempt fails.
    assert_eq!((summary.ticks, summary.failed_attempts, summary.sessions), (500, 0, 0));
    drop(silent);
}

#[test]
fn the_game_loop_makes_all_its_ticks_while_the_broker_says_nothing() {
    let broker = BlockingTestBroker::start();
    broker.block_on(broker.fault(Fault::silence().on_open()));
    let (url, token) = (broker.url(), broker.token("alice"));
    let game =
        start(move || ticks::run(&url, &token, 500, Duration::from_millis(1), &AtomicBool::new(false)));
    let summary = game.end();
    assert_eq!((summary.ticks, summary.failed_attempts, summary.sessions), (500, 0, 0));
}

/// A socket that gives and takes only so much.
#[derive(Clone, Default)]
struct Narrow(Rc<RefCell<Ends>>);

#[derive(Default)]
struct Ends {
    /// What can be read.
    inbound: VecDeque<u8>,
    /// How many bytes can be written.
    room: usize,
    /// Nothing can be written any more.
    broken: bool,
    written: Vec<u8>,
}

impl Read for Narrow {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.borrow_mut().inbound.read(into)? {
            0 => Err(ErrorKind::WouldBlock.into()),
            len => Ok(len),
        }
    }
}

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut ends = self.0.borrow_mut();
        if ends.broken {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let len = bytes.len().min(ends.room);
        ends.room -= len;
        ends.written.extend_from_slice(&bytes[..len]);
        if len == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(len) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A core that connects over a narrow socket.
fn narrow_connection() -> (ClientCore, Connection<Narrow>, Narrow) {
    let mut core = ClientCore::new(Config::new("dev-token-alice"), 1, Instant::ZERO).unwrap();
    core.connect(Instant::ZERO).unwrap();
    let Some(Action::OpenTransport { id }) = core.poll_action() else { panic!("no transport is wanted") };
    let narrow = Narrow::default();
    let socket = WebSocket::from_raw_socket(Heard::new(narrow.clone()), Role::Client, None);
    let connection = Connection::opened(id, socket, &mut core, Instant::ZERO);
    (core, connection, narrow)
}

#[test]
fn what_a_socket_does_not_take_is_kept_and_no_more_is_fetched_meanwhile() {
    let (mut core, mut connection, narrow) = narrow_connection();
    assert!(connection.write(&mut core, Instant::ZERO), "a frame was fetched");
    for _ in 0..1_000 {
        narrow.0.borrow_mut().room = 1;
        assert!(!connection.write(&mut core, Instant::ZERO), "and no other");
    }
    assert_eq!(core.stats().frames_sent, 1);

    let written = narrow.0.borrow().written.clone();
    let mut broker = WebSocket::from_partially_read(Narrow::default(), written, Role::Server, None);
    let Message::Binary(frame) = broker.read().unwrap() else { panic!("no binary message") };
    assert!(matches!(ClientFrame::decode(&frame), Ok(ClientFrame::Auth(_))), "the frame is whole");
    assert!(matches!(broker.read(), Err(WsError::Io(error)) if error.kind() == ErrorKind::WouldBlock));
}

/// A broker's WebSocket message in bytes.
fn on_the_wire(message: Message) -> Vec<u8> {
    let wire = Narrow::default();
    wire.0.borrow_mut().room = usize::MAX;
    WebSocket::from_raw_socket(wire.clone(), Role::Server, None).send(message).unwrap();
    wire.0.take().written
}

#[test]
fn what_the_broker_said_in_leaving_counts_more_than_that_nothing_can_be_written() {
    let (mut core, mut connection, narrow) = narrow_connection();
    narrow.0.borrow_mut().broken = true;
    let goodbye = CloseFrame { code: 4001.into(), reason: "token_revoked".into() };
    narrow.0.borrow_mut().inbound.extend(on_the_wire(Message::Close(Some(goodbye))));
    assert!(connection.write(&mut core, Instant::ZERO));
    let Some(Event::AttemptFailed { cause: Error::Transport(cause), .. }) = core.poll_event() else {
        panic!()
    };
    assert_eq!((cause.kind, &*cause.detail), (TransportErrorKind::Closed(Some(4001)), "token_revoked"));

    let (mut core, mut connection, narrow) = narrow_connection();
    narrow.0.borrow_mut().broken = true;
    assert!(connection.write(&mut core, Instant::ZERO));
    let Some(Event::AttemptFailed { cause: Error::Transport(cause), .. }) = core.poll_event() else {
        panic!()
    };
    assert_eq!(cause.kind, TransportErrorKind::Io);
    assert_eq!(core.stats().stale_transport_events, 0);
}

#[test]
fn part_of_a_message_shows_that_the_broker_is_alive() {
    let (mut core, mut connection, narrow) = narrow_connection();
    let message = |frame: ServerFrame<'_>| {
        let mut out = BytesMut::new();
        frame.encode(&mut out);
        on_the_wire(out.freeze().into())
    };
    narrow.0.borrow_mut().room = usize::MAX;
    assert!(core.poll_transmit(Instant::ZERO, &mut BytesMut::new()).is_some(), "auth leaves");
    narrow
        .0
        .borrow_mut()
        .inbound
        .extend(message(ServerFrame::Auth(AuthReply { success: true, ..AuthReply::default() })));
    assert!(connection.read(&mut core, Instant::ZERO));
    assert_eq!(core.status(), Status::Connected);

    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    core.handle_timeout(at(30));
    assert_eq!(core.poll_timeout(), Some(at(40)), "the heartbeat is to be answered");
    assert!(!connection.read(&mut core, at(35)), "nothing came");
    assert_eq!(core.poll_timeout(), Some(at(40)));

    let large = message(ServerFrame::Unsubscribed { topic: Text::Str(&"x".repeat(1_000)) });
    let (first, rest) = large.split_at(500);
    narrow.0.borrow_mut().inbound.extend(first);
    assert!(!connection.read(&mut core, at(39)), "no message yet");
    assert_eq!((core.poll_timeout(), core.stats().frames_received), (Some(at(60)), 1));
    narrow.0.borrow_mut().inbound.extend(rest);
    assert!(connection.read(&mut core, at(45)));
    assert_eq!(core.stats().frames_received, 2);
}
