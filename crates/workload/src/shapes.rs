//! Whether a model, its degrees of parallelism and its training fit together.
//!
//! Checked: any numbers at all give a job or an error (`tests/all/graph.rs`).

use crate::copies;
use crate::error::{WorkloadError, multiple, require};
use crate::model::Model;
use crate::parallelism::Parallelism;
use crate::pipeline::Schedule;
use crate::recompute::Recompute;
use crate::training::{Mode, Overlap, Training};

/// More tasks than this are refused, so that a graph fits in memory and ids in 32 bits.
const MOST_TASKS: u64 = 1 << 26;

/// Checks everything but the compute table, each part by itself and all together.
pub(crate) fn check(
    model: &Model,
    p: &Parallelism,
    training: &Training,
) -> Result<(), WorkloadError> {
    model.validate()?;
    p.validate()?;
    training.validate()?;
    copies::check(model, training.dispatch_copies)?;
    multiple("model.experts", model.experts, "parallelism.ep", p.ep)?;
    require(model.experts > 0 || p.ep == 1, "parallelism.ep", p.ep, || {
        "must be 1, as model.experts = 0: there is nothing to share".into()
    })?;
    multiple("model.hidden", model.hidden, "parallelism.tp", p.tp)?;
    let heads = model.attention.heads();
    multiple("model.attention.heads", heads, "parallelism.tp", p.tp)?;
    let length = training.sequence_length;
    multiple("training.sequence_length", length, "parallelism.cp", p.cp)?;
    folded(model, p, training)?;
    overlap(model, p, training)?;
    serving(p, training)?;
    let chunks = u64::from(p.pp) * u64::from(training.virtual_stages);
    let (key, value) = match training.schedule {
        Schedule::OneForwardOneBackward | Schedule::ZeroBubble => ("parallelism.pp", p.pp),
        Schedule::Interleaved => ("training.virtual_stages", training.virtual_stages),
    };
    require(chunks <= u64::from(model.layers), key, value, || {
        format!("pp * virtual_stages = {chunks} must be at most model.layers = {}", model.layers)
    })?;
    if training.schedule == Schedule::Interleaved {
        require(p.pp >= 2, "parallelism.pp", p.pp, || {
            "must be at least 2 with training.schedule = \"interleaved\"".into()
        })?;
        let count = training.micro_batches;
        require(count % p.pp == 0, "training.micro_batches", count, || {
            format!(
                "must be a multiple of parallelism.pp = {} with training.schedule = \
                     \"interleaved\"",
                p.pp
            )
        })?;
    }
    let assignments = u128::from(training.micro_batch)
        * u128::from(training.sequence_length)
        * u128::from(model.top_k);
    require(assignments <= 1 << 31, "training.micro_batch", training.micro_batch, || {
        "micro_batch * sequence_length * top_k must be at most 2^31".into()
    })?;
    // An EP rank of more GPUs than attention's TP ranks has the tokens of several of these.
    let wider = p.expert_shards().div_ceil(p.tp);
    require(
        assignments * u128::from(wider) <= 1 << 31,
        "parallelism.etp",
        p.expert_shards(),
        || "micro_batch * sequence_length * top_k * etp / tp must be at most 2^31".into(),
    )?;
    let volume = assignments * u128::from(p.ep) * u128::from(model.hidden) * 64;
    require(volume < 1 << 62, "parallelism.ep", p.ep, || {
        "one all-to-all would move more than 2^56 elements".into()
    })?;
    // Six tasks a layer and up to three for TP and CP, forward, backward and computed anew; two for weights
    // alone.
    let runs = u64::from(p.dp) * u64::from(training.micro_batches);
    let each = if training.recompute == Recompute::Full { 30 } else { 20 };
    // Routed and shared experts gather apart, if they are shared by different GPUs.
    let each = each + if p.expert_shards() == p.tp { 0 } else { 6 };
    let tasks = runs.saturating_mul(each * u64::from(model.layers) + 16 * chunks);
    require(tasks <= MOST_TASKS, "training.micro_batches", training.micro_batches, || {
        format!("the iteration would have about {tasks} tasks; allowed are {MOST_TASKS}")
    })
}

