//! Even numbers of nodes: one node more than Walecki's, added to his cycles.
//!
//! The construction: take a path over the odd number of nodes that has one arc of every cycle (a
//! rainbow path). The new node goes into each cycle in place of that arc, and the path, closed over
//! the new node, is one cycle more. That there is a decomposition for all but 4 and 6 is Tillson's
//! theorem (1980); his case work is not needed, as such paths are found in milliseconds.
//!
//! The search: a walk over rings through all nodes whose arcs lack at most two cycles. A step gives
//! up an arc `a -> b` of a cycle that has several, leaves `a` by the arc of a cycle that has none,
//! and repairs the ring by swapping two stretches of it, cut where that serves best. The nodes in
//! their natural order lack a single cycle, so that is the start. The numbers behind its choices are
//! fixed: a `k` always gets the same rings.

use super::odd;

/// Cycles that a ring on the walk may lack. More widen the search, fewer end the search sooner.
const LACKING: isize = 2;
/// Steps for each node before giving up; to a thousand nodes, 400 are enough.
const STEPS: usize = 1000;
/// Where the random numbers start: 2^64 / golden ratio, odd.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// The cycles for an even `k` of 8 or more: those for `k - 1` in their order with node `k - 1`
/// added, and the path as the last. None if the search fails.
pub(super) fn decompose(k: u32) -> Option<Vec<Vec<u32>>> {
    let mut cycles = odd::decompose(k - 1);
    let ring = rainbow(&cycles)?;
    let mut after = vec![0; ring.len()];
    for (&node, &next) in ring.iter().zip(ring.iter().cycle().skip(1)) {
        after[node] = next as u32;
    }
    for cycle in &mut cycles {
        let shared = |at: &usize| after[cycle[*at] as usize] == cycle[(at + 1) % cycle.len()];
        let at = (0..cycle.len()).find(shared).expect("the path has an arc of every cycle");
        cycle.insert(at + 1, k - 1);
    }
    cycles.push(ring.into_iter().map(|node| node as u32).collect());
    Some(cycles)
}

/// A ring through the nodes of the cycles and one more, whose arcs between old nodes are of
/// different cycles.
fn rainbow(cycles: &[Vec<u32>]) -> Option<Vec<usize>> {
    let mut walk = Walk::new(cycles);
    let steps = STEPS * walk.ring.len();
    (0..steps).any(|_| !walk.step()).then_some(walk.ring)
}

/// A ring on the way to a rainbow.
struct Walk {
    ring: Vec<usize>,
    /// The cycle of each arc, by `from * nodes + to`; arcs at the new node are of the ring itself,
    /// the last cycle.
    cycles: Vec<usize>,
    /// Arcs of the ring, by cycle.
    arcs: Vec<u32>,
    random: u64,
}

impl Walk {
    fn new(old: &[Vec<u32>]) -> Self {
        let nodes = old.len() + 2;
        let mut cycles = vec![old.len(); nodes * nodes];
        for (number, cycle) in old.iter().enumerate() {
            for (&from, &to) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                cycles[from as usize * nodes + to as usize] = number;
            }
        }
        // The middle of Walecki's circle and the new node stand between its last and its first.
        let ring = (0..nodes).collect();
        let mut walk = Walk { ring, cycles, arcs: vec![0; old.len() + 1], random: SEED };
        for at in 0..nodes {
            let cycle = walk.cycle(walk.ring[at], walk.ring[(at + 1) % nodes]);
            walk.arcs[cycle] += 1;
        }
        walk
    }

    /// Goes to another ring; false if this one is a rainbow.
    fn step(&mut self) -> bool {
        let nodes = self.ring.len();
        let old = self.arcs.len() - 1;
        let lacking: Vec<usize> = (0..old).filter(|&cycle| self.arcs[cycle] == 0).collect();
        if lacking.is_empty() {
            return false;
        }
        let repeated = |&at: &usize| {
            let cycle = self.cycle(self.ring[at], self.ring[(at + 1) % nodes]);
            cycle < old && self.arcs[cycle] > 1
        };
        let repeated: Vec<usize> = (0..nodes).filter(repeated).collect();
        let wanted = lacking[self.draw(lacking.len())];
        let given_up = repeated[self.draw(repeated.len())];

        // b ... before | y ... end | beyond ... a  becomes  y ... end | b ... before | beyond ... a
        self.ring.rotate_left(given_up + 1);
        let (b, a) = (self.ring[0], self.ring[nodes - 1]);
        let middle = (1..nodes).find(|&at| self.cycle(a, self.ring[at]) == wanted);
        let middle = middle.expect("a is an old node, which every cycle leaves");
        let (before, y) = (self.ring[middle - 1], self.ring[middle]);
        let (mut least, mut ties, mut chosen) = (isize::MAX, 0, None);
        for at in middle..nodes - 1 {
            let (end, beyond) = (self.ring[at], self.ring[at + 1]);
            let old = [self.cycle(a, b), self.cycle(before, y), self.cycle(end, beyond)];
            let new = [wanted, self.cycle(end, b), self.cycle(before, beyond)];
            let change = self.replace(old, new);
            self.replace(new, old);
            if change < least {
                (least, ties) = (change, 0);
            }
            if change == least {
                ties += 1;
                if self.draw(ties) == 0 {
                    chosen = Some((at, old, new));
                }
            }
        }
        if let Some((at, old, new)) = chosen
            && lacking.len() as isize + least <= LACKING
        {
            self.replace(old, new);
            self.ring[..=at].rotate_left(middle);
        }
        true
    }

    fn cycle(&self, from: usize, to: usize) -> usize {
        self.cycles[from * self.ring.len() + to]
    }

    /// Counts arcs of the new cycles instead of the old; by how much the ring now lacks more cycles.
    fn replace(&mut self, old: [usize; 3], new: [usize; 3]) -> isize {
        let mut change = 0;
        for cycle in old {
            self.arcs[cycle] -= 1;
            change += isize::from(self.arcs[cycle] == 0);
        }
        for cycle in new {
            change -= isize::from(self.arcs[cycle] == 0);
            self.arcs[cycle] += 1;
        }
        change
    }

    /// A number below `n` (Marsaglia's xorshift64).
    fn draw(&mut self, n: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_links_of_a_pair_are_on_neighbouring_rails() {
        for k in (8..=64).step_by(2) {
            let cycles = decompose(k).expect("found");
            let mut rail = vec![0; (k * k) as usize];
            for (number, cycle) in cycles.iter().enumerate() {
                for (&from, &to) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                    rail[(from * k + to) as usize] = number / 2;
                }
            }
            let together = |from: u32, to: u32| {
                rail[(from * k + to) as usize] == rail[(to * k + from) as usize]
            };
            let apart =
                (0..k).map(|to| (0..to).filter(|&from| !together(from, to)).count()).sum::<usize>();
            assert!(apart <= 2 * k as usize - 3, "{k} nodes: {apart} pairs");
        }
    }

    #[test]
    fn four_and_six_have_no_rainbow() {
        assert_eq!([4, 6].map(decompose), [None, None]);
    }
}
