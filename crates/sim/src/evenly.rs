//! What a job sends in an iteration if gates are even: what is known of it before any trace.
//!
//! Modelled: every kind of transfer by itself, each message with the bytes of a whole iteration; sums of
//! gradients as the media send them. Ignored: what is sent inside one server, which no network changes.
//! Checked: against the traffic of the task graph.

use crate::collective::HIERARCHICAL;
use crate::demand::{AllToAll, Demand};
use crate::error::SimError;
use crate::medium::form::around;
use crate::spec::{CollectiveWork, Spec, Training, Work};
use lightloom_railx::fit::Groups;
use lightloom_railx::turns::Over;
use lightloom_units::{Bytes, Time};
use lightloom_workload::collective::{Algorithm, hierarchical};
use lightloom_workload::{
    Axis, BlockId, Comm, Gating, GroupLimit, Job, Overlap, Scope, TaskGraph, build,
};
use std::collections::BTreeMap;

/// The dimensions of a job beyond a server, the one whose ranks are neighbouring servers first.
pub(crate) fn dimensions(spec: &Spec) -> Vec<u32> {
    let p = spec.parallelism();
    let per_server = u64::from(spec.cluster.gpus_per_server.max(1));
    let (mut gpus, mut servers, mut found) = (1, 1, Vec::new());
    for degree in [p.tp, p.cp, p.data_ranks(), p.dp, p.pp] {
        gpus *= u64::from(degree);
        if gpus % per_server == 0 && gpus / per_server % servers == 0 && gpus / per_server > servers
        {
            found.push((gpus / per_server / servers) as u32);
            servers = gpus / per_server;
        }
    }
    found
}

/// By kind of traffic and by group of it: what is sent between servers.
#[derive(Default)]
struct Sent {
    per_server: u32,
    bytes: BTreeMap<(u32, u32), BTreeMap<(u32, u32), u64>>,
}

impl Sent {
    fn add(&mut self, kind: u32, group: u32, (from, to, bytes): (u32, u32, u64)) {
        if from / self.per_server != to / self.per_server {
            let sent = self.bytes.entry((kind, group)).or_default();
            *sent.entry((from, to)).or_default() += bytes;
        }
    }
}

/// The messages between servers of each kind of traffic, by group; each kind with its number.
///
/// # Errors
/// [`SimError::Input`] if the job is none.
pub(crate) fn messages(spec: &Spec) -> Result<Vec<Groups>, SimError> {
    Ok(numbered(spec)?.into_iter().map(|(_, groups)| groups).collect())
}

/// The same, and of each kind whether it goes around rings.
///
/// # Errors
/// As [`messages`].
pub(crate) fn kinds(spec: &Spec) -> Result<Vec<(bool, Groups)>, SimError> {
    let around = |kind| kind >= 2 && matches!(spec.work, Work::Training(_));
    Ok(numbered(spec)?.into_iter().map(|(kind, groups)| (around(kind), groups)).collect())
}

/// The same, and of each kind its number.
///
/// # Errors
/// As [`messages`].
pub(crate) fn numbered(spec: &Spec) -> Result<Vec<(u32, Groups)>, SimError> {
    let per_server = spec.cluster.gpus_per_server.max(1);
    let mut sent = Sent { per_server, ..Sent::default() };
    match &spec.work {
        Work::Training(training) => of_job(training, &mut sent)?,
        Work::Collective(work) => of_collective(work, &mut sent),
    }
    let mut kinds: BTreeMap<u32, Groups> = BTreeMap::new();
    for ((kind, _), bytes) in sent.bytes {
        let group = bytes.into_iter().map(|((from, to), bytes)| (from, to, bytes)).collect();
        kinds.entry(kind).or_default().push(group);
    }
    Ok(kinds.into_iter().collect())
}

/// The number of the traffic along an axis inside a block.
fn along(axis: Axis) -> u32 {
    match axis {
        Axis::Tp => 2,
        Axis::Cp => 3,
        Axis::Etp => 6,
    }
}

/// The kind of traffic, as [`numbered`] has them, of what one block sends, and which block that is.
pub(crate) fn inside(comm: &Comm) -> Option<(u32, BlockId)> {
    match *comm {
        Comm::AllToAll { block, .. } => Some((0, block)),
        Comm::Collective { block, over, .. } => Some((along(over), block)),
        _ => None,
    }
}

/// Which circuits a kind of traffic takes where blocks have rails by turns.
pub(crate) fn over(kind: u32) -> Over {
    match kind {
        0 | 2 | 3 | 6 => Over::Turn,
        1 => Over::Always,
        _ => Over::Base,
    }
}

/// What a block sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Following {
    /// Computation before it.
    pub gap: Time,
    pub task: u32,
}

/// By task, of the kinds that count: what the block sends next of these. Waiting for other blocks, and what
/// is sent of other kinds, is no gap.
pub(crate) fn following(graph: &TaskGraph, counts: impl Fn(u32) -> bool) -> Vec<Option<Following>> {
    let counts = |task: u32| {
        let kind = graph.communication(task).and_then(inside).map(|(kind, _)| kind);
        kind.is_some_and(&counts)
    };
    let mut known = vec![None; graph.len()];
    let tasks = 0..graph.len() as u32;
    let after = |task| counts(task).then(|| after(graph, task, &counts, &mut known)).flatten();
    tasks.map(after).collect()
}

