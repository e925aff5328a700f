//! Matchings of greatest weight in any graph, exactly.
//!
//! Modelled: the primal-dual method with blossoms (Edmonds 1965; Galil, ACM Computing Surveys 18(1),
//! 1986), in stages that each add one edge to the matching, organised as in J. van Rantwijk's
//! `mwmatching`. Integer duals, so no rounding. A stage takes time `O(n^2 + m)` at most, and far less
//! when a tight path is near.
//! Checked: against all matchings of small graphs; on large ones by the dual solution, which proves
//! that nothing weighs more.

mod blossom;

/// Marks the absence of a vertex, edge, end or blossom.
const NONE: usize = usize::MAX;

/// Heavier edges count as this: four times as much, the most slack there can be, still fits.
const HEAVIEST: u64 = 1 << 60;

/// The pairs of a matching of greatest total weight, each `(lower, higher)`, in rising order.
///
/// Edges of weight zero, from a vertex to itself, or to a vertex beyond `vertices` are left out; of
/// parallel edges the heaviest can be chosen.
pub fn heaviest(vertices: usize, edges: &[(u32, u32, u64)]) -> Vec<(u32, u32)> {
    let mut search = Search::new(vertices, edges);
    while search.stage() {}
    search.pairs()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Unreached,
    /// At an even distance from an unmatched vertex.
    Even,
    /// At an odd distance.
    Odd,
    /// An even blossom while a path is traced back over it.
    Crumb,
}

/// An edge as one of its vertices sees it.
#[derive(Clone, Copy)]
struct Edge {
    far: usize,
    to: usize,
    weight: i64,
}

/// The state of the search. Edge `k` has two *ends*, `2k` and `2k + 1`; `end ^ 1` is the other end.
/// Blossoms are numbered after the vertices; each vertex is a trivial blossom.
struct Search {
    vertices: usize,
    /// By end: its vertex.
    at: Vec<usize>,
    /// By edge: twice its weight, so that all duals stay whole.
    weight: Vec<i64>,
    /// By vertex: its edges.
    edges: Vec<Vec<Edge>>,
    /// By vertex: the far end of its matched edge.
    mate: Vec<usize>,
    /// By vertex: twice its dual. By blossom: its dual.
    dual: Vec<i64>,
    /// By vertex: the outermost blossom that holds it.
    top: Vec<usize>,

    // By blossom, trivial ones too.
    label: Vec<Label>,
    /// The far end of the edge through which the label came.
    label_end: Vec<usize>,
    parent: Vec<usize>,
    /// The vertex that is matched outside the blossom, or not at all.
    base: Vec<usize>,
    /// The sub-blossoms around the odd cycle, from the base.
    children: Vec<Vec<usize>>,
    /// Entry `i` is the end, at child `i`, of the edge from it to child `i + 1`.
    cycle: Vec<Vec<usize>>,
    /// The edge of least slack to an even blossom.
    best: Vec<usize>,
    /// Of an even blossom: the edges of least slack to each other even one.
    best_edges: Vec<Option<Vec<usize>>>,
    unused: Vec<usize>,

    /// Even vertices whose edges are not yet looked at.
    queue: Vec<usize>,
}

impl Search {
    fn new(vertices: usize, edges: &[(u32, u32, u64)]) -> Self {
        let legal = |&&(a, b, weight): &&(u32, u32, u64)| {
            a != b && weight > 0 && (a.max(b) as usize) < vertices
        };
        let mut around = vec![Vec::new(); vertices];
        let (mut at, mut weight) = (Vec::new(), Vec::new());
        for &(a, b, bytes) in edges.iter().filter(legal) {
            let (a, b, doubled) = (a as usize, b as usize, 2 * bytes.min(HEAVIEST) as i64);
            for (vertex, to, far) in [(a, b, at.len() + 1), (b, a, at.len())] {
                around[vertex].push(Edge { far, to, weight: doubled });
            }
            at.extend([a, b]);
            weight.push(doubled);
        }
        let both = 2 * vertices;
        let mut dual = vec![0; both];
        dual[..vertices].fill(weight.iter().copied().max().unwrap_or(0) / 2);
        Search {
            vertices,
            at,
            weight,
            edges: around,
            mate: vec![NONE; vertices],
            dual,
            top: (0..vertices).collect(),
            label: vec![Label::Unreached; both],
            label_end: vec![NONE; both],
            parent: vec![NONE; both],
            base: (0..vertices).chain(vec![NONE; vertices]).collect(),
            children: vec![Vec::new(); both],
            cycle: vec![Vec::new(); both],
            best: vec![NONE; both],
            best_edges: vec![None; both],
            unused: (vertices..both).rev().collect(),
            queue: Vec::new(),
        }
    }

