//! A broker for one test.

use std::{
    net::{Ipv4Addr, SocketAddr},
    panic::Location,
    path::PathBuf,
};

use nolag_core::{Instant, Token};
use tokio::time;

use crate::{
    AuthConfig, BrokerConfig, BrokerCore, ConnectionId, ConnectionInfo, Expected, Fault, FaultId, Limits,
    NewActor, Profile, RecordedFrame, Server, ServerOptions, Stopped,
};

/// A broker of your own on a free port of the loopback interface, for tests.
///
/// It is ready when `start` returns, shares nothing with other brokers, and stops when dropped, also by a panic.
/// Unless told otherwise it accepts every token; [`token`](Self::token) gives those of actors with a readable name.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use nolag_broker::{Profile, TestBroker};
///
/// let broker = TestBroker::builder().profile(Profile::Cloud).start().await;
/// let (url, token) = (broker.url(), broker.token("alice"));
/// // … connect with `url` and `token`, then see how your code takes it:
/// broker.cut_all().await;
/// # });
/// ```
///
/// [`Fault`]s go wrong on purpose, and the [`recorder`](Self::recorder) says what clients really sent:
///
/// ```no_run
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use nolag_broker::{Expected, Fault, NewActor, TestBroker};
///
/// let broker = TestBroker::builder().fault(Fault::refuse("broker_unavailable").on("auth").times(2)).start().await;
/// let token = broker.add_actor(NewActor::new("reader").can_subscribe("chat/general/#")).await;
/// // … start the client; it tries three times:
/// broker.recorder().expect(Expected::from_client("auth").times(3)).await;
/// # drop(token);
/// # });
/// ```
#[derive(Debug)]
pub struct TestBroker {
    server: Server,
    auth: AuthConfig,
    api_key: Token,
}

/// Options of a [`TestBroker`].
#[derive(Debug, Clone, Default)]
pub struct TestBrokerBuilder {
    config: BrokerConfig,
    faults: Vec<Fault>,
}

impl TestBrokerBuilder {
    /// The broker to imitate.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.config.profile = profile;
        self
    }

    /// The tokens to accept.
    #[must_use]
    pub fn auth(mut self, auth: AuthConfig) -> Self {
        self.config.auth = auth;
        self
    }

    /// Other limits than real brokers have.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }

    /// Whether messages carry `msgId` and `requiresAck`.
    #[must_use]
    pub fn record_messages(mut self, record: bool) -> Self {
        self.config.record_messages = record;
        self
    }

    /// Whether load-balanced groups get what they missed; see [`BrokerConfig::durable_delivery`].
    #[must_use]
    pub fn durable_delivery(mut self, durable: bool) -> Self {
        self.config.durable_delivery = durable;
        self
    }

    /// Another API key for the control plane than the one for development.
    #[must_use]
    pub fn api_key(mut self, api_key: impl Into<Token>) -> Self {
        self.config.api_key = api_key.into();
        self
    }

    /// Keeps what the control plane knows in a file; see [`BrokerConfig::state_file`].
    #[must_use]
    pub fn state_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.state_file = Some(path.into());
        self
    }

    /// A fault that is on from the start.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Starts the broker on the current tokio runtime.
    ///
    /// # Panics
    /// When the system has no free port on the loopback interface, or the state file is not usable.
    pub async fn start(mut self) -> TestBroker {
        self.config.record_frames = true;
        let (auth, api_key) = (self.config.auth.clone(), self.config.api_key.clone());
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = ServerOptions { addr, config: self.config, auth_file: None };
        match Server::bind(options).await {
            Ok(server) => {
                let broker = TestBroker { server, auth, api_key };
                // Before anybody knows the address.
                for fault in self.faults {
                    broker.fault(fault).await;
                }
                broker
            }
            Err(error) => panic!("the test broker does not start: {error}"),
        }
    }
}

impl TestBroker {
    /// Starts a broker with everything at its default.
    ///
    /// # Panics
    /// When the system has no free port on the loopback interface.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Starts with options.
    pub fn builder() -> TestBrokerBuilder {
        TestBrokerBuilder::default()
    }

    /// The address for clients.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The address of the control plane, `http://127.0.0.1:PORT/v1`.
    pub fn api_url(&self) -> String {
        self.server.api_url()
    }

    /// The API key of the control plane.
    pub fn api_key(&self) -> &str {
        self.api_key.expose()
    }

    /// A token of the actor `actor_id`.
    ///
    /// # Panics
    /// When the broker was started with tokens of its own and none is this actor's.
    pub fn token(&self, actor_id: &str) -> String {
        match self.auth.token_of(actor_id) {
            Some(token) => token,
            None => {
                panic!("no token of this broker belongs to an actor {actor_id:?}; add it to the auth given")
            }
        }
    }

    /// Makes an actor that may do exactly what it is given, and returns its token. Connections that exist already keep
    /// what they have.
    pub async fn add_actor(&self, actor: NewActor) -> String {
        let token = actor.token();
        self.act(|core, now| {
            let auth = core.auth().clone().with_actor(actor);
            core.set_auth(now, auth);
        })
        .await;
        token
    }

