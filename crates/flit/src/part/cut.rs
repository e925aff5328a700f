//! From a network to parts: flat arrays, ports by router, about as many in each part.

use super::{BLOCK, Mail, NAP, NEAR, NOBODY, Part, Places, Port, Queue, Router, Terminal};
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
    let routers = network.routers();
    let mut terminals_at = vec![0u16; routers as usize];
    let mut places = Places { router: network.terminals().to_vec(), port: Vec::new() };
    for &router in network.terminals() {
        places.port.push(network.ports(router) + terminals_at[router as usize]);
        terminals_at[router as usize] += 1;
    }
    let size = |router: u32| u64::from(network.ports(router) + terminals_at[router as usize]);
    let all: u64 = (0..routers).map(size).sum();
    // Which part each router is in, and its first port there.
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
    let made = (0..=at)
        .map(|part| {
            let from = part_of.iter().position(|&p| usize::from(p) == part).unwrap_or(0) as u32;
            let to = part_of.iter().rposition(|&p| usize::from(p) == part).map_or(0, |p| p + 1);
            let range = from..to as u32;
            Part::new(
                network,
                settings,
                shortest,
                (part as u8, at + 1),
                range,
                (&part_of, &first, &places),
            )
        })
        .collect();
    (made, places)
}

impl Part {
    fn new(
        network: &Network,
        settings: &Settings,
        shortest: u8,
        (me, parts): (u8, usize),
        range: std::ops::Range<u32>,
        (part_of, first, places): (&[u8], &[u32], &Places),
    ) -> Part {
        let vcs = settings.vcs.max(settings.injection_vcs);
        let shift = u32::from(vcs).next_power_of_two().trailing_zeros();
        let most = 1 + (u32::from(settings.buffer) - 1) / u32::from(shortest.max(1));
        let ring_shift = most.next_power_of_two().trailing_zeros();
        let delay = network.channels().iter().map(|c| c.delay).max().unwrap_or(0);
        let span = u64::from(delay) + u64::from(settings.pipeline) + 2;
        // Terminals of one router are together, and routers' terminals in the order of routers, or a
        // part would not hold a range of them.
        let mut mine: Vec<u32> = (0..places.router.len() as u32)
            .filter(|&t| range.contains(&places.router[t as usize]))
            .collect();
        mine.sort_by_key(|&t| (places.router[t as usize], places.port[t as usize]));
        let mut part = Part {
            shift,
            ring_shift,
            oldest: settings.arbitration == Arbitration::Oldest,
            least: shortest,
            ideal: settings.credits == Credits::Ideal,
            pipeline: settings.pipeline,
            whole: settings.buffer % u16::from(settings.packet) == 0 && shortest == settings.packet,
            first_router: range.start,
            first_terminal: mine.first().copied().unwrap_or(0),
            me,
            routers: Vec::new(),
            ports: Vec::new(),
            queues: Vec::new(),
            ring: Vec::new(),
            pool: Vec::new(),
            vacant: Vec::new(),
            outs: Vec::new(),
            masks: Vec::new(),
            active: vec![0; range.len().div_ceil(64)],
            terminals: Vec::new(),
            near: Wheel::new(0, 1),
            far: Wheel::new(0, 1),
            credits: Wheel::new(0, 1),
            wakes: Wheel::new(NAP, 1),
            again: Vec::new(),
            mail: (0..parts).map(|_| Mail::default()).collect(),
            flit_hops: 0,
            moved_at: 0,
            claims: Vec::new(),
            claimed: Vec::new(),
            choices: Vec::new(),
            granted: Vec::new(),
            touched: Vec::new(),
            moved: Vec::new(),
            budget_in: Vec::new(),
            budget_out: Vec::new(),
            chosen: Vec::new(),
            requests: Vec::new(),
            wanted: Vec::new(),
        };
        let (mut next, mut widest, mut words_most) = (mine.iter().peekable(), 0, 0);
        for router in range {
            let channels = network.ports(router);
            let begin = part.ports.len() as u32;
            for port in 0..channels {
                let (out, into) = (network.out(router, port), network.into(router, port));
                part.ports.push(Port {
                    waiting: 0,
                    ready: 0,
                    width_in: into.map_or(0, |c| c.width),
                    width_out: out.map_or(0, |c| c.width),
                    last_in: 0,
                    last_claim: 0,
                    last_vc: 0,
                    down_part: out.map_or(me, |c| part_of[c.to.router as usize]),
                    up_part: into.map_or(me, |c| part_of[c.from.router as usize]),
                    flit_delay: 1 + out.map_or(0, |c| c.delay) + settings.pipeline,
                    credit_delay: match settings.credits {
                        Credits::Ideal => 1,
                        Credits::Link => 1 + into.map_or(0, |c| c.delay),
                    },
                    word: 0,
                    bit: 0,
                    words: 0,
                    router: router - part.first_router,
                    down: out.map_or(0, |c| first[c.to.router as usize] + u32::from(c.to.port)),
                    up: into.map_or(0, |c| first[c.from.router as usize] + u32::from(c.from.port)),
                    carried: 0,
                });
            }
            while let Some(&&terminal) = next.peek()
                && places.router[terminal as usize] == router
            {
                next.next();
                part.terminals.push(Terminal {
                    port: part.ports.len() as u32,
                    free: ((1u32 << settings.injection_vcs) - 1) as u16,
                    backlogged: false,
                    wake: u64::MAX,
                });
                part.ports.push(Port {
                    waiting: 0,
                    ready: 0,
                    width_in: settings.injection,
                    width_out: settings.ejection,
                    last_in: 0,
                    last_claim: 0,
                    last_vc: 0,
                    down_part: me,
                    up_part: me,
                    flit_delay: 1,
                    credit_delay: 1,
                    word: 0,
                    bit: 0,
                    words: 0,
                    router: router - part.first_router,
                    down: 0,
                    // Its number among the part's terminals.
                    up: part.terminals.len() as u32 - 1,
                    carried: 0,
                });
            }
            let ports = (part.ports.len() as u32 - begin) as u16;
            let words = ports.div_ceil(64);
            for local in 0..u32::from(ports) {
                let port = &mut part.ports[(begin + local) as usize];
                port.word = part.masks.len() as u32 + local / 64;
                port.bit = (local % 64) as u8;
                port.words = words as u8;
            }
            part.routers.push(Router {
                first: begin,
                ports,
                channels,
                masks: part.masks.len() as u32,
                words,
                rounds: (begin..begin + u32::from(channels))
                    .map(|at| {
                        part.ports[at as usize].width_out.max(part.ports[at as usize].width_in)
                    })
                    .max()
                    .unwrap_or(1),
            });
            part.masks.resize(part.masks.len() + 2 * usize::from(words), 0);
            (widest, words_most) = (ports.max(widest), words.max(words_most));
        }
        let queues = part.ports.len() << shift;
        part.queues = vec![Queue::default(); queues];
        part.ring = vec![NOBODY; queues << ring_shift];
        part.outs = vec![settings.buffer; queues];
        let blocks = part.ports.len().div_ceil(1 << BLOCK);
        part.near = Wheel::new(NEAR, blocks);
        part.far = Wheel::new(span, blocks);
        let back = part.ports.iter().map(|port| port.credit_delay).max().unwrap_or(1);
        part.credits = Wheel::new(back.into(), blocks);
        part.claimed = vec![0; usize::from(widest) << shift];
        part.moved = vec![0; usize::from(widest) << shift];
        part.budget_in = vec![0; widest.into()];
        part.budget_out = vec![0; widest.into()];
        part.chosen = vec![0; widest.into()];
        part.requests = vec![0; usize::from(widest) * usize::from(words_most)];
        for terminal in 0..part.terminals.len() as u32 {
            part.again.push((terminal, NOBODY));
        }
        part
    }
}
