//! What our broker has answered and the recording has not accounted for yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    Allowed,
    same::{Agreement, Correspondence, text},
};
use crate::value::{Id, Values};

/// How much earlier than recorded an answer may come, in microseconds.
const EARLIEST: u64 = 100_000;

/// The same for what follows from a large message, which took its time through the recorder.
const EARLIEST_AFTER_LARGE: u64 = 400_000;

/// Bytes from which on a message is large.
const LARGE: usize = 64 << 10;

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The empty message.
    Heartbeat,
    Frame(Id),
    Close {
        code: u64,
        reason: String,
    },
}

/// An answer of ours.
#[derive(Debug, Clone)]
struct Given {
    answer: Answer,
    /// In microseconds.
    at: u64,
    /// How much earlier than recorded it may come.
    earliest: u64,
    /// The line that was being worked on.
    line: usize,
}

/// The answers of ours that wait for their recorded counterpart, by connection.
#[derive(Debug, Default)]
pub(super) struct Answers {
    waiting: BTreeMap<u64, VecDeque<Given>>,
    /// What the header permits.
    pub(super) varies: BTreeSet<String>,
    /// Who published which payload; `None` when several did.
    pub(super) publishers: BTreeMap<Id, Option<u64>>,
    pub(super) correspondence: Correspondence,
    pub(super) allowed: BTreeSet<Allowed>,
}

impl Answers {
    /// Notes an answer of ours; `after` is the size of the last client message.
    pub(super) fn give(&mut self, conn: u64, at: u64, line: usize, after: usize, answer: Answer) {
        let earliest = if after < LARGE { EARLIEST } else { EARLIEST_AFTER_LARGE };
        self.waiting.entry(conn).or_default().push_back(Given { answer, at, earliest, line });
    }

    /// Accounts for one recorded answer.
    pub(super) fn expect(
        &mut self,
        values: &mut Values,
        conn: u64,
        at: u64,
        recorded: &Answer,
    ) -> Vec<String> {
        let found = self.find(values, conn, recorded).or_else(|| {
            // A member of the same group may have got it instead.
            let others: Vec<u64> = self.waiting.keys().copied().filter(|other| *other != conn).collect();
            let may_be_elsewhere = self.permits(Allowed::LoadBalanceChoice) && is_message(values, recorded);
            let mut others = others.into_iter().filter(|_| may_be_elsewhere);
            others.find_map(|other| self.find(values, other, recorded)).map(|mut found| {
                found.agreement.allowed.insert(Allowed::LoadBalanceChoice);
                found
            })
        });
        let Some(Found { conn: found_at, index, agreement }) = found else {
            return self.explain(values, conn, recorded);
        };
        self.correspondence.note(&agreement);
        self.allowed.extend(agreement.allowed);
        let given = self.waiting.get_mut(&found_at).and_then(|waiting| waiting.remove(index));
        let (early, earliest) =
            given.map_or((0, EARLIEST), |given| (at.saturating_sub(given.at), given.earliest));
        if early > 0 {
            self.allowed.insert(Allowed::Times);
        }
        if early > earliest {
            return vec![format!("answered {} ms before the recorded time", early / 1000)];
        }
        Vec::new()
    }

    /// What was answered and never recorded: the line that it was given at, and what to say about it.
    pub(super) fn unexpected(&self, values: &Values) -> Vec<(usize, String)> {
        let all =
            self.waiting.iter().flat_map(|(conn, waiting)| waiting.iter().map(move |given| (conn, given)));
        all.map(|(conn, given)| {
            (given.line, format!("unexpected answer on connection {conn}: {}", show(values, &given.answer)))
        })
        .collect()
    }

    fn permits(&self, allowed: Allowed) -> bool {
        self.varies.contains(allowed.name())
    }