    /// Switches a fault on, for existing and new connections.
    pub async fn fault(&self, fault: Fault) -> FaultId {
        self.act(|core, now| core.add_fault(now, fault)).await
    }

    /// Switches a fault off, and lets go on what it holds. Returns whether it was still on.
    pub async fn remove_fault(&self, id: FaultId) -> bool {
        self.act(move |core, now| core.remove_fault(now, id)).await
    }

    /// Switches all faults off, and lets go on what they hold.
    pub async fn clear_faults(&self) {
        self.act(|core, now| core.clear_faults(now)).await;
    }

    /// Lets the token of a connection expire; see [`BrokerCore::expire_token`].
    pub async fn expire_token(&self, conn: ConnectionId) {
        self.act(move |core, now| core.expire_token(now, conn)).await;
    }

    /// What clients and broker have sent each other.
    pub fn recorder(&self) -> Recorder<'_> {
        Recorder { broker: self }
    }

    /// The open connections, oldest first.
    pub async fn connections(&self) -> Vec<ConnectionInfo> {
        self.act(|core, _| core.connections().collect()).await
    }

    /// Drops a connection without a close frame.
    pub async fn cut(&self, conn: ConnectionId) {
        self.act(move |core, now| core.cut(now, conn)).await;
    }

    /// Drops every connection without a close frame.
    pub async fn cut_all(&self) {
        let all = |core: &mut BrokerCore, now| {
            let open: Vec<_> = core.connections().map(|connection| connection.id).collect();
            open.into_iter().for_each(|conn| core.cut(now, conn));
        };
        self.act(all).await;
    }

    /// Holds back everything for a connection; see [`BrokerCore::hold`].
    pub async fn hold(&self, conn: ConnectionId) {
        self.act(move |core, now| core.hold(now, conn)).await;
    }

    /// Delivers what was held back for a connection.
    pub async fn release(&self, conn: ConnectionId) {
        self.act(move |core, now| core.release(now, conn)).await;
    }

    /// Restarts the broker on the same port: connections are cut, and everything is forgotten.
    pub async fn restart(&self) {
        self.act(|core, now| core.restart(now)).await;
    }

    /// Runs something on the broker; see [`Server::with_core`].
    ///
    /// # Errors
    /// [`Stopped`] when the broker has ended.
    pub async fn with_core<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut BrokerCore, Instant) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        self.server.with_core(act).await
    }

    /// Closes every connection with 1001 and stops.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }

    async fn act<R: Default + Send + 'static>(
        &self,
        act: impl FnOnce(&mut BrokerCore, Instant) -> R + Send + 'static,
    ) -> R {
        // The broker runs as long as `self` lives; only a runtime that shuts down ends it earlier.
        self.server.with_core(act).await.unwrap_or_default()
    }
}

/// What went through a [`TestBroker`]: its last 10,000 frames, up to 16 MiB.
#[derive(Debug, Clone, Copy)]
pub struct Recorder<'b> {
    broker: &'b TestBroker,
}

impl Recorder<'_> {
    /// Every frame that is kept, oldest first.
    pub async fn frames(&self) -> Vec<RecordedFrame> {
        self.broker.act(|core, _| core.recorded().cloned().collect()).await
    }

    /// Waits until the expected frames have been seen, and returns them.
    ///
    /// With [`times`](Expected::times) it only says what holds now: more can follow later.
    ///
    /// # Panics
    /// When they do not come in time, or too many come. The text lists what was recorded instead.
    #[track_caller]
    pub fn expect(&self, expected: Expected) -> impl Future<Output = Vec<RecordedFrame>> {
        let caller = Location::caller();
        async move {
            match self.wait_for(&expected).await {
                Ok(frames) => frames,
                Err(failure) => panic!("{caller}: {failure}"),
            }
        }
    }

    /// The expected frames among those recorded so far. Waits for nothing.
    pub async fn matching(&self, expected: &Expected) -> Vec<RecordedFrame> {
        let mut frames = self.frames().await;
        frames.retain(|frame| expected.matches(frame));
        frames
    }

    async fn wait_for(&self, expected: &Expected) -> Result<Vec<RecordedFrame>, String> {
        let mut recorded = self.broker.server.recorded();
        let deadline = time::Instant::now() + expected.patience();
        loop {
            recorded.mark_unchanged();
            let found = self.matching(expected).await;
            let verdict = expected.verdict(found.len());
            if verdict == Some(true) {
                return Ok(found);
            }
            let more = async { recorded.changed().await.is_ok() };
            let may_come = verdict.is_none() && time::timeout_at(deadline, more).await.unwrap_or(false);
            if !may_come {
                let look = |core: &mut BrokerCore, _| {
                    (core.recorded().cloned().collect::<Vec<_>>(), core.recorded_in_all())
                };
                let (frames, in_all) = self.broker.act(look).await;
                return Err(expected.failure(&frames, in_all - frames.len() as u64));
            }
        }
    }
}
