//! What a receiving host does with what arrives, and what it answers.
//!
//! Modelled: acknowledgements and the like go before data; trimmed packets are asked for again at once,
//! and on a single path also those that a gap betrays. Receivers pace their pulls over all flows of a
//! link (NDP).
//! Ignored: the time that hosts think.

use crate::common::Common;
use crate::packet::{Kind, NONE};
use crate::shard::Shard;
use crate::things::{Puller, Thing};

impl Shard<'_> {
    /// A packet is where it was sent. What is of a connection that is over says nothing more.
    pub(crate) fn deliver(&mut self, c: &Common<'_>, id: u32, now: u64) {
        let packet = &self.pool.packets[id as usize];
        let (from, to, life, seq) = (packet.from, packet.to, packet.life, packet.seq);
        match packet.kind() {
            Kind::Data | Kind::Trimmed => {
                let receiver = &self.receivers[to as usize];
                if receiver.done || receiver.life != life {
                    self.pool.give(id);
                } else if packet.kind() == Kind::Data {
                    self.receive(c, id, to, seq, now);
                } else {
                    let packets = packet.size;
                    self.want_pull(c, to, u32::from(packets), now);
                    if c.settings.grants {
                        self.grant(c, to, now);
                    }
                    self.answer(c, id, Kind::Nack, seq, packets, now);
                }
                return;
            }
            Kind::Pause => {
                self.pool.give(id);
                self.pause(c, from, seq == 1, now);
                return;
            }
            Kind::Ack | Kind::Nack | Kind::Notice | Kind::Pull => {}
        }
        let sender = &self.senders[from as usize];
        if sender.done || sender.life != life {
            self.pool.give(id);
            return;
        }
        match packet.kind() {
            Kind::Ack => {
                self.acknowledged(c, id, now);
                return;
            }
            Kind::Nack => {
                let sent = now - self.round_trip(id, now);
                let packets = u32::from(packet.size);
                self.missing(c, from, (seq, packets), sent, now);
            }
            Kind::Notice => self.messages[sender.message as usize].control.notified(now),
            _ => {
                let control = &mut self.messages[sender.message as usize].control;
                (0..packet.size).for_each(|_| control.pulled());
                self.all_ready(c, from, now);
            }
        }
        self.pool.give(id);
    }

    fn receive(&mut self, c: &Common<'_>, id: u32, to: u32, seq: u32, now: u64) {
        let packet = &self.pool.packets[id as usize];
        let (marked, size) = (packet.marked(), packet.bytes());
        if c.settings.grants {
            self.grant(c, to, now);
        }
        if marked {
            self.notify(c, id, to, now);
        }
        let receiver = &mut self.receivers[to as usize];
        let mtu = u64::from(receiver.mtu);
        let packets = c.settings.packets_in(size, mtu + c.settings.header);
        let mut payload = size - u64::from(packets) * c.settings.header;
        let behind = receiver.furthest.saturating_sub(seq);
        receiver.furthest = receiver.furthest.max(seq + packets - 1);
        let bucket = (u32::BITS - behind.leading_zeros()) as usize;
        self.counts.reorder.0[bucket] += u64::from(packets);
        if c.settings.go_back_n {
            let expected = receiver.expected;
            if seq > expected || seq + packets <= expected {
                if seq < expected {
                    self.answer(c, id, Kind::Ack, expected, 0, now);
                } else if !receiver.nacked {
                    receiver.nacked = true;
                    self.answer(c, id, Kind::Nack, expected, 0, now);
                } else {
                    self.pool.give(id);
                }
                return;
            }
            payload -= u64::from(expected - seq) * mtu;
            receiver.expected = seq + packets;
            receiver.nacked = false;
        } else {
            let mut new = 0;
            let last = payload - u64::from(packets - 1) * mtu;
            for at in 0..packets {
                if receiver.see(seq + at) {
                    new += if at + 1 == packets { last } else { mtu };
                }
            }
            if new == 0 {
                self.answer(c, id, Kind::Ack, seq, packets as u16, now);
                return;
            }
            payload = new;
            // Packets on one path do not overtake: a gap is a loss, unless it is known already.
            if c.settings.gaps_are_losses && seq + packets > receiver.expected {
                let gap = receiver.expected..seq;
                receiver.expected = seq + packets;
                for lost in gap {
                    self.tell_missing(c, id, to, lost, now);
                }
            }
        }
        let receiver = &mut self.receivers[to as usize];
        receiver.unannounced += packets as u16;
        receiver.unannounced_mark |= marked;
        let inbound = &mut self.inbounds[receiver.inbound as usize];
        let ends = inbound.bytes - inbound.received < inbound.last;
        inbound.received += payload;
        let left = inbound.bytes - inbound.received;
        if left < inbound.last && !ends {
            self.ending.push(inbound.flow);
        }
        let whole = left == 0;
        let urgent = self.pool.packets[id as usize].urgent();
        if u32::from(receiver.unannounced) >= c.settings.ack_every || urgent || whole {
            let count = std::mem::take(&mut receiver.unannounced);
            let mark = std::mem::take(&mut receiver.unannounced_mark);
            let last = seq + packets - 1;
            let announced = if c.settings.go_back_n { receiver.expected } else { last };
            self.pool.packets[id as usize].mark(mark);
            if !whole && !c.settings.grants {
                self.want_pull(c, to, packets, now);
            }
            self.answer(c, id, Kind::Ack, announced, count, now);
        } else {
            if !c.settings.grants {
                self.want_pull(c, to, packets, now);
            }
            self.pool.give(id);
        }
        if whole {
            self.complete(to, now);
        }
    }

    /// All of a flow has arrived. Its sender hears of that when the window is over.
    fn complete(&mut self, to: u32, now: u64) {
        let flow = self.inbounds[self.receivers[to as usize].inbound as usize].flow;
        let mut id = to;
        loop {
            let receiver = &mut self.receivers[id as usize];
            receiver.done = true;
            id = receiver.sibling;
            if id == to {
                break;
            }
        }
        self.finished.push((now, flow));
    }

    /// Turns a packet into the answer to itself.
    fn answer(&mut self, c: &Common<'_>, id: u32, kind: Kind, seq: u32, count: u16, now: u64) {
        let packet = &mut self.pool.packets[id as usize];
        packet.set_kind(kind);
        packet.seq = seq;
        packet.stand_for(count);
        packet.turn();
        self.counts.control_packets += 1;
        let at = c.at(packet.link(0, c.long));
        self.enqueue(c, at, id, now);
    }

    /// A packet of its own that travels back along the path of another.
    fn reply_beside(&mut self, c: &Common<'_>, id: u32, kind: Kind, seq: u32, now: u64) {
        let reply = self.pool.take();
        let mut packet = self.pool.packets[id as usize].clone();
        packet.next = NONE;
        self.pool.packets[reply as usize] = packet;
        self.answer(c, reply, kind, seq, 1, now);
    }

    fn tell_missing(&mut self, c: &Common<'_>, id: u32, to: u32, seq: u32, now: u64) {
        if !self.receivers[to as usize].has_seen(seq) {
            if c.settings.grants {
                self.want_pull(c, to, 1, now);
            }
            self.reply_beside(c, id, Kind::Nack, seq, now);
        }
    }

    /// DCQCN's notification point.
    fn notify(&mut self, c: &Common<'_>, id: u32, to: u32, now: u64) {
        let Some(interval) = c.settings.notification_interval else { return };
        let receiver = &mut self.receivers[to as usize];
        if now >= receiver.quiet_until && !receiver.done {
            receiver.quiet_until = now + interval;
            self.reply_beside(c, id, Kind::Notice, 0, now);
        }
    }

    // ---- pulls

    /// The first packet of a flow has come: all that is to come is granted, in equal parts by its lanes.
    fn grant(&mut self, c: &Common<'_>, to: u32, now: u64) {
        let inbound = self.receivers[to as usize].inbound as usize;
        let packets = std::mem::take(&mut self.inbounds[inbound].to_grant);
        if packets == 0 {
            return;
        }
        let next = |id: u32| self.receivers[id as usize].sibling;
        let mut lanes = vec![to];
        while next(lanes[lanes.len() - 1]) != to {
            lanes.push(next(lanes[lanes.len() - 1]));
        }
        let (mut left, mut over) = (packets, lanes.len() as u32);
        for lane in lanes {
            let share = left.div_ceil(over);
            (left, over) = (left - share, over - 1);
            if share > 0 {
                self.want_pull(c, lane, share, now);
            }
        }
    }

    fn want_pull(&mut self, c: &Common<'_>, to: u32, packets: u32, now: u64) {
        if self.pullers.is_empty() {
            return;
        }
        if let Some((at, free_at)) = self.wants_pull(c, to, packets) {
            self.transit.plan(self.unit_of[at as usize], Thing::Puller(at), free_at.max(now));
        }
    }

    pub(crate) fn send_pull(&mut self, c: &Common<'_>, at: u32, now: u64) {
        let (to, packets) = self.next_pull(c, at, now);
        let Puller { pending, free_at, .. } = self.pullers[at as usize];
        if pending {
            self.transit.plan(self.unit_of[at as usize], Thing::Puller(at), free_at);
        }
        let receiver = &self.receivers[to as usize];
        if receiver.done {
            return;
        }
        let id = self.pool.take();
        let packet = &mut self.pool.packets[id as usize];
        (packet.from, packet.to, packet.life) = (receiver.from, to, receiver.life);
        packet.mark(false);
        packet.take(receiver.links.iter().copied(), receiver.long);
        self.answer(c, id, Kind::Pull, 0, packets as u16, now);
    }
}
