//! Resident memory of idle client connections, against the goal of [`GOAL`] bytes each.
//!
//! `cargo bench -p nolag --bench idle_connections -- --connections 1000`; [`CONNECTIONS`] unless told otherwise. It
//! needs Linux: resident memory is read from `/proc`.
//!
//! The program starts itself again as the processes it needs:
//! * without a role it runs one *measurement* without TLS and one with TLS, side by side, and prints a table;
//! * as `--measure` it is the process with the clients, whose memory is read, and starts a broker for them;
//! * as `--broker` it is the development broker, with TLS in front of it if asked for.
//!
//! A process ends when the one that started it closes its standard input.

use std::{
    env, fs,
    io::{self, BufRead as _, BufReader, Read as _},
    net::Ipv4Addr,
    process::{Child, ChildStdout, Command, ExitCode, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use futures_util::future::try_join_all;
use nolag::{Client, Options, Status};
use nolag_broker::{Server, ServerOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    time,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
};

/// Resident bytes that a client connection without TLS may take.
const GOAL: u64 = 24 * 1024;

/// Clients unless told otherwise.
const CONNECTIONS: u64 = 5000;

/// Clients that connect at the same time.
const BATCH: u64 = 100;

/// Clients that come and go before the first measurement, so that what a process needs once is not counted.
const WARM_UP: u64 = 8;

/// How long one measurement may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(150);

/// Files that a process has open beside its connections.
const OTHER_FILES: u64 = 50;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match *args {
        ["--broker", tls] => broker(tls == "tls"),
        ["--measure", tls, connections] => number(connections).and_then(|n| measure(tls == "tls", n)),
        // `cargo test --all-targets` runs benches too, without this argument.
        _ if !args.contains(&"--bench") => {
            println!("idle connections are measured by `cargo bench` only");
            Ok(ExitCode::SUCCESS)
        }
        ["--bench"] => compare(CONNECTIONS),
        ["--connections", connections, "--bench"] => number(connections).and_then(compare),
        _ => Err("usage: cargo bench -p nolag --bench idle_connections [-- --connections NUMBER]".into()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("idle connections: {error}");
        ExitCode::from(2)
    })
}

fn number(text: &str) -> Result<u64> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is not a number of connections").into())
}

// ---- the comparison ----

