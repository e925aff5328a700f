//! Load balancers: one a file, each the choice of one sub-flow among equal ways, as a pure state
//! machine. RailS, which chooses rails before anything is sent, is a decision of its own
//! (`lightloom_rails`).

mod ecmp;
mod min_rtt;
mod plb;
mod reps;
mod round_robin;

use crate::BalancerSpec;

/// What chooses a way for each packet.
#[derive(Clone, Debug)]
pub(crate) enum Balancer {
    Ecmp(ecmp::Ecmp),
    Plb(plb::Plb),
    Reps(reps::Reps),
    MinRtt(min_rtt::MinRtt),
    RoundRobin(round_robin::RoundRobin),
}

impl Balancer {
    /// For a sub-flow with so many equal ways; `hash` is its own.
    pub fn new(spec: &BalancerSpec, ways: u16, hash: u64) -> Self {
        match *spec {
            BalancerSpec::Ecmp {} => Balancer::Ecmp(ecmp::Ecmp::new(ways, hash)),
            BalancerSpec::Plb { marked_share, rounds, rounds_busy } => {
                Balancer::Plb(plb::Plb::new(ways, hash, marked_share, rounds, rounds_busy))
            }
            BalancerSpec::Reps { paths } => Balancer::Reps(reps::Reps::new(ways, hash, paths)),
            BalancerSpec::MinRtt {} => Balancer::MinRtt(min_rtt::MinRtt::new(ways, hash)),
            BalancerSpec::RoundRobin {} | BalancerSpec::Rails { .. } => {
                Balancer::RoundRobin(round_robin::RoundRobin::new(ways))
            }
        }
    }

    /// The way of the next packet; `turn` counts the packets of all flows of its NIC, from a start of
    /// the NIC's own.
    #[inline]
    pub fn way(&mut self, turn: u32, under_way: u32) -> u16 {
        match self {
            Balancer::Ecmp(b) => b.way(),
            Balancer::Plb(b) => b.way(under_way),
            Balancer::Reps(b) => b.way(turn),
            Balancer::MinRtt(b) => b.way(),
            Balancer::RoundRobin(b) => b.way(turn),
        }
    }

    /// An acknowledgement of a packet that took `way`.
    #[inline]
    pub fn acked(&mut self, way: u16, marked: bool, round_trip: u64, now: u64) {
        match self {
            Balancer::Plb(b) => b.acked(marked, round_trip, now),
            Balancer::Reps(b) => b.acked(way, marked),
            Balancer::MinRtt(b) => b.acked(round_trip),
            Balancer::Ecmp(_) | Balancer::RoundRobin(_) => {}
        }
    }

    /// The smoothed round trip, if this balancer compares sub-flows by it \[ps\].
    #[inline]
    pub fn round_trip(&self) -> Option<u64> {
        match self {
            Balancer::MinRtt(b) => Some(b.smoothed()),
            _ => None,
        }
    }
}

/// SplitMix64's finaliser (Steele et al., OOPSLA 2014).
pub(crate) fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// One of `0..n`, by a hash.
pub(crate) fn pick(hash: u64, n: u16) -> u16 {
    ((u128::from(mix(hash)) * u128::from(n)) >> 64) as u16
}
