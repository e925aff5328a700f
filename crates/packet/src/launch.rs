//! Where flows come from: messages and connections for the orders of a phase.

use crate::balancer::AnyBalancer;
use crate::balancer::plug::Paths;
use crate::conn::{Conn, Flow, Inbound, Message, Path, Receiver, Route, Sender};
use crate::layout::Place;
use crate::link::Origin;
use crate::net::round_trip;
use crate::packet::NONE;
use crate::run::Run;
use crate::transport::AnyTransport;
use crate::transport::plug::PathInfo;
use lightloom_engine::{EngineError, Sending};
use lightloom_fabric::LinkId;
use lightloom_units::Time;
use lightloom_units::mix;

/// Puts something at a free place, or at a new one.
fn keep<T>(all: &mut Vec<T>, free: &mut Vec<u32>, what: T) -> u32 {
    match free.pop() {
        Some(at) => {
            all[at as usize] = what;
            at
        }
        None => {
            all.push(what);
            all.len() as u32 - 1
        }
    }
}

impl Run<'_> {
    /// Makes the connections of a phase; their ids are appended to `order`, from the index returned.
    pub(crate) fn new_connections(
        &mut self,
        sending: &Sending,
        now: Time,
    ) -> Result<usize, EngineError> {
        let Sending { track, phase, task, ref orders } = *sending;
        let from = self.order.len();
        for order in orders.flows(phase) {
            let flow = self.free_flows.pop().unwrap_or(self.flows.len() as u32);
            let bytes = order.bytes.get();
            let lanes: Vec<u32> = orders.lane_numbers(order).collect();
            let first_lane = orders.lane_links(lanes[0]);
            let (source, unit) = (self.start_of(first_lane), self.end_of(first_lane));
            let shard = &mut self.shards[unit.shard()];
            let mut inbound =
                Inbound { flow, bytes, received: 0, entered: 0, last: 0, to_grant: 0 };
            let inbound_id = keep(&mut shard.inbounds, &mut shard.free_inbounds, inbound);
            let ids = (flow, (unit.shard(), inbound_id), source);
            let (mut first, mut last, mut message) = (NONE, NONE, NONE);
            for &lane in &lanes {
                let links = orders.lane_links(lane);
                if self.start_of(links) != source || self.end_of(links) != unit {
                    let reason = "lanes of a flow lead from or to different servers".into();
                    return Err(EngineError::Policy { task, reason });
                }
                let id = self.connect(ids, message, lane, links, bytes, now);
                if first == NONE {
                    (first, last) = (id, id);
                    let (shard, sender) = self.conns[id as usize].sender;
                    message = self.shards[shard].senders[sender as usize].message;
                }
                self.join_siblings(last, id, first);
                last = id;
                self.order.push(id);
                self.count_on_circuits(id, true);
                // What may come over its last link while two windows last, and two packets.
                let end = self.class(links[links.len() - 1].0);
                inbound.last += end.bytes_in(2 * self.layout.window) + (2 << 16);
            }
            let inside = lanes.iter().any(|&lane| {
                let links = orders.lane_links(lane);
                self.layout.units[links[links.len() - 1].index()] == unit
            });
            // What never leaves a unit is in it from the start.
            inbound.entered = if source == unit { u64::MAX } else { 0 };
            let delay = |&lane: &u32| -> u64 {
                orders.lane_links(lane).iter().map(|link| self.class(link.0).delay).sum()
            };
            let delay = lanes.iter().map(delay).min().unwrap_or(0);
            let control = self.control(first, now);
            let packets = bytes.div_ceil(u64::from(self.sender(first).mtu));
            inbound.to_grant = self.to_grant(&control, packets);
            let (shard, _) = self.conns[first as usize].sender;
            self.shards[shard].messages[message as usize] =
                Message { unsent: bytes, control, in_flight: 0, not_before: 0 };
            self.shards[unit.shard()].inbounds[inbound_id as usize] = inbound;
            let made = Flow {
                track,
                bytes,
                start: now.ps(),
                ideal: self.ideal(first, bytes),
                delay,
                conn: first,
                inbound: (unit.shard(), inbound_id),
                unit,
                inside,
                ending: NONE,
                over: false,
            };
            match self.flows.get_mut(flow as usize) {
                Some(free) => *free = made,
                None => self.flows.push(made),
            }
            self.ends.begins(track);
            if bytes < inbound.last {
                self.ends.ending(&mut self.flows, flow);
            }
        }
        Ok(from)
    }

    /// The unit that a path starts in.
    fn start_of(&self, links: &[LinkId]) -> Place {
        self.layout.units[links[0].index()]
    }

    /// The unit that a path ends in.
    fn end_of(&self, links: &[LinkId]) -> Place {
        self.layout.units[(links[links.len() - 1].0 ^ 1) as usize]
    }

    /// A connection comes after another of the same flow, before the first.
    fn join_siblings(&mut self, last: u32, id: u32, first: u32) {
        for (from, to) in [(last, id), (id, first)] {
            let next = self.conns[to as usize];
            let conn = &mut self.conns[from as usize];
            conn.sibling = to;
            let Conn { sender: (shard, sender), receiver: (other, receiver), .. } = *conn;
            self.shards[shard].senders[sender as usize].sibling = next.sender.1;
            self.shards[other].receivers[receiver as usize].sibling = next.receiver.1;
        }
    }

    /// The sending half of a connection.
    pub(crate) fn sender(&self, conn: u32) -> &Sender {
        let (shard, sender) = self.conns[conn as usize].sender;
        &self.shards[shard].senders[sender as usize]
    }

    /// No flow of so many bytes over a connection and its siblings could take less \[ps\].
    pub(crate) fn ideal(&self, first: u32, bytes: u64) -> u64 {
        let (mut rate, mut delay, mut at) = (0.0, u64::MAX, first);
        loop {
            let sender = self.sender(at);
            // Lanes may share links, then this is too lenient, never too strict.
            rate += sender.info.rate;
            delay = delay.min(sender.links.iter().map(|&l| self.class(l).delay).sum());
            at = self.conns[at as usize].sibling;
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
        let (mut info, mut at) = (self.sender(first).info, self.conns[first as usize].sibling);
        if at != first {
            let (mut ends, mut rates) = ([vec![], vec![]], [0.0, 0.0]);
            loop {
                let lane = self.sender(at);
                let links = [lane.travelled()[0], lane.links[lane.links.len() - 1]];
                for (end, link) in links.into_iter().enumerate() {
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
                at = self.conns[at as usize].sibling;
            }
            info.rate = f64::min(rates[0], rates[1]);
        }
        AnyTransport::new(&self.spec.transport, info, now.ps())
    }

    /// How many of a flow's packets its receiver is to grant.
    pub(crate) fn to_grant(&self, control: &AnyTransport, packets: u64) -> u32 {
        let asked = (packets as u32).saturating_sub(control.unasked());
        if self.settings.grants { asked } else { 0 }
    }

    fn connect(
        &mut self,
        (flow, (there, inbound), source): (u32, (usize, u32), Place),
        message: u32,
        number: u32,
        lane: &[LinkId],
        bytes: u64,
        now: Time,
    ) -> u32 {
        let fabric = self.scenario.fabric;
        let inside = lane.iter().all(|&l| fabric.link(l).class.is_inside());
        let mtu = if inside { self.spec.scale_up_mtu } else { self.spec.mtu }.get();
        let route = self.route(flow, lane, mtu, now);
        let product = route.info.bandwidth_delay() as u64;
        if let Some(window) = self.spec.transport.given_window()
            && window.get() < product
            && self.narrow_window.is_none_or(|(other, _)| other < product)
        {
            self.narrow_window = Some((product, window.get()));
        }
        let id = self.free_conns.pop().unwrap_or(self.conns.len() as u32);
        let life = self.lives;
        self.lives = self.lives.wrapping_add(1);
        let fetched_over = route.fetched_over as usize;
        let fetching = self.fetching(&route.links[..fetched_over], bytes);
        let first_link = self.layout.places[route.links[fetched_over] as usize].at();
        let here = source.shard();
        let message = match message {
            NONE => {
                let control = AnyTransport::new(&self.spec.transport, route.info, now.ps());
                let empty = Message { unsent: 0, control, in_flight: 0, not_before: 0 };
                let shard = &mut self.shards[here];
                keep(&mut shard.messages, &mut shard.free_messages, empty)
            }
            message => message,
        };
        let mut sender = Sender::new(id, life, message, mtu as u32, route, first_link);
        sender.not_before = now.ps() + fetching;
        sender.train = if inside { 1 } else { self.settings.train };
        let shard = &mut self.shards[here];
        let sender_id = keep(&mut shard.senders, &mut shard.free_senders, sender);
        let receiver =
            Receiver::new(inbound, life, sender_id, &self.shards[here].senders[sender_id as usize]);
        let shard = &mut self.shards[there];
        let receiver_id = keep(&mut shard.receivers, &mut shard.free_receivers, receiver);
        let sender = &mut self.shards[here].senders[sender_id as usize];
        (sender.id, sender.to) = (sender_id, receiver_id);
        let conn = Conn {
            flow,
            sibling: NONE,
            lane: number,
            life,
            sender: (here, sender_id),
            receiver: (there, receiver_id),
            done: false,
        };
        match self.conns.get_mut(id as usize) {
            Some(free) => *free = conn,
            None => self.conns.push(conn),
        }
        if let Some(outside) = &mut self.shards[here].outside {
            outside.begins(sender_id);
        }
        id
    }

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
    fn fetching(&self, links: &[u32], bytes: u64) -> u64 {
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
