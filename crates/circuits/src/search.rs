//! A search for circuits that make an all-to-all faster, one circuit at a time.
//!
//! Modelled: the slowest server gets a circuit to another one, from free ports or from those of
//! circuits that either gives up, and the two that were given up may be joined; or it gives up a peer
//! altogether, where packets are quicker. Of all such moves that make it faster and leave no other as
//! slow, the one that leaves the fastest is made, until there is none. So the times of all servers,
//! sorted, only ever fall, and the search ends.
//! Ignored: moves of more circuits at once.
//! Checked: by those who use it, [`super::choose`] and [`super::change`].

use super::rows::Rows;
use crate::demand::ServerDemand;
use crate::greedy::CircuitCounts;
use crate::timed::Rates;

/// Circuits that are being improved.
pub(super) struct Search<'a> {
    rows: Rows<'a>,
    n: usize,
    free: Vec<u32>,
    times: Vec<f64>,
    looks: usize,
}

/// A circuit between `a` and `b`, from free ports or from those of circuits to `c` and `d`, which
/// may then be joined.
#[derive(Clone, Copy)]
struct Move {
    b: usize,
    c: Option<usize>,
    d: Option<usize>,
    join: bool,
}

/// How a move ends: the longest time of the servers concerned, then the sum.
type Score = (f64, f64);

impl<'a> Search<'a> {
    pub fn new(
        demand: &'a ServerDemand,
        start: &CircuitCounts,
        ports: &[u32],
        rates: &Rates,
    ) -> Self {
        let n = demand.n;
        assert_eq!(ports.len(), n, "servers with ports");
        let rows = Rows::new(demand, start, rates);
        let free = |server: usize| {
            let used = start.degree(server);
            assert!(used <= ports[server], "server {server} has {used} circuits");
            ports[server] - used
        };
        let times = (0..n).map(|server| rows.time(server)).collect();
        Search { rows, n, free: (0..n).map(free).collect(), times, looks: 0 }
    }

    pub fn counts(&self) -> &CircuitCounts {
        self.rows.counts()
    }

    pub fn into_counts(self) -> CircuitCounts {
        self.rows.into_counts()
    }

    /// The time of the whole \[ps\].
    pub fn longest(&self) -> f64 {
        self.times.iter().copied().fold(0.0, f64::max)
    }

    /// Makes the slowest server faster, if a move does and there is work left, which is counted in
    /// servers whose time is looked at.
    pub fn step(&mut self, work: &mut usize) -> bool {
        let slower =
            |&a: &usize, &b: &usize| self.times[a].total_cmp(&self.times[b]).then(b.cmp(&a));
        let Some(slowest) = (0..self.n).max_by(slower) else { return false };
        let (before, left) = (self.looks, *work);
        let moved = left > 0 && self.move_circuits(slowest);
        *work = left.saturating_sub(self.looks - before);
        moved
    }

    fn move_circuits(&mut self, a: usize) -> bool {
        let slowest = self.rows.slowest(a);
        let mut best: Option<(Score, Move)> = None;
        let mut leave: Option<(Score, usize)> = None;
        let mut gives = self.next_gives(a, None);
        while let Some(c) = gives {
            if let Some(c) = c {
                if let Some(score) = self.leaving(a, c)
                    && leave.is_none_or(|(least, _)| lower(score, least))
                {
                    leave = Some((score, c));
                }
                self.change(a, c, false);
            }
            for b in (0..self.n).filter(|&b| b != a && Some(b) != c) {
                // The circuits that stay slowest, or packets alone, may take too long already.
                let stays = slowest.filter(|&(to, _)| to != b && Some(to) != c);
                let least = stays.map_or(0.0, |(_, time)| time).max(self.rows.packets_with(a, b));
                let enough = best.map_or(self.times[a], |((least, _), _)| least);
                if least < enough || (least <= enough && least < self.times[a]) {
                    self.join_best(a, b, c, &mut best);
                }
            }
            if let Some(c) = c {
                self.change(a, c, true);
            }
            gives = self.next_gives(a, gives);
        }
        match (best, leave) {
            (Some((score, _)), Some((least, c))) if lower(least, score) => self.leave(a, c),
            (None, Some((_, c))) => self.leave(a, c),
            (Some((_, moved)), _) => self.apply(a, moved),
            (None, None) => return false,
        }
        true
    }

    /// Joins `a` and `b` in the best way, `c` having been given up by `a`.
    fn join_best(
        &mut self,
        a: usize,
        b: usize,
        c: Option<usize>,
        best: &mut Option<(Score, Move)>,
    ) {
        if self.rows.busier(a, b) == 0 {
            return;
        }
        self.change(a, b, true);
        let own = self.look(a);
        if own < self.times[a] && best.is_none_or(|((least, _), _)| own <= least) {
            let mut gives = self.next_gives(b, None);
            while let Some(d) = gives {
                gives = self.next_gives(b, gives);
                if d == Some(a) {
                    continue;
                }
                if let Some(d) = d {
                    self.change(b, d, false);
                }
                let joins = match (c, d) {
                    (Some(c), Some(d)) if c != d && self.rows.busier(c, d) > 0 => 2,
                    _ => 1,
                };
                for join in 0..joins {
                    let join = join == 1;
                    if let (Some(c), Some(d), true) = (c, d, join) {
                        self.change(c, d, true);
                    }
                    let score = self.score(a, own, [Some(b), c, d.filter(|_| d != c)]);
                    if let Some(score) = score
                        && best.is_none_or(|(least, _)| lower(score, least))
                    {
                        *best = Some((score, Move { b, c, d, join }));
                    }
                    if let (Some(c), Some(d), true) = (c, d, join) {
                        self.change(c, d, false);
                    }
                }
                if let Some(d) = d {
                    self.change(b, d, true);
                }
            }
        }
        self.change(a, b, false);
    }

