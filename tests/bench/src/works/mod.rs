//! What is measured. Each work has its servers and its cases.

mod connect;
mod fanout;
pub(crate) mod memory;
mod publish;
mod receive;
mod rtt;

use std::sync::Arc;

use crate::{
    Figures, Launch, Result, Settings, Work,
    environment::check_file_limit,
    peer::{Peer, Role},
};

/// Publishing here starts the flood.
pub(crate) const START: &str = "bench/control/start";
/// Publishing here asks how many publishes there were.
pub(crate) const COUNT: &str = "bench/control/count";
/// Where everything else happens.
pub(crate) const TOPIC: &str = "bench/room/messages";

/// One thing to measure.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// It may be called on any thread, and returns in about the time that it measures.
    pub(crate) run: Arc<dyn Fn() -> Result<Figures> + Send + Sync>,
}

impl Case {
    fn new(name: &'static str, run: impl Fn() -> Result<Figures> + Send + Sync + 'static) -> Self {
        Self { name, run: Arc::new(run) }
    }
}

/// The cases of a work, and what they need running.
pub(crate) struct Prepared {
    pub(crate) cases: Vec<Case>,
    /// Measured once, whatever the number of rounds.
    pub(crate) once: bool,
    _peers: Vec<Peer>,
}

pub(crate) fn prepare(work: Work, settings: &Settings) -> Result<Prepared> {
    let connections = match work {
        Work::Connect => settings.connect_clients,
        Work::Fanout => settings.fanout_clients,
        Work::Memory => settings.idle_clients,
        Work::Publish | Work::Receive | Work::Rtt => 1,
    };
    // On threads both ends are of this process.
    check_file_limit(if matches!(settings.launch, Launch::Thread) { 2 * connections } else { connections })?;
    let launch = &settings.launch;
    let blaster = |peers: &mut Vec<Peer>| {
        let peer = Peer::start(launch, Role::Blaster { size: settings.size, seed: settings.seed })?;
        let url = peer.said().to_owned();
        peers.push(peer);
        Ok::<_, crate::Error>(url)
    };
    let mut peers = Vec::new();
    let cases = match (work, &settings.target) {
        (Work::Connect, None) => connect::cases(settings, &blaster(&mut peers)?),
        (Work::Connect, Some(target)) => connect::cases_with(settings, target),
        (Work::Fanout, _) => {
            let broker = Peer::start(launch, Role::Broker)?;
            let bare = settings.baseline.then(|| Peer::start(launch, Role::Broadcaster)).transpose()?;
            let cases = fanout::cases(settings, broker.said(), bare.as_ref().map(Peer::said));
            peers.push(broker);
            peers.extend(bare);
            cases
        }
        (Work::Memory, _) => memory::cases(settings),
        (Work::Publish, None) => publish::cases(settings, &blaster(&mut peers)?),
        (Work::Publish, Some(target)) => publish::cases_with(settings, target),
        (Work::Receive, _) => receive::cases(settings, &blaster(&mut peers)?),
        (Work::Rtt, None) => rtt::cases(settings, &blaster(&mut peers)?),
        (Work::Rtt, Some(target)) => rtt::cases_with(settings, target),
    };
    Ok(Prepared { cases, once: work == Work::Memory, _peers: peers })
}
