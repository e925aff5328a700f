//! Groups fail, peers are lost or start again.

use super::cause::Cause;
use super::failure::{Failure, LaneError};
use super::lane::Item;
use super::machine::Exchange;
use super::name::{ConnectionId, Endpoint};
use super::output::Output;
use super::settings::OPERATIONS;
use crate::planted::Planted;
use lightloom_units::Time;

impl Exchange {
    /// The caller gives a group up: all its operations fail, here and at every member.
    pub fn abort(&mut self, now: Time, group: u32) {
        self.advance(now);
        let endpoint = self.settings.endpoint;
        if self.groups.contains_key(&group) {
            self.fail(Failure { group, cause: Cause::Aborted, endpoint, by: endpoint });
        }
    }

    /// The caller knows that a peer is lost: all groups with it fail, and this life of it is not heard again.
    pub fn lost(&mut self, now: Time, endpoint: Endpoint) {
        self.advance(now);
        if let Some(peer) = self.peer(endpoint).filter(|&peer| !self.peers[peer].lost) {
            self.lose(peer);
        }
    }

    pub(crate) fn lose(&mut self, peer: usize) {
        self.over(peer, Cause::Lost, LaneError::PeerLost);
        let endpoint = self.peers[peer].endpoint;
        self.outputs.push_back(Output::Lost { endpoint });
    }

    /// A peer has a later life: it says so itself, or a group has it as a member.
    pub(crate) fn renew(&mut self, peer: usize, life: u64) {
        let it = &self.peers[peer];
        if it.life > it.over {
            self.over(peer, Cause::Restarted, LaneError::PeerRestarted);
        }
        let now = self.now;
        let it = &mut self.peers[peer];
        (it.life, it.lost, it.heard) = (life, false, now);
    }

    /// A new group has a peer in this life. Says whether that life is not over.
    pub(crate) fn expect(&mut self, peer: usize, life: u64) -> bool {
        let it = &self.peers[peer];
        let over = life < it.life || life <= it.over;
        if life > it.life {
            self.renew(peer, life);
        } else if it.groups == 0 && !it.lost {
            self.peers[peer].heard = self.now; // nobody has waited for it
        }
        !over
    }

    /// A life of a peer is over.
    fn over(&mut self, peer: usize, cause: Cause, error: LaneError) {
        let (endpoint, by) = (self.peers[peer].endpoint, self.settings.endpoint);
        self.peers[peer].lost = true;
        self.peers[peer].over = self.peers[peer].life;
        for lane in self.peers[peer].lanes.clone() {
            if let Some(connection) = self.lanes[lane.at()].connection {
                self.shut(connection, error);
            }
        }
        let groups = self.groups.iter().filter(|(_, group)| group.has(endpoint));
        let groups: Vec<u32> = groups.map(|(group, _)| *group).collect();
        for group in groups {
            self.fail(Failure { group, cause, endpoint, by });
        }
        self.peers[peer].forget();
    }

    /// A group has failed: its operations too, and all members are told.
    pub(crate) fn fail(&mut self, failure: Failure) {
        let group = failure.group;
        let Some(failed) = self.groups.get_mut(&group).filter(|it| it.failed.is_none()) else {
            return;
        };
        failed.failed = Some(failure);
        let members = failed.members.clone();
        for operation in std::mem::take(&mut failed.running).into_values() {
            self.operations.remove(operation.0);
            self.outputs.push_back(Output::Failed { operation, failure });
        }
        self.outputs.push_back(Output::GroupFailed(failure));
        for peer in members.iter().filter_map(|&it| self.peer(it)).collect::<Vec<_>>() {
            self.peers[peer].groups -= 1;
            self.peers[peer].forget_group(group);
            if !self.bug.is(Planted::TellsNobody) {
                self.route(peer, Item::Fail(failure));
            }
        }
        self.shut_half_sent();
    }

    /// Closes connections in the midst of a chunk whose operation has failed: its memory was handed back.
    fn shut_half_sent(&mut self) {
        let half = self.connections.iter().filter(|(_, it)| {
            it.writer.body.is_some_and(|body| self.operations.get(body.operation.0).is_none())
        });
        let half: Vec<ConnectionId> = half.map(|(key, _)| ConnectionId(key)).collect();
        if !self.bug.is(Planted::SendsMemoryHandedBack) {
            half.into_iter().for_each(|connection| self.shut(connection, LaneError::HalfSent));
        }
    }

    /// A peer says that a group has failed.
    pub(crate) fn hear_failure(&mut self, peer: usize, failure: Failure) -> Result<(), LaneError> {
        let (group, endpoint): (u32, Endpoint) = (failure.group, self.peers[peer].endpoint);
        if self.has_left(group) {
            return Ok(());
        }
        match self.groups.get(&group) {
            Some(joined) if !joined.has(endpoint) => Err(LaneError::Member { group }),
            Some(_) => {
                self.fail(failure);
                Ok(())
            }
            None if self.doomed.len() >= OPERATIONS => Err(LaneError::Ahead),
            None => {
                self.doomed.entry(group).or_insert(failure);
                self.peers.iter_mut().for_each(|peer| peer.forget_group(group));
                Ok(())
            }
        }
    }
}
