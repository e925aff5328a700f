use super::*;
use crate::demand::ServerDemand;
use crate::greedy::{CircuitCounts, allocate};
use crate::ports::assign;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Flows = Vec<(u32, u32, u64)>;

/// Five servers of four GPUs; one or two NICs a GPU.
fn layouts() -> impl Strategy<Value = Layout> {
    let layout = |packet_nics: &[u16], optical_nics: &[u16], nic_gpu: &[u16]| Layout {
        servers: 5,
        gpus_per_server: 4,
        packet_nics: packet_nics.to_vec(),
        optical_nics: optical_nics.to_vec(),
        nic_gpu: nic_gpu.to_vec(),
    };
    prop_oneof![
        Just(layout(&[0], &[1, 2, 3], &[0, 1, 2, 3])),
        Just(layout(&[0, 2], &[3, 1], &[0, 1, 2, 3])),
        Just(layout(&[0, 4], &[1, 2, 3, 5, 6, 7], &[0, 0, 1, 1, 2, 2, 3, 3])),
    ]
}

/// Demand, and circuits for another one.
fn cases() -> impl Strategy<Value = (Layout, PortMap, Flows)> {
    let flows =
        || prop::collection::vec((0u32..20, 0u32..20, prop_oneof![0u64..4, 0u64..1 << 40]), 0..90);
    (layouts(), flows(), flows()).prop_map(|(layout, before, flows)| {
        let degree = layout.optical_nics.len();
        let demand = ServerDemand::from_gpu_demand(5, 4, before);
        let counts = allocate(&demand, &[degree as u32; 5], true);
        let map = assign(&counts, &PortMap::dark(5, degree), &vec![0; degree]);
        (layout, map, flows)
    })
}

fn rates(share_eps: bool) -> RouteOptions {
    RouteOptions { share_eps, optical_bps: 400_000_000_000, packet_bps: 200_000_000_000 }
}

fn add<K: Ord>(table: &mut BTreeMap<K, u64>, key: K, bytes: u64) {
    if bytes > 0 {
        *table.entry(key).or_default() += bytes;
    }
}

fn by_gpus(legs: &[Leg]) -> BTreeMap<(u16, u16, u16), u64> {
    let table: BTreeMap<_, _> =
        legs.iter().map(|leg| ((leg.server, leg.from, leg.to), leg.bytes)).collect();
    assert_eq!(table.len(), legs.len(), "two legs between the same GPUs");
    table
}

