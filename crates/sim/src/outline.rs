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

use crate::beside::Beside;
use crate::bound::Parts;
use crate::carried;
use crate::carrier::estimate::Estimate;
use crate::error::SimError;
use crate::failures::Health;
use crate::marks::{Marks, NONE};
use crate::medium::{self, Job, Setting};
use crate::sender::Sender;
use crate::simulate::{Ground, Workload};
use crate::spec::Spec;
use lightloom_engine::{Orders, Patches, Policy, TaskId};
use lightloom_fabric::Fabric;
use lightloom_units::Time;
use lightloom_workload::{Comm, Pass, TaskKind};
use std::collections::HashMap;

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
        if let Some(inside) = marks.inside.get()
            && let Some(outline) = short(marks.least(&self.graph, rates, inside))
        {
            return Ok(outline);
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
