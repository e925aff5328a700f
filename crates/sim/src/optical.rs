//! MixNet at run time: when to re-weave a region's circuits, and how its all-to-alls use them.
//!
//! A region holds one block (one replica at one stage); its all-to-alls come one after the other, so
//! at most one matching is wanted at a time. Dispatch and combine have the same symmetrised demand,
//! so a matching changes at most once a layer, pass and micro-batch. Three policies, set for each
//! phase (MixNet 5.1, 7.1, B.1):
//! - *block*: when the all-to-all's turn has come, its circuits are set and it waits for them;
//! - *hide*: its circuits are set when the region's previous all-to-all ends, under the compute that
//!   follows. For the first all-to-all of a layer's forward pass, whose demand the gate has not yet
//!   decided, this assumes a perfect prediction: a bound, not a promise;
//! - *reuse*: the circuits stay as they are.
//!
//! An iteration begins with the circuits that a uniform demand would get.

use crate::delay;
use crate::sender::{AllToAll, Demand};
use lightloom_engine::{Orders, Patch, Patches, TaskId};
use lightloom_fabric::{Fabric, GpuId, MixNetSpec, NicId, ReconfigurePolicy, ServerId};
use lightloom_schedule::mixnet::{
    GreedyOptions, Layout, PortMap, RouteOptions, Router, ServerDemand, allocate, assign,
    new_circuits,
};
use lightloom_units::{Bytes, Time};
use lightloom_workload::{BlockId, Comm, MatrixId, Pass, Placement, TaskGraph, TaskKind};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

struct Region {
    first_server: u32,
    ports: PortMap,
    /// The all-to-all tasks of this region, in order.
    sequence: Vec<u32>,
    next: usize,
    /// The matrix whose circuits stand.
    matrix: Option<MatrixId>,
}

pub(crate) struct Optical<'a> {
    fabric: &'a Fabric,
    graph: &'a TaskGraph,
    placement: &'a Placement,
    spec: &'a MixNetSpec,
    greedy: GreedyOptions,
    layout: Layout,
    numa_of_port: Vec<u8>,
    regions: Vec<Region>,
    region_servers: u32,
    router: Router,
    pairs: Vec<(u32, u32, u64)>,
    random: ChaCha8Rng,
}

impl<'a> Optical<'a> {
    pub fn new(
        fabric: &'a Fabric,
        graph: &'a TaskGraph,
        placement: &'a Placement,
        spec: &'a MixNetSpec,
        region_servers: u32,
        seed: u64,
    ) -> Self {
        let cluster = fabric.cluster();
        let server = ServerId(0);
        let optical = fabric.optical_nics(server).to_vec();
        let nic = |local: u32| cluster.nic(server, local);
        let layout = Layout {
            servers: region_servers as u16,
            gpus_per_server: cluster.gpus_per_server as u16,
            packet_nics: narrow(fabric.packet_nics(server)),
            optical_nics: narrow(&optical),
            nic_gpu: (0..cluster.nics_per_server)
                .map(|local| cluster.local(cluster.gpu_of(nic(local))) as u8)
                .collect(),
        };
        let numa_of_port: Vec<u8> =
            optical.iter().map(|&at| cluster.numa_of(nic(at)) as u8).collect();
        let degree = optical.len();
        let servers = region_servers as usize;
        let uniform = ServerDemand {
            n: servers,
            bytes: (0..servers * servers)
                .map(|at| u64::from(at / servers != at % servers))
                .collect(),
        };
        let greedy =
            GreedyOptions { optical_degree: degree as u32, keep_going: spec.greedy_continue };
        let dark = PortMap::dark(servers, degree);
        let standing = assign(&allocate(&uniform, &greedy), &dark, &numa_of_port);
        let regions = (0..cluster.gpus / cluster.gpus_per_server / region_servers.max(1))
            .map(|region| Region {
                first_server: region * region_servers,
                ports: standing.clone(),
                sequence: Vec::new(),
                next: 0,
                matrix: None,
            })
            .collect();
        let mut optical = Optical {
            fabric,
            graph,
            placement,
            spec,
            greedy,
            layout,
            numa_of_port,
            regions,
            region_servers,
            router: Router::default(),
            pairs: Vec::new(),
            random: ChaCha8Rng::seed_from_u64(seed ^ 0x0CB5),
        };
        // A block's all-to-alls are chained, so any topological order has them in order.
        for task in graph.topological_order().unwrap_or_default() {
            if let Some(Comm::AllToAll { block, .. }) = graph.communication(task) {
                if optical.serves(*block) {
                    let region = optical.region(*block);
                    optical.regions[region].sequence.push(task);
                }
            }
        }
        optical
    }

