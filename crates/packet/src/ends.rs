//! When a phase may end: before that, no window need end early.
//!
//! The network hears of what its packets set off, the next phase and the next task, only between windows.
//! So a window must not reach beyond the end of a phase. All packets that arrive in a window are on their
//! way when it begins, so a time that the last of them cannot be before is known: it is counted from what
//! is about to arrive. Only phases are looked at of which every flow has little left.

use crate::conn::{Flow, Inbound};
use crate::layout::Place;
use crate::packet::{Kind, NONE};
use crate::run::Run;

/// Tracks and their flows that are about to end.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    tracks: Vec<Track>,
    /// Tracks of which every flow is, and perhaps some that are not.
    close: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Track {
    /// Flows of its phase that have not arrived.
    left: usize,
    /// Those of them with little left.
    ending: Vec<u32>,
    listed: bool,
}

impl Ends {
    /// A flow of a track begins.
    pub fn begins(&mut self, track: u32) {
        let at = track as usize;
        self.tracks.resize(self.tracks.len().max(at + 1), Track::default());
        self.tracks[at].left += 1;
    }

    /// A flow has little left.
    pub fn ending(&mut self, flows: &mut [Flow], id: u32) {
        let flow = &mut flows[id as usize];
        if flow.over || flow.ending != NONE {
            return;
        }
        let track = &mut self.tracks[flow.track as usize];
        flow.ending = track.ending.len() as u32;
        track.ending.push(id);
        self.look_at(flow.track);
    }

    /// A flow has arrived.
    pub fn over(&mut self, flows: &mut [Flow], id: u32) {
        let Flow { track: name, ending, .. } = flows[id as usize];
        let track = &mut self.tracks[name as usize];
        track.left -= 1;
        flows[id as usize].over = true;
        if ending != NONE {
            track.ending.swap_remove(ending as usize);
            if let Some(&moved) = track.ending.get(ending as usize) {
                flows[moved as usize].ending = ending;
            }
        }
        self.look_at(name);
    }

    fn look_at(&mut self, name: u32) {
        let track = &mut self.tracks[name as usize];
        if !track.listed && track.is_close() {
            track.listed = true;
            self.close.push(name);
        }
    }
}

impl Track {
    fn is_close(&self) -> bool {
        self.left > 0 && self.ending.len() == self.left
    }
}

impl Run<'_> {
    /// When a window is to end of which all before `start` has happened and that would end at `end`: just after the first time when the last flow of a
    /// phase may have arrived, or `any` flow.
    pub(crate) fn possible_end(&mut self, start: u64, mut end: u64, any: bool) -> u64 {
        if any {
            for track in 0..self.ends.tracks.len() {
                for at in 0..self.ends.tracks[track].ending.len() {
                    let flow = self.ends.tracks[track].ending[at];
                    end = self.earliest(flow, start, end).map_or(end, |time| end.min(time + 1));
                }
            }
            return end;
        }
        let mut close = std::mem::take(&mut self.ends.close);
        close.retain(|&name| {
            let is_close = self.ends.tracks[name as usize].is_close();
            self.ends.tracks[name as usize].listed = is_close;
            if is_close && let Some(last) = self.earliest_end(name, start, end) {
                end = end.min(last + 1);
            }
            is_close
        });
        self.ends.close = close;
        end
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
        shard.read_mail();
        let Inbound { bytes, received, entered, .. } = shard.inbounds[inbound as usize];
        let mut left = if inside { bytes.saturating_sub(entered) } else { bytes - received };
        if left == 0 {
            let next = shard.transit.next_in(Place::at(unit));
            return (next < end).then_some(next);
        }
        let mut due = Vec::new();
        for arrival in &shard.transit.units[unit.at() as usize].inbox {
            let packet = &shard.pool.packets[arrival.packet as usize];
            if arrival.time >= end || packet.kind() != Kind::Data {
                continue;
            }
            let receiver = &shard.receivers[packet.to as usize];
            if receiver.inbound == inbound && receiver.life == packet.life {
                due.push((arrival.time, u64::from(packet.size)));
            }
        }
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
