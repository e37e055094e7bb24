//! Lobbies.

use nolag::{Lobby, LobbySnapshot};

use crate::{
    case::{Case, drop_them},
    hand::Plan,
    soon, until,
    world::World,
};

drop_them!();

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("Lobby::subscribe", subscribe),
        Case::new("Lobby::fetch", fetch),
        Case::new("Lobby::unsubscribe", unsubscribe),
    ]
}

pub(crate) fn lobby(world: &World) -> Lobby {
    world.alice.app("demo").lobby("online")
}

/// Polled once, the lobby is watched.
async fn subscribe(plan: Plan) -> bool {
    let mut world = World::new().await;
    soon(world.bob.set_presence_in("general", "there")).await.unwrap();
    world.mark().await;
    let lobby = lobby(&world);
    let end = plan.follow(lobby.subscribe()).await;
    world.settle().await;
    if end.is_unpolled() {
        assert_eq!((world.sent().await.len(), lobby.snapshot()), (0, None));
        return false;
    }
    // Kraken's own first answer is empty, so the client asks once more.
    assert_eq!(world.sent().await, ["lobbySubscribe", "getLobbyPresence"]);
    assert_watched(&world).await;
    assert_eq!(world.sent().await.len(), 2);
    end.done().map(|snapshot| assert!(holds_bob(&snapshot.unwrap(), "general"))).is_some()
}

/// Dropped or not, asking changes nothing.
async fn fetch(plan: Plan) -> bool {
    let mut world = World::new().await;
    world.mark().await;
    let lobby = lobby(&world);
    let end = plan.follow(lobby.fetch()).await;
    world.settle().await;
    let asked = usize::from(!end.is_unpolled());
    assert_eq!(world.sent().await, vec!["getLobbyPresence"; asked]);
    assert_eq!(lobby.snapshot(), None);
    end.done().map(Result::unwrap).is_some()
}

/// Polled once, the lobby is not watched any more.
async fn unsubscribe(plan: Plan) -> bool {
    let mut world = World::new().await;
    let lobby = lobby(&world);
    soon(lobby.subscribe()).await.unwrap();
    world.mark().await;
    let end = plan.follow(lobby.unsubscribe()).await;
    world.settle().await;
    if end.is_unpolled() {
        assert_eq!(world.sent().await.len(), 0);
        assert_watched(&world).await;
        return false;
    }
    assert_eq!(world.sent().await, ["lobbyUnsubscribe"]);
    assert_eq!(lobby.snapshot(), None);
    end.done().map(Result::unwrap).is_some()
}

/// The broker tells alice what happens in the lobby.
pub(crate) async fn assert_watched(world: &World) {
    let lobby = lobby(world);
    assert!(lobby.snapshot().is_some());
    soon(world.bob.set_presence_in("lounge", "there")).await.unwrap();
    until("the event", || holds_bob(&lobby.snapshot().unwrap(), "lounge")).await;
}

fn holds_bob(snapshot: &LobbySnapshot, room: &str) -> bool {
    snapshot.get(room).is_some_and(|members| members.iter().any(|member| &*member.actor_id == "bob"))
}
