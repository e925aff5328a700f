//! How long orders take by themselves: bounds in closed form, and by fair shares.
//!
//! The closed form is, of each phase, the greatest load of a link over its rate, with the delay of the
//! longest path over that link; and what passes after each phase. Nothing can be sooner over, as every
//! byte crosses its links, but by what paths over that link differ in delay. Where fair shares leave a busy
//! link idle for a while, orders take longer: how long, is computed as the flow engine does it ([`Alone`]).
//! They take no more than at equal shares of links as at the start, for flows only go.
//!
//! Where the engine's packets are spread over equal paths, a flow loads as much of each of them, up to 64.
//! Shares are then those of bundles: of a hop all links over which equal paths lead, as with ideal
//! splitting. Where equal paths are not equally long (on a dragonfly), hops between NICs' links are left
//! out of shares, not of the lower bound.

use super::soonest::Bounds;
use lightloom_engine::Orders;
use lightloom_fabric::{Fabric, LinkId, Switched};
use lightloom_flow::Alone;
use lightloom_units::{Bytes, Time};
use std::collections::HashMap;

/// Equal paths over which a flow is laid, at most.
const PATHS: u32 = 64;

/// By how much of its length a phase may be computed too long.
const TOLERANCE: f64 = 2e-3;

/// Loads of links, kept from one estimate to the next.
pub(crate) struct Estimate {
    /// Whether a flow takes all of its equal paths.
    spread: bool,
    loads: Vec<Load>,
    used: Vec<u32>,
    path: Vec<LinkId>,
    alone: Alone,
    bundles: Bundles,
}

/// What a phase puts on a link.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    bytes: u64,
    flows: u64,
    /// Of the largest flow.
    largest: u64,
    /// Of the shortest path, and of the longest.
    delay: Option<(Time, Time)>,
}

impl Estimate {
    pub fn new(fabric: &Fabric, spread: bool) -> Self {
        Estimate {
            spread,
            loads: vec![Load::default(); fabric.links().len()],
            used: vec![],
            path: vec![],
            alone: Alone::new(fabric),
            bundles: Bundles::default(),
        }
    }

    /// How long orders take, by the bytes on links.
    pub fn bounds(&mut self, fabric: &Fabric, orders: &Orders) -> Bounds {
        let mut sum = Bounds { least: Time::ZERO, form: Time::ZERO, most: Time::ZERO };
        for (phase, about) in orders.phases().iter().enumerate() {
            let bounds = self.phase(fabric, orders, phase);
            let add =
                |sum: &mut Time, phase: Time| *sum = sum.saturating_add(phase + about.latency);
            add(&mut sum.least, bounds.least);
            add(&mut sum.form, bounds.form);
            add(&mut sum.most, bounds.most);
        }
        sum
    }

    /// How long each of several orders takes by its closed form if all are carried out at once.
    pub fn together(&mut self, fabric: &Fabric, all: &[Orders]) -> Vec<Time> {
        let steps =
            |orders: &Orders| (0..orders.tracks()).map(|track| orders.track(track).len()).max();
        let most = all.iter().filter_map(steps).max().unwrap_or(0);
        let mut times: Vec<Vec<Time>> =
            all.iter().map(|orders| vec![Time::ZERO; orders.tracks()]).collect();
        for step in 0..most {
            for (_, orders, _, phase) in at_step(all, step) {
                for flow in orders.flows(phase) {
                    for lane in orders.lane_numbers(flow) {
                        let (path, bytes) = (orders.lane_links(lane), orders.share(lane).get());
                        let delay = path.iter().map(|&link| fabric.link(link).delay).sum();
                        self.load(path, bytes, delay);
                    }
                }
            }
            for (number, orders, track, phase) in at_step(all, step) {
                let lanes = orders.flows(phase).iter().flat_map(|flow| orders.lane_numbers(flow));
                let links = lanes.flat_map(|lane| orders.lane_links(lane));
                let time = |link: &LinkId| {
                    let load = &self.loads[link.index()];
                    let longest = load.delay.map_or(Time::ZERO, |(_, longest)| longest);
                    let busy = fabric.link(*link).rate.time_for(Bytes::new(load.bytes));
                    busy.saturating_add(longest)
                };
                let about = &orders.phases()[phase];
                let sent = links.map(time).max().unwrap_or(Time::ZERO);
                let whole = sent.saturating_add(about.latency).saturating_add(about.dark);
                times[number][track] += whole;
            }
            for link in self.used.drain(..) {
                self.loads[link as usize] = Load::default();
            }
        }
        times.iter().map(|tracks| tracks.iter().copied().max().unwrap_or(Time::ZERO)).collect()
    }

    /// How long orders take, or some time not before `enough` if they take longer.
    pub fn time(&mut self, fabric: &Fabric, orders: &Orders, enough: Time) -> Time {
        let mut time = Time::ZERO;
        for (phase, about) in orders.phases().iter().enumerate() {
            for flow in orders.flows(phase) {
                let (path, bytes) = (orders.links(flow), flow.bytes.get());
                match self.switched(fabric, path) {
                    Some(part) => {
                        self.bundles.lay(fabric, path, part, &mut self.alone, &mut self.path);
                        self.alone.add(&self.path, bytes);
                    }
                    None => self.alone.add(path, bytes),
                }
            }
            time = time.saturating_add(self.alone.end(TOLERANCE, enough.saturating_sub(time)));
            time = time.saturating_add(about.latency);
        }
        time
    }

