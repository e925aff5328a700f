//! Switches that choose what is left of a packet's path (`balancer/adaptive.rs`).
//!
//! A switch looks at its ports to the equal ways of a packet, and takes the one on which it would begin
//! to be sent first: what is being sent, and what waits. Of several alike a hash takes one. Only data is
//! steered; answers go back by the way that their packets came.
//! Ignored: how full queues are elsewhere. Paths of more than ten links go as their sender chose them, and so do
//! all packets once something has broken, for senders know which paths are whole.

use crate::common::Common;
use crate::link::Origin;
use crate::shard::Shard;
use lightloom_fabric::{LinkId, NicId, NodeId};
use lightloom_units::mix;

impl Shard<'_> {
    /// A packet is at a switch: what is left of its path becomes the way on which it waits least.
    pub(crate) fn steer(&mut self, c: &Common<'_>, id: u32, now: u64) {
        let packet = &self.pool.packets[id as usize];
        let (hop, at) = (packet.hop, packet.link(packet.hop, c.long));
        if packet.is_control() || !packet.carries_path() || c.circuits.ever_broke() {
            return;
        }
        if self.links[c.at(at) as usize].origin != Origin::Switch {
            return;
        }
        let Some((ends, last)) = ends(c, &self.pool.packets[id as usize]) else { return };
        let here = c.fabric.link(LinkId(at)).from;
        let there = c.fabric.link(LinkId(packet.link(last, c.long))).from;
        let draw =
            mix(c.seed ^ u64::from(packet.life) << 32 ^ u64::from(packet.seq)) ^ here.0 as u64;
        let ways = self.ways.entry((here, there)).or_insert_with(|| ways(c, ends, here, there));
        if ways.len() < 2 {
            return;
        }
        let links = &self.links;
        let wait = |way: &Vec<u32>| {
            let link = &links[c.at(way[0]) as usize];
            let waits = c.classes[link.class as usize].time_for(link.queued);
            (link.free_at.saturating_sub(now) + waits, u64::from(link.paused))
        };
        let least = ways.iter().map(&wait).min().expect("two or more");
        let alike = ways.iter().filter(|way| wait(way) == least).count() as u64;
        let turn = ((u128::from(mix(draw)) * u128::from(alike)) >> 64) as usize;
        let way = ways.iter().filter(|way| wait(way) == least).nth(turn).expect("one of them");
        let packet = &mut self.pool.packets[id as usize];
        for (place, &link) in (hop..).zip(way) {
            packet.set_link(place, link);
        }
    }
}

/// The NICs that a packet's path leads from and to, and its last link: that into the second one.
fn ends(c: &Common<'_>, packet: &crate::packet::Packet) -> Option<((NicId, NicId), u16)> {
    let first = c.fabric.nic_node(NicId(0)).0;
    let nics = c.fabric.cluster().nics();
    let nic = |node: NodeId| node.0.checked_sub(first).filter(|&nic| nic < nics).map(NicId);
    let source = (0..packet.hop)
        .rev()
        .find_map(|hop| nic(c.fabric.link(LinkId(packet.link(hop, c.long))).from))?;
    let (last, destination) = (packet.hop..packet.hops)
        .find_map(|hop| Some((hop, nic(c.fabric.link(LinkId(packet.link(hop, c.long))).to)?)))?;
    Some(((source, destination), last))
}

/// The equal ways from a switch to the last one, by which the paths between two NICs lead.
fn ways(
    c: &Common<'_>,
    (source, destination): (NicId, NicId),
    here: NodeId,
    there: NodeId,
) -> Vec<Vec<u32>> {
    let (mut found, mut path): (Vec<Vec<u32>>, _) = (Vec::new(), Vec::new());
    for index in 0..c.fabric.nic_paths(source, destination) {
        path.clear();
        c.fabric.nic_path(source, destination, index, &mut path);
        let from = |node| path.iter().position(|&link| c.fabric.link(link).from == node);
        let (Some(start), Some(end)) = (from(here), from(there)) else { continue };
        if start < end && found.iter().all(|way| way[0] != path[start].0) {
            found.push(path[start..end].iter().map(|link| link.0).collect());
        }
    }
    found
}
