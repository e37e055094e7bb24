//! `nolag demo`: a conversation that survives a lost connection, and an honest account of it.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use nolag::{Client, Emitted, Options, Room, TypedMessages};
use nolag_broker::{AuthConfig, BrokerConfig, Server, ServerOptions};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use crate::{
    args::DemoArgs,
    exit::{Exit, Failure, Outcome},
    output::Output,
};

const NAMES: [&str; 2] = ["alice", "bob"];
/// Who loses the connection.
const UNLUCKY: usize = 1;
/// What Alice and Bob say in each round before the cut.
const BEFORE: [[&str; 2]; 3] = [
    ["Hello Bob!", "Hello Alice!"],
    ["Is the line good?", "Crystal clear."],
    ["Then let us test it.", "Go ahead."],
];
/// And in each round after it.
const AFTER: [[&str; 2]; 3] = [
    ["Welcome back.", "I am back."],
    ["I did not even notice.", "My subscription came back by itself."],
    ["Bye Bob!", "Bye Alice!"],
];
/// The whole story takes less than this, or something is wrong.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long an actor waits for a message that should come at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is sent.
#[derive(Debug, Serialize, Deserialize)]
struct Chat {
    from: String,
    text: String,
}

/// What one actor was seen to do.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
struct Tally {
    sent: u64,
    acked: u64,
    received: u64,
    reconnects: u64,
    /// Without a connection, in all.
    downtime_ms: f64,
}

#[derive(Debug, Serialize)]
struct Summary<'a> {
    ok: bool,
    alice: &'a Tally,
    bob: &'a Tally,
    missing: &'a [String],
    seconds: f64,
}

/// One thing that happened. Its `Display` is the line for people.
#[derive(Serialize)]
#[serde(untagged)]
enum Scene<'a> {
    Broker { url: &'a str },
    Connected { actor: &'a str },
    Cut { actor: &'a str },
    Disconnected { actor: &'a str, cause: &'a str },
    Published { actor: &'a str, text: &'a str, ms: f64 },
    Received { actor: &'a str, from: &'a str, text: &'a str },
    Reconnected { actor: &'a str, downtime_ms: f64 },
    Subscribed { actor: &'a str, topic: &'a str },
}

impl Scene<'_> {
    fn event(&self) -> &'static str {
        match self {
            Self::Broker { .. } => "broker",
            Self::Connected { .. } => "connected",
            Self::Cut { .. } => "cut",
            Self::Disconnected { .. } => "disconnected",
            Self::Published { .. } => "published",
            Self::Received { .. } => "received",
            Self::Reconnected { .. } => "reconnected",
            Self::Subscribed { .. } => "subscribed",
        }
    }
}

impl fmt::Display for Scene<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broker { url } => write!(f, "A development broker listens inside this process at {url}."),
            Self::Connected { actor } => write!(f, "{actor:<6} connected"),
            Self::Cut { actor } => write!(f, "\nNow the broker drops {actor}'s connection without a word."),
            Self::Disconnected { actor, cause } => write!(f, "{actor:<6} lost the connection: {cause}"),
            Self::Published { actor, text, ms } => write!(f, "{actor:<6} → {text}  (acked in {ms:.1} ms)"),
            Self::Received { actor, from, text } => write!(f, "{actor:<6} ← {from}: {text}"),
            Self::Reconnected { actor, downtime_ms } => {
                writeln!(f, "{actor:<6} is back after {downtime_ms:.0} ms")
            }
            Self::Subscribed { actor, topic } => write!(f, "{actor:<6} subscribed to {topic}"),
        }
    }
}

/// Tells a scene.
fn tell(output: Output, scene: Scene<'_>) -> Result<(), Failure> {
    if output.is_json() { output.event(scene.event(), scene) } else { output.line(scene) }
}

pub(crate) async fn run(args: DemoArgs) -> Outcome {
    let output = Output::new(args.json);
    let mut tallies = [Tally::default(), Tally::default()];
    let started = Instant::now();
    let ended = match timeout(DEADLINE, story(output, &mut tallies)).await {
        Ok(ended) => ended,
        Err(_) => Err(Failure::new(Exit::Internal, format!("not finished after {} s", DEADLINE.as_secs()))),
    };
    // Nobody listens any more: that is no reason to go on.
    if let Err(Failure { message: None, exit }) = ended {
        return Ok(exit);
    }
    let mut missing = missing(&tallies);
    missing.extend(ended.err().and_then(|failure| failure.message));
    summarize(output, &tallies, &missing, started.elapsed())?;
    match missing.as_slice() {
        [] => Ok(Exit::Done),
        missing => Err(Failure::new(Exit::Internal, format!("the demo failed: {}", missing.join("; ")))),
    }
}

