//! Circuits while they are being chosen: who joined whom, and why, and which ports are left.

use std::collections::BTreeMap;

/// What a circuit was set for; what is given up first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    Matching,
    Ring,
    Crossing,
}

/// Duplex circuits between servers, each of which has so many ports.
pub(super) struct Topology {
    pub free: Vec<u32>,
    /// By pair `lower < higher`: what each of its circuits is for, in falling order.
    circuits: BTreeMap<(u32, u32), Vec<Purpose>>,
    neighbours: Vec<Vec<u32>>,
    pub total: u32,
}

impl Topology {
    pub fn new(servers: usize, degree: u32) -> Self {
        Topology {
            free: vec![degree; servers],
            circuits: BTreeMap::new(),
            neighbours: vec![Vec::new(); servers],
            total: 0,
        }
    }

    pub fn free(&self, server: u32) -> u32 {
        self.free[server as usize]
    }

    /// Sets a circuit. Both servers have a free port.
    pub fn join(&mut self, a: u32, b: u32, purpose: Purpose) {
        let circuits = self.circuits.entry((a.min(b), a.max(b))).or_default();
        circuits.push(purpose);
        circuits.sort_unstable_by(|a, b| b.cmp(a));
        for (from, to) in [(a, b), (b, a)] {
            self.free[from as usize] -= 1;
            self.neighbours[from as usize].push(to);
        }
        self.total += 1;
    }

    /// Gives up one circuit of a pair, of those the one of least purpose; returns it.
    pub fn part(&mut self, a: u32, b: u32) -> Option<Purpose> {
        let purpose = self.circuits.get_mut(&(a.min(b), a.max(b)))?.pop()?;
        for (from, to) in [(a, b), (b, a)] {
            self.free[from as usize] += 1;
            let neighbours = &mut self.neighbours[from as usize];
            if let Some(at) = neighbours.iter().position(|&n| n == to) {
                neighbours.remove(at);
            }
        }
        self.total -= 1;
        Some(purpose)
    }

    /// By server: the lowest server it is connected with.
    pub fn components(&self) -> Vec<u32> {
        let mut part = vec![u32::MAX; self.neighbours.len()];
        for first in 0..part.len() {
            let mut open = vec![first as u32];
            while let Some(server) = open.pop() {
                if part[server as usize] == u32::MAX {
                    part[server as usize] = first as u32;
                    open.extend(&self.neighbours[server as usize]);
                }
            }
        }
        part
    }

    /// The neighbour whose circuit `server` can best spare, by its purpose, then by `demand` per
    /// circuit: none without which the two would lose each other, none for more than `limit`.
    pub fn spare(
        &self,
        server: u32,
        limit: Purpose,
        demand: &BTreeMap<(u32, u32), u64>,
    ) -> Option<u32> {
        let mut neighbours = self.neighbours[server as usize].clone();
        neighbours.sort_unstable();
        neighbours.dedup();
        let mut candidates: Vec<_> = neighbours
            .into_iter()
            .filter_map(|other| {
                let pair = (server.min(other), server.max(other));
                let circuits = &self.circuits[&pair];
                let purpose = *circuits.last()?;
                let bytes = demand.get(&pair).copied().unwrap_or(0);
                Some((purpose, bytes / circuits.len() as u64, other))
            })
            .filter(|&(purpose, ..)| purpose <= limit)
            .collect();
        candidates.sort_unstable();
        let mut candidates = candidates.into_iter().map(|(_, _, other)| other);
        candidates.find(|&other| self.connected_without(server, other))
    }

    /// Whether two neighbours stay connected when one circuit between them is gone.
    fn connected_without(&self, a: u32, b: u32) -> bool {
        if self.circuits[&(a.min(b), a.max(b))].len() > 1 {
            return true;
        }
        let mut seen = vec![false; self.neighbours.len()];
        seen[a as usize] = true;
        let mut open = vec![a];
        while let Some(server) = open.pop() {
            for &next in &self.neighbours[server as usize] {
                if (server, next) == (a, b) || seen[next as usize] {
                    continue;
                }
                if next == b {
                    return true;
                }
                seen[next as usize] = true;
                open.push(next);
            }
        }
        false
    }

    /// Every circuit, `lower < higher`, in rising order.
    pub fn into_circuits(self) -> Vec<(u32, u32)> {
        let copies = |(pair, circuits): (_, Vec<_>)| std::iter::repeat_n(pair, circuits.len());
        self.circuits.into_iter().flat_map(copies).collect()
    }
}
