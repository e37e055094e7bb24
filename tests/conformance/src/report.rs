//! Running over a directory and saying what came out.

use std::{
    fmt, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::{
    mode::{Mode, Outcome},
    trace::Trace,
};

/// How many checks there were. A check is one file in one mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Checks without a failure.
    pub passed: usize,
    /// The others.
    pub failed: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Why a run could not be finished.
#[derive(Debug)]
pub enum RunError {
    /// The directory holds no recordings that can be listed.
    Directory(String),
    /// The report could not be written.
    Output(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(reason) => f.write_str(reason),
            Self::Output(error) => write!(f, "cannot write the report: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Checks every recording of `directory` in every one of `modes` and writes the report to `out`.
///
/// # Errors
/// [`RunError::Directory`] when there is nothing to check, [`RunError::Output`] when `out` fails.
pub fn run(directory: &Path, modes: &[Mode], out: &mut impl Write) -> Result<Summary, RunError> {
    let mut summary = Summary::default();
    for path in recordings(directory)? {
        let trace = Trace::load(&path);
        for mode in modes {
            let outcome = mode.check(&trace);
            match outcome.passed() {
                true => summary.passed += 1,
                false => summary.failed += 1,
            }
            write_outcome(out, &path, *mode, &outcome)?;
        }
    }
    writeln!(out, "{summary}")?;
    out.flush()?;
    Ok(summary)
}

/// The recordings of a directory, by name.
fn recordings(directory: &Path) -> Result<Vec<PathBuf>, RunError> {
    let shown = directory.display();
    let unreadable = |error: io::Error| RunError::Directory(format!("{shown}: {error}"));
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(RunError::Directory(format!("{shown}: no *.jsonl file in this directory")));
    }
    paths.sort();
    Ok(paths)
}

fn write_outcome(out: &mut impl Write, path: &Path, mode: Mode, outcome: &Outcome) -> io::Result<()> {
    // Escaped, so that one file is one line whatever its name holds.
    let printable = |name: Option<&std::ffi::OsStr>| {
        name.unwrap_or_default().to_string_lossy().escape_debug().to_string()
    };
    let (name, file) = (printable(path.file_stem()), printable(path.file_name()));
    let verdict = if outcome.passed() { "ok  " } else { "FAIL" };
    writeln!(out, "{verdict} {name}  {mode} {} frames", outcome.frames)?;
    for finding in &outcome.findings {
        match finding.line {
            0 => writeln!(out, "     {file}: {}", finding.text)?,
            line => writeln!(out, "     {file}:{line}: {}", finding.text)?,
        }
    }
    Ok(())
}
