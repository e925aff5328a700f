//! Optical planes: NIC `i`, or part `i` of those that are broken out, of every server on the optical circuit switch of plane `i`, and no packet
//! switches (SWOT, Section 3; parallel OCS planes).
//!
//! Modelled: one switch a plane, with one port of two directions for each server; a circuit is of one
//! direction, from a NIC's transmitter to another's receiver, and the two need not be paired: that is
//! what permutations such as "each to its next" ask for. A circuit is two fibres, into the switch and
//! out of it; which two belong together is decided elsewhere. The bill counts NICs,
//! transceivers and ports of two directions as for MixNet's optical NICs. Circulators are refused: they
//! would pair the two directions.
//! Ignored: loss of light; switches in several
//! tiers, so a cluster of more servers than a device has ports is an error.
//! Checked: the limit of ports, the bill by its closed form, delays that add up, odd ones too.

use crate::bill::Item;
use crate::cluster::Cluster;
use crate::error::{FabricError, RouteError};
use crate::graph::{Fabric, Routes};
use crate::ids::{GpuId, LinkId, NicId, ServerId};
use crate::kind::{Capabilities, FabricKeys, FabricKind, FabricSpec, Site, example};
use crate::ocs::{ActivationDelay, OcsSpec, ReconfigurationDelay};
use crate::wires::{Cable, LinkClass, Wires, back};
use lightloom_units::kind::Kind;
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

/// Optical planes, one for each NIC of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanesSpec {
    /// The optical circuit switch of each plane.
    pub ocs: OcsSpec,
}

const ABOUT: Kind<Capabilities> = Kind {
    name: "planes",
    summary: "NIC i of every server on the optical circuit switch of plane i; no packet switches",
    source: Some("SWOT"),
    keys: &[],
    capabilities: Capabilities {
        medium: "planes",
        carriers: &[],
        refuses: &[("flit", "books its circuits by the clock, which flits do not keep")],
        failures: &["nic", "link", "ocs-port", "switch"],
        switches: None,
        parts: &["ocs"],
        host: false,
        ..Capabilities::SWITCHED
    },
};

/// See [`PlanesSpec`].
pub static KIND: FabricKind = FabricKind::of::<PlanesSpec>(ABOUT, |n| {
    example(n, 1, |_| {
        let mut spec = PlanesSpec::new(BitRate::from_gbps(100), Time::from_us(1));
        spec.ocs.breakout = [1, 2, 4, 8][n as usize % 4];
        spec.into()
    })
});

