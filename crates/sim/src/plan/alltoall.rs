//! A non-uniform all-to-all on planes, by single ports and by matchings.

use super::error::{PlanningError, input};
use super::spans::{merge, uncovered};
use super::tracks::{Tracks, json};
use lightloom_swot::alltoall::{
    Demand, Hold, bound, completion, matchings, plan, ports, whole_bound,
};
use lightloom_swot::plan::{Plan, Wanted};
use lightloom_swot::{Held, Planes, Problem, Step, lockstep};
use lightloom_units::{BitRate, Bytes, Time};
use serde::{Deserialize, Serialize};

/// What is asked for; the demand travels apart.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllToAllSpec {
    /// Planes; all begin dark.
    pub planes: u32,
    /// Rate of a node over all planes; each has its share, rounded down \[bit/s\].
    pub node_bps: BitRate,
    /// How long a port is dark when it is set \[ps\].
    pub reconfiguration_ps: Time,
    /// What a transmission takes beyond its bytes \[ps\].
    pub latency_ps: Time,
    /// How planes switch.
    pub circuits: Circuits,
}

/// How planes switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Circuits {
    /// As a whole.
    Matchings,
    /// Port by port.
    Ports,
    /// Whichever is shorter.
    Best,
}

/// What one scheduler came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchingRow {
    /// `lockstep`, `ideal`, `matchings` or `ports`.
    pub scheduler: &'static str,
    /// When the last byte has arrived \[ps\].
    pub completion_ps: Time,
    /// No schedule on planes that are dark at first and switch in this way (as a whole, but for
    /// `ports`) completes before; none for the ideal \[ps\].
    pub bound_ps: Option<Time>,
    /// (completion - bound) / completion.
    pub gap: Option<f64>,
    /// How many circuits are set.
    pub switches: usize,
    /// How long transmitters are dark, summed \[ps\].
    pub dark_ps: Time,
    /// How long of it the transmitter's node sends nothing on any plane \[ps\].
    pub exposed_ps: Time,
}

/// What came of an all-to-all.
#[derive(Clone, Debug, Serialize)]
pub struct AllToAllPlans {
    /// How many nodes there are.
    pub nodes: u32,
    /// Pairs that have something to send.
    pub pairs: usize,
    /// What they send \[B\].
    pub bytes: u64,
    /// Planes that circuits which never change would need.
    pub one_shot_planes: usize,
    /// Lockstep, ideal, and what was asked.
    pub rows: Vec<SwitchingRow>,
    /// Which of them the plan is.
    pub chosen: &'static str,
    /// The shortest plan that was asked for.
    #[serde(skip)]
    pub plan: Tracks,
}

impl AllToAllSpec {
    /// Parses JSON.
    ///
    /// # Errors
    /// A message that names the key.
    pub fn from_json(text: &str) -> Result<AllToAllSpec, PlanningError> {
        serde_json::from_str(text).map_err(|error| input(format!("the request: {error}")))
    }

    fn planes(&self) -> Result<Planes, PlanningError> {
        if !(1..=64).contains(&self.planes) {
            return Err(input(format!("planes is {}; allowed: 1 to 64", self.planes)));
        }
        let rate_bps = BitRate::from_bps(self.node_bps.bps() / u64::from(self.planes));
        if rate_bps.bps() == 0 {
            return Err(input("the rate of a plane is 0; allowed: any positive rate"));
        }
        Ok(Planes {
            planes: self.planes,
            rate_bps,
            reconfiguration_ps: self.reconfiguration_ps,
            latency_ps: self.latency_ps,
        })
    }
}

