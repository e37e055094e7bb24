//! The client.

use std::{
    fmt,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::{Arc, Weak},
};

use nolag_core::{
    ActorType, ClientCore, Config, Payload, Session, Status, SubscriptionInfo, Token, TokenSource,
};
use serde::Serialize;

use crate::{
    connect::{CloseFuture, ConnectFuture, FlushFuture},
    context::App,
    emit::{Emit, EmitMany},
    engine::{Handle, HandlerFn, Handlers, Job, List, Shared, State, Tokens, Waiter, lock, remove_from},
    event::{Disconnected, ErrorEvent, Hydration, Reconnected, ReplayEvent, Restored},
    handler::{HandlerId, HandlerReturn},
    message::Message,
    options::Options,
    request::{Ask, Request, done},
    runtime,
    status::StatusWatch,
    subscribe::{Subscribe, Unsubscribe},
    token::{TokenReturn, provider},
    transport::Dial,
};

/// A client of one broker, with one connection. Cheap to clone; all clones are the same client.
///
/// # Topics
/// A topic is `app/room/topic`. The methods here take it whole; [`app`](Self::app) and
/// [`Room`](crate::Room) put the first two parts in front.
///
/// # Handlers
/// Handlers may be registered at any time, also before [`connect`](Self::connect), and stay until they are removed.
/// They are called one after the other, in the order of events and of registration, and never under a lock: a handler
/// may call anything here, also remove itself. A handler that returns a future holds back the next until the future is
/// done; [`spawned`](Self::spawned) gives it a task of its own. A handler that panics is reported to
/// [`on_error`](Self::on_error) and stays.
///
/// Only messages wait for a slow application: other events can overtake messages that came shortly before them.
///
/// A handler that owns a `Client` (or what came from one) keeps it alive until the handler is removed or the client
/// is told to disconnect; give it a [`WeakClient`] instead where that matters.
///
/// # Leaving
/// [`disconnect`](Self::disconnect) and [`close`](Self::close) leave. When the last clone, [`App`],
/// [`Room`](crate::Room), stream and pending future of a client is gone it leaves as with `disconnect`, and its
/// background tasks end.
#[doc(alias = "NoLag")]
#[derive(Clone)]
pub struct Client {
    pub(crate) handle: Arc<Handle>,
    /// Whether handlers that are registered through it get tasks of their own.
    spawned: bool,
}

/// Refers to a client without keeping it alive, for handlers.
#[derive(Clone)]
pub struct WeakClient(Weak<Handle>);

/// What a client has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// What the protocol engine has counted.
    pub core: nolag_core::Stats,
    /// Messages that no handler and no stream listened to. They were acknowledged and dropped.
    pub messages_unheard: u64,
    /// Error events that were dropped because the handlers were too slow.
    pub error_events_dropped: u64,
    /// Events of presence, lobbies, hydration and replay that were dropped because the handlers were too slow.
    pub events_dropped: u64,
}

impl Client {
    /// A client for this actor's token. Nothing happens before [`connect`](Self::connect), which also reports what is
    /// wrong with the token or the options.
    ///
    /// It runs on tokio unless [`Options::runtime`] says otherwise.
    pub fn new(token: impl Into<Token>, options: Options) -> Self {
        Self::with_tokens(TokenSource::Static(token.into()), Tokens::default(), options)
    }

