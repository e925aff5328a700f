//! The TL1 driver against the emulated switch, by the suite of all drivers.

use lightloom_control::conformance::Peer;
use lightloom_control::drivers::tl1::{
    PROTOCOL, Secret, SessionId, Settings, Stamp, Tl1Server, User,
};
use lightloom_control::ocs::{Device, Switch};
use lightloom_control::{Patch, driver_conformance};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;

struct Emulated {
    server: Tl1Server,
    session: Option<SessionId>,
}

impl Peer for Emulated {
    fn open(&mut self, _: Time) {
        self.session = Some(self.server.open());
    }

    fn close(&mut self, _: Time) {
        if let Some(session) = self.session.take() {
            self.server.close(session);
        }
    }

    fn receive(&mut self, now: Time, bytes: &[u8]) {
        if let Some(session) = self.session {
            self.server.receive(now, session, bytes);
        }
    }

    fn transmit(&mut self, _: Time) -> Option<Vec<u8>> {
        self.server.transmit(self.session?)
    }

    fn next_timeout(&self) -> Option<Time> {
        self.server.next_timeout()
    }

    fn timeout(&mut self, now: Time) {
        self.server.timeout(now);
    }

    fn patches(&self) -> Vec<Patch> {
        let mut patches: Vec<_> = self.server.switch().patches().collect();
        patches.sort_unstable();
        patches
    }
}

fn taking(delay: Time) -> impl Fn(u16) -> Emulated {
    move |ports| {
        let delay = ReconfigurationDelay::Fixed { ps: delay };
        let device = Device { name: "polatis".into(), ports, delay };
        let user = User { name: "root".into(), password: Secret::new("root"), slice: None };
        let settings =
            Settings { sid: "OCS".into(), users: vec![user], start: Stamp::from_unix(0) };
        let switch = Switch::new(device, 1).expect("a size that switches have");
        Emulated { server: Tl1Server::new(switch, settings), session: None }
    }
}

driver_conformance!(at_once, PROTOCOL, taking(Time::ZERO));
driver_conformance!(slowly, PROTOCOL, taking(Time::from_ms(25)));
