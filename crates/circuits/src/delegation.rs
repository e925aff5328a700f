//! How an all-to-all uses a region's circuits (MixNet Section 5.3, "Topology-aware EP").
//!
//! Modelled: what one server sends another leaves through delegate GPUs, those whose NIC has a
//! circuit to the other server; without a circuit, those on packet switches. Bytes are gathered at
//! the delegates over the scale-up network, exchanged between servers while GPUs of one server
//! exchange theirs, and scattered at the other end. The bytes of a pair are shared over its
//! delegates evenly; within that, a GPU's bytes take its own NIC, else the NIC that belongs to their
//! destination, else what is left. Packet NIC `i` sends to packet NIC `i`.
//! With `share_eps`, a pair that has circuits sends some bytes over packet switches too: the least
//! for which no circuit outlasts the busiest server's packet NICs, or its own circuits.
//! Ignored: other traffic on the packet switches, and their core. Failed NICs.
//! Checked: every byte of every (source, destination) pair is followed through its legs and hops;
//! the balance of delegates; the sharing against bisection.

mod lanes;
mod layout;
mod sharing;

pub use layout::{Layout, RouteOptions};

use crate::ports::PortMap;
use lanes::Lane;
use layout::Entry;
use std::collections::BTreeMap;

/// Bytes between two GPUs of a server, over its scale-up network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Index of the server in its region.
    pub server: u16,
    /// The sending GPU, by index in the server.
    pub from: u16,
    /// The receiving GPU, by index in the server.
    pub to: u16,
    /// What is sent \[B\], not zero.
    pub bytes: u64,
}

/// Bytes between two NICs, over a circuit or packet switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The sending `(server, NIC of the server)`.
    pub from: (u16, u16),
    /// The receiving `(server, NIC of the server)`.
    pub to: (u16, u16),
    /// Over a circuit; otherwise over packet switches.
    pub circuit: bool,
    /// What is sent \[B\], not zero.
    pub bytes: u64,
}

/// A part of what one GPU sends another, and the NICs that carry it between servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The sending GPU, in the region.
    pub source: u32,
    /// The receiving GPU, in the region.
    pub destination: u32,
    /// Where it begins in what the one sends the other \[B\].
    pub offset: u64,
    /// How it goes, and how much it is.
    pub hop: Hop,
}

/// An all-to-all's transfers: `gather`, then `exchange` beside `local`, then `scatter`. At most one
/// entry for any two GPUs, or NICs, in each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// From each GPU to the delegates of its server.
    pub gather: Vec<Leg>,
    /// Between delegates' NICs.
    pub exchange: Vec<Hop>,
    /// Between GPUs of one server, at the same time as `exchange`.
    pub local: Vec<Leg>,
    /// From the delegates to the destinations.
    pub scatter: Vec<Leg>,
    /// `gather`, `local` and `scatter` together, where [`Router::merged`] was asked.
    pub handed: Vec<Leg>,
}

/// Routes all-to-alls, one after the other, in the same buffers.
#[derive(Clone, Debug, Default)]
pub struct Router {
    routing: Routing,
    /// Demand sorted by (source server, destination server); entry `k` of `starts` is where the
    /// pair's part begins.
    sorted: Vec<Entry>,
    starts: Vec<u32>,
    between: Vec<u64>,
    /// By GPU of the region: its server, and its index there.
    place: Vec<(u16, u16)>,
    over_packets: Vec<u64>,
    lanes: Vec<Lane>,
    /// GPUs of a server.
    gpus: usize,
    /// Bytes by (server, from, to).
    gather: Vec<u64>,
    local: Vec<u64>,
    scatter: Vec<u64>,
}

/// [`Router::route`] with fresh buffers.
///
/// # Panics
/// As [`Router::route`].
pub fn route(
    demand: &[(u32, u32, u64)],
    ports: &PortMap,
    layout: &Layout,
    options: &RouteOptions,
) -> Routing {
    let mut router = Router::default();
    router.route(demand, ports, layout, options);
    router.routing
}

impl Router {
    /// Routes `(source GPU, destination GPU, bytes)`, with GPUs numbered within the region; what a
    /// GPU sends itself stays where it is.
    ///
    /// # Panics
    /// If a GPU is not of the region, `ports` and `layout` disagree on servers or optical ports, or
    /// `layout` has no packet NIC or names a NIC or GPU beyond its own.
    ///
    /// See [the module](super) for an example.
    pub fn route(
        &mut self,
        demand: &[(u32, u32, u64)],
        ports: &PortMap,
        layout: &Layout,
        options: &RouteOptions,
    ) -> &Routing {
        self.assign_lanes(demand, ports, layout, options, |_, _, _, _, _| {});
        &self.routing
    }

