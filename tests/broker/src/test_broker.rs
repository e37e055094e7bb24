//! A broker for one test.

use std::net::{Ipv4Addr, SocketAddr};

use crate::{
    AuthConfig, BrokerConfig, BrokerCore, ConnectionId, ConnectionInfo, Limits, Profile, Server,
    ServerOptions, Stopped,
};
use nolag_core::Instant;

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
#[derive(Debug)]
pub struct TestBroker {
    server: Server,
    auth: AuthConfig,
}

/// Options of a [`TestBroker`].
#[derive(Debug, Clone, Default)]
pub struct TestBrokerBuilder {
    config: BrokerConfig,
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

    /// Starts the broker on the current tokio runtime.
    ///
    /// # Panics
    /// When the system has no free port on the loopback interface.
    pub async fn start(self) -> TestBroker {
        let auth = self.config.auth.clone();
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = ServerOptions { addr, config: self.config, auth_file: None };
        match Server::bind(options).await {
            Ok(server) => TestBroker { server, auth },
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
