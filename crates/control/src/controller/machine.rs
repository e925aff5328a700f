//! The controller: what it knows, and what it does when something happens or time passes.

use super::io::{ControllerEvent, Input, Output};
use super::phase::{Phase, Waits};
use super::record::AgentRecord;
use super::site::Site;
use super::view::{Counters, Reconfiguration};
use crate::alarm::Alarm;
use crate::driver::Order;
use crate::journal::{Doubt, Memory, Record};
use crate::message::PortId;
use crate::planted::Bug;
#[cfg(feature = "testing")]
use crate::planted::Planted;
use crate::region::Region;
use crate::settings::Settings;
use lightloom_circuits::PortMap;
use lightloom_units::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One region's controller.
#[derive(Clone, Debug)]
pub struct Controller {
    pub(super) region: Region,
    pub(super) settings: Settings,
    pub(super) memory: Memory,
    /// The circuits that agents may use: verified, and not withdrawn.
    pub(super) standing: PortMap,
    /// By port: it is out of use.
    pub(super) blocked: Vec<bool>,
    pub(super) sites: Vec<Site>,
    /// Another controller's circuits were seen: nothing is ordered.
    pub(super) stopped: bool,
    /// Not all switches are known yet: agents are not answered until then.
    pub(super) mute_until: Option<Time>,
    pub(super) agents: Vec<AgentRecord>,
    /// Before then no lease ends, and nobody is to be called silent.
    pub(super) presence_by: Time,
    /// By tenant: rounds that were answered for all its servers, and when a round that is being gathered
    /// is decided on.
    pub(super) rounds: Vec<u64>,
    pub(super) gather_by: Vec<Option<Time>>,
    /// By tenant: plans leave it as it is.
    pub(super) deferred: Vec<bool>,
    /// Plans in a row that were given up so that other tenants do not wait.
    pub(super) given_up: u32,
    /// The greatest generation that an agent has obeyed: it may be beyond a journal that was lost.
    pub(super) floor: u64,
    pub(super) phase: Phase,
    pub(super) replan: bool,
    /// Even circuits were planned: once is enough.
    pub(super) began_even: bool,
    pub(super) started: Time,
    /// Plans may have been numbered of which the journal says nothing.
    pub(super) skips: bool,
    pub(super) next_audit: Time,
    pub(super) last_order: u64,
    pub(super) last_question: u64,
    /// Ports that did not follow, and when they are tried again: all at once, since what one still
    /// holds is in the way of another.
    pub(super) stuck: BTreeSet<PortId>,
    pub(super) retry_at: Time,
    pub(super) foreign: BTreeSet<PortId>,
    pub(super) unconfirmed: Option<Reconfiguration>,
    pub(super) alarms: BTreeMap<Alarm, Time>,
    pub(super) counters: Counters,
    pub(super) outputs: VecDeque<Output>,
    pub(super) bug: Bug,
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
        let quarantine = |at| if memory.touches(at) { now + settings.lifetime } else { now };
        let sites: Vec<Site> = (0..region.switches()).map(|at| Site::new(quarantine(at))).collect();
        let last = sites.iter().map(|site| site.quarantine).max().unwrap_or(now);
        let mut controller = Controller {
            standing,
            blocked: vec![false; servers * degree],
            sites,
            stopped: false,
            mute_until: Some(last + settings.patience),
            agents: vec![AgentRecord::new(lease_end); servers],
            presence_by: Time::ZERO,
            rounds: vec![0; usize::from(tenants) + 1],
            gather_by: vec![None; usize::from(tenants) + 1],
            deferred: vec![false; usize::from(tenants) + 1],
            given_up: 0,
            floor: 0,
            phase: Phase::Idle,
            replan: false,
            began_even: false,
            started: now,
            skips: !matches!(memory.doubt, None | Some(Doubt::New)),
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
        if let Some(Doubt::Lost(why)) = controller.memory.doubt.clone() {
            controller.note(format!("the journal was lost, or a part of it: {why}"));
            controller.raise(now, Alarm::JournalLost);
        }
        for switch in 0..controller.sites.len() as u16 {
            controller.raise(now, Alarm::SwitchUnreachable { switch });
        }
        controller.mask(now);
        controller
    }

    /// The journal says less than it once did.
    pub(super) fn lose(&mut self, now: Time, why: String) {
        if self.memory.is_lost() {
            return;
        }
        self.note(format!("the journal was lost, or a part of it: {why}"));
        self.journal(Record::Doubtful { doubt: Doubt::Lost(why) });
        self.raise(now, Alarm::JournalLost);
        self.skips = true;
        // What another life of this controller sent to the switch is carried out by then, or never.
        let by = self.started + self.settings.lifetime;
        for site in &mut self.sites {
            site.quarantine = site.quarantine.max(by);
            if now < site.quarantine {
                site.forget();
            }
        }
    }

    /// When the alarm ends that the journal was lost, if it is raised and a plan has been verified since.
    pub(super) fn forgives(&self) -> Option<Time> {
        let since = self.alarms.get(&Alarm::JournalLost)?;
        (!self.memory.is_lost()).then_some(*since + self.settings.retry)
    }

    /// With a bug, for tests that must find it.
    #[cfg(feature = "testing")]
    pub fn plant(&mut self, bug: Option<Planted>) {
        self.bug = Bug(bug);
        if self.bug.is(Planted::ForgetsTouched) {
            self.sites.iter_mut().for_each(|site| site.quarantine = self.started);
        }
    }

