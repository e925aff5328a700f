//! What endpoints send each other: groups with operations, uneven, empty, posted early or late.

use super::event::Event;
use super::group::{Group, Member};
use super::invariant::{BYTES, FOUNDED, HANDED_BACK, PEERS, REFUSED, broken};
use super::memory::{Memory, Pattern};
use super::scenario::World;
use lightloom_runtime::exchange::*;
use std::collections::BTreeMap;

impl World {
    /// A group is formed of endpoints as they live now.
    pub fn form(&mut self, all: bool) {
        let count = self.nodes.len() as u16;
        let mut members: Vec<u16> = (0..count).filter(|_| all || self.chance.hit(800)).collect();
        if members.len() < 2 {
            members = vec![0, 1];
        }
        if all {
            members.retain(|&it| self.nodes[usize::from(it)].exchange.is_some());
        }
        if members.len() < 2 {
            return;
        }
        let operations = self.chance.between(1, if all { 2 } else { 6 });
        let scale = [8, 300, 3_000, 10_000][self.chance.below(4) as usize];
        let mut sizes = Vec::new();
        for _ in 0..operations {
            let mut matrix = BTreeMap::new();
            for (&one, &other) in
                members.iter().flat_map(|one| members.iter().map(move |it| (one, it)))
            {
                if one != other && self.chance.hit(800) {
                    matrix.insert((one, other), self.chance.below(scale));
                }
            }
            sizes.push(matrix);
        }
        let twisted = (!all && self.chance.hit(30))
            .then(|| (self.chance.below(operations), members[0], members[1]));
        let group = Group {
            members: members.iter().map(|&endpoint| self.member(endpoint)).collect(),
            sizes,
            twisted,
            depth: self.chance.between(1, 4),
            pause_us: if self.chance.hit(300) { 60_000 } else { 5_000 },
            excused: twisted.is_some()
                || !all && members.iter().any(|&it| self.shaky[usize::from(it)]),
            failed: false,
        };
        self.groups.push(group);
        self.tally("groups");
        let id = self.groups.len() - 1;
        for (member, &node) in members.iter().enumerate() {
            let when = self.now + self.chance.us(0, if all { 1_000 } else { 40_000 });
            self.at(when, Event::Join { node: node.into(), group: id, member });
        }
    }

    fn member(&self, endpoint: u16) -> Member {
        let life = self.nodes[usize::from(endpoint)].life;
        Member { endpoint, life, joined: false, posted: 0, open: 0, waits: false, out: false }
    }

    pub fn join(&mut self, id: usize, member: usize) {
        let it = self.groups[id].members[member].clone();
        let at = usize::from(it.endpoint);
        let node = &mut self.nodes[at];
        if node.life != it.life || node.exchange.is_none() {
            self.groups[id].members[member].out = true;
            return;
        }
        let members: Vec<(u16, u64)> =
            self.groups[id].members.iter().map(|it| (it.endpoint, it.life)).collect();
        let Some(exchange) = &mut node.exchange else { return };
        if let Err(error) = exchange.join(self.now, id as u32, &members) {
            return self.fail(broken(REFUSED, format!("endpoint {at}: {error}")));
        }
        self.groups[id].members[member].joined = true;
        self.dirty.insert(at);
        self.post_soon(id, member);
    }

    fn post_soon(&mut self, id: usize, member: usize) {
        let when = self.now + self.chance.us(0, self.groups[id].pause_us);
        let node = self.groups[id].members[member].endpoint.into();
        self.at(when, Event::Post { node, group: id, member });
    }

