//! Where tokens and API keys come from. They never reach an output, an error or a help text.

use std::{
    env, fmt, fs,
    io::{self, IsTerminal},
    path::Path,
    process::Stdio,
};

use nolag::Token;
use nolag_broker::BrokerConfig;
use tokio::process::Command;

use crate::{args::ConnectionArgs, connection::interrupted, exit::Failure, output::say};

const VARIABLE: &str = "NOLAG_TOKEN";
const KEY_VARIABLE: &str = "NOLAG_API_KEY";

/// Where tokens come from.
pub(crate) enum Source {
    /// A shell command that prints one.
    Command(String),
    Token(Token),
}

/// The token: of an option, else of the environment.
pub(crate) fn token(args: &ConnectionArgs) -> Result<Source, Failure> {
    match &args.token_cmd {
        Some(command) => Ok(Source::Command(command.clone())),
        None => fixed(args).map(Source::Token),
    }
}

/// The API key: of a file, else of the environment.
pub(crate) fn api_key(file: Option<&Path>) -> Result<Token, Failure> {
    if let Some(path) = file {
        return from_file(path, "API key");
    }
    match env::var(KEY_VARIABLE) {
        Ok(key) if !key.is_empty() => not_empty(&key, "NOLAG_API_KEY is empty"),
        Ok(_) | Err(env::VarError::NotPresent) => Err(Failure::usage(format!(
            "no API key; set {KEY_VARIABLE}, or use --key-file PATH (`nolag dev` accepts {KEY_VARIABLE}={})",
            BrokerConfig::DEV_API_KEY
        ))),
        Err(env::VarError::NotUnicode(_)) => Err(Failure::usage(format!("{KEY_VARIABLE} is not text"))),
    }
}

fn fixed(args: &ConnectionArgs) -> Result<Token, Failure> {
    if let Some(token) = &args.token {
        if token.expose() == "-" {
            return ask();
        }
        if io::stderr().is_terminal() {
            say(format_args!(
                "warning: --token is visible in the process list; use {VARIABLE}, --token-file or --token -"
            ));
        }
        return not_empty(token.expose(), "--token is empty");
    }
    if let Some(path) = &args.token_file {
        return from_file(path, "token");
    }
    match env::var(VARIABLE) {
        Ok(token) if !token.is_empty() => not_empty(&token, "NOLAG_TOKEN is empty"),
        Ok(_) | Err(env::VarError::NotPresent) => Err(Failure::usage(format!(
            "no token; set {VARIABLE}, or use --token-file PATH or --token - (`nolag dev` accepts {VARIABLE}=dev-token-alice)"
        ))),
        Err(env::VarError::NotUnicode(_)) => Err(Failure::usage(format!("{VARIABLE} is not text"))),
    }
}

/// Reads a secret: a `what`.
fn from_file(path: &Path, what: &str) -> Result<Token, Failure> {
    // `read_to_string` would not say more, and its error holds no content either.
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("cannot read the {what} file {}: {error}", path.display()))
    })?;
    let token = only_a(what, &text, format_args!("the {what} file {}", path.display()));
    let token = token.map_err(Failure::usage)?;
    warn_if_others_can_read(path, what);
    Ok(token)
}

/// What a command prints. It can speak on standard error; standard input is for the data.
pub(crate) async fn from_command(command: String) -> Result<Token, String> {
    let mut shell = if cfg!(windows) { Command::new("cmd") } else { Command::new("sh") };
    shell.arg(if cfg!(windows) { "/C" } else { "-c" }).arg(command);
    let cannot = |error: io::Error| format!("--token-cmd cannot run: {error}");
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let output = shell.spawn().map_err(cannot)?.wait_with_output().await.map_err(cannot)?;
    if !output.status.success() {
        return Err(format!("--token-cmd ended with {}", output.status));
    }
    let text = str::from_utf8(&output.stdout).map_err(|_| "what --token-cmd printed is not text")?;
    only_a("token", text, "what --token-cmd printed")
}

/// Asks on the terminal, whatever standard input is: that is for the data. Ctrl-C must be listened for, or it would leave
/// the terminal as it is during the question.
fn ask() -> Result<Token, Failure> {
    let text = rpassword::prompt_password("Token: ").map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => interrupted("interrupted; no token was given"),
        _ => Failure::usage(format!(
            "--token - asks on the terminal, and that failed: {error}; use {VARIABLE}, --token-file or --token-cmd"
        )),
    })?;
    only_a("token", &text, "what was typed").map_err(Failure::usage)
}

/// The secret that `text`, which comes from `place`, is.
fn only_a(what: &str, text: &str, place: impl fmt::Display) -> Result<Token, String> {
    match text.trim() {
        "" => Err(format!("{place} is empty")),
        token if token.contains(char::is_whitespace) => {
            Err(format!("{place} is more than one word; it must be the {what} and nothing else"))
        }
        token => Ok(Token::new(token)),
    }
}

fn not_empty(text: &str, otherwise: &str) -> Result<Token, Failure> {
    match text.trim() {
        "" => Err(Failure::usage(otherwise)),
        token => Ok(Token::new(token)),
    }
}

#[cfg(unix)]
fn warn_if_others_can_read(path: &Path, what: &str) {
    use std::os::unix::fs::MetadataExt as _;
    if fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o077 != 0) {
        say(format_args!(
            "warning: others can read the {what} file {path}; chmod 600 {path}",
            path = path.display()
        ));
    }
}

#[cfg(not(unix))]
fn warn_if_others_can_read(_: &Path, _: &str) {}
