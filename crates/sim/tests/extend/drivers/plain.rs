//! A plain protocol: a line asks, the next line answers.
//!
//! | asked | answered | meaning |
//! | --- | --- | --- |
//! | `size` | `size 16 corner` | ports, and what the switch calls itself |
//! | `read` | `state 1-18 5-19` | every patch: its ingress, its egress |
//! | `change -1-18 +1-20` | `done`, or `refused 20 is in use` | patches that end, then those that are set |

use crate::driver::{Answer, Driver, DriverEvent, Order, Patch};
use crate::protocol::{Protocol, Reach};
use lightloom_units::Time;
use std::collections::VecDeque;

/// The plain protocol in the list of drivers.
pub const PROTOCOL: Protocol = Protocol {
    name: "plain",
    title: "a plain protocol, a line an order",
    reach: Reach::Tcp,
    whole: true,
    fences: false,
    settings: &[],
    driver: |connection| {
        Ok(Box::new(Plain { slice: connection.slice.clone(), ..Plain::default() }))
    },
};

/// No line is longer \[B\].
const LONGEST: usize = 1 << 16;
/// The switch has said its size by then.
const PATIENCE: Time = Time::from_ms(5_000);

#[derive(Default)]
struct Plain {
    slice: Vec<u16>,
    ports: u16,
    /// What lines that will come answer; with no stream, or with one that made no sense, none.
    asked: Option<VecDeque<Asked>>,
    /// When the switch must have said its size.
    deadline: Option<Time>,
    line: Vec<u8>,
    out: VecDeque<Vec<u8>>,
    events: VecDeque<DriverEvent>,
}

enum Asked {
    Size,
    Read(u64),
    Change(u64),
}

impl Plain {
    fn forget(&mut self) {
        let (slice, events) = (std::mem::take(&mut self.slice), std::mem::take(&mut self.events));
        *self = Plain { slice, events, ..Plain::default() };
    }

    fn ask(&mut self, line: &str, answered_as: Asked) {
        if let Some(asked) = &mut self.asked {
            asked.push_back(answered_as);
            self.out.push_back(format!("{line}\n").into_bytes());
        }
    }

    /// What a line says, if it makes sense.
    fn hear(&mut self, line: &str) -> Option<DriverEvent> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (id, answer) = match (self.asked.as_mut()?.pop_front()?, word) {
            (Asked::Size, "size") => {
                let (ports, device) = rest.split_once(' ')?;
                self.ports = ports.parse().ok().filter(|ports| (1..=4096).contains(ports))?;
                self.deadline = None;
                return Some(DriverEvent::Up { device: device.into(), ports: self.ports });
            }
            (Asked::Read(id), "state") => (id, Answer::State(self.ours(rest)?)),
            (Asked::Change(id), "done") => (id, Answer::Done),
            (Asked::Change(id), "refused") => (id, Answer::Refused(rest.into())),
            _ => return None,
        };
        Some(DriverEvent::Answer { id, answer })
    }

    /// Of a list of patches those that touch our ports, in order.
    fn ours(&self, list: &str) -> Option<Vec<Patch>> {
        let (n, mut patches) = (self.ports, Vec::new());
        for word in list.split_whitespace() {
            let (ingress, egress) = word.split_once('-')?;
            let patch = Patch::new(ingress.parse().ok()?, egress.parse().ok()?);
            if !(1..=n).contains(&patch.ingress) || !(n + 1..=2 * n).contains(&patch.egress) {
                return None;
            }
            if [patch.ingress, patch.egress - n].iter().any(|port| self.slice.contains(port)) {
                patches.push(patch);
            }
        }
        patches.sort_unstable();
        Some(patches)
    }
}

impl Driver for Plain {
    fn connected(&mut self, now: Time) {
        self.forget();
        self.asked = Some(VecDeque::new());
        self.deadline = Some(now.saturating_add(PATIENCE));
        self.ask("size", Asked::Size);
    }

    fn disconnected(&mut self, _: Time) {
        self.forget();
    }

    fn order(&mut self, _: Time, id: u64, order: &Order) {
        match order {
            Order::Read => self.ask("read", Asked::Read(id)),
            Order::Apply { end, set } => {
                let words = |sign, patches: &[Patch]| -> String {
                    let word = |patch: &Patch| format!(" {sign}{}-{}", patch.ingress, patch.egress);
                    patches.iter().map(word).collect()
                };
                self.ask(
                    &format!("change{}{}", words('-', end), words('+', set)),
                    Asked::Change(id),
                );
            }
        }
    }

    fn receive(&mut self, _: Time, bytes: &[u8]) {
        for &byte in bytes {
            if self.asked.is_none() {
                return;
            }
            self.line.push(byte);
            if byte != b'\n' && self.line.len() < LONGEST {
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
            let heard = line.strip_suffix('\n').and_then(|line| self.hear(line));
            let event = heard.unwrap_or_else(|| {
                self.forget();
                DriverEvent::Down("a line that makes no sense".into())
            });
            self.events.push_back(event);
        }
    }

    fn transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    fn event(&mut self) -> Option<DriverEvent> {
        self.events.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.deadline
    }

    fn timeout(&mut self, now: Time) {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.forget();
            self.events.push_back(DriverEvent::Down("it does not say its size".into()));
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

    impl Switch {
        fn dark(ports: u16) -> Self {
            Switch { ports, egress: BTreeMap::new(), line: Vec::new(), out: VecDeque::new() }
        }

        fn answer(&mut self, line: &str) -> String {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "size" => format!("size {} corner", self.ports),
                "read" => {
                    let patches = self.egress.iter().map(|(from, to)| format!(" {from}-{to}"));
                    patches.fold("state".into(), |all, patch| all + &patch)
                }
                _ => match changed(&self.egress, self.ports, rest) {
                    Ok(egress) => {
                        self.egress = egress;
                        "done".into()
                    }
                    Err(why) => format!("refused {why}"),
                },
            }
        }
    }

    /// What stands after a change.
    fn changed(
        before: &BTreeMap<u16, u16>,
        n: u16,
        change: &str,
    ) -> Result<BTreeMap<u16, u16>, String> {
        let mut egress = before.clone();
        for word in change.split_whitespace() {
            let (sign, patch) = word.split_at(1);
            let (from, to) = patch.split_once('-').ok_or("a patch is two ports")?;
            let (from, to) = (from.parse().unwrap_or(0), to.parse().unwrap_or(0));
            if !(1..=n).contains(&from) || !(n + 1..=2 * n).contains(&to) {
                return Err(format!("no ports {patch}"));
            }
            match sign {
                "-" if egress.get(&from) == Some(&to) => drop(egress.remove(&from)),
                "+" if !egress.contains_key(&from) && egress.values().all(|&at| at != to) => {
                    egress.insert(from, to);
                }
                _ => return Err(format!("{word} cannot be")),
            }
        }
        Ok(egress)
    }

    impl Peer for Switch {
        fn open(&mut self, _: Time) {}

        fn close(&mut self, _: Time) {
            self.line.clear();
            self.out.clear();
        }

        fn receive(&mut self, _: Time, bytes: &[u8]) {
            self.line.extend_from_slice(bytes);
            while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.line.drain(..=end).collect();
                let answer = self.answer(String::from_utf8_lossy(&line).trim_end());
                self.out.push_back((answer + "\n").into_bytes());
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
            self.egress.iter().map(|(&from, &to)| Patch::new(from, to)).collect()
        }
    }

    crate::driver_conformance!(PROTOCOL, Switch::dark);
}
