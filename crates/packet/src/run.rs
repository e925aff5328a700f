//! One run: tasks, transfers and circuits, and the two queues of what happens, soon and later.

use crate::balancer::outside::{Outside, PathChooser};
use crate::link::{Link, Tally};
use crate::net::{Net, Thing};
use crate::settings::RunSettings;
use crate::spec::{Dark, PacketSpec};
use crate::wheel::Wheel;
use lightloom_engine::{
    Due, EngineError, EventQueue, Ledger, Observer, Outcome, PacketLink, Packets, Patches, Policy,
    QueueSample, Scenario, Sending, Step, Wake,
};
use lightloom_fabric::LinkId;
use lightloom_units::mix;
use lightloom_units::{Bytes, Time};

/// Events between two questions to the observer whether to go on.
const CHECK_EVERY: u64 = 1 << 17;
/// Queue samples that are kept.
const MOST_SAMPLES: usize = 1 << 20;

/// What happens rarely, or far ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Far {
    /// Something that the ledger waits for.
    Due(Due),
    /// A pause frame, or the end of one, reaches a link's sender.
    Pause { link: u32, on: bool },
    /// A sender has perhaps heard nothing for too long.
    Timeout { conn: u32, generation: u32 },
    /// Something beyond the reach of the wheel.
    Thing(Thing),
    /// Queues are to be sampled.
    Sample,
    /// A balancer from outside gave a packet of this connection no path.
    NoPath { conn: u32 },
}

/// What a run counts.
#[derive(Debug)]
pub(crate) struct RunCounts {
    events: u64,
    pub data_packets: u64,
    pub control_packets: u64,
    pub resent: u64,
    pub drops: u64,
    pub pause_frames: u64,
    pub timeouts: u64,
    /// By how far behind the furthest one a data packet came: the number of binary digits.
    pub reorder: [u64; 33],
}

impl Default for RunCounts {
    fn default() -> Self {
        RunCounts {
            events: 0,
            data_packets: 0,
            control_packets: 0,
            resent: 0,
            drops: 0,
            pause_frames: 0,
            timeouts: 0,
            reorder: [0; 33],
        }
    }
}

pub(crate) struct Run<'a> {
    pub spec: &'a PacketSpec,
    pub scenario: &'a Scenario<'a>,
    pub ledger: Ledger<'a>,
    pub far: EventQueue<Far>,
    wheel: Wheel,
    pub net: Net,
    pub free_conns: Vec<u32>,
    pub free_messages: Vec<u32>,
    pub finished_messages: Vec<(u32, u64)>,
    /// Flows on each link of a circuit.
    pub users: Vec<u32>,
    /// Patches that wait until nothing is on their ports, with the tasks that ordered them.
    pub awaited: Vec<(u32, Patches)>,
    /// Tracks that wait for circuits, with the times when their phases were ordered.
    pub postponed: Vec<(u32, Time)>,
    pub path: Vec<LinkId>,
    pub raw_path: Vec<u32>,
    pub order: Vec<u32>,
    /// Connections that left a ring while others of their message wait for them.
    pub wakes: Vec<u32>,
    /// What chooses paths in place of the balancers of connections.
    pub outside: Option<Outside<'a>>,

    pub settings: RunSettings,
    pub dark: Dark,
    /// The longest round trip of the network \[ps\].
    pub longest: u64,
    random: u64,
    pub seed: u64,

    pub counts: RunCounts,
    samples: Vec<QueueSample>,
    /// The largest bandwidth-delay product that a given window is below, and that window.
    pub narrow_window: Option<(u64, u64)>,
}

impl<'a> Run<'a> {
    pub fn new(
        spec: &'a PacketSpec,
        seed: u64,
        chooser: Option<&'a dyn PathChooser>,
        scenario: &'a Scenario<'a>,
        policy: &'a mut dyn Policy,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let net = Net::new(scenario.fabric, spec.transport.kind().capabilities.pulls);
        let largest = spec.mtu.get().max(spec.scale_up_mtu.get()) + spec.header.get();
        let packet = spec.mtu.get() + spec.header.get();
        let longest = net.longest_round_trip(scenario.fabric, packet, spec.header.get());
        Run {
            spec,
            scenario,
            ledger: Ledger::new(scenario, policy, observer),
            far: EventQueue::new(),
            wheel: Wheel::new(net.horizon(largest), mix(seed)),
            free_conns: Vec::new(),
            free_messages: Vec::new(),
            finished_messages: Vec::new(),
            users: vec![0; net.links.len()],
            awaited: Vec::new(),
            postponed: Vec::new(),
            net,
            path: Vec::new(),
            raw_path: Vec::new(),
            order: Vec::new(),
            wakes: Vec::new(),
            outside: chooser.map(Outside::new),
            settings: RunSettings::new(spec),
            dark: spec.dark,
            longest,
            random: mix(seed ^ 0x5EED) | 1,
            seed,
            counts: RunCounts::default(),
            samples: Vec::new(),
            narrow_window: None,
        }
    }

