//! Which lane each chunk takes.

use crate::exchange::{Chunk, Endpoint, Exchange};
use crate::path::{Block, Path, Sender as Decides, Shape};
use crate::ranks::job::{Job, Lanes};
use std::sync::Arc;

/// Makes the plan of an operation from the lanes that may be used when it begins.
pub(super) fn planner(
    job: &Job,
    server: Endpoint,
    path: Path,
    blocks: Vec<Block>,
    lanes: Arc<Lanes>,
) -> impl FnOnce(&Exchange) -> Vec<Chunk> + Send + 'static {
    let (shape, chunk) = (job.shape(), job.chunk);
    let Shape { packet_nics, optical_nics, .. } = shape;
    move |exchange| {
        let mut circuits = vec![None; usize::from(optical_nics)];
        for (&(peer, nic, peer_nic), &lane) in &*lanes {
            if nic >= packet_nics && exchange.is_usable(lane) {
                circuits[usize::from(nic - packet_nics)] = Some((peer, peer_nic - packet_nics));
            }
        }
        let decides = Decides { shape, server, circuits: &circuits, chunk };
        let is_up =
            |peer, nic| lanes.get(&(peer, nic, nic)).is_some_and(|&lane| exchange.is_usable(lane));
        let ways = decides.ways(path, &blocks, is_up);
        let lane = |peer, nic, peer_nic| lanes.get(&(peer, nic, peer_nic)).copied();
        // A way that has no lane would fail the operation, and name its peer.
        ways.iter()
            .filter_map(|way| {
                let lane = lane(way.server, way.nic, way.peer_nic)?;
                Some(Chunk { peer: way.server, lane, offset: way.offset, length: way.length })
            })
            .collect()
    }
}
