//! One run: tasks, transfers and circuits, and the two queues of what happens, soon and later.

use crate::balancer::mix;
use crate::link::{Class, Link, Origin, Tally};
use crate::net::{NONE, Net, Puller, Thing};
use crate::wheel::Wheel;
use crate::{BalancerSpec, Dark, Overflow, PacketEngine, PacketSpec};
use lightloom_engine::{
    EngineError, EventQueue, NOT_A_TRANSFER, Observer, Orders, Outcome, PacketLink, Packets, Patch,
    Patches, Phase, Policy, QueueSample, Reconfiguration, Scenario, TaskId,
};
use lightloom_fabric::{LinkId, NodeKind};
use lightloom_units::{Bytes, Time};

/// Events between two questions to the observer whether to go on.
const CHECK_EVERY: u64 = 1 << 17;
/// Queue samples that are kept.
const MOST_SAMPLES: usize = 1 << 20;

/// What happens rarely, or far ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Far {
    /// A computation is over.
    Computed(u32),
    /// All flows of a track's phase have arrived, and its latency has passed.
    PhaseOver(u32),
    /// The ports of a reconfiguration carry light again.
    Light(u32),
    /// A pause frame, or the end of one, reaches a link's sender.
    Pause { link: u32, on: bool },
    /// A sender has perhaps heard nothing for too long.
    Timeout { conn: u32, generation: u32 },
    /// Something beyond the reach of the wheel.
    Thing(Thing),
    /// Queues are to be sampled.
    Sample,
}

/// A transfer under way.
#[derive(Default)]
pub(crate) struct Transfer {
    pub task: u32,
    orders: Orders,
    /// Tracks that are not over.
    tracks: usize,
}

/// Phases of a transfer that follow one another.
#[derive(Default)]
struct Track {
    transfer: u32,
    phase: usize,
    end: usize,
    outstanding: u32,
    last_arrival: Time,
    /// What the phase takes after its last arrival.
    pause: Time,
    /// How long dark circuits have held it up.
    waited: Time,
}

pub(crate) struct Run<'a> {
    pub spec: &'a PacketSpec,
    pub scenario: &'a Scenario<'a>,
    policy: &'a mut dyn Policy,
    observer: &'a mut dyn Observer,
    pub far: EventQueue<Far>,
    wheel: Wheel,
    pub net: Net,
    pub outcome: Outcome,
    waiting: Vec<u32>,
    finished: usize,
    pub transfers: Vec<Transfer>,
    free_transfers: Vec<u32>,
    tracks: Vec<Track>,
    free_tracks: Vec<u32>,
    pub free_conns: Vec<u32>,
    pub free_messages: Vec<u32>,
    pub finished_messages: Vec<(u32, u64)>,
    /// Where each link into an optical switch leads.
    pub circuit: Vec<u32>,
    /// Where each link out of one comes from.
    fed_by: Vec<u32>,
    dark_until: Vec<Time>,
    /// Flows on each link of a circuit.
    pub users: Vec<u32>,
    patched_links: Vec<Vec<u32>>,
    patches: Patches,
    pub path: Vec<LinkId>,
    pub raw_path: Vec<u32>,
    pub order: Vec<u32>,
    /// Connections that left a ring while others of their message wait for them.
    pub wakes: Vec<u32>,

    // Settings, as they are asked for.
    pub header: u64,
    pub queue_limit: u64,
    pub trims: bool,
    pub pauses: bool,
    pub xoff: u64,
    pub xon: u64,
    pub xoff_and_headroom: u64,
    pub ecn_low: u64,
    pub ecn_high: u64,
    pub ecn_slope: f64,
    pub ack_every: u32,
    pub go_back_n: bool,
    pub gaps_are_losses: bool,
    pub notification_interval: Option<u64>,
    pub retransmit_after: u64,
    pub dark: Dark,
    random: u64,
    pub seed: u64,

    // Counts.
    events: u64,
    pub data_packets: u64,
    pub control_packets: u64,
    pub resent: u64,
    pub drops: u64,
    pub pause_frames: u64,
    pub timeouts: u64,
    pub reorder: [u64; 33],
    samples: Vec<QueueSample>,
    /// The largest bandwidth-delay product that a given window is below, and that window.
    pub narrow_window: Option<(u64, u64)>,
}

