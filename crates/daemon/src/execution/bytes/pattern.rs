//! Bytes that nodes begin a collective with, other ones from each to each, and what must be there at its end.

use lightloom_runtime::collective::{Element, Reduction, reduce};
use lightloom_runtime::planned::Messages;
use std::collections::BTreeMap;

/// Collectives that there are bytes for.
pub const PRIMITIVES: [&str; 2] = ["all-reduce", "all-to-all"];

/// Blocks by number.
pub type Blocks = BTreeMap<u64, Vec<u8>>;

/// The blocks that a node begins with.
pub fn first(messages: &Messages, node: u32, nodes: u32) -> Vec<u64> {
    match messages.primitive.as_str() {
        "all-to-all" => (0..nodes).map(|to| between(node, to, nodes)).collect(),
        _ => (0..messages.blocks).collect(),
    }
}

/// The blocks that it must have at the end.
pub fn last(messages: &Messages, node: u32, nodes: u32) -> Vec<u64> {
    match messages.primitive.as_str() {
        "all-to-all" => (0..nodes).map(|source| between(source, node, nodes)).collect(),
        _ => (0..messages.blocks).collect(),
    }
}

/// What a node has at the beginning.
pub fn held(messages: &Messages, node: u32, nodes: u32, bytes: usize) -> Blocks {
    let own = first(messages, node, nodes).into_iter();
    own.map(|block| (block, drawn(node, block, bytes))).collect()
}

/// What it must have at the end.
pub fn wanted(
    messages: &Messages,
    node: u32,
    nodes: u32,
    bytes: usize,
    element: Element,
) -> Blocks {
    let exchanged = messages.primitive == "all-to-all";
    let ended = |block: u64| {
        if exchanged {
            return (block, drawn((block / u64::from(nodes)) as u32, block, bytes));
        }
        let mut sum = drawn(0, block, bytes);
        for other in 1..nodes {
            reduce(element, Reduction::Sum, &mut sum, &drawn(other, block, bytes));
        }
        (block, sum)
    };
    last(messages, node, nodes).into_iter().map(ended).collect()
}

/// The block of an all-to-all from one node to another.
fn between(source: u32, target: u32, nodes: u32) -> u64 {
    u64::from(source) * u64::from(nodes) + u64::from(target)
}

/// Bytes that no other node has in this block, and no other block has at this node (splitmix64; Steele, Lea and Flood,
/// OOPSLA 2014).
fn drawn(node: u32, block: u64, bytes: usize) -> Vec<u8> {
    let mut state = (u64::from(node) << 40 | block).wrapping_mul(0xd134_2543_de82_ef95);
    let mut all = Vec::with_capacity(bytes + 8);
    while all.len() < bytes {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        all.extend_from_slice(&(mixed ^ mixed >> 31).to_le_bytes());
    }
    all.truncate(bytes);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_blocks_are_alike_and_all_are_wanted_somewhere() {
        let of =
            |primitive: &str| Messages { primitive: primitive.into(), blocks: 3, steps: vec![] };
        let exchanged = of("all-to-all");
        let mut begun = Blocks::new();
        (0..3).for_each(|node| begun.extend(held(&exchanged, node, 3, 21)));
        let mut ended = Blocks::new();
        (0..3).for_each(|node| ended.extend(wanted(&exchanged, node, 3, 21, Element::U8)));
        assert_eq!((begun.len(), &begun), (9, &ended));
        let different: std::collections::BTreeSet<_> = begun.into_values().collect();
        assert_eq!(different.len(), 9);
        let summed = of("all-reduce");
        let sum = wanted(&summed, 1, 2, 5, Element::U8);
        let (one, other) = (held(&summed, 0, 2, 5), held(&summed, 1, 2, 5));
        assert_eq!(sum[&2][4], one[&2][4].wrapping_add(other[&2][4]));
        assert_ne!(one, other);
    }
}
