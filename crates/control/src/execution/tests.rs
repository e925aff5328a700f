//! Executions among switches and nodes that fail at random; the data plane is asked what was lit.

use super::*;
use crate::driver::{Answer, Order, Patch};
use crate::ocs::{Device, Switch};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::{Bytes, Time};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const MS: Time = Time::from_ms(1);

fn ms(count: u64) -> Time {
    Time::from_ms(count)
}

/// What goes wrong, by chance out of 256 each time.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    /// An answer comes later than it is waited for.
    late: u8,
    /// A stream breaks under an order, which is carried out all the same, or never.
    breaks: u8,
    /// The switch says that it is done, and is not.
    lies: u8,
    refuses: u8,
    /// A message between a node and the execution is lost.
    loses: u8,
}

enum Event {
    Answer { switch: usize, stream: u64, id: u64, answer: Answer },
    Carry { switch: usize, end: Vec<Patch>, set: Vec<Patch> },
    Up { switch: usize },
    Report(NodeReport),
    View { node: usize, view: NodeView },
    Beat { node: usize },
    Sent { node: usize, plane: u32, at: u64 },
    Arrived { at: u64, node: usize, step: u32, bytes: Bytes },
    Stop,
    Wake,
}

struct Queued(Time, u64, Event);

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}
impl Eq for Queued {}
impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// Something that a node is sending.
#[derive(Clone, Copy, Debug)]
struct Flight {
    node: usize,
    plane: u32,
    peer: u32,
    at: u64,
}

struct World {
    now: Time,
    queue: BinaryHeap<Reverse<Queued>>,
    number: u64,
    random: ChaCha8Rng,
    faults: Faults,
    switches: Vec<Switch>,
    streams: Vec<Option<u64>>,
    execution: Execution,
    /// By device: where it is.
    places: Vec<Place>,
    nodes: Vec<NodeRun>,
    /// Nodes that have stopped to speak.
    frozen: Vec<bool>,
    flights: Vec<Flight>,
    /// By node and step: bytes that came.
    came: BTreeMap<(u32, u32), u64>,
    found: Option<PortMaps>,
    loaded: bool,
    ready: Vec<(usize, usize)>,
    ending: Option<Ending>,
    /// What was sent where it was dark.
    violations: Vec<String>,
    orders: usize,
    /// Circuits, by switch, that must stand all the time.
    kept: Vec<(usize, Patch)>,
    most_touched: usize,
    /// The stream breaks under the next order, which is carried out so much later.
    carried_late: Option<Time>,
}

impl World {
    fn new(maps: &PortMaps, places: &[Place], ports: &[u16], task: Task, limits: Limits) -> Self {
        let device = |ports| Device {
            name: "emulated".into(),
            ports,
            delay: ReconfigurationDelay::Fixed { ps: ms(25) },
        };
        let execution =
            Execution::new(maps.clone(), places.to_vec(), ports, &[], task, limits, Time::ZERO);
        World {
            now: Time::ZERO,
            queue: BinaryHeap::new(),
            number: 0,
            random: ChaCha8Rng::seed_from_u64(1),
            faults: Faults::default(),
            switches: ports.iter().map(|&ports| Switch::new(device(ports), 1).unwrap()).collect(),
            streams: vec![Some(0); ports.len()],
            execution: execution.unwrap(),
            places: places.to_vec(),
            nodes: Vec::new(),
            frozen: Vec::new(),
            flights: Vec::new(),
            came: BTreeMap::new(),
            found: None,
            loaded: false,
            ready: Vec::new(),
            ending: None,
            violations: Vec::new(),
            orders: 0,
            kept: Vec::new(),
            most_touched: 0,
            carried_late: None,
        }
    }

    fn follow(&mut self, plan: &Plan, readiness: Readiness) {
        let node = |number| NodeRun::new(plan, number, readiness).unwrap();
        self.nodes = (0..plan.nodes()).map(node).collect();
        self.frozen = vec![false; self.nodes.len()];
    }

    fn at(&mut self, time: Time, event: Event) {
        self.number += 1;
        self.queue.push(Reverse(Queued(time, self.number, event)));
    }

    fn draws(&mut self, chance: u8) -> bool {
        chance > 0 && (self.random.next_u32() & 255) < u32::from(chance)
    }

    fn up_to(&mut self, most: Time) -> Time {
        Time::from_ps(self.random.next_u64() % (most.ps() + 1))
    }

