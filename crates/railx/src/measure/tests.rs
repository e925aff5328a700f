use super::graph::Graph;
use super::*;
use crate::topology::{Dimension, DimensionSpec, Share};
use lightloom_fabric::railx::Axis;
use lightloom_fabric::routers::{Choice, PortUse, RailxLinks, RailxPorts, Routing, railx};
use proptest::prelude::*;

/// The rule that loads are worked out by, hop by hop: the next digit, the nearest exits, the mesh
/// row before the column. It never looks at what [`Loads`] computes.
struct Nearest {
    topology: Topology,
    neighbours: Neighbours,
    ports: RailxPorts,
    /// By node: hops to every node by the rails of one stage.
    distances: Vec<Vec<Vec<u32>>>,
}

impl Nearest {
    fn new(topology: &Topology) -> Self {
        let grid = topology.layout.grid;
        let neighbours = Neighbours::of(&topology.layout);
        let Form::Product(dimensions) = &topology.form else { panic!("a product") };
        let distances = dimensions.iter().map(|d| {
            let hops = |from: u32| {
                let mut hops = vec![u32::MAX; grid.nodes() as usize];
                hops[from as usize] = 0;
                for round in 0..grid.nodes() {
                    for node in 0..grid.nodes() {
                        if hops[node as usize] == round {
                            for (axis, rail, _, next) in neighbours.ends(node) {
                                if axis == d.axis && d.rails.contains(&rail) {
                                    let known = &mut hops[next as usize];
                                    *known = (*known).min(round + 1);
                                }
                            }
                        }
                    }
                }
                hops
            };
            (0..grid.nodes()).map(hops).collect()
        });
        let distances = distances.collect();
        let ports = RailxPorts::new(&grid);
        Nearest { topology: topology.clone(), neighbours, ports, distances }
    }
    fn to_chip(&self, (x, y): (u32, u32), (tx, ty): (u32, u32)) -> u16 {
        let (axis, plus) = if x != tx { (Axis::X, tx > x) } else { (Axis::Y, ty > y) };
        self.ports.mesh((x, y), axis, plus).expect("a chip on the way is in the mesh")
    }
}

impl Routing for Nearest {
    fn name(&self) -> &'static str {
        "nearest"
    }
    fn vcs(&self) -> u8 {
        200
    }
    fn route(&self, at: u32, came: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
        let grid = self.topology.layout.grid;
        let m = grid.mesh;
        let split = |router: u32| (router / (m * m), (router % m, router / m % m));
        let ((node, chip), (goal, goal_chip)) = (split(at), split(to));
        if node == goal {
            return choices.push(Choice::new(self.to_chip(chip, goal_chip), 0));
        }
        let Form::Product(dimensions) = &self.topology.form else { unreachable!("a product") };
        let wrong = |d: &Dimension| d.digit(grid, node) != d.digit(grid, goal);
        let stage = dimensions.iter().position(wrong).expect("another node has another digit");
        let d = &dimensions[stage];
        let (x, y) = grid.place(node);
        let position = if d.axis == Axis::X { x } else { y };
        let moved = position - d.digit(grid, node) * d.stride + d.digit(grid, goal) * d.stride;
        let line = if d.axis == Axis::X { y } else { x };
        let hops = &self.distances[stage][grid.node_on(d.axis, line, moved) as usize];
        let exits: Vec<_> = self
            .neighbours
            .ends(node)
            .filter(|&(axis, rail, _, next)| {
                let of = axis == d.axis && d.rails.contains(&rail);
                of && hops[next as usize] + 1 == hops[node as usize]
            })
            .map(|(axis, rail, plus, _)| self.ports.rail(axis, rail, plus))
            .collect();
        let away = |(x, y): (u32, u32)| x.abs_diff(chip.0) + y.abs_diff(chip.1);
        let nearest = exits.iter().map(|exit| away(exit.0)).min().expect("an exit");
        // A packet that crosses the mesh has chosen its exit: which one it is bound for stands in
        // the virtual channel, as equally near exits would share anew at every chip.
        let bound = came
            .filter(|&(port, _)| {
                matches!(self.ports.used_for(chip, port), Some(PortUse::Mesh { .. }))
            })
            .map(|(_, vc)| vc);
        let goals: Vec<(usize, _)> = exits
            .iter()
            .enumerate()
            .filter(|(index, exit)| match bound {
                Some(index_bound) => *index == usize::from(index_bound),
                None => away(exit.0) == nearest,
            })
            .collect();
        for (index, &(exit, port)) in goals {
            let port = if exit == chip { port } else { self.to_chip(chip, exit) };
            choices.push(Choice::new(port, index as u8));
        }
    }
}

