//! Dropped at every step of a lost connection.
//!
//! What is accepted is done whether somebody waits for it or not, so the same must come of a future that is dropped and
//! of one that is awaited. Only a subscription is taken back.

use nolag::{Client, EmitError, Emitted, Options, Status};
use nolag_broker::{Expected, Fault};

use crate::{
    PATIENCE,
    filters::{BEFORE, assert_filters, expected, let_through},
    hand::ByHand,
    lobbies::{assert_watched, lobby},
    presence::seen_by_bob,
    soon,
    world::{NEWS, World, at_hand, heard},
};

/// When the connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Before the request is made.
    Earlier,
    /// When the request is on its way: it does not arrive.
    OfRequest,
    /// When the request has been acted upon: the answer does not arrive.
    OfAnswer,
}

/// When the future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Right after its first poll.
    Made,
    /// When the connection is lost.
    Lost,
    /// When the client is connected again and has no answer yet.
    Back,
    /// When it is woken, which may be at any of these steps, and everything is over.
    Answered,
    /// Never: it is awaited.
    Never,
}

const LOSSES: [Loss; 3] = [Loss::Earlier, Loss::OfRequest, Loss::OfAnswer];
const STEPS: [Step; 5] = [Step::Made, Step::Lost, Step::Back, Step::Answered, Step::Never];

/// Without a name the client starts every connection anew.
fn unnamed(options: Options) -> Options {
    options
}

/// Of a client with a name the broker remembers what it is subscribed to.
fn named(options: Options) -> Options {
    options.client_id("laptop")
}

fn queued(options: Options) -> Options {
    options.offline_queue(10, 1 << 20, None)
}

fn resent(options: Options) -> Options {
    queued(options).resend_unconfirmed(true)
}

const NAMES: [fn(Options) -> Options; 2] = [unnamed, named];

/// One request whose connection is lost.
#[derive(Debug, Clone, Copy)]
struct Scene {
    request: &'static str,
    answer: &'static str,
    /// How often the request is sent in all.
    times: usize,
    loss: Loss,
    step: Step,
}

impl Scene {
    /// Loses the connection and gets it back, and drops the future on the way. Tells its output unless it was dropped.
    async fn play<F: Future>(self, world: &World, make: impl FnOnce(&Client) -> F) -> Option<F::Output> {
        // Shown with a failure.
        println!("{self:?}");
        let Self { request, answer, times, loss, step } = self;
        let broker = &world.broker;
        let sent = Expected::from_client(request).actor("alice").within(PATIENCE);
        let before = broker.recorder().matching(&sent).await.len();
        // No session follows before it is to.
        let door = broker.fault(Fault::hold().on("auth")).await;
        match loss {
            Loss::Earlier => {
                broker.cut(world.connection().await.unwrap().id).await;
                world.stands(Status::Reconnecting).await;
            }
            Loss::OfRequest => _ = broker.fault(Fault::cut().on(request).actor("alice").times(1)).await,
            Loss::OfAnswer => _ = broker.fault(Fault::cut().on_reply(answer).actor("alice").times(1)).await,
        }

        let mut future = ByHand::new(make(&world.alice));
        assert!(future.poll().is_pending());
        let mut future = Some(future).filter(|_| step != Step::Made);
        world.stands(Status::Reconnecting).await;
        future = future.filter(|_| step != Step::Lost);
        let answers = broker.fault(Fault::hold().on_reply(answer).actor("alice")).await;
        broker.remove_fault(door).await;
        world.stands(Status::Connected).await;
        broker.recorder().expect(sent.times(before + times)).await;
        future = future.filter(|_| step != Step::Back);
        broker.remove_fault(answers).await;
        if let Some(future) = &mut future {
            future.woken().await;
        }
        future = future.filter(|_| step != Step::Answered);
        let output = match future {
            Some(future) => Some(future.end().await),
            None => None,
        };
        world.restored().await;
        assert_eq!(world.alice.stats().core.sessions, 2);
        output
    }
}

/// A policy for messages, how often one is sent, how often bob hears it, and what its sender is told.
struct Emits {
    options: fn(Options) -> Options,
    loss: Loss,
    sent: usize,
    heard: usize,
    told: fn(&Result<Emitted, EmitError>) -> bool,
}

