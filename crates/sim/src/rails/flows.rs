//! The flows of one all-to-all on a rail-optimized fabric, by scheme.
//!
//! Modelled, by the scheme's choice of NICs (RailS, Sections II and VI):
//! - ECMP, PLB, round-robin: from the source GPU's own NIC to the destination GPU's own, over the
//!   spines if these are on different rails;
//! - REPS, MinRTT: from all NICs of the source's domain to the destination GPU's own: one flow of a
//!   lane a NIC, and over the scale-up network an even share to each other GPU of the domain;
//! - RailS: chunks dealt to rails ([`lightloom_rails`]), each from a NIC to the one of the
//!   same rail; those of a rail and destination take its queue pairs in turn, one flow a queue pair.
//!   From the source GPU to the rail's, and from the rail's to the destination, they take the
//!   scale-up network, one flow a pair of GPUs.
//!
//! Forwarding is a pipeline: flows over the scale-up network and over rails run at the same time,
//! and what is forwarded starts, and ends, one unit later (a chunk; a packet of a lane).
//!
//! Domains are servers in rising order, which need not be neighbours: another may stand in for one.
//! A NIC that is down carries nothing, and all know it: what its GPU would send or receive by itself is
//! spread over the NICs of the domain that are left, lanes are fewer, and chunks take the rails that work
//! at both ends.
//! Ignored: that a chunk can leave a rail no sooner than it has come to it, where the scale-up
//! network is slower than the NICs. What stays inside a domain is sent there, whatever the scheme.
//! Checked: bytes conserved at both ends; the closed forms of loads.

use lightloom_engine::Orders;
use lightloom_fabric::{Cluster, Fabric, GpuId, LinkId, NicId, ServerId};
use lightloom_packet::{BalancerSpec, Chunks, Nics};
use lightloom_rails::lpt::sizes;
use lightloom_rails::{Message, Rates};
use lightloom_units::{Bytes, Time};
use std::collections::BTreeMap;

const NONE: u32 = u32::MAX;

/// Where a flow goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Over the scale-up network.
    Inside(GpuId, GpuId),
    /// From one NIC to another.
    Nics(NicId, NicId),
    /// From every NIC of a domain to one.
    Lanes(ServerId, NicId),
}

/// One flow, and whether its bytes are forwarded inside a domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub ends: Ends,
    pub bytes: u64,
    /// Before they reach their first NIC.
    pub before: bool,
    /// After they left their last.
    pub after: bool,
}

/// What senders know of NICs before an all-to-all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// By NIC of the cluster; none are, where this is shorter.
    pub down: Vec<bool>,
    /// By place of the sending domain, what its rails gave; all are alike where this is shorter.
    pub rates: Vec<Rates>,
}

impl Known {
    /// Of some domains with so many rails: NICs that are down are so for both ends' plans.
    pub fn new(down: Vec<bool>, domains: &[u32], rails: u32) -> Self {
        let mut known = Known { down, rates: vec![] };
        if !known.down.contains(&true) {
            return known;
        }
        for &from in domains {
            let mut rates = Rates::new(domains.len(), rails as usize);
            for (to, &domain) in (0..).zip(domains) {
                for rail in (0..rails).filter(|&rail| !known.has_rail([from, domain], rails, rail))
                {
                    rates.set_down(to, rail as u16);
                }
            }
            known.rates.push(rates);
        }
        known
    }

    /// Whether a rail works at both of two domains.
    fn has_rail(&self, domains: [u32; 2], rails: u32, rail: u32) -> bool {
        domains.iter().all(|domain| !self.is_down(NicId(domain * rails + rail)))
    }

    /// Whether at least one rail works at any two of these domains.
    pub fn joins(&self, domains: &[u32], rails: u32) -> bool {
        let pairs = domains.iter().flat_map(|&a| domains.iter().map(move |&b| [a, b]));
        !self.down.contains(&true)
            || pairs.into_iter().all(|pair| (0..rails).any(|rail| self.has_rail(pair, rails, rail)))
    }

    fn is_down(&self, nic: NicId) -> bool {
        self.down.get(nic.0 as usize).is_some_and(|&down| down)
    }

