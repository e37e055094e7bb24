//! Changing the filters of a subscription that stands.

mod support;

use nolag_core::{
    Error, FilterChange, Misuse, Op, Outcome, ProtocolError, Rejection, Subscribe, TransportErrorKind,
    wire::{ClientFrame, Filter, ServerFrame, Text},
};
use support::*;

const OTHER: &str = "demo/general/other";

fn set(filters: &[&str]) -> String {
    format!("setFilters {TOPIC} {}", filters.join(","))
}

fn subscribe(filters: &[&str]) -> String {
    format!("subscribe {TOPIC} filters={}", filters.join(","))
}

#[track_caller]
fn in_force(outcome: Outcome) -> Vec<String> {
    match outcome {
        Outcome::FiltersUpdated { filters } => filters.iter().map(Filter::canonical).collect(),
        other => panic!("not updated: {other:?}"),
    }
}

#[track_caller]
fn refused_with(outcome: Outcome, error: &str) {
    match outcome {
        Outcome::Refused(refusal) => assert_eq!((&*refusal.error, refusal.op), (error, Some(Op::SetFilters))),
        other => panic!("not refused: {other:?}"),
    }
}

fn superseded() -> Outcome {
    Outcome::NotSent(Rejection::Superseded.into())
}

fn group(values: &[&str]) -> Filter {
    Filter::All(values.iter().map(|value| (*value).to_owned()).collect())
}

/// A client with a subscription filtered by `a`, confirmed.
fn filtered_by_a() -> Peer {
    let mut peer = Peer::default_connected();
    peer.filtered_subscription(TOPIC, &["a"]);
    peer
}

// ---- what is sent and what is in force ----

#[test]
fn a_change_is_in_force_when_the_broker_confirms_it() {
    let mut peer = filtered_by_a();
    let op = peer.set_filters(&["b", "c"]);
    assert_eq!(peer.sent(), [set(&["b", "c"])]);
    assert!(peer.is_pending(op), "sent is not in force");
    assert_eq!(peer.filters_of(TOPIC), ["a"]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(op)), ["b", "c"]);
    assert_eq!(peer.filters_of(TOPIC), ["b", "c"]);
    assert!(peer.events().is_empty());
}

#[test]
fn added_filters_come_last_and_those_there_keep_their_place() {
    let mut peer = Peer::default_connected();
    peer.filtered_subscription(TOPIC, &["z", "m", "a"]);
    let op = peer.add_filters(&["k", "m", "b", "k"]);
    assert_eq!(peer.sent(), [set(&["z", "m", "a", "k", "b"])]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(op)), ["z", "m", "a", "k", "b"]);
}

#[test]
fn removing_keeps_the_order_of_the_rest_and_ignores_what_is_not_there() {
    let mut peer = Peer::default_connected();
    peer.filtered_subscription(TOPIC, &["z", "m", "a", "k"]);
    peer.remove_filters(&["m", "never", "k"]);
    assert_eq!(peer.sent(), [set(&["z", "a"])]);
}

#[test]
fn filters_that_repeat_are_sent_once() {
    let mut peer = filtered_by_a();
    let op = peer.set_filters(&["b", "a", "b"]);
    assert_eq!(peer.sent(), [set(&["b", "a"])]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(op)), ["b", "a"]);
}

#[test]
fn groups_keep_their_case_and_order() {
    let mut peer = Peer::default_connected();
    let filters = vec![Filter::from("vip"), group(&["West", "cold"])];
    peer.subscribe_as(TOPIC, |subscribe| subscribe.options.filters.clone_from(&filters));
    peer.subscribed(TOPIC);
    peer.forget();
    let more = vec![group(&["b", "A"])];
    peer.core.add_filters(peer.now, TOPIC, more.clone()).expect("accepted");
    peer.pump();
    let frame = peer.frame();
    let ClientFrame::SetFilters { filters: sent, .. } = decode(&frame) else { panic!("not a change") };
    assert_eq!(sent, [filters, more].concat());
}

