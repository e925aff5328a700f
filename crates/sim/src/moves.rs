//! What each node sends in each step of a collective, block by block, for whoever writes programs.

use lightloom_swot::plan::Dimension;
use lightloom_units::Bytes;
use lightloom_workload::collective::{Algorithm, Collective, CollectiveError};
use serde::Serialize;

/// A collective of so many nodes, over a grid if there are dimensions: each begins with as many parts of
/// the buffer as it has planes, in lowest terms.
pub(crate) fn collective(
    algorithm: Algorithm,
    nodes: u32,
    grid: &[Dimension],
    size: Bytes,
) -> Result<Collective, CollectiveError> {
    let gcd = |a: u32, b: u32| {
        std::iter::successors(Some((a, b)), |&(a, b)| (b > 0).then(|| (b, a % b)))
            .last()
            .map_or(1, |(a, _)| a)
    };
    let common = grid.iter().map(|one| one.planes).fold(0, gcd).max(1);
    let own = |one: &Dimension| lightloom_workload::collective::Dimension {
        nodes: one.nodes,
        slices: one.planes / common,
    };
    let dimensions: Vec<_> = grid.iter().map(own).collect();
    algorithm.build_on(nodes, &dimensions, size)
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