proptest! {
    #[test]
    fn every_byte_goes_from_its_source_to_its_destination(
        (layout, ports, flows) in cases(), share_eps: bool,
    ) {
        let mut router = Router::default();
        // Leftovers of another run must not matter.
        router.route(&[(0, 9, 7), (3, 2, 1)], &ports, &layout, &rates(false));
        let mut parts = Vec::new();
        router.assign_lanes(&flows, &ports, &layout, &rates(share_eps), |a, b, pair, lane, bytes| {
            parts.push((a as u16, b as u16, pair, *lane, bytes));
        });
        let routing = route(&flows, &ports, &layout, &rates(share_eps));
        prop_assert_eq!(&routing, &router.routing);

        let (mut sent, mut wanted) = (BTreeMap::new(), BTreeMap::new());
        let (mut gather, mut scatter) = (BTreeMap::new(), BTreeMap::new());
        let (mut local, mut exchange) = (BTreeMap::new(), BTreeMap::new());
        for &(source, destination, bytes) in &flows {
            match source / 4 == destination / 4 {
                false => add(&mut wanted, (source, destination), bytes),
                true if source == destination => {}
                true => {
                    let (from, to) = ((source % 4) as u16, (destination % 4) as u16);
                    add(&mut local, ((source / 4) as u16, from, to), bytes);
                }
            }
        }
        for &(a, b, (source, destination), lane, bytes) in &parts {
            let gpus = (u32::from(4 * a + source), u32::from(4 * b + destination));
            add(&mut sent, gpus, bytes);
            if source != lane.gpus.0 {
                add(&mut gather, (a, source, lane.gpus.0), bytes);
            }
            add(&mut exchange, ((a, lane.nics.0), (b, lane.nics.1), lane.circuit), bytes);
            if destination != lane.gpus.1 {
                add(&mut scatter, (b, lane.gpus.1, destination), bytes);
            }
            for (nic, gpu) in [(lane.nics.0, lane.gpus.0), (lane.nics.1, lane.gpus.1)] {
                prop_assert_eq!(layout.nic_gpu[usize::from(nic)], gpu);
            }
        }
        prop_assert_eq!(sent, wanted);
        prop_assert_eq!(by_gpus(&routing.gather), gather);
        prop_assert_eq!(by_gpus(&routing.local), local);
        prop_assert_eq!(by_gpus(&routing.scatter), scatter);
        let hops: BTreeMap<_, _> =
            routing.exchange.iter().map(|hop| ((hop.from, hop.to, hop.circuit), hop.bytes)).collect();
        prop_assert_eq!(hops.len(), routing.exchange.len());
        prop_assert_eq!(hops, exchange);
    }

    #[test]
    fn hops_are_legal_and_balanced((layout, ports, flows) in cases(), share_eps: bool) {
        let routing = route(&flows, &ports, &layout, &rates(share_eps));
        let mut lanes: BTreeMap<(u16, u16, bool), Vec<u64>> = BTreeMap::new();
        for hop in &routing.exchange {
            let ((a, from), (b, to)) = (hop.from, hop.to);
            let circuits = ports.between(a.into(), b.into());
            if hop.circuit {
                let port = |nic| layout.optical_nics.iter().position(|&n| n == nic).unwrap();
                prop_assert_eq!(ports.peer(a.into(), port(from)), Some((b, port(to) as u16)));
            } else {
                prop_assert!(from == to && layout.packet_nics.contains(&from));
                prop_assert!(share_eps || circuits == 0);
            }
            lanes.entry((a, b, hop.circuit)).or_default().push(hop.bytes);
        }
        for ((a, b, circuit), mut bytes) in lanes {
            let all = match circuit {
                true => ports.between(a.into(), b.into()) as usize,
                false => layout.packet_nics.len(),
            };
            bytes.resize(all, 0); // a lane of zero bytes has no hop
            prop_assert!(bytes.iter().max().unwrap() - bytes.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn a_delegate_keeps_its_own_bytes((layout, ports, flows) in cases(), share_eps: bool) {
        let (mut own, mut room) = (BTreeMap::new(), BTreeMap::new());
        let mut kept = BTreeMap::new();
        for &(source, destination, bytes) in &flows {
            add(&mut own, ((source / 4) as u16, (destination / 4) as u16, (source % 4) as u16), bytes);
        }
        Router::default().assign_lanes(&flows, &ports, &layout, &rates(share_eps),
            |a, b, (source, _), lane, bytes| {
                add(&mut room, (a as u16, b as u16, lane.gpus.0), bytes);
                if source == lane.gpus.0 {
                    add(&mut kept, (a as u16, b as u16, source), bytes);
                }
            });
        for (key, room) in room {
            let own = own.get(&key).copied().unwrap_or(0);
            prop_assert_eq!(kept.get(&key).copied().unwrap_or(0), own.min(room));
        }
    }
}

fn two_servers() -> Layout {
    Layout {
        servers: 2,
        gpus_per_server: 8,
        packet_nics: vec![0, 4],
        optical_nics: vec![1, 2, 3, 5, 6, 7],
        nic_gpu: (0..8).collect(),
    }
}

#[test]
fn two_servers_with_six_circuits_take_four_thirds_of_eight_nics() {
    let mut counts = CircuitCounts::dark(2);
    (0..6).for_each(|_| counts.join(0, 1));
    let ports = assign(&counts, &PortMap::dark(2, 6), &[0, 0, 0, 1, 1, 1]);
    let all: Flows = (0..8).flat_map(|i| (8..16).map(move |j| (i, j, 600))).collect();
    let routing = route(&all, &ports, &two_servers(), &rates(false));
    // 38,400 bytes over six NICs, not eight of 4,800.
    assert_eq!(routing.exchange.iter().map(|hop| hop.bytes).collect::<Vec<_>>(), [6400; 6]);
    // GPUs 0 and 4 have no circuit: all they send is gathered elsewhere; the others keep theirs.
    assert!(routing.gather.iter().all(|leg| leg.from == 0 || leg.from == 4));
    assert_eq!(routing.gather.iter().map(|leg| leg.bytes).sum::<u64>(), 2 * 4800);
    // With the packet NICs at half the rate, these two count as one more circuit.
    let shared = route(&all, &ports, &two_servers(), &rates(true));
    let packets: u64 = shared.exchange.iter().filter(|h| !h.circuit).map(|h| h.bytes).sum();
    assert_eq!(packets, 38_400 / 7);
}

/// More ports than a byte counts: a packet NIC and nine optical ports on each of 32 GPUs.
#[test]
fn optical_ports_on_gpus_send_what_their_own_gpus_have() {
    let mut counts = CircuitCounts::dark(2);
    (0..288).for_each(|_| counts.join(0, 1));
    let ports = assign(&counts, &PortMap::dark(2, 288), &[0; 288]);
    let layout = Layout {
        servers: 2,
        gpus_per_server: 32,
        packet_nics: (0..320).step_by(10).collect(),
        optical_nics: (0..320).filter(|nic| nic % 10 > 0).collect(),
        nic_gpu: (0..320).map(|nic| nic / 10).collect(),
    };
    let all: Flows = (0..32).flat_map(|i| (32..64).map(move |j| (i, j, 900))).collect();
    let routing = route(&all, &ports, &layout, &rates(false));
    assert!(routing.gather.is_empty() && routing.local.is_empty());
    assert_eq!(routing.exchange.len(), 288);
    assert!(routing.exchange.iter().all(|hop| hop.circuit && hop.bytes == 32 * 100));
    // Each GPU keeps its own 32nd of what arrives.
    assert_eq!(routing.scatter.iter().map(|leg| leg.bytes).sum::<u64>(), 32 * 31 * 900);
}

#[test]
#[should_panic(expected = "GPU 16 of 16")]
fn a_gpu_outside_the_region_is_refused() {
    route(&[(16, 0, 1)], &PortMap::dark(2, 6), &two_servers(), &rates(false));
}

#[test]
#[should_panic(expected = "servers and optical ports")]
fn ports_of_another_region_are_refused() {
    route(&[], &PortMap::dark(3, 6), &two_servers(), &rates(false));
}