    /// Runs until it is over, or for so long.
    fn run(&mut self, most: Time) -> Ending {
        self.start();
        self.resume(most)
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Answer { switch, stream, id, answer } => {
                if self.streams[switch] == Some(stream) {
                    self.execution.handle(now, Input::Answer { switch, id, answer });
                }
            }
            Event::Carry { switch, end, set } => {
                // Refused: nothing has changed.
                let _ = self.switches[switch].apply(now, &end, &set);
            }
            Event::Up { switch } => {
                self.streams[switch] = Some(self.number);
                let ports = self.switches[switch].ports();
                self.execution.handle(now, Input::SwitchUp { switch, ports });
            }
            Event::Report(report) => {
                self.execution.handle(now, Input::Node(report.clone()));
                self.tell(report.node);
            }
            Event::View { node, view } => self.nodes[node].told(now, view),
            Event::Beat { node } => {
                if !self.frozen[node] {
                    let report = self.nodes[node].report(now);
                    let (lost, delay) = (self.draws(self.faults.loses), self.up_to(ms(5)));
                    if !lost {
                        self.at(now + delay, Event::Report(report));
                    }
                }
                self.at(now + ms(20), Event::Beat { node });
            }
            Event::Sent { node, plane, at } => {
                if !self.flies(at) {
                    return;
                }
                self.flights.retain(|flight| flight.at != at);
                self.nodes[node].sent(plane);
                let report = self.nodes[node].report(now);
                self.at(now, Event::Report(report));
            }
            Event::Arrived { at, node, step, bytes } => {
                if self.flies(at) {
                    *self.came.entry((node as u32, step)).or_default() += bytes.get();
                    self.nodes[node].received(step, bytes);
                }
            }
            Event::Stop => self.execution.handle(now, Input::Stop),
            Event::Wake => {}
        }
    }

    fn tell(&mut self, node: u32) {
        let Some(view) = self.execution.view(self.now, node) else { return };
        for port in &view.ports {
            // Who is told whose circuit leads here is told by whoever has it, too.
            let sends = |other: u32| {
                let told = self.execution.view(self.now, other).unwrap().ports;
                told.into_iter()
                    .find(|at| at.to == Some((node, port.port)))
                    .map(|at| (other, at.port))
            };
            assert_eq!(port.from, self.execution.nodes().find_map(sends));
        }
        let (lost, delay) = (self.draws(self.faults.loses), self.up_to(ms(5)));
        if !lost {
            self.at(self.now + delay, Event::View { node: node as usize, view });
        }
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.execution.poll() {
            match output {
                Output::Found(maps) => {
                    assert_eq!(self.orders, 0, "what was found is put out before anything changes");
                    self.found = Some(maps);
                }
                Output::Order { switch, id, order } => self.order(switch, id, order),
                Output::Reconnect { switch } => self.break_stream(switch),
                Output::Loaded => self.loaded = true,
                Output::Ready { device, setting, .. } => {
                    self.ready.push((device, setting));
                    (0..self.nodes.len() as u32).for_each(|node| self.tell(node));
                }
                Output::Note(_) => {}
                Output::Ended(ending) => self.ending = Some(ending),
            }
        }
    }

    fn order(&mut self, switch: usize, id: u64, order: Order) {
        let stream = self.streams[switch].expect("orders are for switches that are up");
        let now = self.now;
        let wait = self.up_to(ms(3));
        let Order::Apply { end, set } = order else {
            let answer = match self.draws(self.faults.refuses / 8) {
                true => Answer::Refused("no".into()),
                false => Answer::State(self.switches[switch].patches().collect()),
            };
            return self.at(now + wait, Event::Answer { switch, stream, id, answer });
        };
        self.orders += 1;
        let touched: Vec<usize> = (0..self.switches.len())
            .filter(|&at| at == switch || self.switches[at].next_timeout().is_some())
            .collect();
        self.most_touched = self.most_touched.max(touched.len());
        if let Some(late) = self.carried_late.take() {
            self.at(now + late, Event::Carry { switch, end, set });
            return self.break_stream(switch);
        }
        if self.draws(self.faults.breaks) {
            if self.draws(128) {
                let late = self.up_to(ms(900));
                self.at(now + late, Event::Carry { switch, end, set });
            }
            return self.break_stream(switch);
        }
        if self.draws(self.faults.refuses) {
            let answer = Answer::Refused("busy".into());
            return self.at(now + wait, Event::Answer { switch, stream, id, answer });
        }
        let (end, set) = match self.draws(self.faults.lies) {
            true => (end, set.into_iter().skip(1).collect()),
            false => (end, set),
        };
        let done = self.switches[switch].apply(now, &end, &set);
        let late = if self.draws(self.faults.late) { ms(2_500) } else { Time::ZERO };
        let (done, answer) = match done {
            Ok(done) => (done, Answer::Done),
            Err(why) => (now, Answer::Refused(why.to_string())),
        };
        self.at(done, Event::Wake);
        self.at(done + wait + late, Event::Answer { switch, stream, id, answer });
    }

    fn break_stream(&mut self, switch: usize) {
        if self.streams[switch].take().is_some() {
            let why = "it broke".into();
            self.execution.handle(self.now, Input::SwitchDown { switch, why });
        }
        let wait = self.up_to(ms(50));
        self.at(self.now + wait, Event::Up { switch });
    }

    /// Nodes send what they may.
    fn send(&mut self) {
        for node in 0..self.nodes.len() {
            for plane in self.nodes[node].cut(self.now) {
                self.flights.retain(|flight| (flight.node, flight.plane) != (node, plane));
            }
            while let Some(one) = self.nodes[node].next(self.now) {
                self.number += 1;
                let (at, plane, took) = (self.number, one.plane, self.up_to(ms(10)));
                self.flights.push(Flight { node, plane, peer: one.peer, at });
                let (peer, step, bytes) = (one.peer as usize, one.step, one.bytes);
                self.at(self.now + took, Event::Arrived { at, node: peer, step, bytes });
                self.at(self.now + took, Event::Sent { node, plane, at });
            }
            let next = self.nodes[node].next_timeout();
            if next < Time::MAX && next > self.now {
                self.at(next, Event::Wake);
            }
        }
    }

    fn flies(&self, at: u64) -> bool {
        self.flights.iter().any(|flight| flight.at == at)
    }

    /// Everything that is being sent must be lit; what is to be kept must stand.
    fn look(&mut self) {
        for flight in &self.flights {
            let place = self.places[flight.plane as usize];
            let switch = &self.switches[place.switch];
            let ingress = place.first + flight.node as u16;
            let egress = switch.ports() + place.first + flight.peer as u16;
            if switch.live_egress(self.now, ingress) != Some(egress) {
                self.violations.push(format!("{}: {flight:?}", self.now));
            }
        }
        for &(switch, patch) in &self.kept {
            let lit = self.switches[switch].live_egress(self.now, patch.ingress);
            assert_eq!(lit, Some(patch.egress), "{}: {patch:?} is to be kept", self.now);
        }
    }

    fn holds(&self, switch: usize) -> Vec<Patch> {
        self.switches[switch].patches().collect()
    }
}

