//! An HTTP/1.1 server that answers as it is told, and writes down what it hears.

use std::{
    collections::VecDeque,
    io::{BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use nolag::api::Value;

/// What to do with a request.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Answers.
    Answer { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// Closes the connection without an answer.
    Close,
    /// Begins an answer with this status and closes the connection in the middle of its body.
    CloseInBody(u16),
    /// Sends this, and then does the other step.
    First(&'static str, Box<Self>),
    /// Says nothing, and keeps the connection.
    Silence,
}

impl Step {
    pub(crate) fn json(status: u16, body: impl Into<String>) -> Self {
        Self::Answer { status, headers: vec![("content-type", "application/json".into())], body: body.into() }
    }

    pub(crate) fn html(status: u16) -> Self {
        let body = format!("<html>\n<h1>{status}</h1>\n<p>This is the gateway.</p></html>");
        Self::Answer { status, headers: vec![("content-type", "text/html".into())], body }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.push((name, value.into()));
        }
        self
    }
}

/// A request as it was on the wire.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    /// `GET /v1/apps`
    pub(crate) line: String,
    /// With lower-case names, sorted.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Heard {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(other, _)| other == name);
        let first = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} twice: {self:?}");
        first
    }

    /// The body; `null` if there is none.
    pub(crate) fn json(&self) -> Value {
        if self.body.is_empty() { Value::Null } else { self.body.parse().unwrap() }
    }
}

/// What a connection is read from and written to.
pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// What comes before HTTP on a connection: TLS, for example. `None` when it failed.
pub(crate) type Accept = dyn Fn(TcpStream) -> Option<Box<dyn Stream>> + Send + Sync;

struct Shared {
    accept: Box<Accept>,
    steps: Mutex<VecDeque<Step>>,
    heard: Mutex<Vec<Heard>>,
    connections: Mutex<Vec<TcpStream>>,
    over: AtomicBool,
}

pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// One that does these steps, a request each; what comes after them is answered with 418.
    pub(crate) fn start(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::behind(steps, |stream| Some(Box::new(stream)))
    }

    pub(crate) fn behind(
        steps: impl IntoIterator<Item = Step>,
        accept: impl Fn(TcpStream) -> Option<Box<dyn Stream>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            accept: Box::new(accept),
            steps: Mutex::new(steps.into_iter().collect()),
            heard: Mutex::default(),
            connections: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let theirs = shared.clone();
        let acceptor = thread::spawn(move || {
            let mut threads = Vec::new();
            while let Ok((stream, _)) = listener.accept() {
                if theirs.over.load(Ordering::SeqCst) {
                    break;
                }
                theirs.connections.lock().unwrap().push(stream.try_clone().unwrap());
                let theirs = theirs.clone();
                threads.push(thread::spawn(move || theirs.serve(stream)));
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.shared.heard.lock().unwrap().clone()
    }

    /// Their first lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.heard().into_iter().map(|heard| heard.line).collect()
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.lock().unwrap().len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        drop(TcpStream::connect(self.address));
        for connection in self.shared.connections.lock().unwrap().iter() {
            let _ = connection.shutdown(Shutdown::Both);
        }
        let ended = self.acceptor.take().unwrap().join();
        assert!(ended.is_ok() || thread::panicking(), "the server panicked");
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let socket = stream.try_clone().unwrap();
        if let Some(stream) = (self.accept)(stream) {
            let mut stream = BufReader::new(stream);
            while let Some(heard) = read_request(&mut stream) {
                self.heard.lock().unwrap().push(heard);
                let step = self.steps.lock().unwrap().pop_front();
                let step = step.unwrap_or_else(|| Step::json(418, r#"{"message":"not in the script"}"#));
                if !answer(stream.get_mut(), step) {
                    break;
                }
            }
        }
        let _ = socket.shutdown(Shutdown::Both);
    }
}

/// Does a step. `false` when the connection is over.
fn answer(stream: &mut Box<dyn Stream>, step: Step) -> bool {
    match step {
        Step::Answer { status, headers, body } => {
            let mut head = format!("HTTP/1.1 {status} X\r\n");
            for (name, value) in headers {
                head += &format!("{name}: {value}\r\n");
            }
            if status != 204 {
                head += &format!("content-length: {}\r\n", body.len());
            }
            // A client that has had enough hangs up in the middle.
            stream.write_all(format!("{head}\r\n{body}").as_bytes()).is_ok() && stream.flush().is_ok()
        }
        Step::Close => false,
        Step::CloseInBody(status) => {
            let begun = format!("HTTP/1.1 {status} X\r\ncontent-length: 1000\r\n\r\n{{\"appId\":\"a1\"");
            stream.write_all(begun.as_bytes()).unwrap();
            stream.flush().unwrap();
            false
        }
        Step::First(text, rest) => {
            stream.write_all(text.as_bytes()).unwrap();
            stream.flush().unwrap();
            answer(stream, *rest)
        }
        Step::Silence => {
            // Until the client, or the end of the test, closes the connection.
            let _ = stream.read(&mut [0]);
            false
        }
    }
}

/// A head: its first line and its headers.
pub(crate) fn read_head(stream: &mut impl BufReadLines) -> Option<(String, Vec<(String, String)>)> {
    let line = stream.line()?;
    let mut headers = Vec::new();
    loop {
        let header = stream.line()?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(": ").unwrap();
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    headers.sort();
    Some((line, headers))
}

/// Lines of HTTP.
pub(crate) trait BufReadLines {
    /// One without its end; `None` when there are no more.
    fn line(&mut self) -> Option<String>;
}

impl<T: std::io::BufRead> BufReadLines for T {
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(String::from)
    }
}

fn read_request(stream: &mut BufReader<Box<dyn Stream>>) -> Option<Heard> {
    let (line, headers) = read_head(stream)?;
    let line = line.strip_suffix(" HTTP/1.1").unwrap().to_owned();
    let mut heard = Heard { line, headers, body: String::new() };
    assert_eq!(heard.header("transfer-encoding"), None);
    let length = heard.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    heard.body = String::from_utf8(body).unwrap();
    Some(heard)
}