    /// The circuits that stand when the iteration begins.
    pub fn standing(&self) -> Vec<Patch> {
        let mut patches = Vec::new();
        for region in 0..self.regions.len() {
            let dark = PortMap::dark(self.region_servers as usize, self.layout.optical_nics.len());
            self.patches(region, &dark, &self.regions[region].ports, &mut patches);
        }
        patches
    }

    /// Whether a block spans servers, and so has circuits.
    pub fn serves(&self, block: BlockId) -> bool {
        self.placement.block_gpus(block).len() as u32 > self.fabric.cluster().gpus_per_server
    }

    pub fn circuits_between(&self, a: u32, b: u32) -> u32 {
        let region = &self.regions[(a / self.region_servers) as usize];
        if b / self.region_servers != a / self.region_servers {
            return 0;
        }
        let (a, b) = (a - region.first_server, b - region.first_server);
        region.ports.between(a as usize, b as usize)
    }

    fn region(&self, block: BlockId) -> usize {
        let server = self.placement.block_gpus(block).start / self.fabric.cluster().gpus_per_server;
        (server / self.region_servers) as usize
    }

    fn when(&self, task: u32) -> ReconfigurePolicy {
        let at = task as usize;
        match (self.graph.pass[at], self.graph.kind[at]) {
            (Pass::Backward, _) => self.spec.reconfigure.backward,
            (_, TaskKind::Combine) => self.spec.reconfigure.second_forward,
            _ => self.spec.reconfigure.first_forward,
        }
    }

    /// Orders whatever turns the region's circuits into those for `a2a`'s demand.
    fn reweave(&mut self, region: usize, a2a: AllToAll, demand: &Demand<'_>, order: &mut Patches) {
        if self.regions[region].matrix == Some(a2a.matrix) {
            return;
        }
        let per_server = self.fabric.cluster().gpus_per_server;
        let first = self.regions[region].first_server;
        let servers = self.region_servers as usize;
        let mut between = ServerDemand::zero(servers);
        demand.for_each(a2a, |from, to, bytes| {
            between.add(from / per_server - first, to / per_server - first, bytes);
        });
        let counts = allocate(&between, &self.greedy);
        let wanted = assign(&counts, &self.regions[region].ports, &self.numa_of_port);
        self.patches(region, &self.regions[region].ports, &wanted, &mut order.patches);
        let pairs = new_circuits(&self.regions[region].ports, &wanted);
        order.delay = delay::draw(&self.spec.ocs.delay, pairs, &mut self.random);
        self.regions[region].ports = wanted;
        self.regions[region].matrix = Some(a2a.matrix);
    }

    fn patches(&self, region: usize, old: &PortMap, new: &PortMap, patches: &mut Vec<Patch>) {
        for server in 0..self.region_servers as usize {
            for port in 0..self.layout.optical_nics.len() {
                let (was, is) = (old.peer(server, port), new.peer(server, port));
                if was == is {
                    continue;
                }
                let tx = self.fabric.circuit_tx(self.nic(region, server, port));
                let rx = is.and_then(|(server, port)| {
                    let nic = self.nic(region, usize::from(server), usize::from(port));
                    self.fabric.circuit_rx(nic)
                });
                if let Some(tx) = tx {
                    patches.push(Patch { tx, rx });
                }
            }
        }
    }

    fn nic(&self, region: usize, server: usize, port: usize) -> NicId {
        let server = self.regions[region].first_server + server as u32;
        let per_server = self.fabric.cluster().nics_per_server;
        NicId(server * per_server + u32::from(self.layout.optical_nics[port]))
    }

