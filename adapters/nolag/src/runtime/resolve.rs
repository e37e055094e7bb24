//! Names to addresses where the system offers only a call that blocks.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
};

use super::{BoxFuture, thread};

/// Asks the system on a thread of its own. The future may be dropped at any time, as when the time for connecting is
/// over; the thread then ends by itself when the system has answered.
pub(super) fn on_a_thread(host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
    let host = host.to_owned();
    let ask = move || (host, port).to_socket_addrs().map(Iterator::collect);
    Box::pin(async move { thread::run("nolag-resolve", ask).await? })
}
