//! A runtime, emulated: it starts a server's agent, reads what that tells, sends all the time over what it may
//! use, and logs every send.
//!
//! Modelled: [`lightloom_control::Runtime`] with a thread that reads, one that writes and one that sends, so
//! that each can be late by itself; an agent that is killed is started anew.
//! Ignored: data: a send is a datagram to itself, and in flight until that has come back. Where NICs are given,
//! a frame of the same name leaves over the port's NIC, too.
//! Checked: `tests/test_lease_bound.py`, where everything around it is stopped and killed.

mod sender;

use crate::agent::Controller;
use crate::clock::{Clock, ClockIdentity, boottime_ns};
use crate::failure::Failure;
use lightloom_control::{Mark, PortId, Runtime, Stage, Use};
use lightloom_units::Time;
use sender::{Sender, Shared, broadcast, spawn};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Lines to an agent that may wait for it to read.
const WAITING: usize = 1024;
/// An agent that was killed is started anew after this.
const AGAIN: Duration = Duration::from_millis(100);

/// Emulate the runtime of one server: send over every circuit that its agent allows, and log each send
#[derive(Clone, Debug, clap::Args)]
pub struct RuntimeArguments {
    #[command(flatten)]
    controller: Controller,
    /// The server's name in the region's file
    #[arg(long, value_name = "NAME")]
    server: String,
    /// Where sends are logged, a line of JSON each; without it, standard output
    #[arg(long, value_name = "FILE")]
    sends: Option<PathBuf>,
    /// Time between two sends over a port
    #[arg(long, value_parser = period, default_value = "2 ms", value_name = "TIME")]
    every: Time,
    /// A new demand after each such time; servers of one computer are in the same round
    #[arg(long, value_parser = period, default_value = "1 s", value_name = "TIME")]
    round: Time,
    /// Send each piece also as a broadcast over this NIC; in the order of the server's ports
    #[arg(long = "nic", value_name = "NIC")]
    nics: Vec<String>,
    /// As `agent serve --filter`: the filter of these NICs
    #[arg(long, value_name = "DIR")]
    filter: Option<PathBuf>,
    /// Wait so long between the look at the clock and the send: for a test that stops it there
    #[arg(long, hide = true, value_parser = period, value_name = "TIME")]
    dwell: Option<Time>,
    /// Send on after the lease's end: for a test that must find it
    #[arg(long, hide = true)]
    ignore_lease_end: bool,
}

fn period(text: &str) -> Result<Time, String> {
    let time = Time::from_str(text).map_err(|why| why.to_string())?;
    let (least, most) = (Time::from_us(10), Time::from_ms(3_600_000));
    if (least..=most).contains(&time) { Ok(time) } else { Err("must be from 10 us to 1 h".into()) }
}

/// What an agent says.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Told {
    Agent(ClockIdentity),
    Region(Region),
    Down {
        why: String,
    },
    Drain {
        token: u64,
        ports: Vec<u16>,
    },
    Use {
        number: u64,
        generation: u64,
        stage: Stage,
        round: u64,
        circuits: Vec<Option<PortId>>,
        until_ns: u64,
    },
    Error(String),
}

/// What an agent says of the region.
#[derive(Clone, Debug, Deserialize)]
struct Region {
    server: u16,
    ports: u16,
    servers: Vec<String>,
}

impl RuntimeArguments {
    /// Sends until it is dropped.
    ///
    /// # Errors
    /// Files that cannot be written; an agent that cannot be started, or that the controller refuses.
    pub async fn run(self) -> Result<(), Failure> {
        self.controller.check()?;
        let done = tokio::task::spawn_blocking(move || self.work()).await;
        done.map_err(|why| Failure::Run(why.to_string()))?
    }

