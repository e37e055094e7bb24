//! Calls that handlers make: none of them waits for itself.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use nolag::{Client, Emitted, HandlerId, Rejection, Status};
use nolag_broker::{BlockingTestBroker, Expected};
use tokio::sync::Barrier;

use super::{Case, case};
use crate::{
    adapter::Wait,
    world::{Log, TOPIC, Tell, World, channel},
};

pub(super) const CASES: &[Case] = &[
    case!(One, a_handler_may_wait_for_everything_that_it_asks),
    case!(One, a_handler_may_make_every_call_that_does_not_wait),
    case!(One, a_handler_may_remove_itself),
    case!(One, a_handler_may_close_the_client_and_wait_for_it),
    case!(One, a_handler_may_disconnect_and_connect_again),
    case!(One, a_handler_may_drop_the_last_client),
    case!(One, handlers_of_two_clients_may_drop_each_others_last_handle),
    case!(One, a_callback_may_publish_again),
];

/// Where calls go that handlers of `TOPIC` make.
const OTHER: &str = "demo/general/other";

/// A client whose handlers make calls, and another that sets them off.
struct Scene<'w> {
    w: &'w World,
    broker: BlockingTestBroker,
    client: Client,
    other: Client,
}

impl<'w> Scene<'w> {
    fn new(w: &'w World) -> Self {
        let broker = w.broker();
        let (client, other) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
        w.wait(client.subscribe(TOPIC)).unwrap();
        Self { w, broker, client, other }
    }

    /// Sets off the handlers of the topic.
    fn set_off(&self) {
        self.w.wait(self.other.emit(TOPIC, &1)).unwrap();
    }

