//! The chunks of flows leave as there is room, and flows are looked at before they are taken.

use super::failure::PostError;
use super::flow::Flow;
use super::lane::{ChunkItem, Item};
use super::machine::Exchange;
use super::name::{LaneId, OperationId};
use super::plan::Chunk;

impl Exchange {
    /// The chunks of a flow that may leave now go to their lanes.
    pub(crate) fn flow_on(&mut self, id: OperationId, flow: usize) {
        let now = self.now;
        loop {
            let Some(running) = self.operations.get_mut(id.0) else { return };
            let Some((index, lane)) = running.flows.next(flow, &running.chunks, now) else {
                return;
            };
            let chunk = &mut running.chunks[index as usize];
            chunk.lane = lane;
            let (endpoint, length) = (chunk.peer, chunk.length);
            let Some(peer) = self.peer(endpoint) else { return };
            self.route(peer, Item::Chunk(ChunkItem { operation: id, index, length }));
        }
    }

    /// Whether flows fit the plan.
    pub(crate) fn check_flows(&self, plan: &[Chunk], flows: &[Flow]) -> Result<(), PostError> {
        let mut taken = vec![flows.is_empty(); plan.len()];
        for Flow { peer, subflows, chunks, .. } in flows {
            let wrong = |lane| PostError::Lane { endpoint: *peer, lane };
            let fits = |lane: &LaneId| {
                self.lanes.get(lane.at()).is_some_and(|lane| lane.spec.peer == *peer)
            };
            let lanes = || subflows.iter().flat_map(|it| &it.lanes);
            if let Some(&lane) = lanes().find(|lane| !fits(lane)) {
                return Err(wrong(lane));
            }
            if subflows.is_empty() || subflows.iter().any(|it| it.lanes.is_empty()) {
                return Err(PostError::Flow { endpoint: *peer });
            }
            for &chunk in chunks {
                let theirs = plan.get(chunk as usize).is_some_and(|chunk| chunk.peer == *peer);
                if !theirs || std::mem::replace(&mut taken[chunk as usize], true) {
                    return Err(PostError::Flow { endpoint: *peer });
                }
            }
        }
        Ok(())
    }
}
