//! All-reduce on RailX: four algorithms, what they take in closed form, and the sends they are made
//! of (RailX, Sections 4.2 and A.2).
//!
//! Modelled: `nodes` x `nodes` nodes of `mesh` x `mesh` chips; rings in steps, both ways round at
//! once, no step before the last is over everywhere; half of the data along rows first, half along
//! columns. [`all_reduce`] keeps every term: steps less one, and hops inside nodes, of which the
//! paper's last lines ([`printed`]) drop the latter and round the former. Ignored: reduction itself,
//! and that chips which do not wait for one another would hide the long hops of rings behind short
//! ones. A mesh of an odd side has no Hamiltonian cycle: its ring crosses one chip twice, over two
//! links that carry both ways round twice, and so takes twice as long.
//! Checked: against the programs on the flow engine, from the printed lines' distance, and where the
//! hierarchy begins to pay.

mod algorithm;
mod program;

pub use algorithm::Algorithm;
pub use program::{Program, Send, Stage};

use lightloom_units::{BitRate, Bytes, Time};
use serde::{Deserialize, Serialize};

/// What it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// Chips along a side of a node (m).
    pub mesh: u32,
    /// Nodes in a row, and in a column (p).
    pub nodes: u32,
    /// Rails of a chip edge (n).
    pub ports: u32,
    /// Rate of a rail, each way (B) \[bit/s\].
    pub rail_bps: BitRate,
    /// Rate of a mesh link, each way (k n B) \[bit/s\].
    pub inside_bps: BitRate,
    /// A hop from node to node (the paper's alpha) \[ps\].
    pub hop_ps: Time,
    /// A hop inside a node \[ps\].
    pub mesh_hop_ps: Time,
}

/// Seconds and bytes a second, in floating point.
#[derive(Clone, Copy)]
struct Figures {
    m: f64,
    p: f64,
    edge: f64,
    inside: f64,
    hop: f64,
    mesh_hop: f64,
}

/// Equation 6: reduce-scatter, or all-gather, over a ring of `p` both ways round.
fn ring(p: f64, bytes: f64, rate: f64, hop: f64) -> f64 {
    (p - 1.0) * hop + (p - 1.0) / p * bytes / (2.0 * rate)
}

/// Equation 12: the same to all others at once.
fn direct(p: f64, bytes: f64, rate: f64, hop: f64) -> f64 {
    if p > 1.0 { hop + (p - 1.0) / p * bytes / (2.0 * rate) } else { 0.0 }
}

impl Links {
    /// The rate of a chip edge's rails together (n B).
    pub fn edge(&self) -> f64 {
        f64::from(self.ports) * self.rail_bps.bytes_per_ps() * 1e12
    }

    fn figures(&self) -> Figures {
        Figures {
            m: f64::from(self.mesh),
            p: f64::from(self.nodes),
            edge: self.edge(),
            inside: self.inside_bps.bytes_per_ps() * 1e12,
            hop: self.hop_ps.as_secs_f64(),
            mesh_hop: self.mesh_hop_ps.as_secs_f64(),
        }
    }
}

impl Figures {
    /// Reduce-scatter inside a node, and the all-gather that ends it.
    fn local(&self, bytes: f64) -> f64 {
        let (rate, hop) = match self.m % 2.0 == 0.0 {
            true => (self.inside, self.mesh_hop),
            false => (self.inside / 2.0, 2.0 * self.mesh_hop),
        };
        if self.m > 1.0 { 2.0 * ring(self.m * self.m, bytes, rate, hop) } else { 0.0 }
    }
}

/// What an all-reduce of `bytes` a chip takes, all terms kept: equations 6 to 8, 12 and 13, in which
/// the second T_AR is over p nodes, too.
///
/// ```
/// use lightloom_railx::collective::{Algorithm, Links, all_reduce};
/// use lightloom_units::{BitRate, Bytes, Time};
/// // RailX, Section 6.4: 100 GB/s and 300 ns outside, 400 GB/s and 10 ns inside.
/// let links = Links {
///     mesh: 4,
///     nodes: 32,
///     ports: 1,
///     rail_bps: BitRate::from_gbps(800),
///     inside_bps: BitRate::from_gbps(3200),
///     hop_ps: Time::from_ns(300),
///     mesh_hop_ps: Time::from_ns(10),
/// };
/// let time = |algorithm| all_reduce(algorithm, &links, Bytes::new(1_000_000));
/// assert!(time(Algorithm::Hierarchical) < time(Algorithm::Ring2d));
/// assert!(time(Algorithm::Ring2d) < time(Algorithm::Ring1d));
/// ```
pub fn all_reduce(algorithm: Algorithm, links: &Links, bytes: Bytes) -> Time {
    let f = links.figures();
    let Figures { m, p, edge, hop, .. } = f;
    let bytes = bytes.get() as f64;
    let share = bytes / (m * m);
    let seconds = match algorithm {
        Algorithm::Ring1d => 2.0 * ring(m * m * p * p, bytes, 2.0 * edge, hop),
        Algorithm::Ring2d => {
            let rings = ring(m * p, bytes / 2.0, edge, hop);
            2.0 * (rings + ring(m * p, bytes / (2.0 * m * p), edge, hop))
        }
        Algorithm::Hierarchical => {
            let hop = hop + (m - 1.0) * f.mesh_hop;
            let rings = ring(p, share / 2.0, edge / m, hop);
            f.local(bytes) + 2.0 * (rings + ring(p, share / (2.0 * p), edge / m, hop))
        }
        Algorithm::HyperX => {
            // Across the node, and from a corner's row to that of the rail and back.
            let hop = hop + 3.0 * (m - 1.0) * f.mesh_hop;
            let first = direct(p, share / 2.0, edge / m, hop);
            f.local(bytes) + 2.0 * (first + direct(p, share / (2.0 * p), edge / m, hop))
        }
    };
    Time::from_ps((seconds * 1e12).round() as u64)
}