    /// Makes a call from inside a handler, waits for it there as users of the adapter do, and tells the outcome.
    fn inside<W>(&self, make: impl Fn(&Client) -> W + Send + 'static) -> W::Output
    where
        W: Wait<IntoFuture: Send + 'static, Output: Send + 'static> + 'static,
    {
        let (tell, told) = channel();
        let weak = self.client.downgrade();
        let make = move || make(&weak.upgrade().expect("the case holds the client"));
        let handler = self.w.on_waiting(&self.client, TOPIC, make, tell);
        self.set_off();
        let outcome = self.w.receive(&told);
        self.client.off(handler);
        outcome
    }
}

fn a_handler_may_wait_for_everything_that_it_asks(w: &World) {
    let scene = Scene::new(w);
    assert_eq!(scene.inside(|client| client.emit(OTHER, &1)), Ok(Emitted::Acked));
    let many = scene.inside(|client| client.emit_many([client.emit(OTHER, &1), client.emit(OTHER, &2)]));
    assert_eq!(many, [Ok(Emitted::Acked), Ok(Emitted::Acked)]);
    scene.inside(|client| client.subscribe(OTHER).filters(["vip"])).unwrap();
    scene.inside(|client| client.set_filters(OTHER, ["top"])).unwrap();
    scene.inside(|client| client.subscribe(OTHER).messages()).unwrap();
    scene.inside(|client| client.unsubscribe(OTHER)).unwrap();
    scene.inside(|client| client.set_presence_in("general", &1)).unwrap();
    assert_eq!(scene.inside(|client| client.fetch_presence("general")).unwrap().len(), 1);
    scene.inside(|client| client.clear_presence()).unwrap();
    scene.inside(|client| client.app("demo").lobby("online").subscribe()).unwrap();
    scene.inside(|client| client.app("demo").lobby("online").fetch()).unwrap();
    scene.inside(|client| client.app("demo").lobby("online").unsubscribe()).unwrap();
    scene.inside(|client| client.flush());
    scene.inside(|client| client.connect()).unwrap();
    assert_eq!(scene.client.stats().core.sessions, 1);
}

fn a_handler_may_make_every_call_that_does_not_wait(w: &World) {
    let scene = Scene::new(w);
    let log = Log::default();
    let (weak, seen) = (scene.client.downgrade(), log.clone());
    scene.client.on(TOPIC, move |_| {
        let client = weak.upgrade().unwrap();
        client.emit(OTHER, &1).send().unwrap();
        let told = seen.clone();
        client.emit(OTHER, &1).callback(move |outcome| told.add(format!("{outcome:?}"))).unwrap();
        client.subscribe(OTHER).send().unwrap();
        client.unsubscribe(TOPIC).send().unwrap();
        client.off_all(TOPIC);
        client.on(OTHER, |_| ());
        drop((client.explain(), client.stats(), client.subscriptions(), client.watch_status()));
        seen.add(format!("{:?}", client.status()));
    });
    scene.set_off();
    w.heard(&log, "Connected");
    w.heard(&log, "Ok(Acked)");
    w.frames(&scene.broker, &Expected::to_client("subscribed").topic(OTHER), 1);
    w.frames(&scene.broker, &Expected::to_client("unsubscribed").topic(TOPIC), 1);
    w.frames(&scene.broker, &Expected::to_client("published").topic(OTHER), 2);
}

fn a_handler_may_remove_itself(w: &World) {
    let scene = Scene::new(w);
    let log = Log::default();
    let own: Arc<Mutex<Option<HandlerId>>> = Arc::default();
    let (weak, seen, id) = (scene.client.downgrade(), log.clone(), own.clone());
    *own.lock().unwrap() = Some(scene.client.on(TOPIC, move |_| {
        assert!(weak.upgrade().unwrap().off(id.lock().unwrap().unwrap()));
        seen.add("once");
    }));
    let seen = log.clone();
    scene.client.on_any(move |_| seen.add("any"));
    scene.set_off();
    scene.set_off();
    w.until("both arrive", || log.count("any") == 2);
    assert_eq!(log.entries(), ["once", "any", "any"]);
}

fn a_handler_may_close_the_client_and_wait_for_it(w: &World) {
    let scene = Scene::new(w);
    scene.inside(|client| client.close());
    assert_eq!(scene.client.status(), Status::Disconnected);
    w.connections(&scene.broker, 1);
    w.wait(scene.client.connect()).unwrap();
}

fn a_handler_may_disconnect_and_connect_again(w: &World) {
    let scene = Scene::new(w);
    let (tell, told) = channel();
    let weak = scene.client.downgrade();
    scene.client.on(TOPIC, move |_| {
        let client = weak.upgrade().unwrap();
        client.disconnect();
        tell.send(client.emit(OTHER, &1).send());
    });
    // The connection's own handlers may make calls, too.
    let (tell, left) = channel();
    let weak = scene.client.downgrade();
    scene.client.on_disconnect(move |_| tell.send(weak.upgrade().map(|client| client.status())));
    scene.set_off();
    let refused = w.receive(&told).unwrap_err();
    assert!(refused == Rejection::Closing.into() || refused == Rejection::NotConnected.into(), "{refused:?}");
    assert_eq!(w.receive(&left), Some(Status::Disconnected));
    w.connections(&scene.broker, 1);
    w.wait(scene.client.connect()).unwrap();
    assert_eq!(scene.client.stats().core.sessions, 2);
}

fn a_handler_may_drop_the_last_client(w: &World) {
    let Scene { broker, client, other, .. } = Scene::new(w);
    let weak = client.downgrade();
    let last = Arc::new(Mutex::new(None));
    let (own, witness) = (last.clone(), Arc::new(()));
    let held = witness.clone();
    client.on(TOPIC, move |_| {
        let _held = &held;
        drop(own.lock().unwrap().take());
    });
    *last.lock().unwrap() = Some(client);
    assert!(weak.upgrade().is_some());
    w.wait(other.emit(TOPIC, &1)).unwrap();
    w.connections(&broker, 1);
    assert!(weak.upgrade().is_none());
    w.until("the handler is gone", || Arc::strong_count(&witness) == 1);
}

fn handlers_of_two_clients_may_drop_each_others_last_handle(w: &World) {
    let broker = w.broker();
    let hour = Duration::from_secs(3600);
    let clients =
        ["alice", "carol"].map(|actor| w.connect_with(&broker, actor, |options| options.drain_timeout(hour)));
    let publisher = w.connect(&broker, "bob");
    let (tell, told) = channel();
    let both = Arc::new(Barrier::new(2));
    let last = clients.each_ref().map(|_| Arc::new(Mutex::new(None)));
    for (client, other) in clients.iter().zip(last.iter().rev()) {
        let (other, both, tell) = (other.clone(), both.clone(), tell.clone());
        client.on(TOPIC, move |_| {
            let (other, both, tell) = (other.clone(), both.clone(), tell.clone());
            async move {
                both.wait().await;
                let last: Option<Client> = other.lock().unwrap().take();
                drop(last);
                tell.send(());
            }
        });
        w.wait(client.subscribe(TOPIC)).unwrap();
    }
    for (client, own) in clients.into_iter().zip(&last) {
        *own.lock().unwrap() = Some(client);
    }
    w.wait(publisher.emit(TOPIC, &1)).unwrap();
    w.receive(&told);
    w.receive(&told);
    w.connections(&broker, 1);
}

fn a_callback_may_publish_again(w: &World) {
    /// Publishes so often, each from the callback of the one before.
    fn publish(client: &Client, left: u32, done: Tell<()>) {
        let again = client.downgrade();
        let callback = move |outcome| {
            assert_eq!(outcome, Ok(Emitted::Acked));
            match left {
                0 => done.send(()),
                _ => publish(&again.upgrade().unwrap(), left - 1, done),
            }
        };
        client.emit(OTHER, &left).callback(callback).unwrap();
    }
    let scene = Scene::new(w);
    let (tell, told) = channel();
    publish(&scene.client, 20, tell);
    w.receive(&told);
    assert_eq!(w.frames(&scene.broker, &Expected::from_client("publish"), 21).len(), 21);
}
