//! Publishes: what the broker accepted, and what the client said of it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::Duration,
};

use nolag_core::{
    Action, Error, Event, Instant, OfflinePolicy, OpId, Outcome, Rejection, ResendPolicy,
    wire::{ClientFrame, ServerFrame, Text},
};

use super::Known;
use crate::{Command, Fault, Moment, chatter};

/// A publish is known by its number among those of its client, which its payload holds.
type Number = u64;

/// Publishes of one client.
#[derive(Debug, Default)]
pub(crate) struct Publishing {
    pub(super) published: u64,
    pub(super) acked: u64,
    pub(super) reported: u64,
    /// Without an outcome.
    open: BTreeMap<OpId, (Number, Instant)>,
    /// Handed to a transport and without an outcome.
    in_flight: BTreeSet<Number>,
    /// Received by the broker and not answered: reference → topic and number.
    unanswered: HashMap<String, (String, Number)>,
    accepted: HashSet<Number>,
    /// Of each topic the newest that was accepted.
    newest: BTreeMap<String, Number>,
    /// Refused once for coming too soon: these may be overtaken.
    too_soon: HashSet<Number>,
    repeats: u64,
    /// As many as could have been under way when connections were lost.
    allowed_repeats: u64,
    /// Disconnects without an outcome.
    leaving: BTreeSet<OpId>,
    /// Ended undone although they are to be sent at least once.
    undone: Vec<(OpId, Outcome)>,
    /// Until when the client's clock and the broker's do not run alike.
    clock_jumped: Instant,
    /// When the client's time last passed in a leap.
    disturbed: Instant,
}

/// How the broker answered a publish.
pub(crate) enum Answer {
    Nothing,
    Accepted { topic: String, number: Number, first: bool },
    TooSoon { number: Number },
}

impl Publishing {
    pub(super) fn accepted(&mut self, moment: &Moment<'_>, op: OpId, command: &Command) {
        match command {
            Command::Publish(publish) => {
                if let Some((_, number)) = chatter::decode(publish.payload.raw()) {
                    self.published += 1;
                    self.open.insert(op, (number, moment.now));
                }
            }
            Command::Disconnect(_) => _ = self.leaving.insert(op),
            _ => {}
        }
    }

    pub(super) fn told(&mut self, event: &Event) {
        match event {
            Event::Done { op, outcome } => {
                let leaving = !self.leaving.is_empty();
                self.leaving.remove(op);
                let Some((number, since)) = self.open.remove(op) else { return };
                self.in_flight.remove(&number);
                match outcome {
                    Outcome::Acked => self.acked += 1,
                    other => {
                        self.reported += 1;
                        let due = matches!(other, Outcome::Unknown(_) | Outcome::NotSent(_));
                        // Its own deadline has passed, or the application has left: it did not want it any more.
                        let unwanted = other.error().is_some_and(|error| {
                            matches!(error, Error::Rejected(Rejection::Expired | Rejection::Disconnected))
                        });
                        if due && !unwanted && !leaving && since > self.disturbed {
                            self.undone.push((*op, other.clone()));
                        }
                    }
                }
            }
            Event::GaveUp { .. } => self.undone.clear(),
            _ => {}
        }
    }

    pub(super) fn acted(&mut self, action: &Action) {
        if let Action::OpenTransport { .. } = action {
            self.allowed_repeats += self.in_flight.len() as u64;
            self.unanswered.clear();
        }
    }

    pub(super) fn transmitted(&mut self, frame: &[u8]) {
        if let Ok(ClientFrame::Publish(publish)) = ClientFrame::decode(frame)
            && let Some((_, number)) = chatter::decode(publish.data)
        {
            self.in_flight.insert(number);
        }
    }

    pub(super) fn broker_received(&mut self, frame: &[u8]) {
        let Ok(ClientFrame::Publish(publish)) = ClientFrame::decode(frame) else { return };
        if let (Some(reference), Some((_, number))) = (publish.msg_ref, chatter::decode(publish.data)) {
            self.unanswered.insert(reference.into(), (publish.topic.into(), number));
        }
    }

