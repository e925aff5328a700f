//! What a sending host does: which flow's packet a link takes next, and what a sender makes of answers.
//!
//! Modelled: each first link serves its flows in turn, packet by packet, as their windows, credits and
//! paces allow; go-back-N (RoCEv2), or each packet on its own with trimmed ones asked for again at once;
//! everything else after silence.
//! What a GPU sends by another GPU's NIC is fetched by that NIC over the scale-up network, as much ahead
//! as its buffer holds, so that the NIC's flows take turns there and nowhere before.
//! Ignored: the time that hosts think; the bytes that selective acknowledgements take. A sender that
//! heard nothing for too long knows what arrived, as acknowledgements then would tell.

use crate::balancer::plug::Heard;
use crate::common::Common;
use crate::packet::NONE;
use crate::shard::Shard;
use crate::things::Thing;
use crate::transport::plug::Ack;

impl Shard<'_> {
    /// A connection may have become able to send: it joins the ring of its first link.
    pub(crate) fn ready(&mut self, c: &Common<'_>, id: u32, now: u64) {
        let sender = &mut self.senders[id as usize];
        if sender.in_ring || sender.paced || sender.done {
            return;
        }
        let message = &self.messages[sender.message as usize];
        if !sender.has_data(message.unsent) || !message.has_room(sender.info.packet) {
            return;
        }
        let at = sender.first_link;
        self.join_ring(id, at);
        self.kick(c, at, now);
    }

    /// Its window may have opened: whichever lane of the flow comes to send first has it.
    pub(crate) fn all_ready(&mut self, c: &Common<'_>, id: u32, now: u64) {
        let mut next = self.senders[id as usize].sibling;
        while next != id {
            let after = self.senders[next as usize].sibling;
            self.ready(c, next, now);
            next = after;
        }
        self.ready(c, id, now);
    }

    /// Takes a packet from the next flow in a link's ring that can send.
    #[inline]
    pub(crate) fn pull(&mut self, c: &Common<'_>, at: u32, now: u64) -> Option<u32> {
        loop {
            let last = self.links[at as usize].senders;
            if last == NONE {
                return None;
            }
            let id = self.senders[last as usize].ready_next;
            let sender = &mut self.senders[id as usize];
            let message = &self.messages[sender.message as usize];
            let unsent = message.unsent;
            let room = message.has_room(sender.info.packet);
            let done = sender.done;
            if !done && sender.has_data(unsent) && room {
                let pace = message.not_before.max(message.control.may_send_from());
                let time = sender.not_before.max(pace);
                if time > now {
                    sender.paced = true;
                    self.leave_ring(at, last, id);
                    self.transit.plan(self.unit_of[at as usize], Thing::Sender(id), time);
                    self.wakes.push(id);
                    continue;
                }
                if !self.yields(id, unsent) {
                    let link = &mut self.links[at as usize];
                    link.senders = id;
                    link.own_turn = false;
                    return Some(self.make_packet(c, id, now));
                }
            }
            self.leave_ring(at, last, id);
            if !room && !done {
                self.wakes.push(id);
            }
        }
    }

    /// Sub-flows that yielded to one which left its ring may have their turn. Not before the link that
    /// it left has its next packet: they may send into the same one.
    #[cold]
    pub(crate) fn wake_siblings(&mut self, c: &Common<'_>, now: u64) {
        while let Some(id) = self.wakes.pop() {
            self.wake_siblings_of(c, id, now);
        }
    }

    fn wake_siblings_of(&mut self, c: &Common<'_>, id: u32, now: u64) {
        let sender = &self.senders[id as usize];
        if sender.sibling == id || sender.balancer.round_trip().is_none() {
            return;
        }
        let mut other = sender.sibling;
        while other != id {
            let next = self.senders[other as usize].sibling;
            self.ready(c, other, now);
            other = next;
        }
    }

    /// The pace of a connection lets it send again.
    pub(crate) fn paced(&mut self, c: &Common<'_>, id: u32, now: u64) {
        self.senders[id as usize].paced = false;
        self.ready(c, id, now);
    }

    // ---- the sender hears

    pub(crate) fn acknowledged(&mut self, c: &Common<'_>, id: u32, now: u64) {
        let packet = &self.pool.packets[id as usize];
        let (seq, count, marked, alternative) =
            (packet.seq, packet.size, packet.marked(), packet.alternative);
        let sender_id = packet.from;
        let round_trip = self.round_trip(id, now);
        self.pool.give(id);
        let sender = &mut self.senders[sender_id as usize];
        sender.last_heard = now;
        sender.silences = 0;
        let message = &mut self.messages[sender.message as usize];
        if c.settings.go_back_n {
            if seq > sender.unacked {
                sender.unacked = seq;
                sender.next_seq = sender.next_seq.max(seq);
            }
            sender.count_in_flight(message, sender.next_seq - sender.unacked);
        } else {
            sender.count_in_flight(message, sender.in_flight.saturating_sub(u32::from(count)));
        }
        let idle = !sender.has_data(message.unsent);
        message.control.acked(Ack { now, packets: u32::from(count), marked, round_trip, idle });
        // An alternative of a route that it has left says nothing about those of its route now.
        let known = alternative < sender.path.alternatives.max(1);
        if known && (sender.path.alternatives > 1 || sender.sibling != sender_id) {
            let heard = Heard { path: alternative, marked, round_trip, now };
            sender.balancer.acked(heard);
            if let Some(outside) = &mut self.outside {
                outside.heard(sender_id, heard);
            }
        }
        self.all_ready(c, sender_id, now);
    }

    /// How long ago the data packet was sent that a packet answers \[ps\], to the nanosecond.
    pub(crate) fn round_trip(&self, id: u32, now: u64) -> u64 {
        let stamp = self.pool.packets[id as usize].stamp;
        (u64::from(((now / 1000) as u32).wrapping_sub(stamp)) * 1000).min(now)
    }

    /// The receiver misses so many packets; with go-back-N, everything from it on.
    pub(crate) fn missing(
        &mut self,
        c: &Common<'_>,
        id: u32,
        (seq, packets): (u32, u32),
        sent: u64,
        now: u64,
    ) {
        let sender = &mut self.senders[id as usize];
        sender.last_heard = now;
        sender.silences = 0;
        let message = &mut self.messages[sender.message as usize];
        if c.settings.go_back_n {
            if seq >= sender.unacked {
                sender.unacked = seq;
                sender.next_seq = seq;
                sender.count_in_flight(message, 0);
            }
        } else {
            sender.count_in_flight(message, sender.in_flight.saturating_sub(packets));
            sender.resend.extend(seq..seq + packets);
        }
        (0..packets.max(1)).for_each(|_| message.control.lost(sent, now));
        self.ready(c, id, now);
        self.all_ready(c, id, now);
    }
}