/// Shifts of a ring over planes, step by step: a plan and its port maps. In step `s` node `i` sends to
/// `i + shifts[plane][s]`, if that is not 0.
fn shifted(nodes: u32, shifts: &[Vec<u32>]) -> (Plan, PortMaps) {
    let to = |node: u32, shift: u32| (node + shift) % nodes;
    let (step_time, dark) = (ms(60), ms(30));
    let mut devices = Vec::new();
    let mut tracks = Vec::new();
    let mut sends = vec![Vec::new(); nodes as usize];
    for (plane, steps) in shifts.iter().enumerate() {
        let first = steps.iter().copied().find(|shift| *shift > 0).unwrap_or(1);
        let initial: Vec<Circuit> = (0..nodes).map(|node| (node, to(node, first))).collect();
        let (mut held, mut used) = (first, false);
        let (mut settings, mut changes) = (Vec::new(), Vec::new());
        for (step, &shift) in steps.iter().enumerate().filter(|(_, shift)| **shift > 0) {
            let start = Time::from_ps(step_time.ps() * step as u64);
            if shift != held {
                let circuits: Vec<Circuit> =
                    (0..nodes).map(|node| (node, to(node, shift))).collect();
                let wait_for = if used { (0..nodes).collect() } else { Vec::new() };
                let ready = start + dark;
                changes.push(serde_json::json!(
                    {"start_ps": start.ps(), "ready_ps": ready.ps(), "circuits": circuits}
                ));
                settings.push(Setting { start, ready, circuits, wait_for });
                held = shift;
            }
            used = true;
            for node in 0..nodes {
                let after = step.checked_sub(1);
                sends[node as usize].push(serde_json::json!({
                    "step": step, "peer": to(node, shift), "plane": plane, "bytes": 100,
                    "start_ps": (start + dark).ps(), "end_ps": 0, "after_step": after,
                }));
            }
        }
        devices.push(DeviceMaps {
            device: format!("plane {plane}"),
            ports: (0, nodes - 1),
            duplex: false,
            attached: (0..nodes).map(|node| (node, node, plane as u32)).collect(),
            initial,
            settings,
        });
        let initial: Vec<u32> = (0..nodes).map(|node| to(node, first)).collect();
        tracks.push(serde_json::json!(
            {"plane": plane, "initial": initial, "reconfigurations": changes}
        ));
    }
    let nodes: Vec<_> = sends.iter().map(|own| serde_json::json!({"transmissions": own})).collect();
    let text = serde_json::json!({
        "format": "lightloom-plan", "version": 1,
        "machine": {"nodes": nodes.len(), "planes": shifts.len()},
        "planes": tracks, "nodes": nodes,
    });
    (Plan::read(&text.to_string()).unwrap(), PortMaps::new("a test", devices))
}

/// A switch a device.
fn apart(maps: &PortMaps) -> (Vec<Place>, Vec<u16>) {
    let place = |switch| Place { switch, first: 3 };
    let ports = maps.devices.iter().map(|device| 4 + (device.ports.1 - device.ports.0) as u16);
    ((0..maps.devices.len()).map(place).collect(), ports.collect())
}

/// All devices on one switch.
fn together(maps: &PortMaps) -> (Vec<Place>, Vec<u16>) {
    let mut next = 1;
    let places = maps.devices.iter().map(|device| {
        let first = next;
        next += (device.ports.1 - device.ports.0 + 1) as u16;
        Place { switch: 0, first }
    });
    (places.collect(), vec![next - 1])
}

fn quick() -> Limits {
    Limits { settle: Time::ZERO, ..Limits::default() }
}

const LEASE: Readiness = Readiness::Signal;

/// Maps of one device without nodes.
fn device(duplex: bool, ports: (u32, u32), initial: &[Circuit]) -> DeviceMaps {
    DeviceMaps {
        device: "a".into(),
        ports,
        duplex,
        attached: Vec::new(),
        initial: initial.to_vec(),
        settings: Vec::new(),
    }
}

