//! Paths around what has failed (MixNet, Section 5.4).
//!
//! Modelled: a server whose NIC on packet switches has failed sends by another of its NICs, over its
//! scale-up network ([`around`]). One that has none left, or never had any, is *stranded*: it sends over
//! a circuit to a peer that has some, and from there by the peer's NIC, and is reached likewise.
//! What was on a circuit that failed goes over another circuit of the two servers ([`beside`]), or over
//! packet switches. [`lifelines`] sees to it that every stranded server has a circuit to a peer.
//! Paths are as short as can be: one passage if both ends are on packet switches, or a circuit joins
//! them; else one more for each end that is stranded. Among equal paths `salt` picks, so that many flows
//! spread.
//! Ignored: load; paths over two stranded servers; which of two equal NICs is nearer.
//! Checked: every path is one of working NICs and standing circuits from end to end, and there is one
//! whenever a search finds one of that form; lifelines keep within the ports.

use crate::greedy::CircuitCounts;

/// From a NIC of one server to a NIC of another, `(server, NIC of the server)` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The sending NIC.
    pub from: (u32, u16),
    /// The receiving NIC.
    pub to: (u32, u16),
    /// Over a circuit that stands; otherwise over packet switches.
    pub circuit: bool,
}

/// What works, by server: all that a path is chosen from.
pub trait Working {
    /// NICs of a server on packet switches that work, by index in the server, rising.
    fn packet_nics(&self, server: u32) -> &[u16];

    /// Circuits that end at a server: its NIC, and the `(server, NIC)` at the other end.
    fn circuits(&self, server: u32) -> Vec<(u16, (u32, u16))>;
}

/// The path that would be taken if all worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The NIC of the source that sends.
    pub exit: u16,
    /// The NIC of the destination that receives.
    pub entry: u16,
    /// Both are on one rail: what replaces them had better be so too.
    pub rail: bool,
    /// Picks among equals.
    pub salt: u32,
}

/// The path from one server to another over what works; from one server to itself there is none.
///
/// `None` if there is no path of the form that [the module](self) describes.
///
/// ```
/// use lightloom_circuits::failover::*;
/// // Three servers with packet NICs 0 and 4; server 0 has lost both. A circuit joins NIC 1 of it to
/// // NIC 2 of server 1.
/// struct Now;
/// impl Working for Now {
///     fn packet_nics(&self, server: u32) -> &[u16] {
///         if server == 0 { &[] } else { &[0, 4] }
///     }
///     fn circuits(&self, server: u32) -> Vec<(u16, (u32, u16))> {
///         match server {
///             0 => vec![(1, (1, 2))],
///             1 => vec![(2, (0, 1))],
///             _ => vec![],
///         }
///     }
/// }
/// let wish = Wish { exit: 0, entry: 4, rail: false, salt: 0 };
/// let path = around(&Now, 0, 2, wish).unwrap();
/// let by_light = Passage { from: (0, 1), to: (1, 2), circuit: true };
/// assert_eq!(path, [by_light, Passage { from: (1, 0), to: (2, 4), circuit: false }]);
/// assert_eq!(around(&Now, 0, 1, wish), Some(vec![by_light]));
/// ```
pub fn around(working: &impl Working, from: u32, to: u32, wish: Wish) -> Option<Vec<Passage>> {
    let mut path = Vec::with_capacity(3);
    if from == to {
        return None;
    }
    let stranded = |server| working.packet_nics(server).is_empty();
    if (stranded(from) || stranded(to))
        && let Some(passage) = beside(working, from, to, wish.salt)
    {
        return Some(vec![passage]);
    }
    // By whom each end is on packet switches, and the circuit to there.
    let (out, into) = (reach(working, from, wish.salt), reach(working, to, wish.salt));
    let (out, into) = meeting(out, into, wish.salt)?;
    path.extend(out.1);
    if out.0 != into.0 {
        let own = (out.1.is_none(), into.1.is_none());
        path.push(packets(working, out.0, into.0, own, wish));
    }
    // A circuit is the same in both directions.
    path.extend(into.1.map(|Passage { from, to, .. }| Passage {
        from: to,
        to: from,
        circuit: true,
    }));
    Some(path)
}

