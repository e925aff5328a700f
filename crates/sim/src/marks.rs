//! What of a task graph holds for every fabric, as an outline needs it: the order of tasks, what each
//! all-to-all's busiest server and GPU send, what is computed between all-to-alls, which transfers are alike.
//!
//! Modelled: the longest path of the graph, for any times of what is sent; the bound, which is the path if an
//! all-to-all took no more than its busiest part's bytes over that part's rate.
//! Checked: as part of [`crate::outline`].

use crate::all_to_all::AllToAll;
use crate::demand::Demand;
use crate::medium::Job;
use lightloom_units::Time;
use lightloom_workload::{Axis, Comm, Scope, TaskGraph};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, OnceLock};

/// In [`Marks::like`]: the task computes, or is an all-to-all.
pub(crate) const NONE: u32 = u32::MAX;

/// What of a task graph holds for every fabric, on servers that are alike.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Tasks, each after all that it waits for.
    order: Vec<u32>,
    /// By task: the most bytes out of or into a server, and a GPU; zero of other tasks than all-to-alls.
    pub busiest: Vec<[u64; 2]>,
    /// By task: what its block computes between the all-to-all before and this one.
    pub window: Vec<Time>,
    /// By task: which of `firsts` sends as it does.
    pub like: Vec<u32>,
    /// Of transfers that are no all-to-alls one of each.
    pub firsts: Vec<u32>,
    /// All-to-alls by block, in turn.
    sequences: BTreeMap<(u32, u32), Vec<u32>>,
    /// Whether any all-to-all leaves a server.
    pub spans: bool,
    /// An iteration if nothing that is sent took any time.
    pub compute: Time,
    /// Of each of `firsts` its time inside servers, or nothing: the same on every fabric.
    pub inside: OnceLock<Vec<Time>>,
    /// Bounds, by the rates \[bit/s\] of a server and a GPU.
    bounds: Mutex<HashMap<[u64; 2], Time>>,
}

/// What transfers that take the same time have in common.
#[derive(PartialEq, Eq, Hash)]
enum Like {
    Sum(u32, Scope, u64),
    Send(u64),
    Collective(Axis, u64, u32),
}

impl Like {
    fn of(comm: &Comm) -> Option<Self> {
        match *comm {
            Comm::AllReduce { stage, scope, bytes_per_gpu } => {
                Some(Like::Sum(stage, scope, bytes_per_gpu))
            }
            Comm::Send { bytes_per_gpu, .. } => Some(Like::Send(bytes_per_gpu)),
            Comm::Collective { over, bytes_per_gpu, steps, .. } => {
                Some(Like::Collective(over, bytes_per_gpu, steps))
            }
            Comm::AllToAll { .. } | Comm::Exchange { .. } => None,
        }
    }
}

impl Marks {
    pub fn new(job: Job<'_>, per_server: u32) -> Self {
        let Job { graph, placement, gating } = job;
        let demand = Demand::new(placement, gating, per_server);
        let order = graph.topological_order().unwrap_or_default();
        let mut busiest = vec![[0; 2]; graph.len()];
        let mut window = vec![Time::ZERO; graph.len()];
        let mut like = vec![NONE; graph.len()];
        let (mut firsts, mut known) = (vec![], HashMap::new());
        let mut sequences: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        let mut computed: HashMap<(u32, u32), Time> = HashMap::new();
        let gpus = placement.gpus() as usize;
        let (mut by_gpu, mut by_server) = (Loads::of(gpus), Loads::of(gpus));
        for &task in &order {
            let at = task as usize;
            let block = (graph.replica[at], graph.stage[at]);
            let Some(comm) = graph.communication(task) else {
                *computed.entry(block).or_default() += graph.duration[at];
                continue;
            };
            if let Some(class) = Like::of(comm) {
                like[at] = *known.entry(class).or_insert_with(|| {
                    firsts.push(task);
                    firsts.len() as u32 - 1
                });
            }
            let Some(a2a) = all_to_all(comm) else { continue };
            demand.for_each(a2a, |from, to, bytes| {
                by_gpu.send(from, to, bytes);
                let [from, to] = [from, to].map(|gpu| gpu / per_server);
                if from != to {
                    by_server.send(from, to, bytes);
                }
            });
            busiest[at] = [by_server.take(), by_gpu.take()];
            window[at] = std::mem::take(computed.entry(block).or_default());
            sequences.entry(block).or_default().push(task);
        }
        let spans = busiest.iter().any(|&[server, _]| server > 0);
        let mut marks = Marks {
            order,
            busiest,
            window,
            like,
            firsts,
            sequences,
            spans,
            compute: Time::ZERO,
            inside: OnceLock::new(),
            bounds: Mutex::default(),
        };
        marks.compute = marks.longest(graph, |_| Time::ZERO);
        marks
    }

