use super::client::{LineDriver, MAX_LINE};
use super::words::{parse_patch, parse_ports};
use super::*;
use crate::conformance::Peer;
use crate::driver::{Driver, DriverEvent, Order, Patch};
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// A switch of the protocol.
struct Switch {
    ports: u16,
    /// The latest version that it speaks.
    version: u16,
    egress: BTreeMap<u16, u16>,
    /// By port: the last term. None is 0.
    terms: Vec<u64>,
    line: Vec<u8>,
    out: VecDeque<Vec<u8>>,
}

fn of_version(ports: u16, version: u16) -> Switch {
    let terms = vec![0; usize::from(ports) + 1];
    Switch {
        ports,
        version,
        egress: BTreeMap::new(),
        terms,
        line: Vec::new(),
        out: VecDeque::new(),
    }
}

fn dark(ports: u16) -> Switch {
    of_version(ports, 2)
}

fn without_terms(ports: u16) -> Switch {
    of_version(ports, 1)
}

impl Switch {
    /// Answers a command: lines without their number.
    fn call(&mut self, command: &str) -> Result<Vec<String>, String> {
        let words: Vec<&str> = command.split(' ').collect();
        match words[..] {
            ["hello", version @ ("1" | "2")] if version <= self.version.to_string().as_str() => {
                return Ok(vec![format!("ok {version} {} in memory", self.ports)]);
            }
            ["claim", list] if self.version > 1 => {
                let ports = parse_ports(list, self.ports).ok_or("no such ports")?;
                let term = 1 + self.terms.iter().max().expect("ports");
                ports.iter().for_each(|&port| self.terms[usize::from(port)] = term);
                return Ok(vec![format!("ok {term}")]);
            }
            ["hold", term, list] if self.version > 1 => {
                return self.old(&parse_ports(list, self.ports).ok_or("ports?")?, term);
            }
            [word @ ("connect" | "disconnect"), ingress, egress, ref term @ ..] => {
                let patch = parse_patch(&format!("{ingress} {egress}"), self.ports);
                let Patch { ingress, egress } = patch.ok_or("no such port")?;
                if self.version > 1 {
                    let term = term.first().ok_or("without a term")?;
                    let old = self.old(&[ingress, egress - self.ports], term)?;
                    if old != ["ok"] {
                        return Ok(old);
                    }
                }
                self.patch(word == "connect", ingress, egress)?;
            }
            ["show"] => {
                let shown = self.egress.iter().map(|(from, to)| format!("patch {from} {to}"));
                return Ok(shown.chain([format!("ok {}", self.egress.len())]).collect());
            }
            _ => return Err(format!("{command}?")),
        }
        Ok(vec!["ok".into()])
    }

    fn old(&self, ports: &[u16], term: &str) -> Result<Vec<String>, String> {
        let term: u64 = term.parse().map_err(|_| "no term")?;
        let last = ports.iter().map(|&port| self.terms[usize::from(port)]);
        let other = last.filter(|&last| last != term).max();
        Ok(vec![other.map_or("ok".into(), |last| format!("old {last}"))])
    }

    fn patch(&mut self, set: bool, ingress: u16, egress: u16) -> Result<(), String> {
        let used = |(&from, &to): (&u16, &u16)| from == ingress || to == egress;
        if set && !self.egress.iter().any(used) {
            self.egress.insert(ingress, egress);
        } else if !set && self.egress.get(&ingress) == Some(&egress) {
            self.egress.remove(&ingress);
        } else {
            return Err(format!("port {ingress} or {egress} is in use, or not"));
        }
        Ok(())
    }
}

impl Peer for Switch {
    fn open(&mut self, _: Time) {}

    fn close(&mut self, _: Time) {
        self.line.clear();
        self.out.clear();
    }

    fn receive(&mut self, _: Time, bytes: &[u8]) {
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = String::from_utf8(std::mem::take(&mut self.line)).expect("ASCII");
            let (number, command) = line.split_once(' ').expect("a number and a command");
            let answers = self.call(command).unwrap_or_else(|why| vec![format!("err {why}")]);
            let lines = answers.iter().map(|answer| format!("{number} {answer}\n"));
            self.out.extend(lines.map(String::into_bytes));
        }
    }

    fn transmit(&mut self, _: Time) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn timeout(&mut self, _: Time) {}

    fn patches(&self) -> Vec<Patch> {
        self.egress.iter().map(|(&ingress, &egress)| Patch { ingress, egress }).collect()
    }
}

crate::driver_conformance!(PROTOCOL, dark);
crate::driver_conformance!(version_1, Protocol { fences: false, ..PROTOCOL }, without_terms);

