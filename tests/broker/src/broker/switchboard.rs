//! Faults at work.

use std::collections::BTreeMap;

use bytes::Bytes;
use nolag_core::{
    Instant,
    wire::{AuthReply, ErrorFrame, FrameMap, Key, ServerFrame},
};

use super::{BrokerCore, ConnectionId, MAX_HELD_BYTES, as_text};
use crate::{Direction, Effect, Fault, fault::Trigger};

/// Bytes of delayed frames; above it the oldest go on early.
const MAX_DELAYED_BYTES: usize = 64 << 20;

/// Names a fault of one broker, until it is removed. The default names none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(u64);

/// The faults that are on, and what they keep back: at most 64 MiB delayed, and 16 MiB for each `hold`.
#[derive(Debug, Default)]
pub(super) struct Switchboard {
    faults: BTreeMap<FaultId, Active>,
    next: u64,
    delayed: BTreeMap<(Instant, u64), Caught>,
    delayed_bytes: usize,
}

#[derive(Debug)]
struct Active {
    fault: Fault,
    seen: u32,
    struck: u32,
    held: Vec<Caught>,
    held_bytes: usize,
}

/// A frame that was kept back.
#[derive(Debug)]
struct Caught {
    conn: ConnectionId,
    direction: Direction,
    frame: Bytes,
}

/// A fault that strikes.
#[derive(Debug)]
pub(super) struct Strike {
    id: FaultId,
    pub(super) effect: Effect,
}

impl Switchboard {
    pub(super) fn is_quiet(&self) -> bool {
        self.faults.is_empty()
    }

    fn add(&mut self, fault: Fault) -> FaultId {
        self.next += 1;
        let id = FaultId(self.next);
        self.faults.insert(id, Active { fault, seen: 0, struck: 0, held: Vec::new(), held_bytes: 0 });
        id
    }

    /// Counts an occasion, and finds the fault that strikes. `frame` is direction and type; without it, a connection
    /// opens.
    fn strike(
        &mut self,
        conn: ConnectionId,
        actor_id: Option<&str>,
        frame: Option<(Direction, &str)>,
    ) -> Option<Strike> {
        let mut strike = None;
        for (id, active) in &mut self.faults {
            if !active.fault.concerns(conn, actor_id, frame) {
                continue;
            }
            active.seen = active.seen.saturating_add(1);
            let left = active.fault.times.is_none_or(|times| active.struck < times);
            if strike.is_none() && left && active.seen > active.fault.skip {
                active.struck = active.struck.saturating_add(1);
                strike = Some(Strike { id: *id, effect: active.fault.effect.clone() });
            }
        }
        self.faults.retain(|_, active| !active.is_over());
        strike
    }

    /// The next delayed frame that is due, or that there is no room for.
    fn pop_delayed(&mut self, now: Instant) -> Option<Caught> {
        let first = self.delayed.first_entry()?;
        if first.key().0 > now && self.delayed_bytes <= MAX_DELAYED_BYTES {
            return None;
        }
        let caught = first.remove();
        self.delayed_bytes -= caught.frame.len();
        Some(caught)
    }

    /// When the next delayed frame is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((due, _), _)| *due)
    }
}

impl Active {
    fn is_over(&self) -> bool {
        self.held.is_empty()
            && self.fault.effect != Effect::Hold
            && self.fault.times.is_some_and(|times| self.struck >= times)
    }
}

impl Fault {
    fn concerns(&self, conn: ConnectionId, actor_id: Option<&str>, frame: Option<(Direction, &str)>) -> bool {
        let triggered = match (&self.trigger, frame) {
            (Trigger::Open, None) => true,
            (Trigger::Frame(direction, wanted), Some((way, frame_type))) => {
                *direction == way && wanted.as_deref().is_none_or(|wanted| wanted == frame_type)
            }
            _ => false,
        };
        triggered
            && self.connection.is_none_or(|wanted| wanted == conn)
            && self.actor.as_deref().is_none_or(|wanted| Some(wanted) == actor_id)
    }
}

impl BrokerCore {
    /// Switches a fault on, for existing and new connections.
    pub fn add_fault(&mut self, now: Instant, fault: Fault) -> FaultId {
        self.advance(now);
        self.switchboard.add(fault)
    }

    /// Switches a fault off, and lets go on what it holds. Returns whether it was still on.
    pub fn remove_fault(&mut self, now: Instant, id: FaultId) -> bool {
        self.advance(now);
        let Some(active) = self.switchboard.faults.remove(&id) else { return false };
        active.held.into_iter().for_each(|caught| self.go_on(caught));
        true
    }

    /// Switches all faults off. What is delayed stays delayed.
    pub fn clear_faults(&mut self, now: Instant) {
        let ids: Vec<FaultId> = self.switchboard.faults.keys().copied().collect();
        ids.into_iter().for_each(|id| _ = self.remove_fault(now, id));
    }