/// The busiest rail and the busiest mesh link, by walking.
fn walked(topology: &Topology) -> (f64, f64) {
    let network = railx(&topology.layout, RailxLinks::default());
    let loads = channel_loads(&network, &Nearest::new(topology)).expect("all arrive");
    let most = |delay: u16| {
        let of = network.channels().iter().zip(&loads).filter(|(c, _)| c.delay == delay);
        of.map(|(_, load)| *load).fold(0.0, f64::max)
    };
    (most(10), most(1))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.max(b).max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn loads_are_those_of_walking_every_pair(
        mesh in 1..4_u32, ports in 1..4_u32, columns in 1..6_u32, rows in 1..4_u32,
        rings in any::<bool>(),
    ) {
        let grid = Grid::new(mesh, ports, 16, columns, rows);
        let built = if rings { Topology::torus(grid) } else { Topology::hyperx(grid) };
        prop_assume!(built.is_ok() && grid.nodes() > 1);
        let built = built.expect("checked");
        let loads = Measures::of(&built).loads.expect("small");
        let (rail, inside) = walked(&built);
        prop_assert!(close(loads.rail, rail), "{} {rail}", loads.rail);
        prop_assert!(close(loads.mesh, inside), "{} {inside}", loads.mesh);
    }
}

#[test]
fn loads_of_a_split_are_those_of_walking_every_pair() {
    let part = |wiring, scale| DimensionSpec { wiring, scale, rails: 1 };
    let (ring, all) = (part(Wiring::Ring, 4), part(Wiring::AllToAll, 3));
    let hall = Grid::new(2, 2, 128, 1, 1);
    let built = Topology::split(hall, &[ring, all], &[all], Share::Balanced).expect("it fits");
    let (measures, (rail, inside)) = (Measures::of(&built), walked(&built));
    let loads = measures.loads.expect("small");
    assert!(close(loads.rail, rail) && close(loads.mesh, inside), "{loads:?} {rail} {inside}");
    assert_eq!(measures.diameter, Diameter { hops: Some(2 + 1 + 1), exact: true });
}

#[test]
fn the_hyperx_of_1296_chips_is_bound_by_its_rails() {
    let built = Topology::hyperx(Grid::new(4, 2, 128, 9, 9)).expect("it fits");
    let measures = Measures::of(&built);
    let loads = measures.loads.expect("small");
    // 16 chips send 8 / 9 of their flits over 16 rail ends, and of the 1296 chips none to itself
    assert!(close(loads.rail, 8.0 / 9.0 * 1296.0 / 1295.0));
    assert!(close(loads.rail, loads.rail_mean), "all rails alike");
    let shown = [loads.rail, loads.mesh, loads.throughput(8.0)].map(|v| format!("{v:.3}"));
    assert_eq!(shown, ["0.890", "2.780", "1.124"]);
    // RailX, equation 3, before it is rounded: 2 (r + 1) / m^2
    assert!(close(measures.cut.throughput, 2.0 * 9.0 / 16.0), "{:?}", measures.cut);
}