    /// The score of circuits as they are, if they make `a` faster and none as slow as it was.
    fn score(&mut self, a: usize, own: f64, others: [Option<usize>; 3]) -> Option<Score> {
        let (mut longest, mut sum) = (own, own);
        for other in others.into_iter().flatten() {
            let time = self.look(other);
            if time >= self.times[a] && time > self.times[other] {
                return None;
            }
            longest = longest.max(time);
            sum += time;
        }
        Some((longest, sum))
    }

    fn leaving(&mut self, a: usize, c: usize) -> Option<Score> {
        let circuits = self.rows.counts().get(a, c);
        self.rows.set(a, c, 0);
        let own = self.look(a);
        let score =
            if own < self.times[a] { self.score(a, own, [Some(c), None, None]) } else { None };
        self.rows.set(a, c, circuits);
        score
    }

    fn leave(&mut self, a: usize, c: usize) {
        let circuits = self.rows.counts().get(a, c);
        self.rows.set(a, c, 0);
        self.free[a] += circuits;
        self.free[c] += circuits;
        self.keep_times([Some(a), Some(c), None, None]);
    }

    fn apply(&mut self, a: usize, Move { b, c, d, join }: Move) {
        for (x, y, more) in [(Some(a), Some(b), true), (Some(a), c, false), (Some(b), d, false)] {
            if let (Some(x), Some(y)) = (x, y) {
                self.change(x, y, more);
            }
        }
        self.free[a] -= u32::from(c.is_none());
        self.free[b] -= u32::from(d.is_none());
        match (c, d, join) {
            (Some(c), Some(d), true) => self.change(c, d, true),
            _ => [c, d].into_iter().flatten().for_each(|given| self.free[given] += 1),
        }
        self.keep_times([Some(a), Some(b), c, d]);
    }

    /// What a server can give for a circuit: a free port, or one of its circuits to some other.
    fn gives(&self, server: usize) -> impl Iterator<Item = Option<usize>> + '_ {
        let free = (self.free[server] > 0).then_some(None);
        free.into_iter().chain(self.rows.near(server).map(Some))
    }

    /// Of [`Search::gives`], what follows one, or the first: moves are tried in between, and undone.
    fn next_gives(&self, server: usize, last: Option<Option<usize>>) -> Option<Option<usize>> {
        let from = match last {
            None if self.free[server] > 0 => return Some(None),
            None | Some(None) => 0,
            Some(Some(peer)) => peer + 1,
        };
        self.rows.next_near(server, from).map(Some)
    }

    fn change(&mut self, a: usize, b: usize, more: bool) {
        let circuits = self.rows.counts().get(a, b);
        self.rows.set(a, b, if more { circuits + 1 } else { circuits - 1 });
    }

    fn look(&mut self, server: usize) -> f64 {
        self.looks += 1;
        self.rows.time(server)
    }

    fn keep_times(&mut self, servers: [Option<usize>; 4]) {
        for server in servers.into_iter().flatten() {
            self.times[server] = self.look(server);
        }
    }

    /// Brings back circuits that stood, from free ports or those of new circuits, where that leaves
    /// the time of the whole as it is, while there is work left.
    pub fn take_back(&mut self, standing: &CircuitCounts, work: usize) {
        let longest = self.longest();
        let most = self.looks + work;
        for a in 0..self.n {
            for b in a + 1..self.n {
                while self.looks < most
                    && self.rows.counts().get(a, b) < standing.get(a, b)
                    && self.bring_back(a, b, longest, standing)
                {}
            }
        }
    }

    fn bring_back(&mut self, a: usize, b: usize, longest: f64, standing: &CircuitCounts) -> bool {
        let spare = |search: &Self, x: usize| -> Vec<Option<usize>> {
            let new = |to: &Option<usize>| {
                to.is_none_or(|to| search.rows.counts().get(x, to) > standing.get(x, to))
            };
            search.gives(x).filter(new).collect()
        };
        for c in spare(self, a).into_iter().filter(|&c| c != Some(b)) {
            for d in spare(self, b).into_iter().filter(|&d| d != Some(a)) {
                let moved = Move { b, c, d, join: false };
                self.apply(a, moved);
                let mut concerned = [Some(a), Some(b), c, d].into_iter().flatten();
                if concerned.all(|server| self.times[server] <= longest) {
                    return true;
                }
                self.undo(a, moved);
            }
        }
        false
    }

    fn undo(&mut self, a: usize, Move { b, c, d, .. }: Move) {
        self.change(a, b, false);
        for (x, given) in [(a, c), (b, d)] {
            match given {
                Some(given) => {
                    self.change(x, given, true);
                    self.free[given] -= 1;
                }
                None => self.free[x] += 1,
            }
        }
        self.keep_times([Some(a), Some(b), c, d]);
    }
}

fn lower(a: Score, b: Score) -> bool {
    a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).is_lt()
}