#[test]
fn a_group_is_the_same_group_in_any_order_and_case() {
    let mut peer = Peer::default_connected();
    let filters = vec![Filter::from("vip"), group(&["West", "cold"])];
    peer.subscribe_as(TOPIC, |subscribe| subscribe.options.filters = filters);
    peer.subscribed(TOPIC);
    peer.forget();
    peer.core.add_filters(peer.now, TOPIC, vec![group(&["cold", "west"]), "x".into()]).expect("accepted");
    peer.pump();
    assert_eq!(peer.sent(), [set(&["vip", "cold|west", "x"])], "brokers know the two as one");
    peer.filters_updated(TOPIC);
    peer.core.remove_filters(peer.now, TOPIC, vec![group(&["COLD", "WEST"])]).expect("accepted");
    peer.pump();
    assert_eq!(peer.sent(), [set(&["vip", "x"])]);
    peer.filters_updated(TOPIC);
    peer.remove_filters(&["VIP"]);
    assert_eq!(peer.sent(), [set(&["vip", "x"])], "but single values keep their case");
}

#[test]
fn an_empty_list_opens_the_subscription_on_purpose() {
    let mut peer = filtered_by_a();
    let op = peer.set_filters(&[]);
    assert_eq!(peer.sent(), [set(&[])]);
    peer.filters_updated(TOPIC);
    assert!(in_force(peer.outcome(op)).is_empty());
    assert!(peer.filters_of(TOPIC).is_empty());
    let op = peer.set_filters(&["b"]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(op)), ["b"], "and setting narrows it on purpose");
}

#[test]
fn a_change_that_changes_nothing_is_confirmed_all_the_same() {
    let mut peer = filtered_by_a();
    for op in [peer.add_filters(&["a"]), peer.remove_filters(&["x"]), peer.set_filters(&["a"])] {
        assert_eq!(peer.sent(), [set(&["a"])]);
        peer.filters_updated(TOPIC);
        assert_eq!(in_force(peer.outcome(op)), ["a"]);
    }
}

#[test]
fn the_next_subscribe_is_compared_with_the_filters_in_force() {
    let mut peer = filtered_by_a();
    peer.add_filters(&["b"]);
    peer.filters_updated(TOPIC);
    peer.forget();
    let joined = peer.filtered(TOPIC, &["a", "b"]);
    assert!(peer.sent().is_empty());
    assert!(matches!(peer.outcome(joined), Outcome::Subscribed { .. }));
    peer.filtered(TOPIC, &["a"]);
    assert_eq!(peer.sent(), [subscribe(&["a"])]);
}

// ---- mistakes ----

#[test]
fn mistakes_are_refused_locally_and_given_back() {
    let mut peer = filtered_by_a();
    let mut refused = |change: FilterChange| {
        let result = match change.clone() {
            FilterChange::Add(filters) => peer.core.add_filters(peer.now, TOPIC, filters),
            FilterChange::Remove(filters) => peer.core.remove_filters(peer.now, TOPIC, filters),
            FilterChange::Set(filters) => peer.core.set_filters(peer.now, TOPIC, filters),
        };
        let refused = result.expect_err("a mistake");
        assert_eq!(refused.value, change);
        refused.error
    };
    let invalid = |value: &str| Error::Misuse(Misuse::InvalidFilter(value.into()));
    assert_eq!(refused(FilterChange::Set(filter_list(&["fine", "a/b"]))), invalid("a/b"));
    assert_eq!(refused(FilterChange::Add(filter_list(&[""]))), invalid(""));
    assert_eq!(refused(FilterChange::Remove(filter_list(&["x", "#"]))), invalid("#"));
    assert_eq!(refused(FilterChange::Add(vec![group(&["ok", "no+good"])])), invalid("no+good"));
    assert_eq!(refused(FilterChange::Set(vec![group(&["alone"])])), invalid("alone"));
    let last = Misuse::LastFilter(TOPIC.into());
    assert_eq!(refused(FilterChange::Remove(filter_list(&["a"]))), last.into());
    let many: Vec<Filter> = (0..101).map(|n| format!("f{n}").into()).collect();
    assert_eq!(refused(FilterChange::Set(many.clone())), Misuse::TooManyFilters(101).into());
    assert_eq!(refused(FilterChange::Add(many[..100].to_vec())), Misuse::TooManyFilters(101).into());
    peer.pump();
    assert!(peer.sent().is_empty());
    assert_eq!(peer.filters_of(TOPIC), ["a"]);
}