    /// The faults that are on, in the order in which they were added, and how often each has struck.
    pub fn faults(&self) -> impl Iterator<Item = (FaultId, &Fault, u32)> {
        self.switchboard.faults.iter().map(|(id, active)| (*id, &active.fault, active.struck))
    }

    /// Looks whether a new connection is struck.
    pub(super) fn strike_open(&mut self, conn: ConnectionId) {
        let Some(strike) = self.switchboard.strike(conn, None, None) else { return };
        match strike.effect {
            Effect::Cut => _ = self.doomed.insert(conn),
            Effect::Restart => self.restart_due = true,
            Effect::Silence => _ = self.silent.insert(conn),
            _ => {}
        }
    }

    /// Looks whether a frame is struck.
    pub(super) fn strike_frame(
        &mut self,
        conn: ConnectionId,
        way: Direction,
        frame: &[u8],
    ) -> Option<Strike> {
        if self.switchboard.is_quiet() {
            return None;
        }
        let map = FrameMap::parse(frame).ok();
        let frame_type = match &map {
            None if frame.is_empty() => "heartbeat",
            map => map.as_ref().and_then(|map| map.str(Key::Type)).unwrap_or_default(),
        };
        let connection = self.connections.get(&conn)?;
        let actor_id = connection.identity.as_ref().map(|identity| identity.actor.actor_id.as_str());
        self.switchboard.strike(conn, actor_id, Some((way, frame_type)))
    }

    /// Does to a frame what the fault says.
    pub(super) fn suffer(&mut self, conn: ConnectionId, way: Direction, frame: Bytes, strike: Strike) {
        let caught = Caught { conn, direction: way, frame };
        match strike.effect {
            Effect::Cut => _ = self.doomed.insert(conn),
            Effect::Delay(by) => {
                self.switchboard.next += 1;
                self.switchboard.delayed_bytes += caught.frame.len();
                self.switchboard.delayed.insert((self.now + by, self.switchboard.next), caught);
            }
            Effect::Drop => {}
            Effect::ExpireToken => {
                self.expire_token(self.now, conn);
                self.go_on(caught);
            }
            Effect::Hold => {
                let Some(active) = self.switchboard.faults.get_mut(&strike.id) else { return };
                active.held_bytes += caught.frame.len();
                if active.held_bytes > MAX_HELD_BYTES {
                    self.doomed.insert(conn);
                } else {
                    active.held.push(caught);
                }
            }
            Effect::Refuse(error) => {
                if way == Direction::FromClient {
                    self.refuse_frame(conn, &caught.frame, &error);
                }
            }
            Effect::Restart => self.restart_due = true,
            Effect::Silence => _ = self.silent.insert(conn),
        }
    }

    /// Lets delayed frames go on whose time has come.
    pub(super) fn resume_delayed(&mut self) {
        while let Some(caught) = self.switchboard.pop_delayed(self.now) {
            self.go_on(caught);
        }
    }

    fn go_on(&mut self, caught: Caught) {
        match caught.direction {
            Direction::FromClient => self.act_on(caught.conn, &caught.frame),
            Direction::ToClient => self.transmit(caught.conn, caught.frame),
        }
    }

    /// Answers a client's frame with an error of the form that belongs to it.
    fn refuse_frame(&mut self, conn: ConnectionId, frame: &Bytes, error: &str) {
        let Ok(map) = FrameMap::parse(frame) else { return };
        // What cannot be packed again is left out.
        let [topic, msg_ref, lobby_id] = [Key::Topic, Key::MsgRef, Key::LobbyId]
            .map(|key| map.present(key).and_then(|value| self.echo(value).ok()));
        let reply = match map.str(Key::Type) {
            Some("auth") => ServerFrame::Auth(AuthReply { error: Some(error), ..AuthReply::default() }),
            Some("reauth") => {
                ServerFrame::Reauth { success: false, error: Some(error), auth_expires_at: None }
            }
            _ => ServerFrame::Error(ErrorFrame {
                error,
                code: code_of(error),
                topic: topic.as_ref().map(as_text),
                msg_ref: msg_ref.as_ref().map(as_text),
                lobby_id: lobby_id.as_ref().map(as_text),
                ..ErrorFrame::default()
            }),
        };
        self.send_frame(conn, &reply);
    }
}

/// The code of an error that has one.
fn code_of(error: &str) -> Option<u32> {
    Some(match error {
        "rate_limit_exceeded" => 42910,
        "monthly_quota_exceeded" => 42920,
        "message_too_large" => 42930,
        "unknown_topic" => 42940,
        "wake_failed" => 42950,
        "invalid_filter" => 42960,
        _ => return None,
    })
}
