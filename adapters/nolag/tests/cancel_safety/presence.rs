//! Presence.

use nolag::{PresenceMember, Request};

use crate::{
    case::{Case, drop_them},
    hand::Plan,
    soon,
    world::World,
};

drop_them!();

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("Client::set_presence_in", |plan| {
            change(plan, None, |world| world.alice.set_presence_in("general", "here"), &[Some("here")])
        }),
        Case::new("Room::set_presence", |plan| {
            change(plan, Some("early"), |world| world.room().set_presence("here"), &[Some("here")])
        }),
        Case::new("Client::clear_presence", |plan| {
            change(plan, Some("early"), |world| world.alice.clear_presence(), &[None])
        }),
        Case::new("Client::set_presence", |plan| {
            #[allow(deprecated, reason = "it is public")]
            change(plan, None, |world| world.alice.set_presence("nowhere"), &[])
        }),
        Case::new("Client::fetch_presence", |plan| {
            fetch(plan, |world| world.alice.fetch_presence("general"))
        }),
        Case::new("Room::fetch_presence", |plan| fetch(plan, |world| world.room().fetch_presence())),
    ]
}

/// Polled once, a change is made once, and stays.
async fn change(
    plan: Plan,
    before: Option<&'static str>,
    make: fn(&World) -> Request<()>,
    after: &'static [Option<&'static str>],
) -> bool {
    let mut world = World::new().await;
    if let Some(before) = before {
        soon(world.alice.set_presence_in("general", before)).await.unwrap();
    }
    world.mark().await;
    let end = plan.follow(make(&world)).await;
    world.settle().await;
    let (sent, shown) = match (end.is_unpolled(), before) {
        (true, None) => (vec![], vec![]),
        (true, before) => (vec![], vec![before]),
        _ => (vec!["presence"], after.to_vec()),
    };
    assert_eq!(world.sent().await, sent);
    assert_eq!(seen_by_bob(&world).await, shown);
    let kept = shown.iter().any(Option::is_some).then_some("general");
    assert_eq!(world.alice.presence_room().as_deref(), kept);
    let done = end.done();
    assert!(done.is_none() || done == Some(Ok(())), "{done:?}");
    done.is_some()
}

/// Dropped or not, asking changes nothing.
async fn fetch(plan: Plan, make: fn(&World) -> Request<Vec<PresenceMember>>) -> bool {
    let mut world = World::new().await;
    soon(world.bob.set_presence_in("general", "there")).await.unwrap();
    world.mark().await;
    let end = plan.follow(make(&world)).await;
    world.settle().await;
    let asked = usize::from(!end.is_unpolled());
    assert_eq!(world.sent().await, vec!["getPresence"; asked]);
    assert_eq!(world.alice.presence_room(), None);
    let done = end.done();
    let found = done.as_ref().map(|members| members.as_ref().unwrap().len());
    assert!(found.is_none() || found == Some(1), "{found:?}");
    done.is_some()
}

/// What bob sees of alice, once for each of her connections.
pub(crate) async fn seen_by_bob(world: &World) -> Vec<Option<&'static str>> {
    let members = soon(world.bob.fetch_presence("general")).await.unwrap();
    let alices = members.into_iter().filter(|member| &*member.actor_id == "alice");
    let known = ["early", "here", "there"];
    alices.map(|alice| known.into_iter().find(|known| alice.presence.text() == Some(known))).collect()
}
