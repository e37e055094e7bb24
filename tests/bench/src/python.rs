//! The official Python SDK doing the same.

use std::{
    env, fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde::Deserialize;

use crate::{Error, Figures, Result, Settings, works::Case};

/// The version of the official Python SDK that is measured.
pub const PYTHON_SDK: &str = "2.6.0";

const PROGRAM: &str = include_str!("python_sdk.py");

/// An interpreter that has the official Python SDK. Made on first use, in the user's cache directory, with `python3` and
/// the package index that its `pip` uses.
///
/// # Errors
/// When that does not work.
pub fn python_with_sdk() -> Result<PathBuf> {
    let venv = cache_directory()?.join(format!("nolag/python-sdk-{PYTHON_SDK}"));
    let interpreter = venv.join("bin/python");
    if has_python_sdk(&interpreter) {
        return Ok(interpreter);
    }
    if let Some(parent) = venv.parent() {
        fs::create_dir_all(parent)?;
    }
    succeed("python3 -m venv", Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let package = format!("nolag=={PYTHON_SDK}");
    let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "install", &package];
    succeed("pip install", Command::new(&interpreter).args(pip))?;
    Ok(interpreter)
}

/// Whether this interpreter has the official Python SDK.
pub fn has_python_sdk(interpreter: &Path) -> bool {
    let imported = Command::new(interpreter).args(["-c", "import nolag"]).stdin(Stdio::null()).output();
    imported.is_ok_and(|output| output.status.success())
}

fn cache_directory() -> Result<PathBuf> {
    let given = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    given.or_else(home).ok_or_else(|| Error::other("neither XDG_CACHE_HOME nor HOME is set"))
}

fn succeed(what: &str, command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Error::other(format!("{what}: {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::other(format!("{what}: {}", last_words(&output)))),
    }
}

fn last_words(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it failed without a word").into()
}

#[derive(Deserialize)]
struct Said {
    count: u64,
    seconds: f64,
    lost: u64,
    duplicates: u64,
    failed: u64,
}

/// What the program does with these arguments, size and times.
pub(crate) fn case(name: &'static str, interpreter: &Path, args: &[&str], settings: &Settings) -> Case {
    let interpreter = interpreter.to_owned();
    let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    args.push(settings.warmup.as_secs_f64().to_string());
    args.push(settings.duration.as_secs_f64().to_string());
    args.push(settings.size.to_string());
    let run = move || {
        let mut command = Command::new(&interpreter);
        command.args(["-c", PROGRAM]).args(&args);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut said = String::new();
        if let Some(stdout) = &mut child.stdout {
            stdout.read_to_string(&mut said)?;
        }
        let output = child.wait_with_output()?;
        let said: Said = serde_json::from_str(&said).map_err(|_| Error::other(last_words(&output)))?;
        Ok(Figures {
            seconds: said.seconds,
            count: Some(said.count),
            per_second: (said.seconds > 0.0).then(|| said.count as f64 / said.seconds),
            lost: said.lost,
            duplicates: said.duplicates,
            failed: said.failed,
            ..Figures::default()
        })
    };
    Case { name, run: std::sync::Arc::new(run) }
}
