//! What has happened, as far as invariants need it.

use crate::invariants::{
    ALONE, AWAKE, CALM, CONNECTED, FILTERED, HELD, Holds, KEPT, LEGAL, ONWARD, READ_BACK, RECORDED,
    RISING, SETTLED, SLICE, SOUND, holds,
};
use crate::node::Node;
use crate::share::Share;
use lightloom_control::{
    Directive, Doubt, Mark, Memory, Order, Patch, PortId, Record, Region, Report, ServerPart,
    Settings, Stage, SwitchPort,
};
use lightloom_units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What has to be remembered in order to check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    /// Orders of all lives of the controller.
    orders: u64,
    /// By switch port: the last order to patch that touches it.
    ordered: BTreeMap<SwitchPort, u64>,
    /// Reads of this life, by their number: of which switch, which order, and when.
    reads: BTreeMap<u64, (usize, u64, Time)>,
    /// By switch: what was read, without ports that were ordered to change since.
    seen: Vec<BTreeSet<Patch>>,
    /// Switch ports that another hand has touched: when, and until when that is nobody's fault.
    spoilt: BTreeMap<SwitchPort, (Time, Time)>,
    /// By switch: what the controller may have made: what it read last and what it ordered since.
    made: Vec<Option<BTreeSet<Patch>>>,
    /// It has read circuits of another one.
    rival: bool,
    /// By server: incarnation and what it has obeyed.
    obeyed: Vec<(u64, Mark)>,
    /// Generations that were resumed in the journal, and those that it lost.
    resumed: BTreeSet<u64>,
    lost: u64,
    /// The greatest generation that an agent was told, ever.
    told: u64,
    /// By server: what was heard last, which life said it, and when.
    heard: BTreeMap<u16, (Time, Report)>,
    pub share: Share,
    /// By switch: a change that was ordered and not answered.
    open: Vec<Option<u64>>,
    /// By switch: commands whose stream broke may change it until then.
    changes_until: Vec<Time>,
    /// By switch: the controller was stopped, and has not read the switch since then.
    woken: Vec<Option<Time>>,
    /// Steps since this second began, and since time went on.
    second: (u64, u64),
    still: (Time, u64),
}

impl Checks {
    pub fn new(servers: usize, switches: usize) -> Self {
        Checks {
            obeyed: vec![(0, Mark::default()); servers],
            seen: vec![BTreeSet::new(); switches],
            made: vec![None; switches],
            open: vec![None; switches],
            changes_until: vec![Time::ZERO; switches],
            woken: vec![None; switches],
            ..Checks::default()
        }
    }

    /// A controller starts: it has read nothing.
    pub fn started(&mut self) {
        self.seen.iter_mut().for_each(BTreeSet::clear);
        self.reads.clear();
        self.heard.clear();
        self.woken.fill(None);
        self.share = Share::default();
        self.alone();
    }

    /// An operator says that there is no other controller.
    pub fn alone(&mut self) {
        self.made.fill(None);
        self.rival = false;
    }

    /// The controller says that there is another.
    pub fn rival(&self) -> Holds {
        holds(ALONE, self.rival, || "it stops, and nobody else was there".into())
    }

    /// The journal is gone.
    pub fn journal_lost(&mut self, nodes: &[Node], memory: &Memory) {
        let known =
            nodes.iter().filter_map(|node| node.agent.as_ref()).map(|a| a.obeyed().generation);
        self.lost = known.fold(self.lost.max(memory.generation), u64::max);
        self.resumed.clear();
    }

    /// What is left of the journal. If nothing says that there were more plans, or there were more than a controller allows
    /// for, as after a loss that was lost in turn, their numbers may be used again.
    pub fn journal_kept(&mut self, memory: &Memory) {
        let many = self.told >= memory.generation + (1 << 16);
        if many || memory.doubt == Some(Doubt::New) {
            self.told = 0;
        }
    }

    /// The controller gives this order; whether it is sent is more than it knows. Circuits that it would make are its
    /// own, even if another hand has made the same.
    pub fn meant(&mut self, switch: usize, order: &Order) {
        if let Order::Apply { set, .. } = order {
            self.made[switch].iter_mut().for_each(|made| made.extend(set));
        }
    }

    /// Another hand touches these ports of the switch.
    pub fn spoil(&mut self, now: Time, switch: usize, ports: &[u16]) {
        for &port in ports {
            self.spoilt.insert(place(switch, port), (now, Time::MAX));
        }
    }

