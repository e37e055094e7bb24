//! What an idle client, the core of one, and a subscription take. It needs Linux: resident memory is read from `/proc`.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::try_join_all;
use nolag::{Client, Runtime, Status};
use nolag_core::{
    Action, ClientCore, Config, Instant, Subscribe, TransportEvent, TransportEventKind, TransportId,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::time;

use super::Case;
use crate::{
    Error, Figures, Result, Settings, environment,
    frames::{self, read},
    ours,
    peer::{Peer, Role},
};

/// Clients that connect at the same time.
const TOGETHER: usize = 100;

/// Clients that come and go before the first reading, so that what a process needs once is not counted.
const WARM_UP: usize = 8;

/// Cores whose memory is measured.
const CORES: usize = 10_000;

/// Often enough that all have had theirs soon.
const HEARTBEATS: Duration = Duration::from_secs(1);

/// How long a measurement may take.
const PATIENCE: Duration = Duration::from_secs(90);

pub(super) fn cases(settings: &Settings) -> Vec<Case> {
    let (launch, clients) = (settings.launch.clone(), settings.idle_clients.max(1));
    let idle = Case::new("idle-client", move || {
        let broker = Peer::start(&launch, Role::Broker)?;
        let role = Role::IdleClients { url: broker.said().to_owned(), clients };
        figures(&Peer::ask(&launch, role, PATIENCE)?, |bytes: u64| bytes)
    });
    let (launch, subscriptions) = (settings.launch.clone(), settings.subscriptions.max(1));
    let cores = CORES.min(subscriptions);
    let core = move |pick: fn(CoreBytes) -> u64| {
        let launch = launch.clone();
        move || figures(&Peer::ask(&launch, Role::Cores { cores, subscriptions }, PATIENCE)?, pick)
    };
    vec![
        idle,
        Case::new("idle-core", core.clone()(|bytes| bytes.idle)),
        Case::new("subscription", core(|bytes| bytes.subscription)),
    ]
}

fn figures<T: DeserializeOwned>(peer: &Peer, pick: impl Fn(T) -> u64) -> Result<Figures> {
    let taken = serde_json::from_str(peer.said());
    taken
        .map(|taken| Figures::memory(pick(taken)))
        .map_err(|_| Error::other(format!("no figures: {}", peer.said())))
}

/// Resident bytes of this process.
fn resident() -> Result<u64> {
    let line = environment::line("/proc/self/status", "VmRSS");
    let kib: Option<u64> = line.and_then(|line| line.strip_suffix("kB")?.trim().parse().ok());
    Ok(kib.ok_or_else(|| Error::other("resident memory is read from /proc, which only Linux has"))? * 1024)
}

fn grown(before: u64, by: usize) -> Result<u64> {
    Ok(resident()?.saturating_sub(before) / by as u64)
}

// ---- clients ----

/// What a client takes when all are idle.
pub(crate) fn idle_clients(url: &str, clients: usize) -> Result<u64> {
    let url = url.to_owned();
    let measuring = async move {
        let warm_up = connect(&url, WARM_UP).await?;
        for client in warm_up {
            client.close().await;
        }
        let before = resident()?;
        let connected = connect(&url, clients).await?;
        heartbeats(&connected).await?;
        grown(before, clients)
    };
    ours::on_tokio(async {
        time::timeout(PATIENCE, measuring).await.map_err(|_| Error::other("it takes too long"))?
    })
}

/// All from clones of one `Options`, each with a token of its own, as a process with many clients has them.
async fn connect(url: &str, count: usize) -> Result<Vec<Client>> {
    let options = ours::options(url, Runtime::Tokio).heartbeat_interval(HEARTBEATS);
    let mut clients: Vec<Client> = Vec::with_capacity(count);
    while clients.len() < count {
        let first = clients.len();
        let batch = (first..count.min(first + TOGETHER))
            .map(|number| ours::connect(format!("token-{number}"), options.clone()));
        clients.extend(try_join_all(batch).await?);
    }
    Ok(clients)
}

/// Waits until every client has heard the answer to its first heartbeat, the second frame after that to its token:
/// only then has it everything that an idle client needs.
async fn heartbeats(clients: &[Client]) -> Result<()> {
    let mut look = time::interval(Duration::from_millis(50));
    while clients.iter().any(|client| client.stats().core.frames_received < 2) {
        look.tick().await;
        if let Some(client) = clients.iter().find(|client| client.status() != Status::Connected) {
            return Err(Error::other(format!("a client lost its connection: {}", client.explain())));
        }
    }
    Ok(())
}

// ---- cores ----

/// What a core takes, and what a subscription adds to it.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct CoreBytes {
    idle: u64,
    subscription: u64,
}

/// What a connected core takes on the heap, and what each of so many subscriptions adds to one.
pub(crate) fn cores(cores: usize, subscriptions: usize) -> Result<CoreBytes> {
    let mut idle = Vec::with_capacity(cores);
    for seed in 0..WARM_UP as u64 {
        drop(connected(seed)?);
    }
    let before = resident()?;
    for seed in 0..cores as u64 {
        idle.push(Box::new(connected(seed)?));
    }
    let taken = grown(before, cores)?;
    // What they leave is used again, and would not count.
    let kept = idle;
    let mut core = connected(0)?;
    let mut frame = BytesMut::with_capacity(4096);
    let before = resident()?;
    for number in 0..subscriptions {
        core.subscribe(NOW, Subscribe::new(format!("bench/room/{number:06}")))
            .map_err(|error| Error::other(error.to_string()))?;
        exchange(&mut core, &mut frame)?;
    }
    let subscription = grown(before, subscriptions)?;
    drop(kept);
    Ok(CoreBytes { idle: taken, subscription })
}

const NOW: Instant = Instant::ZERO;

/// A core in a session, as if a broker had been there.
fn connected(seed: u64) -> Result<ClientCore> {
    let mut core = ClientCore::new(Config::new("bench"), seed, NOW)?;
    core.connect(NOW).map_err(|error| Error::other(error.to_string()))?;
    let Some(Action::OpenTransport { id }) = core.poll_action() else {
        return Err(Error::other("a core does not connect"));
    };
    core.handle_transport(NOW, TransportEvent { id, kind: TransportEventKind::Opened });
    exchange(&mut core, &mut BytesMut::with_capacity(4096))?;
    if core.status() != Status::Connected {
        return Err(Error::other(format!("a core is not connected: {}", core.explain())));
    }
    Ok(core)
}

/// Answers what the core sends, until it sends nothing any more, and takes what it tells.
fn exchange(core: &mut ClientCore, frame: &mut BytesMut) -> Result<()> {
    loop {
        frame.clear();
        let Some(transmit) = core.poll_transmit(NOW, frame) else { break };
        let mut reply = Vec::new();
        match read(frame) {
            Some(fields) if fields.kind == b"auth" => frames::auth_reply(&mut reply),
            Some(fields) if fields.kind == b"subscribe" => {
                frames::subscribed(&mut reply, std::str::from_utf8(fields.topic).unwrap_or_default());
            }
            _ => return Err(Error::other("a core sends what was not expected")),
        }
        answer(core, transmit.transport, reply.into());
    }
    while core.poll_event().is_some() {}
    Ok(())
}

fn answer(core: &mut ClientCore, id: TransportId, frame: Bytes) {
    core.handle_transport(NOW, TransportEvent { id, kind: TransportEventKind::Message(frame) });
}
