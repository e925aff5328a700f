//! What no schedule of a collective can beat, and the links that bind a run.
//!
//! Modelled: whatever leaves or enters a GPU crosses its scale-up link, its own NICs, or PCIe; whatever leaves
//! or enters a server, one of the links out of it or into it. The bytes that must cross, over the rate of
//! all these links together, and the least delay of a link out and of a link in (once, where one link is
//! both), bound the time. The bytes are a primitive's own minimum, or those that were asked to be sent:
//! - all-gather: a GPU gets all blocks but its own, a server all but those of its ranks;
//! - reduce-scatter: the same, of what is sent;
//! - all-reduce: of each byte n - 1 sums and n - 1 copies travel between n GPUs, or n servers
//!   (Patarasuk and Yuan 2009), in all: so they are held against the rates of all together;
//! - broadcast: everyone but rank 0 gets all;
//! - all-to-all: as the demand says.
//!
//! Ignored: what switches beyond a server's own links cannot carry; dark circuits; the time to add up.
//! Checked: no run on any fabric is faster (`tests/test_collective.py`).

use crate::demand::{AllToAll, Demand};
use crate::spec::CollectiveWork;
use lightloom_engine::Outcome;
use lightloom_fabric::{Cluster, Fabric, GpuId, LinkId, NodeId, NodeKind};
use lightloom_units::Time;
use lightloom_workload::collective::{Primitive, hierarchical};
use lightloom_workload::{Comm, TaskGraph};

/// What bounds a collective.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// By the primitive's own minimum of bytes.
    pub primitive: Time,
    /// By what its messages send.
    pub demand: Time,
    /// Bytes between different GPUs.
    pub sent_bytes: u64,
}

/// What a link carried.
pub(crate) struct LinkUse {
    pub class: String,
    /// Where it starts: `server3.nic2`, ...
    pub from: String,
    pub to: String,
    pub bytes: u64,
    /// Of the run's time, how much its rate was used.
    pub utilization: f64,
}

/// Bytes out of each part, and into it.
#[derive(Clone)]
struct Loads(Vec<[f64; 2]>);

/// Parts of a fabric, such as servers, with the links that lead out of each and into it.
pub(crate) struct Parts {
    /// bit/s out of each, and into it.
    rates: Vec<[f64; 2]>,
    /// The least delay from one to another.
    delay: Time,
}

impl Parts {
    /// Of the first `count` parts; `part` says to which a node belongs.
    fn new(fabric: &Fabric, count: u32, part: impl Fn(NodeId) -> Option<u32>) -> Self {
        let mut rates = vec![[0.0; 2]; count as usize];
        let least = |found: Option<Time>, delay| Some(found.map_or(delay, |d: Time| d.min(delay)));
        let (mut delays, mut straight) = ([None; 2], None);
        for link in fabric.links() {
            let ends = [part(link.from), part(link.to)];
            if ends[0] == ends[1] {
                continue;
            }
            if ends.iter().all(|end| end.is_some_and(|at| at < count)) {
                straight = least(straight, link.delay);
            }
            for (way, end) in ends.into_iter().enumerate() {
                if let Some(rate) = end.and_then(|at| rates.get_mut(at as usize)) {
                    rate[way] += link.rate.bps() as f64;
                    delays[way] = least(delays[way], link.delay);
                }
            }
        }
        let [out, into] = delays.map(|delay| delay.unwrap_or(Time::ZERO));
        // A link that leads straight to another part is the one out and the one in.
        Parts { rates, delay: straight.map_or(out + into, |delay| delay.min(out + into)) }
    }

    /// The GPUs of a fabric.
    pub fn of_gpus(fabric: &Fabric) -> Self {
        let cluster = fabric.cluster();
        Parts::new(fabric, cluster.gpus, |node| gpu_of(cluster, node))
    }

    /// Its servers.
    pub fn of_servers(fabric: &Fabric) -> Self {
        let cluster = fabric.cluster();
        Parts::new(fabric, cluster.servers(), |node| server_of(cluster, node))
    }

