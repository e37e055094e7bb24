//! Presence: being seen in a room, and seeing who else is there.

use nolag_core::{ClientCore, Outcome, Payload, PresenceChange, PresenceKind, PresenceMember};
use serde::Serialize;

use crate::{
    client::Client,
    context::Room,
    handler::{HandlerId, HandlerReturn},
    request::{Ask, Request, done},
};

/// Presence.
///
/// A client is present in one room at a time: setting presence in another room moves it there. Only those who are
/// present in a room are told who comes, changes and leaves; subscribing to its topics is not needed for that, and not
/// enough. The presence set last is set again after every reconnect.
///
/// Brokers name rooms of presence by their slug alone. An actor that may use two rooms of one slug, in two apps, is
/// present in whichever the broker finds first.
impl Client {
    /// Makes this client present in a room, given by its slug alone, with `data`: normally a map or struct. It is
    /// encoded at once, and a failure reported when the result is awaited or sent.
    ///
    /// While the client reconnects it waits. It is done when the broker shows us our own presence. Brokers say nothing
    /// about rooms that they do not know, so that ends as [`ProtocolError::Timeout`](crate::ProtocolError::Timeout).
    #[doc(alias = "set_presence")]
    pub fn set_presence_in<T: Serialize + ?Sized>(&self, room: impl Into<String>, data: &T) -> Request<()> {
        let ask = Ask::SetPresence(Some(room.into()), Payload::encode(data));
        Request::new(self.handle.clone(), Ok(ask), done)
    }

    /// Sends presence that belongs to no room. It is done when it has left; the broker answers nothing, tells nobody and
    /// forgets it with the connection.
    #[deprecated = "brokers tell nobody about presence without a room; use `set_presence_in` or `Room::set_presence`"]
    pub fn set_presence<T: Serialize + ?Sized>(&self, data: &T) -> Request<()> {
        let ask = Ask::SetPresence(None, Payload::encode(data));
        Request::new(self.handle.clone(), Ok(ask), done)
    }

    /// Takes presence back: it is set to `nil`, and not restored any more. Brokers know no leaving, so others see an
    /// update, and a leave when this client moves to another room or disconnects.
    pub fn clear_presence(&self) -> Request<()> {
        Request::new(self.handle.clone(), Ok(Ask::ClearPresence), done)
    }

    /// Asks who is present in a room, given by its slug alone. One need not be there oneself, but there must be a
    /// session. An actor with several connections is listed once for each. The list of a room that the broker does not
    /// know is empty.
    ///
    /// Typed data is in [`PresenceMember::presence`]: `member.presence.decode::<MyPresence>()?`.
    pub fn fetch_presence(&self, room: impl Into<String>) -> Request<Vec<PresenceMember>> {
        Request::new(self.handle.clone(), Ok(Ask::FetchPresence(room.into())), members)
    }

    /// The slug of the room where this client is present, or will be as soon as there is a session.
    pub fn presence_room(&self) -> Option<String> {
        self.ask(|core| core.presence_room().map(String::from))
    }

    /// What is known about one actor in our room; see [`all_presence`](Self::all_presence).
    #[doc(alias("get_presence", "ActorPresence"))]
    pub fn presence_of(&self, actor_id: impl AsRef<str>) -> Option<PresenceMember> {
        self.ask(|core| core.presence_of(actor_id.as_ref()))
    }

    /// Who is known to be present in our room, ourselves included, by actor. Asks nobody.
    ///
    /// Brokers send no list on coming: those who were there before are known once they change, or after a
    /// [`fetch_presence`](Room::fetch_presence) of this room, which corrects everything else as well.
    #[doc(alias("get_all_presence", "ActorPresence"))]
    pub fn all_presence(&self) -> Vec<PresenceMember> {
        self.ask(|core: &ClientCore| core.presence().collect())
    }

    /// Calls `handler` when somebody comes, changes or leaves in our room, ourselves included.
    ///
    /// The event says in which room. Presence that was taken back is `nil`, which decodes as an `Option`. A leave is told when the last connection of an actor has left; where that is
    /// uncertain the client asks the broker first.
    #[doc(alias("presence:join", "presence:update", "presence:leave", "ActorPresence"))]
    pub fn on_presence<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(PresenceChange) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen(|handlers| &mut handlers.presence, handler)
    }

    /// As [`on_presence`](Self::on_presence), for those who come.
    #[doc(alias = "presence:join")]
    pub fn on_presence_join<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(PresenceChange) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.on_presence_kind(PresenceKind::Join, handler)
    }

    /// As [`on_presence`](Self::on_presence), for those who change.
    #[doc(alias = "presence:update")]
    pub fn on_presence_update<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(PresenceChange) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.on_presence_kind(PresenceKind::Update, handler)
    }

    /// As [`on_presence`](Self::on_presence), for those who leave.
    #[doc(alias = "presence:leave")]
    pub fn on_presence_leave<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(PresenceChange) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.on_presence_kind(PresenceKind::Leave, handler)
    }

    fn on_presence_kind<F, R, Kind>(&self, kind: PresenceKind, handler: F) -> HandlerId
    where
        F: FnMut(PresenceChange) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen_if(|handlers| &mut handlers.presence, move |event| event.kind == kind, handler)
    }
}

/// Presence, see that of [`Client`](Client::set_presence_in).
impl Room {
    /// Makes the client present in this room, and in no other; see [`Client::set_presence_in`].
    pub fn set_presence<T: Serialize + ?Sized>(&self, data: &T) -> Request<()> {
        let data = Payload::encode(data);
        let ask = self.check_prefix().map(|()| Ask::SetPresence(Some(self.name().into()), data));
        Request::new(self.client().handle.clone(), ask, done)
    }

    /// Asks who is present in this room, see [`Client::fetch_presence`].
    pub fn fetch_presence(&self) -> Request<Vec<PresenceMember>> {
        let ask = self.check_prefix().map(|()| Ask::FetchPresence(self.name().into()));
        Request::new(self.client().handle.clone(), ask, members)
    }
}

fn members(outcome: Outcome) -> Option<Vec<PresenceMember>> {
    match outcome {
        Outcome::Presence(members) => Some(members.to_vec()),
        _ => None,
    }
}
