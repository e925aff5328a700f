//! When a phase may end: before that, no window need end early.
//!
//! The network hears of what its packets set off, the next phase and the next task, only between windows.
//! So a window must not reach beyond the end of a phase. All packets that arrive in a window are on their
//! way when it begins, so a time that the last of them cannot be before is known: it is counted from what
//! is about to arrive. Only phases are looked at of which every flow has little left.

use crate::coming::data;
use crate::conn::{Flow, Inbound};
use crate::layout::Place;
use crate::run::Run;

impl Run<'_> {
    /// When a window is to end of which all before `start` has happened and that would end at `end`: just after the first time when the last flow of a
    /// phase may have arrived, or `any` flow.
    pub(crate) fn possible_end(&mut self, start: u64, mut end: u64, any: bool) -> u64 {
        if any || !(self.ends.close.is_empty() && self.ends.idle.is_empty()) {
            for shard in &mut self.shards {
                shard.read_others_mail();
                shard.coming.begin(end);
            }
        }
        if any {
            for track in 0..self.ends.tracks.len() {
                for at in 0..self.ends.tracks[track].ending.len() {
                    let flow = self.ends.tracks[track].ending[at];
                    end = self.earliest(flow, start, end).map_or(end, |time| end.min(time + 1));
                }
            }
            return end;
        }
        if self.ends.idle.len() >= self.ledger.left()
            && let Some(last) = self.earliest_end_of_all(start, end)
        {
            end = end.min(last + 1);
        }
        let mut close = std::mem::take(&mut self.ends.close);
        close.retain(|&name| {
            let track = &self.ends.tracks[name as usize];
            let is_close = track.leads_on && track.is_close();
            self.ends.tracks[name as usize].listed = is_close;
            if is_close && let Some(last) = self.earliest_end(name, start, end) {
                end = end.min(last + 1);
            }
            is_close
        });
        self.ends.close = close;
        end
    }

    /// The earliest time before `end` at which all tracks can have ended, if none of them leads on.
    fn earliest_end_of_all(&mut self, start: u64, end: u64) -> Option<u64> {
        let (mut last, mut at) = (0, self.ends.idle.len());
        while at > 0 {
            at -= 1;
            let name = self.ends.idle[at];
            let track = &mut self.ends.tracks[name as usize];
            if track.leads_on || !track.is_close() {
                track.listed_idle = false;
                self.ends.idle.swap_remove(at);
                continue;
            }
            match self.earliest_end(name, start, end) {
                Some(time) => last = last.max(time),
                None => {
                    // Most likely it is this one that cannot next time either.
                    let next = self.ends.idle.len() - 1;
                    self.ends.idle.swap(at, next);
                    return None;
                }
            }
        }
        (self.ends.idle.len() == self.ledger.left()).then_some(last)
    }

    /// The earliest time before `end` at which all flows of a track can have arrived.
    fn earliest_end(&mut self, track: u32, start: u64, end: u64) -> Option<u64> {
        let mut last = 0;
        for at in 0..self.ends.tracks[track as usize].ending.len() {
            let flow = self.ends.tracks[track as usize].ending[at];
            match self.earliest(flow, start, end) {
                Some(time) => last = last.max(time),
                None => {
                    // Most likely it is this one that cannot next time either.
                    self.swap_ending(track, at);
                    return None;
                }
            }
        }
        Some(last)
    }

    fn swap_ending(&mut self, track: u32, at: usize) {
        let ending = &mut self.ends.tracks[track as usize].ending;
        ending.swap(0, at);
        self.flows[ending[0] as usize].ending = 0;
        self.flows[ending[at] as usize].ending = at as u32;
    }

    /// The earliest time before `end` at which a flow can have arrived.
    fn earliest(&mut self, id: u32, start: u64, end: u64) -> Option<u64> {
        let Flow { inbound: (shard, inbound), unit, inside, conn, delay, .. } =
            self.flows[id as usize];
        let (here, sender) = self.conns[conn as usize].sender;
        let message = self.shards[here].senders[sender as usize].message;
        if self.shards[here].messages[message as usize].unsent > 0 && start + delay >= end {
            return None; // what is sent from now on comes later
        }
        let shard = &mut self.shards[shard];
        shard.read_mail_around(unit.at(), (end - 1) / self.layout.window);
        let Inbound { bytes, received, entered, .. } = shard.inbounds[inbound as usize];
        let mut left = if inside { bytes.saturating_sub(entered) } else { bytes - received };
        if left == 0 {
            let next = shard.transit.next_in(Place::at(unit));
            return (next < end).then_some(next);
        }
        let (packets, receivers) = (&shard.pool.packets, &shard.receivers);
        let inbox = &shard.transit.units[unit.at() as usize].inbox;
        shard.coming.add(unit.at(), inbox, packets, receivers);
        if shard.coming.of(inbound) < left {
            return None;
        }
        let own = data(inbox, packets, receivers, end).filter(|&(whose, ..)| whose == inbound);
        let mut due: Vec<_> = own.map(|(_, time, size)| (time, size)).collect();
        due.sort_unstable();
        for (time, size) in due {
            // Headers are counted in: it may end a little later, never sooner.
            if size >= left {
                return Some(time);
            }
            left -= size;
        }
        None
    }
}
