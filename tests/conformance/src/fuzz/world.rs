//! Two clients and a broker, over links that do as they like.

use std::{collections::BTreeMap, time::Duration};

use nolag_broker::{BrokerConfig, BrokerCore, Instant, Limits, Output, Profile};
use nolag_core::{
    Config, OfflinePolicy, OpId, Outcome, Payload, ResendPolicy, Status,
    wire::{Filter, canonical_group},
};

use super::{
    commands::{self, Command, TOPICS},
    frames::CLOSE_CODES,
    input::Input,
    peer::{Cut, Peer, Up},
    witness::{Outsider, PROBED_TOPICS, Witness},
};

/// Steps of one script.
const MAX_STEPS: usize = 300;

/// How long a quiet network may take to settle everything, and in how many steps.
const MAX_QUIET: Duration = Duration::from_secs(3600);
const MAX_QUIET_STEPS: usize = 20_000;

/// How long everything must stay settled: what a client does of its own, such as taking back what nobody wants any more,
/// is answered or given up within that time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a publish; more would only be slow.
const MAX_PADDING: usize = 2_000;

/// Bytes of presence.
const MAX_PRESENCE: usize = 500;

/// What a script can do, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A [`Command`] of one client.
    Command,
    /// What is under way to the broker, or from it, arrives: some of it, or all.
    DeliverUp,
    DeliverDown,
    DeliverAll,
    Cut,
    Pass,
    Due,
    /// A third connection: opened, closed, or a message of any bytes.
    Raw,
    /// The same with JSON.
    RawText,
    RawClose,
    /// The broker loses its memory.
    Restart,
    /// The broker ends a client's connection.
    Close,
    Hold,
    Release,
    Quota,
}

impl Step {
    const ALL: [Self; 15] = [
        Self::Command,
        Self::DeliverUp,
        Self::DeliverDown,
        Self::DeliverAll,
        Self::Cut,
        Self::Pass,
        Self::Due,
        Self::Raw,
        Self::RawText,
        Self::RawClose,
        Self::Restart,
        Self::Close,
        Self::Hold,
        Self::Release,
        Self::Quota,
    ];
}

/// Drives two clients and a broker by a script: commands, what arrives when, cuts that one side or both notice, the
/// broker's own whims, time, and a third connection that says anything.
///
/// The first three bytes choose the configuration; then each step is a byte and its arguments. At the end the network
/// is quiet: what was cut is noticed, and everything arrives.
///
/// # Panics
/// When one of these does not hold:
///
/// * every accepted command ends exactly once, and all of them do when the network is quiet;
/// * a client is then connected or has given up for good, and the broker has it subscribed to just what the client says
///   and was last told;
/// * a message that somebody else publishes then reaches a client once for each subscription that it matches, and else
///   not;
/// * a publish that was acked was accepted by the broker, one that was not sent, expired or was refused was not, and
///   without resending none was accepted twice;
/// * after leaving nothing is left, at either end.
pub fn client_vs_broker(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut world = World::new(&mut input);
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        let step = input.pick(&Step::ALL);
        world.take(step, &mut input);
    }
    world.run_to_quiet();
    world.check_subscriptions();
    world.check_publishes();
    world.probe();
    world.leave();
}

