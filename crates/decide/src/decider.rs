//! The decider: it holds the settings, and what is remembered from question to question.

use crate::question::Question;
use crate::settings::{Refusal, Settings};
use crate::tenant::Tenant;
use crate::traffic::Traffic;
use lightloom_circuits::CircuitCounts;

/// Decides which circuits the servers of a region get.
#[derive(Clone, Debug)]
pub struct Decider {
    settings: Settings,
    tenant_of_server: Vec<u16>,
    tenants: Vec<Tenant>,
}

impl Decider {
    /// A decider for a region of as many servers as `tenant_of_server` has entries. Circuits join servers
    /// of one tenant only, and what one tenant sends has no effect on another's circuits.
    ///
    /// ```
    /// use lightloom_circuits::{PortMap, ServerDemand};
    /// use lightloom_decide::{Decider, Question, Settings};
    /// // Four servers of one port; the first two are one tenant's.
    /// let mut settings = Settings { hysteresis: false, ..Settings::default() };
    /// settings.rates.packet_bps = 100_000_000_000;
    /// let mut decider = Decider::new(settings, &[0, 0, 1, 1]);
    /// let demand = ServerDemand::from_gpu_demand(4, 1, [(0, 1, 5000), (1, 2, 9000), (2, 3, 5000)]);
    /// let counts = decider.decide(&Question::new(demand, PortMap::dark(4, 1))).unwrap();
    /// assert_eq!((counts.get(0, 1), counts.get(1, 2)), (1, 0));
    /// ```
    pub fn new(settings: Settings, tenant_of_server: &[u16]) -> Self {
        let tenants = tenant_of_server.iter().max().map_or(1, |&most| usize::from(most) + 1);
        Decider {
            settings,
            tenant_of_server: tenant_of_server.to_vec(),
            tenants: vec![Tenant::default(); tenants],
        }
    }

    /// How circuits are chosen.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes what servers said of other traffic before the first question: agents repeat the records of
    /// two iterations alone.
    pub fn recall(&mut self, traffic: &[Vec<Traffic>]) {
        for number in 0..self.tenants.len() {
            for (at, server) in self.members(number).into_iter().enumerate() {
                let records = traffic.get(server).into_iter().flatten();
                records.for_each(|record| self.tenants[number].window.observe(at, record));
            }
        }
    }

    /// Circuits for a question, by pair of servers. A tenant that sends nothing keeps what it has.
    ///
    /// # Errors
    /// [`Refusal`], of the first tenant that has no answer.
    ///
    /// # Panics
    /// If the question is not of as many servers as the region.
    pub fn decide(&mut self, question: &Question) -> Result<CircuitCounts, Refusal> {
        let n = self.tenant_of_server.len();
        assert_eq!(question.demand.n, n, "servers of the question");
        if let [tenant] = self.tenants.as_mut_slice() {
            return tenant.decide(&self.settings, question);
        }
        let mut all = CircuitCounts::dark(n);
        for number in 0..self.tenants.len() {
            let members = self.members(number);
            let part = question.of(&members);
            let counts =
                self.tenants[number].decide(&self.settings, &part).map_err(
                    |refusal| match refusal {
                        Refusal::CutOff(server) => Refusal::CutOff(members[server]),
                        other => other,
                    },
                )?;
            for (i, &a) in members.iter().enumerate() {
                for (j, &b) in members.iter().enumerate().skip(i + 1) {
                    (0..counts.get(i, j)).for_each(|_| all.join(a, b));
                }
            }
        }
        Ok(all)
    }

    fn members(&self, tenant: usize) -> Vec<usize> {
        let of = self.tenant_of_server.iter().enumerate();
        of.filter(|&(_, &number)| usize::from(number) == tenant).map(|(at, _)| at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dark::Dark;
    use crate::question::{Ahead, Basis, PacketSide};
    use crate::rule::{Algorithm1, Rule};
    use crate::traffic::Bytes;
    use lightloom_circuits::{PortMap, Rates, ServerDemand};
    use lightloom_fabric::ReconfigurationDelay;
    use lightloom_units::Time;
    use lightloom_units::kind::Kind;
    use std::sync::Arc;

    fn question(n: usize, degree: usize, seed: u64) -> Question {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) + 1
        };
        let bytes = (0..n * n).map(|at| if at / n == at % n { 0 } else { next() }).collect();
        Question::new(ServerDemand { n, bytes }, PortMap::dark(n, degree))
    }

