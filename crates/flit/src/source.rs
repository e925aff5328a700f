//! Packets created at random, each when it is asked for: a queue of any length is the state of one
//! generator.

use crate::draws::Draws;
use crate::part::{Packet, Poll, Source};
use crate::traffic::Pattern;

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