    /// Adds an edge to the matching; `false` if none makes it heavier.
    fn stage(&mut self) -> bool {
        self.label.fill(Label::Unreached);
        self.label_end.fill(NONE);
        self.best.fill(NONE);
        self.best_edges.fill(None);
        self.queue.clear();
        for v in 0..self.vertices {
            if self.mate[v] == NONE && self.label[self.top[v]] == Label::Unreached {
                self.reach(v, Label::Even, NONE);
            }
        }
        while !self.grow() {
            if !self.update_duals() {
                return false;
            }
        }
        for b in self.vertices..2 * self.vertices {
            let even = self.parent[b] == NONE && self.label[b] == Label::Even;
            if even && self.base[b] != NONE && self.dual[b] == 0 {
                self.expand(b, true);
            }
        }
        true
    }

    fn slack(&self, edge: usize) -> i64 {
        self.dual[self.at[2 * edge]] + self.dual[self.at[2 * edge + 1]] - self.weight[edge]
    }

    /// Whether `edge` has less slack than `than`.
    fn closer(&self, edge: usize, than: usize) -> bool {
        than == NONE || self.slack(edge) < self.slack(than)
    }

    /// Grows the trees along edges without slack; `true` if that added an edge to the matching.
    fn grow(&mut self) -> bool {
        while let Some(v) = self.queue.pop() {
            for at in 0..self.edges[v].len() {
                let Edge { far, to: w, weight } = self.edges[v][at];
                let top = self.top[w];
                if self.top[v] == top {
                    continue;
                }
                let label = self.label[top];
                let slack = self.dual[v] + self.dual[w] - weight;
                if slack > 0 {
                    let nearest = match label {
                        Label::Even => self.top[v],
                        _ if self.label[w] == Label::Unreached => w,
                        _ => continue,
                    };
                    let best = self.best[nearest];
                    if best == NONE || slack < self.slack(best) {
                        self.best[nearest] = far / 2;
                    }
                } else if label == Label::Unreached {
                    self.reach(w, Label::Odd, far ^ 1);
                } else if label == Label::Even {
                    match self.meeting(v, w) {
                        NONE => {
                            self.augment(far / 2);
                            return true;
                        }
                        base => self.shrink(base, far / 2),
                    }
                } else if self.label[w] == Label::Unreached {
                    // Inside an odd blossom: remember how it was reached, should it expand.
                    self.label[w] = Label::Odd;
                    self.label_end[w] = far ^ 1;
                }
            }
        }
        false
    }

    /// Moves the duals until an edge loses its slack or a blossom its dual; `false` if the duals of
    /// unmatched vertices reach zero first, which proves the matching heaviest.
    fn update_duals(&mut self) -> bool {
        enum Limit {
            Done,
            Tight(usize),
            Expand(usize),
        }
        let n = self.vertices;
        let outer = |s: &Self, b: usize| s.parent[b] == NONE && s.base[b] != NONE;
        let mut delta = self.dual[..n].iter().copied().min().unwrap_or(0);
        let mut event = Limit::Done;
        for b in 0..2 * n {
            let edge = self.best[b];
            let d = match edge {
                NONE => continue,
                _ if b < n && self.label[self.top[b]] == Label::Unreached => self.slack(edge),
                _ if outer(self, b) && self.label[b] == Label::Even => self.slack(edge) / 2,
                _ => continue,
            };
            if d < delta {
                (delta, event) = (d, Limit::Tight(edge));
            }
        }
        for b in n..2 * n {
            if outer(self, b) && self.label[b] == Label::Odd && self.dual[b] < delta {
                (delta, event) = (self.dual[b], Limit::Expand(b));
            }
        }
        for v in 0..n {
            match self.label[self.top[v]] {
                Label::Even => self.dual[v] -= delta,
                Label::Odd => self.dual[v] += delta,
                _ => {}
            }
        }
        for b in (n..2 * n).filter(|&b| outer(self, b)).collect::<Vec<_>>() {
            match self.label[b] {
                Label::Even => self.dual[b] += delta,
                Label::Odd => self.dual[b] -= delta,
                _ => {}
            }
        }
        match event {
            Limit::Done => return false,
            Limit::Tight(edge) => {
                let (i, j) = (self.at[2 * edge], self.at[2 * edge + 1]);
                let from_i = self.label[self.top[i]] == Label::Even; // else from j
                self.queue.push(if from_i { i } else { j });
            }
            Limit::Expand(b) => self.expand(b, false),
        }
        true
    }