    /// Which bytes take which NICs: as [`Router::route`], for whoever sends them. Parts of a pair of GPUs are in the
    /// order of their offsets; what stays in a server is left out.
    ///
    /// ```
    /// use lightloom_circuits::{Layout, PortMap, RouteOptions, Router};
    /// // Two servers of two GPUs; NIC 0 leads to packet switches, NICs 1 and 2 have circuits.
    /// let layout = Layout {
    ///     servers: 2,
    ///     gpus_per_server: 2,
    ///     packet_nics: vec![0],
    ///     optical_nics: vec![1, 2],
    ///     nic_gpu: vec![0, 0, 1],
    /// };
    /// let mut ports = PortMap::dark(2, 2);
    /// ports.connect((0, 0), (1, 0));
    /// ports.connect((0, 1), (1, 1));
    /// let options = RouteOptions { share_eps: false, optical_bps: 0, packet_bps: 0 };
    /// let parts = Router::default().parts(&[(0, 2, 100)], &ports, &layout, &options);
    /// let taken = |part: &lightloom_circuits::Part| (part.offset, part.hop.from.1, part.hop.bytes);
    /// assert_eq!(parts.iter().map(taken).collect::<Vec<_>>(), [(0, 1, 50), (50, 2, 50)]);
    /// ```
    ///
    /// # Panics
    /// As [`Router::route`], and if two entries of `demand` are between the same GPUs.
    pub fn parts(
        &mut self,
        demand: &[(u32, u32, u64)],
        ports: &PortMap,
        layout: &Layout,
        options: &RouteOptions,
    ) -> Vec<Part> {
        let gpus = u32::from(layout.gpus_per_server);
        let mut parts: Vec<Part> = Vec::new();
        let mut reached = BTreeMap::new();
        self.assign_lanes(demand, ports, layout, options, |a, b, entry, lane, bytes| {
            let source = a as u32 * gpus + u32::from(entry.0);
            let destination = b as u32 * gpus + u32::from(entry.1);
            let offset: &mut u64 = reached.entry((source, destination)).or_default();
            let (from, to) = ((a as u16, lane.nics.0), (b as u16, lane.nics.1));
            let hop = Hop { from, to, circuit: lane.circuit, bytes };
            parts.push(Part { source, destination, offset: *offset, hop });
            *offset += bytes;
        });
        let pairs =
            demand.iter().filter(|(from, to, bytes)| *bytes > 0 && from / gpus != to / gpus);
        assert_eq!(pairs.count(), reached.len(), "one entry for two GPUs");
        parts.retain(|part| part.hop.bytes > 0);
        parts.sort_by_key(|part| (part.source, part.destination, part.offset));
        parts
    }

    /// As [`Router::route`], over lanes that are given: for two servers, by index, the NICs of each lane
    /// between them, over which their bytes are shared evenly. Hops are in the order of lanes; a lane
    /// without a byte is left out.
    ///
    /// ```
    /// use lightloom_circuits::{Layout, Router};
    /// // Two servers of two GPUs, NIC i to NIC i: all comes from GPU 0, and half of it leaves by NIC 1.
    /// let layout = Layout {
    ///     servers: 2,
    ///     gpus_per_server: 2,
    ///     packet_nics: vec![0, 1],
    ///     optical_nics: vec![],
    ///     nic_gpu: vec![0, 1],
    /// };
    /// let mut router = Router::default();
    /// let routing = router.route_over(&[(0, 2, 100)], &layout, |_, _| vec![(0, 0), (1, 1)]);
    /// assert_eq!(routing.exchange.iter().map(|hop| hop.bytes).collect::<Vec<_>>(), [50, 50]);
    /// assert_eq!((routing.gather[0].bytes, routing.scatter[0].bytes), (50, 50));
    /// ```
    ///
    /// # Panics
    /// If a GPU is not of the region, `layout` names a GPU beyond its own, or there are no lanes.
    pub fn route_over<L: IntoIterator<Item = (u16, u16)>>(
        &mut self,
        demand: &[(u32, u32, u64)],
        layout: &Layout,
        mut lanes: impl FnMut(usize, usize) -> L,
    ) -> &Routing {
        self.sort(demand, layout);
        let open = |open: &mut Vec<Lane>, (a, b), bytes, _| {
            lanes::open_all(open, lanes(a, b), bytes, layout);
        };
        self.over_lanes(layout, open, |_, _, _, _, _| {});
        &self.routing
    }

    /// What was routed last, with [`Routing::handed`].
    pub fn merged(&mut self) -> &Routing {
        for (all, more) in self.gather.iter_mut().zip(self.local.iter().zip(&self.scatter)) {
            *all += more.0 + more.1;
        }
        collect(&self.gather, self.gpus, &mut self.routing.handed);
        &self.routing
    }

    /// Tells `each` of every part of every entry: servers, the entry, the lane, and the bytes.
    fn assign_lanes(
        &mut self,
        demand: &[(u32, u32, u64)],
        ports: &PortMap,
        layout: &Layout,
        options: &RouteOptions,
        each: impl FnMut(usize, usize, (u16, u16), &Lane, u64),
    ) {
        layout.check(ports);
        self.sort(demand, layout);
        self.over_packets.clear();
        self.over_packets.resize(self.between.len(), 0);
        if options.share_eps {
            sharing::over_packets(&self.between, ports, layout, options, &mut self.over_packets);
        }
        let over_packets = std::mem::take(&mut self.over_packets);
        let open = |lanes: &mut Vec<Lane>, ends, bytes, pair: usize| {
            lanes::open(lanes, ends, bytes, over_packets[pair], ports, layout);
        };
        self.over_lanes(layout, open, each);
        self.over_packets = over_packets;
    }

