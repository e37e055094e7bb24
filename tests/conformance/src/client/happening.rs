//! What a client tells its application, as fields that can be compared one by one.

use nolag_core::{
    Error, Event, Message, OpId, Outcome, PresenceKind, PresenceMember, ServerError, Session, SubscriptionId,
    TransportErrorKind,
};

use crate::value::{Fields, Id, Value, Values};

/// Fields being filled in; what is absent is left out.
pub(super) struct Draft<'v> {
    pub(super) values: &'v mut Values,
    fields: Fields,
}

impl<'v> Draft<'v> {
    /// Something of this name happened.
    pub(super) fn new(values: &'v mut Values, event: &str) -> Self {
        let fields = Fields::from([("event".to_owned(), values.text(event))]);
        Self { values, fields }
    }

    pub(super) fn text(mut self, name: &str, text: Option<&str>) -> Self {
        let id = text.map(|text| self.values.text(text));
        self.fields.extend(id.map(|id| (name.to_owned(), id)));
        self
    }

    pub(super) fn number(mut self, name: &str, number: Option<i128>) -> Self {
        let id = number.map(|number| self.values.add(Value::Integer(number)));
        self.fields.extend(id.map(|id| (name.to_owned(), id)));
        self
    }

    pub(super) fn flag(mut self, name: &str, flag: bool) -> Self {
        self.fields.insert(name.to_owned(), self.values.add(Value::Bool(flag)));
        self
    }

    pub(super) fn value(mut self, name: &str, id: Option<Id>) -> Self {
        self.fields.extend(id.map(|id| (name.to_owned(), id)));
        self
    }

    pub(super) fn finish(self) -> Fields {
        self.fields
    }

    fn payload(self, name: &str, payload: Option<&nolag_core::Payload>) -> Self {
        let bytes = payload.map(|payload| payload.as_msgpack().to_vec());
        // The core has checked it; whatever is wrong shows as a difference.
        let id = bytes.map(|bytes| {
            self.values.read(&bytes).unwrap_or_else(|_| self.values.add(Value::Binary(bytes.clone())))
        });
        self.value(name, id)
    }

    fn session(self, session: &Session) -> Self {
        self.text("actorTokenId", Some(&session.actor_id))
            .text("projectId", session.project_id.as_deref())
            .text("actorType", session.actor_type.as_deref())
            .number("protocolVersion", Some(session.protocol_version.into()))
    }

    fn refusal(self, error: &ServerError) -> Self {
        self.number("code", error.code.map(Into::into))
            .text("error", Some(&error.error))
            .text("topic", error.topic.as_deref())
            .text("hint", error.hint.as_deref())
            .text("msgRef", error.msg_ref.as_deref())
            .number("maxSizeBytes", error.max_size_bytes.map(Into::into))
            .text("detail", error.detail.as_deref())
            .text("lobbyId", error.lobby_id.as_deref())
            .text("asked", error.op.map(|op| op.as_str()))
    }
}

/// Who is present, as a list of maps.
pub(super) fn members<'m>(values: &mut Values, members: impl IntoIterator<Item = &'m PresenceMember>) -> Id {
    let mut list = Vec::new();
    for member in members {
        let entry = Draft { values: &mut *values, fields: Fields::new() }
            .text("actorTokenId", Some(&member.actor_id))
            .payload("presence", Some(&member.presence))
            .number("joinedAt", member.joined_at.map(Into::into))
            .text("status", member.status.as_deref())
            .finish();
        list.push(map(values, entry));
    }
    values.add(Value::List(list))
}

/// A map with these fields.
pub(super) fn map(values: &mut Values, fields: Fields) -> Id {
    let mut pairs: Vec<(Id, Id)> = fields.into_iter().map(|(name, id)| (values.text(&name), id)).collect();
    pairs.sort_by_key(|(key, _)| *key);
    values.add(Value::Map(pairs))
}

/// Why something ended, in words that both sides can write down.
pub(super) fn cause(error: &Error) -> String {
    match error {
        Error::Transport(error) => match error.kind {
            TransportErrorKind::Closed(code) => closed(code, &error.detail),
            _ => error.to_string(),
        },
        Error::Server(error) => error.error.clone(),
        other => other.to_string(),
    }
}

/// A connection that the other side ended.
pub(super) fn closed(code: Option<u16>, reason: &str) -> String {
    match code {
        Some(code) => format!("closed with {code} {reason:?}"),
        None => "ended without a close frame".to_owned(),
    }
}

/// A message; `whose` gives the topic of a subscription.
pub(super) fn of_message(
    values: &mut Values,
    message: &Message,
    whose: impl Fn(SubscriptionId) -> String,
) -> Fields {
    Draft::new(values, "message")
        .text("topic", Some(message.topic()))
        .text("subscription", message.subscription().map(whose).as_deref())
        .payload("data", Some(message.payload()))
        .text("msgId", message.msg_id())
        .flag("requiresAck", message.ack_id().is_some())
        .text("filter", message.filter())
        .flag("isReplay", message.is_replay())
        .text("from", message.sender())
        .text("fromType", message.sender_type())
        .finish()
}

