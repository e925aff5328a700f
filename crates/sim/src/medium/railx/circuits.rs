//! Which circuits a job on RailX gets: a topology that is given, or the best for the job, and rails by turns
//! where switches may change and that serves the job better. Unless the number of columns is given, a named
//! topology is of the squarest grid that it allows, wide rather than high.

use crate::error::SimError;
use crate::evenly;
use crate::medium::form::Chosen;
use crate::spec::{Spec, Work};
use lightloom_fabric::railx::{Axis, Grid, Layout};
use lightloom_fabric::{Cluster, FabricError, RailXSpec, RailXTopology};
use lightloom_railx::fit::{Choice, fit};
use lightloom_railx::turns::{self, Kind, Next, Turns, static_s};
use lightloom_railx::{DimensionSpec, Named, Share, Topology, joins_all};
use lightloom_units::Time;
use lightloom_workload::Overlap;

/// What was found for a job.
pub(super) struct Found {
    pub layout: Layout,
    pub chosen: Option<Chosen>,
    pub turns: Option<Turns>,
}

/// The circuits of a job on RailX, and which topology was taken if that was to be found.
pub(super) fn circuits(spec: &Spec, railx: &RailXSpec) -> Result<Found, SimError> {
    let cluster = &spec.cluster;
    checked(cluster, railx)?;
    if railx.topology != RailXTopology::Auto {
        let given = topology(cluster, railx)?;
        let standing = Found { layout: given.layout.clone(), chosen: None, turns: None };
        return by_turns(spec, railx, standing, vec![(None, given)]);
    }
    if let Some(columns) = railx.columns.filter(|columns| cluster.servers() % columns != 0) {
        return Err(indivisible(columns, cluster));
    }
    let found = fit(cluster, railx, &evenly::dimensions(spec), &evenly::messages(spec)?);
    let found = found.ok_or_else(|| misfit(Named::Torus, hall(railx), cluster))?;
    let others = found.named.iter().filter(|(choice, _)| *choice != found.choice);
    let others: Vec<_> = others.map(|(choice, cost_s)| format!("{choice} {cost_s:.3} s")).collect();
    let why = format!(
        "railx: {} was taken: of {} topologies that were tried, even traffic of the job loads its links \
         least, {:.3} s an iteration; {}",
        found.choice,
        found.tried,
        found.cost_s,
        others.join(", ")
    );
    // One node has no rails to set.
    let chosen = Chosen { name: found.choice.to_string(), why };
    let chosen = (cluster.servers() > 1).then_some(chosen);
    let splits = found.splits.into_iter().map(|(choice, topology, _)| (Some(choice), topology));
    let standing = Found { layout: found.topology.layout, chosen, turns: None };
    by_turns(spec, railx, standing, splits.collect())
}

/// What stands, or one of some topologies by turns if its switches may change and that serves the job
/// best.
fn by_turns(
    spec: &Spec,
    railx: &RailXSpec,
    standing: Found,
    topologies: Vec<(Option<Choice>, Topology)>,
) -> Result<Found, SimError> {
    let (Some(delay), Work::Training(training)) = (railx.ocs_delay_ps, &spec.work) else {
        return Ok(standing);
    };
    if training.job.training.overlap != Overlap::None {
        let why = "has no turns: rings of one micro-batch run beside all-to-alls of another";
        return Err(SimError::Input(format!("training.overlap: with fabric.ocs_delay it {why}")));
    }
    let messages = evenly::numbered(spec)?.into_iter();
    let kind = |(number, groups)| Kind { number, groups, over: evenly::over(number) };
    let kinds: Vec<Kind> = messages.map(kind).collect();
    let at = |number| kinds.iter().position(|kind| kind.number == number);
    let order = evenly::order(training, |kind| at(kind).is_some())?;
    let next = |((from, to, gap), times): ((u32, u32, Time), f64)| {
        Some(Next { from: at(from)?, to: at(to)?, gap_s: gap.as_secs_f64(), times })
    };
    let order: Vec<Next> = order.into_iter().filter_map(next).collect();
    let (gpus, node) = (training.job.parallelism.block_size(), spec.cluster.gpus_per_server);
    if gpus % node != 0 {
        return Ok(standing);
    }
    let Some(static_s) = static_s(&spec.cluster, railx, &standing.layout, &kinds) else {
        return Ok(standing);
    };
    // The last backward pass of all.
    let late = 0.5 / f64::from(training.job.training.micro_batches);
    let found = topologies.into_iter().filter_map(|(choice, topology)| {
        let job = turns::Job { kinds: &kinds, order: &order, block: gpus / node, late };
        let times_s = (delay.as_secs_f64(), static_s);
        Some((choice, turns::turns((&spec.cluster, railx), &topology, job, times_s)?))
    });
    let best = found.min_by(|(_, a), (_, b)| a.cost_s.total_cmp(&b.cost_s));
    let Some((choice, turns)) = best else { return Ok(standing) };
    let chosen = match (standing.chosen, choice) {
        (Some(stands), Some(choice)) => Some(Chosen { name: choice.to_string(), ..stands }),
        (chosen, _) => chosen,
    };
    Ok(Found { layout: turns.layouts[0].clone(), chosen, turns: Some(turns) })
}

