//! What an agent claims is checked when it comes in, and touches its own server only.
//!
//! Modelled: an agent that lies, or whose server is another's. It can claim anything of itself: which of its
//! lives speaks, which plan it has obeyed, which round it is at, what it sends, what has failed. So:
//!
//! - A life's number is a name. It orders nothing, so none is too high. Whoever speaks first for a server does
//!   so until its stream ends or nothing believable has come from it for a lease.
//! - A plan that was never issued is believed of an agent that the controller has not heard since it
//!   started, or whose lease has ended: a journal may have been lost. Once in `Settings::retry`, and [`LEAP`]
//!   plans at most: each time costs the others one plan that is begun anew. Of more than half of all servers any is.
//! - A round counts for the server that names it. For the others of its tenant it counts once more than half of the
//!   tenant's servers are there.
//! - Parts that fail are believed at once; parts that work again [`REPAIRS`] times a lease.
//! - Numbers have bounds, so that no sum of them overflows.
//!
//! A report that breaks a bound changes nothing: its server gets no lease, an alarm says so until a lease has passed
//! without another.
//! Checked: attack by attack in `tests/all/claims.rs`, and by lying agents in `lightloom-soak`.

use super::machine::Controller;
use super::record::AgentRecord;
use crate::alarm::Alarm;
use crate::message::{Demand, Report, ServerPart};
use crate::planted::Planted;
use lightloom_decide::{Ahead, PassTraffic, Traffic};
use lightloom_units::Time;
use thiserror::Error;

/// So many plans may have been lost with a journal: a hundred years of one a second.
pub(super) const LEAP: u64 = 1 << 32;
/// Beats, rounds and iterations are lower.
const MOST: u64 = 1 << 62;
/// A server sends no more in one all-to-all, and no class of traffic moves more in a pass \[B\].
const MOST_BYTES: u64 = 1 << 48;
/// All-to-alls and changes ahead.
const MOST_AHEAD: u32 = 1 << 20;
/// Passes of one iteration.
const MOST_PASSES: usize = 4096;
/// No computation and no all-to-all takes longer.
const LONGEST: Time = Time::from_ms(3_600_000);
/// A server's parts may begin to work again so often within a lease.
pub(super) const REPAIRS: u32 = 4;

/// Why a report is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Untrue {
    #[error("it has obeyed plan {0}, and {1} is the last that there was")]
    Plan(u64, u64),
    #[error("its beat is {0}, and must be less than 2^62")]
    Beat(u64),
    #[error("its round is {0}, and must be less than 2^62")]
    Round(u64),
    #[error("its demand is of {0} servers, and the region has {1}")]
    Servers(usize, usize),
    #[error("it wants to send to a server of another tenant")]
    Tenant,
    #[error("it sends more than 2^48 bytes in one all-to-all")]
    Bytes,
    #[error("what lies ahead is more than 2^20 all-to-alls, 4,096 passes or an hour")]
    Ahead,
    #[error(
        "its traffic is not of two iterations in order, of 4,096 passes of 2^48 bytes in an hour at most"
    )]
    Traffic,
    #[error("its faults are not of its own parts, each named once, in rising order")]
    Faults,
}

impl Controller {
    /// Whether a report of this life of a server's agent is listened to: it is the one that spoke last, or that
    /// one is gone, or has said nothing believable for a lease.
    pub fn listens_to(&self, now: Time, server: u16, incarnation: u64) -> bool {
        let Some(agent) = self.agents.get(usize::from(server)) else { return false };
        if self.bug.is(Planted::OrdersLives) {
            return agent.incarnation <= incarnation;
        }
        agent.incarnation == incarnation || self.is_vacant(now, agent)
    }

    /// Whether nobody speaks for a server.
    pub(super) fn is_vacant(&self, now: Time, agent: &AgentRecord) -> bool {
        let lease = self.settings.lease + self.settings.grace;
        agent.gone || agent.heard.is_none_or(|heard| now >= heard + lease)
    }

    /// The stream of a life has ended.
    pub(super) fn left(&mut self, server: u16, incarnation: u64) {
        if let Some(agent) = self.agents.get_mut(usize::from(server)) {
            agent.gone |= agent.incarnation == incarnation;
        }
    }

