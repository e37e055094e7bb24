//! Our client, as an application has it.

use std::{num::NonZero, thread, time::Duration};

use nolag::{Client, Options, Runtime, Token};

use crate::{Error, Result};

/// Everything at its default, but for what would disturb: nothing is paced, nothing leaves by itself, and a lost
/// connection is an error.
pub(crate) fn options(url: &str, runtime: Runtime) -> Options {
    Options::new(url)
        .runtime(runtime)
        .reconnect(false)
        .publish_rate(None)
        .heartbeat_interval(Duration::ZERO)
        .websocket_ping_interval(Duration::ZERO)
}

pub(crate) async fn connect(token: impl Into<Token>, options: Options) -> Result<Client> {
    let client = Client::new(token, options);
    client.connect().await.map_err(Error::Connect)?;
    Ok(client)
}

/// Runs on tokio as `#[tokio::main]` and `tokio::spawn` do; so do the bare cases.
pub(crate) fn on_tokio<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    let done = runtime.block_on(async { tokio::spawn(work).await });
    // Connections that are being closed are not waited for.
    runtime.shutdown_background();
    done.map_err(|error| Error::other(error.to_string()))?
}
