//! Where a connection sends: what it makes of a lane that it is given.

use crate::balancer::AnyBalancer;
use crate::balancer::plug::Paths;
use crate::halves::{Path, Route};
use crate::link::Origin;
use crate::net::round_trip;
use crate::run::Run;
use crate::transport::plug::PathInfo;
use lightloom_fabric::LinkId;
use lightloom_units::{Time, mix};

impl Run<'_> {
    /// What a connection makes of a lane: a new route, for nothing is known of it yet.
    pub(crate) fn route(&mut self, message: u32, lane: &[LinkId], mtu: u64, now: Time) -> Route {
        let links: Vec<u32> = lane.iter().map(|l| l.0).collect();
        let path = self.path_of(lane);
        let packet = mtu + self.settings.header;
        let fetched_over = self.fetched_over(&links);
        let travelled = || links[fetched_over as usize..].iter().map(|&link| self.class(link));
        let round_trip = round_trip(travelled(), packet, self.settings.header);
        let answers_wait = travelled().map(|link| link.time_for(packet)).sum();
        let rate = lane.iter().map(|&link| self.scenario.fabric.link(link).rate.bytes_per_ps());
        let rate = rate.fold(f64::INFINITY, f64::min);
        let inside = links.iter().all(|&link| self.origins[link as usize] == Origin::ScaleUp);
        let longest = if inside { round_trip } else { round_trip.max(self.longest) };
        let info = PathInfo { rate, round_trip, longest, answers_wait, packet: packet as f64 };
        let hash =
            mix(self.seed
                ^ mix(self.ledger.outcome.flows << 32 ^ u64::from(message) ^ now.ps() << 8))
                ^ mix(u64::from(links[0]));
        let balancer = AnyBalancer::new(&self.spec.balancer, path.alternatives.max(1), hash);
        let long = self.long.keep(&links[fetched_over as usize..]);
        Route { links, fetched_over, long, path, info, balancer }
    }

    /// How many links of a path come before the NIC that sends.
    fn fetched_over(&self, links: &[u32]) -> u8 {
        let origin = |&link: &u32| self.origins[link as usize];
        let host = |origin| matches!(origin, Origin::ScaleUp | Origin::Host);
        let inside = links.iter().take_while(|&link| host(origin(link))).count();
        let sends = links.get(inside).is_some_and(|link| origin(link) == Origin::Nic);
        if sends { inside as u8 } else { 0 }
    }

    /// How long the first packet of so many bytes takes over the links before its NIC.
    pub(crate) fn fetching(&self, links: &[u32], bytes: u64) -> u64 {
        let size = bytes.min(self.spec.mtu.get()) + self.settings.header;
        let over = |&link: &u32| {
            let class = self.class(link);
            class.delay + class.time_for(size)
        };
        links.iter().map(over).sum()
    }

    /// Which part of a lane has equal alternatives: that from the first NIC to the last, over packet
    /// switches.
    fn path_of(&self, lane: &[LinkId]) -> Path {
        let alone = Path { alternatives: 1, before: 0, after: 0, source: 0, destination: 0 };
        if self.spec.balancer.kind().capabilities.paths == Paths::Route {
            return alone;
        }
        let fabric = self.scenario.fabric;
        let Some(part) = fabric.switched(lane) else { return alone };
        let alternatives = fabric.nic_paths(part.source, part.destination);
        if !self.any_whole(part.source, part.destination, alternatives) {
            return alone;
        }
        Path {
            alternatives: alternatives.clamp(1, u32::from(u16::MAX)) as u16,
            before: part.before as u8,
            after: part.after as u8,
            source: part.source.0,
            destination: part.destination.0,
        }
    }
}
