//! Which servers are near each other, and where jobs go: side by side, spread, or apart.
//!
//! Modelled: packet switches up to a tier join servers to groups: under one leaf, in one pod. The last
//! tier joins all. *Packed*: the first servers that are free. *Spread*: over the lowest groups of several
//! servers in turn, so that neighbouring ranks sit under different switches, as where a scheduler evens
//! out leaves. *Apart*: each job in groups of its own, of the highest tier that has enough of them; jobs
//! then share no link to or from a switch up to that tier.
//! Ignored: which jobs send more; jobs that are there already.
//! Checked: by hand on leaves, pods and rails; random jobs get what they need, and never the same server.

use lightloom_fabric::{Fabric, NicId, NodeKind, ServerId};

/// Groups of servers.
pub(super) struct Leaves {
    servers: u32,
    /// By tier, from the servers up, that does not join all: each server's group, numbered from 0 in the
    /// order of servers.
    tiers: Vec<Vec<u32>>,
}

/// How many servers a job needs, and how many in a row at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub servers: u32,
    pub unit: u32,
}

/// Where jobs are apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Apart {
    /// By job.
    pub servers: Vec<Vec<u32>>,
    /// Groups of that tier.
    pub groups: u32,
}

impl Leaves {
    pub fn of(fabric: &Fabric) -> Self {
        let cluster = fabric.cluster();
        let mut joined = Joined::new(fabric.nodes().len());
        let server = |server: ServerId| fabric.nic_node(cluster.nic(server, 0)).index();
        // A server's NICs are as one node.
        for nic in (0..cluster.nics()).map(NicId) {
            joined.join(fabric.nic_node(nic).index(), server(cluster.server_of_nic(nic)));
        }
        let tier = |node: usize| match fabric.nodes()[node].kind {
            NodeKind::Switch { tier } => Some(tier),
            _ => None,
        };
        let nodes = 0..fabric.nodes().len();
        let mut all: Vec<u8> = nodes.filter_map(tier).collect();
        all.sort_unstable();
        all.dedup();
        let mut tiers = Vec::new();
        for highest in all {
            for link in fabric.links() {
                let (a, b) = (link.from.index(), link.to.index());
                let low = |node: usize| {
                    let nic = fabric.nodes()[node].kind == NodeKind::Nic;
                    nic || tier(node).is_some_and(|tier| tier <= highest)
                };
                if low(a) && low(b) && tier(a).or(tier(b)).is_some() {
                    joined.join(a, b);
                }
            }
            let roots = fabric.servers().map(|at| joined.root(server(at))).collect::<Vec<_>>();
            let mut known: Vec<usize> = Vec::new();
            let group = |root: &usize| match known.iter().position(|other| other == root) {
                Some(group) => group as u32,
                None => {
                    known.push(*root);
                    known.len() as u32 - 1
                }
            };
            let groups: Vec<u32> = roots.iter().map(group).collect();
            if known.len() > 1 {
                tiers.push(groups);
            }
        }
        Leaves { servers: cluster.servers(), tiers }
    }

    /// The lowest groups of several servers: each server's.
    fn lowest(&self) -> Option<&[u32]> {
        let several = |groups: &&Vec<u32>| groups.iter().max() < Some(&(self.servers - 1));
        self.tiers.iter().find(several).map(Vec::as_slice)
    }

    /// The first servers that are free; fewer if there are not enough.
    pub fn packed(&self, need: Need, free: &[bool]) -> Vec<u32> {
        take(units(need.unit, free).into_iter(), need)
    }

    /// Servers of one group after the other, in turn.
    pub fn spread(&self, need: Need, free: &[bool]) -> Vec<u32> {
        let Some(groups) = self.lowest() else { return self.packed(need, free) };
        let count = groups.iter().max().map_or(0, |last| last + 1) as usize;
        let mut queues: Vec<Vec<u32>> = vec![vec![]; count];
        for first in units(need.unit, free) {
            queues[groups[first as usize] as usize].push(first);
        }
        let longest = queues.iter().map(Vec::len).max().unwrap_or(0);
        let turns =
            (0..longest).flat_map(|at| queues.iter().filter_map(move |q| q.get(at).copied()));
        take(turns, need)
    }

    /// Each job in groups of its own, of the highest tier where that can be.
    pub fn apart(&self, needs: &[Need]) -> Option<Apart> {
        let of_tier = |groups: &Vec<u32>| {
            let servers = self.in_own_groups(groups, needs)?;
            Some(Apart { servers, groups: groups.iter().max()? + 1 })
        };
        self.tiers.iter().rev().find_map(of_tier)
    }

    /// The largest job first: in the first free group that has room, else in as many in a row as it takes.
    fn in_own_groups(&self, groups: &[u32], needs: &[Need]) -> Option<Vec<Vec<u32>>> {
        let count = groups.iter().max()? + 1;
        let mut taken = vec![false; count as usize];
        let mut found = vec![vec![]; needs.len()];
        let mut order: Vec<usize> = (0..needs.len()).collect();
        order.sort_by_key(|&job| std::cmp::Reverse(needs[job].servers));
        for job in order {
            let need = needs[job];
            let within = |own: &[u32]| {
                let free: Vec<bool> = groups.iter().map(|group| own.contains(group)).collect();
                self.packed(need, &free)
            };
            let enough = |servers: &Vec<u32>| servers.len() as u32 == need.servers;
            let free: Vec<u32> = (0..count).filter(|&group| !taken[group as usize]).collect();
            let one = free.iter().map(|&group| vec![group]).find(|own| enough(&within(own)));
            let several =
                || (2..=free.len()).map(|n| free[..n].to_vec()).find(|own| enough(&within(own)));
            let own = one.or_else(several)?;
            found[job] = within(&own);
            own.iter().for_each(|&group| taken[group as usize] = true);
        }
        Some(found)
    }
}

