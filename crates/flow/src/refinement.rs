//! Which flows of a phase are alike: the coarsest equitable partition of its flows and links, by colour
//! refinement (Berkholz, Bonsma and Grohe, *Tight lower and upper bounds for the complexity of
//! canonical colour refinement*, 2017).
//!
//! A flow's first colour is what it sends, a link's its capacity. Then a link takes the colours of the
//! flows on it into its own, and a flow those of its links, until that parts no more links. Links of one
//! colour then carry as many flows of each colour, so the flows of a colour have the same max-min fair
//! rate as long as no others come, and have sent all at the same time. Such a class is computed as one
//! flow of as many. Delays part no class: members of each delay are counted.
//! Nothing is kept of a member: the orders name it, and its class is found by its colour again.
//! Colours are hashes of 64 bits. Two that meet by chance would part a link's flows unevenly, which is
//! seen, and then there are no classes.
//! Checked: phases in classes against flow by flow, on random instances, and by the engines' suite.

use crate::links::Links;
use lightloom_engine::{Orders, Sending};
use lightloom_fabric::LinkId;
use lightloom_units::mix;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Where it pays to look for classes: a choice of speed, which changes rates by rounding alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Worthwhile {
    /// Flows of a phase, at least.
    pub flows: usize,
    /// Of them, flows a class.
    pub alike: usize,
}

impl Worthwhile {
    pub const USUAL: Self = Worthwhile { flows: 1 << 14, alike: 16 };
}

/// Rounds after which links that still part are given up.
const ROUNDS: usize = 16;

/// The flows of a phase by classes.
pub(crate) struct Quotient {
    pub classes: Vec<Class>,
    /// Of each kind of link, the capacity.
    pub capacity: Vec<f64>,
    /// Every link, by the fabric's numbers.
    pub names: Vec<u32>,
    pub members: Members,
}

/// Flows that are alike.
#[derive(Debug)]
pub(crate) struct Class {
    pub bytes: u64,
    flows: u32,
    /// For each delay of paths: the first lane with it, and how many have it.
    pub lanes: Vec<(u32, u32)>,
    /// The kinds of links on their path, and how many of them cross each such link.
    pub path: Vec<(u32, u32)>,
}

/// Of which phase the classes are, and which class is of which colour.
#[derive(Debug)]
pub(crate) struct Members {
    pub track: u32,
    pub phase: usize,
    class: ByColour,
}

/// The colours of links. Those of links that carry classes stay until the classes are gone.
#[derive(Debug)]
pub(crate) struct Colours {
    worthwhile: Worthwhile,
    of: Vec<u64>,
    /// The sum of the colours of a link's flows; zero between calls.
    heard: Vec<u64>,
}

impl Colours {
    pub fn new(worthwhile: Worthwhile, links: usize) -> Self {
        Colours { worthwhile, of: vec![0; links], heard: vec![0; links] }
    }

    /// The colour of each link.
    pub fn into_colours(self) -> Vec<u64> {
        self.of
    }

    /// A link that carries classes is of this colour.
    pub fn keep(&mut self, link: usize, colour: u64) {
        self.of[link] = colour;
    }

    /// The classes of a phase, if there are few, and all its links are `free`.
    pub fn part(
        &mut self,
        sending: &Sending,
        links: &Links,
        free: impl Fn(u32) -> bool,
    ) -> Option<Quotient> {
        let flows = sending.orders.flows(sending.phase).len();
        if flows < self.worthwhile.flows {
            return None;
        }
        let limit = flows / self.worthwhile.alike;
        let lanes = Lanes { orders: &sending.orders, phase: sending.phase, links };
        let mut names = Vec::new();
        let begun = self.begin(&lanes, limit, free, &mut names);
        names.iter().for_each(|&link| self.heard[link as usize] = 0);
        begun.then(|| self.refine(&lanes, &names))??;
        let (classes, class) = self.classes(&lanes, limit)?;
        let members = Members { track: sending.track, phase: sending.phase, class };
        self.quotient(&lanes, classes, names, members)
    }

    /// The first colours of all links, which it names; `false` if there are too many different flows
    /// already, or a link is not free.
    fn begin(
        &mut self,
        lanes: &Lanes<'_>,
        limit: usize,
        free: impl Fn(u32) -> bool,
        names: &mut Vec<u32>,
    ) -> bool {
        let (mut sizes, mut last) = (ByColour::default(), 0);
        for (_, bytes, path) in lanes.all() {
            if bytes != std::mem::replace(&mut last, bytes) {
                sizes.insert(mix(bytes), 0);
            }
            for link in lanes.links.binding(path) {
                let at = link as usize;
                if self.heard[at] == 0 {
                    if !free(link) {
                        return false;
                    }
                    self.heard[at] = 1;
                    self.of[at] = mix(lanes.links.capacity[at].to_bits());
                    names.push(link);
                }
            }
            if sizes.len() > limit {
                return false;
            }
        }
        true
    }

