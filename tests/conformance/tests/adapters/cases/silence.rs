//! A broker that does not answer: each operation ends by itself, and the others go on.

use std::time::Duration;

use nolag::{Client, EmitError, Emitted, Error, ErrorEvent, Op, Options, ProtocolError};
use nolag_broker::{BlockingTestBroker, Expected, Fault};

use super::{Case, case};
use crate::world::{Log, TOPIC, World, channel};

pub(super) const CASES: &[Case] = &[
    case!(One, each_unanswered_operation_ends_by_itself, slow),
    case!(One, an_unanswered_token_ends_the_attempt),
    case!(One, what_nobody_waits_for_is_an_error_event),
    case!(One, an_answer_that_comes_too_late_belongs_to_nobody_else),
];

const PATIENCE: Duration = Duration::from_millis(500);

fn impatient(options: Options) -> Options {
    options.operation_timeout(PATIENCE)
}

/// Which operation had no answer.
#[track_caller]
fn unanswered<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Op {
    match outcome {
        Err(Error::Protocol(ProtocolError::Timeout { op, after })) => {
            assert_eq!(after, PATIENCE);
            op
        }
        other => panic!("no timeout: {other:?}"),
    }
}

fn each_unanswered_operation_ends_by_itself(w: &World) {
    let broker = w.broker();
    let client = w.connect_with(&broker, "alice", impatient);
    let room = client.app("demo").room("general");
    let lobby = client.app("demo").lobby("online");
    w.wait(client.subscribe(TOPIC).filters(["vip"])).unwrap();
    let silent = |frame_type| Silence::about(&broker, frame_type);

    let publish = silent("publish");
    let emitted = w.wait(client.emit(TOPIC, &1)).unwrap_err();
    let EmitError::Unknown(error) = emitted else { panic!("{emitted:?}") };
    assert_eq!(unanswered::<()>(Err(error)), Op::Publish);
    // Everything else is answered meanwhile.
    assert!(w.wait(room.fetch_presence()).unwrap().is_empty());
    drop(publish);

    let others = [
        ("subscribe", Op::Subscribe),
        ("unsubscribe", Op::Unsubscribe),
        ("setFilters", Op::SetFilters),
        ("presence", Op::SetPresence),
        ("getPresence", Op::FetchPresence),
        ("lobbySubscribe", Op::LobbySubscribe),
        ("lobbyUnsubscribe", Op::LobbyUnsubscribe),
        ("getLobbyPresence", Op::FetchLobby),
    ];
    for (frame_type, op) in others {
        if op == Op::LobbyUnsubscribe {
            w.wait(lobby.subscribe()).unwrap();
        }
        let silence = silent(frame_type);
        let ended = match op {
            Op::Subscribe => unanswered(w.wait(client.subscribe("demo/general/other"))),
            Op::Unsubscribe => unanswered(w.wait(client.unsubscribe("demo/general/other"))),
            Op::SetFilters => unanswered(w.wait(room.set_filters("messages", ["top"]))),
            Op::SetPresence => unanswered(w.wait(room.set_presence("here"))),
            Op::FetchPresence => unanswered(w.wait(room.fetch_presence())),
            Op::LobbySubscribe => unanswered(w.wait(lobby.subscribe())),
            Op::LobbyUnsubscribe => unanswered(w.wait(lobby.unsubscribe())),
            _ => unanswered(w.wait(lobby.fetch())),
        };
        assert_eq!(ended, op);
        // Publishing goes on.
        assert_eq!(w.wait(client.emit(TOPIC, &1)), Ok(Emitted::Acked));
        drop(silence);
    }
    // All of that on one connection, which now works as ever.
    let mut messages = w.wait(client.subscribe("demo/general/other").messages()).unwrap();
    let bob = w.connect(&broker, "bob");
    w.wait(bob.emit("demo/general/other", "hello")).unwrap();
    assert_eq!(w.message(&mut messages).payload().text(), Some("hello"));
    assert_eq!(client.stats().core.sessions, 1);
}

/// Frames of one type are lost on their way to the broker while this lives.
struct Silence<'b> {
    broker: &'b BlockingTestBroker,
    fault: nolag_broker::FaultId,
}

impl<'b> Silence<'b> {
    fn about(broker: &'b BlockingTestBroker, frame_type: &str) -> Self {
        let fault = broker.block_on(broker.fault(Fault::drop().on(frame_type)));
        Self { broker, fault }
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        self.broker.block_on(self.broker.remove_fault(self.fault));
    }
}

fn an_unanswered_token_ends_the_attempt(w: &World) {
    let broker = w.broker_with(|broker| broker.fault(Fault::drop().on("auth").times(1)));
    let client = Client::new(broker.token("alice"), impatient(w.options(&broker.url())));
    assert_eq!(unanswered(w.wait(client.connect())), Op::Connect);
    w.connections(&broker, 0);
    w.wait(client.connect()).unwrap();
}

fn what_nobody_waits_for_is_an_error_event(w: &World) {
    let broker = w.broker();
    let client = w.connect_with(&broker, "alice", impatient);
    let (tell, told) = channel();
    client.on_error(move |event| tell.send(event));
    let _silence = Silence::about(&broker, "publish");
    client.emit(TOPIC, &1).send().unwrap();
    let event = w.receive(&told);
    let ErrorEvent::Operation { op: Op::Publish, error, .. } = &event else { panic!("{event}") };
    assert_eq!(unanswered::<()>(Err(error.clone())), Op::Publish);
    assert_eq!(event.topic(), Some(TOPIC));
}

fn an_answer_that_comes_too_late_belongs_to_nobody_else(w: &World) {
    let broker = w.broker();
    let client = w.connect_with(&broker, "alice", impatient);
    let log = Log::default();
    let seen = log.clone();
    client.on_error(move |error| seen.add(error.to_string()));
    let held = broker.block_on(broker.fault(Fault::hold().on("subscribe").times(1)));
    assert_eq!(unanswered(w.wait(client.subscribe(TOPIC))), Op::Subscribe);
    // Nobody wants it any more, so it is taken back.
    w.frames(&broker, &Expected::from_client("unsubscribe").topic(TOPIC), 1);
    broker.block_on(broker.remove_fault(held));
    w.wait(client.subscribe(TOPIC)).unwrap();
    w.wait(client.emit(TOPIC, &1)).unwrap();
    assert_eq!(client.subscriptions().len(), 1);
    assert!(log.entries().is_empty(), "{:?}", log.entries());
}
