//! How long flows take by themselves: all start at once, and none come later.
//!
//! Rates and ends are those of a run, but components need not wait for one another: each goes on to its
//! end, and one that is over before another by the loads of its links need not begin.
//! Checked: against runs of the engine.

use crate::component::filling::Scratch;
use crate::component::plan::Plan;
use crate::component::{Component, Done};
use crate::links::Links;
use crate::partition::Partition;
use crate::pool::{Pool, Tag};
use lightloom_fabric::{Fabric, LinkId};
use lightloom_units::Time;
use std::cmp::Reverse;

/// Flows that start at once, and memory for the next.
///
/// ```
/// use lightloom_fabric::{Cluster, FabricSpec, GpuId, build};
/// use lightloom_flow::Alone;
/// use lightloom_units::{BitRate, Time};
/// let spec = FabricSpec::fat_tree(BitRate::from_gbps(400), Time::from_us(1));
/// let fabric = build(&Cluster::of(16, 8), &spec, 1, &[]).unwrap();
/// let mut alone = Alone::new(&fabric);
/// let mut path = Vec::new();
/// fabric.route(GpuId(0), GpuId(9), 7, &mut path).unwrap();
/// for _ in 0..2 {
///     alone.add(&path, 50_000_000); // 1 ms by itself
/// }
/// let delay: Time = path.iter().map(|&link| fabric.link(link).delay).sum();
/// assert_eq!(alone.end(0.0, Time::MAX), Time::from_ms(2) + delay);
/// ```
pub struct Alone {
    links: Links,
    pool: Pool,
    /// By flow.
    delays: Vec<Time>,
    loads: Vec<Load>,
    partition: Partition,
    /// Flows, part by part.
    flows: Vec<u32>,
    parts: Vec<Part>,
    local: Vec<u32>,
    scratch: Scratch,
    done: Vec<Done>,
    /// A component that waits for twins, and the next one.
    last: Plan,
    next: Plan,
    /// Flows of components that are packed, and one of what they become.
    packed: Pool,
    part: Plan,
    free: Vec<Component>,
}

/// What flows put on a link.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    bytes: f64,
    flows: f64,
    /// The largest of them.
    largest: f64,
}

/// Flows that share links, directly or through one another.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: usize,
    to: usize,
    /// It is not over before \[ps\]: by the bytes on each link.
    least: u64,
    /// It is over by then \[ps\]: no flow is slower than an equal share of its links at the start, for
    /// none come.
    most: u64,
}

impl Alone {
    /// Nothing yet on the links of a fabric.
    pub fn new(fabric: &Fabric) -> Self {
        let links = Links::new(fabric, &[]);
        Alone {
            pool: Pool::default(),
            delays: vec![],
            loads: vec![Load::default(); links.len()],
            partition: Partition::new(links.len()),
            flows: vec![],
            parts: vec![],
            local: vec![0; links.len()],
            scratch: Scratch::default(),
            done: vec![],
            last: Plan::default(),
            next: Plan::default(),
            packed: Pool::default(),
            part: Plan::default(),
            free: vec![],
            links,
        }
    }

    /// A link that stands for several beside one another, which flows then take as one.
    pub fn bundle(&mut self, links: &[LinkId]) -> LinkId {
        self.loads.push(Load::default());
        self.local.push(0);
        self.partition.add_link();
        self.links.bundle(links)
    }

    /// So many bytes over a path.
    pub fn add(&mut self, path: &[LinkId], bytes: u64) {
        let tag = Tag { slot: 0, lane: self.delays.len() as u32 };
        self.delays.push(self.links.delay(path));
        self.pool.push(self.links.binding(path), bytes as f64, tag);
    }

    /// When all that were added have arrived, or some time not before `enough` if that is later; nothing
    /// is left then. `tolerance` as [`FlowEngine`](crate::FlowEngine) has it.
    pub fn end(&mut self, tolerance: f64, enough: Time) -> Time {
        self.part();
        let (pool, parts) = (std::mem::take(&mut self.pool), std::mem::take(&mut self.parts));
        let mut end = Time::ZERO;
        let mut waiting = false;
        for part in &parts {
            if end >= enough || part.most <= end.ps() {
                continue;
            }
            let (capacity, flows) = (&self.links.capacity, &self.flows[part.from..part.to]);
            self.next.gather(&pool, flows, capacity, &mut self.local, (Time::ZERO, Time::ZERO));
            if waiting && !self.last.absorb(&self.next) {
                end = end.max(self.run(tolerance, enough));
                waiting = false;
            }
            if !waiting {
                std::mem::swap(&mut self.last, &mut self.next);
                waiting = true;
            }
        }
        if waiting {
            end = end.max(self.run(tolerance, enough));
        }
        (self.pool, self.parts) = (pool, parts);
        self.pool.clear();
        self.delays.clear();
        end
    }

    /// Finds the parts, those that take longest by the bytes on their links first.
    fn part(&mut self) {
        self.flows.clear();
        self.parts.clear();
        let Alone { pool, loads, flows, parts, delays, links, .. } = self;
        self.partition.split(pool, |some| {
            let from = flows.len();
            flows.extend(some);
            let (mut least, mut most, mut delay) = (0.0f64, 0.0f64, Time::ZERO);
            let each = || some.iter().map(|&flow| flow as usize);
            for flow in each() {
                delay = delay.max(delays[flow]);
                for &link in pool.links_of(flow) {
                    loads[link as usize].add(pool.remaining[flow]);
                }
            }
            for &link in each().flat_map(|flow| pool.links_of(flow)) {
                let load = std::mem::take(&mut loads[link as usize]);
                let capacity = links.capacity[link as usize];
                least = least.max(load.bytes / capacity);
                most = most.max(load.flows * load.largest / capacity);
            }
            let most = Time::from_ps(most.ceil() as u64).saturating_add(delay).ps();
            parts.push(Part { from, to: flows.len(), least: least as u64, most });
        });
        parts.sort_by_key(|part| Reverse(part.least));
    }

    /// When the last flow of the component that waits has arrived, or some time not before `enough`.
    fn run(&mut self, tolerance: f64, enough: Time) -> Time {
        let mut first = self.free.pop().unwrap_or_default();
        first.take_up(&self.last);
        let (mut end, mut left) = (Time::ZERO, vec![first]);
        while let Some(mut component) = left.pop() {
            component.solve(&mut self.scratch);
            while end < enough
                && let Some(now) = component.next_done(tolerance)
            {
                component.advance(now, &mut self.done);
                for Done { tag, drained, .. } in self.done.drain(..) {
                    end = end.max(drained.saturating_add(self.delays[tag.lane as usize]));
                }
                if component.is_sparse() {
                    self.pack(&mut component, now, &mut left);
                    break;
                }
                component.solve(&mut self.scratch);
            }
            self.free.push(component);
        }
        end
    }

    /// Makes new components of what is left of one.
    fn pack(&mut self, component: &mut Component, now: Time, left: &mut Vec<Component>) {
        component.drain_into(&mut self.packed);
        let Alone { packed, part, partition, links, local, free, .. } = self;
        partition.split(packed, |flows| {
            part.gather(packed, flows, &links.capacity, local, (Time::ZERO, now));
            let mut component = free.pop().unwrap_or_default();
            component.take_up(part);
            left.push(component);
        });
        packed.clear();
    }
}

impl Load {
    fn add(&mut self, bytes: f64) {
        self.bytes += bytes;
        self.flows += 1.0;
        self.largest = self.largest.max(bytes);
    }
}
