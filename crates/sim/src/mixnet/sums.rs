//! Sums of gradients over circuits, and when these change: see [`super::rings`].

use super::Optical;
use super::ring::both_ways;
use crate::medium::form::{Medium, Pair, State, Sum, Turn};
use lightloom_circuits::PortMap;
use lightloom_engine::{Orders, Patches};
use lightloom_units::Time;
use lightloom_workload::{BlockId, Comm};

impl Optical<'_> {
    /// Whether the all-to-all that began last is the last of its iteration.
    pub(super) fn is_last(&self, region: usize) -> bool {
        let rings = self.rings.regions.get(region).is_some_and(Option::is_some);
        let last = self.regions[region].next.checked_sub(1);
        rings && last.is_some_and(|at| self.ends_iteration(region, at))
    }

    /// The last all-to-all of an iteration has ended: circuits for sums, if any are left. `false` if nothing
    /// changes.
    pub(super) fn before_sums(&mut self, region: usize, now: Time, patches: &mut Patches) -> bool {
        let home = self.regions[region].ports.counts();
        let Some(ring) = self.rings.regions[region].as_mut() else { return false };
        if ring.ended == ring.sums {
            // All of them ended beside all-to-alls.
            ring.ended = 0;
            return false;
        }
        if ring.stands {
            return false;
        }
        (ring.stands, ring.home) = (true, Some(home));
        let (counts, demand) = (ring.counts.clone(), ring.demand.clone());
        self.turn_to(region, (&counts, &demand), now, patches);
        true
    }

    /// A transfer has ended: after the last sum of an iteration circuits are what they were.
    pub(super) fn sum_ends(&mut self, task: u32, now: Time, patches: &mut Patches) {
        let Some(&Comm::AllReduce { stage, .. }) = self.graph.communication(task) else { return };
        let region = self.region(BlockId { replica: 0, stage });
        let Some(Some(ring)) = self.rings.regions.get_mut(region) else { return };
        ring.ended += 1;
        if ring.sums == 0 || ring.ended < ring.sums {
            return;
        }
        if let Some(home) = ring.home.take() {
            (ring.stands, ring.ended) = (false, 0);
            let demand = ring.demand.clone();
            self.turn_to(region, (&home, &demand), now, patches);
        }
    }

    /// A run's first all-to-all of a region: circuits that changed back when the iteration before ended may
    /// still be dark.
    pub(super) fn after_sums(&self, region: usize, now: Time, patches: &mut Patches) {
        let Some(Some(ring)) = self.rings.regions.get(region) else { return };
        let left = ring.left.saturating_sub(now);
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
        ring.stands.then_some(region)
    }

    /// The region whose circuits stay as they are, if all of these groups are in it and one spans servers.
    pub(super) fn ring_under(&self, groups: &[Vec<u32>]) -> Option<usize> {
        let server = |gpu: &u32| gpu / self.fabric.cluster().gpus_per_server;
        let spans = |group: &Vec<u32>| group.iter().any(|gpu| server(gpu) != server(&group[0]));
        if !groups.iter().any(spans) {
            return None;
        }
        let first = server(groups.first()?.first()?) / self.region_servers * self.region_servers;
        let region = self.regions.iter().position(|region| region.first_server == first)?;
        let ring = self.rings.regions.get(region)?.as_ref()?;
        let inside =
            |gpu: &u32| server(gpu).checked_sub(first).is_some_and(|at| at < self.region_servers);
        (ring.stands && ring.sums == 0 && groups.iter().flatten().all(inside)).then_some(region)
    }

    /// A sum of gradients: inside servers, over circuits between them, inside again.
    pub(super) fn sum_around(
        &mut self,
        region: usize,
        (state, sum): (&State<'_>, &Sum<'_>),
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        for &pair in &sum.plan.reduce {
            self.flow(state, pair, turn.key, orders)?;
        }
        orders.end_phase(Time::ZERO);
        let per_server = self.fabric.cluster().gpus_per_server;
        let pairs: Vec<Pair> = both_ways(&sum.plan.ring, per_server).collect();
        self.send_around(region, &pairs, sum.plan.steps, (state, turn.key), orders)?;
        for &pair in &sum.plan.gather {
            self.flow(state, pair, turn.key, orders)?;
        }
        orders.end_phase(Time::ZERO);
        Ok(())
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
