//! The largest single job on a grid with failed nodes (RailX, Section 6.6 and Algorithm 2).
//!
//! A job is a product: some rows times some columns, as rails are circuits and skip what is dropped.
//! Every failed node needs its row or its column dropped. Modelled: failed nodes. Ignored: failed
//! rails and switches, which cost bandwidth before they cost nodes.
//! [`algorithm_2`] is the paper's, exhaustive over the faults that share a row or a column.
//! [`largest`] gives the same by [`Covers`], one connected group of faults at a time, so that it
//! stays exact with hundreds of faults as long as they are sparse; a dense group it only bounds.
//! Checked: the one against the other and against all subsets of rows, on random faults.

mod covers;

pub use covers::Covers;

use serde::Serialize;
use std::collections::BTreeSet;
use thiserror::Error;

/// Algorithm 2 tries 2^this cases at most.
pub const MOST_CLUSTERED: usize = 20;
/// A grid has at most so many rows, and as many columns.
pub const MOST_LINES: u32 = 4096;

/// Failed nodes that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadFaults {
    /// No grid is that large, or that small.
    #[error("{key} = {value}: must be from 1 to {MOST_LINES}")]
    Grid {
        /// `rows` or `columns`.
        key: &'static str,
        /// The number that was given.
        value: u32,
    },
    /// A fault where there is no node.
    #[error(
        "fault {at}: row {row}, column {column} is outside the grid of {rows} rows and {columns} columns, counted from 0"
    )]
    Outside {
        /// Which one, counted from 0.
        at: usize,
        /// Row of the node, from 0.
        row: u32,
        /// Column of the node, from 0.
        column: u32,
        /// Of the grid.
        rows: u32,
        /// Of the grid.
        columns: u32,
    },
    /// A node twice.
    #[error("fault {at}: row {row}, column {column} was there before")]
    Twice {
        /// Which one, counted from 0.
        at: usize,
        /// Row of the node, from 0.
        row: u32,
        /// Column of the node, from 0.
        column: u32,
    },
}

/// A grid of nodes, some of which have failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    rows: u32,
    columns: u32,
    at: Vec<(u32, u32)>,
}

impl Faults {
    /// Faults as (row, column), counted from 0.
    ///
    /// # Errors
    /// If the grid is empty or too large, or a fault is outside it or there twice.
    pub fn new(rows: u32, columns: u32, at: Vec<(u32, u32)>) -> Result<Self, BadFaults> {
        for (key, value) in [("rows", rows), ("columns", columns)] {
            if !(1..=MOST_LINES).contains(&value) {
                return Err(BadFaults::Grid { key, value });
            }
        }
        let mut seen = BTreeSet::new();
        for (index, &(row, column)) in at.iter().enumerate() {
            if row >= rows || column >= columns {
                return Err(BadFaults::Outside { at: index, row, column, rows, columns });
            }
            if !seen.insert((row, column)) {
                return Err(BadFaults::Twice { at: index, row, column });
            }
        }
        Ok(Faults { rows, columns, at })
    }
    /// Rows of the grid.
    pub fn rows(&self) -> u32 {
        self.rows
    }
    /// Columns of the grid.
    pub fn columns(&self) -> u32 {
        self.columns
    }
    /// The failed nodes, as (row, column).
    pub fn at(&self) -> &[(u32, u32)] {
        &self.at
    }
    /// Nodes that work.
    pub fn healthy(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns) - self.at.len() as u64
    }
    /// The faults that share a row or a column with another, and the number of the others.
    pub fn clustered(&self) -> (Vec<(u32, u32)>, u32) {
        let (mut in_row, mut in_column) =
            (vec![0_u32; self.rows as usize], vec![0_u32; self.columns as usize]);
        for &(row, column) in &self.at {
            in_row[row as usize] += 1;
            in_column[column as usize] += 1;
        }
        let alone = |&(row, column): &(u32, u32)| {
            in_row[row as usize] == 1 && in_column[column as usize] == 1
        };
        let (isolated, clustered): (Vec<_>, Vec<_>) = self.at.iter().partition(|&at| alone(at));
        (clustered, isolated.len() as u32)
    }
}

/// What one job gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Allocation {
    /// Rows that it does without, rising.
    pub dropped_rows: Vec<u32>,
    /// Columns that it does without, rising.
    pub dropped_columns: Vec<u32>,
    /// Nodes it has: rows kept times columns kept.
    pub nodes: u64,
    /// No job has more.
    pub bound: u64,
}

/// The largest job. It is the optimum where `nodes == bound`; always, unless more than
/// [`Covers::MOST_LINES`] rows and as many columns hang together by faults.
///
/// ```
/// use lightloom_railx::{Faults, largest};
/// // RailX, Section 6.6: faults apart cost (R/2 - a) x (R/2 - a), in a line one row
/// let apart = Faults::new(64, 64, (0..4).map(|i| (i, i)).collect()).unwrap();
/// assert_eq!(largest(&apart).nodes, 62 * 62);
/// let aligned = Faults::new(64, 64, (0..4).map(|i| (9, i)).collect()).unwrap();
/// assert_eq!(largest(&aligned).dropped_rows, [9]);
/// ```
pub fn largest(faults: &Faults) -> Allocation {
    let covers = Covers::new(&faults.at);
    let nodes = |rows: u32, columns: u32| {
        let kept = |all: u32, dropped: u32| u64::from(all.saturating_sub(dropped));
        kept(faults.rows, rows) * kept(faults.columns, columns)
    };
    let options = 0..covers.least().len() as u32;
    // On a tie, as many rows dropped as columns, or the fewer rows.
    let best = options
        .clone()
        .max_by_key(|&rows| {
            let columns = covers.least()[rows as usize];
            (nodes(rows, columns), std::cmp::Reverse((rows.abs_diff(columns), rows)))
        })
        .expect("to drop no row is an option");
    let (dropped_rows, dropped_columns) = covers.cover(best);
    let nodes_kept = nodes(dropped_rows.len() as u32, dropped_columns.len() as u32);
    let bound = options.map(|rows| nodes(rows, covers.floor()[rows as usize])).max();
    let bound = bound.unwrap_or(nodes_kept).max(nodes_kept);
    Allocation { dropped_rows, dropped_columns, nodes: nodes_kept, bound }
}

