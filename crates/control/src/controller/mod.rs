//! The controller of a region: from demand to circuits that are verified, one plan at a time.
//!
//! A plan goes through *decide* (the caller answers a [`Question`]), *drain* (agents hold the ports that
//! will change), *patch* (the switch is told), *verify* (what stands is read back), *resume* (agents use
//! what was read). Circuits that a plan does not touch are used throughout.
//!
//! - Ports of a server that falls silent, that reports a dead NIC, GPU or fibre, or whose patches do not
//!   follow, leave the candidates, and the region is planned anew (MixNet, Section 5.4). A silent server
//!   is waited for until its lease has ended: then it has stopped by itself.
//! - A switch that does not answer in time, or makes no sense, is not trusted: every circuit is
//!   withdrawn, which leaves the region on packet switches, and an alarm raised. What was sent to it may
//!   yet be carried out; after [`Settings::lifetime`] it is read, and what legal circuits it holds are
//!   taken over.
//! - After a crash the same happens with what the [`Memory`] of the journal says: what the switch holds
//!   is read and taken over; circuits that were verified and still stand are never interrupted.
//!
//! Modelled: one region on one switch; several tenants, whose rounds are their own. Ignored: two
//! controllers at once; the caller sees to it that there is one (the daemon locks its journal).
//! Checked: the fault-injecting world of `lightloom-soak`.

mod plan;
mod seats;
mod switch;
mod view;

pub use view::{
    CircuitView, Counters, DemandView, Reconfiguration, ServerView, Status, SwitchView,
};

use crate::alarm::Alarm;
use crate::driver::{Answer, Order, Patch};
use crate::journal::{Memory, Record};
use crate::message::{Directive, PortId, Report};
use crate::planted::Bug;
#[cfg(feature = "testing")]
use crate::planted::Planted;
use crate::region::Region;
use crate::settings::Settings;
use lightloom_circuits::{CircuitCounts, PortMap, ServerDemand};
use lightloom_units::Time;
use plan::Plan;
use seats::Seat;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What happens to a controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// An agent speaks.
    Report(Report),
    /// The switch lets us in, and has so many ports.
    SwitchUp {
        /// Its own name for itself.
        device: String,
        /// So many ingresses, and as many egresses.
        ports: u16,
    },
    /// The stream to the switch is closed.
    SwitchDown {
        /// Why, in words.
        why: String,
    },
    /// The switch answers an order.
    Answer {
        /// As in [`Output::Order`].
        id: u64,
        /// What it says.
        answer: Answer,
    },
    /// A [`Question`] is answered.
    Decided {
        /// Its number.
        question: u64,
        /// Circuits by pair of servers.
        counts: CircuitCounts,
    },
    /// An operator says that ports which did not follow, or were joined elsewhere, are mended.
    Mended {
        /// Which; none means all.
        ports: Vec<PortId>,
    },
    /// An operator wants the switch to be read now.
    Audit,
}

/// What a controller wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Write this down; not before it is safe on disk may any later output be carried out.
    Journal(Record),
    /// Tell an agent.
    Send {
        /// The server.
        server: u16,
        /// What to tell.
        directive: Directive,
    },
    /// Give the switch an order.
    Order {
        /// For [`Input::Answer`].
        id: u64,
        /// The order.
        order: Order,
    },
    /// Close the stream to the switch, if there is one, and open another.
    Reconnect,
    /// Decide on circuits, and answer with [`Input::Decided`].
    Decide(Question),
    /// Something for logs and views.
    Event(Event),
}

/// Which circuits, for this demand?
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Names the question.
    pub number: u64,
    /// What servers send each other.
    pub demand: ServerDemand,
    /// The circuits that stand, without those of ports that are out of use.
    pub standing: PortMap,
}

/// Something for logs and views.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// An alarm is raised.
    Raised {
        /// Which.
        alarm: Alarm,
    },
    /// It is over.
    Cleared {
        /// Which.
        alarm: Alarm,
    },
    /// Circuits were changed, or it was tried.
    Reconfigured(Reconfiguration),
    /// No circuit may be used.
    Withdrawn {
        /// The plan that says so.
        generation: u64,
        /// Why.
        why: String,
    },
    /// Something else, in words.
    Note {
        /// What.
        text: String,
    },
}

