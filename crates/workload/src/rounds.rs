//! What goes through a block at once: a pipeline's slots as rounds, of one slot or of two.
//!
//! Modelled:
//! - *none*: rounds of one slot each, in the schedule's order.
//! - *two-batches*: in the steady state a forward goes beside the backward of an earlier micro-batch, as
//!   Megatron-Core's `overlap_moe_expert_parallel_comm` does (`combined_1f1b.py`); warm-up and
//!   cool-down go alone. A stage starts `2 (pp - 1 - stage) + 1` forwards before its first backward:
//!   two for every stage behind it, as in Megatron's interleaved schedule, since a micro-batch stays a
//!   whole round at a stage there and back; and one more, without which the last stage would pair a
//!   micro-batch with itself. Where nothing is trained, two forwards go together, the first with the
//!   second and so on, as DeepSeek prefills (arXiv 2412.19437, Section 3.4.1).
//! - *dualpipe*: [`dualpipe`].
//!
//! Ignored: Megatron's delayed gradients of weights in two-batches; that a stage may have no pair yet
//! when its neighbour has.
//! Checked: every slot once on every stage, never a pair of one micro-batch; the lengths of whole
//! pipelines against closed forms, in `tests/all/overlap.rs`.

use crate::job::Job;
use crate::pipeline::{Pass, Schedule, Slot, after_warm_up, pipeline_order};
use crate::training::{Mode, Overlap};

/// A slot as a block runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub slot: Slot,
    /// Of a backward whose weights' gradients are apart: they are left for a slot of their own, rather
    /// than computed right after each task.
    pub defers: bool,
}

/// What goes through a block at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    One(Step),
    /// All-to-alls of each beside computation of the other; the first takes the first turn.
    Two(Step, Step),
}

impl Round {
    /// The slots of the round, in the order of their turns.
    pub fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        let (first, second) = match *self {
            Round::One(step) => (step, None),
            Round::Two(first, second) => (first, Some(second)),
        };
        std::iter::once(first).chain(second)
    }
}

fn at_once(slot: Slot) -> Step {
    Step { slot, defers: false }
}

/// The rounds of a stage of a valid job, in order.
pub(crate) fn rounds(job: &Job, stage: u32) -> Vec<Round> {
    let (pp, t) = (job.parallelism.pp, &job.training);
    let two = t.overlap == Overlap::TwoBatches;
    if t.mode != Mode::Train {
        let forward = |micro_batch| Slot { chunk: 0, micro_batch, pass: Pass::Forward };
        let slots: Vec<Slot> = (0..t.micro_batches).map(forward).collect();
        let together = slots.chunks(if two { 2 } else { 1 });
        return together.map(pair_of).collect();
    }
    match t.overlap {
        Overlap::Dualpipe => dualpipe(pp, stage, t.micro_batches),
        Overlap::TwoBatches => {
            let warm_up = 2 * (pp - 1 - stage) + (t.virtual_stages - 1) * pp + 1;
            let slots = after_warm_up(warm_up, t.schedule, pp, t.micro_batches, t.virtual_stages);
            let (alone, rest) = slots.split_at((warm_up as usize).min(slots.len()));
            let pairs = 2 * (t.micro_batches * t.virtual_stages).saturating_sub(warm_up) as usize;
            let (pairs, cool_down) = rest.split_at(pairs);
            let one = |slot: &Slot| Round::One(at_once(*slot));
            let mut rounds: Vec<Round> = alone.iter().map(one).collect();
            rounds.extend(pairs.chunks(2).map(pair_of));
            rounds.extend(cool_down.iter().map(one));
            rounds
        }
        Overlap::None => {
            let slots = pipeline_order(t.schedule, pp, stage, t.micro_batches, t.virtual_stages);
            let defers = t.schedule == Schedule::ZeroBubble;
            slots.into_iter().map(|slot| Round::One(Step { slot, defers })).collect()
        }
    }
}

/// One slot or two; of a forward and a backward the backward is first, for it begins with an all-to-all.
fn pair_of(slots: &[Slot]) -> Round {
    match *slots {
        [first, second] if second.pass == Pass::Backward => {
            Round::Two(at_once(second), at_once(first))
        }
        [first, second] => Round::Two(at_once(first), at_once(second)),
        [first, ..] => Round::One(at_once(first)),
        [] => unreachable!("chunks are not empty"),
    }
}