    /// Nobody can be blamed for what happens to this switch port.
    pub fn is_spoilt(&self, now: Time, port: SwitchPort) -> bool {
        self.spoilt.get(&port).is_some_and(|&(_, until)| now <= until)
    }

    /// The controller orders something of the switch.
    pub fn order(
        &mut self,
        now: Time,
        region: &Region,
        memory: &Memory,
        (switch, id): (usize, u64),
        order: &Order,
    ) -> Holds {
        self.orders += 1;
        let Order::Apply { end, set } = order else {
            self.reads.insert(id, (switch, self.orders, now));
            return Ok(());
        };
        holds(ALONE, !self.rival, || format!("{order:?}"))?;
        holds(RECORDED, memory.touches(switch), || format!("{order:?}"))?;
        holds(AWAKE, self.woken[switch].is_none(), || format!("{order:?}"))?;
        self.open[switch] = Some(id);
        self.meant(switch, order);
        let n = region.switch_ports(switch);
        for patch in end.iter().chain(set) {
            for port in [patch.ingress, patch.egress.saturating_sub(n)] {
                let ours = region.port_at(switch, port).is_some();
                holds(SLICE, ours, || format!("{patch:?} is ordered"))?;
                self.ordered.insert(place(switch, port), self.orders);
                self.seen[switch].retain(|seen| seen.ingress != port && seen.egress != n + port);
            }
        }
        Ok(())
    }

    /// The ports that an order touches are still.
    pub fn held(
        &self,
        now: Time,
        region: &Region,
        nodes: &[Node],
        liars: &BTreeSet<u16>,
        switch: usize,
        order: &Order,
    ) -> Holds {
        let Order::Apply { end, set } = order else { return Ok(()) };
        for patch in end.iter().chain(set) {
            for at in [patch.ingress, patch.egress.saturating_sub(region.switch_ports(switch))] {
                let Some((server, port)) = region.port_at(switch, at) else { continue };
                // Nobody keeps a server from harm that its own rogue does.
                if liars.contains(&server) {
                    continue;
                }
                let node = &nodes[usize::from(server)];
                let may = node.plane.circuit(node.shows(now), port);
                holds(HELD, may.is_none(), || {
                    format!("{:?} may send to {may:?}, and {patch:?} is ordered", (server, port))
                })?;
            }
        }
        Ok(())
    }

    /// The controller hears what stands.
    pub fn read(
        &mut self,
        now: Time,
        region: &Region,
        settings: &Settings,
        id: u64,
        state: &[Patch],
    ) {
        let Some((switch, read, issued)) = self.reads.remove(&id) else { return };
        // What comes late is not believed.
        if now >= issued + settings.patience {
            return;
        }
        self.woken[switch].take_if(|since| issued >= *since);
        let n = region.switch_ports(switch);
        let later =
            |port: u16| self.ordered.get(&place(switch, port)).is_some_and(|&order| order > read);
        let fresh =
            |patch: &&Patch| !later(patch.ingress) && !later(patch.egress.saturating_sub(n));
        self.seen[switch] = state.iter().filter(fresh).copied().collect();
        let strange = |a: u16, b: u16| {
            let pair = Patch::pair(n, a, b);
            let made = self.made[switch].as_ref();
            pair.iter().all(|patch| {
                state.contains(patch) && made.is_some_and(|made| !made.contains(patch))
            })
        };
        let slice = region.slice(switch);
        let mut pairs = slice.iter().flat_map(|&a| slice.iter().map(move |&b| (a, b)));
        self.rival |= pairs.any(|(a, b)| a < b && strange(a, b));
        self.made[switch] = Some(state.iter().copied().collect());
        for (port, (at, until)) in &mut self.spoilt {
            if usize::from(port.switch) == switch && *at <= issued {
                *until = (*until).min(now + settings.lease + settings.grace);
            }
        }
        self.spoilt.retain(|_, spoilt| spoilt.1 >= now);
    }

    fn was_read(&self, region: &Region, a: PortId, b: PortId) -> bool {
        let [at, to] = [a, b].map(|port| region.switch_port(port));
        let switch = usize::from(at.switch);
        let pair = Patch::pair(region.switch_ports(switch), at.port, to.port);
        at.switch == to.switch && pair.iter().all(|patch| self.seen[switch].contains(patch))
    }

