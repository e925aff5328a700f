//! The suite that every kind of fabric must pass: [`check`].
//!
//! Checked, on a kind's own examples and random picks of GPUs: a route is a chain of links from where it
//! should begin to where it should end, over packets by the NICs asked for; links said never to bind do
//! not; nothing on the bill counts zero, circuits that stand are joined at one switch, and a key that the
//! kind does not have is refused.

use crate::around::Left;
use crate::error::RouteError;
use crate::graph::Fabric;
use crate::ids::{GpuId, LinkId, NicId, NodeId};
use crate::kind::FabricKind;
use crate::wires::{LinkClass, NodeKind};
use std::collections::HashSet;

/// Random numbers to pick ends and a key by.
pub type Picks<'a> = &'a [(u32, u32, u64)];

/// Panics where a kind breaks a promise.
pub fn check(kind: &FabricKind) {
    let asked = serde_json::json!({"colour": "red"});
    let error = kind.read(asked).expect_err("an unknown key").to_string();
    assert!(error.starts_with("unknown field `colour`"), "{error}");
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    for n in 0..40 {
        let picks: Vec<_> = (0..40).map(|_| (draw(), draw(), u64::from(draw()))).collect();
        holds(&(kind.example)(n), &picks);
    }
}

/// Panics where a fabric whose servers are all joined breaks a promise.
pub fn holds(fabric: &Fabric, picks: Picks<'_>) {
    routes(fabric, picks, true);
    nic_routes(fabric, picks);
    dropped(fabric, picks);
    around(fabric, picks);
    assert!(fabric.bill().lines().all(|line| line.count > 0));
    for (tx, rx) in fabric.standing() {
        assert_eq!(fabric.link(tx).to, fabric.link(rx).from);
    }
}

/// Where `node` is in the world outside: a NIC is as good as its GPU, no link joins the two, unless the
/// cluster has a host.
pub fn place(fabric: &Fabric, node: NodeId) -> NodeId {
    if fabric.cluster().host.is_some() {
        return node;
    }
    let first_nic = fabric.nic_node(NicId(0)).0;
    let nic = node.0.wrapping_sub(first_nic);
    if nic < fabric.cluster().nics() {
        return fabric.gpu_node(fabric.cluster().gpu_of(NicId(nic)));
    }
    node
}

/// Panics unless `path` is a chain of links from one GPU to another that uses no link twice and
/// passes no node twice, but for GPUs that relay between their NIC and the scale-up network, and
/// optical switches, through which it may take several circuits.
pub fn chain(fabric: &Fabric, from: GpuId, to: GpuId, path: &[LinkId]) {
    chain_of(fabric, (fabric.gpu_node(from), fabric.gpu_node(to)), path);
}

/// Likewise from one place to another.
fn chain_of(fabric: &Fabric, (from, to): (NodeId, NodeId), path: &[LinkId]) {
    let mut at = from;
    for &link in path {
        let link = fabric.link(link);
        assert_eq!(place(fabric, link.from), at, "a gap in {path:?}");
        at = place(fabric, link.to);
    }
    assert_eq!(at, to, "the wrong end of {path:?}");
    let distinct: HashSet<_> = path.iter().collect();
    assert_eq!(distinct.len(), path.len(), "a link twice in {path:?}");
    // Up to a switch and back to the same NIC is one of its paths.
    let mut seen: HashSet<_> = (from != to).then_some(from).into_iter().collect();
    let optical = |node: NodeId| matches!(fabric.nodes()[node.index()].kind, NodeKind::Ocs { .. });
    let fresh = |node| optical(node) || seen.insert(node);
    assert!(path.iter().map(|&l| fabric.link(l).to).all(fresh), "a loop in {path:?}");
}

/// Paths over what is left without a switch lead from source to destination over nothing that is cut.
fn around(fabric: &Fabric, picks: Picks<'_>) {
    // Shortest paths do not know what servers are inside.
    if fabric.cluster().host.is_some() {
        return;
    }
    let Some(&(first, ..)) = picks.first().filter(|_| !fabric.switches().is_empty()) else {
        return;
    };
    let names: HashSet<_> = fabric.switches().iter().map(|switch| &switch.name).collect();
    assert_eq!(names.len(), fabric.switches().len(), "a name twice");
    let switch = &fabric.switches()[first as usize % fabric.switches().len()];
    let cuts = fabric.cables_of(switch);
    assert!(cuts.iter().all(|cut| cut.cable < cut.of));
    let down: HashSet<LinkId> = cuts.iter().filter(|cut| cut.of == 1).map(|cut| cut.link).collect();
    let left = Left::new(fabric, |link| down.contains(&link), |_| false);
    let (cluster, mut path) = (fabric.cluster(), Vec::new());
    for &(a, b, key) in picks {
        let (a, b) = (GpuId(a % cluster.gpus), GpuId(b % cluster.gpus));
        let (from, to) = (cluster.server_of(a), cluster.server_of(b));
        path.clear();
        if from != to {
            assert_eq!(left.route(a, b, key, &mut path), left.joins(from, to));
            assert!(left.holds(&path) && path.iter().all(|link| !down.contains(link)));
            if !path.is_empty() {
                chain(fabric, a, b, &path);
            }
            path.clear();
            let (exit, entry) = (cluster.nic_of(a), cluster.nic_of(b));
            if left.nic_route(exit, entry, key, &mut path) {
                assert!(left.holds(&path));
                chain(fabric, a, b, &path);
            }
        }
    }
}

