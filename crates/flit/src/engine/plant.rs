//! A fabric as routers: what is one node to a flit, which port each link has, how wide and how long
//! channels are in flits and cycles.
//!
//! A bundle of parallel links is that many channels, and a packet takes the one with the most room.
//! A GPU and its NIC are one router, for a path goes from the one straight on from the other, unless the
//! cluster has a host. An
//! optical switch is none: a circuit is one channel from NIC to NIC, as long as its two fibres.

use super::clock::Clock;
use super::settings::FlitEngine;
use crate::part::cut::cut;
use crate::part::{Part, Places};
use crate::settings::Settings;
use lightloom_engine::Patch;
use lightloom_fabric::routers::{ChannelKind, Network};
use lightloom_fabric::{Fabric, LinkId, NicId, NodeId, NodeKind};
use lightloom_units::BitRate;

/// The most flits that a channel may carry in a cycle.
const WIDEST: u64 = 64;
/// The most channels of a bundle; of a larger one, each is several links wide.
const MOST_LANES: u32 = 16;
/// The most packets that fit into a buffer.
const MOST_PACKETS: u64 = 120;

/// A hop of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    /// The first port of the bundle.
    pub port: u16,
    pub lanes: u8,
    /// Of virtual channels.
    pub class: u8,
}

pub(crate) struct Plant {
    pub clock: Clock,
    pub part: Part,
    pub places: Places,
    /// Length of a packet.
    pub packet: u8,
    /// By link: its first ports at either end.
    ends: Vec<(u16, u16)>,
    lanes: Vec<u8>,
    router_of: Vec<u32>,
    widths: Vec<u16>,
    delays: Vec<u16>,
    links: Vec<(NodeId, NodeId)>,
}

impl Plant {
    pub fn new(engine: &FlitEngine, fabric: &Fabric) -> Result<Plant, String> {
        let cluster = fabric.cluster();
        let links = fabric.links();
        let lanes: Vec<u8> =
            links.iter().map(|link| link.lanes.clamp(1, MOST_LANES) as u8).collect();
        let rates: Vec<u64> =
            links.iter().zip(&lanes).map(|(link, &n)| link.rate.bps() / u64::from(n)).collect();
        let slowest = rates.iter().copied().min().ok_or("a fabric without links")?;
        // One flit a cycle on what divides every rate, if no channel is too wide then; or else on the
        // slowest link, and what is left over of a faster one is lost: slower, never faster.
        let common = rates.iter().copied().fold(0, gcd);
        let fastest = rates.iter().copied().max().unwrap_or(slowest);
        let base = if fastest / common <= WIDEST { common } else { slowest };
        let clock = Clock::new(engine.flit_size, BitRate::from_bps(base));
        let widths: Vec<u16> = rates.iter().map(|rate| (rate / base).min(1 << 15) as u16).collect();
        let mut delays = Vec::with_capacity(links.len());
        for link in links {
            let cycles = clock.cycle(link.delay);
            delays.push(u16::try_from(cycles).ok().filter(|&c| c < 1 << 14).ok_or_else(|| {
                format!(
                    "a delay of {} is {cycles} cycles of {} flits: at most {} are possible, so \
                     flits must be larger",
                    link.delay,
                    engine.flit_size,
                    1 << 14
                )
            })?);
        }
        let mut router_of = vec![u32::MAX; fabric.nodes().len()];
        let own = if cluster.host.is_none() { cluster.nics() } else { 0 };
        for nic in (0..own).map(NicId) {
            if fabric.nodes().len() > fabric.nic_node(nic).index() {
                router_of[fabric.nic_node(nic).index()] = cluster.gpu_of(nic).0;
            }
        }
        let mut routers = cluster.gpus;
        for (at, node) in fabric.nodes().iter().enumerate() {
            match node.kind {
                NodeKind::Gpu => router_of[at] = at as u32,
                NodeKind::Nic if own > 0 => {}
                NodeKind::Ocs { .. } => {}
                _ => {
                    router_of[at] = routers;
                    routers += 1;
                }
            }
        }
        let mut network = Network::new("fabric", routers);
        for gpu in 0..cluster.gpus {
            network.terminal(gpu);
        }
        let mut ends = Vec::with_capacity(links.len());
        for (at, link) in links.iter().enumerate() {
            let (from, to) = (router_of[link.from.index()], router_of[link.to.index()]);
            ends.push(match (from, to) {
                (u32::MAX, u32::MAX) => (0, 0),
                (from, u32::MAX) => (dark_port(&mut network, from), 0),
                (u32::MAX, to) => (0, dark_port(&mut network, to)),
                (from, to) => {
                    let first = (network.ports(from), network.ports(to));
                    for _ in 0..lanes[at] {
                        network.simplex(from, to, widths[at], delays[at], ChannelKind::Long);
                    }
                    first
                }
            });
        }
        let widest = widths.iter().copied().max().unwrap_or(1);
        let packet = engine.packet.unwrap_or((4 * widest).min(255) as u8);
        let settings = engine.settings(packet, &widths, &delays);
        let (mut parts, places) = cut(&network, &settings, packet.div_ceil(2), 1);
        let mut part = parts.pop().ok_or("a fabric without routers")?;
        // A circuit is as long as two links.
        let longest = delays.iter().copied().max().unwrap_or(0);
        part.expect(2 * u64::from(longest));
        part.open_terminals();
        let links = links.iter().map(|link| (link.from, link.to)).collect();
        Ok(Plant { clock, part, places, packet, ends, lanes, router_of, widths, delays, links })
    }

