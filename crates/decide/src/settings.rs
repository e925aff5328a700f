//! How circuits are chosen, and why there may be none.

use crate::dark::Dark;
use crate::question::Ahead;
use crate::rule::{Rule, Timed};
use lightloom_circuits::Rates;
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use std::sync::Arc;
use thiserror::Error;

/// How circuits are chosen, and for what hardware. The preset of fabric `mixnet` holds what people run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// By which rule.
    pub rule: Arc<dyn Rule>,
    /// Whether a change must pay for the dark time that no computation hides.
    pub hysteresis: bool,
    /// Whether Algorithm 1 goes on past the first pair of servers without a free port.
    pub keep_going: bool,
    /// What a server's NICs carry, all of it.
    pub rates: Rates,
    /// How long ports are dark.
    pub dark: Dark,
    /// What lies ahead of a region whose servers do not say.
    pub ahead: Ahead,
}

impl Default for Settings {
    /// By time and with hysteresis; eight NICs of 400 Gbps, six of them optical, on a switch of 25 ms.
    fn default() -> Self {
        let rate = 400_000_000_000;
        Settings {
            rule: Arc::new(Timed),
            hysteresis: true,
            keep_going: true,
            rates: Rates { optical_bps: rate, packet_bps: rate, packet_nics: 2, share_eps: false },
            dark: Dark {
                switch: ReconfigurationDelay::Fixed { ps: Time::from_ms(25) },
                activation: Time::ZERO,
            },
            ahead: Ahead::default(),
        }
    }
}

/// Why there are no circuits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The rule has no answer, or none that fits the ports.
    #[error("decision \"{0}\": {1}")]
    Rule(String, String),
    /// A server has no packet NIC left, and no port for a circuit.
    #[error("server {0} is cut off: it has no NIC on packet switches, and no circuit")]
    CutOff(usize),
}
