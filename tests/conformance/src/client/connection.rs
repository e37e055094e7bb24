//! One recorded connection, lived by our client.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Action, ClientCore, Config, Disconnect, Error, Instant, Misuse, OpId, Payload, Publish, ReconnectPolicy,
    Rejection, Subscribe, SubscribeOptions, SubscriptionId, Token, TransportEvent, TransportEventKind,
    TransportId,
    wire::{Auth, ClientFrame, RawValue, ServerFrame, Text},
};

use super::{
    Did, Different,
    happening::{map, of_event, of_message},
    model::{Asker, Command, Kind, Model},
    presence::{PresenceEvent, shows_online},
    step::told,
};
use crate::{
    broker,
    client_fields::{Unnamed, intent},
    compare::differences,
    value::{Fields, Id, Values},
};

/// How long a recorded client may take between opening a connection and authenticating.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3600);

/// How long the application may wait to hear of a leave, in microseconds.
const SOON: u64 = 1_000_000;

/// What a step needs.
pub(super) struct Context<'c> {
    pub(super) values: &'c mut Values,
    /// Answers what the recorded broker was never asked.
    pub(super) broker: &'c mut broker::Session,
    pub(super) conn: u64,
    /// In microseconds.
    pub(super) now: u64,
    pub(super) line: usize,
    /// What the client does is noted here, if somebody watches.
    pub(super) did: Option<&'c mut Vec<Did>>,
}

impl Context<'_> {
    fn note(&mut self, did: impl FnOnce(&Values) -> Did) {
        if let Some(noted) = &mut self.did {
            noted.push(did(self.values));
        }
    }

    fn instant(&self) -> Instant {
        Instant::from_micros(self.now)
    }
}

/// A recorded frame that our client must send.
struct Due {
    line: usize,
    intent: Fields,
    /// Whether the recorded answer came before our client sent it: our broker answers instead.
    late: bool,
}

/// Our client in place of a recorded one.
pub(super) struct Connection {
    core: ClientCore,
    transport: TransportId,
    /// The line of its `auth`.
    auth_line: usize,
    opened: bool,
    ended: bool,
    pub(super) model: Model,
    /// The line that each operation stands for.
    lines: BTreeMap<OpId, usize>,
    topics: BTreeMap<SubscriptionId, String>,
    due: VecDeque<Due>,
    /// Recorded reference → ours, in order of sending.
    refs: BTreeMap<Id, VecDeque<String>>,
    got: Vec<Fields>,
    closed: Option<(u16, &'static str)>,
    failures: Vec<String>,
}

impl Connection {
    /// A client that will authenticate as the recorded one does in `line`, opening its transport now.
    pub(super) fn new(auth: &Auth<'_>, line: usize, now: u64) -> Result<Self, Error> {
        let mut config = Config::new(Token::new(auth.token.expose()));
        config.client_id = auth.client_id.map(str::to_owned);
        config.project_id = auth.project_id.map(str::to_owned);
        config.connect_timeout = PATIENCE;
        config.reconnect = ReconnectPolicy::never();
        config.publish_rate = None;
        // Acks leave when theirs did, in the same company.
        config.acks.max_delay = std::time::Duration::ZERO;
        config.acks.max_batch = usize::MAX;
        let now = Instant::from_micros(now);
        let mut core = ClientCore::new(config, line as u64, now)?;
        let op = core.connect(now)?;
        let Some(Action::OpenTransport { id }) = core.poll_action() else {
            return Err(Rejection::NotConnected.into());
        };
        let mut connection = Self {
            core,
            transport: id,
            auth_line: line,
            opened: false,
            ended: false,
            model: Model::default(),
            lines: BTreeMap::from([(op, line)]),
            topics: BTreeMap::new(),
            due: VecDeque::new(),
            refs: BTreeMap::new(),
            got: Vec::new(),
            closed: None,
            failures: Vec::new(),
        };
        connection.expect_outcome(line, Kind::Connect, Fields::new());
        Ok(connection)
    }

    pub(super) fn is_opened(&self) -> bool {
        self.opened
    }

