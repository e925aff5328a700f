//! Traffic over a patch panel whose circuits stand from the beginning (TopoOpt): between servers
//! without a circuit it hops through others. What one server sends another is one flow a path, split
//! evenly over all the shortest ones. A ring of gradients is spread over the strides that the design
//! gave its servers, both ways around, so that each hop has a circuit. After a failure paths are looked up
//! anew: the shortest over the circuits that are left.

use super::form::{Decided, Medium, MediumKind, PAPER, Pair, State, Sum, Turn, end_steps};
use crate::carrier::form::place;
use crate::carrier::{DELEGATE, Stages};
use crate::demand::AllToAll;
use crate::failures::FailureEvent;
use lightloom_circuits::topoopt::Design;
use lightloom_circuits::{Layout, Leg, Router};
use lightloom_engine::{Orders, Patches};
use lightloom_fabric::{GpuId, LinkId, NicId, NodeId, ServerId};
use lightloom_units::{Bytes, Time};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

mod design;

type Paths = Arc<Vec<Vec<LinkId>>>;

pub(crate) static KIND: MediumKind = MediumKind {
    name: "panel",
    decide: |spec, backups, job| {
        let panel = job.map(|job| design::design(spec, backups, job)).transpose()?;
        Ok(Decided { panel, ..Decided::default() })
    },
    begin: |setting| {
        let design = setting.decided.panel.as_ref().expect("decided, as there is a job");
        let stages = (!setting.carriers.is_empty()).then(|| Stages::new(setting.spec));
        Ok(Box::new(Panel { stages, ..Panel::new(design) }))
    },
};

/// The circuits of a panel, and the paths already looked up.
#[derive(Default)]
struct Panel {
    circuits: HashMap<(u32, u32), u32>,
    /// The strides of the rings over a group of servers, in rising order of servers.
    strides: HashMap<Vec<u32>, Vec<u32>>,
    paths: RefCell<HashMap<(u32, u32), Paths>>,
    /// Of delegation; none if all-to-alls begin and end at NICs, as its paper has it.
    stages: Option<Stages>,
    router: Router,
}

impl Panel {
    fn new(design: &Design) -> Self {
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

    fn paths(&self, state: &State<'_>, a: u32, b: u32) -> Paths {
        let mut paths = self.paths.borrow_mut();
        let found = paths
            .entry((a, b))
            .or_insert_with(|| Arc::new(state.health.panel_paths(ServerId(a), ServerId(b))));
        Arc::clone(found)
    }

    fn between(
        &self,
        state: &State<'_>,
        a: u32,
        b: u32,
        bytes: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let paths = self.paths(state, a, b);
        let count = paths.len() as u64;
        if count == 0 {
            return Err(format!("no circuits lead from server {a} to server {b}"));
        }
        for (at, path) in paths.iter().enumerate() {
            orders.path().extend(path);
            orders.flow(Bytes::new(bytes / count + u64::from((at as u64) < bytes % count)));
        }
        Ok(())
    }
}

impl Panel {
    /// What one server sends another leaves by the NICs at which the shortest paths begin, in equal parts,
    /// and comes by those at which they end.
    fn delegate(
        &mut self,
        stages: &Stages,
        state: &State<'_>,
        a2a: AllToAll,
        orders: &mut Orders,
    ) -> Result<&'static str, String> {
        let (fabric, cluster) = (state.fabric, state.fabric.cluster());
        let servers = state.servers_of(a2a.block);
        let number = |gpu| {
            let (server, local) = place(&servers, cluster.gpus_per_server, gpu);
            server as u32 * cluster.gpus_per_server + local as u32
        };
        let mut demand = Vec::new();
        state
            .demand
            .for_each(a2a, |from, to, bytes| demand.push((number(from), number(to), bytes)));
        let layout = Layout {
            servers: servers.len() as u16,
            gpus_per_server: cluster.gpus_per_server as u16,
            packet_nics: vec![],
            optical_nics: vec![],
            nic_gpu: (0..cluster.nics_per_server as u16).collect(),
        };
        let mut router = std::mem::take(&mut self.router);
        let local = |node: NodeId| (node.0 - fabric.nic_node(NicId(0)).0) % cluster.nics_per_server;
        let ends = |path: &Vec<LinkId>| {
            let [first, last] = [path.first(), path.last()]
                .map(|link| fabric.link(*link.expect("a path leads somewhere")));
            (local(first.from) as u16, local(last.to) as u16)
        };
        let mut unreached = None;
        router.route_over(&demand, &layout, |a, b| {
            let paths = self.paths(state, servers[a], servers[b]);
            let lanes: Vec<_> = paths.iter().map(ends).collect();
            unreached = unreached.or(lanes.is_empty().then_some((servers[a], servers[b])));
            if lanes.is_empty() { vec![(0, 0)] } else { lanes }
        });
        if let Some((a, b)) = unreached {
            return Err(format!("no circuits lead from server {a} to server {b}"));
        }
        let hand = |legs: &[Leg], orders: &mut Orders| {
            for leg in legs {
                let server = ServerId(servers[usize::from(leg.server)]);
                let gpu = |at| cluster.gpu(server, at);
                fabric.scale_up_path(gpu(leg.from.into()), gpu(leg.to.into()), orders.path());
                orders.flow(Bytes::new(leg.bytes));
            }
        };
        let routing = router.merged();
        let exchange = |orders: &mut Orders| {
            for hops in routing.exchange.chunk_by(|x, y| (x.from.0, x.to.0) == (y.from.0, y.to.0)) {
                let [a, b] =
                    [hops[0].from, hops[0].to].map(|(server, _)| servers[usize::from(server)]);
                let paths = self.paths(state, a, b);
                for (hop, path) in hops.iter().zip(paths.iter()) {
                    orders.path().extend(path);
                    orders.flow(Bytes::new(hop.bytes));
                }
            }
            Ok(())
        };
        stages.order(routing, hand, exchange, orders)?;
        self.router = router;
        Ok(DELEGATE)
    }
}

