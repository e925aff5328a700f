//! Which flits cross the switch in a cycle, and where they go.

use super::{BLOCK, BUSY, Credit, Flits, NEAR, NOBODY, Part, Queue, Router, Sink, State, turn};

impl Part {
    pub(super) fn switch(&mut self, router: Router, now: u64, sink: &mut impl Sink) {
        let ready = self.masks[router.masks as usize + usize::from(router.words)];
        if router.words > 1 || self.oldest {
            self.switch_in_rounds(router);
            if !self.touched.is_empty() {
                self.moved_at = now;
            }
        } else if ready != 0 {
            self.moved_at = now;
            let rest = self.switch_apart(router, ready, now, sink);
            if rest != 0 {
                self.switch_in_turn(router, rest);
            }
        }
    }

    /// Moves the flits of inputs that have one VC to choose, bound for an output that no other VC is
    /// bound for: what rounds would do, at once. Returns the other inputs.
    fn switch_apart(&mut self, router: Router, ready: u64, now: u64, sink: &mut impl Sink) -> u64 {
        let (first, shift) = (router.first as usize, self.shift);
        let (mut ports, mut single, mut once, mut twice) = (ready, 0u64, 0u64, 0u64);
        while ports != 0 {
            let local = ports.trailing_zeros() as usize;
            ports &= ports - 1;
            let mut vcs = self.ports[first + local].ready;
            single |= u64::from(vcs.is_power_of_two()) << local;
            while vcs != 0 {
                let vc = vcs.trailing_zeros() as usize;
                vcs &= vcs - 1;
                let bit = 1u64 << (self.queues[((first + local) << shift) | vc].out >> shift);
                twice |= once & bit;
                once |= bit;
            }
        }
        let mut rest = ready & !single;
        while single != 0 {
            let local = single.trailing_zeros() as usize;
            single &= single - 1;
            let vc = self.ports[first + local].ready.trailing_zeros();
            let at = ((first + local) << shift) | vc as usize;
            let Queue { flits, left, out, .. } = self.queues[at];
            if (twice >> (out >> shift)) & 1 != 0 {
                rest |= 1 << local;
                continue;
            }
            let out = first + usize::from(out >> shift);
            let width = self.ports[first + local].width_in.min(self.ports[out].width_out);
            let n = flits.min(left.into()).min(width).min(router.rounds);
            if n > 0 {
                self.ports[out].last_in = local as u16;
                self.ports[first + local].last_vc = vc as u8;
                self.advance(at, n, router);
                self.depart((at - (first << shift)) as u16, n, router, now, sink);
            }
        }
        rest
    }

