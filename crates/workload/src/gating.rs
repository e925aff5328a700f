//! Expert loads, recorded or synthetic: which rank's tokens go to which rank's experts.
//!
//! Modelled: every replica and micro-batch draws an iteration of its own, without repetition until
//! the trace is used up; experts lie on EP ranks in order; a rank's counts are scaled to
//! `micro_batch * sequence_length / cp * top_k` assignments and rounded by largest remainder, so
//! that rows sum exactly.
//! Which assignments are of one token is not counted: [`crate::copies`] works it out where copies are merged.
//! Ignored: no capacity factor, no dropped tokens; the CP ranks of an EP rank route alike, and so do EP groups of
//! one block where experts have tensor parallelism of their own ([`crate::folding`]).
//! Checked: exact row sums, scaling against exact fractions, determinism by seed, hot and empty
//! experts.

use crate::apportion::apportion;
use crate::choice::Rules;
use crate::copies::{self, Choosing, Copies, DispatchCopies, GroupLimit};
use crate::error::{WorkloadError, require};
use crate::model::Model;
use crate::parallelism::Parallelism;
use crate::shapes;
use crate::training::Training;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// A token matrix held by [`Gating`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatrixId(pub u32);

/// The token matrices of one iteration of a job, and which (replica, micro-batch, layer) uses which.
///
/// ```
/// # use lightloom_workload::example;
/// use lightloom_workload::Gating;
/// let job = example::mixtral_8x7b();
/// // One iteration, one layer: all tokens of source 0 choose experts 0 and 1.
/// let mut counts = vec![1u32; 8 * 8];
/// counts[..8].copy_from_slice(&[500, 500, 0, 0, 0, 0, 0, 0]);
/// let gating =
///     Gating::new(&counts, [1, 1, 8, 8], &job.model, &job.parallelism, &job.training, 1).unwrap();
/// let matrix = gating.matrix(gating.draw(0, 0, 0));
/// assert_eq!(matrix[..4], [32768, 32768, 0, 0]);
/// assert_eq!(matrix[8..16], [8192; 8]);
/// assert!(gating.notes()[0].contains("reused"));
/// ```
#[derive(Clone, Debug)]
pub struct Gating {
    ranks: u32,
    /// All matrices, `ranks * ranks` entries each.
    tokens: Vec<u32>,
    /// The largest column sum of each matrix.
    hottest: Vec<u64>,
    /// The trace's (iteration, layer) of each matrix.
    origins: Vec<(u32, u32)>,
    /// By replica, micro-batch, MoE layer.
    draws: Vec<MatrixId>,
    replicas: u32,
    micro_batches: u32,
    dense_layers: u32,
    moe_layer_step: u32,
    moe_layers: u32,
    assignments: u32,
    notes: Vec<String>,
    /// Of the whole trace, by iteration, layer, source rank and destination rank.
    recorded: Vec<f32>,
    trace_layers: u32,
    /// How tokens choose among experts, if copies of a token are merged.
    choosing: Option<Choosing>,
}

/// Token matrices may hold so many entries in all (4 GiB).
const MOST_ENTRIES: u64 = 1 << 30;

impl Gating {
    /// Fits a trace to a job. `counts` are token assignments in C order with the shape
    /// \[iteration, layer, source, expert\]; only their proportions within a source matter.
    ///
    /// # Errors
    /// If the shapes do not fit (the message says how to get a trace that does), if a source has
    /// no tokens, or if the job's own shapes are invalid.
    pub fn new(
        counts: &[u32],
        shape: [usize; 4],
        model: &Model,
        parallelism: &Parallelism,
        training: &Training,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        Self::under(counts, shape, (model, parallelism, training), seed, GroupLimit::default())
    }

