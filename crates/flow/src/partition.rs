//! Which flows belong together: the connected components of flows and links.

use crate::pool::Pool;

const NONE: u32 = u32::MAX;

/// Union-find over the flows of a pool, with memory that is used again.
#[derive(Debug)]
pub(crate) struct Partition {
    /// Of each flow, one of its component that comes no later; in the end, the component's number.
    parent: Vec<u32>,
    /// The first flow seen on each link of the fabric; all `NONE` between calls.
    first: Vec<u32>,
    /// Where the next flow of each component stands in the order; in the end, where its flows end.
    next: Vec<u32>,
    order: Vec<u32>,
}

impl Partition {
    pub fn new(links: usize) -> Self {
        Partition {
            parent: Vec::new(),
            first: vec![NONE; links],
            next: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Makes room for a link more.
    pub fn add_link(&mut self) {
        self.first.push(NONE);
    }

    /// Splits the pool's flows into components, in the order of each one's first flow; calls `each`
    /// with the flows of one component, in their order.
    pub fn split(&mut self, pool: &Pool, mut each: impl FnMut(&[u32])) {
        let flows = pool.len();
        self.parent.clear();
        for flow in 0..flows as u32 {
            self.parent.push(flow);
            let mut root = flow;
            for &link in pool.links_of(flow as usize) {
                let first = self.first[link as usize];
                if first == NONE {
                    self.first[link as usize] = flow;
                    continue;
                }
                let other = self.root(first);
                let (low, high) = (root.min(other), root.max(other));
                self.parent[high as usize] = low;
                root = low;
            }
        }
        for &link in &pool.links {
            self.first[link as usize] = NONE;
        }
        // A root is the smallest flow of its component, so each parent has its label before its children.
        self.next.clear();
        for flow in 0..flows {
            let above = self.parent[flow] as usize;
            let label = if above == flow { self.next.len() as u32 } else { self.parent[above] };
            if above == flow {
                self.next.push(0);
            }
            self.parent[flow] = label;
            self.next[label as usize] += 1;
        }
        let mut from = 0;
        for next in &mut self.next {
            from += std::mem::replace(next, from);
        }
        self.order.resize(flows, 0);
        for (flow, &label) in self.parent.iter().enumerate() {
            let at = &mut self.next[label as usize];
            self.order[*at as usize] = flow as u32;
            *at += 1;
        }
        let mut from = 0;
        for &end in &self.next {
            each(&self.order[from..end as usize]);
            from = end as usize;
        }
    }

    fn root(&mut self, mut flow: u32) -> u32 {
        while self.parent[flow as usize] != flow {
            let above = self.parent[self.parent[flow as usize] as usize];
            self.parent[flow as usize] = above;
            flow = above;
        }
        flow
    }
}