    /// The NICs of a server that work.
    fn left<'a>(&'a self, cluster: &Cluster, server: ServerId) -> impl Iterator<Item = NicId> + 'a {
        let first = cluster.nic(server, 0).0;
        (first..first + cluster.nics_per_server).map(NicId).filter(|&nic| !self.is_down(nic))
    }

    /// A GPU's own NIC, or if that is down the `turn`th of those that its server has left.
    ///
    /// # Errors
    /// It has none left.
    fn nic(&self, cluster: &Cluster, gpu: u32, turn: usize) -> Result<NicId, String> {
        let own = cluster.nic_of(GpuId(gpu));
        if !self.is_down(own) {
            return Ok(own);
        }
        let server = cluster.server_of(GpuId(gpu));
        let count = self.left(cluster, server).count();
        let nic = self.left(cluster, server).nth(turn % count.max(1));
        nic.ok_or_else(|| format!("domain {}: none of its NICs works", server.0))
    }
}

/// The flows of an all-to-all among some domains.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    pub flows: Vec<Flow>,
    /// (source GPU, destination GPU, bytes) between domains.
    pub pairs: Vec<(u32, u32, u64)>,
    /// Which flows carry a pair: index into `pairs`, index into `flows`.
    pub carried: Vec<(u32, u32)>,
    /// What each NIC of the domains sends \[B\]; of lanes, only a run can tell.
    pub sent: Vec<u64>,
    /// What each NIC receives \[B\].
    pub received: Vec<u64>,
    /// By source GPU of the domains and index of the destination in its own: the flow over the scale-up
    /// network.
    inside: Vec<u32>,
    /// Servers, in rising order.
    domains: Vec<u32>,
    rails: u32,
    known: Known,
}

/// Whether a scheme decides over which of its domain's NICs a GPU sends.
pub(crate) fn spreads(scheme: &BalancerSpec) -> bool {
    scheme.kind().capabilities.nics != Nics::Own
}

/// Whether a scheme's flows have a lane a NIC.
pub(crate) fn lanes(scheme: &BalancerSpec) -> bool {
    scheme.kind().capabilities.nics == Nics::Lanes
}

impl Flows {
    /// Decides for `demand`, (source GPU, destination GPU, bytes) with both in `domains`, servers in rising
    /// order.
    ///
    /// # Errors
    /// Two domains with no NICs, or no rail, left between them.
    pub fn new(
        cluster: &Cluster,
        domains: &[u32],
        scheme: &BalancerSpec,
        demand: impl IntoIterator<Item = (u32, u32, u64)>,
        known: &Known,
    ) -> Result<Self, String> {
        let rails = cluster.gpus_per_server;
        let gpus = domains.len() * rails as usize;
        let mut made = Flows {
            sent: vec![0; gpus],
            received: vec![0; gpus],
            inside: vec![NONE; gpus * rails as usize],
            domains: domains.to_vec(),
            rails,
            known: known.clone(),
            ..Flows::default()
        };
        for (from, to, bytes) in demand {
            if bytes == 0 || from == to {
            } else if from / rails == to / rails {
                made.inside(from, to, bytes);
            } else {
                made.pairs.push((from, to, bytes));
            }
        }
        match scheme.chunks() {
            Some(chunks) => made.in_chunks(cluster, chunks)?,
            None if lanes(scheme) => made.in_lanes(cluster)?,
            None => made.by_own_nics(cluster)?,
        }
        Ok(made)
    }

    /// The place of a server among the domains.
    ///
    /// # Panics
    /// If it is none of them.
    fn place(&self, server: u32) -> usize {
        self.domains.binary_search(&server).expect("both ends are in a domain")
    }

    /// The place of a GPU, or of its NIC, among those of the domains.
    fn at(&self, gpu: u32) -> usize {
        self.place(gpu / self.rails) * self.rails as usize + (gpu % self.rails) as usize
    }

    /// The place of the flow between two GPUs of a domain.
    fn slot(&self, from: u32, to: u32) -> usize {
        self.at(from) * self.rails as usize + (to % self.rails) as usize
    }

    /// Adds bytes to the flow between two GPUs of a domain.
    fn inside(&mut self, from: u32, to: u32, bytes: u64) {
        if from == to || bytes == 0 {
            return;
        }
        let at = self.slot(from, to);
        let slot = &mut self.inside[at];
        if *slot == NONE {
            *slot = self.flows.len() as u32;
            let ends = Ends::Inside(GpuId(from), GpuId(to));
            self.flows.push(Flow { ends, bytes: 0, before: false, after: false });
        }
        self.flows[*slot as usize].bytes += bytes;
    }

    fn by_own_nics(&mut self, cluster: &Cluster) -> Result<(), String> {
        for pair in 0..self.pairs.len() {
            let (from, to, bytes) = self.pairs[pair];
            let out = self.known.nic(cluster, from, pair)?;
            let (into, after) = self.land(cluster, to, pair, bytes)?;
            let before = out != cluster.nic_of(GpuId(from));
            let sender = if before { out.0 } else { from };
            self.inside(from, sender, bytes);
            let at = self.at(sender);
            self.sent[at] += bytes;
            self.carried.push((pair as u32, self.flows.len() as u32));
            self.flows.push(Flow { ends: Ends::Nics(out, into), bytes, before, after });
        }
        Ok(())
    }