#[test]
fn filters_cannot_be_added_to_or_removed_from_a_subscription_that_has_none() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    let add = peer.core.add_filters(peer.now, TOPIC, filter_list(&["a"])).unwrap_err();
    assert_eq!(add.error, Misuse::Unfiltered(TOPIC.into()).into());
    let remove = peer.core.remove_filters(peer.now, TOPIC, filter_list(&["a"])).unwrap_err();
    assert_eq!(remove.error, Misuse::Unfiltered(TOPIC.into()).into());
    assert!(add.error.to_string().contains("set filters if you mean to narrow it"));
}

#[test]
fn only_a_subscription_has_filters() {
    let mut peer = filtered_by_a();
    let refused = peer.core.set_filters(peer.now, OTHER, filter_list(&["a"])).unwrap_err();
    assert_eq!(refused.error, Misuse::NotSubscribed(OTHER.into()).into());
    let refused = peer.core.set_filters(peer.now, "nonsense", filter_list(&["a"])).unwrap_err();
    assert!(matches!(refused.error, Error::Misuse(Misuse::InvalidTopic { .. })));
    peer.unsubscribe(TOPIC);
    let refused = peer.core.add_filters(peer.now, TOPIC, filter_list(&["b"])).unwrap_err();
    assert_eq!(refused.error, Misuse::NotSubscribed(TOPIC.into()).into());
}

#[test]
fn a_hundred_filters_are_fine() {
    let mut peer = Peer::default_connected();
    let names: Vec<_> = (0..100).map(|n| format!("f{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    peer.filtered_subscription(TOPIC, &names[..60]);
    let op = peer.add_filters(&names[40..]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(op)), names);
    peer.remove_filters(&names[1..]);
    assert_eq!(peer.sent().last(), Some(&set(&["f0"])));
}

#[test]
fn a_change_is_judged_by_the_list_that_will_be_in_force() {
    let mut peer = filtered_by_a();
    let opened = peer.set_filters(&[]);
    let refused = peer.core.add_filters(peer.now, TOPIC, filter_list(&["b"])).unwrap_err();
    assert_eq!(refused.error, Misuse::Unfiltered(TOPIC.into()).into(), "one on its way opens it");
    let narrowed = peer.set_filters(&["x", "y"]);
    let removed = peer.remove_filters(&["x"]);
    let refused = peer.core.remove_filters(peer.now, TOPIC, filter_list(&["y"])).unwrap_err();
    assert_eq!(refused.error, Misuse::LastFilter(TOPIC.into()).into(), "and so do those that wait");
    let many: Vec<Filter> = (0..100).map(|n| format!("f{n}").into()).collect();
    let refused = peer.core.add_filters(peer.now, TOPIC, many).unwrap_err();
    assert_eq!(refused.error, Misuse::TooManyFilters(101).into());
    for (op, list) in [(opened, &[][..]), (narrowed, &["x", "y"]), (removed, &["y"])] {
        peer.filters_updated(TOPIC);
        assert_eq!(in_force(peer.outcome(op)), list);
    }
}

#[test]
fn a_change_is_judged_by_the_filters_of_a_subscribe_under_way() {
    let mut peer = filtered_by_a();
    let changed = peer.add_filters(&["b"]);
    let replaced = peer.subscribe(TOPIC);
    let refused = peer.core.add_filters(peer.now, TOPIC, filter_list(&["c"])).unwrap_err();
    assert_eq!(refused.error, Misuse::Unfiltered(TOPIC.into()).into());
    peer.filters_updated(TOPIC);
    peer.subscribed(TOPIC);
    assert_eq!(in_force(peer.outcome(changed)), ["a", "b"]);
    assert!(matches!(peer.outcome(replaced), Outcome::Subscribed { .. }));
}

#[test]
fn too_many_changes_at_once_are_refused_until_outcomes_come() {
    let mut peer = Peer::connected(with(|config| config.limits.max_pending = 2));
    peer.filtered_subscription(TOPIC, &["a"]);
    peer.add_filters(&["b"]);
    peer.add_filters(&["c"]);
    let refused = peer.core.add_filters(peer.now, TOPIC, filter_list(&["d"])).unwrap_err();
    assert!(matches!(refused.error, Error::Rejected(Rejection::Full { .. })));
    peer.filters_updated(TOPIC);
    peer.add_filters(&["d"]);
}

#[test]
fn an_idle_client_changes_nothing() {
    let mut peer = Peer::new(config());
    let refused = peer.core.set_filters(peer.now, TOPIC, filter_list(&["a"])).unwrap_err();
    assert_eq!(refused.error, Rejection::NotConnected.into());
    assert_eq!(refused.value, FilterChange::Set(filter_list(&["a"])));
}

// ---- one after the other ----

#[test]
fn changes_of_one_topic_are_made_one_after_the_other() {
    let mut peer = filtered_by_a();
    let add = peer.add_filters(&["b"]);
    let remove = peer.remove_filters(&["a"]);
    let set_all = peer.set_filters(&["z"]);
    assert_eq!(peer.sent(), [set(&["a", "b"])]);
    peer.filters_updated(TOPIC);
    assert_eq!(peer.sent(), [set(&["b"])]);
    peer.filters_updated(TOPIC);
    assert_eq!(peer.sent(), [set(&["z"])]);
    assert!(peer.is_pending(set_all));
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(add)), ["a", "b"]);
    assert_eq!(in_force(peer.outcome(remove)), ["b"]);
    assert_eq!(in_force(peer.outcome(set_all)), ["z"]);
    assert!(peer.sent().is_empty());
}