    /// Whether the client has left the connection.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn auth_line(&self) -> usize {
        self.auth_line
    }

    /// What the client waits for, in words.
    pub(super) fn explain(&self) -> String {
        self.core.explain()
    }

    /// The next moment at which the client wants to be called.
    pub(super) fn timeout(&self) -> Option<u64> {
        self.core.poll_timeout().map(Instant::as_micros).filter(|_| !self.ended)
    }

    /// Time has come.
    pub(super) fn pass(&mut self, cx: &mut Context<'_>) {
        self.model.time_passes(cx.values, cx.now);
        self.core.handle_timeout(cx.instant());
        self.settle(cx);
    }

    /// The transport is open: the client must authenticate.
    pub(super) fn open(&mut self, cx: &mut Context<'_>, intent: Fields) {
        self.opened = true;
        self.due.push_back(Due { line: cx.line, intent, late: false });
        self.happens(cx, TransportEventKind::Opened);
    }

    /// The application wants what a recorded frame says.
    ///
    /// # Errors
    /// Why our client would not send it.
    pub(super) fn command(
        &mut self,
        cx: &mut Context<'_>,
        frame: &ClientFrame<'_>,
        intent: Fields,
    ) -> Result<(), String> {
        match frame {
            ClientFrame::Heartbeat => {
                self.model.different.insert(Different::Heartbeats);
                return Ok(());
            }
            ClientFrame::Ack { msg_id } => {
                self.core.ack(cx.instant(), msg_id);
                self.due.push_back(Due { line: cx.line, intent, late: false });
            }
            ClientFrame::BatchAck { msg_ids } if msg_ids.is_empty() => {
                return Err("an ack of nothing".to_owned());
            }
            ClientFrame::BatchAck { msg_ids } => {
                msg_ids.iter().for_each(|msg_id| self.core.ack(cx.instant(), msg_id));
                self.due.push_back(Due { line: cx.line, intent, late: false });
            }
            ClientFrame::Auth(_) => {
                if self.model.commands.iter().any(|command| command.kind == Kind::Connect) {
                    self.failures.push(format!("line {} was never answered", self.auth_line));
                }
                return Err("a second auth on one socket".to_owned());
            }
            ClientFrame::Reauth { .. } => {
                return Err("tokens are replaced only by those of a provider".to_owned());
            }
            frame => self.ask(cx, frame, intent)?,
        }
        self.settle(cx);
        Ok(())
    }

    /// The recorded client sent what ours would not.
    pub(super) fn stranger(&mut self, values: &Values, frame: &Fields, now: u64) {
        let kind = frame.get("type").and_then(|id| values.as_text(*id)).and_then(Kind::of);
        if let Some(kind) = kind {
            self.model.ask(kind, frame.get(kind.key()).copied(), now, Asker::Stranger);
        }
    }

    /// A recorded message of the broker arrives.
    pub(super) fn receive(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        if self.is_early(cx, bytes) {
            return;
        }
        let bytes = self.with_our_ref(cx.values, bytes);
        self.take_in(cx, bytes);
        self.settle(cx);
    }

    /// The connection is lost.
    pub(super) fn lose(&mut self, cx: &mut Context<'_>, code: Option<u16>, reason: &str) {
        if !self.ended {
            self.check_nothing_due();
            self.model.lose(cx.values, code, reason);
            self.happens(cx, TransportEventKind::Closed { code, reason: reason.to_owned() });
            self.ended = true;
        }
    }

