//! Three endpoints with a packet NIC and an optical one each, and what lies between them: no delay, and no faults but
//! those that a test makes. A circuit joins two of them.

use lightloom_control::{Mark, Stage, Use};
use lightloom_runtime::exchange::*;
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// An end of a wire.
pub type At = (usize, ConnectionId);

pub struct End {
    pub exchange: Exchange,
    /// By peer: what is sent to it and has come from it, of the operation under way.
    pub sends: BTreeMap<u16, Vec<u8>>,
    pub receives: BTreeMap<u16, Vec<u8>>,
    pub done: u64,
    pub failed: Vec<Failure>,
    pub downs: Vec<(LaneId, LaneError)>,
}

pub struct Trio {
    pub now: Time,
    pub ends: Vec<End>,
    /// The endpoint whose packet NIC is gone.
    pub stranded: Option<usize>,
    /// The ends of the circuit.
    joined: (usize, usize),
    /// What goes to this endpoint by packets stays on its way.
    pub stuck: Option<usize>,
    /// Nothing is written to it.
    pub paused: Option<At>,
    chunk: u32,
    wires: BTreeMap<At, At>,
    circuits: Vec<At>,
    pipes: BTreeMap<At, VecDeque<u8>>,
    told: u64,
    number: u64,
}

pub const CHUNK: u32 = 100;
const PACKET: Nic = 0;

/// An endpoint's lanes to a peer: one over packets, one over the circuit that may stand.
fn lanes(me: u16) -> Vec<LaneSpec> {
    let lane = |peer: u16| {
        let circuit = Medium::Circuit { port: 0, peer: (peer, 0) };
        let spec = move |(nic, medium)| LaneSpec { peer, nic, peer_nic: nic, medium, way: 0 };
        [(PACKET, Medium::Packet), (1, circuit)].map(spec)
    };
    (0..3).filter(|&peer| peer != me).flat_map(lane).collect()
}

impl Trio {
    pub fn new(joined: (usize, usize), change: impl Fn(Settings) -> Settings) -> Self {
        let now = Time::from_ms(1);
        let end = |me: u16| {
            let base = Settings::new(7, me, 1, b"secret");
            let settings = Settings { ports: 1, chunk: CHUNK, small: 0, ..base };
            let exchange = Exchange::new(change(settings), lanes(me), now);
            let mut exchange = exchange.expect("settings that fit");
            exchange.join(now, 1, &[(0, 1), (1, 1), (2, 1)]).expect("a new group");
            let (sends, receives) = (BTreeMap::new(), BTreeMap::new());
            End { exchange, sends, receives, done: 0, failed: vec![], downs: vec![] }
        };
        let mut trio = Trio {
            now,
            ends: (0..3).map(end).collect(),
            stranded: None,
            joined,
            stuck: None,
            paused: None,
            chunk: change(Settings { chunk: CHUNK, ..Settings::new(7, 0, 1, b"secret") }).chunk,
            wires: BTreeMap::new(),
            circuits: Vec::new(),
            pipes: BTreeMap::new(),
            told: 0,
            number: 0,
        };
        trio.light();
        trio.flow();
        trio
    }

    /// Both ends are told that their circuit stands.
    pub fn light(&mut self) {
        self.told += 1;
        let (one, other) = self.joined;
        for (at, peer) in [(one, other), (other, one)] {
            let mark = Mark { generation: 1, stage: Stage::Resume };
            let circuits = vec![Some((peer as u16, 0))];
            let until = self.now + Time::from_ms(1_000_000);
            let told = Use { number: self.told, mark, round: 0, circuits, until };
            self.ends[at].exchange.told(self.now, told);
        }
    }

    /// Whether an endpoint reaches another one over a lane of this kind.
    fn reaches(&self, one: usize, other: usize, circuit: bool) -> bool {
        let gone = self.stranded.is_some_and(|it| it == one || it == other);
        let joined = (one.min(other), one.max(other)) == self.joined;
        if circuit { joined } else { !gone }
    }

