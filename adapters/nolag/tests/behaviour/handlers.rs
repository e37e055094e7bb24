//! Functions that the client calls.

use std::sync::{Arc, Mutex};

use nolag::{Client, HandlerId};
use tokio::sync::Semaphore;

use crate::{
    Log, is_pending, options,
    server::{Peer, ScriptedServer},
    soon,
};

const TOPIC: &str = "demo/general/messages";

async fn connected(client: impl FnOnce(&str) -> Client) -> (ScriptedServer, Client, Peer) {
    let server = ScriptedServer::start().await;
    let client = client(&server.url());
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    (server, client, peer)
}

fn client(url: &str) -> Client {
    Client::new("token", options(url))
}

async fn subscribed(client: &Client, peer: &mut Peer) {
    let (subscribed, _) = tokio::join!(soon(client.subscribe(TOPIC)), peer.confirm_subscribe());
    subscribed.unwrap();
}

#[tokio::test]
async fn handlers_may_exist_before_the_connection_and_need_not_be_async() {
    let log = Log::default();
    let (_server, client, mut peer) = connected(|url| {
        let client = client(url);
        let room = client.app("demo").room("general");
        let seen = log.clone();
        room.on("messages", move |message| seen.add(format!("sync {}", message.data::<u32>().unwrap())));
        let seen = log.clone();
        room.on("messages", move |message| {
            let seen = seen.clone();
            async move {
                tokio::task::yield_now().await;
                seen.add(format!("async {}", message.data::<u32>().unwrap()));
            }
        });
        let seen = log.clone();
        client.on_any(move |message| seen.add(format!("any {}", message.topic())));
        client
    })
    .await;
    subscribed(&client, &mut peer).await;
    peer.deliver(TOPIC, &1).await;
    peer.deliver(TOPIC, &2).await;
    log.wait_for("async 2").await;
    crate::until("all", || log.entries().len() == 6).await;
    let any = format!("any {TOPIC}");
    assert_eq!(log.entries(), ["sync 1", "async 1", &any, "sync 2", "async 2", &any]);
}

#[tokio::test]
async fn handlers_can_be_removed_one_by_one_and_all_at_once() {
    let (_server, client, mut peer) = connected(client).await;
    subscribed(&client, &mut peer).await;
    let log = Log::default();
    let add = |name: &'static str| {
        let log = log.clone();
        move |_| log.add(name)
    };
    let room = client.app("demo").room("general");
    let first = room.on("messages", add("first"));
    room.on("messages", add("second"));
    let any = client.on_any(add("any one"));
    client.on_any(add("any two"));
    assert!(room.off(first) && !room.off(first));
    assert!(client.off_any(any) && !client.off_any(any));
    assert!(!client.off_any(first));
    peer.deliver(TOPIC, &1).await;
    log.wait_for("any two").await;
    assert_eq!(log.entries(), ["second", "any two"]);
    assert_eq!((room.off_all("messages"), client.off_all_any()), (1, 1));
    assert_eq!((room.off_all("messages"), client.off_all_any()), (0, 0));
    peer.deliver_recorded(TOPIC, &2, Some("m")).await;
    assert_eq!(peer.acks().await, ["m"]);
    assert_eq!(log.entries().len(), 2);
}

#[tokio::test]
async fn a_handler_may_call_everything_inside_itself() {
    let (_server, client, mut peer) = connected(client).await;
    subscribed(&client, &mut peer).await;
    let log = Log::default();
    let (weak, seen) = (client.downgrade(), log.clone());
    client.on(TOPIC, move |_| {
        let client = weak.upgrade().unwrap();
        client.emit("a/b/c", &1).send().unwrap();
        client.subscribe("a/b/d").send().unwrap();
        client.unsubscribe(TOPIC).send().unwrap();
        client.on(TOPIC, |_| ());
        seen.add(client.explain());
        client.disconnect();
    });
    let weak = client.downgrade();
    let seen = log.clone();
    client.on_disconnect(move |_| seen.add(format!("{:?}", weak.upgrade().unwrap().status())));
    peer.deliver(TOPIC, &1).await;
    peer.confirm_publish().await;
    assert_eq!(peer.confirm_subscribe().await, "a/b/d");
    assert_eq!(peer.confirm_unsubscribe().await, TOPIC);
    peer.ended().await;
    log.wait_for("Disconnected").await;
}

