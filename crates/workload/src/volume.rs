//! How much each kind of parallelism sends in one iteration (MixNet, Figure 2).
//!
//! Modelled: bytes that leave GPUs, summed over the cluster, in closed form and with balanced
//! experts; ring algorithms; an all-to-all's own share included, as RailX Table 4 counts it.
//! Checked: equal to the sum over the tasks of a graph with uniform gates.

use crate::job::Job;
use crate::parallelism::Scope;
use crate::training::Mode;

/// Bytes sent in one iteration by all GPUs, by parallelism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    /// Tensor and sequence parallelism, experts' included.
    pub tp_bytes: u128,
    /// Rings of context parallelism.
    pub cp_bytes: u128,
    /// Dispatch and combine.
    pub ep_bytes: u128,
    /// Sends between stages.
    pub pp_bytes: u128,
    /// Gradient sums.
    pub dp_bytes: u128,
}

impl Job {
    /// Bytes of one iteration by parallelism. Meaningful for a validated job.
    ///
    /// ```
    /// let volumes = lightloom_workload::example::mixtral_8x7b().volumes();
    /// assert!(volumes.tp_bytes > volumes.ep_bytes && volumes.ep_bytes > volumes.pp_bytes);
    /// ```
    pub fn volumes(&self) -> Volumes {
        let (model, p, t) = (&self.model, &self.parallelism, &self.training);
        let (layers, moe) = (u128::from(model.layers), u128::from(model.moe_layers()));
        let tokens = self.tokens_per_rank();
        let assignments = self.assignments_per_rank();
        let ring = |tokens| u128::from(self.tp_bytes(tokens));
        let of_experts = u128::from(self.etp_bytes(assignments));
        let shared = if model.shared_experts > 0 { tokens } else { 0 };
        let passes = if t.mode == Mode::Train { 2 } else { 1 };
        // Layers that are computed anew send once more what they send forward.
        let of_layers = passes + u128::from(self.repeats_layers());
        // Each pass: attention (2), dense MLP (2), experts (2), embedding and head (1 each).
        let tp = of_layers
            * (2 * layers * ring(tokens)
                + 2 * (layers - moe) * ring(tokens)
                + 2 * moe * (of_experts + ring(shared)))
            + passes * 2 * ring(tokens);
        let sent = |element: u32| u128::from(assignments * self.exchange_bytes_per_token(element));
        let ep = match p.ep {
            1 => 0,
            _ => of_layers * moe * (sent(t.dispatch_bytes) + sent(t.activation_bytes)),
        };
        let hops = u128::from(p.pp) * u128::from(t.virtual_stages) - 1;
        let hop = u128::from(tokens * self.bytes_per_token(t.activation_bytes));
        // Each layer lives on one stage, so these are sums over one GPU of every stage.
        let per_chain = u128::from(p.block_size()) * u128::from(p.dp) * u128::from(t.micro_batches);
        Volumes {
            tp_bytes: per_chain * tp,
            cp_bytes: per_chain * of_layers * layers * u128::from(self.cp_bytes()),
            ep_bytes: per_chain * ep,
            pp_bytes: per_chain * passes * hops * hop,
            dp_bytes: if passes == 2 { self.gradient_volume() } else { 0 },
        }
    }

    /// A ring sum over n members sends 2 (n - 1) buffers in all.
    fn gradient_volume(&self) -> u128 {
        let (model, p) = (&self.model, &self.parallelism);
        let placement = self.placement();
        let sum = |scope, parameters: u64| {
            let members = placement.gradient_group_size(scope);
            let groups = self.parameter_copies() * p.block_size() * p.dp / members;
            let buffer = u128::from(parameters) * u128::from(self.training.gradient_bytes);
            u128::from(groups) * 2 * u128::from(members - 1) * buffer
        };
        let layers = (0..model.layers).map(|layer| {
            sum(Scope::Dense, self.dense_parameters(layer))
                + sum(Scope::Expert, self.expert_parameters(layer))
        });
        layers.sum::<u128>()
            + sum(Scope::Dense, model.embedding_weights().per_gpu(p.tp))
            + sum(Scope::Dense, self.head_parameters())
    }
}
