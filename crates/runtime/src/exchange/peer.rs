//! What is known of a peer.

use super::early::{Bounce, Name, Pledges};
use super::lane::Item;
use super::name::{Endpoint, LaneId};
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// What is known of a peer.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub endpoint: Endpoint,
    /// Its life, or 0 if it has never said hello.
    pub life: u64,
    /// Lives up to this are over.
    pub over: u64,
    /// It was lost and has not come back.
    pub lost: bool,
    /// When anything came from it.
    pub heard: Time,
    /// Groups with it that were joined and have not failed.
    pub groups: usize,
    pub lanes: Vec<LaneId>,
    /// What goes to it once a lane is up.
    pub waiting: VecDeque<Item>,
    pub pledges: Pledges,
    pub bounce: Bounce,
    /// What it said to be ready for before that was posted here: the bytes that it expects.
    pub ready: BTreeMap<Name, u64>,
}

impl Peer {
    pub fn new(endpoint: Endpoint, now: Time) -> Self {
        Peer {
            endpoint,
            life: 0,
            over: 0,
            lost: false,
            heard: now,
            groups: 0,
            lanes: Vec::new(),
            waiting: VecDeque::new(),
            pledges: Pledges::default(),
            bounce: Bounce::default(),
            ready: BTreeMap::new(),
        }
    }

    /// Forgets what its life that is over has said and was to be told.
    pub fn forget(&mut self) {
        self.waiting.clear();
        self.pledges = Pledges::default();
        self.bounce = Bounce::default();
        self.ready.clear();
    }

    /// Forgets what it said of a group.
    pub fn forget_group(&mut self, group: u32) {
        self.bounce.forget(group);
        while let Some((&name, _)) = self.ready.range((group, 0)..=(group, u64::MAX)).next() {
            self.ready.remove(&name);
        }
    }
}
