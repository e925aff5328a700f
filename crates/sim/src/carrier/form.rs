//! What a carrier is: it splits an all-to-all into what GPUs of one server hand each other and what goes
//! from NIC to NIC.
//!
//! Modelled: handing over is a pipeline of chunks. All flows run at the same time; what must be gathered
//! first leaves a server one chunk later, and what must be scattered arrives one chunk after it came. With
//! `store_and_forward` all is gathered before any is sent, and all has come before any is scattered.
//! What two GPUs of a server hand each other, for whatever reason, is one flow then, and what a NIC
//! sends another is one flow.
//! Ignored: that a chunk can leave a NIC no sooner than it has come to it, where the scale-up network is
//! slower than the NICs.

use crate::demand::{AllToAll, Demand};
use crate::spec::Spec;
use lightloom_circuits::{Leg, Routing};
use lightloom_engine::Orders;
use lightloom_fabric::{Cluster, Fabric, GpuId, NicId};
use lightloom_units::kind::Kind;
use lightloom_units::{Bytes, Time};

/// Pieces of what is handed over, unless a specification says: NCCL's over NVLink between two GPUs
/// (`NCCL_P2P_NVL_CHUNKSIZE`, 512 KiB).
const CHUNK: Bytes = Bytes::new(1 << 19);

/// A kind of carrier.
pub(crate) struct CarrierKind {
    pub about: Kind<()>,
    /// Whether it hands bytes over inside servers.
    pub hands_over: bool,
    /// On packet switches: splits an all-to-all. None of those that choose among others.
    pub split: Option<fn(&Split<'_>, &mut Travel)>,
}

/// An all-to-all between servers.
pub(crate) struct Split<'a> {
    pub fabric: &'a Fabric,
    pub cluster: &'a Cluster,
    /// Servers that hold its ranks, in rising order.
    pub servers: &'a [u32],
    pub demand: &'a Demand<'a>,
    pub a2a: AllToAll,
    pub chunk: Bytes,
}

/// What a carrier makes of an all-to-all: what is handed over, and what goes from NIC to NIC.
#[derive(Debug, Default)]
pub(crate) struct Travel {
    /// By server, from and to, each by index: what is brought to another GPU to be sent.
    pub gather: Vec<u64>,
    /// Likewise, what stays in the server.
    pub local: Vec<u64>,
    /// Likewise, what has come for another GPU.
    pub scatter: Vec<u64>,
    /// What NICs send each other, or, if `by_own_nics`, what GPUs do.
    pub exchange: Vec<(u32, u32, u64)>,
    /// Each GPU sends and receives by its own NIC.
    pub by_own_nics: bool,
}

impl Split<'_> {
    /// Calls `each` with what GPUs of different servers send each other.
    pub fn for_each(&self, mut each: impl FnMut(u32, u32, u64)) {
        let per_server = self.cluster.gpus_per_server;
        self.demand.for_each_in_turn(self.a2a, |from, to, bytes| {
            if from / per_server != to / per_server {
                each(from, to, bytes);
            }
        });
    }

    /// GPUs of a server.
    pub fn gpus(&self) -> usize {
        self.cluster.gpus_per_server as usize
    }

    /// NICs of a server, each on a rail.
    pub fn rails(&self) -> usize {
        self.cluster.nics_per_server as usize
    }

    /// The rail of each GPU's own NIC, and the GPU that each rail's NIC belongs to, by index in a server.
    pub fn own(&self) -> (Vec<usize>, Vec<usize>) {
        let (cluster, gpus, nics) = (self.cluster, 0..self.gpus(), 0..self.rails());
        let rail = |gpu| cluster.nic_of(GpuId(gpu as u32)).index();
        (
            gpus.map(rail).collect(),
            nics.map(|nic| cluster.gpu_of(NicId(nic as u32)).index()).collect(),
        )
    }

    /// The index of the server of a GPU, and the GPU's in it.
    pub fn place(&self, gpu: u32) -> (usize, usize) {
        place(self.servers, self.cluster.gpus_per_server, gpu)
    }

    /// The NIC of a server, both by index.
    pub fn nic(&self, server: usize, nic: usize) -> u32 {
        self.servers[server] * self.cluster.nics_per_server + nic as u32
    }

    /// Where tables of what is handed over keep a pair.
    pub fn at(&self, server: usize, from: usize, to: usize) -> usize {
        (server * self.gpus() + from) * self.gpus() + to
    }
}

