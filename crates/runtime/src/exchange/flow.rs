//! Flows: chunks whose lane is chosen when their turn comes, not before, by a load balancer of the simulator.
//!
//! Modelled: a flow has a window, and one sub-flow or several, each from a NIC here to a NIC of the peer, over
//! one lane or several (what a packet's paths are in the simulator). A chunk leaves once the flow's window and a sub-flow have
//! room for it. A sub-flow has an even share of the window. Of those with room the one that the balancer says to have
//! the least round trip sends; else, and among equals, the one whose NIC has the fewest bytes in flight. The
//! sub-flow's balancer ([`LoneBalancer`]) chooses the lane. A chunk's round trip is from here until its acknowledgement.
//! It counts as marked if it took more than a quarter longer than chunks that left by the same NIC took lately (smoothed
//! as TCP does it), for the kernel's queues mark nothing: queues of that NIC and of the receiver delay all alike,
//! those of a path not. Chunks shorter than most count as well.
//! Ignored: a lane that is down; what was to take it takes another one, as any chunk does.
//! Checked: unit tests; `tests/pair` over lanes.

use super::name::{Endpoint, LaneId, Nic};
use super::plan::Chunk;
use lightloom_packet::{Heard, LoneBalancer, Next};
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// Chunks that share a window, in order.
#[derive(Clone, Debug)]
pub struct Flow {
    /// To whom.
    pub peer: Endpoint,
    /// Bytes of it in flight; a chunk that is longer goes alone \[B\].
    pub window: u64,
    /// At least one.
    pub subflows: Vec<SubFlow>,
    /// Its chunks: places in the operation's plan, in the order in which they leave. A chunk is in one flow at most.
    pub chunks: Vec<u32>,
}

/// What of a flow leaves by one NIC.
#[derive(Clone, Debug)]
pub struct SubFlow {
    /// The NIC here.
    pub nic: Nic,
    /// At least one: the balancer's paths.
    pub lanes: Vec<LaneId>,
    /// Chooses among them.
    pub balancer: LoneBalancer,
}

/// How an operation's bytes are sent.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The chunks of all that is sent.
    pub chunks: Vec<Chunk>,
    /// Those whose lanes are chosen when their turn comes.
    pub flows: Vec<Flow>,
}

impl From<Vec<Chunk>> for Plan {
    fn from(chunks: Vec<Chunk>) -> Self {
        Plan { chunks, flows: vec![] }
    }
}

/// A chunk under way.
#[derive(Clone, Copy, Debug)]
struct Flying {
    subflow: usize,
    path: u16,
    since: Time,
    bytes: u64,
}

/// How much of a sub-flow is in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    chunks: u32,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct State {
    flow: Flow,
    waiting: VecDeque<u32>,
    flying: BTreeMap<u32, Flying>,
    loads: Vec<Load>,
    bytes: u64,
}

/// What the flows that leave by one NIC share.
#[derive(Clone, Copy, Debug)]
struct NicState {
    /// Chunks that have left.
    turn: u32,
    bytes: u64,
    /// The smoothed round trip of a chunk; 0 before the first \[ps\].
    usual: u64,
}

/// The flows of one operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    all: Vec<State>,
    /// By chunk that is in one.
    of: BTreeMap<u32, usize>,
    nics: BTreeMap<Nic, NicState>,
}

impl Flows {
    /// Of flows that were checked. `order` is where the plan's chunks have gone: at place `i` is that of place `order[i]`.
    pub fn new(flows: Vec<Flow>, order: &[u32]) -> Self {
        let mut places = vec![0; if flows.is_empty() { 0 } else { order.len() }];
        (0..).zip(order).take(places.len()).for_each(|(now, &was)| places[was as usize] = now);
        let mut it = Flows::default();
        for (at, flow) in flows.into_iter().enumerate() {
            let waiting: VecDeque<u32> =
                flow.chunks.iter().map(|&chunk| places[chunk as usize]).collect();
            it.of.extend(waiting.iter().map(|&chunk| (chunk, at)));
            for subflow in &flow.subflows {
                // Each NIC's round begins at a number of its own.
                let turn = u32::from(subflow.nic);
                it.nics.entry(subflow.nic).or_insert(NicState { turn, bytes: 0, usual: 0 });
            }
            let loads = vec![Load::default(); flow.subflows.len()];
            it.all.push(State { flow, waiting, flying: BTreeMap::new(), loads, bytes: 0 });
        }
        it
    }

    /// The flow that a chunk is in.
    pub fn of(&self, chunk: usize) -> Option<usize> {
        self.of.get(&(chunk as u32)).copied()
    }

    /// Flows to a peer.
    pub fn to(&self, peer: Endpoint) -> Vec<usize> {
        let is_its = |at: &usize| self.all[*at].flow.peer == peer;
        (0..self.all.len()).filter(is_its).collect()
    }

    /// The next chunk of a flow that may leave now, and its lane.
    pub fn next(&mut self, flow: usize, chunks: &[Chunk], now: Time) -> Option<(u32, LaneId)> {
        let it = self.all.get_mut(flow)?;
        let &chunk = it.waiting.front()?;
        let bytes = u64::from(chunks[chunk as usize].length);
        if it.bytes > 0 && it.bytes + bytes > it.flow.window {
            return None;
        }
        let count = it.flow.subflows.len();
        let share = it.flow.window / count.max(1) as u64;
        let nics = &self.nics;
        let room = |&at: &usize| {
            let Load { bytes: before, .. } = it.loads[at];
            before == 0 || before + bytes <= share
        };
        let least = |&at: &usize| {
            let subflow = &it.flow.subflows[at];
            (subflow.balancer.round_trip(), nics.get(&subflow.nic).map_or(0, |nic| nic.bytes))
        };
        let at = (0..count).filter(room).min_by_key(least)?;
        let subflow = &mut it.flow.subflows[at];
        let nic = self.nics.get_mut(&subflow.nic)?;
        let in_flight = it.loads[at].chunks;
        let path = subflow.balancer.path(Next { turn: nic.turn, in_flight, now: now.ps() });
        let lane = subflow.lanes.get(usize::from(path)).copied()?;
        it.waiting.pop_front();
        it.flying.insert(chunk, Flying { subflow: at, path, since: now, bytes });
        it.loads[at].chunks += 1;
        it.loads[at].bytes += bytes;
        it.bytes += bytes;
        nic.turn = nic.turn.wrapping_add(1);
        nic.bytes += bytes;
        Some((chunk, lane))
    }

    /// A chunk was acknowledged. Says which flow may go on.
    pub fn acknowledged(&mut self, chunk: u32, now: Time) -> Option<usize> {
        let flow = self.of.get(&chunk).copied()?;
        let it = &mut self.all[flow];
        let Flying { subflow: at, path, since, bytes } = it.flying.remove(&chunk)?;
        it.loads[at].chunks -= 1;
        it.loads[at].bytes -= bytes;
        it.bytes -= bytes;
        let subflow = &mut it.flow.subflows[at];
        let nic = self.nics.get_mut(&subflow.nic)?;
        nic.bytes -= bytes;
        let round_trip = now.saturating_sub(since).ps().max(1);
        let marked = nic.usual > 0 && round_trip > nic.usual + nic.usual / 4;
        nic.usual = match nic.usual {
            0 => round_trip,
            before => before - before / 8 + round_trip / 8,
        };
        subflow.balancer.acked(Heard { path, marked, round_trip, now: now.ps() });
        Some(flow)
    }
}

#[cfg(test)]
mod tests;
