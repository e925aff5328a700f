//! Rails: all-to-alls over several NICs of a server, where the packet engine's balancer chooses among
//! them; all else, and with other balancers everything, as on packet switches. So are chunks between
//! servers that no rail joins any more.

use super::form::{Decided, Medium, MediumKind, PAPER, State, Turn, by_packets};
use super::packets::Packets;
use crate::carried::Carrier;
use crate::demand::AllToAll;
use crate::failures::Health;
use crate::rails::flows::{Flows, Known, forwarding, spreads};
use crate::spec::EngineSpec;
use lightloom_engine::Orders;
use lightloom_fabric::{Cluster, NicId};
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
        _ => Ok(Box::new(Packets { carrier: Carrier::of(setting), shape: None })),
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
        let domains = state.servers_of(a2a.block);
        let known = known(&state.health, cluster, &domains);
        if self.scheme.chunks().is_some() && !known.joins(&domains, cluster.gpus_per_server) {
            return by_packets(self, state, a2a, turn, orders);
        }
        let mut demand = Vec::new();
        state.demand.for_each(a2a, |from, to, bytes| demand.push((from, to, bytes)));
        let flows = Flows::new(cluster, &domains, &self.scheme, demand, &known)?;
        let pause = |forwarded: bool| match forwarded {
            true => forwarding(cluster, self.unit),
            false => Time::ZERO,
        };
        orders.end_phase(pause(flows.flows.iter().any(|flow| flow.before)));
        for index in 0..flows.flows.len() {
            let route = |from, to, key, path: &mut _| state.health.nic_route(from, to, key, path);
            flows.order(index, state.fabric, route, turn.key, orders)?;
        }
        orders.end_phase(pause(flows.flows.iter().any(|flow| flow.after)));
        Ok(PAPER)
    }
}

/// Which NICs of some domains work.
fn known(health: &Health<'_>, cluster: &Cluster, domains: &[u32]) -> Known {
    let down = match health.matters() {
        true => (0..cluster.nics()).map(|nic| health.is_broken(NicId(nic))).collect(),
        false => vec![],
    };
    Known::new(down, domains, cluster.gpus_per_server)
}
