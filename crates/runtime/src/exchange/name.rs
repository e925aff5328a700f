//! What endpoints, NICs, lanes, connections and operations are called.

use super::slab::Key;
use lightloom_control::PortId;

/// A process that owns NICs of a server, by its number in the job.
pub type Endpoint = u16;

/// A NIC, by its number at its endpoint.
pub type Nic = u16;

/// Both ends of a lane that goes by a relay have this one.
pub const NO_NIC: Nic = Nic::MAX;

/// A lane, by its place in the list that [`super::Exchange::new`] was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u32);

impl LaneId {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// One connection of a lane, or one that has yet to say whose it is. None has the same name again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) Key);

/// One operation at this endpoint. None has the same name again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub(crate) Key);

/// What a lane's bytes cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Packet switches: it may be used while it is up.
    Packet,
    /// A circuit: it may be used only while the optical port `port` has a circuit to the port `peer`.
    Circuit {
        /// The optical port of this server.
        port: u16,
        /// The port at the other end, as a server of the region and its port.
        peer: PortId,
    },
    /// Lanes of a third endpoint, which hands on what comes: it may be used while no other lane to the peer may.
    Relay,
}

/// One direction of a connection that goes by a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tunnel {
    /// The endpoint where bytes begin.
    pub source: Endpoint,
    /// The endpoint where they end.
    pub target: Endpoint,
    /// Counted by the one that dials, the lesser of the two.
    pub number: u64,
}

impl Tunnel {
    /// The other direction.
    pub(crate) fn back(self) -> Self {
        Tunnel { source: self.target, target: self.source, number: self.number }
    }

    /// Its ends, whatever the direction.
    pub(crate) fn pair(self) -> (Endpoint, Endpoint) {
        (self.source.min(self.target), self.source.max(self.target))
    }
}

/// A lane: one NIC here, one NIC there, and which of theirs. The endpoint of the lesser number dials.
///
/// ```
/// use lightloom_runtime::exchange::{LaneSpec, Medium};
/// let lane = LaneSpec { peer: 3, nic: 1, peer_nic: 2, medium: Medium::Circuit { port: 0, peer: (3, 1) }, way: 0 };
/// assert_eq!(lane.port(), Some(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSpec {
    /// The endpoint at the other end.
    pub peer: Endpoint,
    /// The NIC here.
    pub nic: Nic,
    /// The NIC there.
    pub peer_nic: Nic,
    /// What is between them.
    pub medium: Medium,
    /// Which of the lanes that join these two NICs it is; each has a connection of its own.
    pub way: u16,
}

impl LaneSpec {
    /// The optical port here, if it is a circuit's lane.
    pub fn port(&self) -> Option<u16> {
        match self.medium {
            Medium::Packet | Medium::Relay => None,
            Medium::Circuit { port, .. } => Some(port),
        }
    }
}