    /// Makes a channel of a circuit, or takes it away.
    pub fn patch(&mut self, patch: &Patch) {
        let tx = patch.tx.index();
        let from = (self.router(self.links[tx].0), self.ends[tx].0);
        match patch.rx {
            None => self.part.unplug(from),
            Some(rx) => {
                let rx = rx.index();
                let to = (self.router(self.links[rx].1), self.ends[rx].1);
                let width = self.widths[tx].min(self.widths[rx]);
                self.part.plug(from, to, width, self.delays[tx] + self.delays[rx]);
            }
        }
    }

    fn router(&self, node: NodeId) -> u32 {
        self.router_of[node.index()]
    }

    /// The routers at which a path begins and ends.
    pub fn path_ends(&self, path: &[LinkId]) -> Option<(u32, u32)> {
        let (first, last) = (path.first()?, path.last()?);
        let ends =
            (self.router(self.links[first.index()].0), self.router(self.links[last.index()].1));
        let terminals = self.part.terminals();
        (ends.0 < terminals && ends.1 < terminals).then_some(ends)
    }

    /// The ports that a path leaves by, each with the class of virtual channels that it takes there:
    /// a class higher each time that the path goes down in the order of links, so that (class, link)
    /// always rises, and no circle of packets can wait for each other.
    pub fn hops(&self, path: &[LinkId], hops: &mut Vec<Hop>) {
        let mut class = 0u8;
        let mut last = 0;
        for (at, link) in path.iter().enumerate() {
            let link = link.index();
            if self.router_of[self.links[link].0.index()] == u32::MAX {
                continue; // the second fibre of a circuit
            }
            // A circuit's place in the order is that of its end, where its flits wait.
            let place = match self.router_of[self.links[link].1.index()] {
                u32::MAX => path.get(at + 1).map_or(link, |next| next.index()),
                _ => link,
            };
            class += u8::from(place < last);
            last = place;
            hops.push(Hop { port: self.ends[link].0, lanes: self.lanes[link], class });
        }
    }
}

fn dark_port(network: &mut Network, router: u32) -> u16 {
    let port = network.ports(router);
    network.dark_ports(router, 1);
    port
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl FlitEngine {
    /// Classes of virtual channels: each has two, so that a packet may be given one while another
    /// still holds the other.
    pub(crate) fn classes(&self) -> u8 {
        self.vcs / 2
    }

    fn settings(&self, packet: u8, widths: &[u16], delays: &[u16]) -> Settings {
        // What is on the way there and back, and what is being allocated meanwhile.
        let loops = widths.iter().zip(delays).map(|(&width, &delay)| {
            u64::from(width) * (4 * u64::from(delay) + 8 + 2 * u64::from(self.pipeline))
        });
        let long = u64::from(packet);
        let wanted = loops.max().unwrap_or(0) / 2 + 2 * long;
        let most = (MOST_PACKETS * long.div_ceil(2)).min(1 << 14);
        let buffer = self.buffer.map_or(wanted, u64::from).clamp(long, most) as u16;
        Settings {
            vcs: self.vcs,
            buffer,
            packet,
            credits: self.credits,
            arbitration: self.arbitration,
            injection: 1 << 10,
            ejection: 1 << 10,
            injection_vcs: 16,
            pipeline: self.pipeline,
            warm_up: 0,
            cycles: 1,
            seed: 0,
        }
    }
}
