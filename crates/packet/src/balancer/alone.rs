//! A balancer without the packet engine, for who moves real bytes: it asks where each piece goes, and says what
//! came of it. What the pieces and the paths are is the caller's matter.

use super::plug::{Heard, Next};
use super::{AnyBalancer, BalancerSpec};

/// One sub-flow's balancer.
///
/// ```
/// use lightloom_packet::{BalancerSpec, LoneBalancer, Next};
/// let spec: BalancerSpec = serde_json::from_str(r#"{"kind": "round-robin"}"#)?;
/// let mut balancer = LoneBalancer::new(&spec, 3, 1);
/// let next = Next { turn: 1, in_flight: 0, now: 0 };
/// assert_eq!([(); 4].map(|()| balancer.path(next)), [1, 2, 0, 1]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LoneBalancer(AnyBalancer);

impl LoneBalancer {
    /// See [`super::plug::Balancer::new`].
    pub fn new(spec: &BalancerSpec, paths: u16, hash: u64) -> Self {
        LoneBalancer(AnyBalancer::new(spec, paths, hash))
    }

    /// One that has a single path.
    pub fn single() -> Self {
        LoneBalancer::new(&BalancerSpec::Ecmp(super::ecmp::Settings {}), 1, 0)
    }

    /// See [`super::plug::Balancer::path`].
    pub fn path(&mut self, next: Next) -> u16 {
        self.0.path(next)
    }

    /// See [`super::plug::Balancer::acked`].
    pub fn acked(&mut self, heard: Heard) {
        self.0.acked(heard);
    }

    /// See [`super::plug::Balancer::round_trip`].
    pub fn round_trip(&self) -> Option<u64> {
        self.0.round_trip()
    }
}