    /// Whether a report can be true.
    pub(super) fn believe(&self, now: Time, report: &Report) -> Result<(), Untrue> {
        let agent = &self.agents[usize::from(report.server)];
        let issued = self.memory.generation.max(self.floor);
        let obeyed = report.obeyed.generation;
        let most = if self.may_leap(now, agent) { issued.saturating_add(LEAP) } else { issued };
        if obeyed > most {
            return Err(Untrue::Plan(obeyed, issued));
        }
        if report.beat >= MOST {
            return Err(Untrue::Beat(report.beat));
        }
        let asked = report.demand.as_ref().map_or(0, |demand| demand.round);
        if report.round.max(asked) >= MOST {
            return Err(Untrue::Round(report.round.max(asked)));
        }
        if let Some(demand) = &report.demand {
            // Most reports say again what was believed before.
            if agent.demand.as_ref() != Some(demand) {
                self.believe_demand(report.server, demand)?;
            }
        }
        if !is_traffic(&report.traffic) {
            return Err(Untrue::Traffic);
        }
        let degree = self.region.degree();
        let own = |part: &ServerPart| (*part).port().is_none_or(|port| usize::from(port) < degree);
        let rising = report.faults.is_sorted_by(|a, b| a < b);
        if !(rising && report.faults.iter().all(own)) {
            return Err(Untrue::Faults);
        }
        Ok(())
    }

    /// Whether this can be a server's demand: to servers of the region, and of its own tenant.
    fn believe_demand(&self, server: u16, demand: &Demand) -> Result<(), Untrue> {
        let (given, servers) = (demand.bytes.len(), self.region.servers());
        if given != servers {
            return Err(Untrue::Servers(given, servers));
        }
        let tenant = self.region.tenant(server);
        let own = |to: usize| self.rounds.len() == 1 || self.region.tenant(to as u16) == tenant;
        if demand.bytes.iter().enumerate().any(|(to, &bytes)| bytes > 0 && !own(to)) {
            return Err(Untrue::Tenant);
        }
        let sum = demand.bytes.iter().try_fold(0u64, |sum, &bytes| sum.checked_add(bytes));
        if sum.is_none_or(|sum| sum > MOST_BYTES) {
            return Err(Untrue::Bytes);
        }
        if demand.ahead.is_some_and(|ahead| !is_ahead(&ahead)) {
            return Err(Untrue::Ahead);
        }
        Ok(())
    }

    /// Whether an agent may know of plans that the journal does not: it was lost, or an old one restored.
    fn may_leap(&self, now: Time, agent: &AgentRecord) -> bool {
        let unknown = agent.heard.is_none() || !agent.present;
        unknown && agent.leapt.is_none_or(|at| now >= at + self.settings.retry)
    }

    /// Takes the generation that a believed report says.
    pub(super) fn leap(&mut self, now: Time, report: &Report) {
        let issued = self.memory.generation.max(self.floor);
        let (server, obeyed) = (report.server, report.obeyed.generation);
        if obeyed > issued {
            self.agents[usize::from(server)].leapt = Some(now);
            self.floor = obeyed;
            self.lose(
                now,
                format!("server {server} has obeyed plan {obeyed}, and it ends at {issued}; or this agent lies"),
            );
        }
    }

    /// A report was refused. If it was for a plan that was never issued, and more than half of all servers say
    /// the same, it is the journal that is wrong: lies had led the numbers on before it was lost.
    pub(super) fn claim(&mut self, now: Time, server: u16, why: &Untrue) {
        let Untrue::Plan(obeyed, issued) = *why else { return };
        self.agents[usize::from(server)].claimed = obeyed;
        let mut claims: Vec<u64> = self.agents.iter().map(|agent| agent.claimed).collect();
        claims.sort_unstable_by(|a, b| b.cmp(a));
        let most = claims[claims.len() / 2];
        if (issued + 1..MOST).contains(&most) {
            self.floor = most;
            let why = "more than half of all servers have obeyed plan";
            self.lose(now, format!("{why} {most}, and it ends at {issued}"));
        }
    }

