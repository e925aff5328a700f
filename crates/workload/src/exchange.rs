//! Collectives that are run by themselves, as task graphs.
//!
//! Modelled: an all-to-all is one transfer, in which all pairs send at once. By an algorithm a rank waits
//! for its own messages alone, as in collective libraries: a message of a step starts when all that its
//! sender and its receiver have sent and received in the steps before has arrived; steps that run together wait for none of each
//! other. Steps in a row that are alike for everyone,
//! as around a ring, are one flow a hop, which stands for all of them. A collective of more than
//! [`MOST_MESSAGES`] messages waits after each step for everyone instead.
//! Ignored: receivers with room for messages that come early; the time to add numbers up, and copies inside a GPU.
//! Checked: the closed forms of each algorithm on one switch; every message once, and after what it holds.

use crate::collective::{Collective, Pairing};
use crate::dag::{Comm, GraphBuilder, Message, Task, TaskGraph, TaskKind};
use crate::gating::MatrixId;
use crate::parallelism::{BlockId, Scope};
use std::collections::HashMap;

/// Up to so many, each message of an algorithm is a task of its own.
pub const MOST_MESSAGES: u64 = 1 << 20;

/// Messages that wait for each other in a circle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message {0} waits for itself, through others")]
pub struct Deadlock(pub u32);

/// Everyone to everyone at once, as the gating's first matrix has it.
pub fn all_to_all(bytes_per_token: u64) -> TaskGraph {
    let mut graph = GraphBuilder::default();
    graph.task(Task::alone(
        TaskKind::Dispatch,
        Comm::AllToAll {
            block: BlockId { replica: 0, stage: 0 },
            matrix: MatrixId(0),
            transposed: false,
            bytes_per_token,
        },
    ));
    graph.finish()
}

/// The sum over everyone, of so many bytes each, as a job sums gradients.
pub fn sum(bytes_per_gpu: u64) -> TaskGraph {
    let mut graph = GraphBuilder::default();
    let comm = Comm::AllReduce { stage: 0, scope: Scope::Dense, bytes_per_gpu };
    graph.task(Task::alone(TaskKind::Exchange, comm));
    graph.finish()
}

/// Steps that follow one another with the same pairing and the same bytes.
struct Stretch {
    /// The first of them.
    step: usize,
    count: u32,
}

/// The steps of an algorithm.
///
/// ```
/// use lightloom_units::Bytes;
/// use lightloom_workload::{collective::Algorithm, steps};
/// let ring: Algorithm = "ring-allreduce".parse()?;
/// // A flow for each of four hops, for all six steps of a quarter.
/// let graph = steps(&ring.build(4, Bytes::new(400))?);
/// assert_eq!((graph.len(), &graph.messages[..]), (4, &[(0, 1, 600), (1, 2, 600), (2, 3, 600), (3, 0, 600)][..]));
/// // Of halves and quarters, four messages a step; each waits for those of its two ranks.
/// let halves: Algorithm = "rabenseifner-allreduce".parse()?;
/// let graph = steps(&halves.build(4, Bytes::new(400))?);
/// assert_eq!((graph.len(), graph.predecessors_count[4]), (16, 4));
/// # Ok::<(), lightloom_workload::collective::CollectiveError>(())
/// ```
pub fn steps(collective: &Collective) -> TaskGraph {
    let mut graph = GraphBuilder::default();
    let mut stretches: Vec<Stretch> = Vec::new();
    for (at, step) in collective.steps.iter().enumerate() {
        // Only where everyone sends in each step.
        let all = matches!(collective.pairings[step.pairing as usize], Pairing::Shift(_));
        match stretches.last_mut() {
            Some(last) if all && collective.steps[last.step] == *step => last.count += 1,
            _ => stretches.push(Stretch { step: at, count: 1 }),
        }
    }
    let sent: u64 = stretches.len() as u64 * u64::from(collective.nodes);
    if sent > MOST_MESSAGES {
        let tasks: Vec<u32> = stretches
            .iter()
            .map(|one| graph.exchange(messages_of(collective, one), one.count))
            .collect();
        let together =
            |_: &(&Stretch, u32), next: &(&Stretch, u32)| collective.steps[next.0.step].together;
        let tasks: Vec<(&Stretch, u32)> = stretches.iter().zip(tasks).collect();
        let groups: Vec<_> = tasks.chunk_by(together).collect();
        for two in groups.windows(2) {
            let pairs = two[0].iter().flat_map(|a| two[1].iter().map(move |b| (a.1, b.1)));
            pairs.for_each(|(before, after)| graph.edge(before, after));
        }
        return graph.finish();
    }
    graph.reserve(sent as usize);
    // By rank: the messages, to it and from it, that its next ones wait for.
    let mut open: Vec<Vec<u32>> = vec![Vec::new(); collective.nodes as usize];
    for group in stretches.chunk_by(|_, next| collective.steps[next.step].together) {
        let mut tasks: Vec<(u32, u32, u32)> = Vec::new();
        for one in group {
            let sent = messages_of(collective, one);
            tasks.extend(sent.map(|m| (m.0, m.1, graph.exchange([m], one.count))));
        }
        for &(from, to, task) in &tasks {
            let mut before = [&open[from as usize][..], &open[to as usize][..]].concat();
            before.sort_unstable();
            before.dedup();
            before.into_iter().for_each(|one| graph.edge(one, task));
        }
        for &(from, to, _) in &tasks {
            open[from as usize].clear();
            open[to as usize].clear();
        }
        for &(from, to, task) in &tasks {
            open[from as usize].push(task);
            open[to as usize].push(task);
        }
    }
    graph.finish()
}

