//! The matching of a router's inputs and outputs in one cycle, round robin, for up to 64 ports: sets of
//! ports are words, and whose turn it is a rotation.

use super::state::Port;

/// Ports and virtual channels that words hold.
pub(super) const PORTS: usize = 64;
pub(super) const VCS: usize = 16;

/// A router's matching of inputs and outputs in one cycle, by port, and by virtual channel.
#[derive(Debug)]
pub(super) struct Turns {
    /// The output port that a ready VC is bound for, what it has for it, and what it was let send.
    pub target: [[u8; VCS]; PORTS],
    pub flits: [[u8; VCS]; PORTS],
    pub sent: [[u8; VCS]; PORTS],
    /// VCs that may still be named, and those that were let send.
    pub vcs: [u16; PORTS],
    pub sent_vcs: [u16; PORTS],
    /// The output ports that an input's VCs are bound for.
    pub wants: [u64; PORTS],
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
pub(super) fn next(set: &mut u64) -> usize {
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
pub(super) fn take_turns(turns: &mut Turns, ports: &mut [Port], local: usize, rounds: u16) {
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
pub(super) fn match_in_rounds(turns: &mut Turns, ports: &mut [Port], inputs: u64, rounds: u16) {
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
