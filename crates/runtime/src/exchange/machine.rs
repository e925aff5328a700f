//! The endpoint: its lanes, peers, groups and operations.

use super::connection::Connection;
use super::failure::Failure;
use super::group::Group;
use super::lane::{Carried, Dial, Lane};
use super::name::{ConnectionId, Endpoint, LaneId, LaneSpec, Medium, NO_NIC, Nic, OperationId};
use super::operation::Running;
use super::output::Output;
use super::peer::Peer;
use super::ranges::{Ranges, There};
use super::relayed::Relayed;
use super::settings::{Settings, SettingsError};
use super::slab::Slab;
use super::statistics::{FenceStatistics, Fences, Statistics};
use crate::planted::{Bug, Planted};
use lightloom_control::{PortId, Runtime, RuntimeOutput};
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// An endpoint. The [module](super) has its rules and an example.
///
/// The caller carries out what [`Exchange::poll`] has before it calls anything else; it calls
/// [`Exchange::timeout`] at [`Exchange::next_timeout`]; it moves bytes as [`Exchange::transmit`] and
/// [`Exchange::space`] say.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub(crate) settings: Settings,
    pub(crate) now: Time,
    pub(crate) next: Time,
    pub(crate) lanes: Vec<Lane>,
    /// The packet lanes of each NIC.
    pub(crate) nics: BTreeMap<Nic, Vec<LaneId>>,
    /// By peer, its NIC, the NIC here, and which of the lanes between them.
    pub(crate) ends: BTreeMap<(Endpoint, Nic, Nic, u16), LaneId>,
    /// In rising order.
    pub(crate) peers: Vec<Peer>,
    pub(crate) connections: Slab<Connection>,
    pub(crate) operations: Slab<Running>,
    pub(crate) groups: BTreeMap<u32, Group>,
    /// Groups that are known to have failed and were not joined yet.
    pub(crate) doomed: BTreeMap<u32, Failure>,
    pub(crate) left: Ranges,
    pub(crate) runtime: Runtime,
    /// By optical port: the last circuit that it was given, and until when.
    pub(crate) lit: Vec<Option<(PortId, Time)>>,
    /// By peer and number: connections of this endpoint that go by a relay.
    pub(crate) tunnels: BTreeMap<(Endpoint, u64), ConnectionId>,
    /// Tunnels that were dialed here so far.
    pub(crate) dug: u64,
    /// By pair: connections of others that go by this endpoint.
    pub(crate) relayed: BTreeMap<(Endpoint, Endpoint), Relayed>,
    pub(crate) fences: Fences,
    pub(crate) outputs: VecDeque<Output>,
    pub(crate) bug: Bug,
}

