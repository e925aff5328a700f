//! A group of ranks, as one of its servers sees it.

use super::arena::{Arena, Piece};
use super::job::Job;
use super::message::{Call, Place};
use crate::collective::{Element, Member, Reduction};
use crate::exchange::Endpoint;
use std::collections::{BTreeMap, VecDeque};

/// Who is to be answered: a connection, and the number of its question.
pub(super) type Who = (u64, u64);

/// The calls of this server's members for one collective.
pub(super) type Calls = BTreeMap<u32, (Who, Call)>;

/// A group.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// In rising order.
    pub ranks: Vec<u32>,
    /// Those of this server.
    pub here: Vec<u32>,
    /// Servers that have members.
    pub servers: Vec<Endpoint>,
    /// Members of this server that want it, until all do.
    pub joining: BTreeMap<u32, Who>,
    pub joined: bool,
    /// The number of the exchange's next operation.
    pub number: u64,
    /// Collectives that were not begun, in order.
    waiting: VecDeque<Calls>,
    begun: u64,
    /// By rank: how many collectives it has called.
    called: BTreeMap<u32, u64>,
    /// The operation whose rounds are not all begun: the next one must wait, or numbers would differ between servers.
    pub at_work: Option<u64>,
    pub failed: Option<String>,
    /// Of a sender and a receiver: who is who.
    pub ends: (u32, u32),
}

impl Group {
    /// Of these ranks.
    ///
    /// # Errors
    /// Ranks that are not there, not in rising order, or without the one that asks.
    pub fn new(job: &Job, me: Endpoint, ranks: &[u32], rank: u32) -> Result<Self, String> {
        let rising = ranks.windows(2).all(|two| two[0] < two[1]);
        if !rising || ranks.last().is_none_or(|&last| last >= job.ranks()) {
            let most = job.ranks() - 1;
            return Err(format!("a group's ranks must rise, and be from 0 to {most}"));
        }
        if !ranks.contains(&rank) {
            return Err(format!("rank {rank} is none of the group's"));
        }
        let mut servers: Vec<Endpoint> = ranks.iter().map(|&rank| job.server_of(rank)).collect();
        servers.dedup();
        let here = ranks.iter().copied().filter(|&rank| job.server_of(rank) == me).collect();
        Ok(Group { ranks: ranks.to_vec(), here, servers, ..Group::default() })
    }

    /// A rank calls a collective.
    pub fn call(&mut self, rank: u32, who: Who, call: Call) {
        let called = self.called.entry(rank).or_default();
        let at = (*called - self.begun) as usize;
        *called += 1;
        if self.waiting.len() <= at {
            self.waiting.push_back(Calls::new());
        }
        self.waiting[at].insert(rank, (who, call));
    }

    /// The next collective, if all members here have called it and it may begin.
    pub fn next(&mut self) -> Option<Calls> {
        let ready = self.joined && self.at_work.is_none() && self.failed.is_none();
        let all = self.waiting.front().is_some_and(|calls| calls.len() == self.here.len());
        if !(ready && all) {
            return None;
        }
        self.begun += 1;
        self.waiting.pop_front()
    }

    /// It has failed: who waited for it.
    pub fn fail(&mut self, why: &str) -> Vec<Who> {
        self.failed.get_or_insert_with(|| why.into());
        let calls = std::mem::take(&mut self.waiting);
        let waiting = calls.into_iter().flat_map(BTreeMap::into_values).map(|(who, _)| who);
        let joining = std::mem::take(&mut self.joining).into_values();
        waiting.chain(joining).collect()
    }

    /// Which of its servers this is.
    pub fn member(&self, me: Endpoint) -> Member {
        let at = self.servers.iter().position(|&server| server == me).unwrap_or(0);
        Member { at, of: self.servers.len() }
    }

    /// Its ranks on a server.
    pub fn on<'a>(&'a self, job: &'a Job, server: Endpoint) -> impl Iterator<Item = u32> + 'a {
        self.ranks.iter().copied().filter(move |&rank| job.server_of(rank) == server)
    }

    /// The number of a rank in the group.
    pub fn at(&self, rank: u32) -> usize {
        self.ranks.binary_search(&rank).unwrap_or(0)
    }

    /// Whether a call is one that this group can carry out.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    pub fn check(&self, job: &Job, call: &Call, arena: &Arena) -> Result<(), String> {
        let members = self.ranks.len();
        let of_all = |key: &str, count: usize| match count == members {
            true => Ok(()),
            false => Err(format!("`{key}` has {count} entries; the group has {members} ranks")),
        };
        let cover = |shards: &[u64], at: Place| {
            of_all("shards", shards.len())?;
            let sum = shards.iter().fold(0u64, |sum, &shard| sum.saturating_add(shard));
            let wrong = format!("`shards` are {sum} B in all; `at` has {} B", at.1);
            if sum == at.1 { Ok(()) } else { Err(wrong) }
        };
        let inside = |at: Place| piece(arena, at).map(|_| ());
        let elements = |key: &str, bytes: u64, element: &str| {
            let element: Element = element.parse().map_err(|why| format!("`element` {why}"))?;
            let whole = bytes % element.bytes() == 0;
            if whole { Ok(()) } else { Err(format!("`{key}` is {bytes} B: no whole elements")) }
        };
        let reduced = |reduction: &str| -> Result<(), String> {
            reduction.parse::<Reduction>().map(|_| ()).map_err(|why| format!("`reduction` {why}"))
        };
        match call {
            Call::AllToAll { sends, receives, path } => {
                of_all("sends", sends.len())?;
                of_all("receives", receives.len())?;
                if let Some(path) = path {
                    job.path_of(path).map_err(|why| format!("`path` {why}"))?;
                }
                sends.iter().chain(receives).try_for_each(|&at| inside(at))
            }
            Call::AllReduce { at, element, reduction } => {
                inside(*at)?;
                elements("at", at.1, element)?;
                reduced(reduction)
            }
            Call::ReduceScatter { at, shards, element, reduction } => {
                inside(*at)?;
                cover(shards, *at)?;
                shards.iter().try_for_each(|&bytes| elements("shards", bytes, element))?;
                reduced(reduction)
            }
            Call::AllGather { at, shards } => {
                inside(*at)?;
                cover(shards, *at)
            }
            Call::Broadcast { root, at } => {
                let member = self.ranks.contains(root);
                if member { inside(*at) } else { Err(format!("`root`: {root} is no member")) }
            }
            Call::Barrier => Ok(()),
            Call::Pass { at } => inside(*at),
        }
    }
}

/// A place in an arena.
///
/// # Errors
/// It is beyond it.
pub(super) fn piece(arena: &Arena, (offset, bytes): Place) -> Result<Piece, String> {
    let range = offset..offset.saturating_add(bytes);
    match arena.has(&range) {
        true => Ok(arena.piece(range)),
        false => Err(format!("{bytes} B at {offset} are beyond the arena")),
    }
}
