//! An endpoint of a scenario.

use super::event::Event;
use super::memory::Memory;
use lightloom_control::PortId;
use lightloom_runtime::exchange::{ConnectionId, Exchange, OperationId};
use lightloom_units::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
        }
    }

    pub fn runs(&self) -> bool {
        self.exchange.is_some() && !self.frozen
    }
}
