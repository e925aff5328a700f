use super::*;
use proptest::prelude::*;
use proptest::test_runner::TestRng;

/// What is run, and over how many bytes.
#[derive(Clone, Debug)]
enum What {
    AllReduce(u64),
    ReduceScatter(Vec<Range<u64>>),
    AllGather(Vec<Range<u64>>),
    Broadcast(usize, u64),
    Barrier,
}

impl What {
    fn program(&self, algorithm: &Algorithm, me: Member) -> Program {
        match self {
            What::AllReduce(bytes) => all_reduce(algorithm, me, *bytes, 8),
            What::ReduceScatter(shards) => reduce_scatter(algorithm, me, shards, 8),
            What::AllGather(shards) => all_gather(algorithm, me, shards),
            What::Broadcast(root, bytes) => broadcast(algorithm, me, *root, *bytes),
            What::Barrier => barrier(me),
        }
    }
}

fn algorithms(members: usize) -> impl Strategy<Value = Algorithm> {
    let order = Just((0..members).collect::<Vec<_>>()).prop_shuffle();
    let rings = (prop::collection::vec(order, 1..4), 1..4usize);
    let rings = rings.prop_map(|(orders, parts)| Algorithm::Ring { orders, parts });
    let direct = (1..4usize).prop_map(|parts| Algorithm::Direct { parts });
    prop_oneof![direct, rings]
}

fn cases() -> impl Strategy<Value = (usize, Algorithm, What)> {
    (1..8usize).prop_flat_map(|members| {
        let bytes =
            || prop_oneof![Just(0u64), 0..9u64, 0..700u64].prop_map(|elements| 8 * elements);
        let shards = move || {
            prop::collection::vec(bytes(), members).prop_map(|sizes| {
                let end = |at: &mut u64, bytes: u64| {
                    *at += bytes;
                    Some(*at - bytes..*at)
                };
                sizes.into_iter().scan(0, end).collect::<Vec<_>>()
            })
        };
        let what = prop_oneof![
            bytes().prop_map(What::AllReduce),
            shards().prop_map(What::ReduceScatter),
            shards().prop_map(What::AllGather),
            (0..members, 0..5000u64).prop_map(|(root, bytes)| What::Broadcast(root, bytes)),
            Just(What::Barrier),
        ];
        (Just(members), algorithms(members), what)
    })
}

/// Members, their memories, and what is under way between them.
struct World {
    programs: Vec<Program>,
    runs: Vec<Run>,
    memories: Vec<Vec<u8>>,
    /// By member: rounds that were begun, each with the peers that it waits for.
    open: Vec<Vec<(usize, Vec<usize>)>>,
}

impl World {
    fn new(programs: Vec<Program>, fill: impl Fn(usize, usize) -> u8) -> Self {
        let memory = |(at, program): (usize, &Program)| {
            let size = (program.bytes + program.scratch) as usize;
            (0..size).map(|byte| fill(at, byte)).collect()
        };
        let mut world = World {
            memories: programs.iter().enumerate().map(memory).collect(),
            runs: programs.iter().map(Run::new).collect(),
            open: vec![vec![]; programs.len()],
            programs,
        };
        (0..world.runs.len()).for_each(|at| world.begin(at));
        world
    }

    fn begin(&mut self, at: usize) {
        while let Some(round) = self.runs[at].begin() {
            let it = &self.programs[at].rounds[round];
            let mut peers: Vec<usize> =
                it.sends.iter().chain(&it.receives).map(|p| p.peer).collect();
            peers.sort_unstable();
            peers.dedup();
            self.open[at].push((round, peers));
            self.end(at, round);
        }
    }

    /// Ends a round of which nothing is left.
    fn end(&mut self, at: usize, round: usize) {
        if !self.open[at].iter().any(|(it, peers)| *it == round && peers.is_empty()) {
            return;
        }
        self.open[at].retain(|(it, _)| *it != round);
        for fold in &self.programs[at].rounds[round].folds {
            let range = fold.from.start as usize..fold.from.end as usize;
            let from = self.memories[at][range.clone()].to_vec();
            let into = &mut self.memories[at][fold.into as usize..][..range.len()];
            reduce(Element::I64, Reduction::Sum, into, &from);
        }
        self.runs[at].end(round);
        self.begin(at);
    }

