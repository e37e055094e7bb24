//! Two clients and the development broker.

use nolag::{Client, Emitted, Options, Status};
use nolag_broker::TestBroker;
use serde::{Deserialize, Serialize};

use crate::{Log, connect, options, soon};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Chat {
    text: String,
}

fn chat(text: &str) -> Chat {
    Chat { text: text.into() }
}

#[tokio::test]
async fn messages_go_both_ways() {
    let broker = TestBroker::start().await;
    let (alice, bob) = (connect(&broker, "alice").await, connect(&broker, "bob").await);
    assert_eq!(alice.actor_id().as_deref(), Some("alice"));
    let (alice_room, bob_room) = (alice.app("demo").room("general"), bob.app("demo").room("general"));
    let mut to_alice = soon(alice_room.subscribe("messages").stream::<Chat>()).await.unwrap();
    let mut to_bob = soon(bob_room.subscribe("messages").stream::<Chat>()).await.unwrap();
    assert_eq!(soon(alice_room.emit("messages", &chat("hello")).echo(false)).await, Ok(Emitted::Acked));
    assert_eq!(soon(to_bob.next()).await.unwrap().unwrap().data(), &chat("hello"));
    assert_eq!(soon(bob_room.emit("messages", &chat("hi")).echo(false)).await, Ok(Emitted::Acked));
    assert_eq!(soon(to_alice.next()).await.unwrap().unwrap().data(), &chat("hi"));
    soon(alice.close()).await;
    soon(bob.close()).await;
}

#[tokio::test]
async fn retained_messages_and_filters_work() {
    let broker = TestBroker::start().await;
    let (alice, bob) = (connect(&broker, "alice").await, connect(&broker, "bob").await);
    let (alice, bob) = (alice.app("demo").room("general"), bob.app("demo").room("general"));
    soon(alice.emit("board", &chat("kept")).retain()).await.unwrap();
    let mut board = soon(bob.subscribe("board").stream::<Chat>()).await.unwrap();
    assert_eq!(soon(board.next()).await.unwrap().unwrap().into_data(), chat("kept"));
    let mut vip = soon(bob.subscribe("news").filters(["vip"]).stream::<Chat>()).await.unwrap();
    soon(alice.emit("news", &chat("for all"))).await.unwrap();
    soon(alice.emit("news", &chat("for few")).filter("vip")).await.unwrap();
    let message = soon(vip.next()).await.unwrap().unwrap();
    assert_eq!((message.data(), message.filter()), (&chat("for few"), Some("vip")));
}

#[tokio::test]
async fn a_group_shares_its_messages() {
    let broker = TestBroker::start().await;
    let alice = connect(&broker, "alice").await;
    let mut workers = Vec::new();
    for name in ["w1", "w2"] {
        let worker = connect(&broker, name).await.app("demo").room("general");
        let stream = worker.subscribe("tasks").load_balance(true).group("workers").stream::<u32>();
        workers.push(soon(stream).await.unwrap());
    }
    for n in 0..10u32 {
        soon(alice.emit("demo/general/tasks", &n)).await.unwrap();
    }
    let mut seen = Vec::new();
    let (first, second) = workers.split_at_mut(1);
    while seen.len() < 10 {
        let task = soon(async {
            tokio::select! {
                task = first[0].next() => task,
                task = second[0].next() => task,
            }
        });
        seen.push(task.await.unwrap().unwrap().into_data());
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_cut_connection_is_restored() {
    let broker = TestBroker::start().await;
    let client = Client::new(broker.token("alice"), options(&broker.url()).client_id("laptop"));
    let log = Log::default();
    log.watch(&client);
    soon(client.connect()).await.unwrap();
    let mut stream = soon(client.subscribe("demo/general/messages").messages()).await.unwrap();
    broker.cut_all().await;
    log.wait_for("reconnect").await;
    let bob = connect(&broker, "bob").await;
    crate::until("subscribed again", || client.subscriptions().iter().all(|subscription| subscription.live))
        .await;
    soon(bob.emit("demo/general/messages", "welcome back")).await.unwrap();
    assert_eq!(soon(stream.next()).await.unwrap().payload().text(), Some("welcome back"));
}

#[tokio::test]
async fn the_front_page_works() -> Result<(), Box<dyn std::error::Error>> {
    let broker = TestBroker::start().await;
    let bob = connect(&broker, "bob").await;
    let client = Client::new(broker.token("alice"), Options::new(broker.url()));
    client.on_connect(|| println!("connected"));
    client.on_error(|error| eprintln!("{error}"));
    client.connect().await?;

    let room = client.app("demo").room("general");
    let mut chat = room.subscribe("messages").filters(["vip"]).stream::<Chat>().await?;
    room.emit("messages", &Chat { text: "hello".into() }).retain().await?;
    room.emit("messages", &Chat { text: "bye".into() }).send()?;
    let other = bob.app("demo").room("general");
    soon(other.emit("messages", &Chat { text: "good day".into() }).filter("vip")).await?;
    let message = soon(chat.next()).await.ok_or("the stream ended")?;
    assert_eq!(message?.data().text, "good day");
    client.close().await;
    assert_eq!(client.status(), Status::Disconnected);
    Ok(())
}
