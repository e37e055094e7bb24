//! The broker behind a WebSocket server.

mod api;
mod auth_file;
mod connection;
mod saver;
mod state_file;
mod task;

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::{State, WebSocketUpgrade},
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
    routing::{any, get},
    serve::ListenerExt,
};
use nolag_core::Instant;
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

use crate::{AuthConfig, AuthError, BrokerConfig, BrokerCore, StateError};
use saver::Saver;
use state_file::StateFile;
use task::{BrokerTask, Call, Event};

/// The port that Kraken listens on.
const KRAKEN_PORT: u16 = 8080;

/// Messages from clients that may wait for the broker; then their sockets are read no further.
const EVENT_QUEUE: usize = 1024;

/// How long a shutdown waits for clients to answer the close frame.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(3);

/// What a [`Server`] is started with.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where to listen; port 0 picks a free one.
    pub addr: SocketAddr,
    /// The broker. `wall_clock` is set by the server.
    pub config: BrokerConfig,
    /// A Kraken `auth.json`. It replaces `config.auth`, and is read again whenever it changes.
    pub auth_file: Option<PathBuf>,
}

/// Loopback, Kraken's port 8080, the default broker, no auth file.
impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            addr: (Ipv4Addr::LOCALHOST, KRAKEN_PORT).into(),
            config: BrokerConfig::default(),
            auth_file: None,
        }
    }
}

impl ServerOptions {
    /// Keeps what the control plane knows in a file; see [`BrokerConfig::state_file`].
    #[must_use]
    pub fn state_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.state_file = Some(path.into());
        self
    }
}

/// Why a [`Server`] did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The auth file is not usable.
    Auth(AuthError),
    /// The address is not free or not allowed.
    Bind {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The file of the control plane is not usable. It was left as it is.
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: StateError,
    },
    /// The file of the control plane cannot be read or written, or another broker uses it.
    StateFile {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auth(error) => error.fmt(f),
            Self::Bind { addr, source } => {
                write!(
                    f,
                    "cannot listen on {addr}: {source}; choose another port, or port 0 for any free one"
                )
            }
            Self::State { path, source } => {
                write!(f, "{}: {source}; mend the file, or move it away to begin anew", path.display())
            }
            Self::StateFile { path, source } => {
                write!(f, "cannot keep the control plane in {}: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Auth(error) => Some(error),
            Self::Bind { source, .. } | Self::StateFile { source, .. } => Some(source),
            Self::State { source, .. } => Some(source),
        }
    }
}

impl From<AuthError> for ServerError {
    fn from(error: AuthError) -> Self {
        Self::Auth(error)
    }
}

/// The server has ended, so there is no broker to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the broker has stopped; start another one")
    }
}

impl std::error::Error for Stopped {}

/// A running broker: WebSocket connections at `/ws`, the REST control plane under `/v1/`, `{"status":"ok"}` at
/// `/health`.
///
/// It runs on the tokio runtime that it was started on and stops when dropped, with every connection cut;
/// [`shutdown`](Self::shutdown) is the polite way.
#[derive(Debug)]
pub struct Server {
    local_addr: SocketAddr,
    calls: mpsc::UnboundedSender<Call>,
    recorded: watch::Receiver<u64>,
    stop: oneshot::Sender<()>,
    broker: Running,
    /// Listener, auth file watcher and saver. Aborted when dropped.
    _helpers: Vec<Running>,
    _state_file: Option<Closing>,
}

