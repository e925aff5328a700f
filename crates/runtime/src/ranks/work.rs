//! The thread that carries out what ranks ask.

use super::agent::{Demands, FromAgent, ToAgent};
use super::arena::{Arena, lend};
use super::group::{Group, Who};
use super::job::{Job, Lanes};
use super::line;
use super::message::{Answer, Ask, Call, Place, Question, Said};
use super::operation::{Kind, Maker, Moves, Operation, Pieces, Times};
use super::service::{Heard, close};
use crate::exchange::{Chunk, Endpoint, Exchange, Transfer};
use crate::net::{Event, Node};
use crate::path::{Block, Path, Sender as Decides, Shape};
use lightloom_control::PortId;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Groups of a sender and a receiver have numbers from here on; ranks give theirs below.
const PAIRS: u32 = 1 << 31;
/// Bits of a rank in such a number.
const RANK_BITS: u32 = 15;

/// A connection: of a rank, once it has said which.
struct Client {
    stream: UnixStream,
    rank: Option<u32>,
    bye: bool,
}

/// What the agent has answered.
#[derive(Default)]
struct Answered {
    /// Demands up to this round.
    round: u64,
    /// When it said so (CLOCK_BOOTTIME) \[ns\].
    at_ns: u64,
    /// By optical port: the other end of the circuit that may be used since.
    ports: Vec<Option<PortId>>,
}

/// The state of the thread.
pub(super) struct Work {
    job: Job,
    me: Endpoint,
    node: Node,
    lanes: Arc<Lanes>,
    heard: Sender<Heard>,
    agent: Option<Box<dyn FnMut(ToAgent) + Send>>,
    clients: BTreeMap<u64, Client>,
    arenas: BTreeMap<u32, Arena>,
    /// Ranks that have come, whether they have gone or not.
    came: usize,
    groups: BTreeMap<u32, Group>,
    operations: BTreeMap<u64, Operation>,
    next: u64,
    demands: Demands,
    answered: Answered,
    /// The first rank that has ended before it was done.
    died: Option<String>,
}

impl Work {
    pub fn new(
        job: Job,
        me: Endpoint,
        node: Node,
        lanes: Lanes,
        heard: Sender<Heard>,
        agent: Option<Box<dyn FnMut(ToAgent) + Send>>,
    ) -> Self {
        Work {
            job,
            me,
            node,
            lanes: Arc::new(lanes),
            heard,
            agent,
            clients: BTreeMap::new(),
            arenas: BTreeMap::new(),
            came: 0,
            groups: BTreeMap::new(),
            operations: BTreeMap::new(),
            next: 0,
            demands: Demands::default(),
            answered: Answered::default(),
            died: None,
        }
    }

