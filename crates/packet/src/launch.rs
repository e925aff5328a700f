//! Where flows come from: messages and connections for the orders of a phase.

use crate::balancer::AnyBalancer;
use crate::balancer::plug::Paths;
use crate::conn::{Conn, Message, Path, Route};
use crate::link::Origin;
use crate::net::round_trip;
use crate::packet::NONE;
use crate::run::Run;
use crate::transport::AnyTransport;
use crate::transport::plug::PathInfo;
use lightloom_engine::Sending;
use lightloom_fabric::LinkId;
use lightloom_units::Time;
use lightloom_units::mix;

impl Run<'_> {
    /// Makes the connections of a phase; their ids are appended to `order`, from the index returned.
    pub(crate) fn new_connections(&mut self, sending: &Sending, now: Time) -> usize {
        let Sending { track, phase, ref orders, .. } = *sending;
        let from = self.order.len();
        for flow in orders.flows(phase) {
            let message = self.free_messages.pop().unwrap_or(self.net.messages.len() as u32);
            let bytes = flow.bytes.get();
            let (mut first, mut last) = (NONE, NONE);
            for lane in orders.lane_numbers(flow) {
                let id = self.connect(message, lane, orders.lane_links(lane), bytes, now);
                if first == NONE {
                    (first, last) = (id, id);
                }
                self.net.conns[last as usize].sibling = id;
                self.net.conns[id as usize].sibling = first;
                last = id;
                self.order.push(id);
                self.count_on_circuits(id, true);
            }
            let made = Message {
                track,
                bytes,
                unsent: bytes,
                received: 0,
                start: now.ps(),
                ideal: self.ideal(first, bytes),
                control: self.control(first, now),
                in_flight: 0,
                not_before: 0,
            };
            match self.net.messages.get_mut(message as usize) {
                Some(free) => *free = made,
                None => self.net.messages.push(made),
            }
        }
        from
    }

    /// No flow of so many bytes over a connection and its siblings could take less \[ps\].
    pub(crate) fn ideal(&self, first: u32, bytes: u64) -> u64 {
        let (mut rate, mut delay, mut at) = (0.0, u64::MAX, first);
        loop {
            let conn = &self.net.conns[at as usize];
            // Lanes may share links, then this is too lenient, never too strict.
            rate += conn.info.rate;
            delay = delay.min(conn.links.iter().map(|&l| self.net.class(l).delay).sum());
            at = conn.sibling;
            if at == first {
                break;
            }
        }
        // Rounded down by a millionth, for rates are floats and lanes differ by a bit per second.
        delay + (bytes as f64 / rate * (1.0 - 1e-6)) as u64
    }

    /// The window of a flow over a connection and its siblings: as much as they carry at once into and
    /// out of the network, over the longest of them.
    pub(crate) fn control(&self, first: u32, now: Time) -> AnyTransport {
        let lane = &self.net.conns[first as usize];
        let (mut info, mut at) = (lane.info, lane.sibling);
        if at != first {
            let (mut ends, mut rates) = ([vec![], vec![]], [0.0, 0.0]);
            loop {
                let lane = &self.net.conns[at as usize];
                for (end, link) in
                    [lane.first_link(), lane.links[lane.links.len() - 1]].into_iter().enumerate()
                {
                    if !ends[end].contains(&link) {
                        ends[end].push(link);
                        rates[end] += lane.info.rate;
                    }
                }
                info.round_trip = info.round_trip.max(lane.info.round_trip);
                info.answers_wait = info.answers_wait.max(lane.info.answers_wait);
                if at == first {
                    break;
                }
                at = lane.sibling;
            }
            info.rate = f64::min(rates[0], rates[1]);
        }
        AnyTransport::new(&self.spec.transport, info, now.ps())
    }

    fn connect(
        &mut self,
        message: u32,
        number: u32,
        lane: &[LinkId],
        bytes: u64,
        now: Time,
    ) -> u32 {
        let fabric = self.scenario.fabric;
        let inside = lane.iter().all(|&l| fabric.link(l).class.is_inside());
        let mtu = if inside { self.spec.scale_up_mtu } else { self.spec.mtu }.get();
        let route = self.route(message, lane, mtu, now);
        let product = route.info.bandwidth_delay() as u64;
        if let Some(window) = self.spec.transport.given_window()
            && window.get() < product
            && self.narrow_window.is_none_or(|(other, _)| other < product)
        {
            self.narrow_window = Some((product, window.get()));
        }
        let id = self.free_conns.pop().unwrap_or(self.net.conns.len() as u32);
        let mut conn = Conn::new(message, number, mtu as u32, route);
        let fetched_over = conn.fetched_over as usize;
        conn.not_before = now.ps() + self.fetching(&conn.links[..fetched_over], bytes);
        if (id as usize) < self.net.conns.len() {
            let old = &mut self.net.conns[id as usize];
            conn.generation = old.generation;
            (conn.seen, conn.resend) =
                (std::mem::take(&mut old.seen), std::mem::take(&mut old.resend));
            conn.seen.clear();
            conn.resend.clear();
            *old = conn;
        } else {
            self.net.conns.push(conn);
        }
        if let Some(outside) = &mut self.outside {
            outside.begins(id);
        }
        id
    }

    /// What a connection makes of a lane: a new route, for nothing is known of it yet.
    pub(crate) fn route(&mut self, message: u32, lane: &[LinkId], mtu: u64, now: Time) -> Route {
        let links: Vec<u32> = lane.iter().map(|l| l.0).collect();
        let path = self.path_of(lane);
        let packet = mtu + self.settings.header;
        let fetched_over = self.fetched_over(&links);
        let travelled = || links[fetched_over as usize..].iter().map(|&link| self.net.class(link));
        let round_trip = round_trip(travelled(), packet, self.settings.header);
        let answers_wait = travelled().map(|link| link.time_for(packet)).sum();
        let rate = lane.iter().map(|&link| self.scenario.fabric.link(link).rate.bytes_per_ps());
        let rate = rate.fold(f64::INFINITY, f64::min);
        let inside =
            links.iter().all(|&link| self.net.links[link as usize].origin == Origin::ScaleUp);
        let longest = if inside { round_trip } else { round_trip.max(self.longest) };
        let info = PathInfo { rate, round_trip, longest, answers_wait, packet: packet as f64 };
        let hash =
            mix(self.seed
                ^ mix(self.ledger.outcome.flows << 32 ^ u64::from(message) ^ now.ps() << 8))
                ^ mix(u64::from(links[0]));
        let balancer = AnyBalancer::new(&self.spec.balancer, path.alternatives.max(1), hash);
        let long = self.net.long.keep(&links[fetched_over as usize..]);
        Route { links, fetched_over, long, path, info, balancer }
    }

    /// How many links of a path come before the NIC that sends.
    fn fetched_over(&self, links: &[u32]) -> u8 {
        let origin = |&link: &u32| self.net.links[link as usize].origin;
        let host = |origin| matches!(origin, Origin::ScaleUp | Origin::Host);
        let inside = links.iter().take_while(|&link| host(origin(link))).count();
        let sends = links.get(inside).is_some_and(|link| origin(link) == Origin::Nic);
        if sends { inside as u8 } else { 0 }
    }

    /// How long the first packet of so many bytes takes over the links before its NIC.
    fn fetching(&self, links: &[u32], bytes: u64) -> u64 {
        let size = bytes.min(self.spec.mtu.get()) + self.settings.header;
        let over = |&link: &u32| {
            let class = self.net.class(link);
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