/// The first of each run of so many servers, from a multiple of that on, that are all free.
fn units(unit: u32, free: &[bool]) -> Vec<u32> {
    let runs = free.chunks_exact(unit as usize).zip((0..).step_by(unit as usize));
    runs.filter(|(run, _)| run.iter().all(|&free| free)).map(|(_, first)| first).collect()
}

/// Servers of units until there are enough.
fn take(units: impl Iterator<Item = u32>, need: Need) -> Vec<u32> {
    let servers = units.flat_map(|first| first..first + need.unit);
    servers.take(need.servers as usize).collect()
}

/// Sets of nodes that were joined.
struct Joined(Vec<usize>);

impl Joined {
    fn new(nodes: usize) -> Self {
        Joined((0..nodes).collect())
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.0[node] != node {
            self.0[node] = self.0[self.0[node]];
            node = self.0[node];
        }
        node
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a] = b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_fabric::{ClosSpec, Cluster, FabricSpec, FatTree, RailOptimized, build};
    use lightloom_units::{BitRate, Time};
    use proptest::prelude::*;

    fn clos(tiers: u8, radix: u32) -> ClosSpec {
        let spec = ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1));
        ClosSpec { tiers, radix: Some(radix), ..spec }
    }

    fn leaves(servers: u32, spec: FabricSpec) -> Leaves {
        Leaves::of(&build(&Cluster::of(2 * servers, 2), &spec, 1, &[]).expect("it fits"))
    }

    fn need(servers: u32) -> Need {
        Need { servers, unit: 1 }
    }

    #[test]
    fn tiers_join_servers() {
        // Leaves of four NICs, two servers each.
        let two = leaves(8, FatTree(clos(2, 8)).into());
        assert_eq!(two.tiers, [[0, 0, 1, 1, 2, 2, 3, 3]]);
        // Pods of two such ToRs.
        let three = leaves(8, FatTree(clos(3, 4)).into());
        assert_eq!(three.tiers, [[0, 1, 2, 3, 4, 5, 6, 7], [0, 0, 1, 1, 2, 2, 3, 3]]);
        assert_eq!(three.lowest(), Some(&[0, 0, 1, 1, 2, 2, 3, 3][..]));
        // Two rails of four servers each.
        let rails = leaves(8, RailOptimized(clos(2, 8)).into());
        assert_eq!(rails.tiers, [[0, 0, 0, 0, 1, 1, 1, 1]]);
        // One switch joins all.
        assert!(leaves(2, FatTree(clos(2, 8)).into()).tiers.is_empty());
    }

    #[test]
    fn jobs_go_side_by_side_or_in_turn_or_apart() {
        let leaves = leaves(8, FatTree(clos(2, 8)).into());
        let free = [true, false, true, true, true, true, true, true];
        assert_eq!(leaves.packed(need(3), &free), [0, 2, 3]);
        assert_eq!(leaves.spread(need(5), &free), [0, 2, 4, 6, 3]);
        assert_eq!(leaves.spread(Need { servers: 4, unit: 2 }, &free), [2, 3, 4, 5]);
        let apart = leaves.apart(&[need(1), need(3), need(2)]).expect("four leaves");
        assert_eq!(apart.servers, [vec![6], vec![0, 1, 2], vec![4, 5]]);
        assert_eq!(leaves.apart(&[need(3), need(3), need(1)]), None);
    }

    /// Whether a job has whole units on servers that were free, as many as it needs or all that fit.
    fn has(need: Need, servers: &[u32], free: &mut [bool]) -> bool {
        let whole = |run: &[u32]| {
            run[0] % need.unit == 0 && (run[0]..).zip(run).all(|(at, &server)| at == server)
        };
        let free = servers.iter().all(|&at| std::mem::replace(&mut free[at as usize], false));
        free && servers.chunks(need.unit as usize).all(whole)
            && servers.len() <= need.servers as usize
    }

    proptest! {
        #[test]
        fn every_job_gets_its_servers_and_no_other(
            needs in prop::collection::vec((1u32..5, 1u32..4, any::<bool>()), 1..5),
        ) {
            let leaves = leaves(24, FatTree(clos(3, 8)).into());
            let mut free = [true; 24];
            for &(units, unit, spread) in &needs {
                let (need, before) = (Need { servers: units * unit, unit }, free);
                let servers = match spread {
                    true => leaves.spread(need, &before),
                    false => leaves.packed(need, &before),
                };
                prop_assert!(has(need, &servers, &mut free));
                let all = super::units(unit, &before).len() as u32;
                prop_assert_eq!(servers.len() as u32, need.servers.min(all * unit));
            }
            let needs: Vec<Need> =
                needs.iter().map(|&(n, unit, _)| Need { servers: n * unit, unit }).collect();
            let Some(apart) = leaves.apart(&needs) else { return Ok(()) };
            let (mut free, groups) = ([true; 24], &leaves.tiers[0]);
            let mut seen: Vec<u32> = Vec::new();
            for (&need, servers) in needs.iter().zip(&apart.servers) {
                prop_assert!(has(need, servers, &mut free));
                prop_assert_eq!(servers.len() as u32, need.servers);
                let mut own: Vec<u32> = servers.iter().map(|&at| groups[at as usize]).collect();
                own.dedup();
                prop_assert!(own.iter().all(|group| !seen.contains(group)));
                seen.extend(own);
            }
        }
    }
}
