//! About how long an iteration takes on a fabric, and how long at least, without an engine: by which
//! candidates are ranked, and left out, before an engine runs the best of them.
//!
//! Modelled: the task graph's longest path. Computation takes the time that it has in the graph. An all-to-all
//! takes as long for each byte that leaves or enters its busiest server as the first [`SAMPLES`] of a
//! pipeline stage take by the bytes on links, with those of all replicas on the links at once; before it,
//! circuits are dark as long as theirs were, less the computation that hides it. A sum of gradients, a
//! send and a collective take what the bytes on links take, each by itself.
//! The bound: computation as before; an all-to-all no less than its busiest server's bytes over the rate of all of
//! a server's links, nor than its busiest GPU's over all of a GPU's; a collective inside a server as before; all else nothing.
//! Ignored: that transfers of different kinds share links; that circuits are chosen anew for each demand
//! behind the sampled ones.
//! Checked: the bound against the flow engine on every fabric, ranks of candidates by both, in
//! `tests/test_outline.py`.

use crate::all_to_all::AllToAll;
use crate::beside::Beside;
use crate::bound::Parts;
use crate::carried;
use crate::carrier::estimate::Estimate;
use crate::demand::Demand;
use crate::error::SimError;
use crate::failures::Health;
use crate::medium::{self, Job, Setting};
use crate::sender::Sender;
use crate::simulate::{Ground, Workload};
use crate::spec::Spec;
use lightloom_engine::{Orders, Patches, Policy, TaskId};
use lightloom_fabric::Fabric;
use lightloom_units::Time;
use lightloom_workload::{Axis, Comm, Pass, Scope, TaskGraph, TaskKind};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, OnceLock};

/// All-to-alls of each block that are laid on the fabric.
const SAMPLES: usize = 8;
/// So many more where circuits may change: they settle after a while, and the first quarter does not count.
const SETTLED: usize = 64;

/// What an iteration takes by closed form.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outline {
    /// About; none where that was not asked for.
    pub about: Option<Time>,
    /// No less.
    pub least: Time,
    /// If nothing that is sent took any time.
    pub compute: Time,
    /// A sampled all-to-all between servers, on average.
    pub all_to_all: Time,
    /// How long circuits were dark before one, on average, hidden or not.
    pub dark: Time,
}

/// In [`Marks::like`]: the task computes, or is an all-to-all.
const NONE: u32 = u32::MAX;

