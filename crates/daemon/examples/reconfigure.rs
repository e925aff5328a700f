//! How long a region takes from demand to circuits that are verified: 64 servers of six optical NICs on
//! a switch of 384 ports that takes no time.
//!
//! `reconfigure cpu [ROUNDS]`: the machines in memory, in CPU time of one thread, part by part. What counts
//! is the controller's: decision, controller, TL1, journal (as text); the switch and the agents are not.
//! `reconfigure wall [ROUNDS]`: the daemon as it is, in this process: TL1 over TCP on loopback, a journal on
//! disk, agents over gRPC.
//! Demands are as a mixture of experts makes them: some servers are asked for several times as much as
//! others, and which ones drifts from round to round.

use lightloom_control::drivers::tl1::{
    Login, Options, Secret, Settings as Tl1Settings, Stamp, Tl1Driver, Tl1Server, User,
};
use lightloom_control::ocs::{Device, Switch};
use lightloom_control::{
    Agent, AgentOutput, AgentSettings, Controller, ControllerEvent, Demand, Driver, DriverEvent,
    Input, Memory, Output, Reconfiguration, Record, Region, Report, Settings,
};
use lightloom_daemon::agent::Controller as Address;
use lightloom_daemon::config::Config;
use lightloom_daemon::emulate::RegionAgents;
use lightloom_daemon::ocs;
use lightloom_daemon::serve::Server;
use lightloom_decide::{Decider, Settings as Decision};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

const SERVERS: u16 = 64;
const DEGREE: u16 = 6;
const PORTS: u16 = SERVERS * DEGREE;
/// What a server sends in one all-to-all, about \[B\].
const BYTES: f64 = 256e6;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = |default| arguments.get(1).map_or(Ok(default), |text| text.parse::<usize>());
    match arguments.first().map(String::as_str) {
        Some("cpu") => cpu(rounds(1000)?),
        Some("wall") => tokio::runtime::Runtime::new()?.block_on(wall(rounds(200)?)),
        _ => Err("reconfigure cpu|wall [ROUNDS]".into()),
    }
}

/// Demands, one after the other.
struct Demands {
    random: ChaCha8Rng,
    /// By server, the logarithm of how much is asked of it.
    favour: Vec<f64>,
}

impl Demands {
    fn new() -> Self {
        let mut demands = Demands {
            random: ChaCha8Rng::seed_from_u64(1),
            favour: vec![0.0; usize::from(SERVERS)],
        };
        (0..20).for_each(|_| demands.drift());
        demands
    }

    /// Normal, nearly: of twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        let uniform = |random: &mut ChaCha8Rng| random.next_u64() as f64 / u64::MAX as f64;
        (0..12).map(|_| uniform(&mut self.random)).sum::<f64>() - 6.0
    }

    fn drift(&mut self) {
        for server in 0..self.favour.len() {
            self.favour[server] = 0.9 * self.favour[server] + 0.35 * self.normal();
        }
    }

    fn next(&mut self) -> Vec<Vec<u64>> {
        self.drift();
        let n = self.favour.len();
        let mut rows = Vec::new();
        for from in 0..n {
            let share: Vec<f64> =
                (0..n).map(|to| (self.favour[to] + 0.4 * self.normal()).exp()).collect();
            let all: f64 = share.iter().sum();
            let bytes = |to: usize| if to == from { 0 } else { (BYTES * share[to] / all) as u64 };
            rows.push((0..n).map(bytes).collect());
        }
        rows
    }
}

/// Whose time it is.
#[derive(Clone, Copy)]
enum Of {
    Decision,
    Controller,
    Tl1,
    Journal,
    Switch,
    Agents,
}

/// CPU time, by whose it is \[us\].
#[derive(Default)]
struct Spent([f64; 6]);

impl Spent {
    fn on<T>(&mut self, of: Of, work: impl FnOnce() -> T) -> T {
        let before = clock_gettime(ClockId::ThreadCPUTime);
        let done = work();
        let after = clock_gettime(ClockId::ThreadCPUTime);
        let ns = (after.tv_sec - before.tv_sec) * 1_000_000_000 + (after.tv_nsec - before.tv_nsec);
        self.0[of as usize] += ns as f64 / 1e3;
        done
    }

