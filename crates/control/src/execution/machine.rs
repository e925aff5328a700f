//! The execution of port maps: switches met, loaded, set in order, and what becomes of it when one fails.

use super::limits::Limits;
use super::maps::{Circuit, DeviceMaps, MapsError, PortMaps, Standing, directed};
use super::view::{NodeReport, NodeView, PortView, Stage};
use super::work::{Ask, Told, Work};
use crate::driver::{Answer, Order, Patch};
use lightloom_units::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Where a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its switch, by number.
    pub switch: usize,
    /// The switch's port that is the device's first; the others follow.
    pub first: u16,
}

/// What is to be done with maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Only read what devices hold, and end.
    Look,
    /// Set what devices hold at the beginning, and end.
    Load,
    /// Load, then carry out every setting as nodes say that they have done with circuits.
    Run,
}

/// What happens to an execution.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A switch lets us in.
    SwitchUp {
        /// Its number.
        switch: usize,
        /// So many ingresses, and as many egresses.
        ports: u16,
    },
    /// The stream to a switch is closed.
    SwitchDown {
        /// Its number.
        switch: usize,
        /// Why, in words.
        why: String,
    },
    /// A switch answers an order.
    Answer {
        /// Its number.
        switch: usize,
        /// As in [`Output::Order`].
        id: u64,
        /// What it answers.
        answer: Answer,
    },
    /// A node reports.
    Node(NodeReport),
    /// An operator wants it to end: loading is taken back, a run falls back.
    Stop,
}

/// What an execution wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// What all devices held when they were met: to be kept before any later order is carried out.
    Found(PortMaps),
    /// Give a switch an order.
    Order {
        /// Its number.
        switch: usize,
        /// For [`Input::Answer`].
        id: u64,
        /// What it is to do.
        order: Order,
    },
    /// Close the stream to a switch, and open another.
    Reconnect {
        /// Its number.
        switch: usize,
    },
    /// All devices hold their initial circuits, verified.
    Loaded,
    /// A setting stands, verified.
    Ready {
        /// The device.
        device: usize,
        /// Which of its settings, from 0.
        setting: usize,
        /// From its beginning to its verification.
        took: Time,
        /// From when the maps say that it can carry data to its verification.
        late: Time,
    },
    /// Something for logs.
    Note(String),
    /// It is over.
    Ended(Ending),
}

/// How an execution ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All stands that the maps say, and nodes have done.
    Complete,
    /// Nothing was changed.
    Refused(String),
    /// What was found stands again.
    TakenBack(String),
    /// It could not be loaded, nor taken back. [`Execution::standing`] is what is known.
    Torn(String),
    /// It could not go on. [`Execution::standing`] is what stands.
    FellBack(String),
}

/// Maps that are carried out. See the [module](super).
#[derive(Clone, Debug)]
pub struct Execution {
    maps: PortMaps,
    places: Vec<Place>,
    task: Task,
    limits: Limits,
    keep: BTreeSet<(usize, Circuit)>,
    phase: Phase,
    /// Since when.
    since: Time,
    /// When it was called last.
    now: Time,
    works: Vec<Work>,
    tracks: Vec<Track>,
    nodes: BTreeMap<u32, Node>,
    last_order: u64,
    outputs: VecDeque<Output>,
}

/// A device on its way through its settings.
#[derive(Clone, Debug)]
struct Track {
    /// What it holds once all that has begun is verified.
    standing: Standing,
    /// The next setting.
    next: usize,
    /// Settings that have begun and are not verified: which, since when, what of ports is dark.
    moving: Vec<(usize, Time, BTreeSet<Half>)>,
    /// By port: how many circuits it has transmitted over, with the one that stands.
    count: BTreeMap<u32, u32>,
    /// By port: how many of them its node has done with.
    done: BTreeMap<u32, u32>,
    /// By port: the node that it leads to, and the node's port.
    leads: BTreeMap<u32, (u32, u32)>,
}

