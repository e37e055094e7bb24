//! `nolag dev`: the development broker.

use std::{
    borrow::Cow,
    env, fs,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    net::SocketAddr,
    path::Path,
};

use nolag::Token;
use nolag_broker::{
    AuthConfig, BrokerConfig, BrokerCore, Limits, Profile, Server, ServerError, ServerOptions, fault_banner,
    startup_banner,
};
use serde::Serialize;
use tokio::net::lookup_host;

use crate::{
    args::DevArgs,
    connection::reachable,
    exit::{Exit, Failure, Outcome},
    output::{Output, say},
    signals::Interrupts,
};

#[derive(Serialize)]
struct Ready<'a> {
    url: &'a str,
    port: u16,
}

#[derive(Serialize)]
struct Stopped {}

pub(crate) async fn run(args: DevArgs) -> Outcome {
    let output = Output::new(args.json);
    let mut interrupts = Interrupts::listen(|| "left at once".into())?;
    let profile = Profile::from(args.broker);
    let addr = resolve(&args.host, args.port).await?;
    let key = ApiKey::choose(args.api_key.clone(), addr)?;
    let config = BrokerConfig {
        profile,
        auth: if args.allow_all { AuthConfig::allow_all() } else { AuthConfig::seed_world() },
        limits: if args.no_limits { Limits::NONE } else { Limits::default() },
        // Clients that come back after a restart must not take new messages for old ones by their ids.
        seed: RandomState::new().build_hasher().finish(),
        api_key: key.token.clone(),
        state_file: args.state.clone(),
        ..BrokerConfig::default()
    };
    let options = ServerOptions { addr, config, auth_file: args.auth.clone() };
    let server = Server::bind(options).await.map_err(|error| cannot_start(&error, args.port))?;

    let addr = server.local_addr();
    let url = format!("ws://{}/ws", reachable(addr));
    let faults = args.fault.clone();
    let faults = server.with_core(move |core: &mut BrokerCore, now| {
        for fault in faults {
            core.add_fault(now, fault);
        }
        fault_banner(core)
    });
    let faults = faults.await.map_err(|stopped| Failure::new(Exit::Internal, stopped.to_string()))?;
    if let Some(path) = &args.ready_file {
        write_ready_file(path, &url)?;
    }
    say(startup_banner(&server, profile));
    if let Some(faults) = faults {
        say(format_args!("\n{faults}"));
    }
    say(format_args!("REST API: http://{}/v1, {}", reachable(addr), key.shown()));
    say(advice(&args, &url));
    if !addr.ip().is_loopback() {
        say(format_args!(
            "warning: everybody who can reach {addr} can connect; --host 127.0.0.1 keeps others out"
        ));
        if key.origin == Origin::MadeUp {
            say(
                "The API key is new for each run, as others can reach the broker; NOLAG_DEV_API_KEY sets one.",
            );
        }
    }
    match output.is_json() {
        true => output.event("ready", Ready { url: &url, port: addr.port() })?,
        false => output.line(format_args!("ready {url}"))?,
    }

    interrupts.first().await;
    server.shutdown().await;
    if let Some(path) = &args.ready_file {
        // It says that clients can connect. If it is gone already, so much the better.
        let _ = fs::remove_file(path);
    }
    match output.is_json() {
        true => output.event("stopped", Stopped {})?,
        false => say("stopped"),
    }
    Ok(Exit::Done)
}

/// The key of the REST API.
struct ApiKey {
    token: Token,
    origin: Origin,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Everybody knows it.
    Default,
    Given,
    MadeUp,
}

impl ApiKey {
    /// The key that was given; else the one that everybody knows, unless others than this machine can reach the broker.
    fn choose(given: Option<Token>, addr: SocketAddr) -> Result<Self, Failure> {
        let (token, origin) = match given {
            Some(key) if key.expose().is_empty() || !key.expose().bytes().all(|b| b.is_ascii_graphic()) => {
                return Err(Failure::usage(
                    "the API key (--api-key, NOLAG_DEV_API_KEY) must be one word of visible ASCII characters",
                ));
            }
            Some(key) => (key, Origin::Given),
            None if addr.ip().is_loopback() => (Token::new(BrokerConfig::DEV_API_KEY), Origin::Default),
            None => (Token::new(made_up_key()), Origin::MadeUp),
        };
        Ok(Self { token, origin })
    }

