//! The processes that clients and brokers are measured against.

mod blaster;
mod broadcaster;

use std::{
    env,
    ffi::OsString,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::Ipv4Addr,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use futures_util::{
    future::{BoxFuture, FutureExt as _},
    never::Never,
};
use nolag_broker::{AuthConfig, BrokerConfig, Limits, Server, ServerOptions};
use serde::{Deserialize, Serialize};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

use crate::{Error, Result, works::memory};

/// How long a peer may take to be ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// How peers are started.
#[derive(Debug, Clone)]
pub enum Launch {
    /// As child processes: this program with these arguments and one more, which goes to [`run`].
    Child {
        /// The program.
        program: PathBuf,
        /// What stands before the last argument.
        args: Vec<OsString>,
    },
    /// On threads of this process, for tests: they share its memory and its allocator.
    Thread,
}

impl Launch {
    /// As child processes of this program.
    ///
    /// # Errors
    /// When the system does not say where this program is.
    pub fn this_program(args: impl IntoIterator<Item = OsString>) -> io::Result<Self> {
        Ok(Self::Child { program: env::current_exe()?, args: args.into_iter().collect() })
    }
}

/// What a peer does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Floods subscribers, confirms and echoes publishes.
    Blaster { size: usize, seed: u64 },
    /// A WebSocket server that gives each message to all subscribers, and does nothing else.
    Broadcaster,
    /// The development broker without limits.
    Broker,
    /// Tells what idle cores and subscriptions take.
    Cores { cores: usize, subscriptions: usize },
    /// Tells what idle clients of the broker take.
    IdleClients { url: String, clients: usize },
}

/// Does in a process of its own what `role`, the last argument of a child of [`Launch`], says. Servers serve until the
/// process that started this one is gone.
///
/// # Errors
/// When the role is none, or cannot be done.
pub fn run(role: &str) -> Result<()> {
    let role = serde_json::from_str(role).map_err(|error| Error::other(format!("no role: {error}")))?;
    end_with_parent();
    perform(role, |line| {
        let mut out = io::stdout().lock();
        // Whoever does not read it does not want it.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    })
}

/// Ends this process when the one that started it is gone, however that came.
fn end_with_parent() {
    thread::spawn(|| {
        // Nothing is ever written, so this returns at the end of the parent.
        let _ = io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
}

fn perform(role: Role, say: impl FnOnce(String)) -> Result<()> {
    match role {
        Role::Cores { cores, subscriptions } => say(to_json(&memory::cores(cores, subscriptions)?)),
        Role::IdleClients { url, clients } => say(to_json(&memory::idle_clients(&url, clients)?)),
        server => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let (url, serving) = start(server).await?;
                say(url);
                serving.await;
                Ok::<_, Error>(())
            })?;
        }
    }
    Ok(())
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Starts a server. Returns its address and what must be polled for it to go on, which ends only by being dropped.
async fn start(role: Role) -> Result<(String, BoxFuture<'static, ()>)> {
    let addr = (Ipv4Addr::LOCALHOST, 0).into();
    if matches!(role, Role::Broker) {
        let config = BrokerConfig {
            auth: AuthConfig::allow_all(),
            limits: Limits::NONE,
            // Bare readers confirm nothing, and bare servers send no ids.
            record_messages: false,
            ..BrokerConfig::default()
        };
        let server = Server::bind(ServerOptions { addr, config, auth_file: None }).await;
        let server = server.map_err(|error| Error::other(error.to_string()))?;
        let url = server.url();
        let serving = async move {
            let _server = server;
            std::future::pending::<Never>().await;
        };
        return Ok((url, serving.boxed()));
    }
    let listener = TcpListener::bind::<std::net::SocketAddr>(addr).await?;
    let url = format!("ws://{}/ws", listener.local_addr()?);
    let serving = match role {
        Role::Blaster { size, seed } => {
            accept(listener, move |stream| blaster::serve(stream, size, seed)).boxed()
        }
        _ => {
            let room = broadcaster::Room::default();
            accept(listener, move |stream| broadcaster::serve(stream, room.clone())).boxed()
        }
    };
    Ok((url, serving))
}

async fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        if stream.set_nodelay(true).is_ok() {
            // What ends a connection the client sees as well, and says so if it did not want it.
            tokio::spawn(serve(stream));
        }
    }
}

/// A peer that runs until this is dropped.
pub(crate) struct Peer {
    /// The first line that it has said: a server's address.
    said: String,
    _running: Running,
}

enum Running {
    Child {
        _child: OwnChild,
    },
    /// It ends when this is dropped.
    Thread {
        _stop: oneshot::Sender<Never>,
    },
    /// It has said everything.
    Done,
}

/// A child process that is ended with this.
struct OwnChild(Child);

impl Drop for OwnChild {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Peer {
    /// Starts a server and waits until clients can connect.
    pub(crate) fn start(launch: &Launch, role: Role) -> Result<Self> {
        match launch {
            Launch::Child { program, args } => {
                let mut child = child(program, args, &role)?;
                let said = first_line(&mut child, PATIENCE)?;
                Ok(Self { said, _running: Running::Child { _child: child } })
            }
            Launch::Thread => {
                let (ready, said) = mpsc::sync_channel(1);
                let (stop, stopped) = oneshot::channel::<Never>();
                thread::spawn(move || serve_on_this_thread(role, &ready, stopped));
                let said =
                    said.recv_timeout(PATIENCE).map_err(|_| Error::other("a server did not start"))??;
                Ok(Self { said, _running: Running::Thread { _stop: stop } })
            }
        }
    }

    /// Has something measured in a process of its own, which may take so long.
    pub(crate) fn ask(launch: &Launch, role: Role, patience: Duration) -> Result<Self> {
        let said = match launch {
            Launch::Child { program, args } => first_line(&mut child(program, args, &role)?, patience)?,
            Launch::Thread => {
                let mut said = String::new();
                perform(role, |line| said = line)?;
                said
            }
        };
        Ok(Self { said, _running: Running::Done })
    }

    pub(crate) fn said(&self) -> &str {
        &self.said
    }
}

fn serve_on_this_thread(
    role: Role,
    ready: &mpsc::SyncSender<Result<String>>,
    stopped: oneshot::Receiver<Never>,
) {
    let started = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match started {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error.into()))),
    };
    runtime.block_on(async {
        match start(role).await {
            Ok((url, serving)) => {
                // Nobody waits any more: it ends below.
                let _ = ready.send(Ok(url));
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                }
            }
            Err(error) => drop(ready.send(Err(error))),
        }
    });
}

fn child(program: &PathBuf, args: &[OsString], role: &Role) -> Result<OwnChild> {
    let mut command = Command::new(program);
    command.args(args).arg(to_json(role)).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(OwnChild(command.spawn()?))
}

fn first_line(child: &mut OwnChild, patience: Duration) -> Result<String> {
    let stdout = child.0.stdout.take().ok_or_else(|| Error::other("no standard output"))?;
    let (sender, line) = mpsc::sync_channel(1);
    thread::spawn(move || drop(sender.send(read_line(stdout))));
    match line.recv_timeout(patience) {
        Ok(Ok(line)) if !line.is_empty() => Ok(line),
        Ok(Err(error)) => Err(error.into()),
        // Its standard error has said why.
        Ok(Ok(_)) => Err(Error::other("a process has ended early")),
        Err(_) => Err(Error::other("a process takes too long")),
    }
}

fn read_line(stdout: ChildStdout) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    line.truncate(line.trim_end().len());
    Ok(line)
}
