//! From a network to parts: flat arrays, ports by router, about as many in each part.

use super::Part;
use super::here::Scratch;
use super::state::{BLOCK, NAP, Places, Port, Queue, Router, Rules, Terminal};
use super::wires::{Mail, NOBODY, Wires};
use crate::settings::{Arbitration, Credits, Settings};
use crate::wheel::Wheel;
use lightloom_fabric::routers::Network;

/// Cuts a network into parts of about equally many ports.
pub(crate) fn cut(
    network: &Network,
    settings: &Settings,
    shortest: u8,
    parts: usize,
) -> (Vec<Part>, Places) {
    let partition = CutNetwork::new(network, settings, parts);
    let made = (0..partition.parts).map(|part| partition.part(part as u8, shortest)).collect();
    (made, partition.places)
}

/// Where everything goes.
struct CutNetwork<'a> {
    network: &'a Network,
    settings: &'a Settings,
    places: Places,
    /// How many there are, which may be fewer than were asked for.
    parts: usize,
    /// By router: its part, which rises, and its first port there.
    part_of: Vec<u8>,
    first: Vec<u32>,
}

impl<'a> CutNetwork<'a> {
    fn new(network: &'a Network, settings: &'a Settings, parts: usize) -> Self {
        let routers = network.routers();
        let mut terminals_at = vec![0u16; routers as usize];
        let mut places = Places { router: network.terminals().to_vec(), port: Vec::new() };
        for &router in network.terminals() {
            places.port.push(network.ports(router) + terminals_at[router as usize]);
            terminals_at[router as usize] += 1;
        }
        let size = |router: u32| u64::from(network.ports(router) + terminals_at[router as usize]);
        let all: u64 = (0..routers).map(size).sum();
        let (mut part_of, mut first) = (vec![0u8; routers as usize], vec![0u32; routers as usize]);
        let (mut seen, mut in_part, mut at) = (0u64, 0u64, 0usize);
        for router in 0..routers {
            if seen * parts as u64 >= (at as u64 + 1) * all && at + 1 < parts {
                (at, in_part) = (at + 1, 0);
            }
            part_of[router as usize] = at as u8;
            first[router as usize] = in_part as u32;
            in_part += size(router);
            seen += size(router);
        }
        CutNetwork { network, settings, places, parts: at + 1, part_of, first }
    }

    fn part(&self, me: u8, shortest: u8) -> Part {
        let settings = self.settings;
        let start = self.part_of.partition_point(|&part| part < me) as u32;
        let range = start..self.part_of.partition_point(|&part| part <= me) as u32;
        let vcs = settings.vcs.max(settings.injection_vcs);
        let most = 1 + (u32::from(settings.buffer) - 1) / u32::from(shortest.max(1));
        // Terminals of one router are together, and routers' terminals in the order of routers, or a
        // part would not hold a range of them.
        let Places { router, port } = &self.places;
        let mut mine: Vec<u32> =
            (0..router.len() as u32).filter(|&t| range.contains(&router[t as usize])).collect();
        mine.sort_by_key(|&t| (router[t as usize], port[t as usize]));
        let mut part = Part {
            rules: Rules {
                shift: u32::from(vcs).next_power_of_two().trailing_zeros(),
                ring_shift: most.next_power_of_two().trailing_zeros(),
                oldest: settings.arbitration == Arbitration::Oldest,
                least: shortest,
                ideal: settings.credits == Credits::Ideal,
                pipeline: settings.pipeline,
                whole: settings.buffer % u16::from(settings.packet) == 0
                    && shortest == settings.packet,
                first_router: range.start,
                me,
            },
            first_terminal: mine.first().copied().unwrap_or(0),
            active: vec![0; range.len().div_ceil(64)],
            wakes: Wheel::new(NAP, 1),
            mail: (0..self.parts).map(|_| Mail::default()).collect(),
            ..Part::default()
        };
        let mut terminals = mine.iter().peekable();
        for at in range {
            let mut count = 0;
            while terminals.next_if(|&&terminal| router[terminal as usize] == at).is_some() {
                count += 1;
            }
            self.add_router(&mut part, at, count);
        }
        self.make_room(&mut part);
        part
    }

