//! How much each kind of parallelism sends, and how often (RailX, Table 4).
//!
//! Modelled: one chip of the pipeline stage with the most expert layers, in one iteration. A volume
//! is what Table 4 calls V: the whole buffer of a collective, a chip's own share included.
//!
//! Where Table 4 is odd, and what stands here: its tensor-parallel volumes are those of a whole
//! sequence, here of a context rank's part (1 / C), as its own rows on experts and pipelines have
//! it. Its vocabulary is summed over data ranks only, 1 / C of it each: what is left of a sum over
//! context ranks too, which is what stands here; a pipeline's first stage has the embedding and its
//! last the head, so that a chip has 2 H V / T only without a pipeline. Its FFN has one expert a
//! rank, here `experts / E`, and shared experts and dense layers have rows of their own. A context
//! ring is counted once backward, as there, although keys and values travel with their gradients.
//! Ignored: routers, norms, FP8 dispatch, copies of key and value heads where T exceeds them.
//! Checked: the table's formulas by hand; sums over all chips against the volumes of a workload.

use lightloom_workload::{Attention, Model, Parallelism, WorkloadError};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// A kind of parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Tensor and sequence parallelism (T).
    Tp,
    /// Context parallelism (C).
    Cp,
    /// Expert parallelism (E).
    Ep,
    /// Replicas of a block of C x E x T chips (D_e).
    Dp,
    /// Pipeline stages (P).
    Pp,
}

impl Kind {
    /// All kinds: `Kind::ALL[kind as usize] == kind`.
    pub const ALL: [Kind; 5] = [Kind::Tp, Kind::Cp, Kind::Ep, Kind::Dp, Kind::Pp];
}

/// What a collective does with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// A reduce-scatter or an all-gather, or a ring that passes everything by: each chip sends
    /// (p - 1) / p of the volume.
    Gather,
    /// An all-reduce: twice as much.
    Sum,
    /// Each chip sends 1 / p of the volume to each.
    AllToAll,
    /// Each chip sends the volume to the next.
    Send,
}

/// One row of Table 4.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// What is sent.
    pub name: &'static str,
    /// Whose traffic it is.
    pub kind: Kind,
    /// The kinds of parallelism whose ranks take part.
    pub over: &'static [Kind],
    /// What is done with the volume.
    pub pattern: Pattern,
    /// V \[B\].
    pub volume_bytes: f64,
    /// V as Table 4 prints it \[B\]; none where it has no such row.
    pub printed_bytes: Option<f64>,
    /// F: times an iteration.
    pub times: f64,
}

/// A job as Table 4 needs it.
///
/// ```
/// use lightloom_railx::volume::{Kind, Work};
/// use lightloom_workload::{Parallelism, example};
/// let work = Work {
///     model: example::mixtral_8x7b().model,
///     parallelism: Parallelism { tp: 16, cp: 2, ep: 8, etp: None, dp: 4, pp: 4 },
///     sequence_length: 8192, micro_batch: 1, micro_batches: 16,
///     activation_bytes: 2, gradient_bytes: 2,
/// };
/// let rows = work.traffic();
/// let all_to_all = rows.iter().find(|row| row.kind == Kind::Ep).unwrap();
/// assert_eq!(all_to_all.volume_bytes, (8192 * 4096 * 2 * 2 / (16 * 2)) as f64); // B S H K / T C
/// assert_eq!(all_to_all.times, (4 * 16 * 32 / 4) as f64); // 4 N_B L / P
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The model's shape.
    pub model: Model,
    /// Degrees; `dp` counts replicas of the EP x CP x TP block.
    pub parallelism: Parallelism,
    /// Tokens of a sequence (S).
    pub sequence_length: u32,
    /// Sequences that an expert-parallel rank works on at a time (B).
    pub micro_batch: u32,
    /// Micro-batches of an iteration (N_B).
    pub micro_batches: u32,
    /// Bytes of an element of activations.
    pub activation_bytes: u32,
    /// Bytes of an element of gradients.
    pub gradient_bytes: u32,
}

impl Work {
    /// Whether such a job can be.
    ///
    /// # Errors
    /// Names the first key that is out of range.
    pub fn check(&self) -> Result<(), WorkloadError> {
        self.model.validate()?;
        self.parallelism.validate()?;
        let p = &self.parallelism;
        if let Some(etp) = p.etp {
            let reason = "must be left out: Table 4 has experts that are shared by TP";
            return Err(refused("parallelism.etp", etp, reason.into()));
        }
        most("parallelism.pp", p.pp, "model.layers", self.model.layers)?;
        if self.model.experts == 0 && p.ep != 1 {
            let reason = "must be 1, as model.experts = 0: there is nothing to share";
            return Err(refused("parallelism.ep", p.ep, reason.into()));
        }
        most("parallelism.ep", p.ep, "model.experts", self.model.experts.max(1))?;
        most("parallelism.tp", p.tp, "model.hidden", self.model.hidden)?;
        for (key, value, limit) in [
            ("sequence_length", self.sequence_length, 1 << 24),
            ("micro_batch", self.micro_batch, 1 << 16),
            ("micro_batches", self.micro_batches, 1 << 16),
            ("activation_bytes", self.activation_bytes, 8),
            ("gradient_bytes", self.gradient_bytes, 8),
        ] {
            if !(1..=limit).contains(&value) {
                return Err(refused(key, value, format!("must be between 1 and {limit}")));
            }
        }
        most("parallelism.cp", p.cp, "sequence_length", self.sequence_length)
    }

