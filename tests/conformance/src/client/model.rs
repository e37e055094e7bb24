//! What a client must tell its application, going by the recording alone.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Different,
    happening::{Draft, closed, map},
    presence::{Lobbies, PresenceEvent, Room, Told, rule_of_list, shown_list, shown_rooms},
};
use crate::value::{Fields, Id, Value, Values};

/// How long an answer may take before the client gives up on it, in microseconds.
pub(super) const OPERATION_TIMEOUT: u64 = 10_000_000;

/// A recorded broker has dealt with a frame after this long, in microseconds; large ones take a while.
const DEALT_WITH: u64 = 400_000;

/// How long a client waits after a publish that came too soon, in microseconds.
const RETRY_AFTER: u64 = 1_000_000;

/// What a client asks of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Connect,
    Disconnect,
    FetchLobby,
    FetchPresence,
    LobbySubscribe,
    LobbyUnsubscribe,
    Presence,
    Publish,
    SetFilters,
    Subscribe,
    Unsubscribe,
}

impl Kind {
    /// The kind of a client frame; `None` for what is never answered.
    pub(super) fn of(frame_type: &str) -> Option<Self> {
        Some(match frame_type {
            "auth" => Self::Connect,
            "getLobbyPresence" => Self::FetchLobby,
            "getPresence" => Self::FetchPresence,
            "lobbySubscribe" => Self::LobbySubscribe,
            "lobbyUnsubscribe" => Self::LobbyUnsubscribe,
            "presence" => Self::Presence,
            "publish" => Self::Publish,
            "setFilters" => Self::SetFilters,
            "subscribe" => Self::Subscribe,
            "unsubscribe" => Self::Unsubscribe,
            _ => return None,
        })
    }

    /// The field that says what it is about.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::FetchPresence | Self::Presence => "roomId",
            Self::FetchLobby | Self::LobbySubscribe | Self::LobbyUnsubscribe => "lobbyId",
            // Each at most once at a time.
            Self::Connect | Self::Disconnect => "",
            Self::Publish | Self::SetFilters | Self::Subscribe | Self::Unsubscribe => "topic",
        }
    }

    /// What errors call it.
    fn asked(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Disconnect => "disconnect",
            Self::FetchLobby => "fetch lobby",
            Self::FetchPresence => "fetch presence",
            Self::LobbySubscribe => "subscribe to lobby",
            Self::LobbyUnsubscribe => "unsubscribe from lobby",
            Self::Presence => "set presence",
            Self::Publish => "publish",
            Self::SetFilters => "set filters",
            Self::Subscribe => "subscribe",
            Self::Unsubscribe => "unsubscribe",
        }
    }
}

/// A command of the application that has no outcome yet.
#[derive(Debug, Clone)]
pub(super) struct Command {
    /// The line of the recording that it stands for.
    pub(super) line: usize,
    pub(super) kind: Kind,
    /// The named fields of the recorded frame.
    pub(super) intent: Fields,
    /// The client's own reference of a publish.
    pub(super) our_ref: Option<String>,
    pub(super) sent_at: Option<u64>,
}

/// A request that the broker got and has not answered.
#[derive(Debug)]
struct Asked {
    kind: Kind,
    key: Option<Id>,
    at: u64,
    by: Asker,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    /// The application, with the command of this line.
    Command(usize),
    /// The client by itself.
    Client,
    /// The recorded client, with a frame that ours would not send.
    Stranger,
}

/// A subscription as the application wants it.
#[derive(Debug, Default)]
struct Topic {
    /// Whether the broker confirmed it.
    confirmed: bool,
    /// Message ids since the last subscribe.
    seen: BTreeSet<Id>,
}

/// The replays under way.
#[derive(Debug, Default)]
struct Replays {
    running: usize,
    announced: i128,
    received: i128,
}

/// The state of one client as the recording shows it.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// The actor, while a session stands.
    actor: Option<String>,
    version: i128,
    pub(super) commands: Vec<Command>,
    asked: Vec<Asked>,
    topics: BTreeMap<String, Topic>,
    pub(super) room: Room,
    pub(super) lobbies: Lobbies,
    /// Lobbies that it must ask again, and for whom.
    pub(super) cold: Vec<(String, Asker)>,
    replays: Replays,
    /// What the application must be told, and has not been yet.
    pub(super) expected: Vec<Fields>,
    /// Leaves, by actor, that it may be told now or after asking the room.
    pub(super) later: Vec<(String, Fields)>,
    /// Whether the actor of the presence event that arrives is in the room afterwards.
    pub(super) remains: bool,
    /// Until when publishes wait because one came too soon.
    pub(super) held_until: u64,
    /// What the recording cannot explain.
    pub(super) complaints: Vec<String>,
    /// Frames that the client must count as unexpected.
    pub(super) unexpected: u64,
    /// Messages that it must suppress.
    pub(super) duplicates: u64,
    pub(super) different: BTreeSet<Different>,
}

