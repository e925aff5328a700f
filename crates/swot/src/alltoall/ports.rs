//! Single ports switched: list scheduling of an open shop with set-ups.
//!
//! Whenever a transmitter and a receiver of a plane are free at once and have bytes for each other,
//! the pair whose lines are latest is joined; how late a line is, is what it has left to send or
//! receive and what its ports are already taken for. Entries are split in two cases: those longer
//! than a share of the target are cut in advance, and a piece that would run past the target ends
//! there, the rest going to other planes. The target is the bound, stretched as little as need be;
//! it, the shares and a little noise are varied, and the shortest schedule stands. The work is
//! counted, so one demand has one schedule.

use super::booking::{End, Entry, NOBODY, Ports};
use super::demand::Demand;
use super::hold::{Hold, completion};
use crate::problem::Planes;
use lightloom_units::{Bytes, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Circuits that may be scheduled in all tries together.
const WORK: usize = 120_000;
/// Tries at least.
const TRIES: usize = 6;

/// Circuits for a demand on ports that begin dark: the best of many tries, and of what
/// [`Ports::book`] says.
pub fn ports(planes: &Planes, demand: &Demand) -> Vec<Hold> {
    let entries: Vec<Entry> = demand.entries().collect();
    let tries = (WORK / entries.len().max(1)).clamp(TRIES, 400);
    let mut best = Ports::dark(demand.nodes(), planes.planes).book(&entries, Time::ZERO, planes);
    let mut shortest = if best.is_empty() { Time::MAX } else { completion(&best) };
    let least = least(planes, demand);
    for i in 0..tries {
        let rule = Rule::number(i, least, shortest);
        if let Some(holds) = Shop::new(planes, demand, rule).run(shortest) {
            shortest = completion(&holds);
            best = holds;
        }
    }
    best
}

/// When the fullest line could be done.
fn least(planes: &Planes, demand: &Demand) -> f64 {
    let shop = Shop::new(planes, demand, Rule::number(0, 1.0, Time::MAX));
    let k = f64::from(planes.planes);
    shop.left_tx.iter().chain(&shop.left_rx).map(|left| left / k).fold(1.0, f64::max)
}

/// What a try varies.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// When everything should be done \[ps\].
    target: f64,
    /// Entries longer than this are cut \[ps\].
    longest: f64,
    /// How much the less urgent of the two lines counts.
    other: f64,
    /// How much the length of the entry counts.
    length: f64,
    /// How much chance counts.
    noise: f64,
    seed: u64,
}

impl Rule {
    fn number(i: usize, least: f64, shortest: Time) -> Self {
        const SHARES: [f64; 6] = [0.25, 0.5, 0.12, 1.0, 0.17, 0.35];
        const OTHERS: [f64; 4] = [0.3, 0.7, 0.1, 0.0];
        const LENGTHS: [f64; 3] = [0.0, 0.5, 0.1];
        const STRETCHES: [f64; 5] = [1.02, 1.05, 1.1, 1.0, 1.2];
        // Past what is known a piece is of no use; a little below it, it may be.
        let below = if i / 2 % 2 == 0 { 1.0 } else { 0.99 };
        let found = shortest.ps() as f64;
        let stretched = least * STRETCHES[i % 5];
        let target = if stretched < found { stretched } else { below * found };
        Rule {
            target,
            longest: least * SHARES[i % 6],
            other: OTHERS[i / 2 % 4],
            length: LENGTHS[i / 3 % 3],
            noise: if i < 12 { 0.0 } else { 0.02 * (1 + i % 4) as f64 },
            seed: 0x9e37_79b9_7f4a_7c15 ^ (i as u64) << 32,
        }
    }
}

/// One attempt at a plan, with one rule.
struct Shop<'a> {
    planes: &'a Planes,
    n: usize,
    rule: Rule,
    /// By plane, then node.
    tx: Vec<End>,
    rx: Vec<End>,
    /// Bytes not yet given to a circuit.
    rest: Vec<u64>,
    entries: usize,
    /// Time that each line's rest takes on one port \[ps\].
    left_tx: Vec<f64>,
    left_rx: Vec<f64>,
    /// Sum of the times when its ports are free \[ps\].
    taken_tx: Vec<f64>,
    taken_rx: Vec<f64>,
    ps_per_byte: f64,
    /// What a new circuit costs beyond its bytes \[ps\].
    once: f64,
    holds: Vec<Hold>,
}

impl<'a> Shop<'a> {
    fn new(planes: &'a Planes, demand: &Demand, rule: Rule) -> Self {
        let n = demand.nodes() as usize;
        let ps_per_byte = 8e12 / planes.rate_bps.bps() as f64;
        let once = (planes.reconfiguration_ps + planes.latency_ps).ps() as f64;
        let (mut left_tx, mut left_rx) = (vec![0.0; n], vec![0.0; n]);
        let mut entries = 0;
        for (from, to, bytes) in demand.entries() {
            let takes = bytes as f64 * ps_per_byte + once;
            left_tx[from as usize] += takes;
            left_rx[to as usize] += takes;
            entries += 1;
        }
        let dark = vec![End { free: Time::ZERO, peer: NOBODY }; n * planes.planes as usize];
        Shop {
            planes,
            n,
            rule,
            tx: dark.clone(),
            rx: dark,
            rest: demand.bytes.clone(),
            entries,
            left_tx,
            left_rx,
            taken_tx: vec![0.0; n],
            taken_rx: vec![0.0; n],
            ps_per_byte,
            once,
            holds: Vec::new(),
        }
    }

