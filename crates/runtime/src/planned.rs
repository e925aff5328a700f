//! A member's part of a collective that is planned step by step, over circuits that change between steps (SWOT,
//! Section 3.3): which bytes it sends in a step, and what becomes of those that come.
//!
//! Modelled: a buffer of equal blocks. In a step a member sends one message of some of its blocks at most, and
//! receives one at most, which it takes over or adds to its own. What has come is kept aside until the step is
//! settled, so a message that is still to be sent is not touched by one that came early. Which circuit, plane and
//! time a part of a message has is the plan's, and none of this.
//! Ignored: copies inside a node. Checked: below, every algorithm's messages as the planner makes them on testbeds
//! (`tests/test_testbed_plan.py`).
//!
//! ```
//! use lightloom_runtime::collective::Element;
//! use lightloom_runtime::planned::{Member, Messages};
//! // Two nodes add one block of 2 B up: each sends its own to the other.
//! let messages: Messages = serde_json::from_str(r#"{"primitive": "all-reduce", "blocks": 1, "steps": [[
//!     {"node": 0, "peer": 1, "blocks": [0], "reduce": true},
//!     {"node": 1, "peer": 0, "blocks": [0], "reduce": true}]]}"#).unwrap();
//! let mut member = Member::new(&messages, 0, 2, Element::U8, [(0, vec![1, 2])].into());
//! assert_eq!(member.read(0, 1, 1), Some(vec![2]));
//! member.came(0, 0, &[10, 20]);
//! assert_eq!(member.block(0), Some(&[1, 2][..]));
//! member.settle(0);
//! assert_eq!(member.block(0), Some(&[11, 22][..]));
//! ```

use crate::collective::{Element, Reduction, reduce};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A collective, message by message, as `lightloom_sim::messages` says it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// What it is for: `all-reduce`, ...
    pub primitive: String,
    /// Equal blocks of a buffer.
    pub blocks: u64,
    /// By step, the messages of the nodes that send.
    pub steps: Vec<Vec<Message>>,
}

/// What one node sends in one step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The node that sends, from 0.
    pub node: u32,
    /// The node that receives, from 0.
    pub peer: u32,
    /// Blocks of the buffer; in an all-to-all, `source * nodes + destination`.
    pub blocks: Vec<u64>,
    /// Whether the receiver adds them to its own.
    pub reduce: bool,
}

/// A member's blocks on their way through the steps.
#[derive(Clone, Debug)]
pub struct Member {
    /// Bytes of a block.
    block: usize,
    element: Element,
    sends: Vec<Option<Message>>,
    receives: Vec<Option<Message>>,
    held: BTreeMap<u64, Vec<u8>>,
    /// By step: what has come of its message, and is not settled.
    came: BTreeMap<u32, Vec<u8>>,
    settled: u32,
}

impl Member {
    /// A member that has these blocks, of `block` bytes each.
    pub fn new(
        messages: &Messages,
        me: u32,
        block: usize,
        element: Element,
        held: BTreeMap<u64, Vec<u8>>,
    ) -> Self {
        let of = |is: &dyn Fn(&Message) -> bool| {
            let found = |step: &Vec<Message>| step.iter().find(|one| is(one)).cloned();
            messages.steps.iter().map(found).collect()
        };
        Member {
            block,
            element,
            sends: of(&|one| one.node == me),
            receives: of(&|one| one.peer == me),
            held,
            came: BTreeMap::new(),
            settled: 0,
        }
    }

    /// A part of what it sends in a step, as its blocks are now; none if it does not send so much, or does not have it.
    pub fn read(&self, step: u32, offset: u64, bytes: u64) -> Option<Vec<u8>> {
        let message = self.sends.get(step as usize)?.as_ref()?;
        let (from, length) = (usize::try_from(offset).ok()?, usize::try_from(bytes).ok()?);
        let until = from.checked_add(length)?;
        if until > message.blocks.len() * self.block {
            return None;
        }
        let mut read = Vec::with_capacity(length);
        for (at, block) in (0..).zip(&message.blocks) {
            let (begin, end) = (at * self.block, (at + 1) * self.block);
            let (first, last) = (from.max(begin), until.min(end));
            if first < last {
                read.extend_from_slice(&self.held.get(block)?[first - begin..last - begin]);
            }
        }
        Some(read)
    }

