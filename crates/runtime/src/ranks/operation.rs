//! One collective under way at a server.

use super::arena::{Arena, Piece};
use super::group::{Calls, Group, Who, piece};
use super::job::Job;
use super::message::Call;
use crate::collective::{
    Algorithm, Element, Fold, Part, Program, Reduction, Run, all_gather, all_reduce, barrier,
    broadcast, reduce_scatter,
};
use crate::exchange::Endpoint;
use crate::net::Landings;
use crate::path::{Block, Path};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// By server: what goes there, or comes from there.
pub(super) type Pieces = Vec<(Endpoint, Vec<Piece>)>;

/// What one operation of the exchange moves.
#[derive(Debug, Default)]
pub(super) struct Moves {
    pub sends: Pieces,
    pub receives: Pieces,
    pub blocks: Vec<Block>,
}

/// A collective under way.
pub(super) struct Operation {
    pub group: u32,
    pub name: &'static str,
    pub asks: Vec<Who>,
    pub path: Path,
    pub kind: Kind,
    /// Operations of the exchange that have its memory.
    pub under_way: usize,
    pub failed: Option<String>,
    pub times: Times,
    /// When what came from other servers had come, if that is noted.
    pub landings: Option<Arc<Landings>>,
}

/// How it goes.
pub(super) enum Kind {
    /// All at once: what goes between servers, and what is copied here meanwhile.
    Once { moves: Option<Moves>, copies: Vec<(Piece, Piece)> },
    /// Round by round, over the memory of one rank of this server.
    Rounds(Box<Rounds>),
}

/// When its parts were, as all processes of the computer count (CLOCK_BOOTTIME) \[ns\]; zero if not yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub begun: u64,
    pub exchange: u64,
    pub local: (u64, u64),
    pub exchanged: u64,
}

impl Times {
    pub fn said(&self, ended: u64) -> Value {
        json!({
            "begun_ns": self.begun,
            "local_ns": [self.local.0, self.local.1],
            "exchange_ns": [self.exchange, self.exchanged],
            "ended_ns": ended,
        })
    }
}

/// A program under way.
pub(super) struct Rounds {
    pub program: Program,
    pub run: Run,
    servers: Vec<Endpoint>,
    me: Endpoint,
    bytes: Piece,
    scratch: Arena,
    reduces: (Element, Reduction),
    /// What is copied when all rounds are over.
    pub after: Vec<(Piece, Piece)>,
}

impl Rounds {
    /// Where a part of the program's memory is.
    fn piece(&self, range: &Range<u64>) -> Piece {
        let bytes = self.program.bytes;
        match range.start < bytes {
            true => {
                let begin = self.bytes.range.start;
                self.bytes.arena.piece(begin + range.start..begin + range.end)
            }
            false => self.scratch.piece(range.start - bytes..range.end - bytes),
        }
    }

    /// What a round moves.
    pub fn moves(&self, round: usize) -> Moves {
        let by_server = |parts: &[Part]| {
            let mut pieces: BTreeMap<Endpoint, Vec<Piece>> = BTreeMap::new();
            for part in parts {
                let list = pieces.entry(self.servers[part.peer]).or_default();
                list.push(self.piece(&part.range));
            }
            pieces.into_iter().collect::<Pieces>()
        };
        let round = &self.program.rounds[round];
        let (sends, receives) = (by_server(&round.sends), by_server(&round.receives));
        let block = |(server, pieces): &(Endpoint, Vec<Piece>)| Block {
            source: 0,
            server: *server,
            target: 0,
            bytes: pieces.iter().map(|it| it.range.end - it.range.start).sum(),
        };
        let blocks = sends.iter().map(block).collect();
        Moves { sends, receives, blocks }
    }

    /// Reduces what has come in a round.
    pub fn fold(&self, round: usize) {
        for Fold { from, into } in &self.program.rounds[round].folds {
            let into = self.piece(&(*into..into + from.end - from.start));
            self.piece(from).fold_into(&into, self.reduces.0, self.reduces.1);
        }
    }

    /// Whether it needs other servers.
    pub fn is_alone(&self) -> bool {
        self.servers == [self.me]
    }
}

/// What a collective is made of.
pub(super) struct Maker<'a> {
    pub job: &'a Job,
    pub me: Endpoint,
    pub group: &'a Group,
    /// By rank of this server.
    pub arenas: &'a BTreeMap<u32, Arena>,
}

