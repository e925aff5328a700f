//! Gradients of weights: of a backward task, of a task right behind it, or of a slot of their own.

use super::Chain;
use crate::component::Component;
use crate::dag::{Action, TaskKind};
use crate::pipeline::Pass;
use lightloom_units::Time;

impl Chain<'_, '_> {
    /// The gradients of a layer's weights that its backward pass left.
    pub(super) fn weights(&mut self, layer: u32) {
        if self.all.job.model.is_moe(layer) {
            let done = self.weight_task(Component::Expert, layer as i32);
            self.expert_gradients(layer, done);
        } else {
            self.weight_task(Component::DenseMlp, layer as i32);
        }
        let done = self.weight_task(Component::Attention, layer as i32);
        self.dense_gradients(layer, done);
    }

    /// Those of the head.
    pub(super) fn head_weights(&mut self) {
        let done = self.weight_task(Component::Head, -1);
        let parameters = self.all.job.head_parameters();
        self.gradients(TaskKind::DenseGradient, -1, parameters, done);
    }

    pub(super) fn expert_gradients(&mut self, layer: u32, done: u32) {
        let parameters = self.all.job.expert_parameters(layer);
        self.gradients(TaskKind::ExpertGradient, layer as i32, parameters, done);
    }

    pub(super) fn dense_gradients(&mut self, layer: u32, done: u32) {
        let parameters = self.all.job.dense_parameters(layer);
        self.gradients(TaskKind::DenseGradient, layer as i32, parameters, done);
    }

    /// The gradients of a component's weights: of its backward task `whole`, of a task behind it, or left
    /// for later. Returns the task that completes them.
    pub(super) fn weights_behind(
        &mut self,
        component: Component,
        layer: i32,
        whole: u32,
    ) -> Option<u32> {
        match (self.all.job.splits(), self.defers) {
            (false, _) => Some(whole),
            (true, true) => None,
            (true, false) => Some(self.weight_task(component, layer)),
        }
    }

    /// Computes gradients of weights. Where chains share the block, nothing in this one waits for it.
    pub(super) fn weight_task(&mut self, component: Component, layer: i32) -> u32 {
        let kind = match component {
            Component::Attention => TaskKind::Attention,
            Component::Expert => TaskKind::Expert,
            Component::DenseMlp => TaskKind::DenseMlp,
            _ => TaskKind::Head,
        };
        let profile = self.all.profile;
        let time = profile.of_weights(component, self.backward_time(component, layer));
        let pass = std::mem::replace(&mut self.pass, Pass::Weight);
        let id = self.add(kind, layer, Action::Compute(time));
        self.pass = pass;
        match self.all.job.overlaps() {
            true => self.unit(id..id + 1),
            false => self.advance(id..id + 1),
        }
        id
    }

    /// The time of a component's whole backward pass.
    pub(super) fn backward_time(&self, component: Component, layer: i32) -> Time {
        match component {
            Component::Expert => {
                self.all.profile.expert_time(Pass::Backward, self.hottest(layer as u32))
            }
            _ => self.all.profile.time(component, Pass::Backward),
        }
    }

    /// Of a component's time in this pass what its own task takes: without the gradients of weights if
    /// these are apart, with what is computed anew where the most loaded rank has `hottest` assignments.
    pub(super) fn own(&self, component: Component, time: Time, hottest: u64) -> Time {
        let profile = self.all.profile;
        if self.pass != Pass::Backward {
            return time;
        }
        let own = match self.all.job.splits() {
            true => time - profile.of_weights(component, time),
            false => time,
        };
        own.saturating_add(profile.again(component, hottest))
    }

    /// As which pass tasks of this one are timed.
    pub(super) fn timed_as(&self) -> Pass {
        if self.pass == Pass::Recompute { Pass::Forward } else { self.pass }
    }
}