    fn settings(hysteresis: bool) -> Settings {
        let switch = ReconfigurationDelay::Fixed { ps: Time::from_us(1) };
        let dark = Dark { switch, activation: Time::ZERO };
        Settings { hysteresis, dark, ..Settings::default() }
    }

    #[test]
    fn tenants_are_as_if_each_had_its_own_region() {
        // Interleaved: even servers are one tenant's.
        let tenants: Vec<u16> = (0..8).map(|server| server % 2).collect();
        let mut shared = question(8, 2, 7);
        for a in 0..8 {
            for b in (0..8).filter(|b| (a + b) % 2 == 1) {
                shared.demand.bytes[a * 8 + b] = 0;
            }
        }
        shared.standing.block(2, 1);
        shared.standing.connect((0, 0), (4, 1));
        for hysteresis in [false, true] {
            let together =
                Decider::new(settings(hysteresis), &tenants).decide(&shared).expect("circuits");
            for tenant in 0..2 {
                let members: Vec<usize> = (tenant..8).step_by(2).collect();
                let mut alone = Decider::new(settings(hysteresis), &[0; 4]);
                let alone = alone.decide(&shared.of(&members)).expect("circuits");
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
    fn a_tenant_that_sends_nothing_keeps_what_it_has() {
        let mut question = question(4, 1, 3);
        question.demand = ServerDemand::from_gpu_demand(4, 1, [(0, 1, 9)]);
        question.standing.connect((2, 0), (3, 0));
        let settings = Settings { rule: Arc::new(Algorithm1), ..settings(false) };
        let counts = Decider::new(settings, &[0, 0, 1, 1]).decide(&question).expect("circuits");
        assert_eq!((counts.get(0, 1), counts.get(2, 3)), (1, 1));
    }

    /// One byte a pair never pays for dark time, and need not.
    #[test]
    fn an_even_start_is_set_without_weighing_and_held() {
        let bytes = (0..16).map(|at| u64::from(at / 4 != at % 4)).collect();
        let mut start = Question::new(ServerDemand { n: 4, bytes }, PortMap::dark(4, 3));
        start.basis = Basis::Start;
        let mut decider = Decider::new(Settings::default(), &[0; 4]);
        let counts = decider.decide(&start).expect("circuits");
        assert_eq!((0..4).map(|server| counts.degree(server)).sum::<u32>(), 12);
        let standing = lightloom_circuits::assign(&counts, &start.standing, &[0, 0, 0]);
        let small =
            Question { demand: question(4, 3, 1).demand, ..Question::new(start.demand, standing) };
        assert_eq!(decider.decide(&small).expect("circuits"), counts);
    }

    #[test]
    fn the_same_demand_again_moves_nothing_without_hysteresis() {
        let mut decider = Decider::new(settings(false), &[0; 6]);
        let first = question(6, 3, 5);
        let counts = decider.decide(&first).expect("circuits");
        let standing = lightloom_circuits::assign(&counts, &first.standing, &[0; 3]);
        let n = first.demand.n;
        let bytes = (0..n * n).map(|at| first.demand.get(at % n, at / n)).collect();
        let combine = Question::new(ServerDemand { n, bytes }, standing);
        assert_eq!(decider.decide(&combine).expect("circuits"), counts);
    }

    /// Servers send each other in twos, in others every other time: 60 ms over a circuit, 120 over packets.
    #[test]
    fn what_can_change_again_is_not_held_for_later() {
        let twos = |pairs: [(u32, u32); 2]| {
            let both = pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
            ServerDemand::from_gpu_demand(4, 1, both.map(|(a, b)| (a, b, 3_000_000_000)))
        };
        let demands = [twos([(0, 1), (2, 3)]), twos([(0, 2), (1, 3)])];
        let follows = |changes: u32, dark_ms: u64| {
            let mut settings = Settings::default();
            settings.rates.packet_bps /= 4;
            settings.dark.switch = ReconfigurationDelay::Fixed { ps: Time::from_ms(dark_ms) };
            let mut decider = Decider::new(settings, &[0; 4]);
            let mut standing = PortMap::dark(4, 1);
            for demand in demands.iter().cycle().take(4) {
                let mut question = Question::new(demand.clone(), standing);
                question.ahead = vec![Some(Ahead { later: 40, changes, ..Ahead::default() })];
                let counts = decider.decide(&question).expect("circuits");
                standing = lightloom_circuits::assign(&counts, &question.standing, &[0]);
            }
            standing.counts().get(0, 2) == 1
        };
        assert!(
            follows(20, 25),
            "25 + 2 * 60 ms for every demand, instead of 2 * 120 for each other"
        );
        assert!(!follows(20, 60), "the 60 ms that each other demand saves are what a change takes");
        assert!(!follows(0, 25), "nobody knows that circuits can change for the others");
    }

    #[test]
    fn circuits_are_worth_more_where_other_traffic_takes_packet_nics() {
        // 400 Gbps each: 33 ms over two packet NICs. One circuit costs 25 ms.
        let demand = ServerDemand::from_gpu_demand(3, 1, [(0, 1, 33 * 100_000_000)]);
        let ask = |records: Vec<Vec<Traffic>>| {
            let mut question = Question::new(demand.clone(), PortMap::dark(3, 1));
            question.ahead = vec![None, Some(Ahead { uses: 1, ..Ahead::default() }), None];
            question.traffic = records;
            let mut decider = Decider::new(Settings::default(), &[0; 3]);
            decider.decide(&question).expect("circuits").total()
        };
        assert_eq!(ask(vec![]), 0);
        let mut record = Traffic::new(1);
        record.pass(0).under_way = Time::from_ms(1000);
        record.pass(0).pp = Bytes { out: 45_000_000_000, into: 0 };
        assert_eq!(
            ask(vec![vec![], vec![record.clone()]]),
            0,
            "66 ms over 55 %, or 25 + 66 over a circuit"
        );
        let rule = Settings {
            rates: Rates { optical_bps: 1_600_000_000_000, ..Settings::default().rates },
            ..Settings::default()
        };
        let mut question = Question::new(demand.clone(), PortMap::dark(3, 1));
        question.traffic = vec![vec![], vec![record]];
        assert_eq!(
            Decider::new(rule.clone(), &[0; 3]).decide(&question).expect("circuits").total(),
            1
        );
        question.traffic.clear();
        let uses = Some(Ahead { uses: 1, ..Ahead::default() });
        question.ahead = vec![uses];
        assert_eq!(Decider::new(rule, &[0; 3]).decide(&question).expect("circuits").total(), 0);
    }

    #[test]
    fn a_server_without_packet_nics_gets_a_circuit_or_the_question_is_refused() {
        let mut question = question(3, 1, 2);
        question.packet_sides = vec![PacketSide::Works, PacketSide::Works, PacketSide::Broken];
        let mut decider = Decider::new(settings(true), &[0; 3]);
        assert!(decider.decide(&question).expect("circuits").degree(2) > 0);
        question.standing.block(2, 0);
        let refusal = decider.decide(&question).expect_err("no port");
        assert!(refusal.to_string().starts_with("server 2 is cut off"));
    }

    #[derive(Debug)]
    struct TooMany;

    impl Rule for TooMany {
        fn kind(&self) -> &'static Kind<()> {
            static KIND: Kind<()> = Kind {
                name: "too-many",
                summary: "Circuits for which there are no ports",
                source: None,
                keys: &[],
                capabilities: (),
            };
            &KIND
        }
        fn fit(&self, input: &crate::rule::RuleInput<'_>) -> Result<CircuitCounts, String> {
            let mut counts = CircuitCounts::dark(input.ports.len());
            (0..9).for_each(|_| counts.join(0, 1));
            Ok(counts)
        }
    }

    #[test]
    fn a_rule_that_wants_more_than_there_is_is_refused() {
        let settings = Settings { rule: Arc::new(TooMany), ..settings(false) };
        let refusal = Decider::new(settings, &[0; 3]).decide(&question(3, 2, 1)).expect_err("9");
        let why = "decision \"too-many\": 9 circuits at server 0, which has 2 ports";
        assert_eq!(refusal.to_string(), why);
    }
}