    /// The NIC that bytes for a GPU land on, and whether they are forwarded from there.
    fn land(
        &mut self,
        cluster: &Cluster,
        to: u32,
        turn: usize,
        bytes: u64,
    ) -> Result<(NicId, bool), String> {
        let into = self.known.nic(cluster, to, turn)?;
        let after = into != cluster.nic_of(GpuId(to));
        let receiver = if after { into.0 } else { to };
        self.inside(receiver, to, bytes);
        let at = self.at(receiver);
        self.received[at] += bytes;
        Ok((into, after))
    }

    fn in_lanes(&mut self, cluster: &Cluster) -> Result<(), String> {
        let rails = cluster.gpus_per_server;
        let mut totals = vec![0u64; self.sent.len()];
        for pair in 0..self.pairs.len() {
            let (from, to, bytes) = self.pairs[pair];
            let (into, after) = self.land(cluster, to, pair, bytes)?;
            let ends = Ends::Lanes(cluster.server_of(GpuId(from)), into);
            self.carried.push((pair as u32, self.flows.len() as u32));
            self.flows.push(Flow { ends, bytes, before: rails > 1, after });
            totals[self.at(from)] += bytes;
        }
        let gpus: Vec<u32> =
            self.domains.iter().flat_map(|&domain| domain * rails..(domain + 1) * rails).collect();
        for (from, total) in gpus.into_iter().zip(totals).filter(|&(_, total)| total > 0) {
            let server = cluster.server_of(GpuId(from));
            let first = server.0 * rails;
            let works = |&gpu: &u32| !self.known.is_down(cluster.nic_of(GpuId(gpu)));
            let left: Vec<u32> = (first..first + rails).filter(works).collect();
            if left.is_empty() {
                return Err(format!("domain {}: none of its NICs works", server.0));
            }
            let lanes = left.len() as u64;
            for (n, gpu) in left.into_iter().enumerate() {
                let odd = u64::from((n as u64) < total % lanes);
                self.inside(from, gpu, total / lanes + odd);
            }
        }
        Ok(())
    }

    fn in_chunks(
        &mut self,
        cluster: &Cluster,
        Chunks { chunk, queue_pairs, deal }: Chunks,
    ) -> Result<(), String> {
        let chunk = chunk.get();
        let (rails, count) = (self.rails, self.domains.len());
        let mut messages = vec![vec![]; count];
        let mut pairs_of = vec![vec![]; count];
        for (pair, &(from, to, bytes)) in self.pairs.iter().enumerate() {
            let domain = self.place(from / rails);
            let destination = self.place(to / rails) as u32;
            let (source, receiver) = (from % rails, to % rails);
            messages[domain].push(Message { bytes, destination, source, receiver });
            pairs_of[domain].push(pair as u32);
        }
        self.have_rails()?;
        let rates = &self.known.rates;
        let assignment = lightloom_rails::assign(&messages, rails as usize, chunk, deal, rates);
        // A rail's queue pairs, shared evenly by its destinations.
        let others = (count as u32).saturating_sub(1).max(1);
        let queues = (queue_pairs / others).max(1);
        // By destination, rail and queue pair: its flow, and the pair of GPUs that it was last for.
        let mut flow_of = vec![(NONE, NONE); count * (rails * queues) as usize];
        let mut turns = vec![0u32; count * rails as usize];
        for (at, messages) in messages.iter().enumerate() {
            let domain = self.domains[at];
            flow_of.fill((NONE, NONE));
            turns.fill(0);
            let mut chunks = assignment.rails[at].iter();
            for (message, &pair) in messages.iter().zip(&pairs_of[at]) {
                let (from, to, bytes) = self.pairs[pair as usize];
                for size in sizes(bytes, chunk) {
                    let rail = u32::from(*chunks.next().expect("a rail for every chunk"));
                    let stream = message.destination * rails + rail;
                    let turn = &mut turns[stream as usize];
                    let slot = &mut flow_of[(stream * queues + *turn) as usize];
                    *turn = (*turn + 1) % queues;
                    if slot.0 == NONE {
                        slot.0 = self.flows.len() as u32;
                        let nic = |server| cluster.nic(ServerId(server), rail);
                        let ends = Ends::Nics(nic(domain), nic(to / rails));
                        self.flows.push(Flow { ends, bytes: 0, before: false, after: false });
                    }
                    if slot.1 != pair {
                        slot.1 = pair;
                        self.carried.push((pair, slot.0));
                    }
                    let flow = &mut self.flows[slot.0 as usize];
                    flow.bytes += size;
                    flow.before |= from % rails != rail;
                    flow.after |= to % rails != rail;
                    self.inside(from, domain * rails + rail, size);
                    self.inside(to - to % rails + rail, to, size);
                }
            }
        }
        (self.sent, self.received) = (assignment.sent, assignment.received);
        Ok(())
    }

