//! Rails by turns: circuits of a block of nodes that change with what the block sends (RailX, Section 5.2).
//!
//! Modelled: of a product of dimensions, those of one axis whose nodes are all of one block share their
//! rails: all of them go to one dimension at a time. Every block changes its own circuits, for their rings
//! join no two blocks. Which layout serves which kind of traffic is found by trying all: a kind takes as
//! long as on its layout, and a change what its delay is longer than the computation that hides it. What
//! stages send each other takes the circuits of other dimensions, which always stand. Sums of gradients
//! cross all dimensions: when they begin, blocks go back to the topology as it is, and stay there.
//! Ignored: turns on both axes at once.
//! Checked: rings of a block's dimensions stay inside it; what stands always stands in every layout; no
//! turns if changes cost more than they save; simulated iterations (docs/railx.md).

use crate::fit::{Groups, time_s};
use crate::topology::{Dimension, Form, Topology};
use lightloom_fabric::railx::{Axis, Layout};
use lightloom_fabric::{Cluster, Fabric, RailXSpec};

/// A kind of traffic.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its name.
    pub number: u32,
    /// What it sends in an iteration.
    pub groups: Groups,
    /// What it goes over.
    pub over: Over,
}

/// Which circuits a kind of traffic goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Those of its turn: each of its groups is a block.
    Turn,
    /// Those that always stand.
    Always,
    /// Those of the topology as it is.
    Base,
}

/// A job on a topology.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// What it sends.
    pub kinds: &'a [Kind],
    /// And in which order, in a block.
    pub order: &'a [Next],
    /// Nodes of a block.
    pub block: u32,
    /// Share of what blocks send that comes after the first sum of gradients.
    pub late: f64,
}

/// A block sends one kind of traffic, and the next after so much computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Next {
    /// Which of the kinds was sent.
    pub from: usize,
    /// Which follows.
    pub to: usize,
    /// Computation between them \[s\].
    pub gap_s: f64,
    /// How often a block has this in an iteration.
    pub times: f64,
}

/// Rails by turns.
#[derive(Clone, Debug)]
pub struct Turns {
    /// The circuits that always stand.
    pub always: Layout,
    /// What may stand; the first when the job begins.
    pub layouts: Vec<Layout>,
    /// Kinds that have turns, each with the one of these that serves it.
    pub of_kind: Vec<(u32, usize)>,
    /// What the job's traffic takes without turns \[s\].
    pub static_s: f64,
    /// What it takes with them, with changes \[s\].
    pub cost_s: f64,
    /// What changes take beyond the computation that hides them \[s\].
    pub exposed_s: f64,
}

/// The layouts that the dimensions of blocks of so many nodes may have by turns, and what always stands;
/// none if no axis has two such dimensions. The first layout is as the topology has it.
pub fn layouts(topology: &Topology, block: u32) -> Option<(Layout, Vec<Layout>)> {
    let Form::Product(dimensions) = &topology.form else { return None };
    let grid = topology.layout.grid;
    let inside = |dimension: &Dimension| {
        let across = if dimension.axis == Axis::X { 1 } else { grid.columns };
        dimension.scale > 1 && block % (across * dimension.stride * dimension.scale) == 0
    };
    let shares = |axis| dimensions.iter().filter(|d| d.axis == axis && inside(d)).count() > 1;
    let axis = [Axis::X, Axis::Y].into_iter().find(|&axis| shares(axis))?;
    let (own, others): (Vec<_>, Vec<_>) = dimensions
        .iter()
        .cloned()
        .partition(|dimension| dimension.axis == axis && inside(dimension));
    let mut rails: Vec<u32> = own.iter().flat_map(|dimension| dimension.rails.clone()).collect();
    rails.sort_unstable();
    let with = |turn: Option<Dimension>| {
        let all = others.iter().cloned().chain(turn).collect();
        Some(Topology::product(grid, all).ok()?.layout)
    };
    let turns =
        own.into_iter().filter_map(|of| with(Some(Dimension { rails: rails.clone(), ..of })));
    let layouts = [topology.layout.clone()].into_iter().chain(turns).collect();
    Some((with(None)?, layouts))
}

/// What traffic takes on a topology as it is \[s\]; none if some of it has no way.
pub fn static_s(
    cluster: &Cluster,
    spec: &RailXSpec,
    layout: &Layout,
    kinds: &[Kind],
) -> Option<f64> {
    let fabric = Fabric::railx(cluster, spec, layout).ok()?;
    kinds.iter().map(|kind| time_s(&fabric, &kind.groups)).sum()
}