/// What was expected and did not happen.
fn missing(tallies: &[Tally; 2]) -> Vec<String> {
    let each = (BEFORE.len() + AFTER.len()) as u64;
    let mut missing = Vec::new();
    let mut expect = |what: fmt::Arguments<'_>, seen: u64, expected: u64| {
        if seen != expected {
            missing.push(format!("{what}: {seen} of {expected}"));
        }
    };
    for (who, tally) in tallies.iter().enumerate() {
        expect(format_args!("sent by {}", NAMES[who]), tally.sent, each);
        expect(format_args!("acked for {}", NAMES[who]), tally.acked, each);
        expect(format_args!("received by {}", NAMES[who]), tally.received, each);
        expect(format_args!("reconnects of {}", NAMES[who]), tally.reconnects, u64::from(who == UNLUCKY));
    }
    missing
}

fn summarize(
    output: Output,
    tallies: &[Tally; 2],
    missing: &[String],
    took: Duration,
) -> Result<(), Failure> {
    let [alice, bob] = tallies;
    if output.is_json() {
        let seconds = round(took.as_secs_f64());
        return output.event("summary", Summary { ok: missing.is_empty(), alice, bob, missing, seconds });
    }
    output.line("")?;
    for (name, tally) in NAMES.iter().zip(tallies) {
        let Tally { sent, acked, received, reconnects, downtime_ms } = tally;
        let reconnects = match reconnects {
            0 => "connected throughout".into(),
            _ => format!("reconnected {reconnects} × after {downtime_ms:.0} ms without a connection"),
        };
        output
            .line(format_args!("{name:<6} sent {sent}, acked {acked}, received {received}; {reconnects}"))?;
    }
    let verdict = if missing.is_empty() { "Nothing is missing" } else { "Something is missing" };
    output.line(format_args!("{verdict} after {:.1} s.", took.as_secs_f32()))
}

/// Tells the story while it happens.
async fn story(output: Output, tallies: &mut [Tally; 2]) -> Result<(), Failure> {
    let auth = AuthConfig::seed_world();
    let tokens = NAMES.map(|name| auth.token_of(name).unwrap_or_default());
    let options = ServerOptions {
        addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        config: BrokerConfig { auth, ..BrokerConfig::default() },
        auth_file: None,
    };
    let server =
        Server::bind(options).await.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    let url = server.url();
    tell(output, Scene::Broker { url: &url })?;

    let [alice, bob] = tokens;
    let mut actors = [Actor::enter(output, 0, alice, &url).await?, Actor::enter(output, 1, bob, &url).await?];
    talk(output, &mut actors, tallies, BEFORE, 0).await?;

    tell(output, Scene::Cut { actor: NAMES[UNLUCKY] })?;
    let cut = server.with_core(|core, now| {
        let unlucky: Vec<_> =
            core.connections().filter(|open| open.actor_id.as_deref() == Some(NAMES[UNLUCKY])).collect();
        unlucky.iter().for_each(|open| core.cut(now, open.id));
    });
    cut.await.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    actors[UNLUCKY].recover(output, &mut tallies[UNLUCKY]).await?;
    // Whoever came back speaks first: by the time the broker confirms it, it has also seen the restored subscription.
    talk(output, &mut actors, tallies, AFTER, UNLUCKY).await?;

    for actor in &actors {
        actor.client.close().await;
    }
    server.shutdown().await;
    Ok(())
}

/// The actors speak in turns; each message is confirmed, then heard by the other.
async fn talk(
    output: Output,
    actors: &mut [Actor; 2],
    tallies: &mut [Tally; 2],
    rounds: [[&str; 2]; 3],
    first: usize,
) -> Result<(), Failure> {
    for round in rounds {
        for speaker in [first, 1 - first] {
            actors[speaker].say(output, round[speaker], &mut tallies[speaker]).await?;
            actors[1 - speaker].hear(output, &mut tallies[1 - speaker]).await?;
        }
    }
    Ok(())
}

