//! An all-to-all as flows: delegation over the circuits that stand (MixNet 5.3).

use super::Optical;
use crate::sender::{AllToAll, Demand};
use lightloom_engine::Orders;
use lightloom_fabric::{GpuId, NicId};
use lightloom_schedule::mixnet::RouteOptions;
use lightloom_units::{Bytes, Time};

impl Optical<'_> {
    /// Delegation (MixNet 5.3): gather, exchange beside the local part, scatter.
    pub(super) fn send(
        &mut self,
        region: usize,
        a2a: AllToAll,
        demand: &Demand<'_>,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let first_server = self.regions[region].first_server;
        let per_server = self.fabric.cluster().gpus_per_server;
        let nics = self.fabric.cluster().nics_per_server;
        let first_gpu = first_server * per_server;
        self.pairs.clear();
        let pairs = &mut self.pairs;
        demand
            .for_each(a2a, |from, to, bytes| pairs.push((from - first_gpu, to - first_gpu, bytes)));
        let options = RouteOptions {
            share_eps: self.spec.share_eps,
            optical_bps: self.spec.ocs.link_bps.bps(),
            packet_bps: self.spec.eps.link_bps.bps(),
        };
        let routing =
            self.router.route(&self.pairs, &self.regions[region].ports, &self.layout, &options);
        let fabric = self.fabric;
        let gpu = |server: u16, gpu: u16| {
            GpuId((first_server + u32::from(server)) * per_server + u32::from(gpu))
        };
        let nic = |(server, nic): (u16, u16)| {
            NicId((first_server + u32::from(server)) * nics + u32::from(nic))
        };
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
                fabric.nic_route(from, to, key, orders.path()).map_err(|e| e.to_string())?;
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
        Ok(())
    }
}
