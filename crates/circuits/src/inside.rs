//! Circuits that change inside one all-to-all of a region: for switches that take microseconds.
//!
//! Modelled: optical port `p` of every server is plane `p`, one direction at a time, and SWOT's
//! scheduler of uneven all-to-alls ([`Ports`]) books circuits on the planes, from those that stand. As
//! with one matching, bytes are gathered at the delegates, exchanged, and scattered; the first circuits
//! are set while GPUs gather. Packet NICs take whole pairs of servers, small ones that hardly pay for a
//! circuit first, as long as the circuits' busiest port gets sooner done by it; with
//! [`Inside::share_eps`] they take parts of pairs too.
//! Gathering and scattering last, in a plan, as long as the busiest GPU's bytes.
//! Ignored: joining port `p` to another's port `q`, which a switch could; other traffic on the packet
//! switches; failed NICs.
//! Checked: bytes are conserved pair by pair, through GPUs, circuits and packet NICs; ports serve one
//! at a time; nothing is faster than all NICs together; even demands come near that.
//! Source: MixNet, Section 5 (delegation), with the scheduler named as future work in SWOT, Section 6.

mod offload;

use crate::delegation::{Hop, Layout, Leg, RouteOptions, Router, Routing};
use crate::ports::PortMap;
use lightloom_swot::Planes;
use lightloom_swot::alltoall::{Entry, Hold, Ports, completion, hand_over};
use lightloom_units::{BitRate, Bytes, Time};
use offload::ServerLines;
use std::collections::BTreeMap;

/// How often packet NICs' share is sought anew, knowing how long circuits took with the one before.
const ROUNDS: usize = 3;

/// What one GPU sends another, both numbered within the region.
type Pair = (u32, u32, u64);

/// A region, and how fast its parts are.
#[derive(Clone, Debug)]
pub struct Inside {
    /// Where NICs are.
    pub layout: Layout,
    /// The circuits: a plane for each optical port of a server.
    pub circuits: Planes,
    /// Rate of a packet NIC.
    pub packet_bps: BitRate,
    /// Delay through packet switches.
    pub packet_delay_ps: Time,
    /// Rate of a GPU on its server's scale-up network, each way.
    pub scale_up_bps: BitRate,
    /// Delay between two GPUs of a server.
    pub scale_up_delay_ps: Time,
    /// Whether a pair of servers may use circuits and packet NICs at once.
    pub share_eps: bool,
}

/// An all-to-all with circuits that change inside it. Times count from its beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InsidePlan {
    /// From GPUs to those whose NICs have the circuits.
    pub gather: Vec<Leg>,
    /// The circuits, in order of transmitter, then time. Nodes are servers of the region, planes
    /// optical ports.
    pub holds: Vec<Hold>,
    /// From the GPUs whose NICs have the circuits to the destinations.
    pub scatter: Vec<Leg>,
    /// What goes over packet switches, with its own gathering and scattering, and what stays inside
    /// servers.
    pub packets: Routing,
    /// When all is gathered.
    pub gathered: Time,
    /// From when on circuits carry: when all is gathered, or what that was thought to be.
    pub ready: Time,
    /// When the last circuit has carried its last byte, and scattering begins.
    pub carried: Time,
    /// When all is over.
    pub end: Time,
}

impl Inside {
    /// Ports joined as a matching's circuits are; those between ports of unlike number count as dark.
    ///
    /// ```
    /// use lightloom_circuits::{Inside, PortMap};
    /// let _ports = Inside::ports(&PortMap::dark(8, 6));
    /// ```
    pub fn ports(matching: &PortMap) -> Ports {
        let (n, degree) = (matching.servers(), matching.degree());
        let mut ports = Ports::dark(n as u32, degree as u32);
        for (server, port) in (0..n).flat_map(|s| (0..degree).map(move |port| (s, port))) {
            if let Some((peer, at)) = matching.peer(server, port)
                && usize::from(at) == port
            {
                ports.join(server as u32, peer.into(), port as u32);
            }
        }
        ports
    }

