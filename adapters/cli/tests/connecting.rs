//! What cannot be connected to has its own exit code and one clear line.

mod common;

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use common::{TOPIC, nolag, run};

/// A server that answers everything with this.
fn answering(response: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(response.as_bytes());
        }
    });
    url
}

fn both(url: &str, code: i32, words: &[&str]) {
    for args in [&["pub", TOPIC, "1"][..], &["sub", TOPIC]] {
        let ran = run(nolag(args).env("NOLAG_TOKEN", "t").args(["--url", url])).expect(code);
        assert_eq!(ran.stdout, "");
        ran.one_error(words);
    }
}

#[test]
fn an_address_that_cannot_be_used_is_a_usage_error() {
    both("localhost", 2, &["localhost", "ws://"]);
    both("http://localhost/ws", 2, &["http://localhost/ws", "ws://"]);
    both("ws://", 2, &["address"]);
    both("ws://host:99999/ws", 2, &["port"]);
}

#[test]
fn a_refused_port_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    both(&format!("ws://127.0.0.1:{port}/ws"), 3, &[&port.to_string(), "refused", "nolag dev"]);
}

#[test]
fn a_plain_web_server_is_told_from_a_broker() {
    let url = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
    both(&url, 3, &[&url, "no WebSocket", "200", "/ws"]);
    let url = answering("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
    both(&url, 3, &[&url, "403"]);
    let url = answering("SSH-2.0-OpenSSH_9.2\r\n");
    both(&url, 3, &[&url]);
}

#[test]
fn tls_to_a_plain_server_fails_clearly() {
    let url = answering("HTTP/1.1 400 Bad Request\r\n\r\n").replace("ws://", "wss://");
    both(&url, 3, &[&url, "TLS"]);
}
