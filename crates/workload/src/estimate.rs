//! A closed form of an iteration's time, by which layouts are sorted before an engine runs the best of them.
//!
//! Modelled: the slowest stage's layers one after the other, as in `assembly.rs`, with even gates; (micro-batches +
//! (pp - 1) / virtual stages) of them; rings at the rate of a GPU's scale-up network where they stay in a server and of its
//! NICs elsewhere; of an all-to-all what leaves the server at the NICs' rate, beside the rest; sums of
//! gradients inside servers first, beside one backward pass if they may begin in it; the optimizer.
//! Ignored: contention, delays, loads that differ, circuits, communication that runs beside computation.
//! Checked: equal to the task graph's longest path where there is one stage and each ring takes what it takes here.

use crate::component::Component;
use crate::error::WorkloadError;
use crate::job::Job;
use crate::parallelism::Scope;
use crate::pipeline::Pass;
use crate::profile::Profile;
use crate::training::Mode;

/// What a GPU sends at \[bit/s\], inside its server and out of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// GPUs of a server.
    pub per_server: u32,
    /// Over the scale-up network.
    pub near_bps: f64,
    /// Over a GPU's share of its server's NICs.
    pub far_bps: f64,
}

impl Rates {
    /// Seconds of a ring in which every GPU sends so much, among ranks that lie within `span` consecutive GPUs.
    fn ring_s(&self, bytes: u64, span: u32) -> f64 {
        let bps = if span <= self.per_server { self.near_bps } else { self.far_bps };
        bytes as f64 * 8.0 / bps
    }

    /// Seconds of an all-to-all in which every GPU sends so much, own share included, among `ranks` that are `stride`
    /// GPUs apart.
    fn exchange_s(&self, bytes: u64, ranks: u32, stride: u32) -> f64 {
        let near = (self.per_server / stride).clamp(1, ranks);
        let each = bytes as f64 * 8.0 / f64::from(ranks);
        let [inside, outside] = [near - 1, ranks - near].map(|peers| each * f64::from(peers));
        (inside / self.near_bps).max(outside / self.far_bps)
    }

    /// Seconds of a sum over so many ranks of which `near` are in a server, of so many bytes each.
    fn sum_s(&self, bytes: u64, ranks: u32, near: u32) -> f64 {
        let near = near.clamp(1, ranks);
        let around = |bytes: f64, ranks: u32| 2.0 * bytes * f64::from(ranks - 1) / f64::from(ranks);
        let bits = bytes as f64 * 8.0;
        let servers = ranks.div_ceil(near);
        around(bits, near) / self.near_bps + around(bits / f64::from(near), servers) / self.far_bps
    }
}

impl Job {
    /// About how long an iteration takes \[s\].
    ///
    /// ```
    /// # use lightloom_workload::{Rates, example};
    /// let mut job = example::mixtral_8x7b();
    /// let rates = Rates { per_server: 8, near_bps: 3.6e12, far_bps: 4e11 };
    /// let shared = job.estimate(rates)?;
    /// // Experts on neighbours in place of every fourth GPU: all-to-alls stay in servers.
    /// (job.parallelism.etp, job.parallelism.dp) = (Some(1), 32);
    /// assert!(job.estimate(rates)? < shared);
    /// # Ok::<(), lightloom_workload::WorkloadError>(())
    /// ```
    ///
    /// # Errors
    /// If the job is invalid.
    pub fn estimate(&self, rates: Rates) -> Result<f64, WorkloadError> {
        let profile = self.profile()?;
        let t = &self.training;
        let trains = t.mode == Mode::Train;
        let passes: &[Pass] = match (trains, self.repeats_layers()) {
            (false, _) => &[Pass::Forward],
            (true, false) => &[Pass::Forward, Pass::Backward],
            (true, true) => &[Pass::Forward, Pass::Forward, Pass::Backward],
        };
        let layers_s = |stage, pass| {
            let layers = (0..self.chunks()).flat_map(|chunk| self.layers(stage, chunk));
            layers.map(|layer| self.layer_s(&profile, rates, layer, pass)).sum::<f64>()
        };
        let stages = 0..self.parallelism.pp;
        let of_stage = |stage| {
            let layers = passes.iter().map(|&pass| layers_s(stage, pass)).sum::<f64>();
            layers + self.ends_s(&profile, rates, stage)
        };
        let slowest = stages.clone().map(of_stage).fold(0.0, f64::max);
        let behind = f64::from(self.parallelism.pp - 1) / f64::from(t.virtual_stages);
        let copies = f64::from(self.parameter_copies());
        let pipeline = slowest / copies * (f64::from(t.micro_batches) + behind);
        if !trains {
            return Ok(pipeline);
        }
        let ends = stages.map(|stage| {
            let hidden = if t.overlap_gradients { layers_s(stage, Pass::Backward) } else { 0.0 };
            let optimizer = self.optimizer_time(stage).as_secs_f64();
            (self.sums_s(rates, stage) - hidden).max(0.0) + optimizer
        });
        Ok(pipeline + ends.fold(0.0, f64::max))
    }

