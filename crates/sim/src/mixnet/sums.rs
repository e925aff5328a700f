//! Sums of gradients over circuits, and when these change: see [`super::rings`].

use super::Optical;
use super::ring::Ring;
use crate::medium::form::{Pair, State};
use lightloom_circuits::PortMap;
use lightloom_engine::{Orders, Patches};
use lightloom_units::Time;
use lightloom_workload::{BlockId, Comm};

impl Optical<'_> {
    /// An all-to-all has ended. If it was the last of its iteration: circuits for sums, if any are left.
    /// `false` if nothing changes.
    pub(super) fn before_sums(&mut self, region: usize, now: Time, patches: &mut Patches) -> bool {
        let began_last = self.regions[region].next.checked_sub(1);
        let last = began_last.is_some_and(|at| self.ends_iteration(region, at));
        let ring = self.rings.regions.get_mut(region).filter(|_| last);
        let Some(Some(Ring::Turns(turns))) = ring else { return false };
        if turns.ended == turns.sums {
            // All of them ended beside all-to-alls.
            turns.ended = 0;
            return false;
        }
        turns.home = Some(self.regions[region].ports.counts());
        let (counts, demand) = (turns.counts.clone(), turns.demand.clone());
        self.turn_to(region, (&counts, &demand), now, patches);
        true
    }

    /// A transfer has ended: after the last sum of an iteration circuits are what they were.
    pub(super) fn sum_ends(&mut self, task: u32, now: Time, patches: &mut Patches) {
        let Some(&Comm::AllReduce { stage, .. }) = self.graph.communication(task) else { return };
        let region = self.region(BlockId { replica: 0, stage });
        let ring = self.rings.regions.get_mut(region);
        let Some(Some(Ring::Turns(turns))) = ring else { return };
        turns.ended += 1;
        if turns.ended < turns.sums {
            return;
        }
        if let Some(home) = turns.home.take() {
            turns.ended = 0;
            let demand = turns.demand.clone();
            self.turn_to(region, (&home, &demand), now, patches);
        }
    }

    /// A run's first all-to-all of a region: circuits that changed back when the iteration before ended may
    /// still be dark.
    pub(super) fn after_sums(&self, region: usize, now: Time, patches: &mut Patches) {
        let Some(Some(Ring::Turns(turns))) = self.rings.regions.get(region) else { return };
        let left = turns.dark_until.saturating_sub(now);
        if self.regions[region].next > 0 || left <= patches.delay {
            return;
        }
        patches.delay = left;
        patches.patches.clear();
        let ports = &self.regions[region].ports;
        let dark = PortMap::dark(ports.servers(), ports.degree());
        self.patches(region, &dark, ports, &mut patches.patches);
    }

    /// The region whose circuits carry a stage's sums now.
    pub(super) fn ring_of(&self, stage: u32) -> Option<usize> {
        let region = self.region(BlockId { replica: 0, stage });
        let ring = self.rings.regions.get(region)?.as_ref()?;
        ring.stands().then_some(region)
    }

    /// The region whose circuits stay as they are, if all of these groups are in it and one spans servers.
    pub(super) fn ring_under(&self, groups: &[Vec<u32>]) -> Option<usize> {
        let server = |gpu: &u32| gpu / self.fabric.cluster().gpus_per_server;
        let spans = |group: &Vec<u32>| group.iter().any(|gpu| server(gpu) != server(&group[0]));
        if !groups.iter().any(spans) {
            return None;
        }
        let region = self.region_at(server(groups.first()?.first()?))?;
        let stays = matches!(self.rings.regions.get(region), Some(Some(Ring::Stays)));
        let inside = |gpu: &u32| self.index(region, server(gpu)).is_some();
        (stays && groups.iter().flatten().all(inside)).then_some(region)
    }

    /// Hops of rings in a region, each for all of its steps.
    pub(super) fn send_around(
        &mut self,
        region: usize,
        pairs: &[Pair],
        steps: u32,
        (state, key): (&State<'_>, u64),
        orders: &mut Orders,
    ) -> Result<(), String> {
        let number =
            |&(from, to, bytes): &Pair| (self.number(region, from), self.number(region, to), bytes);
        let numbers: Vec<Pair> = pairs.iter().map(number).collect();
        let per_server = self.fabric.cluster().gpus_per_server;
        let ports = &self.regions[region].ports;
        let joined = |&&(from, to, _): &&Pair| {
            let [a, b] = [from, to].map(|number| (number / per_server) as usize);
            a != b && ports.between(a, b) > 0
        };
        let sent: u64 = numbers.iter().filter(joined).map(|pair| pair.2).sum();
        self.rings.sent_bytes += sent;
        self.delegated(region, &numbers, (state, key), orders)?;
        let delay = self.spec.ocs.link_delay_ps * 2;
        orders.end_phase(delay * u64::from(steps.saturating_sub(1)));
        Ok(())
    }
}
