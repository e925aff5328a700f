//! A node at work: it hears what stands, sends what it may, and says what it has done with.

use super::super::link::{BEAT, News, Said};
use super::super::nodes::Sent;
use super::super::wire::read_view;
use super::job::{Job, Part};
use super::record::{Circuits, Record};
use crate::clock::boottime_ns;
use crate::failure::Failure;
use lightloom_control::execution::{NodeRun, Plan, Stage, Transmission};
use lightloom_control::{RuntimeOutput, Use};
use lightloom_runtime::exchange::LaneId;
use lightloom_runtime::net::{Event, Node};
use lightloom_runtime::planned::Member;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender};
use tokio::time::sleep_until;

/// What happens at the node's NICs.
pub enum Happened {
    Net(Event),
    /// What was under way on a port is acknowledged, or why it failed.
    Sent(u32, Result<(), String>),
    /// A part of a step's message has come, from this place in it on.
    Came(u32, u64, Result<Vec<u8>, String>),
}

/// What a node is made of.
pub struct Parts {
    pub node: u32,
    pub plan: Plan,
    pub job: Job,
    pub run: NodeRun,
    pub member: Member,
    pub net: Node,
    pub happens: UnboundedReceiver<Happened>,
    pub happen: UnboundedSender<Happened>,
    pub says: Said,
    pub news: Receiver<(usize, News)>,
    /// By peer and plane: the lane over a circuit.
    pub sending: BTreeMap<(u32, u32), LaneId>,
    /// By peer: lanes over packets.
    pub packets: BTreeMap<u32, Vec<LaneId>>,
    /// By node: where each part begins in its message.
    pub offsets: Vec<BTreeMap<Part, u64>>,
    pub give_up: Duration,
}

/// A node that moves bytes.
pub struct Carrier {
    pub(super) of: Parts,
    pub(super) up: BTreeSet<LaneId>,
    /// Ports that are drained before their circuit may end; the number of the last drain.
    pub(super) closing: BTreeSet<u32>,
    pub(super) token: u64,
    /// The last that was told to the endpoint.
    pub(super) told: Use,
    /// By peer and plane: operations that were begun.
    pub(super) numbers: BTreeMap<(u32, u32), u64>,
    /// By port: what is under way, and since when.
    pub(super) under_way: BTreeMap<u32, (Transmission, u64)>,
    pub(super) circuits: Circuits,
    pub(super) record: Record,
    pub(super) heard: Instant,
}

impl Carrier {
    pub fn new(of: Parts) -> Self {
        let record = Record { node: of.node, ..Record::default() };
        Carrier {
            of,
            up: BTreeSet::new(),
            closing: BTreeSet::new(),
            token: 0,
            told: Use::default(),
            numbers: BTreeMap::new(),
            under_way: BTreeMap::new(),
            circuits: Circuits::default(),
            record,
            heard: Instant::now(),
        }
    }

    /// Follows the plan to its end, with or without circuits.
    ///
    /// # Errors
    /// If other nodes cannot be reached over packets, or a part of a message is lost for good.
    pub async fn run(mut self) -> Result<(Record, Member), Failure> {
        self.expect_all()?;
        self.meet().await?;
        self.heard = Instant::now();
        let mut beat = Instant::now();
        loop {
            self.begin()?;
            if self.record.over_ns == 0 && self.of.run.is_over() {
                self.record.over_ns = boottime_ns();
                self.say();
            }
            if self.is_done() {
                return Ok(self.end());
            }
            if self.heard.elapsed() > self.of.give_up {
                self.leave("nothing is heard of the plan's controller");
            }
            if beat <= Instant::now() {
                self.say();
                self.look_for_silent_circuits();
                beat = Instant::now() + BEAT;
            }
            tokio::select! {
                Some((_, news)) = self.of.news.recv() => self.hear(news)?,
                Some(happened) = self.of.happens.recv() => self.happen(happened)?,
                () = sleep_until(beat.into()) => {}
            }
        }
    }

    /// Waits until every other node is reached over packets.
    async fn meet(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + self.of.give_up;
        loop {
            let away = |(peer, lanes): (&u32, &Vec<LaneId>)| {
                (!lanes.iter().all(|lane| self.up.contains(lane))).then_some(*peer)
            };
            let Some(away) = self.of.packets.iter().find_map(away) else { return Ok(()) };
            if Instant::now() > until {
                let why = format!("node {}: node {away} is not reached over packets", self.of.node);
                return Err(Failure::Run(why));
            }
            tokio::select! {
                Some(happened) = self.of.happens.recv() => self.happen(happened)?,
                () = sleep_until((Instant::now() + BEAT).into()) => {}
            }
        }
    }

