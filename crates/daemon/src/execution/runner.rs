//! An execution at work: its switches, its nodes, its clock.

use super::service::{self, Heard, Told};
use super::wire::view;
use crate::border::Border;
use crate::clock::Clock;
use crate::config::Switches;
use crate::failure::Failure;
use crate::limits::Limits as Rates;
use crate::own_token::OwnToken;
use crate::reload::Shared;
use crate::serve;
use crate::wire::{self, SwitchHandle, Timing};
use lightloom_control::execution::{Ending, Execution, Input, Output, PortMaps, Task};
use lightloom_units::Time;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep_until;

/// The machine is not called more often than this for its timers.
const TICK: Duration = Duration::from_micros(200);
/// So long nodes are given to hear how it ended.
const FAREWELL: Duration = Duration::from_millis(200);

/// A setting that stands, verified.
#[derive(Clone, Debug, Serialize)]
pub struct ReadySetting {
    /// The device's name.
    pub device: String,
    /// Which of its settings, from 0.
    pub setting: usize,
    /// From its beginning to its verification \[ps\].
    pub took_ps: u64,
    /// From when the maps say that it can carry data to its verification \[ps\].
    pub late_ps: u64,
}

/// How it ended.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// `complete`, `refused`, `taken-back`, `torn` or `fell-back`.
    pub ending: &'static str,
    /// Why, if it is not complete.
    pub why: Option<String>,
    /// Settings that were verified, in that order.
    pub ready: Vec<ReadySetting>,
    /// What was found before anything was changed.
    #[serde(skip)]
    pub found: Option<PortMaps>,
    /// What stands, verified.
    #[serde(skip)]
    pub standing: PortMaps,
}

/// Keeps what was found, or says why it cannot.
type Keep = Box<dyn FnMut(&PortMaps) -> Result<(), Failure> + Send>;

/// An execution with all that it needs.
pub struct Runner {
    execution: Execution,
    maps: PortMaps,
    names: Vec<String>,
    switches: Vec<SwitchHandle>,
    run: u64,
    clock: Clock,
    /// When the machine was called last: what it orders is as old.
    called: Instant,
    heard: mpsc::Receiver<Heard>,
    nodes: BTreeMap<u32, watch::Sender<Told>>,
    /// Listens for nodes.
    address: Option<SocketAddr>,
    /// The token that was made for them, if the file has none.
    own: Option<OwnToken>,
    ready: Vec<ReadySetting>,
    found: Option<PortMaps>,
    before: Option<Keep>,
}

impl Runner {
    /// Starts: opens the switches' streams and, for a run with nodes, listens for them.
    ///
    /// # Errors
    /// Maps and switches that do not fit, a port that is taken, no safe place for a token of its own.
    pub async fn start(
        maps: PortMaps,
        switches: Switches,
        keep: &[PortMaps],
        task: Task,
    ) -> Result<Self, Failure> {
        let Switches { switches, places, limits, reconnect, address, tls, tokens, token_file } =
            switches;
        let ports: Vec<u16> = switches.iter().map(|switch| switch.ports).collect();
        let clock = Clock::start();
        let span = |time: Time| Duration::from_nanos(time.ps() / 1000);
        let timing = Timing::new(span(reconnect), span(limits.patience));
        let execution =
            Execution::new(maps.clone(), places, &ports, keep, task, limits, Time::ZERO)
                .map_err(|why| Failure::Input(why.to_string()))?;
        let names = switches.iter().map(|switch| switch.name.clone()).collect();
        let run = random();
        let (hears, heard) = mpsc::channel(1024);
        let nodes: Vec<u32> = execution.nodes().collect();
        let (mut listens, mut own) = (None, None);
        if task == Task::Run && !nodes.is_empty() {
            let listener = TcpListener::bind(address)
                .await
                .map_err(|why| Failure::Run(format!("{address}: {why}")))?;
            listens = Some(listener.local_addr().map_err(|why| Failure::Run(why.to_string()))?);
            own = OwnToken::unless(&tokens, &listener, token_file.as_deref())?;
            let border = Border { by_address: own.is_some(), refused: Arc::default() };
            let tokens = Arc::new(tokens);
            let rates = Rates::new(tokens.clone(), border.refused.clone(), nodes.len());
            let service = service::service(run, nodes, tokens.clone(), hears);
            let router = axum::Router::new().route_service(service::PATH, service);
            let shared = Shared::new(tokens, tls);
            let router = rates.around(border.around(router));
            tokio::spawn(serve::listen(listener, shared, router, rates));
        }
        let switches = switches
            .into_iter()
            .enumerate()
            .map(|(at, switch)| wire::spawn(at, switch.endpoint, switch.driver, timing))
            .collect();
        Ok(Runner {
            execution,
            maps,
            names,
            switches,
            run,
            clock,
            called: Instant::now(),
            heard,
            nodes: BTreeMap::new(),
            address: listens,
            own,
            ready: Vec::new(),
            found: None,
            before: None,
        })
    }

    /// Where it listens for nodes, if it does.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where the token is that was made, if one was.
    pub fn token_file(&self) -> Option<&Path> {
        self.own.as_ref().map(OwnToken::path)
    }

    /// Has what was found kept before anything is changed.
    pub fn keep_found(
        &mut self,
        keep: impl FnMut(&PortMaps) -> Result<(), Failure> + Send + 'static,
    ) {
        self.before = Some(Box::new(keep));
    }