impl FabricKeys for PlanesSpec {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn breakout(&self) -> Result<u32, FabricError> {
        self.ocs.parts()
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let (cluster, ocs, mut wires) = (site.cluster, &self.ocs, Wires::new(site.cluster));
        check(cluster, ocs)?;
        let whole = cluster.whole_nics() * cluster.servers();
        for (item, count) in
            [(Item::Nic, whole), (Item::OcsPort, cluster.nics()), (Item::Transceiver, whole)]
        {
            wires.bill.add(item, ocs.link_bps, u64::from(count));
        }
        let planes = Planes::wire(cluster, ocs.circuit_bps(), [ocs.link_delay_ps; 2], &mut wires);
        Ok((wires, Arc::new(planes)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl PlanesSpec {
    /// Planes of switches with 320 ports that change in 200 us (SWOT, Section 4.1).
    pub fn new(rate: BitRate, delay: Time) -> Self {
        PlanesSpec {
            ocs: OcsSpec {
                link_bps: rate,
                breakout: 1,
                circulators: false,
                link_delay_ps: delay,
                device: "swot".into(),
                ports: 320,
                delay: ReconfigurationDelay::Fixed { ps: Time::from_us(200) },
                activation: ActivationDelay::default(),
                loopback: false,
            },
        }
    }
}

impl FabricSpec {
    /// See [`PlanesSpec::new`].
    pub fn planes(rate: BitRate, delay: Time) -> Self {
        PlanesSpec::new(rate, delay).into()
    }
}

impl Fabric {
    /// `nodes` servers with a NIC on each of `planes` optical planes, as a collective's plan has
    /// them. A circuit takes exactly `latency`; any rate and latency will do, and there is no bill.
    ///
    /// # Errors
    /// No nodes or planes, or more than 2^20 NICs.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let fabric = Fabric::planes(8, 4, BitRate::from_gbps(200), Time::from_us(5)).unwrap();
    /// let nic = |node, plane| fabric.cluster().nic(ServerId(node), plane);
    /// let path = [fabric.circuit_tx(nic(2, 3)).unwrap(), fabric.circuit_rx(nic(7, 3)).unwrap()];
    /// assert_eq!(fabric.link(path[0]).to, fabric.link(path[1]).from); // both on plane 3
    /// ```
    pub fn planes(
        nodes: u32,
        planes: u32,
        rate: BitRate,
        latency: Time,
    ) -> Result<Fabric, FabricError> {
        let nics = nodes.saturating_mul(planes);
        let cluster = Cluster { numa_nodes: 1, ..Cluster::of(nics, planes) };
        cluster.validate()?;
        let mut wires = Wires::new(&cluster);
        let half = Time::from_ps(latency.ps() / 2);
        let wired = Planes::wire(&cluster, rate, [latency.saturating_sub(half), half], &mut wires);
        Ok(Fabric::new(&cluster, wires, Arc::new(wired)))
    }
}

/// What planes wire.
#[derive(Debug)]
struct Planes {
    /// The NICs of a server, by index: each is on the plane of that number.
    optical: Vec<u32>,
    /// NIC 0's link into its plane; the others follow in order.
    first: LinkId,
    nics: u32,
}

impl Planes {
    /// Wires every NIC to its plane; `delays` are those of the fibres into the switch and out of it.
    fn wire(cluster: &Cluster, rate: BitRate, delays: [Time; 2], wires: &mut Wires) -> Self {
        let per_server = cluster.nics_per_server;
        let switches: Vec<_> = (0..per_server)
            .map(|plane| wires.optical_switch(format!("plane{plane}"), plane))
            .collect();
        let first = LinkId(wires.links.len() as u32);
        for nic in (0..cluster.nics()).map(NicId) {
            let cable = Cable { rate, delay: delays[0], class: LinkClass::Circuit, lanes: 1 };
            let switch = switches[cluster.local_nic(nic) as usize];
            let tx = wires.duplex(wires.nic(nic), switch, cable);
            wires.links[back(tx).index()].delay = delays[1];
        }
        Planes { optical: (0..per_server).collect(), first, nics: cluster.nics() }
    }
}

impl Routes for Planes {
    fn route(
        &self,
        cluster: &Cluster,
        (source, _): (GpuId, GpuId),
        _: u64,
        _: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        Err(RouteError::NotOnPacketFabric { nic: cluster.nic_of(source) })
    }

    fn optical_nics(&self, _: ServerId) -> &[u32] {
        &self.optical
    }

    fn circuit(&self, nic: NicId) -> Option<(LinkId, LinkId)> {
        let tx = LinkId(self.first.0 + 2 * nic.0);
        (nic.0 < self.nics).then_some((tx, back(tx)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn check(cluster: &Cluster, ocs: &OcsSpec) -> Result<(), FabricError> {
    ocs.check()?;
    if ocs.circulators {
        let allowed =
            "circuits of planes go one way, a fibre with a circulator both: must be false";
        return Err(FabricError::new("fabric.ocs.circulators", true, allowed));
    }
    let servers = cluster.servers();
    if servers > ocs.ports {
        let reason = format!(
            "too few on {:?}: a plane joins a NIC of each of {servers} servers, and so needs \
             {servers}",
            ocs.device
        );
        return Err(FabricError::new("fabric.ocs.ports", ocs.ports, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::build;

    fn spec() -> PlanesSpec {
        PlanesSpec::new(BitRate::from_gbps(400), Time::from_us(1))
    }

    #[test]
    fn a_plane_must_have_a_port_for_each_server() {
        let with = |servers: u32, ports: u32| {
            let mut spec = spec();
            spec.ocs.ports = ports;
            build(&Cluster::of(8 * servers, 8), &spec.into(), 4, &[])
        };
        assert!(with(64, 64).is_ok());
        assert_eq!(
            with(65, 64).expect_err("a port too few").to_string(),
            "fabric.ocs.ports = 64: too few on \"swot\": a plane joins a NIC of each of 65 \
             servers, and so needs 65"
        );
        let mut slow = spec();
        slow.ocs.link_bps = BitRate::from_bps(9);
        let message = build(&Cluster::of(64, 8), &slow.into(), 4, &[]);
        let message = message.expect_err("too slow").to_string();
        assert!(
            message.starts_with("fabric.ocs.link_bandwidth = 9 bps: must be from"),
            "{message}"
        );
    }

    #[test]
    fn nics_of_one_number_meet_in_one_switch() {
        let fabric = build(&Cluster::of(32, 4), &spec().into(), 1, &[]).expect("valid");
        let (tx, rx) = (|nic| fabric.circuit_tx(NicId(nic)), |nic| fabric.circuit_rx(NicId(nic)));
        for a in 0..32 {
            let up = *fabric.link(tx(a).expect("every NIC is optical"));
            assert_eq!((up.from, up.rate), (fabric.nic_node(NicId(a)), BitRate::from_gbps(400)));
            for b in 0..32 {
                let down = *fabric.link(rx(b).expect("every NIC is optical"));
                assert_eq!(down.to, fabric.nic_node(NicId(b)));
                assert_eq!(up.to == down.from, a % 4 == b % 4);
            }
        }
        assert_eq!((tx(32), fabric.regions()), (None, 0));
        assert_eq!(fabric.optical_nics(ServerId(3)), [0, 1, 2, 3]);
        assert!(fabric.packet_nics(ServerId(3)).is_empty());
        // 32 NICs, each with a transceiver and a port.
        let bill: Vec<u64> = fabric.bill().lines().map(|line| line.count).collect();
        assert_eq!(bill, [32, 32, 32]);
    }

    /// Two GPUs a server, each with a NIC of 400G: eight planes of 100G.
    #[test]
    fn nics_that_are_broken_out_make_more_planes() {
        let mut spec = spec();
        spec.ocs.breakout = 4;
        let fabric = build(&Cluster::of(16, 2), &spec.clone().into(), 1, &[]).expect("valid");
        assert_eq!(fabric.optical_nics(ServerId(3)).len(), 8);
        let tx = fabric.link(fabric.circuit_tx(NicId(13)).expect("optical"));
        assert_eq!(tx.rate, BitRate::from_gbps(100));
        let bill: Vec<u64> = fabric.bill().lines().map(|line| line.count).collect();
        assert_eq!(bill, [16, 16, 64]); // NICs, transceivers, ports
        spec.ocs.circulators = true;
        let message = build(&Cluster::of(16, 2), &spec.into(), 1, &[]).expect_err("one way");
        assert!(
            message.to_string().starts_with("fabric.ocs.circulators = true: circuits of planes")
        );
    }

    #[test]
    fn the_fibres_of_a_circuit_add_up() {
        for ps in [0, 1, 2, 5_000_001] {
            let latency = Time::from_ps(ps);
            let fabric = Fabric::planes(3, 2, BitRate::from_bps(7), latency).expect("few nodes");
            let links = [fabric.circuit_tx(NicId(0)), fabric.circuit_rx(NicId(4))];
            let delays = links.map(|link| fabric.link(link.expect("every NIC is optical")).delay);
            assert_eq!(delays[0] + delays[1], latency);
        }
        assert!(Fabric::planes(1 << 20, 2, BitRate::from_gbps(1), Time::ZERO).is_err());
        assert!(Fabric::planes(0, 2, BitRate::from_gbps(1), Time::ZERO).is_err());
    }
}
