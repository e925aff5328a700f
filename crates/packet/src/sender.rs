//! What a sending host does: which flow's packet a link takes next, and what a sender makes of answers.
//!
//! Modelled: each first link serves its flows in turn, packet by packet, as their windows, credits and
//! paces allow; go-back-N (RoCEv2), or each packet on its own with trimmed ones asked for again at once;
//! everything else after silence.
//! What a GPU sends by another GPU's NIC is fetched by that NIC over the scale-up network, as much ahead
//! as its buffer holds, so that the NIC's flows take turns there and nowhere before.
//! Ignored: the time that hosts think; the bytes that selective acknowledgements take. A sender that
//! heard nothing for too long knows what arrived, as acknowledgements then would tell.

use crate::balancer::plug::{Heard, Next};
use crate::conn::{Conn, Path};
use crate::link::{Class, Link, Origin};
use crate::net::Thing;
use crate::packet::{Kind, NONE};
use crate::run::{Far, Run};
use crate::transport::plug::Ack;
use lightloom_engine::EngineError;
use lightloom_fabric::{LinkId, NicId};
use lightloom_units::Time;

impl Run<'_> {
    /// A connection may have become able to send: it joins the ring of its first link.
    pub(crate) fn ready(&mut self, id: u32, now: u64) {
        let conn = &mut self.net.conns[id as usize];
        if conn.in_ring || conn.paced || conn.done {
            return;
        }
        let message = &self.net.messages[conn.message as usize];
        if !conn.has_data(message.unsent) || !message.has_room(conn.info.packet) {
            return;
        }
        let at = conn.first_link();
        self.net.join_ring(id);
        self.kick(at, now);
    }

    /// Its window may have opened: whichever lane of the flow comes to send first has it.
    pub(crate) fn all_ready(&mut self, id: u32, now: u64) {
        let mut next = self.net.conns[id as usize].sibling;
        while next != id {
            let after = self.net.conns[next as usize].sibling;
            self.ready(next, now);
            next = after;
        }
        self.ready(id, now);
    }

    /// Takes a packet from the next flow in a link's ring that can send.
    #[inline]
    pub(crate) fn pull(&mut self, at: u32, now: u64) -> Option<u32> {
        loop {
            let last = self.net.links[at as usize].senders;
            if last == NONE {
                return None;
            }
            let id = self.net.conns[last as usize].ready_next;
            let conn = &mut self.net.conns[id as usize];
            let message = &self.net.messages[conn.message as usize];
            let unsent = message.unsent;
            let room = message.has_room(conn.info.packet);
            let done = conn.done;
            if !done && conn.has_data(unsent) && room {
                let pace = message.not_before.max(message.control.may_send_from());
                let time = conn.not_before.max(pace);
                if time > now {
                    conn.paced = true;
                    self.net.leave_ring(at, last, id);
                    self.soon(Thing::Conn(id), time);
                    self.wakes.push(id);
                    continue;
                }
                if !self.net.yields(id, unsent) {
                    let link = &mut self.net.links[at as usize];
                    link.senders = id;
                    link.own_turn = false;
                    return Some(self.make_packet(id, now));
                }
            }
            self.net.leave_ring(at, last, id);
            if !room && !done {
                self.wakes.push(id);
            }
            self.try_free(id);
        }
    }

    /// Sub-flows that yielded to one which left its ring may have their turn. Not before the link that
    /// it left has its next packet: they may send into the same one.
    #[cold]
    pub(crate) fn wake_siblings(&mut self, now: u64) {
        while let Some(id) = self.wakes.pop() {
            self.wake_siblings_of(id, now);
        }
    }

    fn wake_siblings_of(&mut self, id: u32, now: u64) {
        let conn = &self.net.conns[id as usize];
        if conn.sibling == id || conn.balancer.round_trip().is_none() {
            return;
        }
        let mut other = conn.sibling;
        while other != id {
            let next = self.net.conns[other as usize].sibling;
            self.ready(other, now);
            other = next;
        }
    }

    /// The pace of a connection lets it send again.
    pub(crate) fn paced(&mut self, id: u32, now: u64) {
        self.net.conns[id as usize].paced = false;
        self.ready(id, now);
        self.try_free(id);
    }

    fn make_packet(&mut self, id: u32, now: u64) -> u32 {
        let conn = &mut self.net.conns[id as usize];
        let message = &mut self.net.messages[conn.message as usize];
        let mut again = true;
        let seq = if let Some(seq) = conn.resend.pop_front() {
            seq
        } else {
            if conn.next_seq == conn.allotted {
                let payload = message.unsent.min(u64::from(conn.mtu));
                message.unsent -= payload;
                if payload < u64::from(conn.mtu) {
                    conn.partial = (conn.allotted, payload as u32);
                }
                conn.allotted += 1;
                again = false;
            }
            conn.next_seq += 1;
            conn.next_seq - 1
        };
        self.counts.resent += u64::from(again);
        self.counts.data_packets += 1;
        conn.count_in_flight(message, conn.in_flight + 1);
        conn.in_network += 1;
        let size = u64::from(conn.payload(seq)) + self.settings.header;
        message.not_before = now + message.control.sent(size, now);
        let fetched_over = conn.fetched_over as usize;
        conn.not_before = now;
        if fetched_over > 0 {
            conn.not_before = conn.not_before.max(Self::fetch(
                &mut self.net.links,
                &self.net.classes,
                &conn.links[..fetched_over],
                size,
                now,
            ));
        }
        if !conn.armed {
            conn.armed = true;
            conn.last_heard = now;
            let timeout = Far::Timeout { conn: id, generation: conn.generation };
            self.far.push(Time::from_ps(now + self.settings.retransmit_after), timeout);
        }
        let urgent = !conn.has_data(message.unsent) || !message.has_room(conn.info.packet);
        let alternative = if conn.path.alternatives > 1 {
            let nic = conn.links[conn.path.before as usize];
            let turn = &mut self.net.tallies[nic as usize].turn;
            *turn = turn.wrapping_add(1);
            let turn = *turn;
            match &mut self.outside {
                None => conn.balancer.path(Next { turn, in_flight: conn.in_flight - 1, now }),
                Some(outside) => {
                    let path = outside.path(&self.net, self.scenario.fabric, id, turn, now);
                    path.unwrap_or_else(|| {
                        self.far.push(Time::from_ps(now), Far::NoPath { conn: id });
                        0
                    })
                }
            }
        } else {
            0
        };
        let conn = &mut self.net.conns[id as usize];
        conn.taken = alternative;
        let packet_id = self.net.pool.take();
        let packet = &mut self.net.pool.packets[packet_id as usize];
        packet.conn = id;
        packet.seq = seq;
        packet.stamp = (now / 1000) as u32;
        packet.size = size as u16;
        packet.alternative = alternative;
        packet.kind = Kind::Data;
        packet.marked = false;
        packet.urgent = urgent;
        if conn.path.alternatives > 1 {
            let Path { before, after, source, destination, .. } = conn.path;
            self.path.clear();
            let before = conn.fetched_over as usize..before as usize;
            self.path.extend(conn.links[before].iter().map(|&l| LinkId(l)));
            let ends = (NicId(source), NicId(destination));
            self.scenario.fabric.nic_path(ends.0, ends.1, u32::from(alternative), &mut self.path);
            if self.ledger.circuits.ever_broke() {
                self.keep_whole(id, alternative);
            }
            let conn = &self.net.conns[id as usize];
            let after = conn.links.len() - after as usize;
            self.path.extend(conn.links[after..].iter().map(|&l| LinkId(l)));
            self.raw_path.clear();
            self.raw_path.extend(self.path.iter().map(|l| l.0));
            let packet = &mut self.net.pool.packets[packet_id as usize];
            packet.take(&self.raw_path, conn.long);
        } else {
            packet.take(conn.travelled(), conn.long);
        }
        packet_id
    }

    /// A NIC fetches a packet over the scale-up network, ahead of sending it: its links are taken for as
    /// long as that lasts. Returns when the next one may be sent: as a NIC holds no more than [`STAGED`]
    /// bytes, and no sooner than it has come where PCIe may be slower than the NIC.
    fn fetch(links: &mut [Link], classes: &[Class], path: &[u32], size: u64, now: u64) -> u64 {
        let mut next = now;
        for &at in path {
            let link = &mut links[at as usize];
            let class = classes[link.class as usize];
            link.free_at = link.free_at.max(now) + class.time_for(size);
            link.carried += size;
            link.packets = link.packets.wrapping_add(1);
            let ahead = if link.origin == Origin::Host { 0 } else { class.time_for(STAGED) };
            next = next.max(link.free_at.saturating_sub(ahead));
        }
        next
    }

    // ---- the sender hears

    pub(crate) fn acknowledged(&mut self, id: u32, conn_id: u32, now: u64) {
        let packet = &self.net.pool.packets[id as usize];
        let (seq, count, marked, alternative) =
            (packet.seq, packet.size, packet.marked, packet.alternative);
        let round_trip = self.round_trip(id, now);
        self.give(id);
        let conn = &mut self.net.conns[conn_id as usize];
        if conn.done {
            return;
        }
        conn.last_heard = now;
        conn.silences = 0;
        let message = &mut self.net.messages[conn.message as usize];
        if self.settings.go_back_n {
            if seq > conn.unacked {
                conn.unacked = seq;
                conn.next_seq = conn.next_seq.max(seq);
            }
            conn.count_in_flight(message, conn.next_seq - conn.unacked);
        } else {
            conn.count_in_flight(message, conn.in_flight.saturating_sub(u32::from(count)));
        }
        let idle = !conn.has_data(message.unsent);
        message.control.acked(Ack { now, packets: u32::from(count), marked, round_trip, idle });
        // An alternative of a route that it has left says nothing about those of its route now.
        let known = alternative < conn.path.alternatives.max(1);
        if known && (conn.path.alternatives > 1 || conn.sibling != conn_id) {
            let heard = Heard { path: alternative, marked, round_trip, now };
            conn.balancer.acked(heard);
            if let Some(outside) = &mut self.outside {
                outside.heard(conn_id, heard);
            }
        }
        self.all_ready(conn_id, now);
    }

    /// How long ago the data packet was sent that a packet answers \[ps\], to the nanosecond.
    pub(crate) fn round_trip(&self, id: u32, now: u64) -> u64 {
        let stamp = self.net.pool.packets[id as usize].stamp;
        (u64::from(((now / 1000) as u32).wrapping_sub(stamp)) * 1000).min(now)
    }

    /// The receiver misses a packet; with go-back-N, everything from it on.
    pub(crate) fn missing(&mut self, conn_id: u32, seq: u32, sent: u64, now: u64) {
        let conn = &mut self.net.conns[conn_id as usize];
        if conn.done {
            return;
        }
        conn.last_heard = now;
        conn.silences = 0;
        let message = &mut self.net.messages[conn.message as usize];
        if self.settings.go_back_n {
            if seq >= conn.unacked {
                conn.unacked = seq;
                conn.next_seq = seq;
                conn.count_in_flight(message, 0);
            }
        } else {
            conn.count_in_flight(message, conn.in_flight.saturating_sub(1));
            conn.resend.push_back(seq);
        }
        message.control.lost(sent, now);
        self.ready(conn_id, now);
        self.all_ready(conn_id, now);
    }

    /// Nothing was heard for long: what did not arrive is sent again.
    pub(crate) fn timeout(
        &mut self,
        conn_id: u32,
        generation: u32,
        now: u64,
    ) -> Result<(), EngineError> {
        let conn = &mut self.net.conns[conn_id as usize];
        if conn.generation != generation || conn.done {
            return Ok(());
        }
        // Packets that overtook each other may have been counted back twice: what did not arrive decides.
        if conn.in_flight == 0 && (self.settings.go_back_n || !conn.misses_any()) {
            conn.armed = false;
            return Ok(());
        }
        let patience = self.settings.retransmit_after << conn.silences.min(6);
        let due = conn.last_heard.saturating_add(patience);
        if due <= now {
            self.counts.timeouts += 1;
            conn.silences += 1;
            if conn.silences > GIVE_UP {
                let message = conn.message as usize;
                let task = self.ledger.task_of(self.net.messages[message].track);
                return Err(EngineError::Unheard { task, times: GIVE_UP });
            }
            conn.last_heard = now;
            let message = &mut self.net.messages[conn.message as usize];
            conn.count_in_flight(message, 0);
            message.control.timed_out();
            if self.settings.go_back_n {
                conn.next_seq = conn.unacked;
            } else {
                conn.send_missing_again();
            }
        }
        let again =
            conn.last_heard.saturating_add(self.settings.retransmit_after << conn.silences.min(6));
        self.far
            .push(Time::from_ps(again.max(now + 1)), Far::Timeout { conn: conn_id, generation });
        self.ready(conn_id, now);
        self.all_ready(conn_id, now);
        Ok(())
    }

    // ---- endings

    pub(crate) fn complete_message(&mut self, conn_id: u32, now: u64) {
        let message_id = self.net.conns[conn_id as usize].message;
        let mut id = conn_id;
        loop {
            let conn = &mut self.net.conns[id as usize];
            conn.done = true;
            conn.resend.clear();
            let next = conn.sibling;
            self.count_on_circuits(id, false);
            id = next;
            if id == conn_id {
                break;
            }
        }
        loop {
            let next = self.net.conns[id as usize].sibling;
            self.try_free(id);
            id = next;
            if id == conn_id {
                break;
            }
        }
        self.finished_messages.push((message_id, now));
    }

    /// A packet leaves the network.
    pub(crate) fn give(&mut self, id: u32) {
        let conn = self.net.pool.packets[id as usize].conn;
        self.net.pool.give(id);
        let state = &mut self.net.conns[conn as usize];
        state.in_network -= 1;
        if state.in_network == 0 {
            self.try_free(conn);
        }
    }

    pub(crate) fn try_free(&mut self, id: u32) {
        let conn = &mut self.net.conns[id as usize];
        let referred = conn.in_network > 0 || conn.in_ring || conn.paced || conn.pulls > 0;
        if conn.done && !referred && conn.message != NONE {
            conn.generation += 1;
            conn.message = NONE;
            self.free_conns.push(id);
        }
    }

    /// Counts the flows on circuits, so that none is patched away under one.
    pub(crate) fn count_on_circuits(&mut self, id: u32, on: bool) {
        let Conn { links, .. } = &self.net.conns[id as usize];
        for &link in links {
            let state = &self.net.links[link as usize];
            if state.into_ocs || state.origin == Origin::Ocs {
                let users = &mut self.users[link as usize];
                *users = if on { *users + 1 } else { *users - 1 };
            }
        }
    }
}

/// What a NIC holds of what other GPUs of its server send by it \[B\].
const STAGED: u64 = 1 << 20;
/// Times that a sender sends again into silence before the run fails.
const GIVE_UP: u32 = 40;
