//! A computer without files left, for a while.

use crate::cluster::{Cluster, calm};
use lightloom_runtime::net::{NicConfig, Tcp, Transport};
use mio::net::{TcpListener, TcpStream};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// TCP that has no file for whoever has dialed, so many times.
#[derive(Clone)]
struct Scarce {
    refuses: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
}

impl Transport for Scarce {
    type Listener = TcpListener;
    type Stream = TcpStream;

    fn listen(&self, nic: &NicConfig) -> io::Result<(TcpListener, SocketAddr)> {
        Tcp::default().listen(nic)
    }

    fn accept(&self, listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let less = |left: usize| left.checked_sub(1);
        match self.refuses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
            Ok(_) => Err(io::Error::from_raw_os_error(24)), // EMFILE
            Err(_) => Tcp::default().accept(listener),
        }
    }

    fn dial(&self, nic: &NicConfig, to: SocketAddr) -> io::Result<TcpStream> {
        Tcp::default().dial(nic, to)
    }
}

#[test]
fn without_files_nobody_spins_and_peers_come_in_later() {
    let scarce = Scarce { refuses: Arc::new(AtomicUsize::new(8)), asked: Arc::default() };
    let transport = scarce.clone();
    let cluster = Cluster::over(2, 1, calm, move |_| transport.clone(), |_, _, at| at);
    std::thread::sleep(Duration::from_millis(120));
    let asked = scarce.asked.load(Ordering::SeqCst);
    assert!(asked < 12, "asked {asked} times in 120 ms");
    cluster.post_all(1, 0, |_, _, _| 40_000);
    cluster.expect_done(2, |_, _, _| 40_000);
}