#[tokio::test]
async fn a_message_is_sent_as_often_as_its_policy_says() {
    let unknown: fn(&Result<Emitted, EmitError>) -> bool = |told| matches!(told, Err(EmitError::Unknown(_)));
    let acked: fn(&Result<Emitted, EmitError>) -> bool = |told| *told == Ok(Emitted::Acked);
    let policies = [
        Emits { options: unnamed, loss: Loss::OfRequest, sent: 1, heard: 0, told: unknown },
        Emits { options: unnamed, loss: Loss::OfAnswer, sent: 1, heard: 1, told: unknown },
        Emits { options: queued, loss: Loss::Earlier, sent: 1, heard: 1, told: acked },
        Emits { options: queued, loss: Loss::OfRequest, sent: 1, heard: 0, told: unknown },
        Emits { options: queued, loss: Loss::OfAnswer, sent: 1, heard: 1, told: unknown },
        Emits { options: resent, loss: Loss::Earlier, sent: 1, heard: 1, told: acked },
        Emits { options: resent, loss: Loss::OfRequest, sent: 2, heard: 1, told: acked },
        // At least once.
        Emits { options: resent, loss: Loss::OfAnswer, sent: 2, heard: 2, told: acked },
    ];
    for Emits { options, loss, sent, heard: times, told } in policies {
        for step in STEPS {
            let mut world = World::with(options).await;
            let mut bobs = world.bob_listens().await;
            world.mark().await;
            let scene = Scene { request: "publish", answer: "published", times: sent, loss, step };
            let output = scene.play(&world, |alice| alice.emit(NEWS, &1).into_future()).await;
            assert_eq!(world.sent().await, vec!["publish"; sent]);
            world.bob_says(2).await;
            assert_eq!(heard(&mut bobs, 2).await, [1, 1, 2][2 - times..]);
            assert_eq!(output.as_ref().map(told), (step == Step::Never).then_some(true), "{output:?}");
        }
    }
}

#[tokio::test]
async fn many_messages_are_sent_in_order() {
    for step in STEPS {
        let mut world = World::with(|options| options.resend_unconfirmed(true)).await;
        let mut bobs = world.bob_listens().await;
        world.mark().await;
        let loss = Loss::OfRequest;
        // The first is lost, and with it those behind it.
        let scene = Scene { request: "publish", answer: "published", times: 4, loss, step };
        let emits = |alice: &Client| (1..=3).map(|number| alice.emit(NEWS, &number)).collect::<Vec<_>>();
        let output = scene.play(&world, |alice| alice.emit_many(emits(alice))).await;
        assert_eq!(output, (step == Step::Never).then(|| vec![Ok(Emitted::Acked); 3]));
        world.bob_says(4).await;
        assert_eq!(heard(&mut bobs, 4).await, [1, 2, 3, 4]);
    }
}

/// Loses the connection of a subscribe.
async fn subscribe(name: Option<&'static str>, loss: Loss, step: Step) {
    let mut world = World::with(|options| match name {
        Some(name) => options.client_id(name),
        None => options,
    })
    .await;
    world.mark().await;
    let at_first = usize::from(loss != Loss::Earlier);
    // Not made again when it was dropped before the reconnect, nor when the broker remembers it.
    let again = !matches!(step, Step::Made | Step::Lost) && !is_remembered(name, loss);
    let scene = Scene {
        request: "subscribe",
        answer: "subscribed",
        times: at_first + usize::from(again),
        loss,
        step,
    };
    let output = scene.play(&world, |alice| alice.subscribe(NEWS).messages()).await;
    let Some(stream) = output else {
        assert_eq!(world.subscribed().await, Vec::<String>::new());
        world.bob_says(1).await;
        world.settle().await;
        assert_eq!(world.delivered().await, 0);
        return;
    };
    let mut stream = stream.unwrap();
    assert_eq!(world.subscribed().await, [NEWS]);
    for number in [1, 2] {
        world.bob_says(number).await;
        assert_eq!(soon(stream.next()).await.unwrap().data(), Ok(number));
    }
}

/// Whether the broker says that it has the subscription as soon as the client is back.
fn is_remembered(name: Option<&str>, loss: Loss) -> bool {
    name.is_some() && loss == Loss::OfAnswer
}

/// Every way to lose the connection of a subscribe, and whether it is answered when it is dropped.
fn losses_of_subscribe() -> impl Iterator<Item = (Option<&'static str>, Loss, Step, bool)> {
    let names = [None, Some("laptop")].into_iter();
    let losses = names.flat_map(|name| LOSSES.map(|loss| (name, loss)));
    losses.flat_map(|(name, loss)| {
        STEPS.map(|step| {
            let answered = step == Step::Answered || (step == Step::Back && is_remembered(name, loss));
            (name, loss, step, answered)
        })
    })
}

#[tokio::test]
async fn a_dropped_subscribe_is_taken_back_on_both_sides() {
    for (name, loss, step, answered) in losses_of_subscribe() {
        if !answered {
            subscribe(name, loss, step).await;
        }
    }
}

#[tokio::test]
async fn a_subscribe_that_is_dropped_when_it_is_answered_is_taken_back_on_both_sides() {
    for (name, loss, step, answered) in losses_of_subscribe() {
        if answered {
            subscribe(name, loss, step).await;
        }
    }
}

