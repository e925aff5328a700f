//! An all-to-all as flows: delegation over the circuits that stand (MixNet 5.3).

use super::Optical;
use crate::demand::AllToAll;
use crate::medium::form::State;
use lightloom_circuits::{Layout, Leg, RouteOptions};
use lightloom_engine::Orders;
use lightloom_units::Bytes;

impl Optical<'_> {
    /// Delegation (MixNet 5.3): gather, exchange beside the local part, scatter.
    pub(super) fn delegate(
        &mut self,
        region: usize,
        a2a: AllToAll,
        state: &State<'_>,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.clear();
        state.demand.for_each(a2a, |from, to, bytes| {
            pairs.push((self.number(region, from), self.number(region, to), bytes));
        });
        self.delegated(region, &pairs, (state, key), orders)?;
        self.pairs = pairs;
        Ok(())
    }

    /// The same of what GPUs of a region send each other, by their numbers there.
    pub(super) fn delegated(
        &mut self,
        region: usize,
        pairs: &[(u32, u32, u64)],
        (state, key): (&State<'_>, u64),
        orders: &mut Orders,
    ) -> Result<(), String> {
        let mut router = std::mem::take(&mut self.router);
        let layout = Layout { servers: self.servers(region) as u16, ..self.layout.clone() };
        router.route(pairs, &self.regions[region].ports, &layout, &self.rates());
        let fabric = self.fabric;
        let nic = |place: (u16, u16)| self.nic_at(region, place);
        let hand = |legs: &[Leg], orders: &mut Orders| {
            for leg in legs {
                let [from, to] = [leg.from, leg.to].map(|at| self.gpu(region, (leg.server, at)));
                fabric.scale_up_path(from, to, orders.path());
                orders.flow(Bytes::new(leg.bytes));
            }
        };
        let routing = router.merged();
        let exchange = |orders: &mut Orders| {
            for hop in &routing.exchange {
                let (from, to) = (nic(hop.from), nic(hop.to));
                if hop.circuit {
                    let cluster = fabric.cluster();
                    cluster.to_nic(cluster.gpu_of(from), from, orders.path());
                    orders.path().extend(fabric.circuit_tx(from));
                    orders.path().extend(fabric.circuit_rx(to));
                    cluster.from_nic(to, cluster.gpu_of(to), orders.path());
                } else {
                    state.health.nic_route(from, to, key, orders.path())?;
                }
                orders.flow(Bytes::new(hop.bytes));
            }
            Ok(())
        };
        self.stages.order(routing, hand, exchange, orders)?;
        self.router = router;
        Ok(())
    }

    /// What delegates weigh circuits and packet NICs by.
    pub(super) fn rates(&self) -> RouteOptions {
        RouteOptions {
            share_eps: self.spec.share_eps,
            optical_bps: self.spec.ocs.circuit_bps().bps(),
            packet_bps: self.spec.eps.link_bps.bps(),
        }
    }
}
