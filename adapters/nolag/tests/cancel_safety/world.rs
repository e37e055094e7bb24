//! A broker, the client whose futures are dropped, and another that sees what comes of it.

use std::time::Duration;

use futures_util::FutureExt as _;
use nolag::{Client, Emitted, Messages, Options, Room, Status, SubscriptionInfo, TypedMessages};
use nolag_broker::{ConnectionInfo, Direction, RecordedFrame, TestBroker};

use crate::{soon, until};

/// The topic of everything here.
pub(crate) const NEWS: &str = "demo/general/news";

/// The topic of [`World::barrier`].
const BARRIER: &str = "demo/barrier/end";

/// What one test runs in.
pub(crate) struct World {
    pub(crate) broker: TestBroker,
    /// Whose futures are dropped.
    pub(crate) alice: Client,
    /// Who looks on.
    pub(crate) bob: Client,
    /// Frames recorded before [`mark`](Self::mark).
    marked: usize,
}

/// Reconnects at once and as often as it takes, acknowledges each message at once, and has a patience that only
/// something lost would use up.
pub(crate) fn options(url: &str) -> Options {
    Options::new(url)
        .reconnect_interval(Duration::from_millis(1))
        .reconnect_stable_after(Duration::ZERO)
        .max_reconnect_attempts(None)
        .ack_batch(1, Duration::ZERO)
        .operation_timeout(Duration::from_secs(3600))
        .drain_timeout(Duration::from_secs(3600))
}

impl World {
    /// Both are connected.
    pub(crate) async fn new() -> Self {
        Self::with(|options| options).await
    }

    /// Both are connected, and alice has options of her own.
    pub(crate) async fn with(change: impl FnOnce(Options) -> Options) -> Self {
        let broker = TestBroker::start().await;
        let alice = Client::new(broker.token("alice"), change(options(&broker.url())));
        let bob = Client::new(broker.token("bob"), options(&broker.url()));
        soon(alice.connect()).await.unwrap();
        soon(bob.connect()).await.unwrap();
        Self { broker, alice, bob, marked: 0 }
    }

    /// [`ROOM`] as alice has it.
    pub(crate) fn room(&self) -> Room {
        self.alice.app("demo").room("general")
    }

    /// Waits until everything that alice has accepted has left, and that of what was dropped. So she can still be used.
    pub(crate) async fn barrier(&self) {
        // What is taken back when something is dropped leaves behind the first.
        for _ in 0..2 {
            let emitted = soon(self.alice.emit(BARRIER, &0).echo(false)).await;
            assert_eq!(emitted, Ok(Emitted::Acked));
        }
    }

    /// Waits until everything that alice has accepted has its outcome.
    pub(crate) async fn settle(&self) {
        self.barrier().await;
        soon(self.alice.flush()).await;
    }

    /// From here on [`sent`](Self::sent) tells what alice sends.
    pub(crate) async fn mark(&mut self) {
        self.settle().await;
        self.marked = self.broker.recorder().frames().await.len();
    }

    async fn recorded(&self) -> Vec<RecordedFrame> {
        self.broker.recorder().frames().await.split_off(self.marked)
    }

    /// The types of the frames that alice has sent since [`mark`](Self::mark), without those that belong to no call.
    pub(crate) async fn sent(&self) -> Vec<String> {
        let mut sent = self.recorded().await;
        sent.retain(|frame| {
            frame.direction == Direction::FromClient
                && frame.actor_id.as_deref() == Some("alice")
                && frame.topic.as_deref() != Some(BARRIER)
                && !matches!(&*frame.frame_type, "ack" | "auth" | "heartbeat")
        });
        sent.into_iter().map(|frame| frame.frame_type).collect()
    }

    /// The acknowledgements that alice has sent since [`mark`](Self::mark), as text.
    pub(crate) async fn acks(&self) -> Vec<String> {
        let mut sent = self.recorded().await;
        sent.retain(|frame| frame.direction == Direction::FromClient && frame.frame_type == "ack");
        let text = |frame: RecordedFrame| frame.to_string().split_once("-> ").unwrap().1.to_owned();
        sent.into_iter().map(text).collect()
    }

    /// How many messages on [`NEWS`] the broker has sent to alice since [`mark`](Self::mark).
    pub(crate) async fn delivered(&self) -> usize {
        let mut sent = self.recorded().await;
        sent.retain(|frame| {
            frame.direction == Direction::ToClient
                && frame.frame_type == "message"
                && frame.actor_id.as_deref() == Some("alice")
                && frame.topic.as_deref() == Some(NEWS)
        });
        sent.len()
    }

    /// The broker's connection of alice.
    pub(crate) async fn connection(&self) -> Option<ConnectionInfo> {
        let open = self.broker.connections().await;
        open.into_iter().find(|connection| connection.actor_id.as_deref() == Some("alice"))
    }

    /// The topics that alice is subscribed to, as she and the broker agree.
    pub(crate) async fn subscribed(&self) -> Vec<String> {
        let at_broker = self.connection().await.expect("alice is connected").subscriptions;
        let live = |known: SubscriptionInfo| {
            assert!(known.live, "{known:?}");
            known.topic.to_string()
        };
        let here: Vec<String> = self.alice.subscriptions().into_iter().map(live).collect();
        assert_eq!(here, at_broker, "client and broker disagree");
        here
    }

    /// What bob hears on [`NEWS`].
    pub(crate) async fn bob_listens(&self) -> TypedMessages<u32> {
        soon(self.bob.subscribe(NEWS).stream()).await.unwrap()
    }

    /// Bob publishes a number on [`NEWS`], and the broker has it.
    pub(crate) async fn bob_says(&self, number: u32) {
        soon(self.bob.emit(NEWS, &number)).await.unwrap();
    }

    /// Waits until alice stands there.
    pub(crate) async fn stands(&self, status: Status) {
        assert!(soon(self.alice.watch_status().wait_for(status)).await);
    }

    /// Waits until the broker has no connection of alice.
    pub(crate) async fn has_left(&self) {
        self.stands(Status::Disconnected).await;
        soon(async {
            while self.connection().await.is_some() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    /// Alice leaves, and comes back as from the start.
    pub(crate) async fn comes_back(&self) {
        self.has_left().await;
        soon(self.alice.connect()).await.unwrap();
        assert_eq!(self.subscribed().await, Vec::<String>::new());
        self.settle().await;
    }

    /// Waits until alice has settled down after a loss: connected, and everything confirmed.
    pub(crate) async fn restored(&self) {
        self.stands(Status::Connected).await;
        until("restored", || self.alice.subscriptions().iter().all(|known| known.live)).await;
        self.settle().await;
    }
}

/// The numbers up to `last`, in the order in which they come.
pub(crate) async fn heard(stream: &mut TypedMessages<u32>, last: u32) -> Vec<u32> {
    let mut heard = Vec::new();
    while heard.last() != Some(&last) {
        heard.push(soon(stream.next()).await.unwrap().unwrap().into_data());
    }
    heard
}

/// The number that has come, if one has.
pub(crate) fn at_hand(stream: &mut Messages) -> Option<u32> {
    stream.next().now_or_never().map(|message| message.unwrap().data().unwrap())
}
