//! Pipeline schedules: in which order a stage runs its micro-batches, and which layers it holds.
//!
//! Modelled: 1F1B (PipeDream-Flush; Narayanan et al. 2021, Section 2.2) and its interleaved form,
//! as Megatron-LM orders them: warm-up forwards, pairs of one forward and one backward, cool-down.
//! Sends are asynchronous, so an order alone decides; it carries no times. ZB-H1 ([`zero_bubble`])
//! computes weights' gradients apart. Which slots go through a block at once, [`crate::rounds`] says.
//! Checked: golden orders, each slot exactly once, and the bound on micro-batches in flight.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A pipeline schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Schedule {
    /// One forward, one backward: at most `pp - stage` micro-batches in flight.
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// 1F1B over several chunks of layers a stage, which divides the bubble by their number.
    #[serde(rename = "interleaved")]
    Interleaved,
    /// ZB-H1: 1F1B whose weights' gradients are computed apart, where a stage would wait (zero
    /// bubble, arXiv 2401.10241, Section 2.3).
    #[serde(rename = "zero-bubble")]
    ZeroBubble,
}

/// In which pass a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Pass {
    /// The forward pass.
    Forward,
    /// The backward pass; where weights' gradients are computed apart, without them.
    Backward,
    /// The gradients of weights, where they are computed apart.
    #[serde(skip_deserializing)]
    Weight,
    /// The forward pass again, right before a layer's backward pass (`recompute.rs`).
    #[serde(skip_deserializing)]
    Recompute,
    /// None of these: gradient sums and the optimizer.
    #[serde(skip_deserializing)]
    None,
}

impl Pass {
    /// The name in result tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::Backward => "backward",
            Pass::Weight => "weight",
            Pass::Recompute => "recompute",
            Pass::None => "none",
        }
    }
}

/// One step of a stage: one micro-batch through one chunk of its layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Chunk (virtual stage) of this stage, from 0; always 0 in 1F1B. In DualPipe the direction.
    pub chunk: u32,
    /// Micro-batch, from 0.
    pub micro_batch: u32,
    /// [`Pass::Forward`], [`Pass::Backward`], or [`Pass::Weight`].
    pub pass: Pass,
}

/// The order in which `stage` of `stages` runs its slots. `chunks` is 1 in 1F1B; interleaving
/// needs `micro_batches` to be a multiple of `stages`.
///
/// ```
/// use lightloom_workload::{pipeline_order, Schedule};
/// let order = pipeline_order(Schedule::OneForwardOneBackward, 2, 0, 3, 1);
/// let text: Vec<String> = order.iter().map(|slot| slot.to_string()).collect();
/// assert_eq!(text.join(" "), "F0 F1 B0 F2 B1 B2");
/// ```
pub fn pipeline_order(
    schedule: Schedule,
    stages: u32,
    stage: u32,
    micro_batches: u32,
    chunks: u32,
) -> Vec<Slot> {
    let behind = stages.saturating_sub(stage + 1);
    let warm_up = match schedule {
        Schedule::OneForwardOneBackward => behind,
        Schedule::Interleaved => 2 * behind + (chunks - 1) * stages,
        Schedule::ZeroBubble => return zero_bubble(stages, stage, micro_batches),
    };
    after_warm_up(warm_up, schedule, stages, micro_batches, chunks)
}

/// So many forwards, then pairs of a forward and a backward, then what is left of backwards.
pub(crate) fn after_warm_up(
    warm_up: u32,
    schedule: Schedule,
    stages: u32,
    micro_batches: u32,
    chunks: u32,
) -> Vec<Slot> {
    let steps = micro_batches * chunks;
    let warm_up = warm_up.min(steps);
    // Interleaving walks `stages` micro-batches through one chunk, then through the next.
    let slot = |step: u32, pass: Pass| {
        let (round, place) = (step / (stages * chunks), step % (stages * chunks));
        let (chunk, micro_batch) = match schedule {
            Schedule::OneForwardOneBackward | Schedule::ZeroBubble => (0, step),
            Schedule::Interleaved => (place / stages, round * stages + place % stages),
        };
        let chunk = match pass {
            Pass::Backward => chunks - 1 - chunk,
            _ => chunk,
        };
        Slot { chunk, micro_batch, pass }
    };
    let mut order = Vec::with_capacity(2 * steps as usize);
    order.extend((0..warm_up).map(|step| slot(step, Pass::Forward)));
    for step in 0..steps - warm_up {
        order.push(slot(warm_up + step, Pass::Forward));
        order.push(slot(step, Pass::Backward));
    }
    order.extend((steps - warm_up..steps).map(|step| slot(step, Pass::Backward)));
    order
}

/// ZB-H1 by rule: as 1F1B, but for the gradients of weights, which stage s computes s micro-batches
/// after those of activations, so that every stage has as many micro-batches in flight as the first
/// (arXiv 2401.10241, Section 2.3).
fn zero_bubble(stages: u32, stage: u32, micro_batches: u32) -> Vec<Slot> {
    let plain = pipeline_order(Schedule::OneForwardOneBackward, stages, stage, micro_batches, 1);
    let weight = |micro_batch| Slot { chunk: 0, micro_batch, pass: Pass::Weight };
    let mut order = Vec::with_capacity(3 * micro_batches as usize);
    for slot in plain {
        order.push(slot);
        if slot.pass == Pass::Backward && slot.micro_batch >= stage {
            order.push(weight(slot.micro_batch - stage));
        }
    }
    order.extend((micro_batches.saturating_sub(stage)..micro_batches).map(weight));
    order
}

