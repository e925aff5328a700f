//! MixNet: of each server's NICs some are on the optical switch of its region, the others on packet
//! switches that join all servers (MixNet Sections 4 and 5).
//!
//! Modelled: a region is `region_servers` consecutive servers, the ones that hold one block of
//! expert-parallel GPUs. The packet NICs are spread evenly over a server, and so over its NUMA nodes:
//! 0 and 4 of eight; a GPU uses the nearest at or below its own index. A circuit is two links, into
//! the optical switch and out of it; which two belong together is decided elsewhere. An optical NIC may
//! be broken out (Section 9) into circuits of a share of its rate each; its packet NICs are not. The
//! bill counts one NIC and one transceiver for each optical NIC, and for each circuit that may end there
//! one port of two directions, or with circulators half of one and a circulator. Where these are ports
//! co-packaged with GPUs (Section 8), it counts one such port in place of NIC and transceiver; with
//! `n` NICs a GPU, the first is its packet NIC and the others its ports if `n - 1` of `n` are optical.
//! Servers that stand in for others come last and belong to no region: they have packet NICs only, or
//! only optical ones, on a region's switch.
//! Ignored: loss of light, and that a device larger than its region could serve two; with circulators,
//! which side of the switch a fibre is on: any two can be joined.
//! Checked: routes by the crate's properties; the limit of ports; the bill against MixNet Table 4's
//! prices.

use crate::bill::Item;
use crate::clos::{Clos, ClosSpec, shape};
use crate::cluster::Cluster;
use crate::error::{FabricError, RouteError};
use crate::gateway::Gateways;
use crate::graph::{Routes, Switches};
use crate::ids::{GpuId, LinkId, NicId, ServerId};
use crate::kind::{Backup, Capabilities, FabricKeys, FabricKind, FabricSpec, Site, example};
use crate::ocs::{
    ActivationDelay, Gradients, OcsSpec, ReconfigurationDelay, Reconfigure, ReconfigurePolicy,
    Start,
};
use crate::wires::{Cable, LinkClass, NodeKind, Wires, back};
use lightloom_units::kind::Kind;
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

/// MixNet: some NICs of a server on its region's optical switch, the others on packet switches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixNetSpec {
    /// NICs a server on the optical switch (the paper's alpha).
    pub optical_nics: u32,
    /// Whether the optical NICs are ports co-packaged with GPUs (MixNet Section 8).
    #[serde(default)]
    pub co_packaged: bool,
    /// The electrical packet switches.
    pub eps: ClosSpec,
    /// The optical circuit switch of each region.
    pub ocs: OcsSpec,
    /// When circuits change. Nothing in this crate reads it.
    pub reconfigure: Reconfigure,
    /// By which rule circuits are chosen, of those of `lightloom-decide`. Nothing in this crate reads it.
    pub decision: String,
    /// Whether circuits change only where that pays for the dark time. Nothing here reads it.
    pub hysteresis: bool,
    /// Whether Algorithm 1 goes on past the first pair without a free port. Nothing here reads it.
    pub greedy_continue: bool,
    /// Whether pairs with circuits use packet switches too. Nothing in this crate reads it.
    pub share_eps: bool,
}

const ABOUT: Kind<Capabilities> = Kind {
    name: "mixnet",
    summary: "Some NICs of each server on reconfigurable circuits of a region, the rest on packets",
    source: None,
    keys: &[],
    capabilities: Capabilities {
        medium: "circuits",
        carriers: &["delegate"],
        failures: &["nic", "link", "ocs-port", "eps", "ocs", "switch", "gpu", "server"],
        regions: true,
        many_nics: true,
        switches: Some("fabric.eps"),
        parts: &["eps", "ocs"],
        ..Capabilities::SWITCHED
    },
};

/// See [`MixNetSpec`].
pub static KIND: FabricKind = FabricKind::of::<MixNetSpec>(ABOUT, |n| {
    example(n, 2, |cluster| {
        let optical_nics = 1 + n % (cluster.nics_per_server - 1);
        let mut spec = MixNetSpec::new(optical_nics, BitRate::from_gbps(100), Time::from_us(1));
        spec.ocs.breakout = [1, 2, 4, 8][n as usize % 4];
        MixNetSpec { eps: shape(n), ..spec }.into()
    })
});