    /// Shares what was sorted over the lanes that `open` opens for each pair of servers.
    fn over_lanes(
        &mut self,
        layout: &Layout,
        mut open: impl FnMut(&mut Vec<Lane>, (usize, usize), u64, usize),
        mut each: impl FnMut(usize, usize, (u16, u16), &Lane, u64),
    ) {
        let (n, gpus) = (usize::from(layout.servers), usize::from(layout.gpus_per_server));
        self.gpus = gpus;
        let nearest = layout.delegates();
        self.routing.exchange.clear();
        self.routing.handed.clear();
        for legs in [&mut self.gather, &mut self.scatter] {
            legs.clear();
            legs.resize(n * gpus * gpus, 0);
        }
        for pair in 0..n * n {
            let (a, b) = (pair / n, pair % n);
            if a == b || self.between[pair] == 0 {
                continue;
            }
            open(&mut self.lanes, (a, b), self.between[pair], pair);
            for lane in self.lanes.iter().filter(|lane| lane.left > 0) {
                self.routing.exchange.push(Hop {
                    from: (a as u16, lane.nics.0),
                    to: (b as u16, lane.nics.1),
                    circuit: lane.circuit,
                    bytes: lane.left,
                });
            }
            let entries = self.starts[pair] as usize..self.starts[pair + 1] as usize;
            let (gather, scatter) = (&mut self.gather, &mut self.scatter);
            lanes::fill(
                &mut self.lanes,
                &mut self.sorted[entries],
                &nearest,
                |entry, lane, bytes| {
                    let (source, destination) = (usize::from(entry.0), usize::from(entry.1));
                    let (out, into) = (usize::from(lane.gpus.0), usize::from(lane.gpus.1));
                    gather[(a * gpus + source) * gpus + out] += bytes;
                    scatter[(b * gpus + into) * gpus + destination] += bytes;
                    each(a, b, entry, lane, bytes);
                },
            );
        }
        collect(&self.gather, gpus, &mut self.routing.gather);
        collect(&self.local, gpus, &mut self.routing.local);
        collect(&self.scatter, gpus, &mut self.routing.scatter);
    }

    /// Sorts the demand by pairs of servers (a counting sort: stable), and adds it up.
    fn sort(&mut self, demand: &[(u32, u32, u64)], layout: &Layout) {
        let (n, gpus) = (usize::from(layout.servers), usize::from(layout.gpus_per_server));
        // Looked up four times an entry; cheaper than dividing.
        self.place.clear();
        let local = 0..layout.gpus_per_server;
        self.place.extend((0..layout.servers).flat_map(|s| local.clone().map(move |gpu| (s, gpu))));
        let place = |gpu: u32| match self.place.get(gpu as usize) {
            Some(&(server, local)) => (usize::from(server), local),
            None => panic!("GPU {gpu} of {}", n * gpus),
        };
        for table in [&mut self.between, &mut self.local] {
            table.clear();
        }
        self.between.resize(n * n, 0);
        self.local.resize(n * gpus * gpus, 0);
        self.starts.clear();
        self.starts.resize(n * n + 1, 0);
        for &(source, destination, bytes) in demand {
            let ((a, from), (b, to)) = (place(source), place(destination));
            if a == b {
                self.local[(a * gpus + usize::from(from)) * gpus + usize::from(to)] += bytes;
            } else {
                self.between[a * n + b] += bytes;
                self.starts[a * n + b] += 1;
            }
        }
        // Now the end of each pair; filling from the back leaves the beginning.
        let mut end = 0;
        for start in &mut self.starts {
            end += *start;
            *start = end;
        }
        self.sorted.clear();
        self.sorted.resize(end as usize, Entry::default());
        for &(source, destination, bytes) in demand.iter().rev() {
            let ((a, source), (b, destination)) = (place(source), place(destination));
            if a != b {
                let start = &mut self.starts[a * n + b];
                *start -= 1;
                self.sorted[*start as usize] = Entry { source, destination, bytes };
            }
        }
    }
}

/// Turns a table of bytes by (server, from, to) into legs; a GPU reaches itself for nothing.
fn collect(table: &[u64], gpus: usize, legs: &mut Vec<Leg>) {
    legs.clear();
    for (row, bytes) in table.chunks_exact(gpus).enumerate() {
        let (server, from) = (row / gpus, row % gpus);
        legs.extend(bytes.iter().enumerate().filter(|&(to, &bytes)| bytes > 0 && to != from).map(
            |(to, &bytes)| Leg { server: server as u16, from: from as u16, to: to as u16, bytes },
        ));
    }
}

#[cfg(test)]
mod tests;