    /// Refuses a demand between two domains that no rail joins any more.
    fn have_rails(&self) -> Result<(), String> {
        for &(from, to, _) in &self.pairs {
            let (a, b) = (from / self.rails, to / self.rails);
            if !self.known.joins(&[a, b], self.rails) {
                return Err(format!("domains {a} and {b}: no rail works at both"));
            }
        }
        Ok(())
    }

    /// What a run says of rails: bytes, and the time of the last, by sending domain, receiving domain and
    /// rail; of schemes that keep to rails.
    pub fn by_rail(&self, ends: &[Time]) -> BTreeMap<(u32, u32, u32), (u64, Time)> {
        let (mut heard, rails) = (BTreeMap::new(), self.rails);
        for (flow, &end) in self.flows.iter().zip(ends) {
            if let Ends::Nics(out, into) = flow.ends {
                let (bytes, last) = heard
                    .entry((out.0 / rails, into.0 / rails, out.0 % rails))
                    .or_insert((0, Time::ZERO));
                *bytes += flow.bytes;
                *last = end.max(*last);
            }
        }
        heard
    }

    /// When each pair's last byte has arrived, given when each flow's has.
    pub fn pair_ends(&self, ends: &[Time]) -> Vec<Time> {
        let rails = self.rails;
        let inside = |from: u32, to: u32| {
            let flow = self.inside[self.slot(from, to)];
            if flow == NONE { Time::ZERO } else { ends[flow as usize] }
        };
        let mut arrived = vec![Time::ZERO; self.pairs.len()];
        for &(pair, flow) in &self.carried {
            let (from, to, _) = self.pairs[pair as usize];
            let mut end = ends[flow as usize];
            let Flow { ends, before, after, .. } = self.flows[flow as usize];
            // What was forwarded for others between the same ends counts too: a little late, never early.
            match ends {
                Ends::Nics(out, into) => {
                    end = end.max(if before { inside(from, out.0) } else { Time::ZERO });
                    end = end.max(if after { inside(into.0, to) } else { Time::ZERO });
                }
                Ends::Lanes(domain, into) => {
                    let first = domain.0 * rails;
                    let last = (first..first + rails).map(|gpu| inside(from, gpu)).max();
                    end = end.max(last.unwrap_or(Time::ZERO));
                    end = end.max(if after { inside(into.0, to) } else { Time::ZERO });
                }
                Ends::Inside(..) => {}
            }
            arrived[pair as usize] = arrived[pair as usize].max(end);
        }
        arrived
    }

    /// Puts the flow at `index` into the open phase of `orders`; `route` appends a path between two NICs.
    ///
    /// # Errors
    /// What `route` says.
    pub fn order(
        &self,
        index: usize,
        fabric: &Fabric,
        route: impl Fn(NicId, NicId, u64, &mut Vec<LinkId>) -> Result<(), String>,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let flow = &self.flows[index];
        match flow.ends {
            Ends::Inside(from, to) => fabric.scale_up_path(from, to, orders.path()),
            Ends::Nics(from, to) => {
                route(from, to, key.wrapping_add(index as u64), orders.path())?;
            }
            Ends::Lanes(domain, to) => {
                for nic in self.known.left(fabric.cluster(), domain) {
                    route(nic, to, key, orders.path())?;
                    orders.lane();
                }
            }
        }
        orders.flow(Bytes::new(flow.bytes));
        Ok(())
    }
}

