//! Blocks that lie alike: what is soonest for one of them is soonest for the other, of the same demand.
//!
//! They do if their ranks sit on servers in the same way, and paths between these share links in the same
//! way, which are as fast and as far. So links are numbered as paths come to them. Blocks whose paths
//! a hash picks are not compared, nor very large ones, nor any where something may fail.

use crate::medium::form::State;
use lightloom_fabric::{Fabric, GpuId, LinkId, NicId};
use lightloom_workload::BlockId;
use std::collections::HashMap;

/// NICs of a block that is compared, at most: paths are looked at once for each two of them.
const MOST: usize = 256;

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// As others with this number do.
    Like(u32),
    /// Not known to lie as any other does.
    Own(BlockId),
}

/// How the blocks of a run lie.
#[derive(Debug, Default)]
pub(crate) struct Alike {
    places: HashMap<BlockId, Place>,
    pictures: HashMap<Vec<u64>, u32>,
}

/// What does not depend on which servers, switches and links it is, but on how they are joined.
struct Picture<'a> {
    fabric: &'a Fabric,
    numbers: HashMap<LinkId, u64>,
    drawn: Vec<u64>,
}

impl Alike {
    /// Where a block lies, whose ranks are on `servers`.
    pub fn place(&mut self, state: &State<'_>, block: BlockId, servers: &[u32]) -> Place {
        if state.health.matters() {
            return Place::Own(block);
        }
        let Alike { places, pictures } = self;
        let ranks = || state.demand.placement.block_gpus(block);
        let gpus = || ranks().map(|rank| state.demand.moved.gpu_of(rank));
        *places.entry(block).or_insert_with(|| match picture(state.fabric, gpus(), servers) {
            Some(picture) => {
                let next = pictures.len() as u32;
                Place::Like(*pictures.entry(picture).or_insert(next))
            }
            None => Place::Own(block),
        })
    }
}

/// How ranks on some GPUs, by rank, lie on `servers`, in rising order; none if that is not looked at.
fn picture(fabric: &Fabric, ranks: impl Iterator<Item = u32>, servers: &[u32]) -> Option<Vec<u64>> {
    let cluster = fabric.cluster();
    let (gpus, nics) = (cluster.gpus_per_server, cluster.nics_per_server);
    if servers.len() * nics as usize > MOST || gpus as usize > MOST || cluster.host.is_some() {
        return None;
    }
    let mut picture = Picture { fabric, numbers: HashMap::new(), drawn: vec![] };
    for gpu in ranks {
        let server = servers.binary_search(&(gpu / gpus)).ok()?;
        picture.drawn.extend([server as u64, u64::from(gpu % gpus)]);
    }
    let mut path = vec![];
    for &server in servers {
        let all = server * gpus..(server + 1) * gpus;
        for from in all.clone() {
            for to in all.clone().filter(|&to| to != from) {
                path.clear();
                fabric.scale_up_path(GpuId(from), GpuId(to), &mut path);
                picture.draw(&path);
            }
        }
    }
    let each = || servers.iter().flat_map(|&server| server * nics..(server + 1) * nics).map(NicId);
    for from in each() {
        for to in each().filter(|&to| to != from) {
            if fabric.nic_paths(from, to) != 1 {
                return None;
            }
            path.clear();
            fabric.nic_route(from, to, 0, &mut path).ok()?;
            picture.draw(&path);
        }
    }
    Some(picture.drawn)
}

impl Picture<'_> {
    fn draw(&mut self, path: &[LinkId]) {
        self.drawn.push(path.len() as u64);
        for &link in path {
            let next = self.numbers.len() as u64;
            let number = *self.numbers.entry(link).or_insert(next);
            self.drawn.push(number);
            if number == next {
                let found = self.fabric.link(link);
                let binds = !self.fabric.never_binds(link);
                self.drawn.extend([found.rate.bps(), found.delay.ps(), u64::from(binds)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_fabric::{ClosSpec, Cluster, FatTree, RailOptimized, Splitting, build};
    use lightloom_units::{BitRate, Time};

    /// The pictures of blocks of two servers of four GPUs, one after the other, on 64 GPUs; switches have
    /// eight ports.
    fn pictures(change: impl FnOnce(&mut ClosSpec), rails: bool) -> Vec<Option<Vec<u64>>> {
        let mut spec = ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1));
        spec.radix = Some(8);
        change(&mut spec);
        let spec = if rails { RailOptimized(spec).into() } else { FatTree(spec).into() };
        let fabric = build(&Cluster::of(64, 4), &spec, 1, &[]).unwrap();
        (0..8)
            .map(|block| picture(&fabric, 8 * block..8 * (block + 1), &[2 * block, 2 * block + 1]))
            .collect()
    }

    #[test]
    fn blocks_on_switches_of_a_pod_lie_alike() {
        let all = pictures(|spec| spec.oversubscription = 2.0, false);
        assert!(all[0].is_some() && all.iter().all(|other| other == &all[0]));
    }

    #[test]
    fn blocks_that_share_other_switches_do_not() {
        // Switches of five hosts: a server may be on two of them.
        let all = pictures(|spec| spec.radix = Some(10), false);
        assert!(all[0].is_some() && all[0] != all[1]);
    }

    #[test]
    fn ranks_in_another_order_do_not() {
        let spec = ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1));
        let fabric = build(&Cluster::of(16, 4), &FatTree(spec).into(), 1, &[]).unwrap();
        let forwards = picture(&fabric, 0..8, &[0, 1]);
        assert!(forwards.is_some() && forwards != picture(&fabric, (0..8).rev(), &[0, 1]));
        assert_ne!(forwards, picture(&fabric, 0..7, &[0, 1]));
    }

    #[test]
    fn a_slower_nic_makes_another_picture() {
        let spec = ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1));
        let fabric = build(&Cluster::of(16, 4), &FatTree(spec).into(), 1, &[]).unwrap();
        let even = picture(&fabric, 0..8, &[0, 1]);
        let slowed = fabric.with_nic_rate(NicId(3), BitRate::from_gbps(100));
        assert!(even.is_some() && even != picture(&slowed, 0..8, &[0, 1]));
        assert_eq!(even, picture(&slowed, 8..16, &[2, 3]), "it is not on these servers");
    }

    #[test]
    fn paths_that_a_hash_picks_are_not_compared() {
        let ecmp = |spec: &mut ClosSpec| spec.splitting = Splitting::Ecmp;
        assert!(pictures(ecmp, false).iter().any(Option::is_none));
        assert!(pictures(|_| (), true).iter().all(Option::is_some));
    }
}