/// What the controller is at.
#[derive(Clone, Debug)]
enum Phase {
    Idle,
    Deciding { question: u64, rounds: Vec<u64>, masked: PortMap },
    Draining { plan: Plan },
    Patching { plan: Plan, order: u64, deadline: Time },
    Verifying { plan: Plan, order: u64, deadline: Time },
    Reading { order: u64, deadline: Time },
}

/// One region's controller.
#[derive(Clone, Debug)]
pub struct Controller {
    region: Region,
    settings: Settings,
    memory: Memory,
    /// The circuits that agents may use: verified, and not withdrawn.
    standing: PortMap,
    /// By port: it is out of use.
    blocked: Vec<bool>,
    /// What was read last of the region's ports.
    actual: Vec<Patch>,
    /// What is in `actual` may not be so any more.
    must_read: bool,
    /// Nothing is known yet: agents are not answered until then.
    mute_until: Option<Time>,
    seats: Vec<Seat>,
    /// By tenant: rounds that were answered, and when a round that is being gathered is decided on.
    rounds: Vec<u64>,
    gather_by: Vec<Option<Time>>,
    /// The greatest generation that an agent has obeyed: it may be beyond a journal that was lost.
    floor: u64,
    phase: Phase,
    replan: bool,
    /// Even circuits were planned: once is enough.
    began_even: bool,
    up: bool,
    device: Option<(String, u16)>,
    quarantine: Time,
    next_audit: Time,
    last_order: u64,
    last_question: u64,
    /// Ports that did not follow, and when they are tried again: all at once, since what one still
    /// holds is in the way of another.
    stuck: BTreeSet<PortId>,
    retry_at: Time,
    foreign: BTreeSet<PortId>,
    unconfirmed: Option<Reconfiguration>,
    alarms: BTreeMap<Alarm, Time>,
    counters: Counters,
    outputs: VecDeque<Output>,
    bug: Bug,
}

impl Controller {
    /// A controller that starts, with what its journal says.
    ///
    /// The memory of another region is of no use: circuits that this one cannot have are forgotten.
    pub fn new(region: Region, settings: Settings, memory: Memory, now: Time) -> Self {
        let (servers, degree) = (region.servers(), region.degree());
        let tenants = (0..servers as u16).map(|server| region.tenant(server)).max().unwrap_or(0);
        let mut standing = PortMap::dark(servers, degree);
        let ours = |port: &PortId| usize::from(port.0) < servers && usize::from(port.1) < degree;
        for &(a, b) in memory.verified.iter().filter(|(a, b)| ours(a) && ours(b) && a.0 != b.0) {
            standing.connect(a, b);
        }
        let stuck = memory.stuck.iter().filter(|port| ours(port)).copied();
        let lease_end = now + settings.lease + settings.grace;
        let quarantine = if memory.touched { now + settings.lifetime } else { now };
        let mut controller = Controller {
            standing,
            blocked: vec![false; servers * degree],
            actual: Vec::new(),
            must_read: true,
            mute_until: Some(quarantine + settings.patience),
            seats: vec![Seat::new(lease_end); servers],
            rounds: vec![0; usize::from(tenants) + 1],
            gather_by: vec![None; usize::from(tenants) + 1],
            floor: 0,
            phase: Phase::Idle,
            replan: false,
            began_even: false,
            up: false,
            device: None,
            quarantine,
            next_audit: now + settings.audit,
            last_order: 0,
            last_question: 0,
            stuck: stuck.collect(),
            retry_at: now + settings.retry,
            foreign: BTreeSet::new(),
            unconfirmed: None,
            alarms: BTreeMap::new(),
            counters: Counters::default(),
            outputs: VecDeque::new(),
            bug: Bug::default(),
            region,
            settings,
            memory,
        };
        for port in controller.stuck.clone() {
            controller.raise(now, Alarm::PortStuck { port });
        }
        controller.raise(now, Alarm::SwitchUnreachable);
        controller.mask(now);
        controller
    }

