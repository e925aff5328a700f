//! The driver's end of the line protocol.

use super::words::{list, parse_patch};
use crate::driver::{Answer, Driver, DriverEvent, Order, Patch};
use lightloom_units::Time;
use std::collections::VecDeque;

/// No line of a switch is longer, with its end \[B\].
pub(super) const MAX_LINE: usize = 256;
/// The switch has let us in by then.
const PATIENCE: Time = Time::from_ms(5_000);

pub(super) struct LineDriver {
    slice: Vec<u16>,
    phase: Phase,
    /// Of the switch: its ports, its name, and whether it issues terms.
    ports: u16,
    device: String,
    terms: bool,
    /// What changes carry: kept when streams close. Without one, another is claimed.
    term: Option<u64>,
    /// What has come of a line.
    line: Vec<u8>,
    /// The number of the last command that was sent, and of the last that was answered.
    sent: u64,
    answered: u64,
    under_way: Option<Job>,
    queue: VecDeque<Asked>,
    outgoing: String,
    events: VecDeque<DriverEvent>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No stream, or one that made no sense.
    Down,
    /// This version was said, and must be answered by then.
    Greeting(u8, Time),
    /// A term is claimed or shown until then.
    Entering(Time),
    Up,
}

/// What is asked of the switch.
enum Asked {
    /// A new term.
    Claim,
    Order(u64, Order),
}

/// What is asked, and its commands are sent.
struct Job {
    what: What,
    refused: Option<String>,
    /// The term that was shown is older than this one.
    last: Option<u64>,
}

enum What {
    /// A new term.
    Claim,
    /// Whether this term is the last.
    Hold(u64),
    /// An order to read, and what has been shown.
    Read(u64, Vec<Patch>),
    /// An order to change, and the term that it carries.
    Apply(u64, Option<u64>),
}