    /// A member posts its next operation, or leaves.
    pub fn post(&mut self, id: usize, member: usize) {
        let group = &mut self.groups[id];
        let (count, depth) = (group.sizes.len() as u64, group.depth);
        let it = &mut group.members[member];
        let at = usize::from(it.endpoint);
        if it.out || self.nodes[at].life != it.life || self.nodes[at].exchange.is_none() {
            it.out = true;
            return;
        }
        if it.open >= depth || it.posted == count && it.open > 0 {
            it.waits = true;
            return;
        }
        let (posted, endpoint) = (it.posted, it.endpoint);
        let failed =
            self.nodes[at].exchange.as_ref().and_then(|it| it.failure(id as u32)).is_some();
        if posted == count && !failed {
            if self.chance.hit(500) {
                group.members[member].out = true;
                self.nodes[at].exchange.iter_mut().for_each(|it| it.leave(self.now, id as u32));
                self.dirty.insert(at);
            }
            return;
        }
        let (operation, memory) = self.operation(id, endpoint, posted);
        let Some(exchange) = &mut self.nodes[at].exchange else { return };
        match exchange.post(self.now, operation) {
            Ok(_) if failed => {
                self.fail(broken(FOUNDED, format!("endpoint {at} posts in failed group {id}")));
            }
            Ok(operation) => {
                self.note(|| format!("endpoint {at} posts group {id}, {posted}: {operation:?}"));
                self.nodes[at].memory.insert(operation, memory);
                let it = &mut self.groups[id].members[member];
                (it.posted, it.open) = (posted + 1, it.open + 1);
                self.post_soon(id, member);
            }
            Err(PostError::Failed(_)) if failed => {}
            Err(error) => self.fail(broken(REFUSED, format!("endpoint {at}: {error}"))),
        }
        self.dirty.insert(at);
    }

    /// A member's part of an operation.
    fn operation(&mut self, id: usize, me: u16, number: u64) -> (Operation, Memory) {
        let (sizes, twisted) = (
            &self.groups[id].sizes[number as usize % self.groups[id].sizes.len()],
            self.groups[id].twisted,
        );
        let group = id as u32;
        let mut memory =
            Memory { group: id, number, sends: BTreeMap::new(), receives: BTreeMap::new() };
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for (&(source, target), &bytes) in sizes {
            let pattern = Pattern { group, number, source, target };
            if source == me {
                sends.push(Transfer { peer: target, bytes });
                memory.sends.insert(target, pattern);
            } else if target == me {
                let bytes = bytes + u64::from(twisted == Some((number, source, target)));
                receives.push(Transfer { peer: source, bytes });
                memory.receives.insert(source, Memory::receive(pattern, bytes));
            }
        }
        let mut plan = Vec::new();
        for send in &sends {
            self.cut(me, *send, &mut plan);
        }
        (Operation { group, number, sends, receives, plan }, memory)
    }

    /// Cuts what goes to a peer into chunks on lanes at random.
    fn cut(&mut self, me: u16, send: Transfer, plan: &mut Vec<Chunk>) {
        let specs = &self.shape.lanes[usize::from(me)];
        let lanes = (0..).zip(specs).filter(|(_, spec)| spec.peer == send.peer);
        let lanes: Vec<LaneId> = lanes.map(|(lane, _)| LaneId(lane)).collect();
        let most = u64::from(self.shape.settings[0].chunk);
        let mut offset = 0;
        while offset < send.bytes {
            let length = if self.chance.hit(700) { most } else { self.chance.between(1, most) };
            let length = length.min(send.bytes - offset) as u32;
            let lane = lanes[self.chance.below(lanes.len() as u64) as usize];
            plan.push(Chunk { peer: send.peer, lane, offset, length });
            offset += u64::from(length);
        }
    }

    pub fn done(&mut self, at: usize, operation: OperationId) {
        let Some(memory) = self.over(at, operation) else { return };
        self.tally("operations done");
        if !memory.is_full() {
            let (group, number) = (memory.group, memory.number);
            self.fail(broken(BYTES, format!("endpoint {at}: group {group}, {number} lacks bytes")));
        }
    }

    pub fn failed(&mut self, at: usize, operation: OperationId) {
        self.over(at, operation);
        self.tally("operations failed");
    }