    /// Parts links by the flows on them, until no more part.
    fn refine(&mut self, lanes: &Lanes<'_>, names: &[u32]) -> Option<()> {
        let mut kinds = 0;
        for _ in 0..ROUNDS {
            for (_, bytes, path) in lanes.all() {
                let colour = self.colour(lanes, bytes, path);
                for link in lanes.links.binding(path) {
                    let heard = &mut self.heard[link as usize];
                    *heard = heard.wrapping_add(colour);
                }
            }
            for &link in names {
                let heard = std::mem::take(&mut self.heard[link as usize]);
                let colour = &mut self.of[link as usize];
                *colour = mix(colour.wrapping_add(mix(heard)));
            }
            let before = std::mem::replace(&mut kinds, self.kinds(names).len());
            if kinds == before {
                return Some(());
            }
        }
        None
    }

    /// The colours of links, and how many links are of each.
    fn kinds(&self, names: &[u32]) -> ByColour {
        let mut kinds = ByColour::default();
        for &link in names {
            *kinds.entry(self.of[link as usize]).or_insert(0) += 1;
        }
        kinds
    }

    fn colour(&self, lanes: &Lanes<'_>, bytes: u64, path: &[LinkId]) -> u64 {
        let links = lanes.links.binding(path).map(|link| self.of[link as usize]);
        mix(links.fold(mix(bytes), u64::wrapping_add))
    }

    /// The classes, without their paths.
    fn classes(&self, lanes: &Lanes<'_>, limit: usize) -> Option<(Vec<Class>, ByColour)> {
        let (mut classes, mut class) = (Vec::<Class>::new(), ByColour::default());
        let (mut kinds, mut kind) = (Vec::<(u32, u32)>::new(), ByColour::default());
        for (lane, bytes, path) in lanes.all() {
            let colour = self.colour(lanes, bytes, path);
            let delay = lanes.links.delay(path).ps();
            let next = kinds.len() as u32;
            let at = *kind.entry(mix(colour.wrapping_add(mix(delay)))).or_insert(next);
            if at == next {
                if kinds.len() == limit {
                    return None;
                }
                let next = classes.len() as u32;
                let class = *class.entry(colour).or_insert(next);
                if class == next {
                    classes.push(Class { bytes, flows: 0, lanes: vec![], path: vec![] });
                }
                let lanes = &mut classes[class as usize].lanes;
                kinds.push((class, lanes.len() as u32));
                lanes.push((lane, 0));
            }
            let (class, kind) = kinds[at as usize];
            let class = &mut classes[class as usize];
            class.flows += 1;
            class.lanes[kind as usize].1 += 1;
        }
        Some((classes, class))
    }

    /// Adds the paths of the classes; none if they are not even.
    fn quotient(
        &self,
        lanes: &Lanes<'_>,
        mut classes: Vec<Class>,
        names: Vec<u32>,
        members: Members,
    ) -> Option<Quotient> {
        let links_of = self.kinds(&names);
        let mut kind = ByColour::default();
        let (mut capacity, mut links) = (Vec::new(), Vec::new());
        for class in &mut classes {
            for link in lanes.links.binding(lanes.orders.lane_links(class.lanes[0].0)) {
                let at = *kind.entry(self.of[link as usize]).or_insert(capacity.len() as u32);
                if at as usize == capacity.len() {
                    capacity.push(lanes.links.capacity[link as usize]);
                    links.push(links_of[&self.of[link as usize]]);
                }
                match class.path.iter_mut().find(|(known, _)| *known == at) {
                    Some((_, crossed)) => *crossed += 1,
                    None => class.path.push((at, 1)),
                }
            }
            for (at, crossed) in &mut class.path {
                let (flows, links) = (class.flows.checked_mul(*crossed)?, links[*at as usize]);
                *crossed = (flows % links == 0).then_some(flows / links)?;
            }
        }
        Some(Quotient { classes, capacity, names, members })
    }

    /// The class of each lane of a phase whose flows are in classes: the lane, its links, the class.
    pub fn members<'a>(
        &'a self,
        members: &'a Members,
        orders: &'a Orders,
        links: &'a Links,
    ) -> impl Iterator<Item = (u32, &'a [LinkId], usize)> {
        let lanes = Lanes { orders, phase: members.phase, links };
        orders.shares(members.phase).map(move |(lane, bytes)| {
            let path = orders.lane_links(lane);
            (lane, path, members.class[&self.colour(&lanes, bytes.get(), path)] as usize)
        })
    }
}

/// The lanes of a phase.
struct Lanes<'a> {
    orders: &'a Orders,
    phase: usize,
    links: &'a Links,
}

impl<'a> Lanes<'a> {
    /// The number of each, what it carries, and its links.
    fn all(&self) -> impl Iterator<Item = (u32, u64, &'a [LinkId])> {
        let orders = self.orders;
        let lanes = orders.shares(self.phase);
        lanes.map(move |(lane, bytes)| (lane, bytes.get(), orders.lane_links(lane)))
    }
}

/// Something by colour; colours are hashes already.
type ByColour = HashMap<u64, u32, BuildHasherDefault<Itself>>;

#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = mix(self.0 ^ u64::from(byte)));
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
