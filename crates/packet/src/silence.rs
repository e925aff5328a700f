//! What concerns both ends of a connection: silences, and its end.
//!
//! A sender that heard nothing for too long knows what arrived, as acknowledgements then would tell.

use crate::conn::Conn;
use crate::link::Origin;
use crate::run::{Far, Run};
use lightloom_engine::EngineError;
use lightloom_fabric::LinkId;
use lightloom_units::Time;

/// Times that a sender sends again into silence before the run fails.
const GIVE_UP: u32 = 40;

impl Run<'_> {
    /// Timeouts that are looked at before a time and would only be put off do not end a window.
    pub(crate) fn put_off_timeouts(&mut self, before: u64) {
        while let Some(&Far::Timeout { conn, life }) = self.far.peek() {
            let Some(at) = self.far.peek_time().filter(|at| at.ps() < before) else { return };
            if !self.lives(conn, life) {
                self.far.pop();
                continue;
            }
            let sender = self.sender(conn);
            let due = sender.last_heard.saturating_add(self.patience(sender.silences));
            if due < before || due <= at.ps() || sender.in_flight == 0 {
                return;
            }
            self.far.pop();
            self.far.push(Time::from_ps(due), Far::Timeout { conn, life });
        }
    }

    fn lives(&self, conn: u32, life: u32) -> bool {
        let conn = self.conns[conn as usize];
        conn.life == life && !conn.done
    }

    fn patience(&self, silences: u32) -> u64 {
        self.settings.retransmit_after << silences.min(6)
    }

    /// Nothing was heard for long: what did not arrive is sent again.
    pub(crate) fn timeout(&mut self, id: u32, life: u32, now: u64) -> Result<(), EngineError> {
        if !self.lives(id, life) {
            return Ok(());
        }
        let Conn { sender: (here, place), receiver: (there, receiver), flow, .. } =
            self.conns[id as usize];
        let misses = {
            let receiver = &self.shards[there].receivers[receiver as usize];
            !self.settings.go_back_n && self.sender(id).misses_any(receiver)
        };
        let patience = self.patience(self.sender(id).silences);
        let sender = &mut self.shards[here].senders[place as usize];
        // Packets that overtook each other may have been counted back twice: what did not arrive decides.
        if sender.in_flight == 0 && !misses {
            sender.armed = false;
            return Ok(());
        }
        if sender.last_heard.saturating_add(patience) <= now {
            self.timeouts += 1;
            sender.silences += 1;
            if sender.silences > GIVE_UP {
                let task = self.ledger.task_of(self.flows[flow as usize].track);
                return Err(EngineError::Unheard { task, times: GIVE_UP });
            }
            let mut silent = sender.clone();
            silent.last_heard = now;
            let message = &mut self.shards[here].messages[silent.message as usize];
            silent.count_in_flight(message, 0);
            message.control.timed_out();
            if self.settings.go_back_n {
                silent.next_seq = silent.unacked;
            } else {
                silent.send_missing_again(&self.shards[there].receivers[receiver as usize]);
            }
            self.shards[here].senders[place as usize] = silent;
        }
        let sender = self.sender(id);
        let again = sender.last_heard.saturating_add(self.patience(sender.silences));
        self.far.push(Time::from_ps(again.max(now + 1)), Far::Timeout { conn: id, life });
        let (shards, common) = self.split();
        shards[here].ready(&common, place, now);
        shards[here].all_ready(&common, place, now);
        Ok(())
    }

    // ---- endings

    /// All of a flow has arrived: its connections end.
    pub(crate) fn complete_flow(&mut self, flow: u32) {
        let first = self.flows[flow as usize].conn;
        let (here, message) = (self.conns[first as usize].sender.0, self.sender(first).message);
        let mut id = first;
        let mut ended = Vec::new();
        loop {
            let conn = &mut self.conns[id as usize];
            conn.done = true;
            let (shard, sender) = conn.sender;
            let next = conn.sibling;
            let sender = &mut self.shards[shard].senders[sender as usize];
            sender.done = true;
            sender.resend.clear();
            self.count_on_circuits(id, false);
            ended.push(id);
            id = next;
            if id == first {
                break;
            }
        }
        ended.into_iter().for_each(|conn| self.free(conn));
        self.shards[here].free_messages.push(message);
        let (there, inbound) = self.flows[flow as usize].inbound;
        self.shards[there].free_inbounds.push(inbound);
    }

    /// Frees the places of a connection that is over, as soon as it is in no ring.
    pub(crate) fn free(&mut self, id: u32) {
        let Conn { sender: (here, sender), receiver: (there, receiver), .. } =
            self.conns[id as usize];
        let sending = &self.shards[here].senders[sender as usize];
        let receiving = &self.shards[there].receivers[receiver as usize];
        if sending.in_ring || sending.paced || receiving.pulls > 0 {
            self.closing.push(id);
            return;
        }
        self.shards[here].free_senders.push(sender);
        self.shards[there].free_receivers.push(receiver);
        self.free_conns.push(id);
    }

    /// Counts the flows on circuits, so that none is patched away under one.
    pub(crate) fn count_on_circuits(&mut self, id: u32, on: bool) {
        let (shard, sender) = self.conns[id as usize].sender;
        for &link in &self.shards[shard].senders[sender as usize].links {
            let ocs = self.origins[link as usize] == Origin::Ocs;
            if ocs || self.ledger.circuits.enters_switch(LinkId(link)) {
                let users = &mut self.users[link as usize];
                *users = if on { *users + 1 } else { *users - 1 };
            }
        }
    }
}
