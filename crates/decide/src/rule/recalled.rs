//! A rule that does not think twice of the same.
//!
//! Many regions of a job meet the same demands. What fits a demand best from no circuits on depends on the
//! demand, on ports and on rates alone, and is what [`Decider`](crate::Decider) asks of each demand that was
//! usual; so one answer is kept for all regions. Other questions depend on what stands, and go through.
//! Checked: the same answers, for questions that come once or often.

use super::form::{Rule, RuleInput};
use lightloom_circuits::{CircuitCounts, Prospect};
use lightloom_units::Time;
use lightloom_units::kind::Kind;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers that are kept, at most: then all is forgotten.
const MOST: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// Another rule, whose answers are kept.
#[derive(Debug)]
pub struct Recalled {
    rule: Arc<dyn Rule>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    answers: HashMap<Vec<u64>, CircuitCounts>,
    numbers: usize,
}

impl Recalled {
    /// Keeps answers of a rule that gives the same one to the same question.
    ///
    /// ```
    /// use lightloom_decide::rule::Recalled;
    /// use lightloom_decide::{Rule, rule};
    /// let timed = Recalled::new(rule("timed").unwrap());
    /// assert_eq!(timed.name(), "timed");
    /// ```
    pub fn new(rule: Arc<dyn Rule>) -> Self {
        Recalled { rule, kept: Mutex::default() }
    }
}

impl Rule for Recalled {
    fn kind(&self) -> &'static Kind<()> {
        self.rule.kind()
    }

    fn fit(&self, input: &RuleInput<'_>) -> Result<CircuitCounts, String> {
        if input.standing.total() > 0 {
            return self.rule.fit(input);
        }
        let question = question(input);
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = kept().answers.get(&question) {
            return Ok(answer.clone());
        }
        let answer = self.rule.fit(input)?;
        let (mut kept, more) = (kept(), question.len() * 2);
        if kept.numbers + more > MOST {
            *kept = Kept::default();
        }
        kept.numbers += more;
        kept.answers.insert(question, answer.clone());
        Ok(answer)
    }

    fn worthwhile(
        &self,
        input: &RuleInput<'_>,
        dark: &dyn Fn(u32) -> Time,
        prospect: Prospect<'_>,
    ) -> Result<CircuitCounts, String> {
        self.rule.worthwhile(input, dark, prospect)
    }
}

/// All that an answer depends on where no circuit stands.
fn question(input: &RuleInput<'_>) -> Vec<u64> {
    let RuleInput { demand, standing: _, ports, rates, keep_going } = *input;
    let mut words = Vec::with_capacity(demand.bytes.len() + ports.len() + 6);
    words.extend([demand.n as u64, rates.optical_bps, rates.packet_bps, rates.packet_nics.into()]);
    words.extend([rates.share_eps, keep_going].map(u64::from));
    words.extend(ports.iter().map(|&ports| u64::from(ports)));
    words.extend(&demand.bytes);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::algorithm_1::Algorithm1;
    use crate::rule::matchings::Matchings;
    use crate::rule::timed::Timed;
    use lightloom_circuits::{Rates, ServerDemand};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn answers_are_the_rules_own(
            asked in prop::collection::vec((0usize..4, 0u32..3, any::<bool>(), 1usize..4), 1..40),
        ) {
            let rules: [Arc<dyn Rule>; 3] =
                [Arc::new(Algorithm1), Arc::new(Matchings), Arc::new(Timed)];
            for rule in rules {
                let recalled = Recalled::new(Arc::clone(&rule));
                for &(seed, port, stands, n) in &asked {
                    let bytes = (0..n * n).map(|at| ((at * 37 + seed * 11) % 23) as u64 * 1_000_003);
                    let demand = ServerDemand { n, bytes: bytes.collect() };
                    let mut standing = CircuitCounts::dark(n);
                    if stands && n > 1 && port > 0 {
                        standing.join(0, 1);
                    }
                    let (bps, ports) = (400_000_000_000, vec![port; n]);
                    let rates =
                        Rates { optical_bps: bps, packet_bps: bps, packet_nics: 1, share_eps: false };
                    let (demand, standing, ports, rates) = (&demand, &standing, &ports[..], &rates);
                    let input = RuleInput { demand, standing, ports, rates, keep_going: true };
                    prop_assert_eq!(recalled.fit(&input), rule.fit(&input));
                }
            }
        }
    }
}
