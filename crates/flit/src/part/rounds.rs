//! Which flits cross the switch in a cycle, for routers of any size and either arbitration.
//!
//! In each round every input port names one of its VCs, and every output port takes one of the inputs
//! that name it, one flit each; at most as many rounds as the widest channel is wide.

use super::here::Here;
use super::state::{Sink, turn};

impl Here<'_> {
    pub fn switch_in_rounds(&mut self, sink: &mut impl Sink) {
        self.rounds();
        for index in 0..self.scratch.touched.len() {
            let number = usize::from(self.scratch.touched[index]);
            let n = std::mem::take(&mut self.scratch.moved[number]);
            self.depart(number, n.into(), sink);
        }
        self.scratch.touched.clear();
    }

    fn rounds(&mut self) {
        let words = usize::from(self.router.words);
        for (at, port) in self.ports.iter().enumerate() {
            self.scratch.budget_in[at] = port.width_in;
            self.scratch.budget_out[at] = port.width_out;
        }
        for _ in 0..self.router.rounds {
            for word in 0..words {
                let mut ports = self.masks[words + word];
                while ports != 0 {
                    let local = word * 64 + ports.trailing_zeros() as usize;
                    ports &= ports - 1;
                    if self.scratch.budget_in[local] == 0 {
                        continue;
                    }
                    if let Some((vc, out)) = self.nominate(local) {
                        self.scratch.chosen[local] = vc;
                        let row = usize::from(out) * words;
                        if self.scratch.requests[row..row + words].iter().all(|&bits| bits == 0) {
                            self.scratch.wanted.push(out);
                        }
                        self.scratch.requests[row + word] |= 1 << (local % 64);
                    }
                }
            }
            if self.scratch.wanted.is_empty() {
                return;
            }
            while let Some(out) = self.scratch.wanted.pop() {
                let row = usize::from(out) * words;
                let winner = self.pick(usize::from(out), row, words);
                self.scratch.requests[row..row + words].fill(0);
                self.scratch.budget_in[winner] -= 1;
                self.scratch.budget_out[usize::from(out)] -= 1;
                let vc = self.scratch.chosen[winner];
                self.ports[winner].last_vc = vc;
                self.ports[usize::from(out)].last_in = winner as u16;
                let number = (winner << self.rules.shift) | usize::from(vc);
                if self.scratch.moved[number] == 0 {
                    self.scratch.touched.push(number as u16);
                }
                self.scratch.moved[number] += 1;
            }
        }
    }

    /// The VC that an input port names, and the output port that it goes to.
    fn nominate(&self, local: usize) -> Option<(u8, u16)> {
        let port = &self.ports[local];
        let mut vcs = port.ready;
        let mut best: Option<(u8, u16, (u32, u32))> = None;
        while vcs != 0 {
            let vc = vcs.trailing_zeros() as u8;
            vcs &= vcs - 1;
            let number = (local << self.rules.shift) | usize::from(vc);
            let queue = &self.queues[number];
            let out = queue.out >> self.rules.shift;
            let all = queue.flits.min(u16::from(queue.left));
            if self.scratch.budget_out[usize::from(out)] == 0
                || all == u16::from(self.scratch.moved[number])
            {
                continue;
            }
            let key = match self.rules.oldest {
                true => self.pool.age(queue.front),
                false => (turn(vc.into(), port.last_vc.into()).into(), 0),
            };
            if best.is_none_or(|(.., held)| key < held) {
                best = Some((vc, out, key));
            }
        }
        best.map(|(vc, out, _)| (vc, out))
    }

    /// The input port, by number, that an output port takes of those that name it.
    fn pick(&self, out: usize, row: usize, words: usize) -> usize {
        let last = self.ports[out].last_in;
        let mut best: Option<(usize, (u32, u32))> = None;
        for word in 0..words {
            let mut bits = self.scratch.requests[row + word];
            while bits != 0 {
                let local = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let key = match self.rules.oldest {
                    true => {
                        let vc = usize::from(self.scratch.chosen[local]);
                        self.pool.age(self.queues[(local << self.rules.shift) | vc].front)
                    }
                    false => (turn(local as u16, last).into(), 0),
                };
                if best.is_none_or(|(_, held)| key < held) {
                    best = Some((local, key));
                }
            }
        }
        best.map_or(0, |(local, _)| local)
    }
}