/// A file that is given back with its owner.
#[derive(Debug)]
struct Closing(Arc<StateFile>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A task that ends with its owner.
#[derive(Debug)]
struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Server {
    /// Starts listening. Clients can connect as soon as this returns.
    ///
    /// # Errors
    /// A [`ServerError`] when the auth file or the file of the control plane is not usable, or the address is taken.
    pub async fn bind(mut options: ServerOptions) -> Result<Self, ServerError> {
        let watcher = options.auth_file.map(auth_file::Watcher::new);
        if let Some(watcher) = &watcher {
            options.config.auth = AuthConfig::from_file(watcher.path())?;
        }
        let state_file = options.config.state_file.as_deref().map(StateFile::open).transpose()?.map(Arc::new);
        let saved = state_file.as_deref().map(StateFile::load).transpose()?.flatten();
        let addr = options.addr;
        let bound = async {
            let listener = TcpListener::bind(addr).await?;
            Ok((listener.local_addr()?, listener))
        };
        let (local_addr, listener) = bound.await.map_err(|source| ServerError::Bind { addr, source })?;

        let (events, inbox) = mpsc::channel(EVENT_QUEUE);
        let (calls, call_inbox) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let (recorded_in_all, recorded) = watch::channel(0);
        let stalled_after = options.config.limits.stalled_reader_timeout;
        let mut broker = BrokerTask::new(options.config, inbox, call_inbox, recorded_in_all);
        let core = broker.core_mut();
        match (saved, &state_file) {
            (Some(state), _) => core.set_control_state(state),
            // So that a file that cannot be written is noticed now.
            (None, Some(file)) => file.save(&core.saved_control()).map_err(|source| file.unusable(source))?,
            (None, None) => {}
        }
        let saver = state_file.clone().map(|file| Saver::new(calls.clone(), file, core.control_state()));
        let (saver, notebook) = saver.unzip();
        let broker = Running(tokio::spawn(broker.run(stopped, SHUTDOWN_PATIENCE)));

        let api = api::Desk::new(calls.clone(), notebook);
        let app = Router::new()
            .route("/ws", get(open_socket))
            .route("/health", get(health))
            .with_state(Doorway { events, stalled_after })
            // Also for paths that do not exist: it says so in its own way.
            .fallback_service(any(api::answer).with_state(api));
        // Small frames, each of which somebody waits for.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let listening = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::error!(%error, "the broker no longer accepts connections");
            }
        });
        let watching = watcher.map(|watcher| tokio::spawn(watcher.run(calls.clone())));
        let saving = saver.map(|saver| tokio::spawn(saver.run()));
        let helpers = [Some(listening), watching, saving].into_iter().flatten().map(Running).collect();
        let state_file = state_file.map(Closing);
        Ok(Self { local_addr, calls, recorded, stop, broker, _helpers: helpers, _state_file: state_file })
    }

    /// Where it listens, with the real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The address for clients, for example `ws://127.0.0.1:8080/ws`.
    pub fn url(&self) -> String {
        format!("ws://{}/ws", self.local_addr)
    }

    /// The address of the control plane, for example `http://127.0.0.1:8080/v1`.
    pub fn api_url(&self) -> String {
        format!("http://{}/v1", self.local_addr)
    }

    /// Runs something on the broker between two messages, for example
    /// `server.with_core(|core, now| core.restart(now))`. What the core wants sent by then has been handed to the
    /// connections when this returns.
    ///
    /// # Errors
    /// [`Stopped`] when the broker has ended.
    pub async fn with_core<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut BrokerCore, Instant) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        task::call(&self.calls, act).await.ok_or(Stopped)
    }

    /// Changes whenever a frame was recorded.
    pub(crate) fn recorded(&self) -> watch::Receiver<u64> {
        self.recorded.clone()
    }

    /// Closes every connection with 1001 and stops, within three seconds even if clients do not answer.
    pub async fn shutdown(mut self) {
        // No new connections while the old ones end.
        self._helpers.clear();
        if self.stop.send(()).is_ok() {
            let _ = (&mut self.broker.0).await;
        }
    }
}

/// What a connection is opened with.
#[derive(Debug, Clone)]
struct Doorway {
    events: mpsc::Sender<Event>,
    stalled_after: Option<Duration>,
}

async fn open_socket(upgrade: WebSocketUpgrade, State(doorway): State<Doorway>) -> Response {
    upgrade
        .max_message_size(connection::MAX_MESSAGE_BYTES)
        .max_frame_size(connection::MAX_MESSAGE_BYTES)
        .on_upgrade(move |socket| connection::serve(socket, doorway.events, doorway.stalled_after))
}

async fn health() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], r#"{"status":"ok"}"#)
}
