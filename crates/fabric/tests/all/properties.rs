//! What holds for every fabric: routes are chains, splittings agree, dropped links never bind.

use lightloom_fabric::conformance::{chain, dropped, holds, nic_routes, place, routes};
use lightloom_fabric::{
    ClosSpec, Cluster, FABRICS, Fabric, FabricSpec, FatTree, GpuId, GraphLink, GraphNode,
    GraphSpec, Host, LeafSpineSpec, LinkClass, LinkId, MixNetSpec, NicId, NicsAt, RailOptimized,
    Role, ServerId, Splitting, TopoOptSpec, build,
};
use lightloom_units::{BitRate, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

const RATE: BitRate = BitRate::from_gbps(100);
const DELAY: Time = Time::from_us(1);

fn clos(tiers: u8, oversubscription: f64, splitting: Splitting) -> ClosSpec {
    ClosSpec { tiers, oversubscription, splitting, ..ClosSpec::new(RATE, DELAY) }
}

fn with_eps(optical_nics: u32, eps: ClosSpec) -> FabricSpec {
    MixNetSpec { eps, ..MixNetSpec::new(optical_nics, RATE, DELAY) }.into()
}

/// Circuits of TopoOpt: a ring, and chords as far as the degree allows.
fn panel(servers: u32, degree: u32) -> Vec<(ServerId, ServerId)> {
    let hop = |by| move |s| (ServerId(s), ServerId((s + by) % servers));
    match (servers, degree) {
        (1, _) => vec![],
        (2, _) => vec![(ServerId(0), ServerId(1)); degree as usize],
        _ => {
            let strides = (1..=degree / 2).filter(|by| by % servers != 0);
            strides.flat_map(|by| (0..servers).map(hop(by))).collect()
        }
    }
}

/// Servers on two leaves each, half their NICs on either, and leaves joined in a ring.
fn graph(servers: u32, nics: u32, leaves: u32) -> GraphSpec {
    let node = |name: String, role| GraphNode { name, role };
    let link =
        |a: String, b: String, lanes| GraphLink { a, b, rate_bps: RATE, delay_ps: DELAY, lanes };
    let (leaf, server) = (|l: u32| format!("leaf-{}", l % leaves), |s| format!("server-{s}"));
    let nodes = (0..leaves).map(|l| node(leaf(l), Role::Switch));
    let ring = (0..leaves).filter(|_| leaves > 1).map(|l| link(leaf(l), leaf(l + 1), 2));
    let up = (0..servers).flat_map(|s| {
        let halves = [(s, nics / 2), (s + 1, nics - nics / 2)];
        halves.map(|(l, lanes)| link(leaf(l), server(s), lanes))
    });
    GraphSpec {
        nodes: nodes.chain((0..servers).map(|s| node(server(s), Role::GpuServer))).collect(),
        links: ring.chain(up).filter(|link| link.lanes > 0).collect(),
    }
}

/// A cluster, and fabrics of many shapes on it.
fn cases() -> impl Strategy<Value = (Cluster, FabricSpec, u32)> {
    let cluster = (1u32..40, prop::sample::select(vec![1u32, 2, 3, 4, 8]));
    let shape = (2u8..4, 1.0f64..6.0, any::<bool>(), any::<bool>());
    (cluster, shape, 0u32..7, 1u32..8).prop_map(|((servers, per), shape, kind, n)| {
        let (tiers, ratio, ecmp, whole) = shape;
        let ratio = if whole { ratio.floor() } else { ratio };
        let splitting = if ecmp { Splitting::Ecmp } else { Splitting::Ideal };
        let switches = clos(tiers, ratio, splitting);
        let degree = 1 + n % per;
        let mut cluster = Cluster::of(servers * per, per);
        let spec = match kind {
            0 | 1 => FatTree(switches).into(),
            2 => RailOptimized(switches).into(),
            3 if per > 1 => with_eps(1 + n % (per - 1), switches),
            3 => FabricSpec::leaf_spine(RATE, DELAY),
            4 => {
                // Two or three NICs a GPU.
                cluster.nics_per_server = per * (2 + n % 2);
                with_eps(1 + n % (cluster.nics_per_server - 1), switches)
            }
            5 => FabricSpec::topoopt(degree, RATE, DELAY),
            _ => graph(servers, per, n).into(),
        };
        let regions = (1..=servers.min(n)).rev().find(|r| servers % r == 0).unwrap_or(1);
        (cluster, spec, regions)
    })
}

/// The same fabric with another splitting, if it has one.
fn with_splitting(spec: &FabricSpec, splitting: Splitting) -> FabricSpec {
    let clos = |clos: &ClosSpec| ClosSpec { splitting, ..clos.clone() };
    if let Some(FatTree(of)) = spec.keys() {
        FatTree(clos(of)).into()
    } else if let Some(RailOptimized(of)) = spec.keys() {
        RailOptimized(clos(of)).into()
    } else if let Some(of) = spec.keys::<LeafSpineSpec>() {
        LeafSpineSpec { splitting, ..of.clone() }.into()
    } else if let Some(of) = spec.keys::<MixNetSpec>() {
        MixNetSpec { eps: clos(&of.eps), ..of.clone() }.into()
    } else {
        spec.clone()
    }
}

fn build_case(cluster: &Cluster, spec: &FabricSpec, region_servers: u32) -> Fabric {
    let circuits = match spec.keys::<TopoOptSpec>() {
        Some(spec) => panel(cluster.servers(), spec.degree),
        None => vec![],
    };
    build(cluster, spec, region_servers, &circuits).expect("a valid case")
}

fn picks(
    size: impl Into<prop::collection::SizeRange>,
) -> impl Strategy<Value = Vec<(u32, u32, u64)>> {
    prop::collection::vec((any::<u32>(), any::<u32>(), any::<u64>()), size)
}

/// Hosts of all shapes, and a fabric of each kind that can have one.
fn hosted() -> impl Strategy<Value = (Cluster, FabricSpec)> {
    let shape = (1u32..5, 0usize..4, 0usize..4, 0usize..3, 0usize..5, any::<bool>());
    (shape, 0u32..5).prop_map(|((servers, nvlink, switches, numa, nics, at_numa), kind)| {
        let per = 8;
        let numa_nodes = [1, 2, 4][numa];
        let host = Host {
            nvlink_gpus: [1, 2, 4, 8][nvlink],
            pcie_switches: [1, 2, 4, 8][switches].max(numa_nodes),
            nics_at: if at_numa { NicsAt::Numa } else { NicsAt::Switch },
            pcie_bps: BitRate::from_gbps(252),
            pcie_delay_ps: Time::from_ns(150),
            numa_bps: BitRate::from_gbps(300),
            numa_delay_ps: Time::from_ns(100),
        };
        let nics = [1, 2, 4, 8, 16][nics].max(numa_nodes);
        let clos = clos(3, 1.0, Splitting::Ecmp);
        let (spec, nics): (FabricSpec, u32) = match kind {
            0 => (FatTree(clos).into(), nics.min(per)),
            1 => (RailOptimized(clos).into(), nics.min(per)),
            2 => (FabricSpec::leaf_spine(RATE, DELAY), nics.min(per)),
            _ => (with_eps(nics.max(2) / 2, clos), nics.max(2)),
        };
        let cluster = Cluster {
            nics_per_server: nics,
            numa_nodes,
            scale_up_delay_ps: Time::from_ns(1),
            host: Some(host),
            ..Cluster::of(servers * per, per)
        };
        (cluster, spec)
    })
}

proptest! {
    /// Inside a server as outside, and nothing of a server's inside is used by another.
    #[test]
    fn routes_lead_over_hosts((cluster, spec) in hosted(), picks in picks(1..64)) {
        let fabric = build(&cluster, &spec, 1, &[]).expect("a valid case");
        holds(&fabric, &picks);
        for &(a, b, _) in &picks {
            let (gpu, nic) = (GpuId(a % cluster.gpus), NicId(b % cluster.nics()));
            if cluster.server_of(gpu) != cluster.server_of_nic(nic) {
                continue;
            }
            let ends = (fabric.gpu_node(gpu), fabric.nic_node(nic));
            let (mut there, mut back) = (vec![], vec![]);
            cluster.to_nic(gpu, nic, &mut there);
            cluster.from_nic(nic, gpu, &mut back);
            prop_assert_eq!(there.len(), back.len());
            prop_assert!(there.iter().all(|&link| fabric.link(link).class.is_inside()));
            prop_assert_eq!(fabric.link(there[0]).from, ends.0);
            prop_assert_eq!(fabric.link(there[there.len() - 1]).to, ends.1);
            // A GPU's own NIC is as near as any.
            let mut own = vec![];
            cluster.to_nic(gpu, cluster.nic_of(gpu), &mut own);
            let delay = |path: &[LinkId]| path.iter().map(|&l| fabric.link(l).delay).sum::<Time>();
            prop_assert!(delay(&own) <= delay(&there));
        }
    }

    /// Every kind of the list, by its own examples.
    #[test]
    fn every_kind_routes_by_its_links(
        kind in prop::sample::select(FABRICS.to_vec()), n in 0u32..1000, picks in picks(1..64),
    ) {
        holds(&(kind.example)(n), &picks);
    }

    #[test]
    fn routes_are_chains_from_source_to_destination(
        (cluster, spec, region) in cases(), picks in picks(24),
    ) {
        // A degree of one joins no three servers.
        let joined = spec.keys::<TopoOptSpec>().is_none_or(|spec| spec.degree > 1);
        routes(&build_case(&cluster, &spec, region), &picks, joined);
    }

    #[test]
    fn nic_routes_leave_and_arrive_by_the_nics_asked_for(
        (cluster, spec, region) in cases(), picks in picks(24),
    ) {
        nic_routes(&build_case(&cluster, &spec, region), &picks);
    }

    /// The same rate between every two tiers, the same lanes, the same bill, but for what part-filled
    /// switches have besides where every cable is one.
    #[test]
    fn both_splittings_have_the_same_capacity_and_bill(
        (cluster, spec, region) in cases(),
    ) {
        let both = [Splitting::Ideal, Splitting::Ecmp].map(|splitting| {
            let spec = with_splitting(&spec, splitting);
            build_case(&cluster, &spec, region)
        });
        let cuts = both.each_ref().map(|fabric| {
            let mut cuts = BTreeMap::new();
            for link in fabric.links() {
                let cut = cuts.entry(link.class).or_insert((0, 0));
                *cut = (cut.0 + link.rate.bps(), cut.1 + link.lanes);
            }
            cuts
        });
        let [ideal, ecmp] = cuts;
        prop_assert!(ideal.keys().eq(ecmp.keys()));
        for (class, &(rate, lanes)) in &ideal {
            // A bit a second a lane is lost to rounding.
            let cut = ecmp[class];
            prop_assert!(cut.0 + u64::from(cut.1) >= rate && cut.1 >= lanes, "{}", class);
        }
        if ideal == ecmp {
            prop_assert_eq!(both[0].bill(), both[1].bill());
        }
        for line in both[0].bill().lines() {
            prop_assert!(both[1].bill().count(line.item, line.rate) >= line.count);
        }
    }

    /// Non-blocking is non-blocking, however full the last switches are: if every NIC sends to one other
    /// and spreads that evenly over all paths, no link carries more than its rate, or more than the
    /// over-subscription times it.
    #[test]
    fn even_shares_of_a_permutation_fit_every_link(
        gpus in 2u32..300, shape in (2u8..4, 1.0f64..4.0, any::<bool>(), any::<bool>()),
        seed in any::<u64>(),
    ) {
        let (tiers, ratio, tapered, rails) = shape;
        let ratio = if tapered { ratio } else { 1.0 };
        let spec = clos(tiers, ratio, Splitting::Ecmp);
        let spec = if rails { RailOptimized(spec).into() } else { FatTree(spec).into() };
        let cluster = if rails { Cluster::of(gpus.next_multiple_of(4), 4) } else { Cluster::of(gpus, 1) };
        let fabric = build(&cluster, &spec, 4, &[]).expect("valid");
        let mut to: Vec<u32> = (0..cluster.nics()).collect();
        let mut state = seed;
        for i in (1..to.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            to.swap(i, (state >> 33) as usize % (i + 1));
        }
        let mut carried = vec![0.0; fabric.links().len()];
        let mut path = Vec::new();
        for (from, &to) in to.iter().enumerate().filter(|&(from, &to)| from as u32 != to) {
            let (from, to) = (NicId(from as u32), NicId(to));
            let paths = fabric.nic_paths(from, to);
            for index in 0..paths {
                path.clear();
                fabric.nic_path(from, to, index, &mut path);
                for link in &path {
                    carried[link.index()] += RATE.bps() as f64 / f64::from(paths);
                }
            }
        }
        for (link, carried) in fabric.links().iter().zip(carried) {
            let most = link.rate.bps() as f64 * if link.class == LinkClass::Host { 1.0 } else { ratio };
            prop_assert!(carried <= most * (1.0 + 1e-6), "{link:?} carries {carried}");
        }
    }

    #[test]
    fn links_that_never_bind_do_not(
        (cluster, spec, region) in cases(), picks in picks(1..200),
    ) {
        dropped(&build_case(&cluster, &spec, region), &picks);
    }
}

/// Dropped links are an exact saving: without over-subscription and with ideal splitting nothing
/// between the switches is left, and with 3:1 only the first tier is.
#[test]
fn which_links_never_bind() {
    let dropped = |spec: &FabricSpec| {
        let fabric = build(&Cluster::of(1024, 8), spec, 4, &[]).expect("valid");
        let mut dropped = BTreeMap::new();
        for (index, link) in fabric.links().iter().enumerate() {
            let never = fabric.never_binds(LinkId(index as u32));
            assert_eq!(*dropped.entry(link.class).or_insert(never), never);
        }
        dropped.into_iter().filter(|entry| entry.1).map(|entry| entry.0).collect::<Vec<_>>()
    };
    let [first, second] = [1, 2].map(|tier| LinkClass::Uplink { tier });
    let fat_tree = |ratio, splitting| -> FabricSpec { FatTree(clos(3, ratio, splitting)).into() };
    assert_eq!(dropped(&fat_tree(1.0, Splitting::Ideal)), [first, second]);
    assert_eq!(dropped(&fat_tree(3.0, Splitting::Ideal)), [second]);
    assert_eq!(dropped(&fat_tree(1.0, Splitting::Ecmp)), []);
    assert_eq!(dropped(&FabricSpec::mixnet(6, RATE, DELAY)), [first, second]);
}

/// With ECMP the flows of one pair find every core, and evenly.
#[test]
fn ecmp_uses_every_path_evenly() {
    let spec = FatTree(clos(3, 1.0, Splitting::Ecmp)).into();
    let fabric = build(&Cluster::of(1024, 8), &spec, 1, &[]).expect("valid");
    let mut uses: BTreeMap<LinkId, u32> = BTreeMap::new();
    for key in 0..64_000 {
        let mut path = Vec::new();
        fabric.route(GpuId(0), GpuId(1023), key, &mut path).expect("GPUs of the cluster");
        *uses.entry(path[2]).or_default() += 1;
    }
    assert_eq!(uses.len(), 64, "radix 16: 8 aggregation switches of 8 cores each");
    assert!(uses.values().all(|&n| n.abs_diff(1000) < 190), "{uses:?}");
}

/// Rail-optimized: traffic between servers of a unit crosses one switch, whichever GPUs.
#[test]
fn rails_are_one_switch_apart_within_a_unit() {
    let spec = FabricSpec::rail_optimized(RATE, DELAY);
    let fabric = build(&Cluster::of(1024, 8), &spec, 1, &[]).expect("valid");
    let classes = |a, b| {
        let mut path = Vec::new();
        fabric.route(GpuId(a), GpuId(b), 0, &mut path).expect("GPUs of the cluster");
        path.iter().map(|&l| fabric.link(l).class).collect::<Vec<_>>()
    };
    use LinkClass::{Host, ScaleUp};
    assert_eq!(classes(0, 56), [Host, Host]);
    assert_eq!(classes(0, 63), [ScaleUp, ScaleUp, Host, Host]);
    assert_eq!(classes(0, 64).len(), 6, "the next unit is in the next pod");
}

/// MixNet spreads packet traffic over both NICs, and its circuits stay within their region.
#[test]
fn mixnet_wires_what_the_paper_shows() {
    let spec = FabricSpec::mixnet(6, RATE, DELAY);
    let fabric = build(&Cluster::of(64, 8), &spec, 4, &[]).expect("valid");
    let first_host = |gpu| {
        let mut path = Vec::new();
        fabric.route(GpuId(gpu), GpuId(63), 0, &mut path).expect("GPUs of the cluster");
        let host = path.iter().map(|&l| fabric.link(l)).find(|l| l.class == LinkClass::Host);
        place(&fabric, host.expect("between servers").from).0
    };
    assert_eq!((0..8).map(first_host).collect::<Vec<_>>(), [0, 0, 0, 0, 4, 4, 4, 4]);
    for server in fabric.servers() {
        for &local in fabric.optical_nics(server) {
            let nic = fabric.cluster().nic(server, local);
            let (tx, rx) = (fabric.circuit_tx(nic).unwrap(), fabric.circuit_rx(nic).unwrap());
            assert_eq!(fabric.link(tx).from, fabric.nic_node(nic));
            assert_eq!(fabric.link(rx).to, fabric.nic_node(nic));
            assert_eq!(fabric.link(tx).to, fabric.link(rx).from);
            let region = fabric.region_of(server).expect("every server is in one");
            let kind = fabric.nodes()[fabric.link(tx).to.index()].kind;
            assert_eq!(kind, lightloom_fabric::NodeKind::Ocs { region });
        }
    }
    assert_eq!(fabric.regions(), 2);
    assert_eq!(fabric.circuit_tx(NicId(4)), None);
    assert_eq!(fabric.region_of(ServerId(8)), None);
}

/// Every legal shape of the switch fills: k^3 / 4 hosts in three tiers, k^2 / 2 in two.
#[test]
fn switches_hold_as_many_as_they_should() {
    for (tiers, radix, room) in [(3, 4, 16), (3, 16, 1024), (2, 8, 32), (2, 46, 1058)] {
        let at = |gpus| {
            let spec = ClosSpec { radix: Some(radix), ..clos(tiers, 1.0, Splitting::Ecmp) };
            build(&Cluster::of(gpus, 1), &FatTree(spec).into(), 1, &[])
        };
        assert!(at(room).is_ok());
        let error = at(room + 1).expect_err("one too many");
        let next = radix + 2;
        assert!(error.reason.ends_with(&format!("must be at least {next}")), "{error}");
    }
}

/// No table grows with pairs of hosts: 32,768 GPUs are no matter, even with every switch a node.
#[test]
fn large_clusters_build() {
    for spec in [
        FatTree(clos(3, 1.0, Splitting::Ecmp)).into(),
        FabricSpec::rail_optimized(RATE, DELAY),
        FabricSpec::mixnet(6, RATE, DELAY),
    ] {
        let fabric = build(&Cluster::of(32_768, 8), &spec, 4, &[]).expect("valid");
        let mut path = Vec::new();
        fabric.route(GpuId(0), GpuId(32_767), 1, &mut path).expect("GPUs of the cluster");
        chain(&fabric, GpuId(0), GpuId(32_767), &path);
    }
}