    /// An endpoint's packet NIC is gone: its connections are, too.
    pub fn strand(&mut self, at: usize) {
        self.stranded = Some(at);
        let all: Vec<(At, At)> = self.wires.iter().map(|(a, b)| (*a, *b)).collect();
        for (here, there) in all {
            if here.0 == at && !self.circuits.contains(&here) {
                self.cut(here, there);
            }
        }
    }

    /// The circuit's connection breaks.
    pub fn break_circuit(&mut self) {
        for here in self.circuits.clone() {
            if let Some(&there) = self.wires.get(&here) {
                self.cut(here, there);
            }
        }
    }

    fn cut(&mut self, here: At, there: At) {
        for (at, connection) in [here, there] {
            self.wires.remove(&(at, connection));
            self.pipes.remove(&(at, connection));
            self.ends[at].exchange.closed(self.now, connection);
        }
        self.carry_out();
    }

    /// Time passes; what is due is done.
    pub fn wait(&mut self, ms: u64) {
        self.now += Time::from_ms(ms);
        (0..3).for_each(|at| self.ends[at].exchange.timeout(self.now));
        self.flow();
    }

    /// Until so many operations are done at every endpoint, or so many times 10 ms have passed.
    pub fn settle(&mut self, done: u64, times: u64) -> bool {
        (0..times).any(|_| {
            self.wait(10);
            self.ends.iter().all(|end| end.done == done)
        })
    }

    fn carry_out(&mut self) {
        for at in 0..3 {
            while let Some(output) = self.ends[at].exchange.poll() {
                self.output(at, output);
            }
        }
    }

    fn output(&mut self, at: usize, output: Output) {
        match output {
            Output::Dial { lane } => {
                let spec = lanes(at as u16)[lane.0 as usize];
                let nonce = [self.wires.len() as u8; 16];
                let here = self.ends[at].exchange.dialed(self.now, lane, nonce).expect("asked");
                let (peer, circuit) = (usize::from(spec.peer), spec.port().is_some());
                if !self.reaches(at, peer, circuit) {
                    return self.ends[at].exchange.closed(self.now, here);
                }
                let there = self.ends[peer].exchange.accepted(self.now, spec.peer_nic, nonce);
                let there = there.expect("room");
                for (one, other) in [((at, here), (peer, there)), ((peer, there), (at, here))] {
                    self.wires.insert(one, other);
                    self.pipes.insert(one, VecDeque::new());
                    self.circuits.extend(Some(one).filter(|_| circuit));
                }
            }
            Output::Close { connection, .. } => {
                if let Some(there) = self.wires.remove(&(at, connection)) {
                    self.wires.remove(&there);
                    self.ends[there.0].exchange.closed(self.now, there.1);
                }
            }
            Output::Down { lane, error } => self.ends[at].downs.push((lane, error)),
            Output::Early { source, bytes, .. } => {
                let place = self.ends[at].receives.get_mut(&source).expect("expected");
                place[..bytes.len()].copy_from_slice(&bytes);
            }
            Output::Done { .. } => self.ends[at].done += 1,
            Output::GroupFailed(failure) => self.ends[at].failed.push(failure),
            _ => {}
        }
    }

    /// Bytes flow until none do.
    pub fn flow(&mut self) {
        self.carry_out();
        loop {
            let all: Vec<(At, At)> = self.wires.iter().map(|(a, b)| (*a, *b)).collect();
            let moved = all.iter().fold(false, |any, &(here, there)| {
                let stays = self.stuck == Some(there.0) && !self.circuits.contains(&there);
                let stays = stays || self.paused == Some(here);
                any | (!stays && self.write((here, there), usize::MAX))
            });
            if !moved {
                return;
            }
        }
    }

    /// An endpoint's end of the circuit, and the other.
    pub fn circuit(&self, at: usize) -> (At, At) {
        let mut wires = self.wires.iter().map(|(here, there)| (*here, *there));
        wires.find(|(here, _)| here.0 == at && self.circuits.contains(here)).expect("it is up")
    }

