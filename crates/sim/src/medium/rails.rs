//! Rails: all-to-alls over several NICs of a server, where the packet engine's balancer chooses among
//! them; all else, and with other balancers everything, as on packet switches.

use super::form::{Decided, Medium, MediumKind, PAPER, State, Turn};
use super::packets::Packets;
use crate::carried::Carrier;
use crate::demand::AllToAll;
use crate::rails::flows::{Flows, Known, forwarding, spreads};
use crate::spec::EngineSpec;
use lightloom_engine::Orders;
use lightloom_packet::BalancerSpec;
use lightloom_units::{Bytes, Time};

pub(crate) static KIND: MediumKind = MediumKind {
    name: "rails",
    decide: Decided::nothing,
    begin: |setting| match &setting.spec.engine {
        EngineSpec::Packet(packet) if spreads(&packet.balancer) => {
            let scheme = packet.balancer;
            let unit = scheme.chunks().map_or(packet.mtu, |chunks| chunks.chunk);
            Ok(Box::new(Rails { scheme, unit }))
        }
        _ => Ok(Box::new(Packets(Carrier::of(setting)))),
    },
};

struct Rails {
    scheme: BalancerSpec,
    /// What is forwarded goes in pieces of this size.
    unit: Bytes,
}

impl Medium for Rails {
    /// With its block's servers as domains.
    fn all_to_all(
        &mut self,
        state: &mut State<'_>,
        a2a: AllToAll,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<&'static str, String> {
        let cluster = state.fabric.cluster();
        let gpus = state.demand.placement.block_gpus(a2a.block);
        let per_server = cluster.gpus_per_server;
        let domains = gpus.start / per_server..gpus.end.div_ceil(per_server);
        let mut demand = Vec::new();
        state.demand.for_each(a2a, |from, to, bytes| demand.push((from, to, bytes)));
        let flows = Flows::new(cluster, domains, &self.scheme, demand, &Known::default())?;
        let pause = |forwarded: bool| match forwarded {
            true => forwarding(cluster, self.unit),
            false => Time::ZERO,
        };
        orders.end_phase(pause(flows.flows.iter().any(|flow| flow.before)));
        for index in 0..flows.flows.len() {
            flows.order(index, state.fabric, turn.key, orders)?;
        }
        orders.end_phase(pause(flows.flows.iter().any(|flow| flow.after)));
        Ok(PAPER)
    }
}
