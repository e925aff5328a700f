//! What in-server hops a transfer over planes needs: a GPU's bytes leave by the NICs that have the
//! circuits, which belong to other GPUs, and arrive likewise.

/// Matches what GPUs have with what NICs carry, own NICs first, then in order; `leg` hears of every
/// part that a GPU hands to another's NIC: (GPU, NIC, bytes). Both sum to the same; NICs are named by
/// the GPU that they belong to.
///
/// ```
/// use lightloom_swot::alltoall::hand_over;
/// let mut legs = Vec::new();
/// hand_over(vec![5, 5], vec![0, 10], |gpu, nic, bytes| legs.push((gpu, nic, bytes)));
/// assert_eq!(legs, [(0, 1, 5)]);
/// ```
pub fn hand_over(mut gpus: Vec<u64>, mut nics: Vec<u64>, mut leg: impl FnMut(usize, usize, u64)) {
    for (gpu, nic) in gpus.iter_mut().zip(&mut nics) {
        let own = (*gpu).min(*nic);
        *gpu -= own;
        *nic -= own;
    }
    let mut nic = 0;
    for (gpu, left) in gpus.iter_mut().enumerate() {
        while *left > 0 && nic < nics.len() {
            let part = (*left).min(nics[nic]);
            if part == 0 {
                nic += 1;
                continue;
            }
            leg(gpu, nic, part);
            *left -= part;
            nics[nic] -= part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn everything_is_handed_over_once_and_own_bytes_stay(
            gpus in prop::collection::vec(0u64..100, 8),
            cuts in prop::collection::vec(0u64..100, 8),
        ) {
            // The same sum, cut otherwise.
            let total: u64 = gpus.iter().sum();
            let mut left = total;
            let mut nics: Vec<u64> = cuts.iter().map(|&cut| {
                let part = cut.min(left);
                left -= part;
                part
            }).collect();
            nics[7] += left;
            let (mut given, mut taken) = (vec![0; 8], vec![0; 8]);
            hand_over(gpus.clone(), nics.clone(), |gpu, nic, bytes| {
                assert!(gpu != nic && bytes > 0);
                given[gpu] += bytes;
                taken[nic] += bytes;
            });
            for at in 0..8 {
                let own = gpus[at].min(nics[at]);
                prop_assert_eq!((given[at], taken[at]), (gpus[at] - own, nics[at] - own));
            }
        }
    }
}
