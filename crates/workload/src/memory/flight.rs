//! The fullest moment of a stage: its micro-batches in flight, and what it works with.
//!
//! Modelled: a stage runs its [rounds](crate::rounds) in order. A forward adds what its layers keep; a backward
//! frees it when it is through, or, where gradients of weights are left for later, when those are computed.
//! While a slot runs there are buffers of one layer's all-to-alls and the gradients of one component; where
//! layers are computed anew, the activations of one layer; on the last stage, when the loss is taken, logits
//! instead. Two slots at once have both. Where nothing is trained, there are the cache and one layer's work.
//! Ignored: that activations are freed layer by layer while a backward runs: the next forward of a stage comes
//! only after it.

use super::parts::{Holds, Parts};
use super::settings::Memory;
use crate::job::Job;
use crate::pipeline::Pass;
use crate::rounds::{Step, rounds};
use crate::training::Mode;

/// What is held besides weights, gradients and optimizer at the fullest moment.
pub(super) struct Peak {
    pub parts: Parts,
    /// Chunks of layers, a micro-batch each.
    pub in_flight: u32,
}

/// Of a chunk of a stage.
struct Chunk {
    /// What it keeps of a micro-batch.
    kept: Parts,
    /// While it runs forward, and backward.
    forward: Parts,
    backward: Parts,
}

impl Job {
    /// The fullest moment of a stage.
    pub(super) fn peak(&self, memory: &Memory, stage: u32) -> Peak {
        let chunks: Vec<Chunk> =
            (0..self.chunks()).map(|chunk| self.chunk(memory, stage, chunk)).collect();
        let trains = self.training.mode == Mode::Train;
        let mut live = Parts::default();
        let mut in_flight = 0;
        let mut peak = Peak { parts: live, in_flight };
        for round in rounds(self, stage) {
            let steps: Vec<Step> = round.steps().collect();
            let mut work = Parts::default();
            for Step { slot, .. } in &steps {
                let chunk = &chunks[slot.chunk as usize];
                if slot.pass == Pass::Forward {
                    live = live.plus(if trains { chunk.kept } else { Parts::default() });
                    in_flight += 1;
                }
                work = work.plus(match slot.pass {
                    Pass::Forward => chunk.forward,
                    Pass::Weight => Parts::default(),
                    _ => chunk.backward,
                });
            }
            let now = live.plus(work);
            if now.total() > peak.parts.total() {
                peak = Peak { parts: now, in_flight };
            }
            for Step { slot, defers } in steps {
                let through = match slot.pass {
                    Pass::Forward => !trains,
                    Pass::Weight => true,
                    _ => !defers,
                };
                if through {
                    let kept = chunks[slot.chunk as usize].kept;
                    live = if trains { live.minus(kept) } else { live };
                    in_flight -= 1;
                }
            }
        }
        peak.parts = peak.parts.plus(self.cache(stage));
        peak
    }

    fn chunk(&self, memory: &Memory, stage: u32, chunk: u32) -> Chunk {
        let last = self.part(stage, chunk) + 1 == self.parts();
        let mut found =
            Chunk { kept: Parts::default(), forward: Parts::default(), backward: Parts::default() };
        let trains = self.training.mode == Mode::Train;
        for layer in self.layers(stage, chunk) {
            found.kept = found.kept.plus(self.kept(memory, layer));
            let buffers = Parts::of(&[(Holds::AllToAll, self.exchange_buffers(memory, layer))]);
            let alone = !trains || self.repeats_layers();
            let forward = if alone { self.forward_work(memory, layer) } else { 0 };
            let forward = buffers.plus(Parts::of(&[(Holds::Working, forward)]));
            let anew = match trains {
                true => self.computed_anew(memory, layer),
                false => Parts::default(),
            };
            let gradients = Parts::of(&[(Holds::Working, self.backward_work(memory, layer))]);
            found.forward = found.forward.fuller(forward);
            found.backward = found.backward.fuller(buffers.plus(gradients).plus(anew));
        }
        if last {
            let logits = self.logits_work(memory);
            found.kept = found.kept.plus(self.head_kept(memory));
            found.forward = found.forward.fuller(logits);
            found.backward = found.backward.fuller(logits);
        }
        found
    }

    /// What one layer has for its backward pass and did not keep.
    fn computed_anew(&self, memory: &Memory, layer: u32) -> Parts {
        let whole = self.kept_whole(memory, layer);
        match self.repeats_layers() {
            // Its input, which a norm reads, is there already.
            true => whole.minus(Parts::of(&[(Holds::Norms, self.layer_input(memory))])),
            false => whole.minus(self.kept(memory, layer)),
        }
    }

    /// Keys and values of tokens before. Decoding, those of all sequences; when prompts are read, those of the
    /// micro-batches that are in the pipeline at once.
    fn cache(&self, stage: u32) -> Parts {
        let (t, p) = (&self.training, &self.parallelism);
        let micro_batches = match t.mode {
            Mode::Train => return Parts::default(),
            Mode::Decode => t.micro_batches,
            Mode::Prefill => t.micro_batches.min(p.pp.max(2)),
        };
        let layers = (0..self.chunks()).map(|chunk| self.layers(stage, chunk).len() as u64);
        let [shared, sharded] = self.model.attention.cache_widths();
        let width = u128::from(shared + sharded.div_ceil(u64::from(p.tp)));
        let tokens = u128::from(t.micro_batch) * u128::from(t.sequence_length / p.cp);
        let of_layer = width * u128::from(t.activation_bytes) * tokens;
        Parts::of(&[(Holds::Cache, of_layer)])
            .times(layers.sum::<u64>())
            .times(micro_batches.into())
    }
}
