//! What runs on top of a client in a [`World`](crate::World).

use std::time::Duration;

use nolag_core::{
    ClientCore, Disconnect, Error, Event, FilterChange, Instant, Message, OpId, Payload, Publish, Refused,
    Subscribe, Token, wire::Filter,
};

use crate::ClientId;

/// An application in virtual time: told what its client tells, it commands its client.
///
/// Write yours against this trait and let it live through outages: see the crate's front page.
pub trait Application {
    /// The client tells something. Outcomes come as [`Event::Done`].
    fn on_event(&mut self, client: &mut Client<'_>, event: &Event) {
        let _ = (client, event);
    }

    /// A message came. It is acked when this returns, if the broker wants to know.
    fn on_message(&mut self, client: &mut Client<'_>, message: Message) {
        let _ = (client, message);
    }

    /// The client needs a token, now or soon, by [`Client::provide_token`] or [`Client::token_unavailable`].
    fn on_token_needed(&mut self, client: &mut Client<'_>) {
        let _ = client;
    }

    /// When [`on_wake`](Self::on_wake) is due, by the world's clock.
    fn next_wake(&self) -> Option<Instant> {
        None
    }

    /// The time that [`next_wake`](Self::next_wake) named has come.
    fn on_wake(&mut self, client: &mut Client<'_>) {
        let _ = client;
    }
}

/// A command that a client accepted.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// [`Client::connect`].
    Connect,
    /// [`Client::disconnect`].
    Disconnect(Disconnect),
    /// [`Client::subscribe`].
    Subscribe(Subscribe),
    /// [`Client::unsubscribe`], with the topic.
    Unsubscribe(String),
    /// [`Client::change_filters`], with the topic.
    ChangeFilters(String, FilterChange),
    /// [`Client::publish`].
    Publish(Publish),
    /// [`Client::set_presence`], with the room.
    SetPresence(String),
    /// [`Client::clear_presence`].
    ClearPresence,
    /// [`Client::fetch_presence`], with the room.
    FetchPresence(String),
    /// [`Client::lobby_subscribe`], with the lobby.
    LobbySubscribe(String),
    /// [`Client::lobby_unsubscribe`], with the lobby.
    LobbyUnsubscribe(String),
    /// [`Client::fetch_lobby`], with the lobby.
    FetchLobby(String),
}

/// A client as its application sees it: the commands of a [`ClientCore`], without the clock.
pub struct Client<'a> {
    pub(crate) id: ClientId,
    /// The world's time.
    pub(crate) now: Instant,
    /// What the client takes for the time.
    pub(crate) clock: Instant,
    pub(crate) core: &'a mut ClientCore,
    pub(crate) accepted: Vec<(OpId, Command)>,
}

