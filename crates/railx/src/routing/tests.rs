use super::*;
use crate::deadlock::{Unsafe, check};
use crate::measure::{channel_loads, throughput};
use crate::topology::{DimensionSpec, Share, Wiring};
use lightloom_fabric::railx::{Axis, Grid};
use lightloom_fabric::routers::{ChannelKind, Choice, Network, RailxLinks, railx};
use std::collections::{HashMap, VecDeque};

/// The bounds of readings under Algorithm 1, at m = 4 and n = 2: rails carry 0.890 of a load of 1.
#[test]
fn loads_of_the_hyperx_of_1296_chips() {
    let topology = Topology::hyperx(Grid::new(4, 2, 128, 9, 9)).expect("nine nodes a line");
    let routing = Minimal::new(&topology, 1).expect("three classes");
    let inside = |inside_width| {
        railx(&topology.layout, RailxLinks { inside_width, ..RailxLinks::default() })
    };
    let network = inside(1);
    let loads = channel_loads(&network, &routing).expect("every packet arrives");
    let worst = |kind| {
        let of = network.channels().iter().zip(&loads).filter(|(c, _)| c.kind == kind);
        of.map(|(_, load)| *load).fold(0.0, f64::max)
    };
    assert!((worst(ChannelKind::Long) - 0.890).abs() < 0.001);
    assert!((worst(ChannelKind::Short) - 2.78).abs() < 0.01);
    // How wide links are changes what they can carry, not where packets go.
    for (inside_width, bound) in [(1, 0.36), (2, 0.72), (4, 1.12), (8, 1.12)] {
        assert!((throughput(&inside(inside_width), &loads) - bound).abs() < 0.005);
    }
}

/// Straight on along the chips, all rails of a torus carry the same: in either direction of a ring
/// of `k` nodes the mean way is `(k^2 - 1) / 8k` rails if `k` is odd, `k / 8` if even. Nearest exits
/// let less than half of it through.
#[test]
fn a_torus_loads_its_rails_alike() {
    for (nodes, mean) in [(5.0, 24.0 / 40.0), (4.0, 0.5)] {
        let grid = Grid::new(3, 2, 16, nodes as u32, nodes as u32);
        let topology = Topology::torus(grid).expect("a torus");
        let network = railx(&topology.layout, RailxLinks { inside_width: 4, ..Default::default() });
        let bound = |routing: &dyn Routing| {
            throughput(&network, &channel_loads(&network, routing).expect("every packet arrives"))
        };
        let straight = bound(&ChipTorus::new(&topology, 1).expect("a torus"));
        let chips = 9.0 * nodes * nodes;
        let rail = 3.0 * mean / 2.0 * chips / (chips - 1.0);
        assert!((straight * rail - 1.0).abs() < 1e-9, "{straight} {rail}");
        assert!(straight > 2.0 * bound(&Minimal::new(&topology, 1).expect("five classes")));
    }
}

fn part(wiring: Wiring, scale: u32, rails: u32) -> DimensionSpec {
    DimensionSpec { wiring, scale, rails }
}

/// All kinds of topologies, small.
fn topologies() -> Vec<(&'static str, Topology)> {
    use Wiring::{AllToAll, Ring};
    let split = |mesh, ports, x: &[DimensionSpec], y: &[DimensionSpec], share| {
        Topology::split(Grid::new(mesh, ports, 64, 1, 1), x, y, share).expect("a split")
    };
    let balanced = Share::Balanced;
    vec![
        ("torus 4x3 of 2x2", Topology::torus(Grid::new(2, 1, 16, 4, 3)).expect("a torus")),
        ("torus 2x5 of 2x2", Topology::torus(Grid::new(2, 2, 16, 2, 5)).expect("a torus")),
        ("torus 6x1 of 3x3", Topology::torus(Grid::new(3, 1, 16, 6, 1)).expect("a torus")),
        ("torus 5x5 of one", Topology::torus(Grid::new(1, 2, 16, 5, 5)).expect("a torus")),
        ("hyperx 5x5 of 2x2", Topology::hyperx(Grid::new(2, 2, 16, 5, 5)).expect("a HyperX")),
        ("hyperx 3x2 of 3x3", Topology::hyperx(Grid::new(3, 2, 16, 3, 2)).expect("a HyperX")),
        ("hyperx 5x3 of one", Topology::hyperx(Grid::new(1, 4, 16, 5, 3)).expect("a HyperX")),
        (
            "rings and all-to-all",
            split(2, 2, &[part(AllToAll, 3, 1), part(Ring, 3, 1)], &[part(Ring, 4, 2)], balanced),
        ),
        ("uneven", split(2, 2, &[part(AllToAll, 3, 3), part(Ring, 2, 1)], &[], Share::Uneven)),
        (
            "torus of three dimensions",
            split(2, 2, &[part(Ring, 3, 1), part(Ring, 2, 1)], &[part(Ring, 3, 1)], balanced),
        ),
        ("dragonfly", Topology::dragonfly(Grid::new(2, 1, 32, 7, 3)).expect("a dragonfly")),
        ("dragonfly, one row", Topology::dragonfly(Grid::new(2, 2, 32, 5, 1)).expect("groups")),
    ]
}

