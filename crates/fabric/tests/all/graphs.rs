//! Graphs given link by link: what is wired, which way is taken, and what is refused.

use lightloom_fabric::{
    Cluster, Fabric, FabricError, GpuId, GraphLink, GraphNode, GraphSpec, Item, LinkClass, NicId,
    Role, RouteError, ServerId, build,
};
use lightloom_units::{BitRate, Time};

fn link(a: &str, b: &str, lanes: u32) -> GraphLink {
    let (rate_bps, delay_ps) = (BitRate::from_gbps(100), Time::from_us(1));
    GraphLink { a: a.into(), b: b.into(), rate_bps, delay_ps, lanes }
}

/// Two servers of two NICs on a switch each, the switches joined by two lanes.
fn dumbbell() -> GraphSpec {
    let node = |name: &str, role| GraphNode { name: name.into(), role };
    GraphSpec {
        nodes: vec![
            node("left", Role::Switch),
            node("a", Role::GpuServer),
            node("b", Role::GpuServer),
            node("right", Role::Switch),
        ],
        links: vec![link("a", "left", 2), link("left", "right", 2), link("right", "b", 2)],
    }
}

fn with(spec: GraphSpec, gpus: u32) -> Result<Fabric, FabricError> {
    build(&Cluster::of(gpus, 2), &spec.into(), 1, &[])
}

#[test]
fn a_dumbbell_is_wired_lane_by_lane() {
    let fabric = with(dumbbell(), 4).expect("valid");
    let custom = |l: &&lightloom_fabric::Link| l.class == LinkClass::Custom;
    let rates: Vec<u64> = fabric.links().iter().filter(custom).map(|l| l.rate.bps()).collect();
    let (one, two) = (100_000_000_000, 200_000_000_000);
    assert_eq!(rates, [one, one, one, one, two, two, one, one, one, one]);
    let counts: Vec<_> = fabric.bill().lines().map(|l| (l.item, l.count)).collect();
    assert_eq!(counts, [(Item::Nic, 4), (Item::Transceiver, 12), (Item::SwitchPort, 8)]);
}

/// GPU 1 leaves by its own NIC and arrives at the destination's own, for every key.
#[test]
fn own_nics_are_preferred() {
    let fabric = with(dumbbell(), 4).expect("valid");
    for key in 0..64 {
        let mut path = vec![];
        fabric.route(GpuId(1), GpuId(2), key, &mut path).expect("joined");
        assert_eq!(path.len(), 3);
        assert_eq!(fabric.link(path[0]).from, fabric.nic_node(NicId(1)));
        assert_eq!(fabric.link(path[2]).to, fabric.nic_node(NicId(2)));
    }
}

/// Servers without switches: neighbours talk, others go through them, NICs reach only the NIC
/// at the other end of their cable.
#[test]
fn a_ring_of_servers_relays() {
    let names = ["a", "b", "c", "d"];
    let node = |name: &&str| GraphNode { name: (*name).into(), role: Role::GpuServer };
    let links = (0..4).map(|i| link(names[i], names[(i + 1) % 4], 1)).collect();
    let spec = GraphSpec { nodes: names.iter().map(node).collect(), links };
    let fabric = with(spec, 8).expect("valid");
    let mut path = vec![];
    fabric.route(GpuId(0), GpuId(4), 0, &mut path).expect("joined");
    let hops = path.iter().filter(|&&l| fabric.link(l).class == LinkClass::Custom).count();
    assert_eq!(hops, 2);
    path.clear();
    assert_eq!(fabric.nic_route(NicId(0), NicId(2), 0, &mut path), Ok(()));
    assert_eq!(path.len(), 1);
    let (from, to) = (ServerId(0), ServerId(2));
    let none = Err(RouteError::NoPath { from, to });
    assert_eq!(fabric.nic_route(NicId(0), NicId(4), 0, &mut path), none);
    assert_eq!(path.len(), 1, "nothing is left behind");
}

/// Two leaves that only server a joins: b and c talk through it, but their NICs do not, since that
/// would take a's.
#[test]
fn nics_do_not_reach_through_servers() {
    let node = |name: &str, role| GraphNode { name: name.into(), role };
    let spec = GraphSpec {
        nodes: vec![
            node("a", Role::GpuServer),
            node("b", Role::GpuServer),
            node("c", Role::GpuServer),
            node("left", Role::Switch),
            node("right", Role::Switch),
        ],
        links: vec![
            link("a", "left", 1),
            link("a", "right", 1),
            link("b", "left", 2),
            link("c", "right", 2),
        ],
    };
    let fabric = with(spec, 6).expect("valid");
    let mut path = vec![];
    fabric.route(GpuId(2), GpuId(4), 0, &mut path).expect("joined");
    assert_eq!(path.len(), 6); // up to the left leaf, in and out of a over its scale-up network
    path.clear();
    let (from, to) = (ServerId(1), ServerId(2));
    let none = Err(RouteError::NoPath { from, to });
    assert_eq!(fabric.nic_route(NicId(2), NicId(4), 0, &mut path), none);
    assert!(path.is_empty());
    assert_eq!(fabric.nic_route(NicId(0), NicId(2), 0, &mut path), Ok(()));
    assert_eq!(path.len(), 2);
}

#[test]
fn each_rule_has_a_message() {
    type Change = fn(&mut GraphSpec);
    let cases: [(Change, &str); 10] = [
        (|g| g.links[1].a = "x".into(), "fabric.links[1].a = \"x\": no node of that name"),
        (|g| g.links[1].b = "left".into(), "fabric.links[1].b = \"left\": must be another"),
        (|g| g.links[0].lanes = 0, "fabric.links[0].lanes = 0: must be from 1 to 65536"),
        (|g| g.links[0].rate_bps = BitRate::from_bps(1), "fabric.links[0].rate = 1 bps: must"),
        (|g| g.links[0].delay_ps = Time::MAX, "fabric.links[0].delay = "),
        (|g| g.nodes[3].name = "a".into(), "fabric.nodes[3].name = \"a\": another node has"),
        (|g| g.nodes[3].role = Role::GpuServer, "cluster.gpus = 4: are 2 servers of 2 GPUs, "),
        (|g| g.links[0].lanes = 1, "cluster.nics_per_server = 2: server \"a\" has fewer lanes"),
        (|g| g.links[2].lanes = 3, "cluster.nics_per_server = 2: server \"b\" has more lanes"),
        (|g| drop(g.links.remove(1)), "fabric.links = 2 links: no path joins servers \"a\""),
    ];
    for (change, start) in cases {
        let mut spec = dumbbell();
        change(&mut spec);
        let message = with(spec, 4).expect_err(start).to_string();
        assert!(message.starts_with(start), "{message}");
    }
}
