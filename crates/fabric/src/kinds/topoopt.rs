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

use crate::bill::Item;
use crate::cluster::Cluster;
use crate::error::{FabricError, RouteError};
use crate::graph::Routes;
use crate::ids::{GpuId, LinkId, ServerId};
use crate::kind::{
    Capabilities, FabricKeys, FabricKind, FabricSpec, LINK_BANDWIDTH, LINK_DELAY, NAME, Site, build,
};
use crate::shortest::{Edge, Shortest};
use crate::wires::{Cable, LinkClass, Wires, back};
use lightloom_units::kind::{Form, Key, Kind};
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

/// TopoOpt: servers joined by circuits on a patch panel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopoOptSpec {
    /// Rate of a circuit \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of each fibre of a circuit: two through a flat panel, four through tiers \[ps\].
    pub link_delay_ps: Time,
    /// NICs a server on the panel.
    pub degree: u32,
    /// One panel, or panels in two tiers.
    pub panel: Panel,
    /// Ports of a panel.
    pub panel_ports: u32,
}

/// What TopoOpt's NICs are plugged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Panel {
    /// One panel, one port a NIC; as large as need be, whatever its limit, but a note says so.
    Flat,
    /// Panels in two tiers (leaves and spines), three ports a NIC.
    MultiTier,
}

const ABOUT: Kind<Capabilities> = Kind {
    name: "topoopt",
    summary: "Circuits set once for the job on a patch panel",
    source: Some("TopoOpt, NSDI 2023"),
    keys: &[
        NAME,
        LINK_BANDWIDTH,
        LINK_DELAY,
        Key::new(
            "degree",
            Form::Count { min: 1, max: 1024 },
            "NICs of a server that are plugged into the panel.",
        ),
        Key::new(
            "panel",
            Form::Choice(&["flat", "multi-tier"]),
            "`flat`: one panel, as large as need be. `multi-tier`: panels as leaves and spines.",
        ),
        Key::new(
            "panel_ports",
            Form::Count { min: 1, max: 1 << 20 },
            "Ports of one panel; a flat one may exceed them, and a note says so.",
        ),
    ],
    capabilities: Capabilities {
        medium: "panel",
        carriers: &["delegate"],
        failures: &["nic", "link", "ocs-port", "gpu", "server"],
        switches: None,
        host: false,
        ..Capabilities::SWITCHED
    },
};

/// See [`TopoOptSpec`].
pub static KIND: FabricKind = FabricKind::of::<TopoOptSpec>(ABOUT, |n| {
    let (servers, degree) = (3 + n % 11, 2 + n % 7);
    let cluster = Cluster::of(8 * servers, 8);
    // A ring, and chords where the degree allows.
    let chord = |by| move |s| (ServerId(s), ServerId((s + by) % servers));
    let strides = (1..=degree / 2).filter(|by| by % servers != 0);
    let panel: Vec<_> = strides.flat_map(|by| (0..servers).map(chord(by))).collect();
    let spec = FabricSpec::topoopt(degree, BitRate::from_gbps(100), Time::from_us(1));
    build(&cluster, &spec, 1, &panel).expect("an example fits its cluster")
});

