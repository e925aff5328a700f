//! Circuits by the time of the whole all-to-all: better than Algorithm 1, which does not see that
//! what has no circuit shares a few packet NICs.
//!
//! Modelled: a search that moves single circuits. The slowest server gets a circuit to another one,
//! from free ports or from those of circuits that either gives up, and the two that were given up
//! may be joined; or it gives up a peer altogether, where packets are quicker. Of all such moves that
//! make the slowest server faster and leave none as slow, the one that leaves the fastest is made,
//! until no server has one. So the times, sorted, only ever fall, and the search ends.
//! [`choose`] begins with Algorithm 1, with a circulant and with what stands, keeps the best, and
//! takes back what gained nothing.
//! Ignored: moves of more circuits at once. Beyond a fixed amount of work, which only regions of many
//! servers reach, the search stops; never by a clock, so results repeat.
//! Checked: never slower than where it began; legal; against every matching of four servers, and
//! against an exact method (`lightloom.oracle.mixnet`).

use super::timed::Rows;
use super::{CircuitCounts, Rates, ServerDemand, allocate_within};

/// Servers whose time is looked at before the search stops.
const WORK: usize = 4_000;

/// Chooses circuits for a demand by [`all_to_all_time`](super::all_to_all_time): no slower than
/// Algorithm 1 (with `keep_going`), nor than the circuits that stand, as far as these still fit
/// `ports`. Of choices that take equally long, the one nearer to what stands.
///
/// `ports` says how many ports each server may use.
///
/// # Panics
/// If the arguments are not of as many servers, or `standing` has more circuits than `ports`.
///
/// ```
/// use lightloom_schedule::mixnet::*;
/// let rate = 400_000_000_000;
/// let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 2, share_eps: false };
/// // Algorithm 1 spends the circuits on the largest pair; then server 0 needs 7 us for the rest.
/// let flows = [(0, 1, 400_000), (0, 2, 350_000), (0, 3, 350_000), (2, 3, 100_000)];
/// let demand = ServerDemand::from_gpu_demand(4, 1, flows);
/// let standing = CircuitCounts::dark(4);
/// let counts = choose(&demand, &standing, &[1; 4], &rates);
/// let printed = allocate_within(&demand, &[1; 4], true);
/// assert!(all_to_all_time(&demand, &counts, &rates) <= all_to_all_time(&demand, &printed, &rates));
/// ```
pub fn choose(
    demand: &ServerDemand,
    standing: &CircuitCounts,
    ports: &[u32],
    rates: &Rates,
) -> CircuitCounts {
    let n = demand.n;
    let even = ServerDemand { n, bytes: vec![1; n * n] };
    let starts = [
        standing.clone(),
        allocate_within(demand, ports, true),
        allocate_within(&even, ports, true),
    ];
    let searched = starts.map(|start| {
        let mut search = Search::new(demand, &start, ports, rates);
        while search.step().is_some() {}
        search.take_back(standing);
        let time = search.rows.longest();
        (time, changes(standing, search.rows.counts()), search.rows.into_counts())
    });
    let best = searched.into_iter().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    best.expect("three searches").2
}

/// Improves what stands move by move; `each` is told of the circuits after every move and says
/// whether to go on.
///
/// # Panics
/// As [`choose`].
pub(super) fn improve(
    demand: &ServerDemand,
    standing: &CircuitCounts,
    ports: &[u32],
    rates: &Rates,
    mut each: impl FnMut(&CircuitCounts) -> bool,
) {
    let mut search = Search::new(demand, standing, ports, rates);
    while search.step().is_some() && each(search.rows.counts()) {}
}

/// Circuits of `new` that do not stand.
pub(super) fn changes(standing: &CircuitCounts, new: &CircuitCounts) -> u32 {
    let n = new.servers();
    let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
    pairs.map(|(a, b)| new.get(a, b).saturating_sub(standing.get(a, b))).sum()
}