impl<'a> Run<'a> {
    pub fn new(
        engine: &'a PacketEngine,
        scenario: &'a Scenario<'a>,
        policy: &'a mut dyn Policy,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let spec = &engine.spec;
        let (fabric, switch) = (scenario.fabric, spec.switch);
        let links = fabric.links();
        let tasks = scenario.tasks.len();
        let kind = |node: lightloom_fabric::NodeId| fabric.nodes()[node.0 as usize].kind;
        let mut classes: Vec<Class> = Vec::new();
        let mut class_of = |link: &lightloom_fabric::Link| {
            let class = Class::of(link);
            let at = classes.iter().position(|&other| other == class).unwrap_or_else(|| {
                classes.push(class);
                classes.len() - 1
            });
            at as u16
        };
        let states = links.iter().map(|link| {
            let origin = match kind(link.from) {
                NodeKind::Switch { .. } => Origin::Switch,
                NodeKind::Nic => Origin::Nic,
                NodeKind::Gpu | NodeKind::ScaleUp => Origin::ScaleUp,
                NodeKind::Ocs { .. } => Origin::Light,
            };
            let lightward = matches!(kind(link.to), NodeKind::Ocs { .. });
            Link::new(class_of(link), origin, lightward)
        });
        let net = Net {
            links: states.collect(),
            tallies: links
                .iter()
                .map(|link| Tally { turn: link.from.0, ..Tally::default() })
                .collect(),
            classes,
            pullers: match spec.transport.pulls() {
                true => vec![Puller::IDLE; links.len()],
                false => vec![],
            },
            ..Net::default()
        };
        let largest = spec.mtu.get().max(spec.scale_up_mtu.get()) + spec.header.get();
        // As far ahead as the slowest ordinary link needs; what is slower goes the long way.
        let horizon = net
            .links
            .iter()
            .map(|l| {
                let class = net.classes[l.class as usize];
                let delay = class.delay.saturating_mul(1 + u64::from(l.lightward));
                delay.saturating_add(class.time_for(largest))
            })
            .filter(|&time| time < 1 << 34)
            .max()
            .unwrap_or(0);
        let (trims, pauses) = (
            matches!(switch.overflow, Overflow::Trim {}),
            matches!(switch.overflow, Overflow::Pfc { .. }),
        );
        let (xoff, xon, headroom) = match switch.overflow {
            Overflow::Pfc { xoff, xon, headroom } => (xoff.get(), xon.get(), headroom.get()),
            _ => (0, 0, 0),
        };
        let span = switch.ecn_high.get().saturating_sub(switch.ecn_low.get());
        let sprays = !matches!(
            spec.balancer,
            BalancerSpec::Ecmp {} | BalancerSpec::MinRtt {} | BalancerSpec::Plb { .. }
        );
        let mut run = Run {
            spec,
            scenario,
            policy,
            observer,
            far: EventQueue::new(),
            wheel: Wheel::new(horizon, mix(engine.seed)),
            net,
            outcome: Outcome {
                start: vec![Time::MAX; tasks],
                end: vec![Time::MAX; tasks],
                cause: vec![NONE; tasks],
                waited: vec![Time::ZERO; tasks],
                bytes: vec![Bytes::ZERO; tasks],
                ..Outcome::default()
            },
            waiting: scenario.tasks.predecessors.to_vec(),
            finished: 0,
            transfers: Vec::new(),
            free_transfers: Vec::new(),
            tracks: Vec::new(),
            free_tracks: Vec::new(),
            free_conns: Vec::new(),
            free_messages: Vec::new(),
            finished_messages: Vec::new(),
            circuit: vec![NONE; links.len()],
            fed_by: vec![NONE; links.len()],
            dark_until: vec![Time::ZERO; links.len()],
            users: vec![0; links.len()],
            patched_links: Vec::new(),
            patches: Patches::default(),
            path: Vec::new(),
            raw_path: Vec::new(),
            order: Vec::new(),
            wakes: Vec::new(),
            header: spec.header.get(),
            queue_limit: if pauses { u64::MAX } else { switch.queue.get() },
            trims,
            pauses,
            xoff,
            xon,
            xoff_and_headroom: xoff.saturating_add(headroom),
            ecn_low: switch.ecn_low.get(),
            ecn_high: switch.ecn_high.get(),
            ecn_slope: if span == 0 { 1.0 } else { switch.ecn_probability / span as f64 },
            ack_every: spec.ack_every.clamp(1, 1 << 14),
            go_back_n: spec.transport.go_back_n(),
            gaps_are_losses: !trims && !sprays,
            notification_interval: spec.transport.notification_interval(),
            retransmit_after: spec.transport.retransmit_after().max(1),
            dark: spec.dark,
            random: mix(engine.seed ^ 0x5EED) | 1,
            seed: engine.seed,
            events: 0,
            data_packets: 0,
            control_packets: 0,
            resent: 0,
            drops: 0,
            pause_frames: 0,
            timeouts: 0,
            reorder: [0; 33],
            samples: Vec::new(),
            narrow_window: None,
        };
        for patch in scenario.circuits {
            run.join(patch.tx.0, patch.rx.map_or(NONE, |rx| rx.0));
        }
        run
    }