impl FabricKeys for TopoOptSpec {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let (cluster, mut wires) = (site.cluster, Wires::new(site.cluster));
        check(cluster, self)?;
        let nics = u64::from(cluster.servers()) * u64::from(self.degree);
        let (panel_ports, fibres) = match self.panel {
            Panel::Flat => (1, 2),
            Panel::MultiTier => (3, 4),
        };
        wires.bill.add(Item::Nic, self.link_bps, nics);
        wires.bill.add(Item::Transceiver, self.link_bps, nics);
        wires.bill.add(Item::PatchPort, self.link_bps, panel_ports * nics);
        match self.panel {
            Panel::Flat if nics > u64::from(self.panel_ports) => wires.notes.push(format!(
                "{nics} NICs on a flat patch panel of {} ports: optimistic, port limit waived",
                self.panel_ports
            )),
            Panel::Flat => {}
            Panel::MultiTier => {
                wires.notes.push("multi-tier patch panel: 3 panel ports a NIC".into())
            }
        }
        let cable = Cable {
            rate: self.link_bps,
            delay: self.link_delay_ps * fibres,
            class: LinkClass::Panel,
            lanes: 1,
        };
        let mut used = vec![0; cluster.servers() as usize];
        let mut edges = vec![vec![]; cluster.servers() as usize];
        for (index, &(a, b)) in site.panel.iter().enumerate() {
            if a == b || a.0 >= cluster.servers() || b.0 >= cluster.servers() {
                let reason = format!("must join two of {} servers", cluster.servers());
                let (key, pair) = (format!("circuits[{index}]"), format!("({}, {})", a.0, b.0));
                return Err(FabricError::new(&key, pair, reason));
            }
            let mut next_nic = |server: ServerId| {
                let local = used[server.index()];
                used[server.index()] += 1;
                match local < self.degree {
                    true => Ok(cluster.nic(server, local)),
                    false => Err(FabricError::new(
                        "fabric.degree",
                        self.degree,
                        format!("server {} has more circuits than that", server.0),
                    )),
                }
            };
            let (m, n) = (next_nic(a)?, next_nic(b)?);
            let link = wires.duplex(wires.nic(m), wires.nic(n), cable);
            edges[a.index()].push(Edge { to: b.0, link, exit: Some(m), entry: Some(n) });
            edges[b.index()].push(Edge {
                to: a.0,
                link: back(link),
                exit: Some(n),
                entry: Some(m),
            });
        }
        Ok((wires, Arc::new(Patched(Shortest::new(cluster.servers(), edges)))))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl TopoOptSpec {
    /// `degree` NICs a server on a flat panel of 1008 ports (MixNet Table 2, Telescent).
    pub fn new(degree: u32, rate: BitRate, delay: Time) -> Self {
        TopoOptSpec {
            link_bps: rate,
            link_delay_ps: delay,
            degree,
            panel: Panel::Flat,
            panel_ports: 1008,
        }
    }
}

impl FabricSpec {
    /// See [`TopoOptSpec::new`].
    pub fn topoopt(degree: u32, rate: BitRate, delay: Time) -> Self {
        TopoOptSpec::new(degree, rate, delay).into()
    }
}

/// Servers joined by circuits of the panel.
#[derive(Debug)]
struct Patched(Shortest);

impl Routes for Patched {
    fn route(
        &self,
        cluster: &Cluster,
        ends: (GpuId, GpuId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        self.0.route(cluster, ends, key, false, path)
    }

    fn panel_paths(&self, cluster: &Cluster, a: ServerId, b: ServerId) -> Vec<Vec<LinkId>> {
        self.0.paths(cluster, (a, b))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
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
    use crate::graph::Fabric;
    use crate::kind::build;

    fn spec() -> TopoOptSpec {
        TopoOptSpec::new(2, BitRate::from_gbps(400), Time::from_us(1))
    }

    fn with(spec: TopoOptSpec, gpus: u32, pairs: &[(u32, u32)]) -> Result<Fabric, FabricError> {
        let circuits: Vec<_> = pairs.iter().map(|&(a, b)| (ServerId(a), ServerId(b))).collect();
        build(&Cluster::of(gpus, 8), &spec.into(), 1, &circuits)
    }

    #[test]
    fn circuits_take_nics_in_order_and_no_more_than_there_are() {
        let fabric = with(spec(), 24, &[(0, 1), (1, 2)]).expect("within the degree");
        let panels = || fabric.links().iter().filter(|link| link.class == LinkClass::Panel);
        let nics: Vec<u32> =
            panels().map(|link| link.from.0 - fabric.nic_node(crate::ids::NicId(0)).0).collect();
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