    fn of(&self, of: Of) -> f64 {
        self.0[of as usize]
    }

    fn ours(&self) -> f64 {
        [Of::Decision, Of::Controller, Of::Tl1, Of::Journal].into_iter().map(|of| self.of(of)).sum()
    }
}

/// Everything of a region, joined without delay.
struct World {
    controller: Controller,
    decider: Decider,
    driver: Tl1Driver,
    server: Tl1Server,
    session: lightloom_control::drivers::tl1::SessionId,
    agents: Vec<Agent>,
    now: Time,
    spent: Spent,
    /// What was spent when the circuits were verified.
    verified: Option<Spent>,
}

impl World {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let region = Region::in_a_row(SERVERS, DEGREE, PORTS)?;
        let delay = ReconfigurationDelay::Fixed { ps: Time::ZERO };
        let device = Device { name: "polatis".into(), ports: PORTS, delay };
        let user = User { name: "root".into(), password: Secret::new("root"), slice: None };
        let start = Stamp::from_unix(0);
        let settings = Tl1Settings { sid: "OCS".into(), users: vec![user], start };
        let mut server = Tl1Server::new(Switch::new(device, 1)?, settings);
        let session = server.open();
        let login = Login { user: "root".into(), password: Secret::new("root") };
        let driver = Tl1Driver::new(login, &region.slice(0), Options::default())?;
        let agent = |server| {
            let settings = AgentSettings { server, ports: DEGREE, ..AgentSettings::default() };
            Agent::new(settings, 1, Time::ZERO)
        };
        let settings = Settings { start_even: false, ..Settings::default() };
        let mut world = World {
            controller: Controller::new(region, settings, Memory::default(), Time::ZERO),
            decider: Decider::new(
                Decision { hysteresis: false, ..Decision::default() },
                &[0; SERVERS as usize],
            ),
            driver,
            server,
            session,
            agents: (0..SERVERS).map(agent).collect(),
            now: Time::ZERO,
            spent: Spent::default(),
            verified: None,
        };
        world.driver.connected(world.now);
        world.agents.iter_mut().for_each(|agent| agent.connected(Time::ZERO));
        world.carry();
        Ok(world)
    }

    /// Until nobody has anything to say.
    fn carry(&mut self) {
        loop {
            let heard = self.switch();
            let reports = self.agents();
            if !heard && reports.is_empty() {
                return;
            }
            self.control(reports.into_iter().map(Input::Report));
        }
    }

    /// Bytes to the switch and back, until there are none. Whether the controller heard anything.
    fn switch(&mut self) -> bool {
        let mut heard = false;
        loop {
            let World { driver, server, spent, session, now, .. } = self;
            let asked = spent.on(Of::Tl1, || driver.transmit());
            let answer = spent.on(Of::Switch, || {
                if let Some(asked) = &asked {
                    server.receive(*now, *session, asked);
                }
                server.timeout(*now);
                server.transmit(*session)
            });
            let events: Vec<DriverEvent> = spent.on(Of::Tl1, || {
                if let Some(answer) = &answer {
                    driver.receive(*now, answer);
                }
                std::iter::from_fn(|| driver.event()).collect()
            });
            if asked.is_none() && answer.is_none() && events.is_empty() {
                return heard;
            }
            let inputs: Vec<Input> = events
                .into_iter()
                .filter_map(|event| match event {
                    DriverEvent::Up { device, ports } => {
                        Some(Input::SwitchUp { switch: 0, device, ports })
                    }
                    DriverEvent::Answer { id, answer } => Some(Input::Answer { id, answer }),
                    DriverEvent::Down(why) => panic!("the switch is down: {why}"),
                    _ => None,
                })
                .collect();
            heard |= !inputs.is_empty();
            self.control(inputs);
        }
    }

    /// What agents have to say. They drain at once.
    fn agents(&mut self) -> Vec<Report> {
        let (now, agents) = (self.now, &mut self.agents);
        self.spent.on(Of::Agents, || {
            let mut reports = Vec::new();
            for agent in agents {
                while let Some(output) = agent.poll() {
                    match output {
                        AgentOutput::Report(report) => reports.push(report),
                        AgentOutput::Drain { token, .. } => agent.drained(now, token),
                        AgentOutput::Use(told) => agent.using(now, told.number),
                    }
                }
            }
            reports
        })
    }

    fn control(&mut self, inputs: impl IntoIterator<Item = Input>) {
        let (now, controller) = (self.now, &mut self.controller);
        let mut outputs: VecDeque<Output> = self.spent.on(Of::Controller, || {
            inputs.into_iter().for_each(|input| controller.handle(now, input));
            std::iter::from_fn(|| controller.poll()).collect()
        });
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Decide(question) => {
                    let decider = &mut self.decider;
                    let counts = self.spent.on(Of::Decision, || decider.decide(&question));
                    let counts = counts.expect("the rule of the preset has an answer");
                    let decided = Input::Decided { question: question.number, counts };
                    let controller = &mut self.controller;
                    outputs.extend(self.spent.on(Of::Controller, || {
                        controller.handle(now, decided);
                        std::iter::from_fn(|| controller.poll()).collect::<Vec<_>>()
                    }));
                }
                Output::Order { id, order, .. } => {
                    let driver = &mut self.driver;
                    self.spent.on(Of::Tl1, || driver.order(now, id, &order));
                }
                Output::Journal(record) => {
                    let text = self.spent.on(Of::Journal, || serde_json::to_string(&record));
                    assert!(text.is_ok());
                    if matches!(record, Record::Verified { .. }) {
                        self.verified = Some(std::mem::take(&mut self.spent));
                    }
                }
                Output::Send { server, directive } => {
                    self.agents[usize::from(server)].directive(now, directive);
                }
                Output::Reconnect { .. } => panic!("the switch is not trusted"),
                Output::Claim { .. } | Output::Event(_) => {}
            }
        }
    }

    /// One round: what was spent until its circuits were verified, and on all of it.
    fn round(&mut self, rows: Vec<Vec<u64>>, round: u64) -> Option<Spent> {
        self.now += Time::from_ms(30);
        (self.spent, self.verified) = (Spent::default(), None);
        for (agent, bytes) in self.agents.iter_mut().zip(rows) {
            agent.demand(self.now, Demand::new(round, bytes));
        }
        self.carry();
        let standing = self.controller.standing();
        let region = self.controller.region();
        region.legal(standing).expect("legal circuits");
        let held: Vec<_> = self.server.switch().patches().collect();
        assert_eq!(held, region.patches(0, standing), "what the switch holds");
        assert!(self.agents.iter().all(|agent| agent.round() == round), "a round is not answered");
        self.verified.take()
    }
}