    pub(super) fn broker_sent(&mut self, moment: &Moment<'_>, frame: &[u8]) -> Answer {
        let _ = moment;
        match ServerFrame::decode(frame) {
            Ok(ServerFrame::Published { msg_ref: Text::Str(reference), .. }) => {
                let Some((topic, number)) = self.unanswered.remove(reference) else { return Answer::Nothing };
                let first = self.accepted.insert(number);
                self.repeats += u64::from(!first);
                Answer::Accepted { topic, number, first }
            }
            Ok(ServerFrame::Error(error)) => {
                let Some(Text::Str(reference)) = error.msg_ref else { return Answer::Nothing };
                match (self.unanswered.remove(reference), error.code) {
                    (Some((_, number)), Some(42910)) => Answer::TooSoon { number },
                    _ => Answer::Nothing,
                }
            }
            _ => Answer::Nothing,
        }
    }

    fn has_ended(&self, number: Number) -> bool {
        !self.open.values().any(|(open, _)| *open == number)
    }

    pub(super) fn fault(&mut self, moment: &Moment<'_>, fault: &Fault) {
        match fault {
            Fault::Clock { by: 1.., .. } => {
                self.clock_jumped = moment.now + Duration::from_secs(3);
                self.disturbed = moment.now;
            }
            Fault::Freeze { span, .. } => self.disturbed = moment.now + *span,
            _ => {}
        }
    }
}

/// A publish that is reported acked was accepted by the broker.
///
/// The broker's acceptance is read off its own answer to the frame that carried the payload, so a client that mixes up
/// its references is caught.
pub(crate) fn acked_means_accepted(publishing: &Publishing, event: &Event) -> Result<(), String> {
    let Event::Done { op, outcome: Outcome::Acked } = event else { return Ok(()) };
    match publishing.open.get(op) {
        Some((number, _)) if !publishing.accepted.contains(number) => {
            Err(format!("publish {number} ({op:?}) is said to be acked, and the broker did not accept it"))
        }
        _ => Ok(()),
    }
}

/// What is to be sent at least once ends as acked, unless the application left, the client gave up and said so, the
/// broker refused it, or its own deadline passed. Of what was accepted before the client's time leapt, by its clock or
/// because its process stood still, nothing is said: it may have waited for too long at once.
pub(crate) fn at_least_once_loses_nothing(known: &mut Known) -> Result<(), String> {
    let undone = std::mem::take(&mut known.publishing.undone);
    let kept = known.config.resend == ResendPolicy::AtLeastOnce
        && matches!(known.config.offline, OfflinePolicy::Queue { max_age: None, .. });
    match undone.first().filter(|_| kept) {
        Some((op, outcome)) => Err(format!("{op:?} was to be sent at least once and ended as {outcome:?}")),
        None => Ok(()),
    }
}

/// The broker accepts a publish a second time only after a connection was lost, and no more of them than could have been
/// under way then.
pub(crate) fn repeats_are_bounded(publishing: &Publishing) -> Result<(), String> {
    let Publishing { repeats, allowed_repeats, .. } = publishing;
    if repeats > allowed_repeats {
        return Err(format!(
            "{repeats} publishes were accepted again, and only {allowed_repeats} were under way"
        ));
    }
    Ok(())
}

/// On one topic the broker accepts the first copies of a client's publishes in the order of the commands. Two may be
/// overtaken: one that was refused for coming too soon, and one that the application was told is unknown, which a
/// connection that was given up may still deliver.
pub(crate) fn first_copies_keep_their_order(
    publishing: &mut Publishing,
    answer: &Answer,
) -> Result<(), String> {
    match answer {
        Answer::Accepted { topic, number, first: true } => {
            let newest = publishing.newest.get(topic).copied().unwrap_or_default().max(*number);
            let overtaken = *number < newest;
            if overtaken && !publishing.too_soon.contains(number) && !publishing.has_ended(*number) {
                return Err(format!("publish {number} on {topic} was accepted after {newest}"));
            }
            publishing.newest.insert(topic.clone(), newest);
        }
        Answer::TooSoon { number } => _ = publishing.too_soon.insert(*number),
        _ => {}
    }
    Ok(())
}

/// With pacing on the broker never refuses a tracked publish for coming too soon. A client whose clock just jumped
/// ahead cannot know better.
pub(crate) fn paced_publishes_are_never_refused(
    known: &Known,
    moment: &Moment<'_>,
    answer: &Answer,
) -> Result<(), String> {
    let excused = known.config.publish_rate.is_none() || moment.now < known.publishing.clock_jumped;
    match answer {
        Answer::TooSoon { number } if !excused => Err(format!("publish {number} came too soon")),
        _ => Ok(()),
    }
}
