//! How much processor time a reconfiguration costs in TL1, driver and switch together: 192 circuits of
//! 384 ports are ended and 192 others set, then all are read back. No network, no delay of mirrors.
//!
//! `cargo run --release -p lightloom-control --example tl1_apply`

use lightloom_control::drivers::tl1::{
    Login, Options, Secret, Settings, Stamp, Tl1Driver, Tl1Server, User,
};
use lightloom_control::ocs::{Device, Switch};
use lightloom_control::{Answer, Driver, DriverEvent, Order, Patch};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use std::time::Instant;

const PORTS: u16 = 384;
const ROUNDS: u64 = 2000;

fn main() {
    let delay = ReconfigurationDelay::Fixed { ps: Time::ZERO };
    let device = Device { name: "polatis".into(), ports: PORTS, delay };
    let switch = Switch::new(device, 1).expect("384 ports and a fixed delay are a switch");
    let password = Secret::new("root");
    let user = User { name: "root".into(), password: password.clone(), slice: None };
    let settings =
        Settings { sid: "OCS".into(), users: vec![user], start: Stamp::from_unix(1_795_282_198) };
    let mut server = Tl1Server::new(switch, settings);
    let session = server.open();
    let slice: Vec<u16> = (1..=PORTS).collect();
    let login = Login { user: "root".into(), password };
    let mut driver =
        Tl1Driver::new(login, &slice, Options::default()).expect("the login is plain text");
    driver.connected(Time::ZERO);

    // Each port with the one so far from it, around the ring of the ports of its half.
    let circuits = |round: u64| -> Vec<Patch> {
        let half = PORTS / 2;
        let turn = (round * 37 % u64::from(half)) as u16;
        (0..half).flat_map(|at| Patch::pair(PORTS, 1 + at, 1 + half + (at + turn) % half)).collect()
    };
    let mut held = Vec::new();
    let mut spent = Vec::new();
    for round in 0..ROUNDS {
        let set = circuits(round);
        let began = Instant::now();
        let order = Order::Apply { end: std::mem::take(&mut held), set: set.clone() };
        driver.order(Time::ZERO, 2 * round, &order);
        driver.order(Time::ZERO, 2 * round + 1, &Order::Read);
        let mut state = None;
        while state.is_none() {
            while let Some(bytes) = driver.transmit() {
                server.receive(Time::ZERO, session, &bytes);
            }
            while let Some(bytes) = server.transmit(session) {
                driver.receive(Time::ZERO, &bytes);
            }
            while let Some(event) = driver.event() {
                match event {
                    DriverEvent::Up { .. } => {
                        driver.order(Time::ZERO, 2 * round, &order);
                        driver.order(Time::ZERO, 2 * round + 1, &Order::Read);
                    }
                    DriverEvent::Answer { answer: Answer::State(patches), .. } => {
                        state = Some(patches);
                    }
                    _ => {}
                }
            }
        }
        spent.push(began.elapsed());
        let mut wanted = set.clone();
        wanted.sort_unstable();
        assert_eq!(state, Some(wanted), "round {round} reads back as it was asked");
        held = set;
    }
    spent.sort();
    let at = |share: f64| spent[(share * (ROUNDS - 1) as f64) as usize];
    println!(
        "{PORTS} ports, 192 circuits changed and read back: p50 {:?}, p99 {:?}",
        at(0.5),
        at(0.99)
    );
}
