//! Packets from sources to the queues of terminals.

use super::Part;
use super::state::{NAP, Poll, Source, Terminal};
use super::wires::NOBODY;

impl Part {
    pub(super) fn inject(&mut self, now: u64, source: &mut impl Source) {
        let mut due = self.wakes.take(now, 0);
        due.retain(|&t| self.terminals[t as usize].wake == now);
        let mut again = std::mem::take(&mut self.again);
        for &(terminal, tag) in &again {
            if tag != NOBODY {
                source.injected(terminal, tag);
            }
            self.fill(terminal, now, source);
        }
        for &terminal in &due {
            self.fill(terminal, now, source);
        }
        again.clear();
        self.again = again;
        self.wakes.put(now, 0, due);
    }

    fn fill(&mut self, terminal: u32, now: u64, source: &mut impl Source) {
        let at = terminal as usize;
        self.terminals[at].backlogged = false;
        loop {
            let Terminal { port, free, .. } = self.terminals[at];
            if free == 0 {
                self.terminals[at].backlogged = true;
                return;
            }
            match source.poll(terminal, now) {
                Poll::Packet(packet) => {
                    let slot = free.trailing_zeros();
                    self.terminals[at].free &= !(1 << slot);
                    let queue = ((port << self.rules.shift) | slot) as usize;
                    let place = self.pool.keep(packet);
                    self.enqueue(queue, place, packet.len);
                    self.queues[queue].flits = u16::from(packet.len);
                }
                Poll::At(cycle) => {
                    let wake = cycle.clamp(now + 1, now + NAP);
                    if self.terminals[at].wake != wake {
                        self.terminals[at].wake = wake;
                        self.wakes.push(wake, 0, terminal);
                    }
                    return;
                }
                Poll::Full => {
                    self.terminals[at].backlogged = true;
                    return;
                }
                Poll::Idle => return,
            }
        }
    }
}
