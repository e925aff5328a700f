//! TopoOpt: `degree` NICs of every server on a patch panel, joined by circuits that are set once
//! (Wang et al., NSDI 2023). Which circuits is decided elsewhere.
//!
//! Modelled: a circuit joins a NIC of one server and one of another, both ways, and takes each
//! server's NICs in order; where two servers share no circuit their traffic hops over the scale-up
//! network of servers between, along shortest paths. A flat panel is one device, however many ports
//! it takes (a note says when that is more than there are, as MixNet Section 7.1 assumes); a
//! multi-tier one is leaf and spine panels, three ports a NIC. Every NIC of `degree` is bought and
//! plugged in, also one that no circuit uses.
//! Ignored: robots' time to set the panel, loss of light through panels.

use crate::shortest::{Edge, Shortest};
use crate::wires::{Cable, LinkClass, Wires, back};
use crate::{Bill, Cluster, FabricError, Item, Panel, ServerId, TopoOptSpec};

pub(crate) fn build(
    cluster: &Cluster,
    spec: &TopoOptSpec,
    circuits: &[(ServerId, ServerId)],
    wires: &mut Wires,
    bill: &mut Bill,
    notes: &mut Vec<String>,
) -> Result<Shortest, FabricError> {
    check(cluster, spec)?;
    let nics = u64::from(cluster.servers()) * u64::from(spec.degree);
    let (panel_ports, fibres) = match spec.panel {
        Panel::Flat => (1, 2),
        Panel::MultiTier => (3, 4),
    };
    bill.add(Item::Nic, spec.link_bps, nics);
    bill.add(Item::Transceiver, spec.link_bps, nics);
    bill.add(Item::PatchPort, spec.link_bps, panel_ports * nics);
    match spec.panel {
        Panel::Flat if nics > u64::from(spec.panel_ports) => notes.push(format!(
            "{nics} NICs on a flat patch panel of {} ports: optimistic, port limit waived",
            spec.panel_ports
        )),
        Panel::Flat => {}
        Panel::MultiTier => notes.push("multi-tier patch panel: 3 panel ports a NIC".into()),
    }
    let cable = Cable {
        rate: spec.link_bps,
        delay: spec.link_delay_ps * fibres,
        class: LinkClass::Panel,
        lanes: 1,
    };
    let mut used = vec![0; cluster.servers() as usize];
    let mut edges = vec![vec![]; cluster.servers() as usize];
    for (index, &(a, b)) in circuits.iter().enumerate() {
        if a == b || a.0 >= cluster.servers() || b.0 >= cluster.servers() {
            let reason = format!("must join two of {} servers", cluster.servers());
            let (key, pair) = (format!("circuits[{index}]"), format!("({}, {})", a.0, b.0));
            return Err(FabricError::new(&key, pair, reason));
        }
        let mut next_nic = |server: ServerId| {
            let local = used[server.index()];
            used[server.index()] += 1;
            match local < spec.degree {
                true => Ok(cluster.nic(server, local)),
                false => Err(FabricError::new(
                    "fabric.degree",
                    spec.degree,
                    format!("server {} has more circuits than that", server.0),
                )),
            }
        };
        let (m, n) = (next_nic(a)?, next_nic(b)?);
        let link = wires.duplex(wires.nic(m), wires.nic(n), cable);
        edges[a.index()].push(Edge { to: b.0, link, exit: Some(m), entry: Some(n) });
        edges[b.index()].push(Edge { to: a.0, link: back(link), exit: Some(n), entry: Some(m) });
    }
    Ok(Shortest::new(cluster.servers(), edges))
}

