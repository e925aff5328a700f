//! Groups are joined and left, operations are posted, peers say that they are ready.

use super::cause::Cause;
use super::failure::{Failure, JoinError, LaneError, PostError};
use super::fields::MOST;
use super::flow::Flow;
use super::group::Group;
use super::lane::{ChunkItem, Item};
use super::machine::Exchange;
use super::name::{Endpoint, OperationId};
use super::operation::Running;
use super::output::Output;
use super::plan::{self, Operation};
use super::settings::OPERATIONS;
use crate::planted::Planted;
use lightloom_units::Time;

impl Exchange {
    /// Joins a group of endpoints, each with the life that it has in this group; this endpoint may be among them.
    /// The number of a group is used once in a job. A group with a member whose life is over fails at once.
    ///
    /// # Errors
    /// A number that was used, a member without a lane, too many groups.
    pub fn join(
        &mut self,
        now: Time,
        group: u32,
        members: &[(Endpoint, u64)],
    ) -> Result<(), JoinError> {
        self.advance(now);
        if self.groups.contains_key(&group) || self.has_left(group) {
            return Err(JoinError::Joined { group });
        }
        if self.groups.len() >= OPERATIONS {
            return Err(JoinError::Full);
        }
        let me = self.settings.endpoint;
        let others: Vec<_> = members.iter().copied().filter(|it| it.0 != me).collect();
        let joined = Group::new(others.iter().map(|it| it.0).collect());
        if let Some(&endpoint) = joined.members.iter().find(|&&it| self.peer(it).is_none()) {
            return Err(JoinError::Lanes { group, endpoint });
        }
        let mut stale = None;
        for (endpoint, life) in others {
            let Some(peer) = self.peer(endpoint) else { continue };
            if !self.expect(peer, life) {
                stale = Some(Failure { group, cause: Cause::Lost, endpoint, by: me });
            }
        }
        for peer in joined.members.iter().filter_map(|&it| self.peer(it)).collect::<Vec<_>>() {
            self.peers[peer].groups += 1;
        }
        self.schedule(now.saturating_add(self.settings.lost));
        self.groups.insert(group, joined);
        if let Some(failure) = self.doomed.remove(&group).or(stale) {
            self.fail(failure);
        }
        Ok(())
    }

    /// Whether a peer is lost and has not come back in another life.
    pub fn is_lost(&self, endpoint: Endpoint) -> bool {
        self.peer(endpoint).is_some_and(|peer| self.peers[peer].lost)
    }

    /// Leaves a group. Operations of it that are under way are given up, at all members.
    pub fn leave(&mut self, now: Time, group: u32) {
        self.advance(now);
        if self.groups.get(&group).is_some_and(|group| !group.running.is_empty()) {
            self.abort(now, group);
        }
        let Some(left) = self.groups.remove(&group) else { return };
        self.left.insert(group.into(), u64::from(group) + 1);
        for peer in left.members.iter().filter_map(|&it| self.peer(it)).collect::<Vec<_>>() {
            let peer = &mut self.peers[peer];
            peer.groups -= usize::from(left.failed.is_none());
            peer.forget_group(group);
        }
    }

    /// Posts this endpoint's part of a collective. Its memory belongs to the endpoint until [`Output::Done`] or
    /// [`Output::Failed`].
    ///
    /// # Errors
    /// A group that has failed or was not joined, a number that is not the next, a plan that does not carry
    /// what is sent, too many operations.
    pub fn post(&mut self, now: Time, operation: Operation) -> Result<OperationId, PostError> {
        self.post_flows(now, operation, vec![])
    }

    /// As [`Exchange::post`]; the lanes of chunks that are a flow's are chosen when their turn comes.
    ///
    /// # Errors
    /// Besides: a flow without lanes, with lanes to others than its chunks' peer, with chunks that are not in the plan.
    pub fn post_flows(
        &mut self,
        now: Time,
        operation: Operation,
        flows: Vec<Flow>,
    ) -> Result<OperationId, PostError> {
        self.advance(now);
        self.check_post(&operation)?;
        self.check_flows(&operation.plan, &flows)?;
        let (group, number) = (operation.group, operation.number);
        let id = OperationId(self.operations.insert(Running::new(operation, flows)));
        if let Some(joined) = self.groups.get_mut(&group) {
            joined.posted += 1;
            joined.running.insert(number, id);
        }
        self.receive_early(id);
        self.offer(id);
        self.finish(id);
        Ok(id)
    }

