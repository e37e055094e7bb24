//! Two people chat, on smol.
//!
//! Start a broker with `cargo run -p nolag-cli -- dev`, then `cargo run -p nolag --features smol --example smol`.

use nolag::{Client, Options, Runtime};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Chat {
    text: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "ws://localhost:8080/ws".into());
    for text in smol::block_on(run(&url))? {
        println!("alice read: {text}");
    }
    Ok(())
}

/// What alice reads of what bob writes.
pub(crate) async fn run(url: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let options = Options::new(url).runtime(Runtime::Smol);
    let alice = Client::new("dev-token-alice", options.clone());
    alice.on_error(|error| eprintln!("alice: {error}"));
    alice.connect().await?;
    let mut chat = alice.app("demo").room("general").subscribe("messages").stream::<Chat>().await?;

    let bob = Client::new("dev-token-bob", options);
    bob.connect().await?;
    let room = bob.app("demo").room("general");
    for text in ["hello", "how are you?", "bye"] {
        // Awaited: the broker has confirmed it.
        room.emit("messages", &Chat { text: text.into() }).await?;
    }

    let mut read = Vec::new();
    while let Some(message) = chat.next().await {
        let text = message?.into_data().text;
        let over = text == "bye";
        read.push(text);
        if over {
            break;
        }
    }
    // Leaves when everything accepted is done; handlers have run.
    bob.close().await;
    alice.close().await;
    Ok(read)
}