    /// The application leaves; the recorded client did so with `code` and `reason`.
    pub(super) fn leave(&mut self, cx: &mut Context<'_>, code: Option<u16>, reason: &str) {
        if self.ended {
            return;
        }
        self.check_nothing_due();
        // Brokers are silent about presence in rooms that they do not know.
        let unanswered = |command: &&Command| match command.kind {
            Kind::Connect => self.opened,
            Kind::Presence => false,
            _ => command.sent_at.is_some(),
        };
        for command in self.model.commands.iter().filter(unanswered) {
            self.failures.push(format!("line {} was never answered", command.line));
        }
        let op = self.core.disconnect(cx.instant(), Disconnect::Now);
        self.lines.insert(op, cx.line);
        self.expect_outcome(cx.line, Kind::Disconnect, Fields::new());
        self.model.end(cx.values, &Error::Rejected(Rejection::Disconnected).to_string(), Some(cx.line));
        self.ended = true;
        self.settle(cx);
        if self.closed.map(|(code, reason)| (Some(code), reason)) != Some((code, reason)) {
            let ours = self.closed;
            self.failures.push(format!("expected a close with {code:?} {reason:?}, got {ours:?}"));
        }
    }

    /// What is wrong since the last call.
    pub(super) fn take_failures(&mut self) -> Vec<String> {
        std::mem::take(&mut self.failures)
    }

    /// What is still missing when the recording ends.
    pub(super) fn missing(&self) -> Vec<(usize, String)> {
        let due = self.due.iter().map(|due| (due.line, "never sent".to_owned()));
        let open = self.model.commands.iter().map(|command| (command.line, "no outcome".to_owned()));
        due.chain(open).collect()
    }

    fn expect_outcome(&mut self, line: usize, kind: Kind, intent: Fields) {
        self.model.commands.push(Command { line, kind, intent, our_ref: None, sent_at: None });
    }

    fn ask(&mut self, cx: &mut Context<'_>, frame: &ClientFrame<'_>, intent: Fields) -> Result<(), String> {
        let now = cx.instant();
        let (kind, asked) = match frame {
            ClientFrame::GetLobbyPresence { lobby_id } => {
                (Kind::FetchLobby, self.core.fetch_lobby(now, lobby_id))
            }
            ClientFrame::GetPresence { room_id: Some(room) } => {
                (Kind::FetchPresence, self.core.fetch_presence(now, room))
            }
            ClientFrame::GetPresence { room_id: None } => return Err("a fetch names its room".to_owned()),
            ClientFrame::LobbySubscribe { lobby_id } => {
                (Kind::LobbySubscribe, self.core.lobby_subscribe(now, lobby_id))
            }
            ClientFrame::LobbyUnsubscribe { lobby_id } => {
                (Kind::LobbyUnsubscribe, self.core.lobby_unsubscribe(now, lobby_id))
            }
            ClientFrame::Presence { room_id, data } => {
                let data = payload(*data)?;
                let set = match room_id {
                    Some(room) => self.core.set_presence(now, room, data),
                    #[expect(deprecated, reason = "recorded clients do it")]
                    None => self.core.set_presence_without_room(now, data),
                };
                (Kind::Presence, set.map_err(Error::from))
            }
            ClientFrame::Publish(publish) => {
                let publish = publish_command(publish)?;
                (Kind::Publish, self.core.publish(now, publish).map_err(Error::from))
            }
            ClientFrame::SetFilters { topic, filters } => {
                let set = self.core.set_filters(now, topic, filters.clone());
                (Kind::SetFilters, set.map_err(Error::from))
            }
            ClientFrame::Subscribe(subscribe) => {
                let subscribe = subscribe_command(subscribe);
                (Kind::Subscribe, self.core.subscribe(now, subscribe).map_err(Error::from))
            }
            ClientFrame::Unsubscribe { topic } => (Kind::Unsubscribe, self.core.unsubscribe(now, topic)),
            other => return Err(format!("no command for {other:?}")),
        };
        match asked {
            Ok(op) => {
                self.lines.insert(op, cx.line);
                self.accepted(cx, kind, intent);
            }
            Err(Error::Misuse(misuse)) => return Err(misuse.to_string()),
            Err(other) => self.failures.push(format!("refused: {other}")),
        }
        Ok(())
    }