/// A port as it transmits, or as it receives.
type Half = (bool, u32);

#[derive(Clone, Debug, Default)]
struct Node {
    /// Device and port of each of its ports.
    ports: BTreeMap<u32, (usize, u32)>,
    heard: Option<Time>,
    beat: u64,
    ended: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Meeting,
    Settling,
    Loading { waiting: VecDeque<usize>, active: BTreeSet<usize> },
    Gathering,
    Running,
    TakingBack { why: String, torn: BTreeMap<usize, String> },
    FellBack { why: String },
    Ended { stage: Stage, why: String },
}

impl Execution {
    /// Maps that are to be carried out: where each device is, the ports of each switch, and circuits that
    /// must carry on while devices are loaded.
    ///
    /// # Errors
    /// Maps that are wrong, devices that do not fit where they are, circuits to keep that the maps end.
    pub fn new(
        maps: PortMaps,
        places: Vec<Place>,
        switches: &[u16],
        keep: &[PortMaps],
        task: Task,
        limits: Limits,
        now: Time,
    ) -> Result<Self, MapsError> {
        maps.check()?;
        let mut own = vec![BTreeSet::new(); switches.len()];
        for ((at, device), place) in maps.devices.iter().enumerate().zip(&places) {
            let (first, last) = device.ports;
            let end = u64::from(place.first) + u64::from(last - first);
            let ports = switches[place.switch];
            if place.first == 0 || end > u64::from(ports) {
                return Err(MapsError::new(format!(
                    "devices[{at}].ports: would be ports {} to {end} of a switch with 1 to {ports}",
                    place.first
                )));
            }
            if let Some(port) =
                (place.first..=end as u16).find(|&port| !own[place.switch].insert(port))
            {
                return Err(MapsError::new(format!(
                    "devices[{at}].ports: port {port} of the switch is another device's"
                )));
            }
        }
        let tracks: Vec<Track> = maps.devices.iter().map(Track::new).collect();
        let mut nodes = BTreeMap::<u32, Node>::new();
        for (at, track) in tracks.iter().enumerate() {
            for (&port, &(node, end)) in &track.leads {
                nodes.entry(node).or_default().ports.insert(end, (at, port));
            }
        }
        if task == Task::Run {
            reachable(&maps)?;
        }
        let keep = kept(&maps, keep)?;
        let works =
            switches.iter().zip(own).map(|(&ports, own)| Work::new(ports, own, now)).collect();
        let (phase, outputs) = (Phase::Meeting, VecDeque::new());
        Ok(Execution {
            maps,
            places,
            task,
            limits,
            keep,
            phase,
            since: now,
            now,
            works,
            tracks,
            nodes,
            last_order: 0,
            outputs,
        })
    }