    /// As [`Gating::new`], with counts that are or are not of a model whose tokens go to some groups of
    /// experts only.
    ///
    /// # Errors
    /// As [`Gating::new`].
    pub fn under(
        counts: &[u32],
        shape: [usize; 4],
        (model, parallelism, training): (&Model, &Parallelism, &Training),
        seed: u64,
        limit: GroupLimit,
    ) -> Result<Self, WorkloadError> {
        shapes::check(model, parallelism, training)?;
        check_trace(counts, shape, model, parallelism)?;
        let rules = Rules::of(model, limit);
        let applied =
            (limit == GroupLimit::Applied && rules.limit()).then(|| copies::limited(counts, rules));
        let note = applied.as_ref().map(|(_, left)| applied_note(rules, *left));
        let counts = applied.as_ref().map_or(counts, |(counts, _)| counts.as_slice());
        let [iterations, trace_layers, sources, experts] = shape;
        let ranks = parallelism.ep as usize;
        let moe_layers = model.moe_layers() as usize;
        let micro_batches = training.micro_batches as usize;
        let draws = draw_iterations(iterations, parallelism.dp as usize * micro_batches, seed);

        let mut gating = Gating {
            ranks: parallelism.ep,
            tokens: Vec::new(),
            hottest: Vec::new(),
            origins: Vec::new(),
            draws: Vec::with_capacity(draws.len() * moe_layers),
            replicas: parallelism.dp,
            micro_batches: training.micro_batches,
            dense_layers: model.dense_layers,
            moe_layer_step: model.moe_layer_step,
            moe_layers: model.moe_layers(),
            // At most 2^31, by `shapes::check`.
            assignments: shapes::assignments(model, parallelism, training) as u32,
            notes: notes(shape, model, parallelism, draws.len()),
            recorded: record(counts, experts, sources, ranks),
            trace_layers: trace_layers as u32,
            choosing: None,
        };
        gating.notes.extend(note);
        if training.dispatch_copies == DispatchCopies::Server && moe_layers > 0 {
            let all = gating.assignments;
            gating.choosing = Some(Choosing::new(counts, shape, rules, parallelism, all));
        }
        // A layer that is reused comes from another iteration, as far away as the trace allows.
        let stride = (iterations / moe_layers.div_ceil(trace_layers).max(1)).max(1);
        let mut known: Vec<Option<MatrixId>> = vec![None; iterations * trace_layers];
        for &drawn in &draws {
            for layer in 0..moe_layers {
                let iteration = (drawn + layer / trace_layers * stride) % iterations;
                let trace_layer = layer % trace_layers;
                let place = iteration * trace_layers + trace_layer;
                let id = match known[place] {
                    Some(id) => id,
                    None => {
                        let entries = (gating.tokens.len() + ranks * ranks) as u64;
                        require(entries <= MOST_ENTRIES, "parallelism.ep", parallelism.ep, || {
                            "the token matrices of this trace would exceed 4 GiB".into()
                        })?;
                        let size = sources * experts;
                        gating.push(
                            &counts[place * size..(place + 1) * size],
                            experts,
                            (iteration as u32, trace_layer as u32),
                        )
                    }
                };
                known[place] = Some(id);
                gating.draws.push(id);
            }
        }
        Ok(gating)
    }

    /// Gates that spread every rank's tokens evenly over all experts.
    ///
    /// # Errors
    /// If the job's shapes are invalid.
    pub fn uniform(
        model: &Model,
        parallelism: &Parallelism,
        training: &Training,
    ) -> Result<Self, WorkloadError> {
        shapes::check(model, parallelism, training)?;
        let experts = recorded_experts(model);
        let shape = [1, 1, parallelism.ep as usize, experts as usize];
        let entries = u64::from(parallelism.ep) * u64::from(experts);
        require(entries <= MOST_ENTRIES, "parallelism.ep", parallelism.ep, || {
            "the token matrices would exceed 4 GiB".into()
        })?;
        let counts = vec![1; shape[2] * shape[3]];
        let mut gating = Self::new(&counts, shape, model, parallelism, training, 0)?;
        gating.notes = vec!["gates are uniform: every expert receives the same load".into()];
        Ok(gating)
    }