/// Which kinds should have their rails by turns on a topology whose switches change in `delay_s`, and
/// what that takes; none if no circuits would change, or if that takes no less than `static_s`.
pub fn turns(
    (cluster, spec): (&Cluster, &RailXSpec),
    topology: &Topology,
    job: Job<'_>,
    (delay_s, static_s): (f64, f64),
) -> Option<Turns> {
    let (always, layouts) = layouts(topology, job.block)?;
    let build = |layout: &Layout| Fabric::railx(cluster, spec, layout).ok();
    let fabrics = layouts.iter().map(build).collect::<Option<Vec<_>>>()?;
    let (mut times_s, mut rest_s, mut base_s) = (Vec::new(), 0.0, 0.0);
    for kind in job.kinds {
        let on = |fabric| time_s(fabric, &kind.groups);
        let each: Vec<f64> = match kind.over {
            // Where it has no way, it takes for ever.
            Over::Turn => fabrics.iter().map(|at| on(at).unwrap_or(f64::INFINITY)).collect(),
            Over::Always => {
                rest_s += on(&build(&always)?)?;
                Vec::new()
            }
            Over::Base => {
                rest_s += on(&fabrics[0])?;
                Vec::new()
            }
        };
        base_s += each.first().unwrap_or(&0.0);
        times_s.push(each);
    }
    let (of_kind, inside_s, exposed_s) = assign(&times_s, job.order, delay_s);
    let exposed_s = (1.0 - job.late) * exposed_s + delay_s;
    let cost_s = rest_s + (1.0 - job.late) * inside_s + job.late * base_s + exposed_s;
    let served = job.kinds.iter().zip(of_kind);
    let of_kind: Vec<_> =
        served.filter_map(|(kind, layout)| Some((kind.number, layout?))).collect();
    let changes = of_kind.windows(2).any(|two| two[0].1 != two[1].1);
    let found = Turns { always, layouts, of_kind, static_s, cost_s, exposed_s };
    (changes && cost_s < static_s).then_some(found)
}

