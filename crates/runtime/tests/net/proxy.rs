//! What is between two NICs, and can cut the connections that go through it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Carries connections to one address.
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// Bytes that have gone through, both ways.
    carried: AtomicU64,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        thread::spawn(move || {
            for dialed in listener.incoming() {
                let Ok(dialed) = dialed else { return };
                if theirs.ends.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(onward) = TcpStream::connect(target) else { continue };
                let copy = |it: &TcpStream| it.try_clone().expect("a file");
                theirs.streams.lock().expect("whole").extend([copy(&dialed), copy(&onward)]);
                for (from, to) in [(copy(&dialed), copy(&onward)), (onward, dialed)] {
                    let shared = theirs.clone();
                    thread::spawn(move || pump(from, to, &shared));
                }
            }
        });
        Proxy { address, shared }
    }

    /// Bytes that have gone through, both ways.
    pub fn carried(&self) -> u64 {
        self.shared.carried.load(Ordering::SeqCst)
    }

    /// Cuts all connections that go through it now.
    pub fn cut(&self) {
        for stream in self.shared.streams.lock().expect("whole").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        self.cut();
        let _ = TcpStream::connect(self.address); // so that it looks
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, shared: &Shared) {
    let mut buffer = vec![0; 8192];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
        shared.carried.fetch_add(read as u64, Ordering::SeqCst);
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
