//! From an API key to a conversation: creates an app, a room and two actors over REST, and connects as these actors.
//!
//! Start a broker with `cargo run -p nolag-cli -- dev`, then
//! `cargo run -p nolag --features rest --example control_plane`. Other addresses and another key than those of the
//! development broker are arguments: `API_URL BROKER_URL API_KEY`.

use std::error::Error;

use nolag::{
    ApiOptions, Client, NoLagApi, Options, Token,
    api::{AccessMode, ActorCreate, AppCreate, ListParams, RoomCreate, json},
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Chat {
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut argument = |default: &str| args.next().unwrap_or_else(|| default.into());
    let api_url = argument("http://localhost:8080/v1");
    let broker_url = argument("ws://localhost:8080/ws");
    let key = argument("nlg_live_dev.secret");
    for text in run(&api_url, &broker_url, &key).await? {
        println!("web-client read: {text}");
    }
    Ok(())
}

/// What one actor reads of what the other writes. Everything that was created for it is deleted again.
pub(crate) async fn run(api_url: &str, broker_url: &str, key: &str) -> Result<Vec<String>, Box<dyn Error>> {
    // An API key belongs to one project, so nothing here names a project. For the cloud: `ApiOptions::default()`.
    let api = NoLagApi::new(key, ApiOptions::new(api_url));
    let apps = api.apps().list(&ListParams::new().page(1).limit(20)).await?;
    println!("{} apps so far", apps.pagination.total);

    // Without topics nobody could subscribe to anything. Open to all actors of the project: the cloud's default is
    // restricted. The slug gets a suffix: the answer has it.
    let app = AppCreate::new("my-chat-app").description("A chat").topics(["messages"]);
    let app = app.access_mode(AccessMode::Open);
    let app = api.apps().create(&app).await?;
    let room = RoomCreate::new("general").slug("general").description("General chat");
    let room = api.rooms().create(&app.app_id, &room).await?;
    let web = ActorCreate::new("web-client", "device").metadata(json!({ "platform": "web" }));
    let web = api.actors().create(&web).await?;
    let phone = api.actors().create(&ActorCreate::new("phone", "device")).await?;
    println!("created {}/{} and {}", app.slug, room.slug, web.actor.actor_token_id);

    // Tokens are shown this once: keep them, they are all that a client needs.
    let read = chat(broker_url, web.access_token, phone.access_token, &app.slug, &room.slug).await;

    // Clean up, whatever came of it.
    api.actors().delete(&phone.actor.actor_token_id).await?;
    api.actors().delete(&web.actor.actor_token_id).await?;
    api.rooms().delete(&app.app_id, &room.room_id).await?;
    api.apps().delete(&app.app_id).await?;
    read
}

async fn chat(
    url: &str,
    reader: Token,
    writer: Token,
    app: &str,
    room: &str,
) -> Result<Vec<String>, Box<dyn Error>> {
    let web = Client::new(reader, Options::new(url));
    web.on_error(|error| eprintln!("web-client: {error}"));
    web.connect().await?;
    let mut messages = web.app(app).room(room).subscribe("messages").stream::<Chat>().await?;

    let phone = Client::new(writer, Options::new(url));
    phone.connect().await?;
    let room = phone.app(app).room(room);
    for text in ["hello", "how are you?", "bye"] {
        room.emit("messages", &Chat { text: text.into() }).await?;
    }

    let mut read = Vec::new();
    while let Some(message) = messages.next().await {
        let message = message?;
        read.push(message.data().text.clone());
        if message.data().text == "bye" {
            break;
        }
        // Here the message is dropped, which acknowledges it.
    }
    phone.close().await;
    web.close().await;
    Ok(read)
}