    pub fn complete(mut self) -> Result<Outcome, EngineError> {
        self.ledger.begin();
        self.keep_up(Time::ZERO)?;
        if self.spec.sample_period > Time::ZERO {
            self.far.push(self.spec.sample_period, Far::Sample);
        }
        let mut now = 0;
        let mut far = self.far.peek_time().map_or(u64::MAX, Time::ps);
        while !self.ledger.is_over() {
            let near = self.wheel.peek(far).unwrap_or(u64::MAX);
            if !self.wheel.spilled.is_empty() {
                for (time, id) in self.wheel.spilled.drain(..) {
                    self.far.push(Time::from_ps(time), Far::Thing(Thing::of(id)));
                }
                far = self.far.peek_time().map_or(u64::MAX, Time::ps);
                continue;
            }
            if far == u64::MAX && near == u64::MAX {
                break;
            }
            self.counts.events += 1;
            if self.counts.events % CHECK_EVERY == 0 {
                self.ledger.ask(Time::from_ps(near.min(far)))?;
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
                self.finish_messages(now)?;
            }
            far = self.far.peek_time().map_or(u64::MAX, Time::ps);
        }
        self.report(now)
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

    #[inline(never)] // rare; the loop over packets stays small
    fn happen_far(&mut self, event: Far, now: u64) -> Result<(), EngineError> {
        let time = Time::from_ps(now);
        match event {
            Far::Due(due) => {
                self.ledger.due(due);
                self.keep_up(time)
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
            Far::NoPath { conn } => {
                let message = self.net.conns[conn as usize].message as usize;
                let task = self.ledger.task_of(self.net.messages[message].track);
                let refused = self.outside.as_mut().and_then(|outside| outside.refused.take());
                let reason = format!("balancer: {}", refused.unwrap_or_default());
                Err(EngineError::Policy { task, reason })
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

    // ---- transfers

    /// Does what the ledger asks for at this instant.
    fn keep_up(&mut self, now: Time) -> Result<(), EngineError> {
        while let Some(step) = self.ledger.step(now)? {
            match step {
                Step::Wake(wake) => self.wake(wake),
                Step::Patch { task, patches } if patches.waits => {
                    self.awaited.push((task, patches));
                    self.patch_what_is_free(now)?;
                }
                Step::Patch { task, patches } => self.reconfigure(Some(task), &patches, now)?,
                Step::Ready(links) => self.set_ready(&links, now),
                Step::Send(sending) => self.launch(sending, now, now)?,
                Step::Incident(changes) => self.incident(&changes, now)?,
            }
        }
        Ok(())
    }

    pub(crate) fn wake(&mut self, wake: Wake) {
        self.far.push(wake.at, Far::Due(wake.due));
    }

    /// Starts the flows of a phase, which were ordered at some time; or postpones them until circuits are
    /// there that wait for their ports.
    pub(crate) fn launch(
        &mut self,
        sending: Sending,
        ordered: Time,
        now: Time,
    ) -> Result<(), EngineError> {
        let ready = match sending.ready(&self.ledger.circuits, now) {
            Err(EngineError::NoCircuit { tx, .. }) if self.is_awaited(tx) => {
                self.postponed.push((sending.track, ordered));
                self.ledger.postpone(sending);
                return Ok(());
            }
            ready => ready?,
        };
        let first = self.new_connections(&sending, now);
        let count = sending.orders.flows(sending.phase).len() as u32;
        self.ledger.sent(sending, count, now + (ready - ordered), now);
        let mut order = std::mem::take(&mut self.order);
        for conn in order.drain(first..) {
            self.ready(conn, now.ps());
        }
        self.order = order;
        Ok(())
    }

    #[inline(never)] // rare; the loop over packets stays small
    fn finish_messages(&mut self, now: u64) -> Result<(), EngineError> {
        let mut finished = std::mem::take(&mut self.finished_messages);
        for (id, now) in finished.drain(..) {
            let message = &self.net.messages[id as usize];
            let (track, bytes, start, ideal) =
                (message.track, message.bytes, message.start, message.ideal);
            self.free_messages.push(id);
            if now - start < ideal {
                let task = self.ledger.task_of(track);
                let (took, ideal) = (Time::from_ps(now - start), Time::from_ps(ideal));
                return Err(EngineError::Impossible { task, took, ideal });
            }
            let (start, end) = (Time::from_ps(start), Time::from_ps(now));
            if let Some(wake) = self.ledger.arrived(track, Bytes::new(bytes), start, end, end) {
                self.wake(wake);
            }
        }
        self.finished_messages = finished;
        if self.awaited.is_empty() { Ok(()) } else { self.patch_what_is_free(Time::from_ps(now)) }
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

    fn report(mut self, now: u64) -> Result<Outcome, EngineError> {
        for (link, tally) in self.net.links.iter().zip(&mut self.net.tallies) {
            if link.paused {
                tally.paused_for += now - tally.paused_since;
            }
        }
        let (links, tallies) = (&self.net.links, &self.net.tallies);
        let packets = |(link, tally): (&Link, &Tally)| tally.rounds << 32 | u64::from(link.packets);
        let mut reorder = self.counts.reorder.to_vec();
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
        let mut outcome = self.ledger.close(Time::from_ps(now))?;
        outcome.link_bytes = links.iter().map(|l| Bytes::new(l.carried)).collect();
        outcome.events = self.counts.events;
        outcome.packets = Some(Box::new(Packets {
            sent: self.counts.data_packets + self.counts.control_packets,
            hops: links.iter().zip(tallies).map(packets).sum(),
            data: self.counts.data_packets,
            resent: self.counts.resent,
            drops: self.counts.drops,
            trims: tallies.iter().map(|t| t.trims).sum(),
            marks: tallies.iter().map(|t| t.marks).sum(),
            pauses: self.counts.pause_frames,
            timeouts: self.counts.timeouts,
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
        Ok(outcome)
    }
}
