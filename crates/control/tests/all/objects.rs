//! A driver for switches of another kind: cross-connects are objects, as in SONiC's SAI for optical
//! circuit switches (opencomputeproject/SAI, pull request 2229). An object joins a port of side A to one
//! of side B and is never changed: it is created and removed, in bulk, and known by an id that the
//! switch gives. The interface of drivers and their suite hold for it as they are.
//!
//! The protocol is made up, a line a message, and stands for whatever carries SAI's calls:
//! `size`, `list`, `remove <id>...`, `create <a>-<b>...`, answered by `ok ...` or `failed ...`.

use lightloom_control::conformance::Peer;
use lightloom_control::protocol::{Protocol, Reach};
use lightloom_control::{Answer, Driver, DriverEvent, Order, Patch, driver_conformance};
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// No answer is longer \[B\].
const MAX_LINE: usize = 1 << 18;
const PATIENCE: Time = Time::from_ms(5_000);

const PROTOCOL: Protocol = Protocol {
    name: "objects",
    title: "cross-connects as objects",
    reach: Reach::Tcp,
    whole: false,
    fences: false,
    settings: &[],
    driver: |connection| {
        let slice = connection.slice.clone();
        Ok(Box::new(Objects { slice, ..Objects::default() }))
    },
};

/// The driver. It keeps no ids: they may be others' by the next order, so each order lists anew.
#[derive(Default)]
struct Objects {
    slice: Vec<u16>,
    ports: u16,
    /// The greeting's end, while it is awaited.
    deadline: Option<Time>,
    open: bool,
    line: Vec<u8>,
    queue: VecDeque<(u64, Order)>,
    under_way: Option<Call>,
    out: VecDeque<Vec<u8>>,
    events: VecDeque<DriverEvent>,
}

/// What the next line answers.
enum Call {
    Size,
    List(u64, Order),
    Remove(u64, Vec<Patch>),
    Create(u64),
}

impl Objects {
    fn forget(&mut self) {
        *self = Objects {
            slice: std::mem::take(&mut self.slice),
            events: std::mem::take(&mut self.events),
            ..Objects::default()
        };
    }

    fn down(&mut self, why: &str) {
        self.forget();
        self.events.push_back(DriverEvent::Down(why.into()));
    }

    fn say(&mut self, words: String, call: Call) {
        self.out.push_back((words + "\n").into_bytes());
        self.under_way = Some(call);
    }

    fn proceed(&mut self) {
        if self.under_way.is_none()
            && let Some((id, order)) = self.queue.pop_front()
        {
            self.say("list".into(), Call::List(id, order));
        }
    }

    fn answer(&mut self, id: u64, answer: Answer) {
        self.events.push_back(DriverEvent::Answer { id, answer });
    }

    fn create(&mut self, id: u64, set: &[Patch]) {
        let ports = self.ports;
        let pair =
            |patch: &Patch| format!(" {}-{}", patch.ingress, patch.egress.wrapping_sub(ports));
        self.say(
            set.iter().fold("create".into(), |all, patch| all + &pair(patch)),
            Call::Create(id),
        );
    }

    fn hear(&mut self, line: &str) -> Option<()> {
        let call = self.under_way.take()?;
        let (verdict, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (call, verdict) {
            (Call::Size, "ok") => {
                self.ports = rest.parse().ok().filter(|&ports| ports > 0)?;
                self.deadline = None;
                let device = "cross-connects as objects".into();
                self.events.push_back(DriverEvent::Up { device, ports: self.ports });
            }
            (Call::List(id, order), "ok") => {
                let mut objects = BTreeMap::new();
                for word in rest.split_whitespace() {
                    let (object, ends) = word.split_once('=')?;
                    let (a, b) = ends.split_once('-')?;
                    let egress = self.ports.checked_add(b.parse().ok()?)?;
                    objects.insert(Patch::new(a.parse().ok()?, egress), object.to_owned());
                }
                match order {
                    Order::Read => {
                        let ours = |port: u16| self.slice.contains(&port);
                        let touches =
                            |patch: &Patch| ours(patch.ingress) || ours(patch.egress - self.ports);
                        let state = objects.into_keys().filter(touches).collect();
                        self.answer(id, Answer::State(state));
                    }
                    Order::Apply { end, set } => {
                        let ids: Option<Vec<_>> = end.iter().map(|p| objects.get(p)).collect();
                        match ids {
                            None => self.answer(id, Answer::Refused("nothing to remove".into())),
                            Some(ids) => {
                                let all = ids
                                    .iter()
                                    .fold("remove".into(), |all, id| all + " " + id.as_str());
                                self.say(all, Call::Remove(id, set));
                            }
                        }
                    }
                }
            }
            (Call::Remove(id, set), "ok") => self.create(id, &set),
            (Call::Create(id), "ok") => self.answer(id, Answer::Done),
            (Call::Remove(id, _) | Call::Create(id), "failed") => {
                self.answer(id, Answer::Refused(rest.into()));
            }
            _ => return None,
        }
        self.proceed();
        Some(())
    }
}

impl Driver for Objects {
    fn connected(&mut self, now: Time) {
        self.forget();
        self.events.clear();
        (self.open, self.deadline) = (true, Some(now.saturating_add(PATIENCE)));
        self.say("size".into(), Call::Size);
    }

