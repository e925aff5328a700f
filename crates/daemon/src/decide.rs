//! Which circuits: the simulator's decisions, asked tenant by tenant.
//!
//! Modelled: each tenant's circuits are chosen for its own demand among its own servers, by the code of
//! `lightloom simulate`, for the rates that the region's file names. A tenant that asks for nothing keeps
//! what it has. Ignored: demands still to come; the delay is what the file says, not what was measured.
//! Checked: against the rules of one region, tenant by tenant, in the tests below.

use lightloom_circuits::{CircuitCounts, Decision, PortMap, Prospect, ServerDemand};
use lightloom_control::{Question, Region};
use lightloom_units::Time;

/// Answers [`Question`]s.
///
/// ```
/// use lightloom_control::{Question, Region};
/// use lightloom_daemon::decide::Decider;
/// use lightloom_circuits::{PortMap, ServerDemand};
/// // Four servers of one port; the first two are one tenant's.
/// let region = Region::new(4, vec![1, 2, 3, 4], vec![0, 0, 1, 1], vec![0]).unwrap();
/// let demand = ServerDemand::from_gpu_demand(4, 1, [(0, 1, 500), (2, 3, 500)]);
/// let question = Question { number: 1, demand, standing: PortMap::dark(4, 1) };
/// let mut decider = Decider::default();
/// decider.decision.rates.packet_bps = 100_000_000_000;
/// let counts = decider.decide(&region, &question);
/// assert_eq!((counts.get(0, 1), counts.get(2, 3), counts.total()), (1, 1, 2));
/// ```
#[derive(Clone, Debug)]
pub struct Decider {
    /// By which rule, and what NICs carry.
    pub decision: Decision,
    /// Circuits change only where that pays for their dark time.
    pub hysteresis: bool,
    /// How long ports are dark when circuits change.
    pub delay: Time,
    /// Computation before an all-to-all under which ports may be dark for nothing.
    pub hidden: Time,
    /// All-to-alls of one demand: dispatch and combine of a forward pass, by default.
    pub uses: u32,
}

impl Default for Decider {
    /// By time, without hysteresis; eight NICs of 400 Gbps, six of them optical.
    fn default() -> Self {
        use lightloom_circuits::Rates;
        use lightloom_fabric::CircuitDecision;
        let rate = 400_000_000_000;
        let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 2, share_eps: false };
        Decider {
            decision: Decision { kind: CircuitDecision::Timed, keep_going: true, rates },
            hysteresis: false,
            delay: Time::from_ms(25),
            hidden: Time::ZERO,
            uses: 2,
        }
    }
}

impl Decider {
    /// Circuits by pair of servers.
    ///
    /// # Panics
    /// If the question is of another region.
    pub fn decide(&self, region: &Region, question: &Question) -> CircuitCounts {
        let n = region.servers();
        let tenants = (0..n as u16).map(|server| region.tenant(server)).max().unwrap_or(0);
        if tenants == 0 {
            return self.choose(&question.demand, &question.standing);
        }
        let mut all = CircuitCounts::dark(n);
        for tenant in 0..=tenants {
            let members: Vec<usize> =
                (0..n).filter(|&server| region.tenant(server as u16) == tenant).collect();
            let (demand, standing) = part(&members, question);
            let counts = self.choose(&demand, &standing);
            for (i, &a) in members.iter().enumerate() {
                for (j, &b) in members.iter().enumerate().skip(i + 1) {
                    (0..counts.get(i, j)).for_each(|_| all.join(a, b));
                }
            }
        }
        all
    }

    fn choose(&self, demand: &ServerDemand, standing: &PortMap) -> CircuitCounts {
        if demand.bytes.iter().all(|&bytes| bytes == 0) {
            return standing.counts();
        }
        if !self.hysteresis {
            return self.decision.fitting(demand, standing);
        }
        let prospect = Prospect { uses: self.uses, hidden: self.hidden, later: 0, usual: &[] };
        self.decision.worthwhile(demand, standing, |_| self.delay, prospect)
    }
}

/// What a question asks of some servers, in rising order.
fn part(members: &[usize], question: &Question) -> (ServerDemand, PortMap) {
    let standing = &question.standing;
    let n = members.len();
    let mut demand = ServerDemand::zero(n);
    let mut map = PortMap::dark(n, standing.degree());
    for (i, &a) in members.iter().enumerate() {
        for (j, &b) in members.iter().enumerate().filter(|&(j, _)| j != i) {
            demand.add(i as u32, j as u32, question.demand.get(a, b));
        }
        for port in 0..standing.degree() {
            if standing.is_blocked(a, port) {
                map.block(i, port);
            }
            let peer = standing.peer(a, port);
            let Some((to, at)) = peer else { continue };
            if let Ok(j) = members.binary_search(&usize::from(to)) {
                map.connect((i as u16, port as u16), (j as u16, at));
            }
        }
    }
    (demand, map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(n: usize, degree: usize, seed: u64) -> Question {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) + 1
        };
        let bytes = (0..n * n).map(|at| if at / n == at % n { 0 } else { next() }).collect();
        Question {
            number: 1,
            demand: ServerDemand { n, bytes },
            standing: PortMap::dark(n, degree),
        }
    }

    #[test]
    fn tenants_are_as_if_each_had_its_own_region() {
        // Interleaved: even servers are one tenant's.
        let tenants: Vec<u16> = (0..8).map(|server| server % 2).collect();
        let region = Region::new(16, (1..=16).collect(), tenants, vec![0, 1]).expect("a region");
        let mut shared = question(8, 2, 7);
        for a in 0..8 {
            for b in (0..8).filter(|b| (a + b) % 2 == 1) {
                shared.demand.bytes[a * 8 + b] = 0;
            }
        }
        shared.standing.block(2, 1);
        shared.standing.connect((0, 0), (4, 1));
        for hysteresis in [false, true] {
            let decider = Decider { hysteresis, delay: Time::from_us(1), ..Decider::default() };
            let together = decider.decide(&region, &shared);
            for tenant in 0..2 {
                let members: Vec<usize> = (tenant..8).step_by(2).collect();
                let (demand, standing) = part(&members, &shared);
                let alone = decider.choose(&demand, &standing);
                for (i, &a) in members.iter().enumerate() {
                    for (j, &b) in members.iter().enumerate() {
                        assert_eq!(together.get(a, b), alone.get(i, j));
                    }
                }
            }
            assert!((0..8).all(|a| (0..8).all(|b| (a + b) % 2 == 0 || together.get(a, b) == 0)));
            assert!(together.degree(2) <= 1, "a blocked port");
        }
    }

    #[test]
    fn a_tenant_that_asks_for_nothing_keeps_what_it_has() {
        let region = Region::new(4, vec![1, 2, 3, 4], vec![0, 0, 1, 1], vec![0]).expect("a region");
        let mut question = question(4, 1, 3);
        question.demand = ServerDemand::from_gpu_demand(4, 1, [(0, 1, 9)]);
        question.standing.connect((2, 0), (3, 0));
        let mut decider = Decider::default();
        decider.decision.kind = lightloom_fabric::CircuitDecision::Algorithm1;
        let counts = decider.decide(&region, &question);
        assert_eq!((counts.get(0, 1), counts.get(2, 3)), (1, 1));
    }
}
