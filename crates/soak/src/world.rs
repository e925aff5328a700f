//! The world of a scenario: one clock, one controller, agents with their data planes, a switch, and
//! everything that can come between them.

use crate::chance::Chance;
use crate::checks::Checks;
use crate::draw;
use crate::event::{Event, Stopped};
use crate::invariants::{self, Broken, Holds};
use crate::line::Line;
use crate::node::{Clock, Node};
use crate::plan::{FaultPlan, Interruption, Network};
use crate::plane::Plane;
use crate::summary::{Options, Summary};
use lightloom_circuits::CircuitCounts;
use lightloom_control::ocs::Switch;
use lightloom_control::{
    AgentSettings, Controller, Input, Memory, Record, Region, ServerPart, Settings, Stage,
    SwitchPort,
};
use lightloom_units::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A scenario as it stands.
pub(crate) struct World {
    pub now: Time,
    pub chance: Chance,
    pub region: Region,
    pub settings: Settings,
    pub plan: FaultPlan,
    pub network: Network,
    pub queue: BTreeMap<(Time, u64), Event>,
    pub queued: u64,
    pub controller: Option<Controller>,
    pub life: u64,
    /// Happens after so many more outputs of the controller.
    pub interrupt: Option<(u64, Interruption)>,
    /// It is stopped.
    pub pause: Option<Stopped>,
    /// Happens soon after the switch is ordered to change something.
    pub ambush: Vec<Event>,
    /// Happens while agents are told to hold, or to resume.
    pub ambush_telling: Option<(Stage, Interruption)>,
    pub disk: Vec<Record>,
    pub memory: Memory,
    pub nodes: Vec<Node>,
    /// By switch.
    pub lines: Vec<Line>,
    /// By tenant: its round.
    pub rounds: Vec<u64>,
    /// Servers that a rogue has spoken for, and how often one did.
    pub liars: BTreeSet<u16>,
    pub lies: u64,
    /// What was decided last.
    pub decided: Option<CircuitCounts>,
    /// The last question.
    pub asked: u64,
    pub checks: Checks,
    pub calm: bool,
    pub last_demand: bool,
    /// The controller has crashed after it.
    pub last_crash: bool,
    pub deadline: Time,
    pub foreign_left: bool,
    pub summary: Summary,
    pub trace: Option<VecDeque<String>>,
    pub steps: u64,
    pub broken: Option<Broken>,
    #[cfg(feature = "testing")]
    pub planted: Option<lightloom_control::planted::Planted>,
}

/// Lines of a trace that are kept.
const TRACED: usize = 100_000;

impl World {
    pub fn new(seed: u64, options: Options) -> Self {
        let mut chance = Chance::new(seed);
        let settings = draw::settings(&mut chance);
        let region = draw::region(&mut chance);
        let plan = FaultPlan::draw(&mut chance);
        let line = |at, chance: &mut Chance| Line::new(chance, &region, at, &settings);
        let lines = (0..region.switches())
            .map(|at| line(at, &mut chance).expect("a switch has ports"))
            .collect::<Vec<_>>();
        let beat = Time::from_ps(settings.lease.ps() / chance.between(3, 10));
        let degree = region.degree();
        let node = |server: u16, chance: &mut Chance| Node {
            settings: AgentSettings { server, ports: degree as u16, lease: settings.lease, beat },
            clock: Clock::draw(chance, &settings),
            agent: None,
            incarnation: 0,
            lives: 0,
            plane: Plane::new(degree, plan.lag),
            filter: Vec::new(),
            frozen: false,
            mail: VecDeque::new(),
            cut: false,
            slow: false,
        };
        let servers = region.servers();
        let nodes = (0..servers as u16).map(|server| node(server, &mut chance)).collect();
        let tenants = (0..servers as u16).map(|server| region.tenant(server)).max().unwrap_or(0);
        let mut world = World {
            now: Time::from_ms(1),
            network: plan.network,
            queue: BTreeMap::new(),
            queued: 0,
            controller: None,
            life: 0,
            interrupt: None,
            pause: None,
            ambush: Vec::new(),
            ambush_telling: None,
            disk: Vec::new(),
            memory: Memory::default(),
            nodes,
            lines,
            rounds: vec![0; usize::from(tenants) + 1],
            liars: BTreeSet::new(),
            lies: 0,
            decided: None,
            asked: 0,
            checks: Checks::new(servers, region.switches()),
            calm: false,
            last_demand: false,
            last_crash: false,
            deadline: Time::MAX,
            foreign_left: false,
            summary: Summary::default(),
            trace: options.trace.then(VecDeque::new),
            steps: 0,
            broken: None,
            #[cfg(feature = "testing")]
            planted: options.planted,
            chance,
            region,
            settings,
            plan,
        };
        world.begin(tenants);
        world
    }