    /// Plans an all-to-all of `(source GPU, destination GPU, bytes)` and leaves the ports as they are
    /// after it.
    ///
    /// # Panics
    /// If a GPU is not of the region, or `ports` are of another one.
    ///
    /// ```
    /// use lightloom_circuits::{Inside, Layout, Router};
    /// use lightloom_swot::{Planes, alltoall::Ports};
    /// use lightloom_units::{BitRate, Time};
    /// // Three servers of a GPU with two NICs: one on packet switches, one optical.
    /// let inside = Inside {
    ///     layout: Layout {
    ///         servers: 3,
    ///         gpus_per_server: 1,
    ///         packet_nics: vec![0],
    ///         optical_nics: vec![1],
    ///         nic_gpu: vec![0, 0],
    ///     },
    ///     circuits: Planes {
    ///         planes: 1,
    ///         rate_bps: BitRate::from_gbps(400),
    ///         reconfiguration_ps: Time::from_us(10),
    ///         latency_ps: Time::ZERO,
    ///     },
    ///     packet_bps: BitRate::from_gbps(400),
    ///     packet_delay_ps: Time::ZERO,
    ///     scale_up_bps: BitRate::from_gbps(3_600),
    ///     scale_up_delay_ps: Time::ZERO,
    ///     share_eps: false,
    /// };
    /// // What is small goes over packet switches; the circuit is set twice for what is not.
    /// let demand = [(0, 1, 50_000_000), (0, 2, 50_000_000), (1, 2, 100_000)];
    /// let mut ports = Ports::dark(3, 1);
    /// let plan = inside.plan(&demand, &mut ports, &mut Router::default());
    /// assert_eq!(plan.packets.exchange.len() + plan.holds.len(), 3);
    /// assert!(plan.end < Time::from_us(1_100)); // 1 ms over the circuit alone would be 2
    /// ```
    pub fn plan(&self, demand: &[Pair], ports: &mut Ports, router: &mut Router) -> InsidePlan {
        let n = usize::from(self.layout.servers);
        let per_server = u32::from(self.layout.gpus_per_server);
        let (mut between, mut local) = (BTreeMap::<(u32, u32), Vec<Pair>>::new(), Vec::new());
        let mut bytes = vec![0; n * n];
        for &(from, to, amount) in demand {
            let (a, b) = (from / per_server, to / per_server);
            if a == b {
                local.push((from, to, amount));
            } else {
                between.entry((a, b)).or_default().push((from, to, amount));
                bytes[a as usize * n + b as usize] += amount;
            }
        }

        let stands: Vec<bool> =
            (0..n * n).map(|at| ports.stands((at / n) as u32, (at % n) as u32)).collect();

        let mut best: Option<(InsidePlan, Ports)> = None;
        let (mut ready, mut stretch) = (self.gathering(&bytes), 1.0);
        for _ in 0..ROUNDS {
            let (over_packets, estimate) = self.lines(&stands, stretch).offload(&bytes);
            let mut booked = ports.clone();
            let plan = self.around(&between, &local, &over_packets, &mut booked, ready, router);
            let took = plan.carried.saturating_sub(plan.ready).ps() as f64;
            ready = plan.gathered;
            let done = plan.holds.is_empty();
            if best.as_ref().is_none_or(|(known, _)| plan.end < known.end) {
                best = Some((plan, booked));
            }
            if done || estimate <= 0.0 {
                break;
            }
            stretch = (stretch * took / estimate).clamp(0.25, 8.0);
        }
        let (plan, booked) = best.unwrap_or_else(|| (InsidePlan::default(), ports.clone()));
        *ports = booked;
        ports.rest();
        plan
    }

