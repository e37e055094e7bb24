//! What the types promise.

use nolag::{
    App, Client, CloseFuture, ConnectFuture, Emit, EmitFuture, Error, ErrorEvent, Filter, Hydration, Lobby,
    LobbyChange, LobbySnapshot, Message, Messages, Options, PresenceChange, PresenceMember, ReplayEvent,
    Request, RequestFuture, Room, StatusWatch, StreamFuture, Subscribe, SubscribeFuture, Topic, TypedMessage,
    TypedMessages, Unsubscribe, UnsubscribeFuture, WeakClient,
};

fn send<T: Send + 'static>() {}
fn sync<T: Sync>() {}

#[test]
fn everything_can_go_to_another_thread() {
    send::<(Client, WeakClient, App, Room, Topic<String>, Options)>();
    send::<(Message, TypedMessage<String>, Messages, TypedMessages<String>, StatusWatch)>();
    send::<(ConnectFuture, CloseFuture, Emit, EmitFuture)>();
    send::<(Subscribe, SubscribeFuture, StreamFuture<Messages>, StreamFuture<TypedMessages<String>>)>();
    send::<(Unsubscribe, UnsubscribeFuture, Error, ErrorEvent)>();
    send::<(Lobby, Hydration, LobbyChange, LobbySnapshot, PresenceChange, PresenceMember, ReplayEvent)>();
    send::<(Request<Vec<Filter>>, RequestFuture<LobbySnapshot>, Request<Vec<PresenceMember>>)>();
    sync::<(Lobby, Request<()>, RequestFuture<()>)>();
    sync::<(Client, App, Room, Topic<String>, Message, ErrorEvent)>();
}