    /// [`Part::switch_in_rounds`] in turns, for up to 64 ports: sets of ports are words, and whose turn
    /// it is a rotation.
    fn switch_in_turn(&mut self, router: Router, ready: u64) {
        let (first, n) = (router.first as usize, usize::from(router.ports));
        let shift = self.shift;
        let ports = &mut self.ports[first..first + n];
        let (budget_in, budget_out) = (&mut self.budget_in[..n], &mut self.budget_out[..n]);
        let (chosen, requests) = (&mut self.chosen[..n], &mut self.requests[..n]);
        let queues = &mut self.queues[first << shift..(first + n) << shift];
        let moved = &mut self.moved[..n << shift];
        for (at, port) in ports.iter().enumerate() {
            budget_in[at] = port.width_in;
            budget_out[at] = port.width_out;
        }
        // Inputs that may still have something to name: budgets only shrink within a cycle.
        let mut live = ready;
        for _ in 0..router.rounds {
            let (mut left, mut wanted) = (live, 0u64);
            while left != 0 {
                let local = left.trailing_zeros() as usize;
                left &= left - 1;
                let port = &ports[local];
                let start = u32::from(port.last_vc) + 1;
                let mut vcs = port.ready.rotate_right(start);
                if budget_in[local] == 0 {
                    vcs = 0;
                }
                loop {
                    if vcs == 0 {
                        live &= !(1 << local);
                        break;
                    }
                    let vc = (start + vcs.trailing_zeros()) & 15;
                    let out = usize::from(queues[(local << shift) | vc as usize].out >> shift);
                    if budget_out[out] > 0 {
                        chosen[local] = vc as u8;
                        requests[out] |= 1 << local;
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
                let bits = std::mem::take(&mut requests[out]);
                let start = u32::from(ports[out].last_in) + 1;
                let winner = ((start + bits.rotate_right(start).trailing_zeros()) & 63) as usize;
                ports[out].last_in = winner as u16;
                budget_in[winner] -= 1;
                budget_out[out] -= 1;
                let vc = chosen[winner];
                let port = &mut ports[winner];
                port.last_vc = vc;
                let at = (winner << shift) | usize::from(vc);
                let queue = &mut queues[at];
                if moved[at] == 0 {
                    self.touched.push(at as u16);
                }
                moved[at] += 1;
                queue.flits -= 1;
                queue.left -= 1;
                if queue.flits == 0 || queue.left == 0 {
                    port.ready &= !(1 << vc);
                    if port.ready == 0 {
                        self.masks[router.masks as usize + 1] &= !(1 << winner);
                        live &= !(1 << winner);
                    }
                }
            }
        }
    }

    fn switch_in_rounds(&mut self, router: Router) {
        let (words, first) = (usize::from(router.words), router.first as usize);
        for local in 0..usize::from(router.ports) {
            self.budget_in[local] = self.ports[first + local].width_in;
            self.budget_out[local] = self.ports[first + local].width_out;
        }
        for _ in 0..router.rounds {
            for word in 0..words {
                let mut ports = self.masks[router.masks as usize + words + word];
                while ports != 0 {
                    let local = word * 64 + ports.trailing_zeros() as usize;
                    ports &= ports - 1;
                    if self.budget_in[local] == 0 {
                        continue;
                    }
                    if let Some((vc, out)) = self.nominate(first + local) {
                        self.chosen[local] = vc;
                        let row = usize::from(out) * words;
                        if self.requests[row..row + words].iter().all(|&bits| bits == 0) {
                            self.wanted.push(out);
                        }
                        self.requests[row + word] |= 1 << (local % 64);
                    }
                }
            }
            if self.wanted.is_empty() {
                return;
            }
            while let Some(out) = self.wanted.pop() {
                let row = usize::from(out) * words;
                let winner = self.pick(first, out, row, words);
                self.requests[row..row + words].fill(0);
                self.budget_in[winner] -= 1;
                self.budget_out[usize::from(out)] -= 1;
                let vc = self.chosen[winner];
                self.ports[first + winner].last_vc = vc;
                self.ports[first + usize::from(out)].last_in = winner as u16;
                let number = (winner << self.shift) | usize::from(vc);
                if self.moved[number] == 0 {
                    self.touched.push(number as u16);
                }
                self.moved[number] += 1;
                self.advance((first << self.shift) + number, 1, router);
            }
        }
    }

    /// The VC that an input port names, and the output port that it goes to.
    fn nominate(&self, at: usize) -> Option<(u8, u16)> {
        let port = &self.ports[at];
        let mut vcs = port.ready;
        if vcs.is_power_of_two() {
            let vc = vcs.trailing_zeros() as u8;
            let out = self.queues[(at << self.shift) | usize::from(vc)].out >> self.shift;
            return (self.budget_out[usize::from(out)] > 0).then_some((vc, out));
        }
        let mut best: Option<(u8, u16, (u32, u32))> = None;
        while vcs != 0 {
            let vc = vcs.trailing_zeros() as u8;
            vcs &= vcs - 1;
            let queue = (at << self.shift) | usize::from(vc);
            let out = self.queues[queue].out >> self.shift;
            if self.budget_out[usize::from(out)] == 0 {
                continue;
            }
            let key = match self.oldest {
                true => self.age(queue),
                false => (turn(vc.into(), port.last_vc.into()).into(), 0),
            };
            if best.is_none_or(|(.., held)| key < held) {
                best = Some((vc, out, key));
            }
        }
        best.map(|(vc, out, _)| (vc, out))
    }

    fn age(&self, queue: usize) -> (u32, u32) {
        let packet = self.front(queue);
        (packet.created, packet.tag)
    }

    /// The input port, by number, that an output port takes of those that name it.
    fn pick(&self, first: usize, out: u16, row: usize, words: usize) -> usize {
        let last = self.ports[first + usize::from(out)].last_in;
        let mut best: Option<(usize, (u32, u32))> = None;
        for word in 0..words {
            let mut bits = self.requests[row + word];
            if words == 1 && bits & (bits - 1) == 0 {
                return bits.trailing_zeros() as usize;
            }
            while bits != 0 {
                let local = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let key = match self.oldest {
                    true => {
                        let vc = usize::from(self.chosen[local]);
                        self.age(((first + local) << self.shift) | vc)
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

    /// `n` flits of the front packet leave the buffer; [`Part::depart`] sends them on.
    #[inline]
    fn advance(&mut self, at: usize, n: u16, router: Router) {
        let queue = &mut self.queues[at];
        queue.flits -= n;
        queue.left -= n as u8;
        if queue.flits == 0 || queue.left == 0 {
            let port = &mut self.ports[at >> self.shift];
            port.ready &= !(1 << (at & ((1 << self.shift) - 1)));
            if port.ready == 0 {
                let local = (at >> self.shift) as u32 - router.first;
                let word = router.masks + u32::from(router.words) + local / 64;
                self.masks[word as usize] &= !(1 << (local % 64));
            }
        }
    }

    /// Sends on what moved out of a queue, and gives its space back.
    #[inline]
    pub(super) fn depart(
        &mut self,
        number: u16,
        n: u16,
        router: Router,
        now: u64,
        sink: &mut impl Sink,
    ) {
        let first = (router.first as usize) << self.shift;
        let at = first + usize::from(number);
        let queue = &mut self.queues[at];
        let head = queue.state == State::Granted;
        queue.state = State::Sending;
        let Queue { front, out, left, .. } = *queue;
        let out_port = out >> self.shift;
        if out_port < router.channels {
            let port = &mut self.ports[router.first as usize + usize::from(out_port)];
            port.carried += u64::from(n);
            self.flit_hops += u64::from(n);
            let vc = u32::from(out) & ((1 << self.shift) - 1);
            let packet = if head { front } else { NOBODY };
            let flits = Flits { queue: (port.down << self.shift) | vc, packet, n };
            if head {
                let packet = &mut self.pool[front as usize];
                packet.hops = packet.hops.saturating_add(1);
            }
            let delay = u64::from(port.flit_delay);
            let due = now + delay;
            if port.down_part == self.me {
                let block = (flits.queue >> (self.shift + BLOCK)) as usize;
                match delay <= NEAR {
                    true => self.near.push(due, block, flits),
                    false => self.far.push(due, block, flits),
                }
            } else {
                let packet = self.pool[front as usize];
                self.mail[usize::from(port.down_part)].flits.push((due, flits, packet));
                if left == 0 {
                    self.vacant.push(front);
                }
            }
            if left == 0 {
                self.outs[first + usize::from(out)] &= !BUSY;
            }
        } else {
            sink.ejected(&self.pool[front as usize], n, left == 0, now);
            if left == 0 {
                self.vacant.push(front);
            }
        }
        let port = &self.ports[at >> self.shift];
        let vc = (at & ((1 << self.shift) - 1)) as u32;
        let (up, up_part, delay) = (port.up, port.up_part, port.credit_delay);
        let injected = (at >> self.shift) as u32 - router.first >= u32::from(router.channels);
        if !injected && (!self.whole || left == 0) {
            let len = self.pool[front as usize].len;
            let n = match left == 0 {
                true if self.whole => len.into(),
                true => n + u16::from(self.least.saturating_sub(len)),
                false => n,
            };
            let credit = Credit { out: (up << self.shift) | vc, n };
            let due = now + u64::from(delay);
            match up_part == self.me {
                true => self.credits.push(due, self.block(credit.out), credit),
                false => self.mail[usize::from(up_part)].credits.push((due, credit)),
            }
        }
        if left > 0 {
            return;
        }
        let queue = &mut self.queues[at];
        queue.count -= 1;
        queue.state = State::Idle;
        if queue.count > 0 {
            let slot = usize::from(queue.head) & ((1 << self.ring_shift) - 1);
            queue.head = queue.head.wrapping_add(1);
            let next = self.ring[(at << self.ring_shift) + slot];
            self.step_up(at, next);
        } else if injected {
            let tag = self.pool[front as usize].tag;
            let terminal = &mut self.terminals[up as usize];
            terminal.free |= 1 << vc;
            if terminal.backlogged {
                self.again.push((up, tag));
            }
        }
    }
}
