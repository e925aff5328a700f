//! AdaHedge: whom to trust how far, from what each has lost so far (de Rooij, van Erven, Grünwald and
//! Koolen, "Follow the leader if you can, hedge if you must", JMLR 15, 2014; of the exponential weights
//! of Freund and Schapire, 1997).
//!
//! Modelled: round after round a weight for each of K experts, `exp(-eta L)` of what it has lost, where
//! `eta = ln K / D` and D is the mixability gap so far: what the weighted mean has lost more than the
//! exponentially weighted one. No rate is tuned, and losses have no range that must be known: if all
//! are scaled or shifted alike, the weights stay.
//! Ignored: that the best may be another one later; nothing is forgotten.
//! Checked: the two bounds, on random and on spiteful losses; scale and shift.

/// Weights of experts whose losses become known round by round.
///
/// ```
/// use lightloom_circuits::predict::Hedge;
/// let mut hedge = Hedge::new(2);
/// assert_eq!(hedge.weights(), [0.5, 0.5]);
/// (0..20).for_each(|_| hedge.learn(&[0.1, 0.3], 0.2));
/// assert!(hedge.weights()[0] > 0.99);
/// ```
#[derive(Clone, Debug)]
pub struct Hedge {
    lost: Vec<f64>,
    spent: f64,
    gap: f64,
    widest: f64,
    rounds: u32,
}

impl Hedge {
    /// Nobody has lost anything yet.
    ///
    /// # Panics
    /// If there are no experts.
    pub fn new(experts: usize) -> Self {
        assert!(experts > 0, "at least one expert");
        Hedge { lost: vec![0.0; experts], spent: 0.0, gap: 0.0, widest: 0.0, rounds: 0 }
    }

    /// Of every expert; they sum to 1. While the gap is zero, the same for all that have lost least.
    pub fn weights(&self) -> Vec<f64> {
        let (rate, least) = (self.rate(), self.least());
        let weight = |lost: &f64| match lost - least {
            0.0 => 1.0,
            more => (-rate * more).exp(),
        };
        let raw: Vec<f64> = self.lost.iter().map(weight).collect();
        let sum: f64 = raw.iter().sum();
        raw.iter().map(|weight| weight / sum).collect()
    }

    /// Adds a round: what each expert has lost, and what was lost by whoever went by the weights. Of
    /// a convex loss that is at most the weighted mean of the experts', if they were averaged.
    ///
    /// # Panics
    /// If there is not one loss an expert.
    pub fn learn(&mut self, losses: &[f64], spent: f64) {
        assert_eq!(losses.len(), self.lost.len(), "a loss an expert");
        let (rate, weights) = (self.rate(), self.weights());
        let mean: f64 = weights.iter().zip(losses).map(|(weight, loss)| weight * loss).sum();
        let before = self.least();
        self.lost.iter_mut().zip(losses).for_each(|(lost, loss)| *lost += loss);
        let low = losses.iter().copied().fold(f64::INFINITY, f64::min);
        let high = losses.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mixed = if rate.is_finite() {
            let part = |(weight, loss): (&f64, &f64)| weight * (-rate * (loss - low)).exp();
            low - weights.iter().zip(losses).map(part).sum::<f64>().ln() / rate
        } else {
            self.least() - before
        };
        self.gap += (mean - mixed).max(0.0);
        self.widest = self.widest.max(high - low);
        self.spent += spent;
        self.rounds += 1;
    }

    fn rate(&self) -> f64 {
        let experts = self.lost.len() as f64;
        if self.gap > 0.0 { experts.ln() / self.gap } else { f64::INFINITY }
    }

    fn least(&self) -> f64 {
        self.lost.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// What each expert has lost in all.
    pub fn lost(&self) -> &[f64] {
        &self.lost
    }

    /// What was lost in all by whoever went by the weights.
    pub fn spent(&self) -> f64 {
        self.spent
    }

    /// How many rounds there were.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// What [`spent`](Self::spent) can at most lie above the least loss of an expert, after these
    /// rounds: twice the gap (section 2.1: the mixed losses are within one gap of the least).
    pub fn bound(&self) -> f64 {
        2.0 * self.gap
    }

    /// The same from the number of rounds and the widest span of losses in one: with S and T of these,
    /// `S (sqrt(T ln K) + 4/3 ln K + 2)` (theorem 6, with the variance at its most).
    pub fn worst(&self) -> f64 {
        let log = (self.lost.len() as f64).ln();
        self.widest * ((f64::from(self.rounds) * log).sqrt() + 4.0 / 3.0 * log + 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Plays rounds; who goes by the weights loses the weighted mean.
    fn play(rounds: &[Vec<f64>]) -> Hedge {
        let mut hedge = Hedge::new(rounds[0].len());
        for losses in rounds {
            let mean = hedge.weights().iter().zip(losses).map(|(w, l)| w * l).sum();
            hedge.learn(losses, mean);
        }
        hedge
    }

    proptest! {
        #[test]
        fn regret_is_within_its_bounds(
            rounds in (1usize..7).prop_flat_map(|experts| {
                let loss = prop_oneof![Just(0.0), Just(1.0), -3.0..5.0f64];
                prop::collection::vec(prop::collection::vec(loss, experts), 1..120)
            }),
        ) {
            let hedge = play(&rounds);
            let regret = hedge.spent() - hedge.least();
            let (bound, worst) = (hedge.bound(), hedge.worst());
            prop_assert!(regret <= bound + 1e-9, "{regret} of {bound}");
            prop_assert!(bound <= worst + 1e-9, "{bound} of {worst}");
            prop_assert!((hedge.weights().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }

        #[test]
        fn scale_and_shift_change_no_weight(
            rounds in prop::collection::vec(prop::collection::vec(0.0..1.0f64, 4), 1..40),
            scale in 1e-6..1e6f64,
            shift in -1.0..1.0f64,
        ) {
            let other = |losses: &Vec<f64>| losses.iter().map(|l| scale * (l + shift)).collect();
            let moved: Vec<Vec<f64>> = rounds.iter().map(other).collect();
            let pairs = play(&rounds).weights().into_iter().zip(play(&moved).weights());
            prop_assert!(pairs.into_iter().all(|(one, two)| (one - two).abs() < 1e-6));
        }
    }

    /// Whoever has the most weight loses: the worst that can be done to a leader's follower.
    #[test]
    fn spite_costs_no_more_than_the_bounds() {
        let mut hedge = Hedge::new(5);
        for _ in 0..2000 {
            let weights = hedge.weights();
            let first = (0..5).fold(0, |a, b| if weights[b] > weights[a] { b } else { a });
            let losses: Vec<f64> = (0..5).map(|e| f64::from(u8::from(e == first))).collect();
            hedge.learn(&losses, weights[first]);
        }
        let regret = hedge.spent() - hedge.least();
        assert!(regret <= hedge.bound() && hedge.bound() <= hedge.worst(), "{hedge:?}");
        // A follower of the leader would lose every round, and the best expert one in five.
        assert!(hedge.least() >= 390.0 && hedge.worst() < 62.0, "{hedge:?}");
    }

    #[test]
    fn experts_that_are_alike_keep_their_weights() {
        let hedge = play(&vec![vec![0.25; 3]; 10]);
        assert_eq!((hedge.weights(), hedge.bound()), (vec![1.0 / 3.0; 3], 0.0));
        assert_eq!((hedge.lost()[1], hedge.spent(), hedge.rounds()), (2.5, 2.5, 10));
    }
}
