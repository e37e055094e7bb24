//! The REST client over real HTTP on the loopback interface, against a scripted server, on every runtime.

mod dropping;
mod misuse;
mod operations;
mod pages;
mod retries;
mod runtimes;
mod secrets;
mod server;
#[cfg(feature = "tls")]
mod tls;
mod trouble;

use std::time::Duration;

use nolag::{ApiOptions, NoLagApi, Runtime};

use runtimes::{on_every_runtime, run};
use server::{Server, Step};

/// Far more than anything here takes; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

const KEY: &str = "nlg_live_0123456789ab.sesame";

/// Tries again at once.
fn options(server: &Server, runtime: Runtime) -> ApiOptions {
    ApiOptions::new(server.url("/v1"))
        .broker_url(server.url("/ws"))
        .runtime(runtime)
        .timeout(PATIENCE)
        .retry_interval(Duration::from_millis(1))
}

fn api(server: &Server, runtime: Runtime) -> NoLagApi {
    NoLagApi::new(KEY, options(server, runtime))
}