/// Routes lead from source to destination; `joined`: over packets, every two servers.
pub fn routes(fabric: &Fabric, picks: Picks<'_>, joined: bool) {
    let (cluster, mut path) = (fabric.cluster(), Vec::new());
    for &(a, b, key) in picks {
        let (a, b) = (GpuId(a % cluster.gpus), GpuId(b % cluster.gpus));
        path.clear();
        match fabric.route(a, b, key, &mut path) {
            Ok(()) => chain(fabric, a, b, &path),
            Err(RouteError::NotOnPacketFabric { .. }) => {
                assert!(fabric.packet_nics(cluster.server_of(a)).is_empty());
                assert!(path.is_empty());
            }
            Err(RouteError::NoPath { .. }) => assert!(!joined && path.is_empty()),
            Err(other) => panic!("{other}"),
        }
        let (a, b) = (cluster.server_of(a), cluster.server_of(b));
        for path in fabric.panel_paths(a, b) {
            let ends = (fabric.link(path[0]).from, fabric.link(path[path.len() - 1]).to);
            let gpus = (GpuId(place(fabric, ends.0).0), GpuId(place(fabric, ends.1).0));
            assert_eq!((cluster.server_of(gpus.0), cluster.server_of(gpus.1)), (a, b));
            chain(fabric, gpus.0, gpus.1, &path);
        }
    }
}

/// Routes over packets leave and arrive by the NICs asked for.
pub fn nic_routes(fabric: &Fabric, picks: Picks<'_>) {
    let cluster = fabric.cluster();
    let on_packets = |nic| {
        let packet = fabric.packet_nics(cluster.server_of_nic(nic));
        packet.contains(&cluster.local_nic(nic))
    };
    for &(a, b, key) in picks {
        let (a, b) = (NicId(a % cluster.nics()), NicId(b % cluster.nics()));
        let ends = (place(fabric, fabric.nic_node(a)), place(fabric, fabric.nic_node(b)));
        let mut path = vec![];
        match fabric.nic_route(a, b, key, &mut path) {
            Ok(()) => {
                assert!(on_packets(a) && on_packets(b));
                chain_of(fabric, ends, &path);
                let packets = |class| {
                    use LinkClass::{Custom, Host, Uplink};
                    matches!(class, Host | Uplink { .. } | Custom)
                };
                assert!(path.iter().all(|&l| packets(fabric.link(l).class)));
            }
            Err(RouteError::NotOnPacketFabric { nic }) => assert!(!on_packets(nic)),
            // Of rails that are not joined.
            Err(RouteError::NoPath { .. }) => {
                assert!(path.is_empty() && fabric.nic_paths(a, b) == 0);
                assert_ne!(cluster.local_nic(a), cluster.local_nic(b));
            }
            Err(other) => panic!("{other}"),
        }
        for index in 0..fabric.nic_paths(a, b) {
            path.clear();
            fabric.nic_path(a, b, index, &mut path);
            chain_of(fabric, ends, &path);
        }
    }
}

/// Random traffic that fits every link that is kept also fits those that are dropped: scaled until the
/// fullest of the kept is exactly full, no dropped link carries more than its rate.
pub fn dropped(fabric: &Fabric, picks: Picks<'_>) {
    let cluster = fabric.cluster();
    let mut load = vec![0.0; fabric.links().len()];
    let mut path = Vec::new();
    for &(a, b, amount) in picks {
        let (a, b) = (GpuId(a % cluster.gpus), GpuId(b % cluster.gpus));
        path.clear();
        if fabric.route(a, b, amount, &mut path).is_ok() {
            let amount = 1.0 + (amount % 99) as f64;
            path.iter().for_each(|link| load[link.0 as usize] += amount);
        }
    }
    let fill = |kept: bool| {
        let links = fabric.links().iter().enumerate();
        let of_kind = links.filter(|(l, _)| kept != fabric.never_binds(LinkId(*l as u32)));
        of_kind.map(|(l, link)| load[l] / link.rate.bps() as f64).fold(0.0, f64::max)
    };
    assert!(fill(false) <= fill(true) * (1.0 + 1e-9));
}
