use super::*;
use crate::example;
use crate::job::Job;
use proptest::prelude::*;

fn fit(job: &Job, counts: &[u32], shape: [usize; 4], seed: u64) -> Result<Gating, WorkloadError> {
    Gating::new(counts, shape, &job.model, &job.parallelism, &job.training, seed)
}

/// A trace in which iteration, layer, source and expert all leave their mark.
fn marked(shape: [usize; 4]) -> Vec<u32> {
    (0..shape.iter().product::<usize>()).map(|i| (i * i % 1009) as u32 + 1).collect()
}

proptest! {
    #[test]
    fn rows_sum_to_the_assignments_whatever_the_trace(
        counts in prop::collection::vec(prop_oneof![Just(0u32), 0u32..50, any::<u32>()], 2 * 16 * 8),
    ) {
        let mut job = example::mixtral_8x7b();
        job.model.layers = 4;
        prop_assume!(counts.chunks(8).all(|source| source.iter().any(|&count| count > 0)));
        let gating = fit(&job, &counts, [2, 1, 16, 8], 5).unwrap();
        for id in (0..gating.matrices()).map(MatrixId) {
            let matrix = gating.matrix(id);
            for row in matrix.chunks(8) {
                prop_assert_eq!(row.iter().map(|&t| u64::from(t)).sum::<u64>(), 65_536);
            }
            let column = |c: usize| matrix.iter().skip(c).step_by(8).map(|&t| u64::from(t)).sum();
            prop_assert_eq!((0..8).map(column).max(), Some(gating.hottest(id)));
        }
    }
}

#[test]
fn consecutive_sources_and_experts_are_summed() {
    let mut job = example::mixtral_8x7b();
    job.model.experts = 4;
    job.model.top_k = 1;
    job.parallelism.ep = 2;
    // Four sources for two ranks, four experts on two ranks.
    let counts = [
        1, 0, 0, 0, //
        0, 2, 0, 1, // rank 0: 3 of 4 to rank 0
        0, 0, 0, 0, //
        0, 0, 5, 3, // rank 1: all to itself
    ];
    assert!(fit(&job, &counts, [1, 1, 4, 4], 0).is_err());
    let mut counts = counts;
    counts[8] = 8; // source 2: all to expert 0
    let gating = fit(&job, &counts, [1, 1, 4, 4], 0).unwrap();
    assert_eq!(gating.matrix(gating.draw(0, 0, 0)), [24_576, 8_192, 16_384, 16_384]);
    assert_eq!(gating.recorded((0, 0)), [0.75, 0.25, 0.5, 0.5]);
    assert_eq!(gating.hottest(gating.draw(0, 0, 0)), 24_576 + 16_384);
}

#[test]
fn hot_ranks_and_empty_experts() {
    let job = example::mixtral_8x7b();
    let counts: Vec<u32> = (0..8 * 8).map(|i| u32::from(i % 8 == 3)).collect();
    let gating = fit(&job, &counts, [1, 1, 8, 8], 0).unwrap();
    assert_eq!(gating.hottest(MatrixId(0)), 8 * 65_536);
    assert_eq!(gating.matrix(MatrixId(0))[..4], [0, 0, 0, 65_536]);
}

#[test]
fn draws_differ_between_micro_batches_replicas_and_reused_layers() {
    let job = example::mixtral_8x7b();
    let shape = [200, 8, 8, 8];
    let gating = fit(&job, &marked(shape), shape, 1).unwrap();
    let mut drawn = Vec::new();
    for replica in 0..8 {
        for micro_batch in 0..16 {
            let origin = |layer| gating.origin(gating.draw(replica, micro_batch, layer));
            drawn.push(origin(0).0);
            // Layers 0, 8, 16, 24 share trace layer 0 at four different iterations.
            let reused: Vec<(u32, u32)> = (0..4).map(|group| origin(8 * group)).collect();
            assert!(reused.iter().all(|origin| origin.1 == 0));
            assert!((0..4).all(|i| (0..i).all(|j| reused[i].0 != reused[j].0)));
            // Layers of one group share the iteration: the trace's own correlation is kept.
            assert!((0..8).all(|layer| origin(layer) == (origin(0).0, layer)));
        }
    }
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), 128, "128 draws from 200 iterations repeat none");
    assert!(gating.notes().iter().any(|note| note.contains("trace layers reused")));
}

#[test]
fn the_seed_decides() {
    let job = example::mixtral_8x7b();
    let shape = [20, 8, 8, 8];
    let counts = marked(shape);
    let draws = |seed| {
        let gating = fit(&job, &counts, shape, seed).unwrap();
        let origin = |m: u32| gating.origin(gating.draw(m / 16, m % 16, 0));
        (0..128).map(origin).collect::<Vec<_>>()
    };
    assert_eq!(draws(1), draws(1));
    assert_ne!(draws(1), draws(2));
    // Twenty iterations for 128 draws: none is drawn twice more often than needed.
    let mut times = [0; 20];
    draws(1).iter().for_each(|origin| times[origin.0 as usize] += 1);
    assert!(times.iter().all(|&n| n == 6 || n == 7), "{times:?}");
}

#[test]
fn dense_layers_draw_nothing() {
    let job = example::deepseek_r1();
    let gating = Gating::uniform(&job.model, &job.parallelism, &job.training).unwrap();
    assert_eq!(gating.hottest(gating.draw(0, 15, 60)), 64 * 4096);
    assert!(std::panic::catch_unwind(|| gating.draw(0, 0, 2)).is_err());
}

#[test]
fn traces_that_do_not_fit_say_how_to_get_one_that_does() {
    let mut job = example::qwen_moe();
    let error =
        |job: &Job, counts: &[u32], shape| fit(job, counts, shape, 1).unwrap_err().to_string();
    let found = error(&job, &[1; 64], [1, 1, 8, 8]);
    assert!(found.starts_with("gating.trace = 8 experts: must have model.experts = 64"), "{found}");
    assert!(found.contains("trace record --experts 64 --top-k 4 --sources 16"), "{found}");
    let found = error(&job, &[1; 8 * 64], [1, 1, 8, 64]);
    assert!(found.starts_with("gating.trace = 8 sources: must have a multiple"), "{found}");
    let found = error(&job, &[1; 7], [1, 1, 8, 8]);
    assert!(found.starts_with("gating.trace = 1 x 1 x 8 x 8: the trace holds 7"), "{found}");
    let found = error(&job, &[], [0, 1, 8, 8]);
    assert!(found.starts_with("gating.trace = 0 x 1 x 8 x 8"), "{found}");
    let found = error(&job, &[1; 4], [usize::MAX, 2, 2, 64]);
    assert!(found.starts_with("gating.trace = "), "{found}");

    let mut counts = vec![1; 2 * 3 * 16 * 64];
    counts[(3 + 2) * 16 * 64 + 7 * 64..][..64].fill(0);
    let found = error(&job, &counts, [2, 3, 16, 64]);
    assert!(found.starts_with("gating.trace = iteration 1, layer 2, source 7: has no"), "{found}");

    job.parallelism.ep = 0;
    assert!(error(&job, &[1; 64], [1, 1, 8, 8]).starts_with("parallelism.ep = 0"));
}