fn cpu(rounds: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut world = World::new()?;
    let mut demands = Demands::new();
    let all: Vec<Spent> =
        (1..=rounds + 20).filter_map(|round| world.round(demands.next(), round as u64)).collect();
    // The first rounds find no circuits, and no memory of the allocator's.
    let spent = &all[all.len().saturating_sub(rounds)..];
    let rows = |what: &str, of: &dyn Fn(&Spent) -> f64| {
        let mut us: Vec<f64> = spent.iter().map(of).collect();
        println!("{}", percentiles(what, &mut us));
    };
    rows("decision", &|spent| spent.of(Of::Decision));
    rows("controller", &|spent| spent.of(Of::Controller));
    rows("tl1", &|spent| spent.of(Of::Tl1));
    rows("journal as text", &|spent| spent.of(Of::Journal));
    rows("all of the controller", &Spent::ours);
    rows("(the emulated switch)", &|spent| spent.of(Of::Switch));
    rows("(64 agents)", &|spent| spent.of(Of::Agents));
    Ok(())
}

async fn wall(rounds: usize) -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("lightloom-reconfigure-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let delay = ReconfigurationDelay::Fixed { ps: Time::ZERO };
    let device = Device { name: "polatis".into(), ports: PORTS, delay };
    let user = User { name: "root".into(), password: Secret::new("root"), slice: None };
    let mut settings = ocs::Settings::new(device, vec![user]);
    settings.listen = "127.0.0.1:0".parse()?;
    let switch = ocs::Emulator::bind(settings).await?;
    let text = format!(
        "name = \"bench\"\n[listen]\naddress = \"127.0.0.1:0\"\n[servers]\ncount = {SERVERS}\n\
         ports_each = {DEGREE}\n[decision]\nhysteresis = false\ndelay = \"0 s\"\n[switch]\nprotocol = \"tl1\"\naddress = \"{}\"\nports = {PORTS}\n",
        switch.address()?
    );
    tokio::spawn(switch.run());
    let config = Config::read(&folder.join("region.toml"), &text)?;
    let names = config.names.servers.clone();
    let server = Server::start(config).await?;
    let (url, hub) = (format!("http://{}", server.address()?), server.hub().clone());
    tokio::spawn(server.run());
    let patience = Duration::from_secs(10);
    let address = Address { url, token_file: None, ca: None };
    let mut emulated = RegionAgents::start(&address, &names, patience).await?;
    emulated.rest(patience).await?;
    let mut news = hub.news.subscribe();
    let mut demands = Demands::new();
    let mut used = Vec::new();
    // By round: when it was asked for, and when all agents used its circuits.
    let mut asked = HashMap::new();
    for _ in 0..rounds {
        let demand = demands.next();
        let (began, since) = (Instant::now(), SystemTime::now());
        let round = emulated.run_round(demand, patience).await?.round;
        used.push(began.elapsed().as_secs_f64() * 1e6);
        asked.insert(round, (since, SystemTime::now()));
    }
    let started = hub.snapshot.borrow().started;
    let stages: Vec<_> = std::iter::from_fn(|| news.try_recv().ok())
        .filter_map(|logged| match logged.event {
            ControllerEvent::Reconfigured(log) => Some(log),
            _ => None,
        })
        .collect();
    if stages.is_empty() {
        return Err("no circuit was changed in any round".into());
    }
    let rows = |what: &str, of: &dyn Fn(&Reconfiguration) -> Time| {
        let mut us: Vec<f64> = stages.iter().map(|log| of(log).as_secs_f64() * 1e6).collect();
        println!("{}", percentiles(what, &mut us));
    };
    // Before a round's circuits were decided, and after they were verified.
    let decided = |log: &Reconfiguration| started + Duration::from_nanos(log.began.ps() / 1000);
    let verified =
        |log: &Reconfiguration| decided(log) + Duration::from_nanos(log.verified.ps() / 1000);
    let of_round = |log: &Reconfiguration| log.rounds.first().and_then(|round| asked.get(round));
    let us = |from: SystemTime, to: SystemTime| {
        to.duration_since(from).ok().map(|time| time.as_secs_f64() * 1e6)
    };
    let first = |log| us(of_round(log)?.0, decided(log));
    let last = |log| us(verified(log), of_round(log)?.1);
    let mut before: Vec<f64> = stages.iter().filter_map(first).collect();
    let mut after: Vec<f64> = stages.iter().filter_map(last).collect();
    println!("{}", percentiles("demand at agents until decided", &mut before));
    rows("decided until agents hold", &|log| log.drained);
    rows("until the switch is ordered", &|log| log.patched.saturating_sub(log.drained));
    rows("until it is read back", &|log| log.verified.saturating_sub(log.patched));
    rows("decided until verified", &|log| log.verified);
    println!("{}", percentiles("verified until all agents use it", &mut after));
    println!("{}", percentiles("demand at agents until all agents use it", &mut used));
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn percentiles(what: &str, us: &mut [f64]) -> serde_json::Value {
    us.sort_by(f64::total_cmp);
    let at = |share: f64| us[((us.len() - 1) as f64 * share).round() as usize];
    json!({ "what": what, "rounds": us.len(), "p50_us": at(0.5), "p99_us": at(0.99), "max_us": at(1.0) })
}
