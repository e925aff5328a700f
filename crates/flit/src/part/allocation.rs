//! Which packet gets which virtual channel ahead, on the state at a cycle's start.

use super::{BUSY, Claim, Guide, Part, Places, Queue, Router, State, turn};
use lightloom_fabric::routers::Choice;

impl Part {
    pub(super) fn allocate<G: Guide + ?Sized>(
        &mut self,
        at: usize,
        router: Router,
        guide: &G,
        places: &Places,
    ) {
        for word in 0..u32::from(router.words) {
            let mut ports = self.masks[(router.masks + word) as usize];
            while ports != 0 {
                let local = word * 64 + ports.trailing_zeros();
                ports &= ports - 1;
                let port = router.first + local;
                let mut vcs = self.ports[port as usize].waiting;
                while vcs != 0 {
                    let vc = vcs.trailing_zeros();
                    vcs &= vcs - 1;
                    self.claim(at, router, (local, vc), guide, places);
                }
            }
        }
        let mut claims = std::mem::take(&mut self.claims);
        for (index, claim) in claims.iter().enumerate() {
            let claimed = &mut self.claimed[usize::from(claim.out)];
            if usize::from(*claimed) != index + 1 {
                continue;
            }
            *claimed = 0;
            let first = (router.first as usize) << self.shift;
            let out = &mut self.outs[first + usize::from(claim.out)];
            *out = (*out - claim.flits) | BUSY;
            let port = router.first as usize + usize::from(claim.out >> self.shift);
            self.ports[port].last_claim = claim.queue;
            let queue = first + usize::from(claim.queue);
            self.queues[queue].out = claim.out;
            self.grant(queue, router);
        }
        claims.clear();
        self.claims = claims;
    }

    fn grant(&mut self, at: usize, router: Router) {
        self.queues[at].state = State::Granted;
        self.granted.push(at as u32);
        let port = &mut self.ports[at >> self.shift];
        port.waiting &= !(1 << (at & ((1 << self.shift) - 1)));
        if port.waiting == 0 {
            let local = (at >> self.shift) as u32 - router.first;
            self.masks[(router.masks + local / 64) as usize] &= !(1 << (local % 64));
        }
    }

    #[inline]
    fn claim<G: Guide + ?Sized>(
        &mut self,
        at: usize,
        router: Router,
        (local, vc): (u32, u32),
        guide: &G,
        places: &Places,
    ) {
        let first = (router.first as usize) << self.shift;
        let number = ((local << self.shift) | vc) as u16;
        let queue = first + usize::from(number);
        let Queue { mut out, state, left, .. } = self.queues[queue];
        let len = u16::from(left.max(self.least));
        if state != State::Fresh {
            let room = if state == State::RoutedForTwo { 2 * len } else { len };
            let ahead = self.outs[first + usize::from(out)];
            if ahead & BUSY != 0 || ahead < room {
                return;
            }
        }
        let packet = *self.front(queue);
        if state == State::Fresh {
            let to = places.router[packet.to as usize];
            let here = self.first_router + at as u32;
            if to == here {
                self.queues[queue].out = places.port[packet.to as usize] << self.shift;
                self.grant(queue, router);
                return;
            }
            let injected = local >= u32::from(router.channels);
            let came = (!injected).then_some((local as u16, vc as u8));
            self.choices.clear();
            guide.route(here, came, to, &packet, &mut self.choices);
            let index = |c: &Choice| (c.port << self.shift) | u16::from(c.vc);
            let fits = |c: &Choice| {
                let ahead = self.outs[first + usize::from(index(c))];
                (ahead & BUSY == 0 && ahead >= len * u16::from(c.room)).then_some(ahead)
            };
            if guide.deterministic() {
                let only = self.choices[0];
                out = index(&only);
                let queue = &mut self.queues[queue];
                queue.out = out;
                queue.state = if only.room > 1 { State::RoutedForTwo } else { State::Routed };
                if fits(&only).is_none() {
                    return;
                }
            } else {
                let mut best: Option<(u8, u16)> = None;
                for option in &self.choices {
                    let Some(credits) = fits(option) else { continue };
                    let better = best.is_none_or(|(rank, held)| {
                        option.rank < rank || (option.rank == rank && credits > held)
                    });
                    if better {
                        best = Some((option.rank, credits));
                        out = index(option);
                    }
                }
                if best.is_none() {
                    return;
                }
            }
        }
        let claim = Claim { out, queue: number, age: (packet.created, packet.tag), flits: len };
        let held = &mut self.claimed[usize::from(out)];
        let better = *held == 0 || {
            let rival = &self.claims[usize::from(*held) - 1];
            match self.oldest {
                true => claim.age < rival.age,
                false => {
                    let port = router.first as usize + usize::from(out >> self.shift);
                    let last = self.ports[port].last_claim;
                    turn(number, last) < turn(rival.queue, last)
                }
            }
        };
        if better {
            self.claims.push(claim);
            *held = self.claims.len() as u16;
        }
    }
}
