//! Plans followed byte by byte.

use super::*;
use crate::delegation::route;
use crate::greedy::CircuitCounts;
use crate::ports::assign;
use proptest::prelude::*;

const SERVERS: u16 = 4;
const GPUS: u16 = 4;

/// Servers of four GPUs, a NIC each; NIC 0 is on packet switches.
fn region(dark_us: u64, share_eps: bool) -> Inside {
    Inside {
        layout: Layout {
            servers: SERVERS,
            gpus_per_server: GPUS,
            packet_nics: vec![0],
            optical_nics: vec![1, 2, 3],
            nic_gpu: (0..GPUS).collect(),
        },
        circuits: Planes {
            planes: 3,
            rate_bps: BitRate::from_gbps(400),
            reconfiguration_ps: Time::from_us(dark_us),
            latency_ps: Time::from_us(2),
        },
        packet_bps: BitRate::from_gbps(400),
        packet_delay_ps: Time::from_us(4),
        scale_up_bps: BitRate::from_gbps(3_600),
        scale_up_delay_ps: Time::from_us(1),
        share_eps,
    }
}

/// Eight servers of eight GPUs, six of eight NICs optical, as MixNet has them.
fn mixnet(dark_us: u64, share_eps: bool) -> Inside {
    let layout = Layout {
        servers: 8,
        gpus_per_server: 8,
        packet_nics: vec![0, 4],
        optical_nics: vec![1, 2, 3, 5, 6, 7],
        nic_gpu: (0..8).collect(),
    };
    let small = region(dark_us, share_eps);
    Inside { layout, circuits: Planes { planes: 6, ..small.circuits }, ..small }
}

/// Slice by slice, the same bytes from every server to every other.
fn even(inside: &Inside, bytes: u64) -> Vec<Pair> {
    let gpus = u32::from(inside.layout.gpus_per_server);
    let all = u32::from(inside.layout.servers) * gpus;
    let pairs = (0..all).flat_map(|a| (0..all).map(move |b| (a, b, bytes)));
    pairs.filter(|&(a, b, _)| a / gpus != b / gpus && a % gpus == b % gpus).collect()
}

fn dark(inside: &Inside) -> Ports {
    Ports::dark(inside.layout.servers.into(), inside.layout.optical_nics.len() as u32)
}

/// What a region's GPUs have, and get, after each part of a plan: none may ever give what it lacks.
fn follow(inside: &Inside, demand: &[Pair], plan: &InsidePlan) -> Result<(), TestCaseError> {
    let gpus = u32::from(inside.layout.gpus_per_server);
    let n = usize::from(inside.layout.servers);
    let mut wanted = vec![0i128; n * n];
    let (mut has, mut gets) = (vec![0i128; n * gpus as usize], vec![0i128; n * gpus as usize]);
    for &(from, to, bytes) in demand {
        wanted[(from / gpus) as usize * n + (to / gpus) as usize] += i128::from(bytes);
        has[from as usize] += i128::from(bytes);
        gets[to as usize] += i128::from(bytes);
    }
    let at = |server: u16, gpu: u16| (u32::from(server) * gpus + u32::from(gpu)) as usize;
    let gpu = |server: u16, nic: u16| at(server, inside.layout.nic_gpu[usize::from(nic)]);
    let (mut between, mut holding) = (vec![0i128; n * n], vec![0i128; n * gpus as usize]);
    for leg in plan.gather.iter().chain(&plan.packets.gather) {
        has[at(leg.server, leg.from)] -= i128::from(leg.bytes);
        has[at(leg.server, leg.to)] += i128::from(leg.bytes);
    }
    let circuits = plan.holds.iter().map(|hold| {
        let nic = inside.layout.optical_nics[hold.plane as usize];
        ((hold.from as u16, nic), (hold.to as u16, nic), hold.bytes.get())
    });
    let hops = plan.packets.exchange.iter().map(|hop| {
        assert!(!hop.circuit);
        (hop.from, hop.to, hop.bytes)
    });
    for (from, to, bytes) in circuits.chain(hops) {
        let bytes = i128::from(bytes);
        between[usize::from(from.0) * n + usize::from(to.0)] += bytes;
        has[gpu(from.0, from.1)] -= bytes;
        holding[gpu(to.0, to.1)] += bytes;
    }
    for leg in &plan.packets.local {
        between[usize::from(leg.server) * (n + 1)] += i128::from(leg.bytes);
        has[at(leg.server, leg.from)] -= i128::from(leg.bytes);
        holding[at(leg.server, leg.to)] += i128::from(leg.bytes);
    }
    for leg in plan.scatter.iter().chain(&plan.packets.scatter) {
        holding[at(leg.server, leg.from)] -= i128::from(leg.bytes);
        holding[at(leg.server, leg.to)] += i128::from(leg.bytes);
    }
    prop_assert!(has.iter().all(|&left| left == 0), "{has:?}");
    prop_assert_eq!(between, wanted);
    prop_assert_eq!(holding, gets);
    Ok(())
}

