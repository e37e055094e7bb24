//! The file that keeps what the control plane knows.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::ServerError;
use crate::{control::State, files};

/// Links that are followed to the file, as far as Linux would.
const MAX_LINKS: usize = 40;

/// A file that is there as a whole or not at all, for its owner only.
///
/// A lock beside it, `FILE.lock`, keeps other brokers away, also those of other processes. The file of the lock stays, but
/// the lock ends with its process, however that ends.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    /// Also held while a file is written; `None` when it is given back.
    lock: Mutex<Option<File>>,
}

impl StateFile {
    /// Locks the file, which need not be there yet. Links are followed, so that they stay links.
    pub(super) fn open(path: &Path) -> Result<Self, ServerError> {
        let unusable = |source| ServerError::StateFile { path: path.into(), source };
        let target = target(path).map_err(unusable)?;
        let lock = lock(&beside(&target, ".lock")).map_err(unusable)?;
        Ok(Self { path: target, lock: Mutex::new(Some(lock)) })
    }

    /// What is in the file; `None` if there is no file yet.
    pub(super) fn load(&self) -> Result<Option<State>, ServerError> {
        let text = match files::read_text(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unusable(error)),
        };
        let state = State::from_json(&text);
        state.map(Some).map_err(|source| ServerError::State { path: self.path.clone(), source })
    }

    /// Replaces what is in the file. When it fails, the file is as it was.
    pub(super) fn save(&self, text: &str) -> io::Result<()> {
        let lock = self.locked();
        if lock.is_none() {
            return Err(io::Error::other("the broker has ended"));
        }
        if text.len() as u64 >= files::MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it would be larger than 64 MiB"));
        }
        let draft = beside(&self.path, ".new");
        let mut file = create_private(&draft)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(draft, &self.path)
    }

    /// Gives the file back, after a write that is under way. Nothing is written any more.
    pub(super) fn close(&self) {
        self.locked().take();
    }

    pub(super) fn unusable(&self, source: io::Error) -> ServerError {
        ServerError::StateFile { path: self.path.clone(), source }
    }

    /// Keeps the file as it is meanwhile.
    pub(super) fn locked(&self) -> MutexGuard<'_, Option<File>> {
        // What is in it is whole whatever has happened to others.
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a path leads to, whether or not that is there.
fn target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        // Whatever is no link cannot be read as one.
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or_else(|| Path::new("")).join(next);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "too many symbolic links"))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Locks a file, until it is dropped.
fn lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use rustix::{fs::FlockOperation, io::Errno};
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(Errno::WOULDBLOCK) => Err(in_use()),
            Err(error) => Err(error.into()),
        }
    }
    #[cfg(windows)]
    {
        const ERROR_SHARING_VIOLATION: i32 = 32;
        std::os::windows::fs::OpenOptionsExt::share_mode(&mut options, 0);
        options.open(path).map_err(|error| match error.raw_os_error() {
            Some(ERROR_SHARING_VIOLATION) => in_use(),
            _ => error,
        })
    }
    #[cfg(not(any(unix, windows)))]
    options.open(path)
}

#[cfg(any(unix, windows))]
fn in_use() -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, "another broker uses this file; each needs one of its own")
}

/// Creates a file that only its owner can read, where the system knows such.
fn create_private(path: &Path) -> io::Result<File> {
    // One that was left behind keeps its mode, so it goes.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &tempfile::TempDir) -> StateFile {
        StateFile::open(&dir.path().join("state.json")).unwrap()
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let file = open(&dir);
        assert!(file.load().unwrap().is_none());
        fs::write(dir.path().join("state.json.new"), "left behind").unwrap();
        let text = State::default().to_json();
        file.save("something longer than that, which goes").unwrap();
        assert!(matches!(file.load(), Err(ServerError::State { .. })));
        file.save(&text).unwrap();
        assert_eq!(file.load().unwrap().unwrap().to_json(), text);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the file and its lock");
        #[cfg(unix)]
        {
            let mode = fs::metadata(&file.path).unwrap();
            assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
        }
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = open(&dir);
        file.save("first").unwrap();
        let most = usize::try_from(files::MAX_BYTES).unwrap();
        assert_eq!(file.save(&"x".repeat(most)).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(fs::read_to_string(&file.path).unwrap(), "first\n");
    }

    #[cfg(any(unix, windows))]
    #[test]
    fn a_file_is_one_brokers_only_until_it_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(&dir);
        let error = StateFile::open(&dir.path().join("state.json")).unwrap_err().to_string();
        assert!(error.contains("state.json") && error.contains("another broker"), "{error}");
        first.close();
        let second = open(&dir);
        assert!(first.save("late").is_err());
        second.save("second").unwrap();
        assert_eq!(fs::read_to_string(&second.path).unwrap(), "second\n");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_stay_links() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("deep")).unwrap();
        let (link, target) = (dir.path().join("state.json"), dir.path().join("deep/real.json"));
        symlink("deep/link.json", &link).unwrap();
        symlink(&target, dir.path().join("deep/link.json")).unwrap();
        let file = open(&dir);
        for text in ["first", "second"] {
            file.save(text).unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), format!("{text}\n"));
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }
        assert!(StateFile::open(&target).is_err(), "both names are of one file");

        symlink("b", dir.path().join("a")).unwrap();
        symlink("a", dir.path().join("b")).unwrap();
        let error = StateFile::open(&dir.path().join("a")).unwrap_err().to_string();
        assert!(error.contains("links"), "{error}");
    }
}