    /// Takes an input; what comes of it is in [`Controller::poll`].
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Report(report) => self.report(now, report),
            Input::Left { server, incarnation } => self.left(server, incarnation),
            Input::Senseless { server, why } => self.refuse(now, server, &why),
            Input::SwitchUp { switch, device, ports } => self.switch_up(now, switch, device, ports),
            Input::SwitchDown { switch, why } => self.switch_down(now, switch, &why),
            Input::Answer { id, answer } => self.answer(now, id, answer),
            Input::Term { switch, term } => self.issued(switch, term),
            Input::Fenced { why, .. } => self.fenced(now, &why),
            Input::Decided { question, counts } => self.decided(now, question, &counts),
            Input::Unblock { ports } => self.unblock(now, &ports),
            Input::Audit => self.next_audit = now,
            Input::Woken => self.woken(now),
            Input::Held { by } => self.held(by),
            Input::Certificate { ends } => self.set_alarm(now, Alarm::CertificateExpires, ends),
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
            Phase::Patching { waits, .. }
            | Phase::Verifying { waits, .. }
            | Phase::Reading { waits, .. } => waits.deadline,
            Phase::Draining { plan } if plan.overdue => plan.drain_by,
            Phase::Draining { plan } => plan.drain_by.min(plan.share_by),
            Phase::Idle if self.is_seeing() && self.agents_known() && self.mute_until.is_none() => {
                self.next_audit
            }
            _ => Time::MAX,
        };
        for site in &self.sites {
            let reads = idle && site.up && site.must_read && site.reading.is_none();
            next = next.min(if reads { site.quarantine } else { Time::MAX });
            next = next.min(site.reading.map_or(Time::MAX, |(_, deadline)| deadline));
        }
        next = next.min(self.mute_until.unwrap_or(Time::MAX));
        for agent in self.agents.iter().filter(|agent| agent.present) {
            next = next.min(agent.lease_end);
        }
        let silent = (0..self.agents.len() as u16).map(|server| self.silent_by(server)).min();
        next = next.min(silent.unwrap_or(Time::MAX));
        if idle && !self.is_looking() {
            next = self.gather_by.iter().flatten().fold(next, |next, &by| next.min(by));
        }
        next = next.min(self.forgives().unwrap_or(Time::MAX));
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

    /// The servers and switch ports that it controls.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// What is not as it should be.
    pub fn alarms(&self) -> impl Iterator<Item = (&Alarm, Time)> {
        self.alarms.iter().map(|(alarm, &since)| (alarm, since))
    }

    /// When the agent of a server was heard last.
    pub fn heard(&self, server: u16) -> Option<Time> {
        self.agents.get(usize::from(server)).and_then(|agent| agent.heard)
    }

    /// Does what can be done now.
    fn advance(&mut self, now: Time) {
        self.presence(now);
        self.undefer();
        if self.mute_until.is_some_and(|until| now >= until) {
            for switch in self.switches(|site| site.awaited) {
                self.distrust(now, switch, "it could not be read when the controller started");
            }
        }
        self.mind_deadlines(now);
        self.drain(now);
        if matches!(self.phase, Phase::Idle) {
            self.next(now);
        }
        if self.forgives().is_some_and(|at| now >= at) {
            self.clear(&Alarm::JournalLost);
        }
    }

    pub(super) fn journal(&mut self, record: Record) {
        self.skips &=
            matches!(record, Record::Doubtful { .. } | Record::Stuck { .. } | Record::Term { .. });
        self.memory.note(record.clone());
        self.outputs.push_back(Output::Journal(record));
    }

    pub(super) fn order(&mut self, switch: usize, order: Order) -> u64 {
        self.last_order += 1;
        self.outputs.push_back(Output::Order { switch, id: self.last_order, order });
        self.last_order
    }

    /// Has these switches read, from now on.
    pub(super) fn read_all(&mut self, now: Time, switches: &[usize]) -> Waits {
        let orders = switches.iter().map(|&at| (at, self.ask(now, at).0)).collect();
        Waits { orders, deadline: now + self.settings.patience }
    }

    /// Has a switch read: the order, and by when it is answered.
    pub(super) fn ask(&mut self, now: Time, switch: usize) -> (u64, Time) {
        let (id, by) = (self.order(switch, Order::Read), now + self.settings.patience);
        self.sites[switch].asked.insert(id, by);
        (id, by)
    }

    /// The switches of which this is so.
    pub(super) fn switches(&self, is: impl Fn(&Site) -> bool) -> Vec<usize> {
        (0..self.sites.len()).filter(|&at| is(&self.sites[at])).collect()
    }

    /// Whether there is none, and one is being read: what comes waits for that.
    pub(super) fn is_looking(&self) -> bool {
        !self.is_seeing() && self.sites.iter().any(|site| site.reading.is_some())
    }

    /// Whether there is a switch that can be given orders.
    pub(super) fn is_seeing(&self) -> bool {
        self.sites.iter().any(Site::is_known)
    }

    pub(super) fn raise(&mut self, now: Time, alarm: Alarm) {
        if !self.alarms.contains_key(&alarm) {
            self.alarms.insert(alarm.clone(), now);
            self.outputs.push_back(Output::Event(ControllerEvent::Raised { alarm }));
        }
    }

    pub(super) fn clear(&mut self, alarm: &Alarm) {
        if self.alarms.remove(alarm).is_some() {
            self.outputs
                .push_back(Output::Event(ControllerEvent::Cleared { alarm: alarm.clone() }));
        }
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.outputs.push_back(Output::Event(ControllerEvent::Note { text: text.into() }));
    }

    pub(super) fn set_alarm(&mut self, now: Time, alarm: Alarm, active: bool) {
        if active { self.raise(now, alarm) } else { self.clear(&alarm) }
    }
}
