//! Degrees of parallelism, and which GPU holds which part (Megatron's order).
//!
//! Modelled: `gpu = (((pp * DP + dp) * D + data) * CP + cp) * TP + tp`, so that a block (one replica
//! at one stage) is a run of consecutive GPUs, and its TP ranks are neighbours. D are the block's ranks with
//! sequences of their own: EP, unless experts have tensor parallelism of their own ([`crate::folding`]).
//! Ignored: other rank orders.
//! Checked: the map is a bijection, and each kind of group partitions its stage or block.

use crate::error::{WorkloadError, require, within};
use serde::Deserialize;
use std::ops::Range;

/// Degrees of parallelism. `dp` counts replicas of the block; each EP rank is a data-parallel rank of its own
/// for all that is not an expert. With `etp` experts are laid out by themselves (`folding.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parallelism {
    /// Tensor-parallel degree (sequence parallelism included).
    pub tp: u32,
    /// Context-parallel degree.
    pub cp: u32,
    /// Expert-parallel degree.
    pub ep: u32,
    /// Tensor-parallel degree of routed experts; without it they are shared by TP as all else is.
    #[serde(default)]
    pub etp: Option<u32>,
    /// Replicas of the block.
    pub dp: u32,
    /// Pipeline stages.
    pub pp: u32,
}

/// One replica at one pipeline stage: consecutive GPUs that advance together, EP x CP x TP of them unless
/// there is ETP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// Data-parallel replica.
    pub replica: u32,
    /// Pipeline stage.
    pub stage: u32,
}

/// A GPU's rank in each dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coordinates {
    /// Tensor-parallel rank.
    pub tp: u32,
    /// Context-parallel rank.
    pub cp: u32,
    /// Rank of its block's with sequences of their own: without ETP the expert-parallel rank.
    pub data: u32,
    /// Data-parallel replica.
    pub dp: u32,
    /// Pipeline stage.
    pub pp: u32,
}

/// Parameters whose gradients are summed over the same GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everything but routed experts: summed over EP x CP x DP, for each TP rank.
    Dense,
    /// Routed experts: summed over CP x DP, for each EP and TP rank; with ETP over EDP, for each EP and
    /// ETP rank.
    Expert,
}

/// A dimension inside a block along which a ring collective runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Over tensor-parallel ranks: consecutive GPUs.
    Tp,
    /// Over context-parallel ranks.
    Cp,
    /// Over the ranks that share an expert's matrices, where ETP is given: consecutive GPUs.
    Etp,
}

/// Where each rank lives.
///
/// ```
/// use lightloom_workload::{BlockId, Parallelism, Placement};
/// let placement = Placement::new(Parallelism { tp: 4, cp: 1, ep: 8, etp: None, dp: 8, pp: 4 });
/// assert_eq!(placement.gpus(), 1024);
/// assert_eq!(placement.block_gpus(BlockId { replica: 1, stage: 0 }), 32..64);
/// assert_eq!(placement.gpu(3, 0, 7, 7, 3), 1023);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub(crate) degrees: Parallelism,
    /// Whether stage s holds the layers of the last but s, too.
    mirrored: bool,
}

/// More GPUs than this are refused, so that every index fits in 32 bits.
pub(crate) const MOST_GPUS: u32 = 1 << 22;

impl Parallelism {
    /// Checks that every degree is at least 1 and that their product is a cluster.
    ///
    /// # Errors
    /// Names the degree that is out of range.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        let degrees = [
            ("parallelism.tp", self.tp),
            ("parallelism.cp", self.cp),
            ("parallelism.ep", self.ep),
            ("parallelism.dp", self.dp),
            ("parallelism.pp", self.pp),
        ];
        let mut gpus = 1u64;
        for (key, degree) in degrees {
            within(key, degree, 1..=MOST_GPUS)?;
            gpus = gpus.saturating_mul(degree.into());
            require(gpus <= u64::from(MOST_GPUS) || self.etp.is_some(), key, degree, || {
                format!("tp * cp * ep * dp * pp must be at most {MOST_GPUS} GPUs")
            })?;
        }
        self.validate_etp()
    }

    /// GPUs of the job. Meaningful for validated degrees.
    pub fn gpus(&self) -> u32 {
        self.block_size().saturating_mul(self.dp).saturating_mul(self.pp)
    }
}

impl Placement {
    /// The placement of validated degrees.
    pub fn new(degrees: Parallelism) -> Self {
        Placement { degrees, mirrored: false }
    }