/// What a block sends first of all that waits for a task of its own; `known` is what was found before.
fn after(
    graph: &TaskGraph,
    from: u32,
    counts: &impl Fn(u32) -> bool,
    known: &mut [Option<Option<Following>>],
) -> Option<Following> {
    if let Some(known) = known[from as usize] {
        return known;
    }
    let block = |task: u32| (graph.replica[task as usize], graph.stage[task as usize]);
    let own = |task: u32| graph.communication(task).is_none_or(|comm| inside(comm).is_some());
    let mut found: Option<Following> = None;
    for &task in graph.successors.row(from) {
        if block(task) != block(from) || !own(task) {
            continue;
        }
        let next = match counts(task) {
            true => Some(Following { gap: Time::ZERO, task }),
            false => after(graph, task, counts, known)
                .map(|next| Following { gap: next.gap + graph.duration[task as usize], ..next }),
        };
        found = found.into_iter().chain(next).min();
    }
    known[from as usize] = Some(found);
    found
}

/// By two kinds of traffic, and the computation between them: how often.
pub(crate) type Order = BTreeMap<(u32, u32, Time), f64>;

/// How often a block sends a kind of traffic after another, of those that count, with so much computation
/// between them; in an iteration, on average over blocks.
///
/// # Errors
/// [`SimError::Input`] if the job is none.
pub(crate) fn order(training: &Training, counts: impl Fn(u32) -> bool) -> Result<Order, SimError> {
    let Even { graph, times, job, .. } = Even::of(training)?;
    let blocks = f64::from(job.parallelism.dp * job.parallelism.pp);
    let kind = |task: u32| graph.communication(task).and_then(inside).map(|(kind, _)| kind);
    let mut order = Order::new();
    for (task, next) in (0..).zip(following(&graph, counts)) {
        if let (Some(from), Some(next)) = (kind(task), next)
            && let Some(to) = kind(next.task)
        {
            *order.entry((from, to, next.gap)).or_default() += times as f64 / blocks;
        }
    }
    Ok(order)
}

/// Steps between the same pairs are of one kind. What has no steps, or is given besides, counts as an even
/// all-to-all, of which each GPU sends one message to each server.
fn of_collective(work: &CollectiveWork, sent: &mut Sent) {
    let (ranks, per_server) = (work.ranks, sent.per_server);
    let size = Bytes::new(work.size_bytes);
    if work.algorithm == HIERARCHICAL {
        let plan = hierarchical(&[(0..ranks).collect()], size.get(), per_server);
        return plan.ring.into_iter().for_each(|message| sent.add(0, 0, message));
    }
    let algorithm = work.algorithm.parse::<Algorithm>().ok();
    let Some(built) = algorithm.and_then(|named| named.build(ranks, size).ok()) else {
        let bytes = size.get() / u64::from(ranks);
        let pairs = (0..ranks)
            .flat_map(|from| (0..ranks).step_by(per_server as usize).map(move |at| (from, at)));
        for (from, first) in pairs {
            let there = per_server.min(ranks - first);
            let to = first + (from + first / per_server) % there;
            sent.add(0, 0, (from, to, bytes * u64::from(there)));
        }
        return;
    };
    let block = size.get().div_ceil(built.blocks().max(1));
    for (at, step) in built.steps.iter().enumerate() {
        let pairing = &built.pairings[step.pairing as usize];
        for node in 0..ranks {
            if let Some(peer) = pairing.peer(node, ranks) {
                let blocks = built.moves(at, node).blocks.len() as u64;
                sent.add(step.pairing, 0, (node, peer, blocks * block));
            }
        }
    }
}

/// A job with even gates and few micro-batches.
struct Even {
    job: Job,
    gating: Gating,
    graph: TaskGraph,
    /// How often what its micro-batches send counts: once for each that the job has, and for the stages
    /// that the first and the last one pass alone.
    times: u64,
    /// A send, for the stages only.
    sends: u64,
}

impl Even {
    fn of(training: &Training) -> Result<Self, SimError> {
        let input = |error: lightloom_workload::WorkloadError| SimError::Input(error.to_string());
        let mut job: Job = training.job.clone();
        let (stages, chunks) =
            (u64::from(job.parallelism.pp), u64::from(job.training.virtual_stages));
        let rounds = u64::from(job.training.micro_batches) + (stages - 1).div_ceil(chunks);
        // Interleaved schedules take one a stage, DualPipe two. What runs beside what is no matter here.
        job.training.micro_batches = match job.training.overlap {
            Overlap::Dualpipe => 2 * job.parallelism.pp,
            _ if chunks > 1 => job.parallelism.pp,
            _ => 1,
        };
        if job.training.overlap == Overlap::TwoBatches {
            job.training.overlap = Overlap::None;
        }
        let built = u64::from(job.training.micro_batches);
        let (times, sends) =
            (rounds.div_ceil(built), 2 * (stages * chunks - 1).div_ceil(chunks * built));
        if training.gating.group_limit == GroupLimit::Off {
            (job.model.expert_groups, job.model.groups_per_token) = (1, 1);
        }
        let gating = Gating::uniform(&job.model, &job.parallelism, &job.training).map_err(input)?;
        let graph = build(&job, &gating).map_err(input)?;
        Ok(Even { job, gating, graph, times, sends })
    }
}