    /// Works until all ranks have come and gone.
    pub fn run(mut self, hears: &Receiver<Heard>) -> Result<(), String> {
        loop {
            let heard = match self.demands.until() {
                None => hears.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    hears.recv_timeout(left + Duration::from_millis(1))
                }
            };
            match heard {
                Ok(Heard::End) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(heard) => self.heard(heard),
                Err(RecvTimeoutError::Timeout) => self.answer_demands(),
            }
            let all = usize::from(self.job.ranks_per_server);
            if self.came == all && self.arenas.is_empty() && self.operations.is_empty() {
                break;
            }
        }
        for client in self.clients.values() {
            close(&client.stream);
        }
        self.died.map_or(Ok(()), Err)
    }

    fn heard(&mut self, heard: Heard) {
        match heard {
            Heard::Came { connection, stream } => {
                self.clients.insert(connection, Client { stream, rank: None, bye: false });
            }
            Heard::Asked { connection, question: Question { id, ask }, file } => {
                let who = (connection, id);
                if let Err(why) = self.asked(who, ask, file) {
                    self.answer(who, Said::Failed(why));
                }
            }
            Heard::Gone { connection, why } => self.gone(connection, why),
            Heard::Net(event) => self.event(event),
            Heard::Over { operation, round, result } => self.over(operation, round, result),
            Heard::Agent(said) => self.agent_says(said),
            Heard::End => {}
        }
    }

    fn answer(&mut self, who: Who, said: Said) {
        let Some(client) = self.clients.get(&who.0) else { return };
        if !line::answer(&client.stream, &Answer { id: who.1, said }) {
            close(&client.stream); // it does not read: its reader will say that it is gone
        }
    }

    fn done(&mut self, who: Who, value: Value) {
        self.answer(who, Said::Done(value));
    }

    fn asked(&mut self, who: Who, ask: Ask, file: Option<OwnedFd>) -> Result<(), String> {
        let rank = self.clients.get(&who.0).and_then(|client| client.rank);
        if let Ask::Hello { rank } = ask {
            return self.hello(who, rank, file);
        }
        let rank = rank.ok_or("the first question is `hello`")?;
        match ask {
            Ask::Hello { .. } => {}
            Ask::Group { group, ranks } => self.join(who, group, &ranks, rank)?,
            Ask::Leave { group } => self.leave(who, group, rank)?,
            Ask::Post { group, call } if group < PAIRS => self.post(who, group, rank, call)?,
            Ask::Post { group, .. } => return Err(format!("group {group} is not joined")),
            Ask::Send { to, at } => self.pass(who, (rank, to), rank, at)?,
            Ask::Receive { from, at } => self.pass(who, (from, rank), rank, at)?,
            Ask::Demand { round, bytes } => self.demand(who, round, rank, &bytes)?,
            Ask::Statistics => {
                let statistics = self.statistics();
                self.done(who, statistics);
            }
            Ask::Bye => {
                if let Some(client) = self.clients.get_mut(&who.0) {
                    client.bye = true;
                }
                self.done(who, Value::Null);
            }
        }
        Ok(())
    }

    fn hello(&mut self, who: Who, rank: u32, file: Option<OwnedFd>) -> Result<(), String> {
        let first = u32::from(self.me) * u32::from(self.job.ranks_per_server);
        let here = first..first + u32::from(self.job.ranks_per_server);
        if !here.contains(&rank) {
            let last = here.end - 1;
            return Err(format!("rank {rank} is not of this server; {first} to {last} are"));
        }
        if self.arenas.contains_key(&rank) {
            return Err(format!("rank {rank} is here already"));
        }
        let file = file.ok_or("with `hello` comes the arena's descriptor")?;
        let arena = Arena::map(&file).map_err(|why| why.to_string())?;
        let Some(client) = self.clients.get_mut(&who.0) else { return Ok(()) };
        if client.rank.is_some() {
            return Err("`hello` was said before".into());
        }
        client.rank = Some(rank);
        self.arenas.insert(rank, arena);
        self.came += 1;
        let job = &self.job;
        let said = json!({
            "ranks": job.ranks(), "ranks_per_server": job.ranks_per_server,
            "server": job.servers[usize::from(self.me)].name, "round": job.round,
        });
        self.done(who, said);
        Ok(())
    }

    /// A rank's connection has ended.
    fn gone(&mut self, connection: u64, why: Option<String>) {
        let Some(client) = self.clients.remove(&connection) else { return };
        if let (Some(why), None) = (&why, client.rank) {
            let _ =
                line::answer(&client.stream, &Answer { id: 0, said: Said::Failed(why.clone()) });
        }
        close(&client.stream);
        let Some(rank) = client.rank else { return };
        self.arenas.remove(&rank);
        if client.bye {
            return;
        }
        let reason = why.map_or_else(String::new, |why| format!(": {why}"));
        let why = format!("rank {rank} has ended{reason}");
        self.died.get_or_insert_with(|| why.clone());
        let its: Vec<u32> =
            self.groups.iter().filter(|it| it.1.ranks.contains(&rank)).map(|it| *it.0).collect();
        for group in its {
            self.fail(group, &why, true);
        }
    }

    fn join(&mut self, who: Who, group: u32, ranks: &[u32], rank: u32) -> Result<(), String> {
        if group >= PAIRS {
            return Err(format!("a group's number is {group}; 0 to {} is allowed", PAIRS - 1));
        }
        let new = Group::new(&self.job, self.me, ranks, rank)?;
        let dead = new.here.iter().find(|rank| !self.arenas.contains_key(rank)).copied();
        let came = self.came == usize::from(self.job.ranks_per_server);
        let it = self.groups.entry(group).or_insert(new);
        if it.ranks != ranks {
            return Err(format!("group {group} is of other ranks at another rank of this server"));
        }
        if it.joined || it.joining.contains_key(&rank) {
            return Err(format!("group {group} was joined before"));
        }
        if let Some(why) = it.failed.clone() {
            return Err(why);
        }
        it.joining.insert(rank, who);
        if let (Some(dead), true) = (dead, came) {
            self.fail(group, &format!("rank {dead} has ended"), true);
        } else if it.joining.len() == it.here.len() {
            self.joined(group)?;
        }
        Ok(())
    }

    /// All members here want it.
    fn joined(&mut self, group: u32) -> Result<(), String> {
        let Some(it) = self.groups.get_mut(&group) else { return Ok(()) };
        it.joined = true;
        let asked: Vec<Who> = std::mem::take(&mut it.joining).into_values().collect();
        if it.servers.len() > 1 {
            let life = |&server: &Endpoint| (server, self.job.servers[usize::from(server)].life);
            let members = it.servers.iter().map(life).collect();
            if let Err(why) = self.node.join(group, members) {
                let why = why.to_string();
                it.failed = Some(why.clone());
                for who in asked {
                    self.answer(who, Said::Failed(why.clone()));
                }
                return Ok(());
            }
        }
        for who in asked {
            self.done(who, Value::Null);
        }
        Ok(())
    }

    fn leave(&mut self, who: Who, group: u32, rank: u32) -> Result<(), String> {
        let it = self.groups.get_mut(&group).filter(|it| group < PAIRS && it.here.contains(&rank));
        let it = it.ok_or_else(|| format!("group {group} is not joined"))?;
        it.joining.insert(rank, who);
        if it.joining.len() == it.here.len() {
            let asked: Vec<Who> = std::mem::take(&mut it.joining).into_values().collect();
            let between = it.servers.len() > 1;
            for who in it.fail("the group was left") {
                self.answer(who, Said::Failed("the group was left".into()));
            }
            self.groups.remove(&group);
            if between {
                self.node.leave(group);
            }
            for who in asked {
                self.done(who, Value::Null);
            }
        }
        Ok(())
    }

    fn post(&mut self, who: Who, group: u32, rank: u32, call: Call) -> Result<(), String> {
        let it = self.groups.get_mut(&group).filter(|it| it.joined && it.here.contains(&rank));
        let it = it.ok_or_else(|| format!("group {group} is not joined"))?;
        if let Some(why) = &it.failed {
            return Err(why.clone());
        }
        it.check(&call, self.arenas.get(&rank).ok_or("no arena")?)?;
        it.call(rank, who, call);
        self.begin(group);
        Ok(())
    }

    /// A rank's part of a send and its receive.
    fn pass(&mut self, who: Who, ends: (u32, u32), rank: u32, at: Place) -> Result<(), String> {
        let (source, target) = ends;
        let most = self.job.ranks().min(1 << RANK_BITS);
        if source == target || source.max(target) >= most {
            let last = most - 1;
            return Err(format!("the other end must be another rank, from 0 to {last}"));
        }
        let group = PAIRS | source << RANK_BITS | target;
        if !self.groups.contains_key(&group) {
            let ranks = [source.min(target), source.max(target)];
            let mut it = Group::new(&self.job, self.me, &ranks, rank)?;
            it.ends = ends;
            self.groups.insert(group, it);
            self.joined(group)?;
        }
        let it = self.groups.get_mut(&group).ok_or("no such group")?;
        if let Some(why) = &it.failed {
            return Err(why.clone());
        }
        let call = Call::Pass { at };
        it.check(&call, self.arenas.get(&rank).ok_or("no arena")?)?;
        it.call(rank, who, call);
        self.begin(group);
        Ok(())
    }

    /// Begins what a group may begin.
    fn begin(&mut self, group: u32) {
        while let Some(calls) = self.groups.get_mut(&group).and_then(Group::next) {
            let it = &self.groups[&group];
            let maker = Maker {
                job: &self.job,
                me: self.me,
                group: it,
                arenas: &self.arenas,
                algorithm: &self.job.algorithm(it.servers.len()),
            };
            let asks: Vec<Who> = calls.values().map(|(who, _)| *who).collect();
            let name = calls.values().next().map_or("", |(_, call)| call.name());
            let begun = self.now();
            match maker.make(&calls) {
                Ok((kind, path)) => {
                    let id = self.next;
                    self.next += 1;
                    let times = Times { begun, ..Times::default() };
                    let operation = Operation {
                        group,
                        name,
                        asks,
                        path,
                        kind,
                        under_way: 0,
                        failed: None,
                        times,
                    };
                    self.operations.insert(id, operation);
                    self.start(id);
                }
                Err(why) => {
                    for who in asks {
                        self.answer(who, Said::Failed(why.clone()));
                    }
                    self.fail(group, &why, true);
                }
            }
        }
    }

    fn start(&mut self, id: u64) {
        let now = self.now();
        let Some(operation) = self.operations.get_mut(&id) else { return };
        operation.times.exchange = now;
        let group = operation.group;
        let copies = match &mut operation.kind {
            Kind::Once { moves, copies } => {
                let (moves, copies) = (moves.take(), std::mem::take(copies));
                if let Some(moves) = moves {
                    self.exchange(id, 0, moves);
                }
                copies
            }
            Kind::Rounds(_) => vec![],
        };
        // Between ranks of this server, while the network works.
        let begun = self.now();
        copies.iter().for_each(|(from, into)| from.copy_to(into));
        let ended = self.now();
        if let Some(operation) = self.operations.get_mut(&id) {
            if !copies.is_empty() {
                operation.times.local = (begun, ended);
            }
            if let Some(group) = self.groups.get_mut(&group) {
                group.at_work = Some(id);
            }
        }
        self.go_on(id);
    }

    /// Begins the rounds that may begin, and ends an operation of which nothing is left.
    fn go_on(&mut self, id: u64) {
        while let Some((round, moves)) = self.next_round(id) {
            self.exchange(id, round, moves);
        }
        let Some(operation) = self.operations.get(&id) else { return };
        let group = operation.group;
        let (begun, over) = match &operation.kind {
            _ if operation.failed.is_some() => (true, operation.under_way == 0),
            Kind::Once { .. } => (true, operation.under_way == 0),
            Kind::Rounds(it) if it.is_alone() => (true, true),
            Kind::Rounds(it) => (it.run.is_begun(), it.run.is_over()),
        };
        if over {
            self.end(id);
        }
        if let Some(group) =
            self.groups.get_mut(&group).filter(|it| begun && it.at_work == Some(id))
        {
            group.at_work = None;
        }
        if begun {
            self.begin(group);
        }
    }

    fn next_round(&mut self, id: u64) -> Option<(usize, Moves)> {
        let operation = self.operations.get_mut(&id).filter(|it| it.failed.is_none())?;
        match &mut operation.kind {
            Kind::Rounds(it) if !it.is_alone() => {
                let round = it.run.begin()?;
                Some((round, it.moves(round)))
            }
            _ => None,
        }
    }

    /// Hands an operation to the network.
    fn exchange(&mut self, id: u64, round: usize, moves: Moves) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let Some(group) = self.groups.get_mut(&operation.group) else { return };
        let transfers = |pieces: &Pieces| -> Vec<Transfer> {
            let bytes = |pieces: &[super::arena::Piece]| pieces.iter().map(|it| it.bytes()).sum();
            pieces.iter().map(|(peer, it)| Transfer { peer: *peer, bytes: bytes(it) }).collect()
        };
        let (sends, receives) = (transfers(&moves.sends), transfers(&moves.receives));
        operation.under_way += 1;
        let heard = self.heard.clone();
        let Some(memory) = lend(&moves.sends, &moves.receives) else {
            let result = Err("memory beyond an arena".into());
            let _ = heard.send(Heard::Over { operation: id, round, result });
            return;
        };
        let number = group.number;
        group.number += 1;
        let plan = planner(&self.job, self.me, operation.path, moves.blocks, self.lanes.clone());
        self.node.post(operation.group, number, sends, receives, plan, memory, move |result| {
            let result = result.map(|_| ()).map_err(|why| why.to_string());
            let _ = heard.send(Heard::Over { operation: id, round, result });
        });
    }

    fn over(&mut self, id: u64, round: usize, result: Result<(), String>) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        operation.under_way -= 1;
        let group = operation.group;
        match result {
            Ok(()) => {
                if let Kind::Rounds(it) = &mut operation.kind {
                    it.fold(round);
                    it.run.end(round);
                }
            }
            Err(why) => {
                operation.failed.get_or_insert_with(|| why.clone());
                self.fail(group, &why, false);
            }
        }
        self.go_on(id);
    }

    /// All of its memory is back.
    fn end(&mut self, id: u64) {
        let Some(mut operation) = self.operations.remove(&id) else { return };
        let now = self.now();
        operation.times.exchanged = now;
        if let (Kind::Rounds(it), None) = (&operation.kind, &operation.failed) {
            it.after.iter().for_each(|(from, into)| from.copy_to(into));
            if !it.after.is_empty() {
                operation.times.local = (now, self.now());
            }
        }
        let said = operation.times.said(self.now());
        for who in std::mem::take(&mut operation.asks) {
            match &operation.failed {
                None => self.done(who, said.clone()),
                Some(why) => self.answer(who, Said::Failed(format!("{}: {why}", operation.name))),
            }
        }
    }

    /// A group has failed: at other servers, too, if they do not know it.
    fn fail(&mut self, group: u32, why: &str, tell: bool) {
        let Some(it) = self.groups.get_mut(&group) else { return };
        let new = it.failed.is_none();
        let waiting = it.fail(why);
        let between = it.servers.len() > 1 && it.joined;
        for who in waiting {
            self.answer(who, Said::Failed(why.into()));
        }
        if new && tell && between {
            self.node.abort(group);
        }
        let under_way = self.operations.iter_mut().filter(|it| it.1.group == group);
        let ids: Vec<u64> = under_way
            .map(|(id, it)| {
                it.failed.get_or_insert_with(|| why.into());
                *id
            })
            .collect();
        if new {
            ids.into_iter().for_each(|id| self.go_on(id));
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::GroupFailed(failure) => self.fail(failure.group, &failure.to_string(), false),
            Event::Runtime(output) => {
                if let Some(agent) = &mut self.agent {
                    agent(ToAgent::Runtime(output));
                }
            }
            Event::Up(_) => self.answer_demands(),
            Event::Down(..) | Event::Unreachable(..) | Event::Lost(_) => {}
        }
    }

    fn agent_says(&mut self, said: FromAgent) {
        match said {
            FromAgent::Use(mut told) => {
                if told.round > self.answered.round {
                    (self.answered.round, self.answered.at_ns) = (told.round, self.now());
                }
                told.circuits.resize(usize::from(self.job.optical_nics), None);
                self.answered.ports = told.circuits.clone();
                self.node.told(told);
                self.answer_demands();
            }
            FromAgent::Drain { token, ports } => self.node.drain(token, ports),
            FromAgent::Forsaken => self.node.forsaken(),
        }
    }

    fn demand(&mut self, who: Who, round: u64, rank: u32, bytes: &[u64]) -> Result<(), String> {
        if bytes.len() != self.job.ranks() as usize {
            let (found, allowed) = (bytes.len(), self.job.ranks());
            return Err(format!("`bytes` has {found} entries; the job has {allowed} ranks"));
        }
        let per_server = usize::from(self.job.ranks_per_server);
        let sum = |ranks: &[u64]| ranks.iter().fold(0u64, |sum, &more| sum.saturating_add(more));
        let mut servers: Vec<u64> = bytes.chunks(per_server).map(sum).collect();
        servers[usize::from(self.me)] = 0;
        let Some(bytes) = self.demands.add(round, rank, who, &servers, per_server) else {
            return Ok(());
        };
        match &mut self.agent {
            Some(agent) => agent(ToAgent::Demand { round, bytes }),
            None => self.answered.round = self.answered.round.max(round),
        }
        self.answer_demands();
        Ok(())
    }

    /// Answers demands for which circuits stand, and those that have waited long enough.
    fn answer_demands(&mut self) {
        if self.demands.until().is_none() {
            return;
        }
        let ready = self.circuits_are_up();
        for (who, decided) in self.demands.answered(self.answered.round, ready) {
            let Answered { at_ns, ports, .. } = &self.answered;
            let circuits = ports.iter().flatten().count();
            let said = json!({
                "decided": decided, "decided_ns": at_ns, "circuits": circuits, "ports": ports,
            });
            self.done(who, said);
        }
    }

    /// Whether each port that may be used has a connection.
    fn circuits_are_up(&self) -> bool {
        let lit = (0..).zip(&self.answered.ports).filter(|it| it.1.is_some());
        let (lanes, ports) = (self.lanes.clone(), lit.map(|it| it.0).collect::<Vec<u16>>());
        let packet = self.job.packet_nics;
        let all = move |exchange: &Exchange| {
            let up = |port: &u16| {
                let mut its = lanes.iter().filter(|it| it.0.1 == packet + port);
                its.any(|it| exchange.is_usable(*it.1))
            };
            ports.iter().all(up)
        };
        self.node.ask(all).unwrap_or(true)
    }

    fn statistics(&self) -> Value {
        let nics = self.job.packet_nics + self.job.optical_nics;
        let packet = self.job.packet_nics;
        let all = self.node.ask(move |exchange| {
            (0..nics).map(|nic| exchange.nic_statistics(nic)).collect::<Vec<_>>()
        });
        let nic = |(nic, it): (u16, crate::exchange::Statistics)| {
            let mut said = json!(it);
            said["circuit"] = (nic >= packet).into();
            said
        };
        (0..).zip(all.unwrap_or_default()).map(nic).collect()
    }

    fn now(&self) -> u64 {
        let clock = self.node.clock();
        clock.boottime_ns(clock.now())
    }
}

