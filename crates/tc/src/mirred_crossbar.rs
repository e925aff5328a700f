//! A crossbar of the kernel's own redirections (u32 and mirred), for who may not load programs.
//!
//! Modelled: a filter at the ingress of each port's NIC redirects every frame to the NIC where the port's circuit
//! leads, or, without light, to the loopback, which has no such address and drops it. It is replaced when the circuit
//! changes and again when there is light: the kernel does not look at the clock, whoever holds the crossbar does
//! ([`Crossbar::due_ns`]). Ports change one after another, those that go dark first.
//! What is counted is the kernel's count of each redirection, of which a port has one for each port that it was ever
//! joined to; filters that no frame comes to keep them.
//! Ignored: what [`crate::crossbar`] ignores; which lost frames carry data. After the process has ended circuits stand, as those
//! of a switch do whose computer has died, until the next one comes or the NICs are gone.
//! Checked: `tests/test_crossbar.py`.
//!
//! ```no_run
//! use lightloom_tc::{Crossbar, Light, MirredCrossbar};
//! use std::path::Path;
//! let mut crossbar = MirredCrossbar::attach(&["port1", "port2"], Path::new("counts"))?;
//! let lit = |egress| Light { egress: Some(egress), from_ns: 0 };
//! crossbar.set(&[lit(1), lit(0)], 1)?;
//! assert_eq!(MirredCrossbar::counts(Path::new("counts"))?.len(), 2);
//! # Ok::<(), lightloom_tc::Error>(())
//! ```

use crate::bpf::{Error, number_of};
use crate::crossbar::{Crossbar, Light, MOST_PORTS, Passed, soonest_ns};
use crate::netlink::{CREATE, LIST, Message, Socket, attribute, attributes};
use std::collections::BTreeSet;
use std::path::Path;

// What requests are called, and attributes in them: linux/rtnetlink.h, linux/pkt_cls.h.
const NEW_QDISC: u16 = 36;
const DELETE_QDISC: u16 = 37;
const NEW_FILTER: u16 = 44;
const GET_FILTER: u16 = 46;
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const SELECTOR: u16 = 5;
const ACTIONS: u16 = 7;
const ACTION_STATISTICS: u16 = 4;
const BASIC: u16 = 1;
const PACKETS: u16 = 8;
const PARAMETERS: u16 = 2;

const INGRESS_PARENT: u32 = 0xffff_fff1;
const INGRESS: u32 = 0xffff_0000;
/// The filter that frames come to: the first of the first table.
const LIVE: u32 = 0x8000_0800;
const LIVE_PRIORITY: u32 = 1;
/// Filters that keep what is counted.
const KEPT_PRIORITY: u32 = 2;

const REDIRECT: i32 = 1;
const STOLEN: i32 = 4;
/// The kernel counts what comes in without it.
const ETHERNET_HEADER: u64 = 14;
/// The first line of the file that says which NICs are counted.
const FIRST: &str = "lightloom crossbar of redirections, 1";

/// Of a redirection's number, the bits that say where it leads; those above them are the NIC's number.
const WAY_BITS: u32 = 11;

/// Where a port's frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Unconnected,
    Dark,
    Lit(u16),
}

impl Way {
    fn of(light: Light, ports: usize, now_ns: u64) -> Self {
        match light.egress.filter(|egress| usize::from(*egress) < ports) {
            None => Way::Unconnected,
            Some(_) if light.from_ns > now_ns => Way::Dark,
            Some(egress) => Way::Lit(egress),
        }
    }

    /// The number of a NIC's redirection: one in the network namespace, where other switches may be that have
    /// other NICs.
    fn number(self, nic: u32) -> u32 {
        let way = match self {
            Way::Unconnected => 0,
            Way::Dark => 1,
            Way::Lit(egress) => 2 + u32::from(egress), // at most 1025
        };
        nic << WAY_BITS | way
    }

    /// The same back, if it is one of the NIC's.
    fn from_number(number: u32, nic: u32) -> Option<Self> {
        match number & ((1 << WAY_BITS) - 1) {
            _ if number >> WAY_BITS != nic => None,
            0 => Some(Way::Unconnected),
            1 => Some(Way::Dark),
            way => Some(Way::Lit((way - 2) as u16)),
        }
    }
}

/// A switch of which this process holds the mirrors.
#[derive(Debug)]
pub struct MirredCrossbar {
    socket: Socket,
    /// By port: its NIC's number.
    nics: Vec<u32>,
    loopback: u32,
    /// By port: where its frames go.
    ways: Vec<Way>,
    /// Redirections that there are.
    kept: BTreeSet<u32>,
    due_ns: Option<u64>,
}