/// Measures without and with TLS and prints what came out. Fails beyond the goal.
fn compare(connections: u64) -> Result<ExitCode> {
    // The broker with TLS has the most: a connection has an end at the client and two at the broker.
    check_file_limit(connections.saturating_mul(3).saturating_add(OTHER_FILES))?;
    let connections_text = connections.to_string();
    let start = |tls| Process::start(&["--measure", tls, &connections_text]);
    let (mut plain, mut tls) = (start("plain")?, start("tls")?);
    let rows = [
        ("without TLS", plain.figure()?),
        ("without TLS, with one subscription", plain.figure()?),
        ("with TLS", tls.figure()?),
    ];
    println!("{connections} idle connections in one process, after their first heartbeat:");
    println!("{:>40}", "resident bytes per client");
    for (name, bytes) in rows {
        println!("{name:<34} {bytes:>5}");
    }
    let bytes = rows[0].1;
    println!("idle connections: {bytes} bytes per client (goal {GOAL})");
    Ok(if bytes <= GOAL { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says in time, and in words, what would be "too many open files" in the middle.
fn check_file_limit(needed: u64) -> Result<()> {
    let limits = fs::read_to_string("/proc/self/limits").map_err(needs_linux)?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let limit = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(u64::MAX);
    if limit >= needed {
        return Ok(());
    }
    let fewer = limit.saturating_sub(OTHER_FILES) / 3;
    Err(format!(
        "a process may have {limit} files open here, and {needed} are needed: allow more with \
         `ulimit -n {needed}`, or take fewer connections with `-- --connections {fewer}`"
    )
    .into())
}

fn needs_linux(error: io::Error) -> String {
    format!("memory and limits are read from /proc, which only Linux has: {error}")
}

/// This program in another role.
struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Process {
    fn start(args: &[&str]) -> Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        Ok(Self { child, stdout: BufReader::new(stdout) })
    }

    /// The next line that it prints.
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        if line.is_empty() {
            // Its standard error has said why.
            return Err(format!("a process has ended early, {}", self.child.wait()?).into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }

    fn figure(&mut self) -> Result<u64> {
        Ok(self.line()?.parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends this process when the one that started it is gone, however that came.
fn end_with_parent() {
    thread::spawn(|| {
        // Nothing is ever written, so this returns at the end of the parent.
        let _ = io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
}

// ---- the process with the clients ----

/// Prints the resident bytes of a client when all are idle; without TLS also when each has a subscription.
fn measure(tls: bool, connections: u64) -> Result<ExitCode> {
    end_with_parent();
    let mut broker = Process::start(&["--broker", if tls { "tls" } else { "plain" }])?;
    let mut options = Options::new(broker.line()?);
    if tls {
        let mut authority = String::new();
        while !authority.ends_with("-----END CERTIFICATE-----\n") {
            authority.push_str(&broker.line()?);
            authority.push('\n');
        }
        options = options.root_certificates(authority);
    }
    let measuring = async {
        let mut warm_up = Vec::new();
        connect(&mut warm_up, &options, WARM_UP).await?;
        subscribe(&warm_up).await?;
        for client in warm_up {
            client.close().await;
        }
        let mut clients = Vec::new();
        let before = resident()?;
        connect(&mut clients, &options, connections).await?;
        heartbeats(&clients).await?;
        println!("{}", per_client(&clients, before)?);
        if !tls {
            subscribe(&clients).await?;
            println!("{}", per_client(&clients, before)?);
        }
        Ok(ExitCode::SUCCESS)
    };
    let runtime = Runtime::new()?;
    runtime.block_on(async { time::timeout(PATIENCE, measuring).await.map_err(|_| "it takes too long")? })
}

async fn connect(clients: &mut Vec<Client>, options: &Options, count: u64) -> Result<()> {
    for first in (0..count).step_by(BATCH as usize) {
        let batch: Vec<_> = (first..count.min(first + BATCH))
            .map(|number| Client::new(format!("token-{number}"), options.clone()))
            .collect();
        try_join_all(batch.iter().map(Client::connect)).await?;
        clients.extend(batch);
    }
    Ok(())
}

async fn subscribe(clients: &[Client]) -> Result<()> {
    for batch in clients.chunks(BATCH as usize) {
        try_join_all(batch.iter().map(|client| client.subscribe("bench/room/topic").into_future())).await?;
    }
    Ok(())
}

/// Waits until every client has heard the answer to its first heartbeat, the second frame after that to its token:
/// only then has it everything that an idle client needs.
async fn heartbeats(clients: &[Client]) -> Result<()> {
    let mut look = time::interval(Duration::from_millis(100));
    while clients.iter().any(|client| client.stats().core.frames_received < 2) {
        look.tick().await;
        check_connected(clients)?;
    }
    Ok(())
}

/// How much the process has grown for each client.
fn per_client(clients: &[Client], before: u64) -> Result<u64> {
    let grown = resident()?.saturating_sub(before);
    check_connected(clients)?;
    Ok(grown / clients.len() as u64)
}

fn check_connected(clients: &[Client]) -> Result<()> {
    match clients.iter().find(|client| client.status() != Status::Connected) {
        Some(client) => Err(format!("a client lost its connection: {}", client.explain()).into()),
        None => Ok(()),
    }
}

/// Bytes of this process that are in memory.
fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").map_err(needs_linux)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<u64> = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    Ok(kib.ok_or("/proc/self/status says nothing of resident memory")? * 1024)
}

// ---- the broker's process ----

/// Prints the address, then with TLS the certificate of the authority to trust, and serves.
fn broker(tls: bool) -> Result<ExitCode> {
    end_with_parent();
    Runtime::new()?.block_on(async {
        let addr = (Ipv4Addr::LOCALHOST, 0).into();
        let server = Server::bind(ServerOptions { addr, ..ServerOptions::default() }).await?;
        if !tls {
            println!("{}", server.url());
            return std::future::pending().await;
        }
        let listener = TcpListener::bind(addr).await?;
        let (acceptor, authority) = private_authority()?;
        println!("wss://{}/ws\n{}", listener.local_addr()?, authority.trim());
        loop {
            let (stream, _) = listener.accept().await?;
            let (acceptor, plain) = (acceptor.clone(), server.local_addr());
            tokio::spawn(async move {
                // What fails here the client sees as the end of its connection.
                if let (Ok(mut outer), Ok(mut inner)) =
                    (acceptor.accept(stream).await, TcpStream::connect(plain).await)
                {
                    let _ = copy_bidirectional(&mut outer, &mut inner).await;
                }
            });
        }
    })
}

/// A server's side of TLS for 127.0.0.1, and the root that signed its certificate.
fn private_authority() -> Result<(TlsAcceptor, String)> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let names = vec![Ipv4Addr::LOCALHOST.to_string()];
    let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der())?)?;
    Ok((TlsAcceptor::from(Arc::new(config)), authority.pem()))
}