#[test]
fn other_topics_are_not_held_up() {
    let mut peer = filtered_by_a();
    peer.filtered_subscription(OTHER, &["a"]);
    peer.add_filters(&["b"]);
    let other = peer.core.add_filters(peer.now, OTHER, filter_list(&["c"])).expect("accepted");
    peer.pump();
    assert_eq!(peer.sent(), [set(&["a", "b"]), format!("setFilters {OTHER} a,c")]);
    peer.filters_updated(OTHER);
    assert_eq!(in_force(peer.outcome(other)), ["a", "c"]);
    assert_eq!((peer.filters_of(TOPIC).len(), peer.filters_of(OTHER).len()), (1, 2));
}

#[test]
fn changes_wait_until_the_subscription_stands() {
    let mut peer = Peer::default_connected();
    let subscribed = peer.filtered(TOPIC, &["a"]);
    let changed = peer.add_filters(&["b"]);
    assert_eq!(peer.sent(), [subscribe(&["a"])]);
    peer.subscribed(TOPIC);
    assert!(matches!(peer.outcome(subscribed), Outcome::Subscribed { .. }));
    assert_eq!(peer.sent(), [set(&["a", "b"])]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(changed)), ["a", "b"]);
}

#[test]
fn changes_before_the_first_session_wait_for_it_and_for_the_subscription() {
    let mut peer = Peer::new(config());
    peer.connect();
    peer.filtered(TOPIC, &["a"]);
    let add = peer.add_filters(&["b"]);
    let remove = peer.remove_filters(&["a"]);
    peer.open();
    peer.sent();
    peer.accept();
    assert_eq!(peer.sent(), [subscribe(&["a"])], "not as if the changes had been made");
    peer.subscribed(TOPIC);
    peer.filters_updated(TOPIC);
    peer.filters_updated(TOPIC);
    assert_eq!(peer.sent(), [set(&["a", "b"]), set(&["b"])]);
    assert_eq!(in_force(peer.outcome(add)), ["a", "b"]);
    assert_eq!(in_force(peer.outcome(remove)), ["b"]);
}

#[test]
fn changes_of_a_subscription_that_is_refused_are_not_sent() {
    let mut peer = Peer::default_connected();
    peer.filtered(TOPIC, &["a"]);
    let changed = peer.add_filters(&["b"]);
    peer.refuse(TOPIC, "unknown_topic", Some(42940));
    assert!(matches!(peer.outcome(changed), Outcome::NotSent(Error::Server(_))));
    peer.filtered(OTHER, &["a"]);
    let changed = peer.core.add_filters(peer.now, OTHER, filter_list(&["b"])).expect("accepted");
    peer.advance(secs(10));
    assert_eq!(peer.outcome(changed), superseded(), "nor those of one that is taken back");
}

