//! Which NIC each chunk takes: what the decisions say, as chunks and lanes.
//!
//! Modelled: servers of equal ranks and NICs. NICs on packet switches come first, then those on the optical
//! switch, in the order of its ports; NIC `i` of a server belongs to rank `i R / K` of its R ranks and K NICs. A
//! [`Path`] asks one decision, each of which is written where the simulator has it too:
//! - [`Path::Delegate`]: [`lightloom_circuits::Router`]. A pair of servers uses its circuits alike; without one, all
//!   packet NICs.
//! - [`Path::Rails`]: [`lightloom_rails::assign`] deals chunks to the packet NICs, by LPT or a simpler rule.
//! - [`Path::Balanced`]: a load balancer of the simulator chooses when a chunk's turn comes ([`Stream`]).
//!
//! What goes to one server is laid out by sending rank, then by receiving rank.
//! Ignored: what other servers send; the rates of NICs. Each lane has a queue of its own, so chunks of one lane
//! are in the order of their offsets, and those of different lanes in none. A lane that may not be used when its
//! turn comes is the exchange's matter.
//! Checked: every byte is in one chunk; chunks take the NICs that the decisions name; the loads of
//! [`lightloom_rails`] and of [`lightloom_circuits::Routing`].

mod parts;
mod streams;

pub use parts::{Block, Shape, Way};
pub use streams::Stream;

use crate::exchange::Nic;
use lightloom_circuits::{Part, PortMap, RouteOptions, Router};
use lightloom_control::PortId;
use lightloom_packet::BalancerSpec;
use lightloom_rails::lpt::sizes;
use lightloom_rails::{Deal, Message, Rates, assign};
use parts::begins;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// How bytes are shared over NICs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Path {
    /// Over the circuits between two servers; over packet switches where there are none (MixNet).
    Delegate,
    /// Over all packet NICs, chunk by chunk (RailS with [`Deal::Lpt`]).
    Rails(Deal),
    /// From rank to rank, as a balancer spreads flows. Its name alone does not give it: it has settings.
    Balanced(BalancerSpec),
}

impl Path {
    /// The names of all. `stripe` deals chunks in turn, `rails` by LPT; the others are rules to compare with.
    pub const NAMES: [&str; 6] = ["delegate", "rails", "stripe", "hash", "pxn", "source"];
}

impl FromStr for Path {
    type Err = String;

    /// ```
    /// use lightloom_runtime::path::Path;
    /// assert!(Path::NAMES.iter().all(|name| name.parse::<Path>().unwrap().to_string() == *name));
    /// assert_eq!("x".parse::<Path>().unwrap_err(), "must be one of delegate, rails, stripe, hash, pxn, source");
    /// ```
    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "delegate" => Ok(Path::Delegate),
            "rails" => Ok(Path::Rails(Deal::Lpt)),
            "stripe" => Ok(Path::Rails(Deal::RoundRobin)),
            "hash" => Ok(Path::Rails(Deal::Hash)),
            "pxn" => Ok(Path::Rails(Deal::Pxn)),
            "source" => Ok(Path::Rails(Deal::Source)),
            _ => Err(format!("must be one of {}", Path::NAMES.join(", "))),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Path::Delegate => "delegate",
            Path::Rails(Deal::Lpt) => "rails",
            Path::Rails(Deal::RoundRobin) => "stripe",
            Path::Rails(Deal::Hash) => "hash",
            Path::Rails(Deal::Pxn) => "pxn",
            Path::Rails(Deal::Source) => "source",
            // It needs all servers' demands; no name of a path gives it.
            Path::Rails(Deal::Both) => "both",
            Path::Balanced(balancer) => balancer.kind().name,
        })
    }
}

