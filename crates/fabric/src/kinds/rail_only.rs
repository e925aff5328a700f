//! Rail-only: NIC `i` of every server is on the switch of rail `i`, and rails are not joined (Wang et al.,
//! 2024; RailX, Section A.8). Traffic for GPU `j` of another server first goes over the scale-up network to
//! the sender's own GPU `j`.
//!
//! Modelled: one switch a rail; the links of the network [`RailOnly`](crate::routers::RailOnly) with one
//! switch of each kind, whose switches inside a node are the scale-up network.
//! Ignored: rails with several tiers of switches.
//! Checked: links against the network's channels; routes and bills by the crate's properties.

use crate::bill::Item;
use crate::cluster::Cluster;
use crate::error::{FabricError, RouteError};
use crate::graph::{Routes, Switches};
use crate::ids::{GpuId, LinkId, NicId, ServerId};
use crate::kind::{
    Capabilities, FabricKeys, FabricKind, LINK_BANDWIDTH, LINK_DELAY, NAME, SWITCH_PORTS, Site,
    example,
};
use crate::wires::{Cable, LinkClass, Wires, back};
use lightloom_units::kind::Kind;
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

const ABOUT: Kind<Capabilities> = Kind {
    name: "rail-only",
    summary: "NIC i of every server on the switch of rail i, which is joined to no other",
    source: Some("Wang et al., 2024"),
    keys: &[NAME, LINK_BANDWIDTH, LINK_DELAY, SWITCH_PORTS],
    capabilities: Capabilities {
        medium: "rails",
        rails: true,
        carriers: &["relay", "delegate", "rails"],
        ..Capabilities::SWITCHED
    },
};

/// See [`RailOnlySpec`].
pub static KIND: FabricKind = FabricKind::of::<RailOnlySpec>(ABOUT, |n| {
    example(n, 1, |_| RailOnlySpec::new(BitRate::from_gbps(100), Time::from_us(1)).into())
});

/// NIC `i` of every server on switch `i`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RailOnlySpec {
    /// Rate of every link \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of every link, with that of the switch behind it \[ps\].
    pub link_delay_ps: Time,
    /// Ports of a switch.
    pub switch_ports: u32,
}

impl RailOnlySpec {
    /// Switches of 128 ports.
    pub fn new(rate: BitRate, delay: Time) -> Self {
        RailOnlySpec { link_bps: rate, link_delay_ps: delay, switch_ports: 128 }
    }
}