/// Which layout serves each kind, given what each takes on each of them (kinds without times have no
/// turns); what that takes without changes, and what changes take beyond computation.
///
/// ```
/// use lightloom_railx::turns::{Next, assign};
/// let there = Next { from: 0, to: 1, gap_s: 0.006, times: 10.0 };
/// let back = Next { from: 1, to: 0, gap_s: 0.030, times: 10.0 };
/// let times_s = [vec![0.5, 1.0], vec![0.8, 0.4]];
/// // Ten times 4 ms are exposed: less than the 0.4 s that a layout each saves.
/// let (of_kind, inside_s, exposed_s) = assign(&times_s, &[there, back], 0.010);
/// assert_eq!((of_kind, inside_s), (vec![Some(0), Some(1)], 0.9));
/// assert!((exposed_s - 0.04).abs() < 1e-12);
/// // Ten times 64 and 40 ms are not.
/// assert_eq!(assign(&times_s, &[there, back], 0.070), (vec![Some(0), Some(0)], 1.3, 0.0));
/// ```
pub fn assign(
    times_s: &[Vec<f64>],
    order: &[Next],
    delay_s: f64,
) -> (Vec<Option<usize>>, f64, f64) {
    let inside: Vec<usize> = (0..times_s.len()).filter(|&at| !times_s[at].is_empty()).collect();
    let choices: usize = inside.iter().map(|&kind| times_s[kind].len()).product();
    let tried = (0..choices).map(|mut choice| {
        let mut of_kind = vec![None; times_s.len()];
        for &kind in &inside {
            of_kind[kind] = Some(choice % times_s[kind].len());
            choice /= times_s[kind].len();
        }
        let taken = inside.iter().map(|&kind| times_s[kind][of_kind[kind].unwrap_or(0)]).sum();
        let changes = order.iter().filter(|next| of_kind[next.from] != of_kind[next.to]);
        let exposed = changes.map(|next| next.times * (delay_s - next.gap_s).max(0.0)).sum();
        (of_kind, taken, exposed)
    });
    let best = tried.min_by(|a: &(_, f64, f64), b| (a.1 + a.2).total_cmp(&(b.1 + b.2)));
    best.unwrap_or_else(|| (vec![None; times_s.len()], 0.0, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{DimensionSpec, Share, Wiring};
    use lightloom_fabric::RailXTopology;
    use lightloom_fabric::railx::Grid;
    use lightloom_units::{BitRate, Time};
    use std::collections::BTreeSet;

    fn ring(scale: u32, rails: u32) -> DimensionSpec {
        DimensionSpec { wiring: Wiring::Ring, scale, rails }
    }

    /// Rows of two parts of blocks, columns of replicas.
    fn shared() -> Topology {
        let hall = Grid::new(2, 4, 128, 1, 1);
        let (x, y) = ([ring(2, 4), ring(4, 4)], [ring(2, 8)]);
        Topology::split(hall, &x, &y, Share::Uneven).expect("a topology")
    }

    fn joins(layout: &Layout) -> BTreeSet<(u32, u32, u32)> {
        layout.joins().map(|(axis, rail, a, b)| (rail + 100 * axis as u32, a, b)).collect()
    }

    #[test]
    fn blocks_change_their_own_circuits_and_keep_a_way() {
        let topology = shared();
        let (always, found) = layouts(&topology, 8).expect("two parts share rails");
        assert_eq!(joins(&found[0]), joins(&topology.layout));
        let of = |layout: &Layout, step: u32| {
            layout
                .joins()
                .filter(|&(axis, _, a, b)| {
                    axis == Axis::X && a.abs_diff(b) % 8 % (8 - step) == step
                })
                .count()
        };
        // Each part has all eight rails in its turn.
        assert_eq!([of(&found[1], 1), of(&found[2], 1)], [8 * 16, 0]);
        for layout in &found {
            assert!(joins(&always).is_subset(&joins(layout)));
            let changed = joins(layout);
            let changed = changed.difference(&joins(&always)).copied().collect::<Vec<_>>();
            assert!(changed.iter().all(|(_, a, b)| a / 8 == b / 8), "no two blocks are joined");
        }
        assert!(layouts(&topology, 2).is_none(), "only one part is a block's");
        assert!(
            layouts(&Topology::torus(Grid::new(2, 4, 128, 8, 2)).expect("a torus"), 8).is_none()
        );
    }

    #[test]
    fn turns_are_taken_only_if_they_save_more_than_changes_cost() {
        let topology = shared();
        let cluster = Cluster { numa_nodes: 1, ..Cluster::of(64, 4) };
        let (rate, delay) = (BitRate::from_gbps(400), Time::from_ns(150));
        let spec = RailXSpec {
            mesh: 2,
            ports: 4,
            inside: 64.0,
            ..RailXSpec::new(RailXTopology::Split, rate, delay)
        };
        let kind = |number, stride: u32, size: u32| {
            let next = |node: u32| {
                let digit = node / stride % size;
                node - digit * stride + (digit + 1) % size * stride
            };
            let block = |first: u32| {
                let sent = (first..first + 8).flat_map(|node| {
                    (0..4).map(move |chip| (4 * node + chip, 4 * next(node) + chip, 1 << 30))
                });
                sent.collect()
            };
            Kind { number, groups: vec![block(0), block(8)], over: Over::Turn }
        };
        let kinds = [kind(3, 1, 2), kind(0, 2, 4)];
        let order = [(0, 1), (1, 0)].map(|(from, to)| Next { from, to, gap_s: 0.001, times: 10.0 });
        let stands_s = static_s(&cluster, &spec, &topology.layout, &kinds).expect("rings");
        let job = Job { kinds: &kinds, order: &order, block: 8, late: 0.0 };
        let asked = |delay_s| turns((&cluster, &spec), &topology, job, (delay_s, stands_s));
        let free = asked(0.0).expect("rails are better by turns");
        assert_eq!(free.of_kind, [(3, 1), (0, 2)]);
        assert!(free.cost_s < 0.7 * free.static_s, "{} {}", free.cost_s, free.static_s);
        let hidden = asked(0.001).expect("computation hides it");
        assert!((hidden.cost_s - free.cost_s - 0.001).abs() < 1e-9, "but for the last one");
        let longest_s = 0.001 + (free.static_s - free.cost_s) / 21.0;
        assert!(asked(0.5 * longest_s).is_some_and(|turns| turns.cost_s < turns.static_s));
        assert!(asked(1.01 * longest_s).is_none());
    }
}