    /// A client whose tokens come from `provider`: it is called to connect, unless the last token is known to be good
    /// for another while, and ahead of the end of a token whose end is known. Then the new token is given to the broker
    /// without a reconnect. A token that the broker does not accept any more is replaced instead of being final.
    ///
    /// The provider returns `Result<T, E>` or a future of one. `T` is a token, or a [`FreshToken`](crate::FreshToken),
    /// which may say how long it can be used; of a JWT that is found out from its `exp`. `E` says why there is no token:
    /// that fails the attempt to connect, and the next one asks again.
    ///
    /// It runs on a task of its own, which it must not block in an async runtime; it has
    /// [half a minute](Options::token_timeout). A future that is not awaited any more, because the client has left or
    /// asks anew, is dropped. As long as the provider blocks it is not called again: what it returns at last is the answer
    /// to the latest question. A panic counts as an error.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use nolag::{Client, FreshToken, Options};
    ///
    /// // A JWT says itself how long it is good.
    /// let client = Client::with_token_provider(|| std::fs::read_to_string("token.jwt"), Options::default());
    ///
    /// // Of any other token only its issuer knows.
    /// let client = Client::with_token_provider(
    ///     || async {
    ///         let token = std::fs::read_to_string("token")?; // or whatever your issuer asks for
    ///         std::io::Result::Ok(FreshToken::new(token).valid_for(Duration::from_secs(300)))
    ///     },
    ///     Options::default(),
    /// );
    /// ```
    pub fn with_token_provider<F, R, Kind>(token_provider: F, options: Options) -> Self
    where
        F: FnMut() -> R + Send + 'static,
        R: TokenReturn<Kind>,
    {
        let tokens = Tokens::new(Some(provider(token_provider)));
        Self::with_tokens(TokenSource::Provider, tokens, options)
    }

    fn with_tokens(token: TokenSource, tokens: Tokens, options: Options) -> Self {
        let driver = runtime::driver(options.runtime);
        let now = driver.now();
        let seed = RandomState::new().build_hasher().finish();
        let built = options
            .check_runtime()
            .and_then(|()| Dial::new(&options))
            .and_then(|dial| Ok((dial, ClientCore::new(options.config(token), seed, now)?)));
        let (dial, core, invalid) = match built {
            Ok((dial, core)) => (Some(dial), core, None),
            // Never connects; it only refuses what needs a session.
            Err(error) => {
                let core = ClientCore::new(Config::new("unused"), seed, now);
                (None, core.unwrap_or_else(|_| unreachable!("the defaults are valid")), Some(error))
            }
        };
        let shared = Shared::new(State::new(core, invalid), dial, options, tokens, driver);
        Self { handle: Arc::new(Handle { shared }), spawned: false }
    }

    // ---- coming and going ----

    /// Connects and authenticates. With a session standing or on its way, joins it.
    ///
    /// From then on the client reconnects by itself, as [`Options`] say, until it is told to leave or gives up; then
    /// `connect` may be called again.
    ///
    /// # Errors
    /// [`Error::Server`](crate::Error::Server) when the broker denies the token, with its word for it; [`Error::Transport`](crate::Error::Transport) when the broker
    /// cannot be reached; [`Error::Protocol`](crate::Error::Protocol) when it does not answer; [`Error::Misuse`](crate::Error::Misuse) when the token or an option
    /// is invalid; [`Error::Rejected`](crate::Error::Rejected) while the client is leaving. The first attempt is not retried, unless
    /// [`Options::retry_first_connect`] is set.
    ///
    /// # Cancel safety
    /// Dropping the future before its first poll does nothing. Dropping it later does not stop the attempt;
    /// [`disconnect`](Self::disconnect) does.
    ///
    /// On tokio, outside a runtime or in one without `enable_all()`, it ends as
    /// [`TransportErrorKind::Io`](crate::TransportErrorKind::Io).
    pub fn connect(&self) -> ConnectFuture {
        ConnectFuture::new(self.handle.clone())
    }

    /// Leaves, without waiting for it. From this call on nothing new is accepted and no reconnect follows.
    ///
    /// What was accepted is finished first, for at most [`Options::drain_timeout`]; the rest is reported as not sent
    /// or unknown to whoever waits for it. This goes on in the background, so a program that ends right after it cuts
    /// it short; [`close`](Self::close) waits. Streams end, handlers stay for the next [`connect`](Self::connect).
    pub fn disconnect(&self) {
        self.handle.leave(Waiter::Nobody);
    }

    /// Leaves as [`disconnect`](Self::disconnect) does, and waits until everything accepted has left or is reported
    /// undone, the connection is closed, and the handlers of everything received before have run.
    ///
    /// Handlers get at most [`Options::drain_timeout`] for that, and go on in the background after it. That holds also
    /// where it is awaited outside the runtime of the client, as long as that one runs. A handler that
    /// itself awaits `close` does not wait for itself and those behind it. Messages that wait for a full stream are not
    /// waited for.
    ///
    /// # Cancel safety
    /// Dropping the future before its first poll does nothing. Dropping it later is the same as having called
    /// `disconnect`.
    #[doc(alias = "drain")]
    pub fn close(&self) -> CloseFuture {
        CloseFuture::new(self.handle.clone())
    }