    /// One matrix as it is given, of a collective that is run by itself: what each rank (row) has for
    /// each rank (column), in units that the caller knows.
    ///
    /// # Panics
    /// If the matrix does not have a row and a column a rank.
    pub fn given(ranks: u32, tokens: Vec<u32>) -> Self {
        let size = ranks as usize;
        assert!(size > 0 && tokens.len() == size * size, "{} tokens", tokens.len());
        let mut columns = vec![0u64; size];
        let mut recorded = Vec::with_capacity(tokens.len());
        let mut most = 0;
        for row in tokens.chunks_exact(size) {
            let sent: u64 = row.iter().map(|&count| u64::from(count)).sum();
            most = most.max(sent);
            for (column, &count) in columns.iter_mut().zip(row) {
                *column += u64::from(count);
            }
            recorded.extend(row.iter().map(|&count| count as f32 / sent.max(1) as f32));
        }
        Gating {
            ranks,
            tokens,
            hottest: vec![columns.into_iter().max().unwrap_or(0)],
            origins: vec![(0, 0)],
            draws: vec![MatrixId(0)],
            replicas: 1,
            micro_batches: 1,
            dense_layers: 0,
            moe_layer_step: 1,
            moe_layers: 1,
            assignments: most.try_into().unwrap_or(u32::MAX),
            notes: Vec::new(),
            recorded,
            trace_layers: 1,
            choosing: None,
        }
    }

    /// Scales one (iteration, layer) of the trace to the job and keeps it.
    fn push(&mut self, counts: &[u32], experts: usize, origin: (u32, u32)) -> MatrixId {
        let id = MatrixId(self.hottest.len() as u32);
        let ranks = self.ranks as usize;
        let sources_per_rank = counts.len() / experts / ranks;
        let experts_per_rank = experts / ranks;
        let mut columns = vec![0u64; ranks];
        let mut loads = vec![0u64; ranks];
        let mut row = vec![0u32; ranks];
        for rank_counts in counts.chunks_exact(sources_per_rank * experts) {
            loads.fill(0);
            for source in rank_counts.chunks_exact(experts) {
                for (load, local) in loads.iter_mut().zip(source.chunks_exact(experts_per_rank)) {
                    *load += local.iter().map(|&count| u64::from(count)).sum::<u64>();
                }
            }
            apportion(&loads, self.assignments, &mut row);
            for (column, &tokens) in columns.iter_mut().zip(&row) {
                *column += u64::from(tokens);
            }
            self.tokens.extend_from_slice(&row);
        }
        self.hottest.push(columns.into_iter().max().unwrap_or(0));
        self.origins.push(origin);
        id
    }

    /// EP ranks: the matrices' rows and columns.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Token assignments that each rank sends: the sum of every row.
    pub fn assignments_per_rank(&self) -> u32 {
        self.assignments
    }

    /// How many distinct matrices there are; ids run from 0.
    pub fn matrices(&self) -> u32 {
        self.hottest.len() as u32
    }

    /// Token assignments from EP rank (row) to EP rank (column), row-major, own share included.
    pub fn matrix(&self, id: MatrixId) -> &[u32] {
        let size = (self.ranks as usize).pow(2);
        &self.tokens[id.0 as usize * size..][..size]
    }

    /// Assignments that the most loaded rank receives.
    pub fn hottest(&self, id: MatrixId) -> u64 {
        self.hottest[id.0 as usize]
    }

    /// Whether a token is copied once a server, and [`Gating::copies`] says how often.
    pub fn merges(&self) -> bool {
        self.choosing.is_some()
    }

    /// Tokens of one rank and micro-batch, where [`Gating::merges`].
    pub fn tokens_per_rank(&self) -> Option<u32> {
        self.choosing.as_ref().map(Choosing::tokens)
    }

    /// How many tokens of each rank visit each other rank and each server, if they are copied once a server;
    /// `server_of` each rank, from 0 on.
    ///
    /// ```
    /// # use lightloom_workload::example;
    /// use lightloom_workload::{DispatchCopies, Gating, MatrixId};
    /// let mut job = example::mixtral_8x7b();
    /// job.training.dispatch_copies = DispatchCopies::Server;
    /// let gating = Gating::uniform(&job.model, &job.parallelism, &job.training)?;
    /// // C(4, 2) of C(8, 2) pairs of experts leave a server out: 11/14 of the tokens visit it.
    /// let copies = gating.copies(MatrixId(0), &[0, 0, 0, 0, 1, 1, 1, 1]).expect("they are merged");
    /// assert_eq!(copies.to_server[..2], [32768 * 11 / 14 + 1, 32768 * 11 / 14]);
    /// assert_eq!(copies.to_rank[..2], [8192, 8192]);
    /// # Ok::<(), lightloom_workload::WorkloadError>(())
    /// ```
    pub fn copies(&self, id: MatrixId, server_of: &[u32]) -> Option<Copies> {
        let choosing = self.choosing.as_ref()?;
        Some(choosing.copies(self.origin(id), self.matrix(id), server_of))
    }