    /// Layers of a stage: all, and those with experts, on the stage that has the most of them.
    pub fn layers(&self) -> (u32, u32) {
        let all = self.model.layers.div_ceil(self.parallelism.pp);
        (all, all.div_ceil(self.model.moe_layer_step).min(self.model.moe_layers()))
    }

    /// The table's rows, those of degree 1 too; their collectives then have one member.
    pub fn traffic(&self) -> Vec<Traffic> {
        use Kind::{Cp, Dp, Ep, Pp, Tp};
        use Pattern::{AllToAll, Gather, Send, Sum};
        let (model, p) = (&self.model, &self.parallelism);
        let [t, c] = [p.tp, p.cp].map(f64::from);
        let (hidden, top_k) = (f64::from(model.hidden), f64::from(model.top_k));
        let (layers, moe) = self.layers();
        let (layers, moe, dense) = (f64::from(layers), f64::from(moe), f64::from(layers - moe));
        let activation = f64::from(self.activation_bytes);
        let gradient = f64::from(self.gradient_bytes);
        let batches = f64::from(self.micro_batches);
        let sequence = f64::from(self.micro_batch) * f64::from(self.sequence_length);
        let whole = sequence * hidden * activation; // B S H
        let [_, key, value] = model.attention.projection_widths().map(|width| width as f64);
        let (split, replicated) = model.attention.matrices(u64::from(model.hidden));
        let swiglu = |width: u32| 3.0 * hidden * f64::from(width) / t * gradient;
        let shared = swiglu(model.shared_experts * model.shared_intermediate);
        let vocabulary = hidden * f64::from(model.vocabulary) / t * gradient;
        let held = if p.pp == 1 && !model.tied_embeddings { 2.0 } else { 1.0 };
        let visits = top_k + if shared > 0.0 { 1.0 } else { 0.0 };
        let (split, replicated) = (split as f64 / t * gradient, replicated as f64 * gradient);
        let context = sequence * (key + value) / t * activation;
        let routed = whole * top_k / (t * c);
        let expert = swiglu(model.expert_intermediate);
        let local = f64::from(model.experts.div_ceil(p.ep));
        // The table knows no other attention.
        let heads = matches!(model.attention, Attention::Gqa { .. });
        let row = |name, kind, pattern, over, volume_bytes, printed_bytes, times| Traffic {
            name,
            kind,
            over,
            pattern,
            volume_bytes,
            printed_bytes,
            times,
        };
        let tensor = |name, volume, printed, layers| {
            row(name, Tp, Gather, &[Tp][..], volume, printed, 4.0 * batches * layers)
        };
        let dense_sum = |name, volume, printed, times| {
            row(name, Dp, Sum, &[Cp, Ep, Dp][..], volume, printed, times)
        };
        let (around, through) = (2.0 * batches * layers, 4.0 * batches * moe);
        let mut rows = vec![
            tensor("attention", whole / c, Some(whole), layers),
            tensor("experts", whole * visits / c, Some(whole * top_k), moe),
            tensor("dense layers", whole / c, None, dense),
            row(
                "keys and values",
                Cp,
                Gather,
                &[Cp][..],
                context,
                heads.then_some(context),
                around,
            ),
            row("tokens", Ep, AllToAll, &[Ep][..], routed, Some(routed), through),
            dense_sum("vocabulary", held * vocabulary, Some(2.0 * vocabulary / c), 1.0),
            dense_sum("attention", split + replicated, heads.then_some(split), layers),
            dense_sum("shared experts", shared, None, moe),
            dense_sum("dense layers", swiglu(model.dense_intermediate), None, dense),
            row("experts", Dp, Sum, &[Cp, Dp][..], local * expert, Some(expert), moe),
            row(
                "activations",
                Pp,
                Send,
                &[Pp][..],
                whole / (t * c),
                Some(whole / (t * c)),
                2.0 * batches,
            ),
        ];
        rows.retain(|row| row.volume_bytes * row.times > 0.0);
        rows
    }
}

fn refused(key: &str, value: impl Display, reason: String) -> WorkloadError {
    WorkloadError { key: key.into(), value: value.to_string(), reason }
}

