//! Every kind of network, hop by hop and as links.

use super::walk::walk;
use super::{End, NETWORKS, Network, Routed, fabric};
use crate::ids::GpuId;
use lightloom_units::{BitRate, Time};
use std::collections::HashMap;

/// Every kind in five shapes, odd sizes among them, by every routing it knows.
fn networks() -> impl Iterator<Item = Routed> {
    NETWORKS.iter().flat_map(|kind| {
        let routings = kind.about.capabilities.routings.iter();
        routings.flat_map(|routing| {
            (0..5).map(|n| (kind.example)(n).build(routing, 2).expect("an example is built"))
        })
    })
}

#[test]
fn a_network_has_the_same_nodes_and_links_in_either_view() {
    for (network, routing) in networks() {
        let name = network.name().to_owned();
        let rate = BitRate::from_gbps(100);
        let view = fabric((network.clone(), routing), rate, Time::from_ns(2)).expect("valid");
        assert_eq!(network.channels().len(), view.links().len(), "{name}");
        let (mut nodes, mut links) = (HashMap::new(), HashMap::new());
        for (channel, link) in network.channels().iter().zip(view.links()) {
            assert_eq!(link.rate, rate * u64::from(channel.width));
            assert_eq!(link.delay, Time::from_ns(2) * u64::from(channel.delay));
            let ends = [(channel.from, link.from, 0), (channel.to, link.to, 1)];
            for (End { router, port }, node, way) in ends {
                assert_eq!(*nodes.entry(router).or_insert(node), node, "{name}");
                let (degree, bps) = links.entry((node, way)).or_insert((0, 0));
                (*degree, *bps) = (*degree + 1, *bps + link.rate.bps());
                assert!(port < network.ports(router), "{name}");
            }
        }
        for router in 0..network.routers() {
            let ports = 0..network.ports(router);
            let out: Vec<_> = ports.clone().filter_map(|p| network.out(router, p)).collect();
            let into: Vec<_> = ports.filter_map(|p| Network::into(&network, router, p)).collect();
            for (way, channels) in [out, into].into_iter().enumerate() {
                let width: u64 = channels.iter().map(|c| u64::from(c.width)).sum();
                let here = nodes.get(&router).and_then(|&node| links.get(&(node, way)));
                let wanted = (channels.len(), (rate * width).bps());
                assert_eq!(here.copied().unwrap_or((0, 0)), wanted, "{name}");
            }
        }
        for &chip in network.terminals() {
            let node = view.gpu_node(GpuId(chip));
            assert_eq!(*nodes.get(&chip).unwrap_or(&node), node, "{name}");
        }
    }
}

#[test]
fn routes_are_as_long_as_paths_of_packets() {
    for (network, routing) in networks() {
        let walked = walk(&network, routing.as_ref()).expect("no cycle");
        let rate = BitRate::from_gbps(100);
        let view = fabric((network.clone(), routing), rate, Time::from_ns(2)).expect("valid");
        for (from, to, least, most) in walked {
            let mut path = Vec::new();
            view.route(GpuId(from), GpuId(to), from.into(), &mut path).expect("joined");
            let mut at = view.gpu_node(GpuId(from));
            for &link in &path {
                assert_eq!(view.link(link).from, at, "{}", network.name());
                at = view.link(link).to;
            }
            assert_eq!(at, view.gpu_node(GpuId(to)));
            assert!((least..=most).contains(&(path.len() as u32)), "{}", network.name());
        }
    }
}