#[tokio::test]
async fn an_async_handler_may_await_the_client() {
    let (_server, client, mut peer) = connected(client).await;
    subscribed(&client, &mut peer).await;
    let log = Log::default();
    let (weak, seen) = (client.downgrade(), log.clone());
    client.on(TOPIC, move |message| {
        let (client, seen) = (weak.upgrade().unwrap(), seen.clone());
        async move {
            client.emit("a/b/c", message.payload().as_msgpack().as_ref()).await.unwrap();
            client.subscribe("a/b/d").await.unwrap();
            client.unsubscribe("a/b/d").await.unwrap();
            seen.add("done");
        }
    });
    peer.deliver(TOPIC, &1).await;
    peer.confirm_publish().await;
    peer.confirm_subscribe().await;
    peer.confirm_unsubscribe().await;
    log.wait_for("done").await;
}

#[tokio::test]
async fn a_handler_may_remove_itself() {
    let (_server, client, mut peer) = connected(client).await;
    subscribed(&client, &mut peer).await;
    let log = Log::default();
    let own: Arc<Mutex<Option<HandlerId>>> = Arc::default();
    let (weak, seen, id) = (client.downgrade(), log.clone(), own.clone());
    *own.lock().unwrap() = Some(client.on(TOPIC, move |_| {
        assert!(weak.upgrade().unwrap().off(id.lock().unwrap().unwrap()));
        seen.add("once");
    }));
    let seen = log.clone();
    client.on_any(move |message| seen.add(format!("any {}", message.data::<u32>().unwrap())));
    peer.deliver(TOPIC, &1).await;
    peer.deliver(TOPIC, &2).await;
    log.wait_for("any 2").await;
    assert_eq!(log.entries(), ["once", "any 1", "any 2"]);
}

#[tokio::test]
async fn a_panic_is_isolated_and_its_message_not_acknowledged() {
    let (_server, client, mut peer) = connected(client).await;
    subscribed(&client, &mut peer).await;
    let log = Log::default();
    log.watch(&client);
    client.on(TOPIC, |message| {
        let n: u32 = message.data().unwrap();
        assert!(n != 1, "one is too few");
    });
    client.on(TOPIC, |message| async move {
        let n: u32 = message.data().unwrap();
        assert!(n != 2, "two is too many");
    });
    let seen = log.clone();
    client.on(TOPIC, move |message| seen.add(format!("got {}", message.data::<u32>().unwrap())));
    for (n, id) in [(1, "m1"), (2, "m2"), (3, "m3")] {
        peer.deliver_recorded(TOPIC, &n, Some(id)).await;
    }
    log.wait_for("one is too few").await;
    log.wait_for("two is too many").await;
    log.wait_for("got 3").await;
    assert!(log.has("got 1") && log.has("got 2"));
    assert_eq!(peer.acks().await, ["m3"]);
}

#[tokio::test]
async fn a_panic_in_an_error_handler_does_not_go_round_in_circles() {
    let (_server, client, mut peer) = connected(client).await;
    let log = Log::default();
    let seen = log.clone();
    client.on_error(move |error| {
        seen.add(format!("error: {error}"));
        assert!(!seen.has("error"), "no errors, please");
    });
    peer.send_bytes(bytes::Bytes::from_static(b"\xc1")).await;
    log.wait_for("undecodable").await;
    peer.send_bytes(bytes::Bytes::from_static(b"\xc1")).await;
    crate::until("the second", || log.entries().len() == 2).await;
}

