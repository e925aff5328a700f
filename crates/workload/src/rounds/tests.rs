use super::*;
use crate::example;
use proptest::prelude::*;
use std::collections::HashSet;

/// As text: pairs in brackets, a small `w` where weights' gradients are left for later.
fn text(rounds: &[Round]) -> String {
    let step = |step: Step| {
        let left = if step.defers { "w" } else { "" };
        format!("{}{left}", step.slot)
    };
    let round = |round: &Round| match *round {
        Round::One(one) => step(one),
        Round::Two(a, b) => format!("[{} {}]", step(a), step(b)),
    };
    rounds.iter().map(round).collect::<Vec<_>>().join(" ")
}

fn job(pp: u32, virtual_stages: u32, micro_batches: u32) -> Job {
    let mut job = example::mixtral_8x7b();
    job.parallelism.pp = pp;
    job.training.overlap = Overlap::TwoBatches;
    (job.training.virtual_stages, job.training.micro_batches) = (virtual_stages, micro_batches);
    if virtual_stages > 1 {
        job.training.schedule = Schedule::Interleaved;
    }
    job
}

#[test]
fn golden_pairs_of_one_and_of_two_stages() {
    assert_eq!(text(&rounds(&job(1, 1, 3), 0)), "F0 [B0 F1] [B1 F2] B2");
    assert_eq!(text(&rounds(&job(2, 1, 4), 0)), "F0 F1 F2 [B0 F3] B1 B2 B3");
    assert_eq!(text(&rounds(&job(2, 1, 4), 1)), "F0 [B0 F1] [B1 F2] [B2 F3] B3");
}

#[test]
fn golden_forwards_alone() {
    let mut job = job(2, 1, 3);
    job.training.mode = Mode::Prefill;
    assert_eq!(text(&rounds(&job, 1)), "[F0 F1] F2");
    job.training.overlap = Overlap::None;
    assert_eq!(text(&rounds(&job, 0)), "F0 F1 F2");
}

/// Four ranks, eight micro-batches: directions 0 to 3 and 4 to 7 (chunk 1).
#[test]
fn golden_dualpipe_of_four_ranks() {
    assert_eq!(
        text(&dualpipe(4, 0, 8)),
        "F0 F1 F2 F4.1 B4.1w W4.1 F5.1 [B5.1 F3] [B0 F6.1] B6.1 [B1 F7.1] B7.1 B2w W2 B3w W3"
    );
    assert_eq!(
        text(&dualpipe(4, 1, 8)),
        "F0 F4.1 F1 F5.1 F2 B4.1 [B0 F6.1] [B5.1 F3] [B1 F7.1] B6.1 B2 B7.1w B3w W7.1 W3"
    );
}

proptest! {
    #[test]
    fn every_slot_runs_once_and_no_pair_is_of_one_micro_batch(
        half in 1u32..6, more in 0u32..6, pick in any::<u32>(), virtual_stages in 1u32..4,
        dual in any::<bool>(),
    ) {
        let pp = 2 * half;
        let mut job = match dual {
            true => job(pp, 1, 2 * (pp + more)),
            false => job(pp, virtual_stages, pp * (2 + more)),
        };
        if dual {
            job.training.overlap = Overlap::Dualpipe;
        }
        let mut done = HashSet::new();
        let mut left = HashSet::new();
        let mut pairs = 0;
        for round in rounds(&job, pick % pp) {
            if let Round::Two(first, second) = round {
                prop_assert_ne!(first.slot.micro_batch, second.slot.micro_batch);
                prop_assert_eq!((first.slot.pass, second.slot.pass), (Pass::Backward, Pass::Forward));
                pairs += 1;
            }
            for Step { slot, defers } in round.steps() {
                prop_assert!(done.insert(slot));
                match slot.pass {
                    Pass::Backward => {
                        let there = done.contains(&Slot { pass: Pass::Forward, ..slot });
                        prop_assert!(there);
                        if defers {
                            left.insert(Slot { pass: Pass::Weight, ..slot });
                        }
                    }
                    Pass::Weight => prop_assert!(left.remove(&slot)),
                    _ => {}
                }
            }
        }
        prop_assert!(left.is_empty() && pairs > 0);
        let chunks = if dual { 1 } else { job.training.virtual_stages };
        let both = done.iter().filter(|slot| slot.pass != Pass::Weight).count() as u32;
        prop_assert_eq!(both, 2 * chunks * job.training.micro_batches);
    }
}
