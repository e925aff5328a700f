//! How a run begins: the fabric is cut into shards, each link with its queue in one of them.

use crate::balancer::outside::{Outside, PathChooser};
use crate::layout::Layout;
use crate::link::{Class, Link, Origin, Tally, origins};
use crate::packet::LongPaths;
use crate::run::Run;
use crate::settings::RunSettings;
use crate::shard::Shard;
use crate::spec::PacketSpec;
use crate::things::Puller;
use crate::tracks::Ends;
use lightloom_engine::{EventQueue, Ledger, Observer, Policy, Scenario};
use lightloom_fabric::{Fabric, LinkId};
use std::collections::HashMap;

/// Links of a group, about: what they hold should fit into a core's cache.
const LINKS_A_GROUP: usize = if cfg!(test) { 1 << 5 } else { 1 << 10 };

impl<'a> Run<'a> {
    pub fn new(
        spec: &'a PacketSpec,
        seed: u64,
        (chooser, threads): (Option<&'a dyn PathChooser>, usize),
        scenario: &'a Scenario<'a>,
        policy: &'a mut dyn Policy,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let (fabric, settings) = (scenario.fabric, RunSettings::new(spec));
        let links = fabric.links();
        // A chooser looks at all queues.
        let shards = if chooser.is_some() { 1 } else { threads };
        let groups = links.len().div_ceil(LINKS_A_GROUP).max(shards);
        let layout = Layout::new(fabric, groups, shards, settings.joint_ports());
        let mut run = Run {
            spec,
            scenario,
            ledger: Ledger::new(scenario, policy, observer),
            far: EventQueue::new(),
            shards: Vec::new(),
            crew: None,
            layout,
            classes: Vec::new(),
            class_of: Vec::new(),
            origins: origins(fabric),
            long: LongPaths::default(),
            conns: Vec::new(),
            free_conns: Vec::new(),
            lives: 0,
            flows: Vec::new(),
            free_flows: Vec::new(),
            closing: Vec::new(),
            ends: Ends::default(),
            users: vec![0; links.len()],
            awaited: Vec::new(),
            postponed: Vec::new(),
            order: Vec::new(),
            settings,
            dark: spec.dark,
            longest: 0,
            seed,
            timeouts: 0,
            far_events: 0,
            samples: Vec::new(),
            narrow_window: None,
        };
        for link in links {
            let class = run.class_number(Class::of(link));
            run.class_of.push(class);
        }
        run.fill_shards(spec.transport.kind().capabilities.pulls);
        run.shards[0].outside = chooser.map(Outside::new);
        let packet = spec.mtu.get() + spec.header.get();
        run.longest = run.longest_round_trip(packet, spec.header.get());
        run
    }

    fn fill_shards(&mut self, pulls: bool) {
        let through = self.origins.iter().filter(|&&origin| origin == Origin::Ocs).count();
        let count = self.layout.shards.len();
        for (number, units) in self.layout.shards.iter().enumerate() {
            let mut shard = Shard::new(number, count, through, self.layout.window);
            let mut links = Vec::new();
            for unit in units {
                let place = |link: u32| self.layout.places[link as usize].at();
                shard.add_unit(unit, place);
                links.extend(unit.links.iter().map(|&link| (place(link), link)));
            }
            links.sort_unstable();
            shard.names = links.into_iter().map(|(_, link)| link).collect();
            self.shards.push(shard);
        }
        let names: Vec<u32> = self.shards.iter().flat_map(|shard| shard.names.clone()).collect();
        for id in names {
            let link = &self.scenario.fabric.links()[id as usize];
            let (origin, place) = (self.origins[id as usize], self.layout.places[id as usize]);
            let shard = &mut self.shards[place.shard()];
            let into_ocs = self.ledger.circuits.enters_switch(LinkId(id));
            shard.links.push(Link::new(self.class_of[id as usize], origin, into_ocs));
            shard.unit_of.push(self.layout.units[id as usize].at());
            shard.tallies.push(Tally { turn: link.from.0, ..Tally::default() });
        }
        if self.settings.buffer.is_some() {
            self.shards.iter_mut().for_each(|shard| share_buffers(shard, self.scenario.fabric));
        }
        if pulls {
            for shard in &mut self.shards {
                shard.pullers = vec![Puller::IDLE; shard.links.len()];
            }
        }
    }
}

/// Numbers the switches of a shard, for what their queues hold together.
fn share_buffers(shard: &mut Shard<'_>, fabric: &Fabric) {
    let mut known = HashMap::new();
    for &link in &shard.names {
        let count = known.len() as u32;
        shard.switch_of.push(*known.entry(fabric.link(LinkId(link)).from).or_insert(count));
    }
    shard.held = vec![0; known.len()];
}
