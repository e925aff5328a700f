use super::*;
use crate::example;
use crate::gating::{Gating, MatrixId};
use crate::job::Job;
use proptest::prelude::*;

fn merging(mut job: Job) -> Job {
    job.training.dispatch_copies = DispatchCopies::Server;
    job
}

fn gating(job: &Job, counts: &[u32], shape: [usize; 4], limit: GroupLimit) -> Gating {
    let of = (&job.model, &job.parallelism, &job.training);
    Gating::under(counts, shape, of, 1, limit).expect("a trace that fits")
}

/// Servers of so many ranks in a row.
fn servers(ranks: u32, each: u32) -> Vec<u32> {
    (0..ranks).map(|rank| rank / each).collect()
}

#[test]
fn one_expert_a_token_saves_nothing() {
    let mut job = merging(example::mixtral_8x7b());
    job.model.top_k = 1;
    let counts: Vec<u32> = (0..64).map(|i| i * i % 37 + 1).collect();
    let gating = gating(&job, &counts, [1, 1, 8, 8], GroupLimit::Recorded);
    let copies = gating.copies(MatrixId(0), &servers(8, 2)).expect("merged");
    let matrix = gating.matrix(MatrixId(0));
    assert_eq!(copies.to_rank, matrix);
    for (row, sums) in matrix.chunks(8).zip(copies.to_server.chunks(4)) {
        let wanted: Vec<u32> = row.chunks(2).map(|two| two.iter().sum()).collect();
        assert_eq!(sums, wanted);
    }
}

#[test]
fn all_experts_on_one_server_are_one_copy_of_k() {
    let job = merging(example::deepseek_r1());
    // Each source chooses among the 32 experts of server 3 alone.
    let counts: Vec<u32> =
        (0..64 * 256).map(|i| if i % 256 / 32 == 3 { 1 + i % 5 } else { 0 }).collect();
    let gating = gating(&job, &counts, [1, 1, 64, 256], GroupLimit::Recorded);
    let copies = gating.copies(MatrixId(0), &servers(64, 8)).expect("merged");
    let tokens = gating.tokens_per_rank().expect("merged");
    assert_eq!(tokens * 8, gating.assignments_per_rank());
    for row in copies.to_server.chunks(8) {
        assert_eq!(row, [0, 0, 0, tokens, 0, 0, 0, 0]);
    }
}

#[test]
fn even_loads_visit_as_many_servers_as_sets_do() {
    let mut job = merging(example::deepseek_r1());
    let tokens = f64::from(8 * 4096);
    let visited = |job: &Job, each: u32| {
        let gating = Gating::uniform(&job.model, &job.parallelism, &job.training).expect("fits");
        let copies = gating.copies(MatrixId(0), &servers(64, each)).expect("merged");
        copies.to_server[..copies.servers].iter().map(|&n| f64::from(n)).sum::<f64>() / tokens
    };
    let limited = visited(&job, 8);
    assert!((3.8..=4.0).contains(&limited), "{limited}");
    // A group is two servers: no more than eight of sixteen, and more than four.
    let halves = visited(&job, 4);
    assert!((4.0..=8.0).contains(&halves), "{halves}");
    (job.model.expert_groups, job.model.groups_per_token) = (1, 1);
    let none: f64 = (0..8).map(|i| f64::from(224 - i) / f64::from(256 - i)).product();
    assert!((visited(&job, 8) - 8.0 * (1.0 - none)).abs() < 1e-3);
}

