//! How long orders take, in closed form: of each phase the greatest load of a link over its rate, with the
//! delay of the longest path over that link; and what passes after each phase.
//!
//! Where the engine's packets are spread over equal paths, a flow loads as much of each of them, up to 64.
//! Nothing can be sooner over, as every byte crosses its links. Where fair shares leave a busy link idle
//! for a while, orders take longer.

use lightloom_engine::Orders;
use lightloom_fabric::{Fabric, LinkId};
use lightloom_units::{Bytes, Time};

/// Equal paths over which a flow is laid, at most.
const PATHS: u32 = 64;

/// Loads of links, kept from one estimate to the next.
#[derive(Debug, Default)]
pub(crate) struct ClosedForm {
    /// Whether a flow takes all of its equal paths.
    spread: bool,
    /// By link: bytes, and the delay of the longest path over it.
    links: Vec<(u64, Time)>,
    used: Vec<u32>,
    path: Vec<LinkId>,
}

impl ClosedForm {
    pub fn new(spread: bool) -> Self {
        ClosedForm { spread, ..ClosedForm::default() }
    }

    pub fn time(&mut self, fabric: &Fabric, orders: &Orders) -> Time {
        self.links.resize(fabric.links().len(), (0, Time::ZERO));
        (0..orders.phases().len()).map(|phase| self.phase(fabric, orders, phase)).sum()
    }

    fn phase(&mut self, fabric: &Fabric, orders: &Orders, phase: usize) -> Time {
        for (number, flow) in orders.flows(phase).iter().enumerate() {
            let (path, bytes) = (orders.links(flow), flow.bytes.get());
            let delay = path.iter().map(|&link| fabric.link(link).delay).sum();
            if !self.spread || !self.over_all(fabric, path, bytes, number as u32, delay) {
                self.load(path, bytes, delay);
            }
        }
        let mut most = Time::ZERO;
        for link in self.used.drain(..) {
            let (bytes, delay) = std::mem::take(&mut self.links[link as usize]);
            let rate = fabric.links()[link as usize].rate;
            most = most.max(rate.time_for(Bytes::new(bytes)).saturating_add(delay));
        }
        most.saturating_add(orders.phases()[phase].latency)
    }

    /// Loads the equal paths of a flow alike, if there are several. Of very many it takes some, each
    /// flow others.
    fn over_all(
        &mut self,
        fabric: &Fabric,
        path: &[LinkId],
        bytes: u64,
        number: u32,
        delay: Time,
    ) -> bool {
        let Some(part) = fabric.switched(path) else { return false };
        let all = fabric.nic_paths(part.source, part.destination);
        if all <= 1 {
            return false;
        }
        let some = all.min(PATHS);
        self.load(&path[..part.before], bytes, delay);
        self.load(&path[path.len() - part.after..], bytes, delay);
        let mut each = std::mem::take(&mut self.path);
        for at in 0..some {
            each.clear();
            let index = (u64::from(at) * u64::from(all) / u64::from(some)) as u32;
            let index = (index + number % all) % all;
            fabric.nic_path(part.source, part.destination, index, &mut each);
            let share =
                bytes / u64::from(some) + u64::from(u64::from(at) < bytes % u64::from(some));
            self.load(&each, share, delay);
        }
        self.path = each;
        true
    }

    fn load(&mut self, path: &[LinkId], more: u64, delay: Time) {
        for link in path {
            let (bytes, longest) = &mut self.links[link.index()];
            if *bytes == 0 {
                self.used.push(link.0);
            }
            *bytes += more;
            *longest = (*longest).max(delay);
        }
    }
}