/// A circuit from one server to another.
pub fn beside(working: &impl Working, from: u32, to: u32, salt: u32) -> Option<Passage> {
    let mut circuits = working.circuits(from);
    circuits.retain(|&(_, (server, _))| server == to);
    let &(nic, peer) = circuits.get(salt as usize % circuits.len().max(1))?;
    Some(Passage { from: (from, nic), to: peer, circuit: true })
}

/// Relays that are as good as each other, in the order in which they are to be tried: `salt` says with which it begins, so
/// that many flows spread.
///
/// ```
/// use lightloom_circuits::failover::in_turn;
/// assert_eq!(in_turn(vec!['a', 'b', 'c'], 4), ['b', 'c', 'a']);
/// assert_eq!(in_turn(Vec::<u32>::new(), 4), []);
/// ```
pub fn in_turn<T>(mut relays: Vec<T>, salt: u32) -> Vec<T> {
    let first = salt as usize % relays.len().max(1);
    relays.rotate_left(first);
    relays
}

type Reach = (u32, Option<Passage>);

/// The servers by which one is on packet switches: itself, or peers that a circuit leads to.
fn reach(working: &impl Working, server: u32, salt: u32) -> Vec<Reach> {
    if !working.packet_nics(server).is_empty() {
        return vec![(server, None)];
    }
    let mut circuits = working.circuits(server);
    circuits.retain(|&(_, (peer, _))| !working.packet_nics(peer).is_empty());
    let circuits = in_turn(circuits, salt);
    let passage = |(nic, to): (u16, (u32, u16))| {
        (to.0, Some(Passage { from: (server, nic), to, circuit: true }))
    };
    circuits.into_iter().map(passage).collect()
}

/// A server by which each end is reached; the same one for both if that can be.
fn meeting(out: Vec<Reach>, into: Vec<Reach>, salt: u32) -> Option<(Reach, Reach)> {
    let both = out.iter().filter_map(|a| Some((*a, *into.iter().find(|b| b.0 == a.0)?)));
    let both: Vec<_> = both.collect();
    if !both.is_empty() {
        return Some(both[salt as usize % both.len()]);
    }
    Some((*out.first()?, *into.first()?))
}

/// Over packet switches, by the NICs that were wished for where these work. `own` says at which ends
/// the wish was for this server.
fn packets(working: &impl Working, from: u32, to: u32, own: (bool, bool), wish: Wish) -> Passage {
    let (exits, entries) = (working.packet_nics(from), working.packet_nics(to));
    let exit = Some(wish.exit).filter(|nic| own.0 && exits.contains(nic));
    let entry = Some(wish.entry).filter(|nic| own.1 && entries.contains(nic));
    let pick = |nics: &[u16]| nics[wish.salt as usize % nics.len()];
    let common: Vec<u16> = exits.iter().filter(|nic| entries.contains(nic)).copied().collect();
    let (exit, entry) = match (exit, entry) {
        (Some(exit), Some(entry)) => (exit, entry),
        _ if wish.rail && !common.is_empty() => (pick(&common), pick(&common)),
        (exit, entry) => {
            (exit.unwrap_or_else(|| pick(exits)), entry.unwrap_or_else(|| pick(entries)))
        }
    };
    Passage { from: (from, exit), to: (to, entry), circuit: false }
}

/// A stranded server for which no circuit could be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutOff(
    /// Its index in the list of servers.
    pub usize,
);

