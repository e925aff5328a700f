//! No tenant waits for another's servers longer than its share: what is known of the plan that waits. And none has
//! circuits set for a part of its round because another one is decided for: what is known of rounds.

use crate::invariants::{Broken, GATHERED, Holds, SHARE, holds};
use lightloom_control::{Controller, Directive, Mark, Record, Report, Settings, Stage};
use lightloom_decide::Question;
use lightloom_units::Time;
use std::collections::BTreeMap;

/// The plan for which servers let go, if one has begun.
#[derive(Clone, Debug, Default)]
pub(crate) struct Share {
    /// Its number, and when it was begun.
    plan: Option<(u64, Time)>,
    /// Plans in a row that were given up.
    given_up: u32,
    /// By server: the last round that it was told is answered, or says to be.
    told: BTreeMap<u16, u64>,
    /// By server: its last round, and since when the controller knows of one that is not answered.
    asked: BTreeMap<u16, (u64, Time)>,
    /// By server: the last round that a decision counted, and what is sent in it.
    counted: BTreeMap<u16, (u64, Vec<u64>)>,
}

impl Share {
    /// The controller writes something down.
    pub fn journal(&mut self, now: Time, record: &Record) {
        match record {
            Record::Planned { generation, .. } => self.plan = Some((*generation, now)),
            Record::Verified { generation, .. } | Record::Withdrawn { generation, .. } => {
                let plan = self.plan.take();
                let resumed = plan.is_some_and(|(number, _)| number == *generation);
                self.given_up = if resumed { 0 } else { self.given_up + u32::from(plan.is_some()) };
            }
            _ => {}
        }
    }

    /// The controller speaks to an agent.
    pub fn told(&mut self, server: u16, directive: &Directive) {
        self.told.insert(server, directive.round);
    }

    /// The controller has heard an agent.
    pub fn heard(&mut self, now: Time, report: &Report) {
        let told = self.told.entry(report.server).or_default();
        *told = report.round.max(*told);
        let Some(demand) = &report.demand else { return };
        let known = self.asked.get(&report.server).copied();
        let since = known.filter(|_| self.waits(report.server)).map_or(now, |(_, since)| since);
        if known.is_none_or(|(round, _)| round < demand.round) {
            self.asked.insert(report.server, (demand.round, since));
        }
    }

    /// Whether the last round of a server is not answered.
    fn waits(&self, server: u16) -> bool {
        let asked = self.asked.get(&server).map_or(0, |&(round, _)| round);
        asked > self.told.get(&server).copied().unwrap_or(0)
    }

    /// A decision counts a server's round once all of its tenant's servers have asked for it, or the time is over that
    /// they are waited for. `honest`: by tenant, no rogue speaks for one of its servers.
    pub fn gathered(
        &mut self,
        now: Time,
        settings: &Settings,
        controller: &Controller,
        question: &Question,
        honest: &[bool],
    ) -> Holds {
        let status = controller.status(now);
        let present = |at: usize| status.servers[at].present;
        let row = |from: usize, of: &dyn Fn(usize) -> u64| {
            let to = (0..status.servers.len()).filter(|&to| to != from && present(to));
            to.map(|to| (to, of(to))).filter(|&(_, bytes)| bytes > 0).collect::<Vec<_>>()
        };
        let mut early = None;
        for (tenant, &answered) in status.demand.rounds.iter().enumerate() {
            let own = || status.servers.iter().filter(|at| usize::from(at.tenant) == tenant);
            let there = || own().filter(|at| at.present);
            let first = there().next().and_then(|at| at.round);
            let alike = there().all(|at| at.round.unwrap_or(0) == first.unwrap_or(0));
            let waiting = own().filter(|at| self.waits(at.server));
            let since = waiting.filter_map(|at| Some(self.asked.get(&at.server)?.1)).min();
            let over = since.is_none_or(|since| now >= since + settings.gather);
            let mut counted = Vec::new();
            for server in there() {
                let (at, Some(round)) = (usize::from(server.server), server.round) else {
                    continue;
                };
                let asks = row(at, &|to| question.demand.get(at, to));
                let new = asks == row(at, &|to| status.demand.bytes[at][to]);
                let last = self.counted.get(&server.server);
                let old = last.is_some_and(|(_, last)| asks == row(at, &|to| last[to]));
                let told = self.told.get(&server.server).copied().unwrap_or(0);
                let gathers = round > answered.max(told) && honest[tenant] && !alike && !over;
                // Of one that asks only for what goes to servers that are not there, it cannot be seen.
                let as_before = if asks.is_empty() { gathers } else { !new || old };
                if as_before {
                    continue;
                }
                if gathers {
                    early = early.or(Some((server.server, round)));
                }
                counted.push((server.server, (round, status.demand.bytes[at].clone())));
            }
            self.counted.extend(counted);
        }
        holds(GATHERED, early.is_none(), || {
            let (server, round) = early.unwrap_or_default();
            format!("question {} counts round {round} of server {server}", question.number)
        })
    }

    /// A plan that waits only for other tenants' servers is given up in time: after a sixteenth of a lease, and
    /// twice as long each time, up to a lease.
    pub fn fair(&self, now: Time, settings: &Settings, controller: &Controller) -> Holds {
        let Some((generation, began)) = self.plan else { return Ok(()) };
        let share = Time::from_ps(settings.lease.ps() / (16 >> self.given_up.min(4)));
        let late = now > began + share && now < began + settings.lease;
        if !late || controller.phase_name() != "draining" {
            return Ok(());
        }
        let status = controller.status(now);
        let hold = Mark { generation, stage: Stage::Hold };
        for (tenant, &answered) in status.demand.rounds.iter().enumerate() {
            let own = || status.servers.iter().filter(|at| usize::from(at.tenant) == tenant);
            let lets_go = own().all(|at| !at.present || at.obeyed >= hold);
            let told = |server: u16| self.told.get(&server).copied().unwrap_or(0);
            let wants = own()
                .filter(|at| at.present)
                .any(|at| at.round.is_some_and(|round| round > answered.max(told(at.server))));
            if lets_go && wants {
                let what =
                    format!("tenant {tenant} waits for others since {began}: plan {generation}");
                return Err(Broken { invariant: SHARE, what });
            }
        }
        Ok(())
    }
}
