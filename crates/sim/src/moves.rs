//! What each node sends in each step of a collective, block by block, for whoever writes programs.

use lightloom_units::Bytes;
use lightloom_workload::collective::{Algorithm, CollectiveError};
use serde::Serialize;

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
    /// Blocks of the buffer; in an all-to-all, `source * nodes + destination`.
    pub blocks: Vec<u64>,
    /// Whether the receiver adds them to its own.
    pub reduce: bool,
}

/// The messages of a collective by its name.
///
/// ```
/// let messages = lightloom_sim::messages("ring-allreduce", 3, 30)?;
/// assert_eq!((messages.blocks, messages.steps.len()), (3, 4));
/// assert_eq!(messages.steps[0][2].peer, 0);
/// # Ok::<(), lightloom_workload::collective::CollectiveError>(())
/// ```
///
/// # Errors
/// [`CollectiveError`]: which argument is wrong.
pub fn messages(algorithm: &str, nodes: u32, size: u64) -> Result<Messages, CollectiveError> {
    let collective = algorithm.parse::<Algorithm>()?.build(nodes, Bytes::new(size))?;
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