    fn over(&mut self, at: usize, operation: OperationId) -> Option<Memory> {
        let Some(memory) = self.nodes[at].memory.remove(&operation) else {
            self.fail(broken(HANDED_BACK, format!("endpoint {at}: {operation:?} ends twice")));
            return None;
        };
        let (id, life) = (memory.group, self.nodes[at].life);
        let members = &mut self.groups[id].members;
        let member =
            members.iter().position(|it| usize::from(it.endpoint) == at && it.life == life)?;
        members[member].open -= 1;
        if std::mem::take(&mut members[member].waits) {
            self.post_soon(id, member);
        }
        Some(memory)
    }

    pub fn group_failed(&mut self, at: usize, failure: Failure) {
        self.tally("groups failed, by member");
        let (lost, by) = (usize::from(failure.endpoint), usize::from(failure.by));
        if failure.cause == Cause::Lost && self.was_cut(by, lost) {
            self.shake(by); // short faults that follow each other take as long as a long one
            self.shake(lost);
        }
        let group = &mut self.groups[failure.group as usize];
        group.failed = true;
        if !group.excused {
            self.fail(broken(FOUNDED, format!("endpoint {at}: {failure}")));
        }
    }

    /// A fault was between two endpoints not long ago.
    fn was_cut(&self, one: usize, other: usize) -> bool {
        let within = self.shape.settings[one].lost;
        let when = self.touched.get(&(one.min(other), one.max(other)));
        when.is_some_and(|&when| self.now < when + within + within)
    }

    /// An endpoint says that a peer is lost.
    pub fn peer_lost(&mut self, at: usize, peer: usize) {
        self.tally("peers lost");
        if !self.shaky[at] && !self.shaky[peer] && !self.was_cut(at, peer) {
            return self.fail(broken(FOUNDED, format!("endpoint {at} takes {peer} for lost")));
        }
        self.shake(at);
        self.shake(peer);
        let soon = self.now + self.chance.ms(1, 100);
        let life = self.nodes[peer].life;
        if self.nodes[peer].exchange.is_some() {
            self.at(soon, Event::Crash { node: peer, life });
        } else {
            self.at(soon, Event::Start { node: peer });
        }
    }

    /// Groups with an endpoint may fail.
    pub fn shake(&mut self, at: usize) {
        self.shaky[at] = true;
        for group in &mut self.groups {
            group.excused |= group.members.iter().any(|it| usize::from(it.endpoint) == at);
        }
    }

    /// Endpoints of the job keep each other's rules.
    pub fn peers_behave(&mut self, at: usize, error: LaneError) {
        let rules = matches!(
            error,
            LaneError::Frame(_)
                | LaneError::Source { .. }
                | LaneError::Epoch { .. }
                | LaneError::Ack { .. }
                | LaneError::Overlap { .. }
                | LaneError::Allowance { .. }
                | LaneError::Ahead
                | LaneError::Member { .. }
                | LaneError::Tunnel(_)
                | LaneError::Part { .. }
                | LaneError::Kept { .. }
        );
        let hello = matches!(error, LaneError::Hello(it) if !matches!(it, HelloError::Life { .. }));
        if rules || hello {
            self.fail(broken(PEERS, format!("endpoint {at}: {error}")));
        }
    }

    /// What is left to be done, if anything.
    pub fn left(&self) -> Option<String> {
        for (id, group) in self.groups.iter().enumerate() {
            let lives = |it: &&Member| {
                let node = &self.nodes[usize::from(it.endpoint)];
                !it.out && node.life == it.life && node.exchange.is_some()
            };
            for it in group.members.iter().filter(lives) {
                let node = &self.nodes[usize::from(it.endpoint)];
                let failure = node.exchange.as_ref().and_then(|end| end.failure(id as u32));
                let all = it.posted == group.sizes.len() as u64;
                let endpoint = it.endpoint;
                if !it.joined || it.open > 0 || failure.is_none() && !all {
                    return Some(format!(
                        "group {id}: endpoint {endpoint} has {it:?}, {failure:?}"
                    ));
                }
                if group.failed && failure.is_none() {
                    return Some(format!(
                        "group {id} has failed; endpoint {endpoint} does not know"
                    ));
                }
            }
        }
        None
    }
}