    fn work(&self) -> Result<(), Failure> {
        let log: Box<dyn Write + Send> = match &self.sends {
            None => Box::new(std::io::stdout()),
            Some(path) => {
                let wrong = |why| Failure::Input(format!("--sends: {}: {why}", path.display()));
                let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
                Box::new(file.map_err(wrong)?)
            }
        };
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (clock, every, dwell) = (Clock::start(), self.every, self.dwell);
        let nics = self.nics.iter().map(|nic| broadcast(nic)).collect::<Result<_, _>>()?;
        let sender = Sender { shared: shared.clone(), clock, every, dwell, nics };
        sender.start(log)?;
        loop {
            let met = self.attend(&shared, clock)?;
            Shared::lock(&shared).forsaken();
            tracing::warn!(server = self.server, "the agent has ended: another is started");
            // One that never came to anything would not do so at once, either.
            std::thread::sleep(if met { AGAIN } else { 10 * AGAIN });
        }
    }

    /// One agent's life. Says whether it has reached the controller.
    fn attend(&self, shared: &Arc<Mutex<Shared>>, clock: Clock) -> Result<bool, Failure> {
        let mut child = self.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = pipes else {
            return Err(Failure::Run("the agent has no pipes".into()));
        };
        let lines = writer(input)?;
        let ours = ClockIdentity::of_this_process().map_err(Failure::Run)?;
        let mut life = Life { shared, clock, endless: self.ignore_lease_end, region: None, lines };
        life.say(&json!({ "runtime": ours }));
        let alive = Arc::new(());
        self.ask(&alive, &life)?;
        let heard = self.hear(&mut life, &ours, BufReader::new(output));
        drop(alive);
        let met = life.region.is_some();
        if heard.is_err() {
            let _ = child.kill();
        }
        drop(life);
        let status = child.wait().map_err(|why| Failure::Run(format!("the agent: {why}")))?;
        heard?;
        match status.code() {
            Some(2) => Err(Failure::Input("the agent was not started: see above".into())),
            Some(code) if code != 0 && !met => {
                Err(Failure::Run("the agent has ended: see above".into()))
            }
            _ => Ok(met),
        }
    }

    fn spawn(&self) -> Result<Child, Failure> {
        let wrong = |why: std::io::Error| Failure::Run(format!("lightloomd agent serve: {why}"));
        let program = std::env::current_exe().map_err(wrong)?;
        let mut command = Command::new(program);
        command.args(["--log-level", "warn", "agent", "serve", "--server", &self.server]);
        command.args(["--controller", &self.controller.url]);
        for (flag, file) in [
            ("--token-file", &self.controller.token_file),
            ("--ca", &self.controller.ca),
            ("--filter", &self.filter),
        ] {
            if let Some(file) = file {
                command.arg(flag).arg(file);
            }
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(wrong)?;
        let mut out = std::io::stdout();
        let line = json!({ "agent": { "pid": child.id(), "ns": boottime_ns() } });
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        Ok(child)
    }

    /// Reads what the agent tells, and does it, until that ends.
    fn hear(
        &self,
        life: &mut Life,
        ours: &ClockIdentity,
        lines: impl BufRead,
    ) -> Result<(), Failure> {
        for line in lines.lines() {
            let Ok(line) = line else { return Ok(()) };
            match serde_json::from_str(&line) {
                Ok(Told::Agent(theirs)) => ours.agrees(&theirs).map_err(Failure::Run)?,
                Ok(told) => life.told(told),
                Err(why) => return Err(Failure::Run(format!("the agent says {line:?}: {why}"))),
            }
        }
        Ok(())
    }

    /// Starts what asks for circuits, until the agent has ended.
    fn ask(&self, alive: &Arc<()>, life: &Life) -> Result<(), Failure> {
        let (alive, shared) = (Arc::downgrade(alive), life.shared.clone());
        let (lines, period_ns) = (life.lines.clone(), self.round.ps() / 1000);
        let asks = move || {
            let mut last = 0;
            while alive.upgrade().is_some() {
                let now = boottime_ns();
                let round = now / period_ns;
                let region = Shared::lock(&shared).region.clone();
                if let Some((number, sends_to)) = region.filter(|_| round > last) {
                    last = round;
                    let demand = json!({ "demand": {
                        "round": round, "bytes": drawn(round, number, &sends_to),
                    }});
                    // An agent that does not read has enough to do.
                    let _ = lines.try_send(demand.to_string());
                }
                std::thread::sleep(Duration::from_nanos(period_ns - now % period_ns));
            }
        };
        spawn("demand", asks)
    }
}

/// One agent's life, as its runtime sees it.
struct Life<'a> {
    shared: &'a Arc<Mutex<Shared>>,
    clock: Clock,
    /// The lease's end is not heeded.
    endless: bool,
    region: Option<Region>,
    lines: SyncSender<String>,
}

