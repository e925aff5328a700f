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
    let (n, count) = (split.servers.len(), split.rails());
    let (rail_of, gpu_of) = split.own();
    let mut rails = vec![0; n * n * count];
    split.for_each(|from, to, bytes| {
        let ((a, source), (b, destination)) = (split.place(from), split.place(to));
        let rail = rail_of[destination];
        rails[(a * n + b) * count + rail] += bytes;
        let gpu = gpu_of[rail];
        travel.gather[split.at(a, source, gpu)] += bytes;
        travel.scatter[split.at(b, gpu, destination)] += bytes;
    });
    super::form::exchange(split, &rails, travel);
}