#[tokio::test]
async fn a_change_of_filters_is_made_on_both_sides() {
    for (loss, step) in LOSSES.into_iter().flat_map(|loss| STEPS.map(|step| (loss, step))) {
        for options in NAMES {
            let mut world = World::with(options).await;
            let subscribe = world.alice.subscribe(NEWS).filters(BEFORE).messages();
            let mut stream = soon(subscribe).await.unwrap();
            world.mark().await;
            let times = if loss == Loss::Earlier { 1 } else { 2 };
            let scene = Scene { request: "setFilters", answer: "filtersUpdated", times, loss, step };
            let output = scene.play(&world, |alice| alice.set_filters(NEWS, ["c"]).into_future()).await;
            assert_eq!(output, (step == Step::Never).then(|| Ok(vec!["c".into()])));
            assert_eq!(world.subscribed().await, [NEWS]);
            assert_filters(&world, &["c"]);
            assert_eq!(let_through(&world, &mut stream).await, expected(&["c"]));
        }
    }
}

#[tokio::test]
async fn presence_is_set() {
    for (loss, step) in LOSSES.into_iter().flat_map(|loss| STEPS.map(|step| (loss, step))) {
        let world = World::new().await;
        let times = if loss == Loss::Earlier { 1 } else { 2 };
        let scene = Scene { request: "presence", answer: "presence", times, loss, step };
        let set = |alice: &Client| alice.set_presence_in("general", "here").into_future();
        let output = scene.play(&world, set).await;
        assert_eq!(output, (step == Step::Never).then_some(Ok(())));
        assert_eq!(world.alice.presence_room().as_deref(), Some("general"));
        assert_eq!(seen_by_bob(&world).await, [Some("here")]);
    }
}

#[tokio::test]
async fn a_lobby_is_watched() {
    for (loss, step) in LOSSES.into_iter().flat_map(|loss| STEPS.map(|step| (loss, step))) {
        let world = World::new().await;
        soon(world.bob.set_presence_in("general", "there")).await.unwrap();
        let times = if loss == Loss::Earlier { 1 } else { 2 };
        let scene = Scene { request: "lobbySubscribe", answer: "lobbySubscribed", times, loss, step };
        let watch = |_: &Client| lobby(&world).subscribe().into_future();
        let output = scene.play(&world, watch).await;
        assert_eq!(output.map(|snapshot| snapshot.is_ok()), (step == Step::Never).then_some(true));
        assert_watched(&world).await;
    }
}

#[tokio::test]
async fn a_subscription_that_is_ended_stays_ended() {
    for (loss, step) in LOSSES.into_iter().flat_map(|loss| STEPS.map(|step| (loss, step))) {
        // Without a connection there is nothing to end at the broker, and it is done at once.
        if loss == Loss::Earlier {
            continue;
        }
        for options in NAMES {
            let mut world = World::with(options).await;
            let mut stream = soon(world.alice.subscribe(NEWS).messages()).await.unwrap();
            world.mark().await;
            let scene = Scene { request: "unsubscribe", answer: "unsubscribed", times: 1, loss, step };
            let output = scene.play(&world, |alice| alice.unsubscribe(NEWS).into_future()).await;
            assert_eq!(output, (step == Step::Never).then_some(Ok(())));
            assert_eq!(world.subscribed().await, Vec::<String>::new());
            world.bob_says(1).await;
            assert!(soon(stream.next()).await.is_none());
            world.settle().await;
            assert_eq!(world.delivered().await, 0);
        }
    }
}

#[tokio::test]
async fn a_flush_ends_with_what_it_waits_for() {
    for step in STEPS {
        let mut world = World::new().await;
        let mut bobs = world.bob_listens().await;
        world.mark().await;
        let loss = Loss::OfAnswer;
        let scene = Scene { request: "publish", answer: "published", times: 1, loss, step };
        let output = scene
            .play(&world, |alice| {
                alice.emit(NEWS, &1).send().unwrap();
                alice.flush()
            })
            .await;
        assert_eq!(output, (step == Step::Never).then_some(()));
        assert_eq!(world.sent().await, ["publish"]);
        world.bob_says(2).await;
        assert_eq!(heard(&mut bobs, 2).await, [1, 2]);
    }
}

#[tokio::test]
async fn a_reader_that_is_dropped_misses_nothing_after_the_loss() {
    for dropped_when_back in [false, true] {
        let mut world = World::new().await;
        let mut stream = soon(world.alice.subscribe(NEWS).messages()).await.unwrap();
        world.mark().await;
        let door = world.broker.fault(Fault::hold().on("auth")).await;
        let mut next = ByHand::new(stream.next());
        assert!(next.poll().is_pending());
        world.broker.cut(world.connection().await.unwrap().id).await;
        world.stands(Status::Reconnecting).await;
        let kept = Some(next).filter(|_| dropped_when_back);
        world.broker.remove_fault(door).await;
        world.restored().await;
        for number in 1..=3 {
            world.bob_says(number).await;
        }
        world.settle().await;
        drop(kept);
        for number in 1..=3 {
            assert_eq!(soon(stream.next()).await.unwrap().data(), Ok(number));
        }
        assert_eq!((world.delivered().await, at_hand(&mut stream)), (3, None));
    }
}
