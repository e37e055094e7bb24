//! Connecting and authenticating.

use std::time::Instant;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use nolag::{Options, Runtime, Token};

use super::Case;
use crate::{Figures, Result, Settings, Target, bare::Bare, figures::Times, ours};

/// Clients that connect at the same time.
const TOGETHER: usize = 16;

/// Clients that connect to a broker that runs somewhere: enough for a figure, and no attack.
const FEW: usize = 20;

pub(super) fn cases(settings: &Settings, url: &str) -> Vec<Case> {
    let clients = settings.connect_clients;
    let mut cases = Vec::new();
    if settings.baseline {
        let url = url.to_owned();
        cases.push(Case::new("bare", move || {
            let url = url.clone();
            ours::on_tokio(one_behind_the_other(clients, TOGETHER, move || {
                let url = url.clone();
                async move { Bare::connect(&url).await }
            }))
        }));
    }
    let options = ours::options(url, Runtime::Tokio);
    cases.push(case("tokio", options, "bench".into(), clients, TOGETHER));
    cases
}

pub(super) fn cases_with(settings: &Settings, target: &Target) -> Vec<Case> {
    let clients = match target.rate {
        Some(_) => settings.connect_clients.min(FEW),
        None => settings.connect_clients,
    };
    let options = ours::options(&target.url, Runtime::Tokio);
    vec![case("tokio", options, target.token.clone(), clients, 1)]
}

fn case(name: &'static str, options: Options, token: Token, clients: usize, together: usize) -> Case {
    Case::new(name, move || {
        let (options, token) = (options.clone(), token.clone());
        ours::on_tokio(one_behind_the_other(clients, together, move || {
            ours::connect(token.clone(), options.clone())
        }))
    })
}

/// What has connected stays until all have.
async fn one_behind_the_other<T, F>(
    clients: usize,
    together: usize,
    connect: impl Fn() -> F,
) -> Result<Figures>
where
    F: Future<Output = Result<T>>,
{
    let start = Instant::now();
    let attempts = stream::iter(0..clients).map(|_| {
        let connecting = connect();
        async {
            let begun = Instant::now();
            let client = connecting.await?;
            Ok::<_, crate::Error>((client, begun.elapsed()))
        }
    });
    let connected: Vec<_> = attempts.buffer_unordered(together).try_collect().await?;
    let figures = Figures::rate(connected.len() as u64, start.elapsed());
    let mut times = Times::new()?;
    for (_, time) in &connected {
        times.record(*time);
    }
    Ok(Figures { latency: Some(times.latency()), ..figures })
}
