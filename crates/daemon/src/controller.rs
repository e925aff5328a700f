//! The controller at work: one task that owns the machine, on a thread of its own.
//!
//! What agents, operators and the switch say is handed to it as it comes, all that has come at once;
//! then what it wants done is done, in its order: a journal's record is safe on disk before anything
//! later is carried out, and records that follow each other are made safe together. Deciding takes less
//! than a millisecond and is done in line. The thread is its own because writing to disk blocks it:
//! if the disk hangs, agents are not answered, and leave the circuits when their leases end.
//!
//! After 200 days it ends, before picoseconds run out, and is started again as after any other end.
//! Checked: real daemons against a real emulator (`tests/all/controller`).

use crate::clock::Clock;
use crate::hub::{AgentAnswer, Command, Hub, Names, Snapshot};
use crate::journal::{Journal, JournalError};
use crate::wire::{self, SwitchHandle};
use lightloom_control::{
    Controller, ControllerEvent, Input, Memory, Output, Record, Region, Report, Settings,
};
use lightloom_decide::Decider;
use lightloom_units::Time;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep_until;

/// Pictures of the controller are at least this far apart while it changes,
const SNAPSHOT: Duration = Duration::from_millis(50);
/// and this far while nothing does.
const IDLE_SNAPSHOT: Duration = Duration::from_secs(1);
/// What has come is handed over at once, up to so much.
const BATCH: usize = 256;
/// A process that has not come round for so much longer than it wanted to sleep was stopped: another controller may
/// have taken over meanwhile.
const STOPPED: Duration = Duration::from_secs(1);
/// The machine is not called more often than this for its timers.
const TICK: Duration = Duration::from_millis(1);

/// Where an agent listens.
type Answers = watch::Sender<AgentAnswer>;

/// A controller with everything it needs.
pub struct Task {
    controller: Controller,
    journal: Journal,
    decider: Decider,
    switches: Vec<SwitchHandle>,
    hub: Hub,
    commands: mpsc::Receiver<Command>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    /// By server: the life of its agent, and where it listens.
    agents: Vec<Option<(u64, Answers)>>,
    clock: Clock,
    started: SystemTime,
    records: Vec<Record>,
    /// When what is being done was asked for.
    came: Instant,
    /// For how long the journal has held it up.
    held: Duration,
}

/// What a task waits for.
enum Heard {
    Switch(Option<Input>),
    Command(Option<Command>),
    Timer,
    /// A picture is to be taken.
    Picture,
}

/// What a task is made of.
pub struct Parts {
    /// Servers, tenants, ports.
    pub region: Region,
    /// Leases, time-outs and attempts.
    pub settings: Settings,
    /// How circuits are chosen.
    pub decider: Decider,
    /// The journal, opened.
    pub journal: Journal,
    /// and what it said when it was opened.
    pub memory: Memory,
    /// By switch: its driver's task.
    pub switches: Vec<SwitchHandle>,
    /// Names of servers and tenants.
    pub names: Names,
}

impl Task {
    /// A controller that starts, and the hub around it.
    pub fn new(parts: Parts) -> (Self, Hub) {
        let (clock, started) = (Clock::start(), SystemTime::now());
        let Parts { region, settings, decider, journal, memory, switches, names } = parts;
        let agents = vec![None; region.servers()];
        let controller = Controller::new(region, settings, memory, Time::ZERO);
        let status = controller.status(Time::ZERO);
        let (snapshots, snapshot) = watch::channel(Arc::new(Snapshot { status, started }));
        let (asks, commands) = mpsc::channel(1024);
        let hub = Hub::new(names, snapshot, asks);
        let task = Task {
            controller,
            journal,
            decider,
            switches,
            hub: hub.clone(),
            commands,
            snapshots,
            agents,
            clock,
            started,
            records: Vec::new(),
            came: Instant::now(),
            held: Duration::ZERO,
        };
        (task, hub)
    }

    /// Works until `stop` is sent or dropped.
    ///
    /// # Errors
    /// If the journal cannot be written: nothing can be promised without it.
    pub async fn run(mut self, mut stop: oneshot::Receiver<()>) -> Result<(), JournalError> {
        let mut published = Instant::now();
        let mut changed = true;
        let mut ticked = Instant::now();
        loop {
            self.carry_out()?;
            if self.clock.is_worn_out() {
                tracing::warn!("this controller has run for 200 days: it ends, to be started anew");
                return Ok(());
            }
            if changed && published.elapsed() >= SNAPSHOT || published.elapsed() >= IDLE_SNAPSHOT {
                self.publish();
                (published, changed) = (Instant::now(), false);
            }
            let next = published + if changed { SNAPSHOT } else { IDLE_SNAPSHOT };
            let timer = self.timer().max(ticked + TICK);
            let due = timer.min(next).max(self.came);
            let heard = tokio::select! {
                biased;
                _ = &mut stop => return Ok(()),
                (_, input) = wire::next(&mut self.switches) => Heard::Switch(input),
                command = self.commands.recv() => Heard::Command(command),
                () = sleep_until(timer.into()) => Heard::Timer,
                () = sleep_until(next.into()) => Heard::Picture,
            };
            self.came = Instant::now();
            if self.came > due + STOPPED {
                tracing::warn!(late_ms = (self.came - due).as_millis() as u64, "it was stopped");
                self.controller.handle(self.now(), Input::Woken);
            }
            changed |= !matches!(heard, Heard::Picture);
            match heard {
                // The task of the switch lives as long as its handle.
                Heard::Switch(None) | Heard::Command(None) => return Ok(()),
                Heard::Switch(Some(input)) => self.controller.handle(self.now(), input),
                Heard::Command(Some(command)) => {
                    self.command(command);
                    for _ in 1..BATCH {
                        let Ok(command) = self.commands.try_recv() else { break };
                        self.command(command);
                    }
                }
                Heard::Timer => {
                    ticked = self.came;
                    self.controller.timeout(self.now());
                }
                Heard::Picture => {}
            }
        }
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// When the machine wants to be called, at the latest in an hour.
    fn timer(&self) -> Instant {
        self.clock.at(self.controller.next_timeout())
    }

    fn command(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Report { report, answers } => self.report(now, report, answers),
            Command::Left { server, answers } => {
                let Some(agent) = self.agents.get_mut(usize::from(server)) else { return };
                // Not if it speaks over another stream meanwhile.
                let its = |agent: &mut (u64, Answers)| agent.1.same_channel(&answers);
                if let Some((incarnation, _)) = agent.take_if(its) {
                    self.controller.handle(now, Input::Left { server, incarnation });
                }
            }
            Command::Senseless { server, why } => {
                self.controller.handle(now, Input::Senseless { server, why });
            }
            Command::Unblock { ports, done } => {
                self.controller.handle(now, Input::Unblock { ports });
                // Whoever asked may have gone.
                let _ = done.send(());
            }
            Command::Certificate { ends } => {
                self.controller.handle(now, Input::Certificate { ends });
            }
            Command::Audit { done } => {
                self.controller.handle(now, Input::Audit);
                let _ = done.send(());
            }
        }
    }

