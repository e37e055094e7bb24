//! Saving what the control plane knows, while the broker goes on.

use std::{collections::VecDeque, io, sync::Arc};

use tokio::{
    sync::{mpsc, oneshot},
    task,
};

use super::{
    state_file::StateFile,
    task::{Call, call},
};
use crate::control::State;

/// A change that somebody waits for.
#[derive(Debug)]
pub(super) struct Change {
    /// Its number.
    revision: u64,
    /// Is told whether it was saved; if not, it was taken back.
    saved: oneshot::Sender<bool>,
}

/// Takes down changes to be saved.
#[derive(Debug, Clone)]
pub(super) struct Notebook(mpsc::UnboundedSender<Change>);

impl Notebook {
    /// Notes a change. It must be called on the broker's task, before the next change: so the notes are in order.
    pub(super) fn note(&self, revision: u64) -> oneshot::Receiver<bool> {
        let (saved, outcome) = oneshot::channel();
        // Without a saver the change counts as not saved, as its sender is dropped.
        let _ = self.0.send(Change { revision, saved });
        outcome
    }
}

/// Writes the file: always the latest state, so that changes that come meanwhile are saved together.
pub(super) struct Saver {
    calls: mpsc::UnboundedSender<Call>,
    file: Arc<StateFile>,
    /// What is in the file.
    saved: State,
    changes: mpsc::UnboundedReceiver<Change>,
    /// The first of the changes that are not saved yet.
    waiting: VecDeque<Change>,
}

impl Saver {
    pub(super) fn new(
        calls: mpsc::UnboundedSender<Call>,
        file: Arc<StateFile>,
        saved: State,
    ) -> (Self, Notebook) {
        let (notes, changes) = mpsc::unbounded_channel();
        (Self { calls, file, saved, changes, waiting: VecDeque::new() }, Notebook(notes))
    }

    /// Runs until the broker has ended.
    pub(super) async fn run(mut self) {
        while self.step().await.is_some() {}
    }

    async fn step(&mut self) -> Option<()> {
        if self.waiting.is_empty() {
            self.waiting.push_back(self.changes.recv().await?);
        }
        let state = call(&self.calls, |core, _| core.control_state()).await?;
        let (file, text) = (self.file.clone(), state.clone());
        let written = task::spawn_blocking(move || file.save(&text.to_json())).await;
        let (done, saved) = match written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(()) => {
                self.saved = state;
                (self.saved.revision(), true)
            }
            Err(error) => {
                tracing::error!(%error, "the control plane cannot be saved; changes are taken back");
                let saved = self.saved.clone();
                (call(&self.calls, |core, now| core.roll_back_control(now, saved)).await?, false)
            }
        };
        // All changes up to that one were noted before the broker answered.
        while let Ok(change) = self.changes.try_recv() {
            self.waiting.push_back(change);
        }
        while self.waiting.front().is_some_and(|change| change.revision <= done) {
            let Some(change) = self.waiting.pop_front() else { break };
            // Nobody waits if the client is gone.
            let _ = change.saved.send(saved);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, time::Duration};

    use axum::{
        body::Body,
        extract::State as Extracted,
        http::{HeaderMap, Method, StatusCode, Uri, header},
    };
    use nolag_core::Instant;
    use tokio::{task::JoinSet, time};

    use super::*;
    use crate::{BrokerConfig, BrokerCore, server::api};

    /// A broker that does what is asked of it, and a saver that only saves when it is told to.
    fn broker(file: &Path) -> (mpsc::UnboundedSender<Call>, Saver, api::Desk) {
        let (calls, mut inbox) = mpsc::unbounded_channel::<Call>();
        let mut core = BrokerCore::new(BrokerConfig::default(), Instant::ZERO);
        let file = Arc::new(StateFile::open(file).unwrap());
        let (saver, notebook) = Saver::new(calls.clone(), file, core.control_state());
        tokio::spawn(async move {
            while let Some(call) = inbox.recv().await {
                call(&mut core, Instant::ZERO)();
            }
        });
        let desk = api::Desk::new(calls.clone(), Some(notebook));
        (calls, saver, desk)
    }

    async fn create_app(desk: api::Desk, key: &'static str, name: String) -> StatusCode {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
        let body = Body::from(format!(r#"{{"name": "{name}"}}"#));
        api::answer(Extracted(desk), Method::POST, Uri::from_static("/v1/apps"), headers, body).await.status()
    }

    /// Apps `app 0` and so on, and the answers to come; they are in force when this returns.
    async fn create_apps(
        calls: &mpsc::UnboundedSender<Call>,
        desk: &api::Desk,
        count: u64,
    ) -> JoinSet<StatusCode> {
        let before = call(calls, |core, _| core.control_revision()).await.unwrap();
        let mut writers = JoinSet::new();
        for n in 0..count {
            writers.spawn(create_app(desk.clone(), BrokerConfig::DEV_API_KEY, format!("app {n}")));
        }
        let in_force = async {
            while call(calls, |core, _| core.control_revision()).await.unwrap() < before + count {
                task::yield_now().await;
            }
        };
        time::timeout(Duration::from_secs(20), in_force).await.expect("the changes are in force in time");
        writers
    }

    #[tokio::test]
    async fn changes_are_answered_once_they_last_and_are_saved_together() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let (calls, mut saver, desk) = broker(&path);
        let mut writers = create_apps(&calls, &desk, 20).await;
        assert!(writers.try_join_next().is_none(), "answered before it lasts");
        // What needs no saving is answered meanwhile.
        assert_eq!(create_app(desk.clone(), "wrong", "x".into()).await, StatusCode::UNAUTHORIZED);
        assert!(!path.exists());

        saver.step().await.unwrap();
        while let Some(status) = writers.join_next().await {
            assert_eq!(status.unwrap(), StatusCode::CREATED);
        }
        let saved = fs::read_to_string(&path).unwrap();
        assert!((0..20).all(|n| saved.contains(&format!("\"app {n}\""))), "{saved}");
    }

    #[tokio::test]
    async fn changes_that_cannot_be_saved_are_taken_back_and_later_ones_are_saved() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("state.json");
        let (calls, mut saver, desk) = broker(&path);
        let mut kept = create_apps(&calls, &desk, 1).await;
        saver.step().await.unwrap();
        assert_eq!(kept.join_next().await.unwrap().unwrap(), StatusCode::CREATED);

        fs::remove_dir_all(&folder).unwrap();
        let mut writers = create_apps(&calls, &desk, 5).await;
        saver.step().await.unwrap();
        while let Some(status) = writers.join_next().await {
            assert_eq!(status.unwrap(), StatusCode::INTERNAL_SERVER_ERROR);
        }
        let left = call(&calls, |core, _| core.saved_control()).await.unwrap();
        assert!(left.contains("\"app 0\"") && !left.contains("\"app 1\""), "{left}");

        fs::create_dir(&folder).unwrap();
        let mut writers = create_apps(&calls, &desk, 2).await;
        saver.step().await.unwrap();
        while let Some(status) = writers.join_next().await {
            assert_eq!(status.unwrap(), StatusCode::CREATED);
        }
        assert_eq!(fs::read_to_string(&path).unwrap().matches("\"name\"").count(), 3);
    }
}
