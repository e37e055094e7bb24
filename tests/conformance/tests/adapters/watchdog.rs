//! Ends the suite when a trial hangs, which no limit inside the trial can do: what should have ended may be the wait.

use std::{
    collections::BTreeMap,
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Far more than any trial takes, its own limits included.
const LIMIT: Duration = Duration::from_secs(300);

/// How often it looks.
const PERIOD: Duration = Duration::from_secs(5);

/// Knows which trials run, and since when.
#[derive(Clone, Default)]
pub(crate) struct Watchdog(Arc<Mutex<BTreeMap<String, Instant>>>);

/// A trial under way.
pub(crate) struct Watched {
    watchdog: Watchdog,
    name: String,
}

impl Watchdog {
    /// The thread ends with the process.
    pub(crate) fn start() -> Self {
        let watchdog = Self::default();
        let watcher = watchdog.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(PERIOD);
                watcher.look();
            }
        });
        watchdog
    }

    pub(crate) fn watch(&self, name: String) -> Watched {
        self.running().insert(name.clone(), Instant::now());
        Watched { watchdog: self.clone(), name }
    }

    fn look(&self) {
        let hangs: Vec<String> = {
            let running = self.running();
            let late = running.iter().filter(|(_, since)| since.elapsed() > LIMIT);
            late.map(|(name, _)| name.clone()).collect()
        };
        if !hangs.is_empty() {
            eprintln!("hanging for more than {LIMIT:?}, so the suite ends here: {}", hangs.join(", "));
            process::exit(101);
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watchdog.running().remove(&self.name);
    }
}