    /// The same of other tokens: assignments from rank (row) to rank (column).
    pub fn copies_of(&self, assignments: &[u32], server_of: &[u32]) -> Option<Copies> {
        Some(self.choosing.as_ref()?.copies_of(assignments, server_of))
    }

    /// Groups of consecutive experts, and how many of them a token chooses from, if that is a limit and
    /// copies are merged.
    pub fn group_limit(&self) -> Option<(u32, u32)> {
        let rules = self.choosing.as_ref()?.rules();
        rules.limit().then_some((rules.groups as u32, rules.most_groups as u32))
    }

    /// The (iteration, layer) of the trace that a matrix was made from.
    pub fn origin(&self, id: MatrixId) -> (u32, u32) {
        self.origins[id.0 as usize]
    }

    /// Layers that the trace has recorded; origins count from 0 to one less.
    pub fn trace_layers(&self) -> u32 {
        self.trace_layers
    }

    /// The share of its assignments that each EP rank (row) sends to each EP rank (column) in an
    /// (iteration, layer) of the trace, drawn or not. Iterations follow each other in time.
    ///
    /// # Panics
    /// If the trace has no such iteration or layer.
    pub fn recorded(&self, (iteration, layer): (u32, u32)) -> &[f32] {
        assert!(layer < self.trace_layers, "layer {layer} of {}", self.trace_layers);
        let size = (self.ranks as usize).pow(2);
        let place = iteration as usize * self.trace_layers as usize + layer as usize;
        &self.recorded[place * size..(place + 1) * size]
    }

    /// The matrix of a layer that has experts. `layer` counts from the model's first.
    ///
    /// # Panics
    /// If one of them is not part of the job.
    pub fn draw(&self, replica: u32, micro_batch: u32, layer: u32) -> MatrixId {
        let after = layer.wrapping_sub(self.dense_layers);
        let moe_layer = after / self.moe_layer_step;
        assert!(
            replica < self.replicas
                && micro_batch < self.micro_batches
                && moe_layer < self.moe_layers
                && after % self.moe_layer_step == 0,
            "replica {replica}, micro-batch {micro_batch}, layer {layer} are not part of the job"
        );
        let run = (replica * self.micro_batches + micro_batch) as usize;
        self.draws[run * self.moe_layers as usize + moe_layer as usize]
    }

    /// What a reader of the result should know about the use of the trace.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether this gating was made for such a job.
    pub(crate) fn fits(&self, model: &Model, p: &Parallelism, training: &Training) -> bool {
        self.ranks == p.ep
            && self.replicas == p.dp
            && self.micro_batches == training.micro_batches
            && self.dense_layers == model.dense_layers
            && self.moe_layer_step == model.moe_layer_step
            && self.moe_layers == model.moe_layers()
            && u64::from(self.assignments) == shapes::assignments(model, p, training)
    }
}

fn check_trace(
    counts: &[u32],
    shape: [usize; 4],
    model: &Model,
    parallelism: &Parallelism,
) -> Result<(), WorkloadError> {
    let [iterations, layers, sources, experts] = shape;
    let named = format!("{iterations} x {layers} x {sources} x {experts}");
    let size = shape.iter().try_fold(1usize, |size, &extent| size.checked_mul(extent));
    require(size == Some(counts.len()) && !counts.is_empty(), "gating.trace", &named, || {
        format!(
            "the trace holds {} counts; it must hold iterations x layers x sources x experts \
                 of them, each at least 1",
            counts.len()
        )
    })?;
    let (wanted, ep, top_k) = (recorded_experts(model), parallelism.ep, model.top_k);
    let remedy = format!(
        "make one that fits with `lightloom trace record --experts {wanted} --top-k {top_k} \
         --sources {ep}` or `lightloom trace generate uniform --experts {wanted} --top-k {top_k} \
         --sources {ep}`"
    );
    require(experts == wanted as usize, "gating.trace", format!("{experts} experts"), || {
        format!("must have model.experts = {wanted} experts; {remedy}")
    })?;
    require(sources % ep as usize == 0, "gating.trace", format!("{sources} sources"), || {
        format!("must have a multiple of parallelism.ep = {ep} sources; {remedy}")
    })?;
    for (place, source) in counts.chunks_exact(experts).enumerate() {
        require(
            source.iter().any(|&count| count > 0),
            "gating.trace",
            format!(
                "iteration {}, layer {}, source {}",
                place / (layers * sources),
                place / sources % layers,
                place % sources
            ),
            || "has no tokens; every source must have at least one".into(),
        )?;
    }
    Ok(())
}

