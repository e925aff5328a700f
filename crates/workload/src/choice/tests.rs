use super::*;
use proptest::prelude::*;

fn meets(choice: &Choice, experts: Range<usize>) -> f64 {
    choice.meets(std::slice::from_ref(&experts))
}

fn rules(experts: usize, top_k: usize, groups: usize, most_groups: usize) -> Rules {
    Rules { experts, top_k, groups, most_groups }
}

/// Every set of `chosen` experts that the rules allow, with its weight.
fn sets(choice: &Choice) -> Vec<(u32, f64)> {
    let Rules { experts, groups, most_groups, .. } = choice.rules;
    let size = experts / groups;
    let allowed = |set: &u32| {
        let touched = (0..groups).filter(|g| set >> (g * size) & ((1 << size) - 1) != 0).count();
        set.count_ones() as usize == choice.chosen && touched <= most_groups
    };
    let weigh = |set: u32| {
        let mut weight = 1.0;
        for at in 0..experts {
            weight *= match (choice.weights[at], set >> at & 1 == 1) {
                (Weight::Always, true) => 1.0,
                (Weight::Always, false) => 0.0,
                (Weight::Chance(weight), true) => weight,
                (Weight::Chance(_), false) => 1.0,
            };
        }
        for group in (0..groups).filter(|g| set >> (g * size) & ((1 << size) - 1) != 0) {
            weight *= choice.pull[group];
        }
        (set, weight)
    };
    (0u32..1 << experts).filter(allowed).map(weigh).collect()
}

fn near(a: f64, b: f64, off: f64) -> bool {
    (a - b).abs() <= off * b.abs().max(1e-9)
}

proptest! {
    /// Shares and visits are sums over all sets, and shares are as counted.
    #[test]
    fn sums_are_those_over_every_set(
        loads in prop::collection::vec(prop_oneof![1 => Just(0u64), 8 => 1u64..60], 12),
        top_k in 1usize..6,
        (groups, most) in prop_oneof![
            Just((1, 1)), Just((3, 2)), Just((4, 2)), Just((4, 3)), Just((6, 4)), Just((12, 6)),
        ],
        from in 0usize..11,
        wide in 1usize..8,
    ) {
        prop_assume!(loads.iter().any(|&load| load > 0) && top_k <= 12 / groups * most);
        let choice = Choice::of(&loads, rules(12, top_k, groups, most));
        let sets = sets(&choice);
        let all: f64 = sets.iter().map(|set| set.1).sum();
        prop_assert!(near(choice.sums.all, all, 1e-9));
        let with = |range: &Range<usize>| {
            let mask = range.clone().fold(0u32, |mask, at| mask | 1 << at);
            sets.iter().filter(|set| set.0 & mask != 0).map(|set| set.1).sum::<f64>() / all
        };
        for (at, &share) in choice.shares().iter().enumerate() {
            prop_assert!(near(share, with(&(at..at + 1)), 1e-7) || share < 1e-9, "{at}: {share}");
        }
        let range = from..(from + wide).min(12);
        prop_assert!((meets(&choice, range.clone()) - with(&range)).abs() < 1e-7);
        // Two stretches, as of ranks that do not lie side by side.
        let mask = (1u32 << 0) | (1 << 11);
        let ends = sets.iter().filter(|set| set.0 & mask != 0).map(|set| set.1).sum::<f64>() / all;
        prop_assert!((choice.meets(&[0..1, 11..12]) - ends).abs() < 1e-7);
        if choice.fits {
            let (wanted, _) = shares(&loads, top_k);
            for (&found, &wanted) in choice.shares().iter().zip(&wanted) {
                prop_assert!((found - wanted).abs() < 1e-6, "{found} of {wanted}");
            }
        }
        // The same weights, with groups chosen first.
        let sharp = Choice::of(&loads, rules(12, top_k, 1, 1)).limited(choice.rules);
        if let Some(sharp) = sharp {
            let sets = super::tests::sets(&sharp);
            let all: f64 = sets.iter().map(|set| set.1).sum();
            for (at, &share) in sharp.shares().iter().enumerate() {
                let with = sets.iter().filter(|set| set.0 >> at & 1 == 1);
                let with = with.map(|set| set.1).sum::<f64>() / all;
                prop_assert!(near(share, with, 1e-7) || share < 1e-9, "{at}: {share} of {with}");
            }
        }
        // Without a limit every load can be had.
        prop_assert!(choice.fits || groups > 1 || choice.chosen == 0);
    }
}