impl MirredCrossbar {
    /// Puts a dark crossbar between NICs of this network namespace, in the order of the switch's ports, in place of
    /// all that is at their ingresses. The file `at` says of which NICs it counts frames.
    ///
    /// # Errors
    /// If a NIC is missing, the file cannot be written, or rights are missing.
    pub fn attach(nics: &[&str], at: &Path) -> Result<Self, Error> {
        let place = |why: String| Error::Place { place: at.display().to_string(), why };
        if nics.is_empty() || nics.len() > MOST_PORTS {
            return Err(place(format!("{} NICs: a switch has 1 to {MOST_PORTS}", nics.len())));
        }
        let numbers = nics.iter().map(|nic| number_of(nic)).collect::<Result<Vec<_>, _>>()?;
        if let Some(high) = numbers.iter().find(|number| **number >> (32 - WAY_BITS) != 0) {
            return Err(place(format!(
                "a NIC has number {high}: redirections have no room for it"
            )));
        }
        let ways = vec![Way::Unconnected; nics.len()];
        let (socket, loopback) = (Socket::open()?, number_of("lo")?);
        let (kept, due_ns) = (BTreeSet::new(), None);
        let mut crossbar = MirredCrossbar { socket, nics: numbers, loopback, ways, kept, due_ns };
        for (port, nic) in nics.iter().enumerate() {
            crossbar.begin(port, nic)?;
        }
        let mut file = format!("{FIRST}\n");
        nics.iter().for_each(|nic| file.extend([*nic, "\n"]));
        std::fs::write(at, file).map_err(|why| place(why.to_string()))?;
        Ok(crossbar)
    }

    fn begin(&mut self, port: usize, nic: &str) -> Result<(), Error> {
        let mut before = Message::new(DELETE_QDISC, 0);
        before.raw(&traffic(self.nics[port], INGRESS, INGRESS_PARENT, 0));
        let _ = self.socket.ask(&before, ""); // there may have been none
        let mut ingress = Message::new(NEW_QDISC, CREATE);
        ingress.raw(&traffic(self.nics[port], INGRESS, INGRESS_PARENT, 0));
        ingress.attribute(KIND, b"ingress\0");
        self.socket.ask(&ingress, &format!("an ingress at {nic}"))?;
        // First: then it is in the first table.
        self.filter(port, LIVE, LIVE_PRIORITY, Way::Unconnected)?;
        self.keep(port, Way::Unconnected)?;
        self.keep(port, Way::Dark)
    }

    /// What became of frames, by port, of the crossbar whose file this is; in its network namespace.
    ///
    /// # Errors
    /// If it is no such file, or a NIC is gone.
    pub fn counts(at: &Path) -> Result<Vec<Passed>, Error> {
        let place = |why: String| Error::Place { place: at.display().to_string(), why };
        let file = std::fs::read_to_string(at).map_err(|why| place(why.to_string()))?;
        let mut lines = file.lines();
        if lines.next() != Some(FIRST) {
            return Err(place("is no file of a crossbar's counts".into()));
        }
        let nics: Vec<&str> = lines.collect();
        let mut socket = Socket::open()?;
        let counts = nics.iter().map(|nic| {
            let mut list = Message::new(GET_FILTER, LIST);
            let number = number_of(nic)?;
            list.raw(&traffic(number, 0, INGRESS, 0));
            let filters = socket.ask(&list, &format!("counts at {nic}"))?;
            Ok(passed(&filters, number))
        });
        counts.collect()
    }

    /// The port's frames go there from now on.
    fn lead(&mut self, port: usize, way: Way) -> Result<(), Error> {
        self.keep(port, way)?; // before: what is counted must not end with the filter
        self.filter(port, LIVE, LIVE_PRIORITY, way)?;
        self.ways[port] = way;
        Ok(())
    }

    fn keep(&mut self, port: usize, way: Way) -> Result<(), Error> {
        let number = way.number(self.nics[port]);
        if !self.kept.contains(&number) {
            self.filter(port, 0, KEPT_PRIORITY, way)?;
            self.kept.insert(number);
        }
        Ok(())
    }

