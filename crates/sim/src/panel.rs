//! Traffic over a patch panel whose circuits stand from the beginning (TopoOpt): between servers
//! without a circuit it hops through others. What one server sends another is one flow a path, split
//! evenly over all the shortest ones. A ring of gradients is spread over the strides that the design
//! gave its servers, so that each hop has a circuit.

use crate::sender::{AllToAll, Demand};
use lightloom_circuits::topoopt::Design;
use lightloom_engine::Orders;
use lightloom_fabric::{Fabric, GpuId, LinkId, ServerId};
use lightloom_units::{Bytes, Time};
use lightloom_workload::collective::RingPlan;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

type Paths = Rc<Vec<Vec<LinkId>>>;

/// The circuits of a panel, and the paths already looked up.
#[derive(Default)]
pub(crate) struct Panel {
    circuits: HashMap<(u32, u32), u32>,
    /// The strides of the rings over a group of servers, in rising order of servers.
    strides: HashMap<Vec<u32>, Vec<u32>>,
    paths: RefCell<HashMap<(u32, u32), Paths>>,
}

impl Panel {
    pub fn new(design: &Design) -> Self {
        let mut panel = Panel::default();
        for &(a, b) in &design.circuits {
            *panel.circuits.entry((a, b)).or_default() += 1;
            *panel.circuits.entry((b, a)).or_default() += 1;
        }
        for ring in &design.rings {
            panel.strides.entry(ring.servers.clone()).or_default().push(ring.stride);
        }
        panel
    }

    /// Sends what `plan` sends around rings of successive servers over the strides that have
    /// circuits. `groups` are the GPUs that the plan was made for.
    pub fn rings(
        &self,
        fabric: &Fabric,
        plan: &RingPlan,
        groups: &[Vec<u32>],
        orders: &mut Orders,
    ) -> Result<(), String> {
        let per_server = fabric.cluster().gpus_per_server;
        let mut group_of = HashMap::new();
        let servers: Vec<Vec<u32>> = groups
            .iter()
            .enumerate()
            .map(|(at, group)| {
                group_of.extend(group.iter().map(|&gpu| (gpu, at)));
                let mut servers: Vec<u32> = group.iter().map(|gpu| gpu / per_server).collect();
                servers.sort_unstable();
                servers.dedup();
                servers
            })
            .collect();
        for &(from, to, bytes) in &plan.ring {
            let members = &servers[group_of[&from]];
            let strides = match self.strides.get(members) {
                // A flat ring also hops inside servers; those hops stay as they are.
                Some(strides) if from / per_server != to / per_server => strides.as_slice(),
                _ => {
                    self.flow(fabric, from, to, bytes, orders)?;
                    continue;
                }
            };
            let ways = strides.len() as u64;
            let place = members.binary_search(&(from / per_server)).unwrap_or(0);
            for (at, &stride) in strides.iter().enumerate() {
                let next = members[(place + stride as usize) % members.len()];
                let share = bytes / ways + u64::from((at as u64) < bytes % ways);
                self.between(fabric, members[place], next, share, orders)?;
            }
        }
        Ok(())
    }

    pub fn circuits_between(&self, a: u32, b: u32) -> u32 {
        self.circuits.get(&(a, b)).copied().unwrap_or(0)
    }

    fn paths(&self, fabric: &Fabric, a: u32, b: u32) -> Paths {
        let mut paths = self.paths.borrow_mut();
        let found = paths
            .entry((a, b))
            .or_insert_with(|| Rc::new(fabric.panel_paths(ServerId(a), ServerId(b))));
        Rc::clone(found)
    }

    /// Sends `bytes` from one GPU to another.
    pub fn flow(
        &self,
        fabric: &Fabric,
        from: u32,
        to: u32,
        bytes: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let per_server = fabric.cluster().gpus_per_server;
        let (a, b) = (from / per_server, to / per_server);
        if a == b {
            fabric.scale_up_path(GpuId(from), GpuId(to), orders.path());
            orders.flow(Bytes::new(bytes));
            return Ok(());
        }
        self.between(fabric, a, b, bytes, orders)
    }

    fn between(
        &self,
        fabric: &Fabric,
        a: u32,
        b: u32,
        bytes: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let paths = self.paths(fabric, a, b);
        let ways = paths.len() as u64;
        if ways == 0 {
            return Err(format!("no circuits lead from server {a} to server {b}"));
        }
        for (at, path) in paths.iter().enumerate() {
            orders.path().extend(path);
            orders.flow(Bytes::new(bytes / ways + u64::from((at as u64) < bytes % ways)));
        }
        Ok(())
    }

    pub fn all_to_all(
        &self,
        fabric: &Fabric,
        a2a: AllToAll,
        demand: &Demand<'_>,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let per_server = fabric.cluster().gpus_per_server;
        let mut between: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        demand.for_each(a2a, |from, to, bytes| {
            let (a, b) = (from / per_server, to / per_server);
            if a == b {
                fabric.scale_up_path(GpuId(from), GpuId(to), orders.path());
                orders.flow(Bytes::new(bytes));
            } else {
                *between.entry((a, b)).or_default() += bytes;
            }
        });
        for ((a, b), bytes) in between {
            self.between(fabric, a, b, bytes, orders)?;
        }
        orders.end_phase(Time::ZERO);
        Ok(())
    }
}