    /// When an all-to-all with one matching is over, on the terms of [`Inside::plan`]; `ready` says from
    /// when on a circuit can carry data.
    pub fn with_matching(&self, routing: &Routing, ready: impl Fn(&Hop) -> Time) -> Time {
        let gathered = self.legs(&[&routing.gather]);
        let circuits = routing.exchange.iter().filter(|hop| hop.circuit).map(|hop| {
            let Planes { latency_ps, rate_bps, .. } = self.circuits;
            ready(hop).max(gathered) + latency_ps + rate_bps.time_for(Bytes::new(hop.bytes))
        });
        let carried = circuits.max().unwrap_or(gathered);
        carried.max(gathered + self.beside(routing)) + self.legs(&[&routing.scatter])
    }

    /// Everything around the circuits of the bytes that do not go over packet NICs.
    fn around(
        &self,
        between: &BTreeMap<(u32, u32), Vec<Pair>>,
        local: &[Pair],
        over_packets: &[u64],
        ports: &mut Ports,
        ready: Time,
        router: &mut Router,
    ) -> InsidePlan {
        let n = usize::from(self.layout.servers);
        let mut packets = local.to_vec();
        let mut light: BTreeMap<(u32, u32), Vec<Pair>> = BTreeMap::new();
        for (&(a, b), pairs) in between {
            let part = over_packets[a as usize * n + b as usize];
            split(
                pairs,
                part,
                |pair| packets.push(pair),
                |pair| {
                    light.entry((a, b)).or_default().push(pair);
                },
            );
        }
        let sum = |pairs: &Vec<Pair>| pairs.iter().map(|pair| pair.2).sum();
        let entries: Vec<Entry> = light.iter().map(|(&(a, b), pairs)| (a, b, sum(pairs))).collect();
        let holds = ports.book_ahead(&entries, Time::ZERO, ready, &self.circuits);
        let dark = PortMap::dark(n, self.layout.optical_nics.len());
        let options = RouteOptions {
            share_eps: false,
            optical_bps: self.circuits.rate_bps.bps(),
            packet_bps: self.packet_bps.bps(),
        };
        let packets = router.route(&packets, &dark, &self.layout, &options).clone();
        let (gather, scatter) = self.delegates(&light, &holds);
        let mut plan = InsidePlan { gather, holds, scatter, packets, ..InsidePlan::default() };
        plan.gathered = self.legs(&[&plan.gather, &plan.packets.gather]);
        // Gathered later than was thought: all circuits come so much later.
        let late = plan.gathered.saturating_sub(ready);
        for hold in &mut plan.holds {
            hold.dark_ps += late;
            hold.start_ps += late;
            hold.end_ps += late;
        }
        plan.ready = ready + late;
        plan.carried = completion(&plan.holds).max(plan.gathered);
        plan.end = plan.carried.max(plan.gathered + self.beside(&plan.packets))
            + self.legs(&[&plan.scatter, &plan.packets.scatter]);
        plan
    }

    /// The legs between GPUs and the delegates that the circuits give each pair of servers.
    fn delegates(
        &self,
        light: &BTreeMap<(u32, u32), Vec<Pair>>,
        holds: &[Hold],
    ) -> (Vec<Leg>, Vec<Leg>) {
        let gpus = usize::from(self.layout.gpus_per_server);
        let mut carried: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
        for hold in holds {
            let by_gpu = carried.entry((hold.from, hold.to)).or_insert_with(|| vec![0; gpus]);
            let nic = self.layout.optical_nics[hold.plane as usize];
            by_gpu[usize::from(self.layout.nic_gpu[usize::from(nic)])] += hold.bytes.get();
        }
        // Bytes by (server, from, to).
        let (mut gather, mut scatter) = (BTreeMap::new(), BTreeMap::new());
        for ((&(a, b), pairs), by_gpu) in light.iter().zip(carried.values()) {
            let (mut from, mut to) = (vec![0; gpus], vec![0; gpus]);
            for &(source, destination, bytes) in pairs {
                from[source as usize % gpus] += bytes;
                to[destination as usize % gpus] += bytes;
            }
            hand_over(from, by_gpu.clone(), |gpu, nic, bytes| {
                *gather.entry((a as u16, gpu as u16, nic as u16)).or_insert(0) += bytes;
            });
            hand_over(to, by_gpu.clone(), |gpu, nic, bytes| {
                *scatter.entry((b as u16, nic as u16, gpu as u16)).or_insert(0) += bytes;
            });
        }
        let legs = |table: BTreeMap<(u16, u16, u16), u64>| {
            table.into_iter().map(|((server, from, to), bytes)| Leg { server, from, to, bytes })
        };
        (legs(gather).collect(), legs(scatter).collect())
    }

