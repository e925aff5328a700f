//! Spread evenly over all NICs at both ends: what one server sends another leaves by every NIC in equal
//! parts, NIC i to NIC i. It is gathered over the scale-up network before, and scattered after. A GPU's
//! bytes take its own NIC first, then the destination's ([`lightloom_circuits::Router`]).
//!
//! Where servers are joined by circuits, these take the place of NIC i to NIC i: their media do it.

use super::form::{CarrierKind, Split, Travel};
use lightloom_circuits::{Layout, Leg, Router};
use lightloom_fabric::{NicId, ServerId};
use lightloom_units::kind::Kind;

pub(crate) static KIND: CarrierKind = CarrierKind {
    about: Kind {
        name: "delegate",
        summary: "Spread evenly over all NICs, or circuits, at both ends",
        source: Some("MixNet, Section 5.3"),
        keys: &[],
        capabilities: (),
    },
    hands_over: true,
    split: Some(delegate),
};

fn delegate(split: &Split<'_>, travel: &mut Travel) {
    let (cluster, gpus) = (split.cluster, split.gpus() as u16);
    let nics = split.fabric.packet_nics(ServerId(split.servers[0]));
    let gpu = |nic| cluster.local(cluster.gpu_of(NicId(nic))) as u16;
    let layout = Layout {
        servers: split.servers.len() as u16,
        gpus_per_server: gpus,
        packet_nics: nics.iter().map(|&nic| nic as u16).collect(),
        optical_nics: vec![],
        nic_gpu: (0..cluster.nics_per_server).map(gpu).collect(),
    };
    let number = |gpu| {
        let (server, local) = split.place(gpu);
        (server * split.gpus() + local) as u32
    };
    let mut demand = vec![];
    split.for_each(|from, to, bytes| demand.push((number(from), number(to), bytes)));
    let mut router = Router::default();
    let own = layout.packet_nics.clone();
    let lanes = |_, _| own.iter().map(|&nic| (nic, nic));
    let routing = router.route_over(&demand, &layout, lanes);
    for hop in &routing.exchange {
        let [from, to] =
            [hop.from, hop.to].map(|(server, nic)| split.nic(server.into(), nic.into()));
        travel.exchange.push((from, to, hop.bytes));
    }
    let add = |legs: &[Leg], table: &mut Vec<u64>| {
        for leg in legs {
            let [server, from, to] = [leg.server, leg.from, leg.to].map(usize::from);
            table[(server * usize::from(gpus) + from) * usize::from(gpus) + to] += leg.bytes;
        }
    };
    add(&routing.gather, &mut travel.gather);
    add(&routing.scatter, &mut travel.scatter);
}