/// Who decides: this server, what it may use, and how long a chunk is.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// What servers consist of.
    pub shape: Shape,
    /// This server's number in the region.
    pub server: u16,
    /// By optical port: the port at the other end of the circuit that may be used now.
    pub circuits: &'a [Option<PortId>],
    /// The longest chunk \[B\].
    pub chunk: u32,
}

impl Sender<'_> {
    /// The chunks of one all-to-all, by server and offset. `blocks` are those of this server's ranks to
    /// others, at most one for two ranks; `is_up` says which packet NICs lead to a server now.
    ///
    /// ```
    /// use lightloom_runtime::path::{Block, Path, Sender, Shape};
    /// let shape = Shape { servers: 2, ranks: 2, packet_nics: 2, optical_nics: 1 };
    /// let sender = Sender { shape, server: 0, circuits: &[Some((1, 0))], chunk: 100 };
    /// let block = Block { source: 0, server: 1, target: 1, bytes: 250 };
    /// let nics = |path: Path| {
    ///     let ways = sender.ways(path, &[block], |_, _| true);
    ///     ways.iter().map(|way| (way.nic, way.offset, way.length)).collect::<Vec<_>>()
    /// };
    /// assert_eq!(nics(Path::Delegate), [(2, 0, 100), (2, 100, 100), (2, 200, 50)]);
    /// assert_eq!(nics("stripe".parse().unwrap()), [(0, 0, 100), (1, 100, 100), (0, 200, 50)]);
    /// ```
    ///
    /// # Panics
    /// If a block is of a rank or server that is not there, or of this server, `chunk` is 0, or servers have no
    /// packet NIC.
    pub fn ways(&self, path: Path, blocks: &[Block], is_up: impl Fn(u16, Nic) -> bool) -> Vec<Way> {
        self.streams(path, blocks, u64::MAX, is_up).0
    }

    /// The same, and the streams of those that go by packet NICs, of which so much may be in flight to one NIC of another
    /// server \[B\]. Which NIC of its stream's a chunk takes is open until its turn comes.
    ///
    /// ```
    /// use lightloom_runtime::path::{Block, Path, Sender, Shape};
    /// let shape = Shape { servers: 2, ranks: 2, packet_nics: 2, optical_nics: 0 };
    /// let sender = Sender { shape, server: 0, circuits: &[], chunk: 100 };
    /// let block = Block { source: 0, server: 1, target: 1, bytes: 250 };
    /// let min_rtt = Path::Balanced(serde_json::from_str(r#"{"kind": "min-rtt"}"#)?);
    /// let (ways, streams) = sender.streams(min_rtt, &[block], 1000, |_, _| true);
    /// assert_eq!((ways.len(), &streams[0].nics, streams[0].window), (3, &vec![0, 1], 500));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`Sender::ways`].
    pub fn streams(
        &self,
        path: Path,
        blocks: &[Block],
        window: u64,
        is_up: impl Fn(u16, Nic) -> bool,
    ) -> (Vec<Way>, Vec<Stream>) {
        let mut blocks: Vec<Block> = blocks.iter().filter(|it| it.bytes > 0).copied().collect();
        blocks.sort_unstable_by_key(|it| (it.server, it.source, it.target));
        let ways = match path {
            Path::Delegate => return (self.by_circuits(&blocks), vec![]),
            Path::Rails(deal) => self.by_rails(deal, &blocks, is_up),
            Path::Balanced(balancer) => {
                let (me, bytes) = (self.server, (self.chunk, window));
                return streams::by_balancer(self.shape, me, &blocks, &balancer, bytes);
            }
        };
        let streams = streams::by_nics(&ways, window);
        (ways, streams)
    }

    fn by_circuits(&self, blocks: &[Block]) -> Vec<Way> {
        let Shape { servers, ranks, optical_nics, .. } = self.shape;
        let mut ports = PortMap::dark(servers.into(), optical_nics.into());
        for (port, peer) in (0..optical_nics).zip(self.circuits) {
            if let Some(peer) = peer {
                ports.connect((self.server, port), *peer);
            }
        }
        let rank = |server: u16, rank: u16| u32::from(server) * u32::from(ranks) + u32::from(rank);
        let ends = |it: &Block| (rank(self.server, it.source), rank(it.server, it.target));
        let demand: Vec<_> = blocks.iter().map(|it| (ends(it).0, ends(it).1, it.bytes)).collect();
        let begins: BTreeMap<_, _> = blocks.iter().map(ends).zip(begins(blocks)).collect();
        let options = RouteOptions { share_eps: false, optical_bps: 0, packet_bps: 0 };
        let parts = Router::default().parts(&demand, &ports, &self.shape.layout(), &options);
        let run = |part: &Part| Run {
            server: part.hop.to.0,
            nics: (part.hop.from.1, part.hop.to.1),
            offset: begins[&(part.source, part.destination)] + part.offset,
            bytes: part.hop.bytes,
        };
        let mut runs: Vec<Run> = parts.iter().map(run).collect();
        runs.sort_unstable_by_key(|run| (run.server, run.offset));
        runs.dedup_by(|next, run| run.takes(next));
        runs.iter().flat_map(|run| run.cut(self.chunk)).collect()
    }

    fn by_rails(&self, deal: Deal, blocks: &[Block], is_up: impl Fn(u16, Nic) -> bool) -> Vec<Way> {
        let (servers, rails) = (usize::from(self.shape.servers), self.shape.packet_nics);
        let mut rates = Rates::new(servers, rails.into());
        for server in 0..self.shape.servers {
            let up = |rail: &u16| is_up(server, *rail);
            // If none is up, they will wait: any will do.
            if (0..rails).any(|rail| up(&rail)) {
                (0..rails).filter(|rail| !up(rail)).for_each(|rail| {
                    rates.set_down(server.into(), rail);
                });
            }
        }
        let message = |it: &Block| Message {
            bytes: it.bytes,
            destination: it.server.into(),
            source: it.source.into(),
            receiver: it.target.into(),
        };
        // A rule of its own demand alone: of the others, nothing is asked.
        let me = usize::from(self.server);
        let mut messages = vec![vec![]; servers];
        messages[me] = blocks.iter().map(message).collect();
        let mut known = vec![Rates::new(servers, rails.into()); servers];
        known[me] = rates;
        let chunk = u64::from(self.chunk);
        let dealt = assign(&messages, rails.into(), chunk, deal, &known);
        let mut dealt = dealt.rails[me].iter();
        let mut ways = Vec::new();
        for (block, mut offset) in blocks.iter().zip(begins(blocks)) {
            for (length, &rail) in sizes(block.bytes, chunk).zip(&mut dealt) {
                let (server, length) = (block.server, length as u32);
                ways.push(Way { server, nic: rail, peer_nic: rail, offset, length });
                offset += u64::from(length);
            }
        }
        ways
    }
}

/// Bytes to a server that take the same NICs.
#[derive(Clone, Copy)]
struct Run {
    server: u16,
    nics: (Nic, Nic),
    offset: u64,
    bytes: u64,
}

impl Run {
    /// Whether the other follows this one on the same NICs: then it becomes a part of it.
    fn takes(&mut self, next: &Run) -> bool {
        let follows = (next.server, next.nics) == (self.server, self.nics);
        let follows = follows && next.offset == self.offset + self.bytes;
        self.bytes += if follows { next.bytes } else { 0 };
        follows
    }

    fn cut(self, chunk: u32) -> impl Iterator<Item = Way> {
        let Run { server, nics: (nic, peer_nic), bytes, .. } = self;
        let offsets = (0..bytes).step_by(chunk as usize);
        offsets.map(move |at| {
            let length = (bytes - at).min(chunk.into()) as u32;
            Way { server, nic, peer_nic, offset: self.offset + at, length }
        })
    }
}

#[cfg(test)]
mod tests;