#[test]
fn even_loads_are_hypergeometric() {
    // DeepSeek-V3's 256 experts, 8 a token: C(224, 8) of C(256, 8) sets leave out 32 of them.
    let choice = Choice::of(&[5; 256], rules(256, 8, 1, 1));
    let none: f64 = (0..8).map(|i| f64::from(224 - i) / f64::from(256 - i)).product();
    assert!(choice.fits && near(meets(&choice, 32..64), 1.0 - none, 1e-9));
    assert!(choice.shares().iter().all(|&share| near(share, 8.0 / 256.0, 1e-9)));
    // Under its limit, 4 of 8 groups, sets of exactly m groups are C(8, m) times those that touch all m.
    let limited = Choice::of(&[5; 256], rules(256, 8, 8, 4));
    let choose =
        |n: f64, k: i32| (0..k).map(|i| (n - f64::from(i)) / f64::from(k - i)).product::<f64>();
    let exactly = |m: i32| {
        let touching = |m: i32| {
            (0..=m)
                .map(|j| {
                    let sign = if (m - j) % 2 == 0 { 1.0 } else { -1.0 };
                    sign * choose(f64::from(m), j) * choose(f64::from(32 * j), 8)
                })
                .sum::<f64>()
        };
        choose(8.0, m) * touching(m)
    };
    let all: f64 = (1..=4).map(exactly).sum();
    let groups: f64 = (1..=4).map(|m| f64::from(m) * exactly(m)).sum::<f64>() / all;
    let found: f64 = (0..8).map(|g| meets(&limited, 32 * g..32 * (g + 1))).sum();
    assert!(near(found, groups, 1e-9) && (3.8..4.0).contains(&found), "{found} {groups}");
}

#[test]
fn what_every_token_chooses_is_always_there() {
    // Expert 3 has more than one assignment of each token, expert 0 none.
    let choice = Choice::of(&[0, 10, 10, 100, 10, 10, 10, 10], rules(8, 2, 1, 1));
    let shares = choice.shares();
    assert_eq!((shares[0], shares[3]), (0.0, 1.0));
    assert!(shares[4..].iter().all(|&share| near(share, 1.0 / 6.0, 1e-9)));
    assert_eq!(meets(&choice, 2..4), 1.0);
    // Two experts alone: both, always; a limit that they break is none.
    let two = Choice::of(&[7, 0, 0, 9], rules(4, 2, 2, 1));
    assert!(!two.fits && meets(&two, 0..2) == 1.0 && meets(&two, 2..4) == 1.0);
    // One expert alone is all that a token of two chooses.
    let one = Choice::of(&[0, 4, 0, 0], rules(4, 2, 1, 1));
    assert_eq!((one.chosen, meets(&one, 1..2), meets(&one, 2..4)), (1, 1.0, 0.0));
}

#[test]
fn a_limit_takes_from_experts_of_weak_groups() {
    // The first of four groups is twice as popular as the others.
    let mut loads = [10u64; 16];
    loads[..4].fill(20);
    let free = Choice::of(&loads, rules(16, 4, 1, 1));
    let limited = free.limited(rules(16, 4, 4, 2)).expect("sets of four of two groups");
    let (before, after) = (free.shares(), limited.shares());
    let group = |shares: &[f64], at: usize| shares[4 * at..4 * at + 4].iter().sum::<f64>();
    assert!(group(&after, 0) > group(&before, 0), "{after:?}");
    assert!(group(&after, 3) < group(&before, 3), "{after:?}");
    assert!(near(after.iter().sum(), 4.0, 1e-9));
    // The same loads are had again by sets within the limit.
    let loads: Vec<u64> = after.iter().map(|share| (share * 1e9) as u64).collect();
    let again = Choice::of(&loads, rules(16, 4, 4, 2));
    assert!(again.fits && near(group(&again.shares(), 0), group(&after, 0), 1e-6));
}

#[test]
fn the_mean_of_the_highest_scatters_less() {
    assert!(near(sharpness(1), 1.0, 1e-12));
    // Var of (X1 + X2) / 2 is (pi^2 / 6 + 3 (pi^2 / 6 - 1)) / 4.
    let one = std::f64::consts::PI.powi(2) / 6.0;
    assert!(near(sharpness(2), (one / ((4.0 * one - 3.0) / 4.0)).sqrt(), 1e-12));
    assert!((1.35..1.36).contains(&sharpness(2)) && sharpness(3) > sharpness(2));
}
