//! What a lane or a NIC has carried, and how long drains took.

use lightloom_units::Time;
use serde::Serialize;
use std::collections::BTreeMap;
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
    /// Frames that were begun here: chunks, acknowledgements and all else but hellos.
    pub frames_sent: u64,
    /// Frames that came as a whole, but for hellos.
    pub frames_received: u64,
    /// All bytes that connections took from here: payload, headers and hellos; without those of TCP and below \[B\].
    pub stream_bytes_sent: u64,
    /// All bytes that connections of peers gave \[B\].
    pub stream_bytes_received: u64,
    /// Chunks that came and were not needed: doubled, or late.
    pub doubled: u64,
    /// Chunks that were kept, and that lie before another one of the same operation and peer that came sooner.
    pub out_of_order: u64,
    /// Chunks that a broken connection may have lost, and that were queued again.
    pub resent: u64,
    /// Chunks that took another lane than their plan said.
    pub detours: u64,
    /// Bytes of connections that go by a relay, sent over this lane by one of their ends or by the relay \[B\].
    pub relayed: u64,
    /// Connections that were closed since nothing was acknowledged.
    pub stalls: u64,
    /// For how long nothing was acknowledged before they were closed, in all \[ps\].
    pub stalled_ps: u64,
    /// Connections that were closed or broke.
    pub breaks: u64,
}

impl AddAssign for Statistics {
    fn add_assign(&mut self, other: Statistics) {
        self.chunks_sent += other.chunks_sent;
        self.bytes_sent += other.bytes_sent;
        self.chunks_received += other.chunks_received;
        self.bytes_received += other.bytes_received;
        self.frames_sent += other.frames_sent;
        self.frames_received += other.frames_received;
        self.stream_bytes_sent += other.stream_bytes_sent;
        self.stream_bytes_received += other.stream_bytes_received;
        self.doubled += other.doubled;
        self.out_of_order += other.out_of_order;
        self.resent += other.resent;
        self.detours += other.detours;
        self.relayed += other.relayed;
        self.stalls += other.stalls;
        self.stalled_ps += other.stalled_ps;
        self.breaks += other.breaks;
    }
}

/// Drains that the agent has asked for, since the endpoint began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FenceStatistics {
    /// Drains that were said to be done.
    pub fences: u64,
    /// From being asked until that was said, in all \[ps\].
    pub waited_ps: u64,
    /// The longest of them \[ps\].
    pub longest_ps: u64,
}

/// Drains under way, and what is known of those that are done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    asked: BTreeMap<u64, Time>,
    pub over: FenceStatistics,
}

impl Fences {
    /// The agent wants ports drained.
    pub fn ask(&mut self, token: u64, now: Time) {
        self.asked.insert(token, now);
    }

    /// They are.
    pub fn end(&mut self, token: u64, now: Time) {
        let Some(asked) = self.asked.remove(&token) else { return };
        let waited = now.saturating_sub(asked).ps();
        self.over.fences += 1;
        self.over.waited_ps = self.over.waited_ps.saturating_add(waited);
        self.over.longest_ps = self.over.longest_ps.max(waited);
    }

    /// Nobody waits for those under way any more.
    pub fn forget(&mut self) {
        self.asked.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_counts_once_it_is_done_and_only_if_it_was_asked_for() {
        let ms = Time::from_ms;
        let mut fences = Fences::default();
        fences.ask(7, ms(10));
        fences.ask(8, ms(12));
        assert_eq!(fences.over, FenceStatistics::default());
        fences.end(8, ms(13));
        fences.end(7, ms(15));
        fences.end(7, ms(90));
        fences.ask(9, ms(20));
        fences.forget();
        fences.end(9, ms(30));
        let (waited_ps, longest_ps) = (ms(6).ps(), ms(5).ps());
        assert_eq!(fences.over, FenceStatistics { fences: 2, waited_ps, longest_ps });
    }
}
