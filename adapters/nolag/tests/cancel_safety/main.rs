//! Every public future can be dropped at any time, and then keeps what its documentation promises.
//!
//! Each [case](case::Case) makes a world of its own, polls one future by hand as a [plan](hand::Plan) says, drops it,
//! and looks at what the broker has received, at what another client sees, and whether the client can still be used.
//! `complete` fails when a public method returns a future that has no case, or that does not say what a drop does.

mod case;
mod coming_and_going;
mod complete;
mod filters;
mod hand;
mod lobbies;
mod lost;
mod presence;
mod publishing;
mod reading;
mod status;
mod subscribing;
mod unsubscribing;
mod wakers;
mod wanted;
mod world;

use std::time::Duration;

use case::Case;

/// Far more than anything here takes; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Fails the test instead of hanging.
#[track_caller]
fn soon<F: IntoFuture>(what: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        let ended = tokio::time::timeout(PATIENCE, what).await;
        ended.unwrap_or_else(|_| panic!("{caller}: it took too long"))
    }
}

/// Waits for a condition that nothing announces.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Every case there is.
fn all() -> Vec<Case> {
    let lists = [
        coming_and_going::cases(),
        filters::cases(),
        lobbies::cases(),
        presence::cases(),
        publishing::cases(),
        reading::cases(),
        status::cases(),
        subscribing::cases(),
        unsubscribing::cases(),
    ];
    lists.into_iter().flatten().collect()
}
