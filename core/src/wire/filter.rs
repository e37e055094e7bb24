//! Filters: what a subscription listens to within a topic.

use alloc::{string::String, vec::Vec};

use bytes::BytesMut;

use super::{RawValue, value::Kind, write};

/// Filters per subscription; an AND group counts once (protocol-facts §6).
pub const MAX_FILTERS: usize = 100;

/// One entry of a filter list. The list as a whole means *or*.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter {
    /// Matches publishes made with exactly this `filter`, case-sensitively.
    Value(String),
    /// Matches publishes made with exactly this set of `filters`, whatever their case and order. At least two.
    All(Vec<String>),
}

impl Filter {
    /// Reads a filter list as a client sends it: a list of texts and of lists of at least two texts.
    ///
    /// `None` when an entry is anything else. `nil` and non-lists are for the caller to judge: brokers read both
    /// as "no filters".
    pub fn parse_list(value: RawValue<'_>) -> Option<Vec<Self>> {
        value.items()?.map(Self::parse).collect()
    }

    fn parse(value: RawValue<'_>) -> Option<Self> {
        if value.kind() == Kind::List {
            let group: Option<Vec<String>> =
                value.items()?.map(|item| item.as_str().map(String::from)).collect();
            return group.filter(|group| group.len() >= 2).map(Self::All);
        }
        value.as_str().map(|text| Self::Value(text.into()))
    }

    /// Appends a filter list.
    pub fn encode_list(filters: &[Self], out: &mut BytesMut) {
        write::list_header(out, filters.len());
        for filter in filters {
            match filter {
                Self::Value(value) => write::str(out, value),
                Self::All(values) => {
                    write::list_header(out, values.len());
                    values.iter().for_each(|value| write::str(out, value));
                }
            }
        }
    }

    /// The first value that a broker would refuse: empty, with one of `/ # + |`, or a group of fewer than two.
    pub fn invalid_value(&self) -> Option<&str> {
        match self {
            Self::Value(value) => (!is_valid_filter(value)).then_some(value),
            Self::All(values) if values.len() < 2 => Some(values.first().map_or("", String::as_str)),
            Self::All(values) => values.iter().map(String::as_str).find(|value| !is_valid_filter(value)),
        }
    }

    /// The broker's name for this filter: a group is lower-cased, sorted by bytes and joined with `|`.
    pub fn canonical(&self) -> String {
        match self {
            Self::Value(value) => value.clone(),
            Self::All(values) => canonical_group(values.iter().map(String::as_str)),
        }
    }
}

impl From<&str> for Filter {
    fn from(value: &str) -> Self {
        Self::Value(value.into())
    }
}

impl From<String> for Filter {
    fn from(value: String) -> Self {
        Self::Value(value)
    }
}

/// Whether a broker accepts this filter value (protocol-facts §7).
pub fn is_valid_filter(value: &str) -> bool {
    !value.is_empty() && !value.contains(['/', '#', '+', '|'])
}

/// The composite that a publish with several `filters` goes to (protocol-facts §8).
pub fn canonical_group<'s>(values: impl Iterator<Item = &'s str>) -> String {
    // One character at a time, as Erlang does: `str::to_lowercase` would write a final sigma differently.
    let lower = |value: &str| value.chars().flat_map(char::to_lowercase).collect();
    let mut values: Vec<String> = values.map(lower).collect();
    values.sort_unstable();
    values.join("|")
}