#[test]
fn a_change_that_was_not_handed_out_is_not_confirmed_by_a_stray_reply() {
    let mut peer = filtered_by_a();
    peer.blocked = true;
    let op = peer.add_filters(&["b"]);
    peer.filters_updated(TOPIC);
    assert!(peer.is_pending(op));
    assert_eq!(peer.core.stats().frames_unexpected, 1);
    assert_eq!(peer.filters_of(TOPIC), ["a"]);
}

// ---- refusals and silence ----

#[test]
fn a_refused_change_changes_nothing_and_the_next_one_builds_on_what_was() {
    let mut peer = filtered_by_a();
    let refused = peer.add_filters(&["b"]);
    let next = peer.add_filters(&["c"]);
    peer.refuse(TOPIC, "too_many_filters (max 100)", None);
    refused_with(peer.outcome(refused), "too_many_filters (max 100)");
    assert_eq!(peer.filters_of(TOPIC), ["a"]);
    assert_eq!(peer.sent(), [set(&["a", "b"]), set(&["a", "c"])]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(next)), ["a", "c"]);
    assert!(peer.events().is_empty(), "and is nobody else's error");
}

#[test]
fn a_change_that_makes_no_sense_after_a_refusal_is_not_sent() {
    let mut peer = filtered_by_a();
    let refused = peer.set_filters(&["a", "b"]);
    let last = peer.remove_filters(&["a"]);
    let after = peer.set_filters(&["z"]);
    peer.refuse(TOPIC, "invalid_filter_chars (/, #, +, | not allowed)", None);
    assert!(matches!(peer.outcome(refused), Outcome::Refused(_)));
    assert_eq!(peer.outcome(last), Outcome::NotSent(Misuse::LastFilter(TOPIC.into()).into()));
    assert_eq!(peer.sent(), [set(&["a", "b"]), set(&["z"])], "and holds up nobody");
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(after)), ["z"]);
}

#[test]
fn a_subscription_that_the_broker_lost_is_made_again() {
    let mut peer = filtered_by_a();
    let lost = peer.add_filters(&["b"]);
    let next = peer.add_filters(&["c"]);
    peer.refuse(TOPIC, "not_subscribed", None);
    refused_with(peer.outcome(lost), "not_subscribed");
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), false)]);
    assert_eq!(peer.sent(), [set(&["a", "b"]), subscribe(&["a"])]);
    peer.subscribed(TOPIC);
    assert_eq!(peer.sent(), [set(&["a", "c"])]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(next)), ["a", "c"]);
}

#[test]
fn after_a_change_without_an_answer_the_old_filters_are_put_back() {
    let mut peer = filtered_by_a();
    let unanswered = peer.add_filters(&["b"]);
    let next = peer.add_filters(&["c"]);
    peer.sent();
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(unanswered), Op::SetFilters));
    assert_eq!(peer.sent(), [set(&["a"])]);
    assert!(peer.is_pending(next), "waits until it is known what it builds on");
    peer.filters_updated(TOPIC);
    assert_eq!(peer.filters_of(TOPIC), ["a"], "the late answer to what is given up counts for nothing");
    assert!(peer.sent().is_empty());
    peer.filters_updated(TOPIC);
    assert_eq!(peer.sent(), [set(&["a", "c"])]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(next)), ["a", "c"]);
}

#[test]
fn an_answer_shows_that_the_overdue_one_will_not_come() {
    let mut peer = filtered_by_a();
    peer.add_filters(&["b"]);
    peer.advance(secs(10));
    peer.filters_updated(TOPIC);
    peer.filters_updated(TOPIC);
    peer.filters_updated(TOPIC);
    assert_eq!(peer.core.stats().frames_unexpected, 1);
    assert_eq!(peer.filters_of(TOPIC), ["a"]);
}

