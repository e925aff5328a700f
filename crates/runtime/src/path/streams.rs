//! Chunks whose NIC or connection is chosen when their turn comes, for the schemes that RailS is compared with.
//!
//! Modelled: NIC `i` of a server is rank `i`'s own. What a rank sends to a rank is one stream, which arrives at the
//! receiver's own NIC, and leaves by the sender's own NIC or by all of the server, as the balancer has it
//! ([`lightloom_packet::BalancerCapabilities`]). All streams from a server to a NIC of another share a window evenly, used or not. So do the chunks that a
//! rule has dealt to a rail, which are one stream there.
//! Checked: `path/tests.rs`; bytes on real NICs in `tests/test_testbed_schemes.py`.

use super::parts::{Block, Shape, Way, begins};
use crate::exchange::Nic;
use lightloom_packet::{BalancerSpec, Nics};
use lightloom_units::mix;

/// Chunks that share a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// The receiving server.
    pub server: u16,
    /// The NICs here that it may leave by, at least one.
    pub nics: Vec<Nic>,
    /// The NIC there.
    pub peer_nic: Nic,
    /// Its share of the window to that NIC, at least 1 \[B\].
    pub window: u64,
    /// For hashes.
    pub hash: u64,
    /// Its chunks, as places in the list of all.
    pub chunks: Vec<u32>,
}

/// The chunks of blocks, in order, and their streams under a balancer. `window` is what may be in flight from this server to one NIC of
/// another \[B\]. Blocks are sorted, none is empty.
pub(super) fn by_balancer(
    shape: Shape,
    server: u16,
    blocks: &[Block],
    balancer: &BalancerSpec,
    (chunk, window): (u32, u64),
) -> (Vec<Way>, Vec<Stream>) {
    let all = || (0..shape.packet_nics).collect();
    let own = balancer.kind().capabilities.nics == Nics::Own;
    let (mut ways, mut streams) = (Vec::new(), Vec::new());
    for (block, begin) in blocks.iter().zip(begins(blocks)) {
        let first = ways.len() as u32;
        let nics: Vec<Nic> = if own { vec![block.source] } else { all() };
        for at in (0..block.bytes).step_by(chunk as usize) {
            let length = (block.bytes - at).min(chunk.into()) as u32;
            let (nic, peer_nic, offset) = (nics[0], block.target, begin + at);
            ways.push(Way { server: block.server, nic, peer_nic, offset, length });
        }
        let ends = [server, block.source, block.server, block.target];
        let hash = ends.iter().fold(0, |hash, &end| mix(hash ^ u64::from(end)));
        streams.push(Stream {
            server: block.server,
            nics,
            peer_nic: block.target,
            window: (window / u64::from(shape.ranks)).max(1),
            hash,
            chunks: (first..ways.len() as u32).collect(),
        });
    }
    (ways, streams)
}

/// The streams of chunks whose NICs are known: one for each pair of NICs.
pub(super) fn by_nics(ways: &[Way], window: u64) -> Vec<Stream> {
    let mut streams: Vec<Stream> = Vec::new();
    for (at, way) in (0..).zip(ways) {
        let its = |it: &&mut Stream| {
            (it.server, it.nics[0], it.peer_nic) == (way.server, way.nic, way.peer_nic)
        };
        match streams.iter_mut().find(its) {
            Some(stream) => stream.chunks.push(at),
            None => streams.push(Stream {
                server: way.server,
                nics: vec![way.nic],
                peer_nic: way.peer_nic,
                window: window.max(1),
                hash: 0,
                chunks: vec![at],
            }),
        }
    }
    streams
}