    /// Takes an input; what comes of it is in [`Execution::poll`].
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::SwitchUp { switch, ports } => {
                let told = self.works[switch].came_up(ports);
                self.told(now, switch, told);
            }
            Input::SwitchDown { switch, why } => {
                self.works[switch].went_down(now, &self.limits, &why);
            }
            Input::Answer { switch, id, answer } => {
                if let Answer::Refused(words) = &answer {
                    self.note(format!("switch {switch} refuses: {words}"));
                }
                let told = self.works[switch].answered(now, &self.limits, id, answer);
                self.told(now, switch, told);
            }
            Input::Node(report) => self.report(now, &report),
            Input::Stop => self.fail(now, None, "it was told to stop".into()),
        }
        self.advance(now);
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: Time) {
        self.advance(now);
    }

    /// What is to be done, in order.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Execution::timeout`] wants to be called.
    pub fn next_timeout(&self) -> Time {
        if matches!(self.phase, Phase::Ended { .. }) {
            return Time::MAX;
        }
        let works =
            self.works.iter().enumerate().map(|(at, work)| {
                work.next_timeout(self.since, &self.limits, self.is_concerned(at))
            });
        let mut next = match self.phase {
            Phase::FellBack { .. } => Time::MAX,
            _ => works.min().unwrap_or(Time::MAX),
        };
        match &self.phase {
            Phase::Settling => next = next.min(self.since + self.limits.settle),
            Phase::Gathering => next = next.min(self.since + self.limits.give_up),
            Phase::FellBack { .. } => next = next.min(self.since + self.limits.give_up),
            Phase::Running => {
                for (device, track) in self.maps.devices.iter().zip(&self.tracks) {
                    if let Some(setting) = device.settings.get(track.next) {
                        // Later, it waits for nodes.
                        let start = self.since.saturating_add(setting.start);
                        next = next.min(if start > self.now { start } else { next });
                    }
                }
                for node in self.nodes.values().filter(|node| !node.ended) {
                    next = next.min(node.heard.map_or(next, |heard| heard + self.limits.give_up));
                }
            }
            _ => {}
        }
        next
    }

    /// What a node is to be told now; none if the maps have no such node.
    pub fn view(&self, now: Time, node: u32) -> Option<NodeView> {
        let own = self.nodes.get(&node)?;
        let (stage, why) = match &self.phase {
            Phase::Running => (Stage::Running, ""),
            Phase::FellBack { why } => (Stage::FellBack, why.as_str()),
            Phase::Ended { stage, why } => (*stage, why.as_str()),
            _ => (Stage::Loading, ""),
        };
        let usable = !matches!(stage, Stage::Loading);
        let ports = own.ports.iter().map(|(&end, &(device, port))| {
            let track = &self.tracks[device];
            let to = track.lit(port).filter(|_| usable);
            let holds = to.map_or(0, |_| track.count.get(&port).copied().unwrap_or(0));
            let from = track.source(port).filter(|_| usable);
            let end_of = |port: u32| track.leads.get(&port).copied();
            PortView { port: end, holds, to: to.and_then(end_of), from: from.and_then(end_of) }
        });
        let running = matches!(self.phase, Phase::Running).then(|| now.saturating_sub(self.since));
        Some(NodeView {
            beat: own.beat,
            lease: self.limits.lease,
            stage,
            running,
            why: why.into(),
            ports: ports.collect(),
        })
    }

    /// The nodes that the maps' ports lead to.
    pub fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.keys().copied()
    }

    /// Nodes that have not reported, or are silent.
    pub fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter().filter(|(_, node)| node.heard.is_none()).map(|(&number, _)| number)
    }

    /// What devices hold as far as it was verified.
    pub fn standing(&self) -> PortMaps {
        let devices = self.maps.devices.iter().zip(&self.tracks).enumerate();
        let left = devices.map(|(at, (device, track))| {
            let lit = track.standing.one_way().filter(|&(a, _)| track.lit(a).is_some());
            let lit = lit.filter(|&circuit| self.holds(at, circuit)).collect();
            DeviceMaps { initial: both(lit, device.duplex), settings: Vec::new(), ..device.clone() }
        });
        PortMaps::new("lightloom controller: what stands", left.collect())
    }

    /// Whether a switch matters for what is under way.
    fn is_concerned(&self, switch: usize) -> bool {
        match &self.phase {
            Phase::Meeting | Phase::Settling => true,
            Phase::Loading { active, .. } => active.contains(&switch),
            Phase::TakingBack { torn, .. } => {
                !torn.contains_key(&switch) && !self.works[switch].is_settled()
            }
            Phase::Running => self
                .places
                .iter()
                .zip(&self.tracks)
                .any(|(place, track)| place.switch == switch && !track.moving.is_empty()),
            _ => false,
        }
    }

    fn advance(&mut self, now: Time) {
        self.now = now;
        self.check_lost(now);
        let mut before = usize::MAX;
        // Each round does something, or is the last.
        while before != self.outputs.len() {
            before = self.outputs.len();
            self.proceed(now);
            for switch in 0..self.works.len() {
                if matches!(self.phase, Phase::Ended { .. } | Phase::FellBack { .. }) {
                    break;
                }
                let met = !matches!(self.phase, Phase::Meeting | Phase::Settling);
                let ask = self.works[switch].next(now, &self.limits, met, &mut self.last_order);
                self.outputs.extend(ask.map(|ask| match ask {
                    Ask::Order(id, order) => Output::Order { switch, id, order },
                    Ask::Reconnect => Output::Reconnect { switch },
                }));
            }
        }
    }

    fn check_lost(&mut self, now: Time) {
        for switch in 0..self.works.len() {
            if self.is_concerned(switch)
                && let Some(why) = self.works[switch].is_lost(self.since, now, &self.limits)
            {
                self.fail(now, Some(switch), why);
            }
        }
    }

    /// What can be done now, of the phase.
    fn proceed(&mut self, now: Time) {
        match &mut self.phase {
            Phase::Meeting if self.works.iter().all(Work::is_read) => self.met(now),
            Phase::Settling if now >= self.since + self.limits.settle => self.load(now),
            Phase::Loading { .. } => self.load_more(now),
            Phase::Gathering => {
                if self.nodes.values().all(|node| node.heard.is_some()) {
                    (self.phase, self.since) = (Phase::Running, now);
                    self.run(now);
                } else if now >= self.since + self.limits.give_up {
                    let missing: Vec<_> = self.missing().map(|node| node.to_string()).collect();
                    self.fail(now, None, format!("nodes have not come: {}", missing.join(", ")));
                }
            }
            Phase::Running => self.run(now),
            Phase::TakingBack { why, torn } => {
                let over = |(at, work): (usize, &Work)| work.is_settled() || torn.contains_key(&at);
                if self.works.iter().enumerate().all(over) {
                    let left: Vec<_> = torn.values().cloned().collect();
                    let ending = match left.is_empty() {
                        true => Ending::TakenBack(why.clone()),
                        false => {
                            Ending::Torn(format!("{why}; taken back but for {}", left.join(", ")))
                        }
                    };
                    self.end(ending);
                }
            }
            Phase::FellBack { why }
                if now >= self.since + self.limits.give_up
                    || self.nodes.values().all(|node| node.ended || node.heard.is_none()) =>
            {
                let why = why.clone();
                self.end(Ending::FellBack(why));
            }
            _ => {}
        }
    }

    /// All switches were read for the first time.
    fn met(&mut self, now: Time) {
        let found = self.maps.devices.iter().zip(&self.places).map(|(device, place)| {
            let work = &self.works[place.switch];
            let near = |port: u16| {
                let at = port.checked_sub(place.first).map(u32::from)?;
                (at <= device.ports.1 - device.ports.0).then(|| device.ports.0 + at)
            };
            let patches = work.actual.iter().flatten();
            let inside = patches
                .filter_map(|patch| Some((near(patch.ingress)?, near(patch.egress - work.ports)?)));
            // Patches that make no whole circuit are not among what the file can say.
            let initial = both(inside.collect(), device.duplex);
            DeviceMaps { initial, settings: Vec::new(), ..device.clone() }
        });
        let found = PortMaps::new("lightloom controller: what was found", found.collect());
        for &(device, circuit) in &self.keep {
            if !directed(&[circuit], found.devices[device].duplex)
                .all(|one| self.holds(device, one))
            {
                let name = &found.devices[device].device;
                let why = format!("{name}: circuit {circuit:?} is to be kept, and does not stand");
                return self.end(Ending::Refused(why));
            }
        }
        self.outputs.push_back(Output::Found(found));
        if self.task == Task::Look {
            return self.end(Ending::Complete);
        }
        self.works.iter_mut().for_each(Work::met);
        let ends = (0..self.works.len()).any(|at| {
            let target = self.target(at);
            self.works[at].wanted.iter().any(|patch| !target.contains(patch))
        });
        (self.phase, self.since) = (Phase::Settling, now);
        if !ends || self.limits.settle == Time::ZERO {
            self.load(now);
        }
    }

    fn load(&mut self, now: Time) {
        let all = (0..self.works.len()).collect();
        (self.phase, self.since) = (Phase::Loading { waiting: all, active: BTreeSet::new() }, now);
        self.load_more(now);
    }

    fn load_more(&mut self, now: Time) {
        let Phase::Loading { waiting, active } = &self.phase else { return };
        let (mut waiting, mut active) = (waiting.clone(), active.clone());
        active.retain(|&at| !self.works[at].is_settled());
        while active.len() < self.limits.together.max(1) {
            let Some(at) = waiting.pop_front() else { break };
            self.works[at].wanted = self.target(at);
            active.extend((!self.works[at].is_settled()).then_some(at));
        }
        if !(waiting.is_empty() && active.is_empty()) {
            self.phase = Phase::Loading { waiting, active };
            return;
        }
        self.outputs.push_back(Output::Loaded);
        match self.task {
            Task::Load | Task::Look => self.end(Ending::Complete),
            Task::Run => (self.phase, self.since) = (Phase::Gathering, now),
        }
    }

    /// The patches that a switch shall hold once all that has begun is set.
    fn target(&self, switch: usize) -> BTreeSet<Patch> {
        let here = (0..self.places.len()).filter(|&at| self.places[at].switch == switch);
        here.flat_map(|at| {
            self.tracks[at].standing.one_way().map(move |circuit| self.patch(at, circuit))
        })
        .collect()
    }

    /// The patch of a circuit, one way.
    fn patch(&self, device: usize, (a, b): Circuit) -> Patch {
        let place = self.places[device];
        let first = self.maps.devices[device].ports.0;
        let port = |port: u32| place.first + (port - first) as u16;
        Patch::new(port(a), self.works[place.switch].ports + port(b))
    }

    fn holds(&self, device: usize, circuit: Circuit) -> bool {
        self.works[self.places[device].switch].holds(&self.patch(device, circuit))
    }

    /// Begins the settings that can begin, and ends when all is done.
    fn run(&mut self, now: Time) {
        for device in 0..self.tracks.len() {
            while self.begins(now, device) {
                let setting = &self.maps.devices[device].settings[self.tracks[device].next];
                let place = self.places[device];
                self.tracks[device].begin(now, &setting.circuits, self.maps.devices[device].duplex);
                self.works[place.switch].wanted = self.target(place.switch);
                self.works[place.switch].look();
            }
        }
        if let Some((number, _)) = self.nodes.iter().find(|(_, node)| {
            !node.ended && node.heard.is_some_and(|heard| now >= heard + self.limits.give_up)
        }) {
            let why = format!("node {number} has been silent for {}", self.limits.give_up);
            return self.fail(now, None, why);
        }
        let set = |(device, track): (&DeviceMaps, &Track)| {
            track.next == device.settings.len() && track.moving.is_empty()
        };
        let all_set = self.maps.devices.iter().zip(&self.tracks).all(set);
        if all_set && self.nodes.values().all(|node| node.ended) {
            self.end(Ending::Complete);
        }
    }

    /// Whether the next setting of a device can begin: its time has come, those who send over what ends
    /// have done, and none of its ports is being set.
    fn begins(&self, now: Time, device: usize) -> bool {
        let (maps, track) = (&self.maps.devices[device], &self.tracks[device]);
        let Some(setting) = maps.settings.get(track.next) else { return false };
        let done = |port: &u32| track.done.get(port) >= track.count.get(port);
        let touched = track.touched(&setting.circuits, maps.duplex);
        now >= self.since.saturating_add(setting.start)
            && setting.wait_for.iter().all(done)
            && track.moving.iter().all(|(_, _, dark)| dark.is_disjoint(&touched))
    }

    /// A switch was read, or failed.
    fn told(&mut self, now: Time, switch: usize, told: Told) {
        match told {
            Told::Nothing => {}
            Told::Failed(why) => self.fail(now, Some(switch), why),
            Told::Read if self.phase == Phase::Running => self.verify(now, switch),
            Told::Read => {}
        }
    }

    /// Settings whose circuits all stand are ready; circuits that were and do not stand are lost.
    fn verify(&mut self, now: Time, switch: usize) {
        for device in (0..self.places.len()).filter(|&at| self.places[at].switch == switch) {
            let maps = &self.maps.devices[device];
            let lost = self.tracks[device].standing.one_way().find(|&(a, b)| {
                self.tracks[device].lit(a).is_some() && !self.holds(device, (a, b))
            });
            if let Some((a, b)) = lost {
                let why = format!("{}: the circuit from port {a} to {b} is gone", maps.device);
                return self.fail(now, None, why);
            }
            let moving = self.tracks[device].moving.clone();
            let (stand, left): (Vec<_>, Vec<_>) = moving.into_iter().partition(|(setting, ..)| {
                let circuits = &maps.settings[*setting].circuits;
                directed(circuits, maps.duplex).all(|circuit| self.holds(device, circuit))
            });
            for (setting, began, _) in stand {
                let due = self.since.saturating_add(maps.settings[setting].ready);
                let (took, late) = (now.saturating_sub(began), now.saturating_sub(due));
                self.outputs.push_back(Output::Ready { device, setting, took, late });
            }
            self.tracks[device].moving = left;
        }
    }

    fn report(&mut self, now: Time, report: &NodeReport) {
        let Some(node) = self.nodes.get_mut(&report.node) else {
            return self.note(format!("node {}: the maps have no such node", report.node));
        };
        let known = |&(port, count): &(u32, u32)| {
            let place = node.ports.get(&port);
            place.is_some_and(|(device, at)| {
                count <= self.tracks[*device].count.get(at).copied().unwrap_or(0)
            })
        };
        if !report.done.iter().all(known) {
            let words = "has done with circuits that it never had";
            return self.note(format!("node {} {words}: its report is dropped", report.node));
        }
        node.heard = Some(now);
        node.beat = node.beat.max(report.beat);
        node.ended |= report.ended;
        for (port, count) in &report.done {
            let (device, at) = node.ports[port];
            let done = self.tracks[device].done.entry(at).or_default();
            *done = (*done).max(*count);
        }
    }

    /// It cannot go on: because of a switch, or for another reason.
    fn fail(&mut self, now: Time, switch: Option<usize>, why: String) {
        let why = switch.map_or(why.clone(), |at| format!("switch {at}: {why}"));
        match &mut self.phase {
            Phase::Meeting | Phase::Settling => self.end(Ending::Refused(why)),
            Phase::Loading { .. } => {
                self.works.iter_mut().for_each(Work::take_back);
                (self.phase, self.since) = (Phase::TakingBack { why, torn: BTreeMap::new() }, now);
            }
            Phase::TakingBack { torn, .. } => {
                // Told to stop: that is what it is doing.
                torn.extend(switch.map(|at| (at, why)));
            }
            Phase::Gathering | Phase::Running => {
                self.nodes.values_mut().for_each(|node| node.ended = false);
                (self.phase, self.since) = (Phase::FellBack { why }, now);
            }
            Phase::FellBack { .. } | Phase::Ended { .. } => {}
        }
    }

    fn end(&mut self, ending: Ending) {
        let (stage, why) = match &ending {
            Ending::Complete => (Stage::Complete, String::new()),
            Ending::Refused(why)
            | Ending::TakenBack(why)
            | Ending::Torn(why)
            | Ending::FellBack(why) => (Stage::FellBack, why.clone()),
        };
        self.phase = Phase::Ended { stage, why };
        self.outputs.push_back(Output::Ended(ending));
    }

    fn note(&mut self, text: String) {
        self.outputs.push_back(Output::Note(text));
    }
}

