//! Which topology of a hall serves a job best, by the links that its traffic loads.
//!
//! Modelled: every kind of traffic of an iteration by itself, all of it at once, over the routes that
//! packets take; its time is that of the most loaded link, a job's the sum over its kinds (the objective
//! of [`place`](crate::placement::place), Section 3.3.4 of RailX). Servers are nodes in the order of
//! their numbers, row by row: what is next to each other in the job is next to each other in a row.
//! Tried: tori, HyperX and dragonflies of every number of columns; splits whose parts are the job's
//! dimensions or runs of them, each a ring or all to all.
//! Ignored: delays, traffic of several kinds at once, computation that hides some of it; servers in
//! another order.
//! Checked: against every row beside every column of small jobs; simulated iterations (docs/railx.md).

use crate::hamiltonian::joins_all;
use crate::topology::{DimensionSpec, Share, Topology, Wiring, named::Named};
use lightloom_fabric::railx::{Axis, Grid};
use lightloom_fabric::{Cluster, Fabric, GpuId, RailXSpec};
use std::collections::BTreeMap;
use std::fmt;

/// What one GPU sends another in an iteration: (from, to, bytes).
pub type Message = (u32, u32, u64);
/// Messages of one kind that are sent at once, those that wait for each other together.
pub type Groups = Vec<Vec<Message>>;

/// A topology of a hall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// By name, of so many columns and rows.
    Named(Named, [u32; 2]),
    /// Parts of rows and of columns.
    Split([Vec<DimensionSpec>; 2], Share),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Named(named, [columns, rows]) => {
                let name = format!("{named:?}").to_lowercase();
                write!(f, "{name} of {columns} x {rows} nodes")
            }
            Choice::Split(parts, share) => {
                let text = |of: &Vec<DimensionSpec>| {
                    of.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
                };
                let shown = ["x", "y"].iter().zip(parts).filter(|(_, of)| !of.is_empty());
                let shown = shown.map(|(axis, of)| format!(" {axis} = {}", text(of)));
                write!(f, "split{}", shown.collect::<String>())?;
                if *share == Share::Uneven { f.write_str(" uneven") } else { Ok(()) }
            }
        }
    }
}

/// The best topology of a job.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Which.
    pub choice: Choice,
    /// With its circuits.
    pub topology: Topology,
    /// What the job's traffic takes on it \[s\].
    pub cost_s: f64,
    /// The best of each named topology that is possible \[s\].
    pub named: Vec<(Choice, f64)>,
    /// The best split of each set of parts.
    pub splits: Vec<(Choice, Topology, f64)>,
    /// How many were tried.
    pub tried: usize,
}

struct Search<'a> {
    cluster: &'a Cluster,
    spec: &'a RailXSpec,
    hall: Grid,
    traffic: &'a [Groups],
    found: Vec<(Choice, Topology, f64)>,
}

/// The best topology of as many nodes as the cluster has servers; `None` if there is none. `dimensions`
/// are the job's beyond a node, the one first whose ranks are neighbouring servers. Of equal ones the
/// one with the fewest circuits, of those the first.
pub fn fit(
    cluster: &Cluster,
    spec: &RailXSpec,
    dimensions: &[u32],
    traffic: &[Groups],
) -> Option<Fit> {
    let hall = Grid::new(spec.mesh, spec.ports, spec.ocs_ports, 1, 1);
    let mut search = Search { cluster, spec, hall, traffic, found: Vec::new() };
    let nodes = cluster.servers();
    let columns = (1..=nodes).filter(|&columns| nodes % columns == 0);
    let columns = columns.filter(|&columns| spec.columns.is_none_or(|asked| asked == columns));
    for columns in columns {
        for named in [Named::Torus, Named::HyperX, Named::Dragonfly] {
            search.add(Choice::Named(named, [columns, nodes / columns]));
        }
        if let Some(parts) = cut(dimensions, columns) {
            search.splits(&parts);
        }
    }
    let tried = search.found.len();
    let mut named: Vec<(Choice, f64)> = Vec::new();
    for (choice, _, cost_s) in &search.found {
        let Choice::Named(name, _) = choice else { continue };
        match named.iter_mut().find(|(best, _)| matches!(best, Choice::Named(n, _) if n == name)) {
            Some(best) if best.1 > *cost_s => *best = (choice.clone(), *cost_s),
            Some(_) => {}
            None => named.push((choice.clone(), *cost_s)),
        }
    }
    let splits = best_by_parts(&search.found);
    let rank =
        |(_, topology, cost_s): &(Choice, Topology, f64)| (*cost_s, topology.layout.circuits());
    let best = search.found.into_iter().min_by(|a, b| {
        let ((a_s, a_lit), (b_s, b_lit)) = (rank(a), rank(b));
        a_s.total_cmp(&b_s).then(a_lit.cmp(&b_lit))
    });
    let (choice, topology, cost_s) = best?;
    Some(Fit { choice, topology, cost_s, named, splits, tried })
}

