//! The algebra of filters, and what a broker makes of them, against small models.

#[path = "support/cases.rs"]
mod cases;
mod support;

use cases::cases;
use nolag_core::{
    Error, FilterChange, Misuse, Outcome,
    wire::{ClientFrame, Filter, MAX_FILTERS, canonical_group, is_valid_filter},
};
use proptest::{collection::vec, prelude::*, sample::select};
use support::*;

/// A few values, so that they meet often; among them pairs that only differ in case.
fn value() -> impl Strategy<Value = String> {
    select(vec!["a", "A", "b", "B", "c", "ab", "a b", "x:y", "é", "É"]).prop_map(String::from)
}

fn filter() -> impl Strategy<Value = Filter> {
    prop_oneof![3 => value().prop_map(Filter::Value), 1 => vec(value(), 2..4).prop_map(Filter::All)]
}

fn filters() -> impl Strategy<Value = Vec<Filter>> {
    prop_oneof![9 => vec(filter(), 0..5), 1 => vec("[a-z]{4}".prop_map(Filter::Value), 95..103)]
}

fn change() -> impl Strategy<Value = FilterChange> {
    prop_oneof![
        filters().prop_map(FilterChange::Add),
        filters().prop_map(FilterChange::Remove),
        filters().prop_map(FilterChange::Set),
    ]
}

/// What a broker knows a filter by: a value is itself, a group is lower-cased, sorted by bytes and joined (§8).
fn broker_name(filter: &Filter) -> String {
    match filter {
        Filter::Value(value) => value.clone(),
        Filter::All(values) => {
            let mut left: Vec<String> = values.iter().map(|value| value.to_lowercase()).collect();
            let mut name = String::new();
            while !left.is_empty() {
                let least = (0..left.len()).min_by(|a, b| left[*a].as_bytes().cmp(left[*b].as_bytes()));
                let least = left.remove(least.expect("not empty"));
                name = if name.is_empty() { least } else { format!("{name}|{least}") };
            }
            name
        }
    }
}

/// What a change must make of a list of names, or the misuse that it is.
fn expected(current: &[String], change: &FilterChange) -> Result<Vec<String>, &'static str> {
    let (FilterChange::Add(listed) | FilterChange::Remove(listed) | FilterChange::Set(listed)) = change;
    let names: Vec<String> = listed.iter().map(broker_name).collect();
    let after = match change {
        _ if names.len() > MAX_FILTERS => return Err("too many"),
        FilterChange::Set(_) => return Ok(firsts(names)),
        _ if current.is_empty() => return Err("unfiltered"),
        FilterChange::Add(_) => firsts([current, &names].concat()),
        FilterChange::Remove(_) => {
            current.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>()
        }
    };
    match after.len() {
        0 => Err("last"),
        len if len > MAX_FILTERS => Err("too many"),
        _ => Ok(after),
    }
}

/// The first of each name.
fn firsts(names: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for name in names {
        if !kept.contains(&name) {
            kept.push(name);
        }
    }
    kept
}

