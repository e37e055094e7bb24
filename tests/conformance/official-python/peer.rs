//! Our half of a conversation with the official Python client: `chat_peer URL TOKEN COUNT`.
//!
//! Expects COUNT messages and answers each; each answer must be confirmed. Prints `ready` once it is subscribed, and
//! `ok` or `FAILED` per check. `chat.sh` runs both halves.

use std::{collections::BTreeMap, env, process::ExitCode, time::Duration};

use nolag::{Client, Emitted, Options};
use rmpv::Value;

const PATIENCE: Duration = Duration::from_secs(20);

type Chat = BTreeMap<String, Value>;

/// What is said; the other side computes the same.
fn chat(sender: &str, number: u64) -> Chat {
    let list = vec![
        Value::from(-number.cast_signed()),
        Value::from(f64::from(u32::try_from(number).unwrap_or(u32::MAX)) + 0.5),
        Value::Nil,
        Value::from(true),
        Value::Map(vec![("inner".into(), "map".into())]),
    ];
    let entries = [
        ("from", Value::from(sender)),
        ("number", Value::from(number)),
        ("text", Value::from(format!("grüße ✓ {number}"))),
        ("big", Value::from(u64::MAX - number + 1)),
        ("list", Value::Array(list)),
        ("bytes", Value::Binary(vec![0xff, 0, number.to_le_bytes()[0]])),
    ];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

#[derive(Default)]
struct Checks {
    failed: u64,
}

impl Checks {
    fn check(&mut self, name: &str, result: Result<(), String>) {
        match result {
            Ok(()) => println!("ok rust {name}"),
            Err(problem) => {
                self.failed += 1;
                println!("FAILED rust {name}: {problem}");
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut args = env::args().skip(1);
    let mut argument = || args.next().ok_or("usage: chat_peer URL TOKEN COUNT");
    let (url, token, count) = (argument()?, argument()?, argument()?.parse::<u64>()?);
    let mut checks = Checks::default();

    let client = Client::new(token, Options::new(url).reconnect(false));
    client.on_error(|error| println!("FAILED rust goes on: {error}"));
    client.connect().await?;
    let actor = client.actor_id().unwrap_or_default();
    checks.check("connects as bob", if actor == "bob" { Ok(()) } else { Err(actor) });
    let room = client.app("demo").room("general");
    let mut messages = room.subscribe("messages").stream::<Chat>().await?;
    checks.check("subscribes", Ok(()));
    println!("ready");

    for number in 1..=count {
        let message = tokio::time::timeout(PATIENCE, messages.next()).await?.ok_or("the stream ended")??;
        let intact = *message.data() == chat("python", number);
        let result = if intact { Ok(()) } else { Err(format!("got {:?}", message.data())) };
        checks.check(&format!("message {number} from python intact"), result);

        let emitted = room.emit("messages", &chat("rust", number)).echo(false).await;
        let result = if emitted == Ok(Emitted::Acked) { Ok(()) } else { Err(format!("{emitted:?}")) };
        checks.check(&format!("message {number} acked"), result);
    }
    client.close().await;
    Ok(ExitCode::from(u8::from(checks.failed > 0)))
}