fn best_by_parts(found: &[(Choice, Topology, f64)]) -> Vec<(Choice, Topology, f64)> {
    let scales = |choice: &Choice| match choice {
        Choice::Split(parts, _) => {
            Some(parts.each_ref().map(|of| of.iter().map(|part| part.scale).collect::<Vec<_>>()))
        }
        Choice::Named(..) => None,
    };
    let mut best: BTreeMap<_, &(Choice, Topology, f64)> = BTreeMap::new();
    for tried in found {
        let Some(parts) = scales(&tried.0) else { continue };
        let known = best.entry(parts).or_insert(tried);
        if tried.2 < known.2 {
            *known = tried;
        }
    }
    best.into_values().cloned().collect()
}

/// The dimensions of a row of so many nodes and of a column; `None` if no column ends where one does.
fn cut(dimensions: &[u32], columns: u32) -> Option<[Vec<u32>; 2]> {
    let (mut left, mut parts) = (columns, [Vec::new(), Vec::new()]);
    for &size in dimensions {
        let along = if left % size == 0 { size } else { left };
        if size % along != 0 {
            return None;
        }
        left /= along;
        parts[0].push(along);
        parts[1].push(size / along);
    }
    parts.iter_mut().for_each(|part| part.retain(|&size| size > 1));
    Some(parts)
}

impl Search<'_> {
    /// Of a row and a column with these dimensions: the best row beside a column of rings, and the best
    /// column beside that.
    fn splits(&mut self, parts: &[Vec<u32>; 2]) {
        // Rails of the node that are next to each other lie on few rows of its mesh: where every chip edge
        // has a rail for each dimension, that is better.
        let longest = parts.iter().map(Vec::len).max().unwrap_or(0) as u32;
        let share = if longest <= self.hall.ports { Share::Balanced } else { Share::Uneven };
        let [rows, columns] = parts.each_ref().map(|sizes| self.axis(sizes, share));
        let (Some(row), Some(column)) = (rows.first(), columns.first()) else { return };
        let mut best = [row.clone(), column.clone()];
        for (axis, options) in [(Axis::X, rows), (Axis::Y, columns)] {
            let mut least_s = f64::INFINITY;
            for option in options {
                let mut tried = best.clone();
                tried[axis as usize] = option;
                match self.add(Choice::Split(tried.clone(), share)) {
                    Some(cost_s) if cost_s < least_s => (best, least_s) = (tried, cost_s),
                    _ => {}
                }
            }
        }
    }

    /// Every way to join an axis: runs of its dimensions become parts, rings or all to all, with every
    /// number of rails.
    fn axis(&self, sizes: &[u32], share: Share) -> Vec<Vec<DimensionSpec>> {
        let mut found = Vec::new();
        let breaks = sizes.len().saturating_sub(1);
        for breaks in 0..1_u32 << breaks {
            let mut scales: Vec<u32> = Vec::new();
            for (at, &size) in sizes.iter().enumerate() {
                match scales.last_mut() {
                    Some(last) if breaks >> (at - 1) & 1 == 0 => *last *= size,
                    _ => scales.push(size),
                }
            }
            let each = if share == Share::Balanced { self.hall.mesh } else { 1 };
            deal(&scales, share.units(self.hall), each, &mut Vec::new(), &mut found);
        }
        found
    }

    /// Tries one, if it can be.
    fn add(&mut self, choice: Choice) -> Option<f64> {
        if let Some((.., cost_s)) = self.found.iter().find(|found| found.0 == choice) {
            return Some(*cost_s);
        }
        let hall = self.hall;
        let built = match &choice {
            &Choice::Named(named, [columns, rows]) => named.build(Grid { columns, rows, ..hall }),
            Choice::Split([x, y], share) => Topology::split(hall, x, y, *share),
        };
        let topology = built.ok()?;
        let fabric = Fabric::railx(self.cluster, self.spec, &topology.layout).ok()?;
        let cost_s = self.traffic.iter().map(|sent| time_s(&fabric, sent)).sum::<Option<f64>>()?;
        self.found.push((choice, topology, cost_s));
        Some(cost_s)
    }
}

/// Gives the parts after those in `given` what is left of the rails, `each` a unit, in every way.
fn deal(
    scales: &[u32],
    left: u32,
    each: u32,
    given: &mut Vec<DimensionSpec>,
    found: &mut Vec<Vec<DimensionSpec>>,
) {
    let Some(&scale) = scales.get(given.len()) else {
        return found.push(given.clone());
    };
    let others = (scales.len() - given.len() - 1) as u32;
    // The last one takes all: a rail more never harms.
    let first = if others == 0 { left } else { 1 };
    for rails in first..=left.saturating_sub(others) {
        for wiring in [Wiring::Ring, Wiring::AllToAll] {
            if wiring == Wiring::AllToAll && (scale < 4 || !joins_all(scale, rails * each)) {
                continue;
            }
            given.push(DimensionSpec { wiring, scale, rails });
            deal(scales, left - rails, each, given, found);
            given.pop();
        }
    }
}