    /// Adds a router with its channels and terminals.
    fn add_router(&self, part: &mut Part, router: u32, terminals: u32) {
        let (channels, begin) = (self.network.ports(router), part.ports.len() as u32);
        for port in 0..channels {
            part.ports.push(Port {
                router: router - part.rules.first_router,
                ..self.channel(part.rules.me, router, port)
            });
        }
        let rounds =
            part.ports[begin as usize..].iter().map(|port| port.width_out.max(port.width_in));
        let rounds = rounds.max().unwrap_or(1);
        for _ in 0..terminals {
            part.terminals.push(Terminal {
                port: part.ports.len() as u32,
                free: ((1u32 << self.settings.injection_vcs) - 1) as u16,
                backlogged: false,
                wake: u64::MAX,
            });
            part.ports.push(Port {
                width_in: self.settings.injection,
                width_out: self.settings.ejection,
                down_part: part.rules.me,
                up_part: part.rules.me,
                flit_delay: 1,
                credit_delay: 1,
                router: router - part.rules.first_router,
                // Its number among the part's terminals.
                up: part.terminals.len() as u32 - 1,
                ..Port::default()
            });
        }
        let ports = (part.ports.len() as u32 - begin) as u16;
        let (masks, words) = (part.masks.len() as u32, ports.div_ceil(64));
        for (local, port) in (0..).zip(&mut part.ports[begin as usize..]) {
            port.word = masks + local / 64;
            port.bit = (local % 64) as u8;
            port.words = words as u8;
        }
        part.routers.push(Router { first: begin, ports, channels, masks, words, rounds });
        part.masks.resize(part.masks.len() + 2 * usize::from(words), 0);
    }

    /// A port with a channel, at least one way.
    fn channel(&self, me: u8, router: u32, port: u16) -> Port {
        let (out, into) = (self.network.out(router, port), self.network.into(router, port));
        let part = |router: u32| self.part_of[router as usize];
        let port = |router: u32, port: u16| self.first[router as usize] + u32::from(port);
        Port {
            width_in: into.map_or(0, |c| c.width),
            width_out: out.map_or(0, |c| c.width),
            down_part: out.map_or(me, |c| part(c.to.router)),
            up_part: into.map_or(me, |c| part(c.from.router)),
            flit_delay: 1 + out.map_or(0, |c| c.delay) + self.settings.pipeline,
            credit_delay: match self.settings.credits {
                Credits::Ideal => 1,
                Credits::Link => 1 + into.map_or(0, |c| c.delay),
            },
            down: out.map_or(0, |c| port(c.to.router, c.to.port)),
            up: into.map_or(0, |c| port(c.from.router, c.from.port)),
            ..Port::default()
        }
    }

    /// Makes room in a part that has all its routers: buffers, wheels, and the scratch of a cycle.
    fn make_room(&self, part: &mut Part) {
        let Rules { shift, ring_shift, .. } = part.rules;
        let queues = part.ports.len() << shift;
        part.queues = vec![Queue::default(); queues];
        part.ring = vec![NOBODY; queues << ring_shift];
        part.outs = vec![self.settings.buffer; queues];
        let blocks = part.ports.len().div_ceil(1 << BLOCK);
        let delay = self.network.channels().iter().map(|c| c.delay).max().unwrap_or(0);
        let span = u64::from(delay) + u64::from(self.settings.pipeline) + 2;
        let back = part.ports.iter().map(|port| port.credit_delay).max().unwrap_or(1);
        part.wires = Wires::new(blocks, shift, span, back.into());
        let widest = part.routers.iter().map(|router| router.ports).max().unwrap_or(0);
        part.scratch = Scratch::new(widest.into(), shift);
        part.again.extend((0..part.terminals.len() as u32).map(|terminal| (terminal, NOBODY)));
    }
}