    /// An agent speaks, over a stream of which `answers` is the other direction.
    fn report(&mut self, now: Time, report: Report, answers: Answers) {
        let (server, incarnation) = (report.server, report.incarnation);
        let Some(agent) = self.agents.get_mut(usize::from(server)) else { return };
        if !self.controller.listens_to(now, server, incarnation) {
            answers.send_if_modified(|answer| {
                let ended = *answer == AgentAnswer::Superseded;
                if !ended {
                    *answer = AgentAnswer::Taken;
                }
                !ended
            });
            return;
        }
        if let Some((_, last)) = agent.take_if(|agent| !agent.1.same_channel(&answers)) {
            last.send_replace(AgentAnswer::Superseded);
        }
        *agent = Some((incarnation, answers));
        self.controller.handle(now, Input::Report(report));
    }

    /// Does what the machine wants done, and says how long the journal held that up.
    fn carry_out(&mut self) -> Result<(), JournalError> {
        self.carry_out_all()?;
        while self.held >= TICK {
            let by = Time::from_ps(std::mem::take(&mut self.held).as_nanos() as u64 * 1000);
            self.controller.handle(self.now(), Input::Held { by });
            self.carry_out_all()?;
        }
        self.held = Duration::ZERO;
        Ok(())
    }

    /// Does what the machine wants done, in order.
    fn carry_out_all(&mut self) -> Result<(), JournalError> {
        while let Some(output) = self.controller.poll() {
            match output {
                Output::Journal(record) => self.records.push(record),
                Output::Decide(question) => {
                    let began = Instant::now();
                    let counts = self.decider.decide(&question).unwrap_or_else(|why| {
                        tracing::error!(question = question.number, %why, "circuits stay as they are");
                        question.standing.counts()
                    });
                    let took_us = began.elapsed().as_micros() as u64;
                    tracing::debug!(question = question.number, took_us, "decided");
                    let question = question.number;
                    self.controller.handle(self.now(), Input::Decided { question, counts });
                }
                Output::Send { server, directive } => {
                    self.safe()?;
                    if let Some((_, answers)) = &self.agents[usize::from(server)] {
                        answers.send_replace(AgentAnswer::Directive(directive));
                    }
                }
                Output::Order { switch, id, order } => {
                    self.safe()?;
                    self.switches[switch].order(id, order, self.came);
                }
                Output::Claim { switch } => {
                    self.safe()?;
                    self.switches[switch].claim();
                }
                Output::Reconnect { switch } => {
                    self.safe()?;
                    self.switches[switch].reconnect();
                }
                Output::Event(event) => {
                    self.safe()?;
                    trace(&event, &self.hub.names);
                    self.hub.log(event);
                }
            }
        }
        self.safe()
    }

    /// Makes safe what is to be written down.
    fn safe(&mut self) -> Result<(), JournalError> {
        if self.records.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        self.journal.commit(&self.records)?;
        let took = began.elapsed();
        self.held += took;
        let took_us = took.as_micros() as u64;
        tracing::debug!(records = self.records.len(), took_us, "written");
        self.records.clear();
        Ok(())
    }

    fn publish(&self) {
        let status = self.controller.status(self.now());
        self.snapshots.send_replace(Arc::new(Snapshot { status, started: self.started }));
    }
}

fn trace(event: &ControllerEvent, names: &Names) {
    match event {
        ControllerEvent::Raised { alarm } => {
            tracing::warn!(alarm = alarm.name(), "{}", names.words(alarm));
        }
        ControllerEvent::Cleared { alarm } => {
            tracing::info!(alarm = alarm.name(), "over: {}", names.words(alarm));
        }
        ControllerEvent::Reconfigured(log) => tracing::info!(
            generation = log.generation,
            changed_ports = log.changed_ports,
            patches = log.patches,
            attempts = log.attempts,
            verified_us = log.verified.ps() / 1_000_000,
            confirmed_us = log.confirmed.map(|time| time.ps() / 1_000_000),
            "reconfigured"
        ),
        ControllerEvent::Withdrawn { switches, generation, why } => {
            let switches: Vec<_> = switches.iter().map(|&at| names.switch(at)).collect();
            let switches = switches.join(", ");
            tracing::warn!(generation, switches, why, "every circuit withdrawn");
        }
        ControllerEvent::Note { text } => tracing::info!("{text}"),
    }
}
