//! What a receiving host does with what arrives, and what it answers.
//!
//! Modelled: acknowledgements and the like go before data; trimmed packets are asked for again at once,
//! and on a single path also those that a gap betrays. Receivers pace their pulls over all flows of a
//! link (NDP).
//! Ignored: the time that hosts think.

use crate::packet::{Kind, NONE};
use crate::shard::{Common, Shard};
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
                    self.want_pull(c, to, now);
                    self.answer(c, id, Kind::Nack, seq, 1, now);
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
                self.missing(c, from, seq, sent, now);
            }
            Kind::Notice => self.messages[sender.message as usize].control.notified(now),
            _ => {
                self.messages[sender.message as usize].control.pulled();
                self.all_ready(c, from, now);
            }
        }
        self.pool.give(id);
    }

    fn receive(&mut self, c: &Common<'_>, id: u32, to: u32, seq: u32, now: u64) {
        let packet = &self.pool.packets[id as usize];
        let (marked, payload) = (packet.marked(), u64::from(packet.size) - c.settings.header);
        if marked {
            self.notify(c, id, to, now);
        }
        let receiver = &mut self.receivers[to as usize];
        let behind = receiver.furthest.saturating_sub(seq);
        receiver.furthest = receiver.furthest.max(seq);
        let bucket = (u32::BITS - behind.leading_zeros()) as usize;
        self.counts.reorder.0[bucket] += 1;
        if c.settings.go_back_n {
            if seq != receiver.expected {
                let expected = receiver.expected;
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
            receiver.expected += 1;
            receiver.nacked = false;
        } else {
            if !receiver.see(seq) {
                self.answer(c, id, Kind::Ack, seq, 1, now);
                return;
            }
            // Packets on one path do not overtake: a gap is a loss, unless it is known already.
            if c.settings.gaps_are_losses && seq >= receiver.expected {
                let gap = receiver.expected..seq;
                receiver.expected = seq + 1;
                for lost in gap {
                    self.tell_missing(c, id, to, lost, now);
                }
            }
        }
        let receiver = &mut self.receivers[to as usize];
        receiver.unannounced += 1;
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
            let announced = if c.settings.go_back_n { receiver.expected } else { seq };
            self.pool.packets[id as usize].mark(mark);
            if !whole {
                self.want_pull(c, to, now);
            }
            self.answer(c, id, Kind::Ack, announced, count, now);
        } else {
            self.want_pull(c, to, now);
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
        packet.size = count;
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

    fn want_pull(&mut self, c: &Common<'_>, to: u32, now: u64) {
        if self.pullers.is_empty() {
            return;
        }
        if let Some((at, free_at)) = self.wants_pull(c, to) {
            self.transit.plan(self.unit_of[at as usize], Thing::Puller(at), free_at.max(now));
        }
    }

    pub(crate) fn send_pull(&mut self, c: &Common<'_>, at: u32, now: u64) {
        let to = self.next_pull(c, at, now);
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
        self.answer(c, id, Kind::Pull, 0, 1, now);
    }
}