    /// What is said of it. One that was given is known, and stays a secret.
    fn shown(&self) -> String {
        match self.origin {
            Origin::Given => "with the key that was given".into(),
            Origin::Default | Origin::MadeUp => format!("key {}", self.token.expose()),
        }
    }
}

/// A key of 128 bits that nobody can guess: hashes under a key that the system's randomness seeds.
fn made_up_key() -> String {
    let state = RandomState::new();
    format!("nlg_live_dev.{:016x}{:016x}", state.hash_one(1), state.hash_one(2))
}

async fn resolve(host: &str, port: u16) -> Result<SocketAddr, Failure> {
    let fault = |reason: String| {
        Failure::usage(format!(
            "cannot listen on {host:?}: {reason}; --host wants an address of this machine"
        ))
    };
    let mut found = lookup_host((host, port)).await.map_err(|error| fault(error.to_string()))?;
    found.next().ok_or_else(|| fault("the name has no address".into()))
}

fn cannot_start(error: &ServerError, port: u16) -> Failure {
    Failure::usage(match error {
        ServerError::Bind { addr, source } if source.kind() == std::io::ErrorKind::AddrInUse => {
            format!(
                "port {port} of {} is in use; choose another with --port, or --port 0 for any free one",
                addr.ip()
            )
        }
        ServerError::Bind { addr, source } => {
            format!("cannot listen on {addr}: {source}; check --host and --port")
        }
        other => other.to_string(),
    })
}

/// What to do next. Only built-in tokens are shown.
fn advice(args: &DevArgs, url: &str) -> String {
    if let Some(path) = &args.auth {
        let path = path.display();
        return format!("\nTokens: those in {path}, which is read again when it changes\n\nCtrl-C stops it.");
    }
    let nolag = invocation();
    let tokens = if args.allow_all {
        "any; dev-token-NAME is the actor NAME, and every actor may do everything"
    } else {
        "dev-token-alice, dev-token-bob; app demo, room general, lobby online"
    };
    format!(
        "\nTokens: {tokens}\n\nIn another terminal:\n  \
         NOLAG_URL={url} NOLAG_TOKEN=dev-token-bob {nolag} sub demo/general/messages\nAnd in a third:\n  \
         NOLAG_URL={url} NOLAG_TOKEN=dev-token-alice {nolag} pub demo/general/messages '{{\"text\":\"hello\"}}'\n\n\
         Ctrl-C stops it."
    )
}

/// How this command was started: through cargo, by its path, or found by its name.
fn invocation() -> Cow<'static, str> {
    if env::var_os("CARGO_PKG_NAME").is_some_and(|package| package == env!("CARGO_PKG_NAME")) {
        return "cargo run -q -p nolag-cli --".into();
    }
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+');
    match env::args().next() {
        Some(path) if path.contains('/') && path.chars().all(plain) => path.into(),
        _ => "nolag".into(),
    }
}

/// All at once, so that nobody reads half an address.
fn write_ready_file(path: &Path, url: &str) -> Result<(), Failure> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let written = fs::write(&draft, format!("{url}\n")).and_then(|()| fs::rename(&draft, path));
    written
        .map_err(|error| Failure::usage(format!("cannot write the ready file {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn where_others_can_reach_the_broker_the_well_known_api_key_is_no_good() {
        let choose = |given: Option<&str>, ip: [u8; 4]| {
            ApiKey::choose(given.map(Token::new), (Ipv4Addr::from(ip), 8080).into()).ok().unwrap()
        };
        for ip in [[0, 0, 0, 0], [192, 0, 2, 1]] {
            let keys = [choose(None, ip), choose(None, ip)];
            assert!(keys.iter().all(|key| key.origin == Origin::MadeUp && key.token.expose().len() == 45));
            assert_ne!(keys[0].token.expose(), keys[1].token.expose());
            assert_eq!(keys[0].shown(), format!("key {}", keys[0].token.expose()));
            let given = choose(Some("planted"), ip);
            assert_eq!((given.token.expose(), given.shown().contains("planted")), ("planted", false));
        }
        assert_eq!(choose(None, [127, 0, 0, 1]).token.expose(), BrokerConfig::DEV_API_KEY);
    }
}