fn hall(spec: &RailXSpec) -> Grid {
    Grid::new(spec.mesh, spec.ports, spec.ocs_ports, 1, 1)
}

/// Whether the hall can be built and the cluster's servers are its nodes.
fn checked(cluster: &Cluster, spec: &RailXSpec) -> Result<(), SimError> {
    cluster.validate().map_err(input)?;
    hall(spec).check().map_err(of_fabric)?;
    let area = spec.mesh * spec.mesh;
    if cluster.gpus_per_server != area {
        return Err(SimError::Input(format!(
            "cluster.gpus_per_server = {}: must be fabric.mesh squared = {area}: a RailX node is a \
             server",
            cluster.gpus_per_server
        )));
    }
    Ok(())
}

/// A topology that is given.
fn topology(cluster: &Cluster, spec: &RailXSpec) -> Result<Topology, SimError> {
    let hall = hall(spec);
    let named = match spec.topology {
        RailXTopology::Torus => Named::Torus,
        RailXTopology::HyperX => Named::HyperX,
        RailXTopology::Dragonfly => Named::Dragonfly,
        RailXTopology::Split | RailXTopology::Auto => return split(cluster, spec),
    };
    let nodes = cluster.servers();
    let grid = match spec.columns {
        Some(columns) if columns == 0 || nodes % columns != 0 => {
            return Err(indivisible(columns, cluster));
        }
        Some(columns) => Grid { columns, rows: nodes / columns, ..hall },
        None => squarest(named, hall, nodes).ok_or_else(|| misfit(named, hall, cluster))?,
    };
    named.build(grid).map_err(of_fabric)
}

fn indivisible(columns: u32, cluster: &Cluster) -> SimError {
    let (nodes, area) = (cluster.servers(), cluster.gpus_per_server);
    SimError::Input(format!(
        "fabric.columns = {columns}: must divide the {nodes} nodes of {area} GPUs"
    ))
}

/// A split, whose parts must have as many nodes as the cluster.
fn split(cluster: &Cluster, spec: &RailXSpec) -> Result<Topology, SimError> {
    let hall = hall(spec);
    let share = if spec.uneven == Some(true) { Share::Uneven } else { Share::Balanced };
    let parts = |key, text: &Option<String>| match text {
        Some(text) => DimensionSpec::read(key, text, hall, share).map_err(of_fabric),
        None => Ok(Vec::new()),
    };
    let (x, y) = (parts("x", &spec.x)?, parts("y", &spec.y)?);
    let built = Topology::split(hall, &x, &y, share).map_err(of_split)?;
    let (grid, nodes) = (built.layout.grid, cluster.servers());
    if grid.nodes() != nodes {
        let (columns, rows) = (grid.columns, grid.rows);
        return Err(SimError::Input(format!(
            "fabric.topology = \"split\": fabric.x and fabric.y make {columns} x {rows} nodes; must \
             make the job's {nodes}"
        )));
    }
    Ok(built)
}

/// The grid of so many nodes whose sides differ least.
fn squarest(named: Named, hall: Grid, nodes: u32) -> Option<Grid> {
    let grids = (1..=nodes.min(hall.room(Axis::X))).filter(|columns| nodes % columns == 0);
    let grids = grids.map(|columns| Grid { columns, rows: nodes / columns, ..hall });
    let allowed = grids.filter(|&grid| allows(named, grid));
    allowed.min_by_key(|grid| (grid.columns.abs_diff(grid.rows), grid.rows))
}

fn allows(named: Named, grid: Grid) -> bool {
    let (columns, rows, rails) = (grid.columns, grid.rows, grid.rails());
    let topology = match named {
        Named::Torus => true,
        Named::HyperX => joins_all(columns, rails) && joins_all(rows, rails),
        Named::Dragonfly => joins_all(rows, rails) && joins_all(columns, rows * rails),
    };
    topology && columns <= grid.room(Axis::X) && rows <= grid.room(Axis::Y)
}