impl Track {
    fn new(device: &DeviceMaps) -> Self {
        let mut standing = Standing::new(device.duplex);
        standing.set(&device.initial);
        let count = standing.one_way().map(|(a, _)| (a, 1)).collect();
        let leads = device.attached.iter().map(|&(port, node, end)| (port, (node, end))).collect();
        Track { standing, next: 0, moving: Vec::new(), count, done: BTreeMap::new(), leads }
    }

    /// The far end of a port's circuit, if it stands, verified.
    fn lit(&self, port: u32) -> Option<u32> {
        let dark = self.moving.iter().any(|(_, _, dark)| dark.contains(&(true, port)));
        self.standing.to(port).filter(|_| !dark)
    }

    /// The port whose circuit leads to this one, if it stands, verified.
    fn source(&self, port: u32) -> Option<u32> {
        self.standing.from(port).filter(|&source| self.lit(source).is_some())
    }

    /// What of ports these circuits take, and those that end for them.
    fn touched(&self, circuits: &[Circuit], duplex: bool) -> BTreeSet<Half> {
        let ended = self.standing.clone().set(circuits);
        let ended = ended.iter().filter_map(|&port| Some((port, self.standing.to(port)?)));
        let all = ended.chain(directed(circuits, duplex));
        all.flat_map(|(a, b)| [(true, a), (false, b)]).collect()
    }

