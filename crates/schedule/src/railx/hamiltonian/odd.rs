//! Odd numbers of nodes: Walecki's undirected cycles, each in both directions (RailX, Section A.1).

/// The cycles for an odd `k` of 3 or more: `2 i + 1` is `2 i` the other way round.
///
/// With the nodes `0..2m` on a circle and `2m` in its middle, cycle `2 i` is
/// `2m, i, i - 1, i + 1, i - 2, ..., i - m`: a zigzag over the circle, turned by `i`.
pub(super) fn decompose(k: u32) -> Vec<Vec<u32>> {
    let middle = k - 1;
    let mut cycles = Vec::with_capacity(middle as usize);
    for turn in 0..middle / 2 {
        let there = zigzag(middle, turn);
        let back = there.iter().rev().copied();
        let back = std::iter::once(middle).chain(back).collect();
        cycles.push(std::iter::once(middle).chain(there).collect());
        cycles.push(back);
    }
    cycles
}

/// `turn, turn - 1, turn + 1, turn - 2, ...` over all nodes of a circle of an even number of nodes.
pub(super) fn zigzag(circle: u32, turn: u32) -> Vec<u32> {
    (0..circle)
        .map(|step| {
            let away = step.div_ceil(2);
            let offset = if step % 2 == 0 { away } else { circle - away };
            (turn + offset) % circle
        })
        .collect()
}
