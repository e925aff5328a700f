//! What a receiving host does with what arrives, and what it answers.
//!
//! Modelled: acknowledgements and the like go before data; trimmed packets are asked for again at once,
//! and on a single path also those that a gap betrays. Receivers pace their pulls over all flows of a
//! link (NDP).
//! Ignored: the time that hosts think.

use crate::net::{Puller, Thing};
use crate::packet::{Kind, NONE};
use crate::run::Run;

impl Run<'_> {
    /// A packet is where it was sent.
    pub(crate) fn deliver(&mut self, id: u32, now: u64) {
        let packet = &self.net.pool.packets[id as usize];
        let (conn, seq) = (packet.conn, packet.seq);
        match packet.kind {
            Kind::Data => self.receive(id, conn, seq, now),
            Kind::Trimmed => {
                if self.net.conns[conn as usize].done {
                    self.give(id);
                    return;
                }
                self.want_pull(conn, now);
                self.answer(id, Kind::Nack, seq, 1, now);
            }
            Kind::Ack => self.acknowledged(id, conn, now),
            Kind::Nack => {
                let sent = now - self.round_trip(id, now);
                self.give(id);
                self.missing(conn, seq, sent, now);
            }
            Kind::Notice => {
                self.give(id);
                if let Some(message) = self.net.message_of(conn) {
                    message.control.notified(now);
                }
            }
            Kind::Pull => {
                self.give(id);
                if let Some(message) = self.net.message_of(conn) {
                    message.control.pulled();
                }
                self.all_ready(conn, now);
            }
        }
    }

    fn receive(&mut self, id: u32, conn_id: u32, seq: u32, now: u64) {
        let marked = self.net.pool.packets[id as usize].marked;
        if marked {
            self.notify(id, conn_id, now);
        }
        let conn = &mut self.net.conns[conn_id as usize];
        if conn.done {
            self.give(id);
            return;
        }
        let payload = u64::from(conn.payload(seq));
        let behind = conn.furthest.saturating_sub(seq);
        conn.furthest = conn.furthest.max(seq);
        let bucket = (u32::BITS - behind.leading_zeros()) as usize;
        self.counts.reorder[bucket] += 1;
        if self.settings.go_back_n {
            if seq != conn.expected {
                let expected = conn.expected;
                if seq < expected {
                    self.answer(id, Kind::Ack, expected, 0, now);
                } else if !conn.nacked {
                    conn.nacked = true;
                    self.answer(id, Kind::Nack, expected, 0, now);
                } else {
                    self.give(id);
                }
                return;
            }
            conn.expected += 1;
            conn.nacked = false;
        } else {
            if !conn.see(seq) {
                self.answer(id, Kind::Ack, seq, 1, now);
                return;
            }
            // Packets on one path do not overtake: a gap is a loss, unless it is known already.
            if self.settings.gaps_are_losses && seq >= conn.expected {
                let gap = conn.expected..seq;
                conn.expected = seq + 1;
                for lost in gap {
                    self.tell_missing(id, conn_id, lost, now);
                }
            }
        }
        let conn = &mut self.net.conns[conn_id as usize];
        conn.unannounced += 1;
        conn.unannounced_mark |= marked;
        let message = &mut self.net.messages[conn.message as usize];
        message.received += payload;
        let whole = message.received == message.bytes;
        let urgent = self.net.pool.packets[id as usize].urgent;
        if u32::from(conn.unannounced) >= self.settings.ack_every || urgent || whole {
            let count = std::mem::take(&mut conn.unannounced);
            let mark = std::mem::take(&mut conn.unannounced_mark);
            let announced = if self.settings.go_back_n { conn.expected } else { seq };
            self.net.pool.packets[id as usize].marked = mark;
            if !whole {
                self.want_pull(conn_id, now);
            }
            self.answer(id, Kind::Ack, announced, count, now);
        } else {
            self.want_pull(conn_id, now);
            self.give(id);
        }
        if whole {
            self.complete_message(conn_id, now);
        }
    }

    /// Turns a packet into the answer to itself.
    fn answer(&mut self, id: u32, kind: Kind, seq: u32, count: u16, now: u64) {
        let packet = &mut self.net.pool.packets[id as usize];
        packet.kind = kind;
        packet.seq = seq;
        packet.size = count;
        packet.turn();
        self.send_control(id, now);
    }

    fn send_control(&mut self, id: u32, now: u64) {
        self.counts.control_packets += 1;
        let link = self.net.pool.packets[id as usize].link(0, &self.net.long);
        self.enqueue(link, id, now);
    }

    /// A packet of its own that travels back along the path of another.
    fn reply_beside(&mut self, id: u32, kind: Kind, seq: u32, now: u64) {
        let reply = self.net.pool.take();
        let mut packet = self.net.pool.packets[id as usize].clone();
        self.net.conns[packet.conn as usize].in_network += 1;
        packet.next = NONE;
        self.net.pool.packets[reply as usize] = packet;
        self.answer(reply, kind, seq, 1, now);
    }

    fn tell_missing(&mut self, id: u32, conn: u32, seq: u32, now: u64) {
        if !self.net.conns[conn as usize].has_seen(seq) {
            self.reply_beside(id, Kind::Nack, seq, now);
        }
    }

    /// DCQCN's notification point.
    fn notify(&mut self, id: u32, conn_id: u32, now: u64) {
        let Some(interval) = self.settings.notification_interval else { return };
        let conn = &mut self.net.conns[conn_id as usize];
        if now >= conn.quiet_until && !conn.done {
            conn.quiet_until = now + interval;
            self.reply_beside(id, Kind::Notice, 0, now);
        }
    }

    // ---- pulls

    fn want_pull(&mut self, conn_id: u32, now: u64) {
        if self.net.pullers.is_empty() {
            return;
        }
        if let Some((at, free_at)) = self.net.want_pull(conn_id) {
            self.soon(Thing::Puller(at), free_at.max(now));
        }
    }

    pub(crate) fn send_pull(&mut self, at: u32, now: u64) {
        let id = self.net.next_pull(at, self.settings.header, now);
        let Puller { pending, free_at, .. } = self.net.pullers[at as usize];
        if pending {
            self.soon(Thing::Puller(at), free_at);
        }
        if self.net.conns[id as usize].done {
            self.try_free(id);
            return;
        }
        let packet_id = self.net.pool.take();
        let conn = &mut self.net.conns[id as usize];
        conn.in_network += 1;
        let packet = &mut self.net.pool.packets[packet_id as usize];
        packet.conn = id;
        packet.marked = false;
        packet.take(conn.travelled(), conn.long);
        self.answer(packet_id, Kind::Pull, 0, 1, now);
    }
}
