//! A packet, or a train of them, of a flow whose turn it is: its number, its size, its path.

use crate::balancer::plug::Next;
use crate::common::Common;
use crate::halves::Path;
use crate::link::{Class, Link, Origin};
use crate::packet::Kind;
use crate::shard::Shard;
use lightloom_fabric::{LinkId, NicId};

impl Shard<'_> {
    pub(crate) fn make_packet(&mut self, c: &Common<'_>, id: u32, now: u64) -> u32 {
        let sender = &mut self.senders[id as usize];
        let message = &mut self.messages[sender.message as usize];
        let (mut first, mut packets, mut size, mut pace) = (0, 0, 0, 0);
        loop {
            let mut again = true;
            let seq = if let Some(seq) = sender.resend.pop_front() {
                seq
            } else {
                if sender.next_seq == sender.allotted {
                    let payload = message.unsent.min(u64::from(sender.mtu));
                    message.unsent -= payload;
                    if payload < u64::from(sender.mtu) {
                        sender.partial = (sender.allotted, payload as u32);
                    }
                    sender.allotted += 1;
                    again = false;
                }
                sender.next_seq += 1;
                sender.next_seq - 1
            };
            self.counts.resent += u64::from(again);
            sender.count_in_flight(message, sender.in_flight + 1);
            let bytes = u64::from(sender.payload(seq)) + c.settings.header;
            pace += message.control.sent(bytes, now);
            if packets == 0 {
                first = seq;
            }
            packets += 1;
            size += bytes;
            if packets >= sender.train
                || !sender.has_data(message.unsent)
                || *sender.resend.front().unwrap_or(&sender.next_seq) != first + packets
                || !message.has_room(sender.info.packet)
            {
                break;
            }
        }
        let seq = first;
        self.counts.data_packets += u64::from(packets);
        message.not_before = now + pace;
        let fetched_over = sender.fetched_over as usize;
        sender.not_before = now;
        if fetched_over > 0 {
            let over = &sender.links[..fetched_over];
            let next = Self::fetch(&mut self.links, c, over, (size, packets), now);
            sender.not_before = sender.not_before.max(next);
        }
        if !sender.armed {
            sender.armed = true;
            sender.last_heard = now;
            self.armed.push((now, id));
        }
        let urgent = !sender.has_data(message.unsent) || !message.has_room(sender.info.packet);
        let alternative = if sender.path.alternatives > 1 {
            let nic = c.at(sender.links[sender.path.before as usize]);
            let turn = &mut self.tallies[nic as usize].turn;
            *turn = turn.wrapping_add(1);
            let turn = *turn;
            match &mut self.outside {
                None => {
                    sender.balancer.path(Next { turn, in_flight: sender.in_flight - packets, now })
                }
                Some(outside) => {
                    let Path { source, destination, alternatives, .. } = sender.path;
                    let paths = (NicId(source), NicId(destination), alternatives);
                    // These packets are counted already.
                    let at = (now, sender.in_flight - packets, turn);
                    let links = &self.links;
                    let queued = |link: LinkId| links[c.at(link.0) as usize].queued;
                    let path = outside.path(c.fabric, id, paths, at, queued);
                    path.unwrap_or_else(|| {
                        self.no_path = Some(sender.conn);
                        0
                    })
                }
            }
        } else {
            0
        };
        let sender = &mut self.senders[id as usize];
        sender.taken = alternative;
        let packet_id = self.pool.take();
        let packet = &mut self.pool.packets[packet_id as usize];
        (packet.from, packet.to, packet.life) = (id, sender.to, sender.life);
        packet.seq = seq;
        packet.stamp = (now / 1000) as u32;
        packet.set_bytes(size);
        packet.set_inside(sender.inside);
        packet.alternative = alternative;
        packet.set_kind(Kind::Data);
        packet.mark(false);
        packet.set_urgent(urgent);
        if sender.path.alternatives > 1 {
            let Path { before, after, source, destination, .. } = sender.path;
            self.path.clear();
            let before = sender.fetched_over as usize..before as usize;
            self.path.extend(sender.links[before].iter().map(|&l| LinkId(l)));
            let ends = (NicId(source), NicId(destination));
            c.fabric.nic_path(ends.0, ends.1, u32::from(alternative), &mut self.path);
            if c.circuits.ever_broke() {
                self.keep_whole(c, id, alternative);
            }
            let sender = &self.senders[id as usize];
            let after = sender.links.len() - after as usize;
            self.path.extend(sender.links[after..].iter().map(|&l| LinkId(l)));
            let packet = &mut self.pool.packets[packet_id as usize];
            packet.take(self.path.iter().map(|link| link.0), sender.long);
        } else {
            packet.take(sender.travelled().iter().copied(), sender.long);
        }
        packet_id
    }

    /// A NIC fetches a packet over the scale-up network, ahead of sending it: its links are taken for as
    /// long as that lasts. Returns when the next one may be sent: as a NIC holds no more than [`STAGED`]
    /// bytes, and no sooner than it has come where PCIe may be slower than the NIC.
    fn fetch(
        links: &mut [Link],
        c: &Common<'_>,
        path: &[u32],
        (size, packets): (u64, u32),
        now: u64,
    ) -> u64 {
        let mut next = now;
        for &name in path {
            let link = &mut links[c.at(name) as usize];
            let class: Class = c.classes[link.class as usize];
            link.free_at = link.free_at.max(now) + class.time_for(size);
            link.carried += size;
            link.packets = link.packets.wrapping_add(packets);
            let ahead = if link.origin == Origin::Host { 0 } else { class.time_for(STAGED) };
            next = next.max(link.free_at.saturating_sub(ahead));
        }
        next
    }
}

/// What a NIC holds of what other GPUs of its server send by it \[B\].
const STAGED: u64 = 1 << 20;