    fn begin(&mut self, now: Time, circuits: &[Circuit], duplex: bool) {
        let touched = self.touched(circuits, duplex);
        self.standing.set(circuits);
        for (a, _) in directed(circuits, duplex) {
            *self.count.entry(a).or_default() += 1;
        }
        self.moving.push((self.next, now, touched));
        self.next += 1;
    }
}

/// Each circuit once, of those one way. Of a duplex device's, those that are not whole are left out.
fn both(one_way: Vec<Circuit>, duplex: bool) -> Vec<Circuit> {
    if !duplex {
        return one_way;
    }
    let all: BTreeSet<Circuit> = one_way.into_iter().collect();
    all.iter().filter(|&&(a, b)| a < b && all.contains(&(b, a))).copied().collect()
}

/// Refuses settings that wait for a port that leads to no node: nobody would ever say that it has done.
fn reachable(maps: &PortMaps) -> Result<(), MapsError> {
    for (at, device) in maps.devices.iter().enumerate() {
        let led: BTreeSet<u32> = device.attached.iter().map(|&(port, ..)| port).collect();
        for (k, setting) in device.settings.iter().enumerate() {
            if let Some(port) = setting.wait_for.iter().find(|port| !led.contains(port)) {
                let key = format!("devices[{at}].settings[{k}].wait_for");
                return Err(MapsError::new(format!("{key}: port {port} leads to no node")));
            }
        }
    }
    Ok(())
}

/// The circuits to keep, by device. All must be among those that the maps begin with.
fn kept(maps: &PortMaps, keep: &[PortMaps]) -> Result<BTreeSet<(usize, Circuit)>, MapsError> {
    let mut kept = BTreeSet::new();
    for device in keep.iter().flat_map(|maps| &maps.devices) {
        let name = &device.device;
        let found = maps.devices.iter().position(|own| own.device == *name);
        let Some(at) = found else {
            return Err(MapsError::new(format!(
                "{name} is to be kept, and the maps have no such device"
            )));
        };
        let own: BTreeSet<Circuit> =
            directed(&maps.devices[at].initial, maps.devices[at].duplex).collect();
        for &(a, b) in &device.initial {
            if !directed(&[(a, b)], device.duplex).all(|circuit| own.contains(&circuit)) {
                return Err(MapsError::new(format!(
                    "{name}: circuit [{a}, {b}] is to be kept, and the maps end it"
                )));
            }
            kept.insert((at, (a, b)));
        }
    }
    Ok(kept)
}
