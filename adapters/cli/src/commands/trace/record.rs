//! `nolag trace record`: a proxy that writes down what goes through it.

use std::{io, sync::Arc, time::Duration};

use nolag_conformance::trace::Peer;
use serde::Serialize;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinError, JoinSet},
    time::{sleep, timeout},
};
use tokio_tungstenite::{
    accept_hdr_async_with_config,
    tungstenite::{
        handshake::server::{ErrorResponse, Request, Response},
        http::StatusCode,
    },
};

use super::{
    file::{Recording, Totals},
    relay::{self, Ended, relay},
    upstream::{Stream, Upstream},
};
use crate::{
    args::trace::RecordArgs,
    connection::{interrupted, reachable},
    exit::{Exit, Failure, Outcome},
    output::{Output, say},
    signals::Interrupts,
};

/// Most connections at a time; others wait to be accepted.
const MOST: usize = 1024;

/// How long a client may take to say that it wants a WebSocket.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long to wait when connections cannot be accepted.
const RETRY: Duration = Duration::from_millis(200);

#[derive(Serialize)]
struct Ready<'a> {
    url: &'a str,
    port: u16,
}

#[derive(Serialize)]
struct Stopped<'a> {
    file: &'a str,
    #[serde(flatten)]
    totals: Totals,
}

pub(crate) async fn run(args: RecordArgs) -> Outcome {
    let output = Output::new(args.json);
    let mut interrupts = Interrupts::listen(|| "left at once".into())?;
    let upstream = Upstream::new(&args.url)?;
    let listener =
        TcpListener::bind(args.listen).await.and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (addr, listener) = listener.map_err(|error| {
        Failure::usage(format!("cannot listen on {}: {error}; choose with --listen", args.listen))
    })?;
    let file = args.output.display().to_string();
    let recording = Recording::create(&args.output, upstream.shown())
        .map_err(|error| Failure::usage(format!("cannot write {file}: {error}")))?;

    if !addr.ip().is_loopback() {
        say(format_args!("warning: everybody who can reach {addr} can connect, and is recorded"));
    }
    say(format_args!("recording what is said to {} in {file}; Ctrl-C stops it", upstream.shown()));
    let url = format!("ws://{}/ws", reachable(addr));
    match output.is_json() {
        true => output.event("ready", Ready { url: &url, port: addr.port() })?,
        false => output.line(format_args!("ready {url}"))?,
    }

    let proxy = Arc::new(Proxy { upstream, recording });
    let recorded = proxy.serve(listener, &mut interrupts, args.connections.map(Into::into)).await;
    let ended = recorded.map_err(|fault| match fault {
        Fault::File(error) => Failure::new(Exit::Internal, format!("cannot write {file}: {error}")),
        Fault::Panic(error) => Failure::new(Exit::Internal, error.to_string()),
    })?;
    let totals = proxy.recording.totals();
    match output.is_json() {
        true => output.event("stopped", Stopped { file: &file, totals })?,
        false => say(format_args!(
            "recorded {} connections, {} messages in {file}",
            totals.connections, totals.messages
        )),
    }
    match args.connections {
        Some(wanted) if ended < wanted.get() => {
            Err(interrupted(&format!("interrupted after {ended} of {wanted} connections")))
        }
        _ => Ok(Exit::Done),
    }
}

/// Why recording cannot go on.
enum Fault {
    File(io::Error),
    Panic(JoinError),
}

struct Proxy {
    upstream: Upstream,
    recording: Recording,
}

impl Proxy {
    /// Records connections until the user wants to end, or so many have ended. Returns how many have.
    async fn serve(
        self: &Arc<Self>,
        listener: TcpListener,
        interrupts: &mut Interrupts,
        wanted: Option<u64>,
    ) -> Result<u64, Fault> {
        let (stop, stopping) = watch::channel(false);
        let mut tasks: JoinSet<io::Result<bool>> = JoinSet::new();
        let mut ended = 0;
        while wanted.is_none_or(|wanted| ended < wanted) {
            tokio::select! {
                biased;
                () = interrupts.first() => break,
                Some(done) = tasks.join_next() => ended += u64::from(was_recorded(done)?),
                accepted = listener.accept(), if tasks.len() < MOST => match accepted {
                    Ok((stream, _)) => {
                        let (proxy, stopping) = (self.clone(), stopping.clone());
                        tasks.spawn(async move { proxy.connection(stream, stopping).await });
                    }
                    Err(error) => {
                        say(format_args!("cannot accept a connection: {error}"));
                        sleep(RETRY).await;
                    }
                },
            }
        }
        drop(listener);
        stop.send_replace(true);
        while let Some(done) = tasks.join_next().await {
            was_recorded(done)?;
        }
        Ok(ended)
    }

    /// Serves a connection to its end. Returns whether it was recorded.
    async fn connection(&self, stream: TcpStream, mut stop: watch::Receiver<bool>) -> io::Result<bool> {
        let sockets = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return Ok(false),
            sockets = self.open(stream) => sockets,
        };
        let Some((client, broker)) = sockets else { return Ok(false) };
        let conn = self.recording.open()?;
        say(format_args!("connection {conn} is open"));
        let ended = relay(client, broker, &self.recording, conn, &mut stop).await?;
        match ended {
            Ended { by: Some(Peer::Client), code } => {
                say(format_args!("connection {conn} was closed by the client with {code}"));
            }
            Ended { by: Some(Peer::Broker), code } => {
                say(format_args!("connection {conn} was closed by the broker with {code}"));
            }
            Ended { by: None, .. } => say(format_args!("connection {conn} ends with the recording")),
        }
        Ok(true)
    }

    /// Opens both sides: the broker's first, so that a client gets the answer that it would have got from the broker.
    async fn open(&self, stream: TcpStream) -> Option<(relay::Socket<TcpStream>, relay::Socket<Stream>)> {
        let broker = self.upstream.connect().await;
        let refused = broker.as_ref().err().map(|refusal| {
            say(format_args!("{}: {refusal}; the client is told so", self.upstream.shown()));
            let status = refusal.status.and_then(|status| StatusCode::from_u16(status).ok());
            status.filter(|status| !status.is_success()).unwrap_or(StatusCode::BAD_GATEWAY)
        });
        // Messages must not wait for one another; where that cannot be chosen, they do.
        let _ = stream.set_nodelay(true);
        let answer = |_: &Request, response: Response| match refused {
            None => Ok(response),
            Some(status) => {
                let mut refusal = ErrorResponse::new(None);
                *refusal.status_mut() = status;
                Err(refusal)
            }
        };
        let accepting = accept_hdr_async_with_config(stream, answer, Some(relay::config()));
        match timeout(HANDSHAKE, accepting).await {
            Ok(Ok(client)) => broker.ok().map(|broker| (client, broker)),
            // That was said.
            Ok(Err(_)) if refused.is_some() => None,
            Ok(Err(error)) => {
                say(format_args!("not recorded: a connection that does not become a WebSocket: {error}"));
                None
            }
            Err(_) => {
                say(format_args!("not recorded: a connection that says nothing"));
                None
            }
        }
    }
}

fn was_recorded(done: Result<io::Result<bool>, JoinError>) -> Result<bool, Fault> {
    done.map_err(Fault::Panic)?.map_err(Fault::File)
}