impl Client<'_> {
    /// Which client it is.
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// The world's time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The core, to look at.
    pub fn core(&self) -> &ClientCore {
        self.core
    }

    fn note(&mut self, op: OpId, command: Command) -> OpId {
        self.accepted.push((op, command));
        op
    }

    /// As [`ClientCore::connect`].
    ///
    /// # Errors
    /// As there.
    pub fn connect(&mut self) -> Result<OpId, Error> {
        let op = self.core.connect(self.clock)?;
        Ok(self.note(op, Command::Connect))
    }

    /// As [`ClientCore::disconnect`].
    pub fn disconnect(&mut self, mode: Disconnect) -> OpId {
        let op = self.core.disconnect(self.clock, mode);
        self.note(op, Command::Disconnect(mode))
    }

    /// As [`ClientCore::subscribe`].
    ///
    /// # Errors
    /// As there.
    pub fn subscribe(&mut self, subscribe: Subscribe) -> Result<OpId, Refused<Subscribe>> {
        let op = self.core.subscribe(self.clock, subscribe.clone())?;
        Ok(self.note(op, Command::Subscribe(subscribe)))
    }

    /// As [`ClientCore::unsubscribe`].
    ///
    /// # Errors
    /// As there.
    pub fn unsubscribe(&mut self, topic: &str) -> Result<OpId, Error> {
        let op = self.core.unsubscribe(self.clock, topic)?;
        Ok(self.note(op, Command::Unsubscribe(topic.into())))
    }

    /// As [`ClientCore::set_filters`], [`add_filters`](ClientCore::add_filters) and
    /// [`remove_filters`](ClientCore::remove_filters).
    ///
    /// # Errors
    /// As there.
    pub fn change_filters(
        &mut self,
        topic: &str,
        change: FilterChange,
    ) -> Result<OpId, Refused<FilterChange>> {
        let run: fn(&mut ClientCore, Instant, &str, Vec<Filter>) -> _;
        let filters = match &change {
            FilterChange::Add(filters) => (run = ClientCore::add_filters, filters).1,
            FilterChange::Remove(filters) => (run = ClientCore::remove_filters, filters).1,
            FilterChange::Set(filters) => (run = ClientCore::set_filters, filters).1,
        };
        let op = run(self.core, self.clock, topic, filters.clone())?;
        Ok(self.note(op, Command::ChangeFilters(topic.into(), change)))
    }

    /// As [`ClientCore::publish`].
    ///
    /// # Errors
    /// As there.
    pub fn publish(&mut self, publish: Publish) -> Result<OpId, Refused<Publish>> {
        let op = self.core.publish(self.clock, publish.clone())?;
        Ok(self.note(op, Command::Publish(publish)))
    }

    /// As [`ClientCore::set_presence`].
    ///
    /// # Errors
    /// As there.
    pub fn set_presence(&mut self, room: &str, data: Payload) -> Result<OpId, Refused<Payload>> {
        let op = self.core.set_presence(self.clock, room, data)?;
        Ok(self.note(op, Command::SetPresence(room.into())))
    }

    /// As [`ClientCore::clear_presence`].
    ///
    /// # Errors
    /// As there.
    pub fn clear_presence(&mut self) -> Result<OpId, Error> {
        let op = self.core.clear_presence(self.clock)?;
        Ok(self.note(op, Command::ClearPresence))
    }

    /// As [`ClientCore::fetch_presence`].
    ///
    /// # Errors
    /// As there.
    pub fn fetch_presence(&mut self, room: &str) -> Result<OpId, Error> {
        let op = self.core.fetch_presence(self.clock, room)?;
        Ok(self.note(op, Command::FetchPresence(room.into())))
    }

    /// As [`ClientCore::lobby_subscribe`].
    ///
    /// # Errors
    /// As there.
    pub fn lobby_subscribe(&mut self, lobby: &str) -> Result<OpId, Error> {
        let op = self.core.lobby_subscribe(self.clock, lobby)?;
        Ok(self.note(op, Command::LobbySubscribe(lobby.into())))
    }

    /// As [`ClientCore::lobby_unsubscribe`].
    ///
    /// # Errors
    /// As there.
    pub fn lobby_unsubscribe(&mut self, lobby: &str) -> Result<OpId, Error> {
        let op = self.core.lobby_unsubscribe(self.clock, lobby)?;
        Ok(self.note(op, Command::LobbyUnsubscribe(lobby.into())))
    }

    /// As [`ClientCore::fetch_lobby`].
    ///
    /// # Errors
    /// As there.
    pub fn fetch_lobby(&mut self, lobby: &str) -> Result<OpId, Error> {
        let op = self.core.fetch_lobby(self.clock, lobby)?;
        Ok(self.note(op, Command::FetchLobby(lobby.into())))
    }

    /// As [`ClientCore::provide_token`].
    pub fn provide_token(&mut self, token: impl Into<Token>, valid_for: Option<Duration>) {
        self.core.provide_token(self.clock, token, valid_for);
    }

    /// As [`ClientCore::token_unavailable`].
    pub fn token_unavailable(&mut self, reason: &str) {
        self.core.token_unavailable(self.clock, reason);
    }
}
