//! RailX as the network of a job: which grid its nodes fill, and the circuits that stand on it. All
//! collectives are flows, for a node's mesh carries what passes through too.
//!
//! Circuits are set before the job starts and stay. Unless the number of columns is given, the
//! squarest grid is taken that the topology allows, wide rather than high.

use super::form::{Chosen, Decided, Medium, MediumKind, State, Turn, around};
use crate::error::SimError;
use crate::evenly;
use crate::spec::Spec;
use lightloom_engine::{Orders, Patch};
use lightloom_fabric::railx::{Axis, Grid, Layout};
use lightloom_fabric::{Cluster, Fabric, FabricError, RailXSpec, RailXTopology};
use lightloom_railx::fit::fit;
use lightloom_railx::{DimensionSpec, Named, Share, Topology, joins_all};

pub(crate) static KIND: MediumKind = MediumKind {
    name: "railx",
    decide: |spec, _, _| {
        let railx: &RailXSpec = spec.fabric.keys().expect("only RailX names this medium");
        let (layout, topology) = circuits(spec, railx)?;
        Ok(Decided { layout: Some(layout), topology, ..Decided::default() })
    },
    begin: |setting| {
        let topology = setting.decided.topology.clone();
        Ok(Box::new(RailX { standing: standing(setting.fabric), topology }))
    },
};

/// With its circuits, and the topology that was found for the job, if one was.
struct RailX {
    standing: Vec<Patch>,
    topology: Option<Chosen>,
}

impl Medium for RailX {
    fn standing(&self) -> Vec<Patch> {
        self.standing.clone()
    }

    fn topology(&self) -> Option<String> {
        Some(self.topology.as_ref()?.name.clone())
    }

    fn note(&self) -> Option<String> {
        Some(self.topology.as_ref()?.why.clone())
    }

    fn collective(
        &mut self,
        state: &State<'_>,
        groups: &[Vec<u32>],
        (bytes, steps): (u64, u32),
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.send(state, &around(groups, bytes), steps, turn, orders)
    }
}

/// The circuits of a job on RailX, and which topology was taken if that was to be found.
fn circuits(spec: &Spec, railx: &RailXSpec) -> Result<(Layout, Option<Chosen>), SimError> {
    let cluster = &spec.cluster;
    checked(cluster, railx)?;
    if railx.topology != RailXTopology::Auto {
        return Ok((layout(cluster, railx)?, None));
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
    Ok((found.topology.layout, (cluster.servers() > 1).then_some(chosen)))
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

/// The circuits of a topology that is given.
fn layout(cluster: &Cluster, spec: &RailXSpec) -> Result<Layout, SimError> {
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
    Ok(named.build(grid).map_err(of_fabric)?.layout)
}

fn indivisible(columns: u32, cluster: &Cluster) -> SimError {
    let (nodes, area) = (cluster.servers(), cluster.gpus_per_server);
    SimError::Input(format!(
        "fabric.columns = {columns}: must divide the {nodes} nodes of {area} GPUs"
    ))
}

/// The circuits of a split, whose parts must have as many nodes as the cluster.
fn split(cluster: &Cluster, spec: &RailXSpec) -> Result<Layout, SimError> {
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
    Ok(built.layout)
}

/// The circuits of a fabric that stand from the beginning; none but on RailX.
pub(crate) fn standing(fabric: &Fabric) -> Vec<Patch> {
    fabric.standing().into_iter().map(|(tx, rx)| Patch { tx, rx: Some(rx) }).collect()
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

fn input(error: FabricError) -> SimError {
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
    use lightloom_units::{BitRate, Time};

    fn fabric(cluster: &Cluster, spec: &RailXSpec) -> Result<Fabric, SimError> {
        checked(cluster, spec)?;
        Fabric::railx(cluster, spec, &layout(cluster, spec)?).map_err(input)
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
        let patches = standing(&fabric);
        // 9 nodes, two dimensions, 8 rails of two ends.
        assert_eq!(patches.len(), 9 * 2 * 8 * 2);
    }
}
