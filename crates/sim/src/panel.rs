//! Traffic over a patch panel whose circuits stand from the beginning (TopoOpt): between servers
//! without a circuit it hops through others. What one server sends another is one flow a path, split
//! evenly over all the shortest ones.

use crate::sender::{AllToAll, Demand};
use lightloom_engine::Orders;
use lightloom_fabric::{Fabric, GpuId, LinkId, ServerId};
use lightloom_units::{Bytes, Time};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

type Paths = Rc<Vec<Vec<LinkId>>>;

/// The circuits of a panel, and the paths already looked up.
#[derive(Default)]
pub(crate) struct Panel {
    circuits: HashMap<(u32, u32), u32>,
    paths: RefCell<HashMap<(u32, u32), Paths>>,
}

impl Panel {
    pub fn new(circuits: &[(u32, u32)]) -> Self {
        let mut panel = Panel::default();
        for &(a, b) in circuits {
            *panel.circuits.entry((a, b)).or_default() += 1;
            *panel.circuits.entry((b, a)).or_default() += 1;
        }
        panel
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
