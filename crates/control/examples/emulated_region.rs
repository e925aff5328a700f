//! What it costs to set circuits through a region's machines: `cargo run --release -p
//! lightloom-control --example emulated_region`. Decisions are made beforehand; only the machines run.

use lightloom_circuits::{CircuitCounts, ServerDemand, allocate};
use lightloom_control::ocs::{Activation, Device};
use lightloom_control::{EmulatedRegion, Region};
use lightloom_decide::Question;
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use std::time::Instant;

const ROUNDS: u32 = 2_000;

fn main() {
    for (servers, degree) in [(4, 6), (8, 6), (16, 6), (64, 6)] {
        let n = usize::from(servers);
        let demands = [1u64, 2].map(|seed| demand(n, seed));
        let counts = demands.each_ref().map(|d| allocate(d, &vec![degree.into(); n], true));
        let ports = servers * degree;
        let region = Region::in_a_row(servers, degree, ports).expect("it has few ports");
        let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(25) };
        let device = Device { name: "polatis".into(), ports, delay };
        let none = Activation::Loopback { lock: Time::ZERO };
        let mut first = |_: &Question| counts[0].clone();
        let mut region =
            EmulatedRegion::new(region, EmulatedRegion::settings(), device, none, 1, &mut first)
                .expect("the device has the region's ports");
        let mut round = 0;
        let mut each = |choose: &dyn Fn(u32) -> usize| {
            let began = Instant::now();
            let mut changed = 0;
            for _ in 0..ROUNDS {
                let at = choose(round);
                round += 1;
                let now = Time::from_ms(100) * u64::from(round);
                let mut decide = |_: &Question| -> CircuitCounts { counts[at].clone() };
                changed += u32::from(region.round(now, &demands[at], &mut decide).changed > 0);
            }
            (began.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS), changed)
        };
        let (same, none) = each(&|_| 0);
        let (other, all) = each(&|round| (round % 2) as usize);
        println!(
            "{servers:>3} servers of {degree}: {same:6.1} us a round that changes nothing ({none} of \
             {ROUNDS} do), {other:6.1} us one that does ({all})"
        );
    }
}

fn demand(n: usize, seed: u64) -> ServerDemand {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    let bytes = (0..n * n).map(|at| if at / n == at % n { 0 } else { next() }).collect();
    ServerDemand { n, bytes }
}
