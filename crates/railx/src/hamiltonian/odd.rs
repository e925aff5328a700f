//! Odd numbers of nodes: Walecki's undirected cycles, each in both directions (RailX, Section A.1).

/// The cycles for an odd `k` of 3 or more: each odd one is the one before it, the other way round.
///
/// The nodes `0..2m` stand on a circle, `2m` in its middle. A cycle goes from the middle over the
/// circle in a zigzag and back; turned by `m`, a zigzag is its own reverse.
pub(super) fn decompose(k: u32) -> Vec<Vec<u32>> {
    let middle = k - 1;
    let half = middle / 2;
    (0..half).flat_map(|turn| [turn, turn + half]).map(|turn| cycle(middle, turn)).collect()
}

/// `middle, turn, turn - 1, turn + 1, turn - 2, ...`
fn cycle(middle: u32, turn: u32) -> Vec<u32> {
    let zigzag = (0..middle).map(|step| {
        let away = step.div_ceil(2);
        let offset = if step % 2 == 0 { away } else { middle - away };
        (turn + offset) % middle
    });
    std::iter::once(middle).chain(zigzag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_cycles_are_one_ring_both_ways() {
        for k in (3..=101).step_by(2) {
            for pair in decompose(k).chunks(2) {
                let there = pair[0][1..].iter();
                assert!(there.eq(pair[1][1..].iter().rev()), "{k} nodes: {pair:?}");
            }
        }
    }

    #[test]
    fn the_papers_zigzag() {
        let five = decompose(5);
        assert_eq!(five[0], [4, 0, 3, 1, 2]);
        assert_eq!(five[1], [4, 2, 1, 3, 0]);
        assert_eq!(five[2], [4, 1, 0, 2, 3]);
        assert_eq!(five[3], [4, 3, 2, 0, 1]);
    }
}
