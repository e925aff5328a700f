//! A line protocol: a command a line, for switches without a protocol of their own and for tests.
//!
//! Lines are printable ASCII, at most 256 bytes with the line feed that ends them; words are separated by
//! one blank. Each command begins with a number, its answer with the same number; numbers rise by 1, over
//! sessions too. The driver may send commands before earlier ones are answered; the switch carries
//! them out and answers them in their order. Ports are numbered as in [`Patch`].
//!
//! | command | answers | meaning |
//! | --- | --- | --- |
//! | `1 hello 1` | `1 ok 1 16 polatis` | first of a session: the version, 1; then the version, the ports, the device's name |
//! | `2 connect 3 21` | `2 ok` | ingress 3 is patched to egress 21; neither may be in use; answered once it is done |
//! | `3 disconnect 3 21` | `3 ok` | that patch, which must stand, is ended |
//! | `4 show` | `4 patch 1 18`, `4 patch 5 19`, `4 ok 2` | all patches by rising ingress; then how many |
//! | any | `5 err port 3 is in use` | it is not done, and why; nothing has changed |
//!
//! The switch may say `note WORDS` between any two answers.
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
//! assert_eq!(driver.transmit().unwrap(), b"1 hello 1\n");
//! driver.receive(now, b"1 ok 1 16 polatis\n");
//! assert_eq!(driver.event(), Some(DriverEvent::Up { device: "polatis".into(), ports: 16 }));
//! driver.order(now, 7, &Order::Apply { end: vec![], set: Patch::pair(16, 3, 5).to_vec() });
//! assert_eq!(driver.transmit().unwrap(), b"2 connect 3 21\n3 connect 5 19\n");
//! ```

use crate::driver::{Answer, Driver, DriverEvent, Order, Patch};
use crate::protocol::{Protocol, Reach};
use lightloom_units::Time;
use std::collections::VecDeque;

/// The line protocol in the list of drivers.
pub const PROTOCOL: Protocol = Protocol {
    name: "line",
    title: "a line protocol, a command a line, as crates/control/src/drivers/line.rs says",
    reach: Reach::Tcp,
    whole: false,
    fences: false,
    settings: &[],
    driver: |connection| Ok(Box::new(LineDriver::new(&connection.slice))),
};

/// No line is longer, with its end \[B\].
const MAX_LINE: usize = 256;
/// The switch has answered the greeting by then.
const PATIENCE: Time = Time::from_ms(5_000);

struct LineDriver {
    slice: Vec<u16>,
    phase: Phase,
    /// What has come of a line.
    line: Vec<u8>,
    /// The number of the last command that was sent, and of the last that was answered.
    sent: u64,
    answered: u64,
    under_way: Option<Job>,
    queue: VecDeque<(u64, Order)>,
    outgoing: String,
    events: VecDeque<DriverEvent>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No stream, or one that made no sense.
    Down,
    /// Until when the greeting must be answered.
    Greeting(Time),
    /// The ports of the switch.
    Up(u16),
}

/// An order whose commands are sent.
struct Job {
    id: u64,
    refused: Option<String>,
    /// The patches that have been shown, if the order is to read.
    shown: Option<Vec<Patch>>,
}

impl LineDriver {
    fn new(slice: &[u16]) -> Self {
        LineDriver {
            slice: slice.to_vec(),
            phase: Phase::Down,
            line: Vec::new(),
            sent: 0,
            answered: 0,
            under_way: None,
            queue: VecDeque::new(),
            outgoing: String::new(),
            events: VecDeque::new(),
        }
    }

    fn forget(&mut self) {
        self.phase = Phase::Down;
        self.line.clear();
        self.answered = self.sent;
        self.under_way = None;
        self.queue.clear();
        self.outgoing.clear();
    }

    fn down(&mut self, why: String) {
        self.forget();
        self.events.push_back(DriverEvent::Down(why));
    }

    fn send(&mut self, command: &str) {
        self.sent += 1;
        self.outgoing.push_str(&format!("{} {command}\n", self.sent));
    }

