//! Connecting, for the commands that talk to a broker.

use nolag::{Client, Options};

use crate::{
    args::ConnectionArgs,
    exit::{Exit, Failure},
    secrets,
    signals::Interrupts,
};

/// A client, and where it connects to.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The address without what may hold a secret.
    pub(crate) url: String,
}

impl Connection {
    /// Nothing is connected yet, so handlers can be registered first.
    pub(crate) fn new(args: &ConnectionArgs) -> Result<Self, Failure> {
        let token = secrets::token(args)?;
        let shown = args.url.split(['?', '#']).next().unwrap_or_default();
        Ok(Self { client: Client::new(token, Options::new(&args.url)), url: shown.into() })
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

pub(crate) fn interrupted(message: &str) -> Failure {
    Failure::new(Exit::Interrupted, message)
}
