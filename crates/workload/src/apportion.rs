//! Rounding that keeps the sum: the method of largest remainders.
//!
//! Checked: exact sums, each share within one of the exact fraction, order kept.

/// Splits `total` in proportion to `loads` into whole numbers that sum exactly: everyone gets the
/// floor, and the largest remainders (ties: the lowest index) get one more. Some load is above 0.
pub(crate) fn apportion(loads: &[u64], total: u32, shares: &mut [u32]) {
    // A trace has fewer than 2^32 sources x experts of 32-bit counts, and total < 2^32.
    let sum: u128 = loads.iter().map(|&load| u128::from(load)).sum();
    let mut remainders = Vec::with_capacity(loads.len());
    let mut given = 0u32;
    for (index, (&load, share)) in loads.iter().zip(shares.iter_mut()).enumerate() {
        let exact = u128::from(load) * u128::from(total);
        *share = (exact / sum) as u32;
        given += *share;
        remainders.push((exact % sum, index));
    }
    let missing = (total - given) as usize;
    if missing > 0 {
        let order = |a: &(u128, usize), b: &(u128, usize)| b.0.cmp(&a.0).then(a.1.cmp(&b.1));
        remainders.select_nth_unstable_by(missing - 1, order);
        for &(_, index) in &remainders[..missing] {
            shares[index] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_sum_exactly_and_are_within_one_of_the_fraction(
            loads in prop::collection::vec(prop_oneof![Just(0u64), 0u64..1000, 0u64..1 << 48], 1..40),
            total in prop_oneof![0u32..100, any::<u32>()],
        ) {
            prop_assume!(loads.iter().any(|&load| load > 0));
            let mut shares = vec![0; loads.len()];
            apportion(&loads, total, &mut shares);
            prop_assert_eq!(shares.iter().map(|&s| u64::from(s)).sum::<u64>(), u64::from(total));
            let sum: u128 = loads.iter().map(|&l| u128::from(l)).sum();
            for (&load, &share) in loads.iter().zip(&shares) {
                let exact = u128::from(load) * u128::from(total);
                prop_assert!((u128::from(share) * sum).abs_diff(exact) < sum);
            }
            // Larger loads never get less.
            for (i, j) in (0..loads.len()).flat_map(|i| (0..loads.len()).map(move |j| (i, j))) {
                prop_assert!(loads[i] <= loads[j] || shares[i] >= shares[j]);
            }
        }
    }

    #[test]
    fn largest_remainders_win_and_ties_go_to_the_first() {
        let mut shares = [0; 3];
        apportion(&[1, 1, 1], 11, &mut shares);
        assert_eq!(shares, [4, 4, 3]);
        apportion(&[5, 3, 2], 7, &mut shares); // 3.5, 2.1, 1.4
        assert_eq!(shares, [4, 2, 1]);
        apportion(&[0, 0, 9], 7, &mut shares);
        assert_eq!(shares, [0, 0, 7]);
    }
}