impl Medium for Panel {
    fn circuits_between(&self, a: u32, b: u32) -> u32 {
        self.circuits.get(&(a, b)).copied().unwrap_or(0)
    }

    fn flow(
        &self,
        state: &State<'_>,
        (from, to, bytes): Pair,
        _: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let fabric = state.fabric;
        let per_server = fabric.cluster().gpus_per_server;
        let (a, b) = (from / per_server, to / per_server);
        if a == b {
            fabric.scale_up_path(GpuId(from), GpuId(to), orders.path());
            orders.flow(Bytes::new(bytes));
            return Ok(());
        }
        self.between(state, a, b, bytes, orders)
    }

    fn all_to_all(
        &mut self,
        state: &mut State<'_>,
        a2a: AllToAll,
        _: Turn,
        orders: &mut Orders,
    ) -> Result<&'static str, String> {
        if let Some(stages) = self.stages.clone() {
            return self.delegate(&stages, state, a2a, orders);
        }
        let fabric = state.fabric;
        let per_server = fabric.cluster().gpus_per_server;
        let mut between: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        state.demand.for_each(a2a, |from, to, bytes| {
            let (a, b) = (from / per_server, to / per_server);
            if a == b {
                fabric.scale_up_path(GpuId(from), GpuId(to), orders.path());
                orders.flow(Bytes::new(bytes));
            } else {
                *between.entry((a, b)).or_default() += bytes;
            }
        });
        for ((a, b), bytes) in between {
            self.between(state, a, b, bytes, orders)?;
        }
        orders.end_phase(Time::ZERO);
        Ok(PAPER)
    }

    /// Around rings of successive servers, over the strides that have circuits.
    fn rings(
        &mut self,
        state: &State<'_>,
        sum: &Sum<'_>,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let mut groups = state.demand.placement.gradient_groups(sum.stage, sum.scope);
        groups.iter_mut().for_each(|group| state.demand.moved.apply(group));
        let per_server = state.fabric.cluster().gpus_per_server;
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
        let first = orders.all_flows().len();
        for &(from, to, bytes) in &sum.plan.ring {
            let members = &servers[group_of[&from]];
            let strides = match self.strides.get(members) {
                // A flat ring also hops inside servers; those hops stay as they are.
                Some(strides) if from / per_server != to / per_server => strides.as_slice(),
                _ => {
                    self.flow(state, (from, to, bytes), key, orders)?;
                    continue;
                }
            };
            let count = 2 * strides.len() as u64;
            let place = members.binary_search(&(from / per_server)).unwrap_or(0);
            // A circuit is duplex: half of what a ring carries goes around it the other way.
            let steps = strides.iter().flat_map(|&s| [s as usize, members.len() - s as usize]);
            for (at, step) in (0..).zip(steps) {
                let next = members[(place + step) % members.len()];
                let share = bytes / count + u64::from(at < bytes % count);
                self.between(state, members[place], next, share, orders)?;
            }
        }
        end_steps(state.fabric, first, sum.plan.steps, orders);
        Ok(())
    }

    fn incident(
        &mut self,
        _: &mut State<'_>,
        _: &FailureEvent,
        _: Time,
        _: &mut Patches,
    ) -> Result<(), String> {
        self.paths.borrow_mut().clear();
        Ok(())
    }
}
