//! A component of classes of flows that are alike, as the refinement finds them.

use super::{Component, Flow, PAD};
use crate::refinement::{Members, Quotient};
use lightloom_units::Time;

impl Component {
    /// Takes over the classes of a phase that starts now.
    pub fn fill_by_classes(&mut self, quotient: Quotient, now: Time) {
        self.clear();
        (self.updated, self.born) = (now, now);
        let hops = quotient.classes.iter().map(|class| class.path.len());
        self.stride = hops.fold(1, usize::max);
        self.width = 2 * self.stride;
        self.push_link(f64::INFINITY);
        for &capacity in &quotient.capacity {
            self.push_link(capacity);
        }
        for class in quotient.classes {
            let bytes = class.bytes as f64;
            self.flows.push(Flow { mark: bytes, server: PAD });
            for &(kind, crossing) in &class.path {
                self.path.push(kind + 1);
                self.crossing.push(crossing);
                self.links[kind as usize + 1].to += 1;
            }
            self.path.resize(self.flows.len() * self.stride, PAD);
            self.crossing.resize(self.path.len(), 0);
            self.lanes.push(class.lanes);
        }
        self.names = quotient.names;
        self.members_of = Some(quotient.members);
        self.index_members();
    }

    /// Gives up its classes, if any are left: where to find their members, and what is left of each
    /// member of a class; none of a class that is done.
    pub fn give_up_classes(&mut self) -> Option<(Members, Vec<Option<f64>>)> {
        let members = self.members_of.take().filter(|_| self.live > 0)?;
        let left = |flow: &Flow| {
            let sent = self.links[flow.server as usize].sent;
            (flow.mark < f64::INFINITY).then_some(flow.mark - sent)
        };
        Some((members, self.flows.iter().map(left).collect()))
    }
}
