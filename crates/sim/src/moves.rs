//! What each node sends in each step of a collective, block by block, for whoever writes programs.

use lightloom_swot::plan::Dimension;
use lightloom_units::Bytes;
use lightloom_workload::collective::{Algorithm, Collective, CollectiveError};
use serde::Serialize;

/// The most slices that a grid's buffer is cut in.
const SLICES: u32 = 64;

/// A collective of so many nodes, over a grid if there are dimensions.
pub(crate) fn collective(
    algorithm: Algorithm,
    nodes: u32,
    grid: &[Dimension],
    size: Bytes,
) -> Result<Collective, CollectiveError> {
    let own = |(one, slices): (&Dimension, u32)| lightloom_workload::collective::Dimension {
        nodes: one.nodes,
        slices,
    };
    let dimensions: Vec<_> = grid.iter().zip(slices(grid)).map(own).collect();
    algorithm.build_on(nodes, &dimensions, size)
}

/// How many slices of the buffer begin in each dimension. Of d nodes each sends (d - 1) / d of what it
/// has, so that all dimensions are done at once where slices are as planes times d / (d - 1): the
/// fewest slices within a hundredth of that, or the nearest of all.
fn slices(grid: &[Dimension]) -> Vec<u32> {
    let weight = |one: &Dimension| f64::from(one.planes) / (1.0 - 1.0 / f64::from(one.nodes));
    let weights: Vec<f64> = grid.iter().map(weight).collect();
    let sum: f64 = weights.iter().sum();
    let cut = |total: u32| -> Vec<u32> {
        let slices = weights.iter().map(|weight| (f64::from(total) * weight / sum).round());
        slices.map(|slices| slices.max(1.0) as u32).collect()
    };
    let off = |slices: &[u32]| {
        let all = f64::from(slices.iter().sum::<u32>());
        let shares = slices.iter().zip(&weights);
        let one =
            |(&own, weight): (&u32, &f64)| (f64::from(own) / all / (weight / sum) - 1.0).abs();
        shares.map(one).fold(0.0, f64::max)
    };
    let tried = || (1..=SLICES).map(cut).map(|slices| (off(&slices), slices));
    let near = tried().find(|(off, _)| *off <= 0.01);
    let best = near.or_else(|| tried().min_by(|a, b| a.0.total_cmp(&b.0)));
    best.map_or_else(Vec::new, |(_, slices)| slices)
}

/// A collective, message by message.
#[derive(Clone, Debug, Serialize)]
pub struct Messages {
    /// What it is for: `all-reduce`, ...
    pub primitive: &'static str,
    /// Equal blocks of a buffer.
    pub blocks: u64,
    /// By step, the messages of the nodes that send.
    pub steps: Vec<Vec<Message>>,
}

/// What one node sends in one step.
#[derive(Clone, Debug, Serialize)]
pub struct Message {
    /// The node that sends, from 0.
    pub node: u32,
    /// The node that receives, from 0.
    pub peer: u32,
    /// Blocks of the buffer; in an all-to-all, `source * nodes + destination`, each cut further over a
    /// grid.
    pub blocks: Vec<u64>,
    /// Whether the receiver adds them to its own.
    pub reduce: bool,
}

/// The messages of a collective by its name, over a grid if there are dimensions.
///
/// ```
/// let messages = lightloom_sim::messages("ring-allreduce", 3, &[], 30)?;
/// assert_eq!((messages.blocks, messages.steps.len()), (3, 4));
/// assert_eq!(messages.steps[0][2].peer, 0);
/// # Ok::<(), lightloom_workload::collective::CollectiveError>(())
/// ```
///
/// # Errors
/// [`CollectiveError`]: which argument is wrong.
pub fn messages(
    algorithm: &str,
    nodes: u32,
    grid: &[Dimension],
    size: u64,
) -> Result<Messages, CollectiveError> {
    let collective = collective(algorithm.parse()?, nodes, grid, Bytes::new(size))?;
    let step = |s: usize| {
        let pairing = &collective.pairings[collective.steps[s].pairing as usize];
        (0..nodes)
            .filter_map(|node| {
                let peer = pairing.peer(node, nodes)?;
                let moved = collective.moves(s, node);
                let message = Message { node, peer, blocks: moved.blocks, reduce: moved.reduce };
                (!message.blocks.is_empty()).then_some(message)
            })
            .collect()
    };
    Ok(Messages {
        primitive: collective.algorithm.primitive().name(),
        blocks: collective.blocks(),
        steps: (0..collective.steps.len()).map(step).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_as_planes_and_lines() {
        let of = |grid: &[(u32, u32)]| {
            let dimension = |&(nodes, planes)| Dimension { nodes, planes };
            slices(&grid.iter().map(dimension).collect::<Vec<_>>())
        };
        assert_eq!(of(&[(8, 2), (8, 2)]), [1, 1]);
        assert_eq!(of(&[(4, 1), (4, 1), (4, 2)]), [1, 1, 2]);
        // 3 / 2 and 4 / 3 are as 9 and 8, nearly 8 and 7.
        assert_eq!(of(&[(3, 1), (4, 1)]), [8, 7]);
        assert_eq!(of(&[(2, 1), (4096, 63)]).iter().sum::<u32>(), 33);
        assert!(of(&[]).is_empty());
    }
}