/// Whether experts can have tensor parallelism of their own.
fn folded(model: &Model, p: &Parallelism, training: &Training) -> Result<(), WorkloadError> {
    let Some(etp) = p.etp else { return Ok(()) };
    let key = "parallelism.etp";
    require(model.experts > 0, key, etp, || {
        "must be left out, as model.experts = 0: there is nothing to share".into()
    })?;
    multiple("model.hidden", model.hidden, key, etp)?;
    // Otherwise TP ranks would send the same tokens to different GPUs (Megatron-Core refuses it, too).
    let apart = training.sequence_parallel || p.tp == 1;
    require(apart || etp == p.tp, key, etp, || {
        format!("must be parallelism.tp = {} without training.sequence_parallel", p.tp)
    })?;
    let tokens = tokens(p, training) * u64::from(etp);
    require(tokens % u64::from(p.tp) == 0, "training.micro_batch", training.micro_batch, || {
        format!(
            "its tokens on a CP rank times parallelism.etp = {etp} must be a multiple of \
             parallelism.tp = {}: each GPU sends its own",
            p.tp
        )
    })
}

/// Whether there is something to overlap, and enough micro-batches for the schedule.
fn overlap(model: &Model, p: &Parallelism, training: &Training) -> Result<(), WorkloadError> {
    let (overlap, count) = (training.overlap, training.micro_batches);
    if overlap == Overlap::None {
        return Ok(());
    }
    let key = "training.overlap";
    let name = overlap.as_str();
    require(model.experts > 0 && p.ep > 1, key, name, || {
        "needs all-to-alls: a model with experts, and parallelism.ep of at least 2".into()
    })?;
    let schedule = training.schedule;
    let fits = match overlap {
        Overlap::Dualpipe => schedule == Schedule::OneForwardOneBackward,
        _ => schedule != Schedule::ZeroBubble,
    };
    require(fits, key, name, || "has no such training.schedule".into())?;
    // A pair's order is of one forward and one backward; Megatron-Core refuses it, too
    // (`transformer_config.py`, `overlap_moe_expert_parallel_comm`).
    let full = training.recompute == Recompute::Full;
    require(!full, "training.recompute", "full", || {
        format!("is not possible with training.overlap = \"{name}\"")
    })?;
    if overlap == Overlap::Dualpipe {
        require(training.mode == Mode::Train, key, name, || {
            "needs training.mode = \"train\": there is no backward pass".into()
        })?;
        require(p.pp % 2 == 0, "parallelism.pp", p.pp, || {
            "must be even with training.overlap = \"dualpipe\"".into()
        })?;
    }
    let least = match training.mode {
        Mode::Train => 2 * u64::from(p.pp),
        _ => 2,
    };
    require(u64::from(count) >= least, "training.micro_batches", count, || {
        format!("must be at least {least} with training.overlap = \"{name}\"")
    })?;
    require(overlap != Overlap::Dualpipe || count % 2 == 0, "training.micro_batches", count, || {
        "must be even with training.overlap = \"dualpipe\"".into()
    })
}

/// Whether what has no backward pass asks for nothing that one would need.
fn serving(p: &Parallelism, training: &Training) -> Result<(), WorkloadError> {
    if training.mode == Mode::Train {
        return Ok(());
    }
    require(
        training.schedule == Schedule::OneForwardOneBackward,
        "training.mode",
        "without a backward pass",
        || "must have training.schedule = \"1f1b\"".into(),
    )?;
    let some = matches!(training.recompute, Recompute::Selective | Recompute::Full);
    require(!some, "training.recompute", training.recompute.as_str(), || {
        "needs training.mode = \"train\": there is no backward pass".into()
    })?;
    require(training.mode != Mode::Decode || p.cp == 1, "parallelism.cp", p.cp, || {
        "must be 1 with training.mode = \"decode\": one token is not shared".into()
    })
}

/// Tokens of one micro-batch on one EP rank, for each of its CP ranks.
pub(crate) fn tokens(p: &Parallelism, training: &Training) -> u64 {
    let each = match training.mode {
        Mode::Decode => 1,
        _ => training.sequence_length / p.cp,
    };
    u64::from(training.micro_batch) * u64::from(each)
}

/// Token assignments that one EP rank sends from each of its CP ranks; with ETP those of as many GPUs as share
/// an expert, of which each has a TP-th of the tokens.
pub(crate) fn assignments(model: &Model, p: &Parallelism, training: &Training) -> u64 {
    let tokens = tokens(p, training) * u64::from(p.expert_shards()) / u64::from(p.tp);
    tokens * u64::from(model.top_k)
}
