//! What a lane or a NIC has carried.

use serde::Serialize;
use std::ops::AddAssign;

/// Counts since the endpoint began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Chunks that were begun here, those that were sent again too.
    pub chunks_sent: u64,
    /// Their payload \[B\].
    pub bytes_sent: u64,
    /// Chunks that came and were kept.
    pub chunks_received: u64,
    /// Their payload \[B\].
    pub bytes_received: u64,
    /// Chunks that came and were not needed: doubled, or late.
    pub doubled: u64,
    /// Chunks that a broken connection may have lost, and that were queued again.
    pub resent: u64,
    /// Chunks that took another lane than their plan said.
    pub detours: u64,
    /// Bytes of connections that go by a relay, sent over this lane by one of their ends or by the relay \[B\].
    pub relayed: u64,
    /// Connections that were closed since nothing was acknowledged.
    pub stalls: u64,
    /// Connections that were closed or broke.
    pub breaks: u64,
}

impl AddAssign for Statistics {
    fn add_assign(&mut self, other: Statistics) {
        self.chunks_sent += other.chunks_sent;
        self.bytes_sent += other.bytes_sent;
        self.chunks_received += other.chunks_received;
        self.bytes_received += other.bytes_received;
        self.doubled += other.doubled;
        self.resent += other.resent;
        self.detours += other.detours;
        self.relayed += other.relayed;
        self.stalls += other.stalls;
        self.breaks += other.breaks;
    }
}
