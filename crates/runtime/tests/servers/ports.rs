//! Ports that stay free until somebody listens at them.

use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Where Linux begins, unless told otherwise, to give ports to connections and to those who ask
/// for any. A port of those may be gone before it is listened at, or when it is wanted again.
const GIVEN_AWAY: u32 = 32_768;
const LOWEST: u32 = 10_240;

/// A port of loopback that nobody has, and that this process names once.
pub fn free_port() -> u16 {
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    // Processes that run side by side begin in different places.
    let next = NEXT.get_or_init(|| AtomicU32::new(std::process::id().wrapping_mul(61)));
    (LOWEST..GIVEN_AWAY)
        .map(|_| LOWEST + next.fetch_add(1, Relaxed) % (GIVEN_AWAY - LOWEST))
        .map(|port| u16::try_from(port).expect("below the ports that are given away"))
        .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        .expect("loopback has a free port")
}