    /// A command was accepted: it must be sent, and end.
    fn accepted(&mut self, cx: &mut Context<'_>, kind: Kind, intent: Fields) {
        let key = intent.get(kind.key()).copied();
        let name = key.and_then(|id| cx.values.as_text(id)).unwrap_or_default().to_owned();
        self.expect_outcome(cx.line, kind, intent.clone());
        let mut asker = Asker::Command(cx.line);
        let mut is_sent = true;
        match kind {
            Kind::Subscribe => self.model.subscribe(&name),
            Kind::Unsubscribe => self.model.unsubscribe(&name),
            Kind::LobbyUnsubscribe => drop(self.model.lobbies.forget(&name)),
            Kind::LobbySubscribe => {
                if let Some(rooms) = self.model.lobbies.watch(cx.values, &name) {
                    self.model.different.insert(Different::LobbyJoined);
                    self.model.settle(cx.values, cx.line, |draft| {
                        draft.text("outcome", Some("lobby")).value("rooms", Some(rooms))
                    });
                    (asker, is_sent) = (Asker::Stranger, false);
                }
            }
            _ => {}
        }
        let is_tracked = kind == Kind::Publish && intent.contains_key("msgRef");
        if kind != Kind::Presence && !is_tracked {
            self.model.ask(kind, key, cx.now, asker);
        }
        if is_sent {
            self.due.push_back(Due { line: cx.line, intent, late: false });
        }
    }

    fn happens(&mut self, cx: &mut Context<'_>, kind: TransportEventKind) {
        self.core.handle_transport(cx.instant(), TransportEvent { id: self.transport, kind });
        self.settle(cx);
    }

