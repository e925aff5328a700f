//! All agents of a region, emulated in one process: they report demands, round by round, to a running
//! controller, and say which circuits they get.

use crate::agent::{AgentClient, Controller};
use crate::config::Config;
use crate::failure::Failure;
use lightloom_control::{Demand, Mark, PortId, Stage};
use lightloom_decide::{Ahead, Traffic};
use lightloom_units::Time;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Nothing has changed for so long: the region is at rest.
const REST: Duration = Duration::from_millis(200);

/// Emulate all agents of a region, and print the circuits of each round
#[derive(Clone, Debug, clap::Args)]
pub struct EmulateArguments {
    /// The region's file
    region: PathBuf,
    /// Demands: a JSON list of rounds, each a matrix of bytes from each server to each other, or a table of
    /// `bytes` and, as agents report them, `ahead`, `predicted` and, by server, `traffic`; without it
    /// they are drawn, uneven, some MB a pair
    #[arg(long, value_name = "FILE")]
    demands: Option<PathBuf>,
    /// How many are drawn
    #[arg(long, default_value_t = 12, conflicts_with = "demands", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// For those that are drawn
    #[arg(long, default_value_t = 1, conflicts_with = "demands")]
    seed: u64,
    /// Go on until stopped: the list begins anew when it is over, and more demands are drawn
    #[arg(long, conflicts_with = "rounds")]
    forever: bool,
    /// Between two rounds
    #[arg(long, value_parser = Time::from_str, default_value = "1 s", value_name = "TIME", requires = "forever")]
    every: Time,
    #[command(flatten)]
    controller: Controller,
    /// A round is answered by then
    #[arg(long, value_parser = Time::from_str, default_value = "30 s", value_name = "TIME")]
    patience: Time,
}

/// What the servers of a region report in one round.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundReports {
    /// From each server to each other \[B\].
    pub bytes: Vec<Vec<u64>>,
    /// What lies ahead of them.
    #[serde(default)]
    pub ahead: Option<Ahead>,
    /// Whether the demand is only expected.
    #[serde(default)]
    pub predicted: bool,
    /// By server: what other traffic takes of its packet NICs.
    #[serde(default)]
    pub traffic: Vec<Vec<Traffic>>,
}

impl From<Vec<Vec<u64>>> for RoundReports {
    /// A demand of which nothing more is known.
    fn from(bytes: Vec<Vec<u64>>) -> Self {
        RoundReports { bytes, ..RoundReports::default() }
    }
}

/// A round as it is written.
#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Matrix(Vec<Vec<u64>>),
    Table(RoundReports),
}

impl From<Given> for RoundReports {
    fn from(given: Given) -> Self {
        match given {
            Given::Matrix(bytes) => bytes.into(),
            Given::Table(asked) => asked,
        }
    }
}

/// What a round was answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Round {
    /// The number of the round, from 1.
    pub round: u64,
    /// The plan that agents use.
    pub generation: u64,
    /// Circuits, by their lower end.
    pub circuits: Vec<(PortId, PortId)>,
}

