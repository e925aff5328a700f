//! No tenant waits for another's servers longer than its share: what is known of the plan that waits.

use crate::invariants::{Broken, Holds, SHARE};
use lightloom_control::{Controller, Directive, Mark, Record, Settings, Stage};
use lightloom_units::Time;
use std::collections::BTreeMap;

/// The plan for which servers let go, if one has begun.
#[derive(Clone, Debug, Default)]
pub(crate) struct Share {
    /// Its number, and when it was begun.
    plan: Option<(u64, Time)>,
    /// Plans in a row that were given up.
    given_up: u32,
    /// By server: the last round that it was told is answered.
    told: BTreeMap<u16, u64>,
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