#[test]
fn a_limit_changes_loads_only_if_it_is_applied() {
    let job = merging(example::deepseek_r1());
    let counts: Vec<u32> =
        (0..64 * 256).map(|i| 100 + 50 * u32::from(i % 256 < 32) + i % 7).collect();
    let shape = [1, 1, 64, 256];
    let [recorded, applied, off] = [GroupLimit::Recorded, GroupLimit::Applied, GroupLimit::Off]
        .map(|limit| gating(&job, &counts, shape, limit));
    assert_eq!(recorded.matrix(MatrixId(0)), off.matrix(MatrixId(0)));
    assert_eq!((recorded.group_limit(), off.group_limit()), (Some((8, 4)), None));
    let sum = |gating: &Gating, ranks: Range<usize>| -> u64 {
        gating.matrix(MatrixId(0))[..64][ranks].iter().map(|&n| u64::from(n)).sum()
    };
    // The first group is popular: tokens choose it more often if they must choose four.
    assert!(sum(&applied, 0..8) > sum(&recorded, 0..8));
    assert_eq!(sum(&applied, 0..64), sum(&recorded, 0..64));
    let note = |gating: &Gating| gating.notes().iter().any(|n| n.contains("at most 4 of 8 groups"));
    assert!(note(&applied) && !note(&recorded));
    for gating in [&recorded, &applied] {
        let copies = gating.copies(MatrixId(0), &servers(64, 8)).expect("merged");
        let most = 4.0 * f64::from(gating.tokens_per_rank().expect("merged"));
        for row in copies.to_server.chunks(8) {
            assert!(row.iter().map(|&n| f64::from(n)).sum::<f64>() <= most + 8.0);
        }
    }
    let free = off.copies(MatrixId(0), &servers(64, 8)).expect("merged");
    let bound = recorded.copies(MatrixId(0), &servers(64, 8)).expect("merged");
    let sum = |copies: &Copies| copies.to_server.iter().map(|&n| u64::from(n)).sum::<u64>();
    assert!(sum(&bound) < sum(&free));
}

#[test]
fn what_is_expected_is_even_over_a_ranks_experts() {
    let job = merging(example::deepseek_r1());
    let even = Gating::uniform(&job.model, &job.parallelism, &job.training).expect("fits");
    let servers = servers(64, 8);
    let said = even.copies_of(even.matrix(MatrixId(0)), &servers);
    assert_eq!(said, even.copies(MatrixId(0), &servers));
}

#[test]
fn sets_that_are_too_many_are_refused() {
    let mut job = merging(example::deepseek_r1());
    (job.model.experts, job.model.top_k) = (1 << 16, 64);
    let error = job.validate().expect_err("too many").to_string();
    assert!(error.starts_with("training.dispatch_copies = server: model.experts"), "{error}");
}

proptest! {
    #[test]
    fn copies_lie_within_what_assignments_allow(
        counts in prop::collection::vec(prop_oneof![1 => Just(0u32), 3 => 0u32..90], 12 * 24),
        top_k in 1u32..7,
        (groups, most) in prop_oneof![Just((1, 1)), Just((4, 2)), Just((6, 4))],
        lie in prop::collection::vec(0u32..4, 12),
    ) {
        prop_assume!(counts.chunks(24).all(|row| row.iter().any(|&count| count > 0)));
        let mut job = merging(example::mixtral_8x7b());
        (job.model.experts, job.model.top_k, job.parallelism.ep) = (24, top_k, 12);
        (job.model.expert_groups, job.model.groups_per_token) = (groups, most);
        let gating = gating(&job, &counts, [1, 1, 12, 24], GroupLimit::Recorded);
        let matrix = gating.matrix(MatrixId(0));
        let copies = gating.copies(MatrixId(0), &lie).expect("merged");
        let tokens = gating.tokens_per_rank().expect("merged");
        for rank in 0..12 {
            let sent = &matrix[rank * 12..][..12];
            let to_rank = &copies.to_rank[rank * 12..][..12];
            for (&copies, &sent) in to_rank.iter().zip(sent) {
                prop_assert!(copies <= sent.min(tokens));
                prop_assert!(sent <= 2 * tokens && copies >= sent.div_ceil(top_k.min(2)) || copies == tokens);
            }
            for server in 0..copies.servers {
                let there = |row: &[u32]| -> Vec<u32> {
                    let both = row.iter().zip(&lie);
                    both.filter(|(_, at)| **at as usize == server).map(|(n, _)| *n).collect()
                };
                let (ranks, all) = (there(to_rank), there(sent));
                let visit = copies.to_server[rank * copies.servers + server];
                prop_assert!(visit <= tokens && visit <= ranks.iter().sum::<u32>());
                prop_assert!(visit >= ranks.iter().copied().max().unwrap_or(0));
                prop_assert!(visit <= all.iter().sum::<u32>());
            }
        }
        // Another order of servers, the same copies.
        let other: Vec<u32> = lie.iter().map(|at| 3 - at).collect();
        let again = gating.copies(MatrixId(0), &other).expect("merged");
        prop_assert_eq!(&again.to_rank, &copies.to_rank);
    }
}