    fn check_post(&self, operation: &Operation) -> Result<(), PostError> {
        let Operation { group, number, sends, receives, plan } = operation;
        let (group, found) = (*group, *number);
        let joined = self.groups.get(&group).ok_or(PostError::Group { group })?;
        if let Some(failure) = joined.failed {
            return Err(failure.into());
        }
        if found != joined.posted {
            return Err(PostError::Number { group, found, allowed: joined.posted });
        }
        if self.operations.len() >= OPERATIONS {
            return Err(PostError::Full);
        }
        for transfers in [sends, receives] {
            let mut peers: Vec<Endpoint> = transfers.iter().map(|it| it.peer).collect();
            peers.sort_unstable();
            let twice = peers.windows(2).find(|two| two[0] == two[1]).map(|two| two[0]);
            let other = || peers.iter().copied().find(|&peer| !joined.has(peer));
            if let Some(endpoint) = twice.or_else(other) {
                return Err(PostError::Peer { group, endpoint });
            }
        }
        if let Some(too_much) = receives.iter().find(|it| it.bytes > MOST) {
            return Err(PostError::Bytes { endpoint: too_much.peer, found: too_much.bytes });
        }
        for chunk in plan {
            let lane = self.lanes.get(chunk.lane.at());
            if lane.is_none_or(|lane| lane.spec.peer != chunk.peer) {
                return Err(PostError::Lane { endpoint: chunk.peer, lane: chunk.lane });
            }
        }
        Ok(plan::check(sends, plan, self.settings.chunk)?)
    }

    /// Takes what came early out of bounce memory, and tells each source that this endpoint is ready.
    fn receive_early(&mut self, id: OperationId) {
        let Some(running) = self.operations.get(id.0) else { return };
        let (group, number) = (running.group, running.number);
        let sources: Vec<(Endpoint, u64)> =
            running.receives.iter().map(|it| (it.peer, it.bytes)).collect();
        let members = self.groups.get(&group).map(|it| it.members.clone()).unwrap_or_default();
        for endpoint in members {
            let Some(peer) = self.peer(endpoint) else { continue };
            let early = self.peers[peer].bounce.take((group, number));
            let bytes = sources.iter().find(|it| it.0 == endpoint).map_or(0, |it| it.1);
            if let Some(early) = early.filter(|_| !self.bug.is(Planted::ForgetsEarly)) {
                if early.bytes.len() as u64 > bytes {
                    return self.differs(group, endpoint);
                }
                self.outputs.push_back(Output::Early {
                    operation: id,
                    source: endpoint,
                    bytes: early.bytes,
                });
                let Some(running) = self.operations.get_mut(id.0) else { return };
                running.missing -= early.got.total();
                if let Some(receiving) = running.receiving_mut(endpoint) {
                    receiving.got = early.got;
                }
            }
            if bytes > 0 {
                self.route(peer, Item::Ready { group, number, bytes });
            }
        }
    }

    /// Sends to peers that are ready; to others what is small, within their allowance.
    fn offer(&mut self, id: OperationId) {
        let Some(running) = self.operations.get(id.0) else { return };
        let name = (running.group, running.number);
        let sends: Vec<(Endpoint, u64)> =
            running.sends.iter().map(|it| (it.peer, it.bytes)).collect();
        let members = self.groups.get(&name.0).map(|it| it.members.clone()).unwrap_or_default();
        for endpoint in members {
            let Some(peer) = self.peer(endpoint) else { continue };
            let bytes = sends.iter().find(|it| it.0 == endpoint).map_or(0, |it| it.1);
            let ready = self.peers[peer].ready.remove(&name);
            if ready.is_some_and(|expected| expected != bytes) {
                return self.differs(name.0, endpoint);
            }
            let small = bytes > 0 && bytes <= self.settings.small.into();
            let whatever = self.bug.is(Planted::IgnoresAllowance);
            if ready.is_some()
                || small && self.peers[peer].pledges.take(name, bytes, whatever)
                || self.bug.is(Planted::SkipsReady)
            {
                self.release(id, peer);
            }
        }
    }

