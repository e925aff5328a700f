//! Tenants share one switch, and plans come one after the other: none waits for another's servers for long.
//!
//! Modelled: a server that does not let go of its circuits, or is dead and its lease has not ended, holds up the
//! plan that changes them. If another tenant has something to be done and a sixteenth of a lease has passed, the
//! plan is given up, and the next ones leave that server's tenant as it is: its rounds are answered with the circuits
//! that stand. Once the server has spoken again, or has no lease any more, its tenant takes part again. One that
//! does not let go then, either, is excluded until its lease is over. Each plan that is given up in a row waits twice as
//! long as the one before, up to a lease, so that servers that are all only slow come to an end.
//! What a slow journal takes is no server's lateness.
//! A round of one tenant may be due while another's servers have begun to ask for theirs: the decision counts none of
//! that, but what that tenant asked for before. So it has circuits set once for a round, not for a half of it first.
//! Ignored: a tenant that is alone. It waits for a lease.
//! Checked: `tests/all/claims.rs` measures the others' rounds.

use super::machine::Controller;
use super::phase::Phase;
use super::record::AgentRecord;
use crate::message::{Demand, PortId};
use crate::planted::Planted;
use lightloom_circuits::PortMap;
use lightloom_units::Time;

/// Servers of one tenant hold up the others' plans for this part of a lease.
pub(super) const SHARE: u64 = 16;

impl Controller {
    /// Servers are no later than the journal let them be.
    pub(super) fn held(&mut self, by: Time) {
        if let Phase::Draining { plan } = &mut self.phase {
            plan.share_by = plan.share_by.saturating_add(by);
            plan.drain_by = plan.drain_by.saturating_add(by);
        }
    }

    /// Whether an agent that is there asks for a round that is not answered.
    pub(super) fn is_open(&self, tenant: usize, agent: &AgentRecord) -> bool {
        agent.present && self.asks(tenant, agent)
    }

    fn asks(&self, tenant: usize, agent: &AgentRecord) -> bool {
        let asked = agent.demand.as_ref().map_or(0, |demand| demand.round);
        asked > agent.answered.max(self.rounds[tenant])
    }

    /// Whether a server asks for a round that no decision has counted: its tenant's others are waited for.
    pub(super) fn is_gathered(&self, tenant: usize, agent: &AgentRecord) -> bool {
        !agent.counted && self.asks(tenant, agent)
    }

    /// What a decision counts of a server: what it asked for last, unless that is of a round that is gathered yet.
    pub(super) fn counted(&self, server: usize) -> Option<&Demand> {
        let agent = &self.agents[server];
        let tenant = usize::from(self.region.tenant(server as u16));
        let waits = self.is_gathered(tenant, agent) && !self.bug.is(Planted::CountsHalfRounds);
        if waits { agent.before.as_ref() } else { agent.demand.as_ref() }
    }

    /// Gives up the plan that waits for these servers if other tenants have something to be done. Says
    /// whether it did.
    pub(super) fn defer(&mut self, now: Time, waiting: &[u16]) -> bool {
        if let Phase::Draining { plan } = &mut self.phase {
            plan.overdue |= now >= plan.share_by;
        }
        let Phase::Draining { plan } = &self.phase else { return false };
        if !plan.overdue || now >= plan.drain_by || self.bug.is(Planted::NeverDefers) {
            return false;
        }
        let tenant = |server: usize| self.region.tenant(server as u16);
        let waits = |of: u16| waiting.iter().any(|&server| self.region.tenant(server) == of);
        let wants = |(at, agent): (usize, &AgentRecord)| {
            let concerned = plan.concerned.binary_search(&(at as u16)).is_ok();
            let of = tenant(at);
            !waits(of) && (concerned || plan.asked[at] > 0 || self.is_open(of.into(), agent))
        };
        if !self.agents.iter().enumerate().any(wants) {
            return false;
        }
        let again = |&&server: &&u16| self.agents[usize::from(server)].late > 0;
        let again: Vec<u16> = waiting.iter().filter(again).copied().collect();
        self.exclude(now, &again);
        for &server in waiting {
            let soon = now + self.settings.lease + self.settings.grace;
            let agent = &mut self.agents[usize::from(server)];
            // Only until its lease is over: it may be no more than slow.
            agent.excluded_until = agent.excluded_until.map(|until| until.min(soon));
            (agent.awaited, agent.late) = (Some(now), agent.late + 1);
            self.deferred[usize::from(self.region.tenant(server))] = true;
        }
        self.given_up = self.given_up.saturating_add(1);
        self.give_up(now);
        true
    }

    /// Tenants take part again of which no server is waited for.
    pub(super) fn undefer(&mut self) {
        // Most often there is none, and this is called for every message.
        for tenant in
            (0..self.deferred.len()).filter(|&tenant| self.deferred[tenant]).collect::<Vec<_>>()
        {
            let of = |at: usize| usize::from(self.region.tenant(at as u16)) == tenant;
            let awaited = |agent: &AgentRecord| {
                let silent = agent.awaited.is_some_and(|since| agent.heard <= Some(since));
                agent.present && (silent || agent.excluded_until.is_some())
            };
            let waits = self.agents.iter().enumerate().any(|(at, agent)| of(at) && awaited(agent));
            if !waits && !self.bug.is(Planted::DefersForEver) {
                (self.deferred[tenant], self.replan) = (false, true);
            }
        }
    }

    /// These servers have let go.
    pub(super) fn let_go(&mut self, servers: &[u16]) {
        for &server in servers {
            let agent = &mut self.agents[usize::from(server)];
            (agent.awaited, agent.late) = (None, 0);
        }
    }

    /// A target with the circuits that stand for those tenants that do not take part, and on switches that
    /// are away.
    pub(super) fn spare(&self, mut target: PortMap) -> PortMap {
        let spared = |port: &PortId| {
            self.deferred[usize::from(self.region.tenant(port.0))]
                || !self.site_of(*port).is_known()
        };
        for port in self.region.ports().filter(spared) {
            target.disconnect(port);
            target.unblock(usize::from(port.0), usize::from(port.1));
        }
        for (a, b) in self.standing.circuits().filter(|(a, _)| spared(a)) {
            target.connect(a, b);
        }
        target
    }
}
