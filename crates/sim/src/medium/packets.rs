//! Packet switches: from GPU to GPU over the fabric's own routes; all-to-alls as their carrier has it.

use super::form::{Decided, Medium, MediumKind, State, Turn, by_packets};
use crate::carried::Carrier;
use crate::demand::AllToAll;
use lightloom_engine::Orders;

pub(crate) static KIND: MediumKind = MediumKind {
    name: "packets",
    decide: Decided::nothing,
    begin: |setting| Ok(Box::new(Packets(Carrier::of(setting)))),
};

/// With a carrier, if not as the paper of the fabric has it.
pub(crate) struct Packets(pub Option<Carrier>);

impl Medium for Packets {
    fn all_to_all(
        &mut self,
        state: &mut State<'_>,
        a2a: AllToAll,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<&'static str, String> {
        match &mut self.0 {
            Some(carrier) if state.spans_servers(a2a.block) => {
                carrier.all_to_all(state, a2a, turn, orders)
            }
            _ => by_packets(self, state, a2a, turn, orders),
        }
    }
}