/// Ports serve one at a time; what is set is dark first, and nothing is sent before all is gathered.
fn check_ports(inside: &Inside, plan: &InsidePlan) -> Result<(), TestCaseError> {
    let mut ends: BTreeMap<(bool, u32, u32), Time> = BTreeMap::new();
    let mut order = plan.holds.clone();
    order.sort_by_key(|hold| hold.dark_ps);
    for hold in order {
        let dark = if hold.set { inside.circuits.reconfiguration_ps } else { Time::ZERO };
        prop_assert!(hold.start_ps >= hold.dark_ps + dark && hold.start_ps >= plan.ready);
        let takes = inside.circuits.latency_ps + inside.circuits.rate_bps.time_for(hold.bytes);
        prop_assert_eq!(hold.end_ps, hold.start_ps + takes);
        for port in [(true, hold.from, hold.plane), (false, hold.to, hold.plane)] {
            let before = ends.insert(port, hold.end_ps).unwrap_or(Time::ZERO);
            prop_assert!(before <= hold.dark_ps);
        }
    }
    Ok(())
}

/// Nothing is over before: the fullest server's bytes over all its NICs.
fn ideal(inside: &Inside, demand: &[Pair]) -> Time {
    let gpus = u32::from(inside.layout.gpus_per_server);
    let mut lines: BTreeMap<(bool, u32), u64> = BTreeMap::new();
    for &(from, to, bytes) in demand.iter().filter(|(a, b, _)| a / gpus != b / gpus) {
        *lines.entry((true, from / gpus)).or_default() += bytes;
        *lines.entry((false, to / gpus)).or_default() += bytes;
    }
    let nics = (inside.layout.optical_nics.len() + inside.layout.packet_nics.len()) as u64;
    let most = lines.into_values().max().unwrap_or(0);
    inside.circuits.rate_bps.time_for(Bytes::new(most / nics))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_byte_goes_once_and_ports_serve_one_at_a_time(
        transfers in prop::collection::vec(
            prop::collection::vec((0u32..16, 0u32..16, 0u64..30_000_000), 0..60), 1..4,
        ),
        dark_us in prop::sample::select(vec![1, 50, 2_000]),
        share_eps in any::<bool>(),
    ) {
        let inside = region(dark_us, share_eps);
        let (mut ports, mut router) = (dark(&inside), Router::default());
        for mut demand in transfers {
            demand.retain(|(from, to, bytes)| from != to && *bytes > 0);
            let plan = inside.plan(&demand, &mut ports, &mut router);
            follow(&inside, &demand, &plan)?;
            check_ports(&inside, &plan)?;
            prop_assert!(plan.end >= ideal(&inside, &demand));
            prop_assert!(plan.gathered <= plan.ready && plan.gathered <= plan.carried && plan.carried <= plan.end);
        }
    }

    /// Packet NICs take pairs only while that relieves the circuits' busiest port.
    #[test]
    fn packet_nics_are_never_the_last(
        bytes in prop::collection::vec(0u64..100_000_000, 16),
        dark_us in prop::sample::select(vec![1, 50, 2_000]),
        share_eps in any::<bool>(),
    ) {
        let inside = region(dark_us, share_eps);
        let bytes: Vec<u64> =
            bytes.iter().enumerate().map(|(i, &b)| if i % 5 == 0 { 0 } else { b }).collect();
        let ps = |bytes: u64| inside.packet_bps.time_for(Bytes::new(bytes)).ps() as f64;
        let (over, least) = inside.lines(&[false; 16], 1.0).offload(&bytes);
        let none = Inside { packet_bps: BitRate::from_bps(1), ..inside.clone() };
        let (nothing, most) = none.lines(&[false; 16], 1.0).offload(&bytes);
        prop_assert!(nothing.iter().all(|&part| part == 0));
        prop_assert!(least <= most);
        for line in 0..4 {
            let out: u64 = (0..4).map(|to| over[line * 4 + to]).sum();
            let into: u64 = (0..4).map(|from| over[from * 4 + line]).sum();
            prop_assert!(ps(out.max(into)) <= most);
        }
        for (part, all) in over.iter().zip(&bytes) {
            prop_assert!(part <= all && (share_eps || *part == 0 || part == all));
        }
    }
}

