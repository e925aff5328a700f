//! Experts that are laid out over the GPUs of a stage by themselves (MoE Parallel Folding, arXiv 2504.14960,
//! Section 3.2; Megatron-Core's `--expert-tensor-parallel-size`).
//!
//! Modelled: attention and all that is no routed expert has a stage's GPUs as (data, CP, TP), experts have the
//! same GPUs as (EDP, EP, ETP), the innermost last: `gpu = (edp * EP + ep) * ETP + etp`. An expert's matrices are
//! shared by ETP consecutive GPUs, experts by EP times as many, and gradients of experts are summed over EDP.
//! A block is the fewest consecutive GPUs that cut neither a group of attention nor one of experts,
//! lcm(TP x CP, ETP x EP) of them; so ETP x EP divides the GPUs of a stage, TP x CP x data x DP. A GPU sends the
//! tokens that sequence parallelism leaves it to its EP group, and its ETP group gathers what came to any of them. Where
//! a block holds several groups of experts, they route alike, as CP ranks do without ETP.
//! Without ETP experts are shared by TP, ranks of one EP group are CP x TP apart, and their gradients are summed
//! over CP x DP. Both are the same layout if ETP = TP and CP = 1.
//! Ignored: other orders of ranks.
//! Checked: groups partition blocks; the same groups where layouts agree; bytes by hand in `tests/all/folding.rs`.

use crate::error::{WorkloadError, require, within};
use crate::parallelism::{MOST_GPUS, Parallelism, Placement};

impl Parallelism {
    /// GPUs of one block. Meaningful for validated degrees, as all that follows.
    ///
    /// ```
    /// # use lightloom_workload::Parallelism;
    /// let p = Parallelism { tp: 8, cp: 1, ep: 4, etp: None, dp: 2, pp: 1 };
    /// assert_eq!(p.block_size(), 32);
    /// assert_eq!(Parallelism { etp: Some(1), ..p }.block_size(), 8);
    /// assert_eq!(Parallelism { tp: 2, etp: Some(3), ..p }.block_size(), 12);
    /// ```
    pub fn block_size(&self) -> u32 {
        let attention = self.cp.saturating_mul(self.tp);
        match self.etp {
            None => self.ep.saturating_mul(attention),
            Some(etp) => {
                let experts = self.ep.saturating_mul(etp);
                let common = common(attention.into(), experts.into());
                let block = u64::from(attention) / common * u64::from(experts);
                block.try_into().unwrap_or(u32::MAX)
            }
        }
    }

    /// Ranks of a block that have sequences of their own, each TP x CP GPUs: EP of them without ETP.
    pub fn data_ranks(&self) -> u32 {
        self.block_size() / (self.tp * self.cp)
    }

    /// GPUs that share an expert's matrices.
    pub fn expert_shards(&self) -> u32 {
        self.etp.unwrap_or(self.tp)
    }

    /// How often a block holds each expert.
    pub fn expert_copies(&self) -> u32 {
        match self.etp {
            None => self.cp,
            Some(etp) => self.block_size() / (etp * self.ep),
        }
    }

    /// Consecutive GPUs that hold an EP group.
    pub fn exchange_span(&self) -> u32 {
        self.etp.map_or_else(|| self.block_size(), |etp| etp * self.ep)
    }

    pub(crate) fn validate_etp(&self) -> Result<(), WorkloadError> {
        let Some(etp) = self.etp else { return Ok(()) };
        let key = "parallelism.etp";
        within(key, etp, 1..=MOST_GPUS)?;
        // Each degree is at most 2^22.
        let wide = |a: u32, b: u32| u64::from(a) * u64::from(b);
        let (attention, experts) = (wide(self.tp, self.cp), wide(etp, self.ep));
        let block = attention / common(attention, experts);
        let gpus = [experts, wide(self.dp, self.pp)].into_iter().try_fold(block, u64::checked_mul);
        require(gpus.is_some_and(|gpus| gpus <= MOST_GPUS.into()), key, etp, || {
            format!("lcm(tp * cp, etp * ep) * dp * pp must be at most {MOST_GPUS} GPUs")
        })
    }
}

impl Placement {
    /// EP groups of a block.
    pub fn exchanges(&self) -> u32 {
        self.degrees.block_size() / self.degrees.ep
    }