impl FabricKeys for MixNetSpec {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn breakout(&self) -> Result<u32, FabricError> {
        self.ocs.parts()
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let Site { cluster, region_servers, .. } = *site;
        let mut wires = Wires::new(cluster);
        check(site, self)?;
        let nics = cluster.whole_nics();
        let packet = Gateways::spread(nics - self.optical_nics, cluster);
        let optical = (0..nics).map(|nic| cluster.parts(nic));
        let optical = optical.filter(|parts| !packet.contains(&parts.start)).flatten().collect();
        let regions = (cluster.servers() - site.backups.len() as u32) / region_servers;
        let mut mixnet = MixNet {
            eps: Gateways { clos: Clos::default(), nics: packet },
            region_servers,
            regions,
            backups: site.backups.to_vec(),
            optical,
            circuits: vec![None; cluster.nics() as usize],
        };
        let servers = || (0..cluster.servers()).map(ServerId);
        let hosts =
            servers().flat_map(|server| Gateways::of(cluster, server, mixnet.packet_nics(server)));
        mixnet.eps.clos = Clos::build(&self.eps, "fabric.eps", &vec![hosts.collect()], &mut wires)?;
        let switches: Vec<_> =
            (0..regions).map(|region| wires.node(NodeKind::Ocs { region })).collect();
        let mut ends = vec![0; regions as usize];
        for server in servers() {
            let Some(region) = mixnet.region_of(server) else { continue };
            for nic in Gateways::of(cluster, server, &mixnet.optical) {
                let cable = Cable {
                    rate: self.ocs.circuit_bps(),
                    delay: self.ocs.link_delay_ps,
                    class: LinkClass::Circuit,
                    lanes: 1,
                };
                let switch = switches[region as usize];
                mixnet.circuits[nic.index()] = Some(wires.duplex(wires.nic(nic), switch, cable));
                ends[region as usize] += 1;
            }
        }
        let all: u64 = ends.iter().sum();
        let ports = ends.iter().map(|&ends| self.ocs.ports_for(ends)).sum();
        let mut buy = |item, count| wires.bill.add(item, self.ocs.link_bps, count);
        buy(Item::OcsPort, ports);
        buy(Item::Circulator, if self.ocs.circulators { all } else { 0 });
        let items: &[Item] = match self.co_packaged {
            true => &[Item::OpticalIo],
            false => &[Item::Nic, Item::Transceiver],
        };
        items.iter().for_each(|&item| buy(item, all / u64::from(self.ocs.breakout)));
        match region_servers {
            1 => wires.notes.push("a region is one server: its optical NICs idle".into()),
            2 => wires.notes.push("a region is two servers: all circuits join the one pair".into()),
            _ => {}
        }
        Ok((wires, Arc::new(mixnet)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl MixNetSpec {
    /// `optical_nics` a server, both parts at one rate, as the paper simulates it (Section 7.1: 25 ms,
    /// blocking before the first all-to-all of a forward pass, hidden otherwise; 576 ports of a
    /// Polatis).
    pub fn new(optical_nics: u32, rate: BitRate, delay: Time) -> Self {
        MixNetSpec {
            optical_nics,
            co_packaged: false,
            eps: ClosSpec::new(rate, delay),
            ocs: OcsSpec {
                link_bps: rate,
                breakout: 1,
                circulators: false,
                link_delay_ps: delay,
                device: "polatis".into(),
                ports: 576,
                delay: ReconfigurationDelay::Fixed { ps: Time::from_ms(25) },
                activation: ActivationDelay::default(),
                loopback: false,
            },
            reconfigure: Reconfigure {
                first_forward: ReconfigurePolicy::Block,
                second_forward: ReconfigurePolicy::Hide,
                backward: ReconfigurePolicy::Hide,
                predictor: None,
                start: Start::Even,
                gradients: Gradients::Off,
            },
            decision: "algorithm-1".into(),
            hysteresis: false,
            greedy_continue: true,
            share_eps: false,
        }
    }
}

impl FabricSpec {
    /// See [`MixNetSpec::new`].
    pub fn mixnet(optical_nics: u32, rate: BitRate, delay: Time) -> Self {
        MixNetSpec::new(optical_nics, rate, delay).into()
    }
}

/// What MixNet wires.
#[derive(Debug)]
struct MixNet {
    eps: Gateways,
    region_servers: u32,
    regions: u32,
    backups: Vec<Backup>,
    /// NICs of a server on the optical switch, by index in the server.
    optical: Vec<u32>,
    /// By NIC: its link into the optical switch.
    circuits: Vec<Option<LinkId>>,
}

impl MixNet {
    /// What a server that stands in for others is wired to.
    fn backup(&self, server: ServerId) -> Option<Backup> {
        let first = self.regions * self.region_servers;
        self.backups.get(server.0.checked_sub(first)? as usize).copied()
    }
}

impl Routes for MixNet {
    /// Over packet switches, by the nearest packet NIC at either end.
    fn route(
        &self,
        cluster: &Cluster,
        ends: (GpuId, GpuId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        self.eps.route(cluster, ends, key, path)
    }

    fn switches(&self) -> Option<&dyn Switches> {
        Some(&self.eps.clos)
    }

    fn packet_nics(&self, server: ServerId) -> &[u32] {
        match self.backup(server) {
            Some(Backup::Circuits(_)) => &[],
            _ => &self.eps.nics,
        }
    }

    fn optical_nics(&self, server: ServerId) -> &[u32] {
        if self.region_of(server).is_some() { &self.optical } else { &[] }
    }

    fn circuit(&self, nic: NicId) -> Option<(LinkId, LinkId)> {
        let tx = self.circuits.get(nic.index()).copied().flatten()?;
        Some((tx, back(tx)))
    }

    fn region_of(&self, server: ServerId) -> Option<u32> {
        match self.backup(server) {
            Some(Backup::Packets) => None,
            Some(Backup::Circuits(region)) => Some(region),
            None => Some(server.0 / self.region_servers).filter(|&region| region < self.regions),
        }
    }

    fn regions(&self) -> u32 {
        self.regions
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn check(site: &Site<'_>, spec: &MixNetSpec) -> Result<(), FabricError> {
    let Site { cluster, region_servers, backups, .. } = *site;
    let nics = cluster.whole_nics();
    let servers = cluster.servers().saturating_sub(backups.len() as u32);
    if !(1..nics).contains(&spec.optical_nics) {
        let allowed = match nics {
            1 => "a server of one NIC has none to spare for circuits".into(),
            _ => format!(
                "must be from 1 to {}, as one of cluster.nics_per_server = {nics} stays on packets",
                nics - 1
            ),
        };
        return Err(FabricError::new("fabric.optical_nics", spec.optical_nics, allowed));
    }
    if region_servers == 0 || servers % region_servers != 0 {
        let reason = format!(
            "{servers} servers do not fall into regions of {region_servers} servers, the ones that \
             hold tp * cp * ep GPUs"
        );
        return Err(FabricError::new("cluster.gpus", cluster.gpus, reason));
    }
    spec.ocs.check()?;
    let regions = servers / region_servers;
    let backups_of = |region| {
        let here = |backup: &&Backup| **backup == Backup::Circuits(region);
        backups.iter().filter(here).count() as u64
    };
    let standing_in = (0..regions).map(backups_of).max().unwrap_or(0);
    let ends = u64::from(spec.optical_nics) * u64::from(spec.ocs.breakout);
    let needed = spec.ocs.ports_for((u64::from(region_servers) + standing_in) * ends);
    if needed > u64::from(spec.ocs.ports) {
        let reason = format!(
            "too few on {:?}: a region of {region_servers} servers{} with fabric.optical_nics = {}{} \
             needs {needed}",
            spec.ocs.device,
            if standing_in == 0 {
                String::new()
            } else {
                format!(" and {standing_in} to stand in")
            },
            spec.optical_nics,
            match spec.ocs.breakout {
                1 => String::new(),
                breakout => format!(", fabric.ocs.breakout = {breakout}"),
            }
        );
        return Err(FabricError::new("fabric.ocs.ports", spec.ocs.ports, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{build, build_at};

    fn spec() -> MixNetSpec {
        MixNetSpec::new(6, BitRate::from_gbps(400), Time::from_us(1))
    }

    fn message(spec: MixNetSpec, region_servers: u32) -> String {
        let built = build(&Cluster::of(1024, 8), &spec.into(), region_servers, &[]);
        built.expect_err("a bad value").to_string()
    }

    #[test]
    fn a_region_must_fit_its_switch() {
        // 96 servers of 6 are the 576 ports of a Polatis.
        let cluster = Cluster::of(96 * 8, 8);
        assert!(build(&cluster, &spec().into(), 96, &[]).is_ok());
        let mut one_less = spec();
        one_less.ocs.ports = 575;
        assert!(build(&cluster, &one_less.into(), 96, &[]).is_err());
        assert_eq!(
            message(spec(), 128),
            "fabric.ocs.ports = 576: too few on \"polatis\": a region of 128 servers with \
             fabric.optical_nics = 6 needs 768"
        );
    }

    /// Each optical NIC of two regions of four servers as so many circuits of a share of its rate.
    #[test]
    fn a_nic_that_is_broken_out_ends_circuits_of_a_share_of_its_rate() {
        for breakout in [1, 2, 4, 8] {
            let mut spec = spec();
            spec.ocs.breakout = breakout;
            let fabric = build(&Cluster::of(64, 8), &spec.clone().into(), 4, &[]).expect("valid");
            let server = ServerId(5);
            assert_eq!(fabric.packet_nics(server), [0, 4 * breakout]);
            assert_eq!(fabric.optical_nics(server).len() as u32, 6 * breakout);
            for &part in fabric.optical_nics(server) {
                let tx = fabric.circuit_tx(fabric.cluster().nic(server, part)).expect("optical");
                assert_eq!(fabric.link(tx).rate.bps() * u64::from(breakout), 400_000_000_000);
            }
            let count = |fabric: &crate::graph::Fabric, item| {
                fabric.bill().count(item, BitRate::from_gbps(400))
            };
            let nics = [Item::Nic, Item::Transceiver].map(|item| count(&fabric, item));
            assert_eq!(nics[0], 64);
            let ports = [Item::OcsPort, Item::Circulator].map(|item| count(&fabric, item));
            assert_eq!(ports, [48 * u64::from(breakout), 0]);
            spec.ocs.circulators = true;
            let fabric = build(&Cluster::of(64, 8), &spec.into(), 4, &[]).expect("valid");
            assert_eq!([Item::Nic, Item::Transceiver].map(|item| count(&fabric, item)), nics);
            let with = [Item::OcsPort, Item::Circulator].map(|item| count(&fabric, item));
            assert_eq!(with, [ports[0] / 2, ports[0]]);
        }
    }

    #[test]
    fn the_limit_of_ports_counts_every_circuit_and_with_circulators_half() {
        let mut wide = spec();
        wide.ocs.breakout = 2;
        assert_eq!(
            message(wide.clone(), 64),
            "fabric.ocs.ports = 576: too few on \"polatis\": a region of 64 servers with \
             fabric.optical_nics = 6, fabric.ocs.breakout = 2 needs 768"
        );
        wide.ocs.circulators = true;
        assert!(build(&Cluster::of(1024, 8), &wide.into(), 64, &[]).is_ok());
        let mut three = spec();
        three.ocs.breakout = 3;
        assert_eq!(message(three, 4), "fabric.ocs.breakout = 3: must be 1, 2, 4 or 8");
        let mut slow = spec();
        (slow.ocs.breakout, slow.ocs.link_bps) = (8, BitRate::from_bps(4_000_000));
        let start = "fabric.ocs.link_bandwidth / breakout = 500 kbps: must be from";
        assert!(message(slow.clone(), 4).starts_with(start), "{}", message(slow, 4));
    }

    #[test]
    fn bad_values_are_named_with_what_is_allowed() {
        let none = MixNetSpec { optical_nics: 0, ..spec() };
        assert!(message(none, 4).starts_with("fabric.optical_nics = 0: must be from 1 to 7"));
        for region in [0, 3, 129] {
            let message = message(spec(), region);
            let start = "cluster.gpus = 1024: 128 servers do not fall into regions of";
            assert!(message.starts_with(start), "{message}");
        }
        let mut odd = spec();
        odd.eps.radix = Some(3);
        assert!(message(odd, 4).starts_with("fabric.eps.radix = 3: must be an even number"));
        let mut slow = spec();
        slow.ocs.link_bps = BitRate::from_bps(9);
        assert!(message(slow, 4).starts_with("fabric.ocs.link_bandwidth = 9 bps: must be from"));
    }

    #[test]
    fn regions_too_small_to_choose_are_noted() {
        let notes = |region| {
            let spec = spec().into();
            build(&Cluster::of(64, 8), &spec, region, &[]).expect("valid").notes().to_vec()
        };
        assert_eq!(notes(1), ["a region is one server: its optical NICs idle"]);
        assert_eq!(notes(2), ["a region is two servers: all circuits join the one pair"]);
        assert!(notes(4).is_empty());
    }

    /// Two optical ports and a NIC on each GPU: the NIC is the GPU's own, and the bill has no NICs or
    /// transceivers for the ports.
    #[test]
    fn ports_on_gpus_leave_each_its_own_packet_nic() {
        let cluster = Cluster { nics_per_server: 24, ..Cluster::of(64, 8) };
        let mut spec = MixNetSpec { optical_nics: 16, co_packaged: true, ..spec() };
        spec.ocs.link_bps = BitRate::from_gbps(3_600);
        let fabric = build(&cluster, &spec.clone().into(), 4, &[]).expect("valid");
        assert_eq!(fabric.packet_nics(ServerId(0)), [0, 3, 6, 9, 12, 15, 18, 21]);
        for (a, b) in [(0, 63), (17, 3)] {
            let mut path = vec![];
            fabric.route(GpuId(a), GpuId(b), 0, &mut path).expect("on packet switches");
            assert_eq!(fabric.link(path[0]).from, fabric.nic_node(NicId(3 * a))); // no relay
        }
        let count = |item, gbps| fabric.bill().count(item, BitRate::from_gbps(gbps));
        assert_eq!([Item::OpticalIo, Item::OcsPort].map(|item| count(item, 3_600)), [128, 128]);
        assert_eq!([Item::Nic, Item::Transceiver].map(|item| count(item, 3_600)), [0, 0]);
        assert_eq!(count(Item::Nic, 400), 64);
        // The same with NICs in place of ports.
        spec.co_packaged = false;
        let fabric = build(&cluster, &spec.into(), 4, &[]).expect("valid");
        let count = |item| fabric.bill().count(item, BitRate::from_gbps(3_600));
        assert_eq!([Item::OpticalIo, Item::Nic, Item::Transceiver].map(count), [0, 128, 128]);
        // No other fabric knows what to do with them.
        let tree = FabricSpec::fat_tree(BitRate::from_gbps(400), Time::from_us(1));
        assert_eq!(
            build(&cluster, &tree, 1, &[]).expect_err("three NICs a GPU").to_string(),
            "cluster.nics_per_server = 24: fabric \"fat-tree\" has a NIC each GPU: must equal \
             cluster.gpus_per_server = 8"
        );
    }

    /// Two regions of two servers; one server stands in anywhere, one on the switch of region 1.
    #[test]
    fn what_stands_in_is_wired_to_one_network_only() {
        let (cluster, backups) = (Cluster::of(48, 8), [Backup::Packets, Backup::Circuits(1)]);
        let site = Site { region_servers: 2, backups: &backups, ..Site::new(&cluster) };
        let mut with = spec();
        let fabric = build_at(&site, &with.clone().into()).expect("valid");
        let of =
            |server| (fabric.packet_nics(ServerId(server)), fabric.region_of(ServerId(server)));
        let packet: &[u32] = &[0, 4];
        assert_eq!(of(3), (packet, Some(1)));
        assert_eq!(of(4), (packet, None));
        assert_eq!(of(5), (&[] as &[u32], Some(1)));
        assert_eq!(fabric.regions(), 2);
        assert_eq!(
            (fabric.circuit_tx(NicId(33)), fabric.optical_nics(ServerId(4)).len()),
            (None, 0)
        );
        let switch = |nic| fabric.link(fabric.circuit_tx(NicId(nic)).expect("optical")).to;
        assert_eq!(switch(41), switch(25));
        let mut path = vec![];
        assert!(fabric.route(GpuId(0), GpuId(33), 0, &mut path).is_ok());
        assert!(fabric.route(GpuId(0), GpuId(41), 0, &mut path).is_err());
        let count = |item| fabric.bill().count(item, BitRate::from_gbps(400));
        assert_eq!(count(Item::OcsPort), 5 * 6);
        assert_eq!(count(Item::Nic), 5 * 6 + 5 * 2);
        with.ocs.ports = 17;
        let error = build_at(&site, &with.into()).expect_err("few");
        assert_eq!(
            error.to_string(),
            "fabric.ocs.ports = 17: too few on \"polatis\": a region of 2 servers and 1 to stand in \
             with fabric.optical_nics = 6 needs 18"
        );
    }

    /// However many of however many: each packet NIC serves as many GPUs as another, within one,
    /// and each NUMA node has as many packet NICs as another, within one.
    #[test]
    fn packet_nics_are_spread_evenly() {
        for (nics, numa_nodes) in [(8, 2), (8, 4), (6, 3), (16, 2), (5, 1)] {
            let cluster = Cluster { numa_nodes, ..Cluster::of(4 * nics, nics) };
            for optical_nics in 1..nics {
                let spec = MixNetSpec { optical_nics, ..spec() }.into();
                let fabric = build(&cluster, &spec, 4, &[]).expect("valid");
                let packet = fabric.packet_nics(ServerId(0));
                assert_eq!(packet.len() as u32, nics - optical_nics);
                let spread = |counts: Vec<usize>| {
                    counts.iter().max().unwrap() - counts.iter().min().unwrap()
                };
                let of_numa = |numa| {
                    packet.iter().filter(|&&nic| cluster.numa_of(NicId(nic)) == numa).count()
                };
                assert!(spread((0..numa_nodes).map(of_numa).collect()) <= 1);
                let serves = |at: usize| {
                    packet.get(at + 1).copied().unwrap_or(nics) as usize - packet[at] as usize
                };
                assert!(spread((0..packet.len()).map(serves).collect()) <= 1);
            }
        }
    }
}
