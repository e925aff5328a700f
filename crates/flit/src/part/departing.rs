//! Where flits go that crossed the switch, and the space that they leave.

use super::here::Here;
use super::state::{BUSY, Queue, Sink, State};
use super::wires::{Credit, Flits, NOBODY};

impl Here<'_> {
    /// Takes flits of the front packet out of a queue, sends them on, and gives their space back.
    #[inline]
    pub fn depart(&mut self, number: usize, n: u16, sink: &mut impl Sink) {
        let (rules, shift) = (self.rules, self.rules.shift);
        let queue = &mut self.queues[number];
        let head = queue.state == State::Granted;
        queue.state = State::Sending;
        queue.flits -= n;
        queue.left -= n as u8;
        let Queue { front, out, left, flits, .. } = *queue;
        let tail = left == 0;
        self.clear_ready(number, tail || flits == 0);
        let out_port = usize::from(out >> shift);
        if out_port < usize::from(self.router.channels) {
            let port = &mut self.ports[out_port];
            port.carried += u64::from(n);
            let vc = u32::from(out) & ((1 << shift) - 1);
            let flits = Flits {
                queue: (port.down << shift) | vc,
                packet: if head { front } else { NOBODY },
                n: n as u8,
                // Of a head, nothing left before.
                len: left + n as u8,
            };
            let (delay, part) = (u64::from(port.flit_delay), port.down_part);
            if part == rules.me {
                self.wires.send(self.now, delay, flits);
            } else {
                let packet = self.pool.packets[front as usize];
                self.mail[usize::from(part)].flits.push((self.now + delay, flits, packet));
                if tail {
                    self.pool.vacant.push(front);
                }
            }
            if tail {
                self.outs[usize::from(out)] &= !BUSY;
            }
        } else {
            sink.ejected(&self.pool.packets[front as usize], n, tail, self.now);
            if tail {
                self.pool.vacant.push(front);
            }
        }
        let local = number >> shift;
        let injected = local >= usize::from(self.router.channels);
        if !injected && (tail || !rules.whole) {
            self.give_back(number, front, n, tail);
        }
        if tail {
            self.leave(number, front, injected);
        }
    }

    /// Gives the space of `n` flits back to the sender.
    #[inline]
    fn give_back(&mut self, number: usize, front: u32, n: u16, tail: bool) {
        let rules = self.rules;
        let port = &self.ports[number >> rules.shift];
        let vc = (number & ((1 << rules.shift) - 1)) as u32;
        let n = match (rules.whole, tail) {
            (true, _) => rules.least.into(),
            (false, true) => {
                let len = self.pool.packets[front as usize].len;
                n + u16::from(rules.least.saturating_sub(len))
            }
            (false, false) => n,
        };
        let credit = Credit { out: (port.up << rules.shift) | vc, n };
        let due = self.now + u64::from(port.credit_delay);
        match port.up_part == rules.me {
            true => self.wires.give_back(due, credit),
            false => self.mail[usize::from(port.up_part)].credits.push((due, credit)),
        }
    }

    /// The tail of the front packet has left: the next one comes to the front.
    #[inline]
    fn leave(&mut self, number: usize, front: u32, injected: bool) {
        let rules = self.rules;
        let queue = &mut self.queues[number];
        queue.count -= 1;
        queue.state = State::Idle;
        if queue.count > 0 {
            let slot = usize::from(queue.head) & ((1 << rules.ring_shift) - 1);
            queue.head = queue.head.wrapping_add(1);
            let next = self.ring[(number << rules.ring_shift) + slot];
            let len = self.pool.packets[next as usize].len;
            self.step_up(number, next, len);
        } else if injected {
            let up = self.ports[number >> rules.shift].up;
            let terminal = &mut self.terminals[up as usize];
            terminal.free |= 1 << (number & ((1 << rules.shift) - 1));
            if terminal.backlogged {
                self.again.push((up, self.pool.packets[front as usize].tag));
            }
        }
    }
}
