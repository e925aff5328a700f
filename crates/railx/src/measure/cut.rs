//! Few circuits between two halves of the nodes.
//!
//! Small graphs: every half is tried. Larger ones: halves along each logical dimension and some
//! that are scattered, each bettered by the exchanges of Kernighan and Lin until none helps; so the
//! answer is a cut that exists, and a thinner one may too.

use super::graph::Graph;
use crate::topology::{Form, Topology};

/// A thin cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    /// Circuits between half of the nodes, rounded down, and the rest: the fewest found.
    pub circuits: u64,
    /// Whether every half was tried.
    pub exact: bool,
    /// The least uniform throughput, in flits a cycle and chip, that a cut allows, of those above
    /// and those between whole lines; traffic to oneself counted, as the paper does. Infinite for
    /// one node.
    pub throughput: f64,
}

/// Most nodes for which every half is tried.
const TRY_ALL: u32 = 18;
/// Most nodes for which exchanges are sought.
const EXCHANGE: u32 = 4096;
/// Most nodes for which they also start from halves scattered over the grid, and from how many.
const SCATTER: u32 = 1024;
const SCATTERED: u32 = 8;

impl Cut {
    pub(super) fn of(graph: &Graph, topology: &Topology) -> Self {
        let grid = topology.layout.grid;
        let (nodes, chips_a_node) = (graph.nodes(), u64::from(grid.mesh).pow(2));
        if nodes < 2 {
            return Cut { circuits: 0, exact: true, throughput: f64::INFINITY };
        }
        let lets_through = |circuits: u64, here: u32| {
            let pairs = f64::from(here) * f64::from(nodes - here) * chips_a_node as f64;
            circuits as f64 * f64::from(nodes) / pairs
        };
        let across = orders(topology)
            .into_iter()
            .map(|(order, lines)| lets_through(crossing(graph, &first(&order, lines)), lines));
        let exact = nodes <= TRY_ALL;
        let circuits = if exact { try_all(graph) } else { exchanged(graph, topology) };
        let throughput = across.fold(lets_through(circuits, nodes / 2), f64::min);
        Cut { circuits, exact, throughput }
    }
}

/// The fewest circuits between halves that exchanges find.
pub(super) fn exchanged(graph: &Graph, topology: &Topology) -> u64 {
    let scattered = (1..=SCATTERED).map(|seed| {
        let mut order: Vec<u32> = (0..graph.nodes()).collect();
        order.sort_by_key(|node| (2 * node + 1).wrapping_mul(0x9E37_79B9).rotate_left(seed));
        order
    });
    let scattered = scattered.filter(|_| graph.nodes() <= SCATTER);
    let along = orders(topology).into_iter().map(|(order, _)| order);
    let halves = along.chain(scattered).map(|order| {
        let mut here = first(&order, graph.nodes() / 2);
        if graph.nodes() <= EXCHANGE {
            exchange(graph, &mut here);
        }
        crossing(graph, &here)
    });
    halves.min().expect("more than one node have an axis of more than one position")
}

/// Nodes in an order, and how many of the first are whole lines nearest to a half.
fn orders(topology: &Topology) -> Vec<(Vec<u32>, u32)> {
    let grid = topology.layout.grid;
    let mut orders = Vec::new();
    let mut by = |scale: u32, digit: &dyn Fn(u32) -> u32| {
        if scale > 1 {
            let mut order: Vec<u32> = (0..grid.nodes()).collect();
            order.sort_by_key(|&node| digit(node));
            orders.push((order, grid.nodes() / scale * (scale / 2)));
        }
    };
    by(grid.columns, &|node| grid.place(node).0);
    by(grid.rows, &|node| grid.place(node).1);
    if let Form::Product(dimensions) = &topology.form {
        for d in dimensions.iter().filter(|d| d.scale < grid.positions(d.axis)) {
            by(d.scale, &|node| d.digit(grid, node));
        }
    }
    orders
}

fn first(order: &[u32], many: u32) -> Vec<bool> {
    let mut here = vec![false; order.len()];
    order[..many as usize].iter().for_each(|&node| here[node as usize] = true);
    here
}

/// Circuits between the nodes that are here and the others.
fn crossing(graph: &Graph, here: &[bool]) -> u64 {
    let away = |node: u32| graph.arcs(node).iter().filter(|(to, _)| !here[*to as usize]);
    let of = |node: u32| away(node).map(|&(_, circuits)| u64::from(circuits)).sum::<u64>();
    (0..graph.nodes()).filter(|&node| here[node as usize]).map(of).sum()
}

/// The fewest circuits between a half with node 0 and the rest, or, for odd numbers, without it.
fn try_all(graph: &Graph) -> u64 {
    let nodes = graph.nodes();
    let halves = (0_u32..1 << nodes).filter(|half| half.count_ones() == nodes / 2);
    let sides = halves.map(|half| (0..nodes).map(|node| half >> node & 1 == 1).collect::<Vec<_>>());
    sides.map(|here| crossing(graph, &here)).min().expect("there is a half")
}

/// Exchanges nodes of the two sides while that makes the cut thinner (Kernighan and Lin, 1970): in
/// a round each node moves once at most, the best pair first even if it is a loss, and the best
/// beginning of the round is kept.
fn exchange(graph: &Graph, here: &mut [bool]) {
    loop {
        let side = |here: &[bool], node: u32| here[node as usize];
        let mut gain: Vec<i64> = (0..graph.nodes())
            .map(|node| {
                let of = |&(to, circuits): &(u32, u32)| {
                    let away = side(here, to) != side(here, node);
                    if away { i64::from(circuits) } else { -i64::from(circuits) }
                };
                graph.arcs(node).iter().map(of).sum()
            })
            .collect();
        let mut moved = vec![false; here.len()];
        let (mut pairs, mut total, mut best) = (Vec::new(), 0, (0, 0));
        loop {
            let free = |wanted: bool| {
                let of_side =
                    |&node: &u32| !moved[node as usize] && (here[node as usize] == wanted);
                (0..graph.nodes()).filter(of_side).max_by_key(|&node| gain[node as usize])
            };
            let (Some(a), Some(b)) = (free(true), free(false)) else { break };
            let between = graph.arcs(a).iter().find(|arc| arc.0 == b).map_or(0, |arc| arc.1);
            total += gain[a as usize] + gain[b as usize] - 2 * i64::from(between);
            pairs.push((a, b));
            if total > best.0 {
                best = (total, pairs.len());
            }
            for node in [a, b] {
                moved[node as usize] = true;
                for &(to, circuits) in graph.arcs(node) {
                    let was_away = here[to as usize] != here[node as usize];
                    gain[to as usize] += 2 * i64::from(circuits) * if was_away { -1 } else { 1 };
                }
                here[node as usize] ^= true;
            }
        }
        for &(a, b) in &pairs[best.1..] {
            here[a as usize] ^= true;
            here[b as usize] ^= true;
        }
        if best.1 == 0 {
            return;
        }
    }
}
