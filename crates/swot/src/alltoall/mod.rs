//! A non-uniform all-to-all on optical planes, without barriers: MoE's dispatch and combine.
//!
//! What each node has for each other node is known, uneven, and needs no step to end before another
//! begins. A circuit from a transmitter to a receiver of one plane holds both ports while it is set
//! (dark) and while it carries. Entries may be split: over planes, and in time. Two ways to switch:
//! [`ports`] sets single ports while the others of the plane carry on; [`matchings`] switches a plane
//! as a whole. [`plan`] takes the shorter. [`Ports`] books one all-to-all after the other, quickly, on
//! ports in any state: what a training iteration needs.
//!
//! Modelled: the reconfiguration time at both ports of a new circuit, none for a circuit that stands;
//! the latency of each transmission, during which its ports are taken. Ignored: multi-hop paths, and
//! limits of how many ports a switch can set at a time.
//! Source: SWOT, Section 6, names non-uniform traffic as future work; the methods here are list
//! scheduling of an open shop with set-ups and decomposition into matchings (Birkhoff; Inukai 1979).
//! Checked: bytes conserved and ports serial on random demands, the optimum of tiny ones by trying
//! every order, and the plan's own check.

mod booking;
mod bound;
mod demand;
mod hand_over;
mod hold;
mod matchings;
mod ports;
#[cfg(test)]
mod tests;

pub use booking::{Entry, Ports};
pub use bound::{bound, whole_bound};
pub use demand::{Demand, DemandError};
pub use hand_over::hand_over;
pub use hold::{Hold, completion};
pub use matchings::matchings;
pub use ports::ports;

use super::plan::{NO_PORT, Plan, Reconfiguration, Transmission};
use crate::problem::Planes;

/// The two tracks of these circuits, on planes that begin dark.
pub fn plan(planes: &Planes, demand: &Demand, holds: &[Hold]) -> Plan {
    let mut reconfigurations: Vec<Reconfiguration> = Vec::new();
    let mut order: Vec<&Hold> = holds.iter().collect();
    order.sort_by_key(|h| (h.dark_ps, h.plane, h.from, h.to));
    for hold in order.iter().filter(|hold| hold.set) {
        let circuit = (hold.from, hold.to);
        match reconfigurations.last_mut() {
            Some(last) if (last.plane, last.start_ps) == (hold.plane, hold.dark_ps) => {
                last.circuits.push(circuit);
            }
            _ => reconfigurations.push(Reconfiguration {
                plane: hold.plane,
                start_ps: hold.dark_ps,
                ready_ps: hold.start_ps,
                circuits: vec![circuit],
            }),
        }
    }
    order.sort_by_key(|h| (h.start_ps, h.plane, h.from, h.to));
    let transmissions = order.iter().map(|hold| Transmission {
        node: hold.from,
        peer: hold.to,
        plane: hold.plane,
        bytes: hold.bytes,
        start_ps: hold.start_ps,
        end_ps: hold.end_ps,
        step: 0,
        after_step: None,
    });
    Plan {
        nodes: demand.nodes(),
        planes: planes.planes,
        grid: Vec::new(),
        rate_bps: planes.rate_bps,
        latency_ps: planes.latency_ps,
        reconfiguration_ps: planes.reconfiguration_ps,
        initial: vec![vec![NO_PORT; demand.nodes() as usize]; planes.planes as usize],
        transmissions: transmissions.collect(),
        reconfigurations,
        completion_ps: completion(holds),
        bound_ps: bound(planes, demand),
    }
}
