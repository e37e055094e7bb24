//! What a development broker says for itself.

use crate::{BrokerCore, Profile, Server};

/// The text to show when a broker starts on somebody's machine: what it is, where it is, and what it is not for.
pub fn startup_banner(server: &Server, profile: Profile) -> String {
    format!(
        "NoLag development broker ({profile}) at {url}\n\
         For development and tests only: messages are kept in memory, one process, no TLS.\n\
         In production use Kraken, self-hosted, which clusters and can sit on an external MQTT broker, or the NoLag \
         cloud (wss://broker.nolag.app/ws).",
        profile = profile.name(),
        url = server.url(),
    )
}

/// The text to show while anything goes wrong on purpose, so that nobody looks for the mistake elsewhere; `None` when
/// no fault is on.
pub fn fault_banner(broker: &BrokerCore) -> Option<String> {
    let faults: Vec<String> =
        broker.faults().map(|(_, fault, struck)| format!("\n  {fault} (struck {struck} times)")).collect();
    (!faults.is_empty()).then(|| format!("Faults are on:{}", faults.concat()))
}
