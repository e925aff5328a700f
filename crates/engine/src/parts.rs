//! Parts of a run that have nothing to do with one another until a task waits for all of them, as the replicas
//! of a job have not until their gradients are summed.
//!
//! An engine may take such parts one after the other, each up to its [fences](Parts::fence), and all together
//! from then on: what is near in memory is then near in time.

use crate::engine::{Policy, Scenario};
use crate::tasks::{TaskId, Tasks};

const NONE: u32 = u32::MAX;

/// The parts of a run.
///
/// ```
/// use lightloom_engine::{NOT_A_TRANSFER, Parts, Tasks};
/// use lightloom_units::Time;
/// // Task 2 waits for task 0, of one part, and for task 1, of another.
/// let tasks = Tasks {
///     duration: &[Time::from_ms(1); 3],
///     transfer: &[NOT_A_TRANSFER; 3],
///     offsets: &[0, 1, 2, 2],
///     targets: &[2, 2],
///     predecessors: &[0, 0, 2],
/// };
/// let parts = Parts::new(&tasks, |task| (task.0 < 2).then_some(task.0)).unwrap();
/// assert_eq!(parts.first, [[0], [1]]);
/// assert_eq!(parts.fence, [true, true, false]);
/// assert!(Parts::new(&tasks, |task| Some(task.0)).is_none()); // 0 and 1 lead to another part
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// By part: its tasks that wait for nothing.
    pub first: Vec<Vec<u32>>,
    /// By task: whether one of no part waits for it.
    pub fence: Vec<bool>,
}

impl Parts {
    /// What `part` says of each task. None if there are fewer than two parts, if a task of one waits for one of
    /// another, or if a task of no part may begin before each of them has come to a fence: before something of
    /// each has ended, or another such task.
    pub fn new(tasks: &Tasks<'_>, part: impl Fn(TaskId) -> Option<u32>) -> Option<Self> {
        let of: Vec<u32> =
            (0..tasks.len() as u32).map(|task| part(TaskId(task)).unwrap_or(NONE)).collect();
        let mut by_part: Vec<u32> =
            (0..of.len() as u32).filter(|&t| of[t as usize] != NONE).collect();
        by_part.sort_by_key(|&task| of[task as usize]); // stable
        let mut fence = vec![false; of.len()];
        // Of a task of no part: for how many parts it waits, and for which last.
        let mut waits = vec![(0u32, NONE); of.len()];
        let mut first = Vec::new();
        for tasks_of in by_part.chunk_by(|&a, &b| of[a as usize] == of[b as usize]) {
            let own = of[tasks_of[0] as usize];
            let nothing = |&&task: &&u32| tasks.predecessors[task as usize] == 0;
            first.push(tasks_of.iter().filter(nothing).copied().collect());
            for &task in tasks_of {
                for &after in tasks.successors(task) {
                    match of[after as usize] {
                        NONE => {
                            fence[task as usize] = true;
                            let (parts, last) = &mut waits[after as usize];
                            *parts += u32::from(*last != own);
                            *last = own;
                        }
                        other if other != own => return None,
                        _ => {}
                    }
                }
            }
        }
        let all = first.len() as u32;
        let shared = || (0..of.len() as u32).filter(|&task| of[task as usize] == NONE);
        for &after in shared().flat_map(|task| tasks.successors(task)) {
            waits[after as usize].0 = all;
        }
        let late = shared().all(|task| waits[task as usize].0 == all);
        (all >= 2 && late).then_some(Parts { first, fence })
    }
}

impl Scenario<'_> {
    /// The parts of the run that a policy names, if it has any and nothing breaks.
    pub fn parts(&self, policy: &dyn Policy) -> Option<Parts> {
        self.incidents
            .is_empty()
            .then(|| Parts::new(&self.tasks, |task| policy.part(task)))
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::Parts;
    use crate::conformance::{Graph, Work};
    use lightloom_units::Time;

    /// Of tasks 0 to n, each of the part that is given, and what waits for what.
    fn parts(of: &[Option<u32>], edges: &[(u32, u32)]) -> Option<Parts> {
        let graph = Graph::new(vec![Work::Compute(Time::ZERO); of.len()], edges.to_vec());
        Parts::new(&graph.tasks(), |task| of[task.0 as usize])
    }

    #[test]
    fn there_are_two_parts_at_least() {
        assert_eq!(parts(&[], &[]), None);
        assert_eq!(parts(&[Some(0)], &[]), None);
        assert_eq!(parts(&[Some(0), Some(0)], &[]), None);
        assert_eq!(parts(&[None, None], &[]), None);
        let two = parts(&[Some(9), Some(4), Some(9)], &[(0, 2)]).expect("two parts");
        assert_eq!(two.first, [[1], [0]]);
        assert_eq!(two.fence, [false; 3]);
    }

    #[test]
    fn no_part_waits_for_another() {
        assert_eq!(parts(&[Some(0), Some(1)], &[(0, 1)]), None);
    }

    #[test]
    fn what_is_of_no_part_waits_for_all() {
        let (a, b, all) = (Some(0), Some(1), None);
        assert_eq!(parts(&[a, b, all], &[]), None);
        assert_eq!(parts(&[a, b, all], &[(0, 2)]), None);
        assert_eq!(parts(&[a, a, b, all], &[(0, 3), (1, 3)]), None);
        assert!(parts(&[a, b, all], &[(0, 2), (1, 2)]).is_some());
        // Or for what does.
        assert!(parts(&[a, b, all, all], &[(0, 2), (1, 2), (2, 3)]).is_some());
        assert!(parts(&[a, b, all, all], &[(0, 2), (1, 2), (2, 3), (0, 3)]).is_some());
    }

    #[test]
    fn a_part_may_go_on_after_the_sum() {
        let edges = [(0, 2), (1, 2), (2, 3), (0, 3)];
        let found = parts(&[Some(0), Some(1), None, Some(0)], &edges).expect("two parts");
        assert_eq!(found.first, [[0], [1]]);
        assert_eq!(found.fence, [true, true, false, false]);
    }
}