    /// Moves what two members have for each other in a round that both have begun; says whether there was any.
    fn step(&mut self, chance: &mut TestRng) -> bool {
        let has = |at: usize, round: usize, peer: usize| {
            self.open[at].iter().any(|(it, peers)| *it == round && peers.contains(&peer))
        };
        let mut ready = Vec::new();
        for (a, rounds) in self.open.iter().enumerate() {
            for (round, peers) in rounds {
                let both = peers.iter().filter(|&&b| a < b && has(b, *round, a));
                ready.extend(both.map(|&b| (a, b, *round)));
            }
        }
        let Some(&(a, b, round)) = ready.get(chance.next_u32() as usize % ready.len().max(1))
        else {
            return false;
        };
        for (from, to) in [(a, b), (b, a)] {
            let of = |parts: &[Part], peer: usize| -> Vec<usize> {
                let parts = parts.iter().filter(|part| part.peer == peer);
                parts.flat_map(|part| part.range.start as usize..part.range.end as usize).collect()
            };
            let sends = of(&self.programs[from].rounds[round].sends, to);
            let receives = of(&self.programs[to].rounds[round].receives, from);
            assert_eq!(sends.len(), receives.len(), "round {round}, {from} to {to}");
            for (source, target) in sends.into_iter().zip(receives) {
                self.memories[to][target] = self.memories[from][source];
            }
        }
        for (at, peer) in [(a, b), (b, a)] {
            for (it, peers) in &mut self.open[at] {
                peers.retain(|&other| *it != round || other != peer);
            }
        }
        self.end(a, round);
        self.end(b, round);
        true
    }
}

fn number(at: usize, byte: usize) -> u8 {
    // The lower bytes of integers of 8 B: sums of a few do not overflow.
    if byte % 8 < 6 { (at * 31 + byte * 7) as u8 } else { 0 }
}

proptest! {
    #[test]
    fn members_end_with_what_the_definition_says(
        (members, algorithm, what) in cases(), seed: [u8; 32],
    ) {
        let program = |at| what.program(&algorithm, Member { at, of: members });
        let programs: Vec<Program> = (0..members).map(program).collect();
        let bytes = programs[0].bytes as usize;
        let mut world = World::new(programs, number);
        let mut chance = TestRng::from_seed(prop::test_runner::RngAlgorithm::ChaCha, &seed);
        while world.step(&mut chance) {}
        prop_assert!(world.runs.iter().all(Run::is_over));
        let own: Vec<Vec<u8>> =
            (0..members).map(|at| (0..bytes).map(|byte| number(at, byte)).collect()).collect();
        let mut sum = own[0].clone();
        own[1..].iter().for_each(|own| reduce(Element::I64, Reduction::Sum, &mut sum, own));
        for (at, memory) in world.memories.iter().enumerate() {
            let all = |shards: &[Range<u64>]| -> Vec<u8> {
                let shard = |(at, it): (usize, &Range<u64>)| own[at][it.start as usize..it.end as usize].to_vec();
                shards.iter().enumerate().flat_map(shard).collect()
            };
            match &what {
                What::AllReduce(_) => prop_assert_eq!(&memory[..bytes], &sum[..]),
                What::ReduceScatter(shards) => {
                    let own = shards[at].start as usize..shards[at].end as usize;
                    prop_assert_eq!(&memory[own.clone()], &sum[own]);
                }
                What::AllGather(shards) => prop_assert_eq!(&memory[..bytes], &all(shards)[..]),
                What::Broadcast(root, _) => prop_assert_eq!(&memory[..bytes], &own[*root][..]),
                What::Barrier => prop_assert_eq!(memory.len(), members),
            }
        }
    }

    #[test]
    fn no_more_is_sent_than_must_be((members, algorithm, what) in cases()) {
        let (n, bound) = (members as u64, |bytes: u64, at: usize| {
            // A shard of another is not sent; shards may differ by an element.
            let shards = shards(0..bytes, 8, members);
            bytes - (shards[at].end - shards[at].start)
        });
        if let What::AllReduce(bytes) = what {
            for at in 0..members {
                let sent = what.program(&algorithm, Member { at, of: members }).sent();
                let slices = match &algorithm {
                    Algorithm::Direct { parts } => *parts as u64,
                    Algorithm::Ring { orders, parts } => (orders.len() * parts) as u64,
                };
                let most = 2 * bound(bytes, at) + (n - 1) * 8 * (1 + 2 * slices);
                prop_assert!(sent <= most, "{sent} of {most}");
            }
        }
    }

    #[test]
    fn shards_are_of_whole_elements(begin in 0..99u64, elements in 0..99u64, count in 1..9usize) {
        let shards = shards(begin..begin + 4 * elements, 4, count);
        let sizes: Vec<u64> = shards.iter().map(|shard| shard.end - shard.start).collect();
        prop_assert_eq!(sizes.iter().sum::<u64>(), 4 * elements);
        prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 4);
        prop_assert!(shards.windows(2).all(|two| two[0].end == two[1].start));
    }
}