impl Maker<'_> {
    /// Makes it of the calls of this server's members, which were checked one by one.
    ///
    /// # Errors
    /// Calls that differ.
    pub fn make(&self, calls: &Calls) -> Result<(Kind, Path), String> {
        let mut all = calls.values().map(|(_, call)| call);
        let first = all.next().ok_or("nobody has called it")?;
        let default = self.job.path_of(&self.job.path)?;
        if let Some(other) = all.find(|other| !alike(first, other)) {
            return Err(format!(
                "ranks of one server have called {} and {}, or one with other settings",
                first.name(),
                other.name()
            ));
        }
        let kind = match first {
            Call::AllToAll { path, .. } => {
                let path = path.as_ref().map_or(Ok(default), |path| self.job.path_of(path))?;
                return Ok((self.all_to_all(calls)?, path));
            }
            Call::Pass { .. } => self.pass(calls)?,
            Call::AllReduce { .. } => self.reduced(calls, None)?,
            Call::ReduceScatter { shards, .. } => self.reduced(calls, Some(shards))?,
            Call::AllGather { shards, .. } => self.gathered(calls, shards)?,
            Call::Broadcast { root, .. } => self.broadcast(calls, *root)?,
            Call::Barrier => {
                let member = self.group.member(self.me);
                let bytes = Arena::scratch(member.of as u64).map_err(|why| why.to_string())?;
                let bytes = bytes.piece(0..member.of as u64);
                self.rounds(barrier(member), bytes, vec![], None)?
            }
        };
        Ok((kind, default))
    }

    /// How a collective of so many bytes goes, but for all-to-alls.
    fn algorithm(&self, bytes: u64) -> Algorithm {
        self.job.algorithm(self.group.servers.len(), bytes)
    }

    fn piece(&self, rank: u32, place: (u64, u64)) -> Result<Piece, String> {
        piece(self.arenas.get(&rank).ok_or_else(|| format!("rank {rank} is gone"))?, place)
    }

    fn all_to_all(&self, calls: &Calls) -> Result<Kind, String> {
        let (job, group) = (self.job, self.group);
        let mut moves = Moves::default();
        let places = |rank: u32| match &calls[&rank].1 {
            Call::AllToAll { sends, receives, .. } => (sends.as_slice(), receives.as_slice()),
            _ => (&[][..], &[][..]),
        };
        let local = |rank: u32| (rank % u32::from(job.ranks_per_server)) as u16;
        let mut copies = Vec::new();
        for &server in &group.servers {
            let (mut to, mut from) = (Vec::new(), Vec::new());
            for &rank in &group.here {
                for other in group.on(job, server) {
                    let place = places(rank).0[group.at(other)];
                    let piece = self.piece(rank, place)?;
                    if server == self.me {
                        let into = self.piece(other, places(other).1[group.at(rank)])?;
                        if piece.bytes() != into.bytes() {
                            let (sent, expected) = (piece.bytes(), into.bytes());
                            return Err(format!(
                                "rank {rank} sends {sent} B to rank {other}, which expects {expected} B"
                            ));
                        }
                        copies.push((piece, into));
                        continue;
                    }
                    let (source, target, bytes) = (local(rank), local(other), place.1);
                    moves.blocks.push(Block { source, server, target, bytes });
                    to.push(piece);
                }
            }
            for other in group.on(job, server).filter(|_| server != self.me) {
                for &rank in &group.here {
                    from.push(self.piece(rank, places(rank).1[group.at(other)])?);
                }
            }
            if server != self.me {
                moves.sends.push((server, to));
                moves.receives.push((server, from));
            }
        }
        Ok(Kind::Once { moves: (group.servers.len() > 1).then_some(moves), copies })
    }

    /// The group is of the sender and the receiver.
    fn pass(&self, calls: &Calls) -> Result<Kind, String> {
        let (source, target) = (self.group.ends.0, self.group.ends.1);
        let place = |rank: u32| match calls.get(&rank) {
            Some((_, Call::Pass { at })) => self.piece(rank, *at).map(Some),
            _ => Ok(None),
        };
        let local = |rank: u32| (rank % u32::from(self.job.ranks_per_server)) as u16;
        let (from, into) = (place(source)?, place(target)?);
        let mut moves = Moves::default();
        match (from, into) {
            (Some(from), Some(into)) if from.bytes() == into.bytes() => {
                return Ok(Kind::Once { moves: None, copies: vec![(from, into)] });
            }
            (Some(from), Some(into)) => {
                let (sent, expected) = (from.bytes(), into.bytes());
                return Err(format!(
                    "rank {source} sends {sent} B to rank {target}, which expects {expected} B"
                ));
            }
            (Some(from), None) => {
                let server = self.job.server_of(target);
                let (source, target, bytes) = (local(source), local(target), from.bytes());
                moves.blocks.push(Block { source, server, target, bytes });
                moves.sends.push((server, vec![from]));
            }
            (None, Some(into)) => {
                moves.receives.push((self.job.server_of(source), vec![into]));
            }
            (None, None) => {}
        }
        Ok(Kind::Once { moves: Some(moves), copies: vec![] })
    }

    /// The memories of this server's members, the first of which the program works on.
    fn members(&self, calls: &Calls) -> Result<Vec<(u32, Piece)>, String> {
        let member = |(&rank, (_, call)): (&u32, &(_, Call))| match call {
            Call::AllReduce { at, .. }
            | Call::ReduceScatter { at, .. }
            | Call::AllGather { at, .. }
            | Call::Broadcast { at, .. } => Ok((rank, self.piece(rank, *at)?)),
            _ => Err("a call without memory".to_owned()),
        };
        calls.iter().map(member).collect()
    }

    /// Where each server's shard is: those of its ranks, which follow each other.
    fn of_servers(&self, shards: &[u64]) -> Vec<Range<u64>> {
        let mut begin = 0;
        let shard = |&server: &Endpoint| {
            let bytes: u64 =
                self.group.on(self.job, server).map(|rank| shards[self.group.at(rank)]).sum();
            begin += bytes;
            begin - bytes..begin
        };
        self.group.servers.iter().map(shard).collect()
    }

    fn reduced(&self, calls: &Calls, shards: Option<&[u64]>) -> Result<Kind, String> {
        let members = self.members(calls)?;
        let ((_, work), others) = members.split_first().ok_or("nobody has called it")?;
        let reduces = calls.values().find_map(|(_, call)| match call {
            Call::AllReduce { element, reduction, .. }
            | Call::ReduceScatter { element, reduction, .. } => Some((element, reduction)),
            _ => None,
        });
        let (element, reduction) = reduces.ok_or("no reduction")?;
        let reduces: (Element, Reduction) = (element.parse()?, reduction.parse()?);
        for (_, other) in others {
            other.fold_into(work, reduces.0, reduces.1);
        }
        let (me, element) = (self.group.member(self.me), reduces.0.bytes());
        let algorithm = self.algorithm(work.bytes());
        let program = match shards {
            None => all_reduce(&algorithm, me, work.bytes(), element),
            Some(shards) => reduce_scatter(&algorithm, me, &self.of_servers(shards), element),
        };
        let part = |rank: u32, piece: &Piece| match shards {
            None => piece.clone(),
            Some(shards) => own(piece, shards, self.group.at(rank)),
        };
        let copy = |(rank, other): &(u32, Piece)| (part(*rank, work), part(*rank, other));
        self.rounds(program, work.clone(), others.iter().map(copy).collect(), Some(reduces))
    }

    fn gathered(&self, calls: &Calls, shards: &[u64]) -> Result<Kind, String> {
        let members = self.members(calls)?;
        let ((_, work), others) = members.split_first().ok_or("nobody has called it")?;
        for (rank, other) in others {
            let at = self.group.at(*rank);
            own(other, shards, at).copy_to(&own(work, shards, at));
        }
        let me = self.group.member(self.me);
        let program = all_gather(&self.algorithm(work.bytes()), me, &self.of_servers(shards));
        let after = others.iter().map(|(_, other)| (work.clone(), other.clone())).collect();
        self.rounds(program, work.clone(), after, None)
    }

    fn broadcast(&self, calls: &Calls, root: u32) -> Result<Kind, String> {
        let mut members = self.members(calls)?;
        // On its server the root's memory is the one that is sent.
        if let Some(at) = members.iter().position(|&(rank, _)| rank == root) {
            members.swap(0, at);
        }
        let ((_, work), others) = members.split_first().ok_or("nobody has called it")?;
        let me = self.group.member(self.me);
        let server = self.job.server_of(root);
        let at = self.group.servers.iter().position(|&it| it == server).unwrap_or(0);
        let program = broadcast(&self.algorithm(work.bytes()), me, at, work.bytes());
        let after = others.iter().map(|(_, other)| (work.clone(), other.clone())).collect();
        self.rounds(program, work.clone(), after, None)
    }

    fn rounds(
        &self,
        program: Program,
        bytes: Piece,
        after: Vec<(Piece, Piece)>,
        reduces: Option<(Element, Reduction)>,
    ) -> Result<Kind, String> {
        let scratch = Arena::scratch(program.scratch).map_err(|why| why.to_string())?;
        Ok(Kind::Rounds(Box::new(Rounds {
            run: Run::new(&program),
            program,
            servers: self.group.servers.clone(),
            me: self.me,
            bytes,
            scratch,
            reduces: reduces.unwrap_or((Element::U8, Reduction::Sum)),
            after,
        })))
    }
}

/// One rank's shard of memory that has all of them.
fn own(piece: &Piece, shards: &[u64], at: usize) -> Piece {
    let begin = piece.range.start + shards[..at].iter().sum::<u64>();
    piece.arena.piece(begin..begin + shards[at])
}

/// Whether two ranks of a server call the same, but for where their memory is.
fn alike(one: &Call, other: &Call) -> bool {
    let placed = |call: &Call| {
        let mut call = call.clone();
        match &mut call {
            Call::AllToAll { sends, receives, .. } => (*sends, *receives) = (vec![], vec![]),
            Call::Pass { at } => *at = (0, 0),
            Call::AllReduce { at, .. }
            | Call::ReduceScatter { at, .. }
            | Call::AllGather { at, .. }
            | Call::Broadcast { at, .. } => at.0 = 0,
            Call::Barrier => {}
        }
        call
    };
    placed(one) == placed(other)
}