fn misuse_in_words(error: &Error) -> &'static str {
    match error {
        Error::Misuse(Misuse::TooManyFilters(_)) => "too many",
        Error::Misuse(Misuse::Unfiltered(_)) => "unfiltered",
        Error::Misuse(Misuse::LastFilter(_)) => "last",
        other => panic!("unexpected: {other:?}"),
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// A group is named as the broker names it, whatever the order in which its values were given.
    #[test]
    fn a_group_has_the_brokers_name_in_any_order(values in vec(value(), 2..6), rotate in 0..6_usize) {
        let filter = Filter::All(values.clone());
        let name = broker_name(&filter);
        prop_assert_eq!(filter.canonical(), name.as_str());
        let mut turned = values.clone();
        turned.rotate_left(rotate % values.len());
        prop_assert_eq!(Filter::All(turned).canonical(), name.as_str());
        let upper: Vec<String> = values.iter().map(|value| value.to_uppercase()).collect();
        prop_assert_eq!(canonical_group(upper.iter().map(String::as_str)), name.as_str());
        // The name is its own canonical form: naming twice changes nothing.
        prop_assert_eq!(canonical_group(name.split('|')), name);
        // Values keep their case.
        prop_assert_eq!(Filter::Value(values[0].clone()).canonical(), values[0].as_str());
    }

    /// A value is valid exactly when it is not empty and has none of the four characters; a group when all its values
    /// are and there are at least two.
    #[test]
    fn values_are_valid_as_the_broker_judges(
        values in vec(prop_oneof!["[ab/#+| ]{0,3}", any::<String>()], 0..4),
    ) {
        let good = |value: &String| !value.is_empty() && value.chars().all(|c| !"/#+|".contains(c));
        for value in &values {
            prop_assert_eq!(is_valid_filter(value), good(value));
            prop_assert_eq!(Filter::from(value.as_str()).invalid_value().is_none(), good(value));
        }
        let all_good = values.len() >= 2 && values.iter().all(good);
        prop_assert_eq!(Filter::All(values).invalid_value().is_none(), all_good);
    }

    /// Any changes, one after the other, each confirmed: the client's list, the list in the frame and the list in the
    /// outcome are those of the model, and what the model refuses is given back and changes nothing.
    #[test]
    fn confirmed_changes_make_the_list_of_the_model(
        first in vec(filter(), 0..4), changes in vec(change(), 1..6),
    ) {
        let mut peer = Peer::default_connected();
        peer.subscribe_as(TOPIC, |subscribe| subscribe.options.filters = first.clone());
        peer.subscribed(TOPIC);
        let mut model: Vec<String> = first.iter().map(broker_name).collect();
        // What is subscribed is sent as it was given, repetitions included.
        prop_assert_eq!(peer.filters_of(TOPIC), model.clone());
        for change in changes {
            peer.forget();
            let result = apply(&mut peer, &change);
            let before = model.clone();
            match (expected(&model, &change), result) {
                (Err(word), Err(refused)) => {
                    prop_assert_eq!(misuse_in_words(&refused.error), word);
                    prop_assert_eq!(refused.value, change);
                    prop_assert!(peer.sent().is_empty());
                }
                (Ok(after), Ok(op)) => {
                    let frame = peer.frame();
                    let ClientFrame::SetFilters { topic, filters } = decode(&frame) else { panic!("{frame:?}") };
                    prop_assert_eq!(topic, TOPIC);
                    prop_assert_eq!(filters.iter().map(broker_name).collect::<Vec<_>>(), after.clone());
                    prop_assert_eq!(peer.filters_of(TOPIC), before, "nothing before it is confirmed");
                    peer.filters_updated(TOPIC);
                    prop_assert_eq!(peer.outcome(op), Outcome::FiltersUpdated { filters });
                    model = after;
                }
                (model, core) => panic!("{change:?} on {before:?}: {model:?} against {core:?}"),
            }
            prop_assert_eq!(peer.filters_of(TOPIC), model.clone());
        }
    }

    /// Several changes at once are judged by the list that will be in force when their turn comes, and leave one by one
    /// in order; refusing any of them takes back only it, and those that built on it end without having been sent.
    #[test]
    fn changes_that_wait_build_on_one_another(
        first in vec(filter(), 1..4), changes in vec(change(), 1..6), refused in vec(any::<bool>(), 6),
    ) {
        let mut peer = Peer::default_connected();
        peer.subscribe_as(TOPIC, |subscribe| subscribe.options.filters = first.clone());
        peer.subscribed(TOPIC);
        peer.forget();
        let mut foreseen: Vec<String> = first.iter().map(broker_name).collect();
        let mut in_force = foreseen.clone();
        let mut accepted = Vec::new();
        for change in changes {
            match (expected(&foreseen, &change), apply(&mut peer, &change)) {
                (Err(word), Err(refused)) => prop_assert_eq!(misuse_in_words(&refused.error), word),
                (Ok(after), Ok(op)) => {
                    foreseen = after;
                    accepted.push((change, op));
                }
                (model, core) => panic!("{change:?}: {model:?} against {core:?}"),
            }
        }
        for ((change, op), refuse) in accepted.into_iter().zip(refused) {
            let Ok(after) = expected(&in_force, &change) else {
                let outcome = peer.outcome(op);
                prop_assert!(matches!(outcome, Outcome::NotSent(Error::Misuse(_))), "{:?}", outcome);
                continue;
            };
            prop_assert_eq!(peer.frames().len(), 1, "one at a time");
            if refuse {
                peer.refuse(TOPIC, "too_many_filters (max 100)", None);
                let refused = matches!(peer.outcome(op), Outcome::Refused(_));
                prop_assert!(refused);
            } else {
                peer.filters_updated(TOPIC);
                in_force = after;
                let confirmed = matches!(peer.outcome(op), Outcome::FiltersUpdated { .. });
                prop_assert!(confirmed);
            }
            prop_assert_eq!(peer.filters_of(TOPIC), in_force.clone());
        }
        prop_assert!(peer.sent().is_empty());
    }
}

fn apply(
    peer: &mut Peer,
    change: &FilterChange,
) -> Result<nolag_core::OpId, nolag_core::Refused<FilterChange>> {
    let result = match change.clone() {
        FilterChange::Add(filters) => peer.core.add_filters(peer.now, TOPIC, filters),
        FilterChange::Remove(filters) => peer.core.remove_filters(peer.now, TOPIC, filters),
        FilterChange::Set(filters) => peer.core.set_filters(peer.now, TOPIC, filters),
    };
    peer.pump();
    result
}