    /// The part of a path that has others beside it, where flows take all.
    fn switched(&self, fabric: &Fabric, path: &[LinkId]) -> Option<Switched> {
        let part = if self.spread { fabric.switched(path)? } else { return None };
        (fabric.nic_paths(part.source, part.destination) > 1).then_some(part)
    }

    fn phase(&mut self, fabric: &Fabric, orders: &Orders, phase: usize) -> Bounds {
        for (number, flow) in orders.flows(phase).iter().enumerate() {
            let (path, bytes) = (orders.links(flow), flow.bytes.get());
            let delay = path.iter().map(|&link| fabric.link(link).delay).sum();
            match self.switched(fabric, path) {
                Some(part) => self.over_all(fabric, path, part, bytes, number as u32, delay),
                None => self.load(path, bytes, delay),
            }
        }
        let mut bounds = Bounds { least: Time::ZERO, form: Time::ZERO, most: Time::ZERO };
        for link in self.used.drain(..) {
            let load = std::mem::take(&mut self.loads[link as usize]);
            let Some((shortest, longest)) = load.delay else { continue };
            let rate = fabric.links()[link as usize].rate;
            let busy = rate.time_for(Bytes::new(load.bytes));
            let slow = rate.time_for(Bytes::new(load.flows.saturating_mul(load.largest)));
            bounds.least = bounds.least.max(busy.saturating_add(shortest));
            bounds.form = bounds.form.max(busy.saturating_add(longest));
            bounds.most = bounds.most.max(slow.saturating_add(longest));
        }
        bounds
    }

    /// Loads the equal paths of a flow alike. Of very many it takes some, each flow others.
    fn over_all(
        &mut self,
        fabric: &Fabric,
        path: &[LinkId],
        part: Switched,
        bytes: u64,
        number: u32,
        delay: Time,
    ) {
        let all = fabric.nic_paths(part.source, part.destination);
        let some = all.min(PATHS);
        self.load(&path[..part.before], bytes, delay);
        self.load(&path[path.len() - part.after..], bytes, delay);
        let mut each = std::mem::take(&mut self.path);
        for at in 0..some {
            each.clear();
            let index = (u64::from(at) * u64::from(all) / u64::from(some)) as u32;
            let index = (index + number % all) % all;
            fabric.nic_path(part.source, part.destination, index, &mut each);
            let share =
                bytes / u64::from(some) + u64::from(u64::from(at) < bytes % u64::from(some));
            self.load(&each, share, delay);
        }
        self.path = each;
    }

    fn load(&mut self, path: &[LinkId], more: u64, delay: Time) {
        for link in path {
            let load = &mut self.loads[link.index()];
            load.bytes += more;
            load.flows += 1;
            load.largest = load.largest.max(more);
            let Some((shortest, longest)) = &mut load.delay else {
                load.delay = Some((delay, delay));
                self.used.push(link.0);
                continue;
            };
            (*shortest, *longest) = ((*shortest).min(delay), (*longest).max(delay));
        }
    }
}

/// The phases that orders have at a place of their tracks: number, orders, track, phase.
fn at_step(all: &[Orders], step: usize) -> impl Iterator<Item = (usize, &Orders, usize, usize)> {
    all.iter().enumerate().flat_map(move |(number, orders)| {
        let phase = move |track| Some((number, orders, track, orders.track(track).nth(step)?));
        (0..orders.tracks()).filter_map(phase)
    })
}

/// Links that equal paths share, by what they are made of.
#[derive(Default)]
struct Bundles {
    /// By the first of some equal paths, from NIC's link to NIC's link: what to lay in their place.
    of: HashMap<Vec<LinkId>, Vec<LinkId>>,
    one: HashMap<Vec<LinkId>, LinkId>,
}

impl Bundles {
    /// Writes into `laid` what stands for a path and all that are equal.
    fn lay(
        &mut self,
        fabric: &Fabric,
        path: &[LinkId],
        part: Switched,
        alone: &mut Alone,
        laid: &mut Vec<LinkId>,
    ) {
        laid.clear();
        fabric.nic_path(part.source, part.destination, 0, laid);
        let between = laid[1..laid.len() - 1].to_vec();
        let ends = [laid[0], laid[laid.len() - 1]];
        let middle = match self.of.get(&between) {
            Some(middle) => middle,
            None => {
                let middle = self.middle(fabric, part, between.len(), alone);
                self.of.entry(between).or_insert(middle)
            }
        };
        laid.clear();
        laid.extend(&path[..part.before]);
        laid.push(ends[0]);
        laid.extend(middle);
        laid.push(ends[1]);
        laid.extend(&path[path.len() - part.after..]);
    }

    /// Bundles hop by hop; none if the paths are not equally long.
    fn middle(
        &mut self,
        fabric: &Fabric,
        part: Switched,
        hops: usize,
        alone: &mut Alone,
    ) -> Vec<LinkId> {
        let (mut links, mut path) = (vec![vec![]; hops], vec![]);
        for index in 0..fabric.nic_paths(part.source, part.destination) {
            path.clear();
            fabric.nic_path(part.source, part.destination, index, &mut path);
            if path.len() != hops + 2 {
                return vec![];
            }
            links.iter_mut().zip(&path[1..]).for_each(|(hop, &link)| hop.push(link));
        }
        let bundle = |mut hop: Vec<LinkId>| {
            hop.sort_unstable();
            hop.dedup();
            *self.one.entry(hop).or_insert_with_key(|hop| alone.bundle(hop))
        };
        links.into_iter().map(bundle).collect()
    }
}