    /// A part of what it receives in a step has come; what is no part of it is left out.
    pub fn came(&mut self, step: u32, offset: u64, bytes: &[u8]) {
        let Some(Some(message)) = self.receives.get(step as usize) else { return };
        let whole = message.blocks.len() * self.block;
        let into = self.came.entry(step).or_insert_with(|| vec![0; whole]);
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(into) = into.get_mut(at..at.saturating_add(bytes.len())) {
            into.copy_from_slice(bytes);
        }
    }

    /// All of the steps up to this one has come and gone: what came is taken over, or added up.
    pub fn settle(&mut self, step: u32) {
        for step in self.settled..=step {
            let (Some(came), Some(Some(message))) =
                (self.came.remove(&step), self.receives.get(step as usize))
            else {
                continue;
            };
            for (block, bytes) in message.blocks.iter().zip(came.chunks(self.block.max(1))) {
                match self.held.get_mut(block).filter(|_| message.reduce) {
                    Some(own) => reduce(self.element, Reduction::Sum, own, bytes),
                    None => {
                        self.held.insert(*block, bytes.to_vec());
                    }
                }
            }
        }
        self.settled = self.settled.max(step.saturating_add(1));
    }

    /// A block as it is now.
    pub fn block(&self, block: u64) -> Option<&[u8]> {
        self.held.get(&block).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Messages {
        serde_json::from_str(text).expect("messages")
    }

    #[test]
    fn parts_of_a_message_lie_across_blocks() {
        let all = messages(
            r#"{"primitive": "all-to-all", "blocks": 3, "steps": [[
            {"node": 0, "peer": 1, "blocks": [2, 1], "reduce": false}]]}"#,
        );
        let held = [(1, vec![1, 2, 3]), (2, vec![4, 5, 6])];
        let member = Member::new(&all, 0, 3, Element::U8, held.into());
        assert_eq!(member.read(0, 0, 6), Some(vec![4, 5, 6, 1, 2, 3]));
        assert_eq!(member.read(0, 2, 2), Some(vec![6, 1]));
        assert_eq!(member.read(0, 6, 0), Some(vec![]));
        assert_eq!((member.read(0, 5, 2), member.read(1, 0, 1)), (None, None));
        let mut other = Member::new(&all, 1, 3, Element::U8, [].into());
        assert_eq!(other.read(0, 0, 1), None, "it sends nothing");
        other.came(0, 3, &[1, 2, 3]);
        other.came(0, 0, &[4, 5, 6]);
        other.came(0, 5, &[9, 9]);
        assert_eq!(other.block(2), None);
        other.settle(0);
        assert_eq!((other.block(2), other.block(1)), (Some(&[4, 5, 6][..]), Some(&[1, 2, 3][..])));
    }

    #[test]
    fn what_comes_early_does_not_change_what_is_still_to_be_sent() {
        let all = messages(
            r#"{"primitive": "all-reduce", "blocks": 1, "steps": [
            [{"node": 1, "peer": 0, "blocks": [0], "reduce": true}],
            [{"node": 0, "peer": 1, "blocks": [0], "reduce": false}],
            [{"node": 1, "peer": 0, "blocks": [0], "reduce": false}]]}"#,
        );
        let mut member = Member::new(&all, 0, 1, Element::U8, [(0, vec![1])].into());
        member.came(2, 0, &[7]);
        member.came(0, 0, &[2]);
        member.settle(0);
        assert_eq!(member.read(1, 0, 1), Some(vec![3]));
        member.settle(2);
        member.settle(2);
        assert_eq!(member.block(0), Some(&[7][..]));
    }
}