#[tokio::test]
async fn a_spawned_handler_holds_up_no_other_and_keeps_its_order() {
    let (_server, client, mut peer) = connected(client).await;
    subscribed(&client, &mut peer).await;
    let log = Log::default();
    let gate = Arc::new(Semaphore::new(0));
    let (seen, handler_gate) = (log.clone(), gate.clone());
    let slow = client.app("demo").room("general").spawned().on("messages", move |message| {
        let (seen, gate) = (seen.clone(), handler_gate.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            seen.add(format!("slow {}", message.data::<u32>().unwrap()));
        }
    });
    let seen = log.clone();
    client.on_any(move |message| seen.add(format!("quick {}", message.data::<u32>().unwrap())));
    for n in 1..=3 {
        peer.deliver_recorded(TOPIC, &n, Some(&format!("m{n}"))).await;
    }
    log.wait_for("quick 3").await;
    assert!(!log.has("slow"));
    gate.add_permits(2);
    log.wait_for("slow 2").await;
    // A message is acknowledged when all are done with it.
    let mut acked = Vec::new();
    while acked.len() < 2 {
        acked.extend(peer.acks().await);
    }
    assert_eq!(acked, ["m1", "m2"]);
    // Closing waits for it too, and a removed one is not called any more.
    peer.deliver(TOPIC, &4).await;
    log.wait_for("quick 4").await;
    assert!(client.off(slow));
    let mut closing = Box::pin(client.close());
    assert!(is_pending(&mut closing).await);
    gate.add_permits(2);
    tokio::join!(soon(closing), async { while peer.try_frame().await.is_some() {} });
    let slow: Vec<_> = log.entries().into_iter().filter(|entry| entry.starts_with("slow")).collect();
    assert_eq!(slow, ["slow 1", "slow 2", "slow 3"]);
}

#[tokio::test]
async fn a_stuck_spawned_handler_is_bounded() {
    let (_server, client, mut peer) = connected(client).await;
    subscribed(&client, &mut peer).await;
    let log = Log::default();
    let gate = Arc::new(Semaphore::new(0));
    let (seen, handler_gate) = (log.clone(), gate.clone());
    client.spawned().on(TOPIC, move |message| {
        let (seen, gate) = (seen.clone(), handler_gate.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            seen.add(format!("slow {}", message.data::<u32>().unwrap()));
        }
    });
    let quick = Log::default();
    let seen = quick.clone();
    client.on_any(move |message| seen.add(format!("quick {}", message.data::<u32>().unwrap())));
    for n in 0..200 {
        peer.deliver(TOPIC, &n).await;
    }
    crate::until("all arrived", || client.stats().core.messages_received == 200).await;
    // One in its hands, 64 behind it, and one that waits with all others behind it.
    quick.wait_for("quick 64").await;
    assert!(!quick.has("quick 66"), "{:?}", quick.entries());
    gate.add_permits(200);
    quick.wait_for("quick 199").await;
    log.wait_for("slow 199").await;
    assert_eq!(log.entries(), (0..200).map(|n| format!("slow {n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_panic_of_a_spawned_handler_is_isolated_too() {
    let (_server, client, mut peer) = connected(client).await;
    subscribed(&client, &mut peer).await;
    let log = Log::default();
    log.watch(&client);
    let seen = log.clone();
    client.spawned().on(TOPIC, move |message| {
        let n: u32 = message.data().unwrap();
        assert!(n != 1, "one is too few");
        seen.add(format!("got {n}"));
    });
    client.spawned().on_error(|event| assert!(event.op().is_some(), "no errors, please"));
    peer.deliver(TOPIC, &1).await;
    peer.deliver(TOPIC, &2).await;
    log.wait_for("one is too few").await;
    log.wait_for("got 2").await;
    let ((), ()) = tokio::join!(soon(client.close()), peer.ended());
    assert!(!log.has("no errors"), "{:?}", log.entries());
}
