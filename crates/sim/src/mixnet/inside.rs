//! Circuits that change inside an all-to-all ([`lightloom_circuits::Inside`]): its plan as
//! orders, and the choice between it and one matching.
//!
//! Modelled: when such an all-to-all begins, its alternatives are weighed by how long they should take: the
//! matching that stands, the one that the other policies would set now, a plan, and *home*, the
//! matching that stood before any plan, which serves demands to come about as well as any that is not
//! made for them. All but home pay for the return: the dark time that setting it again would expose.
//! Without that, a slow switch is changed for the gain of one all-to-all at the expense of all later
//! ones. A plan's circuits go by the clock; bytes over packet switches are gathered, sent and scattered
//! one after the other whatever time they take, so that other traffic there may delay them.
//! After a plan circuits are joined in one direction, whatever it left. Such ports count as dark for the other
//! policies: before an all-to-all that is to set circuits, it sets all of them; before one that is to
//! reuse circuits, the matching that stood last is set again, under the compute in between.
//! A plan holds only if circuits take just their time: on the flow engine, with one reconfiguration
//! time, and while nothing breaks.
//! Gathering is over, for the plan, when the busiest GPU's bytes must be; flows that share the scale-up
//! network fairly may need a little longer, and then circuits carry on beside the last of them.
//! Ignored: setting a plan's first circuits before its all-to-all begins.
//! Checked: bytes on circuits, packet switches and inside servers add up; an all-to-all ends when its
//! plan says; in `tests/test_mixnet_inside.py` against one matching, over reconfiguration times.

use super::Optical;
use super::planner::Left;
use crate::demand::AllToAll;
use crate::medium::form::{State, Turn};
use lightloom_circuits::{Inside, PortMap};
use lightloom_engine::{Orders, Patches};
use lightloom_fabric::{LinkId, NicId, ReconfigurePolicy};
use lightloom_units::Time;
use std::collections::BTreeSet;

impl Optical<'_> {
    /// An all-to-all by a plan, or with one matching if that should be over no later.
    pub(super) fn inside(
        &mut self,
        region: usize,
        a2a: AllToAll,
        state: &State<'_>,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let first = self.regions[region].first_server * self.fabric.cluster().gpus_per_server;
        let mut pairs = Vec::new();
        state.demand.for_each(a2a, |from, to, bytes| pairs.push((from - first, to - first, bytes)));
        let left = self.planner.left.remove(&region);
        let (standing, set_for) =
            (self.regions[region].ports.clone(), self.regions[region].set_for);
        let home = self.planner.home.entry(region).or_insert_with(|| standing.clone()).clone();
        let nothing = Patches::default();

        let homewards = self.turn(region, &standing, &home);
        let at_home = self.with_matching(region, &pairs, &home, &homewards);
        let all = self.turn(region, &PortMap::dark(home.servers(), home.degree()), &home);
        let back = self.with_matching(region, &pairs, &home, &all)
            - self.with_matching(region, &pairs, &home, &nothing);
        let stay = match left {
            Some(_) => Time::MAX,
            None => self.with_matching(region, &pairs, &standing, &nothing),
        };
        let mut patches = Patches::default();
        self.reconfigure(region, a2a, (state, turn.now), &mut patches)?;
        let changed = self.regions[region].ports.clone();
        let change = self.with_matching(region, &pairs, &changed, &patches);
        let mut ports = match &left {
            Some(left) => left.ports.clone(),
            None => Inside::ports(&standing),
        };
        let plan = self.planner.inside.plan(&pairs, &mut ports, &mut self.router);

        let away = [stay, change, plan.end].map(|end| end.saturating_add(back));
        let soonest = away.into_iter().fold(at_home, Time::min);
        if at_home == soonest {
            let stands = homewards.patches.is_empty();
            self.regions[region].ports = home;
            self.regions[region].set_for = set_for.filter(|_| stands);
            orders.patches = homewards;
        } else if away[0] == soonest {
            self.regions[region].ports = standing;
            self.regions[region].set_for = set_for;
        } else if away[1] == soonest {
            orders.patches = patches;
        } else {
            let first = self.regions[region].first_server;
            self.planner.order(self.fabric, first, &plan, turn.key, orders)?;
            let matching = left.map_or(standing, |left| left.matching);
            self.planner.left.insert(region, Left { ports, holds: plan.holds, matching });
            self.regions[region].ports = PortMap::dark(changed.servers(), changed.degree());
            self.regions[region].set_for = None;
            return Ok(());
        }
        self.delegate(region, a2a, state, turn.key, orders)
    }

    /// What makes one matching of a region another.
    fn turn(&self, region: usize, from: &PortMap, to: &PortMap) -> Patches {
        let delay = self.planner.inside.circuits.reconfiguration_ps;
        let mut turn = Patches { delay, ..Patches::default() };
        self.patches(region, from, to, &mut turn.patches);
        turn
    }

    /// Before an all-to-all of another policy: circuits are a matching again.
    pub(super) fn settle(&mut self, region: usize, next: ReconfigurePolicy, patches: &mut Patches) {
        if next == ReconfigurePolicy::Inside {
            return;
        }
        if let Some(left) = self.planner.left.remove(&region)
            && next == ReconfigurePolicy::Reuse
        {
            *patches = self.turn(region, &self.regions[region].ports, &left.matching);
            self.regions[region].ports = left.matching;
        }
    }

    /// When an all-to-all over a matching should be over, of which `patches` are set now.
    fn with_matching(
        &mut self,
        region: usize,
        pairs: &[(u32, u32, u64)],
        matching: &PortMap,
        patches: &Patches,
    ) -> Time {
        let first = self.regions[region].first_server;
        let nics = self.fabric.cluster().nics_per_server;
        let changed: BTreeSet<LinkId> = patches.patches.iter().map(|patch| patch.tx).collect();
        let routing = self.router.route(pairs, matching, &self.layout, &self.rates());
        self.planner.inside.with_matching(routing, |hop| {
            let nic = NicId((first + u32::from(hop.from.0)) * nics + u32::from(hop.from.1));
            match self.fabric.circuit_tx(nic).is_some_and(|tx| changed.contains(&tx)) {
                true => patches.delay,
                false => Time::ZERO,
            }
        })
    }
}