    /// The same where each stage holds the layers of the one opposite, too, as in DualPipe: gradients are
    /// summed over both. There is an even number of stages.
    pub fn mirrored(degrees: Parallelism) -> Self {
        Placement { degrees, mirrored: true }
    }

    /// Stages that hold the layers of one.
    pub(crate) fn copies(&self, stage: u32) -> impl Iterator<Item = u32> + use<> {
        let other = self.degrees.pp - 1 - stage;
        let both = self.mirrored.then_some(stage.max(other));
        std::iter::once(if self.mirrored { stage.min(other) } else { stage }).chain(both)
    }

    /// The degrees of parallelism.
    pub fn degrees(&self) -> Parallelism {
        self.degrees
    }

    /// GPUs of the job.
    pub fn gpus(&self) -> u32 {
        self.degrees.gpus()
    }

    /// The GPU at these ranks.
    pub fn gpu(&self, tp: u32, cp: u32, data: u32, dp: u32, pp: u32) -> u32 {
        let d = &self.degrees;
        (((pp * d.dp + dp) * d.data_ranks() + data) * d.cp + cp) * d.tp + tp
    }

    /// The ranks of a GPU: the inverse of [`Placement::gpu`].
    pub fn coordinates(&self, gpu: u32) -> Coordinates {
        let d = &self.degrees;
        let (tp, rest) = (gpu % d.tp, gpu / d.tp);
        let (cp, rest) = (rest % d.cp, rest / d.cp);
        let (data, rest) = (rest % d.data_ranks(), rest / d.data_ranks());
        Coordinates { tp, cp, data, dp: rest % d.dp, pp: rest / d.dp }
    }

    /// The GPUs of a block, consecutive.
    pub fn block_gpus(&self, block: BlockId) -> Range<u32> {
        let size = self.degrees.block_size();
        let start = (block.stage * self.degrees.dp + block.replica) * size;
        start..start + size
    }

    /// The block that holds a GPU.
    pub fn block_of(&self, gpu: u32) -> BlockId {
        let block = gpu / self.degrees.block_size();
        BlockId { replica: block % self.degrees.dp, stage: block / self.degrees.dp }
    }

