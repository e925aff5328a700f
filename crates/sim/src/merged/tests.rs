use crate::demand::{AllToAll, Demand};
use lightloom_workload::{
    BlockId, DispatchCopies, Gating, Job, MatrixId, Parallelism, Placement, example,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A job of 24 experts, six a token, with merged copies or without.
fn job(parallelism: Parallelism, top_k: u32, merged: bool) -> Job {
    let mut job = example::mixtral_8x7b();
    (job.model.experts, job.model.top_k) = (24, top_k);
    job.model.hidden = 4080;
    job.model.attention = match job.model.attention {
        lightloom_workload::Attention::Gqa { head_dim, bias, .. } => {
            lightloom_workload::Attention::Gqa { heads: 24, kv_heads: 12, head_dim, bias }
        }
        other => other,
    };
    job.parallelism = parallelism;
    job.training.sequence_length = 4080;
    job.training.micro_batches = 1;
    if merged {
        job.training.dispatch_copies = DispatchCopies::Server;
    }
    job
}

fn gating(job: &Job, seed: u32) -> Gating {
    let ep = job.parallelism.ep as usize;
    let counts: Vec<u32> = (0..ep as u32 * 24)
        .map(|i| 1 + i.wrapping_mul(2_654_435_761).wrapping_add(seed) % 89)
        .collect();
    Gating::new(&counts, [1, 1, ep, 24], &job.model, &job.parallelism, &job.training, 1)
        .expect("a trace that fits")
}

fn messages(job: &Job, per_server: u32, replica: u32, transposed: bool) -> Vec<(u32, u32, u64)> {
    let (gating, placement) = (gating(job, 3), Placement::new(job.parallelism));
    let demand = Demand::new(&placement, &gating, per_server);
    let block = BlockId { replica, stage: 0 };
    let a2a = AllToAll { block, matrix: MatrixId(0), transposed, bytes_per_token: 10 };
    let mut messages = vec![];
    demand.for_each(a2a, |from, to, bytes| messages.push((from, to, bytes)));
    let mut turns = vec![];
    demand.for_each_in_turn(a2a, |from, to, bytes| turns.push((from, to, bytes)));
    turns.sort_unstable();
    let mut sorted = messages.clone();
    sorted.sort_unstable();
    assert_eq!(turns, sorted);
    messages
}

/// By pair of servers, itself included.
fn between(messages: &[(u32, u32, u64)], per_server: u32) -> BTreeMap<(u32, u32), u64> {
    let mut between = BTreeMap::new();
    for &(from, to, bytes) in messages {
        *between.entry((from / per_server, to / per_server)).or_default() += bytes;
    }
    between
}

fn shapes() -> impl Strategy<Value = (Parallelism, u32)> {
    prop_oneof![
        Just((1, 1, 8, 4)),
        Just((2, 1, 8, 4)),
        Just((1, 2, 8, 8)),
        Just((1, 1, 24, 8)),
        Just((1, 1, 12, 4)),
        Just((3, 1, 8, 8)),
        Just((8, 1, 4, 4)),
        Just((1, 1, 8, 16)),
        Just((1, 1, 6, 3)),
    ]
    .prop_map(|(tp, cp, ep, per_server)| {
        (Parallelism { tp, cp, ep, etp: None, dp: 2, pp: 1 }, per_server)
    })
}

proptest! {
    #[test]
    fn a_token_crosses_to_a_server_once_and_each_gpu_has_it(
        (parallelism, per_server) in shapes(),
        top_k in 1u32..7,
        replica in 0u32..2,
    ) {
        let job = job(parallelism, top_k, true);
        let Parallelism { tp, cp, ep, .. } = parallelism;
        let slices = tp * cp;
        let (gating, first) = (gating(&job, 3), replica * ep * slices);
        let out = messages(&job, per_server, replica, false);
        let back = messages(&job, per_server, replica, true);
        let mut mirrored: Vec<_> = back.iter().map(|&(from, to, n)| (to, from, n)).collect();
        mirrored.sort_unstable();
        let mut sorted = out.clone();
        sorted.sort_unstable();
        prop_assert_eq!(&mirrored, &sorted);
        prop_assert!(sorted.windows(2).all(|two| (two[0].0, two[0].1) < (two[1].0, two[1].1)));
        // Copies, slice by slice, as ranks lie.
        let mut crossing = 0;
        let mut arrived = vec![0u64; (ep * slices) as usize];
        for slice in 0..slices {
            let server = |rank: u32| (first + rank * slices + slice) / per_server;
            let mut all: Vec<u32> = (0..ep).map(server).collect();
            let lie = {
                let known = (first / per_server)..=(first + ep * slices - 1) / per_server;
                let known: Vec<u32> = known.collect();
                all.iter_mut().for_each(|at| *at = known.iter().position(|k| k == at).expect("one") as u32);
                all
            };
            let copies = gating.copies(MatrixId(0), &lie).expect("merged");
            for (rank, &own) in lie.iter().enumerate() {
                let to_server = copies.to_server[rank * copies.servers..].iter().take(copies.servers);
                let others = to_server.enumerate().filter(|&(server, _)| own as usize != server);
                crossing += others.map(|(_, &tokens)| 10 * u64::from(tokens)).sum::<u64>();
                for to in 0..ep as usize {
                    arrived[to * slices as usize + slice as usize] +=
                        10 * u64::from(copies.to_rank[rank * ep as usize + to]);
                }
            }
        }
        let crosses = |one: &&(u32, u32, u64)| one.0 / per_server != one.1 / per_server;
        prop_assert_eq!(out.iter().filter(crosses).map(|one| one.2).sum::<u64>(), crossing);
        // Blocks fill servers, or lie in one: the GPU of the same index is there.
        prop_assert!(out.iter().filter(crosses).all(|one| one.0 % per_server == one.1 % per_server));
        // What a GPU is handed inside its server is no more than the tokens that have an expert on it.
        for (at, &all) in (first..).zip(&arrived) {
            let inside = out.iter().filter(|one| !crosses(one) && one.1 == at);
            prop_assert!(inside.map(|one| one.2).sum::<u64>() <= all, "GPU {at}");
        }
        let handed: u64 = out.iter().filter(|one| !crosses(one)).map(|one| one.2).sum();
        prop_assert!(handed <= arrived.iter().sum());
    }

    #[test]
    fn one_expert_a_token_crosses_as_assignments_do((parallelism, per_server) in shapes()) {
        for transposed in [false, true] {
            let [merged, plain] = [true, false].map(|merged| {
                let job = job(parallelism, 1, merged);
                let all = between(&messages(&job, per_server, 0, transposed), per_server);
                all.into_iter().filter(|((a, b), _)| a != b).collect::<BTreeMap<_, _>>()
            });
            prop_assert_eq!(merged, plain);
        }
    }
}

#[test]
fn a_gpu_that_hands_over_keeps_its_own() {
    // Two servers of two ranks, every token to all four experts: it crosses once, and is handed on once.
    let parallelism = Parallelism { tp: 1, cp: 1, ep: 4, etp: None, dp: 1, pp: 1 };
    let mut job = job(parallelism, 4, true);
    job.model.experts = 4;
    let gating = Gating::uniform(&job.model, &job.parallelism, &job.training).expect("fits");
    let placement = Placement::new(parallelism);
    let demand = Demand::new(&placement, &gating, 2);
    let block = BlockId { replica: 0, stage: 0 };
    let a2a = AllToAll { block, matrix: MatrixId(0), transposed: false, bytes_per_token: 1 };
    let mut sent = BTreeMap::new();
    demand.for_each(a2a, |from, to, bytes| assert!(sent.insert((from, to), bytes).is_none()));
    let tokens = u64::from(gating.tokens_per_rank().expect("merged"));
    // To the other GPU of a server: its own tokens, and those that came for it.
    let wanted = [((0, 1), 2), ((0, 2), 1), ((1, 0), 2), ((1, 3), 1), ((2, 0), 1), ((2, 3), 2)];
    let wanted = wanted.into_iter().chain([((3, 1), 1), ((3, 2), 2)]);
    assert_eq!(sent, wanted.map(|(pair, times)| (pair, times * tokens)).collect());
    let visits = demand.visits().expect("counted");
    assert_eq!((visits.servers, visits.others, visits.gpus), (2.0, 1.0, 4.0));
}

#[test]
fn tokens_that_are_predicted_are_merged_as_those_of_a_matrix() {
    let parallelism = Parallelism { tp: 1, cp: 1, ep: 8, etp: None, dp: 1, pp: 1 };
    let sums = [true, false].map(|merged| {
        let job = job(parallelism, 4, merged);
        let gating = Gating::uniform(&job.model, &job.parallelism, &job.training).expect("fits");
        let placement = Placement::new(parallelism);
        let demand = Demand::new(&placement, &gating, 4);
        let block = BlockId { replica: 0, stage: 0 };
        let a2a = AllToAll { block, matrix: MatrixId(0), transposed: false, bytes_per_token: 1 };
        let (mut own, mut told) = (vec![], vec![]);
        demand.for_each(a2a, |from, to, bytes| own.push((from, to, bytes)));
        let tokens = gating.matrix(MatrixId(0));
        demand.for_each_of(tokens, a2a, |from, to, bytes| told.push((from, to, bytes)));
        assert_eq!(own, told);
        between(&told, 4)[&(0, 1)]
    });
    // Of top-4, 24 experts on two servers: a token has 2 on the other one, and 0.95 copies go there.
    assert!(sums[0] * 2 < sums[1] && sums[1] < sums[0] * 3, "{sums:?}");
}

#[test]
fn ranks_that_moved_are_found_where_they_are() {
    let parallelism = Parallelism { tp: 1, cp: 1, ep: 8, etp: None, dp: 1, pp: 1 };
    let job = job(parallelism, 4, true);
    let (gating, placement) = (gating(&job, 5), Placement::new(parallelism));
    let mut demand = Demand::new(&placement, &gating, 4);
    // Rank 5 moves to the last GPU of a third server.
    demand.moved.add(&[(5, 11)]);
    let block = BlockId { replica: 0, stage: 0 };
    let a2a = AllToAll { block, matrix: MatrixId(0), transposed: false, bytes_per_token: 1 };
    let mut to_server = BTreeMap::new();
    demand.for_each(a2a, |from, to, bytes| {
        assert!(![from, to].contains(&5) && ![from, to].iter().any(|gpu| (8..11).contains(gpu)));
        *to_server.entry((from, to / 4)).or_insert(0) += if from / 4 == to / 4 { 0 } else { bytes };
    });
    let copies = gating.copies(MatrixId(0), &[0, 0, 0, 0, 1, 2, 1, 1]).expect("merged");
    for rank in 0..8u32 {
        let (gpu, own) = if rank == 5 { (11, 2) } else { (rank, rank / 4) };
        for server in (0..3u32).filter(|&server| server != own) {
            let wanted = u64::from(copies.to_server[(rank * 3 + server) as usize]);
            assert_eq!(to_server.get(&(gpu, server)).copied().unwrap_or(0), wanted);
        }
    }
}
