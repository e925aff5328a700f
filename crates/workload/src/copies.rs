//! How many tokens a rank sends to each other rank, and to each server, where a token is copied once a
//! server and not once an expert.
//!
//! Modelled: DeepEP's and DeepSeek-V3's dispatch (arXiv 2412.19437, Section 3.2.2): a token goes once to each
//! server that holds one of its experts, and there once to each rank that does. How many tokens that is
//! follows from counts of assignments by [`Choice`]: expected numbers, in whole tokens, apportioned as
//! assignments are. Each lies within what assignments allow: no fewer than a k-th of them, no more than all,
//! and for a server no fewer than for the rank of it that gets most.
//! Ignored: chance, so that micro-batches of equal counts have equal copies.
//! Checked: closed forms (one expert a token, all experts on one server, even loads), bounds by property,
//! and brute force over every set.

use crate::apportion::apportion;
use crate::choice::{Choice, Rules};
use crate::error::{WorkloadError, require};
use crate::model::Model;
use crate::parallelism::Parallelism;
use serde::Deserialize;
use std::ops::Range;

/// How often a token is sent that several experts are to get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DispatchCopies {
    /// Once to each of its experts.
    #[default]
    Expert,
    /// Over the network once to each server, and there once to each GPU that has one of its experts.
    Server,
}

/// What counts in a trace say of a model whose tokens go to some groups of experts only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupLimit {
    /// They were counted under the limit.
    #[default]
    Recorded,
    /// They were counted without: what the limit leaves of them is worked out.
    Applied,
    /// There is no limit.
    Off,
}

/// Tokens of each rank (row) that visit a rank or a server (column).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// Servers: the columns of `to_server`.
    pub servers: usize,
    /// By rank and rank, row-major, its own included.
    pub to_rank: Vec<u32>,
    /// By rank and server, row-major.
    pub to_server: Vec<u32>,
    /// Ranks whose loads no choice under the limit of groups gives: copies are those of the nearest.
    pub apart: u32,
}

/// The counts of a trace, and how tokens choose among experts.
#[derive(Clone, Debug)]
pub(crate) struct Choosing {
    counts: Vec<u32>,
    experts: usize,
    sources: usize,
    ranks: usize,
    layers: usize,
    rules: Rules,
    /// Of one rank and micro-batch.
    tokens: u32,
}

/// Sums over sets take so many numbers a row at most.
const MOST_SUMS: u64 = 1 << 22;

impl Rules {
    /// What a model's tokens may choose.
    pub(crate) fn of(model: &Model, limit: GroupLimit) -> Rules {
        let rules = Rules {
            experts: model.experts.max(1) as usize,
            top_k: model.top_k.max(1) as usize,
            groups: model.expert_groups as usize,
            most_groups: model.groups_per_token as usize,
        };
        match limit != GroupLimit::Off && rules.limit() {
            true => rules,
            false => rules.free(),
        }
    }
}

/// Refuses models whose sets are too many to sum over.
pub(crate) fn check(model: &Model, copies: DispatchCopies) -> Result<(), WorkloadError> {
    let sums = u64::from(model.experts) * (u64::from(model.top_k) + 2);
    require(
        copies == DispatchCopies::Expert || sums <= MOST_SUMS,
        "training.dispatch_copies",
        "server",
        || format!("model.experts * (top_k + 2) must be at most {MOST_SUMS} for it"),
    )
}

impl Choosing {
    /// Of counts that fit the job, `[iteration, layer, source, expert]`.
    pub fn new(
        counts: &[u32],
        [_, layers, sources, experts]: [usize; 4],
        rules: Rules,
        p: &Parallelism,
        assignments: u32,
    ) -> Self {
        Choosing {
            counts: counts.to_vec(),
            experts,
            sources,
            ranks: p.ep as usize,
            layers,
            rules,
            tokens: assignments / rules.top_k as u32,
        }
    }

    /// Tokens of one rank and micro-batch.
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// The rules by which tokens choose.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Copies of an (iteration, layer) of the trace, of which `assignments` were made; `server_of` is of
    /// each rank.
    pub fn copies(
        &self,
        (iteration, layer): (u32, u32),
        assignments: &[u32],
        server_of: &[u32],
    ) -> Copies {
        let size = self.sources * self.experts;
        let first = (iteration as usize * self.layers + layer as usize) * size;
        let of_rank = self.sources / self.ranks * self.experts;
        let loads = |rank: usize, loads: &mut [u64]| {
            let rows = &self.counts[first + rank * of_rank..][..of_rank];
            for row in rows.chunks_exact(self.experts) {
                loads.iter_mut().zip(row).for_each(|(load, &count)| *load += u64::from(count));
            }
        };
        self.fill(loads, assignments, server_of)
    }

    /// Copies if assignments were these from rank (row) to rank (column), even over each rank's experts.
    pub fn copies_of(&self, assignments: &[u32], server_of: &[u32]) -> Copies {
        let each = self.experts / self.ranks;
        let loads = |rank: usize, loads: &mut [u64]| {
            let row = &assignments[rank * self.ranks..][..self.ranks];
            for (experts, &count) in loads.chunks_exact_mut(each).zip(row) {
                experts.fill(u64::from(count));
            }
        };
        self.fill(loads, assignments, server_of)
    }

