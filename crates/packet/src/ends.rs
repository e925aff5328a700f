//! When a phase may end: before that, no window need end early.
//!
//! The network hears of what its packets set off, the next phase and the next task, only between windows.
//! So a window must not reach beyond the end of a phase. All packets that arrive in a window are on their
//! way when it begins, so a time that the last of them cannot be before is known: it is counted from what
//! is about to arrive. Only phases are looked at of which every flow has little left.

use crate::conn::{Flow, Inbound};
use crate::layout::Place;
use crate::packet::Kind;
use crate::run::Run;
use crate::shard::Shard;

/// What arrives in a window at most, added up once a unit: a phase may have thousands of flows that are about
/// to end where thousands of packets arrive.
#[derive(Debug, Default)]
pub(crate) struct Coming {
    /// The window, by turn, and its end as far as is known \[ps\].
    turn: u64,
    end: u64,
    /// By unit: the window that it was added up for.
    units: Vec<u64>,
    /// By inbound: a window, and what arrives in it \[B\].
    inbounds: Vec<(u64, u64)>,
}

impl Shard<'_> {
    /// What arrives in this window at most for an inbound in a unit, headers included \[B\].
    fn coming(&mut self, unit: u32, inbound: u32) -> u64 {
        let Coming { turn, end, units, inbounds } = &mut self.coming;
        if units.len() < self.transit.units.len() {
            units.resize(self.transit.units.len(), 0);
        }
        if inbounds.len() < self.inbounds.len() {
            inbounds.resize(self.inbounds.len(), (0, 0));
        }
        if units[unit as usize] != *turn {
            units[unit as usize] = *turn;
            for arrival in &self.transit.units[unit as usize].inbox {
                let packet = &self.pool.packets[arrival.packet as usize];
                if arrival.time >= *end || packet.kind() != Kind::Data {
                    continue;
                }
                let receiver = &self.receivers[packet.to as usize];
                if receiver.life == packet.life {
                    let (known, bytes) = &mut inbounds[receiver.inbound as usize];
                    if *known != *turn {
                        (*known, *bytes) = (*turn, 0);
                    }
                    *bytes += packet.bytes();
                }
            }
        }
        let (known, bytes) = inbounds[inbound as usize];
        if known == *turn { bytes } else { 0 }
    }
}

impl Run<'_> {
    /// When a window is to end of which all before `start` has happened and that would end at `end`: just after the first time when the last flow of a
    /// phase may have arrived, or `any` flow.
    pub(crate) fn possible_end(&mut self, start: u64, mut end: u64, any: bool) -> u64 {
        if any || !(self.ends.close.is_empty() && self.ends.idle.is_empty()) {
            for shard in &mut self.shards {
                shard.read_mail();
                (shard.coming.turn, shard.coming.end) = (shard.coming.turn + 1, end);
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
                    let first = self.ends.idle.len() - 1;
                    self.ends.idle.swap(at, first);
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
        let Inbound { bytes, received, entered, .. } = shard.inbounds[inbound as usize];
        let mut left = if inside { bytes.saturating_sub(entered) } else { bytes - received };
        if left == 0 {
            let next = shard.transit.next_in(Place::at(unit));
            return (next < end).then_some(next);
        }
        if shard.coming(unit.at(), inbound) < left {
            return None;
        }
        let mut due = Vec::new();
        for arrival in &shard.transit.units[unit.at() as usize].inbox {
            let packet = &shard.pool.packets[arrival.packet as usize];
            if arrival.time >= end || packet.kind() != Kind::Data {
                continue;
            }
            let receiver = &shard.receivers[packet.to as usize];
            if receiver.inbound == inbound && receiver.life == packet.life {
                due.push((arrival.time, packet.bytes()));
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

#[cfg(test)]
mod tests {
    use crate::tests::{hosts, names};
    use crate::{PacketEngine, TRANSPORTS, settings};
    use lightloom_engine::conformance::{Graph, Script, Work};
    use lightloom_engine::{Engine, Observer, Orders, Outcome, Policy, Scenario, TaskId};
    use lightloom_fabric::GpuId;
    use lightloom_units::{Bytes, Time};
    use proptest::prelude::*;

    /// A script that may say that it heeds no end.
    struct Heeding(Script, bool);

    impl Policy for Heeding {
        fn begin(
            &mut self,
            task: TaskId,
            name: u32,
            now: Time,
            orders: &mut Orders,
        ) -> Result<(), String> {
            self.0.begin(task, name, now, orders)
        }

        fn heeds_ends(&self) -> bool {
            self.1
        }
    }

    /// Flows as they are heard of.
    #[derive(Default, PartialEq, Debug)]
    struct Heard(Vec<(u32, Time, Time)>);

    impl Observer for Heard {
        fn flow_finished(&mut self, task: TaskId, _: Bytes, start: Time, end: Time) {
            self.0.push((task.0, start, end));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// Where no end of a task leads on, windows need not end with it: no bit of the outcome is another one.
        #[test]
        fn windows_that_outlast_a_task_change_nothing(
            transport in prop::sample::select(names(&TRANSPORTS)), threads in 1usize..3, queue in 5_000u64..60_000,
            flows in prop::collection::vec((0u32..16, 1u32..16, 1u64..60_000, 0u64..3), 1..60),
            waits in prop::collection::vec((0usize..60, 0usize..60), 0..40),
        ) {
            let fabric = hosts(16, 2);
            let transfers: Vec<Orders> = flows.iter().map(|&(from, step, bytes, pause)| {
                let to = GpuId((from + step) % 16);
                let mut orders = Orders::default();
                fabric.route(GpuId(from), to, 0, orders.path()).expect("hosts");
                orders.flow(Bytes::new(bytes));
                orders.end_phase(Time::from_ns(300 * pause));
                orders
            }).collect();
            let count = flows.len();
            let work = (0..count as u32).map(Work::Send).collect();
            let mut edges: Vec<_> = waits.iter().map(|&(a, b)| (a % count, b % count)).filter(|(a, b)| a < b)
                .map(|(a, b)| (a as u32, b as u32)).collect();
            edges.sort_unstable();
            edges.dedup();
            let graph = Graph::new(work, edges);
            let mut spec = settings(transport, "ecmp");
            spec.switch.queue = Bytes::new(queue);
            let engine = PacketEngine { threads, ..PacketEngine::new(spec, 1) };
            let run = |heeds| -> (Outcome, Heard) {
                let scenario = Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
                let script = Script { transfers: transfers.clone(), at_end: vec![] };
                let mut heard = Heard::default();
                let outcome = engine.run(&scenario, &mut Heeding(script, heeds), &mut heard);
                (outcome.expect("the run finishes"), heard)
            };
            prop_assert_eq!(run(true), run(false));
        }
    }
}
