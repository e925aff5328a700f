//! The rings of those that take turns at a link: senders that may send, and receivers that want to ask.

use crate::common::Common;
use crate::packet::NONE;
use crate::shard::Shard;

impl Shard<'_> {
    // ---- the connections that may send, in a ring a first link: each names the next

    /// A sender joins the ring of its first link, as the last.
    #[inline]
    pub fn join_ring(&mut self, id: u32, at: u32) {
        self.senders[id as usize].in_ring = true;
        let last = self.links[at as usize].senders;
        if last == NONE {
            self.senders[id as usize].ready_next = id;
        } else {
            let first = self.senders[last as usize].ready_next;
            self.senders[id as usize].ready_next = first;
            self.senders[last as usize].ready_next = id;
        }
        self.links[at as usize].senders = id;
    }

    /// A sender leaves the ring of a link, whose `last` names it as the next.
    #[inline]
    pub fn leave_ring(&mut self, at: u32, last: u32, id: u32) {
        let sender = &mut self.senders[id as usize];
        sender.in_ring = false;
        let next = sender.ready_next;
        if last == id {
            self.links[at as usize].senders = NONE;
        } else {
            self.senders[last as usize].ready_next = next;
        }
    }

    /// MinRTT: whether a sub-flow of the same message should send instead.
    #[inline]
    pub fn yields(&self, id: u32, unsent: u64) -> bool {
        let sender = &self.senders[id as usize];
        let own = match sender.balancer.round_trip() {
            Some(own) if sender.sibling != id && own > 0 && unsent > 0 => own,
            _ => return false,
        };
        // What was handed to it only it can send.
        if sender.next_seq < sender.allotted || !sender.resend.is_empty() {
            return false;
        }
        let mut other = sender.sibling;
        while other != id {
            let sibling = &self.senders[other as usize];
            let faster = sibling.balancer.round_trip().is_some_and(|rtt| rtt < own);
            if faster && sibling.in_ring {
                return true;
            }
            other = sibling.sibling;
        }
        false
    }

    // ---- the flows that want to ask for packets, in a ring a receiver's link

    /// A flow of a link wants to ask for so many more; if the link is to be woken, which, and when.
    #[inline]
    pub fn wants_pull(&mut self, c: &Common<'_>, id: u32, packets: u32) -> Option<(u32, u64)> {
        let receiver = &mut self.receivers[id as usize];
        if receiver.pulls == 0 {
            receiver.puller = c.at(receiver.last ^ 1);
        }
        let at = receiver.puller;
        let idle = receiver.pulls == 0;
        receiver.pulls += packets;
        let puller = &mut self.pullers[at as usize];
        if idle {
            match puller.ring {
                NONE => receiver.pull_next = id,
                last => {
                    let first = self.receivers[last as usize].pull_next;
                    self.receivers[id as usize].pull_next = first;
                    self.receivers[last as usize].pull_next = id;
                }
            }
            puller.ring = id;
        }
        let idle = !std::mem::replace(&mut puller.pending, true);
        idle.then_some((at, puller.free_at))
    }

    /// The next flow of a link has its turn to ask: its receiver, and for how many packets. Each takes a header
    /// besides.
    #[inline]
    pub fn next_pull(&mut self, c: &Common<'_>, at: u32, now: u64) -> (u32, u32) {
        let last = self.pullers[at as usize].ring;
        let id = self.receivers[last as usize].pull_next;
        let receiver = &mut self.receivers[id as usize];
        let packets = receiver.pulls.min(c.settings.train_inside.max(c.settings.train));
        receiver.pulls -= packets;
        if receiver.done {
            receiver.pulls = 0;
        }
        let (done, left, next) = (receiver.done, receiver.pulls, receiver.pull_next);
        let size = u64::from(receiver.mtu) + c.settings.header;
        let class = c.class(self.names[at as usize] ^ 1);
        let gap = if done { 0 } else { u64::from(packets) * class.time_for(size) };
        let puller = &mut self.pullers[at as usize];
        if left > 0 {
            puller.ring = id;
        } else if last == id {
            puller.ring = NONE;
        } else {
            self.receivers[last as usize].pull_next = next;
        }
        puller.pending = puller.ring != NONE;
        puller.free_at = now + gap;
        (id, packets)
    }
}