    /// A report of a server was refused: nothing of it is taken over.
    pub(super) fn refuse(&mut self, now: Time, server: u16, why: &str) {
        let Some(agent) = self.agents.get_mut(usize::from(server)) else { return };
        agent.refused = Some(now);
        self.counters.refused_reports += 1;
        if !self.alarms.contains_key(&Alarm::ReportRefused { server }) {
            self.note(format!("a report of server {server} is refused: {why}"));
        }
        self.raise(now, Alarm::ReportRefused { server });
    }

    /// A report of a server was believed: the alarm ends when the last refused one is a lease ago.
    pub(super) fn believed(&mut self, now: Time, server: u16) {
        let lease = self.settings.lease;
        let agent = &mut self.agents[usize::from(server)];
        agent.claimed = 0;
        if agent.refused.is_some_and(|at| now >= at + lease) {
            agent.refused = None;
            self.clear(&Alarm::ReportRefused { server });
        }
    }

    /// What a server's faults are taken to be: what it says, but that parts that failed and worked again too often
    /// have failed until the lease is over.
    pub(super) fn faults(
        &mut self,
        now: Time,
        server: u16,
        said: Vec<ServerPart>,
    ) -> Vec<ServerPart> {
        let lease = self.settings.lease;
        let agent = &mut self.agents[usize::from(server)];
        if agent.faults.iter().all(|part| said.contains(part)) {
            return said;
        }
        if now >= agent.repairs.0 + lease {
            agent.repairs = (now, 0);
        }
        if agent.repairs.1 < REPAIRS {
            agent.repairs.1 += 1;
            return said;
        }
        let mut all = [agent.faults.clone(), said].concat();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Rounds that these servers asked for are answered; 0 for none.
    pub(super) fn answered(&mut self, asked: &[u64]) {
        for (agent, &round) in self.agents.iter_mut().zip(asked) {
            agent.answered = agent.answered.max(round);
        }
        (0..self.rounds.len()).for_each(|tenant| self.settle(tenant));
    }

    /// A round is answered for all servers of a tenant once it is for more than half of them.
    pub(super) fn settle(&mut self, tenant: usize) {
        let of = |server: usize| usize::from(self.region.tenant(server as u16)) == tenant;
        let answered = self.agents.iter().enumerate().filter(|(at, _)| of(*at));
        let mut answered: Vec<u64> = answered.map(|(_, agent)| agent.answered).collect();
        let one = self.bug.is(Planted::BelievesOneRound);
        let at = if one { 0 } else { answered.len() / 2 };
        if answered.is_empty() {
            return;
        }
        let (_, most, _) = answered.select_nth_unstable_by(at, |a, b| b.cmp(a));
        if *most > self.rounds[tenant] {
            // The others of a later round are waited for as long as those of any.
            (self.rounds[tenant], self.gather_by[tenant]) = (*most, None);
        }
    }

    /// By tenant: the latest round of these, or of those that were answered.
    pub(super) fn latest(&self, asked: &[u64]) -> Vec<u64> {
        let mut latest = self.rounds.clone();
        for (server, &round) in asked.iter().enumerate() {
            let of = &mut latest[usize::from(self.region.tenant(server as u16))];
            *of = round.max(*of);
        }
        latest
    }
}

fn is_ahead(ahead: &Ahead) -> bool {
    let few = [ahead.uses, ahead.later, ahead.changes].iter().all(|&number| number <= MOST_AHEAD);
    let pass = ahead.pass.is_none_or(|pass| (pass as usize) < MOST_PASSES);
    few && pass && ahead.hidden <= LONGEST
}

fn is_traffic(traffic: &[Traffic]) -> bool {
    let pass = |pass: &PassTraffic| {
        let all = [pass.pp, pass.dp, pass.tp, pass.cp, pass.other];
        let few = all.iter().all(|bytes| bytes.out.max(bytes.into) <= MOST_BYTES);
        few && pass.under_way <= LONGEST
    };
    let record = |record: &Traffic| {
        let few = record.iteration < MOST && record.passes.len() <= MOST_PASSES;
        few && record.passes.iter().all(pass)
    };
    let rising = traffic.is_sorted_by(|a, b| a.iteration < b.iteration);
    traffic.len() <= 2 && rising && traffic.iter().all(record)
}
