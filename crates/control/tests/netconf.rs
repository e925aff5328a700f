//! The NETCONF driver against switches in memory of every manner of speaking.

mod netconf_peer;

use lightloom_control::driver_conformance;
use lightloom_control::netconf::{NetconfDriver, NetconfSettings};
use netconf_peer::{Manner, Switch};

fn speaking(manner: Manner) -> impl Fn(u16, Vec<u16>) -> (NetconfDriver, Switch) {
    move |ports, slice| {
        (NetconfDriver::new(NetconfSettings::new(ports, slice)), Switch::new(ports, manner))
    }
}

driver_conformance!(today, speaking(Manner::TODAY));
driver_conformance!(without_chunks, speaking(Manner { chunks: false, ..Manner::TODAY }));
driver_conformance!(by_candidate, speaking(Manner { writable: false, ..Manner::TODAY }));
driver_conformance!(of_old, speaking(Manner { old: true, inventory: false, ..Manner::TODAY }));