    /// Waits until every operation accepted so far, by whomever, has its outcome. Useful after many
    /// [`Emit::send`](crate::Emit::send); what failed is told where each was issued.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn flush(&self) -> FlushFuture {
        FlushFuture::new(self.handle.clone())
    }

    // ---- where it stands ----

    /// Where the client stands.
    #[doc(alias = "ConnectionStatus")]
    pub fn status(&self) -> Status {
        self.ask(ClientCore::status)
    }

    /// Whether a session stands.
    #[doc(alias = "connected")]
    pub fn is_connected(&self) -> bool {
        self.status() == Status::Connected
    }

    /// Tells each change of the status.
    pub fn watch_status(&self) -> StatusWatch {
        StatusWatch::new(self.handle.shared.clone())
    }

    /// Who we are to the broker: of the session that stands, else of the last one.
    pub fn session(&self) -> Option<Arc<Session>> {
        self.ask(|core| core.session().cloned())
    }

    /// The actor's id, once there was a session.
    #[doc(alias = "actor_token_id")]
    pub fn actor_id(&self) -> Option<String> {
        self.session().map(|session| session.actor_id.clone())
    }

    /// The actor's type, once there was a session whose broker told it.
    pub fn actor_type(&self) -> Option<ActorType> {
        self.session()?.actor_type.as_deref().map(ActorType::from)
    }

    /// The actor's project, once there was a session whose broker told it.
    pub fn project_id(&self) -> Option<String> {
        self.session()?.project_id.clone()
    }

    /// The protocol version in force, once there was a session.
    pub fn protocol_version(&self) -> Option<u32> {
        self.session().map(|session| session.protocol_version)
    }

    /// Whether subscriptions that do not say share their messages with a group.
    pub fn load_balanced(&self) -> bool {
        self.handle.shared.options.config.load_balance
    }

    /// The group of load-balanced subscriptions that name none; `None`: the actor's id.
    pub fn load_balance_group(&self) -> Option<&str> {
        self.handle.shared.options.config.load_balance_group.as_deref()
    }

    /// What the client is subscribed to.
    pub fn subscriptions(&self) -> Vec<SubscriptionInfo> {
        self.ask(|core| core.subscriptions().collect())
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        let (core, messages_unheard) = self.handle.shared.peek(|state| (state.core.stats(), state.unheard));
        let dispatch = &self.handle.shared.dispatch;
        Stats {
            core,
            messages_unheard,
            error_events_dropped: dispatch.errors_dropped(),
            events_dropped: dispatch.events_dropped(),
        }
    }

    /// Says in words what the client is doing and waiting for. For logs and people; the wording may change.
    pub fn explain(&self) -> String {
        self.ask(ClientCore::explain)
    }

    // ---- topics ----

    /// The app with this slug.
    #[doc(alias = "set_app")]
    pub fn app(&self, app: impl Into<String>) -> App {
        App::new(self.clone(), app.into())
    }

    /// Subscribes to a topic, `app/room/topic`. `+` stands for any one part.
    ///
    /// `#` at the end stands for the rest by the rules, but Kraken confirms `app/room/#` and then delivers nothing to
    /// it: use `app/room/+` for all topics of a room. Messages of a pattern carry the pattern as their topic.
    pub fn subscribe(&self, topic: impl Into<String>) -> Subscribe {
        Subscribe::new(self.handle.clone(), Ok(topic.into()))
    }

    /// Ends the subscription to a topic, for all that listen: its streams end too. It is done once the broker confirmed,
    /// which it does even where nothing was subscribed. Messages already on their way may still reach handlers.
    pub fn unsubscribe(&self, topic: impl Into<String>) -> Unsubscribe {
        Request::new(self.handle.clone(), Ok(Ask::Unsubscribe(topic.into())), done)
    }

    /// Publishes to a topic, `app/room/topic`. The data may be of any serde type; structs become maps with their
    /// fields' names. It is encoded at once, and a failure reported when the result is awaited or sent.
    #[doc(alias = "publish")]
    pub fn emit<T: Serialize + ?Sized>(&self, topic: impl Into<Arc<str>>, data: &T) -> Emit {
        Emit::new(self.handle.clone(), Ok(topic.into()), Payload::encode(data))
    }

    /// As [`emit`](Self::emit), with data that is encoded already.
    pub fn emit_payload(&self, topic: impl Into<Arc<str>>, payload: Payload) -> Emit {
        Emit::new(self.handle.clone(), Ok(topic.into()), Ok(payload))
    }

    /// Publishes messages one behind the other, without waiting for each. The future is done when all have their
    /// outcomes, and tells one for each message, in order.
    ///
    /// ```no_run
    /// # async fn example(room: nolag::Room) {
    /// let outcomes = room.client().emit_many((0..100).map(|n| room.emit("numbers", &n))).await;
    /// let lost = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future before its first poll publishes nothing. Dropping it later withdraws nothing; only the
    /// outcomes are lost.
    pub fn emit_many(&self, emits: impl IntoIterator<Item = Emit>) -> EmitMany {
        EmitMany::new(emits)
    }

    // ---- handlers ----

    /// This client, whose handlers get tasks of their own when they are registered through what is returned here: a slow
    /// one then holds up no other.
    ///
    /// Such a handler still gets its own events one after the other and in order, but with no order between it and other
    /// handlers. When 64 events wait for it, it holds back the others after all, so that memory stays bounded.
    ///
    /// ```no_run
    /// # async fn store(message: nolag::Message) {}
    /// # fn example(client: nolag::Client) {
    /// client.spawned().on_any(store);
    /// # }
    /// ```
    #[must_use]
    pub fn spawned(&self) -> Self {
        Self { handle: self.handle.clone(), spawned: true }
    }

    /// Calls `handler` with each message of the topic as subscribed. It does not subscribe.
    ///
    /// The handler may return nothing, or a future (`|message| async move { … }`) that is then awaited before the next
    /// handler runs.
    pub fn on<F, R, Kind>(&self, topic: impl AsRef<str>, handler: F) -> HandlerId
    where
        F: FnMut(Message) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen(|handlers| handlers.topic(topic.as_ref()), handler)
    }

    /// Calls `handler` with every message, after the handlers of its topic.
    pub fn on_any<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(Message) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen(|handlers| &mut handlers.any, handler)
    }

    /// Calls `handler` after every successful connection, also after a reconnect. Subscriptions need not be made anew
    /// there: the client restores them. A handler registered right after [`connect`](Self::connect) has returned may
    /// still be told of that very connection.
    pub fn on_connect<F, R, Kind>(&self, mut handler: F) -> HandlerId
    where
        F: FnMut() -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen(|handlers| &mut handlers.connect, move |()| handler())
    }

    /// Calls `handler` after every connection that replaces a lost one, after the handlers of
    /// [`on_connect`](Self::on_connect). Subscriptions may still be on their way then;
    /// [`on_restored`](Self::on_restored) follows when they stand.
    pub fn on_reconnect<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(Reconnected) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen(|handlers| &mut handlers.reconnect, handler)
    }

    /// Calls `handler` when everything stands again that stood before a loss: every subscription is confirmed, or ended
    /// because the broker refused it. This is the moment to fetch what may have been missed.
    ///
    /// It comes after the handlers of [`on_reconnect`](Self::on_reconnect), and only once where a connection is lost
    /// again before that.
    pub fn on_restored<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(Restored) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen(|handlers| &mut handlers.restored, handler)
    }

    /// Calls `handler` whenever a session has ended, also when the application asked for it.
    pub fn on_disconnect<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(Disconnected) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen(|handlers| &mut handlers.disconnect, handler)
    }

    /// Calls `handler` with whatever goes wrong and is reported by no call. Register it before
    /// [`connect`](Self::connect), so that it misses nothing.
    pub fn on_error<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(ErrorEvent) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen(|handlers| &mut handlers.error, handler)
    }

    /// Calls `handler` with the state that an app's webhook gives for a topic, once after each subscribe, also after
    /// those that restore subscriptions. Apps without such a webhook give none.
    #[doc(alias = "hydration")]
    pub fn on_hydration<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(Hydration) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen(|handlers| &mut handlers.hydration, handler)
    }

    /// Calls `handler` when messages that a load-balanced group missed come after all. The messages themselves have
    /// [`is_replay`](Message::is_replay) set; [`ReplayEvent::Ended`] is told after they were handed out.
    #[doc(alias("replay:start", "replay:end"))]
    pub fn on_replay<F, R, Kind>(&self, handler: F) -> HandlerId
    where
        F: FnMut(ReplayEvent) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.listen(|handlers| &mut handlers.replay, handler)
    }

    /// Removes a handler of any kind; `false` if it was removed before.
    ///
    /// Once this returns the handler is not called any more. A call that is under way goes on.
    pub fn off(&self, handler: HandlerId) -> bool {
        // What is removed is the application's and must not be dropped under the lock.
        let removed = lock(&self.handle.shared.handlers).remove(handler);
        removed.is_some()
    }

    /// Removes all handlers of a topic; says how many there were.
    pub fn off_all(&self, topic: impl AsRef<str>) -> usize {
        let removed = lock(&self.handle.shared.handlers).remove_topic(topic.as_ref());
        removed.len()
    }

    /// Removes one handler of [`on_any`](Self::on_any); `false` if it is none.
    pub fn off_any(&self, handler: HandlerId) -> bool {
        let removed = remove_from(&mut lock(&self.handle.shared.handlers).any, handler);
        removed.is_some()
    }

    /// Removes all handlers of [`on_any`](Self::on_any); says how many there were.
    #[doc(alias = "off_any")]
    pub fn off_all_any(&self) -> usize {
        let removed = lock(&self.handle.shared.handlers).remove_any();
        removed.len()
    }

    // ---- references ----

    /// Refers to this client without keeping it alive.
    pub fn downgrade(&self) -> WeakClient {
        WeakClient(Arc::downgrade(&self.handle))
    }

    /// Adds a handler to a list.
    pub(crate) fn listen<E: Send + 'static, F, R, Kind>(
        &self,
        list: impl FnOnce(&mut Handlers) -> &mut List<E>,
        mut handler: F,
    ) -> HandlerId
    where
        F: FnMut(E) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        self.add_handler(list, Box::new(move |event| handler(event).into_work().0))
    }

    /// Adds a handler to a list, for some of its events.
    pub(crate) fn listen_if<E: Send + 'static, F, R, Kind>(
        &self,
        list: impl FnOnce(&mut Handlers) -> &mut List<E>,
        wanted: impl Fn(&E) -> bool + Send + 'static,
        mut handler: F,
    ) -> HandlerId
    where
        F: FnMut(E) -> R + Send + 'static,
        R: HandlerReturn<Kind>,
    {
        let call = move |event| if wanted(&event) { handler(event).into_work().0 } else { None };
        self.add_handler(list, Box::new(call))
    }

    pub(crate) fn add_handler<E: Send + 'static>(
        &self,
        list: impl FnOnce(&mut Handlers) -> &mut List<E>,
        call: HandlerFn<E>,
    ) -> HandlerId {
        lock(&self.handle.shared.handlers).add(list, call, self.spawned)
    }

    pub(crate) fn report(&self, event: ErrorEvent) {
        self.handle.shared.push_job(Job::Error(Arc::new(event)));
    }

    pub(crate) fn ask<R>(&self, question: impl FnOnce(&ClientCore) -> R) -> R {
        self.handle.shared.ask(question)
    }
}

impl WeakClient {
    /// The client, if it is still there.
    pub fn upgrade(&self) -> Option<Client> {
        self.0.upgrade().map(|handle| Client { handle, spawned: false })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl fmt::Debug for WeakClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakClient").finish_non_exhaustive()
    }
}