    fn layer_s(&self, profile: &Profile, rates: Rates, layer: u32, pass: Pass) -> f64 {
        let (p, t) = (&self.parallelism, &self.training);
        let time = |component| profile.time(component, pass).as_secs_f64();
        let again = |component, assignments| match pass {
            Pass::Backward => profile.again(component, assignments).as_secs_f64(),
            _ => 0.0,
        };
        let tokens = self.tokens_per_rank();
        let gathered = rates.ring_s(2 * self.tp_bytes(tokens), p.tp);
        let ring = rates.ring_s(self.cp_bytes(), p.tp * p.cp);
        let attention = time(Component::Attention) + again(Component::Attention, 0);
        let attention = attention.max(ring) + gathered;
        if !self.model.is_moe(layer) {
            return attention
                + time(Component::DenseMlp)
                + again(Component::DenseMlp, 0)
                + gathered;
        }
        let even = self.assignments_per_rank();
        let experts = profile.expert_time(pass, even).as_secs_f64();
        let shared = if self.model.shared_experts > 0 { tokens } else { 0 };
        let around = rates.ring_s(2 * self.etp_bytes(even), p.expert_shards())
            + rates.ring_s(2 * self.tp_bytes(shared), p.tp);
        let sent = self.exchange_bytes_per_token(t.dispatch_bytes)
            + self.exchange_bytes_per_token(t.activation_bytes);
        let exchange = match p.ep {
            1 => 0.0,
            ep => rates.exchange_s(even * sent, ep, self.placement().exchange_stride()),
        };
        let again = again(Component::Gate, 0) + again(Component::Expert, even);
        attention + time(Component::Gate) + experts + around + exchange + again
    }

    /// Embedding and head of a stage, in all passes.
    fn ends_s(&self, profile: &Profile, rates: Rates, stage: u32) -> f64 {
        let passes = [Pass::Forward, Pass::Backward];
        let bytes = self.tp_bytes(self.tokens_per_rank());
        let ends = [(0, Component::Embedding), (self.parts() - 1, Component::Head)];
        let mut sum = 0.0;
        for (_, component) in ends.into_iter().filter(|&(part, _)| self.has_part(stage, part)) {
            for pass in passes {
                let time = profile.time(component, pass).as_secs_f64();
                let trains = self.training.mode == Mode::Train;
                if pass == Pass::Forward || trains {
                    sum += time + rates.ring_s(bytes, self.parallelism.tp);
                }
            }
        }
        sum
    }

    /// Sums of a stage's gradients.
    fn sums_s(&self, rates: Rates, stage: u32) -> f64 {
        let (p, placement) = (&self.parallelism, self.placement());
        let [dense, experts] = self.parameters_by_scope(stage);
        let gradient = u64::from(self.training.gradient_bytes);
        let near = match p.etp {
            Some(etp) => rates.per_server / (etp * p.ep),
            None => p.cp.min(rates.per_server / p.tp) * (rates.per_server / p.block_size()).max(1),
        };
        let sum = |scope, parameters: u64, near| {
            rates.sum_s(parameters * gradient, placement.gradient_group_size(scope), near)
        };
        sum(Scope::Dense, dense, rates.per_server / p.tp) + sum(Scope::Expert, experts, near)
    }
}