/// What a kind of traffic takes on a fabric: the mean over its groups, each as long as the most loaded of
/// its links; `None` if some of it has no path.
pub fn time_s(fabric: &Fabric, groups: &Groups) -> Option<f64> {
    let mut loads_s = vec![0.0; fabric.links().len()];
    let (mut paths, mut ends) = (Vec::new(), Vec::new());
    for group in groups {
        for &(from, to, bytes) in group {
            let first = paths.len();
            fabric.route(GpuId(from), GpuId(to), 0, &mut paths).ok()?;
            for &link in &paths[first..] {
                loads_s[link.index()] += 8.0 * bytes as f64 / fabric.link(link).rate.bps() as f64;
            }
        }
        ends.push(paths.len());
    }
    let mut first = 0;
    let slowest = ends.iter().map(|&end| {
        let own = paths[std::mem::replace(&mut first, end)..end].iter();
        own.map(|link| loads_s[link.index()]).fold(0.0, f64::max)
    });
    Some(slowest.sum::<f64>() / groups.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_fabric::RailXTopology;
    use lightloom_units::{BitRate, Time};
    use proptest::prelude::*;

    fn spec(ports: u32) -> RailXSpec {
        let (rate, delay) = (BitRate::from_gbps(400), Time::from_ns(150));
        RailXSpec { mesh: 2, ports, ..RailXSpec::new(RailXTopology::Auto, rate, delay) }
    }

    fn cluster(nodes: u32) -> Cluster {
        Cluster { numa_nodes: 1, ..Cluster::of(4 * nodes, 4) }
    }

    /// By dimension of the job: to the next along a ring, or all to all; so many bytes a GPU.
    fn traffic(dimensions: &[u32], bytes: &[(bool, u64)]) -> Vec<Groups> {
        let nodes: u32 = dimensions.iter().product();
        let mut stride = 1;
        let kinds = dimensions.iter().zip(bytes).map(|(&size, &(ring, bytes))| {
            let along = |node: u32, step: u32| {
                let digit = node / stride % size;
                node - digit * stride + (digit + step) % size * stride
            };
            let steps = |node| (1..if ring { 2 } else { size }).map(move |step| (node, step));
            let pairs = (0..nodes).flat_map(steps).map(|(node, step)| (node, along(node, step)));
            let sent = pairs.flat_map(|(a, b)| (0..4).map(move |g| (4 * a + g, 4 * b + g, bytes)));
            let group = sent.collect();
            stride *= size;
            vec![group]
        });
        kinds.collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn no_row_beside_no_column_is_better(
            dimensions in prop::sample::select(vec![vec![2, 4], vec![4, 2], vec![2, 2, 2], vec![5, 2]]),
            bytes in prop::collection::vec((any::<bool>(), 1..1000_u64), 3), ports in 1..4_u32,
        ) {
            let (spec, cluster) = (spec(ports), cluster(dimensions.iter().product()));
            let traffic = traffic(&dimensions, &bytes);
            let found = fit(&cluster, &spec, &dimensions, &traffic).expect("rings do");
            let hall = Grid::new(spec.mesh, spec.ports, spec.ocs_ports, 1, 1);
            let mut all =
                Search { cluster: &cluster, spec: &spec, hall, traffic: &traffic, found: Vec::new() };
            for columns in (1..=cluster.servers()).filter(|c| cluster.servers() % c == 0) {
                let Some(parts) = cut(&dimensions, columns) else { continue };
                for share in [Share::Balanced, Share::Uneven] {
                    let [rows, sides] = parts.each_ref().map(|sizes| all.axis(sizes, share));
                    for (row, side) in rows.iter().flat_map(|row| sides.iter().map(move |s| (row, s))) {
                        all.add(Choice::Split([row.clone(), side.clone()], share));
                    }
                }
            }
            let best = all.found.iter().map(|found| found.2).fold(f64::INFINITY, f64::min);
            prop_assert!(found.cost_s <= 1.1 * best, "{} {} {best}", found.choice, found.cost_s);
            prop_assert!(found.named.iter().all(|(_, cost_s)| found.cost_s <= *cost_s));
        }
    }

    #[test]
    fn of_equal_ones_the_fewest_circuits() {
        let found = fit(&cluster(8), &spec(2), &[2, 4], &[]).expect("rings do");
        assert_eq!((found.cost_s, found.topology.layout.circuits()), (0.0, 32), "{}", found.choice);
    }

    #[test]
    fn columns_cut_dimensions() {
        assert_eq!(cut(&[2, 8, 4], 4), Some([vec![2, 2], vec![4, 4]]));
        assert_eq!(cut(&[2, 8, 4], 1), Some([vec![], vec![2, 8, 4]]));
        assert_eq!(cut(&[3, 4], 2), None);
        assert_eq!(cut(&[3, 4], 6), Some([vec![3, 2], vec![2]]));
    }
}
