//! Reading files of a sensible kind and size.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// Bytes that a file may have.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// Reads a text file as a whole. A device or a pipe could go on for ever, and is none.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is larger than 64 MiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_never_end_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        let file = File::create(&path).unwrap();
        file.set_len(MAX_BYTES + 1).unwrap();
        assert_eq!(read_text(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        file.set_len(3).unwrap();
        assert_eq!(read_text(&path).unwrap(), "\0\0\0");
        if cfg!(unix) {
            let error = read_text(Path::new("/dev/zero")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(read_text(dir.path()).is_err());
        }
    }
}
