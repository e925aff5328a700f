//! The thread that carries out what ranks ask.

mod carry;
mod circuits;
mod groups;
mod plan;

use super::agent::{Demands, ToAgent};
use super::arena::Arena;
use super::counters::{Counters, nic_names, peers};
use super::group::{Group, Who};
use super::heard::Heard;
use super::job::{Job, Lanes};
use super::line;
use super::message::{Answer, Ask, Question, Said};
use super::operation::Operation;
use crate::exchange::Endpoint;
use crate::net::Node;
use lightloom_control::PortId;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Groups of a sender and a receiver have numbers from here on; ranks give theirs below.
const PAIRS: u32 = 1 << 31;
/// Bits of a rank in such a number.
const RANK_BITS: u32 = 15;
/// A runtime that others need as a relay when its ranks have gone looks so often whether they still do.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

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
    /// The plan of the circuits that may be used since.
    plan: u64,
    /// By optical port: the other end of its circuit.
    ports: Vec<Option<PortId>>,
    /// By optical port: the circuit that was waited for in vain, and stands since.
    forgone: Vec<Option<PortId>>,
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
    /// The agent reaches the controller.
    decides: bool,
    /// All ranks have gone, and others need this server as a relay: until then.
    leaves: Option<Instant>,
    /// The first rank that has ended before it was done.
    died: Option<String>,
    /// What was counted when all was over.
    last: Arc<Mutex<Counters>>,
}

impl Work {
    pub fn new(
        job: Job,
        me: Endpoint,
        node: Node,
        lanes: Lanes,
        heard: Sender<Heard>,
        agent: Option<Box<dyn FnMut(ToAgent) + Send>>,
        last: Arc<Mutex<Counters>>,
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
            decides: false,
            leaves: None,
            died: None,
            last,
        }
    }

    /// Works until all ranks have come and gone.
    pub fn run(mut self, hears: &Receiver<Heard>) -> Result<(), String> {
        loop {
            let soon = self.leaves.map(|_| Instant::now() + LOOK_AGAIN);
            let heard = match self.demands.until().into_iter().chain(soon).min() {
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
            if self.came == all
                && self.arenas.is_empty()
                && self.operations.is_empty()
                && self.may_leave()
            {
                break;
            }
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = self.counters();
        for client in self.clients.values() {
            line::close(&client.stream);
        }
        self.died.map_or(Ok(()), Err)
    }

    /// Whether nobody needs this server as a relay, or has for as long as a server may say nothing.
    fn may_leave(&mut self) -> bool {
        let lost = Duration::from_millis(self.job.lost_ms);
        let until = *self.leaves.get_or_insert_with(|| Instant::now() + lost);
        let relays = self.node.ask(|exchange| exchange.relays()).unwrap_or(0);
        relays == 0 || Instant::now() >= until
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
            Heard::Count(answer) => {
                let _ = answer.send(self.counters()); // whoever has asked may have gone
            }
            Heard::End => {}
        }
    }

    fn answer(&mut self, who: Who, said: Said) {
        let Some(client) = self.clients.get(&who.0) else { return };
        if !line::answer(&client.stream, &Answer { id: who.1, said }) {
            line::close(&client.stream); // it does not read: its reader will say that it is gone
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
            Ask::Demand { round, bytes, ahead } => self.demand(who, round, rank, &bytes, ahead)?,
            Ask::Statistics => {
                let nics = json!(self.counters().nics);
                self.done(who, nics);
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
        line::close(&client.stream);
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

    /// What was counted; nothing if the endpoint has ended.
    fn counters(&self) -> Counters {
        let (nics, peers) = (nic_names(&self.job, self.me), peers(&self.job, self.me));
        let packet = self.job.packet_nics;
        let all = self.node.ask(move |exchange| Counters::new(exchange, &nics, packet, &peers));
        all.unwrap_or_default()
    }

    fn now(&self) -> u64 {
        let clock = self.node.clock();
        clock.boottime_ns(clock.now())
    }
}
