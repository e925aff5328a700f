//! Rings that join every node to every other: Hamiltonian decompositions of the complete directed
//! graph (RailX, Lemma 3.1).

mod odd;

use thiserror::Error;

/// Why there is no decomposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoDecomposition {
    /// Not found for this number of nodes.
    #[error("{0} nodes cannot be joined all to all by {0} - 1 rings: 4 and 6 are the exceptions")]
    Exception(u32),
    /// There are no rings without nodes.
    #[error("k is 0; rings need at least one node")]
    Empty,
}

/// `k - 1` directed Hamiltonian cycles on the nodes `0..k` that together hold each ordered pair of
/// nodes exactly once.
///
/// # Errors
/// For `k` = 4 and 6 there is none.
pub fn decompose(k: u32) -> Result<Vec<Vec<u32>>, NoDecomposition> {
    match k {
        0 => Err(NoDecomposition::Empty),
        1 => Ok(Vec::new()),
        2 => Ok(vec![vec![0, 1]]),
        k if k % 2 == 1 => Ok(odd::decompose(k)),
        k => Err(NoDecomposition::Exception(k)),
    }
}

/// Checks that `cycles` are `k - 1` Hamiltonian cycles on `0..k` that hold each ordered pair once.
///
/// # Errors
/// What is wrong first.
pub fn verify(k: u32, cycles: &[Vec<u32>]) -> Result<(), String> {
    let nodes = k as usize;
    if cycles.len() + 1 != nodes {
        return Err(format!("{} cycles on {k} nodes; allowed: one less than nodes", cycles.len()));
    }
    let mut held_by = vec![None; nodes * nodes];
    for (number, cycle) in cycles.iter().enumerate() {
        if cycle.len() != nodes {
            return Err(format!("cycle {number} has {} nodes, not {k}", cycle.len()));
        }
        let mut seen = vec![false; nodes];
        for (&from, &to) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
            if from >= k || to >= k {
                return Err(format!(
                    "cycle {number} visits node {}; nodes end at {}",
                    from.max(to),
                    k - 1
                ));
            }
            if std::mem::replace(&mut seen[from as usize], true) {
                return Err(format!("cycle {number} visits node {from} twice"));
            }
            let pair = from as usize * nodes + to as usize;
            if let Some(other) = held_by[pair].replace(number) {
                return Err(format!("cycles {other} and {number} both go from {from} to {to}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_decompositions_hold() {
        for k in (1..=161).step_by(2) {
            verify(k, &decompose(k).expect("odd")).expect("a decomposition");
        }
    }
}