    /// What servers send and receive, nothing yet, with bytes taking `stretch` times as long as on a
    /// circuit that is never idle.
    fn lines<'a>(&self, stands: &'a [bool], stretch: f64) -> ServerLines<'a> {
        let lanes = |rate: BitRate, nics: usize| 8e12 / (rate.bps() as f64 * nics as f64);
        let optical = self.layout.optical_nics.len();
        let n = usize::from(self.layout.servers);
        ServerLines {
            n,
            stands,
            dark: self.circuits.reconfiguration_ps.ps() as f64 / optical as f64,
            circuit: stretch * lanes(self.circuits.rate_bps, optical),
            packet: lanes(self.packet_bps, self.layout.packet_nics.len()),
            share: self.share_eps,
            light: vec![0.0; 2 * n],
            packets: vec![0.0; 2 * n],
        }
    }

    /// How long gathering may take, before it is known which circuits there are.
    fn gathering(&self, bytes: &[u64]) -> Time {
        let n = usize::from(self.layout.servers);
        let sent = bytes.chunks(n).map(|row| row.iter().sum::<u64>()).max().unwrap_or(0);
        let each = sent / self.layout.optical_nics.len().max(1) as u64;
        self.scale_up_bps.time_for(Bytes::new(each)) + self.scale_up_delay_ps
    }

    /// How long legs inside servers take at once: as long as the busiest GPU's, in or out.
    fn legs(&self, parts: &[&[Leg]]) -> Time {
        let gpus = usize::from(self.layout.gpus_per_server);
        let mut loads = vec![[0u64; 2]; gpus * usize::from(self.layout.servers)];
        for leg in parts.iter().flat_map(|legs| legs.iter()) {
            let first = usize::from(leg.server) * gpus;
            loads[first + usize::from(leg.from)][0] += leg.bytes;
            loads[first + usize::from(leg.to)][1] += leg.bytes;
        }
        match loads.into_iter().flatten().max() {
            Some(bytes) if bytes > 0 => {
                self.scale_up_bps.time_for(Bytes::new(bytes)) + self.scale_up_delay_ps
            }
            _ => Time::ZERO,
        }
    }

    /// How long packet NICs take, and what stays inside servers.
    fn beside(&self, routing: &Routing) -> Time {
        let mut loads: BTreeMap<(bool, (u16, u16)), u64> = BTreeMap::new();
        for hop in routing.exchange.iter().filter(|hop| !hop.circuit) {
            *loads.entry((true, hop.from)).or_default() += hop.bytes;
            *loads.entry((false, hop.to)).or_default() += hop.bytes;
        }
        let packets = loads.into_values().max().map_or(Time::ZERO, |bytes| {
            self.packet_bps.time_for(Bytes::new(bytes)) + self.packet_delay_ps
        });
        packets.max(self.legs(&[&routing.local]))
    }
}

/// Splits pairs of GPUs in proportion: `part` bytes of all of them to `first`, the rest to `second`.
fn split(pairs: &[Pair], part: u64, mut first: impl FnMut(Pair), mut second: impl FnMut(Pair)) {
    let total: u64 = pairs.iter().map(|pair| pair.2).sum();
    let share = |bytes: u64| match total {
        0 => 0,
        _ => (u128::from(bytes) * u128::from(part) / u128::from(total)) as u64, // at most `part`
    };
    let mut before = 0;
    for &(from, to, bytes) in pairs {
        let taken = share(before + bytes) - share(before);
        before += bytes;
        if taken > 0 {
            first((from, to, taken));
        }
        if bytes > taken {
            second((from, to, bytes - taken));
        }
    }
}

#[cfg(test)]
mod tests;