/// Gives each server that is `stranded` at least one circuit to one that is not. Where no port is free,
/// the pair that has most circuits gives one up. `ports` says how many each server may use.
///
/// # Errors
/// The first server for which there is no port, or no peer.
///
/// # Panics
/// If the three are not of as many servers.
///
/// ```
/// use lightloom_circuits::{CircuitCounts, failover::lifelines};
/// let mut counts = CircuitCounts::dark(3);
/// counts.join(0, 1);
/// counts.join(0, 1);
/// lifelines(&mut counts, &[2, 2, 2], &[false, false, true]).unwrap();
/// assert_eq!((counts.get(0, 1), counts.get(0, 2)), (1, 1));
/// ```
pub fn lifelines(
    counts: &mut CircuitCounts,
    ports: &[u32],
    stranded: &[bool],
) -> Result<(), CutOff> {
    let n = counts.servers();
    assert_eq!((ports.len(), stranded.len()), (n, n), "servers");
    let healthy = |at: &usize| !stranded[*at];
    for server in (0..n).filter(|at| stranded[*at]) {
        if (0..n).filter(healthy).any(|peer| counts.get(server, peer) > 0) {
            continue;
        }
        // The peer with most ports free, then the one whose fullest pair is fullest.
        let peers = (0..n).filter(healthy).filter(|&peer| ports[peer] > 0);
        let mut peers: Vec<usize> = peers.collect();
        peers.sort_by_key(|&peer| {
            let fullest = (0..n).map(|other| counts.get(peer, other)).max().unwrap_or(0);
            std::cmp::Reverse((ports[peer].saturating_sub(counts.degree(peer)), fullest))
        });
        let joined = peers.into_iter().any(|peer| {
            let before = counts.clone();
            let free = make_room(counts, ports, stranded, server)
                && make_room(counts, ports, stranded, peer);
            match free {
                true => counts.join(server, peer),
                false => *counts = before,
            }
            free
        });
        if !joined {
            return Err(CutOff(server));
        }
    }
    Ok(())
}