    /// The controller speaks to an agent.
    pub fn sent(
        &mut self,
        region: &Region,
        memory: &Memory,
        server: u16,
        directive: &Directive,
    ) -> Holds {
        let written = match directive.mark.stage {
            Stage::Hold => memory.generation,
            Stage::Resume => memory.verified_generation,
        };
        holds(RECORDED, directive.mark.generation <= written, || format!("{directive:?}"))?;
        self.told = self.told.max(directive.mark.generation);
        for (port, peer) in (0..).zip(&directive.circuits) {
            let Some(peer) = *peer else { continue };
            let said = || format!("{:?} to {peer:?} in {directive:?}", (server, port));
            holds(READ_BACK, self.was_read(region, (server, port), peer), said)?;
            let legal = peer.0 != server && region.tenant(peer.0) == region.tenant(server);
            holds(LEGAL, legal, said)?;
        }
        Ok(())
    }

    /// The controller writes something down.
    pub fn journal(&mut self, region: &Region, before: &Memory, record: &Record) -> Holds {
        match record {
            Record::Planned { generation, .. } | Record::Withdrawn { generation, .. } => {
                holds(RISING, *generation > before.generation, || format!("{record:?}"))?;
            }
            Record::Verified { generation, circuits, .. } => {
                holds(RISING, *generation >= before.generation, || format!("{record:?}"))?;
                let mut ports = BTreeSet::new();
                for &(a, b) in circuits {
                    holds(READ_BACK, self.was_read(region, a, b), || {
                        format!("{a:?} {b:?} in {record:?}")
                    })?;
                    let legal = a.0 != b.0 && region.tenant(a.0) == region.tenant(b.0);
                    let once = ports.insert(a) && ports.insert(b);
                    holds(LEGAL, legal && once, || format!("{a:?} {b:?} in {record:?}"))?;
                }
            }
            _ => {}
        }
        if let Record::Planned { generation, .. }
        | Record::Verified { generation, .. }
        | Record::Withdrawn { generation, .. } = record
        {
            let fresh = *generation <= before.generation || *generation > self.told;
            holds(RISING, fresh, || format!("{} was told, {record:?}", self.told))?;
        }
        if let Record::Verified { generation, .. } | Record::Withdrawn { generation, .. } = record {
            self.resumed.insert(*generation);
        }
        Ok(())
    }

    /// The controller was told that it was stopped.
    pub fn woken(&mut self, now: Time) {
        self.woken.fill(Some(now));
        // What was asked before is not believed.
        self.reads.clear();
    }

    /// An order was answered.
    pub fn answered(&mut self, id: u64) {
        for open in &mut self.open {
            *open = open.filter(|open| *open != id);
        }
    }

    /// The stream broke: a change that was ordered may be carried out within the lifetime.
    pub fn cut(&mut self, now: Time, switch: usize, settings: &Settings) {
        if self.open[switch].take().is_some() {
            self.changes_until[switch] = now + settings.lifetime;
        }
    }

    /// The controller's end is closed: what it sent since the stream broke went nowhere.
    pub fn closed(&mut self, switch: usize) {
        self.open[switch] = None;
    }

    /// Of switches that are noted as verified, nothing that was ordered may yet be carried out.
    pub fn settled(&self, now: Time, record: &Record) -> Holds {
        let Record::Verified { unread, .. } = record else { return Ok(()) };
        for (switch, &until) in (0..).zip(&self.changes_until) {
            holds(SETTLED, unread.contains(&switch) || now >= until, || {
                format!("commands may be carried out by switch {switch} until {until}: {record:?}")
            })?;
        }
        Ok(())
    }

    /// The controller has heard this, and taken it for the last that there is.
    pub fn heard(&mut self, now: Time, settings: &Settings, report: Report) {
        let lease = settings.lease + settings.grace;
        let old = |(at, last): &(Time, Report)| {
            now < *at + lease && last.incarnation == report.incarnation && last.beat >= report.beat
        };
        if !self.heard.get(&report.server).is_some_and(old) {
            self.heard.insert(report.server, (now, report));
        }
    }

    /// The stream of a life has ended: what comes next is believed, whatever it is.
    pub fn left(&mut self, server: u16, incarnation: u64) {
        if self.heard.get(&server).is_some_and(|(_, last)| last.incarnation == incarnation) {
            self.heard.remove(&server);
        }
    }