    pub fn complete(mut self) -> Result<Outcome, EngineError> {
        let total = self.scenario.tasks.len();
        for task in 0..total as u32 {
            if self.scenario.tasks.predecessors[task as usize] == 0 {
                self.start(task, NONE, Time::ZERO)?;
            }
        }
        if self.spec.sample_period > Time::ZERO {
            self.far.push(self.spec.sample_period, Far::Sample);
        }
        let mut now = 0;
        let mut far = self.far.peek_time().map_or(u64::MAX, Time::ps);
        while self.finished < total {
            let near = self.wheel.peek(far).unwrap_or(u64::MAX);
            if !self.wheel.spilled.is_empty() {
                for (time, id) in self.wheel.spilled.drain(..) {
                    self.far.push(Time::from_ps(time), Far::Thing(Thing::of(id)));
                }
                far = self.far.peek_time().map_or(u64::MAX, Time::ps);
                continue;
            }
            if far == u64::MAX && near == u64::MAX {
                let first = self.outcome.end.iter().position(|&end| end == Time::MAX);
                return Err(EngineError::Stalled {
                    now: Time::from_ps(now),
                    left: total - self.finished,
                    total,
                    first: first.unwrap_or(0) as u32,
                });
            }
            self.events += 1;
            if self.events % CHECK_EVERY == 0
                && !self.observer.keep_going(self.finished, total, Time::from_ps(near.min(far)))
            {
                return Err(EngineError::Interrupted);
            }
            if near < far {
                now = near;
                let id = self.wheel.pop().expect("it was peeked at");
                self.happen(Thing::of(id), now);
            } else {
                now = far;
                let (_, event) = self.far.pop().expect("it was peeked at");
                self.happen_far(event, now)?;
            }
            if !self.finished_messages.is_empty() {
                self.finish_messages()?;
            }
            far = self.far.peek_time().map_or(u64::MAX, Time::ps);
        }
        Ok(self.report(now))
    }

    #[inline]
    fn happen(&mut self, thing: Thing, now: u64) {
        match thing {
            Thing::Packet(id) => self.arrive(id, now),
            Thing::Link(id) => {
                self.net.links[id as usize].pending = false;
                self.kick(id, now);
            }
            Thing::Conn(id) => self.paced(id, now),
            Thing::Puller(id) => self.send_pull(id, now),
        }
    }

    fn happen_far(&mut self, event: Far, now: u64) -> Result<(), EngineError> {
        let time = Time::from_ps(now);
        match event {
            Far::Computed(task) => self.finish(task, time),
            Far::PhaseOver(slot) => self.next_phase(slot, time),
            Far::Light(reconfiguration) => {
                self.light(reconfiguration, time);
                Ok(())
            }
            Far::Pause { link, on } => {
                self.pause(link, on, now);
                Ok(())
            }
            Far::Timeout { conn, generation } => self.timeout(conn, generation, now),
            Far::Thing(thing) => {
                self.happen(thing, now);
                Ok(())
            }
            Far::Sample => {
                self.sample(time);
                Ok(())
            }
        }
    }

    /// Something whose time is set happens then.
    #[inline]
    pub(crate) fn soon(&mut self, thing: Thing, time: u64) {
        if !self.wheel.push(thing.id(), time) {
            self.far.push(Time::from_ps(time), Far::Thing(thing));
        }
    }