    /// Every byte on a circuit, or `None` once that takes as long as what is known.
    fn run(mut self, known: Time) -> Option<Vec<Hold>> {
        // Moments at which a port of a plane becomes free.
        let mut wakes: BinaryHeap<Reverse<(Time, u32)>> = BinaryHeap::new();
        wakes.extend((0..self.planes.planes).map(|plane| Reverse((Time::ZERO, plane))));
        let mut pairs = Vec::new();
        while let Some(Reverse((now, plane))) = wakes.pop() {
            while wakes.peek() == Some(&Reverse((now, plane))) {
                wakes.pop();
            }
            if self.entries == 0 {
                break;
            }
            self.candidates(plane, now, &mut pairs);
            for &(_, from, to) in &pairs {
                let (tx, rx) = (self.port(plane, from), self.port(plane, to));
                let rest = self.rest[from as usize * self.n + to as usize];
                if self.tx[tx].free > now || self.rx[rx].free > now || rest == 0 {
                    continue;
                }
                let end = self.join(plane, from, to, now);
                if end >= known {
                    return None;
                }
                wakes.push(Reverse((end, plane)));
            }
        }
        Some(self.holds)
    }

    /// Pairs of free ports that have bytes for each other, the most urgent first.
    fn candidates(&mut self, plane: u32, now: Time, pairs: &mut Vec<(f64, u32, u32)>) {
        let n = self.n as u32;
        let free = |ends: &[End]| -> Vec<u32> {
            (0..n).filter(|&i| ends[(plane * n + i) as usize].free <= now).collect()
        };
        let (tx, rx) = (free(&self.tx), free(&self.rx));
        pairs.clear();
        for &from in &tx {
            let a = self.left_tx[from as usize] + self.taken_tx[from as usize];
            for &to in &rx {
                let rest = self.rest[from as usize * self.n + to as usize];
                if rest == 0 {
                    continue;
                }
                let b = self.left_rx[to as usize] + self.taken_rx[to as usize];
                let mut score = a.max(b) + self.rule.other * a.min(b);
                score += self.rule.length * rest as f64 * self.ps_per_byte;
                if self.stands(plane, from, to) {
                    score += self.once;
                }
                if self.rule.noise > 0.0 {
                    score *= 1.0 + self.rule.noise * self.chance();
                }
                pairs.push((score, from, to));
            }
        }
        pairs.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    }

    fn port(&self, plane: u32, node: u32) -> usize {
        plane as usize * self.n + node as usize
    }

    /// Whether this circuit is as its ports were left.
    fn stands(&self, plane: u32, from: u32, to: u32) -> bool {
        let (tx, rx) = (self.tx[self.port(plane, from)], self.rx[self.port(plane, to)]);
        tx.peer == to && rx.peer == from
    }

    /// From 0 to 1.
    fn chance(&mut self) -> f64 {
        let seed = &mut self.rule.seed;
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        (*seed >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Gives a piece of an entry to a circuit; returns when its ports are free.
    fn join(&mut self, plane: u32, from: u32, to: u32, now: Time) -> Time {
        let at = from as usize * self.n + to as usize;
        let rest = self.rest[at];
        let stands = self.stands(plane, from, to);
        let start = if stands { now } else { now + self.planes.reconfiguration_ps };
        let begins = (start + self.planes.latency_ps).ps() as f64;
        let takes = rest as f64 * self.ps_per_byte;
        // Cut in equal pieces if it is long; and at the target, if that leaves worthwhile parts.
        let mut carries = takes;
        if takes > self.rule.longest {
            carries = takes / (takes / self.rule.longest).ceil();
        }
        let room = self.rule.target - begins;
        if room < carries && room > self.once && takes - room > 0.2 * self.once {
            carries = room;
        }
        let mut bytes = rest;
        if carries < takes {
            bytes = ((carries / self.ps_per_byte).ceil() as u64).clamp(1, rest);
        }
        let end = start + self.planes.latency_ps + self.planes.rate_bps.time_for(Bytes::new(bytes));
        self.rest[at] = rest - bytes;
        // The rest pays for a circuit of its own.
        let settled = bytes as f64 * self.ps_per_byte + if bytes == rest { self.once } else { 0.0 };
        self.entries -= usize::from(bytes == rest);
        let (tx, rx) = (self.port(plane, from), self.port(plane, to));
        let (i, j) = (from as usize, to as usize);
        self.left_tx[i] -= settled;
        self.left_rx[j] -= settled;
        self.taken_tx[i] += (end - self.tx[tx].free).ps() as f64;
        self.taken_rx[j] += (end - self.rx[rx].free).ps() as f64;
        self.tx[tx] = End { free: end, peer: to };
        self.rx[rx] = End { free: end, peer: from };
        self.holds.push(Hold {
            plane,
            from,
            to,
            dark_ps: now,
            start_ps: start,
            end_ps: end,
            bytes: Bytes::new(bytes),
            set: !stands,
        });
        end
    }
}