/// Says that the nodes fill no grid, and how many would.
fn misfit(named: Named, hall: Grid, cluster: &Cluster) -> SimError {
    let (nodes, area) = (cluster.servers(), cluster.gpus_per_server);
    let most = named.largest(hall);
    let fits = |nodes: &u32| squarest(named, hall, *nodes).is_some();
    let fewer = (1..nodes.min(most.nodes() + 1)).rev().find(fits);
    let more = (nodes + 1..=most.nodes()).find(fits);
    let known: Vec<String> = fewer.iter().chain(&more).map(|n| (n * area).to_string()).collect();
    SimError::Input(format!(
        "cluster.gpus = {}: its {nodes} nodes of {area} GPUs fill no rows and columns that {} can \
         join ({} rails a node, at most {} x {} nodes); allowed, nearest: {}",
        cluster.gpus,
        match named {
            Named::Torus => "rings",
            Named::HyperX => "a HyperX",
            Named::Dragonfly => "a dragonfly",
        },
        hall.rails(),
        most.columns,
        most.rows,
        known.join(", "),
    ))
}

pub(super) fn input(error: FabricError) -> SimError {
    SimError::Input(error.to_string())
}

/// A grid names its keys without their table, and the switches' ports as `ocs`.
fn of_fabric(error: FabricError) -> SimError {
    let key = match error.key.as_str() {
        "ocs" | "global_ocs" => "ocs_ports",
        other => other,
    };
    SimError::Input(format!("fabric.{key} = {}: {}", error.value, error.reason))
}

/// A split names the dimension that cannot be, not the key.
fn of_split(error: FabricError) -> SimError {
    match error.key.as_str() {
        "x" | "y" => of_fabric(error),
        _ => SimError::Input(format!("fabric.topology = \"split\": {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_fabric::Fabric;
    use lightloom_units::{BitRate, Time};

    fn fabric(cluster: &Cluster, spec: &RailXSpec) -> Result<Fabric, SimError> {
        checked(cluster, spec)?;
        Fabric::railx(cluster, spec, &topology(cluster, spec)?.layout).map_err(input)
    }

    fn spec(topology: RailXTopology) -> RailXSpec {
        RailXSpec::new(topology, BitRate::from_gbps(400), Time::from_ns(150))
    }

    fn grid(topology: RailXTopology, nodes: u32) -> Result<(u32, u32), String> {
        let built = fabric(&Cluster::of(nodes * 16, 16), &spec(topology));
        let grid = built.map_err(|error| error.to_string())?.wired().expect("RailX").grid();
        Ok((grid.columns, grid.rows))
    }

    #[test]
    fn jobs_fill_the_squarest_grid_that_can_be() {
        assert_eq!(grid(RailXTopology::HyperX, 64), Ok((8, 8)));
        assert_eq!(grid(RailXTopology::HyperX, 35), Ok((7, 5)));
        assert_eq!(grid(RailXTopology::HyperX, 24), Ok((8, 3)), "6 nodes take 10 rails");
        assert_eq!(grid(RailXTopology::HyperX, 16), Ok((4, 4)));
        assert_eq!(grid(RailXTopology::Torus, 24), Ok((6, 4)));
        assert_eq!(grid(RailXTopology::Dragonfly, 45), Ok((9, 5)));
        assert_eq!(grid(RailXTopology::Dragonfly, 54 * 3), Ok((18, 9)));
    }

    #[test]
    fn what_fills_no_grid_is_told_what_does() {
        assert_eq!(
            grid(RailXTopology::HyperX, 67).expect_err("a prime above 9"),
            "cluster.gpus = 1072: its 67 nodes of 16 GPUs fill no rows and columns that a HyperX \
             can join (8 rails a node, at most 9 x 9 nodes); allowed, nearest: 1024, 1152"
        );
        let beyond = grid(RailXTopology::HyperX, 100).expect_err("above 81");
        assert!(beyond.ends_with("nearest: 1296"), "{beyond}");
        let with = |change: fn(&mut RailXSpec)| {
            let mut spec = spec(RailXTopology::HyperX);
            change(&mut spec);
            fabric(&Cluster::of(64 * 16, 16), &spec).expect_err("bad").to_string()
        };
        assert_eq!(
            with(|spec| spec.columns = Some(7)),
            "fabric.columns = 7: must divide the 64 nodes of 16 GPUs"
        );
        assert_eq!(
            with(|spec| spec.columns = Some(16)),
            "fabric.columns = 16: 8 rails join at most 9 nodes all to all"
        );
        assert!(with(|spec| spec.ocs_ports = 7).starts_with("fabric.ocs_ports = 7: must be even"));
        assert!(with(|spec| spec.mesh = 2).starts_with("cluster.gpus_per_server = 16: must be"));
    }

    #[test]
    fn every_circuit_stands_both_ways() {
        let fabric = fabric(&Cluster::of(9 * 16, 16), &spec(RailXTopology::HyperX)).expect("valid");
        let patches = fabric.standing();
        // 9 nodes, two dimensions, 8 rails of two ends.
        assert_eq!(patches.len(), 9 * 2 * 8 * 2);
    }
}
