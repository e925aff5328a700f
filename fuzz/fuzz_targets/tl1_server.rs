//! Any bytes into two sessions of an emulated switch. A byte of 0xff changes the session, one of 0xfe
//! lets a millisecond pass, one of 0xfd makes a port stuck.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lightloom_control::ocs::{Device, Switch};
use lightloom_control::drivers::tl1::{Frame, Framer, Message, Secret, Settings, Stamp, Tl1Server, User};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;

const PORTS: u16 = 16;

fuzz_target!(|bytes: &[u8]| {
    let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(2) };
    let switch = Switch::new(Device { name: "fuzz".into(), ports: PORTS, delay }, 1).unwrap();
    let user = |name: &str, slice| User { name: name.into(), password: Secret::new(name), slice };
    let users = vec![user("a", None), user("b", Some((1..=8).collect()))];
    let settings = Settings { sid: "OCS".into(), users, start: Stamp::from_unix(0) };
    let mut server = Tl1Server::new(switch, settings);
    let sessions = [server.open(), server.open()];
    // Whoever comes first may do all; the other begins within its slice, so that slices are met.
    server.receive(Time::ZERO, sessions[1], b"ACT-USER::b:1::b;");
    let mut framers = [Framer::replies(1 << 20), Framer::replies(1 << 20)];
    let (mut now, mut at) = (Time::ZERO, 0);
    for piece in bytes.split_inclusive(|byte| *byte >= 0xfd) {
        let (text, control) = match piece.split_last() {
            Some((control, text)) if *control >= 0xfd => (text, *control),
            _ => (piece, 0),
        };
        server.receive(now, sessions[at], text);
        match control {
            0xff => at = 1 - at,
            0xfe => {
                now += Time::from_ms(1);
                server.timeout(now);
            }
            0xfd => server.switch_mut().stick(text.len() as u16 % (2 * PORTS + 2), true),
            _ => {}
        }
        let mut used = [false; 2 * PORTS as usize];
        for patch in server.switch().patches() {
            assert!(patch.ingress <= PORTS && patch.egress > PORTS);
            for port in [patch.ingress, patch.egress] {
                assert!(!std::mem::replace(&mut used[usize::from(port) - 1], true));
            }
        }
        for (session, framer) in sessions.iter().zip(&mut framers) {
            let Some(out) = server.transmit(*session) else { continue };
            assert!(out.len() <= 4 << 20);
            let mut input = &out[..];
            while let Some(frame) = framer.next(&mut input) {
                let Frame::Whole(text, b';') = frame else { panic!("not a whole message") };
                Message::parse(std::str::from_utf8(&text).unwrap()).unwrap();
            }
            assert!(framer.held() == 0);
        }
    }
});