#[test]
fn a_plan_is_carried_out_and_every_byte_comes_once() {
    let (plan, maps) = shifted(5, &[vec![1, 2, 2, 3], vec![4, 0, 1, 4]]);
    for (places, ports) in [apart(&maps), together(&maps)] {
        let mut world = World::new(&maps, &places, &ports, Task::Run, quick());
        world.follow(&plan, LEASE);
        assert_eq!(world.run(ms(5_000)), Ending::Complete);
        assert_eq!(world.violations, Vec::<String>::new());
        assert_eq!(world.ready.len(), 4, "two settings on either plane");
        assert!(world.came.values().all(|bytes| [100, 200].contains(bytes)));
        assert_eq!(world.came.values().sum::<u64>(), 5 * 7 * 100);
        let left = &world.execution.standing().devices[0];
        assert_eq!(left.initial[0], (0, 3), "the last setting is what stands");
    }
}

#[test]
fn late_switches_delay_and_do_not_corrupt() {
    let (plan, maps) = shifted(4, &[vec![1, 2, 3], vec![2, 3, 1]]);
    let (places, ports) = apart(&maps);
    let mut world = World::new(&maps, &places, &ports, Task::Run, quick());
    world.follow(&plan, LEASE);
    world.faults.late = 255;
    assert_eq!(world.run(ms(60_000)), Ending::Complete);
    assert_eq!(world.violations, Vec::<String>::new());
    assert!(world.now > ms(2_000), "an answer later than the patience costs a stream");
}

#[test]
fn a_node_that_is_late_delays_the_switch() {
    let (plan, maps) = shifted(3, &[vec![1, 2]]);
    let (places, ports) = apart(&maps);
    let mut execution =
        Execution::new(maps, places, &ports, &[], Task::Run, quick(), Time::ZERO).unwrap();
    let mut nodes: Vec<_> = (0..3).map(|at| NodeRun::new(&plan, at, LEASE).unwrap()).collect();
    let mut switch = Switch::new(
        Device { name: "e".into(), ports: ports[0], delay: ReconfigurationDelay::Fixed { ps: MS } },
        1,
    )
    .unwrap();
    execution.handle(Time::ZERO, Input::SwitchUp { switch: 0, ports: ports[0] });
    let mut now = Time::ZERO;
    let mut sending: Vec<Option<u32>> = vec![None; 3];
    for round in 0..200 {
        now += MS;
        switch.advance(now);
        while let Some(output) = execution.poll() {
            let Output::Order { id, order, .. } = output else { continue };
            let answer = match order {
                Order::Read => Answer::State(switch.patches().collect()),
                Order::Apply { end, set } => {
                    assert!(sending.iter().all(Option::is_none), "cut in round {round}");
                    switch.apply(now, &end, &set).unwrap();
                    Answer::Done
                }
            };
            execution.handle(now, Input::Answer { switch: 0, id, answer });
        }
        for (at, node) in nodes.iter_mut().enumerate() {
            execution.handle(now, Input::Node(node.report(now)));
            node.told(now, execution.view(now, at as u32).unwrap());
            if let Some(one) = node.next(now) {
                sending[at] = Some(one.plane);
            }
        }
        // Node 2 takes 120 ms for each, the others one.
        for at in 0..3 {
            if (at != 2 || round % 120 == 119)
                && let Some(plane) = sending[at].take()
            {
                nodes[at].sent(plane);
                nodes[(at + 1) % 3].received(0, Bytes::new(100));
            }
        }
    }
    assert!(nodes[0].view().ports[0].holds == 2, "it was set once node 2 had done");
}

#[test]
fn a_plan_that_cannot_go_on_falls_back_to_what_stands() {
    let (plan, maps) = shifted(4, &[vec![1, 2], vec![3, 3]]);
    let (places, ports) = apart(&maps);
    let mut world = World::new(&maps, &places, &ports, Task::Run, quick());
    world.follow(&plan, LEASE);
    world.run_until_loaded(ms(5_000));
    world.switches[0].stick(places[0].first, true);
    let ending = world.resume(ms(60_000));
    let Ending::FellBack(why) = ending else { panic!("{ending:?}") };
    assert_eq!(why, "switch 0: not all circuits stand, after 3 attempts");
    assert_eq!(world.violations, Vec::<String>::new());
    let standing = world.execution.standing();
    assert_eq!(standing.devices[1].initial, maps.devices[1].initial, "plane 1 is as it was");
    assert!(world.nodes.iter().all(|node| node.view().stage == Stage::FellBack));
}