    /// Whether a recorded message answers a publish that waits behind one that is tried again.
    fn is_early(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> bool {
        let frame = cx.values.read(bytes).ok().and_then(|id| cx.values.fields(id));
        let Some(reference) = frame.and_then(|frame| frame.get("msgRef").copied()) else { return false };
        let waits = |due: &&mut Due| !due.late && due.intent.get("msgRef") == Some(&reference);
        match self.due.iter_mut().find(waits) {
            Some(due) if !self.refs.contains_key(&reference) => due.late = true,
            _ => return false,
        }
        true
    }

    /// Whether the actor whose leave arrives is still in the room, as our broker sees it.
    fn remains(&self, cx: &mut Context<'_>, frame: &Fields) -> bool {
        let event = PresenceEvent::read(cx.values, frame).filter(|event| event.kind == "leave");
        let (Some(event), Some(room)) = (event, self.model.room.room()) else { return false };
        let mut question = BytesMut::new();
        ClientFrame::GetPresence { room_id: Some(room) }.encode(&mut question);
        let answers = cx.broker.ask(cx.conn, cx.now, &question);
        answers.iter().any(|answer| {
            let frame = cx.values.read(answer).ok().and_then(|id| cx.values.fields(id)).unwrap_or_default();
            frame.get("data").is_some_and(|list| shows_online(cx.values, *list, &event.actor))
        })
    }

    /// Gives the client a message and notes what it must do with it.
    fn take_in(&mut self, cx: &mut Context<'_>, bytes: Bytes) {
        if !bytes.is_empty() {
            match cx.values.read(&bytes).map(|id| cx.values.fields(id)) {
                Ok(Some(frame)) => {
                    self.model.remains = self.remains(cx, &frame);
                    self.model.frame(cx.values, &frame, cx.now);
                }
                Ok(None) => self.failures.push("the recorded message is not a map".to_owned()),
                Err(broken) => self.failures.push(format!("the recorded message is {broken}")),
            }
        }
        let kind = TransportEventKind::Message(bytes);
        self.core.handle_transport(cx.instant(), TransportEvent { id: self.transport, kind });
    }

    /// Takes everything that the client has to say, and compares it with what it must say.
    fn settle(&mut self, cx: &mut Context<'_>) {
        let mut out = BytesMut::new();
        loop {
            let known = self.core.subscriptions().map(|known| (known.id, known.topic.to_string()));
            self.topics.extend(known);
            let mut is_quiet = true;
            while let Some(transmit) = self.core.poll_transmit(cx.instant(), &mut out) {
                let frame = out.split_off(out.len() - transmit.len).freeze();
                self.sends(cx, &frame);
                is_quiet = false;
            }
            while let Some(event) = self.core.poll_event() {
                let lines = &self.lines;
                let line = |op| lines.get(&op).map_or(-1, |line| *line as i128);
                let event = of_event(cx.values, &event, line);
                cx.note(|values| Did::Told(told(values, &event)));
                self.got.push(event);
                is_quiet = false;
            }
            while let Some(message) = self.core.poll_message() {
                let topics = &self.topics;
                let whose = |id| topics.get(&id).cloned().unwrap_or_default();
                let message = of_message(cx.values, &message, whose);
                cx.note(|values| Did::Told(told(values, &message)));
                self.got.push(message);
            }
            while let Some(action) = self.core.poll_action() {
                match action {
                    Action::CloseTransport { code, reason, .. } => {
                        cx.note(|_| Did::Closed { code, reason });
                        self.closed = Some((code, reason));
                        self.ended = true;
                    }
                    other => self.failures.push(format!("unexpected action: {other:?}")),
                }
            }
            if is_quiet {
                break;
            }
        }
        self.hear_of_leaves(cx);
        self.compare(cx.values);
    }

    /// Takes out the leaves that may be told now; those that are not are told after asking the room, and soon.
    fn hear_of_leaves(&mut self, cx: &Context<'_>) {
        for (actor, told) in std::mem::take(&mut self.model.later) {
            match self.got.iter().position(|given| *given == told) {
                Some(index) => {
                    self.got.remove(index);
                    self.model.room.heard_of_leave(&actor);
                }
                None => {
                    self.model.different.insert(Different::PresenceRefetch);
                    self.model.room.deferred.get_or_insert(cx.now);
                }
            }
        }
        if self.model.room.deferred.is_some_and(|since| since + SOON < cx.now) {
            self.model.room.deferred = None;
            self.failures.push("the application was not told of a leave".to_owned());
        }
    }

    fn compare(&mut self, values: &mut Values) {
        self.failures.append(&mut self.model.complaints);
        let mut expected = std::mem::take(&mut self.model.expected);
        let mut got = std::mem::take(&mut self.got);
        // What happens at one moment has no order.
        expected.retain(|wanted| match got.iter().position(|given| given == wanted) {
            Some(index) => {
                got.remove(index);
                false
            }
            None => true,
        });
        for wanted in expected {
            let name = values.show(wanted["event"]);
            let same = |given: &Fields| {
                given["event"] == wanted["event"] && given.get("command") == wanted.get("command")
            };
            match got.iter().position(same) {
                Some(index) => {
                    let given = got.remove(index);
                    let different = differences(values, &wanted, &given);
                    self.failures.extend(different.into_iter().map(|reason| format!("{name}: {reason}")));
                }
                None => {
                    let shown = map(values, wanted);
                    self.failures.push(format!("the application was not told {}", values.show(shown)));
                }
            }
        }
        for given in got {
            let shown = map(values, given);
            self.failures.push(format!("the application was told {}", values.show(shown)));
        }
        let stats = self.core.stats();
        let counters = [
            ("unexpected frames", &mut self.model.unexpected, stats.frames_unexpected),
            ("suppressed messages", &mut self.model.duplicates, stats.messages_duplicate),
            ("undecodable frames", &mut 0, stats.frames_undecodable),
            ("dropped messages", &mut 0, stats.messages_dropped),
            ("stale events", &mut 0, stats.stale_transport_events),
        ];
        for (name, wanted, given) in counters {
            if *wanted != given {
                self.failures.push(format!("{name}: expected {wanted}, got {given}"));
                *wanted = given;
            }
        }
    }

    /// The client sends a frame: one that is due, or one that a rule names.
    fn sends(&mut self, cx: &mut Context<'_>, frame: &Bytes) {
        cx.note(|_| Did::Sent(frame.clone()));
        if frame.is_empty() {
            self.model.different.insert(Different::Heartbeats);
            return self.take_in(cx, Bytes::new());
        }
        let sent = cx.values.read(frame).map_err(|broken| broken.to_string());
        let sent = match sent.and_then(|id| intent(cx.values, id, Unnamed::Kept)) {
            Ok(sent) => sent,
            Err(reason) => return self.failures.push(format!("sent what is no client frame: {reason}")),
        };
        let text = |values: &Values, name: &str| {
            sent.get(name).and_then(|id| values.as_text(*id)).unwrap_or_default().to_owned()
        };
        let (frame_type, our_ref) = (text(cx.values, "type"), text(cx.values, "msgRef"));
        let found = self.due.iter().position(|due| agree(cx.values, &due.intent, &sent).is_ok());
        if let Some(due) = found.and_then(|index| self.due.remove(index)) {
            let overtaken = self.due.iter().take(found.unwrap_or_default());
            let is_publish = |due: &Due| {
                due.intent.get("type").is_some_and(|id| cx.values.as_text(*id) == Some("publish"))
            };
            let may_wait = cx.now <= self.model.held_until;
            if !overtaken.into_iter().all(|due| may_wait && is_publish(due)) {
                self.failures.push(format!("the frame of line {} overtakes others", due.line));
            }
            self.model.different.extend(agree(cx.values, &due.intent, &sent).unwrap_or_default());
            self.is_sent(cx, &due, &our_ref);
            if due.late {
                self.ask_broker(cx, frame);
            }
            return;
        }
        let asked = self.asks_by_itself(cx, &frame_type, &sent);
        if let Some(different) = asked {
            self.model.different.insert(different);
            return self.ask_broker(cx, frame);
        }
        let same_type = |due: &Due| due.intent.get("type") == sent.get("type");
        match self.due.iter().position(same_type).and_then(|index| self.due.remove(index)) {
            Some(due) => {
                let different = agree(cx.values, &due.intent, &sent).err().unwrap_or_default();
                let line = due.line;
                self.failures
                    .extend(different.into_iter().map(|text| format!("frame of line {line}: {text}")));
                self.is_sent(cx, &due, &our_ref);
            }
            None => {
                let shown = map(cx.values, sent);
                self.failures.push(format!("unexpected frame: {}", cx.values.show(shown)));
            }
        }
    }

    /// Lets our broker answer what the recorded one was not asked, or not now.
    fn ask_broker(&mut self, cx: &mut Context<'_>, frame: &[u8]) {
        for reply in cx.broker.ask(cx.conn, cx.now, frame) {
            if !is_delivery(&reply) {
                self.take_in(cx, reply.into());
            }
        }
    }

    fn is_sent(&mut self, cx: &mut Context<'_>, due: &Due, our_ref: &str) {
        let reference = due.intent.get("msgRef").copied();
        let Some(command) = self.model.commands.iter_mut().find(|command| command.line == due.line) else {
            return;
        };
        command.sent_at = Some(cx.now).filter(|_| command.kind != Kind::Connect);
        let unanswered = match command.kind {
            Kind::Publish => reference.is_none(),
            Kind::Presence => !due.intent.contains_key("roomId"),
            _ => false,
        };
        if let Some(reference) = reference {
            command.our_ref = Some(our_ref.to_owned());
            self.refs.entry(reference).or_default().push_back(our_ref.to_owned());
        }
        if unanswered {
            self.model.settle(cx.values, due.line, |draft| draft.text("outcome", Some("sent")));
        }
    }

    /// By which rule the client may send this although the recorded one did not.
    fn asks_by_itself(&mut self, cx: &mut Context<'_>, frame_type: &str, sent: &Fields) -> Option<Different> {
        let kind = Kind::of(frame_type)?;
        let key = sent.get(kind.key()).copied();
        let name = key.and_then(|id| cx.values.as_text(id)).unwrap_or_default().to_owned();
        let (different, asker) = match kind {
            Kind::FetchLobby => {
                let index = self.model.cold.iter().position(|(slug, _)| *slug == name)?;
                (Different::LobbyRefetch, self.model.cold.remove(index).1)
            }
            Kind::FetchPresence if std::mem::take(&mut self.model.room.refetch_due) => {
                (Different::PresenceRefetch, Asker::Client)
            }
            Kind::LobbySubscribe if self.model.lobbies.is_watched(&name) => {
                (Different::LobbyKeepAlive, Asker::Client)
            }
            Kind::Publish => {
                let our_ref = sent.get("msgRef").and_then(|id| cx.values.as_text(*id)).map(str::to_owned);
                let command = self.model.publish_with(our_ref.as_deref())?;
                agree(cx.values, &command.intent, sent).ok()?;
                command.sent_at = Some(cx.now);
                return Some(Different::PublishRetry);
            }
            _ => return None,
        };
        self.model.ask(kind, key, cx.now, asker);
        Some(different)
    }

    fn check_nothing_due(&mut self) {
        for due in std::mem::take(&mut self.due) {
            self.failures.push(format!("the frame of line {} was not sent", due.line));
        }
    }

    /// A recorded message with our reference in place of the recorded one.
    fn with_our_ref(&mut self, values: &mut Values, bytes: &[u8]) -> Bytes {
        let unchanged = Bytes::copy_from_slice(bytes);
        let Some(frame) = values.read(bytes).ok().and_then(|id| values.fields(id)) else { return unchanged };
        let reference = frame.get("msgRef").and_then(|id| self.refs.get_mut(id));
        let Some(ours) = reference.and_then(VecDeque::pop_front) else { return unchanged };
        let Ok(mut frame) = ServerFrame::decode(bytes) else { return unchanged };
        match &mut frame {
            ServerFrame::Published { msg_ref, .. } => *msg_ref = Text::from(ours.as_str()),
            ServerFrame::Error(error) => error.msg_ref = Some(Text::from(ours.as_str())),
            _ => return unchanged,
        }
        let mut out = BytesMut::new();
        frame.encode(&mut out);
        out.freeze()
    }
}

/// Whether our frame is the recorded one, and by which rules.
fn agree(values: &Values, recorded: &Fields, ours: &Fields) -> Result<Vec<Different>, Vec<String>> {
    let (mut recorded, mut ours) = (recorded.clone(), ours.clone());
    let mut rules = Vec::new();
    match recorded.get("type").and_then(|id| values.as_text(*id)) {
        Some("auth") => {
            for name in ["loadBalance", "loadBalanceGroup", "protocolVersion", "reconnect"] {
                if recorded.remove(name) != ours.remove(name) {
                    rules.push(Different::AuthFields);
                }
            }
        }
        // References are each client's own; whether there is one is not.
        Some("publish") if recorded.contains_key("msgRef") && ours.contains_key("msgRef") => {
            recorded.remove("msgRef");
            ours.remove("msgRef");
        }
        _ => {}
    }
    if recorded == ours { Ok(rules) } else { Err(differences(values, &recorded, &ours)) }
}

fn payload(data: RawValue<'_>) -> Result<Payload, String> {
    Payload::from_msgpack(data.as_bytes().to_vec()).map_err(|misuse: Misuse| misuse.to_string())
}

fn publish_command(publish: &nolag_core::wire::Publish<'_>) -> Result<Publish, String> {
    let mut command = Publish::new(publish.topic, payload(publish.data)?);
    command.qos = publish.qos;
    command.retain = publish.retain;
    command.echo = publish.echo;
    command.filter = publish.filter.map(str::to_owned);
    command.filters = publish.filters.iter().map(|filter| (*filter).to_owned()).collect();
    command.tracked = publish.msg_ref.is_some();
    Ok(command)
}

fn subscribe_command(subscribe: &nolag_core::wire::Subscribe<'_>) -> Subscribe {
    let options = SubscribeOptions {
        qos: subscribe.qos,
        filters: subscribe.filters.clone(),
        load_balance: Some(subscribe.load_balance),
        load_balance_group: subscribe.load_balance_group.map(str::to_owned),
    };
    // A recorded client sends a frame whatever stands already.
    Subscribe { options, refresh: true, ..Subscribe::new(subscribe.topic) }
}

/// Whether a frame is no answer to whoever asked.
fn is_delivery(frame: &[u8]) -> bool {
    matches!(ServerFrame::decode(frame), Ok(ServerFrame::Message(_) | ServerFrame::Presence(_)))
}