    /// When the last task ends if communication takes as long as `network` says.
    pub fn longest(&self, graph: &TaskGraph, network: impl Fn(u32) -> Time) -> Time {
        let (mut start, mut last) = (vec![Time::ZERO; graph.len()], Time::ZERO);
        for &task in &self.order {
            let at = task as usize;
            let time = match graph.communication(task) {
                Some(_) => network(task),
                None => graph.duration[at],
            };
            let end = start[at].saturating_add(time);
            last = last.max(end);
            for &after in graph.successors.row(task) {
                start[after as usize] = start[after as usize].max(end);
            }
        }
        last
    }

    /// No iteration is shorter, at these rates \[bit/s\] of a server and a GPU.
    pub fn least(&self, graph: &TaskGraph, rates: [f64; 2], inside: &[Time]) -> Time {
        let key = rates.map(f64::to_bits);
        if let Some(&known) = self.bounds.lock().expect("no one panics with it").get(&key) {
            return known;
        }
        let found = self.longest(graph, |task| match self.like[task as usize] {
            NONE => self.least_of(task, rates),
            like => inside[like as usize],
        });
        self.bounds.lock().expect("no one panics with it").insert(key, found);
        found
    }

    /// No all-to-all is shorter.
    pub fn least_of(&self, task: u32, rates: [f64; 2]) -> Time {
        let each = self.busiest[task as usize].into_iter().zip(rates);
        let seconds = |(bytes, bps): (u64, f64)| match bps > 0.0 {
            true => bytes as f64 * 8.0 / bps,
            false => 0.0,
        };
        Time::from_secs_f64(each.map(seconds).fold(0.0, f64::max))
    }

    /// All-to-alls of all replicas of a stage, those that are at the same place in turn together.
    pub fn sampled(&self, most: usize) -> Vec<Vec<u32>> {
        let spans = |tasks: &[u32]| tasks.iter().any(|&task| self.busiest[task as usize][0] > 0);
        let mut stages: Vec<u32> =
            self.sequences.iter().filter(|(_, tasks)| spans(tasks)).map(|(key, _)| key.1).collect();
        stages.sort_unstable();
        stages.dedup();
        let Some(&stage) = stages.get(stages.len() / 2) else { return vec![] };
        let blocks = || self.sequences.iter().filter(|(key, _)| key.1 == stage).map(|(_, all)| all);
        let count = blocks().map(Vec::len).min().unwrap_or(0).min(most);
        (0..count).map(|at| blocks().map(|all| all[at]).collect()).collect()
    }
}

/// Bytes out of and into GPUs, or servers.
struct Loads {
    bytes: Vec<[u64; 2]>,
    used: Vec<u32>,
}

impl Loads {
    fn of(count: usize) -> Self {
        Loads { bytes: vec![[0; 2]; count], used: vec![] }
    }

    fn send(&mut self, from: u32, to: u32, bytes: u64) {
        for (way, end) in [from, to].into_iter().enumerate() {
            let load = &mut self.bytes[end as usize];
            if *load == [0; 2] {
                self.used.push(end);
            }
            load[way] += bytes;
        }
    }

    /// The most; forgets all.
    fn take(&mut self) -> u64 {
        let each = self.used.drain(..).flat_map(|at| std::mem::take(&mut self.bytes[at as usize]));
        each.max().unwrap_or(0)
    }
}

fn all_to_all(comm: &Comm) -> Option<AllToAll> {
    match *comm {
        Comm::AllToAll { block, matrix, transposed, bytes_per_token } => {
            Some(AllToAll { block, matrix, transposed, bytes_per_token })
        }
        _ => None,
    }
}