/// Frees a port of a server, if none is free, at the cost of its fullest pair; never of a lifeline.
fn make_room(counts: &mut CircuitCounts, ports: &[u32], stranded: &[bool], server: usize) -> bool {
    if counts.degree(server) < ports[server] {
        return true;
    }
    let spare = |&other: &usize| {
        let circuits = counts.get(server, other);
        let lifeline = stranded[server] != stranded[other];
        let others = |a: usize, b: usize| {
            (0..counts.servers())
                .any(|peer| peer != b && !stranded[peer] && counts.get(a, peer) > 0)
        };
        let needed = match (lifeline, stranded[server]) {
            (false, _) => false,
            (true, true) => circuits == 1 && !others(server, other),
            (true, false) => circuits == 1 && !others(other, server),
        };
        circuits > 0 && !needed
    };
    let pairs = (0..counts.servers()).filter(spare);
    let Some(other) = pairs.max_by_key(|&other| (counts.get(server, other), usize::MAX - other))
    else {
        return false;
    };
    counts.set(server, other, counts.get(server, other) - 1);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::ServerDemand;
    use crate::greedy::allocate;
    use crate::ports::{PortMap, assign};
    use proptest::prelude::*;

    const N: usize = 5;

    /// Five servers with packet NICs 0 and 4; NIC `port + 1` is optical port `port`.
    #[derive(Debug)]
    struct Region {
        packet: Vec<Vec<u16>>,
        ports: PortMap,
    }

    impl Working for Region {
        fn packet_nics(&self, server: u32) -> &[u16] {
            &self.packet[server as usize]
        }
        fn circuits(&self, server: u32) -> Vec<(u16, (u32, u16))> {
            let ports = self.ports.ports(server as usize).iter().enumerate();
            let peer = |(port, peer): (usize, &Option<(u16, u16)>)| {
                let (to, at) = (*peer)?;
                Some((port as u16 + 1, (u32::from(to), at + 1)))
            };
            ports.filter_map(peer).collect()
        }
    }

    fn regions() -> impl Strategy<Value = Region> {
        let nics = prop_oneof![
            Just(vec![0u16, 4]),
            Just(vec![0]),
            Just(vec![4]),
            Just(vec![]),
            Just(vec![])
        ];
        let blocked = prop::collection::vec((0..N, 0usize..3), 0..8);
        let bytes = prop::collection::vec(0u64..1000, N * N);
        (prop::collection::vec(nics, N), blocked, bytes).prop_map(|(packet, blocked, bytes)| {
            let mut ports = PortMap::dark(N, 3);
            blocked.iter().for_each(|&(server, port)| ports.block(server, port));
            let counts = allocate(&ServerDemand { n: N, bytes }, &ports.usable(), true);
            Region { packet, ports: assign(&counts, &ports, &[0; 3]) }
        })
    }

    proptest! {
        #[test]
        fn paths_are_whole_and_found_if_there_are_any(
            region in regions(), from in 0..N as u32, step in 1..N as u32, exit in 0u16..5,
            (salt, rail) in (0u32..9, any::<bool>()),
        ) {
            let to = (from + step) % N as u32;
            let wish = Wish { exit, entry: 4 - exit, rail, salt };
            let on = |server: u32| !region.packet_nics(server).is_empty();
            let joins = |a: u32, b: u32| region.ports.between(a as usize, b as usize) > 0;
            let lands = |server: u32| on(server) || (0..N as u32).any(|p| on(p) && joins(server, p));
            let exists = joins(from, to) && !(on(from) && on(to)) || lands(from) && lands(to);
            let path = around(&region, from, to, wish);
            prop_assert_eq!(path.is_some(), exists, "{:?}", path);
            let mut at = from;
            for passage in path.iter().flatten() {
                prop_assert_eq!(passage.from.0, at);
                at = passage.to.0;
                if passage.circuit {
                    prop_assert!(region.circuits(passage.from.0).contains(&(passage.from.1, passage.to)));
                } else {
                    for (server, nic) in [passage.from, passage.to] {
                        prop_assert!(region.packet_nics(server).contains(&nic));
                    }
                    if region.packet_nics(from).contains(&exit) && !rail {
                        prop_assert_eq!(passage.from, (from, exit));
                    }
                }
            }
            if let Some(path) = path {
                prop_assert_eq!(at, to);
                let ends = usize::from(!on(from)) + usize::from(!on(to));
                prop_assert!(path.len() <= 1 + ends);
            }
        }

        #[test]
        fn lifelines_stay_within_the_ports(
            region in regions(), stranded in prop::collection::vec(any::<bool>(), N),
        ) {
            let (before, usable) = (region.ports.counts(), region.ports.usable());
            let mut counts = before.clone();
            let joined = lifelines(&mut counts, &usable, &stranded);
            for server in 0..N {
                prop_assert!(counts.degree(server) <= usable[server]);
                let has = (0..N).any(|peer| !stranded[peer] && counts.get(server, peer) > 0);
                if stranded[server] && joined.is_ok() {
                    prop_assert!(has);
                }
            }
            let able = |s: usize| usable[s] > 0;
            let peers: u32 = (0..N).filter(|&s| !stranded[s]).map(|s| usable[s]).sum();
            let needy = (0..N).filter(|&s| stranded[s]);
            if needy.clone().all(able) && peers >= needy.count() as u32 {
                prop_assert_eq!(joined, Ok(()));
            }
            if !stranded.contains(&true) {
                prop_assert_eq!(counts, before);
            }
        }
    }

    #[test]
    fn a_rail_is_left_for_another_at_both_ends() {
        let region = Region {
            packet: vec![vec![1, 2], vec![0, 2], vec![], vec![], vec![]],
            ports: PortMap::dark(N, 3),
        };
        let wish = Wish { exit: 0, entry: 0, rail: true, salt: 7 };
        let path = around(&region, 0, 1, wish).expect("rail 2 is whole");
        assert_eq!(path, [Passage { from: (0, 2), to: (1, 2), circuit: false }]);
        let plain = around(&region, 0, 1, Wish { rail: false, ..wish }).expect("a path");
        assert_eq!(plain[0].to, (1, 0)); // only the end that failed changes
    }
}