impl EmulateArguments {
    /// Runs all rounds and prints a line of JSON for each. When they are over, so are the agents; with `--forever`
    /// they stay, and a round that is not answered in time is said and not the end.
    ///
    /// # Errors
    /// Files that are wrong; a round that is not answered in time.
    pub async fn run(self) -> Result<(), Failure> {
        let config = Config::load(&self.region)?;
        let names = &config.names.servers;
        let listed = self.demands.as_ref().map(|file| demands(file, names.len())).transpose()?;
        if listed.as_ref().is_some_and(|listed| self.forever && listed.is_empty()) {
            return Err(Failure::Input(
                "--demands: no round in it, and --forever needs one".into(),
            ));
        }
        let again = |cycle: u64| -> Vec<RoundReports> {
            let tenants = &config.names.tenant_of_server;
            let drawn = || drawn(tenants, self.rounds, self.seed.wrapping_add(cycle));
            let all = || drawn().into_iter().map(RoundReports::from).collect();
            listed.clone().unwrap_or_else(all)
        };
        let patience = Duration::from_nanos(self.patience.ps() / 1000);
        let every = Duration::from_nanos(self.every.ps() / 1000);
        let mut emulated = RegionAgents::start(&self.controller, names, patience).await?;
        emulated.rest(patience).await?;
        for cycle in 0.. {
            for demand in again(cycle) {
                match emulated.run_round(demand, patience).await {
                    Ok(round) => say(&round)?,
                    Err(why) if self.forever => tracing::warn!(%why, "a round was not answered"),
                    Err(why) => return Err(why),
                }
                if self.forever {
                    sleep(every).await;
                }
            }
            if !self.forever {
                break;
            }
        }
        tracing::info!("the rounds are over, and so are the agents (--forever lets them stay)");
        Ok(())
    }
}

/// A line of JSON, at once; nobody needs to read it.
fn say(round: &Round) -> Result<(), Failure> {
    let line = serde_json::to_string(round).map_err(|why| Failure::Run(why.to_string()))?;
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    Ok(())
}

