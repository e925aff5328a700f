//! Which flits cross the switch in a cycle, round robin, for routers of up to 64 ports: what [`super::rounds`]
//! does, with sets of ports as words, and whose turn it is as a rotation.

use super::here::Here;
use super::{Port, Sink};

/// Ports and virtual channels that words hold.
const PORTS: usize = 64;
const VCS: usize = 16;

/// A router's matching of inputs and outputs in one cycle, by port, and by virtual channel.
#[derive(Debug)]
pub(super) struct Turns {
    /// The output port that a ready VC is bound for, what it has for it, and what it was let send.
    target: [[u8; VCS]; PORTS],
    flits: [[u8; VCS]; PORTS],
    sent: [[u8; VCS]; PORTS],
    /// VCs that may still be named, and those that were let send.
    vcs: [u16; PORTS],
    sent_vcs: [u16; PORTS],
    /// The output ports that an input's VCs are bound for.
    wants: [u64; PORTS],
    budget_in: [u16; PORTS],
    budget_out: [u16; PORTS],
    chosen: [u8; PORTS],
    requests: [u64; PORTS],
}

impl Default for Turns {
    fn default() -> Self {
        Turns {
            target: [[0; VCS]; PORTS],
            flits: [[0; VCS]; PORTS],
            sent: [[0; VCS]; PORTS],
            vcs: [0; PORTS],
            sent_vcs: [0; PORTS],
            wants: [0; PORTS],
            budget_in: [0; PORTS],
            budget_out: [0; PORTS],
            chosen: [0; PORTS],
            requests: [0; PORTS],
        }
    }
}

/// Takes the lowest of a set.
#[inline]
fn next(set: &mut u64) -> usize {
    let at = set.trailing_zeros() as usize;
    *set &= *set - 1;
    at % PORTS
}

/// The VC of a set whose turn it is after `last`.
#[inline]
fn after(last: u8, vcs: u16) -> usize {
    let start = u32::from(last) + 1;
    (start + vcs.rotate_right(start).trailing_zeros()) as usize % VCS
}

impl Here<'_> {
    /// Inputs whose VCs are bound for outputs that no other input wants go by themselves; the others in
    /// rounds.
    #[inline]
    pub fn switch(&mut self, sink: &mut impl Sink) {
        let (ready, rounds) = (self.masks[1], self.router.rounds);
        let contested = self.look(ready);
        let (mut ports, mut shared) = (ready, 0u64);
        while ports != 0 {
            let local = next(&mut ports);
            if self.turns.wants[local] & contested != 0 {
                shared |= 1 << local;
            } else if self.turns.vcs[local].is_power_of_two() {
                self.send_alone(local, sink);
            } else {
                take_turns(self.turns, self.ports, local, rounds);
                self.send(local, sink);
            }
        }
        if shared != 0 {
            match_in_rounds(self.turns, self.ports, shared, rounds);
            while shared != 0 {
                self.send(next(&mut shared), sink);
            }
        }
    }

    /// What every input has to send; returns the outputs that several want.
    #[inline]
    fn look(&mut self, mut ports: u64) -> u64 {
        let shift = self.rules.shift;
        let (mut once, mut twice) = (0u64, 0u64);
        while ports != 0 {
            let local = next(&mut ports);
            let ready = self.ports[local].ready;
            let (target, flits) = (&mut self.turns.target[local], &mut self.turns.flits[local]);
            let (mut vcs, mut wants) = (ready, 0);
            while vcs != 0 {
                let vc = vcs.trailing_zeros() as usize % VCS;
                vcs &= vcs - 1;
                let queue = &self.queues[(local << shift) | vc];
                let out = (queue.out >> shift) as usize % PORTS;
                target[vc] = out as u8;
                flits[vc] = queue.flits.min(queue.left.into()) as u8;
                wants |= 1 << out;
            }
            self.turns.vcs[local] = ready;
            self.turns.wants[local] = wants;
            twice |= once & wants;
            once |= wants;
        }
        twice
    }

    /// An input with one VC, and an output to itself.
    #[inline]
    fn send_alone(&mut self, local: usize, sink: &mut impl Sink) {
        let vc = self.turns.vcs[local].trailing_zeros() as usize % VCS;
        let out = usize::from(self.turns.target[local][vc]);
        let width = self.ports[local].width_in.min(self.ports[out].width_out);
        let n = u16::from(self.turns.flits[local][vc]).min(width).min(self.router.rounds);
        if n > 0 {
            self.ports[out].last_in = local as u16;
            self.ports[local].last_vc = vc as u8;
            self.depart((local << self.rules.shift) | vc, n, sink);
        }
    }

    /// Sends what an input's VCs were let send.
    #[inline]
    fn send(&mut self, local: usize, sink: &mut impl Sink) {
        let mut vcs = std::mem::take(&mut self.turns.sent_vcs[local]);
        while vcs != 0 {
            let vc = vcs.trailing_zeros() as usize % VCS;
            vcs &= vcs - 1;
            let n = std::mem::take(&mut self.turns.sent[local][vc]);
            self.depart((local << self.rules.shift) | vc, n.into(), sink);
        }
    }
}

