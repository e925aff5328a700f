//! A rule that chooses circuits, written in Python.

use crate::function::Function;
use lightloom_circuits::CircuitCounts;
use lightloom_decide::{Rule, RuleInput};
use lightloom_units::kind::Kind;
use std::sync::Arc;

static KIND: Kind<()> = Kind {
    name: "python",
    summary: "A function in Python",
    source: None,
    keys: &[],
    capabilities: (),
};

/// Calls a function for every choice.
#[derive(Debug)]
pub(crate) struct PythonRule(pub(crate) Arc<Function>);

impl Rule for PythonRule {
    fn kind(&self) -> &'static Kind<()> {
        &KIND
    }

    fn fit(&self, input: &RuleInput<'_>) -> Result<CircuitCounts, String> {
        let n = input.demand.n;
        let rows = |get: &dyn Fn(usize, usize) -> u64| -> Vec<Vec<u64>> {
            (0..n).map(|a| (0..n).map(|b| get(a, b)).collect()).collect()
        };
        let demand = rows(&|a, b| if a == b { 0 } else { input.demand.get(a, b) });
        let standing = rows(&|a, b| input.standing.get(a, b).into());
        let rates = input.rates;
        let rates = (rates.optical_bps, rates.packet_bps, rates.packet_nics);
        let rows: Vec<Vec<u32>> = self.0.ask(|py, function| {
            function.call1(py, (demand, standing, input.ports.to_vec(), rates))?.extract(py)
        })?;
        if rows.len() != n || rows.iter().any(|row| row.len() != n) {
            return Err(format!("must return {n} rows of {n} numbers of circuits"));
        }
        let mut counts = CircuitCounts::dark(n);
        for (a, row) in rows.iter().enumerate() {
            if row[a] != 0 {
                return Err(format!("{} circuits from server {a} to itself", row[a]));
            }
            for (b, &there) in row.iter().enumerate().skip(a + 1) {
                let back = rows[b][a];
                if there != back {
                    return Err(format!("{there} circuits from server {a} to {b}, {back} back"));
                }
                if there > input.ports[a].min(input.ports[b]) {
                    return Err(format!("{there} circuits from server {a} to {b}: too few ports"));
                }
                (0..there).for_each(|_| counts.join(a, b));
            }
        }
        Ok(counts)
    }
}
