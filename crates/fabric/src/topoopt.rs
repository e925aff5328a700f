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
        edges[a.index()].push(Edge {
            to: b.0,
            link,
            exit: Some(m),
            entry: Some(n),
        });
        edges[b.index()].push(Edge {
            to: a.0,
            link: back(link),
            exit: Some(n),
            entry: Some(m),
        });
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
        return Err(FabricError::new(
            "fabric.panel_ports",
            spec.panel_ports,
            reason,
        ));
    }
    Ok(())
}
