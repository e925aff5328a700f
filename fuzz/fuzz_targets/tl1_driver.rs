//! Any bytes as what a switch says to its driver. Bytes from 0x80 order something first.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lightloom_control::drivers::tl1::{Login, Options, Secret, Tl1Driver};
use lightloom_control::{Driver, DriverEvent, Order, Patch};
use lightloom_units::Time;

fuzz_target!(|bytes: &[u8]| {
    let login = Login { user: "a".into(), password: Secret::new("b") };
    let mut driver = Tl1Driver::new(login, &[1, 2, 3], Options::default()).unwrap();
    driver.connected(Time::ZERO);
    let (mut ups, mut downs, mut asked, mut answered) = (0, 0, 0, 0);
    for piece in bytes.split_inclusive(|byte| *byte >= 0x80) {
        driver.receive(Time::ZERO, piece);
        if let Some(byte) = piece.last().filter(|byte| **byte >= 0x80) {
            let order = match byte % 3 {
                0 => Order::Read,
                _ => Order::Apply { end: vec![Patch::new(1, 9)], set: vec![Patch::new(1, 10)] },
            };
            asked += 1;
            driver.order(Time::ZERO, asked, &order);
        }
        while let Some(event) = driver.event() {
            match event {
                DriverEvent::Up { ports, .. } => {
                    ups += 1;
                    assert!((3..=4096).contains(&ports));
                }
                DriverEvent::Down(_) => downs += 1,
                DriverEvent::Answer { id, .. } => {
                    assert!(id > answered && id <= asked, "answers come in order, once");
                    answered = id;
                }
                DriverEvent::Term(_) | DriverEvent::Fenced(_) => panic!("TL1 has no terms"),
                DriverEvent::Notice(_) => {}
            }
        }
        assert!(ups <= 1 && downs <= 1);
    }
});
