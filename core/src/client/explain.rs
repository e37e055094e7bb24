//! What the core is doing, in words.

use alloc::{format, string::String};
use core::fmt::Write as _;

use super::{ClientCore, Link};
use crate::error::Op;

impl ClientCore {
    /// Says in words where the client stands, what it waits for, and what its next wake-up is for.
    ///
    /// For logs and people; the wording may change. Holds no token and no payload.
    pub fn explain(&self) -> String {
        let mut text = match self.link {
            Link::Idle => match &self.gave_up {
                Some(cause) => format!("gave up: {cause}; call connect() to start again"),
                None => String::from("idle; call connect() to start"),
            },
            Link::AwaitingToken => String::from("waiting for a token from its provider"),
            Link::Backoff => format!("waiting to reconnect, {} attempts made", self.attempts),
            Link::Opening(id) => format!("opening transport {}", id.0),
            Link::Authenticating(id) => format!("waiting for the answer to auth on transport {}", id.0),
            Link::Ready { draining, .. } => {
                let actor = self.session.as_ref().map_or("", |session| &*session.actor_id);
                let doing = if draining { "finishing accepted work" } else { "connected" };
                format!("{doing} as {actor:?}, {} subscriptions", self.registry.len())
            }
        };
        let unanswered = self.waiting_requests().iter().filter(|request| request.expired).count();
        let count = |kind: Op| self.ops.iter().filter(|(_, pending)| pending.kind == kind).count();
        let waiting = [
            (count(Op::Connect), "connects"),
            (count(Op::Disconnect), "disconnects"),
            (count(Op::Subscribe), "subscribes"),
            (count(Op::Unsubscribe), "unsubscribes"),
            (count(Op::Publish), "publishes"),
            (count(Op::SetFilters), "filter changes"),
            (count(Op::SetPresence), "presence changes"),
            (count(Op::FetchPresence), "presence fetches"),
            (count(Op::LobbySubscribe), "lobby subscribes"),
            (count(Op::LobbyUnsubscribe), "lobby unsubscribes"),
            (count(Op::FetchLobby), "lobby fetches"),
            (unanswered, "overdue replies"),
            (self.outbound.len() + self.publishes.waiting(), "frames to send"),
            (self.acks.len(), "message acks to send"),
            (self.inbox.len(), "messages for the application"),
        ];
        for (count, what) in waiting {
            if count > 0 {
                // Writing to a String cannot fail.
                let _ = write!(text, "; {count} {what}");
            }
        }
        if let Some(since) = self.inbox.paused_since() {
            let pause = self.now.saturating_since(since).as_secs_f32();
            let _ = write!(text, "; not reading for {pause:.1} s because the application is behind");
        }
        if let Some(at) = self.poll_timeout() {
            let purpose = match self.timers.next() {
                Some((timer_at, timer)) if timer_at <= at => timer.purpose(),
                _ => "stop waiting for an answer",
            };
            let _ =
                write!(text, "; wakes in {:.1} s to {purpose}", at.saturating_since(self.now).as_secs_f32());
        }
        text
    }
}