#[test]
fn even_demands_come_near_all_nics_together() {
    for (share, ratio) in [(true, 1.12), (false, 1.25)] {
        let inside = mixnet(1, share);
        let demand = even(&inside, 4_000_000);
        let plan = inside.plan(&demand, &mut dark(&inside), &mut Router::default());
        let exchange = plan.carried.max(plan.gathered + inside.beside(&plan.packets));
        let took = (exchange - plan.gathered).ps() as f64;
        let ideal = ideal(&inside, &demand).ps() as f64;
        assert!(took >= ideal && took <= ratio * ideal, "{share}: {}", took / ideal);
    }
}

#[test]
fn one_heavy_pair_has_all_planes_and_later_finds_them_lit() {
    let inside = region(1_000, false);
    let (mut ports, mut router) = (dark(&inside), Router::default());
    let demand = [(1, 5, 150_000_000), (4, 8, 100)];
    let first = inside.plan(&demand, &mut ports, &mut router);
    // 50 MB a plane take 1 ms, and darkness another, of which gathering (two thirds of the bytes over
    // the scale-up network) hides some.
    let circuits = |plan: &InsidePlan| (plan.carried - plan.gathered).ps() as f64 / 1e9;
    assert!((1.75..1.85).contains(&circuits(&first)), "{}", circuits(&first));
    assert_eq!(first.packets.exchange.len(), 1); // 100 bytes are not worth a circuit
    let again = inside.plan(&demand, &mut ports, &mut router);
    assert!(again.holds.iter().all(|hold| !hold.set));
    assert!((1.0..1.01).contains(&circuits(&again)));
}

#[test]
fn a_matching_lasts_as_long_as_its_slowest_part() {
    let inside = region(1_000, false);
    let mut counts = CircuitCounts::dark(4);
    counts.join(0, 1);
    counts.join(2, 3);
    let matching = assign(&counts, &PortMap::dark(4, 3), &[0, 0, 0]);
    let options = RouteOptions { share_eps: false, optical_bps: 1, packet_bps: 1 };
    let over = |demand: &[Pair], ready: Time| {
        let routing = route(demand, &matching, &inside.layout, &options);
        inside.with_matching(&routing, |_| ready)
    };
    // GPU 1's NIC has the circuit: 5 MB take 100 us, and nothing is gathered or scattered.
    let one = [(1, 5, 5_000_000)];
    assert_eq!(over(&one, Time::ZERO), Time::from_us(102));
    assert_eq!(over(&one, Time::from_ms(1)), Time::from_us(1_102));
    // Over packets beside it, from GPU 0: 10 MB take 200 us and 4.
    assert_eq!(over(&[one[0], (0, 8, 10_000_000)], Time::ZERO), Time::from_us(204));
}

#[test]
fn circuits_between_ports_of_one_number_are_taken_over() {
    let inside = region(1_000, false);
    let mut counts = CircuitCounts::dark(4);
    counts.join(0, 1);
    let matching = assign(&counts, &PortMap::dark(4, 3), &[0, 0, 0]);
    let mut ports = Inside::ports(&matching);
    let plan = inside.plan(&[(1, 5, 5_000_000)], &mut ports, &mut Router::default());
    assert!(plan.holds.len() == 1 && !plan.holds[0].set);
    assert!(plan.end <= Time::from_us(110), "{}", plan.end);
}
