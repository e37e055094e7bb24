//! Reloading the auth file when it changes.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio::{sync::mpsc, time};

use super::task::Call;
use crate::{AuthConfig, AuthError};

/// How often the file is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time of change and length, which tell versions of a file apart.
type Version = (SystemTime, u64);

/// Looks at an auth file again and again.
pub(super) struct Watcher {
    path: PathBuf,
    seen: Option<Version>,
}

impl Watcher {
    /// Notes the file's version before it is first read, so that no later change is missed.
    pub(super) fn new(path: PathBuf) -> Self {
        let seen = version(&path);
        Self { path, seen }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives each new version to the broker. A broken one is reported, and the last good one stays in force.
    pub(super) async fn run(mut self, calls: mpsc::UnboundedSender<Call>) {
        loop {
            time::sleep(INTERVAL).await;
            match self.changed() {
                None => {}
                Some(Ok(auth)) => {
                    tracing::info!(path = %self.path.display(), "auth file reloaded: {auth:?}");
                    let call: Call = Box::new(move |core, now| {
                        core.set_auth(now, auth);
                        Box::new(|| {})
                    });
                    if calls.send(call).is_err() {
                        return;
                    }
                }
                Some(Err(error)) => {
                    tracing::warn!("auth file not reloaded, the previous one stays in force: {error}");
                }
            }
        }
    }

    /// The file, if it is another one than at the last look.
    fn changed(&mut self) -> Option<Result<AuthConfig, AuthError>> {
        let current = version(&self.path);
        if current == self.seen {
            return None;
        }
        self.seen = current;
        Some(AuthConfig::from_file(&self.path))
    }
}

fn version(path: &Path) -> Option<Version> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("auth.json");
        fs::write(&path, r#"{"tokens": {}}"#).unwrap();
        let mut watcher = Watcher::new(path.clone());
        assert!(watcher.changed().is_none());

        fs::write(&path, "{ broken").unwrap();
        assert!(watcher.changed().unwrap().unwrap_err().to_string().contains("auth.json"));
        assert!(watcher.changed().is_none(), "a broken file is reported once");

        fs::write(&path, r#"{"tokens": {"t": {"actorTokenId": "a"}}}"#).unwrap();
        assert_eq!(watcher.changed().unwrap().unwrap().token_of("a").as_deref(), Some("t"));

        fs::remove_file(&path).unwrap();
        assert!(watcher.changed().unwrap().is_err());
        assert!(watcher.changed().is_none());
    }
}
