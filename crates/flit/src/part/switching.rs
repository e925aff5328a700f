//! Which flits cross the switch in a cycle, round robin, for routers of up to 64 ports: what [`super::rounds`]
//! does, by [`super::turns`].

use super::here::Here;
use super::state::Sink;
use super::turns::{PORTS, VCS, match_in_rounds, next, take_turns};

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