    /// The place in its block of an EP rank in the `nth` of the block's EP groups.
    ///
    /// ```
    /// use lightloom_workload::{Parallelism, Placement};
    /// let p = Parallelism { tp: 4, cp: 1, ep: 2, etp: None, dp: 1, pp: 1 };
    /// let groups = |placement: Placement| -> Vec<Vec<u32>> {
    ///     let nth = 0..placement.exchanges();
    ///     nth.map(|nth| (0..2).map(|rank| placement.exchange_place(rank, nth)).collect()).collect()
    /// };
    /// assert_eq!(groups(Placement::new(p)), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    /// let folded = Placement::new(Parallelism { etp: Some(1), ..p });
    /// assert_eq!(groups(folded), [[0, 1], [2, 3]]);
    /// ```
    pub fn exchange_place(&self, rank: u32, nth: u32) -> u32 {
        let apart = self.exchange_stride();
        (nth / apart * self.degrees.ep + rank) * apart + nth % apart
    }

    /// How many GPUs neighbours in an EP group are apart.
    pub fn exchange_stride(&self) -> u32 {
        let d = &self.degrees;
        d.etp.unwrap_or(d.tp * d.cp)
    }

    /// Groups that sum gradients of experts, where there is ETP.
    pub(crate) fn folded_gradient_groups(&self, stage: u32) -> Vec<Vec<u32>> {
        let d = &self.degrees;
        let (span, block) = (d.exchange_span(), d.block_size());
        let member = |first: u32| {
            let stages = self.copies(stage).flat_map(|stage| {
                let first = stage * d.dp * block;
                (first..first + d.dp * block).step_by(span as usize)
            });
            stages.map(|edp| edp + first).collect()
        };
        (0..span).map(member).collect()
    }
}

/// The greatest common divisor of two that are not 0.
fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallelism::{Axis, BlockId, Scope};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn groups_of_an_exchange_partition_a_block(
            (tp, cp, ep) in (1u32..5, 1u32..4, 1u32..7), etp in prop::option::of(1u32..5),
        ) {
            let placement = Placement::new(Parallelism { tp, cp, ep, etp, dp: 1, pp: 1 });
            let groups: Vec<Vec<u32>> = (0..placement.exchanges())
                .map(|nth| (0..ep).map(|rank| placement.exchange_place(rank, nth)).collect())
                .collect();
            let mut all = groups.concat();
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..placement.gpus()));
            let span = placement.degrees().exchange_span();
            for group in groups {
                prop_assert!(group.is_sorted() && group[0] / span == group[ep as usize - 1] / span);
            }
        }

        #[test]
        fn experts_shared_by_as_many_as_attention_are_where_they_were(
            (tp, ep, dp, pp) in (1u32..5, 1u32..7, 1u32..4, 1u32..4),
        ) {
            let plain = Parallelism { tp, cp: 1, ep, etp: None, dp, pp };
            let folded = Parallelism { etp: Some(tp), ..plain };
            let [plain, folded] = [plain, folded].map(Placement::new);
            prop_assert_eq!(plain.gpus(), folded.gpus());
            prop_assert_eq!(plain.exchanges(), folded.exchanges());
            for stage in 0..pp {
                for scope in [Scope::Dense, Scope::Expert] {
                    let groups = plain.gradient_groups(stage, scope);
                    prop_assert_eq!(groups, folded.gradient_groups(stage, scope));
                }
            }
            let block = BlockId { replica: dp - 1, stage: 0 };
            let groups = plain.axis_groups(block, Axis::Tp);
            prop_assert_eq!(&groups, &folded.axis_groups(block, Axis::Tp));
            prop_assert_eq!(&groups, &folded.axis_groups(block, Axis::Etp));
            for nth in 0..plain.exchanges() {
                let places = |p: &Placement| -> Vec<u32> {
                    (0..ep).map(|rank| p.exchange_place(rank, nth)).collect()
                };
                prop_assert_eq!(places(&plain), places(&folded));
            }
        }
    }

    /// Four GPUs share attention, each has experts of its own: (edp, ep) of a stage of eight.
    #[test]
    fn gradients_of_experts_are_summed_over_edp() {
        let placement =
            Placement::new(Parallelism { tp: 4, cp: 1, ep: 2, etp: Some(1), dp: 2, pp: 1 });
        assert_eq!(placement.gradient_groups(0, Scope::Expert), [[0, 2, 4, 6], [1, 3, 5, 7]]);
        assert_eq!(placement.gradient_groups(0, Scope::Dense), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    }

    #[test]
    fn more_gpus_than_any_cluster_has_are_refused() {
        let most = 1 << 22;
        let p = Parallelism { tp: 1, cp: 1, ep: 3, etp: Some(most), dp: 1, pp: 1 };
        let refused = p.validate().expect_err("too many").to_string();
        assert!(refused.starts_with("parallelism.etp = 4194304:"), "{refused}");
        for (tp, cp, ep, etp) in [(most, 1, 1, 3), (1 << 11, 1 << 11, 1, 3), (7, 1, most, 1)] {
            let p = Parallelism { tp, cp, ep, etp: Some(etp), dp: 1, pp: 1 };
            assert!(p.validate().is_err(), "{p:?}");
        }
    }
}
