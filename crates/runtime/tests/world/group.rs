//! Groups of a scenario, and how far their members are.

use std::collections::BTreeMap;

/// A member's part in a group.
#[derive(Clone, Debug)]
pub struct Member {
    pub endpoint: u16,
    pub life: u64,
    pub joined: bool,
    pub posted: u64,
    pub open: u64,
    pub waits: bool,
    /// It has left, or its life is over.
    pub out: bool,
}

/// A group.
pub struct Group {
    pub members: Vec<Member>,
    /// By operation: what each member sends to each.
    pub sizes: Vec<BTreeMap<(u16, u16), u64>>,
    /// A member expects other bytes than it is sent in this operation.
    pub twisted: Option<(u64, u16, u16)>,
    /// The most that is open at one member.
    pub depth: u64,
    /// Members post as late as this.
    pub pause_us: u64,
    /// It may fail.
    pub excused: bool,
    pub failed: bool,
}
