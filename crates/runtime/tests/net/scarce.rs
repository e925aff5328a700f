//! A computer without files left, for a while.

use crate::cluster::{Cluster, calm};
use lightloom_runtime::net::{NicConfig, Tcp, Transport};
use mio::net::{TcpListener, TcpStream};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// TCP that has no file for whoever has dialed, until some time.
#[derive(Clone)]
struct Scarce {
    until: Instant,
    refused: Arc<AtomicUsize>,
}

impl Transport for Scarce {
    type Listener = TcpListener;
    type Stream = TcpStream;

    fn listen(&self, nic: &NicConfig) -> io::Result<(TcpListener, SocketAddr)> {
        Tcp::default().listen(nic)
    }

    fn accept(&self, listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
        if Instant::now() >= self.until {
            return Tcp::default().accept(listener);
        }
        self.refused.fetch_add(1, Ordering::SeqCst);
        Err(io::Error::from_raw_os_error(24)) // EMFILE
    }

    fn dial(&self, nic: &NicConfig, to: SocketAddr) -> io::Result<TcpStream> {
        Tcp::default().dial(nic, to)
    }
}

#[test]
fn without_files_nobody_spins_and_peers_come_in_later() {
    let until = Instant::now() + Duration::from_millis(300);
    let scarce = Scarce { until, refused: Arc::default() };
    let transport = scarce.clone();
    let cluster = Cluster::over(2, 1, calm, move |_| transport.clone(), |_, _, at| at);
    cluster.post_all(1, 0, |_, _, _| 40_000);
    cluster.expect_done(2, |_, _, _| 40_000);
    let refused = scarce.refused.load(Ordering::SeqCst);
    assert!((1..20).contains(&refused), "asked {refused} times in 300 ms");
}
