//! Joins parts of a topology that no circuits connect.
//!
//! Rings and matchings go where the bytes are, and may leave pipeline stages, say, with no circuit
//! between them. One would connect them, and carry all they exchange. So two parts get as many
//! circuits as their share of all bytes is of all circuits. Each pair of servers
//! across is chosen in proportion to its bytes; a server without a free port gives
//! up a circuit that it can spare, and where both do so, the two they left are joined as well.

use super::topology::{Purpose, Topology};
use std::collections::BTreeMap;

type Demand = BTreeMap<(u32, u32), u64>;

/// Connects all servers; returns how many circuits that took, or `None` if their ports do not
/// suffice. Two ports a server always do.
pub(super) fn connect(topology: &mut Topology, demand: &Demand) -> Option<u32> {
    let all: u128 = demand.values().map(|&bytes| u128::from(bytes)).sum();
    let mut crossings = 0;
    loop {
        let part = topology.components();
        let Some(other) = part.iter().copied().find(|&p| p != part[0]) else {
            return Some(crossings);
        };
        let across = |&(&(a, b), _): &(&(u32, u32), &u64)| part[a as usize] != part[b as usize];
        let mut between: BTreeMap<(u32, u32), u128> = BTreeMap::new();
        for (&(a, b), &bytes) in demand.iter().filter(across) {
            let (x, y) = (part[a as usize], part[b as usize]);
            *between.entry((x.min(y), x.max(y))).or_default() += u128::from(bytes);
        }
        // Most bytes first; of equals the first.
        let most = between.iter().rev().max_by_key(|(_, bytes)| **bytes);
        let ((x, y), bytes) = most.map_or(((part[0], other), 0), |(&pair, &bytes)| (pair, bytes));
        let pairs: Vec<(u32, u32, u64)> = demand
            .iter()
            .map(
                |(&(a, b), &bytes)| {
                    if part[a as usize] == x { (a, b, bytes) } else { (b, a, bytes) }
                },
            )
            .filter(|&(a, b, _)| part[a as usize] == x && part[b as usize] == y)
            .collect();
        let worth = (bytes * u128::from(topology.total)).div_ceil(all.max(1));
        let worth = u32::try_from(worth).unwrap_or(u32::MAX).max(1);
        // Each exchange of circuits makes two.
        let made: u32 = sample(&pairs, bytes, worth.div_ceil(2))
            .map(|(a, b)| cross(topology, a, b, Purpose::Matching, demand))
            .sum();
        crossings += match made {
            0 => anywhere(topology, &part, (x, y), demand)?,
            _ => made,
        };
    }
}

/// `count` of the pairs, evenly spaced along their bytes laid end to end.
fn sample(pairs: &[(u32, u32, u64)], bytes: u128, count: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut at = 0;
    let mut end = pairs.first().map_or(0, |pair| u128::from(pair.2));
    let count = if bytes == 0 { 0 } else { u128::from(count) };
    (0..count).map(move |k| {
        let point = (2 * k + 1) * bytes / (2 * count);
        while point >= end && at + 1 < pairs.len() {
            at += 1;
            end += u128::from(pairs[at].2);
        }
        (pairs[at].0, pairs[at].1)
    })
}

/// Joins `a` and `c`, and the two whose circuits they gave up for it; returns how many circuits.
fn cross(topology: &mut Topology, a: u32, c: u32, limit: Purpose, demand: &Demand) -> u32 {
    let Some(b) = make_room(topology, a, limit, demand) else {
        return 0;
    };
    let Some(d) = make_room(topology, c, limit, demand) else {
        if let Some((b, purpose)) = b {
            topology.join(a, b, purpose);
        }
        return 0;
    };
    topology.join(a, c, Purpose::Crossing);
    if let (Some((b, _)), Some((d, _))) = (b, d) {
        topology.join(b, d, Purpose::Crossing);
        return 2;
    }
    1
}

/// Frees a port of `server`, if none is free: `Some(None)` if one was, and the neighbour and purpose
/// of the circuit it gave up if not.
fn make_room(
    topology: &mut Topology,
    server: u32,
    limit: Purpose,
    demand: &Demand,
) -> Option<Option<(u32, Purpose)>> {
    if topology.free(server) > 0 {
        return Some(None);
    }
    let neighbour = topology.spare(server, limit, demand)?;
    let purpose = topology.part(server, neighbour)?;
    Some(Some((neighbour, purpose)))
}

/// Joins two parts wherever each can spare a port most cheaply.
fn anywhere(
    topology: &mut Topology,
    part: &[u32],
    (x, y): (u32, u32),
    demand: &Demand,
) -> Option<u32> {
    let able = |wanted: u32| {
        let servers = (0..part.len() as u32).filter(|&s| part[s as usize] == wanted);
        let can = |&s: &u32| {
            topology.free(s) > 0 || topology.spare(s, Purpose::Crossing, demand).is_some()
        };
        servers.clone().find(|&s| topology.free(s) > 0).or_else(|| servers.clone().find(can))
    };
    let (a, c) = (able(x)?, able(y)?);
    Some(cross(topology, a, c, Purpose::Crossing, demand))
}