/// The paper's Algorithm 2, its line 12 read as: so many rows r' and columns c' as there are isolated
/// faults, r' + c' = |I|, both at least 0. `None` beyond [`MOST_CLUSTERED`] clustered faults.
///
/// ```
/// use lightloom_railx::{Faults, algorithm_2};
/// let faults = Faults::new(8, 8, vec![(0, 0), (0, 1), (3, 5)]).unwrap();
/// assert_eq!(algorithm_2(&faults), Some(7 * 7)); // row 0 and a line of the lone fault
/// ```
pub fn algorithm_2(faults: &Faults) -> Option<u64> {
    let (clustered, isolated) = faults.clustered();
    if clustered.len() > MOST_CLUSTERED {
        return None;
    }
    let size = |rows: usize, columns: usize| {
        let kept = |all: u32, dropped: u32| u64::from(all.saturating_sub(dropped));
        (0..=isolated)
            .map(|more| {
                kept(faults.rows, rows as u32 + more)
                    * kept(faults.columns, columns as u32 + isolated - more)
            })
            .max()
            .unwrap_or(0)
    };
    let cases = 0_u32..1 << clustered.len();
    cases
        .map(|case| {
            let mut dropped = [BTreeSet::new(), BTreeSet::new()];
            for (index, &(row, column)) in clustered.iter().enumerate() {
                let by_row = case >> index & 1 == 1;
                dropped[usize::from(by_row)].insert(if by_row { row } else { column });
            }
            size(dropped[1].len(), dropped[0].len())
        })
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grids() -> impl Strategy<Value = Faults> {
        (1_u32..9, 1_u32..9).prop_flat_map(|(rows, columns)| {
            let all: Vec<(u32, u32)> =
                (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))).collect();
            let most = all.len().min(12);
            prop::sample::subsequence(all, 0..=most)
                .prop_map(move |at| Faults::new(rows, columns, at).unwrap())
        })
    }

    /// Every set of rows kept, and all columns that have no fault in them.
    fn brute(faults: &Faults) -> u64 {
        (0_u32..1 << faults.rows)
            .map(|kept| {
                let bad: BTreeSet<u32> = faults
                    .at
                    .iter()
                    .filter(|&&(row, _)| kept >> row & 1 == 1)
                    .map(|&(_, column)| column)
                    .collect();
                u64::from(kept.count_ones()) * (u64::from(faults.columns) - bad.len() as u64)
            })
            .max()
            .unwrap()
    }

    proptest! {
        #[test]
        fn both_ways_find_the_optimum(faults in grids()) {
            let best = brute(&faults);
            prop_assert_eq!(algorithm_2(&faults), Some(best));
            let found = largest(&faults);
            prop_assert_eq!((found.nodes, found.bound), (best, best));
            let kept = |lines: u32, dropped: &[u32]| u64::from(lines) - dropped.len() as u64;
            let nodes =
                kept(faults.rows, &found.dropped_rows) * kept(faults.columns, &found.dropped_columns);
            prop_assert_eq!(nodes, best);
            for (row, column) in &faults.at {
                let avoided =
                    found.dropped_rows.contains(row) || found.dropped_columns.contains(column);
                prop_assert!(avoided);
            }
        }
    }

    #[test]
    fn isolated_faults_cost_rows_and_columns_alike() {
        for count in 0..40 {
            let faults = Faults::new(64, 64, (0..count).map(|i| (i, 63 - i)).collect()).unwrap();
            let closed = u64::from(64 - count.div_ceil(2)) * u64::from(64 - count / 2);
            assert_eq!(largest(&faults).nodes, closed);
            assert_eq!(algorithm_2(&faults), Some(closed));
        }
    }

    #[test]
    fn a_grid_without_a_healthy_node_holds_no_job() {
        let all = (0..3).flat_map(|r| (0..2).map(move |c| (r, c))).collect();
        let faults = Faults::new(3, 2, all).unwrap();
        assert_eq!((largest(&faults).nodes, algorithm_2(&faults)), (0, Some(0)));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let message = |rows, columns, at| Faults::new(rows, columns, at).unwrap_err().to_string();
        assert_eq!(message(0, 4, vec![]), "rows = 0: must be from 1 to 4096");
        assert_eq!(
            message(4, 5, vec![(0, 0), (4, 0)]),
            "fault 1: row 4, column 0 is outside the grid of 4 rows and 5 columns, counted from 0"
        );
        assert_eq!(
            message(4, 4, vec![(1, 2), (1, 2)]),
            "fault 1: row 1, column 2 was there before"
        );
        let clustered = (0..21).map(|i| (i, 0)).collect();
        assert_eq!(algorithm_2(&Faults::new(64, 64, clustered).unwrap()), None);
    }
}