/// What of a task graph holds for every fabric, on servers that are alike.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Tasks, each after all that it waits for.
    order: Vec<u32>,
    /// By task: the most bytes out of or into a server, and a GPU; zero of other tasks than all-to-alls.
    busiest: Vec<[u64; 2]>,
    /// By task: what its block computes between the all-to-all before and this one.
    window: Vec<Time>,
    /// By task: which of `firsts` sends as it does.
    like: Vec<u32>,
    /// Of transfers that are no all-to-alls one of each.
    firsts: Vec<u32>,
    /// All-to-alls by block, in turn.
    sequences: BTreeMap<(u32, u32), Vec<u32>>,
    /// Whether any all-to-all leaves a server.
    spans: bool,
    /// An iteration if nothing that is sent took any time.
    compute: Time,
    /// Of each of `firsts` its time inside servers, or nothing: the same on every fabric.
    inside: OnceLock<Vec<Time>>,
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
    pub fn new(workload: &Workload, per_server: u32) -> Self {
        let graph = &workload.graph;
        let demand = Demand::new(&workload.placement, &workload.gating, per_server);
        let order = graph.topological_order().unwrap_or_default();
        let mut busiest = vec![[0; 2]; graph.len()];
        let mut window = vec![Time::ZERO; graph.len()];
        let mut like = vec![NONE; graph.len()];
        let (mut firsts, mut known) = (vec![], HashMap::new());
        let mut sequences: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        let mut computed: HashMap<(u32, u32), Time> = HashMap::new();
        let gpus = workload.placement.gpus() as usize;
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
    fn longest(&self, graph: &TaskGraph, network: impl Fn(u32) -> Time) -> Time {
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
    fn least(&self, graph: &TaskGraph, rates: [f64; 2], inside: &[Time]) -> Time {
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
    fn least_of(&self, task: u32, rates: [f64; 2]) -> Time {
        let each = self.busiest[task as usize].into_iter().zip(rates);
        let seconds = |(bytes, bps): (u64, f64)| match bps > 0.0 {
            true => bytes as f64 * 8.0 / bps,
            false => 0.0,
        };
        Time::from_secs_f64(each.map(seconds).fold(0.0, f64::max))
    }

    /// All-to-alls of all replicas of a stage, those that are at the same place in turn together.
    fn sampled(&self, most: usize) -> Vec<Vec<u32>> {
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

/// What was found of sampled transfers.
#[derive(Default)]
struct Found {
    /// Seconds a byte of the busiest server, of all-to-alls.
    per_byte: f64,
    all_to_all: Time,
    /// Darkness before an all-to-all that waits for it, and before one whose compute may hide it.
    shown: HashMap<(Pass, TaskKind), Mean>,
    hidden: HashMap<(Pass, TaskKind), Mean>,
}

#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, time: Time) {
        self.sum += time.as_secs_f64();
        self.count += 1;
    }

    fn of(self) -> f64 {
        self.sum / f64::from(self.count.max(1))
    }

    fn time(self) -> Time {
        Time::from_secs_f64(self.of())
    }
}

impl Workload {
    /// About how long an iteration takes on the fabric of a specification, and how long at least. If that is more
    /// than `enough`, nothing else is looked at.
    ///
    /// # Errors
    /// [`SimError::Input`] if the fabric cannot be built, the specification is of another workload, or a
    /// transfer has no path.
    pub fn outline(&self, spec: &Spec, enough: Option<Time>) -> Result<Outline, SimError> {
        let Ground { plan, decided, fabric } = &self.ground(spec)?;
        let marks = &*self.marks(&spec.cluster);
        let rates =
            [Parts::of_servers(fabric), Parts::of_gpus(fabric)].map(|parts| parts.fastest());
        let short = |least: Time| {
            let enough = enough.is_some_and(|enough| least > enough);
            let compute = marks.compute;
            enough.then(|| Outline { about: None, least, compute, ..Outline::default() })
        };
        if let Some(inside) = marks.inside.get() {
            if let Some(outline) = short(marks.least(&self.graph, rates, inside)) {
                return Ok(outline);
            }
        }
        let kind = spec.fabric.kind();
        // Where no all-to-all leaves a server, nothing beside one is to be expected.
        let regions = fabric.regions() as usize;
        let nothing = vec![vec![vec![]; spec.region_servers() as usize]; regions];
        let earlier: &[_] = if marks.spans { &[] } else { &nothing };
        let medium = (medium::of(kind).begin)(&Setting {
            spec,
            fabric,
            job: Job { graph: &self.graph, placement: &self.placement, gating: &self.gating },
            plan,
            decided,
            carriers: carried::allowed(spec)?,
            beside: Beside { earlier, ..Beside::default() },
            regions: (0..fabric.regions()).collect(),
        })?;
        let standing = Patches { patches: medium.standing(), ..Patches::default() };
        let mut health = Health::new(fabric, kind.can().rails, vec![]);
        health.patched(&standing, Time::ZERO);
        let tokens = (&self.placement, &self.gating);
        let mut sampler = Sampler {
            workload: self,
            marks,
            fabric,
            changes: !standing.patches.is_empty(),
            sender: Sender::new(fabric, &self.graph, tokens, medium, health, spec),
            estimate: Estimate::new(fabric, false),
            found: Found::default(),
        };
        let (others, inside) = sampler.others()?;
        let inside = marks.inside.get_or_init(|| inside);
        let least = marks.least(&self.graph, rates, inside);
        if let Some(outline) = short(least) {
            return Ok(outline);
        }
        sampler.all_to_alls()?;
        let found = &sampler.found;
        let about = marks.longest(&self.graph, |task| {
            match (marks.like[task as usize], marks.busiest[task as usize][0]) {
                (NONE, 0) => marks.least_of(task, rates),
                (NONE, bytes) => {
                    let sent = bytes as f64 * found.per_byte + self.dark(found, marks, task);
                    Time::from_secs_f64(sent).max(marks.least_of(task, rates))
                }
                (like, _) => others[like as usize],
            }
        });
        Ok(Outline {
            about: Some(about.max(least)),
            least,
            compute: marks.compute,
            all_to_all: found.all_to_all,
            dark: found.dark(),
        })
    }

    fn class(&self, task: u32) -> (Pass, TaskKind) {
        (self.graph.pass[task as usize], self.graph.kind[task as usize])
    }

    /// Seconds for which an all-to-all waits for circuits.
    fn dark(&self, found: &Found, marks: &Marks, task: u32) -> f64 {
        let class = self.class(task);
        let sampled = found.shown.contains_key(&class) || found.hidden.contains_key(&class);
        // Backward passes are behind what is sampled; they are as combining is.
        let class = if sampled { class } else { (Pass::Forward, TaskKind::Combine) };
        let [shown, hidden] =
            [&found.shown, &found.hidden].map(|of| of.get(&class).map_or(0.0, |mean| mean.of()));
        shown + (hidden - marks.window[task as usize].as_secs_f64()).max(0.0)
    }
}

/// Lays sampled transfers on a fabric.
struct Sampler<'a> {
    workload: &'a Workload,
    marks: &'a Marks,
    fabric: &'a Fabric,
    /// Whether circuits may change.
    changes: bool,
    sender: Sender<'a>,
    estimate: Estimate,
    found: Found,
}

impl Sampler<'_> {
    fn begin(&mut self, task: u32, now: Time) -> Result<Orders, SimError> {
        let mut orders = Orders::default();
        let transfer = self.workload.graph.comm[task as usize];
        self.sender.begin(TaskId(task), transfer, now, &mut orders).map_err(SimError::Input)?;
        Ok(orders)
    }

    fn end(&mut self, task: u32, now: Time) -> Result<Time, SimError> {
        let mut patches = Patches::default();
        let transfer = self.workload.graph.comm[task as usize];
        self.sender.end(TaskId(task), transfer, now, &mut patches).map_err(SimError::Input)?;
        Ok(patches.delay)
    }

    /// All-to-alls of a stage, those of all replicas at once.
    fn all_to_alls(&mut self) -> Result<(), SimError> {
        let sampled = self.marks.sampled(SAMPLES + if self.changes { SETTLED } else { 0 });
        let unsettled = if self.changes { sampled.len() / 4 } else { 0 };
        let (mut now, mut bytes, mut seconds, mut count) = (Time::ZERO, 0, 0.0, 0);
        for (turn, tasks) in sampled.iter().enumerate() {
            let window = tasks.iter().map(|&task| self.marks.window[task as usize]).max();
            now = now.saturating_add(window.unwrap_or(Time::ZERO));
            let mut all = Vec::with_capacity(tasks.len());
            for &task in tasks {
                let orders = self.begin(task, now)?;
                if turn >= unsettled {
                    let class = self.workload.class(task);
                    self.found.shown.entry(class).or_default().add(orders.patches.delay);
                }
                all.push(orders);
            }
            let times = self.estimate.together(self.fabric, &all);
            now = now.saturating_add(times.iter().copied().max().unwrap_or(Time::ZERO));
            for (&task, &time) in tasks.iter().zip(&times).filter(|_| turn >= unsettled) {
                count += 1;
                bytes += self.marks.busiest[task as usize][0];
                seconds += time.as_secs_f64();
            }
            let next = sampled.get(turn + 1).filter(|_| turn + 1 >= unsettled);
            for (nth, &task) in tasks.iter().enumerate() {
                let dark = self.end(task, now)?;
                if let Some(next) = next {
                    let class = self.workload.class(next[nth]);
                    self.found.hidden.entry(class).or_default().add(dark);
                }
            }
        }
        self.found.all_to_all = Time::from_secs_f64(seconds / f64::from(count.max(1)));
        self.found.per_byte = if bytes > 0 { seconds / bytes as f64 } else { 0.0 };
        Ok(())
    }

    /// The time of each transfer that is no all-to-all, and that time again if it stays inside servers.
    fn others(&mut self) -> Result<(Vec<Time>, Vec<Time>), SimError> {
        let (graph, placement) = (&self.workload.graph, &self.workload.placement);
        let per_server = self.fabric.cluster().gpus_per_server;
        let (mut times, mut inside) = (vec![], vec![]);
        for &task in &self.marks.firsts {
            let orders = [self.begin(task, Time::ZERO)?];
            let time = self.estimate.together(self.fabric, &orders)[0] + orders[0].patches.delay;
            self.end(task, time)?;
            let stays = match graph.communication(task) {
                Some(&Comm::Collective { block, over, .. }) => {
                    placement.axis_groups(block, over).iter().all(|group| {
                        let first = group.first().map(|gpu| gpu / per_server);
                        group.iter().all(|gpu| Some(gpu / per_server) == first)
                    })
                }
                _ => false,
            };
            times.push(time);
            inside.push(if stays { time } else { Time::ZERO });
        }
        Ok((times, inside))
    }
}

impl Found {
    /// How long circuits were dark before an all-to-all, on average.
    fn dark(&self) -> Time {
        let all: Vec<_> = self.shown.values().chain(self.hidden.values()).copied().collect();
        let (sum, count) = all.iter().fold((0.0, 0), |(s, n), one| (s + one.sum, n + one.count));
        Mean { sum, count }.time()
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