    /// The first answer on a connection that is the recorded one, if what would have to come before it may come later.
    fn find(&self, values: &mut Values, conn: u64, recorded: &Answer) -> Option<Found> {
        let waiting = self.waiting.get(&conn)?;
        let mut allowed = BTreeSet::new();
        for (index, given) in waiting.iter().enumerate() {
            if let Ok(mut agreement) = self.compare(values, recorded, &given.answer) {
                if index > 0 {
                    let overtaken = waiting.iter().take(index);
                    for earlier in overtaken {
                        allowed.insert(self.may_overtake(values, given, earlier)?);
                    }
                }
                agreement.allowed.append(&mut allowed);
                return Some(Found { conn, index, agreement });
            }
        }
        None
    }

    /// By which rule `later` may come before `earlier`.
    fn may_overtake(&self, values: &Values, later: &Given, earlier: &Given) -> Option<Allowed> {
        let earlier = message(values, &earlier.answer)?;
        let publisher = |data: &Id| self.publishers.get(data).copied().flatten();
        let race = message(values, &later.answer)
            .and_then(|later| Some(publisher(&later)? != publisher(&earlier)?))
            .unwrap_or(false);
        // With a choice, another member of the group got the earlier one, and it is accounted for there.
        [Allowed::Interleaving, Allowed::LoadBalanceChoice]
            .into_iter()
            .find(|allowed| self.permits(*allowed) && (race || *allowed == Allowed::LoadBalanceChoice))
    }

    fn compare(
        &self,
        values: &mut Values,
        recorded: &Answer,
        ours: &Answer,
    ) -> Result<Agreement, Vec<String>> {
        match (recorded, ours) {
            (Answer::Frame(recorded), Answer::Frame(ours)) => {
                self.correspondence.compare(values, *recorded, *ours)
            }
            (recorded, ours) if recorded == ours => Ok(Agreement::default()),
            (recorded, ours) => {
                Err(vec![format!("expected {}, got {}", show(values, recorded), show(values, ours))])
            }
        }
    }

    /// Says why a recorded answer is not there. A frame of the same type takes its place, so that one difference is
    /// reported once.
    fn explain(&mut self, values: &mut Values, conn: u64, recorded: &Answer) -> Vec<String> {
        let first =
            self.waiting.get(&conn).and_then(|waiting| waiting.front()).map(|given| given.answer.clone());
        let Some(first) = first else {
            return vec![format!("no answer, expected {}", show(values, recorded))];
        };
        let same_kind = kind(values, &first) == kind(values, recorded);
        if !same_kind {
            return vec![format!("expected {}, got {}", show(values, recorded), show(values, &first))];
        }
        let reasons = self.compare(values, recorded, &first).err();
        if let Some(waiting) = self.waiting.get_mut(&conn) {
            waiting.pop_front();
        }
        reasons.unwrap_or_else(|| vec!["out of order".to_owned()])
    }
}

/// Where an answer was found, and what that allows.
struct Found {
    conn: u64,
    index: usize,
    agreement: Agreement,
}

/// The payload of a delivery.
fn message(values: &Values, answer: &Answer) -> Option<Id> {
    let Answer::Frame(id) = answer else { return None };
    let fields = values.fields(*id)?;
    let is_message = text(values, &fields, "type").as_deref() == Some("message");
    fields.get("data").copied().filter(|_| is_message)
}

fn is_message(values: &Values, answer: &Answer) -> bool {
    message(values, answer).is_some()
}

/// The type of a frame, or what it is instead.
fn kind(values: &Values, answer: &Answer) -> String {
    match answer {
        Answer::Heartbeat => "heartbeat".to_owned(),
        Answer::Close { .. } => "close".to_owned(),
        Answer::Frame(id) => {
            values.fields(*id).and_then(|fields| text(values, &fields, "type")).unwrap_or_default()
        }
    }
}

fn show(values: &Values, answer: &Answer) -> String {
    match answer {
        Answer::Heartbeat => "a heartbeat".to_owned(),
        Answer::Frame(id) => values.show(*id),
        Answer::Close { code, reason } => format!("close {code} {reason:?}"),
    }
}
