//! Which flits cross the switch in a cycle, round robin, for routers of up to 64 ports: what [`super::rounds`]
//! does, with sets of ports as words, and whose turn it is as a rotation.

use super::here::Here;
use super::{Queue, Sink};

impl Here<'_> {
    /// Inputs whose VCs are bound for outputs that no other input wants go by themselves; the others in
    /// rounds.
    #[inline]
    pub fn switch(&mut self, sink: &mut impl Sink) {
        let (ready, shift) = (self.masks[1], self.rules.shift);
        let (mut ports, mut once, mut twice) = (ready, 0u64, 0u64);
        while ports != 0 {
            let local = ports.trailing_zeros() as usize;
            ports &= ports - 1;
            let (mut vcs, mut wants) = (self.ports[local].ready, 0);
            while vcs != 0 {
                let vc = vcs.trailing_zeros() as usize;
                vcs &= vcs - 1;
                wants |= 1u64 << (self.queues[(local << shift) | vc].out >> shift);
            }
            self.scratch.wants[local] = wants;
            twice |= once & wants;
            once |= wants;
        }
        let (mut ports, mut shared) = (ready, 0u64);
        while ports != 0 {
            let local = ports.trailing_zeros() as usize;
            ports &= ports - 1;
            if self.scratch.wants[local] & twice != 0 {
                shared |= 1 << local;
            } else if self.ports[local].ready.is_power_of_two() {
                self.send_alone(local, sink);
            } else {
                self.take_turns(local);
            }
        }
        if shared != 0 {
            self.switch_in_turn(shared);
        }
        self.depart_all(sink);
    }

    /// An input with one VC to choose.
    #[inline]
    fn send_alone(&mut self, local: usize, sink: &mut impl Sink) {
        let vc = self.ports[local].ready.trailing_zeros() as usize;
        let number = (local << self.rules.shift) | vc;
        let Queue { flits, left, out, .. } = self.queues[number];
        let out = usize::from(out >> self.rules.shift);
        let width = self.ports[local].width_in.min(self.ports[out].width_out);
        let n = flits.min(left.into()).min(width).min(self.router.rounds);
        if n > 0 {
            self.ports[out].last_in = local as u16;
            self.ports[local].last_vc = vc as u8;
            self.advance(number, n);
            self.depart(number, n, sink);
        }
    }

    /// An input whose VCs take turns among themselves.
    #[inline]
    fn take_turns(&mut self, local: usize) {
        let shift = self.rules.shift;
        let port = self.ports[local];
        let mut outs = self.scratch.wants[local];
        while outs != 0 {
            let out = outs.trailing_zeros() as usize;
            outs &= outs - 1;
            self.scratch.budget_out[out] = self.ports[out].width_out;
        }
        let (mut vcs, mut last) = (port.ready, port.last_vc);
        for _ in 0..port.width_in.min(self.router.rounds) {
            let start = u32::from(last) + 1;
            let (number, out) = loop {
                if vcs == 0 {
                    self.ports[local].last_vc = last;
                    return;
                }
                let vc = (start + vcs.rotate_right(start).trailing_zeros()) & 15;
                let number = (local << shift) | vc as usize;
                let out = usize::from(self.queues[number].out >> shift);
                if self.scratch.budget_out[out] > 0 {
                    last = vc as u8;
                    break (number, out);
                }
                vcs &= !(1 << vc);
            };
            self.scratch.budget_out[out] -= 1;
            self.ports[out].last_in = local as u16;
            if self.move_one(number) {
                vcs &= !(1 << last);
            }
        }
        self.ports[local].last_vc = last;
    }

    /// A flit crosses; says whether its queue has no more of its packet now.
    #[inline]
    fn move_one(&mut self, number: usize) -> bool {
        let moved = &mut self.scratch.moved[number];
        if *moved == 0 {
            self.scratch.touched.push(number as u16);
        }
        *moved += 1;
        let queue = &mut self.queues[number];
        queue.flits -= 1;
        queue.left -= 1;
        let done = queue.flits == 0 || queue.left == 0;
        if done {
            self.clear_ready(number);
        }
        done
    }

    fn switch_in_turn(&mut self, inputs: u64) {
        let shift = self.rules.shift;
        for (at, port) in self.ports.iter().enumerate() {
            self.scratch.budget_in[at] = port.width_in;
            self.scratch.budget_out[at] = port.width_out;
        }
        // Inputs that may still have something to name: budgets only shrink within a cycle.
        let mut live = inputs;
        for _ in 0..self.router.rounds {
            let (mut left, mut wanted) = (live, 0u64);
            while left != 0 {
                let local = left.trailing_zeros() as usize;
                left &= left - 1;
                let port = &self.ports[local];
                let start = u32::from(port.last_vc) + 1;
                let mut vcs = port.ready.rotate_right(start);
                loop {
                    if vcs == 0 {
                        live &= !(1 << local);
                        break;
                    }
                    let vc = (start + vcs.trailing_zeros()) & 15;
                    let number = (local << shift) | vc as usize;
                    let out = usize::from(self.queues[number].out >> shift);
                    if self.scratch.budget_out[out] > 0 {
                        self.scratch.chosen[local] = vc as u8;
                        self.scratch.requests[out] |= 1 << local;
                        wanted |= 1 << out;
                        break;
                    }
                    vcs &= vcs - 1;
                }
            }
            if wanted == 0 {
                return;
            }
            while wanted != 0 {
                let out = wanted.trailing_zeros() as usize;
                wanted &= wanted - 1;
                let bits = std::mem::take(&mut self.scratch.requests[out]);
                let start = u32::from(self.ports[out].last_in) + 1;
                let winner = ((start + bits.rotate_right(start).trailing_zeros()) & 63) as usize;
                self.ports[out].last_in = winner as u16;
                self.scratch.budget_out[out] -= 1;
                let budget = &mut self.scratch.budget_in[winner];
                *budget -= 1;
                let spent = *budget == 0;
                let vc = self.scratch.chosen[winner];
                self.ports[winner].last_vc = vc;
                self.move_one((winner << shift) | usize::from(vc));
                if spent || self.ports[winner].ready == 0 {
                    live &= !(1 << winner);
                }
            }
        }
    }
}