    /// A filter that matches everything; of the same handle, it is replaced.
    fn filter(&mut self, port: usize, handle: u32, priority: u32, way: Way) -> Result<(), Error> {
        let to = match way {
            Way::Lit(egress) => self.nics[usize::from(egress)],
            Way::Dark | Way::Unconnected => self.loopback,
        };
        let every = priority << 16 | u32::from(3u16.to_be()); // all protocols
        let mut message = Message::new(NEW_FILTER, CREATE);
        message.raw(&traffic(self.nics[port], handle, INGRESS, every));
        message.attribute(KIND, b"u32\0");
        message.nested(OPTIONS, |options| {
            // One key, of no bits; and the filter ends the search.
            let mut selector = [0; 32];
            (selector[0], selector[2]) = (1, 1);
            options.attribute(SELECTOR, &selector);
            options.nested(ACTIONS, |actions| {
                actions.nested(1, |action| {
                    action.attribute(KIND, b"mirred\0");
                    let number = way.number(self.nics[port]);
                    action.nested(OPTIONS, |options| {
                        options.attribute(PARAMETERS, &redirection(number, to));
                    });
                });
            });
        });
        self.socket.ask(&message, &format!("a redirection at port {}", port + 1)).map(drop)
    }
}

impl Crossbar for MirredCrossbar {
    fn ports(&self) -> usize {
        self.nics.len()
    }

    fn set(&mut self, lights: &[Light], now_ns: u64) -> Result<(), Error> {
        assert_eq!(lights.len(), self.nics.len());
        let ways = lights.iter().map(|light| Way::of(*light, lights.len(), now_ns));
        let mut changes: Vec<(Way, usize)> =
            ways.zip(0..).filter(|(way, port)| *way != self.ways[*port]).collect();
        changes.sort(); // dark first: no two circuits end at one port
        for (way, port) in changes {
            self.lead(port, way)?;
        }
        self.due_ns = soonest_ns(lights, now_ns);
        Ok(())
    }

    fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }
}

/// `struct tcmsg`.
fn traffic(nic: u32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    for (at, word) in [nic, handle, parent, info].into_iter().enumerate() {
        bytes[4 + 4 * at..8 + 4 * at].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// `struct tc_mirred`.
fn redirection(number: u32, to: u32) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[..4].copy_from_slice(&number.to_ne_bytes());
    bytes[8..12].copy_from_slice(&STOLEN.to_ne_bytes());
    bytes[20..24].copy_from_slice(&REDIRECT.to_ne_bytes());
    bytes[24..].copy_from_slice(&to.to_ne_bytes());
    bytes
}

/// What a port's filters have counted.
fn passed(filters: &[Vec<u8>], nic: u32) -> Passed {
    let mut passed = Passed::default();
    for filter in filters {
        let Some((way, frames, bytes)) = counted(filter, nic) else { continue };
        match way {
            Way::Unconnected => passed.unconnected += frames,
            Way::Dark => passed.dark += frames,
            Way::Lit(_) => {
                passed.forwarded += frames;
                passed.bytes += bytes + ETHERNET_HEADER * frames;
            }
        }
    }
    passed
}

/// Which redirection a filter keeps, and its frames and bytes; none if it is the live one.
fn counted(filter: &[u8], nic: u32) -> Option<(Way, u64, u64)> {
    let word =
        |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if word(filter, 16)? >> 16 != KEPT_PRIORITY {
        return None;
    }
    let options = attribute(filter.get(20..)?, OPTIONS)?;
    let (_, action) = attributes(attribute(options, ACTIONS)?).next()?;
    let number = word(attribute(attribute(action, OPTIONS)?, PARAMETERS)?, 0)?;
    let statistics = attribute(action, ACTION_STATISTICS)?;
    let basic = attribute(statistics, BASIC)?;
    let bytes = u64::from_ne_bytes(basic.get(..8)?.try_into().ok()?);
    let frames = match attribute(statistics, PACKETS) {
        Some(long) => u64::from_ne_bytes(long.get(..8)?.try_into().ok()?),
        None => u64::from(word(basic, 8)?),
    };
    Some((Way::from_number(number, nic)?, frames, bytes))
}

#[cfg(test)]
mod tests {
    use super::{MOST_PORTS, WAY_BITS, Way};
    use std::collections::BTreeSet;

    #[test]
    fn every_redirection_has_a_number_of_its_own() {
        let mut numbers = BTreeSet::new();
        for nic in [1, 2, 77, (1 << (32 - WAY_BITS)) - 1] {
            let lit = [0, 1, 4, MOST_PORTS as u16 - 1].map(Way::Lit);
            for way in [Way::Unconnected, Way::Dark].into_iter().chain(lit) {
                let number = way.number(nic);
                assert!(number > 0 && numbers.insert(number));
                assert_eq!(Way::from_number(number, nic), Some(way));
                assert_eq!(Way::from_number(number, nic + 1), None);
            }
        }
    }
}