    /// The chunks of an operation to a peer go to their lanes.
    fn release(&mut self, id: OperationId, peer: usize) {
        let endpoint = self.peers[peer].endpoint;
        let Some(running) = self.operations.get_mut(id.0) else { return };
        let Some(sending) = running.sending_mut(endpoint).filter(|it| !it.released) else { return };
        sending.released = true;
        for index in sending.chunks.clone() {
            let Some(running) = self.operations.get(id.0) else { return };
            if running.flows.of(index).is_some() {
                continue;
            }
            let length = running.chunks[index].length;
            self.route(peer, Item::Chunk(ChunkItem { operation: id, index: index as u32, length }));
        }
        let flows = |running: &Running| running.flows.to(endpoint);
        for flow in self.operations.get(id.0).map(flows).unwrap_or_default() {
            self.flow_on(id, flow);
        }
    }

    /// A peer is ready for an operation and expects so many bytes.
    pub(crate) fn ready(
        &mut self,
        peer: usize,
        group: u32,
        number: u64,
        bytes: u64,
    ) -> Result<(), LaneError> {
        let (name, endpoint) = ((group, number), self.peers[peer].endpoint);
        let pledged = self.peers[peer].pledges.give_back(name);
        if self.has_left(group) {
            self.route(peer, Item::Over { group, number });
        }
        if self.has_left(group) || self.doomed.contains_key(&group) {
            return Ok(());
        }
        let joined = self.groups.get(&group);
        if joined.is_some_and(|joined| !joined.has(endpoint)) {
            return Err(LaneError::Member { group });
        }
        let joined = joined.filter(|joined| number < joined.posted || joined.failed.is_some());
        let Some(joined) = joined else {
            let ready = &mut self.peers[peer].ready;
            if ready.len() >= OPERATIONS {
                return Err(LaneError::Ahead);
            }
            if !self.bug.is(Planted::ForgetsReady) {
                ready.insert(name, bytes);
            }
            return Ok(());
        };
        if joined.failed.is_some() {
            return Ok(());
        }
        let id = joined.running.get(&number).copied();
        let running = id.and_then(|id| self.operations.get_mut(id.0));
        let sent = match running {
            Some(running) => Some(running.sending_mut(endpoint).map_or(0, |it| it.bytes)),
            None => pledged,
        };
        if sent.is_some_and(|sent| sent != bytes) {
            self.differs(group, endpoint);
        } else if let Some(id) = id {
            self.release(id, peer);
        } else if sent.is_none() {
            // It was ready before, and says so again; or it expects what is not sent.
            self.route(peer, Item::Over { group, number });
        }
        Ok(())
    }

    /// An operation is over at a peer: all that it sends has come, or this endpoint expects too much.
    pub(crate) fn hear_over(
        &mut self,
        peer: usize,
        group: u32,
        number: u64,
    ) -> Result<(), LaneError> {
        let endpoint = self.peers[peer].endpoint;
        let Some(joined) = self.groups.get(&group) else { return Ok(()) };
        if !joined.has(endpoint) {
            return Err(LaneError::Member { group });
        }
        let running = joined.running.get(&number).and_then(|id| self.operations.get(id.0));
        let receiving = running.and_then(|it| it.receiving(endpoint));
        if receiving.is_some_and(|it| it.got.total() < it.bytes) {
            self.differs(group, endpoint);
        }
        Ok(())
    }

    /// A peer sends other bytes than are expected, or expects others.
    pub(crate) fn differs(&mut self, group: u32, endpoint: Endpoint) {
        let by = self.settings.endpoint;
        self.fail(Failure { group, cause: Cause::Differs, endpoint, by });
    }
}