#[test]
fn every_topology_and_routing_is_free_of_deadlock() {
    for (title, topology) in topologies() {
        let network = railx(&topology.layout, RailxLinks::default());
        for name in ROUTINGS {
            for vcs in [1, 2, 4, 7, 8] {
                let Ok(routing) = select(&topology, name, vcs) else { continue };
                assert!(routing.vcs() <= vcs, "{title}, {name}");
                let found = check(&network, routing.as_ref());
                let found = found.unwrap_or_else(|e| panic!("{title}, {name}, {vcs} VCs: {e}"));
                assert!(found.bubbles == 0 || name == "bubble", "{title}, {name}, {vcs}");
                let rings = name == "bubble" && title.starts_with("torus ");
                assert!(found.bubbles > 0 || !rings, "{title}, {name}, {vcs}");
                assert!(found.hops > 0);
            }
        }
    }
}

#[test]
fn which_routing_suits_which_topology() {
    for (title, topology) in topologies() {
        assert!(select(&topology, "deterministic", 16).is_ok(), "{title}");
        assert!(select(&topology, "adaptive", 16).is_ok(), "{title}");
        let groups = topology.form == Form::Dragonfly;
        let plain = title.starts_with("torus ") && !title.contains("three");
        let plain = plain || title.starts_with("hyperx");
        assert_eq!(select(&topology, "non-minimal", 16).is_ok(), plain || groups, "{title}");
        assert_eq!(select(&topology, "bubble", 16).is_ok(), plain, "{title}");
    }
}

#[test]
fn too_few_virtual_channels_are_refused() {
    let torus = Topology::torus(Grid::new(2, 1, 16, 4, 4)).expect("a torus");
    let hyperx = Topology::hyperx(Grid::new(2, 2, 16, 5, 5)).expect("a HyperX");
    let dragonfly = Topology::dragonfly(Grid::new(2, 1, 32, 7, 3)).expect("a dragonfly");
    for (topology, name, needed) in [
        (&torus, "deterministic", 2),
        (&torus, "adaptive", 5),
        (&torus, "non-minimal", 2),
        (&torus, "bubble", 1),
        (&hyperx, "deterministic", 3),
        (&hyperx, "adaptive", 3),
        (&hyperx, "non-minimal", 2),
        (&dragonfly, "deterministic", 4),
        (&dragonfly, "adaptive", 4),
        (&dragonfly, "non-minimal", 6),
    ] {
        let message = select(topology, name, needed - 1).err().expect("refused");
        assert!(message.ends_with(&format!("from {needed} on")), "{message}");
        assert_eq!(select(topology, name, needed).expect("enough").vcs(), needed);
    }
    assert!(select(&torus, "magic", 8).err().expect("unknown").contains("allowed: deterministic"));
    let long = Topology::torus(Grid::new(1, 1, 128, 40, 1)).expect("a ring");
    assert!(select(&long, "adaptive", 16).err().expect("long").contains("takes 21 virtual"));
}

/// A routing function whose virtual channels are all one.
struct Merged(Box<dyn Routing + Send>);

impl Routing for Merged {
    fn name(&self) -> &'static str {
        "merged"
    }
    fn vcs(&self) -> u8 {
        1
    }
    fn route(&self, at: u32, came: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
        self.0.route(at, came, to, 0, choices);
        choices.iter_mut().for_each(|choice| choice.vc = 0);
    }
}

#[test]
fn a_torus_without_datelines_is_caught() {
    for (columns, mesh) in [(4, 2), (5, 1)] {
        let topology = Topology::torus(Grid::new(mesh, 1, 16, columns, 1)).expect("a torus");
        let network = railx(&topology.layout, RailxLinks::default());
        let merged = Merged(select(&topology, "deterministic", 2).expect("enough"));
        let Err(Unsafe::Deadlock(circle)) = check(&network, &merged) else {
            panic!("a ring with one virtual channel deadlocks")
        };
        assert!(circle.len() as u32 >= columns);
    }
}

/// Rails between two nodes at least, by search.
fn rails_between(topology: &Topology, from: u32) -> Vec<u32> {
    let neighbours = lightloom_fabric::railx::Neighbours::of(&topology.layout);
    let mut far = vec![u32::MAX; topology.layout.grid.nodes() as usize];
    far[from as usize] = 0;
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        for (.., next) in neighbours.ends(node) {
            if far[next as usize] == u32::MAX {
                far[next as usize] = far[node as usize] + 1;
                queue.push_back(next);
            }
        }
    }
    far
}