/// What is sent in a stretch of steps.
fn messages_of<'a>(
    collective: &'a Collective,
    stretch: &Stretch,
) -> impl Iterator<Item = Message> + 'a {
    let (at, n) = (stretch.step, collective.nodes);
    let step = collective.steps[at];
    let bytes = step.volume.get() * u64::from(stretch.count);
    let pairing = &collective.pairings[step.pairing as usize];
    (0..n).filter_map(move |node| {
        let peer = pairing.peer(node, n)?;
        (!collective.moves(at, node).blocks.is_empty()).then_some((node, peer, bytes))
    })
}

/// Messages, each a task, with `(before, after)` of those that wait for others.
///
/// # Errors
/// If messages wait for each other in a circle: one of them.
pub fn messages(messages: &[Message], waits: &[(u32, u32)]) -> Result<TaskGraph, Deadlock> {
    let mut graph = GraphBuilder::default();
    graph.reserve(messages.len());
    for &message in messages {
        graph.exchange([message], 1);
    }
    for &(before, after) in waits {
        graph.edge(before, after);
    }
    let graph = graph.finish();
    match graph.topological_order() {
        Some(_) => Ok(graph),
        None => Err(Deadlock(circle(&graph, waits))),
    }
}

/// A message that waits for itself; there is one.
fn circle(graph: &TaskGraph, waits: &[(u32, u32)]) -> u32 {
    // What waits for nothing is taken away until the rest waits for each other.
    let mut waiting = graph.predecessors_count.clone();
    let mut free: Vec<u32> = (0..).zip(&waiting).filter(|w| *w.1 == 0).map(|w| w.0).collect();
    while let Some(task) = free.pop() {
        for &after in graph.successors.row(task) {
            waiting[after as usize] -= 1;
            free.extend((waiting[after as usize] == 0).then_some(after));
        }
    }
    let left = |task: u32| waiting[task as usize] > 0;
    let held = waits.iter().filter(|&&(before, after)| left(before) && left(after));
    let waits_for: HashMap<u32, u32> = held.map(|&(before, after)| (after, before)).collect();
    // Backwards from any of these, a message comes twice at last.
    let mut seen = vec![false; waiting.len()];
    let mut at = waits_for.keys().copied().min().unwrap_or(0);
    while !std::mem::replace(&mut seen[at as usize], true) {
        at = waits_for[&at];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Algorithm;
    use lightloom_units::Bytes;

    #[test]
    fn every_message_is_sent_once_and_after_all_that_its_sender_sent_and_got() {
        for (n, algorithm) in
            [2, 3, 7, 8, 13, 16].into_iter().flat_map(|n| Algorithm::all().map(move |a| (n, a)))
        {
            let Ok(collective) = algorithm.build(n, Bytes::new(1 << 20)) else { continue };
            let graph = steps(&collective);
            assert!(graph.topological_order().is_some());
            // (steps that begin together, sender, bytes)
            let wanted: Vec<(usize, u32, u64)> = (0..)
                .zip(collective.groups())
                .flat_map(|(group, steps)| steps.map(move |s| (group, s)))
                .flat_map(|(group, s)| (0..n).map(move |i| (group, s, i)))
                .filter(|&(_, s, i)| !collective.moves(s, i).blocks.is_empty())
                .map(|(group, s, i)| (group, i, collective.steps[s].volume.get()))
                .collect();
            let sum = |all: &mut dyn Iterator<Item = u64>| all.sum::<u64>();
            let sent = sum(&mut graph.messages.iter().map(|message| message.2));
            assert_eq!(
                sent,
                sum(&mut wanted.iter().map(|message| message.2)),
                "{algorithm} on {n}"
            );
            if wanted.len() != graph.messages.len() {
                assert!(algorithm.kind().name.starts_with("ring"), "{algorithm} on {n}");
                continue;
            }
            for (task, &(step, from, _)) in wanted.iter().enumerate() {
                let to = graph.messages[task].1;
                assert_eq!(graph.messages[task].0, from);
                for (before, &(a, b, _)) in graph.messages[..task].iter().enumerate() {
                    let meets = [from, to].contains(&a) || [from, to].contains(&b);
                    let earlier = wanted[before].0 < step && meets;
                    let waits = reaches(&graph, before, task);
                    assert!(waits || !earlier, "{algorithm} on {n}: {before} and {task}");
                }
            }
        }
    }

    fn reaches(graph: &TaskGraph, from: usize, to: usize) -> bool {
        let mut open = vec![from as u32];
        let mut seen = vec![false; graph.len()];
        while let Some(task) = open.pop() {
            if task as usize == to {
                return true;
            }
            if !std::mem::replace(&mut seen[task as usize], true) {
                open.extend(graph.successors.row(task));
            }
        }
        false
    }

    #[test]
    fn a_circle_is_told_by_one_of_its_own() {
        let sent = [(0, 1, 5), (1, 2, 5), (2, 0, 5), (0, 2, 5)];
        assert!(messages(&sent, &[(0, 1), (1, 2)]).is_ok());
        let Deadlock(at) =
            messages(&sent, &[(0, 1), (1, 2), (2, 1), (2, 3)]).expect_err("a circle");
        assert!([1, 2].contains(&at), "{at}");
    }
}