/// Experts of a trace that fits. A model without any has a trace of one, from which it draws nothing.
fn recorded_experts(model: &Model) -> u32 {
    model.experts.max(1)
}

/// [`Gating::recorded`] of all iterations and layers.
fn record(counts: &[u32], experts: usize, sources: usize, ranks: usize) -> Vec<f32> {
    let (sources_per_rank, experts_per_rank) = (sources / ranks, experts / ranks);
    let mut recorded = Vec::with_capacity(counts.len() / sources_per_rank / experts_per_rank);
    let mut row = vec![0.0; ranks];
    for rank in counts.chunks_exact(sources_per_rank * experts) {
        row.fill(0.0);
        for (at, &count) in rank.iter().enumerate() {
            row[at % experts / experts_per_rank] += f64::from(count);
        }
        let sent: f64 = row.iter().sum();
        recorded.extend(row.iter().map(|count| (count / sent) as f32));
    }
    recorded
}

/// One iteration for each draw. Each round of draws is a new permutation of all iterations.
fn draw_iterations(iterations: usize, draws: usize, seed: u64) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn = Vec::with_capacity(draws + iterations);
    while drawn.len() < draws {
        let start = drawn.len();
        drawn.extend(0..iterations);
        drawn[start..].shuffle(&mut random);
    }
    drawn.truncate(draws);
    drawn
}

/// What was done to counts that know no limit.
fn applied_note(rules: Rules, left: usize) -> String {
    let Rules { groups, most_groups, .. } = rules;
    let rest = match left {
        0 => String::new(),
        _ => format!(
            "; {left} sources of it choose some experts always, in more groups, and stay as they are"
        ),
    };
    format!(
        "a token goes to at most {most_groups} of {groups} groups of experts: the trace's loads are \
         those that this leaves{rest}"
    )
}

fn notes(shape: [usize; 4], model: &Model, parallelism: &Parallelism, draws: usize) -> Vec<String> {
    let [iterations, trace_layers, sources, _] = shape;
    let moe_layers = model.moe_layers() as usize;
    let mut notes = Vec::new();
    if moe_layers == 0 {
        return notes;
    }
    if moe_layers > trace_layers {
        let how = match iterations {
            1 => "the only iteration".to_string(),
            _ if iterations < moe_layers.div_ceil(trace_layers) => {
                "other iterations as far as there are enough".to_string()
            }
            _ => "another iteration each time".to_string(),
        };
        notes.push(format!(
            "trace layers reused: the model has {moe_layers} MoE layers, the trace {trace_layers}; \
             layer l takes trace layer l mod {trace_layers} at {how}"
        ));
    } else if moe_layers < trace_layers {
        notes.push(format!(
            "of the trace's {trace_layers} MoE layers the model uses the first {moe_layers}"
        ));
    }
    if sources > parallelism.ep as usize {
        notes.push(format!(
            "{} consecutive sources of the trace are summed for each of {} EP ranks",
            sources / parallelism.ep as usize,
            parallelism.ep
        ));
    }
    if draws > iterations {
        notes.push(format!(
            "iterations reused: {draws} micro-batches draw from {iterations} recorded iterations"
        ));
    }
    let copies = parallelism.expert_copies();
    match parallelism.etp {
        None if copies > 1 => {
            notes.push("the context-parallel ranks of an EP rank route alike".into());
        }
        Some(_) if copies > 1 => {
            notes.push(format!("the {copies} EP groups of a block route alike"))
        }
        _ => {}
    }
    notes
}

#[cfg(test)]
mod tests;
