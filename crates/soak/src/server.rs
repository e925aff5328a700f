//! The switch's end of its streams, whatever is spoken over them.

use crate::line_server::LineServer;
use lightloom_control::drivers::netconf::NetconfServer;
use lightloom_control::drivers::tl1::{SessionId, Tl1Server};
use lightloom_control::ocs::Switch;
use lightloom_units::Time;
use std::collections::BTreeMap;

/// A switch, and the sessions over which it is spoken to, by number.
pub(crate) trait Server {
    fn switch(&self) -> &Switch;
    fn switch_mut(&mut self) -> &mut Switch;
    fn open(&mut self) -> u64;
    /// What its commands began goes on.
    fn close(&mut self, session: u64);
    fn receive(&mut self, now: Time, session: u64, bytes: &[u8]);
    fn transmit(&mut self, session: u64) -> Option<Vec<u8>>;
    /// Sessions that have bytes to be sent.
    fn waiting(&self) -> Vec<u64>;
    fn next_timeout(&self) -> Option<Time>;
    fn timeout(&mut self, now: Time);
}

/// The server of TL1, with its sessions by number.
#[derive(Clone, Debug)]
pub(crate) struct Tl1 {
    server: Tl1Server,
    sessions: BTreeMap<u64, SessionId>,
    opened: u64,
}

impl Tl1 {
    pub fn new(server: Tl1Server) -> Self {
        Tl1 { server, sessions: BTreeMap::new(), opened: 0 }
    }
}

impl Server for Tl1 {
    fn switch(&self) -> &Switch {
        self.server.switch()
    }

    fn switch_mut(&mut self) -> &mut Switch {
        self.server.switch_mut()
    }

    fn open(&mut self) -> u64 {
        self.opened += 1;
        self.sessions.insert(self.opened, self.server.open());
        self.opened
    }

    fn close(&mut self, session: u64) {
        if let Some(id) = self.sessions.remove(&session) {
            self.server.close(id);
        }
    }

    fn receive(&mut self, now: Time, session: u64, bytes: &[u8]) {
        if let Some(id) = self.sessions.get(&session) {
            self.server.receive(now, *id, bytes);
        }
    }

    fn transmit(&mut self, session: u64) -> Option<Vec<u8>> {
        self.server.transmit(*self.sessions.get(&session)?)
    }

    fn waiting(&self) -> Vec<u64> {
        let waiting: Vec<SessionId> = self.server.waiting().collect();
        let waits = |(_, id): &(&u64, &SessionId)| waiting.contains(id);
        self.sessions.iter().filter(waits).map(|(session, _)| *session).collect()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.server.next_timeout()
    }

    fn timeout(&mut self, now: Time) {
        self.server.timeout(now);
    }
}

impl Server for NetconfServer {
    fn switch(&self) -> &Switch {
        self.switch()
    }

    fn switch_mut(&mut self) -> &mut Switch {
        self.switch_mut()
    }

    fn open(&mut self) -> u64 {
        self.open()
    }

    fn close(&mut self, session: u64) {
        self.close(session);
    }

    fn receive(&mut self, now: Time, session: u64, bytes: &[u8]) {
        self.receive(now, session, bytes);
    }

    fn transmit(&mut self, session: u64) -> Option<Vec<u8>> {
        self.transmit(session)
    }

    fn waiting(&self) -> Vec<u64> {
        self.waiting().collect()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.next_timeout()
    }

    fn timeout(&mut self, now: Time) {
        self.timeout(now);
    }
}

impl Server for LineServer {
    fn switch(&self) -> &Switch {
        &self.switch
    }

    fn switch_mut(&mut self) -> &mut Switch {
        &mut self.switch
    }

    fn open(&mut self) -> u64 {
        self.open()
    }

    fn close(&mut self, session: u64) {
        self.close(session);
    }

    fn receive(&mut self, now: Time, session: u64, bytes: &[u8]) {
        self.receive(now, session, bytes);
    }

    fn transmit(&mut self, session: u64) -> Option<Vec<u8>> {
        self.transmit(session)
    }

    fn waiting(&self) -> Vec<u64> {
        self.waiting().collect()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.switch.next_timeout()
    }

    fn timeout(&mut self, now: Time) {
        self.timeout(now);
    }
}
