//! What goes wrong: with a group, a lane, a call.

use super::cause::Cause;
use super::fields::FrameError;
use super::hello::HelloError;
use super::name::{Endpoint, LaneId, Tunnel};
use super::plan::PlanError;
use super::settings::OPERATIONS;
use thiserror::Error;

/// A group that has failed: so do all its operations, here and at every member.
///
/// ```
/// use lightloom_runtime::exchange::{Cause, Failure};
/// let failure = Failure { group: 3, cause: Cause::Lost, endpoint: 5, by: 2 };
/// assert_eq!(failure.to_string(), "group 3 has failed: endpoint 5 is lost, as endpoint 2 found");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("group {group} has failed: endpoint {endpoint} {}, as endpoint {by} found", cause.says())]
pub struct Failure {
    /// The group.
    pub group: u32,
    /// Why.
    pub cause: Cause,
    /// Whom that concerns.
    pub endpoint: Endpoint,
    /// Who found it.
    pub by: Endpoint,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LaneError {
    /// The other end, or what is between, has closed it.
    #[error("the connection was closed")]
    Closed,
    /// The peer has opened another one.
    #[error("the peer has opened another connection")]
    Replaced,
    /// No acknowledgement came for too long.
    #[error("nothing was acknowledged for longer than the settings' `stall`")]
    Stalled,
    /// The circuit's lease has ended while something was on it.
    #[error("the circuit's lease has ended, or another circuit has taken its place")]
    LeaseEnded,
    /// The peer is lost.
    #[error("the peer is lost")]
    PeerLost,
    /// The peer has another life.
    #[error("the peer has started again")]
    PeerRestarted,
    /// An operation has failed of which a chunk was half sent.
    #[error("a group has failed in the midst of one of its chunks")]
    HalfSent,
    /// Whoever is there did not say hello as a peer does.
    #[error("{0}")]
    Hello(#[from] HelloError),
    /// Whoever is there did not say hello in time.
    #[error("no hello came within the settings' `handshake`")]
    Silent,
    /// Too many connections have yet to say hello.
    #[error("{most} connections have yet to say hello; no more are allowed")]
    Strangers {
        /// So many are allowed.
        most: usize,
    },
    /// It went by a relay, which is not needed any more.
    #[error("a lane that needs no relay may be used again")]
    Unneeded,
    /// A frame of a tunnel that cannot lead over this lane.
    #[error("a frame goes from endpoint {source} to endpoint {target}: not over this lane", source = .0.source, target = .0.target)]
    Tunnel(Tunnel),
    /// A part of a tunnel is longer than a chunk and its header.
    #[error("a part of a tunnel has {found} B; up to {allowed} B is allowed")]
    Part {
        /// So many.
        found: u32,
        /// So many may be.
        allowed: u32,
    },
    /// An end of a tunnel sends more than it may without an acknowledgement.
    #[error("a relay keeps {found} B of one end of a tunnel; {allowed} B is allowed")]
    Kept {
        /// So much with this part.
        found: u64,
        /// So much may be.
        allowed: u64,
    },
    /// A frame makes no sense.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// A chunk of another endpoint.
    #[error("a chunk is from endpoint {found}; {allowed} is allowed on this lane")]
    Source {
        /// From whom it says it is.
        found: Endpoint,
        /// Who is at the other end.
        allowed: Endpoint,
    },
    /// A frame of another epoch.
    #[error("a frame is of epoch {found}; the lane is at {allowed}")]
    Epoch {
        /// Its epoch.
        found: u16,
        /// The lane's.
        allowed: u16,
    },
    /// An acknowledgement of what was not sent, or that goes back.
    #[error("{found} frames are acknowledged; {least} to {most} is allowed")]
    Ack {
        /// So many.
        found: u64,
        /// So many were before.
        least: u64,
        /// So many were sent.
        most: u64,
    },
    /// A chunk that has come in part.
    #[error("a chunk of group {group}, number {number}, bytes {offset} to {end}, has come in part")]
    Overlap {
        /// The group.
        group: u32,
        /// The operation's number.
        number: u64,
        /// Where it begins.
        offset: u64,
        /// Where it ends.
        end: u64,
    },
    /// A peer sends more than the bounce memory that it has.
    #[error("early chunks take {found} B of bounce memory; {allowed} B is allowed")]
    Allowance {
        /// So much with this chunk.
        found: u64,
        /// Its allowance.
        allowed: u64,
    },
    /// A peer is ahead by more operations, or failed groups, than an endpoint may have.
    #[error("the peer is ahead by more than {OPERATIONS} operations or groups")]
    Ahead,
    /// A group that the peer is no member of.
    #[error("a frame is of group {group}, of which the peer is no member")]
    Member {
        /// The group.
        group: u32,
    },
}

/// Why a group cannot be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum JoinError {
    /// The group was joined before; another needs another number.
    #[error("group {group} was joined before; a group's number is used once")]
    Joined {
        /// The group.
        group: u32,
    },
    /// No lane leads to a member.
    #[error("endpoint {endpoint} of group {group} has no lane here")]
    Lanes {
        /// The group.
        group: u32,
        /// The member.
        endpoint: Endpoint,
    },
    /// It has too many groups.
    #[error("{OPERATIONS} groups are joined; no more are allowed")]
    Full,
}

/// Why an operation cannot be posted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PostError {
    /// The group has failed.
    #[error("{0}")]
    Failed(#[from] Failure),
    /// The group was not joined.
    #[error("group {group} is not joined")]
    Group {
        /// The group.
        group: u32,
    },
    /// Numbers rise by one from 0.
    #[error("operation {found} of group {group} is out of order; {allowed} is allowed")]
    Number {
        /// The group.
        group: u32,
        /// The number that was given.
        found: u64,
        /// The next one.
        allowed: u64,
    },
    /// Too many operations are under way.
    #[error("{OPERATIONS} operations are under way; no more are allowed")]
    Full,
    /// A peer is no member of the group, or is named twice.
    #[error("endpoint {endpoint} is named twice, or is no other member of group {group}")]
    Peer {
        /// The group.
        group: u32,
        /// The peer.
        endpoint: Endpoint,
    },
    /// What is expected is too much.
    #[error("{found} B from endpoint {endpoint} are expected; 2^48 B are allowed")]
    Bytes {
        /// The source.
        endpoint: Endpoint,
        /// So much.
        found: u64,
    },
    /// A lane leads elsewhere.
    #[error("lane {} does not lead to endpoint {endpoint}", lane.0)]
    Lane {
        /// The peer of the chunk.
        endpoint: Endpoint,
        /// Its lane.
        lane: LaneId,
    },
    /// A flow has a sub-flow without lanes, or a chunk that another has, or that is not in the plan or not for its peer.
    #[error("a flow to endpoint {endpoint} has no lane, or chunks that are not its own")]
    Flow {
        /// Its peer.
        endpoint: Endpoint,
    },
    /// The plan does not carry what is sent.
    #[error("{0}")]
    Plan(#[from] PlanError),
}
