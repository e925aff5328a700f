//! Rings that join every two nodes: decompositions of the complete directed graph into Hamiltonian
//! cycles (RailX, Lemma 3.1).
//!
//! Order matters: cycle `r` becomes the ring of rail `r`, and rails next to each other leave a node
//! by the same chips. The two links of a pair of nodes are on rails `2 i` and `2 i + 1`, for all
//! pairs if `k` is odd, for all but at most `2 k - 3` pairs if it is even.
//!
//! 4 and 6 have no such cycles (Tillson); twice as many have each ordered pair twice.
//!
//! Checked: every `k` to 160 with each test, to 1024 by `lightloom railx decompose --verify`; that for
//! 4 and 6 no fewer rings do, by trying everything.

mod even;
mod odd;

use thiserror::Error;

/// The most nodes that are decomposed: half the ports of a switch, and of ours none has 2,048.
pub const MOST_NODES: u32 = 1024;

/// So many nodes have no known decomposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} nodes have no known decomposition; allowed: 1 to {MOST_NODES}")]
pub struct NoDecomposition(pub u32);

/// Directed Hamiltonian cycles on the nodes `0..k`, [`rings_of`] them, that together have each ordered
/// pair of nodes exactly once, or for 4 and 6 twice; the last node of a cycle is followed by its first.
///
/// Odd `k`: Walecki's construction (RailX, Section A.1). Even `k`: a node more is worked into it. A
/// `k` always gives the same cycles.
///
/// # Errors
/// None is known beyond [`MOST_NODES`].
///
/// ```
/// use lightloom_railx::{decompose, verify};
/// let rings = decompose(5)?;
/// assert_eq!(rings[0], [4, 0, 3, 1, 2]);
/// assert_eq!(rings[1], [4, 2, 1, 3, 0], "the same ring the other way round");
/// assert_eq!(verify(5, &rings), Ok(()));
/// # Ok::<(), lightloom_railx::NoDecomposition>(())
/// ```
pub fn decompose(k: u32) -> Result<Vec<Vec<u32>>, NoDecomposition> {
    match k {
        1 => Ok(Vec::new()),
        2 => Ok(vec![vec![0, 1]]),
        4 => Ok(both_ways(&[[0, 1, 2, 3], [0, 1, 3, 2], [0, 2, 1, 3]])),
        6 => Ok(both_ways(&[
            [0, 1, 2, 3, 4, 5],
            [0, 1, 3, 5, 2, 4],
            [0, 2, 1, 5, 4, 3],
            [0, 3, 1, 4, 2, 5],
            [0, 4, 1, 5, 3, 2],
        ])),
        3..=MOST_NODES if k % 2 == 1 => Ok(odd::decompose(k)),
        3..=MOST_NODES => even::decompose(k).ok_or(NoDecomposition(k)),
        _ => Err(NoDecomposition(k)),
    }
}

/// Every ring and its reverse, next to each other.
fn both_ways<const K: usize>(rings: &[[u32; K]]) -> Vec<Vec<u32>> {
    let back = |ring: &[u32; K]| ring.iter().rev().copied().collect();
    rings.iter().flat_map(|ring| [ring.to_vec(), back(ring)]).collect()
}

/// How many rings join `k` nodes all to all, each pair equally often: `k - 1`, or twice that for 4 and
/// 6.
///
/// ```
/// use lightloom_railx::rings_of;
/// assert_eq!([1, 2, 3, 4, 5, 6, 7].map(rings_of), [0, 1, 2, 6, 4, 10, 6]);
/// ```
pub fn rings_of(k: u32) -> u32 {
    let fold = if matches!(k, 4 | 6) { 2 } else { 1 };
    fold * k.saturating_sub(1)
}

/// Whether so many rails join so many nodes all to all.
pub fn joins_all(nodes: u32, rails: u32) -> bool {
    (1..=MOST_NODES).contains(&nodes) && rings_of(nodes) <= rails
}

/// Checks that `cycles` are [`rings_of`] Hamiltonian cycles on `0..k` that have each ordered pair
/// equally often. It knows nothing of how they were made.
///
/// # Errors
/// What is wrong, the first of it.
pub fn verify(k: u32, cycles: &[Vec<u32>]) -> Result<(), String> {
    let (nodes, count) = (k as usize, rings_of(k) as usize);
    if cycles.len() != count {
        return Err(format!("{} cycles for {k} nodes; allowed: {count}", cycles.len()));
    }
    let fold = count / nodes.saturating_sub(1).max(1);
    // By pair: how often it was seen, and in which cycle last.
    let mut owner = vec![(0, 0); nodes * nodes];
    for (number, cycle) in cycles.iter().enumerate() {
        if cycle.len() != nodes {
            return Err(format!("cycle {number} has {} nodes, not {k}", cycle.len()));
        }
        if let Some(node) = cycle.iter().find(|&&node| node >= k) {
            return Err(format!("cycle {number} has node {node}; the last is {}", k - 1));
        }
        let mut seen = vec![false; nodes];
        for (&from, &to) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
            if std::mem::replace(&mut seen[from as usize], true) {
                return Err(format!("cycle {number} has node {from} twice"));
            }
            let pair = from as usize * nodes + to as usize;
            let (times, other) = owner[pair];
            if times == fold {
                return Err(format!("cycles {other} and {number} both go from {from} to {to}"));
            }
            owner[pair] = (times + 1, number);
        }
    }
    // As many pairs as there are places: `count` cycles of k arcs between k nodes.
    Ok(())
}

#[cfg(test)]
mod tests;