/// The index of the server of a GPU among some, and the GPU's in it.
pub(crate) fn place(servers: &[u32], per_server: u32, gpu: u32) -> (usize, usize) {
    let server = gpu / per_server;
    // Nearly always they follow one another.
    let guess = server.wrapping_sub(servers[0]) as usize;
    let index = match servers.get(guess) == Some(&server) {
        true => guess,
        false => servers.binary_search(&server).expect("a server that holds ranks"),
    };
    (index, (gpu % per_server) as usize)
}

impl Travel {
    /// Nothing yet but what stays in servers.
    pub fn reset(&mut self, local: &[u64]) {
        for table in [&mut self.gather, &mut self.scatter] {
            table.clear();
            table.resize(local.len(), 0);
        }
        self.local.clear();
        self.local.extend(local);
        self.exchange.clear();
        self.by_own_nics = false;
    }
}

/// The most that one GPU hands another.
pub(crate) fn largest(table: &[u64], gpus: usize) -> u64 {
    let hands = |&(pair, _): &(usize, &u64)| pair / gpus % gpus != pair % gpus;
    table.iter().enumerate().filter(hands).map(|(_, &bytes)| bytes).max().unwrap_or(0)
}

/// Gathering, exchange, scattering: at the same time chunk by chunk, or one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Stages {
    pub store_and_forward: bool,
    pub chunk: Bytes,
    cluster: Cluster,
}

impl Stages {
    pub fn new(spec: &Spec) -> Self {
        let asked = spec.fabric.carrier();
        Stages {
            store_and_forward: asked.store_and_forward == Some(true),
            chunk: asked.chunk.unwrap_or(CHUNK),
            cluster: spec.cluster.clone(),
        }
    }

    /// One after the other.
    pub fn one_by_one(cluster: &Cluster) -> Self {
        Stages { store_and_forward: true, chunk: CHUNK, cluster: cluster.clone() }
    }

    /// Orders what a router made of an all-to-all, merged: `hand` orders legs, `exchange` hops.
    pub fn order(
        &self,
        routing: &Routing,
        hand: impl Fn(&[Leg], &mut Orders),
        exchange: impl FnOnce(&mut Orders) -> Result<(), String>,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let most = |legs: &[Leg]| legs.iter().map(|leg| leg.bytes).max().unwrap_or(0);
        self.begin(most(&routing.gather), orders);
        if self.store_and_forward {
            hand(&routing.gather, orders);
            self.then(orders);
        }
        exchange(orders)?;
        if self.store_and_forward {
            hand(&routing.local, orders);
            self.then(orders);
            hand(&routing.scatter, orders);
        } else {
            hand(&routing.handed, orders);
        }
        self.end(most(&routing.scatter), orders);
        Ok(())
    }

    /// By how much the first chunk is late if this is the most that one GPU hands another.
    pub fn pause(&self, most: u64) -> Time {
        if most == 0 || self.store_and_forward {
            return Time::ZERO;
        }
        let first = self.chunk.min(Bytes::new(most));
        let (rate, delay) = self.cluster.inside();
        delay + rate.time_for(first)
    }

    /// Before all flows; `gathered` is the most that one GPU gathers from another.
    pub fn begin(&self, gathered: u64, orders: &mut Orders) {
        orders.end_phase(self.pause(gathered));
    }

    /// Between two stages.
    pub fn then(&self, orders: &mut Orders) {
        if self.store_and_forward {
            orders.end_phase(Time::ZERO);
        }
    }

    /// Behind all flows; `scattered` is the most that one GPU scatters to another.
    pub fn end(&self, scattered: u64, orders: &mut Orders) {
        orders.end_phase(self.pause(scattered));
    }
}

/// Sends bytes by (server, server, rail) from NIC to NIC of each rail.
pub(super) fn exchange(split: &Split<'_>, rails: &[u64], travel: &mut Travel) {
    let (n, count) = (split.servers.len(), split.rails());
    for (at, &bytes) in rails.iter().enumerate().filter(|&(_, &bytes)| bytes > 0) {
        let (a, b, rail) = (at / count / n, at / count % n, at % count);
        let hop = (split.nic(a, rail), split.nic(b, rail), bytes);
        travel.exchange.push(hop);
    }
}