    fn begin(&mut self, tenants: u16) {
        let text = format!(
            "{} servers of {} ports on switches of {:?} ports, {} tenants; {:?}; {:?}; {:?}",
            self.nodes.len(),
            self.region.degree(),
            (0..self.lines.len()).map(|at| self.region.switch_ports(at)).collect::<Vec<_>>(),
            tenants + 1,
            self.lines.iter().map(|line| line.protocol).collect::<Vec<_>>(),
            self.settings,
            self.plan
        );
        self.note(|| text);
        for at in 0..self.lines.len() {
            self.tally(self.lines[at].protocol.name());
        }
        if self.lines.len() > 1 {
            self.tally("several switches");
        }
        self.at(self.now, Event::ControllerStarts);
        for server in 0..self.nodes.len() as u16 {
            let when = self.now + self.chance.up_to(Time::from_ms(50));
            self.at(when, Event::AgentStarts(server));
        }
        for tenant in 0..=tenants {
            let when = self.now + self.chance.ms(0, 2_000);
            self.at(when, Event::Demand(tenant));
        }
        for kind in 0..self.plan.kinds.len() {
            let mean = self.plan.kinds[kind].2;
            let when = self.now + self.chance.tail(mean);
            self.at(when, Event::Strike(kind));
        }
        let stop = self.chance.ms(3_000, 15_000);
        self.at(self.now + stop, Event::FaultsStop);
    }

    pub fn at(&mut self, when: Time, event: Event) {
        self.queued += 1;
        self.queue.insert((when.max(self.now), self.queued), event);
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        let (now, step) = (self.now, self.steps);
        if let Some(trace) = &mut self.trace {
            if trace.len() == TRACED {
                trace.pop_front();
            }
            trace.push_back(format!("{:>12.6} s  {step:>6}  {}", now.as_secs_f64(), text()));
        }
    }

    pub fn tally(&mut self, what: &'static str) {
        self.summary.count(what);
    }

    /// Goes on to whatever comes next. Says whether the scenario is over.
    pub fn step(&mut self) -> Result<bool, Broken> {
        self.steps += 1;
        let queued = self.queue.keys().next().map_or(Time::MAX, |key| key.0);
        let runs = self.controller.as_ref().filter(|_| self.pause.is_none());
        let controller = runs.map_or(Time::MAX, Controller::next_timeout);
        let drivers = self.lines.iter().filter_map(|line| line.driver.next_timeout());
        let driver = drivers.filter(|_| runs.is_some()).min().unwrap_or(Time::MAX);
        let servers = self.lines.iter().filter_map(|line| line.server.next_timeout());
        let switch = servers.min().unwrap_or(Time::MAX);
        let nodes = self.nodes.iter().map(Node::next_timeout).min().unwrap_or(Time::MAX);
        let next = queued.min(controller).min(driver).min(switch).min(nodes);
        self.now = self.now.max(next);
        if queued == next {
            if let Some((_, event)) = self.queue.pop_first() {
                self.happen(event);
            }
        } else if switch == next {
            let due = |line: &&mut Line| line.server.next_timeout().is_some_and(|at| at <= next);
            self.lines.iter_mut().filter(due).for_each(|line| line.server.timeout(next));
        } else if driver == next {
            let due = |line: &&mut Line| line.driver.next_timeout().is_some_and(|at| at <= next);
            self.lines.iter_mut().filter(due).for_each(|line| line.driver.timeout(next));
        } else if controller == next {
            if let Some(controller) = &mut self.controller {
                controller.timeout(self.now);
            }
        } else {
            let now = self.now;
            for node in &mut self.nodes {
                if node.next_timeout() <= now {
                    let shows = node.shows(now);
                    if let Some(agent) = node.awake() {
                        agent.timeout(shows);
                    }
                }
            }
        }
        self.settle();
        self.send();
        self.check()?;
        if self.last_demand && self.left().is_none() {
            return Ok(true);
        }
        if self.now >= self.deadline {
            invariants::progress(self.left())?;
        }
        Ok(false)
    }

    /// Data planes send all that they may.
    fn send(&mut self) {
        let (now, region, checks) = (self.now, &self.region, &self.checks);
        for (server, node) in (0..).zip(&mut self.nodes) {
            let shows = node.shows(now);
            node.plane.send(shows, |port, peer| {
                let ends = [(server, port), peer].map(|port| region.switch_port(port));
                ends.iter().any(|&end| checks.is_spoilt(now, end))
            });
        }
    }

