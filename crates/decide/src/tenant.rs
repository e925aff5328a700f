//! One tenant's decisions: its servers, numbered from 0, are a region of their own.

use crate::memory::Memory;
use crate::question::{Ahead, Basis, PacketSide, Question};
use crate::rule::RuleInput;
use crate::settings::{Refusal, Settings};
use crate::traffic::Window;
use lightloom_circuits::failover::{CutOff, lifelines};
use lightloom_circuits::{CircuitCounts, Prospect, Rates, ServerDemand, allocate};
use lightloom_units::Time;

/// What is remembered of a tenant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tenant {
    pub memory: Memory,
    pub window: Window,
}

impl Tenant {
    /// Circuits for a question that is of this tenant's servers alone.
    pub fn decide(
        &mut self,
        settings: &Settings,
        question: &Question,
    ) -> Result<CircuitCounts, Refusal> {
        for (server, records) in question.traffic.iter().enumerate() {
            records.iter().for_each(|record| self.window.observe(server, record));
        }
        let (demand, ports) = (&question.demand, question.standing.usable());
        let standing = question.standing.counts();
        if demand.bytes.iter().all(|&bytes| bytes == 0) {
            return Ok(standing);
        }
        let mut counts = match question.basis {
            Basis::Start => allocate(demand, &ports, settings.keep_going),
            _ => self.choose(settings, question, &standing, &ports)?,
        };
        check(settings, &counts, &ports)?;
        secure(&mut counts, ports, &question.packet_sides)?;
        if question.basis != Basis::Start {
            self.memory.set(demand, &counts);
        }
        Ok(counts)
    }

    fn choose(
        &mut self,
        settings: &Settings,
        question: &Question,
        standing: &CircuitCounts,
        ports: &[u32],
    ) -> Result<CircuitCounts, Refusal> {
        let demand = &question.demand;
        if question.basis == Basis::Known {
            self.memory.see(demand);
        }
        let ahead = question.ahead.iter().flatten().next().copied().unwrap_or(settings.ahead);
        let packet_bps = self.window.left(ahead.pass, &settings.rates);
        let rates = Rates { packet_bps, ..settings.rates };
        let keep_going = settings.keep_going;
        let input = RuleInput { demand, standing, ports, rates: &rates, keep_going };
        let failed = |why| Refusal::Rule(settings.rule.name().into(), why);
        let repairs = question.basis == Basis::Repair;
        if !settings.hysteresis && !repairs && self.memory.set_for(demand, standing) {
            return Ok(standing.clone()); // another look would move circuits for nothing
        }
        if !settings.hysteresis || repairs {
            return settings.rule.fit(&input).map_err(failed);
        }
        let again = self.again(settings, &ahead, ports, &rates).map_err(failed)?;
        let Ahead { uses, hidden, later, .. } = ahead;
        let prospect = Prospect { uses, hidden, later, usual: &self.memory.usual(), again };
        let dark = |circuits| settings.dark.expected(circuits);
        settings.rule.worthwhile(&input, &dark, prospect).map_err(failed)
    }

    /// How long the later all-to-alls take if circuits change for each of their demands, if they can: as
    /// long as those that were usual with circuits of their own, and the wait for each change.
    fn again(
        &mut self,
        settings: &Settings,
        ahead: &Ahead,
        ports: &[u32],
        rates: &Rates,
    ) -> Result<Option<Time>, String> {
        if ahead.later == 0 || ahead.changes == 0 {
            return Ok(None);
        }
        // From no circuits and whole packet NICs: they are the same in every question.
        let (standing, keep_going) = (&CircuitCounts::dark(ports.len()), settings.keep_going);
        let fit = |demand: &ServerDemand| {
            let rates = &settings.rates;
            settings.rule.fit(&RuleInput { demand, standing, ports, rates, keep_going })
        };
        let (mut times, mut dark, mut count) = (0u128, 0u128, 0);
        self.memory.own(ports, fit, |demand, own| {
            times += u128::from(demand.time(own, rates).ps());
            dark += u128::from(settings.dark.expected(own.total()).ps());
            count += 1;
        })?;
        let wait = (dark * u128::from(ahead.changes)).checked_div(count);
        let alone = (times * u128::from(ahead.later)).checked_div(count);
        let all = alone.zip(wait).map(|(alone, wait)| (alone + wait).try_into());
        Ok(all.map(|ps| Time::from_ps(ps.unwrap_or(u64::MAX))))
    }
}

/// Refuses circuits that the ports do not suffice for.
fn check(settings: &Settings, counts: &CircuitCounts, ports: &[u32]) -> Result<(), Refusal> {
    let failed = |why| Err(Refusal::Rule(settings.rule.name().into(), why));
    if counts.servers() != ports.len() {
        return failed(format!("circuits of {} servers, not {}", counts.servers(), ports.len()));
    }
    let over = (0..ports.len()).find(|&server| counts.degree(server) > ports[server]);
    over.map_or(Ok(()), |server| {
        let (circuits, ports) = (counts.degree(server), ports[server]);
        failed(format!("{circuits} circuits at server {server}, which has {ports} ports"))
    })
}

/// Gives a circuit to every server that can reach the others by circuits only.
fn secure(
    counts: &mut CircuitCounts,
    mut ports: Vec<u32>,
    sides: &[PacketSide],
) -> Result<(), Refusal> {
    if sides.iter().all(|&side| side == PacketSide::Works) {
        return Ok(());
    }
    for (server, &side) in sides.iter().enumerate() {
        if side == PacketSide::BrokenAndIdle {
            ports[server] = 0;
        }
    }
    let stranded: Vec<bool> = sides.iter().map(|&side| side == PacketSide::Broken).collect();
    lifelines(counts, &ports, &stranded).map_err(|CutOff(server)| Refusal::CutOff(server))
}
