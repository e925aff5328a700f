//! Over the destination's rail: first to the sender's GPU of the destination's index, over the scale-up
//! network, and from its NIC to the destination's.

use super::form::{CarrierKind, Split, Travel};
use lightloom_units::kind::Kind;

pub(crate) static KIND: CarrierKind = CarrierKind {
    about: Kind {
        name: "relay",
        summary: "Over the scale-up network to the destination's rail, then NIC to NIC on it",
        source: Some("PXN, NCCL 2.12"),
        keys: &[],
        capabilities: (),
    },
    hands_over: true,
    split: Some(relay),
};

fn relay(split: &Split<'_>, travel: &mut Travel) {
    let (n, gpus) = (split.servers.len(), split.gpus());
    let mut rails = vec![0; n * n * gpus];
    split.for_each(|from, to, bytes| {
        let ((a, source), (b, rail)) = (split.place(from), split.place(to));
        rails[(a * n + b) * gpus + rail] += bytes;
        travel.gather[split.at(a, source, rail)] += bytes;
    });
    super::form::exchange(split, &rails, travel);
}