impl Exchange {
    /// An endpoint that has said nothing yet. What an earlier life of it has put on circuits must have arrived.
    ///
    /// # Errors
    /// Settings that do not fit together, or lanes that are not there or are there twice.
    pub fn new(
        settings: Settings,
        mut lanes: Vec<LaneSpec>,
        now: Time,
    ) -> Result<Self, SettingsError> {
        settings.check()?;
        let mut names: Vec<Endpoint> = lanes.iter().map(|lane| lane.peer).collect();
        names.sort_unstable();
        names.dedup();
        if settings.relays {
            let lane = |&peer: &Endpoint| LaneSpec {
                peer,
                nic: NO_NIC,
                peer_nic: NO_NIC,
                medium: Medium::Relay,
                way: 0,
            };
            lanes.extend(names.iter().map(lane));
        }
        let mut ends = BTreeMap::new();
        for (lane, spec) in lanes.iter().enumerate() {
            let there = spec.port().is_none_or(|port| port < settings.ports);
            let other = spec.peer != settings.endpoint;
            let end = (spec.peer, spec.peer_nic, spec.nic, spec.way);
            if !there || !other || ends.insert(end, LaneId(lane as u32)).is_some() {
                return Err(SettingsError::Lane { lane });
            }
        }
        let mut peers: Vec<Peer> = names.iter().map(|&name| Peer::new(name, now)).collect();
        let mut all = Vec::with_capacity(lanes.len());
        let mut nics = BTreeMap::<Nic, Vec<LaneId>>::new();
        for (lane, &spec) in (0..).zip(&lanes) {
            let peer = names.partition_point(|&name| name < spec.peer);
            peers[peer].lanes.push(LaneId(lane));
            if spec.medium == Medium::Packet {
                nics.entry(spec.nic).or_default().push(LaneId(lane));
            }
            let dials = settings.endpoint < spec.peer;
            let mut lane = Lane::new(spec, peer, dials, settings.first_patience(), now);
            if lane.needs_relay() {
                lane.patience = settings.relay_patience();
                lane.dial = Dial::Idle(now.saturating_add(settings.handshake)); // others come up first
            }
            all.push(lane);
        }
        let ports = settings.ports;
        let mut exchange = Exchange {
            settings,
            now,
            next: now,
            lanes: all,
            nics,
            ends,
            peers,
            connections: Slab::new(),
            operations: Slab::new(),
            groups: BTreeMap::new(),
            doomed: BTreeMap::new(),
            left: Ranges::default(),
            runtime: Runtime::new(ports),
            lit: vec![None; usize::from(ports)],
            tunnels: BTreeMap::new(),
            dug: 0,
            relayed: BTreeMap::new(),
            fences: Fences::default(),
            outputs: VecDeque::new(),
            bug: Bug::default(),
        };
        (0..lanes.len() as u32).for_each(|lane| exchange.dial(LaneId(lane)));
        Ok(exchange)
    }

    /// With a bug, for tests that must find it.
    #[cfg(feature = "testing")]
    pub fn plant(&mut self, bug: Option<Planted>) {
        use lightloom_control::planted::Planted as OfRuntime;
        self.bug = Bug(bug);
        self.runtime.plant(match bug {
            Some(Planted::ForgetsLeases) => Some(OfRuntime::RuntimeForgetsLeases),
            Some(Planted::DrainsAtOnce) => Some(OfRuntime::RuntimeDrainsAtOnce),
            _ => None,
        });
    }

    /// What is to be done, in order.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// What a lane has carried; nothing for a lane that is not there.
    pub fn statistics(&self, lane: LaneId) -> Statistics {
        self.lanes.get(lane.at()).map(|lane| lane.statistics).unwrap_or_default()
    }

    /// What the lanes of a NIC have carried.
    pub fn nic_statistics(&self, nic: Nic) -> Statistics {
        let mut sum = Statistics::default();
        let lanes = self.lanes.iter().filter(|lane| lane.spec.nic == nic);
        lanes.for_each(|lane| sum += lane.statistics);
        sum
    }

    /// The lanes of a NIC: how many there are, and how many may take chunks now.
    pub fn nic_lanes(&self, nic: Nic) -> (usize, usize) {
        let lanes = (0..).map(LaneId).zip(&self.lanes).filter(|it| it.1.spec.nic == nic);
        let usable: Vec<bool> = lanes.map(|it| self.usable(it.0)).collect();
        (usable.len(), usable.iter().filter(|&&usable| usable).count())
    }

    /// What the lanes to a peer have carried.
    pub fn peer_statistics(&self, endpoint: Endpoint) -> Statistics {
        let mut sum = Statistics::default();
        let lanes = self.lanes.iter().filter(|lane| lane.spec.peer == endpoint);
        lanes.for_each(|lane| sum += lane.statistics);
        sum
    }

    /// Drains that are done.
    pub fn fences(&self) -> FenceStatistics {
        self.fences.over
    }

    /// Payload on a lane that was begun and not acknowledged \[B\].
    pub fn in_flight(&self, lane: LaneId) -> u64 {
        self.lanes.get(lane.at()).map_or(0, |lane| lane.in_flight)
    }

    /// Bounce memory that a peer takes, with what each operation costs \[B\].
    pub fn bounced(&self, peer: Endpoint) -> u64 {
        self.peer(peer).map_or(0, |peer| self.peers[peer].bounce.charged())
    }

