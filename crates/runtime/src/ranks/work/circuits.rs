//! What the network and the agent say, and demands that wait for circuits.

use super::{Answered, Work};
use crate::exchange::Exchange;
use crate::net::Event;
use crate::ranks::agent::{FromAgent, ToAgent};
use crate::ranks::group::Who;
use serde_json::json;

impl Work {
    pub(super) fn event(&mut self, event: Event) {
        match event {
            Event::GroupFailed(failure) => self.fail(failure.group, &failure.to_string(), false),
            Event::Runtime(output) => {
                if let Some(agent) = &mut self.agent {
                    agent(ToAgent::Runtime(output));
                }
            }
            Event::Up(_) => self.answer_demands(),
            Event::Down(..) | Event::Unreachable(..) | Event::Lost(_) => {}
        }
    }

    pub(super) fn agent_says(&mut self, said: FromAgent) {
        match said {
            FromAgent::Use(mut told) => {
                if told.round > self.answered.round {
                    (self.answered.round, self.answered.at_ns) = (told.round, self.now());
                }
                told.circuits.resize(usize::from(self.job.optical_nics), None);
                self.answered.ports = told.circuits.clone();
                self.node.told(told);
                self.answer_demands();
            }
            FromAgent::Drain { token, ports } => self.node.drain(token, ports),
            FromAgent::Reaches(controller) => {
                self.decides = controller;
                self.answer_demands();
            }
            FromAgent::Forsaken => {
                self.node.forsaken();
                self.decides = false;
                self.answer_demands();
            }
        }
    }

    pub(super) fn demand(
        &mut self,
        who: Who,
        round: u64,
        rank: u32,
        bytes: &[u64],
    ) -> Result<(), String> {
        if bytes.len() != self.job.ranks() as usize {
            let (found, allowed) = (bytes.len(), self.job.ranks());
            return Err(format!("`bytes` has {found} entries; the job has {allowed} ranks"));
        }
        let per_server = usize::from(self.job.ranks_per_server);
        let sum = |ranks: &[u64]| ranks.iter().fold(0u64, |sum, &more| sum.saturating_add(more));
        let mut servers: Vec<u64> = bytes.chunks(per_server).map(sum).collect();
        servers[usize::from(self.me)] = 0;
        let Some(bytes) = self.demands.add(round, rank, who, &servers, per_server) else {
            return Ok(());
        };
        match &mut self.agent {
            Some(agent) => agent(ToAgent::Demand { round, bytes }),
            None => self.answered.round = self.answered.round.max(round),
        }
        self.answer_demands();
        Ok(())
    }

    /// Answers demands for which circuits stand, and those that have waited long enough.
    pub(super) fn answer_demands(&mut self) {
        if self.demands.until().is_none() {
            return;
        }
        let ready = self.circuits_are_up();
        let nobody = self.agent.is_some() && !self.decides;
        for (who, decided) in self.demands.answered(self.answered.round, ready, nobody) {
            let Answered { at_ns, ports, .. } = &self.answered;
            let circuits = ports.iter().flatten().count();
            let said = json!({
                "decided": decided, "decided_ns": at_ns, "circuits": circuits, "ports": ports,
            });
            self.done(who, said);
        }
    }

    /// Whether each port that may be used has a connection.
    pub(super) fn circuits_are_up(&self) -> bool {
        let lit = (0..).zip(&self.answered.ports).filter(|it| it.1.is_some());
        let (lanes, ports) = (self.lanes.clone(), lit.map(|it| it.0).collect::<Vec<u16>>());
        let packet = self.job.packet_nics;
        let all = move |exchange: &Exchange| {
            let up = |port: &u16| {
                let mut its = lanes.iter().filter(|it| it.0.1 == packet + port);
                its.any(|it| it.1.iter().any(|&lane| exchange.is_usable(lane)))
            };
            ports.iter().all(up)
        };
        self.node.ask(all).unwrap_or(true)
    }
}