    fn fill(
        &self,
        mut loads_of: impl FnMut(usize, &mut [u64]),
        assignments: &[u32],
        server_of: &[u32],
    ) -> Copies {
        let (ranks, each) = (self.ranks, self.experts / self.ranks);
        let servers = server_of.iter().max().map_or(0, |&last| last as usize + 1);
        // Neighbouring ranks of a server are one stretch of experts.
        let mut held: Vec<Vec<Range<usize>>> = vec![vec![]; servers];
        for (rank, &server) in server_of.iter().enumerate() {
            let experts = rank * each..(rank + 1) * each;
            match held[server as usize].last_mut() {
                Some(last) if last.end == experts.start => last.end = experts.end,
                _ => held[server as usize].push(experts),
            }
        }
        let mut copies = Copies {
            servers,
            to_rank: vec![0; ranks * ranks],
            to_server: vec![0; ranks * servers],
            apart: 0,
        };
        let mut loads = vec![0u64; self.experts];
        for rank in 0..ranks {
            loads.fill(0);
            loads_of(rank, &mut loads);
            let sent = &assignments[rank * ranks..][..ranks];
            let to_rank = &mut copies.to_rank[rank * ranks..][..ranks];
            let to_server = &mut copies.to_server[rank * servers..][..servers];
            if loads.iter().all(|&load| load == 0) {
                continue;
            }
            let choice = Choice::of(&loads, self.rules);
            copies.apart += u32::from(!choice.fits);
            let meets = |at: usize| {
                let server = at * each..(at + 1) * each;
                choice.meets(std::slice::from_ref(&server))
            };
            let bounds = |at: usize| [self.fewest(sent[at], each), sent[at].min(self.tokens)];
            self.whole((0..ranks).map(meets).collect(), bounds, to_rank);
            let mut least = vec![[0u32; 3]; servers];
            for (at, &server) in server_of.iter().enumerate() {
                let [assigned, most, all] = &mut least[server as usize];
                *assigned += sent[at];
                *most = (*most).max(to_rank[at]);
                *all = all.saturating_add(to_rank[at]);
            }
            let bounds = |server: usize| {
                let [assigned, most, all] = least[server];
                let experts = held[server].iter().map(Range::len).sum();
                [self.fewest(assigned, experts).max(most), all.min(self.tokens)]
            };
            let meets = held.iter().map(|experts| choice.meets(experts)).collect();
            self.whole(meets, bounds, to_server);
        }
        copies
    }

    /// Tokens of so many assignments to some experts, if each chose as many of them as it can.
    fn fewest(&self, assignments: u32, experts: usize) -> u32 {
        assignments.div_ceil(self.rules.top_k.min(experts).max(1) as u32)
    }

    /// Shares of the tokens in whole numbers, within bounds.
    fn whole(&self, shares: Vec<f64>, bounds: impl Fn(usize) -> [u32; 2], whole: &mut [u32]) {
        const PARTS: f64 = (1u64 << 40) as f64;
        let parts: Vec<u64> = shares.iter().map(|share| (share * PARTS) as u64).collect();
        let sum: f64 = shares.iter().sum();
        if parts.iter().any(|&part| part > 0) {
            // At most k times the tokens, which is all assignments.
            apportion(&parts, (sum * f64::from(self.tokens)).round() as u32, whole);
        }
        for (at, tokens) in whole.iter_mut().enumerate() {
            let [least, most] = bounds(at);
            *tokens = (*tokens).clamp(least.min(most), most);
        }
    }
}

/// Counts as a limit leaves them, each source's sum times a power of two that is the same for all; and how
/// many sources have loads that no choice under the limit can have, which are left as they are.
pub(crate) fn limited(counts: &[u32], rules: Rules) -> (Vec<u32>, usize) {
    let sum = |row: &[u32]| row.iter().map(|&count| u64::from(count)).sum::<u64>();
    let largest = counts.chunks_exact(rules.experts).map(sum).max().unwrap_or(1).max(1);
    // So that rounding is far below a token: up to 2^28 assignments a source.
    let times = ((1u64 << 28) / largest).max(1).ilog2();
    let mut limited = Vec::with_capacity(counts.len());
    let mut left = 0;
    let mut whole = vec![0; rules.experts];
    for row in counts.chunks_exact(rules.experts) {
        let loads: Vec<u64> = row.iter().map(|&count| u64::from(count)).collect();
        let shares = match loads.iter().any(|&load| load > 0) {
            true => Choice::of(&loads, rules.free()).limited(rules).map(|choice| choice.shares()),
            false => None,
        };
        let total = sum(row) << times;
        match (shares, u32::try_from(total)) {
            (Some(shares), Ok(total)) => {
                let parts: Vec<u64> =
                    shares.iter().map(|share| (share * (1u64 << 40) as f64) as u64).collect();
                apportion(&parts, total, &mut whole);
                limited.extend(&whole);
            }
            _ => {
                left += 1;
                limited.extend(row.iter().map(|&count| count << times));
            }
        }
    }
    (limited, left)
}

#[cfg(test)]
mod tests;
