//! What ends a wait: a time, Ctrl-C, SIGTERM. The first signal asks to finish, the second ends the process.

use std::{future, io, process};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    exit::{Exit, Failure},
    output::say,
};

/// The user's wish to end.
#[derive(Debug, Clone)]
pub(crate) struct Interrupts(watch::Receiver<bool>);

impl Interrupts {
    /// Listens from now on. After the second signal `last_words` are said and the process ends at once, even if the
    /// command hangs in a write.
    pub(crate) fn listen(last_words: impl Fn() -> String + Send + 'static) -> Result<Self, Failure> {
        let (first, wish) = watch::channel(false);
        let fault = |error| Failure::new(Exit::Internal, format!("cannot listen for signals: {error}"));
        let mut signals = Signals::new().map_err(fault)?;
        tokio::spawn(async move {
            signals.next().await;
            first.send_replace(true);
            signals.next().await;
            say(last_words());
            process::exit(Exit::Interrupted as i32);
        });
        Ok(Self(wish))
    }

    /// Waits for the first signal; at once if it has come. Cancel-safe.
    pub(crate) async fn first(&mut self) {
        // The sender waits for the second signal as long as the process lives.
        if self.0.wait_for(|come| *come).await.is_err() {
            future::pending().await
        }
    }
}

/// Waits until then; without a time, for ever.
pub(crate) async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => future::pending().await,
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            future::pending().await
        }
    }
}
