//! All-to-alls by each scheme on a rail-optimized fabric, and what RailS measures of them.
//!
//! Modelled: M domains of N GPUs with a NIC each; one leaf switch a rail and as many spines as a leaf
//! has hosts, or a tree without rails, so that nothing is over-subscribed; each all-to-all alone, from an
//! idle network, all flows at once. NICs may be slow, which a sender learns by what its rails gave in
//! earlier all-to-alls (RailS, Algorithm 2, step 5), or down, which it knows. Completion is when the last
//! byte has arrived, those that stay inside a domain included; bus bandwidth counts only bytes between
//! domains.
//! Ignored: the time that a sender takes to decide.
//! Checked: closed forms on the flow engine; loads against bounds; no scheme beats what the most
//! loaded NIC allows.

pub(crate) mod flows;

use crate::error::SimError;
use crate::record::Watch;
use crate::spec::EngineSpec;
use crate::table::{Column, Table};
use flows::{Flows, Known, forwarding, lanes};
use lightloom_engine::{Engine, EngineError, Orders, Outcome, Policy, Scenario, TaskId, Tasks};
use lightloom_fabric::{ClosSpec, Cluster, Fabric, FatTree, NicId, RailOptimized, Splitting};
use lightloom_flow::FlowEngine;
use lightloom_packet::{BalancerSpec, Chunks, Nics, PacketEngine, Paths};
use lightloom_rails::{Deal, Message, Rates, assign, mse};
use lightloom_units::{BitRate, Bytes, Time};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The most chunks of one all-to-all, so that an assignment takes at most some gigabytes.
const MOST_CHUNKS: u64 = 1 << 28;

/// The cluster, the engine and the scheme: everything but the demand.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RailsSpec {
    /// Seeds hashes and ties.
    pub seed: u64,
    /// M.
    pub domains: u32,
    /// N: GPUs, NICs and rails.
    pub gpus_per_domain: u32,
    /// R2: rate of a NIC and of every link between switches \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of each of these links \[ps\].
    pub link_delay_ps: Time,
    /// R1: rate of a GPU on the scale-up network, each way \[bit/s\].
    pub scale_up_bps: BitRate,
    /// Delay of each of the two links between two GPUs of a domain \[ps\].
    pub scale_up_delay_ps: Time,
    /// Which engine; of a packet engine's settings, the balancer is that of `scheme`.
    pub engine: EngineSpec,
    /// Which NICs, and which paths.
    pub scheme: BalancerSpec,
    /// What joins the NICs.
    #[serde(default)]
    pub fabric: RailsFabric,
    /// On a rail-optimized fabric: other spines than as many as a leaf has hosts, with links of `link_bps`.
    #[serde(default)]
    pub spines: Option<Spines>,
    /// NICs with another rate than `link_bps`, 0 if they are down: by domain times N, plus rail.
    #[serde(default)]
    pub nic_bps: BTreeMap<u32, BitRate>,
    /// Whether what earlier all-to-alls gave weighs the rails of LPT.
    #[serde(default)]
    pub feedback: bool,
}

/// The spines of a rail-optimized fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spines {
    /// How many; at most a leaf's hosts.
    pub count: u32,
    /// Rate of a link between a leaf and a spine, each way \[bit/s\].
    pub bps: BitRate,
}

/// What joins the NICs; nothing is over-subscribed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RailsFabric {
    /// A leaf a rail, and spines.
    #[default]
    RailOptimized,
    /// Two tiers; the NICs of a domain are on one leaf, or on neighbours.
    LeafSpine,
    /// Three tiers.
    FatTree,
}

