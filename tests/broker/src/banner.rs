//! What a development broker says when it starts.

use crate::{Profile, Server};

/// The text to show when a broker starts on somebody's machine: what it is, where it is, and what it is not for.
pub fn startup_banner(server: &Server, profile: Profile) -> String {
    format!(
        "NoLag development broker ({profile}) at {url}\n\
         For development and tests only: everything is kept in memory, one process, no TLS.\n\
         In production use Kraken, self-hosted, which clusters and can sit on an external MQTT broker, or the NoLag \
         cloud (wss://broker.nolag.app/ws).",
        profile = profile.name(),
        url = server.url(),
    )
}