    /// Whether a lane may take chunks now.
    pub fn is_usable(&self, lane: LaneId) -> bool {
        lane.at() < self.lanes.len() && self.usable(lane)
    }

    /// The connections that cross optical circuits.
    pub fn over_circuits(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.lanes.iter().filter(|it| it.spec.port().is_some()).filter_map(|it| it.connection)
    }

    /// Whether hello is over on a connection.
    pub fn is_up(&self, connection: ConnectionId) -> bool {
        self.connections.get(connection.0).is_some_and(Connection::is_up)
    }

    /// Whether whoever has dialed has said which lane he wants; the proof may be to come.
    pub fn has_greeted(&self, connection: ConnectionId) -> bool {
        self.connections.get(connection.0).is_some_and(|it| it.lane().is_some())
    }

    /// Which circuits may be used, and what is in flight there.
    pub fn circuits(&self) -> &Runtime {
        &self.runtime
    }

    /// Why a group has failed, if it has.
    pub fn failure(&self, group: u32) -> Option<Failure> {
        let joined = self.groups.get(&group).and_then(|group| group.failed);
        joined.or_else(|| self.doomed.get(&group).copied())
    }

    /// The place of a peer.
    pub(crate) fn peer(&self, endpoint: Endpoint) -> Option<usize> {
        self.peers.binary_search_by_key(&endpoint, |peer| peer.endpoint).ok()
    }

    pub(crate) fn has_left(&self, group: u32) -> bool {
        self.left.there(group.into(), u64::from(group) + 1) == There::All
    }

    /// Circuit lanes of an optical port.
    pub(crate) fn lanes_of(&self, port: u16) -> Vec<LaneId> {
        let of = |lane: &(u32, &Lane)| lane.1.spec.port() == Some(port);
        (0..).zip(&self.lanes).filter(of).map(|(lane, _)| LaneId(lane)).collect()
    }

    /// Has the caller send on a connection.
    pub(crate) fn wake(&mut self, connection: ConnectionId) {
        let Some(it) = self.connections.get_mut(connection.0).filter(|it| !it.asked) else {
            return;
        };
        it.asked = true;
        match it.via {
            None => self.outputs.push_back(Output::Send { connection }),
            Some(via) => {
                self.lanes[via.lane.at()].carried.push_back(Carried::Own(connection));
                self.wake(via.carrier);
            }
        }
    }

    pub(crate) fn wake_lane(&mut self, lane: LaneId) {
        if let Some(connection) = self.lanes[lane.at()].connection {
            self.wake(connection);
        }
    }

    /// Says what the runtime of circuits has to say.
    pub(crate) fn say_runtime(&mut self) {
        while let Some(said) = self.runtime.poll() {
            if let RuntimeOutput::Drained { token } = said {
                self.fences.end(token, self.now);
            }
            self.outputs.push_back(Output::Runtime(said));
        }
    }

    /// Ends an operation of which nothing is left to be done.
    pub(crate) fn finish(&mut self, operation: OperationId) {
        let early = self.bug.is(Planted::DoneBeforeAcks);
        let sent = |it: &Running| it.unacknowledged == 0 && it.lent == 0 || early;
        let done = |it: &Running| it.missing == 0 && sent(it);
        if !self.operations.get(operation.0).is_some_and(done) {
            return;
        }
        if let Some(over) = self.operations.remove(operation.0) {
            if let Some(group) = self.groups.get_mut(&over.group) {
                group.running.remove(&over.number);
            }
            self.outputs.push_back(Output::Done { operation });
        }
    }

    /// Whether a byte may be put on a lane now: a circuit's until its lease ends.
    pub(crate) fn may_speak(&self, lane: LaneId) -> bool {
        let Medium::Circuit { port, peer } = self.lanes[lane.at()].spec.medium else { return true };
        let lit = self.lit.get(usize::from(port)).copied().flatten();
        let forgets = self.bug.is(Planted::ForgetsLeases);
        lit.is_some_and(|(circuit, until)| circuit == peer && (self.now < until || forgets))
    }
}