#[test]
fn a_broker_that_answers_no_change_is_left_after_three_tries_to_put_the_filters_back() {
    let mut peer = filtered_by_a();
    peer.add_filters(&["b"]);
    peer.advance(secs(39));
    assert!(peer.closed().is_empty());
    assert_eq!(peer.sent(), [set(&["a", "b"]), set(&["a"]), set(&["a"]), set(&["a"])]);
    peer.advance(secs(1));
    assert_eq!(peer.closed(), [1000]);
}

// ---- lost connections ----

#[test]
fn after_a_loss_the_subscription_comes_back_and_then_the_change_is_made_again() {
    let mut peer = filtered_by_a();
    let sent = peer.add_filters(&["b"]);
    let waiting = peer.remove_filters(&["a"]);
    peer.fail(TransportErrorKind::Io);
    assert!(peer.is_pending(sent) && peer.is_pending(waiting));
    peer.sent();
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth".to_owned(), subscribe(&["a"])]);
    peer.subscribed(TOPIC);
    peer.filters_updated(TOPIC);
    peer.filters_updated(TOPIC);
    assert_eq!(peer.sent(), [set(&["a", "b"]), set(&["b"])]);
    assert_eq!(in_force(peer.outcome(sent)), ["a", "b"]);
    assert_eq!(in_force(peer.outcome(waiting)), ["b"]);
}

#[test]
fn changes_can_be_asked_for_while_there_is_no_connection() {
    let mut peer = filtered_by_a();
    peer.fail(TransportErrorKind::Io);
    let op = peer.add_filters(&["b"]);
    let refused = peer.core.remove_filters(peer.now, TOPIC, filter_list(&["a", "b"])).unwrap_err();
    assert_eq!(refused.error, Misuse::LastFilter(TOPIC.into()).into());
    peer.reconnect();
    peer.subscribed(TOPIC);
    peer.filters_updated(TOPIC);
    assert_eq!(peer.sent(), ["auth".to_owned(), subscribe(&["a"]), set(&["a", "b"])]);
    assert_eq!(in_force(peer.outcome(op)), ["a", "b"]);
}

#[test]
fn an_overdue_change_is_not_made_again() {
    let mut peer = filtered_by_a();
    let op = peer.add_filters(&["b"]);
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(op), Op::SetFilters));
    peer.fail(TransportErrorKind::Io);
    peer.sent();
    peer.reconnect();
    peer.subscribed(TOPIC);
    assert_eq!(peer.sent(), ["auth".to_owned(), subscribe(&["a"])]);
    assert_eq!(peer.filters_of(TOPIC), ["a"]);
}

#[test]
fn with_a_name_filters_that_the_broker_kept_are_not_sent_again() {
    let mut peer = Peer::connected(named());
    peer.filtered_subscription(TOPIC, &["a"]);
    peer.add_filters(&["b"]);
    peer.filters_updated(TOPIC);
    peer.forget();
    peer.fail(TransportErrorKind::Io);
    let waiting = peer.add_filters(&["c"]);
    peer.reopen();
    peer.sent();
    let kept: &[_] = &[("topic", Field::Text(TOPIC)), ("filters", Field::Filters(&["a", "b"]))];
    let list = restored(&[kept]);
    peer.accept_with(|reply| {
        reply.restored_subscriptions = Some(nolag_core::wire::RawValue::parse(&list).expect("a list"))
    });
    assert_eq!(peer.sent(), [set(&["a", "b", "c"])]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(waiting)), ["a", "b", "c"]);
}

#[test]
fn with_a_name_filters_that_the_broker_did_not_keep_are_subscribed_again() {
    let mut peer = Peer::connected(named());
    peer.filtered_subscription(TOPIC, &["a"]);
    // Whether the broker made this change before the loss is not known.
    let lost = peer.add_filters(&["b"]);
    peer.fail(TransportErrorKind::Io);
    peer.reopen();
    peer.sent();
    let kept: &[_] = &[("topic", Field::Text(TOPIC)), ("filters", Field::Filters(&["a", "b"]))];
    let list = restored(&[kept]);
    peer.accept_with(|reply| {
        reply.restored_subscriptions = Some(nolag_core::wire::RawValue::parse(&list).expect("a list"))
    });
    assert_eq!(peer.sent(), [subscribe(&["a"])]);
    peer.subscribed(TOPIC);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(lost)), ["a", "b"]);
}

