//! Topologies: their measures, and what every switch is set to.

use crate::errors::{refused, wrong};
use crate::json::{read, text};
use lightloom_fabric::railx::{Axis, Grid, Layout};
use lightloom_fabric::routers::{RailxLinks, Routing, railx};
use lightloom_fabric::{CircuitError, CrossConnect};
use lightloom_railx::{
    Checked, Dimension, DimensionSpec, Form, Formulas, Measures, Named, Share, Topology, Unsafe,
    check, select,
};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    mesh: u32,
    ports: u32,
    ocs: u32,
    global_ocs: Option<u32>,
    /// A topology by name with its columns and rows, or the parts of a split.
    named: Option<Named>,
    scale: Option<[u32; 2]>,
    x: Option<String>,
    y: Option<String>,
    share: Share,
    measures: bool,
    maps: bool,
    /// A routing function to be checked.
    check: Option<Check>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    routing: String,
    vcs: u8,
}

#[derive(Serialize)]
struct Safe {
    routing: &'static str,
    vcs: u8,
    #[serde(flatten)]
    found: Checked,
}

#[derive(Serialize)]
struct Response {
    grid: Grid,
    chips: u32,
    nodes: u32,
    rails: u32,
    switches: u32,
    dark_switches: u32,
    circuits: u64,
    dimensions: Option<Vec<Dimension>>,
    measures: Option<Measured>,
    formulas: Option<Formulas>,
    maps: Option<Vec<Switch>>,
    checked: Option<Safe>,
}

#[derive(Serialize)]
struct Measured {
    diameter: Option<u32>,
    diameter_exact: bool,
    bisection_circuits: u64,
    bisection_exact: bool,
    cut_throughput: f64,
    rail_load: Option<f64>,
    rail_load_mean: Option<f64>,
    mesh_load: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct Switch {
    axis: Axis,
    line: u32,
    rail: u32,
    #[serde(flatten)]
    state: CrossConnect,
}

/// Builds a topology; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn railx_build(py: Python<'_>, request: &str) -> PyResult<String> {
    let asked: Request = read(request)?;
    let built = topology(&asked).map_err(refused)?;
    let routing = asked.check.as_ref().map(|check| routing(&built, check)).transpose();
    let routing = routing.map_err(refused)?;
    let mut answer = py.detach(|| answer(&asked, &built)).map_err(wrong)?;
    if let Some(routing) = routing {
        answer.checked = Some(py.detach(|| checked(&built, routing.as_ref())).map_err(wrong)?);
    }
    text(&answer)
}

fn topology(asked: &Request) -> Result<Topology, lightloom_fabric::FabricError> {
    let mut hall = Grid::new(asked.mesh, asked.ports, asked.ocs, 1, 1);
    hall.global_radix = asked.global_ocs;
    match asked.named {
        None => {
            let parts = |key, text: &Option<String>| match text {
                Some(text) => DimensionSpec::read(key, text, hall, asked.share),
                None => Ok(Vec::new()),
            };
            Topology::split(hall, &parts("x", &asked.x)?, &parts("y", &asked.y)?, asked.share)
        }
        Some(named) => named.at(hall, asked.scale),
    }
}

fn answer(asked: &Request, topology: &Topology) -> Result<Response, CircuitError> {
    let (layout, grid) = (&topology.layout, topology.layout.grid);
    let dark = |&(axis, line, rail): &(Axis, u32, u32)| layout.rings(axis, line, rail).is_empty();
    Ok(Response {
        grid,
        chips: grid.chips(),
        nodes: grid.nodes(),
        rails: grid.rails(),
        switches: layout.switches(),
        dark_switches: layout.places().filter(dark).count() as u32,
        circuits: layout.circuits(),
        dimensions: match &topology.form {
            Form::Product(dimensions) => Some(dimensions.clone()),
            Form::Dragonfly => None,
        },
        measures: asked.measures.then(|| measured(topology)),
        formulas: Formulas::of(topology),
        maps: if asked.maps { Some(maps(layout)?) } else { None },
        checked: None,
    })
}

/// Every pair of them is followed.
const MOST_CHECKED: u32 = 2048;

fn routing(topology: &Topology, check: &Check) -> Result<Box<dyn Routing + Send>, String> {
    let chips = topology.layout.grid.chips();
    if chips > MOST_CHECKED {
        return Err(format!(
            "check-routing: {chips} chips: at most {MOST_CHECKED} can be checked; take a smaller scale"
        ));
    }
    select(topology, &check.routing, check.vcs)
}

fn checked(topology: &Topology, routing: &dyn Routing) -> Result<Safe, Unsafe> {
    let network = railx(&topology.layout, RailxLinks::default());
    let found = check(&network, routing)?;
    Ok(Safe { routing: routing.name(), vcs: routing.vcs(), found })
}

fn measured(topology: &Topology) -> Measured {
    let found = Measures::of(topology);
    Measured {
        diameter: found.diameter.hops,
        diameter_exact: found.diameter.exact,
        bisection_circuits: found.cut.circuits,
        bisection_exact: found.cut.exact,
        cut_throughput: found.cut.throughput,
        rail_load: found.loads.map(|loads| loads.rail),
        rail_load_mean: found.loads.map(|loads| loads.rail_mean),
        mesh_load: found.loads.map(|loads| loads.mesh),
    }
}

pub(super) fn maps(layout: &Layout) -> Result<Vec<Switch>, CircuitError> {
    let switch = |(axis, line, rail)| {
        Ok(Switch { axis, line, rail, state: layout.cross_connect(axis, line, rail)? })
    };
    layout.places().map(switch).collect()
}
