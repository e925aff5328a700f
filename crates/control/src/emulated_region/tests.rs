use super::*;
use lightloom_circuits::{allocate, assign};
use lightloom_fabric::ReconfigurationDelay;
use proptest::prelude::*;

const DELAY: Time = Time::from_ms(25);
const NONE: Activation = Activation::Loopback { lock: Time::ZERO };

fn greedily(question: &Question) -> CircuitCounts {
    allocate(&question.demand, &question.standing.usable(), true)
}

fn region_of(servers: u16, degree: u16, settings: Settings) -> EmulatedRegion {
    let ports = servers * degree;
    let region = Region::in_a_row(servers, degree, ports).unwrap();
    let delay = ReconfigurationDelay::Fixed { ps: DELAY };
    let device = Device { name: "fixed".into(), ports, delay };
    EmulatedRegion::traced(region, settings, device, NONE, 1, &mut greedily).unwrap()
}

fn demands(n: usize) -> impl Strategy<Value = Vec<ServerDemand>> {
    let one = prop::collection::vec(0..1000u64, n * n).prop_map(move |bytes| {
        let off = |(at, byte)| if at / n == at % n { 0 } else { byte };
        ServerDemand { n, bytes: bytes.into_iter().enumerate().map(off).collect() }
    });
    prop::collection::vec(one, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn circuits_are_those_of_the_decision_one_after_the_other(
        demands in demands(5), impatient in any::<bool>(), pause in 1..20_000u64,
    ) {
        let settings = if impatient { Settings::default() } else { EmulatedRegion::settings() };
        let mut region = region_of(5, 4, settings);
        let numa = region.controller().region().numa_of_port().to_vec();
        let mut map = region.standing().clone();
        let mut now = Time::ZERO;
        for demand in demands {
            let counts = allocate(&demand, &[4; 5], true);
            let wanted = assign(&counts, &map, &numa);
            let mut asked = Vec::new();
            let change = region.round(now, &demand, &mut |question| {
                asked.push(question.demand.clone());
                greedily(question)
            });
            prop_assert_eq!(asked, vec![demand]);
            prop_assert_eq!(region.standing(), &wanted);
            prop_assert_eq!(change.changed as usize, changed_ports(&map, &wanted).len());
            let new = lightloom_circuits::new_circuits(&map, &wanted);
            prop_assert_eq!(change.dark, if new > 0 { DELAY } else { Time::ZERO });
            let on_switch: Vec<_> = region.switch.patches().collect();
            prop_assert_eq!(on_switch, region.controller().region().patches(0, &wanted));
            prop_assert_eq!(region.controller().memory().confirmed, change.generation);
            prop_assert!(region.controller().alarms().next().is_none());
            map = wanted;
            now += DELAY + Time::from_ms(pause);
        }
    }

    #[test]
    fn what_fails_is_out_of_use_until_it_works_again(
        demand in demands(4), failed in prop::collection::btree_set((0..4u16, 0..3u16), 1..8),
    ) {
        let mut region = region_of(4, 3, EmulatedRegion::settings());
        let now = Time::from_ms(100);
        region.round(now, &demand[0], &mut greedily);
        let parts: Vec<_> = failed.iter().map(|&(server, port)| (server, ServerPart::Nic(port))).collect();
        region.fault(now * 2, &parts, false, &mut greedily);
        for &(server, port) in &failed {
            prop_assert!(region.standing().peer(server.into(), port.into()).is_none());
        }
        let mut usable = [3; 4];
        failed.iter().for_each(|port| usable[usize::from(port.0)] -= 1);
        let counts = allocate(&demand[0], &usable, true);
        prop_assert_eq!(region.standing().counts(), counts);
        region.fault(now * 3, &parts, true, &mut greedily);
        prop_assert_eq!(region.standing().counts(), allocate(&demand[0], &[3; 4], true));
    }
}

#[test]
fn a_change_waits_for_the_one_before_it() {
    let mut region = region_of(3, 1, EmulatedRegion::settings());
    let between = |a, b| ServerDemand::from_gpu_demand(3, 1, [(a, b, 900)]);
    let first = region.round(Time::from_ms(100), &between(1, 2), &mut greedily);
    assert_eq!(first.dark, DELAY);
    let second = region.round(Time::from_ms(110), &between(0, 2), &mut greedily);
    assert_eq!(second.dark, Time::from_ms(40));
}

#[test]
fn a_switch_slower_than_the_controller_is_patient_leaves_the_region_on_packets() {
    let settings = Settings { patience: Time::from_ms(10), ..EmulatedRegion::settings() };
    let mut region = region_of(3, 1, settings);
    let demand = ServerDemand::from_gpu_demand(3, 1, [(1, 2, 900)]);
    region.round(Time::from_ms(100), &demand, &mut greedily);
    assert_eq!(region.standing().circuits().count(), 0);
    assert!(region.controller().alarms().next().is_some());
}

#[test]
fn nics_take_their_time_after_the_switch() {
    let region = Region::in_a_row(3, 1, 3).unwrap();
    let delay = ReconfigurationDelay::Fixed { ps: DELAY };
    let device = Device { name: "fixed".into(), ports: 3, delay };
    let restart = Activation::Restart { mean: Time::from_ms(5670), p99: Time::from_ms(5670) };
    let mut region =
        EmulatedRegion::new(region, EmulatedRegion::settings(), device, restart, 1, &mut greedily)
            .unwrap();
    let demand = ServerDemand::from_gpu_demand(3, 1, [(1, 2, 900)]);
    let change = region.round(Time::ZERO, &demand, &mut greedily);
    assert_eq!(change.dark, DELAY + Time::from_ms(5670));
}

#[test]
fn a_device_of_other_ports_is_refused() {
    let region = Region::in_a_row(3, 1, 3).unwrap();
    let delay = ReconfigurationDelay::Fixed { ps: DELAY };
    let device = Device { name: "fixed".into(), ports: 4, delay };
    let settings = Settings::default();
    assert!(EmulatedRegion::new(region, settings, device, NONE, 1, &mut greedily).is_err());
}