    /// The most bit/s out of a part, or into one.
    pub fn fastest(&self) -> f64 {
        self.rates.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// The time that the busiest part takes at least.
    fn busiest(&self, loads: &Loads) -> Time {
        let each = loads.0.iter().flatten().zip(self.rates.iter().flatten());
        let seconds = each.filter(|both| *both.1 > 0.0).map(|(bytes, bps)| bytes * 8.0 / bps);
        self.at_least(seconds.fold(0.0, f64::max))
    }

    /// The time that `bytes` out of and into all parts take at least.
    fn together(&self, bytes: f64) -> Time {
        let all = [0, 1].map(|way| self.rates.iter().map(|rate| rate[way]).sum::<f64>());
        let bps = all[0].min(all[1]);
        self.at_least(if bps > 0.0 { bytes * 8.0 / bps } else { 0.0 })
    }

    fn at_least(&self, seconds: f64) -> Time {
        if seconds <= 0.0 {
            return Time::ZERO;
        }
        Time::from_ps((seconds * 1e12) as u64) + self.delay
    }
}

fn server_of(cluster: &Cluster, node: NodeId) -> Option<u32> {
    let (gpus, servers) = (cluster.gpus, cluster.servers());
    match node.0 {
        gpu if gpu < gpus => Some(gpu / cluster.gpus_per_server),
        scale_up if scale_up < gpus + servers => Some(scale_up - gpus),
        node => {
            let nic = node - gpus - servers;
            let host = || (nic - cluster.nics()).checked_div(cluster.host_nodes());
            match nic < cluster.nics() {
                true => Some(nic / cluster.nics_per_server),
                false => host().filter(|&server| server < servers),
            }
        }
    }
}

fn gpu_of(cluster: &Cluster, node: NodeId) -> Option<u32> {
    let (gpus, servers) = (cluster.gpus, cluster.servers());
    match node.0 {
        gpu if gpu < gpus => Some(gpu),
        // Without a host a NIC is as good as its GPU.
        nic if cluster.host.is_none()
            && nic >= gpus + servers
            && nic < gpus + servers + cluster.nics() =>
        {
            Some((nic - gpus - servers) / cluster.nics_per_gpu())
        }
        _ => None,
    }
}

/// What bounds a collective on a fabric.
pub(crate) fn bounds(
    work: &CollectiveWork,
    fabric: &Fabric,
    (graph, demand): (&TaskGraph, &Demand<'_>),
) -> Bounds {
    let (cluster, ranks) = (fabric.cluster(), work.ranks);
    let servers = ranks.div_ceil(cluster.gpus_per_server);
    let gpus = Parts::new(fabric, ranks, |node| gpu_of(cluster, node));
    let between = Parts::new(fabric, servers, |node| server_of(cluster, node));
    let (mut by_gpu, mut by_server) = (Loads::none(ranks), Loads::none(servers));
    let mut sent_bytes = 0;
    let mut send = |from: u32, to: u32, bytes: u64| {
        sent_bytes += bytes;
        by_gpu.send(from, to, bytes);
        let at = |gpu| cluster.server_of(GpuId(gpu)).0;
        by_server.send(at(from), at(to), bytes);
    };
    for comm in &graph.comms {
        match *comm {
            Comm::AllToAll { block, matrix, transposed, bytes_per_token } => {
                let a2a = AllToAll { block, matrix, transposed, bytes_per_token };
                demand.for_each(a2a, &mut send);
            }
            Comm::Exchange { first, end, .. } => {
                let sent = &graph.messages[first as usize..end as usize];
                sent.iter().for_each(|&(from, to, bytes)| send(from, to, bytes));
            }
            Comm::AllReduce { stage, scope, bytes_per_gpu } => {
                let groups = demand.placement.gradient_groups(stage, scope);
                let plan = hierarchical(&groups, bytes_per_gpu, cluster.gpus_per_server);
                let all = plan.reduce.iter().chain(&plan.ring).chain(&plan.gather);
                all.for_each(|&(from, to, bytes)| send(from, to, bytes));
            }
            _ => {}
        }
    }
    let demanded = gpus.busiest(&by_gpu).max(between.busiest(&by_server));
    let (n, m, size) = (f64::from(ranks), f64::from(servers), work.size_bytes as f64);
    let held = |server: u32| {
        let first = server * cluster.gpus_per_server;
        f64::from((ranks - first).min(cluster.gpus_per_server))
    };
    let own = |way: usize| {
        let one = |bytes: f64| if way == 0 { [bytes, 0.0] } else { [0.0, bytes] };
        let gpu = Loads(vec![one(size * (n - 1.0) / n); ranks as usize]);
        let server = Loads((0..servers).map(|s| one(size * (n - held(s)) / n)).collect());
        gpus.busiest(&gpu).max(between.busiest(&server))
    };
    let primitive = match work.primitive {
        Primitive::AllToAll => demanded,
        Primitive::AllReduce => {
            let steps = |parts: f64| 2.0 * (parts - 1.0) * size;
            gpus.together(steps(n)).max(between.together(steps(m)))
        }
        Primitive::ReduceScatter => own(0),
        Primitive::AllGather => own(1),
        Primitive::Broadcast => {
            let from_first = |count: u32| {
                let one = |at| if at == 0 { [size, 0.0] } else { [0.0, size] };
                Loads((0..count).map(|at| if count > 1 { one(at) } else { [0.0; 2] }).collect())
            };
            gpus.busiest(&from_first(ranks)).max(between.busiest(&from_first(servers)))
        }
    };
    Bounds { primitive, demand: demanded, sent_bytes }
}

impl Loads {
    fn none(count: u32) -> Self {
        Loads(vec![[0.0; 2]; count as usize])
    }
    fn send(&mut self, from: u32, to: u32, bytes: u64) {
        if from != to {
            self.0[from as usize][0] += bytes as f64;
            self.0[to as usize][1] += bytes as f64;
        }
    }
}

/// The links that carried the most for their rate, the fullest first.
pub(crate) fn busiest_links(fabric: &Fabric, outcome: &Outcome, count: usize) -> Vec<LinkUse> {
    let seconds = outcome.makespan.as_secs_f64().max(1e-12);
    let used = |at: usize| {
        let (link, bytes) = (&fabric.links()[at], outcome.link_bytes[at].get());
        bytes as f64 * 8.0 / link.rate.bps().max(1) as f64
    };
    let mut order: Vec<usize> =
        (0..outcome.link_bytes.len()).filter(|&at| outcome.link_bytes[at].get() > 0).collect();
    let fuller = |&a: &usize, &b: &usize| used(b).total_cmp(&used(a)).then(a.cmp(&b));
    if order.len() > count {
        order.select_nth_unstable_by(count, fuller);
        order.truncate(count);
    }
    order.sort_unstable_by(fuller);
    let named = |at: usize| {
        let link = fabric.link(LinkId(at as u32));
        LinkUse {
            class: link.class.to_string(),
            from: name(fabric, link.from),
            to: name(fabric, link.to),
            bytes: outcome.link_bytes[at].get(),
            utilization: used(at) / seconds,
        }
    };
    order.into_iter().map(named).collect()
}

/// What people call a node.
pub(crate) fn name(fabric: &Fabric, node: NodeId) -> String {
    let cluster = fabric.cluster();
    let server = server_of(cluster, node).unwrap_or(0);
    match fabric.nodes()[node.index()].kind {
        NodeKind::Gpu => format!("server{server}.gpu{}", node.0 % cluster.gpus_per_server),
        NodeKind::ScaleUp => format!("server{server}"),
        NodeKind::Nic => {
            let nic = node.0 - cluster.gpus - cluster.servers();
            let local = nic % cluster.nics_per_server;
            match cluster.nic_parts {
                1 => format!("server{server}.nic{local}"),
                parts => format!("server{server}.nic{}.part{}", local / parts, local % parts),
            }
        }
        NodeKind::PcieSwitch | NodeKind::Numa => {
            let nodes = cluster.host_nodes();
            let local = (node.0 - cluster.gpus - cluster.servers() - cluster.nics()) % nodes;
            match local.checked_sub(nodes - cluster.numa_nodes) {
                Some(numa) => format!("server{server}.numa{numa}"),
                None => format!("server{server}.pcie{local}"),
            }
        }
        NodeKind::Switch { .. } => {
            let hosts = cluster.servers() * (1 + cluster.host_nodes());
            format!("switch{}", node.0 - cluster.gpus - cluster.nics() - hosts)
        }
        NodeKind::Ocs { region } => format!("ocs{region}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_fabric::{FabricSpec, ServerId, build};

    #[test]
    fn a_link_from_server_to_server_delays_once() {
        let spec: FabricSpec = serde_json::from_str(
            r#"{"kind": "topoopt", "link_bps": 400000000000, "link_delay_ps": 1000000,
                "degree": 8, "panel": "flat", "panel_ports": 1008}"#,
        )
        .expect("its keys");
        let cluster = Cluster::of(16, 8);
        let fabric = build(&cluster, &spec, 1, &[(ServerId(0), ServerId(1)); 8]).expect("it fits");
        let servers = Parts::new(&fabric, 2, |node| server_of(&cluster, node));
        let links = fabric.links().iter();
        let panel = links.filter(|link| link.class.to_string() == "panel").map(|link| link.delay);
        assert_eq!(Some(servers.delay), panel.min());
    }
}
