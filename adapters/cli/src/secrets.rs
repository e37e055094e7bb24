//! Where the token comes from. It never reaches an output, an error or a help text.

use std::{
    env, fs,
    io::{self, IsTerminal},
    path::Path,
};

use nolag::Token;

use crate::{args::ConnectionArgs, exit::Failure, output::say};

const VARIABLE: &str = "NOLAG_TOKEN";

/// The token: of an option, else of the environment.
pub(crate) fn token(args: &ConnectionArgs) -> Result<Token, Failure> {
    if let Some(token) = &args.token {
        if io::stderr().is_terminal() {
            say(format_args!(
                "warning: --token is visible in the process list; use {VARIABLE} or --token-file"
            ));
        }
        return not_empty(token.expose(), "--token is empty");
    }
    if let Some(path) = &args.token_file {
        return from_file(path);
    }
    match env::var(VARIABLE) {
        Ok(token) if !token.is_empty() => not_empty(&token, "NOLAG_TOKEN is empty"),
        Ok(_) | Err(env::VarError::NotPresent) => Err(Failure::usage(format!(
            "no token; set {VARIABLE} or use --token-file PATH (`nolag dev` accepts {VARIABLE}=dev-token-alice)"
        ))),
        Err(env::VarError::NotUnicode(_)) => Err(Failure::usage(format!("{VARIABLE} is not text"))),
    }
}

fn from_file(path: &Path) -> Result<Token, Failure> {
    // `read_to_string` would not say more, and its error holds no content either.
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read the token file {}: {error}", path.display())))?;
    let token = not_empty(&text, &format!("the token file {} is empty", path.display()))?;
    if token.expose().contains(char::is_whitespace) {
        return Err(Failure::usage(format!(
            "the token file {} holds more than a token; leave nothing but the token in it",
            path.display()
        )));
    }
    warn_if_others_can_read(path);
    Ok(token)
}

fn not_empty(text: &str, otherwise: &str) -> Result<Token, Failure> {
    match text.trim() {
        "" => Err(Failure::usage(otherwise)),
        token => Ok(Token::new(token)),
    }
}

#[cfg(unix)]
fn warn_if_others_can_read(path: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    if fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o077 != 0) {
        say(format_args!(
            "warning: others can read the token file {path}; chmod 600 {path}",
            path = path.display()
        ));
    }
}

#[cfg(not(unix))]
fn warn_if_others_can_read(_: &Path) {}
