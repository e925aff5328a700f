//! An all-reduce over a RailX system: in closed form, or run on an engine.
//!
//! Every step is a task, all of whose sends start together; see
//! [`Program`](lightloom_railx::collective::Program). Checked: against the closed form, on
//! the flow engine within a thousandth where no mesh link binds.

use crate::error::SimError;
use crate::medium::standing;
use crate::record::Watch;
use lightloom_engine::{Engine, Orders, Policy, Scenario, TaskId, Tasks};
use lightloom_fabric::railx::Grid;
use lightloom_fabric::{Cluster, Fabric, FabricError, RailXSpec, RailXTopology};
use lightloom_flit::FlitEngine;
use lightloom_flow::FlowEngine;
use lightloom_railx::Named;
use lightloom_railx::collective::{Algorithm, Links, Program, Stage, all_reduce, printed};
use lightloom_units::{Bytes, Time};
use serde::Deserialize;

/// An all-reduce, and how its time is found.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllReduceSpec {
    /// How data are reduced and spread.
    pub algorithm: Algorithm,
    /// What it runs on.
    pub links: Links,
    /// Bytes of each chip.
    pub bytes: Bytes,
    /// What finds the time.
    pub engine: AllReduceEngine,
}

/// What finds the time of an all-reduce.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AllReduceEngine {
    /// The equations, all terms kept.
    Analytic,
    /// Their last lines as printed.
    Printed,
    /// Max-min fair flows.
    Flow,
    /// The flit engine.
    Flit(FlitEngine),
}

/// The most sends, over all steps, that are run.
const MOST_SENDS: u64 = 40_000_000;

/// How long the all-reduce takes.
///
/// # Errors
/// [`SimError::Input`] if the system cannot be built, does not serve the algorithm, or is too large
/// to be run; [`SimError::Run`] if the run fails or `progress`, which gets the share that is done,
/// says `false`.
///
/// ```
/// use lightloom_sim::{AllReduceSpec, railx_all_reduce};
/// let text = r#"{"algorithm": "hierarchical", "bytes": 16000000, "engine": {"kind": "ENGINE"},
///     "links": {"mesh": 4, "nodes": 3, "ports": 1, "rail_bps": 800000000000,
///               "inside_bps": 3200000000000, "hop_ps": 300000, "mesh_hop_ps": 10000}}"#;
/// let time = |engine| {
///     let spec: AllReduceSpec = serde_json::from_str(&text.replace("ENGINE", engine)).unwrap();
///     railx_all_reduce(&spec, &mut |_| true).unwrap().as_secs_f64()
/// };
/// assert!((time("flow") / time("analytic") - 1.0).abs() < 1e-3);
/// ```
pub fn all_reduce_time(
    spec: &AllReduceSpec,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Time, SimError> {
    check(spec.algorithm, &spec.links)?;
    let flow = FlowEngine::default();
    let engine: &dyn Engine = match &spec.engine {
        AllReduceEngine::Analytic => {
            return Ok(all_reduce(spec.algorithm, &spec.links, spec.bytes));
        }
        AllReduceEngine::Printed => return Ok(printed(spec.algorithm, &spec.links, spec.bytes)),
        AllReduceEngine::Flow => &flow,
        AllReduceEngine::Flit(flit) => flit,
    };
    let fabric = fabric_for(spec.algorithm, &spec.links)?;
    let program = Program::new(spec.algorithm, &fabric, spec.bytes).map_err(input)?;
    let sends = |stage: &Stage| u64::from(stage.steps) * stage.sends.len() as u64;
    let sends: u64 = program.stages.iter().map(sends).sum();
    if sends > MOST_SENDS {
        return Err(SimError::Input(format!(
            "nodes = {}: {sends} sends, of which at most {MOST_SENDS} are run; allowed: fewer \
             nodes, or engine \"analytic\"",
            spec.links.nodes
        )));
    }
    run(&program, &fabric, engine, progress)
}

fn check(algorithm: Algorithm, links: &Links) -> Result<(), SimError> {
    let chips = u64::from(links.mesh).pow(2) * u64::from(links.nodes).pow(2);
    for (key, value, most) in
        [("mesh", links.mesh, 64), ("nodes", links.nodes, 1 << 10), ("ports", links.ports, 256)]
    {
        if !(1..=most).contains(&value) {
            return Err(SimError::Input(format!("{key} = {value}: must be from 1 to {most}")));
        }
    }
    if chips > 1 << 22 {
        let message = format!("nodes = {}: {chips} chips; at most {}", links.nodes, 1 << 22);
        return Err(SimError::Input(message));
    }
    let most = links.mesh * links.ports + 1;
    if algorithm == Algorithm::HyperX && links.nodes > most {
        return Err(SimError::Input(format!(
            "nodes = {}: {} rails join at most {most} nodes all to all",
            links.nodes,
            most - 1
        )));
    }
    for (key, rate) in [("bandwidth", links.rail_bps), ("inside", links.inside_bps)] {
        if rate.bps() == 0 {
            return Err(SimError::Input(format!("{key} = {rate}: must be above 0")));
        }
    }
    Ok(())
}

/// A torus, or for the algorithm that needs one a HyperX, on the smallest switches.
fn fabric_for(algorithm: Algorithm, links: &Links) -> Result<Fabric, SimError> {
    let topology = match algorithm {
        Algorithm::HyperX => (RailXTopology::HyperX, Named::HyperX),
        _ => (RailXTopology::Torus, Named::Torus),
    };
    let grid = Grid::new(links.mesh, links.ports, 2 * links.nodes, links.nodes, links.nodes);
    let layout = topology.1.build(grid).map_err(input)?.layout;
    let edge = links.rail_bps.bps() as f64 * f64::from(links.ports);
    let spec = RailXSpec {
        mesh: links.mesh,
        ports: links.ports,
        ocs_ports: grid.radix,
        inside: links.inside_bps.bps() as f64 / edge,
        mesh_delay_ps: links.mesh_hop_ps,
        // Two fibres a hop.
        ..RailXSpec::new(topology.0, links.rail_bps, Time::from_ps(links.hop_ps.ps() / 2))
    };
    let cluster = Cluster { numa_nodes: 1, ..Cluster::of(grid.chips(), links.mesh * links.mesh) };
    Fabric::railx(&cluster, &spec, &layout).map_err(input)
}

fn run(
    program: &Program,
    fabric: &Fabric,
    engine: &dyn Engine,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Time, SimError> {
    // A task a step, in a chain a stage.
    let steps: Vec<u32> = program.stages.iter().map(|stage| stage.steps).collect();
    let first: Vec<u32> = steps
        .iter()
        .scan(0, |sum, &steps| {
            *sum += steps;
            Some(*sum - steps)
        })
        .collect();
    let total: u32 = steps.iter().sum();
    let mut transfer = Vec::with_capacity(total as usize);
    let mut predecessors = vec![1; total as usize];
    let (mut offsets, mut targets) = (vec![0], Vec::new());
    for (at, stage) in program.stages.iter().enumerate() {
        predecessors[first[at] as usize] = stage.after.len() as u32;
        for step in 0..stage.steps {
            transfer.push(at as u32);
            if step + 1 < stage.steps {
                targets.push(first[at] + step + 1);
            } else {
                let next = (0..program.stages.len())
                    .filter(|&other| program.stages[other].after.contains(&(at as u32)));
                targets.extend(next.map(|other| first[other]));
            }
            offsets.push(targets.len() as u32);
        }
    }
    let circuits = standing(fabric);
    let scenario = Scenario {
        fabric,
        tasks: Tasks {
            duration: &vec![Time::ZERO; total as usize],
            transfer: &transfer,
            offsets: &offsets,
            targets: &targets,
            predecessors: &predecessors,
        },
        circuits: &circuits,
        incidents: &[],
    };
    let outcome = engine.run(&scenario, &mut Steps(program), &mut Watch(progress))?;
    Ok(outcome.makespan)
}

/// Sends what a step of a stage sends.
struct Steps<'a>(&'a Program);

impl Policy for Steps<'_> {
    fn begin(
        &mut self,
        _: TaskId,
        transfer: u32,
        _: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        for send in &self.0.stages[transfer as usize].sends {
            for lane in &send.lanes {
                orders.path().extend(lane);
                orders.lane();
            }
            orders.flow(send.bytes);
        }
        orders.end_phase(Time::ZERO);
        Ok(())
    }
}