#[test]
fn tori_have_the_measures_of_tori() {
    for (columns, rows) in [(8, 8), (6, 4), (5, 7), (2, 4)] {
        let built = Topology::torus(Grid::new(2, 3, 64, columns, rows)).expect("it fits");
        let measures = Measures::of(&built);
        assert_eq!(measures.diameter.hops, Some(columns / 2 + rows / 2));
        let (longer, shorter) = (columns.max(rows), columns.min(rows));
        if longer % 2 == 0 {
            // A cut across the longer side meets two links a ring, of 6 rails in each line.
            assert_eq!(measures.cut.circuits, u64::from(2 * 6 * shorter));
            let formula = Formulas::of(&built).expect("a torus").throughput;
            assert!(close(measures.cut.throughput, formula), "{:?} {formula}", measures.cut);
            // Without self-traffic rails evenly used let through that much, ends of ties shared.
            let loads = measures.loads.expect("small");
            let others = 1.0 - 1.0 / f64::from(loads.chips);
            assert!(close(loads.even_throughput(f64::INFINITY), formula * others), "{loads:?}");
        }
    }
}

proptest! {
    #[test]
    fn distances_of_a_product_add_up(
        x in prop::collection::vec((1..5_u32, any::<bool>()), 0..3),
        y in prop::collection::vec((1..5_u32, any::<bool>()), 0..3),
    ) {
        let part = |(scale, ring): (u32, bool)| {
            let ring = ring || scale == 4;
            DimensionSpec { wiring: if ring { Wiring::Ring } else { Wiring::AllToAll }, scale, rails: 2 }
        };
        let [x, y] = [x, y].map(|parts| parts.into_iter().map(part).collect::<Vec<_>>());
        let grid = Grid::new(1, 4, 64, 1, 1);
        let built = Topology::split(grid, &x, &y, Share::Balanced).expect("it fits");
        let graph = Graph::of(built.layout.grid, &Neighbours::of(&built.layout));
        let whole = Diameter::searched(&graph);
        prop_assert!(whole.exact);
        prop_assert_eq!(Diameter::of(&graph, &built), whole);
        let hops = |part: &DimensionSpec| match part.wiring {
            Wiring::Ring => part.scale / 2,
            Wiring::AllToAll => u32::from(part.scale > 1),
        };
        prop_assert_eq!(whole.hops, Some(x.iter().chain(&y).map(hops).sum()));
    }
}

#[test]
fn exchanges_find_what_trying_all_finds() {
    let grids = [(3, 5), (3, 3), (2, 7), (5, 3), (4, 4), (2, 9)];
    for (columns, rows) in grids {
        let grid = Grid::new(3, 3, 64, columns, rows);
        for built in [Topology::torus(grid), Topology::hyperx(grid), Topology::dragonfly(grid)] {
            let Ok(built) = built else { continue };
            let graph = Graph::of(grid, &Neighbours::of(&built.layout));
            let exact = Cut::of(&graph, &built);
            assert!(exact.exact);
            assert_eq!(cut::exchanged(&graph, &built), exact.circuits, "{:?} {grid:?}", built.form);
        }
    }
}

#[test]
fn dragonflies_are_three_hops_wide_and_their_local_rails_bind() {
    // RailX, Figure 8
    let built = Topology::dragonfly(Grid::new(2, 2, 128, 21, 5)).expect("it fits");
    let measures = Measures::of(&built);
    assert_eq!(measures.diameter, Diameter { hops: Some(3), exact: true });
    let loads = measures.loads.expect("small");
    let formula = Formulas::of(&built).expect("a dragonfly").throughput;
    let achieved = loads.throughput(f64::INFINITY);
    assert!(achieved < 0.7 * formula && achieved > 0.4 * formula, "{achieved} {formula}");
    assert!(measures.cut.throughput > achieved, "the cut alone promises more");
}

#[test]
fn one_node_has_no_cut_and_no_busy_rail() {
    let built = Topology::torus(Grid::new(2, 1, 4, 1, 1)).expect("it fits");
    let measures = Measures::of(&built);
    assert_eq!(measures.diameter.hops, Some(0));
    assert_eq!((measures.cut.circuits, measures.cut.throughput), (0, f64::INFINITY));
    let loads = measures.loads.expect("small");
    assert_eq!(loads.rail, 0.0);
    // 2 x 2 chips: a link carries what its chip has for the next, and what one chip has for the one
    // across the diagonal
    assert!(close(loads.mesh, 2.0 / 3.0), "{loads:?}");
}
