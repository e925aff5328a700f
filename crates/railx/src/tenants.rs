//! The topologies of several jobs on one grid, each on rows and columns of its own choice.
//!
//! A job's rings are those of a grid of its rows and columns alone; each position is the node at that
//! one of its columns, or rows: rails skip all nodes between, failed ones and those of other jobs.
//! Checked: nodes that have no job are dark; every job's nodes are joined as in a grid of their own.

use crate::packing::Placed;
use crate::topology::Topology;
use crate::topology::named::Named;
use lightloom_fabric::FabricError;
use lightloom_fabric::railx::{Axis, Grid, Layout};

/// Jobs and the circuits that all of them have together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenants {
    /// The rings of every switch of the whole grid.
    pub layout: Layout,
    /// By job, its topology, as if there were no other nodes.
    pub topologies: Vec<Topology>,
    /// By job, the grid's number of each of its nodes, in the order of its own topology.
    pub nodes: Vec<Vec<u32>>,
}

impl Tenants {
    /// Sets a topology of the same kind for each job.
    ///
    /// ```
    /// use lightloom_fabric::railx::{Axis, Grid};
    /// use lightloom_railx::{Named, Placed, Tenants};
    /// // Node 4, in the middle, has failed: one job has the other rows, another what is left of its row.
    /// let jobs = [
    ///     Placed { rows: vec![0, 2], columns: vec![0, 1, 2] },
    ///     Placed { rows: vec![1], columns: vec![0, 2] },
    /// ];
    /// let set = Tenants::new(Grid::new(1, 2, 6, 3, 3), Named::Torus, &jobs).unwrap();
    /// assert_eq!(set.layout.rings(Axis::X, 1, 0), [[0, 2]]);
    /// assert_eq!(set.layout.rings(Axis::Y, 1, 0), [[0, 2]]);
    /// assert_eq!(set.nodes, [vec![0, 1, 2, 6, 7, 8], vec![3, 5]]);
    /// ```
    ///
    /// # Errors
    /// If a job has no row or column, or one that is not there, or those do not rise; if two jobs have
    /// the same node; if a job's topology cannot be.
    pub fn new(grid: Grid, named: Named, jobs: &[Placed]) -> Result<Self, FabricError> {
        grid.check()?;
        let mut layout = Layout::dark(grid);
        let (mut topologies, mut nodes) = (Vec::new(), Vec::new());
        let mut taken = vec![None; grid.nodes() as usize];
        for (number, job) in jobs.iter().enumerate() {
            check("rows", &job.rows, grid.rows)?;
            check("columns", &job.columns, grid.columns)?;
            let (columns, rows) = (job.columns.len() as u32, job.rows.len() as u32);
            let own = named.build(Grid { columns, rows, ..grid })?;
            let at = job.rows.iter().flat_map(|&y| job.columns.iter().map(move |&x| (x, y)));
            let at: Vec<u32> = at.map(|(x, y)| grid.node(x, y)).collect();
            for &node in &at {
                if let Some(other) = taken[node as usize].replace(number) {
                    let reason = format!("job {other} has this node, and job {number}");
                    return Err(FabricError {
                        key: "node".into(),
                        value: node.to_string(),
                        reason,
                    });
                }
            }
            for (axis, line, rail) in own.layout.places() {
                let (lines, positions) = match axis {
                    Axis::X => (&job.rows, &job.columns),
                    Axis::Y => (&job.columns, &job.rows),
                };
                for ring in own.layout.rings(axis, line, rail) {
                    let ring = ring.iter().map(|&position| positions[position as usize]).collect();
                    layout.add(axis, lines[line as usize], rail, ring);
                }
            }
            topologies.push(own);
            nodes.push(at);
        }
        Ok(Tenants { layout, topologies, nodes })
    }
}

fn check(key: &str, lines: &[u32], most: u32) -> Result<(), FabricError> {
    let rises = lines.windows(2).all(|two| two[0] < two[1]);
    match lines.last() {
        Some(&last) if rises && last < most => Ok(()),
        _ => Err(FabricError {
            key: key.into(),
            value: format!("{lines:?}"),
            reason: format!("must be rising numbers below {most}, one at least"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::Faults;
    use crate::packing::{Wanted, pack};
    use lightloom_fabric::railx::Neighbours;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn every_job_is_joined_as_in_a_grid_of_its_own(
            rows in 1u32..7, columns in 1u32..7, hyperx: bool, jobs in 1usize..4,
            faults in prop::collection::btree_set((0u32..7, 0u32..7), 0..5),
        ) {
            let failed: Vec<_> =
                faults.into_iter().filter(|&(row, column)| row < rows && column < columns).collect();
            let packing = pack(
                &Faults::new(rows, columns, failed.clone()).unwrap(), &vec![Wanted::Largest; jobs],
            );
            let placed: Vec<Placed> = packing.jobs.into_iter().flatten().collect();
            let grid = Grid::new(1, 10, 14, columns, rows);
            let named = if hyperx { Named::HyperX } else { Named::Torus };
            let set = Tenants::new(grid, named, &placed).unwrap();
            prop_assert!(set.layout.check().is_ok());
            let whole = Neighbours::of(&set.layout);
            let mut used = BTreeSet::new();
            for (own, at) in set.topologies.iter().zip(&set.nodes) {
                let alone = Neighbours::of(&own.layout);
                for (node, &there) in (0..).zip(at) {
                    let ends = alone.ends(node).map(|(a, r, p, next)| (a, r, p, at[next as usize]));
                    prop_assert!(ends.eq(whole.ends(there)));
                    prop_assert!(used.insert(there));
                }
            }
            for node in (0..grid.nodes()).filter(|node| !used.contains(node)) {
                prop_assert_eq!(whole.ends(node).count(), 0);
            }
            for (row, column) in failed {
                prop_assert!(!used.contains(&grid.node(column, row)));
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let grid = Grid::new(1, 2, 6, 3, 3);
        let why = |jobs: &[(&[u32], &[u32])], named| {
            let jobs: Vec<_> = jobs
                .iter()
                .map(|(rows, columns)| Placed { rows: rows.to_vec(), columns: columns.to_vec() })
                .collect();
            Tenants::new(grid, named, &jobs).unwrap_err().to_string()
        };
        let all: &[u32] = &[0, 1, 2];
        let torus = Named::Torus;
        assert_eq!(
            why(&[(&[0], all), (all, &[2])], torus),
            "node = 2: job 0 has this node, and job 1"
        );
        for lines in [&[][..], &[3], &[1, 0], &[1, 1]] {
            assert!(why(&[(lines, all)], torus).starts_with("rows = ["));
            assert!(why(&[(all, lines)], torus).starts_with("columns = ["));
        }
        let wide = Grid::new(1, 2, 8, 4, 2);
        let job = Placed { rows: vec![0, 1], columns: vec![0, 1, 2, 3] };
        let message = Tenants::new(wide, Named::HyperX, &[job]).unwrap_err().to_string();
        assert!(message.starts_with("columns = 4: 2 rails join at most 3 nodes"), "{message}");
    }
}