struct Actor {
    name: &'static str,
    client: Client,
    room: Room,
    messages: TypedMessages<Chat>,
    connection: mpsc::UnboundedReceiver<Change>,
}

/// What happens to an actor's connection.
enum Change {
    Lost(String),
    Restored(Duration),
}

impl Actor {
    async fn enter(output: Output, who: usize, token: String, url: &str) -> Result<Self, Failure> {
        let name = NAMES[who];
        // Impatient, so that the demo is short.
        let client = Client::new(token, Options::new(url).reconnect_interval(Duration::from_millis(500)));
        let (changes, connection) = mpsc::unbounded_channel();
        let lost = changes.clone();
        client.on_disconnect(move |event| drop(lost.send(Change::Lost(event.to_string()))));
        client.on_reconnect(move |event| drop(changes.send(Change::Restored(event.downtime))));
        client.connect().await.map_err(|error| Failure::connect(&error, url))?;
        tell(output, Scene::Connected { actor: name })?;
        let room = client.app("demo").room("general");
        let messages = room
            .subscribe("messages")
            .stream()
            .await
            .map_err(|error| Failure::client(&error).during(name))?;
        tell(output, Scene::Subscribed { actor: name, topic: messages.topic() })?;
        Ok(Self { name, client, room, messages, connection })
    }

    async fn say(&self, output: Output, text: &str, tally: &mut Tally) -> Result<(), Failure> {
        let chat = Chat { from: self.name.into(), text: text.into() };
        let started = Instant::now();
        tally.sent += 1;
        // The speaker knows what was said.
        let emitted = self.room.emit("messages", &chat).echo(false).await;
        let emitted = emitted.map_err(|error| Failure::client(&error.into()).during(self.name))?;
        tally.acked += u64::from(emitted == Emitted::Acked);
        let ms = round(started.elapsed().as_secs_f64() * 1000.0);
        tell(output, Scene::Published { actor: self.name, text, ms })
    }

    async fn hear(&mut self, output: Output, tally: &mut Tally) -> Result<(), Failure> {
        let nothing = |why: &str| Failure::new(Exit::Internal, format!("{} heard nothing: {why}", self.name));
        let message = match timeout(PATIENCE, self.messages.next()).await {
            Err(_) => return Err(nothing("no message came")),
            Ok(None) => return Err(nothing("the stream ended")),
            Ok(Some(Err(error))) => return Err(nothing(&error.to_string())),
            Ok(Some(Ok(message))) => message,
        };
        let Chat { from, text } = message.data();
        tally.received += u64::from(from != self.name);
        tell(output, Scene::Received { actor: self.name, from, text })
    }

    /// Waits until the connection is lost and found again.
    async fn recover(&mut self, output: Output, tally: &mut Tally) -> Result<(), Failure> {
        while let Ok(Some(change)) = timeout(PATIENCE, self.connection.recv()).await {
            match change {
                Change::Lost(cause) => {
                    tell(output, Scene::Disconnected { actor: self.name, cause: &cause })?;
                }
                Change::Restored(downtime) => {
                    let ms = round(downtime.as_secs_f64() * 1000.0);
                    tally.reconnects += 1;
                    tally.downtime_ms += ms;
                    return tell(output, Scene::Reconnected { actor: self.name, downtime_ms: ms });
                }
            }
        }
        Err(Failure::new(
            Exit::Internal,
            format!("{} did not come back: {}", self.name, self.client.explain()),
        ))
    }
}

/// To three digits.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_not_observed_is_missing() {
        let alice = Tally { sent: 6, acked: 6, received: 6, ..Tally::default() };
        let bob = Tally { reconnects: 1, downtime_ms: 1.0, ..alice.clone() };
        assert_eq!(missing(&[alice.clone(), bob.clone()]), Vec::<String>::new());
        assert_eq!(missing(&[Tally { received: 5, ..alice.clone() }, bob]), ["received by alice: 5 of 6"]);
        assert_eq!(missing(&[alice.clone(), alice]), ["reconnects of bob: 0 of 1"]);
        assert_eq!(missing(&[Tally::default(), Tally::default()]).len(), 7);
    }
}