impl Model {
    pub(super) fn subscribe(&mut self, topic: &str) {
        self.topics.entry(topic.to_owned()).or_default();
    }

    pub(super) fn unsubscribe(&mut self, topic: &str) {
        self.topics.remove(topic);
    }

    /// The broker gets a request.
    pub(super) fn ask(&mut self, kind: Kind, key: Option<Id>, at: u64, by: Asker) {
        self.asked.push(Asked { kind, key, at, by });
    }

    /// A command ends.
    pub(super) fn settle(
        &mut self,
        values: &mut Values,
        line: usize,
        fill: impl FnOnce(Draft<'_>) -> Draft<'_>,
    ) {
        let before = self.commands.len();
        self.commands.retain(|command| command.line != line);
        if self.commands.len() < before {
            let draft = Draft::new(values, "done").number("command", Some(line as i128));
            self.expected.push(fill(draft).finish());
        }
    }

    /// Commands whose time is over end.
    pub(super) fn time_passes(&mut self, values: &mut Values, now: u64) {
        let late = |command: &Command| command.sent_at.is_some_and(|sent| sent + OPERATION_TIMEOUT <= now);
        let late: Vec<Command> = self.commands.iter().filter(|command| late(command)).cloned().collect();
        for command in late {
            // Brokers are silent about presence in rooms that they do not know.
            if command.kind != Kind::Presence {
                self.complaints.push(format!("line {} was never answered", command.line));
            }
            if command.kind == Kind::Publish && self.version < 2 {
                self.settle(values, command.line, |draft| draft.text("outcome", Some("sent")));
                continue;
            }
            let why = format!("the broker did not answer {} within 10.0 s", command.kind.asked());
            self.settle(values, command.line, |draft| unknown(draft, &why));
        }
    }

    /// A frame from the broker arrives; a reference in it is the client's own.
    pub(super) fn frame(&mut self, values: &mut Values, frame: &Fields, now: u64) {
        let text = |values: &Values, name: &str| {
            frame.get(name).and_then(|id| values.as_text(*id)).map(str::to_owned)
        };
        let frame_type = text(values, "type").unwrap_or_default();
        match frame_type.as_str() {
            "auth" if self.actor.is_none() => return self.auth(values, frame),
            "auth" => return self.answered(values, frame, Kind::Connect, |draft| draft),
            "error" => return self.error(values, frame, now),
            _ if self.actor.is_none() => {}
            "published" => {
                let reference = text(values, "msgRef");
                let line = self.publish_with(reference.as_deref()).map(|command| command.line);
                return match line {
                    Some(line) => self.settle(values, line, |draft| draft.text("outcome", Some("acked"))),
                    None => self.answered(values, frame, Kind::Publish, |draft| draft),
                };
            }
            "subscribed" => return self.subscribed(values, frame),
            "unsubscribed" => {
                return self.answered(values, frame, Kind::Unsubscribe, |draft| {
                    draft.text("outcome", Some("unsubscribed"))
                });
            }
            "filtersUpdated" => {
                let filters = frame.get("filters").copied();
                return self.answered(values, frame, Kind::SetFilters, |draft| {
                    draft.text("outcome", Some("filters updated")).value("filters", filters)
                });
            }
            "message" => return self.message(values, frame),
            "presence" => return self.presence(values, frame),
            "presenceList" => return self.presence_list(values, frame),
            "lobbySubscribed" => return self.lobby_subscribed(values, frame),
            "lobbyUnsubscribed" => {
                return self.answered(values, frame, Kind::LobbyUnsubscribe, |draft| {
                    draft.text("outcome", Some("unsubscribed"))
                });
            }
            "lobbyPresenceList" => return self.lobby_list(values, frame),
            "lobbyPresence" => {
                let told = self.lobbies.event(values, frame);
                return self.expected.extend(told);
            }
            "replayStart" => {
                let count = frame.get("count").and_then(|id| values.as_integer(*id));
                if self.replays.running == 0 {
                    self.replays = Replays::default();
                }
                self.replays.running += 1;
                self.replays.announced += count.unwrap_or_default();
                let told = Draft::new(values, "replay started").number("count", count);
                return self.expected.push(told.finish());
            }
            "replayEnd" => {
                self.replays.running = self.replays.running.saturating_sub(1);
                let replayed = frame.get("replayed").and_then(|id| values.as_integer(*id));
                let told = Draft::new(values, "replay ended").number("replayed", replayed);
                return self.expected.push(told.finish());
            }
            _ => {}
        }
        self.answers_nothing(values, frame);
    }

    /// The connection ends: the client is told `why`, or leaves by itself.
    pub(super) fn end(&mut self, values: &mut Values, why: &str, leaves: Option<usize>) {
        let was_ready = self.actor.take().is_some();
        if was_ready {
            let told = Draft::new(values, "disconnected").text("cause", Some(why)).flag("retried", false);
            self.expected.push(told.finish());
        }
        for command in self.commands.clone() {
            let sent = command.sent_at.is_some();
            self.settle(values, command.line, |draft| match command.kind {
                Kind::Connect => draft.text("outcome", Some("failed")).text("cause", Some(why)),
                Kind::Disconnect => draft.text("outcome", Some("disconnected")),
                Kind::LobbyUnsubscribe | Kind::Unsubscribe => draft.text("outcome", Some("unsubscribed")),
                _ if sent => unknown(draft, why),
                _ => draft.text("outcome", Some("not sent")).text("cause", Some(why)),
            });
        }
        let confirmed = self.topics.iter().filter(|(_, topic)| topic.confirmed);
        for (topic, _) in confirmed {
            let told = Draft::new(values, "subscription ended").text("topic", Some(topic));
            self.expected.push(told.text("cause", Some(why)).finish());
        }
        for lobby in self.lobbies.watched() {
            let told = Draft::new(values, "lobby ended").text("lobby", Some(lobby));
            self.expected.push(told.text("cause", Some(why)).finish());
        }
        if leaves.is_none() {
            if !was_ready {
                let told =
                    Draft::new(values, "attempt failed").text("cause", Some(why)).flag("retried", false);
                self.expected.push(told.finish());
            }
            self.expected.push(Draft::new(values, "gave up").text("cause", Some(why)).finish());
        }
        let ended = std::mem::take(self);
        self.expected = ended.expected;
        self.complaints = ended.complaints;
        (self.unexpected, self.duplicates) = (ended.unexpected, ended.duplicates);
        self.different = ended.different;
    }

    /// The connection is lost.
    pub(super) fn lose(&mut self, values: &mut Values, code: Option<u16>, reason: &str) {
        self.end(values, &closed(code, reason), None);
    }

    pub(super) fn publish_with(&mut self, our_ref: Option<&str>) -> Option<&mut Command> {
        our_ref.and_then(|our_ref| {
            self.commands.iter_mut().find(|command| command.our_ref.as_deref() == Some(our_ref))
        })
    }

    fn auth(&mut self, values: &mut Values, frame: &Fields) {
        let connect = self.commands.iter().find(|command| command.kind == Kind::Connect);
        let Some(line) = connect.map(|command| command.line) else {
            self.unexpected += 1;
            return;
        };
        let success = frame.get("success").and_then(|id| values.as_bool(*id)) == Some(true);
        if !success {
            let error = frame.get("error").and_then(|id| values.as_text(*id)).unwrap_or_default().to_owned();
            return self.end(values, &error, None);
        }
        let present = |name: &str| frame.get(name).copied().filter(|id| *values.get(*id) != Value::Nil);
        let names = ["actorTokenId", "projectId", "actorType", "protocolVersion"];
        let session: Vec<(&str, Option<Id>)> = names.iter().map(|name| (*name, present(name))).collect();
        let version = present("protocolVersion").and_then(|id| values.as_integer(id));
        self.version = version.unwrap_or(1);
        let actor = present("actorTokenId").and_then(|id| values.as_text(id)).map(str::to_owned);
        self.actor = Some(actor.unwrap_or_default());
        let fill = |draft: Draft<'_>| {
            let mut fields = draft.finish();
            fields.extend(session.iter().filter_map(|(name, id)| Some(((*name).to_owned(), (*id)?))));
            fields
        };
        let told = fill(Draft::new(values, "connected").flag("again", false));
        self.expected.push(told);
        self.commands.retain(|command| command.line != line);
        let done = Draft::new(values, "done").number("command", Some(line as i128));
        let done = fill(done.text("outcome", Some("connected")));
        self.expected.push(done);
    }