/// What a rank waits for in an iteration.
fn of_job(training: &Training, sent: &mut Sent) -> Result<(), SimError> {
    let Even { job, gating, graph, times, sends } = Even::of(training)?;
    let placement = job.placement();
    let demand = Demand::new(&placement, &gating, sent.per_server);
    let mut sums: BTreeMap<(u32, bool), u64> = BTreeMap::new();
    let number = |block: BlockId| block.stage * job.parallelism.dp + block.replica;
    for comm in &graph.comms {
        match *comm {
            Comm::AllToAll { block, matrix, transposed, bytes_per_token } => demand.for_each(
                AllToAll { block, matrix, transposed, bytes_per_token },
                |from, to, bytes| sent.add(0, number(block), (from, to, times * bytes)),
            ),
            Comm::Send { from, to, bytes_per_gpu } => {
                let pairs = placement.block_gpus(from).zip(placement.block_gpus(to));
                pairs.for_each(|(a, b)| sent.add(1, number(from), (a, b, sends * bytes_per_gpu)));
            }
            Comm::AllReduce { stage, scope, bytes_per_gpu } => {
                *sums.entry((stage, scope == Scope::Expert)).or_default() += bytes_per_gpu;
            }
            Comm::Collective { block, over, bytes_per_gpu, .. } => {
                let groups = placement.axis_groups(block, over);
                let around = around(&groups, times * bytes_per_gpu);
                around.into_iter().for_each(|pair| sent.add(along(over), number(block), pair));
            }
            Comm::Exchange { .. } => {}
        }
    }
    for ((stage, expert), bytes) in sums {
        let scope = if expert { Scope::Expert } else { Scope::Dense };
        let groups = placement.gradient_groups(stage, scope);
        let plan = hierarchical(&groups, bytes, sent.per_server);
        plan.ring.into_iter().for_each(|pair| sent.add(4 + u32::from(expert), stage, pair));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;
    use lightloom_workload::{Parallelism, example};

    fn job(parallelism: Parallelism, micro_batches: u32) -> Training {
        let mut job = example::mixtral_8x7b();
        (job.parallelism, job.training.micro_batches) = (parallelism, micro_batches);
        let redraw = crate::spec::Redraw::MicroBatch;
        Training {
            job,
            gating: crate::spec::GatingSpec { redraw, group_limit: Default::default() },
        }
    }

    /// Bytes of tokens, sends and context rings between servers.
    fn sums(sent: &Sent) -> [u64; 3] {
        let of = |kind: u32| {
            let groups = sent.bytes.iter().filter(|((k, _), _)| *k == kind);
            groups.flat_map(|(_, pairs)| pairs.values()).sum()
        };
        [0, 1, 3].map(of)
    }

    #[test]
    fn one_stage_sends_what_its_graph_sends() {
        let parallelism = Parallelism { tp: 2, cp: 2, ep: 8, etp: None, dp: 2, pp: 1 };
        let training = job(parallelism, 3);
        let mut sent = Sent { per_server: 16, ..Sent::default() };
        of_job(&training, &mut sent).expect("a job");
        let job = &training.job;
        let gating = Gating::uniform(&job.model, &job.parallelism, &job.training).expect("fits");
        let graph = build(job, &gating).expect("a job");
        let table = crate::traffic::table(&graph, &job.placement(), (&gating, 16));
        let integers = |at: usize| match &table.columns[at].1 {
            Column::Integers(values) => values.clone(),
            _ => panic!("whole numbers"),
        };
        let Column::Names { index, names } = &table.columns[0].1 else { panic!("names") };
        let of = |kind: &str| -> u64 {
            let rows = index.iter().zip(integers(1)).zip(integers(2)).zip(integers(3));
            let rows = rows.filter(|(((name, _), _), _)| names[**name as usize] == kind);
            rows.filter(|(((_, a), b), _)| a / 16 != b / 16).map(|(_, bytes)| bytes as u64).sum()
        };
        assert_eq!(sums(&sent), [of("ep"), 0, of("cp")]);
        assert!(of("ep") > 0);
    }

    #[test]
    fn the_pipelines_ends_count() {
        let parallelism = Parallelism { tp: 4, cp: 1, ep: 8, etp: None, dp: 2, pp: 4 };
        let sent = |micro_batches| {
            let mut sent = Sent { per_server: 16, ..Sent::default() };
            of_job(&job(parallelism, micro_batches), &mut sent).expect("a job");
            sums(&sent)
        };
        let ([one, sends, _], [many, same, _]) = (sent(1), sent(13));
        // 1 + 3 and 13 + 3 rounds; sends are waited for at the ends alone.
        assert_eq!((4 * one, sends), (many, same));
    }
}
