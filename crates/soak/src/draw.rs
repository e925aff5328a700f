//! The region of a scenario and the patience of its controller.

use crate::chance::Chance;
use lightloom_control::{Region, Settings, SwitchPort};

/// Patience at random.
pub(crate) fn settings(chance: &mut Chance) -> Settings {
    Settings {
        lease: chance.ms(300, 2_000),
        grace: chance.ms(20, 200),
        gather: chance.ms(0, 20),
        patience: chance.ms(100, 600),
        lifetime: chance.ms(100, 600),
        attempts: chance.between(1, 3) as u32,
        audit: chance.ms(500, 5_000),
        retry: chance.ms(1_000, 8_000),
        reconnect: chance.ms(10, 300),
        start_even: chance.hit(700),
    }
}

/// 2 to 8 servers of 1 to 4 ports, anywhere on a switch or on up to three, of one or two tenants.
pub(crate) fn region(chance: &mut Chance) -> Region {
    let (servers, degree) = (chance.between(2, 8) as usize, chance.between(1, 4) as usize);
    let ports = (servers * degree) as u16 + chance.below(5) as u16;
    let mut wiring: Vec<u16> = (1..=ports).collect();
    chance.shuffle(&mut wiring);
    wiring.truncate(servers * degree);
    let two = u16::from(servers >= 4 && chance.hit(300));
    let tenants = (0..servers as u16).map(|server| if two == 1 { server % 2 } else { 0 }).collect();
    let numa = (0..degree).map(|port| u8::from(port >= degree.div_ceil(2))).collect();
    let switches = if degree > 1 && chance.hit(300) { chance.between(2, 3) as u16 } else { 1 };
    // Mostly in turn, so that all are of use.
    let anywhere = chance.hit(200);
    let switch = |(at, port): (usize, u16), chance: &mut Chance| {
        let turn = (at % degree) as u16 % switches;
        let switch = if anywhere { chance.below(switches.into()) as u16 } else { turn };
        SwitchPort { switch, port }
    };
    let wiring = wiring.into_iter().enumerate().map(|one| switch(one, chance)).collect();
    Region::over(&vec![ports; usize::from(switches)], wiring, tenants, numa)
        .expect("2 servers and more, every port once")
}