#[test]
fn changes_end_with_the_client() {
    let mut peer = filtered_by_a();
    let sent = peer.add_filters(&["b"]);
    let waiting = peer.add_filters(&["c"]);
    peer.disconnect_now();
    assert_eq!(peer.outcome(sent), Outcome::Unknown(Rejection::Disconnected.into()));
    assert_eq!(peer.outcome(waiting), Outcome::NotSent(Rejection::Disconnected.into()));
}

#[test]
fn draining_makes_the_changes_that_were_accepted() {
    let mut peer = filtered_by_a();
    let first = peer.add_filters(&["b"]);
    let second = peer.add_filters(&["c"]);
    peer.drain(secs(5));
    peer.filters_updated(TOPIC);
    assert!(peer.closed().is_empty());
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(first)), ["a", "b"]);
    assert_eq!(in_force(peer.outcome(second)), ["a", "b", "c"]);
    assert_eq!(peer.closed(), [1000]);
}

// ---- with subscribe, unsubscribe and abandon ----

#[test]
fn unsubscribing_ends_the_changes_that_wait() {
    let mut peer = filtered_by_a();
    let sent = peer.add_filters(&["b"]);
    let waiting = peer.add_filters(&["c"]);
    let unsubscribed = peer.unsubscribe(TOPIC);
    assert_eq!(peer.outcome(waiting), superseded());
    peer.filters_updated(TOPIC);
    peer.unsubscribed(TOPIC);
    assert_eq!(in_force(peer.outcome(sent)), ["a", "b"]);
    assert_eq!(peer.outcome(unsubscribed), Outcome::Unsubscribed);
    assert!(peer.topics().is_empty());
}

#[test]
fn a_new_subscription_does_not_take_over_the_changes_of_the_old_one() {
    let mut peer = filtered_by_a();
    let old = peer.add_filters(&["b"]);
    peer.unsubscribe(TOPIC);
    peer.filtered(TOPIC, &["x"]);
    let new = peer.add_filters(&["y"]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(old)), ["a", "b"]);
    assert_eq!(peer.filters_of(TOPIC), ["x"]);
    peer.unsubscribed(TOPIC);
    peer.subscribed(TOPIC);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(new)), ["x", "y"]);
}

#[test]
fn a_subscribe_with_other_options_takes_the_place_of_the_changes_before_it() {
    let mut peer = filtered_by_a();
    let sent = peer.add_filters(&["b"]);
    let waiting = peer.add_filters(&["c"]);
    let replaced = peer.filtered(TOPIC, &["z"]);
    let after = peer.add_filters(&["y"]);
    assert_eq!(peer.outcome(waiting), superseded());
    assert_eq!(peer.sent(), [set(&["a", "b"]), subscribe(&["z"])]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(sent)), ["a", "b"]);
    assert_eq!(peer.filters_of(TOPIC), ["z"], "what is wanted is what was asked for last");
    peer.subscribed(TOPIC);
    assert!(matches!(peer.outcome(replaced), Outcome::Subscribed { .. }));
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), true)]);
    assert_eq!(peer.sent(), [set(&["z", "y"])]);
    peer.filters_updated(TOPIC);
    assert_eq!(in_force(peer.outcome(after)), ["z", "y"]);
}

#[test]
fn a_subscribe_that_a_change_under_way_would_make_different_is_sent() {
    let mut peer = filtered_by_a();
    peer.add_filters(&["b"]);
    let again = peer.filtered(TOPIC, &["a"]);
    assert_eq!(peer.sent(), [set(&["a", "b"]), subscribe(&["a"])]);
    peer.filters_updated(TOPIC);
    assert!(peer.is_pending(again));
    peer.subscribed(TOPIC);
    assert!(matches!(peer.outcome(again), Outcome::Subscribed { .. }));
    assert_eq!(peer.filters_of(TOPIC), ["a"]);
}