    /// Works until it is over. When `stop` is sent, or dropped, it is taken back or falls back.
    ///
    /// # Errors
    /// If what was found cannot be kept: nothing is changed then.
    pub async fn run(mut self, mut stop: oneshot::Receiver<()>) -> Result<Outcome, Failure> {
        let mut own = self.own.take();
        let mut stays = pin!(OwnToken::stay(&mut own));
        let mut stopped = false;
        let mut ticked = self.clock.at(Time::ZERO);
        let ending = loop {
            if let Some(ending) = self.carry_out()? {
                break ending;
            }
            let timer = self.clock.at(self.execution.next_timeout()).max(ticked + TICK);
            tokio::select! {
                _ = &mut stop, if !stopped => {
                    stopped = true;
                    tracing::info!("stopping");
                    self.handle(Input::Stop);
                }
                (switch, input) = wire::next(&mut self.switches) => self.switch(switch, input),
                Some(heard) = self.heard.recv() => self.hear(heard),
                () = &mut stays => {}
                () = sleep_until(timer.into()) => {
                    ticked = Instant::now();
                    self.called = ticked;
                    let now = self.clock.now();
                    self.execution.timeout(now);
                    self.tell_all();
                }
            }
        };
        self.tell_all();
        if !self.nodes.is_empty() {
            tokio::time::sleep(FAREWELL).await;
        }
        let (ending, why) = match ending {
            Ending::Complete => ("complete", None),
            Ending::Refused(why) => ("refused", Some(why)),
            Ending::TakenBack(why) => ("taken-back", Some(why)),
            Ending::Torn(why) => ("torn", Some(why)),
            Ending::FellBack(why) => ("fell-back", Some(why)),
        };
        let why = why.map(|why| self.named(&why));
        let standing = self.execution.standing();
        Ok(Outcome { ending, why, ready: self.ready, found: self.found, standing })
    }

    fn handle(&mut self, input: Input) {
        self.called = Instant::now();
        let now = self.clock.now();
        self.execution.handle(now, input);
        self.tell_all();
    }

    fn switch(&mut self, switch: usize, input: Option<lightloom_control::Input>) {
        use lightloom_control::Input as Of;
        match input {
            Some(Of::SwitchUp { ports, .. }) => self.handle(Input::SwitchUp { switch, ports }),
            Some(Of::SwitchDown { why, .. }) => self.handle(Input::SwitchDown { switch, why }),
            Some(Of::Answer { id, answer }) => self.handle(Input::Answer { switch, id, answer }),
            _ => {}
        }
    }

    fn hear(&mut self, heard: Heard) {
        let node = heard.report.node;
        match self.nodes.get(&node) {
            Some(known) if known.same_channel(&heard.answers) => {}
            Some(_) if heard.first => {
                heard.answers.send_replace(Told::BegunBefore);
                return;
            }
            known => {
                known.map(|known| known.send_replace(Told::Superseded));
                self.nodes.insert(node, heard.answers);
            }
        }
        self.handle(Input::Node(heard.report));
    }

    /// Does what the machine wants done, in order.
    fn carry_out(&mut self) -> Result<Option<Ending>, Failure> {
        while let Some(output) = self.execution.poll() {
            match output {
                Output::Found(maps) => {
                    if let Some(keep) = &mut self.before {
                        keep(&maps)?;
                    }
                    self.found = Some(maps);
                }
                Output::Order { switch, id, order } => {
                    self.switches[switch].order(id, order, self.called);
                }
                Output::Reconnect { switch } => self.switches[switch].reconnect(),
                Output::Loaded => tracing::info!("all devices hold their initial circuits"),
                Output::Ready { device, setting, took, late } => {
                    let name = self.maps.devices[device].device.clone();
                    let (took_ps, late_ps) = (took.ps(), late.ps());
                    tracing::info!(device = name, setting, took_us = took_ps / 1_000_000, "ready");
                    self.ready.push(ReadySetting { device: name, setting, took_ps, late_ps });
                }
                Output::Note(words) => {
                    let words = self.named(&words);
                    tracing::warn!("{words}");
                }
                Output::Ended(ending) => return Ok(Some(ending)),
            }
        }
        Ok(None)
    }

    /// Tells nodes what they have not been told.
    fn tell_all(&mut self) {
        let now = self.clock.now();
        for (&node, answers) in &self.nodes {
            let Some(mut seen) = self.execution.view(now, node) else { continue };
            seen.why = self.named(&seen.why);
            let seen = view(self.run, &seen);
            answers.send_if_modified(|told| {
                let same = matches!(told, Told::View(old) if alike(old, &seen));
                if !same {
                    *told = Told::View(seen);
                }
                !same
            });
        }
    }

    /// Words in which switches have their names.
    fn named(&self, words: &str) -> String {
        let Some((number, rest)) = words.strip_prefix("switch ").and_then(|rest| {
            rest.split_once(|c: char| !c.is_ascii_digit())
                .map(|(number, _)| (number, &rest[number.len()..]))
        }) else {
            return words.to_owned();
        };
        let name = number.parse().ok().and_then(|at: usize| self.names.get(at));
        name.map_or_else(|| words.to_owned(), |name| format!("switch {name}{rest}"))
    }
}

/// Whether nothing has changed but how long it has been running.
fn alike(a: &super::wire::generated::NodeView, b: &super::wire::generated::NodeView) -> bool {
    (a.beat, a.stage, &a.why, &a.ports) == (b.beat, b.stage, &b.why, &b.ports)
        && a.running_ps.is_some() == b.running_ps.is_some()
}

/// A number that no other execution has had, and is not 0.
fn random() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40)).max(1)
}
