//! A new component: its flows, its links, and which flow is on which link.

use super::plan::Plan;
use super::{Component, Flow, Link, PAD, weight};

impl Component {
    /// Becomes what a plan begins with.
    pub fn take_up(&mut self, plan: &Plan) {
        self.clear();
        (self.updated, self.born) = (plan.began, plan.born);
        (self.stride, self.width) = (plan.stride, plan.stride);
        self.push_link(f64::INFINITY);
        self.flows.extend(plan.marks.iter().map(|&mark| Flow { mark, server: PAD }));
        self.tag.clone_from(&plan.tag);
        self.names.clone_from(&plan.names);
        self.path.clone_from(&plan.path);
        for &capacity in &plan.capacity {
            self.push_link(capacity);
        }
        for &at in self.path.iter().filter(|&&at| at != PAD) {
            self.links[at as usize].to += 1;
        }
        self.index_members();
    }

    pub(super) fn clear(&mut self) {
        self.flows.clear();
        self.tag.clear();
        self.lanes.clear();
        self.members_of = None;
        self.path.clear();
        self.crossing.clear();
        self.names.clear();
        self.links.clear();
        self.serving.clear();
        self.given.clear();
        self.right_below = 0.0;
    }

    pub(super) fn push_link(&mut self, capacity: f64) -> u32 {
        let (level, due) = (f64::INFINITY, f64::INFINITY);
        let (from, served, to) = (0, 0, 0);
        self.links.push(Link { capacity, level, sent: 0.0, due, from, served, to, load: 0.0 });
        self.links.len() as u32 - 1
    }

    /// Counting sort of the flows by link. Links come with their number of members in `to`.
    pub fn index_members(&mut self) {
        let mut next = 0;
        for link in &mut self.links {
            let members = link.to;
            (link.from, link.served, link.to) = (next, next, next);
            next += members;
        }
        self.live = self.flows.len();
        self.links[PAD as usize].load = f64::MAX; // each path may cross it, and it never fills up
        self.members.resize(next as usize * self.width, 0);
        match (self.stride, self.width) {
            (1, 1) => self.write_members(1, 1),
            (2, 2) => self.write_members(2, 2),
            (stride, width) => self.write_members(stride, width),
        }
    }

    #[inline(always)]
    fn write_members(&mut self, stride: usize, width: usize) {
        for (flow, path) in self.path.chunks_exact(stride).enumerate() {
            for (hop, &at) in path.iter().enumerate() {
                if at == PAD {
                    continue;
                }
                let link = &mut self.links[at as usize];
                let record = &mut self.members[link.to as usize * width..][..width];
                link.to += 1;
                let (others, crossing) = record.split_at_mut(stride);
                first(hop, path, others);
                others[0] = flow as u32;
                if !crossing.is_empty() {
                    first(hop, &self.crossing[flow * stride..][..stride], crossing);
                }
                link.load += f64::from(weight(record, stride, 0));
            }
        }
    }
}

/// Writes `path` with the field at `hop` first.
#[inline(always)]
fn first(hop: usize, path: &[u32], record: &mut [u32]) {
    if let (&[one, other], [first, second]) = (path, &mut *record) {
        (*first, *second) = if hop == 0 { (one, other) } else { (other, one) };
        return;
    }
    record[0] = path[hop];
    record[1..=hop].copy_from_slice(&path[..hop]);
    record[hop + 1..].copy_from_slice(&path[hop + 1..]);
}