    fn pairs(&self) -> Vec<(u32, u32)> {
        let partner = |v: usize| self.at.get(self.mate[v]).copied();
        (0..self.vertices)
            .filter_map(|v| Some((v, partner(v).filter(|&w| v < w)?)))
            .map(|(v, w)| (v as u32, w as u32))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Edges = Vec<(u32, u32, u64)>;

    fn weight(pairs: &[(u32, u32)], edges: &Edges) -> u64 {
        let mut heaviest = BTreeMap::new();
        for &(a, b, w) in edges {
            let entry = heaviest.entry((a.min(b), a.max(b))).or_insert(0);
            *entry = w.max(*entry);
        }
        pairs.iter().map(|pair| heaviest[pair]).sum()
    }

    /// The heaviest of all matchings, vertex by vertex, by subsets.
    fn by_all_matchings(vertices: usize, edges: &Edges) -> u64 {
        let mut best = vec![0u64; 1 << vertices];
        for set in 1..best.len() {
            let first = set.trailing_zeros();
            best[set] = best[set & (set - 1)];
            for &(a, b, w) in edges {
                let pair = 1 << a | 1 << b;
                if a != b && a.min(b) == first && set & pair == pair {
                    best[set] = best[set].max(w + best[set & !pair]);
                }
            }
        }
        best.last().copied().unwrap_or(0)
    }

    /// Complementary slackness: proves a matching heaviest without another solver.
    fn certify(search: &Search) {
        let within = |v: usize| {
            let up = |&b: &usize| Some(search.parent[b]).filter(|&b| b != NONE);
            std::iter::successors(up(&v), up).collect::<Vec<_>>()
        };
        assert!(search.dual.iter().all(|&dual| dual >= 0));
        for edge in 0..search.weight.len() {
            let (i, j) = (search.at[2 * edge], search.at[2 * edge + 1]);
            let (around_i, around_j) = (within(i), within(j));
            let common = around_i.iter().filter(|b| around_j.contains(b));
            let slack = search.slack(edge) + common.map(|&b| 2 * search.dual[b]).sum::<i64>();
            assert!(slack >= 0, "edge {edge} of negative slack {slack}");
            if search.mate[i] == 2 * edge + 1 || search.mate[j] == 2 * edge {
                assert_eq!((search.mate[i], search.mate[j]), (2 * edge + 1, 2 * edge));
                assert_eq!(slack, 0, "matched edge {edge} has slack");
            }
        }
        for v in 0..search.vertices {
            assert!(search.mate[v] != NONE || search.dual[v] == 0, "unmatched {v} has a dual");
        }
        for b in search.vertices..2 * search.vertices {
            if search.base[b] != NONE && search.dual[b] > 0 {
                assert_eq!(search.cycle[b].len() % 2, 1);
                for &end in search.cycle[b].iter().skip(1).step_by(2) {
                    assert_eq!(search.mate[search.at[end]], end ^ 1);
                    assert_eq!(search.mate[search.at[end ^ 1]], end);
                }
            }
        }
    }

    fn graphs(vertices: u32, edges: usize, weight: u64) -> impl Strategy<Value = Edges> {
        let edge = (0..vertices, 0..vertices, 0..weight);
        prop::collection::vec(edge, 0..edges)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn nothing_weighs_more_of_all_matchings(
            edges in prop_oneof![graphs(9, 36, 5), graphs(8, 24, 100), graphs(7, 40, 1 << 50)],
        ) {
            let pairs = heaviest(9, &edges);
            let mut ends: Vec<u32> = pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
            ends.sort_unstable();
            prop_assert!(ends.windows(2).all(|two| two[0] < two[1]), "a vertex twice");
            prop_assert_eq!(weight(&pairs, &edges), by_all_matchings(9, &edges));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn duals_prove_large_matchings_heaviest(
            edges in prop_oneof![
                graphs(60, 90, 4), graphs(60, 200, 30), graphs(40, 400, 1000), graphs(90, 150, 1 << 60)
            ],
        ) {
            let mut search = Search::new(90, &edges);
            while search.stage() {}
            certify(&search);
        }
    }

    #[test]
    fn a_light_middle_edge_gives_way_and_a_heavy_one_stays() {
        assert_eq!(heaviest(4, &[(0, 1, 6), (1, 2, 10), (2, 3, 5)]), [(0, 1), (2, 3)]);
        assert_eq!(heaviest(4, &[(0, 1, 4), (1, 2, 10), (2, 3, 5)]), [(1, 2)]);
        assert_eq!(heaviest(0, &[]), []);
    }

    /// The published cases that nest, relabel and expand blossoms (van Rantwijk's tests 20 to 25).
    #[test]
    fn nested_blossoms_expand_and_are_relabelled() {
        let edges = [
            (1, 2, 45),
            (1, 5, 45),
            (2, 3, 50),
            (3, 4, 45),
            (4, 5, 50),
            (1, 6, 30),
            (3, 9, 35),
            (4, 8, 35),
            (5, 7, 26),
            (9, 10, 5),
        ];
        assert_eq!(heaviest(11, &edges), [(1, 6), (2, 3), (4, 8), (5, 7), (9, 10)]);
        let edges = [
            (1, 2, 40),
            (1, 3, 40),
            (2, 3, 60),
            (2, 4, 55),
            (3, 5, 55),
            (4, 5, 50),
            (1, 8, 15),
            (5, 7, 30),
            (7, 6, 10),
            (8, 10, 10),
            (4, 9, 30),
        ];
        assert_eq!(heaviest(11, &edges), [(1, 2), (3, 5), (4, 9), (6, 7), (8, 10)]);
    }
}