    fn happen(&mut self, happened: Happened) -> Result<(), Failure> {
        let failed = |why: String| Failure::Run(format!("node {}: {why}", self.of.node));
        match happened {
            Happened::Sent(port, result) => {
                result.map_err(failed)?;
                self.sent(port);
            }
            Happened::Came(step, offset, result) => {
                let bytes = result.map_err(failed)?;
                self.of.member.came(step, offset, &bytes);
                self.of.run.received(step, lightloom_units::Bytes::new(bytes.len() as u64));
            }
            Happened::Net(Event::Up(lane)) => {
                self.up.insert(lane);
                self.note_circuits();
            }
            Happened::Net(Event::Down(lane, why)) => {
                self.up.remove(&lane);
                // Afterwards others leave.
                if self.record.over_ns == 0 {
                    self.record.breaks.push(why.to_string());
                }
            }
            Happened::Net(Event::Runtime(RuntimeOutput::Drained { token }))
                if token == self.token =>
            {
                for port in std::mem::take(&mut self.closing) {
                    self.of.run.sent(port);
                }
                // A circuit that leads where the last one did is told anew.
                self.told.circuits.clear();
                self.say();
            }
            Happened::Net(_) => {}
        }
        Ok(())
    }

    /// What was under way on a port is acknowledged. If it was the last over its circuit, the port is drained first:
    /// once we have said that we have done with a circuit, it may end.
    fn sent(&mut self, port: u32) {
        if let Some((one, begin_ns)) = self.under_way.remove(&port) {
            let Transmission { peer, step, bytes, .. } = one;
            let (node, bytes, end_ns) = (self.of.node, bytes.get(), boottime_ns());
            self.record.sent.push(Sent { node, port, peer, step, bytes, begin_ns, end_ns });
        }
        if self.record.without.is_some() || !self.of.run.is_last(port) {
            self.of.run.sent(port);
            return self.say();
        }
        self.closing.insert(port);
        self.token += 1;
        self.of.net.drain(self.token, self.closing.iter().map(|&port| port as u16).collect());
    }

    fn hear(&mut self, news: News) -> Result<(), Failure> {
        match news {
            News::View(view) => {
                self.heard = Instant::now();
                let view = read_view(view).map_err(|why| Failure::Run(why.into()))?;
                let now = self.of.net.clock().now();
                self.of.run.told(now, view);
                let view = self.of.run.view();
                if view.stage == Stage::FellBack {
                    let why = format!("the plan fell back: {}", view.why);
                    self.leave(&why);
                }
                self.use_circuits();
                self.note_circuits();
            }
            News::Over(why) => self.leave(&why),
            News::Down(_) => {}
        }
        Ok(())
    }

    /// Goes on without circuits, for a reason.
    pub(super) fn leave(&mut self, why: &str) {
        if self.record.without.is_some() {
            return;
        }
        tracing::warn!(node = self.of.node, "{why}: what is left goes over packets");
        self.record.without = Some(why.into());
        self.of.run.leave_circuits();
        self.of.net.forsaken();
        for port in std::mem::take(&mut self.closing) {
            self.of.run.sent(port);
        }
        self.say();
    }

    /// Says what it knows.
    fn say(&mut self) {
        let report = self.of.run.report(self.of.net.clock().now());
        let now = boottime_ns();
        for &(port, done) in &report.done {
            if done > 0 {
                self.circuits.of(port, done).done_ns.get_or_insert(now);
            }
        }
        self.of.says.send_replace(Some(report));
    }

    /// Whether nobody needs it any more: all was sent and came, and the run is over, or it has none.
    fn is_done(&self) -> bool {
        let stage = self.of.run.view().stage;
        let ended = matches!(stage, Stage::Complete | Stage::FellBack);
        let left = self.record.without.is_some() && stage != Stage::Running;
        let alone = left || self.heard.elapsed() > self.of.give_up;
        self.record.over_ns > 0 && (ended || alone)
    }

    fn end(mut self) -> (Record, Member) {
        let (packets, all): (Vec<LaneId>, Vec<LaneId>) = (
            self.of.packets.values().flatten().copied().collect(),
            self.of.sending.values().copied().collect(),
        );
        let counted = self.of.net.ask(move |exchange| {
            let sum = |lanes: &[LaneId]| {
                let mut sum = lightloom_runtime::exchange::Statistics::default();
                lanes.iter().for_each(|&lane| sum += exchange.statistics(lane));
                sum
            };
            (sum(&packets), sum(&all))
        });
        let (packets, circuits) = counted.unwrap_or_default();
        self.record.detoured_bytes = packets.bytes_sent;
        self.record.resent = packets.resent + circuits.resent;
        self.record.began_ns =
            self.of.run.began().map(|began| self.of.net.clock().boottime_ns(began));
        self.record.circuits = self.circuits.all();
        self.of.member.settle(self.of.plan.last_step());
        (self.record, self.of.member)
    }
}