struct World {
    now: Instant,
    broker: BrokerCore,
    peers: [Peer; 2],
    witness: Witness,
    raw: Option<Outsider>,
    resends: bool,
    /// Publishes by their number: whose, and which command.
    published: BTreeMap<u32, (usize, OpId)>,
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let now = Instant::from_micros(1_000_000);
        let (profile, how, limits) = (input.pick(&Profile::ALL), input.byte(), input.byte());
        let on = |byte: u8, bit: u8| byte >> bit & 1 == 1;
        let config = BrokerConfig {
            profile,
            record_messages: !on(how, 0),
            durable_delivery: on(how, 1),
            limits: Limits {
                publishes_per_second: [Some(50), Some(2), None, Some(1)][usize::from(limits & 3)],
                max_data_bytes: Some(if on(limits, 2) { 100 } else { 900_000 }),
                max_frame_bytes: Some(if on(limits, 3) { 1_000 } else { 1 << 20 }),
                ..Limits::default()
            },
            ..BrokerConfig::default()
        };
        let mut broker = BrokerCore::new(config, now);
        let resends = on(how, 2);
        let peer = |index: u8| {
            let mut config = Config::new(format!("dev-token-peer-{index}"));
            config.retry_first_connect = true;
            config.reconnect.max_attempts = None;
            config.client_id = on(how, 3 + index).then(|| format!("kiosk-{index}"));
            config.resend = if resends { ResendPolicy::AtLeastOnce } else { ResendPolicy::ReportUnknown };
            if on(how, 5) {
                let max_age = on(how, 6).then(|| Duration::from_secs(20));
                config.offline = OfflinePolicy::Queue { max_messages: 5, max_bytes: 10_000, max_age };
            }
            config.publish_rate = [Some(50), None, Some(1)][usize::from(limits >> 4 & 3).min(2)];
            config.limits.max_pending = if on(limits, 6) { 8 } else { 1_000 };
            Peer::new(config, index.into(), now)
        };
        let peers = [peer(0), peer(1)];
        let witness = Witness::new(&mut broker, now);
        let mut world = Self { now, broker, peers, witness, raw: None, resends, published: BTreeMap::new() };
        world.pump(None);
        world
    }

    fn take(&mut self, step: Step, input: &mut Input<'_>) {
        match step {
            Step::Command => {
                let peer = input.below(2);
                self.command(peer, commands::any(input));
            }
            Step::DeliverUp => {
                let peer = input.below(2);
                (0..=input.below(4)).for_each(|_| _ = self.deliver_up(peer));
            }
            Step::DeliverDown => {
                let peer = input.below(2);
                (0..=input.below(4)).for_each(|_| _ = self.deliver_down(peer));
            }
            Step::DeliverAll => self.deliver_all(),
            Step::Cut => {
                let peer = input.below(2);
                let cut = input.pick(&[Cut::Noticed, Cut::ClientBlind, Cut::BrokerBlind]);
                self.peers[peer].cut(self.now, &mut self.broker, cut);
                self.pump(None);
            }
            Step::Pass => self.pass(input.span()),
            Step::Due => {
                let due = self.next_event();
                self.pass(due.map_or(Duration::ZERO, |at| at.saturating_since(self.now)));
            }
            Step::Raw => {
                let frame = input.long_block();
                let now = self.now;
                let raw = self.raw.get_or_insert_with(|| Outsider::open(&mut self.broker, now));
                raw.says(&mut self.broker, now, frame);
                self.pump(None);
            }
            Step::RawText => {
                let text = String::from_utf8_lossy(input.block()).into_owned();
                if let Some(raw) = &self.raw {
                    self.broker.handle_text(self.now, raw.conn(), &text);
                    self.pump(None);
                }
            }
            Step::RawClose => self.close_raw(),
            Step::Restart => {
                self.broker.restart(self.now);
                // What the broker says of it comes first, so that the witness misses nothing.
                self.pump(None);
                self.witness = self.witness.again(&mut self.broker, self.now);
                self.pump(None);
            }
            Step::Close => {
                let conn = self.peers[input.below(2)].conn();
                let code = input.pick(&CLOSE_CODES);
                match (conn, code) {
                    (Some(conn), Some(code)) => self.broker.close(self.now, conn, code, ""),
                    (Some(conn), None) => self.broker.cut(self.now, conn),
                    (None, _) => {}
                }
                self.pump(None);
            }
            Step::Hold => {
                if let Some(conn) = self.peers[input.below(2)].conn() {
                    self.broker.hold(self.now, conn);
                }
            }
            Step::Release => {
                if let Some(conn) = self.peers[input.below(2)].conn() {
                    self.broker.release(self.now, conn);
                    self.pump(None);
                }
            }
            Step::Quota => self.broker.set_quota_exceeded(self.now, input.flag()),
        }
    }

    fn command(&mut self, peer: usize, mut command: Command) {
        let number = u32::try_from(self.published.len()).unwrap_or(u32::MAX);
        let publishes = matches!(command, Command::Publish(_));
        match &mut command {
            Command::Publish(publish) => {
                let padding = "x".repeat(publish.payload.packed_len().min(MAX_PADDING));
                publish.payload = Payload::encode(&(number, padding)).expect("a number and a text");
            }
            Command::SetPresence(_, data) if Self::cannot_take(data) => {
                *data = Payload::encode("here").expect("a text");
            }
            _ => {}
        }
        if let Some(op) = self.peers[peer].give(self.now, command).filter(|_| publishes) {
            self.published.insert(number, (peer, op));
        }
        self.pump(None);
    }

    /// Whether the broker would end the connection for such presence. None is too large for real brokers' frames, only for
    /// those that are allowed here.
    fn cannot_take(data: &Payload) -> bool {
        data.packed_len() > MAX_PRESENCE
    }

    // ---- the network ----

    fn deliver_up(&mut self, peer: usize) -> bool {
        let Some((conn, up)) = self.peers[peer].next_up(self.now, &mut self.broker) else { return false };
        match (conn, up) {
            (Some(conn), Up::Frame(frame)) => self.broker.handle_binary(self.now, conn, &frame),
            (Some(conn), Up::Close) => self.broker.handle_close(self.now, conn),
            _ => {}
        }
        self.pump(Some(peer));
        true
    }

    fn deliver_down(&mut self, peer: usize) -> bool {
        let delivered = self.peers[peer].take_down(self.now);
        self.pump(None);
        delivered
    }

    fn deliver_all(&mut self) {
        loop {
            let mut any = false;
            for peer in 0..self.peers.len() {
                any |= self.deliver_up(peer) | self.deliver_down(peer);
            }
            if !any {
                return;
            }
        }
    }

    /// Carries out what the clients and the broker want. `speaker` is the client that the broker has just heard.
    fn pump(&mut self, speaker: Option<usize>) {
        while let Some(output) = self.broker.poll_output() {
            let conn = output.conn();
            if conn == self.witness.conn() {
                match output {
                    Output::Send { frame, .. } => self.witness.hears(&frame, speaker.is_some()),
                    Output::Close { .. } | Output::Cut { .. } => {}
                }
            } else if self.raw.as_ref().is_some_and(|raw| raw.conn() == conn) {
                if !matches!(output, Output::Send { .. }) {
                    self.raw = None;
                }
            } else if let Some(peer) = self.peers.iter_mut().find(|peer| peer.has(conn)) {
                peer.receive(output);
            }
        }
        self.peers.iter_mut().for_each(|peer| peer.pump(self.now));
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.broker.handle_ping(self.now, self.witness.conn());
        self.pump(None);
        self.peers.iter_mut().for_each(|peer| peer.core.handle_timeout(self.now));
        self.broker.handle_timeout(self.now);
        self.pump(None);
    }

    fn next_event(&self) -> Option<Instant> {
        let clients = self.peers.iter().filter_map(|peer| peer.core.poll_timeout());
        clients.chain(self.broker.poll_timeout()).min()
    }

    fn close_raw(&mut self) {
        if let Some(raw) = self.raw.take() {
            self.broker.handle_close(self.now, raw.conn());
            self.pump(None);
        }
    }

    // ---- the end ----

    fn run_to_quiet(&mut self) {
        self.close_raw();
        self.broker.set_quota_exceeded(self.now, false);
        for peer in 0..self.peers.len() {
            if let Some(conn) = self.peers[peer].conn() {
                self.broker.release(self.now, conn);
            }
            self.peers[peer].notice_cuts(self.now, &mut self.broker);
            self.pump(None);
        }
        let end = self.now + MAX_QUIET;
        let mut settled = None;
        for _ in 0..MAX_QUIET_STEPS {
            self.deliver_all();
            if self.peers.iter().all(Peer::is_settled) {
                let since = *settled.get_or_insert(self.now);
                if self.now.saturating_since(since) >= PATIENCE {
                    return;
                }
            } else {
                settled = None;
            }
            let next = self.next_event().map_or(self.now + PATIENCE, |next| next.min(self.now + PATIENCE));
            assert!(next < end, "not quiet after an hour: {}", self.explain());
            self.pass(next.saturating_since(self.now));
        }
        panic!("not quiet after {MAX_QUIET_STEPS} steps: {}", self.explain());
    }

    fn explain(&self) -> String {
        self.peers.iter().map(|peer| format!("{}; {:?}. ", peer.core.explain(), peer.open())).collect()
    }

    fn check_subscriptions(&self) {
        for peer in &self.peers {
            let says: Vec<String> = peer.core.subscriptions().map(|info| info.topic.to_string()).collect();
            let info = self.broker.connections().find(|info| Some(info.id) == peer.conn());
            if peer.core.status() != Status::Connected {
                assert!(says.is_empty() && info.is_none(), "{says:?} and {info:?} after giving up");
                continue;
            }
            let mut has = info.expect("a connected client has a connection").subscriptions;
            let mut wanted = says.clone();
            has.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(has, wanted, "the broker has, and the client wants");
            for (topic, is_subscribed) in peer.told() {
                let is_there = says.iter().any(|said| said == topic);
                assert_eq!(is_there, is_subscribed, "{topic}: {}", peer.core.explain());
            }
        }
    }

    fn check_publishes(&self) {
        for (number, (peer, op)) in &self.published {
            let accepted = self.witness.times(*number);
            let outcome = self.peers[*peer].outcome(*op);
            match outcome {
                Some(Outcome::Acked) => assert!(accepted > 0, "publish {number} was acked for nothing"),
                Some(Outcome::NotSent(_) | Outcome::Expired) => {
                    assert_eq!(accepted, 0, "publish {number} was accepted: {outcome:?}");
                }
                // An earlier copy may have been accepted.
                Some(Outcome::Refused(_)) if self.resends => {}
                Some(Outcome::Refused(_)) => {
                    assert_eq!(accepted, 0, "publish {number} was accepted: {outcome:?}");
                }
                Some(Outcome::Sent | Outcome::Unknown(_)) => {}
                other => panic!("publish {number} ended as {other:?}"),
            }
            assert!(accepted <= 1 || self.resends, "publish {number} was accepted {accepted} times");
        }
    }

    /// Publishes from outside, with each kind of filter, and looks at what arrives.
    fn probe(&mut self) {
        let group: [&str; 2] = ["x", "y"];
        let kinds = [
            (None, Vec::new(), String::new()),
            (Some("x"), Vec::new(), "x".to_owned()),
            (Some("A"), Vec::new(), "A".to_owned()),
            (None, group.to_vec(), canonical_group(group.into_iter())),
        ];
        for (index, topic) in PROBED_TOPICS.iter().enumerate() {
            for (kind, (filter, filters, canonical)) in kinds.iter().enumerate() {
                // Into another second of the publish limit.
                self.pass(Duration::from_secs(2));
                self.deliver_all();
                let number = u32::MAX - u32::try_from(index * kinds.len() + kind).unwrap_or(0);
                self.peers.iter_mut().for_each(|peer| peer.heard.clear());
                self.witness.publish(&mut self.broker, self.now, topic, *filter, filters, number);
                self.pump(None);
                self.deliver_all();
                for peer in &self.peers {
                    check_heard(peer, TOPICS[index], canonical, number);
                }
            }
        }
    }

    fn leave(&mut self) {
        for peer in 0..self.peers.len() {
            self.command(peer, Command::Disconnect(nolag_core::Disconnect::Now));
            self.deliver_all();
        }
        self.pump(None);
        for peer in &self.peers {
            assert_eq!(peer.core.status(), Status::Disconnected);
            assert_eq!(peer.core.poll_timeout(), None, "{}", peer.core.explain());
            assert_eq!(peer.core.subscriptions().count(), 0);
            assert!(peer.open().is_empty(), "without an outcome: {:?}", peer.open());
        }
        let left: Vec<_> = self.broker.connections().filter(|info| info.id != self.witness.conn()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Checks that a client heard a publish to what `subscribed` covers exactly if its filters let it through.
fn check_heard(peer: &Peer, subscribed: &str, canonical: &str, number: u32) {
    if peer.core.status() != Status::Connected {
        return;
    }
    let info = peer.core.subscriptions().find(|info| &*info.topic == subscribed);
    // Of a group another member may have it.
    if info.as_ref().is_some_and(|info| info.options.load_balance == Some(true)) {
        return;
    }
    let matches = |filters: &[Filter]| {
        filters.is_empty() || filters.iter().any(|filter| filter.canonical() == canonical)
    };
    let expected = usize::from(info.as_ref().is_some_and(|info| matches(&info.options.filters)));
    let heard = peer.heard.iter().filter(|heard| heard.number == number).count();
    assert_eq!(heard, expected, "{subscribed} with filter {canonical:?}: {info:?}");
    let of = peer
        .heard
        .iter()
        .filter(|heard| heard.number == number)
        .all(|heard| heard.subscription == info.as_ref().map(|info| info.id));
    assert!(of, "{subscribed}: delivered for another subscription");
}
