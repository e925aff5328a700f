//! Experts of a layer, between what gathers their tokens and what scatters their results.

use super::Chain;
use crate::component::Component;
use crate::dag::{Action, TaskKind};
use crate::parallelism::Axis;

impl Chain<'_, '_> {
    /// Routed and shared experts between collectives: an all-gather of the tokens received
    /// and a reduce-scatter of the results (backward: their mirror images). See [`Chain::around`].
    pub(super) fn expert(&mut self, layer: u32) -> u32 {
        let job = self.all.job;
        let hottest = self.hottest(layer);
        let shared = match job.model.shared_experts {
            0 => 0,
            _ => job.tokens_per_rank(),
        };
        let [before, behind] = self.around();
        let tokens = (hottest, shared);
        self.around_experts(layer, tokens, [Axis::Tp, Axis::Etp], before);
        let time = self.all.profile.expert_time(self.timed_as(), hottest);
        let time = self.own(Component::Expert, time, hottest);
        let id = self.add(TaskKind::Expert, layer as i32, Action::Compute(time));
        self.advance(id..id + 1);
        self.around_experts(layer, tokens, [Axis::Etp, Axis::Tp], behind);
        id
    }

    /// The collectives on one side of a layer's experts, with tokens for routed and for shared ones: in one
    /// where TP ranks share both, otherwise along each axis by itself. ETP ranks never have the same tokens, so
    /// that they gather and scatter whatever TP ranks do.
    fn around_experts(
        &mut self,
        layer: u32,
        (routed, shared): (u64, u64),
        order: [Axis; 2],
        collectives: u32,
    ) {
        let (job, layer) = (self.all.job, layer as i32);
        let times = u64::from(collectives);
        if job.parallelism.expert_shards() == job.parallelism.tp {
            self.tensor_parallel(layer, times * job.tp_bytes(routed + shared), collectives);
            return;
        }
        for axis in order {
            match axis {
                Axis::Etp => self.ring(layer, axis, job.etp_bytes(routed), 1),
                _ if shared == 0 => {}
                _ => self.tensor_parallel(layer, times * job.tp_bytes(shared), collectives),
            }
        }
    }
}
