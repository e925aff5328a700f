//! Which flows belong together: the connected components of flows and links.

use crate::pool::Pool;

const NONE: u32 = u32::MAX;

/// Union-find over the flows of a pool, with memory that is used again.
#[derive(Debug)]
pub(crate) struct Partition {
    parent: Vec<u32>,
    /// The first flow seen on each link of the fabric; all `NONE` between calls.
    first: Vec<u32>,
    label: Vec<u32>,
    sizes: Vec<u32>,
    order: Vec<u32>,
}

impl Partition {
    pub fn new(links: usize) -> Self {
        Partition {
            parent: Vec::new(),
            first: vec![NONE; links],
            label: Vec::new(),
            sizes: Vec::new(),
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
        self.parent.extend(0..flows as u32);
        for flow in 0..flows {
            for &link in pool.links_of(flow) {
                match self.first[link as usize] {
                    NONE => self.first[link as usize] = flow as u32,
                    other => self.join(flow as u32, other),
                }
            }
        }
        for &link in &pool.links {
            self.first[link as usize] = NONE;
        }
        // A root is the smallest flow of its component, so labels come out in order.
        self.label.clear();
        self.sizes.clear();
        for flow in 0..flows as u32 {
            let root = self.root(flow);
            let label = if root == flow {
                self.sizes.push(0);
                self.sizes.len() as u32 - 1
            } else {
                self.label[root as usize]
            };
            self.label.push(label);
            self.sizes[label as usize] += 1;
        }
        let mut starts = Vec::with_capacity(self.sizes.len() + 1);
        let mut next = 0;
        for &size in &self.sizes {
            starts.push(next);
            next += size;
        }
        self.order.clear();
        self.order.resize(flows, 0);
        for (flow, &label) in self.label.iter().enumerate() {
            let at = &mut starts[label as usize];
            self.order[*at as usize] = flow as u32;
            *at += 1;
        }
        let mut from = 0;
        for &size in &self.sizes {
            each(&self.order[from..from + size as usize]);
            from += size as usize;
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

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        let (low, high) = (a.min(b), a.max(b));
        self.parent[high as usize] = low;
    }
}
