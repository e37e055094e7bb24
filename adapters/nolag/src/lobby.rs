//! Lobbies: watching who is present in many rooms.

use std::{fmt, sync::Arc};

use nolag_core::{LobbyChange, LobbySnapshot, Outcome, PresenceKind};

use crate::{
    client::Client,
    context::App,
    handler::{HandlerId, HandlerReturn},
    request::{Ask, Request, done},
};

/// A lobby, from [`App::lobby`]: a window on who is present in many rooms, without being present oneself.
///
/// The actor needs a grant for it. Brokers know lobbies by their slug alone; the app is only where one looks for it in
/// code.
#[derive(Clone)]
pub struct Lobby {
    client: Client,
    app: Arc<str>,
    name: Arc<str>,
}

impl App {
    /// The lobby with this slug.
    #[doc(alias = "set_lobby")]
    pub fn lobby(&self, lobby: impl Into<String>) -> Lobby {
        Lobby { client: self.client().clone(), app: self.name().into(), name: lobby.into().into() }
    }
}

impl Lobby {
    /// The app's slug.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// The lobby's slug.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Watches the lobby: from now on the broker tells who comes, changes and leaves in its rooms. The answer is who is
    /// there, by room. A lobby that is watched already answers with what is known.
    ///
    /// It stands until [`unsubscribe`](Self::unsubscribe): the client restores it after every reconnect, keeps it from
    /// falling asleep, and asks a second time where the broker's first answer is empty. While the client reconnects the
    /// request waits. Without a grant the broker refuses at once.
    ///
    /// # Cancel safety
    /// Dropping the future before its first poll does nothing. Dropping it later leaves the lobby watched.
    pub fn subscribe(&self) -> Request<LobbySnapshot> {
        self.request(Ask::LobbySubscribe, snapshot)
    }

    /// Asks who is present in the lobby's rooms, by room. Watching it is not needed, but there must be a session.
    ///
    /// Kraken answers with nothing while nobody watches the lobby.
    #[doc(alias = "fetch_presence")]
    pub fn fetch(&self) -> Request<LobbySnapshot> {
        self.request(Ask::FetchLobby, snapshot)
    }

    /// Stops watching the lobby. Handlers stay.
    pub fn unsubscribe(&self) -> Request<()> {
        self.request(Ask::LobbyUnsubscribe, done)
    }

    /// Who is known to be present in the lobby's rooms, by room, from the first answer and the events since; `None`
    /// when it is not watched. Asks nobody.
    pub fn snapshot(&self) -> Option<LobbySnapshot> {
        self.client.ask(|core| core.lobby(&self.name))
    }

    /// Calls `handler` when somebody comes, changes or leaves in the lobby's rooms. It does not subscribe.
    ///
    /// Kraken's events name no slug. With one lobby watched they are its; with several, those that could be of more than
    /// one go to [`Client::on_lobby`] only.
    #[doc(alias = "LobbyPresenceEvent")]
    pub fn on<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(LobbyChange) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen_if(|_| true, handler)
    }

    /// As [`on`](Self::on), for those who come.
    #[doc(alias = "presence:join")]
    pub fn on_join<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(LobbyChange) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen_if(|kind| *kind == PresenceKind::Join, handler)
    }

    /// As [`on`](Self::on), for those who change.
    #[doc(alias = "presence:update")]
    pub fn on_update<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(LobbyChange) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen_if(|kind| *kind == PresenceKind::Update, handler)
    }

    /// As [`on`](Self::on), for those who leave.
    #[doc(alias = "presence:leave")]
    pub fn on_leave<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(LobbyChange) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen_if(|kind| *kind == PresenceKind::Leave, handler)
    }

    /// Removes a handler, see [`Client::off`].
    pub fn off(&self, handler: HandlerId) -> bool {
        self.client.off(handler)
    }

    fn listen_if<F, R, Kind>(&self, wanted: fn(&PresenceKind) -> bool, handler: F) -> HandlerId
    where
        F: FnMut(LobbyChange) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        let name = self.name.clone();
        let ours = move |event: &LobbyChange| event.lobby.as_ref() == Some(&name) && wanted(&event.kind);
        self.client.listen_if(|handlers| &mut handlers.lobby, ours, handler)
    }

    fn request<T>(&self, ask: fn(String) -> Ask, answer: fn(Outcome) -> Option<T>) -> Request<T> {
        Request::new(self.client.handle.clone(), Ok(ask(self.name.to_string())), answer)
    }
}

impl Client {
    /// Calls `handler` with the events of every lobby, also of those that are not known to be of which: their
    /// [`lobby`](LobbyChange::lobby) is `None`, and [`lobby_id`](LobbyChange::lobby_id) is the broker's word for it.
    #[doc(alias("lobbyPresence", "LobbyPresenceEvent"))]
    pub fn on_lobby<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(LobbyChange) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen(|handlers| &mut handlers.lobby, handler)
    }
}

fn snapshot(outcome: Outcome) -> Option<LobbySnapshot> {
    match outcome {
        Outcome::Lobby(snapshot) => Some(snapshot),
        _ => None,
    }
}

impl fmt::Debug for Lobby {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lobby").field("app", &self.app).field("name", &self.name).finish_non_exhaustive()
    }
}
