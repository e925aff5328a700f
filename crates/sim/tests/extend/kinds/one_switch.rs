//! One switch that every NIC is plugged into: what no network of many switches can surpass.

use crate::plug::{
    Cable, Capabilities, Cluster, FabricError, FabricKeys, FabricKind, Item, LINK_BANDWIDTH,
    LINK_DELAY, LinkClass, LinkId, NAME, NicId, NodeKind, OwnNics, Routes, Site, Switches, Wires,
    back, build,
};
use lightloom_units::kind::Kind;
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

const ABOUT: Kind<Capabilities> = Kind {
    name: "one-switch",
    summary: "One switch with a port for every NIC",
    source: None,
    keys: &[NAME, LINK_BANDWIDTH, LINK_DELAY],
    capabilities: Capabilities::SWITCHED,
};

/// See [`OneSwitch`].
pub static KIND: FabricKind = FabricKind::of::<OneSwitch>(ABOUT, |n| {
    let spec = OneSwitch { link_bps: BitRate::from_gbps(100), link_delay_ps: Time::from_us(1) };
    build(&Cluster::of(8 * (1 + n % 13), 8), &spec.into(), 1, &[]).expect("it fits any cluster")
});

/// The keys, in base units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneSwitch {
    /// Rate of every link \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of every link, with that of the switch behind it \[ps\].
    pub link_delay_ps: Time,
}

impl FabricKeys for OneSwitch {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let &OneSwitch { link_bps: rate, link_delay_ps: delay } = self;
        FabricError::check_rate("fabric.link_bandwidth", rate)?;
        FabricError::check_delay("fabric.link_delay", delay)?;
        let mut wires = Wires::new(site.cluster);
        let switch = wires.node(NodeKind::Switch { tier: 1 });
        let cable = Cable { rate, delay, class: LinkClass::Host, lanes: 1 };
        let nics = site.cluster.nics();
        let up = (0..nics).map(|nic| wires.duplex(wires.nic(NicId(nic)), switch, cable)).collect();
        wires.bill.add(Item::Nic, rate, nics.into());
        wires.bill.add(Item::Transceiver, rate, 2 * u64::from(nics));
        wires.bill.add(Item::SwitchPort, rate, nics.into());
        Ok((wires, Arc::new(OwnNics::new(Ports { up }, site.cluster))))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// By NIC: its link up.
#[derive(Debug)]
struct Ports {
    up: Vec<LinkId>,
}

impl Switches for Ports {
    fn paths(&self, _: NicId, _: NicId) -> u32 {
        1
    }

    fn path(&self, source: NicId, destination: NicId, _: u32, path: &mut Vec<LinkId>) {
        path.extend([self.up[source.index()], back(self.up[destination.index()])]);
    }
}