/// DualPipe (arXiv 2412.19437, Section 3.2.1, Figure 5) for an even number of stages and of
/// micro-batches, two a stage or more, in the eight phases of its authors' code (github.com/deepseek-ai/
/// DualPipe, `dualpipe.py`).
///
/// Rank r holds the layers of stage r, which micro-batches of the first half pass from rank 0 up
/// (direction 0), and those of stage `stages - 1 - r`, which the second half pass from the last rank
/// down (direction 1). Weights' gradients are computed right after each task of a backward, or left for
/// later where that lets the next stage begin sooner.
pub(crate) fn dualpipe(stages: u32, rank: u32, micro_batches: u32) -> Vec<Round> {
    let half = stages / 2;
    // Ranks of the upper half do the same with directions exchanged.
    let place = rank.min(stages - 1 - rank);
    let mut order = Order {
        second_half: rank >= half,
        micro_batches,
        forward: [0; 2],
        backward: [0; 2],
        left: Default::default(),
        rounds: Vec::new(),
    };
    let (middle, outside) = (place + 1 == half, half - place - 1);
    for _ in 0..2 * outside {
        order.forward_alone(0);
    }
    for _ in 0..=place {
        order.forward_alone(0);
        order.forward_alone(1);
    }
    for _ in 0..outside {
        order.backward_alone(1, true);
        order.weights();
        order.forward_alone(1);
    }
    for time in 0..micro_batches / 2 - stages + place + 1 {
        if time == 0 && middle {
            // Apart: the pair would hold up both neighbours.
            order.forward_alone(0);
            order.backward_alone(1, false);
        } else {
            order.pair(0, 1);
        }
        order.pair(1, 0);
    }
    for _ in 0..outside {
        order.backward_alone(1, false);
        order.pair(1, 0);
    }
    // The second half of these leave weights' gradients; odd ranks begin with direction 1.
    for time in 0..=place {
        let later = place.div_ceil(2);
        order.backward_alone(1, time >= later + (place + 1) % 2);
        order.backward_alone(0, time >= later);
    }
    for _ in 0..outside {
        order.weights();
        order.backward_alone(0, true);
    }
    for _ in 0..=place {
        order.weights();
    }
    order.rounds
}

/// The rounds of DualPipe as they are made.
struct Order {
    second_half: bool,
    micro_batches: u32,
    /// Forwards, and backwards, so far; by direction.
    forward: [u32; 2],
    backward: [u32; 2],
    /// Slots whose weights' gradients are left.
    left: std::collections::VecDeque<Slot>,
    rounds: Vec<Round>,
}

impl Order {
    /// The next slot of a direction, as this half of the ranks numbers it.
    fn next(&mut self, phase: usize, pass: Pass) -> Slot {
        let direction = phase ^ usize::from(self.second_half);
        let counts = match pass {
            Pass::Forward => &mut self.forward,
            _ => &mut self.backward,
        };
        let nth = counts[direction];
        counts[direction] += 1;
        let chunk = direction as u32;
        Slot { chunk, micro_batch: chunk * (self.micro_batches / 2) + nth, pass }
    }

    fn forward_alone(&mut self, phase: usize) {
        let slot = self.next(phase, Pass::Forward);
        self.rounds.push(Round::One(at_once(slot)));
    }

    fn backward_alone(&mut self, phase: usize, defers: bool) {
        let slot = self.next(phase, Pass::Backward);
        if defers {
            self.left.push_back(Slot { pass: Pass::Weight, ..slot });
        }
        self.rounds.push(Round::One(Step { slot, defers }));
    }

    fn pair(&mut self, forward: usize, backward: usize) {
        let forward = self.next(forward, Pass::Forward);
        let backward = self.next(backward, Pass::Backward);
        self.rounds.push(Round::Two(at_once(backward), at_once(forward)));
    }

    fn weights(&mut self) {
        if let Some(slot) = self.left.pop_front() {
            self.rounds.push(Round::One(at_once(slot)));
        }
    }
}

#[cfg(test)]
mod tests;
