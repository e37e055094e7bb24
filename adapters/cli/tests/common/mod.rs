//! Running the command `nolag` in tests.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Read, Write as _},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Everything that a test waits for comes within this, or the test fails.
pub const DEADLINE: Duration = Duration::from_secs(30);

pub const TOPIC: &str = "demo/general/messages";
pub const ALICE: &str = "dev-token-alice";
pub const BOB: &str = "dev-token-bob";
pub const API_KEY: &str = nolag_broker::BrokerConfig::DEV_API_KEY;

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Checks the exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Checks that standard error is one line of error with these words.
    #[track_caller]
    pub fn one_error(&self, words: &[&str]) {
        let lines: Vec<&str> = self.stderr.lines().collect();
        let [line] = lines.as_slice() else { panic!("not one line: {self:#?}") };
        assert!(line.starts_with("error: "), "{line}");
        for word in words {
            assert!(line.contains(word), "{word:?} is not in {line:?}");
        }
    }
}

/// The command, with nothing of this process's environment that it listens to.
pub fn nolag<I>(args: I) -> Command
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let mut command = Command::new(env!("CARGO_BIN_EXE_nolag"));
    command.args(args).stdin(Stdio::null());
    for variable in ["NOLAG_URL", "NOLAG_TOKEN", "NOLAG_API_URL", "NOLAG_API_KEY", "NOLAG_DEV_API_KEY"] {
        command.env_remove(variable);
    }
    command
}

/// A command that runs.
pub struct Running {
    pub child: Child,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
}

/// Starts a command with both outputs piped.
pub fn start(command: &mut Command) -> Running {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = lines(child.stdout.take().unwrap());
    let stderr = lines(child.stderr.take().unwrap());
    Running { child, stdout, stderr }
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Ran {
    start(command).end()
}

/// Runs a command that gets `input`.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Ran {
    let mut running = start(command.stdin(Stdio::piped()));
    let mut stdin = running.child.stdin.take().unwrap();
    let input = input.to_vec();
    // It may end without having read everything.
    thread::spawn(move || drop(stdin.write_all(&input)));
    running.end()
}

impl Running {
    /// The next line of standard output.
    #[track_caller]
    pub fn line(&mut self) -> String {
        match self.stdout.recv_timeout(DEADLINE) {
            Ok(line) => line,
            Err(error) => {
                panic!("no line: {error}; standard error: {:?}", self.stderr.try_iter().collect::<Vec<_>>())
            }
        }
    }

    /// The first line of standard output that is a JSON object of this event.
    #[track_caller]
    pub fn event(&mut self, event: &str) -> serde_json::Value {
        loop {
            let line = self.line();
            let json: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(json["v"], 1, "{line}");
            assert!(json["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{line}");
            if json["event"] == event {
                return json;
            }
        }
    }

    /// Waits for a line of standard error that contains `words`.
    #[track_caller]
    pub fn hears(&mut self, words: &str) -> String {
        let until = Instant::now() + DEADLINE;
        let mut heard = Vec::new();
        loop {
            match self.stderr.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => heard.push(line),
                Err(error) => panic!("{words:?} was not said: {error}; {heard:?}"),
            }
        }
    }

    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for the end; what was not yet read of the outputs comes with it.
    #[track_caller]
    pub fn end(mut self) -> Ran {
        let until = Instant::now() + DEADLINE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "it does not end");
            thread::sleep(Duration::from_millis(5));
        };
        let rest = |lines: &mpsc::Receiver<String>| lines.iter().map(|line| line + "\n").collect::<String>();
        let (stdout, stderr) = (rest(&self.stdout), rest(&self.stderr));
        Ran { code: status.code().unwrap_or(-1), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(output: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// A running `nolag dev`.
pub struct Broker {
    pub running: Running,
    pub url: String,
}

impl Broker {
    /// With the tokens of the examples.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(args: &[&str]) -> Self {
        let mut running = start(nolag(["dev", "--port", "0", "--json"]).args(args));
        let ready = running.event("ready");
        Self { running, url: ready["url"].as_str().unwrap().into() }
    }

    /// A command that connects to this broker.
    pub fn nolag(&self, token: &str, args: &[&str]) -> Command {
        let mut command = nolag(args);
        command.env("NOLAG_URL", &self.url).env("NOLAG_TOKEN", token);
        command
    }

    /// Where its control plane is.
    pub fn api_url(&self) -> String {
        self.url.replacen("ws://", "http://", 1).replace("/ws", "/v1")
    }

    /// `nolag api` with this broker and the right key.
    pub fn api(&self, args: &[&str]) -> Command {
        let mut command = nolag(["api"]);
        command.args(args).env("NOLAG_API_URL", self.api_url()).env("NOLAG_API_KEY", API_KEY);
        command.env("NOLAG_URL", &self.url);
        command
    }

    /// What `nolag api … --json` prints.
    #[track_caller]
    pub fn api_json(&self, args: &[&str]) -> serde_json::Value {
        let ran = run(self.api(args).arg("--json")).expect(0);
        assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// `nolag pub` to the usual topic, by alice.
    pub fn publish(&self, args: &[&str]) -> Command {
        let mut command = self.nolag(ALICE, &["pub", TOPIC]);
        command.args(args);
        command
    }

    /// `nolag sub` to the usual topic, by bob, once the broker has confirmed it.
    pub fn subscribe(&self, args: &[&str]) -> Running {
        let mut running = start(self.nolag(BOB, &["sub", TOPIC]).args(args));
        if args.contains(&"--json") {
            running.event("subscribed");
        } else {
            running.hears("subscribed to");
        }
        running
    }
}

/// Whether `script` can run commands on a terminal.
pub fn has_terminals() -> bool {
    let version = Command::new("script").arg("--version").output();
    version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("util-linux"))
}

/// A shell command whose three standard streams are a terminal.
pub fn on_a_terminal(command: &str) -> Command {
    let mut script = Command::new("script");
    script.args(["-qec", command, "/dev/null"]).env("SHELL", "/bin/sh").stdin(Stdio::null());
    script
}
