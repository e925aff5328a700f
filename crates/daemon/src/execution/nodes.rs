//! Nodes that follow a plan, emulated: each says what it has done and hears what stands over a stream of
//! its own, and what they send each other is time alone.
//!
//! Modelled: a transmission takes its bytes at the node's rate; what was sent has come. Every transmission
//! is a line of JSON with when it began and ended, by `CLOCK_BOOTTIME`, to be held against what switches
//! held then. One that must stop at the end of a lease is a line of its own, and goes on in another.
//! Ignored: the bytes themselves.

use super::link::{BEAT, News, Said, link};
use super::wire::read_view;
use crate::agent::Controller;
use crate::clock::{Clock, boottime_ns};
use crate::failure::Failure;
use lightloom_control::execution::{NodeRun, Stage, Transmission};
use lightloom_units::{BitRate, Time};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::Write;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until};

/// A transmission that is over, as a line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Who sent.
    pub node: u32,
    /// Over which of its ports.
    pub port: u32,
    /// To whom.
    pub peer: u32,
    /// The step that it is of.
    pub step: u32,
    /// How much \[B\].
    pub bytes: u64,
    /// When it began, by `CLOCK_BOOTTIME` \[ns\].
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// Nodes of one process.
pub struct Followers {
    nodes: Vec<NodeRun>,
    numbers: Vec<u32>,
    rate: BitRate,
    /// By node: how much longer its transmissions take.
    slower: BTreeMap<u32, Time>,
    log: Option<Box<dyn Write + Send>>,
    give_up: Duration,
    reports: Vec<Said>,
    news: mpsc::Receiver<(usize, News)>,
    clock: Clock,
    flights: BinaryHeap<Reverse<(Time, u64, usize)>>,
    /// By number: what is under way.
    sending: BTreeMap<u64, Flight>,
    /// By node and port: what is left of a transmission that had to stop.
    left: BTreeMap<(usize, u32), Time>,
    number: u64,
    /// Transmissions that have ended whole.
    whole: u64,
}

#[derive(Clone, Copy)]
struct Flight {
    one: Transmission,
    began: Time,
    begin_ns: u64,
    due: Time,
    /// What the whole transmission takes.
    whole: Time,
}

impl Followers {
    /// Nodes, by number, that reach an execution there.
    ///
    /// # Errors
    /// An address or a token that cannot be.
    pub fn new(
        nodes: Vec<(u32, NodeRun)>,
        controller: &Controller,
        rate: BitRate,
        give_up: Duration,
    ) -> Result<Self, Failure> {
        let (tell, news) = mpsc::channel(1024);
        let mut reports = Vec::new();
        for at in 0..nodes.len() {
            reports.push(link(controller, at, tell.clone())?);
        }
        let (numbers, nodes) = nodes.into_iter().unzip();
        Ok(Followers {
            nodes,
            numbers,
            rate,
            slower: BTreeMap::new(),
            log: None,
            give_up,
            reports,
            news,
            clock: Clock::start(),
            flights: BinaryHeap::new(),
            sending: BTreeMap::new(),
            left: BTreeMap::new(),
            number: 0,
            whole: 0,
        })
    }

    /// Has every transmission of a node take so much longer.
    pub fn slow(&mut self, node: u32, by: Time) {
        self.slower.insert(node, by);
    }

    /// Writes every transmission there, a line of JSON each.
    pub fn log_to(&mut self, log: Box<dyn Write + Send>) {
        self.log = Some(log);
    }

    /// Follows to the end: how many transmissions there were.
    ///
    /// # Errors
    /// If it fell back, or refuses us, or is not there for too long, or the log cannot be written.
    pub async fn run(mut self) -> Result<u64, Failure> {
        let mut heard = Instant::now();
        let mut why_down = "it does not answer".to_owned();
        let mut beat = Instant::now();
        loop {
            self.send()?;
            if let Some(ended) = self.ended() {
                self.say();
                // The last report is on its way.
                sleep(Duration::from_millis(50)).await;
                return ended;
            }
            if heard.elapsed() > self.give_up {
                return Err(Failure::Run(format!("no execution: {why_down}")));
            }
            if beat <= Instant::now() {
                self.say();
                beat = Instant::now() + BEAT;
            }
            let due = self.flights.peek().map_or(Time::MAX, |Reverse((due, ..))| *due);
            let due = self.nodes.iter().map(NodeRun::next_timeout).fold(due, Time::min);
            tokio::select! {
                Some((at, news)) = self.news.recv() => match news {
                    News::View(view) => {
                        heard = Instant::now();
                        let view = read_view(view).map_err(|why| Failure::Run(why.into()))?;
                        self.nodes[at].told(self.clock.now(), view);
                    }
                    News::Over(why) => {
                        let node = self.numbers[at];
                        return Err(Failure::Run(format!("node {node}: {why}")));
                    }
                    News::Down(why) => why_down = why,
                },
                () = sleep_until(self.clock.at(due).min(beat).into()) => self.land()?,
            }
        }
    }