impl Turns {
    /// Lets a VC send a flit.
    #[inline]
    fn one(&mut self, local: usize, vc: usize) {
        self.sent[local][vc] += 1;
        self.sent_vcs[local] |= 1 << vc;
        let left = &mut self.flits[local][vc];
        *left -= 1;
        self.vcs[local] &= !(u16::from(*left == 0) << vc);
    }
}

/// An input whose outputs no other wants: its VCs take turns among themselves.
fn take_turns(turns: &mut Turns, ports: &mut [Port], local: usize, rounds: u16) {
    let mut outs = turns.wants[local];
    while outs != 0 {
        let out = next(&mut outs);
        turns.budget_out[out] = ports[out].width_out;
    }
    let Port { width_in, mut last_vc, .. } = ports[local];
    let mut budget = width_in.min(rounds);
    while budget > 0 && turns.vcs[local] != 0 {
        let vc = after(last_vc, turns.vcs[local]);
        let out = usize::from(turns.target[local][vc]) % PORTS;
        if turns.budget_out[out] == 0 {
            turns.vcs[local] &= !(1 << vc);
            continue;
        }
        turns.budget_out[out] -= 1;
        budget -= 1;
        last_vc = vc as u8;
        ports[out].last_in = local as u16;
        turns.one(local, vc);
    }
    ports[local].last_vc = last_vc;
}

/// In each round every input names a VC, and every output takes one of the inputs that name it.
fn match_in_rounds(turns: &mut Turns, ports: &mut [Port], inputs: u64, rounds: u16) {
    let (mut left, mut outs) = (inputs, 0);
    while left != 0 {
        let local = next(&mut left);
        turns.budget_in[local] = ports[local].width_in;
        outs |= turns.wants[local];
    }
    while outs != 0 {
        let out = next(&mut outs);
        turns.budget_out[out] = ports[out].width_out;
    }
    // Inputs that may still have something to name: budgets only shrink within a cycle.
    let mut live = inputs;
    for _ in 0..rounds {
        let (mut left, mut wanted) = (live, 0u64);
        while left != 0 {
            let local = next(&mut left);
            let (last, mut vcs) = (ports[local].last_vc, turns.vcs[local]);
            loop {
                let vc = after(last, vcs);
                let out = usize::from(turns.target[local][vc]) % PORTS;
                if turns.budget_out[out] > 0 {
                    turns.chosen[local] = vc as u8;
                    turns.requests[out] |= 1 << local;
                    wanted |= 1 << out;
                    break;
                }
                vcs &= !(1 << vc);
                if vcs == 0 {
                    live &= !(1 << local);
                    break;
                }
            }
            turns.vcs[local] = vcs;
        }
        if wanted == 0 {
            return;
        }
        while wanted != 0 {
            let out = next(&mut wanted);
            let bits = std::mem::take(&mut turns.requests[out]);
            let start = u32::from(ports[out].last_in) + 1;
            let winner = (start + bits.rotate_right(start).trailing_zeros()) as usize % PORTS;
            ports[out].last_in = winner as u16;
            turns.budget_out[out] -= 1;
            turns.budget_in[winner] -= 1;
            let vc = turns.chosen[winner];
            ports[winner].last_vc = vc;
            turns.one(winner, usize::from(vc) % VCS);
            let spent = turns.budget_in[winner] == 0 || turns.vcs[winner] == 0;
            live &= !(u64::from(spent) << winner);
        }
    }
}
