//! The SWOT scheduler.

use super::{Problem, Solution, ideal, lockstep};

/// The best schedule found, and a proven bound.
pub fn overlap(problem: &Problem) -> Solution {
    Solution { schedule: lockstep(problem), bound_ps: ideal(problem) }
}