    /// The connections of two endpoints over packets break.
    pub fn part(&mut self, one: usize, other: usize) {
        let all: Vec<(At, At)> = self.wires.iter().map(|(a, b)| (*a, *b)).collect();
        for (here, there) in all {
            if (here.0, there.0) == (one, other) && !self.circuits.contains(&here) {
                self.cut(here, there);
            }
        }
    }

    /// Whose bytes an end of a wire would send next, if it is payload.
    pub fn next_for(&mut self, here: At) -> Option<u16> {
        let transmit = self.ends[here.0].exchange.transmit(self.now, here.1)?;
        transmit.body.map(|body| body.peer)
    }

    /// One write of so much at most, of which the other end reads all.
    pub fn write(&mut self, (here, there): (At, At), most: usize) -> bool {
        let end = &mut self.ends[here.0];
        let Some(Transmit { head, body }) = end.exchange.transmit(self.now, here.1) else {
            return false;
        };
        let mut bytes = head.to_vec();
        if let Some(Body { peer, offset, length, .. }) = body {
            let from = &end.sends[&peer];
            bytes.extend_from_slice(&from[offset as usize..offset as usize + length as usize]);
        }
        bytes.truncate(most);
        end.exchange.sent(self.now, here.1, bytes.len());
        self.carry_out();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() && self.wires.contains_key(&there) {
            let end = &mut self.ends[there.0];
            let Some(space) = end.exchange.space(there.1) else { break };
            let read = match space {
                Space::Buffer(buffer) => {
                    let read = buffer.len().min(rest.len());
                    buffer[..read].copy_from_slice(&rest[..read]);
                    read
                }
                Space::Memory { source, offset, length, .. } => {
                    let read = rest.len().min(length as usize);
                    let place = end.receives.get_mut(&source).expect("expected");
                    place[offset as usize..][..read].copy_from_slice(&rest[..read]);
                    read
                }
                Space::Sink { length } => rest.len().min(length as usize),
            };
            rest = &rest[read..];
            end.exchange.filled(self.now, there.1, read);
            self.carry_out();
        }
        true
    }

    /// Every endpoint sends so much to every other, in chunks that are planned for the packet lane.
    pub fn all_to_all(&mut self, bytes: u64) {
        let number = self.number;
        self.number += 1;
        let said = |source: u16, target: u16| -> Vec<u8> {
            let seed = u64::from(source) * 31 + u64::from(target) * 7 + number;
            (0..bytes).map(|at| (at * 13 + at / 251 + seed) as u8).collect()
        };
        for at in 0..3u16 {
            let end = &mut self.ends[usize::from(at)];
            let peers: Vec<u16> = (0..3).filter(|&peer| peer != at).collect();
            end.sends = peers.iter().map(|&peer| (peer, said(at, peer))).collect();
            end.receives = peers.iter().map(|&peer| (peer, vec![0; bytes as usize])).collect();
            let all = || peers.iter().map(|&peer| Transfer { peer, bytes }).collect::<Vec<_>>();
            let lane = |peer: u16| LaneId(2 * u32::from(peer - u16::from(peer > at)));
            let plan =
                peers.iter().flat_map(|&peer| striped(peer, bytes, &[lane(peer)], self.chunk));
            let (sends, receives, plan) = (all(), all(), plan.collect());
            let operation = Operation { group: 1, number, sends, receives, plan };
            end.exchange.post(self.now, operation).expect("it fits");
        }
        self.flow();
    }

    /// What has come is what was sent.
    pub fn is_right(&self) -> bool {
        (0..3u16).all(|at| {
            let receives = &self.ends[usize::from(at)].receives;
            receives.iter().all(|(from, bytes)| self.ends[usize::from(*from)].sends[&at] == *bytes)
        })
    }

    /// Bytes of relayed connections that an endpoint has sent.
    pub fn relayed(&self, at: usize) -> u64 {
        (0..6).map(|lane| self.ends[at].exchange.statistics(LaneId(lane)).relayed).sum()
    }
}