/// By how much forwarding delays the first byte: a unit over the two links of the scale-up network.
pub(crate) fn forwarding(cluster: &Cluster, unit: Bytes) -> Time {
    cluster.scale_up_delay_ps * 2 + cluster.scale_up_bps.time_for(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RAILS: &str = r#"{"kind": "rails", "chunk": 100, "queue_pairs": 8, "deal": "lpt"}"#;

    fn scheme(json: &str) -> BalancerSpec {
        serde_json::from_str(json).expect("a balancer")
    }

    fn schemes() -> impl Strategy<Value = BalancerSpec> {
        prop::sample::select(vec![
            r#"{"kind": "ecmp"}"#,
            r#"{"kind": "reps", "paths": 4}"#,
            RAILS,
            r#"{"kind": "rails", "chunk": 64, "queue_pairs": 1, "deal": "both"}"#,
        ])
        .prop_map(scheme)
    }

    proptest! {
        /// Whatever the scheme, every pair is carried, and what leaves arrives.
        #[test]
        fn bytes_are_conserved(
            scheme in schemes(),
            demand in prop::collection::vec((0u32..12, 0u32..12, 0u64..900), 0..40),
        ) {
            // The third, the fourth and the sixth domain of a larger cluster.
            let gpu = |i: u32| if i < 8 { 8 + i } else { 12 + i };
            let demand: Vec<_> = demand.iter().map(|&(i, j, bytes)| (gpu(i), gpu(j), bytes)).collect();
            let flows = Flows::new(
                &Cluster::of(24, 4), &[2, 3, 5], &scheme, demand.iter().copied(), &Known::default(),
            )
            .map_err(TestCaseError::fail)?;
            let between: u64 =
                demand.iter().filter(|(i, j, _)| i / 4 != j / 4).map(|&(_, _, bytes)| bytes).sum();
            prop_assert_eq!(flows.received.iter().sum::<u64>(), between);
            prop_assert_eq!(flows.pairs.iter().map(|p| p.2).sum::<u64>(), between);
            let crossing = |flow: &&Flow| !matches!(flow.ends, Ends::Inside(..));
            prop_assert_eq!(
                flows.flows.iter().filter(crossing).map(|f| f.bytes).sum::<u64>(), between
            );
            if !lanes(&scheme) {
                prop_assert_eq!(flows.sent.iter().sum::<u64>(), between);
            }
            let mut carried = vec![0; flows.pairs.len()];
            for &(pair, flow) in &flows.carried {
                let (from, to, _) = flows.pairs[pair as usize];
                carried[pair as usize] += flows.flows[flow as usize].bytes;
                match flows.flows[flow as usize].ends {
                    Ends::Nics(a, b) => prop_assert_eq!((a.0 / 4, b.0 / 4), (from / 4, to / 4)),
                    Ends::Lanes(a, b) => prop_assert_eq!((a.0, b.0), (from / 4, to)),
                    Ends::Inside(..) => prop_assert!(false, "a pair of one domain"),
                }
            }
            for (carried, &(.., bytes)) in carried.into_iter().zip(&flows.pairs) {
                prop_assert!(carried >= bytes);
            }
        }
    }

    /// One GPU sends 800 B to one GPU: eight chunks over four rails, two forwarded by each.
    #[test]
    fn chunks_are_forwarded_at_both_ends() {
        let flows = Flows::new(
            &Cluster::of(8, 4),
            &[0, 1],
            &scheme(RAILS),
            [(1, 6, 800)],
            &Known::default(),
        )
        .expect("rails");
        assert_eq!(flows.sent, [200, 200, 200, 200, 0, 0, 0, 0]);
        assert_eq!(flows.received, [0, 0, 0, 0, 200, 200, 200, 200]);
        let inside: Vec<_> = flows
            .flows
            .iter()
            .filter_map(|flow| match flow.ends {
                Ends::Inside(from, to) => Some((from.0, to.0, flow.bytes)),
                _ => None,
            })
            .collect();
        let mut sorted = inside;
        sorted.sort_unstable();
        assert_eq!(
            sorted,
            [(1, 0, 200), (1, 2, 200), (1, 3, 200), (4, 6, 200), (5, 6, 200), (7, 6, 200)]
        );
        // Rail 1 needs no forwarding at the source, rail 2 none at the destination.
        for flow in &flows.flows {
            if let Ends::Nics(from, to) = flow.ends {
                assert_eq!((flow.before, flow.after), (from.0 != 1, to.0 != 6));
            }
        }
    }

    /// Eight queue pairs a rail and one destination: eight flows of a chunk each.
    #[test]
    fn chunks_take_queue_pairs_in_turn() {
        let flows = Flows::new(
            &Cluster::of(4, 2),
            &[0, 1],
            &scheme(RAILS),
            [(0, 2, 2_400)],
            &Known::default(),
        )
        .expect("rails");
        let nics = flows.flows.iter().filter(|flow| matches!(flow.ends, Ends::Nics(..)));
        let sizes: Vec<u64> = nics.map(|flow| flow.bytes).collect();
        assert_eq!(sizes.len(), 16);
        assert!(sizes.iter().all(|&bytes| bytes == 100 || bytes == 200), "{sizes:?}");
    }
}