/// Makes the plan of an operation from the lanes that may be used when it begins.
fn planner(
    job: &Job,
    server: Endpoint,
    path: Path,
    blocks: Vec<Block>,
    lanes: Arc<Lanes>,
) -> impl FnOnce(&Exchange) -> Vec<Chunk> + Send + 'static {
    let (shape, chunk) = (job.shape(), job.chunk);
    let Shape { packet_nics, optical_nics, .. } = shape;
    move |exchange| {
        let mut circuits = vec![None; usize::from(optical_nics)];
        for (&(peer, nic, peer_nic), &lane) in &*lanes {
            if nic >= packet_nics && exchange.is_usable(lane) {
                circuits[usize::from(nic - packet_nics)] = Some((peer, peer_nic - packet_nics));
            }
        }
        let decides = Decides { shape, server, circuits: &circuits, chunk };
        let is_up =
            |peer, nic| lanes.get(&(peer, nic, nic)).is_some_and(|&lane| exchange.is_usable(lane));
        let ways = decides.ways(path, &blocks, is_up);
        let lane = |peer, nic, peer_nic| lanes.get(&(peer, nic, peer_nic)).copied();
        // A way that has no lane would fail the operation, and name its peer.
        ways.iter()
            .filter_map(|way| {
                let lane = lane(way.server, way.nic, way.peer_nic)?;
                Some(Chunk { peer: way.server, lane, offset: way.offset, length: way.length })
            })
            .collect()
    }
}
