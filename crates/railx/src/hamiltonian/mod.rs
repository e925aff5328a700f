//! Rings that join every two nodes: decompositions of the complete directed graph into Hamiltonian
//! cycles (RailX, Lemma 3.1).
//!
//! Order matters: cycle `r` becomes the ring of rail `r`, and rails next to each other leave a node
//! by the same chips. The two links of a pair of nodes are on rails `2 i` and `2 i + 1`, for all
//! pairs if `k` is odd, for all but at most `2 k - 3` pairs if it is even.
//!
//! Checked: every `k` to 160 with each test, to 1024 by `lightloom railx decompose --verify`; that 4
//! and 6 have none, and that what replaces them is best, by trying everything.

mod even;
mod odd;

use thiserror::Error;

/// The most nodes that are decomposed: half the ports of a switch, and of ours none has 2,048.
pub const MOST_NODES: u32 = 1024;

/// Why there is no decomposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoDecomposition {
    /// None exists: 4 and 6.
    #[error("{}", exception(*.0))]
    Exception(u32),
    /// Not tried, or not found.
    #[error("{0} nodes have no known decomposition; allowed: 1 to {MOST_NODES}, but for 4 and 6")]
    Unknown(u32),
}

fn exception(k: u32) -> String {
    let rings: Vec<String> = substitute(k).iter().flatten().map(|ring| written(ring)).collect();
    let (fewer, more) = (k - 1, k + 1);
    format!(
        "{k} nodes cannot be joined all to all by {fewer} rings (so it is for 4 and 6 alone); \
         allowed: {fewer} nodes on {} rails, {more} on {k}, or {k} on these {fewer} rings, where \
         each pair has two links, but three pairs have both from the + port of the same node: {}",
        k - 2,
        rings.join("; ")
    )
}

fn written(ring: &[u32]) -> String {
    let nodes: Vec<String> = ring.iter().map(u32::to_string).collect();
    nodes.join(" ")
}

/// `k - 1` directed Hamiltonian cycles on the nodes `0..k` that together have each ordered pair of
/// nodes exactly once; the last node of a cycle is followed by its first.
///
/// Odd `k`: Walecki's construction (RailX, Section A.1). Even `k`: a node more is worked into it. A
/// `k` always gives the same cycles.
///
/// # Errors
/// There is none for 4 and 6, and none is known beyond [`MOST_NODES`].
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
        4 | 6 => Err(NoDecomposition::Exception(k)),
        0 => Err(NoDecomposition::Unknown(k)),
        1 => Ok(Vec::new()),
        2 => Ok(vec![vec![0, 1]]),
        _ if k > MOST_NODES => Err(NoDecomposition::Unknown(k)),
        _ if k % 2 == 1 => Ok(odd::decompose(k)),
        _ => even::decompose(k).ok_or(NoDecomposition::Unknown(k)),
    }
}

/// The best rings for the numbers of nodes that have no decomposition, 4 and 6: `k - 1` that make
/// every two nodes neighbours exactly twice. Three pairs have both links from the + port of the same
/// node; no choice of rings has fewer.
///
/// ```
/// use lightloom_railx::substitute;
/// assert_eq!(substitute(4).unwrap()[0], [0, 1, 2, 3]);
/// assert_eq!(substitute(5), None);
/// ```
pub fn substitute(k: u32) -> Option<Vec<Vec<u32>>> {
    let rings: &[&[u32]] = match k {
        4 => &[&[0, 1, 2, 3], &[0, 1, 3, 2], &[0, 2, 1, 3]],
        6 => &[
            &[0, 1, 2, 3, 4, 5],
            &[0, 1, 3, 5, 2, 4],
            &[0, 2, 1, 5, 4, 3],
            &[0, 3, 1, 4, 2, 5],
            &[0, 4, 1, 5, 3, 2],
        ],
        _ => return None,
    };
    Some(rings.iter().map(|ring| ring.to_vec()).collect())
}

/// Checks that `cycles` are `k - 1` Hamiltonian cycles on `0..k` that have each ordered pair once.
/// It knows nothing of how they were made.
///
/// # Errors
/// What is wrong, the first of it.
pub fn verify(k: u32, cycles: &[Vec<u32>]) -> Result<(), String> {
    let nodes = k as usize;
    if cycles.len() + 1 != nodes {
        return Err(format!("{} cycles for {k} nodes; allowed: one less than nodes", cycles.len()));
    }
    let mut owner = vec![None; nodes * nodes];
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
            if let Some(other) = owner[pair].replace(number) {
                return Err(format!("cycles {other} and {number} both go from {from} to {to}"));
            }
        }
    }
    // As many different pairs as there are: k - 1 cycles of k arcs between k nodes.
    Ok(())
}

#[cfg(test)]
mod tests;
