//! Changing filters.

use nolag::{Filter, Request};

use crate::{
    case::{Case, drop_them},
    hand::Plan,
    soon,
    world::{NEWS, World, at_hand},
};

drop_them!();

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("Client::set_filters", |plan| {
            change(plan, |world| world.alice.set_filters(NEWS, ["c"]), &["c"])
        }),
        Case::new("Client::add_filters", |plan| {
            change(plan, |world| world.alice.add_filters(NEWS, ["c"]), &["a", "b", "c"])
        }),
        Case::new("Client::remove_filters", |plan| {
            change(plan, |world| world.alice.remove_filters(NEWS, ["b"]), &["a"])
        }),
        Case::new("Client::clear_filters", |plan| change(plan, |world| world.alice.clear_filters(NEWS), &[])),
        Case::new("Room::set_filters", |plan| {
            change(plan, |world| world.room().set_filters("news", ["c"]), &["c"])
        }),
        Case::new("Room::add_filters", |plan| {
            change(plan, |world| world.room().add_filters("news", ["c"]), &["a", "b", "c"])
        }),
        Case::new("Room::remove_filters", |plan| {
            change(plan, |world| world.room().remove_filters("news", ["b"]), &["a"])
        }),
        Case::new("Room::clear_filters", |plan| {
            change(plan, |world| world.room().clear_filters("news"), &[])
        }),
        Case::new("Topic::set_filters", |plan| {
            change(plan, |world| world.room().topic::<u32>("news").set_filters(["c"]), &["c"])
        }),
        Case::new("Topic::add_filters", |plan| {
            change(plan, |world| world.room().topic::<u32>("news").add_filters(["c"]), &["a", "b", "c"])
        }),
        Case::new("Topic::remove_filters", |plan| {
            change(plan, |world| world.room().topic::<u32>("news").remove_filters(["b"]), &["a"])
        }),
        Case::new("Topic::clear_filters", |plan| {
            change(plan, |world| world.room().topic::<u32>("news").clear_filters(), &[])
        }),
    ]
}

/// Polled once, a change is made once.
async fn change(
    plan: Plan,
    make: fn(&World) -> Request<Vec<Filter>>,
    after: &'static [&'static str],
) -> bool {
    let mut world = World::new().await;
    let mut stream = soon(world.alice.subscribe(NEWS).filters(BEFORE).messages()).await.unwrap();
    world.mark().await;
    let end = plan.follow(make(&world)).await;
    world.settle().await;
    let (sent, filters) = if end.is_unpolled() { (vec![], &BEFORE[..]) } else { (vec!["setFilters"], after) };
    assert_eq!(world.sent().await, sent);
    assert_filters(&world, filters);
    assert_eq!(let_through(&world, &mut stream).await, expected(filters));
    let filters: Vec<Filter> = filters.iter().copied().map(Filter::from).collect();
    let done = end.done();
    assert!(done.is_none() || done == Some(Ok(filters)), "{done:?}");
    done.is_some()
}

/// The filters before the change.
pub(crate) const BEFORE: [&str; 2] = ["a", "b"];

/// The filters that alice believes to be in force.
pub(crate) fn assert_filters(world: &World, expected: &[&str]) {
    let known = world.alice.subscriptions();
    let expected: Vec<Filter> = expected.iter().copied().map(Filter::from).collect();
    assert_eq!(known.iter().map(|known| &known.options.filters).collect::<Vec<_>>(), [&expected]);
}

/// Publishes a number under each of three filters, and says which reach alice.
pub(crate) async fn let_through(world: &World, stream: &mut nolag::Messages) -> Vec<u32> {
    for (number, filter) in [(1, "a"), (2, "b"), (3, "c")] {
        soon(world.bob.emit(NEWS, &number).filter(filter)).await.unwrap();
    }
    world.settle().await;
    std::iter::from_fn(|| at_hand(stream)).collect()
}

/// What [`let_through`] says where these filters are in force.
pub(crate) fn expected(filters: &[&str]) -> Vec<u32> {
    let known = [(1, "a"), (2, "b"), (3, "c")];
    let through = known.iter().filter(|(_, filter)| filters.is_empty() || filters.contains(filter));
    through.map(|(number, _)| *number).collect()
}