fn most(key: &str, value: u32, limit: &str, most: u32) -> Result<(), WorkloadError> {
    if value <= most {
        return Ok(());
    }
    Err(refused(key, value, format!("must be at most {limit} = {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_workload::{Job, example};

    fn of(job: &Job) -> Work {
        Work {
            model: job.model.clone(),
            parallelism: job.parallelism,
            sequence_length: job.training.sequence_length,
            micro_batch: job.training.micro_batch,
            micro_batches: job.training.micro_batches,
            activation_bytes: job.training.activation_bytes,
            gradient_bytes: job.training.gradient_bytes,
        }
    }

    fn sent(work: &Work, kind: Kind) -> f64 {
        let p = work.parallelism;
        let degrees = [p.tp, p.cp, p.ep, p.dp, p.pp].map(f64::from);
        let rows = work.traffic().into_iter().filter(|row| row.kind == kind);
        let bytes = rows.map(|row| {
            let members: f64 = row.over.iter().map(|&k| degrees[k as usize]).product();
            let share = match row.pattern {
                Pattern::Gather => (members - 1.0) / members,
                Pattern::Sum => 2.0 * (members - 1.0) / members,
                Pattern::AllToAll | Pattern::Send => 1.0,
            };
            row.volume_bytes * row.times * share
        });
        bytes.sum::<f64>() * f64::from(p.gpus())
    }

    /// What all chips send is what the task graph's own volumes say, which are counted otherwise.
    #[test]
    fn all_chips_together_send_the_volumes_of_the_workload() {
        for mut job in [example::mixtral_8x7b(), example::mixtral_8x22b(), example::qwen_moe()] {
            for (cp, tp) in [(1, 4), (2, 4), (4, 8)] {
                job.parallelism = Parallelism { cp, tp, ..job.parallelism };
                let (work, volumes, p) = (of(&job), job.volumes(), job.parallelism);
                let tokens = f64::from(work.micro_batch * work.sequence_length / cp);
                let whole = tokens * f64::from(work.model.hidden * work.activation_bytes);
                // Embedding and head, each forward and backward, are not in Table 4.
                let ends =
                    4.0 * whole * f64::from((tp - 1) * work.micro_batches * p.gpus() / (p.pp * tp));
                let close = |ours: f64, theirs: u128| (ours / theirs as f64 - 1.0).abs();
                assert!(close(sent(&work, Kind::Tp) + ends, volumes.tp_bytes) < 1e-12);
                assert!(close(sent(&work, Kind::Ep), volumes.ep_bytes) < 1e-12);
                assert!(cp == 1 || close(sent(&work, Kind::Cp), volumes.cp_bytes) < 1e-12);
                // The last stage sends nothing on.
                let hops = f64::from(p.pp - 1) / f64::from(p.pp);
                assert!(close(sent(&work, Kind::Pp) * hops, volumes.pp_bytes) < 1e-12);
                // Routers and norms are left out, and middle stages hold no vocabulary.
                assert!(close(sent(&work, Kind::Dp), volumes.dp_bytes) < 0.25);
            }
        }
    }

    /// Table 4's own terms, where it has one expert a rank and no context ranks.
    #[test]
    fn rows_are_those_of_the_table() {
        let mut job = example::mixtral_8x7b();
        job.parallelism = Parallelism { tp: 8, cp: 1, ep: 8, etp: None, dp: 2, pp: 1 };
        for row in of(&job).traffic() {
            assert_eq!(Some(row.volume_bytes), row.printed_bytes, "{row:?}");
        }
        let work = of(&job);
        let hidden: f64 = 4096.0;
        let qkv = (2.0 + 2.0 * 8.0 / 32.0) * hidden * hidden / 8.0 * f64::from(work.gradient_bytes);
        let row = |name, kind| {
            let rows = work.traffic();
            rows.into_iter().find(|row| row.name == name && row.kind == kind).unwrap()
        };
        assert_eq!(row("attention", Kind::Dp).volume_bytes, qkv);
        let whole = f64::from(work.micro_batch * work.sequence_length * 2) * hidden;
        assert_eq!(row("experts", Kind::Tp).volume_bytes, whole * 2.0);
        assert_eq!(row("keys and values", Kind::Cp).volume_bytes, whole * (2.0 * 8.0 / 32.0) / 8.0);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let good = of(&example::deepseek_r1());
        assert_eq!(good.check(), Ok(()));
        let refusal = |work: Work| work.check().unwrap_err().to_string();
        let p = good.parallelism;
        let ep = Work { parallelism: Parallelism { ep: 512, dp: 1, pp: 1, ..p }, ..good.clone() };
        assert_eq!(refusal(ep), "parallelism.ep = 512: must be at most model.experts = 256");
        let mut dense = good.clone();
        (dense.model.experts, dense.model.top_k, dense.model.expert_intermediate) = (0, 0, 0);
        (dense.model.shared_experts, dense.model.dense_layers) = (0, dense.model.layers);
        (dense.model.expert_groups, dense.model.groups_per_token) = (1, 1);
        assert_eq!(
            refusal(dense.clone()),
            "parallelism.ep = 64: must be 1, as model.experts = 0: there is nothing to share"
        );
        dense.parallelism.ep = 1;
        assert_eq!(dense.check(), Ok(()));
        assert!(dense.traffic().iter().all(|row| row.kind != Kind::Ep && row.name != "experts"));
        let bytes = Work { activation_bytes: 0, ..good };
        assert_eq!(refusal(bytes), "activation_bytes = 0: must be between 1 and 8");
    }
}