impl LineDriver {
    pub(super) fn new(slice: &[u16]) -> Self {
        LineDriver {
            slice: slice.to_vec(),
            phase: Phase::Down,
            ports: 0,
            device: String::new(),
            terms: false,
            term: None,
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

    fn greet(&mut self, version: u8, until: Time) {
        self.phase = Phase::Greeting(version, until);
        self.send(&format!("hello {version}"));
    }

    /// The version, the ports and the name of the switch.
    fn greeted(&mut self, version: u8, until: Time, words: &str) -> Option<()> {
        let words = words.strip_prefix(&format!("{version} "))?;
        let (ports, device) = words.split_once(' ')?;
        self.ports = ports.parse().ok().filter(|ports| (1..=4096).contains(ports))?;
        (self.device, self.terms) = (device.into(), version > 1);
        match self.terms {
            true => self.enter(until),
            false => self.come_up(),
        }
        Some(())
    }

    /// Shows the term, or claims one.
    fn enter(&mut self, until: Time) {
        self.phase = Phase::Entering(until);
        let ports = list(&self.slice);
        match self.term {
            Some(term) => self.begin(What::Hold(term), [format!("hold {term} {ports}")]),
            None => self.begin(What::Claim, [format!("claim {ports}")]),
        }
    }

    fn come_up(&mut self) {
        self.phase = Phase::Up;
        let (device, ports) = (self.device.clone(), self.ports);
        self.events.push_back(DriverEvent::Up { device, ports });
    }

    fn begin(&mut self, what: What, commands: impl IntoIterator<Item = String>) {
        commands.into_iter().for_each(|command| self.send(&command));
        self.under_way = Some(Job { what, refused: None, last: None });
    }

    /// Begins what is asked next, if nothing is under way.
    fn proceed(&mut self) {
        while self.phase == Phase::Up && self.under_way.is_none() {
            match self.queue.pop_front() {
                None => return,
                Some(Asked::Claim) => {
                    let command = format!("claim {}", list(&self.slice));
                    self.begin(What::Claim, [command]);
                }
                Some(Asked::Order(id, Order::Read)) => {
                    self.begin(What::Read(id, Vec::new()), ["show".into()]);
                }
                Some(Asked::Order(id, Order::Apply { end, set })) => self.apply(id, &end, &set),
            }
            self.finish();
        }
    }

    fn apply(&mut self, id: u64, end: &[Patch], set: &[Patch]) {
        let foreign = end.iter().chain(set).find(|patch| !self.owns_both(patch));
        if let Some(Patch { ingress, egress }) = foreign {
            let refused = Some(format!("{ingress} {egress} leaves the slice"));
            self.under_way = Some(Job { what: What::Apply(id, None), refused, last: None });
            return;
        }
        let term = self.term.filter(|_| self.terms);
        let carried = term.map_or(String::new(), |term| format!(" {term}"));
        let command = |word: &str, Patch { ingress, egress }: &Patch| {
            format!("{word} {ingress} {egress}{carried}")
        };
        let ends = end.iter().map(|patch| command("disconnect", patch));
        let sets = set.iter().map(|patch| command("connect", patch));
        let commands: Vec<_> = ends.chain(sets).collect();
        self.begin(What::Apply(id, term), commands);
    }

    /// Does what follows once all commands of the job are answered.
    fn finish(&mut self) {
        let Some(job) = self.under_way.take_if(|_| self.answered == self.sent) else { return };
        match (job.what, job.refused) {
            (What::Apply(id, term), refused) => {
                let answer = match (job.last, refused) {
                    (Some(last), _) => Answer::Fenced(older(term, last)),
                    (None, Some(words)) => Answer::Refused(words),
                    (None, None) => Answer::Done,
                };
                self.events.push_back(DriverEvent::Answer { id, answer });
            }
            (What::Read(id, mut patches), None) => {
                let far = |patch: &Patch| patch.egress - self.ports;
                patches.retain(|patch| self.owns(patch.ingress) || self.owns(far(patch)));
                let answer = Answer::State(patches);
                self.events.push_back(DriverEvent::Answer { id, answer });
            }
            (What::Read(id, _), Some(words)) => {
                let answer = Answer::Refused(words);
                self.events.push_back(DriverEvent::Answer { id, answer });
            }
            (_, Some(words)) => self.down(words),
            (what, None) => self.entered(&what, job.last),
        }
    }

    /// A term is issued, or was shown.
    fn entered(&mut self, what: &What, last: Option<u64>) {
        let Phase::Entering(until) = self.phase else { return };
        if self.term.is_none() {
            // Another was to be claimed meanwhile.
            return self.enter(until);
        }
        self.come_up();
        if let (What::Hold(term), Some(last)) = (what, last) {
            self.events.push_back(DriverEvent::Fenced(older(Some(*term), last)));
        }
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
        if let Phase::Greeting(version, until) = self.phase {
            self.answered += 1;
            match verdict {
                "ok" => return self.greeted(version, until, rest),
                "err" if version > 1 && self.term.is_none() => self.greet(1, until),
                "err" if !rest.is_empty() => self.down(rest.into()),
                _ => return None,
            }
            return Some(());
        }
        if verdict == "patch" {
            return self.shown(rest); // the command is answered by what follows
        }
        self.judge(verdict, rest)?;
        self.answered += 1;
        self.finish();
        self.proceed();
        Some(())
    }

    /// A patch, with more to come.
    fn shown(&mut self, words: &str) -> Option<()> {
        let patch = parse_patch(words, self.ports)?;
        let What::Read(_, shown) = &mut self.under_way.as_mut()?.what else { return None };
        if shown.last().is_some_and(|last| last.ingress >= patch.ingress) {
            return None;
        }
        shown.push(patch);
        Some(())
    }

    /// What a command is answered.
    fn judge(&mut self, verdict: &str, rest: &str) -> Option<()> {
        let job = self.under_way.as_mut()?;
        match (verdict, &job.what) {
            ("ok", What::Read(_, shown)) if rest == shown.len().to_string() => {}
            ("ok", What::Hold(_) | What::Apply(..)) if rest.is_empty() => {}
            ("ok", What::Claim) => {
                let term = rest.parse().ok()?;
                self.term = Some(term);
                self.events.push_back(DriverEvent::Term(term));
            }
            ("old", What::Hold(_) | What::Apply(_, Some(_))) => {
                job.last = job.last.max(Some(rest.parse().ok()?));
            }
            ("err", _) if !rest.is_empty() => drop(job.refused.get_or_insert_with(|| rest.into())),
            _ => return None,
        }
        Some(())
    }

    fn owns(&self, port: u16) -> bool {
        self.slice.contains(&port)
    }

    fn owns_both(&self, patch: &Patch) -> bool {
        let Patch { ingress, egress } = *patch;
        self.owns(ingress) && egress > self.ports && self.owns(egress - self.ports)
    }
}

fn older(term: Option<u64>, last: u64) -> String {
    format!("term {} is not the last, which is {last}", term.unwrap_or_default())
}

impl Driver for LineDriver {
    fn connected(&mut self, now: Time) {
        self.forget();
        self.greet(2, now.saturating_add(PATIENCE));
    }

    fn disconnected(&mut self, _: Time) {
        self.forget();
    }

    fn order(&mut self, _: Time, id: u64, order: &Order) {
        if self.phase == Phase::Up {
            self.queue.push_back(Asked::Order(id, order.clone()));
            self.proceed();
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
            Phase::Greeting(_, deadline) | Phase::Entering(deadline) => Some(deadline),
            Phase::Down | Phase::Up => None,
        }
    }

    fn timeout(&mut self, now: Time) {
        if self.next_timeout().is_some_and(|deadline| now >= deadline) {
            self.down("it does not answer the greeting".into());
        }
    }

    fn hold(&mut self, term: u64) {
        self.term = Some(term);
    }

    fn claim(&mut self, _: Time) {
        self.term = None;
        if self.phase == Phase::Up && self.terms {
            self.queue.push_back(Asked::Claim);
            self.proceed();
        }
    }
}
