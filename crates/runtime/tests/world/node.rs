//! An endpoint of a scenario.

use super::event::Event;
use super::memory::Memory;
use lightloom_control::PortId;
use lightloom_runtime::exchange::{ConnectionId, Exchange, LaneId, LaneSpec, Medium, OperationId};
use lightloom_units::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// \[ps\]
const SECOND: u128 = 1_000_000_000_000;

/// An endpoint and its caller.
pub struct Node {
    /// `None` between a crash and the next start.
    pub exchange: Option<Exchange>,
    pub life: u64,
    pub frozen: bool,
    /// By connection: its wire, and which end of it this is.
    pub sockets: BTreeMap<ConnectionId, (usize, usize)>,
    pub sending: BTreeSet<ConnectionId>,
    pub memory: BTreeMap<OperationId, Memory>,
    /// What has come while it is frozen.
    pub mail: VecDeque<Event>,
    /// By port: what it was told, and until when.
    pub granted: Vec<Option<(PortId, Time)>>,
    pub draining: Vec<bool>,
    pub drains: BTreeMap<u64, Vec<u16>>,
    /// Connections in the midst of what they were last given to send, and whether their port was to be
    /// drained when that was given.
    pub midst: BTreeMap<ConnectionId, bool>,
    /// By lane: when that was looked at last, what it had begun \[B\], and what it may begin at once \[B times ps\].
    pub paces: Vec<(Time, u64, u128)>,
}

impl Node {
    pub fn new(exchange: Exchange, life: u64, ports: u16) -> Self {
        Node {
            exchange: Some(exchange),
            life,
            frozen: false,
            sockets: BTreeMap::new(),
            sending: BTreeSet::new(),
            memory: BTreeMap::new(),
            mail: VecDeque::new(),
            granted: vec![None; usize::from(ports)],
            draining: vec![false; usize::from(ports)],
            drains: BTreeMap::new(),
            midst: BTreeMap::new(),
            paces: Vec::new(),
        }
    }

    /// Looks what lanes have begun since it was looked last. Says which of them has begun more than its NIC's rate allows.
    pub fn outruns(
        &mut self,
        now: Time,
        rate: u64,
        chunk: u32,
        lanes: &[LaneSpec],
    ) -> Option<usize> {
        let exchange = self.exchange.as_ref().filter(|_| rate > 0)?;
        let most = 2 * u128::from(chunk) * SECOND;
        self.paces.resize(lanes.len(), (now, 0, most));
        let mut found = None;
        for (at, (since, before, left)) in self.paces.iter_mut().enumerate() {
            let begun = exchange.statistics(LaneId(at as u32)).bytes_sent;
            let time = u128::from(now.saturating_sub(*since).ps());
            *left = most.min(*left + time * u128::from(rate));
            let more = u128::from(begun - *before) * SECOND;
            if lanes[at].medium == Medium::Packet && more > *left {
                found = Some(at);
            }
            (*since, *before, *left) = (now, begun, left.saturating_sub(more));
        }
        found
    }

    pub fn runs(&self) -> bool {
        self.exchange.is_some() && !self.frozen
    }
}
