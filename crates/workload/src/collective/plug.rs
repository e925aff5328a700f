//! What a collective algorithm is: what it says of itself, and the program that it makes for some nodes.

use super::steps::{Move, Steps};
use lightloom_units::Bytes;
use lightloom_units::kind::Kind;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::sync::Arc;

/// What a collective is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Primitive {
    /// Each node ends with its block of the sum.
    ReduceScatter,
    /// Each node ends with every node's block.
    AllGather,
    /// Each node ends with the sum.
    AllReduce,
    /// Each node ends with the blocks that all others have for it.
    AllToAll,
    /// Each node ends with node 0's buffer.
    Broadcast,
}

impl Primitive {
    /// All primitives, in the order of the docs.
    pub const ALL: [Primitive; 5] = [
        Primitive::ReduceScatter,
        Primitive::AllGather,
        Primitive::AllReduce,
        Primitive::AllToAll,
        Primitive::Broadcast,
    ];
    /// As written: `all-reduce`, ...
    pub const fn name(self) -> &'static str {
        match self {
            Primitive::ReduceScatter => "reduce-scatter",
            Primitive::AllGather => "all-gather",
            Primitive::AllReduce => "all-reduce",
            Primitive::AllToAll => "all-to-all",
            Primitive::Broadcast => "broadcast",
        }
    }
}

/// What others must know of a collective algorithm.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Capabilities {
    /// What it is for.
    pub primitive: Primitive,
    /// Whether it is built for powers of two only.
    pub powers_of_two: bool,
    /// Whether it has a radix, written behind its name: `bruck-alltoall:4`.
    pub radix: bool,
    /// Algorithms that send the same messages in another order: a scheduler may take theirs.
    pub orders: &'static [&'static str],
}

/// Makes a program for so many nodes, a buffer of so many bytes at each, and a radix.
pub(super) type Maker = fn(nodes: u32, size: Bytes, radix: u32) -> Arc<dyn Program>;

/// A collective algorithm in the list.
#[derive(Debug)]
pub(super) struct Registered {
    pub kind: Kind<Capabilities>,
    /// Makes its program.
    pub program: Maker,
    /// Algorithms that do the same one after the other, each in all dimensions of a grid; none if it does
    /// so itself, or its primitive does not go by dimensions.
    pub stages: &'static [&'static str],
    /// The same with its steps the other way around, if they may be.
    pub backwards: Option<Maker>,
}

impl Registered {
    /// An algorithm for any number of nodes, without a radix.
    pub const fn new(
        name: &'static str,
        primitive: Primitive,
        summary: &'static str,
        source: Option<&'static str>,
        program: Maker,
    ) -> Self {
        let capabilities =
            Capabilities { primitive, powers_of_two: false, radix: false, orders: &[] };
        let kind = Kind { name, summary, source, keys: &[], capabilities };
        Registered { kind, program, stages: &[], backwards: None }
    }
    /// The same, whose steps may go the other way around.
    pub const fn or_backwards(mut self, program: Maker) -> Self {
        self.backwards = Some(program);
        self
    }
    /// The same for powers of two only.
    pub const fn for_powers_of_two(mut self) -> Self {
        self.kind.capabilities.powers_of_two = true;
        self
    }
    /// The same with a radix.
    pub const fn with_radix(mut self) -> Self {
        self.kind.capabilities.radix = true;
        self
    }
    /// The same, which these do over a grid, one after the other.
    pub const fn in_stages(mut self, stages: &'static [&'static str]) -> Self {
        self.stages = stages;
        self
    }
    /// The same, whose messages these algorithms send in other orders.
    pub const fn with_orders(mut self, orders: &'static [&'static str]) -> Self {
        self.kind.capabilities.orders = orders;
        self
    }
}

/// Who sends what when, by one algorithm on some nodes.
pub(super) trait Program: Debug + Send + Sync {
    /// Adds all steps.
    fn steps(&self, steps: &mut Steps);

    /// Into how many equal blocks each buffer is cut.
    fn blocks(&self) -> u64;

    /// The blocks that a node sends in a step.
    fn moves(&self, step: usize, node: u32) -> Move;
}