    fn disconnected(&mut self, _: Time) {
        self.forget();
    }

    fn order(&mut self, _: Time, id: u64, order: &Order) {
        self.queue.push_back((id, order.clone()));
        self.proceed();
    }

    fn receive(&mut self, _: Time, bytes: &[u8]) {
        for &byte in bytes {
            if !self.open {
                return;
            }
            if byte != b'\n' {
                self.line.push(byte);
                if self.line.len() > MAX_LINE {
                    self.down("a line without an end");
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let heard = std::str::from_utf8(&line).ok().and_then(|line| self.hear(line));
            if heard.is_none() {
                self.down("an answer that makes no sense");
            }
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
            self.down("it does not answer");
        }
    }
}

struct Sai {
    ports: u16,
    next: u64,
    /// Sides A and B of every object.
    objects: BTreeMap<u64, (u16, u16)>,
    line: Vec<u8>,
    out: VecDeque<Vec<u8>>,
}

impl Sai {
    fn call(&mut self, line: &str) -> Result<String, &'static str> {
        let mut words = line.split(' ');
        match words.next() {
            Some("size") => Ok(self.ports.to_string()),
            Some("list") => Ok(self
                .objects
                .iter()
                .fold(String::new(), |all, (id, (a, b))| all + &format!("oid:{id:#x}={a}-{b} "))),
            Some("remove") => {
                for word in words {
                    let id = word.strip_prefix("oid:0x").ok_or("INVALID_OBJECT_ID")?;
                    let id = u64::from_str_radix(id, 16).map_err(|_| "INVALID_OBJECT_ID")?;
                    self.objects.remove(&id).ok_or("ITEM_NOT_FOUND")?;
                }
                Ok(String::new())
            }
            Some("create") => {
                for word in words {
                    let (a, b) = word.split_once('-').ok_or("INVALID_PARAMETER")?;
                    let port = |text: &str| text.parse().map_err(|_| "INVALID_PARAMETER");
                    let (a, b): (u16, u16) = (port(a)?, port(b)?);
                    let there = 1..=self.ports;
                    if !there.contains(&a) || !there.contains(&b) {
                        return Err("INVALID_ATTR_VALUE_0");
                    }
                    if self.objects.values().any(|ends| ends.0 == a || ends.1 == b) {
                        return Err("OBJECT_IN_USE");
                    }
                    self.next += 1;
                    self.objects.insert(self.next, (a, b));
                }
                Ok(String::new())
            }
            _ => Err("NOT_IMPLEMENTED"),
        }
    }
}

impl Peer for Sai {
    fn open(&mut self, _: Time) {}

    fn close(&mut self, _: Time) {
        self.line.clear();
        self.out.clear();
    }

    fn receive(&mut self, _: Time, bytes: &[u8]) {
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            let reply = match self.call(&line) {
                Ok(said) => format!("ok {said}\n"),
                Err(status) => format!("failed SAI_STATUS_{status}\n"),
            };
            self.out.push_back(reply.into_bytes());
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
        let all = self.objects.values().map(|&(a, b)| Patch::new(a, self.ports + b));
        let mut patches: Vec<_> = all.collect();
        patches.sort_unstable();
        patches
    }
}

fn dark(ports: u16) -> Sai {
    let (objects, line, out) = (BTreeMap::new(), Vec::new(), VecDeque::new());
    Sai { ports, next: 0, objects, line, out }
}

driver_conformance!(PROTOCOL, dark);
