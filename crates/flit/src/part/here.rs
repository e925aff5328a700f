//! One router in one cycle: its own stretch of every array, and what it shares with the others of its part.

use super::state::{
    Claim, Guide, Out, Places, Pool, Port, Queue, Router, Rules, Sink, State, Terminal,
};
use super::turns::Turns;
use super::wires::{Mail, Wires};
use lightloom_fabric::routers::Choice;

/// See the module.
pub(super) struct Here<'a> {
    pub now: u64,
    pub rules: Rules,
    pub router: Router,
    /// Its number in the part.
    pub at: u32,
    pub ports: &'a mut [Port],
    pub queues: &'a mut [Queue],
    pub outs: &'a mut [Out],
    pub ring: &'a mut [u32],
    /// Ports with a VC that waits for an output, then ports with one that is ready.
    pub masks: &'a mut [u64],
    pub pool: &'a mut Pool,
    pub wires: &'a mut Wires,
    pub mail: &'a mut [Mail],
    pub terminals: &'a mut [Terminal],
    pub again: &'a mut Vec<(u32, u32)>,
    pub moved_at: &'a mut u64,
    pub scratch: &'a mut Scratch,
    pub turns: &'a mut Turns,
}

/// Scratch of one router's cycle.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub claims: Vec<Claim>,
    /// By output VC: one more than the index of its best claim.
    pub claimed: Vec<u16>,
    pub choices: Vec<Choice>,
    /// Queues that were given an output.
    pub granted: Vec<u16>,
    /// Queues that sent, by their number in the router, and how many flits each did.
    pub touched: Vec<u16>,
    pub moved: Vec<u8>,
    pub budget_in: Vec<u16>,
    pub budget_out: Vec<u16>,
    pub chosen: Vec<u8>,
    pub requests: Vec<u64>,
    pub wanted: Vec<u16>,
}

impl Scratch {
    /// For routers of up to `ports` ports.
    pub fn new(ports: usize, shift: u32) -> Self {
        Scratch {
            claimed: vec![0; ports << shift],
            moved: vec![0; ports << shift],
            budget_in: vec![0; ports],
            budget_out: vec![0; ports],
            chosen: vec![0; ports],
            requests: vec![0; ports * ports.div_ceil(64)],
            ..Scratch::default()
        }
    }
}

impl Here<'_> {
    /// Works the cycle; says whether the router may rest until something arrives.
    #[inline]
    pub fn work<G: Guide + ?Sized>(
        &mut self,
        guide: &G,
        places: &Places,
        sink: &mut impl Sink,
    ) -> bool {
        self.allocate(guide, places);
        if self.masks[usize::from(self.router.words)..].iter().any(|&word| word != 0) {
            *self.moved_at = self.now;
            match self.router.words > 1 || self.rules.oldest {
                true => self.switch_in_rounds(sink),
                false => self.switch(sink),
            }
        }
        for index in 0..self.scratch.granted.len() {
            let number = usize::from(self.scratch.granted[index]);
            self.set_ready(number);
        }
        self.scratch.granted.clear();
        self.masks.iter().all(|&word| word == 0)
    }

    #[inline]
    pub fn vc_mask(&self) -> usize {
        (1 << self.rules.shift) - 1
    }

    /// The front packet of a queue waits for an output.
    #[inline]
    pub fn set_waiting(&mut self, number: usize) {
        let (local, vc) = (number >> self.rules.shift, number & self.vc_mask());
        self.ports[local].waiting |= 1 << vc;
        self.masks[local / 64] |= 1 << (local % 64);
    }

    #[inline]
    pub fn clear_waiting(&mut self, number: usize) {
        let (local, vc) = (number >> self.rules.shift, number & self.vc_mask());
        let port = &mut self.ports[local];
        port.waiting &= !(1 << vc);
        let idle = u64::from(port.waiting == 0);
        self.masks[local / 64] &= !(idle << (local % 64));
    }

    /// The front packet of a queue holds an output and has flits.
    #[inline]
    pub fn set_ready(&mut self, number: usize) {
        let (local, vc) = (number >> self.rules.shift, number & self.vc_mask());
        self.ports[local].ready |= 1 << vc;
        self.masks[usize::from(self.router.words) + local / 64] |= 1 << (local % 64);
    }

    #[inline]
    pub fn clear_ready(&mut self, number: usize, done: bool) {
        let (local, vc) = (number >> self.rules.shift, number & self.vc_mask());
        let port = &mut self.ports[local];
        port.ready &= !(u16::from(done) << vc);
        let idle = u64::from(port.ready == 0);
        self.masks[usize::from(self.router.words) + local / 64] &= !(idle << (local % 64));
    }

    /// A packet comes to the front of a queue.
    #[inline]
    pub fn step_up(&mut self, number: usize, packet: u32, len: u8) {
        let queue = &mut self.queues[number];
        queue.front = packet;
        queue.left = len;
        queue.state = State::Fresh;
        self.set_waiting(number);
    }
}
