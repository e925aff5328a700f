//! Which packet gets which virtual channel ahead, on the state at a cycle's start.
//!
//! A routing function is asked once a packet and router, where its answer is a run: neighbouring virtual
//! channels of one port, all alike. Of any other answer the best depends on what is free, and it is asked
//! again while the packet waits.

use super::here::Here;
use super::state::{BUSY, Claim, Guide, Places, Queue, State, turn};
use lightloom_fabric::routers::Choice;

impl Here<'_> {
    #[inline]
    pub fn allocate<G: Guide + ?Sized>(&mut self, guide: &G, places: &Places) {
        for word in 0..usize::from(self.router.words) {
            let mut ports = self.masks[word];
            while ports != 0 {
                let local = word * 64 + ports.trailing_zeros() as usize;
                ports &= ports - 1;
                let mut vcs = self.ports[local].waiting;
                while vcs != 0 {
                    let number = (local << self.rules.shift) | vcs.trailing_zeros() as usize;
                    vcs &= vcs - 1;
                    if let Some(out) = self.choose(number, guide, places) {
                        self.claim(number, out);
                    }
                }
            }
        }
        for index in 0..self.scratch.claims.len() {
            let claim = self.scratch.claims[index];
            let out = usize::from(claim.out);
            if usize::from(self.scratch.claimed[out]) != index + 1 {
                continue;
            }
            self.scratch.claimed[out] = 0;
            self.outs[out] = (self.outs[out] - claim.flits) | BUSY;
            self.ports[out >> self.rules.shift].last_claim = claim.queue;
            let queue = &mut self.queues[usize::from(claim.queue)];
            queue.out = claim.out;
            let packet = &mut self.pool.packets[queue.front as usize];
            packet.hops = packet.hops.saturating_add(1);
            self.grant(claim.queue);
        }
        self.scratch.claims.clear();
    }

    #[inline]
    fn grant(&mut self, number: u16) {
        self.queues[usize::from(number)].state = State::Granted;
        self.scratch.granted.push(number);
        self.clear_waiting(number.into());
    }

    /// The output VC that the front packet of a queue claims now, if there is one with room.
    #[inline]
    fn choose<G: Guide + ?Sized>(
        &mut self,
        number: usize,
        guide: &G,
        places: &Places,
    ) -> Option<u16> {
        let Queue { state, left, .. } = self.queues[number];
        let len = u16::from(left.max(self.rules.least));
        if state == State::Fresh && !self.route(number, len, guide, places) {
            return self.best(len);
        }
        let Queue { out, state, run, .. } = self.queues[number];
        let room = match state {
            State::Routed => len,
            State::RoutedForTwo => 2 * len,
            _ => return None,
        };
        let (first, run) = (usize::from(out), usize::from(run));
        let (mut most, mut found) = (room as i16 - 1, None);
        for (&ahead, out) in self.outs[first..first + run].iter().zip(out..) {
            // What is busy is below zero.
            if ahead as i16 > most {
                (most, found) = (ahead as i16, Some(out));
            }
        }
        found
    }

    /// Asks where the front packet of a queue may go. Says no if the answer is no run: it is in the scratch.
    fn route<G: Guide + ?Sized>(
        &mut self,
        number: usize,
        len: u16,
        guide: &G,
        places: &Places,
    ) -> bool {
        let shift = self.rules.shift;
        let packet = &self.pool.packets[self.queues[number].front as usize];
        let to = places.router[packet.to as usize];
        let here = self.rules.first_router + self.at;
        if to == here {
            self.queues[number].out = places.port[packet.to as usize] << shift;
            self.grant(number as u16);
            return true;
        }
        let (local, vc) = (number >> shift, number & self.vc_mask());
        let injected = local >= usize::from(self.router.channels);
        let came = (!injected).then_some((local as u16, vc as u8));
        let choices = &mut self.scratch.choices;
        choices.clear();
        guide.route(here, came, to, packet, choices);
        let first = choices[0];
        let next = |at: usize| Choice { vc: first.vc.wrapping_add(at as u8), ..first };
        let room = first.room;
        let alike = choices.iter().enumerate().all(|(at, choice)| *choice == next(at));
        if !alike || !(1..=2).contains(&room) {
            return false;
        }
        let queue = &mut self.queues[number];
        queue.out = (first.port << shift) | u16::from(first.vc);
        queue.run = choices.len() as u8;
        queue.state = if room > 1 { State::RoutedForTwo } else { State::Routed };
        debug_assert!(len > 0);
        true
    }

    /// Of the choices in the scratch, what a packet of so many flits takes.
    fn best(&self, len: u16) -> Option<u16> {
        let mut best: Option<(u8, u16, u16)> = None;
        for option in &self.scratch.choices {
            let out = (option.port << self.rules.shift) | u16::from(option.vc);
            let ahead = self.outs[usize::from(out)];
            if ahead & BUSY != 0 || ahead < len * u16::from(option.room) {
                continue;
            }
            let better = best.is_none_or(|(rank, held, _)| {
                option.rank < rank || (option.rank == rank && ahead > held)
            });
            if better {
                best = Some((option.rank, ahead, out));
            }
        }
        best.map(|(.., out)| out)
    }

    /// Claims an output VC for the front packet of a queue, unless another's claim goes first.
    #[inline]
    fn claim(&mut self, number: usize, out: u16) {
        let Queue { front, left, .. } = self.queues[number];
        let flits = u16::from(left.max(self.rules.least));
        let claim = Claim { out, queue: number as u16, flits };
        let held = &mut self.scratch.claimed[usize::from(out)];
        let better = *held == 0 || {
            let rival = &self.scratch.claims[usize::from(*held) - 1];
            match self.rules.oldest {
                true => {
                    let rival = self.queues[usize::from(rival.queue)].front;
                    self.pool.age(front) < self.pool.age(rival)
                }
                false => {
                    let last = self.ports[usize::from(out >> self.rules.shift)].last_claim;
                    turn(claim.queue, last) < turn(rival.queue, last)
                }
            }
        };
        if better {
            self.scratch.claims.push(claim);
            *held = self.scratch.claims.len() as u16;
        }
    }
}
