//! How long orders take, in closed form: of each phase the greatest load of a link over its rate, with the
//! delay of the longest path over that link; and what passes after each phase.
//!
//! Nothing can be sooner over, as every byte crosses its links. Where fair shares leave a busy link idle
//! for a while, orders take longer.

use lightloom_engine::Orders;
use lightloom_fabric::Fabric;
use lightloom_units::Time;

/// Loads of links, kept from one estimate to the next.
#[derive(Debug, Default)]
pub(crate) struct ClosedForm {
    /// By link: bytes, and the delay of the longest path over it.
    links: Vec<(u64, Time)>,
    used: Vec<u32>,
}

impl ClosedForm {
    pub fn time(&mut self, fabric: &Fabric, orders: &Orders) -> Time {
        self.links.resize(fabric.links().len(), (0, Time::ZERO));
        (0..orders.phases().len()).map(|phase| self.phase(fabric, orders, phase)).sum()
    }

    fn phase(&mut self, fabric: &Fabric, orders: &Orders, phase: usize) -> Time {
        for flow in orders.flows(phase) {
            let path = orders.links(flow);
            let delay = path.iter().map(|&link| fabric.link(link).delay).sum();
            for link in path {
                let (bytes, longest) = &mut self.links[link.index()];
                if *bytes == 0 {
                    self.used.push(link.0);
                }
                *bytes += flow.bytes.get();
                *longest = (*longest).max(delay);
            }
        }
        let mut most = Time::ZERO;
        for link in self.used.drain(..) {
            let (bytes, delay) = std::mem::take(&mut self.links[link as usize]);
            let rate = fabric.links()[link as usize].rate;
            most =
                most.max(rate.time_for(lightloom_units::Bytes::new(bytes)).saturating_add(delay));
        }
        most.saturating_add(orders.phases()[phase].latency)
    }
}