    /// Circuits that are new lead over no part that has failed.
    pub fn sound(
        &self,
        region: &Region,
        liars: &BTreeSet<u16>,
        before: &Memory,
        record: &Record,
    ) -> Holds {
        let Record::Planned { circuits, .. } = record else { return Ok(()) };
        let new = circuits.iter().filter(|circuit| !before.verified.contains(circuit));
        for (server, port) in new.flat_map(|&(a, b)| [a, b]) {
            let fails = |part: &ServerPart| (*part).port().is_none_or(|at| at == port);
            let said = self.heard.get(&server).filter(|_| !liars.contains(&server));
            let broken = said.is_some_and(|(_, report)| report.faults.iter().any(fails));
            let tenant = region.tenant(server);
            holds(SOUND, !broken, || {
                format!("{:?} of tenant {tenant} has failed: {record:?}", (server, port))
            })?;
        }
        Ok(())
    }

    /// What agents may send arrives where they think.
    pub fn connected(
        &self,
        now: Time,
        region: &Region,
        nodes: &[Node],
        liars: &BTreeSet<u16>,
        live: impl Fn(SwitchPort) -> Option<u16>,
    ) -> Holds {
        for (server, node) in (0..).zip(nodes).filter(|(server, _)| !liars.contains(server)) {
            let shows = node.shows(now);
            for port in 0..region.degree() as u16 {
                let may = node.plane.circuit(shows, port);
                let flies = node.plane.flying[usize::from(port)].map(|(peer, _)| peer);
                let open = node.filter.get(usize::from(port)).filter(|open| shows < open.until);
                let open = open.and_then(|open| open.circuit);
                let drains = node.agent.as_ref().is_some_and(|agent| agent.drains(port));
                holds(FILTERED, may.is_none() || may == open || drains, || {
                    format!("{:?} may send to {may:?}, its filter to {open:?}", (server, port))
                })?;
                for peer in may.into_iter().chain(flies).chain(open) {
                    let ends = [region.switch_port((server, port)), region.switch_port(peer)];
                    if ends.iter().any(|&end| self.is_spoilt(now, end)) {
                        continue;
                    }
                    let n = region.switch_ports(usize::from(ends[0].switch));
                    let leads = |at: SwitchPort, to: SwitchPort| live(at) == Some(n + to.port);
                    let same = ends[0].switch == ends[1].switch;
                    let both = same && leads(ends[0], ends[1]) && leads(ends[1], ends[0]);
                    holds(CONNECTED, both, || {
                        let how = match may.is_some() {
                            true => "may send",
                            false if flies.is_some() => "has bytes in flight",
                            false => "has a filter that is open",
                        };
                        let at = (server, port);
                        let found = ends.map(&live);
                        format!("{at:?} {how} to {peer:?}: switch ports {ends:?} lead to {found:?}")
                    })?;
                }
            }
        }
        Ok(())
    }

    /// An agent has done something.
    pub fn obeyed(&mut self, server: usize, node: &Node) -> Holds {
        let Some(agent) = &node.agent else { return Ok(()) };
        let (incarnation, before) = self.obeyed[server];
        let now = agent.obeyed();
        if incarnation == node.incarnation {
            holds(ONWARD, now >= before, || format!("server {server}: {before:?}, then {now:?}"))?;
        }
        if now.stage == Stage::Resume && now != before && now.generation > self.lost {
            let kept = self.resumed.contains(&now.generation);
            holds(KEPT, kept, || format!("server {server} has resumed {}", now.generation))?;
        }
        self.obeyed[server] = (node.incarnation, now);
        Ok(())
    }

    /// One more step.
    pub fn step(&mut self, now: Time) -> Holds {
        let second = now.ps() / 1_000_000_000_000;
        self.second =
            if self.second.0 == second { (second, self.second.1 + 1) } else { (second, 1) };
        self.still = if self.still.0 == now { (now, self.still.1 + 1) } else { (now, 1) };
        holds(CALM, self.second.1 < 20_000, || format!("{} steps in a second", self.second.1))?;
        holds(CALM, self.still.1 < 2_000, || format!("{} steps at one time", self.still.1))
    }
}

fn place(switch: usize, port: u16) -> SwitchPort {
    SwitchPort { switch: switch as u16, port }
}
