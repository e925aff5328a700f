//! Packets created at random, each when it is asked for: a queue of any length is the state of one
//! generator.

use crate::part::{Packet, Poll, Source};
use crate::traffic::Pattern;

/// A generator of random numbers (SplitMix64), one a terminal, so that who works on it is all one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub fn new(seed: u64, terminal: u32) -> Self {
        let mut draws = Draws(seed ^ 0x6c69_6768_746c_6f6f);
        let mixed = draws.next() ^ u64::from(terminal);
        draws.0 = mixed.wrapping_mul(0xd605_bbb5_8c8a_bc03);
        draws.next();
        draws
    }
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Evenly below `n`.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * u64::from(n)) >> 32) as u32
    }
    /// Evenly in \[0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[derive(Clone, Copy, Debug)]
struct Generator {
    draws: Draws,
    /// When its next packet is created \[slots of a cycle\].
    slot: u64,
    sent: u64,
    /// One over the logarithm of the chance that a slot stays empty; 0 if it never sends.
    scale: f64,
}

/// Terminals that each create packets in every slot with the same chance (Bernoulli).
#[derive(Debug)]
pub(crate) struct Bernoulli<'a> {
    pattern: &'a Pattern,
    generators: Vec<Generator>,
    first: u32,
    terminals: u32,
    slots: u64,
    packet: u8,
    draws: u32,
}

impl<'a> Bernoulli<'a> {
    /// Sources of `count` terminals from `first` of `terminals`, creating `load` flits a cycle each.
    pub fn new(
        pattern: &'a Pattern,
        (first, count, terminals): (u32, u32, u32),
        load: f64,
        packet: u8,
        seed: u64,
        draws: u32,
    ) -> Self {
        let mut most = 0.0f64;
        for terminal in 0..terminals {
            most = most.max(pattern.weight(terminals, terminal));
        }
        // In a slot at most one packet is created, in half of the slots at most.
        let slots = (2.0 * load * most / f64::from(packet)).ceil().max(1.0);
        let generators = (first..first + count).map(|terminal| {
            let chance = load * pattern.weight(terminals, terminal) / f64::from(packet) / slots;
            let scale = if chance > 0.0 { 1.0 / (-chance).ln_1p() } else { 0.0 };
            let mut draws = Draws::new(seed, terminal);
            let slot = gap(&mut draws, scale);
            Generator { draws, slot, sent: 0, scale }
        });
        Bernoulli {
            pattern,
            generators: generators.collect(),
            first,
            terminals,
            slots: slots as u64,
            packet,
            draws,
        }
    }
}

/// Empty slots before the next packet.
fn gap(draws: &mut Draws, scale: f64) -> u64 {
    ((1.0 - draws.unit()).ln() * scale) as u64
}

impl Source for Bernoulli<'_> {
    fn poll(&mut self, terminal: u32, now: u64) -> Poll {
        let generator = &mut self.generators[terminal as usize];
        if generator.scale == 0.0 {
            return Poll::Idle;
        }
        let created = generator.slot / self.slots;
        if created > now {
            return Poll::At(created);
        }
        let from = self.first + terminal;
        let draws = &mut generator.draws;
        let to = self.pattern.draw(self.terminals, from, generator.sent, draws);
        let draw = if self.draws > 1 { draws.below(self.draws) as u16 } else { 0 };
        generator.slot += 1 + gap(draws, generator.scale);
        generator.sent += 1;
        Poll::Packet(Packet {
            to,
            created: created as u32,
            tag: from,
            draw,
            len: self.packet,
            hops: 0,
        })
    }
}