    fn check(&mut self) -> Holds {
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        let now = self.now;
        self.checks.step(now)?;
        self.nodes.iter_mut().for_each(|node| node.lands(now, &self.settings));
        let lines = &self.lines;
        let live =
            |at: SwitchPort| lines[usize::from(at.switch)].switch().live_egress(now, at.port);
        self.checks.connected(now, &self.region, &self.nodes, &self.liars, live)?;
        for (server, node) in self.nodes.iter().enumerate() {
            self.checks.obeyed(server, node)?;
        }
        // One that is stopped has not written what it will, and notices nothing.
        if let Some(controller) = self.controller.as_ref().filter(|_| self.pause.is_none()) {
            invariants::replay(&self.memory, controller)?;
            invariants::alarms(now, controller, &self.settings)?;
            self.checks.share.fair(now, &self.settings, controller)?;
            invariants::calm("the controller", now, controller.next_timeout())?;
        }
        Ok(())
    }

    pub fn hold(&mut self, holds: Holds) {
        if let Err(broken) = holds {
            self.broken.get_or_insert(broken);
        }
    }

    /// Tells the controller something, if there is one.
    pub fn input(&mut self, input: Input) {
        let now = self.now;
        if self.controller.is_some() {
            self.note(|| format!("controller hears {input:?}"));
            if matches!(&input, Input::Unblock { ports } if ports.is_empty()) {
                self.checks.alone();
            }
        }
        let Some(controller) = &mut self.controller else { return };
        let report = match &input {
            Input::Report(it) if controller.listens_to(now, it.server, it.incarnation) => {
                Some(it.clone())
            }
            Input::Left { server, incarnation } => {
                self.checks.left(*server, *incarnation);
                None
            }
            _ => None,
        };
        controller.handle(now, input);
        if let Some(report) = report.filter(|it| controller.heard(it.server) == Some(now)) {
            self.checks.share.heard(now, &report);
            self.checks.heard(now, &self.settings, report);
        }
    }

    pub fn part(&mut self, server: u16, part: ServerPart, works: bool) {
        let node = &mut self.nodes[usize::from(server)];
        let shows = node.shows(self.now);
        if let Some(agent) = &mut node.agent {
            agent.fault(shows, part, works);
        }
        self.note(|| {
            format!("server {server}: {part:?} {}", if works { "works" } else { "fails" })
        });
    }

    pub fn tamper(&mut self, switch: usize, change: impl FnOnce(&mut Switch)) {
        let touched = self.lines[switch].tamper(change);
        self.note(|| format!("another hand is at ports {touched:?} of switch {switch}"));
        self.checks.spoil(self.now, switch, &touched);
        let ports = touched.into_iter().filter_map(|port| self.region.port_at(switch, port));
        for (server, port) in ports {
            self.nodes[usize::from(server)].plane.lose(port);
        }
    }

    /// A stream breaks on its way; the controller's end may hear of it later, or never.
    pub fn break_stream(&mut self, switch: usize) {
        let stream = self.lines[switch].stream.as_ref().map(|stream| stream.number);
        let Some(stream) = stream else { return };
        self.cut(switch);
        if self.chance.hit(700) {
            let late = self.chance.tail(Time::from_ms(20));
            self.at(self.now + late, Event::StreamGone { switch, stream });
        }
    }

    pub fn cut(&mut self, switch: usize) {
        let late = self.lines[switch].cut(self.now, &mut self.chance, &self.settings);
        if let Some((when, session, bytes)) = late {
            self.checks.cut(self.now, switch, &self.settings);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            self.note(|| format!("stream {switch} breaks; {text:?} will arrive at {when}"));
            if self.lines[switch].protocol.changes(&bytes) {
                self.tally("commands arrived after their stream broke");
            }
            self.at(when, Event::Late(switch, session, bytes));
        }
    }

    /// The controller's end is closed.
    pub fn hang_up(&mut self, switch: usize) {
        self.cut(switch);
        self.checks.closed(switch);
        self.lines[switch].stream = None;
        self.lines[switch].driver.disconnected(self.now);
        self.connect_soon(switch);
    }

    pub fn connect_soon(&mut self, switch: usize) {
        if !std::mem::replace(&mut self.lines[switch].connecting, true) {
            let life = self.life;
            self.at(self.now + self.settings.reconnect, Event::Connect { switch, life });
        }
    }
}