fn demands(path: &PathBuf, servers: usize) -> Result<Vec<RoundReports>, Failure> {
    let wrong = |why: String| Failure::Input(format!("{}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|why| wrong(why.to_string()))?;
    let given: Vec<Given> = serde_json::from_slice(&text).map_err(|why| wrong(why.to_string()))?;
    let asked: Vec<RoundReports> = given.into_iter().map(RoundReports::from).collect();
    for (round, asked) in asked.iter().enumerate() {
        let rows = &asked.bytes;
        if rows.len() != servers || rows.iter().any(|row| row.len() != servers) {
            let why = format!("round {round}: must be a matrix of {servers} by {servers} numbers");
            return Err(wrong(why));
        }
    }
    Ok(asked)
}

/// Demands between servers of one tenant: all have some, few have much.
fn drawn(tenants: &[u16], rounds: u16, seed: u64) -> Vec<Vec<Vec<u64>>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut pair = |from: usize, to: usize| {
        // One in 2^32 is the least that divides; a terabyte is the most.
        let share = (f64::from(random.next_u32()) + 1.0) / 2f64.powi(32);
        u64::from(from != to && tenants[from] == tenants[to]) * (1e6 / share).min(1e12) as u64
    };
    let n = tenants.len();
    let mut round = || (0..n).map(|from| (0..n).map(|to| pair(from, to)).collect()).collect();
    (0..rounds).map(|_| round()).collect()
}

/// The agents of a region.
pub struct RegionAgents {
    agents: Vec<Arc<AgentClient>>,
    round: u64,
}

impl RegionAgents {
    /// Starts an agent for each server, and waits until each has heard from the controller. They drain
    /// at once.
    ///
    /// # Errors
    /// If that takes longer than `patience`.
    pub async fn start(
        controller: &Controller,
        names: &[String],
        patience: Duration,
    ) -> Result<Self, Failure> {
        let mut agents = Vec::new();
        for name in names {
            let agent = Arc::new(AgentClient::start(controller, name)?);
            tokio::spawn(drain(Arc::downgrade(&agent)));
            agents.push(agent);
        }
        let mut emulated = RegionAgents { agents, round: 0 };
        for agent in &emulated.agents {
            let view = agent.when(patience, |view| view.said > 0).await?;
            emulated.round = emulated.round.max(view.circuits.round);
        }
        Ok(emulated)
    }

    /// Waits until all agents use the circuits of one plan, and no other comes.
    ///
    /// # Errors
    /// If that takes longer than `patience`.
    pub async fn rest(&mut self, patience: Duration) -> Result<(), Failure> {
        let (mut last, mut since) = (None, Instant::now());
        let began = Instant::now();
        while last.is_none() || since.elapsed() < REST {
            if began.elapsed() > patience {
                return Err(Failure::Run(format!("the region does not rest within {patience:?}")));
            }
            sleep(Duration::from_millis(5)).await;
            let now = self.mark();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        for agent in &self.agents {
            self.round = self.round.max(agent.view().borrow().circuits.round);
        }
        Ok(())
    }

    /// Reports one demand, row by row, and waits for the circuits.
    ///
    /// # Errors
    /// If that takes longer than `patience`.
    pub async fn run_round(
        &mut self,
        asked: impl Into<RoundReports>,
        patience: Duration,
    ) -> Result<Round, Failure> {
        self.round += 1;
        let RoundReports { bytes, ahead, predicted, traffic } = asked.into();
        for (agent, records) in self.agents.iter().zip(traffic) {
            for record in records {
                agent.traffic(record).await?;
            }
        }
        for (agent, bytes) in self.agents.iter().zip(bytes) {
            agent.demand(Demand { round: self.round, bytes, ahead, predicted }).await?;
        }
        for agent in &self.agents {
            agent.answered(self.round, patience).await?;
        }
        // All have circuits, but some perhaps of a later plan.
        let began = Instant::now();
        loop {
            if let Some(mark) = self.mark() {
                return Ok(Round {
                    round: self.round,
                    generation: mark.generation,
                    circuits: self.circuits(),
                });
            }
            if began.elapsed() > patience {
                return Err(Failure::Run("agents do not come to use one plan".into()));
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// The agents, in order.
    pub fn agents(&self) -> &[Arc<AgentClient>] {
        &self.agents
    }

    /// The last round that was answered when the region last rested, or run since.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The plan that all use.
    fn mark(&self) -> Option<Mark> {
        let mut marks = self.agents.iter().map(|agent| agent.view().borrow().circuits.mark);
        let first = marks.next().filter(|mark| mark.stage == Stage::Resume)?;
        marks.all(|mark| mark == first).then_some(first)
    }

    /// Circuits that both ends use, by their lower end.
    pub fn circuits(&self) -> Vec<(PortId, PortId)> {
        let used: Vec<Vec<Option<PortId>>> = self
            .agents
            .iter()
            .map(|agent| agent.view().borrow().circuits.circuits.clone())
            .collect();
        let at = |(server, port): PortId| -> Option<PortId> {
            *used.get(usize::from(server))?.get(usize::from(port))?
        };
        let mut circuits = Vec::new();
        for (server, ports) in (0..).zip(&used) {
            for (port, peer) in (0..).zip(ports) {
                let here = (server, port);
                if let Some(peer) = peer.filter(|&peer| here < peer && at(peer) == Some(here)) {
                    circuits.push((here, peer));
                }
            }
        }
        circuits
    }
}

/// Says that ports are drained as soon as they shall be.
async fn drain(agent: std::sync::Weak<AgentClient>) {
    let Some(mut views) = agent.upgrade().map(|agent| agent.view()) else { return };
    let mut last = 0;
    while views.changed().await.is_ok() {
        let token = views.borrow_and_update().drain.as_ref().map_or(0, |drain| drain.0);
        if token <= last {
            continue;
        }
        last = token;
        let Some(agent) = agent.upgrade() else { return };
        if agent.drained(token).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::drawn;

    #[test]
    fn demands_that_are_drawn_stay_within_tenants() {
        let tenants = [0, 1, 0, 1, 0];
        let rounds = drawn(&tenants, 3, 7);
        assert_eq!(rounds, drawn(&tenants, 3, 7));
        assert_ne!(rounds[0], rounds[1]);
        for (from, row) in rounds.iter().flat_map(|round| round.iter().enumerate()) {
            for (to, &bytes) in row.iter().enumerate() {
                assert_eq!(bytes > 0, from != to && tenants[from] == tenants[to]);
            }
        }
    }
}
