//! Connecting, for the commands that talk to a broker.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use nolag::{Client, Options};

use crate::{
    args::ConnectionArgs,
    exit::{Exit, Failure},
    secrets::{self, Source},
    signals::Interrupts,
};

/// Messages that the client sends in a second: brokers refuse more.
pub(crate) const RATE: u32 = 50;

/// Messages that may wait for the broker at a time. Even the largest fit into what the client holds for a broker.
pub(crate) const MAX_WAITING: usize = 32;

/// A client, and where it connects to.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The address without what may hold a secret.
    pub(crate) url: String,
}

impl Connection {
    /// Nothing is connected yet, so handlers can be registered first.
    pub(crate) fn new(args: &ConnectionArgs) -> Result<Self, Failure> {
        // What has not left when the connection is lost leaves on the next one.
        let options = Options::new(&args.url).publish_rate(RATE).offline_queue(MAX_WAITING, usize::MAX, None);
        let client = match secrets::token(args)? {
            Source::Command(command) => {
                Client::with_token_provider(move || secrets::from_command(command.clone()), options)
            }
            Source::Token(token) => Client::new(token, options),
        };
        Ok(Self { client, url: shown(&args.url).into() })
    }

    /// Connects; the actor's id.
    pub(crate) async fn open(&self, interrupts: &mut Interrupts) -> Result<String, Failure> {
        tokio::select! {
            biased;
            () = interrupts.first() => Err(interrupted("interrupted while connecting")),
            connected = self.client.connect() => match connected {
                Ok(()) => Ok(self.client.actor_id().unwrap_or_default()),
                Err(error) => Err(Failure::connect(&error, &self.url)),
            },
        }
    }
}

/// An address without what may hold a secret. One with a user in it is refused before it is shown.
pub(crate) fn shown(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

pub(crate) fn interrupted(message: &str) -> Failure {
    Failure::new(Exit::Interrupted, message)
}

/// The address for clients on this machine.
pub(crate) fn reachable(mut addr: SocketAddr) -> SocketAddr {
    if addr.ip().is_unspecified() {
        addr.set_ip(match addr {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    addr
}