    /// With a bug, for tests that must find it.
    #[cfg(feature = "testing")]
    pub fn plant(&mut self, bug: Option<Planted>) {
        self.bug = Bug(bug);
    }

    /// Something has happened.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Report(report) => self.report(now, report),
            Input::SwitchUp { device, ports } => self.switch_up(now, device, ports),
            Input::SwitchDown { why } => self.switch_down(now, &why),
            Input::Answer { id, answer } => self.answer(now, id, answer),
            Input::Decided { question, counts } => self.decided(now, question, &counts),
            Input::Mended { ports } => self.mended(now, &ports),
            Input::Audit => self.next_audit = now,
        }
        self.advance(now);
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: Time) {
        self.advance(now);
    }

    /// When [`Controller::timeout`] wants to be called.
    pub fn next_timeout(&self) -> Time {
        let idle = matches!(self.phase, Phase::Idle);
        let mut next = match &self.phase {
            Phase::Patching { deadline, .. }
            | Phase::Verifying { deadline, .. }
            | Phase::Reading { deadline, .. } => *deadline,
            Phase::Draining { plan } => plan.drain_by,
            Phase::Idle if self.up && self.must_read => self.quarantine,
            Phase::Idle if self.up && self.met() => self.next_audit,
            _ => Time::MAX,
        };
        next = next.min(self.mute_until.unwrap_or(Time::MAX));
        for seat in self.seats.iter().filter(|seat| seat.present) {
            next = next.min(seat.lease_end);
        }
        if idle {
            next = self.gather_by.iter().flatten().fold(next, |next, &by| next.min(by));
        }
        if self.stuck.is_empty() { next } else { next.min(self.retry_at) }
    }

    /// What is to be done, in order.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// What is written in the journal, folded: that of a restart.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The circuits that agents may use.
    pub fn standing(&self) -> &PortMap {
        &self.standing
    }

    /// The region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// What is not as it should be.
    pub fn alarms(&self) -> impl Iterator<Item = (&Alarm, Time)> {
        self.alarms.iter().map(|(alarm, &since)| (alarm, since))
    }

    /// Does what can be done now.
    fn advance(&mut self, now: Time) {
        self.presence(now);
        if self.mute_until.is_some_and(|until| now >= until) {
            self.distrust(now, "it could not be read when the controller started");
        }
        match &self.phase {
            Phase::Patching { deadline, .. }
            | Phase::Verifying { deadline, .. }
            | Phase::Reading { deadline, .. }
                if now >= *deadline =>
            {
                self.distrust(now, "it did not answer in time");
            }
            Phase::Draining { .. } => self.drain(now),
            _ => {}
        }
        if matches!(self.phase, Phase::Idle) {
            self.next(now);
        }
    }

    fn journal(&mut self, record: Record) {
        self.memory.note(record.clone());
        self.outputs.push_back(Output::Journal(record));
    }

    fn order(&mut self, order: Order) -> u64 {
        self.last_order += 1;
        self.outputs.push_back(Output::Order { id: self.last_order, order });
        self.last_order
    }

    fn raise(&mut self, now: Time, alarm: Alarm) {
        if !self.alarms.contains_key(&alarm) {
            self.alarms.insert(alarm.clone(), now);
            self.outputs.push_back(Output::Event(Event::Raised { alarm }));
        }
    }

    fn clear(&mut self, alarm: &Alarm) {
        if self.alarms.remove(alarm).is_some() {
            self.outputs.push_back(Output::Event(Event::Cleared { alarm: alarm.clone() }));
        }
    }

    fn note(&mut self, text: impl Into<String>) {
        self.outputs.push_back(Output::Event(Event::Note { text: text.into() }));
    }

    fn mends(&mut self, now: Time, alarm: Alarm, wrong: bool) {
        if wrong { self.raise(now, alarm) } else { self.clear(&alarm) }
    }
}
