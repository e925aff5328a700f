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
use crate::agent_child::{Lines, Told, attend, spawn};
use crate::clock::{Clock, boottime_ns};
use crate::failure::Failure;
use lightloom_control::{Mark, Runtime, Use};
use lightloom_units::Time;
use sender::{Sender, Shared, broadcast};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
            let ended = self.attend(&shared, clock);
            Shared::lock(&shared).forsaken();
            std::thread::sleep(ended?);
        }
    }

    /// One agent's life. Says how long to wait before the next.
    fn attend(&self, shared: &Arc<Mutex<Shared>>, clock: Clock) -> Result<Duration, Failure> {
        let alive = Arc::new(());
        let begun = |process: u32, lines: &Lines| {
            let mut out = std::io::stdout();
            let line = json!({ "agent": { "pid": process, "ns": boottime_ns() } });
            let _ = writeln!(out, "{line}").and_then(|()| out.flush());
            self.ask(&alive, shared.clone(), lines.clone())
        };
        let mut life = Life { shared, clock, endless: self.ignore_lease_end, met: false };
        attend(&mut self.agent()?, begun, |lines, told| {
            life.told(lines, told);
            Ok(())
        })
    }

    /// How the agent is started.
    fn agent(&self) -> Result<Command, Failure> {
        let wrong = |why: std::io::Error| Failure::Run(format!("lightloomd agent serve: {why}"));
        let mut command = Command::new(std::env::current_exe().map_err(wrong)?);
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
        Ok(command)
    }

    /// Starts what asks for circuits, until the agent has ended.
    fn ask(
        &self,
        alive: &Arc<()>,
        shared: Arc<Mutex<Shared>>,
        lines: Lines,
    ) -> Result<(), Failure> {
        let (alive, period_ns) = (Arc::downgrade(alive), self.round.ps() / 1000);
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
                    lines.say(&demand);
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
    /// It has said what the region is.
    met: bool,
}

impl Life<'_> {
    fn told(&mut self, lines: &Lines, told: Told) {
        let mut shared = Shared::lock(self.shared);
        match told {
            Told::Agent(_) | Told::Down { .. } | Told::Error(_) => {}
            Told::Region(region) => {
                let others = |(to, name): (usize, &String)| {
                    to != usize::from(region.server) && !name.is_empty()
                };
                let sends_to = region.servers.iter().enumerate().map(others).collect();
                shared.region = Some((region.server, sends_to));
                if !std::mem::replace(&mut self.met, true) {
                    shared.meet(region.ports, lines.clone());
                }
            }
            Told::Drain { token, ports } => shared.change(|runtime| runtime.drain(token, &ports)),
            Told::Use { number, generation, stage, round, circuits, until_ns } => {
                let mark = Mark { generation, stage };
                let until = if self.endless { Time::MAX } else { self.clock.time(until_ns) };
                let told = Use { number, mark, round, circuits, until };
                shared.change(|runtime: &mut Runtime| runtime.told(told));
            }
        }
    }
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
