//! Two people chat, on threads, without any async runtime.
//!
//! Start a broker with `cargo run -p nolag-cli -- dev`, then `cargo run -p nolag --no-default-features --features blocking --example blocking`.

use std::time::Duration;

use nolag::{Client, Options, Runtime};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Chat {
    text: String,
}

/// Far more than any answer takes.
const LIMIT: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "ws://localhost:8080/ws".into());
    for text in run(&url)? {
        println!("alice read: {text}");
    }
    Ok(())
}

/// What alice reads of what bob writes.
pub(crate) fn run(url: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let options = Options::new(url).runtime(Runtime::Blocking);
    let alice = Client::new("dev-token-alice", options.clone());
    alice.on_error(|error| eprintln!("alice: {error}"));
    alice.connect().wait(LIMIT)?;
    let mut chat = alice.app("demo").room("general").subscribe("messages").stream::<Chat>().wait(LIMIT)?;

    // A client is shared by threads: each has a clone, or a room of it as here.
    let bob = Client::new("dev-token-bob", options);
    bob.connect().wait(LIMIT)?;
    let writer = std::thread::spawn({
        let room = bob.app("demo").room("general");
        move || -> Result<(), nolag::Error> {
            for text in ["hello", "how are you?", "bye"] {
                // Waited for: the broker has confirmed it.
                room.emit("messages", &Chat { text: text.into() }).wait(LIMIT)?;
            }
            Ok(())
        }
    });

    let mut read = Vec::new();
    // Each step waits for the next message; `chat.next().wait(LIMIT)` would with a limit.
    for message in chat.iter() {
        let text = message?.into_data().text;
        let over = text == "bye";
        read.push(text);
        if over {
            break;
        }
    }
    writer.join().map_err(|_| "the writer panicked")??;
    // Leaves when everything accepted is done; handlers have run.
    bob.close().wait(LIMIT)?;
    alice.close().wait(LIMIT)?;
    Ok(read)
}