#[test]
fn a_subscribe_refused_after_a_change_goes_back_to_the_changed_filters() {
    let mut peer = filtered_by_a();
    peer.add_filters(&["b"]);
    peer.filtered(TOPIC, &["z"]);
    peer.filters_updated(TOPIC);
    peer.sent();
    peer.refuse(TOPIC, "too_many_filters (max 100)", None);
    assert_eq!(peer.sent(), [subscribe(&["a", "b"])]);
    assert_eq!(peer.filters_of(TOPIC), ["a", "b"]);
}

#[test]
fn a_change_that_a_later_subscribe_replaced_is_not_made_again_after_a_loss() {
    let mut peer = filtered_by_a();
    let change = peer.add_filters(&["b"]);
    let replaced = peer.filtered(TOPIC, &["z"]);
    peer.fail(TransportErrorKind::Io);
    assert!(matches!(peer.outcome(change), Outcome::Unknown(Error::Transport(_))));
    peer.sent();
    peer.reconnect();
    peer.subscribed(TOPIC);
    assert!(matches!(peer.outcome(replaced), Outcome::Subscribed { .. }));
    assert_eq!(peer.sent(), ["auth".to_owned(), subscribe(&["z"])]);
    assert_eq!(peer.filters_of(TOPIC), ["z"]);
}

#[test]
fn an_overdue_change_before_a_refused_subscribe_does_not_bring_its_filters_back() {
    let mut peer = filtered_by_a();
    peer.add_filters(&["b"]);
    peer.advance(secs(9));
    peer.filtered(TOPIC, &["z"]);
    peer.advance(secs(1));
    peer.sent();
    // The refusal of the change, late, and then that of the subscribe.
    peer.refuse(TOPIC, "too_many_filters (max 100)", None);
    peer.refuse(TOPIC, "too_many_filters (max 100)", None);
    assert_eq!(peer.sent(), [subscribe(&["a"])]);
    peer.subscribed(TOPIC);
    assert!(peer.sent().is_empty());
    assert_eq!(peer.filters_of(TOPIC), ["a"]);
}

#[test]
fn a_reply_to_the_subscribe_shows_that_the_change_before_it_will_not_be_answered() {
    let mut peer = filtered_by_a();
    let change = peer.add_filters(&["b"]);
    peer.filtered(TOPIC, &["z"]);
    peer.subscribed(TOPIC);
    assert_eq!(peer.outcome(change), Outcome::Unknown(ProtocolError::Unanswered.into()));
    assert_eq!(peer.filters_of(TOPIC), ["z"]);
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), true)]);
}

#[test]
fn an_abandoned_subscribe_that_waits_takes_its_changes_with_it() {
    let mut peer = Peer::new(config());
    peer.connect();
    let subscribed = peer.filtered(TOPIC, &["a"]);
    let changed = peer.add_filters(&["b"]);
    peer.abandon(subscribed);
    assert_eq!(peer.outcome(changed), superseded());
    assert!(peer.topics().is_empty());
}

#[test]
fn replies_that_answer_no_change_are_counted_and_change_nothing() {
    let mut peer = filtered_by_a();
    peer.filters_updated(TOPIC);
    peer.filters_updated(OTHER);
    let filters = nolag_core::wire::RawValue::NIL;
    peer.answer(&ServerFrame::FiltersUpdated { topic: Text::Other(filters), filters });
    assert_eq!(peer.core.stats().frames_unexpected, 3);
    assert_eq!(peer.filters_of(TOPIC), ["a"]);
    peer.refuse(TOPIC, "not_subscribed", None);
    assert!(peer.topics()[0].1, "an error about nothing that waits is only reported");
    assert_eq!(peer.events().len(), 1);
}

#[test]
fn explain_counts_the_changes_that_wait() {
    let mut peer = filtered_by_a();
    peer.add_filters(&["b"]);
    peer.add_filters(&["c"]);
    assert!(peer.core.explain().contains("2 filter changes"), "{}", peer.core.explain());
    let subscribe = Subscribe::new(TOPIC);
    peer.core.subscribe(peer.now, subscribe).expect("accepted");
    assert!(peer.core.explain().contains("1 filter changes"), "{}", peer.core.explain());
}