    /// Stops what must not be sent any more, and begins what may be sent now.
    fn send(&mut self) -> Result<(), Failure> {
        let now = self.clock.now();
        for at in 0..self.nodes.len() {
            for port in self.nodes[at].cut(now) {
                let under_way = |(_, number, of): &(Time, u64, usize)| {
                    *of == at && self.sending.get(number).is_some_and(|one| one.one.plane == port)
                };
                let found = self.flights.iter().map(|Reverse(one)| *one).find(under_way);
                let Some(flight) = found.and_then(|(_, number, _)| self.sending.remove(&number))
                else {
                    continue;
                };
                self.left.insert((at, port), flight.due.saturating_sub(now));
                self.log(at, &flight, now)?;
            }
            while let Some(one) = self.nodes[at].next(now) {
                self.number += 1;
                let longer = self.slower.get(&self.numbers[at]).copied().unwrap_or(Time::ZERO);
                let whole = self.rate.time_for(one.bytes).saturating_add(longer);
                let takes = self.left.remove(&(at, one.plane)).unwrap_or(whole);
                let due = now.saturating_add(takes);
                let flight = Flight { one, began: now, begin_ns: boottime_ns(), due, whole };
                self.sending.insert(self.number, flight);
                self.flights.push(Reverse((due, self.number, at)));
            }
        }
        Ok(())
    }

    /// Ends what has been sent by now.
    fn land(&mut self) -> Result<(), Failure> {
        let mut landed = false;
        while let Some(Reverse((due, number, at))) = self.flights.peek().copied() {
            if due > self.clock.now() {
                break;
            }
            self.flights.pop();
            let Some(flight) = self.sending.remove(&number) else { continue };
            self.log(at, &flight, flight.due)?;
            let one = flight.one;
            self.nodes[at].sent(one.plane);
            self.whole += 1;
            if let Some(peer) = self.numbers.iter().position(|&number| number == one.peer) {
                self.nodes[peer].received(one.step, one.bytes);
            }
            landed = true;
        }
        if landed {
            self.say();
        }
        Ok(())
    }

    /// Writes what was sent of a transmission until now.
    fn log(&mut self, at: usize, flight: &Flight, until: Time) -> Result<(), Failure> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let Flight { one, began, begin_ns, whole, .. } = *flight;
        let share = until.saturating_sub(began).ps() as f64 / whole.ps().max(1) as f64;
        let sent = Sent {
            node: self.numbers[at],
            port: one.plane,
            peer: one.peer,
            step: one.step,
            bytes: (one.bytes.get() as f64 * share.min(1.0)).round() as u64,
            begin_ns,
            end_ns: boottime_ns(),
        };
        let line = serde_json::to_string(&sent).unwrap_or_default();
        writeln!(log, "{line}").map_err(|why| Failure::Run(format!("--sends: {why}")))
    }

    /// Every node says what it knows.
    fn say(&mut self) {
        let now = self.clock.now();
        for (node, says) in self.nodes.iter_mut().zip(&self.reports) {
            says.send_replace(Some(node.report(now)));
        }
    }

    /// Whether all nodes have heard that it is over, and how.
    fn ended(&mut self) -> Option<Result<u64, Failure>> {
        let stage = |node: &NodeRun| node.view().stage;
        if self.nodes.iter().all(|node| stage(node) == Stage::Complete && node.is_over()) {
            return Some(Ok(self.whole));
        }
        let over = |node: &NodeRun| {
            matches!(stage(node), Stage::FellBack | Stage::Complete) && node.is_quiet()
        };
        let fell = self.nodes.iter().find(|node| stage(node) == Stage::FellBack)?;
        let why = format!("the plan fell back: {}", fell.view().why);
        self.nodes.iter().all(over).then_some(Err(Failure::Run(why)))
    }
}