    pub(crate) fn later(&mut self, time: u64, event: Far) {
        self.far.push(Time::from_ps(time), event);
    }

    /// A share of 1, at random.
    #[inline]
    pub(crate) fn draw(&mut self) -> f64 {
        // Marsaglia's xorshift64.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    // ---- tasks

    fn start(&mut self, task: u32, cause: u32, now: Time) -> Result<(), EngineError> {
        let at = task as usize;
        self.outcome.start[at] = now;
        self.outcome.cause[at] = cause;
        let name = self.scenario.tasks.transfer[at];
        if name == NOT_A_TRANSFER {
            let end = now.saturating_add(self.scenario.tasks.duration[at]);
            self.far.push(end, Far::Computed(task));
            return Ok(());
        }
        let slot = self.free_transfers.pop().unwrap_or_else(|| {
            self.transfers.push(Transfer::default());
            self.transfers.len() as u32 - 1
        });
        let transfer = &mut self.transfers[slot as usize];
        transfer.orders.clear();
        transfer.task = task;
        self.policy
            .begin(TaskId(task), name, now, &mut transfer.orders)
            .map_err(|reason| EngineError::Policy { task, reason })?;
        self.outcome.bytes[at] = transfer.orders.all_flows().iter().map(|f| f.bytes).sum();
        transfer.tracks = transfer.orders.tracks();
        let orders = std::mem::take(&mut transfer.orders);
        self.reconfigure(task, &orders.patches.patches, orders.patches.delay, now)?;
        for phases in (0..orders.tracks()).map(|index| orders.track(index)) {
            let track = self.free_tracks.pop().unwrap_or_else(|| {
                self.tracks.push(Track::default());
                self.tracks.len() as u32 - 1
            });
            self.tracks[track as usize] =
                Track { transfer: slot, phase: phases.start, end: phases.end, ..Track::default() };
            self.launch(track, &orders, now)?;
        }
        self.transfers[slot as usize].orders = orders;
        Ok(())
    }

    fn finish(&mut self, task: u32, now: Time) -> Result<(), EngineError> {
        self.outcome.end[task as usize] = now;
        self.finished += 1;
        for &next in self.scenario.tasks.successors(task) {
            let waiting = &mut self.waiting[next as usize];
            *waiting = waiting.saturating_sub(1);
            if *waiting == 0 {
                self.start(next, task, now)?;
            }
        }
        Ok(())
    }

    fn next_phase(&mut self, id: u32, now: Time) -> Result<(), EngineError> {
        let track = &mut self.tracks[id as usize];
        track.phase += 1;
        let slot = track.transfer as usize;
        if track.phase < track.end {
            let orders = std::mem::take(&mut self.transfers[slot].orders);
            let launched = self.launch(id, &orders, now);
            self.transfers[slot].orders = orders;
            return launched;
        }
        let waited = track.waited;
        self.free_tracks.push(id);
        let transfer = &mut self.transfers[slot];
        transfer.tracks -= 1;
        if transfer.tracks > 0 {
            return Ok(());
        }
        let task = transfer.task;
        self.free_transfers.push(slot as u32);
        self.outcome.waited[task as usize] = waited;
        let name = self.scenario.tasks.transfer[task as usize];
        let mut patches = std::mem::take(&mut self.patches);
        patches.clear();
        self.policy
            .end(TaskId(task), name, now, &mut patches)
            .map_err(|reason| EngineError::Policy { task, reason })?;
        self.reconfigure(task, &patches.patches, patches.delay, now)?;
        self.patches = patches;
        self.finish(task, now)
    }

    /// Starts the current phase of a track; `orders` are its transfer's.
    fn launch(&mut self, id: u32, orders: &Orders, now: Time) -> Result<(), EngineError> {
        let track = &mut self.tracks[id as usize];
        let phase = track.phase;
        track.last_arrival = now;
        let task = self.transfers[track.transfer as usize].task;
        if phase >= track.end {
            self.far.push(now, Far::PhaseOver(id)); // nothing to send at all
            return Ok(());
        }
        let Phase { dark, latency: pause, .. } = orders.phases()[phase];
        let count = orders.flows(phase).len();
        (track.pause, track.outstanding) = (pause, count as u32);
        self.reconfigure(task, orders.circuits(phase), dark, now)?;
        if count == 0 {
            self.far.push(now.saturating_add(pause), Far::PhaseOver(id));
            return Ok(());
        }
        let dark_until = self.dark_until(task, orders, phase, now)?;
        let first = self.new_connections(id, orders, phase, now);
        self.outcome.flows += count as u64;
        self.tracks[id as usize].waited += dark_until - now;
        let mut order = std::mem::take(&mut self.order);
        for conn in order.drain(first..) {
            self.ready(conn, now.ps());
        }
        self.order = order;
        Ok(())
    }

    /// Checks the circuits of a phase's flows; when the last of them will be lit.
    fn dark_until(
        &self,
        task: u32,
        orders: &Orders,
        phase: usize,
        now: Time,
    ) -> Result<Time, EngineError> {
        let mut dark_until = now;
        for links in orders.flows(phase).iter().flat_map(|flow| orders.lanes(flow)) {
            for (hop, &LinkId(link)) in links.iter().enumerate() {
                if self.net.links[link as usize].lightward {
                    let next = links.get(hop + 1).map_or(NONE, |l| l.0);
                    if next == NONE || self.circuit[link as usize] != next {
                        let (tx, rx) = (LinkId(link), LinkId(next));
                        return Err(EngineError::NoCircuit { task, tx, rx });
                    }
                }
                dark_until = dark_until.max(self.dark_until[link as usize]);
            }
        }
        Ok(dark_until)
    }

    /// The task whose transfer a track is part of.
    pub(crate) fn task_of(&self, track: u32) -> u32 {
        self.transfers[self.tracks[track as usize].transfer as usize].task
    }

    fn finish_messages(&mut self) -> Result<(), EngineError> {
        let mut finished = std::mem::take(&mut self.finished_messages);
        for (id, now) in finished.drain(..) {
            let message = &self.net.messages[id as usize];
            let (id_of_track, bytes, start, ideal) =
                (message.track, message.bytes, message.start, message.ideal);
            self.free_messages.push(id);
            let task = self.task_of(id_of_track);
            if now - start < ideal {
                let (took, ideal) = (Time::from_ps(now - start), Time::from_ps(ideal));
                return Err(EngineError::Impossible { task, took, ideal });
            }
            let (start, end) = (Time::from_ps(start), Time::from_ps(now));
            self.observer.flow_finished(TaskId(task), Bytes::new(bytes), start, end);
            let track = &mut self.tracks[id_of_track as usize];
            track.outstanding -= 1;
            track.last_arrival = track.last_arrival.max(end);
            if track.outstanding == 0 {
                let over = track.last_arrival.saturating_add(track.pause);
                self.far.push(over, Far::PhaseOver(id_of_track));
            }
        }
        self.finished_messages = finished;
        Ok(())
    }

    // ---- circuits

    fn reconfigure(
        &mut self,
        task: u32,
        patches: &[Patch],
        delay: Time,
        now: Time,
    ) -> Result<(), EngineError> {
        if patches.is_empty() {
            return Ok(());
        }
        let ready = now.saturating_add(delay);
        let mut links = Vec::with_capacity(patches.len() * 2);
        for patch in patches {
            let tx = patch.tx.0;
            let (old, new) = (self.circuit[tx as usize], patch.rx.map_or(NONE, |rx| rx.0));
            let used = |link: u32| link != NONE && self.users[link as usize] > 0;
            // Flows stay on a circuit that only goes dark for a while.
            if old != new && (used(tx) || used(old) || used(new)) {
                self.displace(patch.tx, [tx, old, new], now)?;
            }
            links.extend([tx, old, new].into_iter().filter(|&link| link != NONE));
            self.join(tx, new);
        }
        for &link in &links {
            self.dark_until[link as usize] = self.dark_until[link as usize].max(ready);
            self.net.links[link as usize].dark = true;
        }
        self.far.push(ready, Far::Light(self.patched_links.len() as u32));
        self.patched_links.push(links);
        let patches = patches.len() as u32;
        self.outcome.reconfigurations.push(Reconfiguration { task, at: now, ready, patches });
        Ok(())
    }

    /// Joins two links of a circuit; what either was joined to before is joined to nothing then.
    fn join(&mut self, tx: u32, rx: u32) {
        let old = std::mem::replace(&mut self.circuit[tx as usize], rx);
        if old != NONE {
            self.fed_by[old as usize] = NONE;
        }
        if rx != NONE {
            let other = std::mem::replace(&mut self.fed_by[rx as usize], tx);
            if other != NONE {
                self.circuit[other as usize] = NONE;
            }
        }
    }

    /// Moves the flows on some links to other paths, if the policy knows any. What is on its way there
    /// already is lost, and sent again.
    fn displace(&mut self, tx: LinkId, gone: [u32; 3], now: Time) -> Result<(), EngineError> {
        for id in 0..self.net.conns.len() as u32 {
            let conn = &self.net.conns[id as usize];
            if conn.done || !conn.links.iter().any(|link| gone.contains(link)) {
                continue;
            }
            let task = self.task_of(self.net.messages[conn.message as usize].track);
            let name = self.scenario.tasks.transfer[task as usize];
            let mut path: Vec<LinkId> = conn.links.iter().map(|&link| LinkId(link)).collect();
            if !self.policy.displaced(TaskId(task), name, now, &mut path) || path.is_empty() {
                return Err(EngineError::CircuitInUse { tx, now });
            }
            self.move_to(id, &path, now);
        }
        Ok(())
    }

    fn light(&mut self, reconfiguration: u32, now: Time) {
        for link in std::mem::take(&mut self.patched_links[reconfiguration as usize]) {
            if self.dark_until[link as usize] > now {
                continue; // dark again by a later change
            }
            self.net.links[link as usize].dark = false;
            self.kick(link, now.ps());
        }
    }

    // ---- what is measured

    fn sample(&mut self, now: Time) {
        for (link, state) in self.net.links.iter().enumerate() {
            if state.queued > 0 && self.samples.len() < MOST_SAMPLES {
                let (link, queued) = (link as u32, Bytes::new(state.queued));
                self.samples.push(QueueSample { at: now, link, queued });
            }
        }
        // Only while something else can still happen.
        if self.far.peek_time().is_some() || self.wheel.waits() {
            self.far.push(now.saturating_add(self.spec.sample_period), Far::Sample);
        }
    }

    fn report(mut self, now: u64) -> Outcome {
        for (link, tally) in self.net.links.iter().zip(&mut self.net.tallies) {
            if link.paused {
                tally.paused_for += now - tally.paused_since;
            }
        }
        let (links, tallies) = (&self.net.links, &self.net.tallies);
        let packets = |(link, tally): (&Link, &Tally)| tally.rounds << 32 | u64::from(link.packets);
        let mut reorder = self.reorder.to_vec();
        while reorder.last() == Some(&0) {
            reorder.pop();
        }
        let mut notes = Vec::new();
        if let Some((product, window)) = self.narrow_window {
            notes.push(format!(
                "engine.transport.window = {}: below the bandwidth-delay product of {} of a path, \
                 which one flow alone cannot fill",
                Bytes::new(window),
                Bytes::new(product),
            ));
        }
        if self.samples.len() == MOST_SAMPLES {
            notes.push(format!("queues: only the first {MOST_SAMPLES} samples are kept"));
        }
        let mut outcome = self.outcome;
        outcome.makespan = outcome.end.iter().copied().max().unwrap_or(Time::ZERO);
        outcome.link_bytes = links.iter().map(|l| Bytes::new(l.carried)).collect();
        outcome.events = self.events;
        outcome.packets = Some(Box::new(Packets {
            sent: self.data_packets + self.control_packets,
            hops: links.iter().zip(tallies).map(packets).sum(),
            data: self.data_packets,
            resent: self.resent,
            drops: self.drops,
            trims: tallies.iter().map(|t| t.trims).sum(),
            marks: tallies.iter().map(|t| t.marks).sum(),
            pauses: self.pause_frames,
            timeouts: self.timeouts,
            reorder,
            links: links
                .iter()
                .zip(tallies)
                .map(|(link, tally)| PacketLink {
                    packets: packets((link, tally)),
                    drops: tally.drops,
                    trims: tally.trims,
                    marks: tally.marks,
                    peak_queue: Bytes::new(link.peak),
                    paused: Time::from_ps(tally.paused_for),
                })
                .collect(),
            samples: self.samples,
            notes,
        }));
        outcome
    }
}