/// A driver that is up, with an order to read sent as command 3.
fn reading() -> LineDriver {
    let mut driver = LineDriver::new(&[1, 2]);
    driver.connected(Time::ZERO);
    driver.receive(Time::ZERO, b"1 ok 2 4 test\n2 ok 7\n");
    assert_eq!(driver.event(), Some(DriverEvent::Term(7)));
    assert!(matches!(driver.event(), Some(DriverEvent::Up { ports: 4, .. })));
    driver.order(Time::ZERO, 9, &Order::Read);
    driver
}

#[test]
fn lines_that_make_no_sense_end_the_session() {
    let cases = [
        "4 ok 0",                   // of a command that was not sent
        "2 ok 7",                   // late: answered already
        "03 ok 0",                  // not as it was sent
        "3 ok",                     // no count
        "3 ok 1",                   // a patch was lost
        "3 patch 1 9",              // no such egress
        "3 patch 5 6",              // no such ingress
        "3 patch 2 5\n3 patch 1 6", // ingresses must rise
        "3 patch 1 5\n3 patch 1 5", // twice
        "3 patch 1",                // cut
        "3 okay 0",
        "3 err",
        "3 old 8", // reading needs no term
        "3",
        "",
        "3 ok 0\r",
        "3 \u{fc}",
    ];
    for case in cases {
        let mut driver = reading();
        driver.receive(Time::ZERO, case.as_bytes());
        driver.receive(Time::ZERO, b"\n");
        assert!(matches!(driver.event(), Some(DriverEvent::Down(_))), "{case}");
        assert_eq!(driver.event(), None, "{case}");
    }
}

#[test]
fn a_line_is_bounded() {
    let mut driver = reading();
    let note = format!("note {}", "x".repeat(MAX_LINE - 6));
    driver.receive(Time::ZERO, note.as_bytes());
    driver.receive(Time::ZERO, b"\n");
    assert!(matches!(driver.event(), Some(DriverEvent::Notice(_))));
    driver.receive(Time::ZERO, note.as_bytes());
    assert_eq!(driver.event(), None);
    driver.receive(Time::ZERO, b"x");
    assert!(matches!(driver.event(), Some(DriverEvent::Down(_))));
}

#[test]
fn an_answer_of_the_last_session_is_none_of_this_one() {
    let mut driver = reading();
    driver.disconnected(Time::ZERO);
    driver.connected(Time::ZERO);
    assert_eq!(driver.transmit().as_deref(), Some(&b"4 hello 2\n"[..]));
    driver.receive(Time::ZERO, b"3 ok 0\n");
    assert!(matches!(driver.event(), Some(DriverEvent::Down(_))));
}

#[test]
fn whoever_has_a_term_does_not_go_back_to_version_1() {
    let mut driver = reading();
    driver.disconnected(Time::ZERO);
    driver.connected(Time::ZERO);
    driver.receive(Time::ZERO, b"4 err the switch is away\n");
    assert_eq!(driver.event(), Some(DriverEvent::Down("the switch is away".into())));
}

#[test]
fn a_switch_that_takes_no_version_is_down_in_its_own_words() {
    let mut driver = LineDriver::new(&[1]);
    driver.connected(Time::ZERO);
    driver.receive(Time::ZERO, b"1 err what?\n");
    assert_eq!(driver.transmit().as_deref(), Some(&b"1 hello 2\n2 hello 1\n"[..]));
    driver.receive(Time::ZERO, b"2 err the switch is away\n");
    assert_eq!(driver.event(), Some(DriverEvent::Down("the switch is away".into())));
}

#[test]
fn a_claim_that_is_cut_off_is_made_again() {
    let mut driver = reading();
    driver.receive(Time::ZERO, b"3 ok 0\n");
    assert!(matches!(driver.event(), Some(DriverEvent::Answer { .. })));
    driver.claim(Time::ZERO);
    driver.disconnected(Time::ZERO);
    driver.transmit();
    driver.connected(Time::ZERO);
    driver.receive(Time::ZERO, b"5 ok 2 4 test\n");
    assert_eq!(driver.transmit().as_deref(), Some(&b"5 hello 2\n6 claim 1-2\n"[..]));
    for term in ["x", "-1", "", "7 8"] {
        let mut driver = LineDriver::new(&[1]);
        driver.connected(Time::ZERO);
        driver.receive(Time::ZERO, b"1 ok 2 4 test\n");
        driver.receive(Time::ZERO, format!("2 ok {term}\n").as_bytes());
        assert!(matches!(driver.event(), Some(DriverEvent::Down(_))), "{term}");
    }
}