impl FabricKeys for RailOnlySpec {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let (cluster, mut wires) = (site.cluster, Wires::new(site.cluster));
        FabricError::check_rate("fabric.link_bandwidth", self.link_bps)?;
        FabricError::check_delay("fabric.link_delay", self.link_delay_ps)?;
        FabricError::check_switch_ports(self.switch_ports)?;
        if cluster.servers() > self.switch_ports {
            let reason = format!(
                "must be at least {}: a switch joins a NIC of each server",
                cluster.servers()
            );
            return Err(FabricError::new("fabric.switch_ports", self.switch_ports, reason));
        }
        let (rate, delay) = (self.link_bps, self.link_delay_ps);
        let cable = Cable { rate, delay, class: LinkClass::Host, lanes: 1 };
        let switches: Vec<_> = (0..cluster.nics_per_server)
            .map(|rail| wires.switch([format!("rail{rail}")], 1))
            .collect();
        let nics = cluster.nics();
        let plug = |nic: NicId| {
            let switch = switches[cluster.local_nic(nic) as usize];
            wires.duplex(wires.nic(nic), switch, cable)
        };
        let up = (0..nics).map(NicId).map(plug).collect();
        wires.bill.add(Item::Nic, rate, nics.into());
        wires.bill.add(Item::SwitchPort, rate, nics.into());
        wires.bill.add(Item::Transceiver, rate, 2 * u64::from(nics));
        let locals = (0..cluster.nics_per_server).collect();
        Ok((wires, Arc::new(Rails { ports: Ports { up, rails: cluster.nics_per_server }, locals })))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Inside the server to the destination's rail, and over that.
#[derive(Debug)]
struct Rails {
    ports: Ports,
    /// All NICs of a server.
    locals: Vec<u32>,
}

impl Routes for Rails {
    fn route(
        &self,
        cluster: &Cluster,
        (source, destination): (GpuId, GpuId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        let entry = cluster.nic_of(destination);
        let exit = cluster.nic(cluster.server_of(source), cluster.local_nic(entry));
        cluster.to_nic(source, exit, path);
        self.ports.route(exit, entry, key, path)?;
        cluster.from_nic(entry, destination, path);
        Ok(())
    }

    fn switches(&self) -> Option<&dyn Switches> {
        Some(&self.ports)
    }

    fn packet_nics(&self, _: ServerId) -> &[u32] {
        &self.locals
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// By NIC: its link up.
#[derive(Debug)]
struct Ports {
    up: Vec<LinkId>,
    /// How many.
    rails: u32,
}

impl Switches for Ports {
    fn route(
        &self,
        source: NicId,
        destination: NicId,
        _: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        if source != destination && self.paths(source, destination) == 0 {
            let [from, to] = [source, destination].map(|nic| ServerId(nic.0 / self.rails));
            return Err(RouteError::NoPath { from, to });
        }
        if source != destination {
            self.path(source, destination, 0, path);
        }
        Ok(())
    }

    /// None between two rails.
    fn paths(&self, source: NicId, destination: NicId) -> u32 {
        u32::from(source.0 % self.rails == destination.0 % self.rails)
    }

    fn path(&self, source: NicId, destination: NicId, _: u32, path: &mut Vec<LinkId>) {
        path.extend([self.up[source.index()], back(self.up[destination.index()])]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::NodeId;
    use crate::kind::build;
    use crate::routers::{ChannelKind, RailOnly};
    use proptest::prelude::*;

    fn spec() -> RailOnlySpec {
        RailOnlySpec::new(BitRate::from_gbps(400), Time::from_us(1))
    }

    proptest! {
        #[test]
        fn links_are_the_channels_of_its_network(servers in 1u32..9, gpus in 1u32..5) {
            let cluster = Cluster::of(servers * gpus, gpus);
            let fabric = build(&cluster, &spec().into(), 1, &[]).expect("it fits");
            let network = RailOnly::new(servers, gpus, 1, 1, 1).expect("small").network((1, 1), (1, 1), 1);
            let (chips, nics) = (cluster.gpus, fabric.nic_node(NicId(0)).0);
            // A NIC is its GPU; then come scale-up switches, then rails', as the network has them.
            let router = |node: NodeId| match node.0.checked_sub(nics) {
                Some(nic) if nic < cluster.nics() => nic,
                Some(switch) => switch - cluster.nics() + chips + servers,
                None => node.0,
            };
            let mut links: Vec<_> = fabric.links().iter().map(|l| {
                (router(l.from), router(l.to), l.class == LinkClass::Host)
            }).collect();
            let long = |kind| kind == ChannelKind::Long;
            let channels = network.channels().iter();
            let mut channels: Vec<_> =
                channels.map(|c| (c.from.router, c.to.router, long(c.kind))).collect();
            links.sort_unstable();
            channels.sort_unstable();
            prop_assert_eq!(links, channels);
        }
    }

    #[test]
    fn rails_are_not_joined() {
        let fabric = build(&Cluster::of(32, 8), &spec().into(), 1, &[]).expect("it fits");
        let mut path = Vec::new();
        let none = fabric.nic_route(NicId(0), NicId(9), 0, &mut path);
        assert_eq!(none, Err(RouteError::NoPath { from: ServerId(0), to: ServerId(1) }));
        fabric.route(GpuId(0), GpuId(9), 0, &mut path).expect("by GPU 1");
        let classes: Vec<_> = path.iter().map(|&link| fabric.link(link).class).collect();
        assert_eq!(
            classes,
            [LinkClass::ScaleUp, LinkClass::ScaleUp, LinkClass::Host, LinkClass::Host]
        );
    }

    #[test]
    fn a_switch_joins_as_many_servers_as_it_has_ports() {
        let small = RailOnlySpec { switch_ports: 3, ..spec() };
        let error = build(&Cluster::of(32, 8), &small.into(), 1, &[]).expect_err("bad").to_string();
        assert_eq!(
            error,
            "fabric.switch_ports = 3: must be at least 4: a switch joins a NIC of each server"
        );
        let bill =
            build(&Cluster::of(32, 8), &spec().into(), 1, &[]).expect("it fits").bill().clone();
        let counts: Vec<_> = bill.lines().map(|line| (line.item, line.count)).collect();
        assert_eq!(counts, [(Item::Nic, 32), (Item::Transceiver, 64), (Item::SwitchPort, 32)]);
    }
}
