//! MixNet: all-to-alls between servers over the circuits of their region, by delegates; all else over
//! packet switches. What is decided, and when, is in [`crate::mixnet`].

use super::form::{Carrier, CarrierKind, Decided, State, Turn, by_packets};
use crate::beside::Kept;
use crate::demand::AllToAll;
use crate::error::SimError;
use crate::failures::FailureEvent;
use crate::mixnet::{Optical, check_inside};
use crate::spec::EngineSpec;
use lightloom_decide::Traffic;
use lightloom_engine::{Orders, Patch, Patches};
use lightloom_fabric::MixNetSpec;
use lightloom_units::Time;
use lightloom_workload::BlockId;

pub(crate) static KIND: CarrierKind = CarrierKind {
    name: "circuits",
    decide: Decided::nothing,
    begin: |setting| {
        let (spec, job) = (setting.spec, setting.job);
        let mixnet: &MixNetSpec = spec.fabric.keys().expect("only MixNet names this carrier");
        let by_flows = matches!(spec.engine, EngineSpec::Flow { .. });
        check_inside(mixnet, by_flows, !spec.failures.is_empty()).map_err(SimError::Input)?;
        let optical = Optical::new(
            setting.fabric,
            job,
            mixnet,
            spec.region_servers(),
            setting.plan,
            setting.beside,
            spec.seed,
        );
        Ok(Box::new(optical.map_err(SimError::Input)?))
    },
};

impl Carrier for Optical<'_> {
    fn standing(&self) -> Vec<Patch> {
        Optical::standing(self)
    }

    fn circuits_between(&self, from: u32, to: u32) -> u32 {
        Optical::circuits_between(self, from, to)
    }

    fn note(&self) -> Option<String> {
        self.predicted()
    }

    fn other_begins(&mut self, transfer: u32, now: Time) {
        Optical::other_begins(self, transfer, now);
    }

    fn other_ends(&mut self, transfer: u32, now: Time) {
        Optical::other_ends(self, transfer, now);
    }

    fn traffic(&self) -> Vec<Vec<Vec<Traffic>>> {
        Optical::traffic(self)
    }

    fn kept(&mut self) -> Option<Kept> {
        Optical::kept(self)
    }

    fn all_to_all(
        &mut self,
        state: &mut State<'_>,
        a2a: AllToAll,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        if !self.serves(a2a.block) {
            return by_packets(self, state, a2a, turn, orders);
        }
        let when = (turn.key, turn.task, turn.now);
        self.begin(a2a, &state.demand, &mut state.health, when, orders)
    }

    fn end(
        &mut self,
        state: &mut State<'_>,
        block: BlockId,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        if self.serves(block) {
            Optical::end(self, block, &state.demand, (&state.health, now), patches)?;
            state.health.patched(patches, now);
        }
        Ok(())
    }

    fn incident(
        &mut self,
        state: &mut State<'_>,
        event: &FailureEvent,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        Optical::incident(self, event, &state.demand, (&state.health, now), patches)?;
        state.health.patched(patches, now);
        Ok(())
    }
}
