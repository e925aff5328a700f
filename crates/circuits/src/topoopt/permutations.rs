//! Rings for all-reduces: TotientPerms and SelectPermutations.
//!
//! Modelled: in a ring of stride `p` over `n` members, member `i` is joined to member `i + p`; it is
//! one ring if `p` and `n` have no common divisor. Circuits are duplex, so strides `p` and `n - p`
//! are the same ring, and only those up to `n / 2` are candidates. Of these, strides near a geometric
//! sequence are chosen, which keeps paths that mix them short.
//! Checked: a ring visits every member; the numbers of candidates are Euler's.

/// Strides of different rings over `n` members, rising.
pub(super) fn strides(n: u32) -> Vec<u32> {
    (1..=n / 2).filter(|&p| gcd(p, n) == 1).collect()
}

/// Strides for so many rings, from 1 in steps of about `n^(1 / rings)`; where there are fewer
/// candidates all are taken, again and again.
pub(super) fn select(n: u32, rings: u32) -> Vec<u32> {
    let mut candidates = strides(n);
    let rings = rings as usize;
    if candidates.is_empty() {
        return candidates;
    }
    if rings >= candidates.len() {
        return candidates.iter().copied().cycle().take(rings).collect();
    }
    let ratio = f64::from(n).powf(1.0 / rings as f64);
    let mut chosen: Vec<u32> = Vec::with_capacity(rings);
    let mut target = 1.0;
    while chosen.len() < rings {
        let distance = |&(_, &p): &(usize, &u32)| (f64::from(p) - target).abs();
        let nearest = candidates
            .iter()
            .enumerate()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
            .map(|(at, _)| at)
            .expect("more candidates than rings");
        let stride = candidates.remove(nearest);
        chosen.push(stride);
        target = f64::from(stride) * ratio;
    }
    chosen
}

/// The circuits of a ring. Two members need one.
pub(super) fn ring(members: &[u32], stride: u32) -> impl Iterator<Item = (u32, u32)> {
    let n = members.len();
    let circuits = if n == 2 { 1 } else { n };
    (0..circuits).map(move |i| (members[i], members[(i + stride as usize) % n]))
}

/// Ports of each member that a ring takes.
pub(super) fn ports(members: &[u32]) -> u32 {
    if members.len() == 2 { 1 } else { 2 }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stride_makes_one_ring_of_all() {
        for n in 2..40u32 {
            let members: Vec<u32> = (100..100 + n).collect();
            for stride in strides(n) {
                let circuits: Vec<_> = ring(&members, stride).collect();
                let mut visited = vec![false; n as usize];
                let mut at = 0u32;
                while !visited[at as usize] {
                    visited[at as usize] = true;
                    at = (at + stride) % n;
                }
                assert!(visited.iter().all(|&v| v), "{n} {stride}");
                for &member in &members {
                    let ends = circuits.iter().filter(|c| c.0 == member || c.1 == member);
                    assert_eq!(ends.count() as u32, ports(&members));
                }
            }
            // Euler's totient, half of it from 3 on.
            let totient = (1..=n).filter(|&p| gcd(p, n) == 1).count();
            assert_eq!(strides(n).len(), totient.div_ceil(2));
        }
    }

    #[test]
    fn strides_are_near_a_geometric_sequence() {
        assert_eq!(select(8, 1), [1]);
        assert_eq!(select(8, 2), [1, 3]);
        assert_eq!(select(64, 3), [1, 3, 11]); // near 1, 4, 12; ties go to the lower
        assert_eq!(select(128, 2), [1, 11]);
        assert_eq!(select(4, 3), [1, 1, 1]);
        assert_eq!(select(2, 2), [1, 1]);
        assert!(select(1, 3).is_empty());
    }
}
