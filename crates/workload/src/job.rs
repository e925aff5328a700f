//! A job: its parts, whether they fit together, and the sizes that follow from them.
//!
//! Modelled: tokens, parameters, FLOPs and bytes of each transfer; volumes follow RailX, Table 4.
//! Ignored: parameters that only a framework adds.
//! Checked: all-to-all volumes of five published jobs; any numbers at all give a job or an error.

use crate::compute::Compute;
use crate::error::{WorkloadError, require};
use crate::kernel::Precision;
use crate::model::Model;
use crate::parallelism::{Parallelism, Placement};
use crate::pipeline::{Schedule, layers_of};
use crate::products::Efficiency;
use crate::shapes;
use crate::training::{Mode, Overlap, Training};
use std::ops::Range;

/// A model, how it is spread over GPUs, how it is trained, and how fast GPUs are.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The model that is trained.
    pub model: Model,
    /// The degrees of parallelism.
    pub parallelism: Parallelism,
    /// One iteration's settings.
    pub training: Training,
    /// Compute times, or the GPU that gives them.
    pub compute: Compute,
}

impl Job {
    /// Checks the job as a whole.
    ///
    /// ```
    /// let mut job = lightloom_workload::example::mixtral_8x7b();
    /// job.parallelism.ep = 7;
    /// assert_eq!(
    ///     job.validate().unwrap_err().to_string(),
    ///     "parallelism.ep = 7: must divide model.experts = 8"
    /// );
    /// ```
    ///
    /// # Errors
    /// Names the first key that does not fit.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        shapes::check(&self.model, &self.parallelism, &self.training)?;
        let (mode, products) = (self.training.mode, &self.compute.products);
        let train = mode == Mode::Train;
        let share = products.efficiency == Efficiency::Share;
        require(train || share, "compute.efficiency", products.efficiency.as_str(), || {
            "is of training.mode = \"train\" alone".into()
        })?;
        require(train || products.precision == Precision::Bf16, "compute.products", "fp8", || {
            "is of training.mode = \"train\" alone; weights at 8 bits are training.weight_bytes = 1"
                .into()
        })?;
        self.compute.validate()
    }

    /// Where the job's ranks live.
    pub fn placement(&self) -> Placement {
        match self.training.overlap {
            Overlap::Dualpipe => Placement::mirrored(self.parallelism),
            _ => Placement::new(self.parallelism),
        }
    }

    /// How many stages hold each layer's parameters, gradients and optimizer state: in DualPipe two, as
    /// every rank has a stage of either direction (DeepSeek-V3, arXiv 2412.19437, Table 2).
    ///
    /// ```
    /// # use lightloom_workload::{Overlap, example};
    /// let mut job = example::deepseek_r1();
    /// let once = job.parameters_per_gpu(0);
    /// job.training.overlap = Overlap::Dualpipe;
    /// assert_eq!(job.parameter_copies(), 2);
    /// assert_eq!(job.parameters_per_gpu(0), job.parameters_per_gpu(15));
    /// assert!(job.parameters_per_gpu(0) > once);
    /// ```
    pub fn parameter_copies(&self) -> u32 {
        if self.training.overlap == Overlap::Dualpipe { 2 } else { 1 }
    }

    /// Whether all-to-alls run beside computation.
    pub(crate) fn overlaps(&self) -> bool {
        self.training.overlap != Overlap::None
    }

    /// Whether gradients of weights are computed apart from those of activations.
    pub(crate) fn splits(&self) -> bool {
        let t = &self.training;
        t.overlap == Overlap::Dualpipe || t.schedule == Schedule::ZeroBubble
    }

    /// How many parts pipelines cut the model into.
    pub(crate) fn parts(&self) -> u32 {
        self.parallelism.pp * self.training.virtual_stages
    }

    /// Chunks of layers on a stage.
    pub(crate) fn chunks(&self) -> u32 {
        self.training.virtual_stages * self.parameter_copies()
    }

    /// The part of the model that is a chunk of a stage; in DualPipe chunk 1 is the other direction's.
    pub(crate) fn part(&self, stage: u32, chunk: u32) -> u32 {
        let pp = self.parallelism.pp;
        match self.training.overlap {
            Overlap::Dualpipe if chunk > 0 => pp - 1 - stage,
            Overlap::Dualpipe => stage,
            _ => chunk * pp + stage,
        }
    }

    /// The stage that has the part before or after one of a stage's, for the same micro-batch.
    pub(crate) fn neighbour(&self, stage: u32, part: u32, next: u32) -> u32 {
        let pp = self.parallelism.pp;
        match self.training.overlap {
            Overlap::Dualpipe if part != stage => pp - 1 - next,
            _ => next % pp,
        }
    }

    /// Whether no later micro-batch takes the same way, so that gradients are complete.
    pub(crate) fn is_last(&self, micro_batch: u32) -> bool {
        let (all, next) = (self.training.micro_batches, micro_batch + 1);
        next == all || (self.parameter_copies() > 1 && next == all / 2)
    }

    /// Tokens of one micro-batch on one EP rank, for each of its CP ranks.
    pub fn tokens_per_rank(&self) -> u64 {
        let t = &self.training;
        shapes::tokens(&self.parallelism, t)
    }

    /// Token assignments that an EP rank dispatches, its [`Parallelism::expert_shards`] together: the sum of
    /// each row of a token matrix.
    pub fn assignments_per_rank(&self) -> u64 {
        shapes::assignments(&self.model, &self.parallelism, &self.training)
    }

    /// Bytes that a GPU sends in one all-to-all, forward dispatch, its own share included.
    ///
    /// ```
    /// let job = lightloom_workload::example::mixtral_8x7b();
    /// assert_eq!(job.all_to_all_bytes(), 134_217_728);
    /// ```
    pub fn all_to_all_bytes(&self) -> u64 {
        self.assignments_per_rank() * self.exchange_bytes_per_token(self.training.dispatch_bytes)
    }

    /// The layers of one chunk of a stage.
    pub fn layers(&self, stage: u32, chunk: u32) -> Range<u32> {
        layers_of(self.model.layers, self.parts(), self.part(stage, chunk))
    }

    /// Parameters that each GPU of a stage holds.
    pub fn parameters_per_gpu(&self, stage: u32) -> u64 {
        self.parameters_by_scope(stage).iter().sum()
    }

    /// The same: those whose gradients all ranks of a stage sum, and those of routed experts.
    pub(crate) fn parameters_by_scope(&self, stage: u32) -> [u64; 2] {
        let [mut dense, mut experts] = [0, 0];
        for layer in (0..self.chunks()).flat_map(|chunk| self.layers(stage, chunk)) {
            dense += self.dense_parameters(layer);
            experts += self.expert_parameters(layer);
        }
        if self.has_part(stage, 0) {
            dense += self.model.embedding_weights().per_gpu(self.parallelism.tp);
        }
        if self.has_part(stage, self.parts() - 1) {
            dense += self.head_parameters();
        }
        [dense, experts]
    }

    /// Whether a stage has a part of the model.
    pub(crate) fn has_part(&self, stage: u32, part: u32) -> bool {
        (0..self.chunks()).any(|chunk| self.part(stage, chunk) == part)
    }

    /// Parameters of the head on one GPU of the last stage; a tied matrix that the stage has as its
    /// embedding already is not held twice.
    pub(crate) fn head_parameters(&self) -> u64 {
        let (model, p) = (&self.model, &self.parallelism);
        match model.tied_embeddings && (p.pp == 1 || self.parameter_copies() > 1) {
            true => model.head_weights().replicated,
            false => model.head_weights().per_gpu(p.tp),
        }
    }

    /// Parameters of a layer on one GPU, routed experts left out.
    pub(crate) fn dense_parameters(&self, layer: u32) -> u64 {
        let model = &self.model;
        let mlp = match model.is_moe(layer) {
            true => model.router_weights() + model.shared_weights(),
            false => model.dense_mlp_weights(),
        };
        (model.attention_weights() + mlp).per_gpu(self.parallelism.tp)
    }

    /// Parameters of a layer's routed experts on one GPU.
    pub(crate) fn expert_parameters(&self, layer: u32) -> u64 {
        let p = &self.parallelism;
        match self.model.is_moe(layer) {
            true => {
                let experts = u64::from(self.model.experts / p.ep);
                (experts * self.model.expert_weights()).div_ceil(p.expert_shards().into())
            }
            false => 0,
        }
    }

    /// TP ranks that share the tokens between the layers' products; 1: each has all of them.
    pub(crate) fn sequence_shards(&self) -> u32 {
        if self.training.sequence_parallel { self.parallelism.tp } else { 1 }
    }

    /// Bytes of one token on one GPU: `shapes::check` has seen that TP divides the hidden width. Without
    /// sequence parallelism each TP rank has, and sends, all of it.
    pub(crate) fn bytes_per_token(&self, element_bytes: u32) -> u64 {
        u64::from(self.model.hidden / self.sequence_shards()) * u64::from(element_bytes)
    }

    /// GPUs that share what an EP rank sends and receives in an all-to-all.
    pub(crate) fn exchange_shards(&self) -> u32 {
        match self.training.sequence_parallel || self.parallelism.tp == 1 {
            true => self.parallelism.expert_shards(),
            false => 1, // each TP rank has all tokens, and `shapes::check` has seen that ETP = TP
        }
    }

    /// Bytes of one of an EP rank's tokens on each of the GPUs that share them, in an all-to-all.
    pub(crate) fn exchange_bytes_per_token(&self, element_bytes: u32) -> u64 {
        u64::from(self.model.hidden / self.exchange_shards()) * u64::from(element_bytes)
    }

    /// What a GPU sends in a ring all-gather (or reduce-scatter) over TP of `tokens` tokens.
    pub(crate) fn tp_bytes(&self, tokens: u64) -> u64 {
        self.gathered_bytes(self.parallelism.tp, tokens)
    }

    /// The same over the GPUs that share an expert.
    pub(crate) fn etp_bytes(&self, tokens: u64) -> u64 {
        self.gathered_bytes(self.parallelism.expert_shards(), tokens)
    }

    fn gathered_bytes(&self, ranks: u32, tokens: u64) -> u64 {
        let element = u64::from(self.training.activation_bytes);
        u64::from(ranks - 1) * tokens * u64::from(self.model.hidden / ranks) * element
    }

    /// What a GPU sends around the CP ring in one pass of one layer: its keys and values, once to
    /// each other rank.
    pub(crate) fn cp_bytes(&self) -> u64 {
        let p = &self.parallelism;
        let [_, key, value] = self.model.attention.projection_widths();
        let element = u64::from(self.training.activation_bytes);
        let shard = (key + value).div_ceil(p.tp.into());
        u64::from(p.cp - 1) * self.tokens_per_rank() * shard * element
    }
}