    /// The request that an answer belongs to: brokers answer in order.
    fn take_asked(&mut self, values: &Values, frame: &Fields, kind: Kind) -> Option<(Asker, String)> {
        let key = frame.get(kind.key()).copied();
        let index = self.asked.iter().position(|asked| asked.kind == kind && asked.key == key)?;
        let by = self.asked.remove(index).by;
        let key = key.and_then(|id| values.as_text(id)).unwrap_or_default().to_owned();
        Some((by, key))
    }

    /// The same, if it is the client's own request.
    fn take_own(&mut self, values: &mut Values, frame: &Fields, kind: Kind) -> Option<(Asker, String)> {
        match self.take_asked(values, frame, kind) {
            Some((Asker::Stranger, _)) => self.unexpected += 1,
            Some(own) => return Some(own),
            None => self.answers_nothing(values, frame),
        }
        None
    }

    /// Nothing in the recording asked for this.
    fn answers_nothing(&mut self, values: &mut Values, frame: &Fields) {
        self.complain(values, frame);
        self.unexpected += 1;
    }

    fn complain(&mut self, values: &mut Values, frame: &Fields) {
        let frame = map(values, frame.clone());
        self.complaints.push(format!("answers nothing that was asked: {}", values.show(frame)));
    }

    fn answered(
        &mut self,
        values: &mut Values,
        frame: &Fields,
        kind: Kind,
        fill: impl FnOnce(Draft<'_>) -> Draft<'_>,
    ) {
        match self.take_asked(values, frame, kind) {
            Some((Asker::Command(line), _)) => self.settle(values, line, fill),
            Some((Asker::Client, _)) => {}
            Some((Asker::Stranger, _)) => self.unexpected += 1,
            None => self.answers_nothing(values, frame),
        }
    }

    fn subscribed(&mut self, values: &mut Values, frame: &Fields) {
        let balanced = frame.get("loadBalance").copied();
        match self.take_asked(values, frame, Kind::Subscribe) {
            Some((Asker::Command(line), key)) => {
                if let Some(topic) = self.topics.get_mut(&key) {
                    topic.confirmed = true;
                    topic.seen.clear();
                }
                self.settle(values, line, |draft| {
                    draft.text("outcome", Some("subscribed")).value("loadBalance", balanced)
                });
            }
            Some((Asker::Client, _)) => {}
            Some((Asker::Stranger, _)) => self.unexpected += 1,
            None => self.answers_nothing(values, frame),
        }
    }

    fn message(&mut self, values: &mut Values, frame: &Fields) {
        let present = |name: &str| frame.get(name).copied().filter(|id| *values.get(*id) != Value::Nil);
        let is_true = |name: &str| frame.get(name).and_then(|id| values.as_bool(*id)) == Some(true);
        let (topic, id) = (present("topic"), present("msgId"));
        let name = topic.and_then(|id| values.as_text(id)).unwrap_or_default().to_owned();
        let (requires_ack, is_replay) = (is_true("requiresAck"), is_true("isReplay"));
        let mut filter = present("filter");
        if filter.is_some_and(|id| values.as_text(id) == Some("#")) {
            self.different.insert(Different::FilterHash);
            filter = None;
        }
        let (from, from_type) = (present("from"), present("fromType"));
        if is_replay {
            self.replays.received += 1;
            let progress =
                Draft::new(values, "replay progress").number("received", Some(self.replays.received));
            let progress = progress.number("announced", Some(self.replays.announced));
            self.expected.push(progress.finish());
        }
        let registered = self.topics.get_mut(&name);
        let subscription = registered.is_some().then_some(topic).flatten();
        if let (Some(registered), Some(id)) = (registered, id)
            && !registered.seen.insert(id)
        {
            self.different.insert(Different::Duplicates);
            self.duplicates += 1;
            return;
        }
        let told = Draft::new(values, "message")
            .value("topic", topic)
            .value("subscription", subscription)
            .value("data", frame.get("data").copied())
            .value("msgId", id)
            .flag("requiresAck", requires_ack && id.is_some())
            .value("filter", filter)
            .flag("isReplay", is_replay)
            .value("from", from)
            .value("fromType", from_type);
        self.expected.push(told.finish());
    }

    fn presence(&mut self, values: &mut Values, frame: &Fields) {
        let Some(event) = PresenceEvent::read(values, frame) else {
            self.unexpected += 1;
            return;
        };
        let own = self.actor.as_ref() == Some(&event.actor);
        let sets =
            |command: &&Command| command.kind == Kind::Presence && command.intent.contains_key("roomId");
        let room_of = |command: &Command| {
            command.intent.get("roomId").and_then(|id| values.as_text(*id)).map(str::to_owned)
        };
        let moving = self.commands.iter().find(sets).and_then(room_of);
        if own && matches!(event.kind.as_str(), "join" | "update") {
            // A broker shows what was set, so this is the one.
            let is_it = |command: &&Command| command.intent.get("data").copied() == event.presence;
            let set = self.commands.iter().filter(sets).find(is_it);
            let (line, room) = (set.map(|command| command.line), set.and_then(room_of));
            let answers = self.room.saw_ourselves(&event, room.as_deref());
            if let Some(line) = line.filter(|_| answers) {
                self.settle(values, line, |draft| draft.text("outcome", Some("presence set")));
            }
        }
        let leaves_for_another = own && event.kind == "leave" && moving.as_deref() != self.room.room();
        if leaves_for_another && moving.is_some() && self.room.room().is_some() {
            let told = self.room.left(values, &event);
            return self.expected.push(told);
        }
        match self.room.event(values, &event, self.remains, moving.as_deref()) {
            Told::Later(told) => self.later.push((event.actor, told)),
            Told::Now(told) => self.expected.push(told),
            Told::Nothing => _ = self.different.insert(Different::PresenceRefetch),
        }
    }

    fn presence_list(&mut self, values: &mut Values, frame: &Fields) {
        let Some((by, room)) = self.take_own(values, frame, Kind::FetchPresence) else { return };
        let list = frame.get("data").copied().unwrap_or_else(|| values.add(Value::List(Vec::new())));
        let changes = self.room.list(values, &room, list);
        if !changes.is_empty() {
            self.different.insert(rule_of_list(by != Asker::Client));
        }
        self.expected.extend(changes);
        if let Asker::Command(line) = by {
            let members = shown_list(values, list);
            self.settle(values, line, |draft| {
                draft.text("outcome", Some("presence")).value("members", Some(members))
            });
        }
    }

    fn lobby_subscribed(&mut self, values: &mut Values, frame: &Fields) {
        let Some((by, slug)) = self.take_own(values, frame, Kind::LobbySubscribe) else { return };
        let Some(rooms) = frame.get("presence").copied() else { return };
        self.lobbies.confirm(values, &slug, rooms);
        if values.pairs(rooms).is_none_or(<[(Id, Id)]>::is_empty) {
            return self.cold.push((slug, by));
        }
        self.lobby_outcome(values, by, rooms);
    }

    fn lobby_list(&mut self, values: &mut Values, frame: &Fields) {
        let Some((by, slug)) = self.take_own(values, frame, Kind::FetchLobby) else { return };
        let Some(rooms) = frame.get("presence").copied() else { return };
        self.lobbies.refresh(values, &slug, rooms);
        self.lobby_outcome(values, by, rooms);
    }

    fn lobby_outcome(&mut self, values: &mut Values, by: Asker, rooms: Id) {
        if let Asker::Command(line) = by {
            let rooms = shown_rooms(values, rooms);
            self.settle(values, line, |draft| {
                draft.text("outcome", Some("lobby")).value("rooms", Some(rooms))
            });
        }
    }

    fn error(&mut self, values: &mut Values, frame: &Fields, now: u64) {
        let text = |values: &Values, name: &str| {
            frame.get(name).and_then(|id| values.as_text(*id)).map(str::to_owned)
        };
        let name = text(values, "error").unwrap_or_default();
        let code = frame.get("code").and_then(|id| values.as_integer(*id));
        if let Some(reference) = text(values, "msgRef") {
            let line = self.publish_with(Some(&reference)).map(|command| command.line);
            return match line {
                // It is tried again.
                Some(_) if code == Some(42910) => {
                    self.held_until = now + RETRY_AFTER;
                    self.different.insert(Different::PublishRetry);
                }
                Some(line) => self.refused(values, frame, line, Kind::Publish),
                None => {
                    if self.take_asked(values, frame, Kind::Publish).is_none() {
                        self.complain(values, frame);
                    }
                    self.unrelated(values, frame);
                }
            };
        }
        let denied = code == Some(42940) || name == "unknown_topic" || name == "not_authorized";
        let refused = |asked: &Asked| {
            asked.may_be_refused(frame, &name, now) && !(denied && asked.kind == Kind::SetFilters)
        };
        let Some(index) = self.asked.iter().position(refused) else {
            // Nothing was asked, so the actor may not use the topic any more.
            let topic = text(values, "topic").filter(|_| denied).unwrap_or_default();
            if self.topics.get(&topic).is_some_and(|topic| topic.confirmed) {
                self.topics.remove(&topic);
                let told = Draft::new(values, "subscription ended").text("topic", Some(&topic));
                return self.expected.push(told.text("cause", Some(&name)).finish());
            }
            // Before auth everything is refused alike.
            if self.actor.is_some() {
                self.complain(values, frame);
            }
            return self.unrelated(values, frame);
        };
        let asked = self.asked.remove(index);
        let key = asked.key.and_then(|id| values.as_text(id)).unwrap_or_default().to_owned();
        match (asked.by, asked.kind) {
            (Asker::Command(_), Kind::Publish) | (Asker::Stranger | Asker::Client, _) => {
                self.unrelated(values, frame);
            }
            (Asker::Command(line), Kind::LobbySubscribe) => {
                self.refused(values, frame, line, asked.kind);
                if self.lobbies.forget(&key).is_some_and(|lobby| lobby.confirmed) {
                    let told = Draft::new(values, "lobby ended").text("lobby", Some(&key));
                    self.expected.push(told.text("cause", Some(&name)).finish());
                }
            }
            (Asker::Command(line), Kind::Subscribe) => {
                self.refused(values, frame, line, asked.kind);
                if self.topics.remove(&key).is_some_and(|topic| topic.confirmed) {
                    let told = Draft::new(values, "subscription ended").text("topic", Some(&key));
                    self.expected.push(told.text("cause", Some(&name)).finish());
                }
            }
            (Asker::Command(line), kind) => self.refused(values, frame, line, kind),
        }
    }

    fn refused(&mut self, values: &mut Values, frame: &Fields, line: usize, kind: Kind) {
        let error = self.error_fields(values, frame);
        self.settle(values, line, |draft| {
            let mut draft = draft.text("outcome", Some("refused")).text("asked", Some(kind.asked()));
            for (name, id) in error {
                draft = draft.value(&name, Some(id));
            }
            draft
        });
    }

    /// An error that belongs to no command.
    fn unrelated(&mut self, values: &mut Values, frame: &Fields) {
        let error = self.error_fields(values, frame);
        let mut told = Draft::new(values, "server error").finish();
        told.extend(error);
        self.expected.push(told);
    }

    /// The fields of an error as a client must show them.
    fn error_fields(&mut self, values: &mut Values, frame: &Fields) -> Fields {
        let mut fields = frame.clone();
        fields.remove("type");
        fields.retain(|_, id| *values.get(*id) != Value::Nil);
        for name in ["detail", "error", "hint", "lobbyId", "msgRef", "topic"] {
            let Some(id) = fields.get(name).copied() else { continue };
            match values.as_text(id) {
                Some(text) if text.chars().any(char::is_control) => {
                    let clean = text.replace(char::is_control, "-");
                    fields.insert(name.to_owned(), values.text(&clean));
                }
                Some(_) => continue,
                None => _ = fields.remove(name),
            }
            self.different.insert(Different::ErrorText);
        }
        fields
    }
}

impl Asked {
    /// Whether an error without a reference can be the answer to this.
    fn may_be_refused(&self, frame: &Fields, error: &str, now: u64) -> bool {
        let kind_fits = match self.kind {
            Kind::FetchLobby | Kind::LobbySubscribe | Kind::SetFilters => true,
            Kind::Subscribe => error != "not_subscribed",
            // One that is taken is not answered, so it is soon too old to be refused.
            Kind::Publish => error != "not_subscribed" && self.at + DEALT_WITH >= now,
            _ => false,
        };
        kind_fits && self.key.is_some() && frame.get(self.kind.key()).copied() == self.key
    }
}

fn unknown<'v>(draft: Draft<'v>, why: &str) -> Draft<'v> {
    draft.text("outcome", Some("unknown")).text("cause", Some(why))
}