/// An event; `command` gives the line of the recording that an operation stands for.
pub(super) fn of_event(values: &mut Values, event: &Event, command: impl Fn(OpId) -> i128) -> Fields {
    match event {
        Event::AttemptFailed { cause: why, retry_in, .. } => Draft::new(values, "attempt failed")
            .text("cause", Some(&cause(why)))
            .flag("retried", retry_in.is_some())
            .finish(),
        Event::Connected { session, downtime } => {
            Draft::new(values, "connected").session(session).flag("again", downtime.is_some()).finish()
        }
        Event::Disconnected { cause: why, retry_in } => Draft::new(values, "disconnected")
            .text("cause", Some(&cause(why)))
            .flag("retried", retry_in.is_some())
            .finish(),
        Event::Done { op, outcome } => {
            of_outcome(Draft::new(values, "done").number("command", Some(command(*op))), outcome)
        }
        Event::GaveUp { cause: why } => {
            Draft::new(values, "gave up").text("cause", Some(&cause(why))).finish()
        }
        Event::Hydration { topic, data } => {
            Draft::new(values, "hydration").text("topic", Some(topic)).payload("data", Some(data)).finish()
        }
        Event::Lobby(change) => Draft::new(values, "lobby")
            .text("lobby", change.lobby.as_deref())
            .text("lobbyId", change.lobby_id.as_deref())
            .text("room", change.room.as_deref())
            .text("kind", Some(kind(&change.kind)))
            .text("actor", Some(&change.actor_id))
            .payload("data", Some(&change.data))
            .finish(),
        Event::LobbyEnded { lobby, cause: why } => Draft::new(values, "lobby ended")
            .text("lobby", Some(lobby))
            .text("cause", Some(&cause(why)))
            .finish(),
        Event::Presence(change) => Draft::new(values, "presence")
            .text("room", change.room.as_deref())
            .text("kind", Some(kind(&change.kind)))
            .text("actor", Some(&change.actor_id))
            .payload("presence", change.presence.as_ref())
            .text("status", change.status.as_deref())
            .finish(),
        Event::ProtocolError(error) => {
            Draft::new(values, "protocol error").text("what", Some(&error.to_string())).finish()
        }
        Event::ReplayEnded { replayed } => {
            Draft::new(values, "replay ended").number("replayed", Some((*replayed).into())).finish()
        }
        Event::ReplayProgress { received, announced } => Draft::new(values, "replay progress")
            .number("received", Some((*received).into()))
            .number("announced", Some((*announced).into()))
            .finish(),
        Event::ReplayStarted { count } => {
            Draft::new(values, "replay started").number("count", Some((*count).into())).finish()
        }
        Event::ServerError(error) => Draft::new(values, "server error").refusal(error).finish(),
        Event::SubscriptionEnded { topic, cause: why, .. } => Draft::new(values, "subscription ended")
            .text("topic", Some(topic))
            .text("cause", Some(&cause(why)))
            .finish(),
        other => Draft::new(values, "another event").text("what", Some(&format!("{other:?}"))).finish(),
    }
}

fn of_outcome(draft: Draft<'_>, outcome: &Outcome) -> Fields {
    match outcome {
        Outcome::Acked => draft.text("outcome", Some("acked")),
        Outcome::Connected(session) => draft.text("outcome", Some("connected")).session(session),
        Outcome::Disconnected => draft.text("outcome", Some("disconnected")),
        Outcome::Failed(error) => draft.text("outcome", Some("failed")).text("cause", Some(&cause(error))),
        Outcome::FiltersUpdated { filters } => {
            let list = filter_list(draft.values, filters);
            draft.text("outcome", Some("filters updated")).value("filters", Some(list))
        }
        Outcome::Lobby(snapshot) => {
            let rooms = snapshot.iter().map(|(room, there)| (room.clone(), members(draft.values, there)));
            let rooms = rooms.collect();
            let rooms = map(draft.values, rooms);
            draft.text("outcome", Some("lobby")).value("rooms", Some(rooms))
        }
        Outcome::NotSent(error) => draft.text("outcome", Some("not sent")).text("cause", Some(&cause(error))),
        Outcome::Presence(there) => {
            let there = members(draft.values, there.iter());
            draft.text("outcome", Some("presence")).value("members", Some(there))
        }
        Outcome::PresenceSet => draft.text("outcome", Some("presence set")),
        Outcome::Refused(error) => draft.text("outcome", Some("refused")).refusal(error),
        Outcome::Sent => draft.text("outcome", Some("sent")),
        Outcome::Subscribed { load_balance, .. } => {
            draft.text("outcome", Some("subscribed")).flag("loadBalance", *load_balance)
        }
        Outcome::Unknown(error) => draft.text("outcome", Some("unknown")).text("cause", Some(&cause(error))),
        Outcome::Unsubscribed => draft.text("outcome", Some("unsubscribed")),
        other => draft.text("outcome", Some(&format!("{other:?}"))),
    }
    .finish()
}

fn filter_list(values: &mut Values, filters: &[nolag_core::wire::Filter]) -> Id {
    use nolag_core::wire::Filter;
    let list = filters.iter().map(|filter| match filter {
        Filter::Value(value) => values.text(value),
        Filter::All(group) => {
            let group = group.iter().map(|value| values.text(value)).collect();
            values.add(Value::List(group))
        }
    });
    let list = list.collect();
    values.add(Value::List(list))
}

fn kind(kind: &PresenceKind) -> &str {
    match kind {
        PresenceKind::Join => "join",
        PresenceKind::Leave => "leave",
        PresenceKind::Update => "update",
        PresenceKind::Waking => "waking",
        PresenceKind::Other(other) => other,
        _ => "another kind",
    }
}
