//! The file that keeps what the control plane knows.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::ServerError;
use crate::{control::State, files};

/// A file that is there as a whole or not at all, for its owner only.
#[derive(Debug, Clone)]
pub(super) struct StateFile {
    path: PathBuf,
}

impl StateFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
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
        let mut draft = self.path.as_os_str().to_owned();
        draft.push(".new");
        let draft = Path::new(&draft);
        let mut file = create_private(draft)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(draft, &self.path)
    }

    pub(super) fn unusable(&self, source: io::Error) -> ServerError {
        ServerError::StateFile { path: self.path.clone(), source }
    }
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

    #[test]
    fn a_file_is_replaced_as_a_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::new(dir.path().join("state.json"));
        assert!(file.load().unwrap().is_none());
        fs::write(dir.path().join("state.json.new"), "left behind").unwrap();
        let text = State::default().to_json();
        file.save("something longer than that, which goes").unwrap();
        assert!(matches!(file.load(), Err(ServerError::State { .. })));
        file.save(&text).unwrap();
        assert_eq!(file.load().unwrap().unwrap().to_json(), text);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            let mode = fs::metadata(&file.path).unwrap();
            assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
        }
    }
}
