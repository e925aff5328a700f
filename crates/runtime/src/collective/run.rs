//! Which round is to be begun.

use super::round::Program;

/// A program under way: rounds are begun in their order, each once those before it that it needs are over.
///
/// ```
/// use lightloom_runtime::collective::*;
/// let mut run = Run::new(&all_reduce(&Algorithm::Direct { parts: 1 }, Member { at: 0, of: 2 }, 8, 4));
/// assert_eq!((run.begin(), run.begin()), (Some(0), None));
/// run.end(0);
/// assert_eq!((run.begin(), run.is_over()), (Some(1), false));
/// run.end(1);
/// assert!(run.is_over());
/// ```
#[derive(Clone, Debug)]
pub struct Run {
    after: Vec<Vec<usize>>,
    over: Vec<bool>,
    begun: usize,
}

impl Run {
    /// One that has not begun.
    pub fn new(program: &Program) -> Self {
        Run {
            after: program.rounds.iter().map(|round| round.after.clone()).collect(),
            over: vec![false; program.rounds.len()],
            begun: 0,
        }
    }

    /// The round that is to be begun now, if one is.
    pub fn begin(&mut self) -> Option<usize> {
        let ready = self.after.get(self.begun)?.iter().all(|&round| self.over[round]);
        ready.then(|| {
            self.begun += 1;
            self.begun - 1
        })
    }

    /// A round is over, and what came was reduced.
    pub fn end(&mut self, round: usize) {
        self.over[round] = true;
    }

    /// Whether all were begun.
    pub fn is_begun(&self) -> bool {
        self.begun == self.over.len()
    }

    /// Whether all are over.
    pub fn is_over(&self) -> bool {
        self.over.iter().all(|&over| over)
    }
}
