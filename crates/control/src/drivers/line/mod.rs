//! A line protocol: a command a line, for switches without a protocol of their own and for tests.
//!
//! Lines are printable ASCII, at most 256 bytes with the line feed that ends them (16 KiB where they name many
//! ports); words are separated by one blank. Each command begins with a number, its answer with the same number; numbers rise by 1, over
//! sessions too. The driver may send commands before earlier ones are answered; the switch carries
//! them out and answers them in their order. Ports are numbered as in [`Patch`](crate::Patch).
//!
//! | command | answers | meaning |
//! | --- | --- | --- |
//! | `1 hello 2` | `1 ok 2 16 polatis` | first of a session: the version; then the version, the ports, the device's name |
//! | `2 connect 3 21` | `2 ok` | ingress 3 is patched to egress 21; neither may be in use; answered once it is done |
//! | `3 disconnect 3 21` | `3 ok` | that patch, which must stand, is ended |
//! | `4 show` | `4 patch 1 18`, `4 patch 5 19`, `4 ok 2` | all patches by rising ingress; then how many |
//! | `5 claim 1-3,5` | `5 ok 7` | version 2: a term for these ports, greater than any before; changes of them need it from now on |
//! | `6 hold 7 1-3,5` | `6 ok`, `6 old 8` | version 2: whether term 7 is the last of all these ports |
//! | any | `5 err port 3 is in use` | it is not done, and why; nothing has changed |
//!
//! The switch may say `note WORDS` between any two answers.
//!
//! Version 2 has terms: `2 connect 3 21 7` and `3 disconnect 3 21 7` carry the one that was issued for the ports. If
//! it is not the last of both, nothing is changed, and the answer is `2 old 8`, with the last. A port that nobody has
//! claimed takes no change. Ports of different claims do not concern each other, so regions may share a switch. A
//! switch that knows only version 1 says `err` to `hello 2`; the driver then says `hello 1`, and there are no terms. A
//! driver that has a term does not do so.
//!
//! Modelled: the driver sends all commands of one order at once, and the next order's once they are
//! answered. A line that is too long, is no answer, or has another number than the next ends the
//! session, so an answer that comes late is never taken for another's. Ignored: logins and checksums;
//! use TLS or `ssh`. Checked: by the suite of all drivers against a switch in memory; below.
//!
//! ```
//! use lightloom_control::drivers::line::PROTOCOL;
//! use lightloom_control::protocol::Connection;
//! use lightloom_control::{DriverEvent, Order, Patch};
//! use lightloom_units::Time;
//! let now = Time::ZERO;
//! let connection = Connection { ports: 16, slice: vec![1, 2, 3, 5], ..Connection::default() };
//! let mut driver = (PROTOCOL.driver)(&connection).unwrap();
//! driver.connected(now);
//! assert_eq!(driver.transmit().unwrap(), b"1 hello 2\n");
//! driver.receive(now, b"1 ok 2 16 polatis\n");
//! assert_eq!(driver.transmit().unwrap(), b"2 claim 1-3,5\n");
//! driver.receive(now, b"2 ok 7\n");
//! assert_eq!(driver.event(), Some(DriverEvent::Term(7)));
//! assert_eq!(driver.event(), Some(DriverEvent::Up { device: "polatis".into(), ports: 16 }));
//! driver.order(now, 7, &Order::Apply { end: vec![], set: Patch::pair(16, 3, 5).to_vec() });
//! assert_eq!(driver.transmit().unwrap(), b"3 connect 3 21 7\n4 connect 5 19 7\n");
//! ```

mod client;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use words::{parse_patch, parse_ports};

use crate::protocol::{Protocol, Reach};

/// The line protocol in the list of drivers.
pub const PROTOCOL: Protocol = Protocol {
    name: "line",
    title: "a line protocol, a command a line, as crates/control/src/drivers/line/mod.rs says",
    reach: Reach::Tcp,
    whole: false,
    fences: true,
    settings: &[],
    driver: |connection| Ok(Box::new(client::LineDriver::new(&connection.slice))),
};
