//! Where flows come from: messages and connections for the orders of a phase.

use crate::conn::{Conn, Flow, Inbound, Message};
use crate::halves::{Receiver, Sender};
use crate::layout::Place;
use crate::packet::NONE;
use crate::places::keep;
use crate::run::Run;
use crate::transport::AnyTransport;
use lightloom_engine::{EngineError, Sending};
use lightloom_fabric::LinkId;
use lightloom_units::Time;

impl Run<'_> {
    /// Makes the connections of a phase; their ids are appended to `order`, from the index returned.
    pub(crate) fn new_connections(
        &mut self,
        sending: &Sending,
        now: Time,
    ) -> Result<usize, EngineError> {
        let Sending { track, phase, task, ref orders } = *sending;
        let from = self.order.len();
        self.ends.launches(track, self.ledger.leads_on(track));
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
                inbound.last += end.bytes_in(2 * self.layout.window)
                    + 2 * self.settings.longest_train().max(1 << 16);
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
        let settings = &self.settings;
        sender.train = if inside { settings.train_inside } else { settings.train };
        sender.inside = inside;
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
}
