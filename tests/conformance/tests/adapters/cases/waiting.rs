//! Waiting on a thread, which all adapters allow.

use std::{thread, time::Duration};

use nolag::{EmitError, Emitted, Error, Rejection, Status};
use nolag_broker::{Expected, Fault};

use super::{Case, case};
use crate::{
    adapter::PATIENCE,
    world::{TOPIC, World, channel},
};

pub(super) const CASES: &[Case] = &[
    case!(One, a_thread_may_wait_beside_whatever_the_client_runs_on),
    case!(One, waiting_for_too_long_is_as_dropping_a_future),
    case!(One, of_many_messages_those_with_an_outcome_are_told),
];

/// So long that it is over.
const SHORT: Duration = Duration::from_millis(50);

fn a_thread_may_wait_beside_whatever_the_client_runs_on(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let (tell, told) = channel();
    let thread = thread::spawn(move || {
        let mut watch = alice.watch_status();
        assert_eq!(watch.iter().next(), Some(Status::Connected));
        let mut messages = alice.subscribe(TOPIC).messages().wait(PATIENCE).unwrap();
        assert_eq!(bob.emit(TOPIC, "hello").wait(PATIENCE), Ok(Emitted::Acked));
        assert_eq!(bob.emit_many([bob.emit(TOPIC, "one"), bob.emit(TOPIC, "two")]).wait(PATIENCE).len(), 2);
        bob.flush().wait(PATIENCE).unwrap();
        assert_eq!(alice.fetch_presence("general").wait(PATIENCE).unwrap().len(), 0);
        let first = messages.next().wait(PATIENCE).unwrap().unwrap();
        let others: Vec<String> = messages.iter().take(2).map(|message| message.data().unwrap()).collect();
        assert_eq!((first.payload().text(), &*others[0], &*others[1]), (Some("hello"), "one", "two"));
        alice.close().wait(PATIENCE).unwrap();
        assert!(watch.wait_for(Status::Disconnected).wait(PATIENCE).unwrap());
        tell.send(messages.iter().count());
    });
    assert_eq!(w.receive(&told), 0, "the stream has ended");
    thread.join().unwrap();
}

fn waiting_for_too_long_is_as_dropping_a_future(w: &World) {
    let broker = w.broker();
    let client = w.connect(&broker, "alice");
    let (tell, told) = channel();
    for frame_type in ["publish", "subscribe", "getPresence"] {
        broker.block_on(broker.fault(Fault::drop().on(frame_type).times(1)));
    }
    let own = client.clone();
    let thread = thread::spawn(move || {
        let abandoned = Error::Rejected(Rejection::Abandoned);
        let outcome = own.emit(TOPIC, &1).wait(SHORT);
        assert_eq!(outcome, Err(EmitError::Unknown(abandoned.clone())));
        assert_eq!(own.fetch_presence("general").wait(SHORT), Err(abandoned.clone()));
        assert_eq!(own.subscribe(TOPIC).wait(SHORT), Err(abandoned.clone()));
        let mut quiet = own.subscribe("demo/general/quiet").messages().wait(PATIENCE).unwrap();
        assert!(matches!(quiet.next().wait(SHORT), Err(error) if error == abandoned));
        tell.send(());
    });
    w.receive(&told);
    thread.join().unwrap();
    // A subscription that nobody waits for any more is taken back; the client is well.
    w.frames(&broker, &Expected::from_client("unsubscribe").topic(TOPIC), 1);
    w.wait(client.subscribe(TOPIC)).unwrap();
    w.wait(client.emit(TOPIC, &1)).unwrap();
}

fn of_many_messages_those_with_an_outcome_are_told(w: &World) {
    let broker = w.broker();
    let client = w.connect(&broker, "alice");
    let (tell, told) = channel();
    broker.block_on(broker.fault(Fault::drop().on("publish").times(1)));
    let own = client.clone();
    let thread = thread::spawn(move || {
        let many = own.emit_many([1, 2, 3].map(|n| own.emit(TOPIC, &n)));
        // Long enough for those that are answered, and too short for the one that is not.
        tell.send(many.wait(Duration::from_secs(3)));
    });
    let outcomes = w.receive(&told);
    thread.join().unwrap();
    let unknown = EmitError::Unknown(Error::Rejected(Rejection::Abandoned));
    assert_eq!(outcomes, [Err(unknown), Ok(Emitted::Acked), Ok(Emitted::Acked)]);
}
