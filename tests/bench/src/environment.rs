//! What the figures depend on.

use std::{env::consts, fs, thread};

use serde::Serialize;

use crate::{Error, Result};

/// What the figures depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Environment {
    /// The model of the processor.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// The operating system and its version.
    pub os: String,
    /// The architecture.
    pub arch: &'static str,
    /// The version of the client.
    pub nolag: &'static str,
    /// The compiler.
    pub rustc: &'static str,
    /// `release`, or `debug`, whose figures mean little.
    pub build: &'static str,
}

impl Environment {
    /// Of this process.
    pub fn here() -> Self {
        Self {
            cpu: line("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            os: match fs::read_to_string("/proc/sys/kernel/osrelease") {
                Ok(release) => format!("{} {}", consts::OS, release.trim()),
                Err(_) => consts::OS.into(),
            },
            arch: consts::ARCH,
            nolag: env!("CARGO_PKG_VERSION"),
            rustc: env!("COMPILER"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
        }
    }
}

/// Files that a process has open beside its connections.
const OTHER_FILES: usize = 50;

/// Says in time, and in words, what would be "too many open files" in the middle.
pub(crate) fn check_file_limit(connections: usize) -> Result<()> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let limit = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(usize::MAX);
    let needed = connections + OTHER_FILES;
    if limit >= needed {
        return Ok(());
    }
    Err(Error::Other(format!(
        "a process may have {limit} files open here, and {needed} are needed: allow more with `ulimit -n {needed}`, or \
         take fewer clients"
    )))
}

/// What a file of the system says about something.
pub(crate) fn line(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().into())
}
