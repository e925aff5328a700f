//! Who sends to whom.

use crate::draws::Draws;

/// A pattern of traffic between terminals.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Every packet to a terminal drawn evenly, from all others or from all.
    Uniform {
        /// Whether a terminal may draw itself.
        to_self: bool,
    },
    /// Every terminal to all others in turn, from its own neighbour on.
    AllToAll,
    /// Terminal `i` always to terminal `[i]`; one that names itself is silent.
    Permutation(Vec<u32>),
    /// This share of the packets to some terminals evenly, the rest as [`Traffic::Uniform`] to others.
    HotSpot {
        /// The terminals that this share goes to.
        terminals: Vec<u32>,
        /// The share of packets for them, from 0 to 1.
        share: f64,
    },
    /// Each terminal to the next and to the one before on a ring of all, by halves.
    Ring {
        /// The terminals in the order of the ring.
        order: Vec<u32>,
    },
    /// In proportion to a matrix \[from, to\], row by row; its diagonal is left out. Rows keep their
    /// weight: the load is the mean over terminals.
    Matrix(Vec<f64>),
}

/// Traffic that does not fit the network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("traffic: {0}")]
pub struct TrafficError(pub String);

/// What one terminal does, ready to be drawn from.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    Uniform {
        to_self: bool,
    },
    AllToAll,
    Permutation(Vec<u32>),
    HotSpot {
        terminals: Vec<u32>,
        share: f64,
    },
    Ring {
        next: Vec<[u32; 2]>,
    },
    /// Running sums of each row, each ending at its row's weight; and the mean weight of rows.
    Matrix {
        sums: Vec<f64>,
        mean: f64,
    },
}

impl Traffic {
    /// A permutation of so many terminals, drawn evenly.
    pub fn random_permutation(terminals: u32, seed: u64) -> Traffic {
        let mut draws = Draws::new(seed, u32::MAX);
        let mut to: Vec<u32> = (0..terminals).collect();
        for at in (1..terminals).rev() {
            to.swap(at as usize, draws.below(at + 1) as usize);
        }
        Traffic::Permutation(to)
    }

    /// Checks that the pattern is of `terminals` terminals.
    pub(crate) fn pattern(&self, terminals: u32) -> Result<Pattern, TrafficError> {
        fn wrong<T>(text: String) -> Result<T, TrafficError> {
            Err(TrafficError(text))
        }
        let n = terminals as usize;
        let known = |list: &[u32]| match list.iter().find(|&&t| t >= terminals) {
            Some(t) => wrong(format!("terminal {t}: there are {terminals}")),
            None => Ok(()),
        };
        if terminals < 2 {
            return wrong(format!("{terminals} terminals: at least 2 are needed"));
        }
        Ok(match self {
            &Traffic::Uniform { to_self } => Pattern::Uniform { to_self },
            Traffic::AllToAll => Pattern::AllToAll,
            Traffic::Permutation(to) => {
                known(to)?;
                let mut seen = vec![false; n];
                if to.len() != n
                    || to.iter().any(|&t| std::mem::replace(&mut seen[t as usize], true))
                {
                    return wrong(format!("a permutation must name each of {n} terminals once"));
                }
                Pattern::Permutation(to.clone())
            }
            Traffic::HotSpot { terminals: hot, share } => {
                known(hot)?;
                if hot.is_empty() || !(0.0..=1.0).contains(share) {
                    return wrong(format!(
                        "a hot spot of {} terminals with share {share}: at least one terminal and a \
                         share from 0 to 1 are needed",
                        hot.len()
                    ));
                }
                Pattern::HotSpot { terminals: hot.clone(), share: *share }
            }
            Traffic::Ring { order } => {
                known(order)?;
                let mut next = vec![[u32::MAX; 2]; n];
                for (at, &t) in order.iter().enumerate() {
                    let around = |by: usize| order[(at + by) % order.len()];
                    next[t as usize] = [around(1), around(order.len() - 1)];
                }
                if order.len() != n || next.contains(&[u32::MAX; 2]) {
                    return wrong(format!("a ring must visit each of {n} terminals once"));
                }
                Pattern::Ring { next }
            }
            Traffic::Matrix(weights) => {
                if weights.len() != n * n {
                    return wrong(format!(
                        "a matrix of {} cells: {n} x {n} are needed",
                        weights.len()
                    ));
                }
                if let Some(bad) = weights.iter().find(|w| !w.is_finite() || **w < 0.0) {
                    return wrong(format!("a matrix with {bad}: must be finite and not negative"));
                }
                let mut sums = weights.clone();
                for (from, row) in sums.chunks_mut(n).enumerate() {
                    row[from] = 0.0;
                    let mut sum = 0.0;
                    for cell in row {
                        sum += *cell;
                        *cell = sum;
                    }
                }
                let mean = sums.chunks(n).map(|row| row[n - 1]).sum::<f64>() / n as f64;
                if mean <= 0.0 {
                    return wrong("a matrix of zeros: nothing would be sent".into());
                }
                Pattern::Matrix { sums, mean }
            }
        })
    }
}

impl Pattern {
    /// What a terminal sends, as a share of the mean load.
    pub fn weight(&self, terminals: u32, from: u32) -> f64 {
        match self {
            Pattern::Permutation(to) => f64::from(u8::from(to[from as usize] != from)),
            Pattern::Matrix { sums, mean } => {
                sums[(from as usize + 1) * terminals as usize - 1] / mean
            }
            _ => 1.0,
        }
    }

    /// Where the next packet of a terminal goes; `sent` counts those before.
    pub fn draw(&self, terminals: u32, from: u32, sent: u64, draws: &mut Draws) -> u32 {
        let other = |draws: &mut Draws| {
            let to = draws.below(terminals - 1);
            to + u32::from(to >= from)
        };
        match self {
            Pattern::Uniform { to_self: true } => draws.below(terminals),
            Pattern::Uniform { to_self: false } => other(draws),
            Pattern::AllToAll => {
                let turn = 1 + (sent % u64::from(terminals - 1)) as u32;
                (from + turn) % terminals
            }
            Pattern::Permutation(to) => to[from as usize],
            Pattern::HotSpot { terminals: hot, share } => {
                let to = hot[draws.below(hot.len() as u32) as usize];
                match draws.unit() < *share && to != from {
                    true => to,
                    false => other(draws),
                }
            }
            Pattern::Ring { next } => next[from as usize][(sent & 1) as usize],
            Pattern::Matrix { sums, .. } => {
                let n = terminals as usize;
                let row = &sums[from as usize * n..][..n];
                let drawn = draws.unit() * row[n - 1];
                row.partition_point(|&sum| sum <= drawn).min(n - 1) as u32
            }
        }
    }
}