    /// All blocks, by stage and then by replica.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + use<> {
        let Parallelism { dp, pp, .. } = self.degrees;
        (0..pp).flat_map(move |stage| (0..dp).map(move |replica| BlockId { replica, stage }))
    }

    /// The GPU of a block at ranks (tp, cp, data).
    pub fn gpu_in_block(&self, block: BlockId, tp: u32, cp: u32, data: u32) -> u32 {
        self.gpu(tp, cp, data, block.replica, block.stage)
    }

    /// The rings of a block along an axis, each in rank order.
    ///
    /// ```
    /// use lightloom_workload::{Axis, BlockId, Parallelism, Placement};
    /// let placement = Placement::new(Parallelism { tp: 2, cp: 2, ep: 1, etp: None, dp: 1, pp: 1 });
    /// let block = BlockId { replica: 0, stage: 0 };
    /// assert_eq!(placement.axis_groups(block, Axis::Tp), [[0, 1], [2, 3]]);
    /// assert_eq!(placement.axis_groups(block, Axis::Cp), [[0, 2], [1, 3]]);
    /// ```
    pub fn axis_groups(&self, block: BlockId, axis: Axis) -> Vec<Vec<u32>> {
        let Parallelism { tp, cp, .. } = self.degrees;
        if axis == Axis::Etp {
            let shards = self.degrees.expert_shards() as usize;
            let gpus: Vec<u32> = self.block_gpus(block).collect();
            return gpus.chunks(shards).map(<[u32]>::to_vec).collect();
        }
        let at = |data, c, t| self.gpu_in_block(block, t, c, data);
        (0..self.degrees.data_ranks())
            .flat_map(|data| match axis {
                Axis::Cp => (0..tp)
                    .map(|t| (0..cp).map(|c| at(data, c, t)).collect())
                    .collect::<Vec<Vec<u32>>>(),
                _ => (0..cp).map(|c| (0..tp).map(|t| at(data, c, t)).collect()).collect(),
            })
            .collect()
    }

    /// GPUs of one gradient group.
    pub fn gradient_group_size(&self, scope: Scope) -> u32 {
        let d = &self.degrees;
        let copies = if self.mirrored { 2 } else { 1 };
        copies
            * d.dp
            * match scope {
                Scope::Dense => d.data_ranks() * d.cp,
                Scope::Expert => d.expert_copies(),
            }
    }

    /// The groups over which a stage's gradients are summed, each in ascending order of GPUs.
    ///
    /// ```
    /// use lightloom_workload::{Parallelism, Placement, Scope};
    /// let placement = Placement::new(Parallelism { tp: 1, cp: 1, ep: 2, etp: None, dp: 2, pp: 1 });
    /// assert_eq!(placement.gradient_groups(0, Scope::Dense), [[0, 1, 2, 3]]);
    /// assert_eq!(placement.gradient_groups(0, Scope::Expert), [[0, 2], [1, 3]]);
    /// ```
    pub fn gradient_groups(&self, stage: u32, scope: Scope) -> Vec<Vec<u32>> {
        if scope == Scope::Expert && self.degrees.etp.is_some() {
            return self.folded_gradient_groups(stage);
        }
        let Parallelism { tp, cp, dp, .. } = self.degrees;
        let data = self.degrees.data_ranks();
        let experts = match scope {
            Scope::Dense => 1,
            Scope::Expert => data,
        };
        let mut groups = Vec::with_capacity((experts * tp) as usize);
        for first in 0..experts {
            for t in 0..tp {
                let mut group = Vec::with_capacity(self.gradient_group_size(scope) as usize);
                for stage in self.copies(stage) {
                    for d in 0..dp {
                        for e in (first..data).step_by(experts as usize) {
                            group.extend((0..cp).map(|c| self.gpu(t, c, e, d, stage)));
                        }
                    }
                }
                groups.push(group);
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn placements() -> impl Strategy<Value = Placement> {
        let etp = prop::option::of(1u32..5);
        (1u32..4, 1u32..4, 1u32..5, etp, 1u32..4, 1u32..4).prop_map(|(tp, cp, ep, etp, dp, pp)| {
            Placement::new(Parallelism { tp, cp, ep, etp, dp, pp })
        })
    }

    /// Every GPU of `range` in exactly one group.
    fn partitions(groups: &[Vec<u32>], range: Range<u32>) -> bool {
        let mut members: Vec<u32> = groups.concat();
        members.sort_unstable();
        members.into_iter().eq(range)
    }

    proptest! {
        #[test]
        fn ranks_and_gpus_are_a_bijection(placement in placements()) {
            for gpu in 0..placement.gpus() {
                let c = placement.coordinates(gpu);
                prop_assert_eq!(placement.gpu(c.tp, c.cp, c.data, c.dp, c.pp), gpu);
                let block = placement.block_of(gpu);
                prop_assert_eq!(block, BlockId { replica: c.dp, stage: c.pp });
                prop_assert!(placement.block_gpus(block).contains(&gpu));
            }
            let blocks: Vec<u32> = placement.blocks().flat_map(|b| placement.block_gpus(b)).collect();
            prop_assert!(blocks.into_iter().eq(0..placement.gpus()));
        }

        #[test]
        fn groups_partition_and_share_what_they_should(placement in placements()) {
            let d = placement.degrees();
            for block in placement.blocks() {
                for axis in [Axis::Tp, Axis::Cp, Axis::Etp] {
                    let groups = placement.axis_groups(block, axis);
                    prop_assert!(partitions(&groups, placement.block_gpus(block)));
                }
            }
            let stage_gpus = d.block_size() * d.dp;
            for stage in 0..d.pp {
                for scope in [Scope::Dense, Scope::Expert] {
                    let groups = placement.gradient_groups(stage, scope);
                    prop_assert!(partitions(&groups, stage * stage_gpus..(stage + 1) * stage_gpus));
                    for group in &groups {
                        prop_assert_eq!(group.len() as u32, placement.gradient_group_size(scope));
                        prop_assert!(group.is_sorted());
                        let first = placement.coordinates(group[0]);
                        for &gpu in group {
                            let c = placement.coordinates(gpu);
                            prop_assert_eq!(c.pp, stage);
                            if scope == Scope::Dense || d.etp.is_none() {
                                prop_assert_eq!(c.tp, first.tp);
                                prop_assert!(scope == Scope::Dense || c.data == first.data);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn more_gpus_than_any_cluster_has_are_refused() {
        let most = 1 << 22;
        let huge = Parallelism { tp: most, cp: most, ep: most, etp: None, dp: most, pp: most };
        assert!(huge.validate().unwrap_err().to_string().starts_with("parallelism.cp = 4194304:"));
    }
}
