//! What will happen in a scenario.

use lightloom_control::Use;

/// What will happen.
#[derive(Clone, Debug)]
pub enum Event {
    Arrive { node: usize },
    Accept { wire: usize },
    Closed { wire: usize, end: usize },
    Join { node: usize, group: usize, member: usize },
    Post { node: usize, group: usize, member: usize },
    Told { node: usize, life: u64, told: Use },
    Drain { node: usize, life: u64, token: u64, ports: Vec<u16> },
    PlanCircuits,
    PlanGoesOn,
    Renew { node: usize },
    Strike(usize),
    Thaw { node: usize, life: u64 },
    Joined { pair: (usize, usize) },
    Landed { node: usize },
    Crash { node: usize, life: u64 },
    Start { node: usize },
    Form,
    Calm,
    LastGroup,
}
