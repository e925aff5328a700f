//! What the network and the agent say, and demands that wait for circuits.

use super::{Answered, Work};
use crate::exchange::Exchange;
use crate::net::Event;
use crate::ranks::agent::{FromAgent, ToAgent};
use crate::ranks::group::Who;
use lightloom_decide::Ahead;
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
                (self.answered.plan, self.answered.ports) =
                    (told.mark.generation, told.circuits.clone());
                let ports = &self.answered.ports;
                self.answered.forgone.resize(ports.len(), None);
                for (forgone, port) in self.answered.forgone.iter_mut().zip(ports) {
                    *forgone = forgone.filter(|circuit| Some(*circuit) == *port);
                }
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
        ahead: Option<Ahead>,
    ) -> Result<(), String> {
        if bytes.len() != self.job.ranks() as usize {
            let (found, allowed) = (bytes.len(), self.job.ranks());
            return Err(format!("`bytes` has {found} entries; the job has {allowed} ranks"));
        }
        let per_server = usize::from(self.job.ranks_per_server);
        let sum = |ranks: &[u64]| ranks.iter().fold(0u64, |sum, &more| sum.saturating_add(more));
        let mut servers: Vec<u64> = bytes.chunks(per_server).map(sum).collect();
        servers[usize::from(self.me)] = 0;
        let Some(demand) = self.demands.add(round, rank, who, &servers, ahead, per_server) else {
            return Ok(());
        };
        match &mut self.agent {
            Some(agent) => agent(ToAgent::Demand(demand)),
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
        let dark = self.dark();
        let nobody = self.agent.is_some() && !self.decides;
        let answered = self.demands.answered(self.answered.round, dark.is_empty(), nobody);
        if !nobody && answered.iter().any(|it| it.1) {
            // Whoever asks next does not wait for these again.
            for port in dark.into_iter().map(usize::from) {
                self.answered.forgone[port] = self.answered.ports[port];
            }
        }
        for (who, decided) in answered {
            let Answered { at_ns, plan, ports, .. } = &self.answered;
            let circuits = ports.iter().flatten().count();
            let said = json!({
                "decided": decided, "decided_ns": at_ns, "circuits": circuits, "ports": ports, "plan": plan,
            });
            self.done(who, said);
        }
    }

    /// Ports that may be used and have no connection, but for those that were waited for in vain.
    fn dark(&self) -> Vec<u16> {
        let Answered { ports, forgone, .. } = &self.answered;
        let awaited = (0..).zip(ports.iter().zip(forgone));
        let awaited = awaited.filter(|(_, (port, forgone))| port.is_some() && port != forgone);
        let (lanes, awaited) = (self.lanes.clone(), awaited.map(|it| it.0).collect::<Vec<u16>>());
        let packet = self.job.packet_nics;
        let dark = move |exchange: &Exchange| {
            let up = |port: &u16| {
                let mut its = lanes.iter().filter(|it| it.0.1 == packet + port);
                its.any(|it| it.1.iter().any(|&lane| exchange.is_usable(lane)))
            };
            awaited.into_iter().filter(|port| !up(port)).collect()
        };
        self.node.ask(dark).unwrap_or_default()
    }
}