/// What was measured of one all-to-all.
#[derive(Clone, Debug)]
pub struct Collective {
    /// From the start to the last byte.
    pub completion: Time,
    /// Of the times at which pairs of GPUs in different domains had all their bytes: the mean, and
    /// the times that 80, 95, 99 and 100 % do not exceed.
    pub pairs: [Time; 5],
    /// Bytes between domains.
    pub inter_domain_bytes: u64,
    /// `inter_domain_bytes` over the completion time and the number of NICs \[bit/s\].
    pub bus_bandwidth_bps: f64,
    /// The same as a share of a NIC's rate.
    pub bus_bandwidth_share: f64,
    /// What each NIC sent \[B\], payload only: domain times N, plus rail. Under schemes that choose
    /// NICs packet by packet it is measured, and what was sent again counts again.
    pub sent: Vec<u64>,
    /// What each NIC received \[B\].
    pub received: Vec<u64>,
    /// Mean over the domains that send of the mean squared error of their NICs' loads, over the
    /// largest of them (RailS, equation 35).
    pub sender_mse: f64,
    /// The same of the domains that receive.
    pub receiver_mse: f64,
}

/// What several all-to-alls left.
#[derive(Clone, Debug)]
pub struct RailsRun {
    /// One after the other.
    pub collectives: Vec<Collective>,
    /// A row for each pair of GPUs in different domains: collective, source, destination, bytes,
    /// start_ps, end_ps.
    pub flows: Table,
    /// Counts of packets over all collectives, by name; none without packets.
    pub packets: Option<Vec<(&'static str, u64)>>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

impl RailsSpec {
    /// Parses the JSON that Python made.
    ///
    /// # Errors
    /// A message that names the key.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("the resolved specification: {error}"))
    }

    fn gpus(&self) -> Result<u32, SimError> {
        let (domains, gpus) = (self.domains, self.gpus_per_domain);
        match domains.checked_mul(gpus) {
            Some(all) if domains > 1 && gpus > 0 => Ok(all),
            _ => Err(SimError::Input(format!(
                "domains = {domains}, gpus_per_domain = {gpus}: must be at least 2 and 1"
            ))),
        }
    }

    fn fabric(&self) -> Result<Fabric, SimError> {
        let cluster = Cluster {
            scale_up_bps: self.scale_up_bps,
            scale_up_delay_ps: self.scale_up_delay_ps,
            ..Cluster::of(self.gpus()?, self.gpus_per_domain)
        };
        let clos = ClosSpec {
            splitting: Splitting::Ecmp,
            ..ClosSpec::new(self.link_bps, self.link_delay_ps)
        };
        let spec = match self.fabric {
            // Half of a leaf's ports are a rail's hosts, and a spine has a port for every rail.
            RailsFabric::RailOptimized => {
                let rails = self.gpus_per_domain.next_multiple_of(2);
                let radix = Some(self.domains.saturating_mul(2).max(rails));
                // Over-subscription counts spines; their links' rates are set below.
                let oversubscription = self.share_of_spines()?;
                RailOptimized(ClosSpec { tiers: 2, radix, oversubscription, ..clos }).into()
            }
            RailsFabric::LeafSpine => FatTree(ClosSpec { tiers: 2, ..clos }).into(),
            RailsFabric::FatTree => FatTree(ClosSpec { tiers: 3, ..clos }).into(),
        };
        let mut fabric = lightloom_fabric::build(&cluster, &spec, 1, &[])
            .map_err(|error| SimError::Input(error.to_string()))?;
        if let Some(Spines { bps, .. }) = self.spines {
            fabric = fabric.with_uplink_rate(bps);
        }
        for (&nic, &rate) in &self.nic_bps {
            if nic >= cluster.nics() {
                return Err(SimError::Input(format!(
                    "nic_bps: no NIC {nic} of {}",
                    cluster.nics()
                )));
            }
            // One that is down is given nothing to carry.
            if rate.bps() > 0 {
                fabric = fabric.with_nic_rate(NicId(nic), rate);
            }
        }
        Ok(fabric)
    }

    /// A leaf's hosts over its spines.
    fn share_of_spines(&self) -> Result<f64, SimError> {
        let Some(Spines { count, bps }) = self.spines else { return Ok(1.0) };
        if count == 0 || count > self.domains || bps.bps() == 0 {
            let domains = self.domains;
            return Err(SimError::Input(format!(
                "spines = {count} at {} bit/s: must be 1 to {domains}, as many as domains, at 1 bit/s or more",
                bps.bps()
            )));
        }
        Ok(f64::from(self.domains) / f64::from(count))
    }

    fn all_domains(&self) -> Vec<u32> {
        (0..self.domains).collect()
    }

    fn known(&self) -> Known {
        let mut down = vec![false; (self.domains * self.gpus_per_domain) as usize];
        for (&nic, &rate) in &self.nic_bps {
            down[nic as usize] = rate.bps() == 0;
        }
        Known::new(down, &self.all_domains(), self.gpus_per_domain)
    }

    /// Whether, and by chunks of which size, a sender learns of its rails.
    fn learns(&self) -> Option<u64> {
        let chunks = self.scheme.chunks().filter(|chunks| chunks.deal == Deal::Lpt)?;
        self.feedback.then_some(chunks.chunk.get())
    }

    fn engine(&self, seed: u64) -> Box<dyn Engine> {
        match &self.engine {
            &EngineSpec::Flow { tolerance } => Box::new(FlowEngine { tolerance, threads: 1 }),
            EngineSpec::Flit(flit) => Box::new(flit.clone()),
            EngineSpec::Packet(packet) => {
                let mut spec = (**packet).clone();
                spec.balancer = self.scheme;
                Box::new(PacketEngine::new(spec, seed))
            }
        }
    }

    /// What is forwarded as one piece.
    fn unit(&self) -> Bytes {
        match (self.scheme.chunks(), &self.engine) {
            (Some(chunks), _) => chunks.chunk,
            (None, EngineSpec::Packet(packet)) => packet.mtu,
            (None, EngineSpec::Flow { .. } | EngineSpec::Flit(_)) => Bytes::ZERO,
        }
    }
}

/// Runs an all-to-all for each matrix of `demand`, `[collective, source GPU, destination GPU]` in
/// bytes, row-major; `progress` is given the share that is done and stops the run by `false`.
///
/// ```
/// use lightloom_sim::{RailsSpec, rails};
/// let spec = RailsSpec::from_json(r#"{"seed": 1, "domains": 2, "gpus_per_domain": 2,
///     "link_bps": 400000000000, "link_delay_ps": 500000, "scale_up_bps": 3600000000000,
///     "scale_up_delay_ps": 500000, "engine": {"kind": "flow", "tolerance": 0.0},
///     "scheme": {"kind": "rails", "chunk": 32768, "queue_pairs": 64, "deal": "lpt"}}"#)?;
/// let mut demand = vec![0; 16];
/// demand[0 * 4 + 2] = 1 << 20; // GPU 0 to GPU 2, in the other domain
/// let run = rails(&spec, &demand, &mut |_| true).map_err(|error| error.to_string())?;
/// assert_eq!(run.collectives[0].sent, [1 << 19, 1 << 19, 0, 0]);
/// assert_eq!(run.collectives[0].received, [0, 0, 1 << 19, 1 << 19]);
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// [`SimError::Input`] if the parts do not fit together; [`SimError::Run`] if a run fails or
/// `progress` says `false`.
pub fn rails(
    spec: &RailsSpec,
    demand: &[u64],
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<RailsRun, SimError> {
    let gpus = spec.gpus()? as usize;
    check(demand, gpus, spec.scheme.chunks())?;
    let matrices = demand.chunks_exact(gpus * gpus);
    let fabric = spec.fabric()?;
    let count = matrices.len();
    let mut run = RailsRun {
        collectives: Vec::with_capacity(count),
        flows: Table { name: "flows", columns: vec![] },
        packets: None,
        notes: fabric.notes().to_vec(),
    };
    let choice = spec.scheme.kind().capabilities;
    let loses = choice.nics == Nics::Own && choice.paths != Paths::Route;
    if loses && matches!(spec.engine, EngineSpec::Flow { .. }) {
        run.notes.push("the flow engine has no packets: flows take the paths of ECMP".into());
    }
    let mut rows: [Vec<i64>; 5] = Default::default();
    let mut known = spec.known();
    for (at, matrix) in matrices.enumerate() {
        let done = at as f64 / count as f64;
        let mut share = |part: f64| progress(done + part / count as f64);
        if !share(0.0) {
            return Err(EngineError::Interrupted.into());
        }
        let outcome = collective(spec, &fabric, &known, (matrix, at as u64), &mut share)?;
        if at + 1 < count {
            learn(spec, &outcome, &mut known);
        }
        for (&(from, to, bytes), end) in outcome.flows.pairs.iter().zip(&outcome.ends) {
            let row = [at as u64, u64::from(from), u64::from(to), bytes, end.ps()];
            rows.iter_mut().zip(row).for_each(|(column, value)| column.push(value as i64));
        }
        if let Some(counts) = outcome.packets {
            let sums =
                run.packets.get_or_insert_with(|| counts.map(|(name, _)| (name, 0)).to_vec());
            sums.iter_mut().zip(counts).for_each(|(sum, count)| sum.1 += count.1);
        }
        for note in outcome.notes {
            if !run.notes.contains(&note) {
                run.notes.push(note);
            }
        }
        run.collectives.push(outcome.collective);
    }
    let starts = vec![0; rows[0].len()];
    let [collective, source, destination, bytes, end] = rows;
    run.flows.columns = vec![
        ("collective", Column::Integers(collective)),
        ("source", Column::Integers(source)),
        ("destination", Column::Integers(destination)),
        ("bytes", Column::Integers(bytes)),
        ("start_ps", Column::Integers(starts)),
        ("end_ps", Column::Integers(end)),
    ];
    Ok(run)
}

/// Loads of senders and receivers \[B\] that a rule gives, domain times N plus rail; without a run.
///
/// # Errors
/// [`SimError::Input`] if `demand` is no square matrix of whole domains or cannot be dealt.
pub fn rails_assign(
    demand: &[u64],
    gpus_per_domain: u32,
    chunk: Bytes,
    deal: &str,
) -> Result<(Vec<u64>, Vec<u64>), SimError> {
    let deal = Deal::named(deal).ok_or_else(|| {
        SimError::Input(format!("deal {deal:?}: allowed: {}", Deal::NAMES.join(", ")))
    })?;
    let gpus = demand.len().isqrt();
    let rails = gpus_per_domain as usize;
    if gpus == 0 || gpus * gpus != demand.len() || rails == 0 || gpus % rails != 0 {
        return Err(SimError::Input(format!(
            "demand: {} entries are not one for each pair of GPUs in domains of {rails}",
            demand.len()
        )));
    }
    check(demand, gpus, Some(Chunks { chunk, queue_pairs: 1, deal }))?;
    let messages = messages(demand, gpus, gpus_per_domain);
    let assignment = assign(&messages, rails, chunk.get(), deal, &[]);
    Ok((assignment.sent, assignment.received))
}

/// What each domain sends to others.
pub(crate) fn messages(demand: &[u64], gpus: usize, gpus_per_domain: u32) -> Vec<Vec<Message>> {
    let mut messages = vec![vec![]; gpus / gpus_per_domain as usize];
    for (from, to, bytes) in pairs(demand, gpus) {
        let (domain, destination) = (from / gpus_per_domain, to / gpus_per_domain);
        if domain != destination {
            let (source, receiver) = (from % gpus_per_domain, to % gpus_per_domain);
            messages[domain as usize].push(Message { bytes, destination, source, receiver });
        }
    }
    messages
}

/// Refuses a demand that is no matrices, or too large, and a scheme that cannot deal it.
pub(crate) fn check(demand: &[u64], gpus: usize, chunks: Option<Chunks>) -> Result<(), SimError> {
    let size = gpus * gpus;
    if demand.is_empty() || demand.len() % size != 0 {
        return Err(SimError::Input(format!(
            "demand: {} entries are not a matrix of {gpus} x {gpus} for each all-to-all",
            demand.len()
        )));
    }
    let chunk = match chunks {
        Some(Chunks { queue_pairs: 0, .. }) => {
            return Err(SimError::Input("queue_pairs = 0: must be at least 1".into()));
        }
        Some(Chunks { chunk: Bytes::ZERO, .. }) => {
            return Err(SimError::Input("chunk = 0 bytes: must be at least 1".into()));
        }
        Some(Chunks { chunk, .. }) => chunk.get(),
        None => u64::MAX,
    };
    for matrix in demand.chunks_exact(size) {
        let bytes = matrix.iter().fold(0u64, |sum, &bytes| sum.saturating_add(bytes));
        if bytes > i64::MAX as u64 {
            return Err(SimError::Input("demand: more than 2^63 bytes in one all-to-all".into()));
        }
        let chunks: u64 = matrix.iter().map(|bytes| bytes / chunk).sum();
        if chunks > MOST_CHUNKS {
            return Err(SimError::Input(format!(
                "chunk = {chunk} bytes: makes {chunks} of one all-to-all; must be at most \
                 {MOST_CHUNKS}"
            )));
        }
    }
    Ok(())
}

/// What a matrix sends, each GPU to its neighbour first, so that no one is everyone's first.
fn pairs(matrix: &[u64], gpus: usize) -> impl Iterator<Item = (u32, u32, u64)> {
    (0..gpus).flat_map(move |from| {
        (0..gpus).map(move |step| {
            let to = (from + step) % gpus;
            (from as u32, to as u32, matrix[from * gpus + to])
        })
    })
}

/// One all-to-all with its pairs' times.
struct Measured {
    collective: Collective,
    flows: Flows,
    ends: Vec<Time>,
    /// What [`Flows::by_rail`] says of it.
    by_rail: BTreeMap<(u32, u32, u32), (u64, Time)>,
    packets: Option<[(&'static str, u64); 9]>,
    notes: Vec<String>,
}

/// Every sender hears what its rails gave in an all-to-all.
fn learn(spec: &RailsSpec, outcome: &Measured, known: &mut Known) {
    let Some(chunk) = spec.learns() else { return };
    let (domains, rails) = (spec.domains as usize, spec.gpus_per_domain as usize);
    known.rates.resize_with(domains, || Rates::new(domains, rails));
    for (&(from, to, rail), &(bytes, took)) in &outcome.by_rail {
        known.rates[from as usize].heard(to, rail as u16, bytes, bytes.div_ceil(chunk), took);
    }
    known.rates.iter_mut().for_each(Rates::settle);
}

fn collective(
    spec: &RailsSpec,
    fabric: &Fabric,
    known: &Known,
    (matrix, at): (&[u64], u64),
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Measured, SimError> {
    let cluster = fabric.cluster();
    let (gpus, rails) = (cluster.gpus, cluster.gpus_per_server);
    let demand = pairs(matrix, gpus as usize);
    let mut flows = Flows::new(cluster, &spec.all_domains(), &spec.scheme, demand, known)
        .map_err(SimError::Input)?;
    let seed = spec.seed ^ at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let count = flows.flows.len();
    let names: Vec<u32> = (0..count as u32).collect();
    let tasks = Tasks {
        duration: &vec![Time::ZERO; count],
        transfer: &names,
        offsets: &vec![0; count + 1],
        targets: &[],
        predecessors: &vec![0; count],
    };
    let forwarding = forwarding(cluster, spec.unit());
    let mut sender = FlowSender { fabric, flows: &flows, key: seed, forwarding };
    let outcome = spec.engine(seed).run(
        &Scenario { fabric, tasks, circuits: &[], incidents: &[] },
        &mut sender,
        &mut Watch(progress),
    )?;
    if lanes(&spec.scheme) {
        flows.sent = payload_sent(fabric, spec, &outcome);
    }
    let ends = flows.pair_ends(&outcome.end);
    let by_rail = match spec.learns() {
        Some(_) => flows.by_rail(&outcome.end),
        None => BTreeMap::new(),
    };
    let bytes: u64 = flows.received.iter().sum();
    let nic_seconds = outcome.makespan.as_secs_f64() * f64::from(gpus);
    let bps = if nic_seconds > 0.0 { bytes as f64 * 8.0 / nic_seconds } else { 0.0 };
    let collective = Collective {
        completion: outcome.makespan,
        pairs: distribution(&ends),
        inter_domain_bytes: bytes,
        bus_bandwidth_bps: bps,
        bus_bandwidth_share: bps / spec.link_bps.bps() as f64,
        sender_mse: mean_mse(&flows.sent, rails),
        receiver_mse: mean_mse(&flows.received, rails),
        sent: std::mem::take(&mut flows.sent),
        received: std::mem::take(&mut flows.received),
    };
    let (mut packets, mut notes) = (None, vec![]);
    if let Some(counted) = outcome.packets {
        packets = Some([
            ("packets", counted.sent),
            ("hops", counted.hops),
            ("data", counted.data),
            ("resent", counted.resent),
            ("drops", counted.drops),
            ("trims", counted.trims),
            ("marks", counted.marks),
            ("pauses", counted.pauses),
            ("timeouts", counted.timeouts),
        ]);
        notes = counted.notes;
    }
    Ok(Measured { collective, flows, ends, by_rail, packets, notes })
}

/// One task a flow, so that each one's end is known.
struct FlowSender<'a> {
    fabric: &'a Fabric,
    flows: &'a Flows,
    key: u64,
    forwarding: Time,
}

impl Policy for FlowSender<'_> {
    fn begin(
        &mut self,
        _: TaskId,
        transfer: u32,
        _: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let flow = &self.flows.flows[transfer as usize];
        if flow.before {
            orders.end_phase(self.forwarding);
        }
        let route = |from, to, key, path: &mut _| {
            self.fabric.nic_route(from, to, key, path).map_err(|error| error.to_string())
        };
        self.flows.order(transfer as usize, self.fabric, route, self.key, orders)?;
        orders.end_phase(if flow.after { self.forwarding } else { Time::ZERO });
        Ok(())
    }

    fn heeds_ends(&self) -> bool {
        false
    }
}

/// Payload on every NIC's link to its leaf: acknowledgements and trimmed packets are headers alone.
fn payload_sent(fabric: &Fabric, spec: &RailsSpec, outcome: &Outcome) -> Vec<u64> {
    let header = match &spec.engine {
        EngineSpec::Packet(packet) => packet.header.get(),
        EngineSpec::Flow { .. } | EngineSpec::Flit(_) => 0,
    };
    let first = fabric.nic_node(NicId(0)).index();
    let mut sent = vec![0; fabric.cluster().nics() as usize];
    for (at, link) in fabric.links().iter().enumerate() {
        let nic = link.from.index().checked_sub(first);
        if let Some(sent) = nic.and_then(|nic| sent.get_mut(nic)) {
            let counted = outcome.packets.as_ref().and_then(|p| p.links.get(at));
            let headers = counted.map_or(0, |link| link.packets * header);
            *sent += outcome.link_bytes[at].get().saturating_sub(headers);
        }
    }
    sent
}

fn mean_mse(loads: &[u64], rails: u32) -> f64 {
    let busy = || loads.chunks(rails as usize).filter(|nics| nics.iter().any(|&load| load > 0));
    busy().map(mse).sum::<f64>() / busy().count().max(1) as f64
}

/// The mean, and the times that 80, 95, 99 and 100 % do not exceed.
fn distribution(times: &[Time]) -> [Time; 5] {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    if sorted.is_empty() {
        return [Time::ZERO; 5];
    }
    let count = sorted.len();
    let sum: u128 = sorted.iter().map(|time| u128::from(time.ps())).sum();
    let mean = Time::from_ps((sum / count as u128) as u64);
    let at = |percent: usize| sorted[(count * percent).div_ceil(100) - 1];
    [mean, at(80), at(95), at(99), at(100)]
}

#[cfg(test)]
mod tests;
