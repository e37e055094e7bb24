//! What the HTTP clients write to `log`. The documentation of the REST client names the one target that has secrets in it.
//!
//! Rows of at most 16 bytes are what ureq_proto writes, so secrets are looked for by pieces that fit into half of one.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::Mutex,
    thread,
};

use log::{LevelFilter, Log, Metadata, Record};
use nolag_http::{
    reqwest,
    ureq::{self, Agent, config::Config},
};

/// Of the key, of another header, of the request's body, of the answer's, and of the proxy's password.
const SECRETS: [&str; 5] = ["aa", "bb", "cc", "dd", "ee"];

/// So long that each row in the middle of one has nothing else.
fn secret(name: &str) -> String {
    name.repeat(40)
}

/// Target and text of every record.
struct Records(Mutex<Vec<(String, String)>>);

static RECORDS: Records = Records(Mutex::new(Vec::new()));

impl Log for Records {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        self.0.lock().unwrap().push((record.target().to_owned(), record.args().to_string()));
    }

    fn flush(&self) {}
}

/// Answers every request with a secret; it is a proxy as much as a server.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            loop {
                let (mut length, mut tunnel, mut line) = (0, false, String::new());
                while stream.read_line(&mut line).unwrap_or(0) > 2 {
                    tunnel |= line.starts_with("CONNECT ");
                    let value = line.to_ascii_lowercase();
                    if let Some(value) = value.strip_prefix("content-length: ") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                if line.is_empty() || stream.read_exact(&mut vec![0; length]).is_err() {
                    break;
                }
                let body = if tunnel { String::new() } else { secret("dd") };
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    address
}

fn with_reqwest(url: &str, proxy: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let plain = reqwest::Client::builder().no_proxy();
    let proxied = reqwest::Client::builder().proxy(reqwest::Proxy::all(proxy).unwrap());
    runtime.block_on(async {
        for client in [plain, proxied] {
            let request = client.build().unwrap().post(url).bearer_auth(secret("aa"));
            let request = request.header("x-gateway-key", secret("bb")).body(secret("cc"));
            assert_eq!(request.send().await.unwrap().text().await.unwrap(), secret("dd"));
        }
    });
}

fn with_ureq(url: &str, proxy: &str) {
    for proxy in [None, Some(ureq::Proxy::new(proxy).unwrap())] {
        let agent = Agent::new_with_config(Config::builder().proxy(proxy).build());
        let request = agent.post(url).header("authorization", format!("Bearer {}", secret("aa")));
        let answer = request.header("x-gateway-key", secret("bb")).send(secret("cc"));
        assert_eq!(answer.unwrap().body_mut().read_to_string().unwrap(), secret("dd"));
    }
}

/// Targets whose records have a piece of a secret.
fn leaks(records: &[(String, String)]) -> Vec<&str> {
    let leaks = |text: &str| SECRETS.iter().any(|name| text.contains(&name.repeat(4)));
    let mut targets: Vec<&str> =
        records.iter().filter(|(_, text)| leaks(text)).map(|(target, _)| target.as_str()).collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

#[test]
fn secrets_are_logged_by_ureq_proto_and_by_nothing_else() {
    // With the feature `tls` no client is built without one, not even for http://.
    rustls::crypto::ring::default_provider().install_default().unwrap();
    log::set_logger(&RECORDS).unwrap();
    log::set_max_level(LevelFilter::Trace);
    let address = serve();
    let (url, proxy) =
        (format!("http://{address}/v1/actors"), format!("http://me:{}@{address}", secret("ee")));

    with_reqwest(&url, &proxy);
    let records = std::mem::take(&mut *RECORDS.0.lock().unwrap());
    assert!(records.iter().any(|(target, _)| target.starts_with("reqwest")), "{records:?}");
    assert_eq!(leaks(&records), Vec::<&str>::new());

    with_ureq(&url, &proxy);
    let records = std::mem::take(&mut *RECORDS.0.lock().unwrap());
    assert!(records.iter().any(|(target, _)| target.starts_with("ureq::")), "{records:?}");
    assert_eq!(leaks(&records), ["ureq_proto::util"], "what docs/rest.md tells to leave out");

    log::set_max_level(LevelFilter::Debug);
    with_ureq(&url, &proxy);
    assert_eq!(leaks(&RECORDS.0.lock().unwrap()), Vec::<&str>::new(), "only TRACE has them");
}