/// The most rails and the most mesh hops on any path that takes choices of a rank up to `rank`.
fn longest(network: &Network, routing: &dyn Routing, from: u32, to: u32) -> (u32, u32) {
    type State = (u32, Option<(u16, u8)>);
    fn walk(
        of: (&Network, &dyn Routing, u32),
        state: State,
        known: &mut HashMap<State, (u32, u32)>,
    ) -> (u32, u32) {
        let (network, routing, to) = of;
        if state.0 == to {
            return (0, 0);
        }
        if let Some(&far) = known.get(&state) {
            return far;
        }
        let mut choices = Vec::new();
        routing.route(state.0, state.1, to, 0, &mut choices);
        let mut most = (0, 0);
        for choice in choices {
            let channel = network.out(state.0, choice.port).expect("a channel");
            let came = Some((channel.to.port, choice.vc));
            let (rails, mesh) = walk(of, (channel.to.router, came), known);
            let rail = u32::from(channel.kind == ChannelKind::Long);
            most = (most.0.max(rails + rail), most.1.max(mesh + 1 - rail));
        }
        known.insert(state, most);
        most
    }
    walk((network, routing, to), (from, None), &mut HashMap::new())
}

/// Minimal routing takes as few rails as can be, and a HyperX's mesh hops are within the paper's.
#[test]
fn minimal_routing_is_minimal() {
    for (title, topology) in topologies() {
        let grid = topology.layout.grid;
        let network = railx(&topology.layout, RailxLinks::default());
        let chips = grid.mesh * grid.mesh;
        for name in ["deterministic", "adaptive"] {
            let Ok(routing) = select(&topology, name, 16) else { continue };
            for from in (0..network.routers()).step_by(7) {
                let far = rails_between(&topology, from / chips);
                for to in (0..network.routers()).filter(|&to| to != from).step_by(2) {
                    let (rails, mesh) = longest(&network, routing.as_ref(), from, to);
                    let least = far[(to / chips) as usize];
                    if topology.form == Form::Dragonfly {
                        assert!(least <= rails && rails <= 3, "{title}: {from} to {to}");
                    } else {
                        assert_eq!(rails, least, "{title}, {name}: {from} to {to}");
                    }
                    if title.starts_with("hyperx") && name == "deterministic" {
                        assert!(mesh <= (5 * grid.mesh).saturating_sub(5), "{title}: {mesh}");
                    }
                }
            }
        }
    }
}

/// A packet whose direct rail is taken has others to go by, until its free hops are spent.
#[test]
fn packets_may_go_astray() {
    let topology = Topology::hyperx(Grid::new(2, 2, 16, 5, 5)).expect("a HyperX");
    let grid = topology.layout.grid;
    let routing = NonMinimal::new(&topology, 3, false, 1).expect("eight virtual channels");
    let network = railx(&topology.layout, RailxLinks::default());
    // From a chip with a rail to its goal, along the row of nodes.
    let from = (0..4).find(|&chip| {
        let mut choices = Vec::new();
        routing.route(chip, None, grid.chip(1, 0, 0), 0, &mut choices);
        choices.iter().any(|c| c.rank == 0 && network.out(chip, c.port).unwrap().to.router / 4 == 1)
    });
    let from = from.expect("two of four chips have such a rail");
    let mut choices = Vec::new();
    routing.route(from, None, grid.chip(1, 0, 0), 0, &mut choices);
    let astray = |c: &Choice| c.rank == 100;
    let nodes: Vec<u32> = choices
        .iter()
        .filter(|c| astray(c))
        .map(|c| network.out(from, c.port).expect("wired").to.router / 4)
        .collect();
    assert!(!nodes.is_empty() && nodes.iter().all(|&node| node != 1 && node < 5), "{nodes:?}");
    // In the last class there is nothing but the torus.
    choices.clear();
    routing.route(from, Some((0, 6)), grid.chip(1, 0, 0), 0, &mut choices);
    assert!(choices.iter().all(|c| c.vc >= 6 && !astray(c)), "{choices:?}");
}

#[test]
fn axes_without_rings_are_named() {
    // Seven nodes have six rings: rails 6 and 7 are dark, and so mesh lines 6 and 7 with one port.
    let topology = Topology::hyperx(Grid::new(8, 1, 32, 7, 2)).expect("a HyperX");
    let message = select(&topology, "non-minimal", 8).err().expect("dark lines");
    assert!(message.contains("no rail of mesh line 6"), "{message}");
    assert_eq!(topology.layout.rings(Axis::X, 0, 6), [[0_u32; 0]; 0]);
}