#[test]
fn nothing_is_touched_that_stands_and_is_wanted() {
    let initial: Vec<Circuit> = vec![(1, 2), (3, 4), (5, 6)];
    let maps = PortMaps::new("a test", vec![device(true, (1, 8), &initial)]);
    let places = [Place { switch: 0, first: 1 }];
    let mut world = World::new(&maps, &places, &[8], Task::Load, quick());
    let (keep, odd) = (Patch::pair(8, 3, 4), Patch::pair(8, 1, 5));
    let all: Vec<Patch> = keep.into_iter().chain(odd).collect();
    world.switches[0].apply(Time::ZERO, &[], &all).unwrap();
    world.switches[0].advance(ms(30));
    world.now = ms(30);
    world.kept = keep.iter().map(|&patch| (0, patch)).collect();
    assert_eq!(world.run(ms(5_000)), Ending::Complete);
    assert_eq!(world.orders, 1);
    assert_eq!(world.found.as_ref().unwrap().devices[0].initial, [(1, 5), (3, 4)]);
    let mut wanted: Vec<Patch> =
        initial.iter().flat_map(|&(a, b)| Patch::pair(8, a as u16, b as u16)).collect();
    wanted.sort_unstable();
    assert_eq!(world.holds(0), wanted);
}

#[test]
fn switches_are_loaded_so_many_at_a_time() {
    let one = |at: usize| DeviceMaps {
        device: format!("{at}"),
        ..device(true, (0, 7), &[(0, 1), (2, 3)])
    };
    let maps = PortMaps::new("a test", (0..9).map(one).collect());
    let (places, ports) = apart(&maps);
    for (together, most) in [(1, 1), (4, 4), (usize::MAX, 9)] {
        let limits = Limits { together, ..quick() };
        let mut world = World::new(&maps, &places, &ports, Task::Load, limits);
        assert_eq!(world.run(ms(5_000)), Ending::Complete);
        assert_eq!(world.most_touched, most);
    }
}

