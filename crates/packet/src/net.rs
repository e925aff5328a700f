//! Links as the run knows them: their rates, and the longest way between two of their ends.

use crate::link::{Class, Origin};
use crate::run::Run;
use lightloom_fabric::{GpuId, LinkId, NicId};
use lightloom_units::BitRate;

impl Run<'_> {
    pub(crate) fn class_number(&mut self, class: Class) -> u16 {
        let at = self.classes.iter().position(|&other| other == class).unwrap_or_else(|| {
            self.classes.push(class);
            self.classes.len() - 1
        });
        at as u16
    }

    /// A link carries at this rate from the next packet on.
    pub(crate) fn set_rate(&mut self, link: LinkId, rate: BitRate) {
        let delay = self.class(link.0).delay;
        let class = self.class_number(Class::new(rate, delay));
        self.class_of[link.index()] = class;
        if let Some(link) = self.link(link.0) {
            link.class = class;
        }
    }

    /// Rate and delay of a link.
    pub(crate) fn class(&self, link: u32) -> Class {
        self.classes[self.class_of[link as usize] as usize]
    }

    /// The longest round trip over packet switches from the first NIC that is plugged into one, or over
    /// routers on chips from the first chip \[ps\]; 0 where there are neither.
    pub(crate) fn longest_round_trip(&self, packet: u64, header: u64) -> u64 {
        let fabric = self.scenario.fabric;
        let mut links = (0..).map(LinkId).zip(&self.origins);
        let circuits = &self.ledger.circuits;
        if links.any(|(link, &origin)| origin == Origin::Switch && circuits.enters_switch(link)) {
            return self.longest_between_chips(packet, header);
        }
        let nics = || (0..fabric.cluster().nics()).map(NicId);
        let mut path = Vec::new();
        let mut between = |from, to| {
            path.clear();
            fabric.nic_route(from, to, 0, &mut path).ok()?;
            Some(round_trip(path.iter().map(|link| self.class(link.0)), packet, header))
        };
        let first = nics().find(|&nic| between(nic, nic).is_some());
        first.and_then(|first| nics().filter_map(|nic| between(first, nic)).max()).unwrap_or(0)
    }

    fn longest_between_chips(&self, packet: u64, header: u64) -> u64 {
        let mut path = Vec::new();
        let fabric = self.scenario.fabric;
        let trips = (0..fabric.cluster().gpus).filter_map(|chip| {
            path.clear();
            fabric.route(GpuId(0), GpuId(chip), 0, &mut path).ok()?;
            Some(round_trip(path.iter().map(|link| self.class(link.0)), packet, header))
        });
        trips.max().unwrap_or(0)
    }
}

/// A full packet out, store and forward, and an acknowledgement back \[ps\].
pub(crate) fn round_trip(links: impl Iterator<Item = Class>, packet: u64, header: u64) -> u64 {
    links.map(|link| 2 * link.delay + link.time_for(packet) + link.time_for(header)).sum()
}