    /// Begins the next order, if none is under way.
    fn proceed(&mut self, ports: u16) {
        while self.under_way.is_none() {
            let Some((id, order)) = self.queue.pop_front() else { return };
            let mut job = Job { id, refused: None, shown: None };
            match &order {
                Order::Read => {
                    job.shown = Some(Vec::new());
                    self.send("show");
                }
                Order::Apply { end, set } => {
                    let foreign = |patch: &&Patch| !self.owns_both(patch, ports);
                    if let Some(patch) = end.iter().chain(set).find(foreign) {
                        let Patch { ingress, egress } = patch;
                        job.refused = Some(format!("{ingress} {egress} leaves the slice"));
                    } else {
                        for Patch { ingress, egress } in end {
                            self.send(&format!("disconnect {ingress} {egress}"));
                        }
                        for Patch { ingress, egress } in set {
                            self.send(&format!("connect {ingress} {egress}"));
                        }
                    }
                }
            }
            self.under_way = Some(job);
            self.finish(ports);
        }
    }

    /// Answers the order under way, if all of its commands are answered.
    fn finish(&mut self, ports: u16) {
        let Some(job) = self.under_way.take_if(|_| self.answered == self.sent) else { return };
        let answer = match (job.refused, job.shown) {
            (Some(words), _) => Answer::Refused(words),
            (None, None) => Answer::Done,
            (None, Some(mut patches)) => {
                patches.retain(|patch| self.owns(patch.ingress) || self.owns(patch.egress - ports));
                Answer::State(patches)
            }
        };
        self.events.push_back(DriverEvent::Answer { id: job.id, answer });
    }

    /// Hears a line. None if it makes no sense.
    fn hear(&mut self, line: &str) -> Option<()> {
        if let Some(words) = line.strip_prefix("note ") {
            self.events.push_back(DriverEvent::Notice(words.into()));
            return Some(());
        }
        let (number, answer) = line.split_once(' ')?;
        if self.answered == self.sent || number != (self.answered + 1).to_string() {
            return None;
        }
        let (verdict, rest) = answer.split_once(' ').unwrap_or((answer, ""));
        match (self.phase, verdict) {
            (Phase::Greeting(_), "ok") => self.greeted(rest)?,
            (Phase::Up(ports), "patch") => {
                let patch = patch(rest, ports)?;
                let shown = self.under_way.as_mut()?.shown.as_mut()?;
                if shown.last().is_some_and(|last| last.ingress >= patch.ingress) {
                    return None;
                }
                shown.push(patch);
                return Some(()); // the command is answered by what follows
            }
            (Phase::Up(_), "ok") => match &self.under_way.as_ref()?.shown {
                Some(shown) if rest != shown.len().to_string() => return None,
                None if !rest.is_empty() => return None,
                _ => {}
            },
            (Phase::Up(_), "err") if !rest.is_empty() => {
                self.under_way.as_mut()?.refused.get_or_insert_with(|| rest.into());
            }
            _ => return None,
        }
        self.answered += 1;
        if let Phase::Up(ports) = self.phase {
            self.finish(ports);
            self.proceed(ports);
        }
        Some(())
    }

    /// The version, the ports and the name of the switch.
    fn greeted(&mut self, words: &str) -> Option<()> {
        let (ports, device) = words.strip_prefix("1 ")?.split_once(' ')?;
        let ports = ports.parse().ok().filter(|ports| (1..=4096).contains(ports))?;
        self.phase = Phase::Up(ports);
        self.events.push_back(DriverEvent::Up { device: device.into(), ports });
        Some(())
    }

    fn owns(&self, port: u16) -> bool {
        self.slice.contains(&port)
    }

    fn owns_both(&self, patch: &Patch, ports: u16) -> bool {
        self.owns(patch.ingress) && patch.egress > ports && self.owns(patch.egress - ports)
    }
}

/// `3 21`, of a switch with so many ports.
fn patch(words: &str, ports: u16) -> Option<Patch> {
    let (ingress, egress) = words.split_once(' ')?;
    let (ingress, egress) = (ingress.parse().ok()?, egress.parse().ok()?);
    let known = (1..=ports).contains(&ingress) && (ports + 1..=2 * ports).contains(&egress);
    known.then_some(Patch { ingress, egress })
}

impl Driver for LineDriver {
    fn connected(&mut self, now: Time) {
        self.forget();
        self.phase = Phase::Greeting(now.saturating_add(PATIENCE));
        self.send("hello 1");
    }

    fn disconnected(&mut self, _: Time) {
        self.forget();
    }

    fn order(&mut self, _: Time, id: u64, order: &Order) {
        if let Phase::Up(ports) = self.phase {
            self.queue.push_back((id, order.clone()));
            self.proceed(ports);
        }
    }