/// The last line of each of the paper's equations, which leaves out small terms: the local hops, and
/// 1 beside p.
///
/// ```
/// # use lightloom_railx::collective::{Algorithm, Links, all_reduce, printed};
/// # use lightloom_units::{BitRate, Bytes, Time};
/// # let links = Links { mesh: 4, nodes: 32, ports: 1, rail_bps: BitRate::from_gbps(800),
/// #     inside_bps: BitRate::from_gbps(3200), hop_ps: Time::from_ns(300),
/// #     mesh_hop_ps: Time::from_ns(10) };
/// // 4 p alpha + (2 / k + 1 / m) V / 2 n B
/// let time = printed(Algorithm::Hierarchical, &links, Bytes::new(1_000_000_000));
/// assert_eq!(time, Time::from_ns(4 * 32 * 300 + 3_750_000));
/// ```
pub fn printed(algorithm: Algorithm, links: &Links, bytes: Bytes) -> Time {
    let Figures { m, p, edge, inside, hop, .. } = links.figures();
    let whole = bytes.get() as f64 / (2.0 * edge);
    let shared = (2.0 * edge / inside + 1.0 / m) * whole;
    let seconds = match algorithm {
        // As equation 7, over all chips, with twice the bandwidth of one ring.
        Algorithm::Ring1d => 2.0 * m * m * p * p * hop + whole,
        Algorithm::Ring2d => 4.0 * m * p * hop + whole,
        Algorithm::Hierarchical => 4.0 * p * hop + shared,
        Algorithm::HyperX => 4.0 * hop + shared,
    };
    Time::from_ps((seconds * 1e12).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Algorithm; 4] =
        [Algorithm::Ring1d, Algorithm::Ring2d, Algorithm::Hierarchical, Algorithm::HyperX];

    fn links(mesh: u32, nodes: u32, k: u64) -> Links {
        Links {
            mesh,
            nodes,
            ports: 1,
            rail_bps: BitRate::from_gbps(800),
            inside_bps: BitRate::from_gbps(800 * k),
            hop_ps: Time::from_ns(300),
            mesh_hop_ps: Time::from_ns(10),
        }
    }

    #[test]
    fn the_printed_lines_are_near_where_what_they_drop_is_small() {
        for algorithm in ALL {
            let (at, big) = (links(4, 64, 4), Bytes::new(100_000_000_000));
            let exact = all_reduce(algorithm, &at, big).as_secs_f64();
            let short = printed(algorithm, &at, big).as_secs_f64();
            // (m^2 - 1) / m^2 of the local part is what is left: 6 % of a share of two thirds.
            assert!((exact / short - 1.0).abs() < 0.05, "{algorithm:?} {exact} {short}");
            assert!(exact <= short, "{algorithm:?}");
        }
    }

    #[test]
    fn the_dropped_hops_inside_nodes_are_as_the_notes_say() {
        // Without bytes: 2 (m^2 - 1) hops in the mesh beside 4 (p - 1) of rails.
        let at = links(4, 9, 4);
        let idle = all_reduce(Algorithm::Hierarchical, &at, Bytes::ZERO);
        assert_eq!(idle, Time::from_ns(2 * 15 * 10 + 4 * 8 * (300 + 3 * 10)));
    }

    #[test]
    fn with_200_gb_a_second_inside_the_hierarchy_loses_at_10_gb() {
        let at = |k| links(4, 64, k);
        let time = |algorithm, k| all_reduce(algorithm, &at(k), Bytes::new(10_000_000_000));
        assert!(time(Algorithm::Hierarchical, 2) > time(Algorithm::Ring2d, 2));
        assert!(time(Algorithm::Hierarchical, 4) < time(Algorithm::Ring2d, 4));
    }

    proptest! {
        #[test]
        fn the_hierarchy_pays_from_its_threshold_on(mesh in 2u32..9, k in 1u64..12) {
            let at = Links { hop_ps: Time::ZERO, ..links(mesh, 16, k) };
            let bytes = Bytes::new(1 << 40);
            let [near, far] =
                [Algorithm::Hierarchical, Algorithm::Ring2d].map(|a| printed(a, &at, bytes));
            // 2 m / (m - 1), not 2 as the paper has it.
            let threshold = 2.0 * f64::from(mesh) / (f64::from(mesh) - 1.0);
            if (k as f64 - threshold).abs() > 1e-9 {
                prop_assert_eq!(near < far, k as f64 > threshold);
            }
        }

        #[test]
        fn more_bytes_and_more_nodes_never_take_less(
            mesh in 1u32..6, nodes in 1u32..20, k in 1u64..6, bytes in 0u64..1 << 40, more in 1u64..1 << 30,
        ) {
            for algorithm in ALL {
                let time = |nodes, bytes| {
                    all_reduce(algorithm, &links(mesh, nodes, k), Bytes::new(bytes))
                };
                prop_assert!(time(nodes, bytes) <= time(nodes, bytes + more));
                prop_assert!(time(nodes, bytes) <= time(nodes + 1, bytes));
            }
        }
    }
}
