//! Whether two frames are the same answer.

use std::collections::{BTreeMap, BTreeSet};

use super::Allowed;
use crate::{
    compare::differences,
    value::{Fields, Id, Value, Values},
};

/// How far two runs may round a time apart, in seconds.
const ROUNDING: i128 = 1;

/// What is known about how the two runs correspond.
#[derive(Debug, Default)]
pub(super) struct Correspondence {
    /// Whether message ids are random in this recording.
    pub(super) random_ids: bool,
    /// Recorded message id → ours.
    ids: BTreeMap<Id, Id>,
    /// The ids of ours that stand for a recorded one.
    taken: BTreeSet<Id>,
    /// Recorded Unix time minus ours.
    clock: Option<i128>,
}

/// What has to be noted if two frames are taken to be the same.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    id: Option<(Id, Id)>,
    clock: Option<i128>,
    pub(super) allowed: BTreeSet<Allowed>,
}

impl Correspondence {
    pub(super) fn note(&mut self, agreement: &Agreement) {
        if let Some((recorded, ours)) = agreement.id {
            self.ids.insert(recorded, ours);
            self.taken.insert(ours);
        }
        self.clock = self.clock.or(agreement.clock);
    }

    /// Our id for a recorded one.
    pub(super) fn our_id(&self, recorded: Id) -> Option<Id> {
        self.ids.get(&recorded).copied()
    }

    /// Compares a recorded frame with one of ours, field by field.
    pub(super) fn compare(
        &self,
        values: &mut Values,
        recorded: Id,
        ours: Id,
    ) -> Result<Agreement, Vec<String>> {
        let mut agreement = Agreement::default();
        if recorded == ours {
            return Ok(agreement);
        }
        let (Some(mut expected), Some(mut got)) = (values.fields(recorded), values.fields(ours)) else {
            return Err(vec![format!("expected {}, got {}", values.show(recorded), values.show(ours))]);
        };
        self.match_ids(&mut expected, &got, &mut agreement);
        match text(values, &got, "type").as_deref() {
            Some("presenceList") => self.match_times(values, "data", &mut expected, &mut got, &mut agreement),
            Some("lobbySubscribed" | "lobbyPresenceList") => {
                self.match_times(values, "presence", &mut expected, &mut got, &mut agreement);
            }
            _ => {}
        }
        match differences(values, &expected, &got) {
            // Keys that are not text look alike here although they differ.
            same if same.is_empty() && expected == got => Ok(agreement),
            same if same.is_empty() => Err(vec!["keys of another kind".to_owned()]),
            different => Err(different),
        }
    }

    /// Takes a recorded message id for ours, if neither stands for another one.
    fn match_ids(&self, expected: &mut Fields, got: &Fields, agreement: &mut Agreement) {
        let (Some(recorded), Some(ours)) = (expected.get("msgId").copied(), got.get("msgId").copied()) else {
            return;
        };
        if !self.random_ids || recorded == ours {
            return;
        }
        let fits = match self.ids.get(&recorded) {
            Some(known) => *known == ours,
            None => !self.taken.contains(&ours),
        };
        if fits {
            expected.insert("msgId".to_owned(), ours);
            agreement.id = Some((recorded, ours));
            agreement.allowed.insert(Allowed::MessageIds);
        }
    }

    /// Blanks out the times of joining on both sides, if they correspond.
    fn match_times(
        &self,
        values: &mut Values,
        field: &str,
        expected: &mut Fields,
        got: &mut Fields,
        agreement: &mut Agreement,
    ) {
        let mut sides = [&mut *expected, &mut *got].into_iter().map(|fields| {
            let mut times = Vec::new();
            let blank = fields.get(field).map(|id| blank_times(values, *id, &mut times, 0));
            times.sort_unstable();
            (blank, times)
        });
        let (Some((blank_expected, recorded)), Some((blank_got, ours))) = (sides.next(), sides.next()) else {
            return;
        };
        drop(sides);
        let entries = |times: &[(Id, i128)]| times.iter().map(|(entry, _)| *entry).collect::<Vec<_>>();
        if entries(&recorded) != entries(&ours) || recorded.is_empty() {
            return;
        }
        let clock = self.clock.unwrap_or(recorded[0].1 - ours[0].1);
        let pairs = recorded.iter().zip(&ours);
        if pairs.clone().all(|((_, recorded), (_, ours))| (recorded - ours - clock).abs() <= ROUNDING) {
            for (fields, blank) in [(expected, blank_expected), (got, blank_got)] {
                if let Some(blank) = blank {
                    fields.insert(field.to_owned(), blank);
                }
            }
            agreement.clock = Some(clock);
            agreement.allowed.insert(Allowed::JoinTimes);
        }
    }
}

/// The value with every `joinedAt` of a presence entry made nil, and each entry with its time. Entries lie at most
/// three levels deep: in a list, or in a map of maps.
fn blank_times(values: &mut Values, id: Id, times: &mut Vec<(Id, i128)>, depth: usize) -> Id {
    if depth > 2 {
        return id;
    }
    match values.get(id).clone() {
        Value::List(items) => {
            let items = items.into_iter().map(|item| blank_times(values, item, times, depth + 1)).collect();
            values.add(Value::List(items))
        }
        Value::Map(mut pairs) => {
            let joined = values.text("joinedAt");
            let nil = values.add(Value::Nil);
            let time = pairs.iter_mut().find(|(key, _)| *key == joined).map(|(_, value)| value);
            if let Some(value) = time {
                let Some(time) = values.as_integer(*value) else { return id };
                *value = nil;
                let entry = values.add(Value::Map(pairs));
                times.push((entry, time));
                return entry;
            }
            for (_, value) in &mut pairs {
                *value = blank_times(values, *value, times, depth + 1);
            }
            values.add(Value::Map(pairs))
        }
        _ => id,
    }
}

/// A field that is text.
pub(super) fn text(values: &Values, fields: &Fields, name: &str) -> Option<String> {
    fields.get(name).and_then(|id| values.as_text(*id)).map(str::to_owned)
}