impl AllToAllPlans {
    /// As JSON, without the plan.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

/// Plans an all-to-all: `demand[from * nodes + to]` bytes, what stays at home left out.
///
/// ```
/// use lightloom_sim::plan::{AllToAllSpec, plan_alltoall};
/// let spec = AllToAllSpec::from_json(r#"{"planes": 2, "node_bps": 800000000000,
///     "reconfiguration_ps": 20000000, "latency_ps": 0, "circuits": "best"}"#)?;
/// // 10 MB and 5 MB: 100 us at the node's whole rate, and one reconfiguration.
/// let plans = plan_alltoall(&spec, &[0, 10_000_000, 5_000_000, 0])?;
/// assert_eq!(plans.plan.completion_ps.ps(), 120_000_000);
/// # Ok::<(), lightloom_sim::plan::PlanningError>(())
/// ```
///
/// # Errors
/// [`PlanningError::Input`] if the demand is no square, is empty or too large for the planes;
/// [`PlanningError::Invalid`] if a scheduler is wrong.
pub fn plan_alltoall(spec: &AllToAllSpec, demand: &[u64]) -> Result<AllToAllPlans, PlanningError> {
    let planes = spec.planes()?;
    let nodes = u32::try_from(demand.len().isqrt()).map_err(input)?;
    let matrix = Demand::new(nodes, demand.to_vec()).map_err(input)?;
    let lines = Lines::new(&matrix);
    if lines.pairs == 0 {
        return Err(input("the demand: no node has anything for another; allowed: some bytes"));
    }
    lines.fits(&planes)?;
    let whole = whole_bound(&planes, &matrix);
    let mut rows = vec![lockstep_row(&planes, nodes, demand, whole)?, lines.ideal(&planes, spec)];
    let mut found: Vec<(&'static str, Vec<Hold>, Time)> = vec![];
    if spec.circuits != Circuits::Ports {
        found.push(("matchings", matchings(&planes, &matrix), whole));
    }
    if spec.circuits != Circuits::Matchings {
        found.push(("ports", ports(&planes, &matrix), bound(&planes, &matrix)));
    }
    rows.extend(found.iter().map(|(scheduler, holds, least)| row(scheduler, holds, nodes, *least)));
    let shortest = found.iter().min_by_key(|(_, holds, _)| completion(holds));
    let (chosen, holds, least) = shortest.expect("every choice has a scheduler");
    let found = Plan { bound_ps: *least, ..plan(&planes, &matrix, holds) };
    found.check(&Wanted::Matrix(demand)).map_err(|violation| PlanningError::Invalid {
        scheduler: chosen,
        violation: violation.to_string(),
    })?;
    Ok(AllToAllPlans {
        nodes,
        pairs: lines.pairs,
        bytes: lines.bytes,
        one_shot_planes: lines.degree,
        rows,
        chosen,
        plan: found.into(),
    })
}

/// Sums of rows and columns.
struct Lines {
    pairs: usize,
    bytes: u64,
    /// The largest sum of a row or column \[B\].
    fullest: u64,
    /// The most entries of a row or column.
    degree: usize,
}

impl Lines {
    fn new(demand: &Demand) -> Lines {
        let n = demand.nodes() as usize;
        let mut sums = vec![(0u64, 0usize); 2 * n];
        let (mut pairs, mut bytes) = (0, 0);
        for (from, to, size) in demand.entries() {
            for line in [from as usize, n + to as usize] {
                sums[line].0 += size;
                sums[line].1 += 1;
            }
            pairs += 1;
            bytes += size;
        }
        let fullest = sums.iter().map(|line| line.0).max().unwrap_or(0);
        Lines { pairs, bytes, fullest, degree: sums.iter().map(|line| line.1).max().unwrap_or(0) }
    }

    /// Refuses what may take longer than half a clock, all of it one after the other.
    fn fits(&self, planes: &Planes) -> Result<(), PlanningError> {
        let each = u128::from(planes.reconfiguration_ps.ps()) + u128::from(planes.latency_ps.ps());
        let sending = u128::from(planes.rate_bps.time_for(Bytes::new(self.bytes)).ps());
        // Entries may be split over every plane, and some more.
        let pieces = self.pairs as u128 * 4 * u128::from(planes.planes);
        if sending + pieces * each >= 1 << 62 {
            return Err(input("the demand: may take longer than 2^62 ps (53 days); allowed: less"));
        }
        Ok(())
    }

    fn ideal(&self, planes: &Planes, spec: &AllToAllSpec) -> SwitchingRow {
        let completion_ps = planes.latency_ps + spec.node_bps.time_for(Bytes::new(self.fullest));
        SwitchingRow {
            scheduler: "ideal",
            completion_ps,
            bound_ps: None,
            gap: None,
            switches: 0,
            dark_ps: Time::ZERO,
            exposed_ps: Time::ZERO,
        }
    }
}

/// Every node to the next but one, to the one after, ...: each rotation as long as its largest
/// entry, and all planes switch together in between.
fn lockstep_row(
    planes: &Planes,
    nodes: u32,
    demand: &[u64],
    least: Time,
) -> Result<SwitchingRow, PlanningError> {
    let n = nodes as usize;
    let largest = |by: usize| (0..n).map(|i| demand[i * n + (i + by) % n]).max().unwrap_or(0);
    let steps = (1..n)
        .map(|by| Step::new(by as u32, Bytes::new(largest(by))))
        .filter(|step| step.volume_bytes > Bytes::ZERO)
        .collect();
    let dark = vec![Held::Dark; planes.planes as usize];
    let schedule = lockstep(&Problem::new(*planes, dark, steps).map_err(input)?);
    let dark_ps = planes.reconfiguration_ps * (schedule.switches.len() as u64 * u64::from(nodes));
    Ok(SwitchingRow {
        scheduler: "lockstep",
        completion_ps: schedule.completion_ps,
        bound_ps: Some(least),
        gap: Some(gap(schedule.completion_ps, least)),
        switches: schedule.switches.len() * n,
        dark_ps,
        exposed_ps: dark_ps,
    })
}

fn row(scheduler: &'static str, holds: &[Hold], nodes: u32, least: Time) -> SwitchingRow {
    let completion_ps = completion(holds);
    let mut sending: Vec<Vec<(Time, Time)>> = vec![vec![]; nodes as usize];
    for hold in holds {
        sending[hold.from as usize].push((hold.start_ps, hold.end_ps));
    }
    for spans in &mut sending {
        merge(spans);
    }
    let set: Vec<&Hold> = holds.iter().filter(|hold| hold.dark_ps < hold.start_ps).collect();
    let (mut dark_ps, mut exposed_ps) = (Time::ZERO, Time::ZERO);
    for hold in &set {
        let span = (hold.dark_ps, hold.start_ps);
        dark_ps += span.1 - span.0;
        exposed_ps += uncovered(span, &sending[hold.from as usize]);
    }
    SwitchingRow {
        scheduler,
        completion_ps,
        bound_ps: Some(least),
        gap: Some(gap(completion_ps, least)),
        switches: set.len(),
        dark_ps,
        exposed_ps,
    }
}

fn gap(completion: Time, bound: Time) -> f64 {
    completion.saturating_sub(bound).ps() as f64 / completion.ps().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::check::{Task, check_plan};

    fn spec(circuits: Circuits) -> AllToAllSpec {
        AllToAllSpec {
            planes: 3,
            node_bps: BitRate::from_gbps(300),
            reconfiguration_ps: Time::from_us(10),
            latency_ps: Time::from_us(1),
            circuits,
        }
    }

    /// Uneven, with a hole.
    fn demand() -> Vec<u64> {
        (0..36u64).map(|i| if i == 7 { 0 } else { 100_000 + i * i * 3_000 }).collect()
    }

    #[test]
    fn every_way_passes_as_a_file() {
        for circuits in [Circuits::Matchings, Circuits::Ports, Circuits::Best] {
            let plans = plan_alltoall(&spec(circuits), &demand()).expect("plans");
            let tracks = plans.plan.clone();
            let chosen = plans.rows.iter().find(|row| row.scheduler == plans.chosen);
            assert_eq!(chosen.map(|row| row.completion_ps), Some(tracks.completion_ps));
            let rows: Vec<Vec<u64>> = demand().chunks(6).map(<[u64]>::to_vec).collect();
            let task = Task::AllToAll { demand: rows };
            assert_eq!(check_plan(tracks.clone(), &task), Ok(tracks.completion_ps));
            let lockstep = &plans.rows[0];
            for row in &plans.rows[2..] {
                assert!(row.completion_ps >= tracks.bound_ps && row.exposed_ps <= row.dark_ps);
            }
            if circuits != Circuits::Matchings {
                assert!(tracks.completion_ps < lockstep.completion_ps, "{:?}", plans.rows);
            }
            assert!(plans.rows[1].completion_ps <= tracks.bound_ps);
        }
    }

    #[test]
    fn bad_requests_are_refused() {
        let best = spec(Circuits::Best);
        let refused = |spec: &AllToAllSpec, demand: &[u64]| {
            plan_alltoall(spec, demand).expect_err("bad").to_string()
        };
        assert!(refused(&best, &[]).contains("nodes"));
        assert!(refused(&best, &[1, 2, 3]).contains("rows"));
        assert!(refused(&best, &[5, 0, 0, 5]).contains("anything"));
        assert!(refused(&best, &[0, u64::MAX, 1, 0]).contains("2^50"));
        let slow = AllToAllSpec { node_bps: BitRate::from_bps(3), ..best.clone() };
        assert!(refused(&slow, &[0, 1 << 49, 1, 0]).contains("2^62 ps"));
        let dark = AllToAllSpec { reconfiguration_ps: Time::MAX, ..best.clone() };
        assert!(refused(&dark, &[0, 1, 1, 0]).contains("2^62 ps"));
        let none = AllToAllSpec { planes: 0, ..best };
        assert_eq!(refused(&none, &[0, 1, 1, 0]), "planes is 0; allowed: 1 to 64");
    }
}
