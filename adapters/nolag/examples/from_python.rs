//! Every realtime snippet of the Python client's documentation, in Rust. The code of `docs/from-python.md`.
//!
//! It runs against the development broker: `cargo run -p nolag-cli -- dev`, then
//! `cargo run -p nolag --example from_python`.

use std::time::Duration;

#[rustfmt::skip]
use nolag::{
    Client,           // NoLag
    Options,          // NoLagOptions
    Subscribe,        // SubscribeOptions
    Emit,             // EmitOptions
    Status,           // ConnectionStatus
    ActorType,        // ActorType, from client.actor_type()
    QoS,              // QoS
    Filter,           // an entry of filters=[…]
    Message,          // data and MessageMeta in one
    PresenceMember,   // ActorPresence, as an entry of a list
    PresenceChange,   // ActorPresence, as an event
    LobbyChange,      // LobbyPresenceEvent
    ServerError,      // NoLagServerError
    ErrorEvent,       // what the "error" event carries; Encode is NoLagEncodeError
    Error,            // what calls return
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Chat {
    text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Profile {
    status: String,
    username: String,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("NOLAG_URL").unwrap_or_else(|_| "ws://localhost:8080/ws".into());
    tour(&url).await
}

/// All of it.
pub(crate) async fn tour(url: &str) -> Result<(), Error> {
    quick_start(url).await?;
    configuration(url).await?;
    rooms_and_topics(url).await?;
    subscribing(url).await?;
    publishing(url).await?;
    filters(url).await?;
    connection_events(url).await?;
    every_message(url).await?;
    presence(url).await?;
    lobbies(url).await?;
    errors(url).await?;
    load_balancing(url).await
}

async fn connect(name: &str, url: &str) -> Result<Client, Error> {
    let client = Client::new(format!("dev-token-{name}"), Options::new(url));
    client.connect().await?;
    Ok(client)
}

fn chat(text: &str) -> Chat {
    Chat { text: text.into() }
}

async fn quick_start(url: &str) -> Result<(), Error> {
    let client = Client::new("dev-token-alice", Options::new(url));

    // A room puts app/room in front of topics, so this is demo/general/…
    let room = client.app("demo").room("general");
    room.on("messages", |message| println!("Received: {:?}", message.data::<Chat>()));

    client.connect().await?;
    room.subscribe("messages").await?; // confirmed, and restored after every reconnect
    room.emit("messages", &Chat { text: "hello, world".into() }).await?; // confirmed

    // Disconnect when done (synchronous); `client.close().await` waits until all is done
    client.disconnect();
    Ok(())
}

async fn configuration(url: &str) -> Result<(), Error> {
    let options = Options::new(url) // Options::default() is the NoLag cloud
        .reconnect(true)
        .reconnect_interval(Duration::from_secs(5)) // grows by half each time, with jitter
        .max_reconnect_attempts(10) // 0 never reconnects, None never gives up
        .heartbeat_interval(Duration::from_secs(30)) // zero disables
        .qos(QoS::AtLeastOnce)
        .load_balance(false)
        .load_balance_group("workers"); // without: the actor's id
    let client = Client::new("dev-token-alice", options);
    client.connect().await?;
    client.close().await;
    Ok(())
}

async fn rooms_and_topics(url: &str) -> Result<(), Error> {
    let client = connect("alice", url).await?;
    let bob = connect("bob", url).await?;
    let room = client.app("demo").room("general");

    // Subscribe, listen and publish within the room
    let mut messages = room.subscribe("messages").stream::<Chat>().await?;
    room.emit("messages", &chat("Hello from general!")).echo(false).await?;

    // The same, with full topics
    client.subscribe("demo/general/messages").await?;
    client.on("demo/general/messages", |message| println!("{:?}", message.data::<Chat>()));
    client.emit("demo/general/messages", &chat("Hello!")).echo(false).await?;

    println!("{}", room.prefix()); // demo/general

    bob.emit("demo/general/messages", &chat("Hello, Alice!")).await?;
    if let Some(message) = messages.next().await {
        println!("{}", message?.data().text);
    }

    room.unsubscribe("messages").await?;

    assert_eq!(room.prefix(), "demo/general");
    assert!(messages.next().await.is_none());
    client.close().await;
    bob.close().await;
    Ok(())
}

async fn subscribing(url: &str) -> Result<(), Error> {
    let client = connect("alice", url).await?;
    let room = client.app("demo").room("general");

    // Registers interest; handlers and streams get the messages
    room.subscribe("messages").await?;
    room.on("messages", |message| println!("{:?}", message.data::<Chat>()));

    // With options (QoS, load balancing, filters)
    let subscribe: Subscribe = room
        .subscribe("tasks")
        .qos(QoS::AtLeastOnce)
        .load_balance(true)
        .group("workers")
        .filters(["priority:high", "region:us"]);
    subscribe.await?;

    // With a callback, which gets the outcome whatever it is
    room.subscribe("messages").callback(|outcome| match outcome {
        Ok(subscribed) => println!("Subscribed to {}", subscribed.topic),
        Err(error) => println!("Subscribe failed: {error}"),
    })?;

    room.unsubscribe("messages").await?;

    client.close().await;
    Ok(())
}

async fn publishing(url: &str) -> Result<(), Error> {
    let client = connect("alice", url).await?;
    let room = client.app("demo").room("general");

    // Anything that serde can serialize; structs become maps
    room.emit("messages", &Chat { text: "Hello!".into() }).await?;
    room.emit("messages", "just text").await?;

    // With options
    let emit: Emit = room
        .emit("messages", &chat("for a few"))
        .qos(QoS::AtLeastOnce)
        .retain() // keep the last message for later subscribers
        .filter("priority:high") // route to subscribers of this filter
        .echo(false); // not back to this connection
    emit.await?;

    // With a callback, or without waiting at all: what fails then goes to on_error
    room.emit("messages", &chat("Hello")).callback(|outcome| println!("{outcome:?}"))?;
    room.emit("messages", &chat("Hello")).send()?;

    client.flush().await;
    client.close().await;
    Ok(())
}

async fn filters(url: &str) -> Result<(), Error> {
    let client = connect("alice", url).await?;
    let bob = connect("bob", url).await?;
    let room = client.app("demo").room("general");

    // Subscribe with initial filters
    room.subscribe("events").filters(["region:us", "priority:high"]).await?;
    room.on("events", |message: Message| println!("{:?} {:?}", message.payload().text(), message.filter()));

    // Replace, add or remove filters on the existing subscription; each answers with the list in force
    room.set_filters("events", ["region:eu"]).await?;
    room.add_filters("events", ["priority:critical"]).await?;
    let in_force = room.remove_filters("events", ["region:eu"]).await?;
    assert_eq!(in_force, [Filter::from("priority:critical")]);

    // Clear all filters (receive everything on the topic again)
    room.clear_filters("events").await?;

    // Publish with a filter value
    bob.emit("demo/general/events", "US high priority").filter("region:us").await?;

    client.close().await;
    bob.close().await;
    Ok(())
}

async fn connection_events(url: &str) -> Result<(), Error> {
    let client = Client::new("dev-token-alice", Options::new(url));

    client.on_connect(|| println!("Connected"));
    client.on_disconnect(|reason| println!("Disconnected: {reason}"));
    client.on_reconnect(|event| println!("Reconnected after {:?}", event.downtime));
    client.on_restored(|event| println!("Subscriptions stand again; gap: {}", event.possible_gap));
    client.on_error(|error| println!("Error: {error}"));

    // What the app's hydration webhook answers, once per subscribe. `topic` is the bare topic name
    client.on_hydration(|state| println!("Initial state for {}: {:?}", state.topic, state.data));

    client.connect().await?;
    if client.status() == Status::Connected {
        println!("Connected as {:?}", client.actor_id());
    }

    let actor_type: Option<ActorType> = client.actor_type();
    assert!(actor_type.is_some());
    client.close().await;
    Ok(())
}

async fn every_message(url: &str) -> Result<(), Error> {
    let client = connect("alice", url).await?;

    let log_all = client.on_any(|message| {
        println!("[{}] {:?} (from: {:?})", message.topic(), message.payload(), message.sender());
    });

    client.off_any(log_all); // remove one handler
    client.off_all_any(); // remove all of them

    client.close().await;
    Ok(())
}

async fn presence(url: &str) -> Result<(), Error> {
    let client = connect("alice", url).await?;
    let room = client.app("demo").room("general");

    // Presence events are told to the client. `event.room` says where
    client.on_presence_join(|event: PresenceChange| println!("Joined: {}", event.actor_id));
    client.on_presence_leave(|event| println!("Left: {}", event.actor_id));
    client.on_presence_update(|event| {
        let profile = event.presence.map(|presence| presence.decode::<Option<Profile>>());
        println!("Updated: {profile:?}");
    });

    // Set presence in the room (set again after every reconnect)
    let online = Profile { status: "online".into(), username: "alice".into() };
    room.set_presence(&online).await?;

    // The same, naming the room slug explicitly
    client.set_presence_in("general", &online).await?;

    // The room's list from the broker
    let members: Vec<PresenceMember> = room.fetch_presence().await?;
    for member in &members {
        println!("{}: {:?}", member.actor_id, member.presence.decode::<Profile>()?);
    }

    // Local cache, built from presence events
    if let Some(member) = client.presence_of("alice") {
        println!("{}: {:?}", member.actor_id, member.presence.decode::<Profile>()?);
    }
    for member in client.all_presence() {
        println!("{}: {:?}", member.actor_id, member.presence.decode::<Profile>()?);
    }

    // Clear your presence
    client.clear_presence().await?;

    assert_eq!(members.len(), 1);
    assert_eq!(members[0].presence.decode::<Profile>()?, online);
    client.close().await;
    Ok(())
}

async fn lobbies(url: &str) -> Result<(), Error> {
    let client = connect("bob", url).await?;
    let alice = connect("alice", url).await?;
    alice.set_presence_in("general", &chat("here")).await?;

    // The actor needs a grant for the lobby
    let lobby = client.app("demo").lobby("online");

    // Who is present, by room slug
    let snapshot = lobby.subscribe().await?;
    println!("Rooms: {:?}", snapshot.keys());

    // Events carry lobby, lobby_id, room, actor_id and data
    lobby.on_join(|event: LobbyChange| println!("{} joined {:?}", event.actor_id, event.room));
    lobby.on_leave(|event| println!("{} left {:?}", event.actor_id, event.room));

    let latest = lobby.fetch().await?;
    lobby.unsubscribe().await?; // or .send()?, without waiting

    assert_eq!(&*snapshot["general"][0].actor_id, "alice");
    assert_eq!(latest, snapshot);
    client.close().await;
    alice.close().await;
    Ok(())
}

async fn errors(url: &str) -> Result<(), Error> {
    let client = Client::new("dev-token-alice", Options::new(url));

    // Register it before `connect`, so that it misses nothing
    client.on_error(|event| {
        if let Some(error) = event.server_error() {
            let ServerError { error, code, topic, hint, .. } = error;
            println!("{error} ({code:?}) on {topic:?}: {hint:?}");
            if *code == Some(42940) {
                println!("unknown_topic: no grant covers this address");
            }
        } else if let ErrorEvent::Encode { op, error, .. } = &event {
            println!("Cannot encode payload for {op}: {error}");
        } else {
            println!("Error: {event}");
        }
    });

    // The broker's reason, for example "access_denied"
    if let Err(error) = client.connect().await {
        println!("Connection failed: {error}");
        return Ok(());
    }

    // What the broker refuses is in the result too, unless nobody waits for it
    let room = client.app("demo").room("no-such-room");
    if let Err(error) = room.emit("messages", &chat("value")).await {
        println!("Emit failed: {error}");
    }
    room.emit("messages", &chat("value")).send()?;

    client.flush().await;
    client.close().await;
    Ok(())
}

async fn load_balancing(url: &str) -> Result<(), Error> {
    // For every subscription of this client
    let options = Options::new(url).load_balance(true).load_balance_group("task-workers");
    let client = Client::new("dev-token-alice", options);
    client.connect().await?;

    // Or per subscription
    let room = client.app("demo").room("general");
    room.subscribe("tasks").load_balance(true).group("task-workers").await?;
    room.on("tasks", |message| println!("Processing: {:?}", message.payload()));

    // What a group missed comes again, where the broker keeps it
    client.on_replay(|event| println!("{event:?}"));

    assert!(client.load_balanced());
    client.close().await;
    Ok(())
}
