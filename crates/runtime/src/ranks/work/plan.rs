//! Which lane each chunk takes.

use crate::exchange::{Chunk, Endpoint, Exchange, Flow, Plan, SubFlow};
use crate::path::{Block, Path, Sender as Decides, Shape, Stream};
use crate::ranks::job::{Job, Lanes};
use lightloom_packet::LoneBalancer;
use std::sync::Arc;

/// Makes the plan of an operation from the lanes that may be used when it begins.
pub(super) fn planner(
    job: &Job,
    server: Endpoint,
    path: Path,
    blocks: Vec<Block>,
    lanes: Arc<Lanes>,
) -> impl FnOnce(&Exchange) -> Plan + Send + 'static {
    let (shape, chunk) = (job.shape(), job.chunk);
    let Shape { packet_nics, optical_nics, .. } = shape;
    let window = job.spread.as_ref().map(|spread| u64::from(spread.window));
    move |exchange| {
        let mut circuits = vec![None; usize::from(optical_nics)];
        for (&(peer, nic, peer_nic), between) in &*lanes {
            let usable = || between.iter().any(|&lane| exchange.is_usable(lane));
            if nic >= packet_nics && usable() {
                circuits[usize::from(nic - packet_nics)] = Some((peer, peer_nic - packet_nics));
            }
        }
        let decides = Decides { shape, server, circuits: &circuits, chunk };
        let first = |peer, nic, peer_nic| lanes.get(&(peer, nic, peer_nic))?.first().copied();
        let is_up = |peer, nic| first(peer, nic, nic).is_some_and(|lane| exchange.is_usable(lane));
        let (ways, streams) = match window {
            Some(window) => decides.streams(path, &blocks, window, is_up),
            None => (decides.ways(path, &blocks, is_up), vec![]),
        };
        // A way that has no lane would fail the operation, and name its peer.
        let chunks: Vec<Chunk> = ways
            .iter()
            .filter_map(|way| {
                let lane = first(way.server, way.nic, way.peer_nic)?;
                Some(Chunk { peer: way.server, lane, offset: way.offset, length: way.length })
            })
            .collect();
        let flow = |stream: Stream| flow(path, &lanes, stream);
        Plan { chunks, flows: streams.into_iter().map(flow).collect() }
    }
}

/// A stream with its lanes.
fn flow(path: Path, lanes: &Lanes, stream: Stream) -> Flow {
    let Stream { server: peer, nics, peer_nic, window, hash, chunks } = stream;
    let subflow = |nic| {
        let mut lanes = lanes.get(&(peer, nic, peer_nic)).cloned().unwrap_or_default();
        let balancer = match path {
            Path::Balanced(balancer) => {
                LoneBalancer::new(&balancer, lanes.len().max(1) as u16, hash ^ u64::from(nic))
            }
            // What a rule has dealt to a rail keeps to one connection.
            Path::Delegate | Path::Rails(_) => {
                lanes.truncate(1);
                LoneBalancer::single()
            }
        };
        SubFlow { nic, lanes, balancer }
    };
    Flow { peer, window, subflows: nics.into_iter().map(subflow).collect(), chunks }
}
