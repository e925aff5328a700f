//! Optical planes: NIC `i` of every server on the optical circuit switch of plane `i`, and no packet
//! switches (SWOT, Section 3; parallel OCS planes).
//!
//! Modelled: one switch a plane, with one port of two directions for each server; a circuit is of one
//! direction, from a NIC's transmitter to another's receiver, and the two need not be paired: that is
//! what permutations such as "each to its next" ask for. A circuit is two fibres, into the switch and
//! out of it; which two belong together is decided elsewhere. The bill counts one NIC, one
//! transceiver and one port of two directions for each NIC, as for MixNet's optical NICs.
//! Ignored: loss of light; circulators, which would pair the two directions; switches in several
//! tiers, so a cluster of more servers than a device has ports is an error.
//! Checked: the limit of ports, the bill by its closed form, delays that add up, odd ones too.

use crate::wires::{Cable, LinkClass, NodeKind, Wires, back};
use crate::{Bill, Cluster, FabricError, Item, LinkId, NicId, OcsSpec, PlanesSpec};
use lightloom_units::{BitRate, Time};

/// What planes wire.
#[derive(Clone, Debug)]
pub(crate) struct Planes {
    /// The NICs of a server, by index: each is on the plane of that number.
    pub(crate) optical: Vec<u32>,
    /// NIC 0's link into its plane; the others follow in order.
    first: LinkId,
    nics: u32,
}

impl Planes {
    pub(crate) fn build(
        cluster: &Cluster,
        spec: &PlanesSpec,
        wires: &mut Wires,
        bill: &mut Bill,
    ) -> Result<Self, FabricError> {
        let ocs = &spec.ocs;
        check(cluster, ocs)?;
        for item in [Item::Nic, Item::OcsPort, Item::Transceiver] {
            bill.add(item, ocs.link_bps, u64::from(cluster.nics()));
        }
        Ok(Self::wire(cluster, ocs.link_bps, [ocs.link_delay_ps; 2], wires))
    }

    /// Wires every NIC to its plane; `delays` are those of the fibres into the switch and out of it.
    pub(crate) fn wire(
        cluster: &Cluster,
        rate: BitRate,
        delays: [Time; 2],
        wires: &mut Wires,
    ) -> Self {
        let per_server = cluster.nics_per_server;
        let switches: Vec<_> =
            (0..per_server).map(|plane| wires.node(NodeKind::Ocs { region: plane })).collect();
        let first = LinkId(wires.links.len() as u32);
        for nic in (0..cluster.nics()).map(NicId) {
            let cable = Cable { rate, delay: delays[0], class: LinkClass::Circuit, lanes: 1 };
            let switch = switches[cluster.local_nic(nic) as usize];
            let tx = wires.duplex(wires.nic(nic), switch, cable);
            wires.links[back(tx).index()].delay = delays[1];
        }
        Planes { optical: (0..per_server).collect(), first, nics: cluster.nics() }
    }

    /// Links of a NIC into its plane and out of it.
    pub(crate) fn circuit(&self, nic: NicId) -> Option<(LinkId, LinkId)> {
        let tx = LinkId(self.first.0 + 2 * nic.0);
        (nic.0 < self.nics).then_some((tx, back(tx)))
    }
}

fn check(cluster: &Cluster, ocs: &OcsSpec) -> Result<(), FabricError> {
    FabricError::check_rate("fabric.ocs.link_bandwidth", ocs.link_bps)?;
    FabricError::check_delay("fabric.ocs.link_delay", ocs.link_delay_ps)?;
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
    use crate::{Fabric, FabricSpec, ServerId, build};

    fn spec() -> PlanesSpec {
        match FabricSpec::planes(BitRate::from_gbps(400), Time::from_us(1)) {
            FabricSpec::Planes(spec) => spec,
            _ => unreachable!("the constructor's kind"),
        }
    }

    #[test]
    fn a_plane_must_have_a_port_for_each_server() {
        let with = |servers: u32, ports: u32| {
            let mut spec = spec();
            spec.ocs.ports = ports;
            build(&Cluster::of(8 * servers, 8), &FabricSpec::Planes(spec), 4, &[])
        };
        assert!(with(64, 64).is_ok());
        assert_eq!(
            with(65, 64).expect_err("a port too few").to_string(),
            "fabric.ocs.ports = 64: too few on \"swot\": a plane joins a NIC of each of 65 \
             servers, and so needs 65"
        );
        let mut slow = spec();
        slow.ocs.link_bps = BitRate::from_bps(9);
        let message = build(&Cluster::of(64, 8), &FabricSpec::Planes(slow), 4, &[]);
        let message = message.expect_err("too slow").to_string();
        assert!(
            message.starts_with("fabric.ocs.link_bandwidth = 9 bps: must be from"),
            "{message}"
        );
    }

    #[test]
    fn nics_of_one_number_meet_in_one_switch() {
        let fabric =
            build(&Cluster::of(32, 4), &FabricSpec::Planes(spec()), 1, &[]).expect("valid");
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