struct Search<'a> {
    rows: Rows<'a>,
    n: usize,
    free: Vec<u32>,
    times: Vec<f64>,
    work: usize,
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
    fn new(demand: &'a ServerDemand, start: &CircuitCounts, ports: &[u32], rates: &Rates) -> Self {
        let n = demand.n;
        assert_eq!(ports.len(), n, "servers with ports");
        let rows = Rows::new(demand, start, rates);
        let free = |server: usize| {
            let used = start.degree(server);
            assert!(used <= ports[server], "server {server} has {used} circuits");
            ports[server] - used
        };
        let times = (0..n).map(|server| rows.time(server)).collect();
        Search { rows, n, free: (0..n).map(free).collect(), times, work: WORK }
    }

    /// Makes the best move of the slowest server that has one; returns that server.
    fn step(&mut self) -> Option<usize> {
        let mut slowest: Vec<usize> = (0..self.n).collect();
        slowest.sort_by(|&a, &b| self.times[b].total_cmp(&self.times[a]).then(a.cmp(&b)));
        slowest.into_iter().find(|&server| self.work > 0 && self.move_circuits(server))
    }

    fn move_circuits(&mut self, a: usize) -> bool {
        let mut best: Option<(Score, Move)> = None;
        let mut leave: Option<(Score, usize)> = None;
        for c in self.gives(a) {
            if let Some(c) = c {
                if let Some(score) = self.leaving(a, c) {
                    if leave.is_none_or(|(least, _)| lower(score, least)) {
                        leave = Some((score, c));
                    }
                }
                self.change(a, c, false);
            }
            for b in (0..self.n).filter(|&b| b != a && Some(b) != c) {
                self.join_best(a, b, c, &mut best);
            }
            if let Some(c) = c {
                self.change(a, c, true);
            }
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
            for d in self.gives(b) {
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
                    if let Some(score) = score {
                        if best.is_none_or(|(least, _)| lower(score, least)) {
                            *best = Some((score, Move { b, c, d, join }));
                        }
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
    fn gives(&self, server: usize) -> Vec<Option<usize>> {
        let free = (self.free[server] > 0).then_some(None);
        free.into_iter().chain(self.rows.near(server).iter().map(|&c| Some(c.into()))).collect()
    }

    fn change(&mut self, a: usize, b: usize, more: bool) {
        let circuits = self.rows.counts().get(a, b);
        self.rows.set(a, b, if more { circuits + 1 } else { circuits - 1 });
    }

    fn look(&mut self, server: usize) -> f64 {
        self.work = self.work.saturating_sub(1);
        self.rows.time(server)
    }

    fn keep_times(&mut self, servers: [Option<usize>; 4]) {
        for server in servers.into_iter().flatten() {
            self.times[server] = self.rows.time(server);
        }
    }

    /// Brings back circuits that stood, from free ports or those of new circuits, where that leaves
    /// the time of the whole as it is.
    fn take_back(&mut self, standing: &CircuitCounts) {
        let longest = self.rows.longest();
        for a in 0..self.n {
            for b in a + 1..self.n {
                while self.rows.counts().get(a, b) < standing.get(a, b)
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
            search.gives(x).into_iter().filter(new).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixnet::all_to_all_time;
    use lightloom_units::Time;
    use proptest::prelude::*;

    fn rates() -> impl Strategy<Value = Rates> {
        let rate = prop_oneof![Just(400u64), 100u64..1000].prop_map(|gbps| gbps * 1_000_000_000);
        (rate.clone(), rate, 1u32..3, any::<bool>()).prop_map(
            |(optical_bps, packet_bps, packet_nics, share_eps)| Rates {
                optical_bps,
                packet_bps,
                packet_nics,
                share_eps,
            },
        )
    }

    fn demands(servers: std::ops::Range<usize>) -> impl Strategy<Value = ServerDemand> {
        let bytes = prop_oneof![1 => Just(0u64), 4 => 1u64 << 20..1 << 30];
        servers.prop_flat_map(move |n| {
            prop::collection::vec(bytes.clone(), n * n)
                .prop_map(move |bytes| ServerDemand { n, bytes })
        })
    }

    /// Every matching of a few servers, tried.
    fn least(
        demand: &ServerDemand,
        pairs: &[(usize, usize)],
        ports: &mut [u32],
        counts: &mut CircuitCounts,
        rates: &Rates,
    ) -> Time {
        let [(a, b), rest @ ..] = pairs else { return all_to_all_time(demand, counts, rates) };
        let mut best = Time::MAX;
        for circuits in 0..=ports[*a].min(ports[*b]) {
            counts.set(*a, *b, circuits);
            ports[*a] -= circuits;
            ports[*b] -= circuits;
            best = best.min(least(demand, rest, ports, counts, rates));
            ports[*a] += circuits;
            ports[*b] += circuits;
        }
        counts.set(*a, *b, 0);
        best
    }

    fn optimum(demand: &ServerDemand, ports: &[u32], rates: &Rates) -> Time {
        let n = demand.n;
        let pairs: Vec<_> = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect();
        least(demand, &pairs, &mut ports.to_vec(), &mut CircuitCounts::dark(n), rates)
    }

    proptest! {
        #[test]
        fn legal_and_no_slower_than_its_starts(
            demand in demands(1..10), before in demands(9..10), rates in rates(),
            ports in prop::collection::vec(0u32..7, 9),
        ) {
            let n = demand.n;
            let ports = &ports[..n];
            let of = |a: usize, b: usize| before.get(a, b);
            let bytes = (0..n * n).map(|at| of(at / n, at % n)).collect();
            let standing = allocate_within(&ServerDemand { n, bytes }, ports, true);
            let chosen = choose(&demand, &standing, ports, &rates);
            for a in 0..n {
                prop_assert!(chosen.degree(a) <= ports[a]);
                prop_assert_eq!(chosen.get(a, a), 0);
                prop_assert!((0..n).all(|b| chosen.get(a, b) == chosen.get(b, a)));
            }
            let time = |counts: &CircuitCounts| all_to_all_time(&demand, counts, &rates);
            prop_assert!(time(&chosen) <= time(&standing));
            prop_assert!(time(&chosen) <= time(&allocate_within(&demand, ports, true)));
            // What was chosen is as good as chosen anew, and then nothing moves.
            prop_assert!(time(&choose(&demand, &chosen, ports, &rates)) <= time(&chosen));
        }

        #[test]
        fn nothing_to_send_changes_nothing(before in demands(2..7), rates in rates()) {
            let n = before.n;
            let standing = allocate_within(&before, &vec![3; n], true);
            prop_assert_eq!(choose(&ServerDemand::zero(n), &standing, &vec![3; n], &rates), standing);
        }

        #[test]
        fn improving_only_ever_makes_faster(
            demand in demands(2..8), before in demands(7..8), rates in rates(),
        ) {
            let n = demand.n;
            let bytes = (0..n * n).map(|at| before.get(at / n, at % n)).collect();
            let standing = allocate_within(&ServerDemand { n, bytes }, &vec![4; n], true);
            let mut last = all_to_all_time(&demand, &standing, &rates);
            improve(&demand, &standing, &vec![4; n], &rates, |counts| {
                let time = all_to_all_time(&demand, counts, &rates);
                assert!(time <= last && (0..n).all(|server| counts.degree(server) <= 4));
                last = time;
                true
            });
        }

        #[test]
        fn near_the_best_of_all_matchings(
            demand in demands(2..5), rates in rates(),
            ports in prop::collection::vec(0u32..4, 4),
        ) {
            let n = demand.n;
            let chosen = choose(&demand, &CircuitCounts::dark(n), &ports[..n], &rates);
            let time = all_to_all_time(&demand, &chosen, &rates);
            let best = optimum(&demand, &ports[..n], &rates);
            prop_assert!(best <= time);
            // Mostly the best itself; a few per cent off in one of some thousand draws.
            prop_assert!(time.ps() as f64 <= 1.25 * best.ps() as f64, "{time} {best}");
        }
    }
}