impl Life<'_> {
    fn told(&mut self, told: Told) {
        match told {
            Told::Agent(_) => {}
            Told::Down { why } => tracing::info!(why, "no controller"),
            Told::Error(why) => tracing::error!(why, "the agent does not understand"),
            Told::Region(region) => {
                let others = |(to, name): (usize, &String)| {
                    to != usize::from(region.server) && !name.is_empty()
                };
                let sends_to = region.servers.iter().enumerate().map(others).collect();
                let mut shared = Shared::lock(self.shared);
                shared.region = Some((region.server, sends_to));
                let ports = region.ports;
                let (ours, lines) = (self.region.is_none(), self.lines.clone());
                if ours {
                    shared.meet(ports, lines);
                }
                drop(shared);
                self.region = Some(region);
            }
            Told::Drain { token, ports } => {
                Shared::lock(self.shared).change(|runtime| runtime.drain(token, &ports));
            }
            Told::Use { number, generation, stage, round, circuits, until_ns } => {
                let mark = Mark { generation, stage };
                let until = if self.endless { Time::MAX } else { self.clock.time(until_ns) };
                let told = Use { number, mark, round, circuits, until };
                Shared::lock(self.shared).change(|runtime: &mut Runtime| runtime.told(told));
            }
        }
    }

    fn say(&self, line: &Value) {
        let _ = self.lines.try_send(line.to_string());
    }
}

/// Lines to an agent, written on a thread: one that is stopped stops nobody else.
fn writer(mut input: ChildStdin) -> Result<SyncSender<String>, Failure> {
    let (lines, waiting) = sync_channel::<String>(WAITING);
    let write = move || {
        while let Ok(line) = waiting.recv() {
            if writeln!(input, "{line}").and_then(|()| input.flush()).is_err() {
                return;
            }
        }
    };
    spawn("agent", write)?;
    Ok(lines)
}

/// What a server sends to each in a round \[B\]: most to the two that are so far from it, another distance in
/// each round.
fn drawn(round: u64, server: u16, sends_to: &[bool]) -> Vec<u64> {
    let n = sends_to.len() as u64;
    let far = 1 + round % (n / 2).max(1);
    let bytes = |(to, &sends): (usize, &bool)| {
        let away = (to as u64 + n - u64::from(server)) % n;
        let near = away == far || n - away == far;
        u64::from(sends) * if near { 1 << 30 } else { 1 << 10 }
    };
    sends_to.iter().enumerate().map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::drawn;

    #[test]
    fn servers_agree_on_who_is_near_and_that_changes() {
        let near = |round, server: u16| -> Vec<usize> {
            let bytes = drawn(round, server, &[true; 4].map(|_| true));
            (0..4).filter(|&to| bytes[to] == 1 << 30).collect()
        };
        for round in 0..4 {
            for server in 0..4u16 {
                for to in near(round, server) {
                    assert!(near(round, to as u16).contains(&usize::from(server)));
                }
            }
            assert_ne!(near(round, 0), near(round + 1, 0));
        }
    }
}