#[test]
fn a_load_that_fails_is_taken_back_everywhere() {
    let one = |at: usize| DeviceMaps {
        device: format!("{at}"),
        ..device(true, (0, 7), &[(0, 1), (2, 3)])
    };
    let maps = PortMaps::new("a test", (0..3).map(one).collect());
    let (places, ports) = apart(&maps);
    let mut world = World::new(&maps, &places, &ports, Task::Load, quick());
    let before = Patch::pair(ports[0], 4, 8);
    for switch in &mut world.switches {
        switch.apply(Time::ZERO, &[], &before).unwrap();
        switch.advance(ms(30));
    }
    world.now = ms(30);
    world.switches[2].stick(5, true);
    let Ending::TakenBack(why) = world.run(ms(9_000)) else { panic!("{:?}", world.ending) };
    assert_eq!(why, "switch 2: not all circuits stand, after 3 attempts");
    for at in 0..3 {
        assert_eq!(world.holds(at), before, "switch {at}");
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_changes() {
    let maps = PortMaps::new("a test", vec![device(true, (1, 4), &[(1, 2)])]);
    let places = [Place { switch: 0, first: 1 }];
    // A port that leads out of the device.
    let mut world = World::new(&maps, &places, &[8], Task::Load, quick());
    world.switches[0].apply(Time::ZERO, &[], &Patch::pair(8, 4, 7)).unwrap();
    let why = "switch 0: port 4 is joined to port 7, of no device";
    assert_eq!(world.run(ms(5_000)), Ending::Refused(why.into()));
    assert_eq!(world.orders, 0);
    // A switch of another size, and one that never comes.
    let mut world = World::new(&maps, &places, &[8], Task::Load, quick());
    world.execution.handle(Time::ZERO, Input::SwitchUp { switch: 0, ports: 16 });
    world.carry_out();
    let why = "switch 0: it has 16 ports, and shall have 8";
    assert_eq!(world.ending, Some(Ending::Refused(why.into())));
    let mut execution =
        Execution::new(maps, places.to_vec(), &[8], &[], Task::Load, quick(), Time::ZERO).unwrap();
    assert_eq!(execution.next_timeout(), ms(30_000));
    execution.timeout(ms(30_000));
    let why = "switch 0: away for 30 s: it has not answered";
    assert_eq!(execution.poll(), Some(Output::Ended(Ending::Refused(why.into()))));
}

#[test]
fn circuits_to_keep_must_be_wanted_and_stand() {
    let maps = |circuits: &[Circuit]| PortMaps::new("a test", vec![device(true, (1, 4), circuits)]);
    let places = vec![Place { switch: 0, first: 1 }];
    let new = |keep: &[Circuit]| {
        let (maps, keep) = (maps(&[(1, 2)]), [maps(keep)]);
        Execution::new(maps, places.clone(), &[4], &keep, Task::Load, quick(), Time::ZERO)
    };
    let why = new(&[(1, 3)]).unwrap_err().to_string();
    assert_eq!(why, "a: circuit [1, 3] is to be kept, and the maps end it");
    let mut execution = new(&[(2, 1)]).unwrap();
    execution.handle(Time::ZERO, Input::SwitchUp { switch: 0, ports: 4 });
    let Some(Output::Order { id, .. }) = execution.poll() else { panic!() };
    let answer = Answer::State(Vec::new());
    execution.handle(Time::ZERO, Input::Answer { switch: 0, id, answer });
    let why = "a: circuit (2, 1) is to be kept, and does not stand";
    assert_eq!(execution.poll(), Some(Output::Ended(Ending::Refused(why.into()))));
}

#[test]
fn devices_must_fit_where_they_are() {
    let maps = PortMaps::new("a test", vec![device(true, (1, 4), &[])]);
    let new = |maps: PortMaps, places: &[Place]| {
        let limits = quick();
        Execution::new(maps, places.to_vec(), &[6], &[], Task::Load, limits, Time::ZERO)
            .err()
            .map(|why| why.to_string())
    };
    let place = |first| Place { switch: 0, first };
    assert_eq!(new(maps.clone(), &[place(3)]), None);
    let why = "devices[0].ports: would be ports 4 to 7 of a switch with 1 to 6";
    assert_eq!(new(maps.clone(), &[place(4)]), Some(why.into()));
    let mut two = maps;
    two.devices.push(DeviceMaps { device: "b".into(), ..two.devices[0].clone() });
    let why = "devices[1].ports: port 3 of the switch is another device's";
    assert_eq!(new(two, &[place(1), place(3)]), Some(why.into()));
}

#[test]
fn a_stop_takes_a_load_back_and_lets_a_run_fall_back() {
    let (plan, maps) = shifted(4, &[vec![1, 2, 3]]);
    let (places, ports) = apart(&maps);
    for (task, at) in [(Task::Load, 10), (Task::Run, 100)] {
        let mut world = World::new(&maps, &places, &ports, task, quick());
        if task == Task::Run {
            world.follow(&plan, LEASE);
        }
        world.at(ms(at), Event::Stop);
        let why = "it was told to stop".to_owned();
        let ending = world.run(ms(60_000));
        match task {
            Task::Load | Task::Look => assert_eq!(ending, Ending::TakenBack(why)),
            Task::Run => assert_eq!(ending, Ending::FellBack(why)),
        }
        assert_eq!(world.violations, Vec::<String>::new());
    }
}

#[test]
fn a_node_that_falls_silent_stops_the_plan_and_nothing_of_its_own_is_cut() {
    let (plan, maps) = shifted(4, &[vec![1, 2, 3]]);
    let (places, ports) = apart(&maps);
    let mut world = World::new(&maps, &places, &ports, Task::Run, quick());
    world.follow(&plan, LEASE);
    world.run_until_loaded(ms(5_000));
    world.frozen[2] = true;
    // What it is sending goes on for ever: nobody may cut it.
    let ending = world.resume(ms(90_000));
    assert!(matches!(ending, Ending::FellBack(_) | Ending::Complete), "{ending:?}");
    assert_eq!(world.violations, Vec::<String>::new());
}

#[test]
fn circuits_that_somebody_else_ends_make_it_fall_back() {
    let (plan, maps) = shifted(4, &[vec![1, 1], vec![2, 3]]);
    let (places, ports) = apart(&maps);
    let limits = Limits { audit: ms(20), ..quick() };
    let mut world = World::new(&maps, &places, &ports, Task::Run, limits);
    world.follow(&plan, LEASE);
    world.run_until_loaded(ms(5_000));
    let patch = world.holds(0)[0];
    world.switches[0].apply(world.now, &[patch], &[]).unwrap();
    let Ending::FellBack(why) = world.resume(ms(60_000)) else { panic!("{:?}", world.ending) };
    assert_eq!(why, "plane 0: the circuit from port 0 to 1 is gone");
}

#[test]
fn nodes_are_not_believed_more_than_can_be() {
    let (_, maps) = shifted(3, &[vec![1, 2]]);
    let (places, ports) = apart(&maps);
    let mut execution =
        Execution::new(maps, places, &ports, &[], Task::Run, quick(), Time::ZERO).unwrap();
    let report =
        |node, done: &[(u32, u32)]| NodeReport { node, beat: 1, done: done.to_vec(), ended: false };
    for wrong in
        [report(7, &[]), report(0, &[(0, 2)]), report(0, &[(9, 0)]), report(0, &[(0, u32::MAX)])]
    {
        execution.handle(Time::ZERO, Input::Node(wrong));
        assert!(matches!(execution.poll(), Some(Output::Note(_))));
        assert_eq!(execution.missing().count(), 3);
    }
    execution.handle(Time::ZERO, Input::Node(report(0, &[(0, 1)])));
    assert_eq!(execution.missing().count(), 2);
}

#[test]
fn a_node_stops_at_the_end_of_its_lease() {
    let (plan, _) = shifted(3, &[vec![1, 1, 1]]);
    let mut node = NodeRun::new(&plan, 0, Readiness::Signal).unwrap();
    let view = |beat| NodeView {
        beat,
        lease: ms(100),
        stage: Stage::Running,
        ports: vec![PortView { port: 0, holds: 1, to: Some((1, 0)), from: None }],
        ..NodeView::default()
    };
    node.report(ms(10));
    // Counted from when the report was sent, not from when it was answered.
    node.told(ms(90), view(1));
    assert_eq!(node.clone().next(ms(109)).unwrap().peer, 1);
    assert_eq!(node.clone().next(ms(110)), None);
    let mut busy = node.clone();
    busy.next(ms(109));
    assert_eq!((busy.next_timeout(), busy.cut(ms(109))), (ms(110), vec![]));
    assert_eq!((busy.cut(ms(110)), busy.cut(ms(110)), busy.is_quiet()), (vec![0], vec![], true));
    assert_eq!(busy.report(ms(110)).done, [(0, 0)], "it is not done");
    node.told(ms(110), view(2));
    assert_eq!(node.clone().next(ms(110)), None, "it never sent a report 2");
    let mut elsewhere = view(1);
    elsewhere.ports[0].to = Some((2, 0));
    node.told(ms(50), elsewhere);
    assert_eq!(node.next(ms(50)), None, "the circuit leads elsewhere");
}

#[test]
fn a_node_sends_over_the_planned_circuit_after_the_step_and_by_the_latest_view() {
    // The third circuit leads where the first one does.
    let (plan, _) = shifted(3, &[vec![1, 2, 1]]);
    let mut node = NodeRun::new(&plan, 0, LEASE).unwrap();
    let view = |beat, holds, to| NodeView {
        beat,
        lease: ms(100),
        stage: Stage::Running,
        ports: vec![PortView { port: 0, holds, to: Some((to, 0)), from: None }],
        ..NodeView::default()
    };
    let mut now = ms(1);
    let mut tell = |node: &mut NodeRun, holds, to| {
        now += MS;
        let beat = node.report(now).beat;
        node.told(now, view(beat, holds, to));
        now
    };
    let mut step = |node: &mut NodeRun, holds, to, from: u32| {
        let now = tell(node, holds, to);
        assert_eq!(node.next(now).map(|one| (one.step, one.peer)), Some((from, to)));
        node.sent(0);
        now
    };
    let now = step(&mut node, 1, 1, 0);
    let beat = node.report(now).beat;
    node.told(now, view(beat, 2, 2));
    assert_eq!(node.next(now), None, "nothing of step 0 has come yet");
    node.received(0, Bytes::new(100));
    node.told(now, view(beat - 1, 1, 1));
    assert_eq!(node.clone().next(now).map(|one| one.peer), Some(2), "an older view came late");
    step(&mut node, 2, 2, 1);
    node.received(1, Bytes::new(100));
    let beat = node.report(now).beat;
    node.told(now, view(beat, 1, 1));
    assert_eq!(node.next(now), None, "this is the first circuit, and the third is planned");
    assert_eq!(node.report(now).done, [(0, 2)]);
}

#[test]
fn what_a_broken_stream_may_still_bring_is_waited_for() {
    let (plan, maps) = shifted(4, &[vec![1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2]]);
    let (places, ports) = apart(&maps);
    let mut world = World::new(&maps, &places, &ports, Task::Run, quick());
    world.follow(&plan, LEASE);
    world.run_until_loaded(ms(5_000));
    // The order for the first setting is carried out 800 ms after its stream broke, when the same circuits
    // would stand that it was given for.
    world.carried_late = Some(ms(800));
    assert_eq!(world.resume(ms(20_000)), Ending::Complete);
    assert_eq!(world.carried_late, None);
    assert_eq!(world.violations, Vec::<String>::new());
    assert!(world.now > ms(1_000));
}

#[test]
fn a_setting_waits_for_the_one_before_it_on_its_ports() {
    let setting = |circuits: &[Circuit]| Setting {
        start: Time::ZERO,
        ready: Time::ZERO,
        circuits: circuits.to_vec(),
        wait_for: Vec::new(),
    };
    let mut one = device(false, (0, 5), &[(0, 1), (4, 5)]);
    one.settings = vec![setting(&[(0, 2)]), setting(&[(4, 3)]), setting(&[(0, 1)])];
    let maps = PortMaps::new("a test", vec![one]);
    let places = [Place { switch: 0, first: 1 }];
    let mut world = World::new(&maps, &places, &[6], Task::Run, quick());
    assert_eq!(world.run(ms(5_000)), Ending::Complete);
    assert_eq!(world.ready, [(0, 0), (0, 1), (0, 2)]);
    // The first two have no port in common: one change does for both. With the load there are three.
    assert_eq!(world.orders, 3);
}

#[test]
fn by_schedule_nodes_send_at_their_time_and_a_guard() {
    let (plan, maps) = shifted(4, &[vec![1, 2]]);
    let (places, ports) = apart(&maps);
    let mut world = World::new(&maps, &places, &ports, Task::Run, quick());
    // The switch takes 25 ms of 30, and is asked up to 13 ms late.
    world.follow(&plan, Readiness::Schedule { guard: ms(20) });
    assert_eq!(world.run(ms(5_000)), Ending::Complete);
    assert_eq!(world.violations, Vec::<String>::new());
    assert!(world.now >= ms(60 + 30 + 20), "not before its time");
    // A switch that is later than the guard: sent into the dark, and seen.
    let mut world = World::new(&maps, &places, &ports, Task::Run, quick());
    world.follow(&plan, Readiness::Schedule { guard: ms(20) });
    world.run_until_loaded(ms(5_000));
    world.faults.lies = 255;
    world.resume(ms(60_000));
    assert!(!world.violations.is_empty());
}

/// What stands is waited for that a run which is gone may still use.
#[test]
fn circuits_that_were_found_end_only_after_a_while() {
    let maps = PortMaps::new("a test", vec![device(true, (1, 4), &[(1, 2)])]);
    let places = [Place { switch: 0, first: 1 }];
    for (found, least) in [(Patch::pair(4, 1, 3), ms(3_200)), (Patch::pair(4, 3, 4), ms(3_200))] {
        let limits = Limits { settle: ms(3_200), ..Limits::default() };
        let mut world = World::new(&maps, &places, &[4], Task::Load, limits);
        world.switches[0].apply(Time::ZERO, &[], &found).unwrap();
        world.run(ms(9_000));
        assert!(world.now >= least);
    }
    let mut world = World::new(&maps, &places, &[4], Task::Load, Limits::default());
    world.run(ms(9_000));
    assert!(world.now < ms(1_000), "nothing ends: nothing is waited for");
}

impl World {
    /// Runs until all that nodes can know stands.
    fn run_until_loaded(&mut self, most: Time) {
        self.start();
        while !self.loaded {
            self.step(most);
        }
    }

    fn start(&mut self) {
        for switch in 0..self.switches.len() {
            self.at(Time::ZERO, Event::Up { switch });
        }
        for node in 0..self.nodes.len() {
            self.at(MS, Event::Beat { node });
        }
    }

    fn resume(&mut self, most: Time) -> Ending {
        while self.ending.is_none() {
            self.step(most);
        }
        self.ending.clone().unwrap()
    }

    fn step(&mut self, most: Time) {
        let timer = self.execution.next_timeout();
        let next = self.queue.peek().map_or(Time::MAX, |Reverse(first)| first.0);
        self.now = self.now.max(timer.min(next));
        assert!(self.now <= most, "not over by {most}: {:?}", self.execution);
        let now = self.now;
        self.switches.iter_mut().for_each(|switch| switch.advance(now));
        self.look();
        if next <= timer {
            let Some(Reverse(Queued(_, _, event))) = self.queue.pop() else {
                panic!("nothing happens any more: {:?}", self.execution)
            };
            self.happen(event);
        } else {
            self.execution.timeout(self.now);
        }
        self.carry_out();
        self.send();
        self.look();
    }
}

fn faults() -> impl Strategy<Value = Faults> {
    let often = || prop_oneof![Just(0u8), 0..60u8];
    (often(), often(), often(), often(), often()).prop_map(
        |(late, breaks, lies, refuses, loses)| Faults { late, breaks, lies, refuses, loses },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever fails: no byte is sent where it is dark, every byte comes once or the plan falls back, and
    /// it ends.
    #[test]
    fn nothing_is_sent_into_the_dark(
        nodes in 2..7u32,
        planes in 1..4usize,
        steps in 1..5usize,
        seed in any::<u64>(),
        faults in faults(),
        one_switch in any::<bool>(),
        stops in prop_oneof![Just(None), (0..3_000u64).prop_map(Some)],
    ) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut shift = || random.next_u32() % nodes;
        let shifts: Vec<Vec<u32>> =
            (0..planes).map(|_| (0..steps).map(|_| shift()).collect()).collect();
        let (plan, maps) = shifted(nodes, &shifts);
        let (places, ports) = if one_switch { together(&maps) } else { apart(&maps) };
        let mut world = World::new(&maps, &places, &ports, Task::Run, Limits::default());
        world.random = ChaCha8Rng::seed_from_u64(seed);
        world.faults = faults;
        world.follow(&plan, LEASE);
        if let Some(at) = stops {
            world.at(ms(at), Event::Stop);
        }
        let ending = world.run(Time::from_secs_f64(600.0));
        prop_assert_eq!(&world.violations, &Vec::<String>::new());
        match ending {
            Ending::Complete => {
                let sent = shifts.iter().flatten().filter(|shift| **shift > 0).count() as u64;
                prop_assert_eq!(world.came.values().sum::<u64>(), sent * u64::from(nodes) * 100);
                let settings: usize = maps.devices.iter().map(|one| one.settings.len()).sum();
                prop_assert_eq!(world.ready.len(), settings);
            }
            Ending::TakenBack(_) => {
                for at in 0..ports.len() {
                    prop_assert_eq!(world.holds(at), Vec::<Patch>::new());
                }
            }
            Ending::Refused(_) => prop_assert_eq!(world.orders, 0),
            Ending::FellBack(_) => prop_assert!(world.loaded),
            Ending::Torn(_) => {}
        }
        if stops.is_none() && faults.lies == 0 && faults.refuses == 0 && faults.late == 0 && faults.breaks == 0 {
            prop_assert_eq!(world.ending.unwrap(), Ending::Complete, "messages that are lost only delay");
        }
    }

    /// What is written is read, and nothing makes the reader panic.
    #[test]
    fn maps_are_read_as_they_are_written(
        nodes in 2..6u32,
        shifts in prop::collection::vec(prop::collection::vec(0..2u32, 1..4), 1..3),
        cut in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let (_, maps) = shifted(nodes, &shifts);
        let text = serde_json::to_string(&maps).unwrap();
        prop_assert_eq!(PortMaps::read(&text).unwrap(), maps);
        let mut bytes = text.into_bytes();
        let at = cut.index(bytes.len());
        bytes[at] = byte;
        if let Ok(text) = String::from_utf8(bytes) {
            let _ = PortMaps::read(&text);
        }
    }
}