fn check(cluster: &Cluster, spec: &TopoOptSpec) -> Result<(), FabricError> {
    FabricError::check_rate("fabric.link_bandwidth", spec.link_bps)?;
    FabricError::check_delay("fabric.link_delay", spec.link_delay_ps)?;
    if !(1..=cluster.nics_per_server).contains(&spec.degree) {
        let most = cluster.nics_per_server;
        let allowed = format!("must be from 1 to cluster.nics_per_server = {most}");
        return Err(FabricError::new("fabric.degree", spec.degree, allowed));
    }
    // Leaves with half their ports up; each spine reaches every leaf once.
    let ports = u64::from(spec.panel_ports);
    let nics = u64::from(cluster.servers()) * u64::from(spec.degree);
    if spec.panel == Panel::MultiTier && nics > ports * ports / 2 {
        let reason = format!(
            "two tiers of such panels have room for {} NICs, not for {nics}",
            ports * ports / 2
        );
        return Err(FabricError::new("fabric.panel_ports", spec.panel_ports, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fabric, FabricSpec, build};
    use lightloom_units::{BitRate, Time};

    fn spec() -> TopoOptSpec {
        match FabricSpec::topoopt(2, BitRate::from_gbps(400), Time::from_us(1)) {
            FabricSpec::TopoOpt(spec) => spec,
            _ => unreachable!("the constructor's kind"),
        }
    }

    fn with(spec: TopoOptSpec, gpus: u32, pairs: &[(u32, u32)]) -> Result<Fabric, FabricError> {
        let circuits: Vec<_> = pairs.iter().map(|&(a, b)| (ServerId(a), ServerId(b))).collect();
        build(&Cluster::of(gpus, 8), &FabricSpec::TopoOpt(spec), 1, &circuits)
    }

    #[test]
    fn circuits_take_nics_in_order_and_no_more_than_there_are() {
        let fabric = with(spec(), 24, &[(0, 1), (1, 2)]).expect("within the degree");
        let panels = || fabric.links().iter().filter(|link| link.class == LinkClass::Panel);
        let nics: Vec<u32> =
            panels().map(|link| link.from.0 - fabric.nic_node(crate::NicId(0)).0).collect();
        assert_eq!(nics, [0, 8, 9, 16]); // both ways of a circuit, NICs 0 and 1 of server 1
        assert!(panels().all(|link| link.delay == Time::from_us(2)));
        let message =
            |pairs: &[(u32, u32)]| with(spec(), 24, pairs).expect_err("bad circuits").to_string();
        let too_many = message(&[(0, 1), (1, 2), (1, 0)]);
        assert_eq!(too_many, "fabric.degree = 2: server 1 has more circuits than that");
        assert_eq!(message(&[(2, 2)]), "circuits[0] = (2, 2): must join two of 3 servers");
        assert_eq!(message(&[(0, 1), (0, 3)]), "circuits[1] = (0, 3): must join two of 3 servers");
    }

    #[test]
    fn bad_values_are_named_with_what_is_allowed() {
        for degree in [0, 9] {
            let message = with(TopoOptSpec { degree, ..spec() }, 24, &[]).expect_err("bad");
            assert!(message.to_string().ends_with("from 1 to cluster.nics_per_server = 8"));
        }
        let tiers = TopoOptSpec { panel: Panel::MultiTier, panel_ports: 10, ..spec() };
        let fabric = with(tiers.clone(), 25 * 8, &[(0, 1)]).expect("50 NICs fit");
        let circuit = fabric.links().last().expect("a circuit");
        assert_eq!(circuit.delay, Time::from_us(4)); // leaf, spine, leaf: four fibres
        let message = with(tiers, 26 * 8, &[]).expect_err("51st NIC").to_string();
        assert!(message.starts_with("fabric.panel_ports = 10: two tiers of such panels have room"));
    }

    #[test]
    fn what_is_optimistic_is_noted() {
        let notes = |gpus, panel| {
            let spec = TopoOptSpec { degree: 8, panel, ..spec() };
            with(spec, gpus, &[]).expect("valid").notes().to_vec()
        };
        assert!(notes(1008, Panel::Flat).is_empty());
        let waived = "1024 NICs on a flat patch panel of 1008 ports: optimistic, port limit waived";
        assert_eq!(notes(1024, Panel::Flat), [waived]);
        assert_eq!(notes(64, Panel::MultiTier), ["multi-tier patch panel: 3 panel ports a NIC"]);
    }
}
