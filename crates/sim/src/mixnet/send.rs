//! An all-to-all as flows: delegation over the circuits that stand (MixNet 5.3).

use super::Optical;
use crate::demand::{AllToAll, Demand};
use crate::failures::Health;
use lightloom_circuits::{Layout, RouteOptions};
use lightloom_engine::Orders;
use lightloom_units::{Bytes, Time};

impl Optical<'_> {
    /// Delegation (MixNet 5.3): gather, exchange beside the local part, scatter.
    pub(super) fn send(
        &mut self,
        region: usize,
        a2a: AllToAll,
        demand: &Demand<'_>,
        health: &Health<'_>,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.clear();
        demand.for_each(a2a, |from, to, bytes| {
            pairs.push((self.number(region, from), self.number(region, to), bytes));
        });
        let options = RouteOptions {
            share_eps: self.spec.share_eps,
            optical_bps: self.spec.ocs.link_bps.bps(),
            packet_bps: self.spec.eps.link_bps.bps(),
        };
        let mut router = std::mem::take(&mut self.router);
        let layout = Layout { servers: self.servers(region) as u16, ..self.layout.clone() };
        let routing = router.route(&pairs, &self.regions[region].ports, &layout, &options);
        let fabric = self.fabric;
        let gpu = |server: u16, gpu: u16| self.gpu(region, (server, gpu));
        let nic = |place: (u16, u16)| self.nic_at(region, place);
        for leg in &routing.gather {
            fabric.scale_up_path(gpu(leg.server, leg.from), gpu(leg.server, leg.to), orders.path());
            orders.flow(Bytes::new(leg.bytes));
        }
        orders.end_phase(Time::ZERO);
        for hop in &routing.exchange {
            let (from, to) = (nic(hop.from), nic(hop.to));
            if hop.circuit {
                orders.path().extend(fabric.circuit_tx(from));
                orders.path().extend(fabric.circuit_rx(to));
            } else {
                health.nic_route(from, to, key, orders.path())?;
            }
            orders.flow(Bytes::new(hop.bytes));
        }
        for leg in &routing.local {
            fabric.scale_up_path(gpu(leg.server, leg.from), gpu(leg.server, leg.to), orders.path());
            orders.flow(Bytes::new(leg.bytes));
        }
        orders.end_phase(Time::ZERO);
        for leg in &routing.scatter {
            fabric.scale_up_path(gpu(leg.server, leg.from), gpu(leg.server, leg.to), orders.path());
            orders.flow(Bytes::new(leg.bytes));
        }
        orders.end_phase(Time::ZERO);
        (self.router, self.pairs) = (router, pairs);
        Ok(())
    }
}