fn input(error: FabricError) -> SimError {
    SimError::Input(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_units::BitRate;

    const ALL: [Algorithm; 4] =
        [Algorithm::Ring1d, Algorithm::Ring2d, Algorithm::Hierarchical, Algorithm::HyperX];

    fn spec(algorithm: Algorithm, mesh: u32, nodes: u32, ports: u32, bytes: u64) -> AllReduceSpec {
        let rail = BitRate::from_gbps(800);
        let links = Links {
            mesh,
            nodes,
            ports,
            rail_bps: rail,
            inside_bps: BitRate::from_gbps(4 * 800 * u64::from(ports)),
            hop_ps: Time::from_ns(300),
            mesh_hop_ps: Time::from_ns(10),
        };
        AllReduceSpec { algorithm, links, bytes: Bytes::new(bytes), engine: AllReduceEngine::Flow }
    }

    fn times(mut spec: AllReduceSpec) -> (f64, f64) {
        let run = all_reduce_time(&spec, &mut |_| true).expect("it runs");
        spec.engine = AllReduceEngine::Analytic;
        let formula = all_reduce_time(&spec, &mut |_| true).expect("it is a formula");
        (run.as_secs_f64(), formula.as_secs_f64())
    }

    /// Bytes are rounded up to whole ones a send: nothing is faster than the equations.
    #[test]
    fn flows_agree_with_the_equations_within_a_thousandth() {
        for algorithm in ALL {
            for (mesh, ports, nodes) in [(2, 1, 3), (4, 1, 3), (4, 2, 3), (2, 2, 5), (3, 2, 3)] {
                // Small: hops count. Large: bytes do.
                for bytes in [1 << 20, 1 << 32] {
                    let spec = spec(algorithm, mesh, nodes, ports, bytes);
                    let (run, formula) = times(spec);
                    let off = run / formula - 1.0;
                    assert!(
                        (-1e-9..1e-3).contains(&off),
                        "{algorithm:?} m {mesh} n {ports} p {nodes} {bytes} B: {off}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_too_large_or_does_not_fit_is_told() {
        let refused = |spec: &AllReduceSpec| {
            all_reduce_time(spec, &mut |_| true).expect_err("refused").to_string()
        };
        let large = spec(Algorithm::Ring1d, 4, 64, 1, 1);
        assert!(refused(&large).contains("allowed: fewer nodes, or engine \"analytic\""));
        let four = spec(Algorithm::HyperX, 4, 4, 1, 1);
        assert!(refused(&four).ends_with("at most 5 nodes all to all, but 4 take 6"));
        let none = spec(Algorithm::HyperX, 0, 4, 1, 1);
        assert_eq!(refused(&none), "mesh = 0: must be from 1 to 64");
        let mut stopped = 0;
        let spec = spec(Algorithm::Ring1d, 4, 5, 1, 1);
        let result = all_reduce_time(&spec, &mut |_| {
            stopped += 1;
            false
        });
        assert!(matches!(result, Err(SimError::Run(_))) && stopped == 1);
    }
}