/// The layers of part `part` of `parts`: balanced, in order, each part within one of the others.
///
/// ```
/// use lightloom_workload::layers_of;
/// assert_eq!(layers_of(61, 16, 0), 0..3);
/// assert_eq!(layers_of(61, 16, 15), 57..61);
/// ```
pub fn layers_of(layers: u32, parts: u32, part: u32) -> Range<u32> {
    let cut = |i: u32| (u64::from(i) * u64::from(layers) / u64::from(parts)) as u32;
    cut(part)..cut(part + 1)
}

impl std::fmt::Display for Slot {
    /// `F3`, `B3` or `W3`, followed by `.c` for a chunk other than 0.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = match self.pass {
            Pass::Forward => 'F',
            Pass::Weight => 'W',
            Pass::Backward | Pass::Recompute | Pass::None => 'B',
        };
        write!(f, "{letter}{}", self.micro_batch)?;
        match self.chunk {
            0 => Ok(()),
            chunk => write!(f, ".{chunk}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn text(
        schedule: Schedule,
        stages: u32,
        stage: u32,
        micro_batches: u32,
        chunks: u32,
    ) -> String {
        let order = pipeline_order(schedule, stages, stage, micro_batches, chunks);
        let slots: Vec<String> = order.iter().map(Slot::to_string).collect();
        slots.join(" ")
    }

    #[test]
    fn golden_1f1b_of_four_stages_and_eight_micro_batches() {
        let golden = [
            "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7",
            "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7",
            "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7",
            "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7",
        ];
        for (stage, order) in golden.iter().enumerate() {
            let found = text(Schedule::OneForwardOneBackward, 4, stage as u32, 8, 1);
            assert_eq!(&found, order, "stage {stage}");
        }
    }

    #[test]
    fn golden_interleaved_of_two_stages_two_chunks() {
        assert_eq!(
            text(Schedule::Interleaved, 2, 0, 4, 2),
            "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3"
        );
        assert_eq!(
            text(Schedule::Interleaved, 2, 1, 4, 2),
            "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3"
        );
    }

    #[test]
    fn golden_zero_bubble_of_two_stages() {
        assert_eq!(text(Schedule::ZeroBubble, 2, 0, 3, 1), "F0 F1 B0 W0 F2 B1 W1 B2 W2");
        assert_eq!(text(Schedule::ZeroBubble, 2, 1, 3, 1), "F0 B0 F1 B1 W0 F2 B2 W1 W2");
    }

    proptest! {
        #[test]
        fn zero_bubble_computes_every_pass_once_and_holds_as_many_as_the_first_stage(
            stages in 1u32..9, micro_batches in 1u32..20, pick in any::<u32>(),
        ) {
            let order = pipeline_order(Schedule::ZeroBubble, stages, pick % stages, micro_batches, 1);
            let mut done = HashSet::new();
            let mut in_flight = 0i64;
            for slot in &order {
                prop_assert!(done.insert(*slot));
                let before = match slot.pass {
                    Pass::Weight => Some(Pass::Backward),
                    Pass::Backward => Some(Pass::Forward),
                    _ => None,
                };
                let there = before.is_none_or(|pass| done.contains(&Slot { pass, ..*slot }));
                prop_assert!(there);
                in_flight += match slot.pass { Pass::Forward => 1, Pass::Weight => -1, _ => 0 };
                prop_assert!(in_flight <= i64::from(stages));
            }
            prop_assert_eq!(order.len() as u32, 3 * micro_batches);
        }

        #[test]
        fn every_slot_once_and_forward_first(
            stages in 1u32..9, rounds in 1u32..5, chunks in 1u32..5, free in 1u32..20,
        ) {
            let schedule = if chunks == 1 { Schedule::OneForwardOneBackward } else { Schedule::Interleaved };
            let micro_batches = if chunks == 1 { free } else { rounds * stages };
            for stage in 0..stages {
                let order = pipeline_order(schedule, stages, stage, micro_batches, chunks);
                let mut done = HashSet::new();
                let mut in_flight = 0i64;
                for slot in &order {
                    prop_assert!(slot.chunk < chunks && slot.micro_batch < micro_batches);
                    prop_assert!(done.insert(*slot));
                    if slot.pass == Pass::Backward {
                        let forward = Slot { pass: Pass::Forward, ..*slot };
                        prop_assert!(done.contains(&forward));
                    }
                    in_flight += if slot.pass == Pass::Forward { 1 } else { -1 };
                    if chunks == 1 {
                        prop_assert!(in_flight <= i64::from(stages - stage));
                    }
                }
                prop_assert_eq!(order.len() as u32, 2 * micro_batches * chunks);
            }
        }

        #[test]
        fn layers_are_split_evenly_and_in_order(layers in 1u32..200, parts in 1u32..200) {
            let parts = parts.min(layers);
            let mut next = 0;
            for part in 0..parts {
                let range = layers_of(layers, parts, part);
                prop_assert_eq!(range.start, next);
                prop_assert!((range.len() as u32).abs_diff(layers / parts) <= 1 && !range.is_empty());
                next = range.end;
            }
            prop_assert_eq!(next, layers);
        }
    }
}
