//! The emulated switch that speaks NETCONF, on one stream, for the suite of all drivers.

use lightloom_control::Patch;
use lightloom_control::conformance::Peer;
use lightloom_control::drivers::netconf::{Manner, NetconfServer};
use lightloom_control::ocs;
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;

pub struct Switch {
    server: NetconfServer,
    session: u64,
}

impl Switch {
    /// A dark switch.
    pub fn new(ports: u16, manner: Manner) -> Self {
        let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(25) };
        let device = ocs::Device { name: "in memory".into(), ports, delay };
        let switch = ocs::Switch::new(device, 1).expect("it has ports");
        Switch { server: NetconfServer::new(switch, manner), session: 0 }
    }
}

impl Peer for Switch {
    fn open(&mut self, _: Time) {
        self.session = self.server.open();
    }

    fn close(&mut self, _: Time) {
        self.server.close(self.session);
    }

    fn receive(&mut self, now: Time, bytes: &[u8]) {
        self.server.receive(now, self.session, bytes);
    }

    fn transmit(&mut self, _: Time) -> Option<Vec<u8>> {
        self.server.transmit(self.session)
    }

    fn next_timeout(&self) -> Option<Time> {
        self.server.next_timeout()
    }

    fn timeout(&mut self, now: Time) {
        self.server.timeout(now);
    }

    fn patches(&self) -> Vec<Patch> {
        self.server.switch().patches().collect()
    }
}