    pub fn begin(
        &mut self,
        a2a: AllToAll,
        demand: &Demand<'_>,
        key: u64,
        task: TaskId,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let region = self.region(a2a.block);
        let prepared =
            self.when(task.0) != ReconfigurePolicy::Block && self.regions[region].next > 0;
        if self.when(task.0) != ReconfigurePolicy::Reuse && !prepared {
            self.reweave(region, a2a, demand, &mut orders.patches);
        }
        self.regions[region].next += 1;
        self.send(region, a2a, demand, key, orders)
    }

    /// The region's circuits are free: set those of the next all-to-all if that is to be hidden.
    pub fn end(
        &mut self,
        block: BlockId,
        demand: &Demand<'_>,
        patches: &mut Patches,
    ) -> Result<(), String> {
        let region = self.region(block);
        let Some(&next) = self.regions[region].sequence.get(self.regions[region].next) else {
            return Ok(());
        };
        if self.when(next) != ReconfigurePolicy::Hide {
            return Ok(());
        }
        if let Some(&Comm::AllToAll { block, matrix, transposed, bytes_per_token }) =
            self.graph.communication(next)
        {
            let a2a = AllToAll { block, matrix, transposed, bytes_per_token };
            self.reweave(region, a2a, demand, patches);
        }
        Ok(())
    }

    /// Delegation (MixNet 5.3): gather, exchange beside the local part, scatter.
    fn send(
        &mut self,
        region: usize,
        a2a: AllToAll,
        demand: &Demand<'_>,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let first_server = self.regions[region].first_server;
        let per_server = self.fabric.cluster().gpus_per_server;
        let nics = self.fabric.cluster().nics_per_server;
        let first_gpu = first_server * per_server;
        self.pairs.clear();
        let pairs = &mut self.pairs;
        demand
            .for_each(a2a, |from, to, bytes| pairs.push((from - first_gpu, to - first_gpu, bytes)));
        let options = RouteOptions {
            share_eps: self.spec.share_eps,
            optical_bps: self.spec.ocs.link_bps.bps(),
            packet_bps: self.spec.eps.link_bps.bps(),
        };
        let routing =
            self.router.route(&self.pairs, &self.regions[region].ports, &self.layout, &options);
        let fabric = self.fabric;
        let gpu = |server: u16, gpu: u16| {
            GpuId((first_server + u32::from(server)) * per_server + u32::from(gpu))
        };
        let nic = |(server, nic): (u16, u8)| {
            NicId((first_server + u32::from(server)) * nics + u32::from(nic))
        };
        for leg in &routing.gather {
            fabric.scale_up_path(gpu(leg.server, leg.from), gpu(leg.server, leg.to), orders.path());
            orders.flow(Bytes::new(leg.bytes));
        }
        orders.end_phase(Time::ZERO);
        for hop in &routing.exchange {
            let (from, to) = (nic(hop.from), nic(hop.to));
            if hop.circuit {
                orders.path().extend(fabric.circuit_tx(from));
                orders.path().extend(fabric.circuit_rx(to));
            } else {
                fabric.nic_route(from, to, key, orders.path()).map_err(|e| e.to_string())?;
            }
            orders.flow(Bytes::new(hop.bytes));
        }
        for leg in &routing.local {
            fabric.scale_up_path(gpu(leg.server, leg.from), gpu(leg.server, leg.to), orders.path());
            orders.flow(Bytes::new(leg.bytes));
        }
        orders.end_phase(Time::ZERO);
        for leg in &routing.scatter {
            fabric.scale_up_path(gpu(leg.server, leg.from), gpu(leg.server, leg.to), orders.path());
            orders.flow(Bytes::new(leg.bytes));
        }
        orders.end_phase(Time::ZERO);
        Ok(())
    }
}

/// Local NIC indices; the fabric allows fewer than 256 NICs a server with optical ones.
fn narrow(nics: &[u32]) -> Vec<u8> {
    nics.iter().map(|&nic| nic as u8).collect()
}