    fn receive(&mut self, _: Time, bytes: &[u8]) {
        for &byte in bytes {
            if self.phase == Phase::Down {
                return;
            }
            if byte != b'\n' {
                self.line.push(byte);
                if self.line.len() >= MAX_LINE {
                    self.down(format!("a line of more than {MAX_LINE} bytes"));
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let text = std::str::from_utf8(&line).ok();
            let text = text.filter(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            if text.and_then(|text| self.hear(text)).is_none() {
                self.down(format!("a line that makes no sense: {}", line.escape_ascii()));
            }
        }
    }

    fn transmit(&mut self) -> Option<Vec<u8>> {
        (!self.outgoing.is_empty()).then(|| std::mem::take(&mut self.outgoing).into_bytes())
    }

    fn event(&mut self) -> Option<DriverEvent> {
        self.events.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        match self.phase {
            Phase::Greeting(deadline) => Some(deadline),
            Phase::Down | Phase::Up(_) => None,
        }
    }

    fn timeout(&mut self, now: Time) {
        if self.next_timeout().is_some_and(|deadline| now >= deadline) {
            self.down("it does not answer the greeting".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Peer;
    use std::collections::BTreeMap;

    /// A switch of the protocol.
    struct Switch {
        ports: u16,
        egress: BTreeMap<u16, u16>,
        line: Vec<u8>,
        out: VecDeque<Vec<u8>>,
    }

    fn dark(ports: u16) -> Switch {
        Switch { ports, egress: BTreeMap::new(), line: Vec::new(), out: VecDeque::new() }
    }

    impl Switch {
        /// Answers a command: lines without their number.
        fn call(&mut self, command: &str) -> Result<Vec<String>, String> {
            let words: Vec<&str> = command.split(' ').collect();
            let numbers: Vec<u16> = words[1..].iter().flat_map(|word| word.parse()).collect();
            match (words[0], &numbers[..]) {
                ("hello", [1]) => return Ok(vec![format!("ok 1 {} in memory", self.ports)]),
                ("connect", &[ingress, egress]) => {
                    patch(&format!("{ingress} {egress}"), self.ports).ok_or("no such port")?;
                    let used = |(&from, &to): (&u16, &u16)| from == ingress || to == egress;
                    if self.egress.iter().any(used) {
                        return Err(format!("port {ingress} or {egress} is in use"));
                    }
                    self.egress.insert(ingress, egress);
                }
                ("disconnect", [ingress, egress]) if self.egress.get(ingress) == Some(egress) => {
                    self.egress.remove(ingress);
                }
                ("show", []) => {
                    let shown = self.egress.iter().map(|(from, to)| format!("patch {from} {to}"));
                    return Ok(shown.chain([format!("ok {}", self.egress.len())]).collect());
                }
                _ => return Err(format!("{command}?")),
            }
            Ok(vec!["ok".into()])
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

    /// A driver that is up, with an order to read sent as command 2.
    fn reading() -> LineDriver {
        let mut driver = LineDriver::new(&[1, 2]);
        driver.connected(Time::ZERO);
        driver.receive(Time::ZERO, b"1 ok 1 4 test\n");
        assert!(matches!(driver.event(), Some(DriverEvent::Up { ports: 4, .. })));
        driver.order(Time::ZERO, 9, &Order::Read);
        driver
    }

    #[test]
    fn lines_that_make_no_sense_end_the_session() {
        let cases = [
            "3 ok 0",                   // of a command that was not sent
            "1 ok 1 4 test",            // late: answered already
            "02 ok 0",                  // not as it was sent
            "2 ok",                     // no count
            "2 ok 1",                   // a patch was lost
            "2 patch 1 9",              // no such egress
            "2 patch 5 6",              // no such ingress
            "2 patch 2 5\n2 patch 1 6", // ingresses must rise
            "2 patch 1 5\n2 patch 1 5", // twice
            "2 patch 1",                // cut
            "2 okay 0",
            "2 err",
            "2",
            "",
            "2 ok 0\r",
            "2 \u{fc}",
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
        assert_eq!(driver.transmit().as_deref(), Some(&b"3 hello 1\n"[..]));
        driver.receive(Time::ZERO, b"2 ok 0\n");
        assert!(matches!(driver.event(), Some(DriverEvent::Down(_))));
    }
}
