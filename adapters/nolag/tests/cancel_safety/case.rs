//! Every public future under every plan.

use std::pin::Pin;

use crate::hand::Plan;

/// More polls than any future here takes.
const TOO_MANY: usize = 20;

/// A public future, and what it promises to whoever drops it.
pub(crate) struct Case {
    /// The method that returns it.
    pub(crate) name: &'static str,
    run: Box<dyn Fn(Plan) -> Run>,
}

/// One run of a case.
type Run = Pin<Box<dyn Future<Output = bool>>>;

/// Where a future is dropped, and where its runtime runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drops {
    /// Right after a poll, in a runtime that runs nothing between the two.
    Polled,
    /// Right after a poll, in a runtime that runs on.
    PolledMeanwhile,
    /// Between being woken and the next poll.
    Woken,
}

impl Case {
    /// `run` makes a world, does to the future as planned, checks what came of it, and says whether it has ended by
    /// itself.
    pub(crate) fn new<F: Future<Output = bool> + 'static>(
        name: &'static str,
        run: impl Fn(Plan) -> F + 'static,
    ) -> Self {
        Self { name, run: Box::new(move |plan| Box::pin(run(plan))) }
    }

    pub(crate) async fn run(&self, plan: Plan) -> bool {
        // Shown with a failure.
        println!("{} {plan:?}", self.name);
        (self.run)(plan).await
    }

    /// Drops the future after 0, 1, 2, … polls, until it ends before it is dropped.
    async fn drop_at_every_poll(&self, drops: Drops) {
        let woken = drops == Drops::Woken;
        for polls in usize::from(woken)..TOO_MANY {
            if self.run(Plan::Drop { polls, woken }).await {
                assert!(polls > 1 || drops != Drops::Polled, "{} never waits", self.name);
                return;
            }
        }
        panic!("{} never ends", self.name);
    }
}

/// Drops each future at every poll.
pub(crate) async fn drop_at_every_poll(cases: Vec<Case>, drops: Drops) {
    for case in cases {
        case.drop_at_every_poll(drops).await;
    }
}

/// Sees each future to its end.
pub(crate) async fn to_the_end(cases: Vec<Case>, plan: Plan) {
    for case in cases {
        assert!(case.run(plan).await, "{} has not ended", case.name);
    }
}

/// The tests of the cases that stand in `cases()`.
macro_rules! drop_them {
    () => {
        #[tokio::test]
        async fn dropped_after_any_poll_they_keep_their_promise() {
            crate::case::drop_at_every_poll(cases(), crate::case::Drops::Polled).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn dropped_after_any_poll_while_others_run_they_keep_their_promise() {
            crate::case::drop_at_every_poll(cases(), crate::case::Drops::PolledMeanwhile).await;
        }

        #[tokio::test]
        async fn dropped_when_woken_they_keep_their_promise() {
            crate::case::drop_at_every_poll(cases(), crate::case::Drops::Woken).await;
        }

        #[tokio::test]
        async fn the_last_waker_is_the_one_that_is_woken() {
            crate::case::to_the_end(cases(), crate::hand::Plan::NewWakers).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn they_can_be_polled_on_any_thread() {
            crate::case::to_the_end(cases(), crate::hand::Plan::NewThreads).await;
        }

        #[tokio::test]
        async fn polled_often_they_keep_few_wakers() {
            crate::case::to_the_end(cases(), crate::hand::Plan::Often).await;
        }
    };
}

pub(crate) use drop_them;
