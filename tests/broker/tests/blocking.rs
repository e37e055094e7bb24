//! A broker for tests without an async runtime.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use nolag_broker::{BlockingTestBroker, Expected, Fault, TestBroker};

fn health(broker: &BlockingTestBroker) -> std::io::Result<String> {
    let address = broker.url();
    let address = address.trim_start_matches("ws://").trim_end_matches("/ws");
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}

#[test]
fn it_serves_while_the_test_blocks() {
    let broker = BlockingTestBroker::start();
    assert!(health(&broker).unwrap().ends_with(r#"{"status":"ok"}"#));
    assert!(broker.block_on(broker.connections()).is_empty());
}

#[test]
fn faults_and_expectations_work_without_a_runtime() {
    let broker = BlockingTestBroker::start_with(TestBroker::builder().fault(Fault::drop().on("publish")));
    broker.block_on(broker.clear_faults());
    let frames = broker.block_on(broker.recorder().expect(Expected::from_client("publish").times(0)));
    assert!(frames.is_empty());
}

#[test]
fn dropping_it_frees_the_port() {
    let broker = BlockingTestBroker::start();
    let address = broker.url().trim_start_matches("ws://").trim_end_matches("/ws").to_owned();
    drop(broker);
    assert!(TcpStream::connect(address).is_err());
}
