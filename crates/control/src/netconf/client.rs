//! The NETCONF driver: orders as remote procedure calls on the module of the optical switch.
//!
//! Modelled: the greeting and both framings (RFC 6241, 6242); the list `cross-connects/pair` with its
//! key `ingress`, called `pairs` before revision 2017-08-04 of the module; one `<edit-config>` for an
//! order, on the running configuration or, where that cannot be written, on the candidate, which is
//! locked, committed and unlocked, and given up whole if any step fails. The switch is up once it
//! has told its maker and ports; while nothing is asked it is asked that again, so that neither side
//! takes the session for dead. One call is under way at a time.
//! Ignored: notifications are handed on as they come, and none are asked for. A pair is deleted by its
//! ingress, whatever its egress is by then; reading back shows what became of it.
//! Checked: against a peer in memory by the suite of all drivers, and against netconfd.

use super::frame::{Framer, chunk, mark};
use super::xml::{Element, Space};
use crate::driver::{Answer, Driver, DriverEvent, Order, Patch};
use lightloom_units::Time;
use std::collections::VecDeque;

const BASE_1_0: &str = "urn:ietf:params:netconf:base:1.0";
const BASE_1_1: &str = "urn:ietf:params:netconf:base:1.1";
const WRITABLE: &str = "urn:ietf:params:netconf:capability:writable-running:1.0";
const CANDIDATE: &str = "urn:ietf:params:netconf:capability:candidate:1.0";
const MODULE: &str = "http://www.polatis.com/yang/optical-switch";
/// The first revision of the module in which the list is called `pair`.
const PAIR_SINCE: &str = "2017-08-04";
/// netconfd overlooks a call that it reads together with our hello, until more comes: the first call
/// waits for so long after the server's hello, and is repeated if it is not answered for so long.
const SETTLE: Time = Time::from_ms(50);
const REPEAT: Time = Time::from_ms(500);
/// What a switch says in its own words is cut to this \[characters\].
const WORDS: usize = 400;

/// What the driver must be told of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetconfSettings {
    /// Ports of the switch, for one that does not list them itself (`port-config/port`).
    pub ports: u16,
    /// The ports whose patches are of interest, from 1.
    pub slice: Vec<u16>,
    /// The greeting, and the answer to a sign of life, must have come within this.
    pub patience: Time,
    /// A sign of life is asked for when nothing else was asked for so long; zero is never. Servers
    /// end a session that is silent, netconfd after an hour.
    pub keepalive: Time,
}

impl NetconfSettings {
    /// For a switch of `ports` ports, with 10 s of patience and a sign of life every 5 minutes.
    pub fn new(ports: u16, slice: Vec<u16>) -> Self {
        let (patience, keepalive) = (Time::from_ms(10_000), Time::from_ms(300_000));
        NetconfSettings { ports, slice, patience, keepalive }
    }
}

/// One session with a switch that speaks NETCONF.
///
/// ```
/// use lightloom_control::Driver;
/// use lightloom_control::netconf::{NetconfDriver, NetconfSettings};
/// use lightloom_units::Time;
/// let mut driver = NetconfDriver::new(NetconfSettings::new(384, vec![1, 2, 3, 4]));
/// driver.connected(Time::ZERO);
/// let hello = String::from_utf8(driver.transmit().unwrap()).unwrap();
/// assert!(hello.starts_with("<hello") && hello.ends_with("]]>]]>"));
/// ```
#[derive(Debug)]
pub struct NetconfDriver {
    settings: NetconfSettings,
    phase: Phase,
    framer: Framer,
    server: Server,
    /// The ports of the switch, once it is up.
    ports: u16,
    /// The last call's number; they go on over sessions.
    call: u64,
    /// Calls without a reply, by number: one, but for what is repeated in the greeting.
    under_way: VecDeque<(u64, Job)>,
    queue: VecDeque<(u64, Order)>,
    /// When the switch should have answered, or shall be asked for something.
    deadline: Option<Time>,
    /// The end of the greeting.
    give_up: Time,
    outgoing: VecDeque<Vec<u8>>,
    events: VecDeque<DriverEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No stream, or one that made no sense.
    Down,
    /// The server has not said hello.
    Greeting,
    /// The server has not said what it is.
    Asking,
    Up,
}

/// What the server's hello tells.
#[derive(Clone, Debug, Default)]
struct Server {
    chunks: bool,
    writable: bool,
    /// Of the module of the switch, if it tells.
    revision: Option<String>,
}

impl Server {
    /// The name of the list of patches.
    fn list(&self) -> &'static str {
        let old = self.revision.as_deref().is_some_and(|revision| revision < PAIR_SINCE);
        if old { "pairs" } else { "pair" }
    }
}

/// A call under way, and what it is for.
#[derive(Clone, Debug)]
struct Job {
    /// The order's number; none asks for a sign of life, or for what the switch is.
    order: Option<u64>,
    step: Step,
    /// The edit of the candidate, until it is made.
    edit: Option<Element>,
    /// What went wrong.
    refused: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Describe,
    Read,
    Edit,
    Lock,
    EditCandidate,
    Commit,
    Discard,
    Unlock,
}

/// What a server says to a call.
enum Reply {
    Ok,
    Data(Element),
    Refused(String),
}

impl NetconfDriver {
    /// A driver without a stream.
    pub fn new(mut settings: NetconfSettings) -> Self {
        settings.slice.sort_unstable();
        NetconfDriver {
            settings,
            phase: Phase::Down,
            framer: Framer::default(),
            server: Server::default(),
            ports: 0,
            call: 0,
            under_way: VecDeque::new(),
            queue: VecDeque::new(),
            deadline: None,
            give_up: Time::ZERO,
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    fn down(&mut self, why: impl Into<String>) {
        self.forget();
        self.events.push_back(DriverEvent::Down(cut(&why.into())));
    }

    fn forget(&mut self) {
        self.phase = Phase::Down;
        self.framer = Framer::default();
        self.under_way.clear();
        self.queue.clear();
        self.deadline = None;
        self.outgoing.clear();
    }

    fn hear(&mut self, now: Time, message: &[u8]) -> Result<(), String> {
        let message = Element::parse(message)?;
        match self.phase {
            Phase::Greeting => {
                self.server = greeted(&message)?;
                if self.server.chunks {
                    self.framer.speak_chunks();
                }
                self.phase = Phase::Asking;
                self.deadline = Some(now.saturating_add(SETTLE).min(self.give_up));
                Ok(())
            }
            _ if message.is(Space::Netconf, "rpc-reply") => self.replied(now, message),
            // RFC 5277 has them in a namespace of their own.
            _ if message.name == "notification" => {
                let told: Vec<_> = message.children.iter().map(flat).collect();
                self.events.push_back(DriverEvent::Notice(cut(&told.join(" "))));
                Ok(())
            }
            _ => Err(format!("<{}> is no reply", message.name)),
        }
    }

    fn replied(&mut self, now: Time, message: Element) -> Result<(), String> {
        let call = message.value("message-id").unwrap_or_default();
        let job = self.under_way.pop_front().filter(|(number, _)| call == number.to_string());
        let Some((_, job)) = job else {
            return Err(format!("a reply to call {call:?}, which is not under way"));
        };
        let (reply, warning) = reply(message)?;
        self.events.extend(warning.map(DriverEvent::Notice));
        let more = !self.under_way.is_empty();
        self.deadline = more.then(|| now.saturating_add(self.settings.patience));
        match (job.order, reply) {
            (None, Reply::Data(data)) => {
                let (device, ports) = self.described(&data)?;
                self.ports = ports;
                if self.phase == Phase::Asking {
                    self.phase = Phase::Up;
                    self.events.push_back(DriverEvent::Up { device, ports });
                }
            }
            (Some(id), Reply::Data(data)) if job.step == Step::Read => {
                let answer = Answer::State(self.patches(&data)?);
                self.events.push_back(DriverEvent::Answer { id, answer });
            }
            (None, Reply::Refused(words)) => return Err(words),
            (Some(id), Reply::Refused(words)) => self.went_wrong(id, job, words)?,
            (Some(id), Reply::Ok) if job.step != Step::Read => self.went_well(id, job),
            _ => return Err("a reply that does not fit its call".into()),
        }
        self.proceed(now);
        Ok(())
    }

    /// The step after one that the switch has done.
    fn went_well(&mut self, id: u64, job: Job) {
        let next = match job.step {
            Step::Lock => Step::EditCandidate,
            Step::EditCandidate => Step::Commit,
            Step::Commit | Step::Discard => Step::Unlock,
            Step::Describe | Step::Read | Step::Edit | Step::Unlock => {
                let answer = job.refused.map_or(Answer::Done, Answer::Refused);
                self.events.push_back(DriverEvent::Answer { id, answer });
                return;
            }
        };
        self.begin(Job { step: next, ..job });
    }

    /// The step after one that the switch would not do.
    fn went_wrong(&mut self, id: u64, job: Job, words: String) -> Result<(), String> {
        match job.step {
            Step::EditCandidate | Step::Commit => {
                self.begin(Job { step: Step::Discard, refused: Some(words), ..job });
            }
            // What is locked and not ours to open is opened by the end of the session.
            Step::Discard | Step::Unlock => return Err(words),
            _ => {
                let answer = Answer::Refused(words);
                self.events.push_back(DriverEvent::Answer { id, answer });
            }
        }
        Ok(())
    }

    /// Begins the next order, or waits for one.
    fn proceed(&mut self, now: Time) {
        while self.phase == Phase::Up && self.under_way.is_empty() {
            let Some((id, order)) = self.queue.pop_front() else {
                let idle = self.settings.keepalive;
                self.deadline = (idle > Time::ZERO).then(|| now.saturating_add(idle));
                return;
            };
            self.deadline = None;
            let (step, edit) = match &order {
                Order::Read => (Step::Read, None),
                Order::Apply { end, set } if end.is_empty() && set.is_empty() => {
                    let answer = Answer::Done;
                    self.events.push_back(DriverEvent::Answer { id, answer });
                    continue;
                }
                Order::Apply { end, set } => {
                    let step = if self.server.writable { Step::Edit } else { Step::Lock };
                    (step, Some(edit(self.server.list(), end, set)))
                }
            };
            self.begin(Job { order: Some(id), step, edit, refused: None });
        }
    }

    fn describe(&mut self) {
        self.begin(Job { order: None, step: Step::Describe, edit: None, refused: None });
    }

    fn begin(&mut self, mut job: Job) {
        let candidate = Element::netconf("target").with(Element::netconf("candidate"));
        let operation = match job.step {
            Step::Describe => get([
                Element::switch("product-information"),
                Element::switch("port-config")
                    .with(Element::switch("port").with(Element::switch("port-id"))),
            ]),
            Step::Read => get([Element::switch("cross-connects")]),
            Step::Edit => {
                let running = Element::netconf("target").with(Element::netconf("running"));
                change(running, job.edit.take())
            }
            Step::EditCandidate => change(candidate, job.edit.take()),
            Step::Lock => Element::netconf("lock").with(candidate),
            Step::Unlock => Element::netconf("unlock").with(candidate),
            Step::Commit => Element::netconf("commit"),
            Step::Discard => Element::netconf("discard-changes"),
        };
        self.call += 1;
        let call = Element::netconf("rpc").attribute("message-id", &self.call.to_string());
        let text = call.with(operation).to_string();
        self.outgoing.push_back(if self.server.chunks { chunk(&text) } else { mark(&text) });
        self.under_way.push_back((self.call, job));
    }

    fn described(&self, data: &Element) -> Result<(String, u16), String> {
        let inside = |name| data.children.iter().find(|child| child.is(Space::Switch, name));
        let product = inside("product-information");
        let said = |name| product.and_then(|product| product.child(name)).map(|of| of.text.trim());
        let words: Vec<_> = ["manufacturer", "model-name", "software-version"]
            .into_iter()
            .filter_map(said)
            .collect();
        let device = match words[..] {
            [] => "a switch that does not name itself".to_owned(),
            _ => cut(&words.join(" ")),
        };
        let mut highest = 0;
        for port in inside("port-config").map_or(&[][..], |config| &config.children) {
            highest = highest.max(number(port, "port-id")?);
        }
        // Ingresses and egresses are numbered in one row.
        let ports = if highest == 0 { self.settings.ports } else { highest / 2 };
        Ok((device, ports))
    }

    fn patches(&self, data: &Element) -> Result<Vec<Patch>, String> {
        let connects = data.children.iter().find(|child| child.is(Space::Switch, "cross-connects"));
        let mut patches = Vec::new();
        for pair in connects.map_or(&[][..], |connects| &connects.children) {
            if pair.is(Space::Switch, self.server.list()) {
                patches.push(Patch::new(number(pair, "ingress")?, number(pair, "egress")?));
            }
        }
        let ours = |port: u16| self.settings.slice.binary_search(&port).is_ok();
        patches
            .retain(|patch| ours(patch.ingress) || ours(patch.egress.saturating_sub(self.ports)));
        patches.sort_unstable();
        Ok(patches)
    }
}

impl Driver for NetconfDriver {
    fn connected(&mut self, now: Time) {
        self.forget();
        self.events.clear();
        self.server = Server::default();
        self.phase = Phase::Greeting;
        self.give_up = now.saturating_add(self.settings.patience);
        self.deadline = Some(self.give_up);
        let speaks = |base| Element::netconf("capability").saying(base);
        let capabilities =
            Element::netconf("capabilities").with(speaks(BASE_1_0)).with(speaks(BASE_1_1));
        let hello = Element::netconf("hello").with(capabilities);
        self.outgoing.push_back(mark(&hello.to_string()));
    }

    fn disconnected(&mut self, _: Time) {
        self.forget();
    }

    fn order(&mut self, now: Time, id: u64, order: &Order) {
        if self.phase == Phase::Up {
            self.queue.push_back((id, order.clone()));
            self.proceed(now);
        }
    }

    fn receive(&mut self, now: Time, bytes: &[u8]) {
        if self.phase == Phase::Down {
            return;
        }
        self.framer.push(bytes);
        while self.phase != Phase::Down {
            let heard = match self.framer.message() {
                Ok(None) => return,
                Ok(Some(message)) => self.hear(now, &message),
                Err(error) => Err(error.to_string()),
            };
            if let Err(why) = heard {
                self.down(why);
            }
        }
    }

    fn transmit(&mut self) -> Option<Vec<u8>> {
        self.outgoing.pop_front()
    }

    fn event(&mut self) -> Option<DriverEvent> {
        self.events.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.deadline
    }

    fn timeout(&mut self, now: Time) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        let next = match self.phase {
            Phase::Asking if now < self.give_up => now.saturating_add(REPEAT).min(self.give_up),
            Phase::Up if self.under_way.is_empty() => now.saturating_add(self.settings.patience),
            _ => return self.down("it does not answer"),
        };
        self.deadline = Some(next);
        self.describe();
    }
}

/// What a server's hello says of it.
fn greeted(hello: &Element) -> Result<Server, String> {
    let capabilities = hello.is(Space::Netconf, "hello").then(|| hello.child("capabilities"));
    let Some(Some(capabilities)) = capabilities else {
        return Err(format!("<{}> is no greeting", hello.name));
    };
    let says = |which: &str| capabilities.children.iter().any(|one| one.text.trim() == which);
    let module = capabilities.children.iter().find_map(|one| one.text.trim().strip_prefix(MODULE));
    let module = module.ok_or("it does not serve the module optical-switch")?;
    let revision = module.split(['?', '&']).find_map(|part| part.strip_prefix("revision="));
    let chunks = says(BASE_1_1);
    if !chunks && !says(BASE_1_0) {
        return Err("it speaks neither version 1.0 nor 1.1".into());
    }
    let writable = says(WRITABLE);
    if !writable && !says(CANDIDATE) {
        return Err("its configuration can be written neither at once nor as a candidate".into());
    }
    Ok(Server { chunks, writable, revision: revision.map(cut) })
}

fn get<const N: usize>(wanted: [Element; N]) -> Element {
    let filter = Element::netconf("filter").attribute("type", "subtree");
    Element::netconf("get").with(wanted.into_iter().fold(filter, Element::with))
}

fn change(target: Element, connects: Option<Element>) -> Element {
    let config = connects.into_iter().fold(Element::netconf("config"), Element::with);
    Element::netconf("edit-config").with(target).with(config)
}

/// Ends patches and sets others. A pair is known by its ingress and may be named once only: what is
/// ended at an ingress that is also set is replaced.
fn edit(list: &str, end: &[Patch], set: &[Patch]) -> Element {
    let pair = |operation, patch: &Patch| {
        Element::switch(list)
            .attribute("operation", operation)
            .with(Element::switch("ingress").saying(patch.ingress))
    };
    let named = |list: &[Patch]| -> Vec<u16> {
        let mut ingresses: Vec<_> = list.iter().map(|patch| patch.ingress).collect();
        ingresses.sort_unstable();
        ingresses
    };
    let (ended, wanted) = (named(end), named(set));
    let gone = end.iter().filter(|patch| wanted.binary_search(&patch.ingress).is_err());
    let set = set.iter().map(|patch| {
        let moved = ended.binary_search(&patch.ingress).is_ok();
        pair(if moved { "replace" } else { "create" }, patch)
            .with(Element::switch("egress").saying(patch.egress))
    });
    let gone = gone.map(|patch| pair("delete", patch));
    gone.chain(set).fold(Element::switch("cross-connects"), Element::with)
}

/// What a server says to a call, and what it warns of.
fn reply(message: Element) -> Result<(Reply, Option<String>), String> {
    let (mut errors, mut warnings, mut reply) = (Vec::new(), Vec::new(), None);
    for child in message.children {
        if child.is(Space::Netconf, "rpc-error") {
            let said = |name| child.child(name).map_or("", |of| of.text.trim());
            let words = ["error-tag", "error-app-tag", "error-message", "error-path"].map(said);
            let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
            let list =
                if said("error-severity") == "warning" { &mut warnings } else { &mut errors };
            list.push(words.join(", "));
        } else if child.is(Space::Netconf, "ok") {
            reply = Some(Reply::Ok);
        } else if child.is(Space::Netconf, "data") {
            reply = Some(Reply::Data(child));
        }
    }
    if !errors.is_empty() {
        reply = Some(Reply::Refused(cut(&errors.join("; "))));
    }
    let warning = (!warnings.is_empty()).then(|| cut(&warnings.join("; ")));
    Ok((reply.ok_or("a reply that says nothing")?, warning))
}

fn number(of: &Element, name: &str) -> Result<u16, String> {
    let text = of.child(name).map_or("", |child| child.text.trim());
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| format!("<{}>: {name} {text:?} is no port", of.name))
}

/// An element and all in it, in words.
fn flat(element: &Element) -> String {
    let inside: Vec<_> = element.children.iter().map(flat).collect();
    format!("{} {}{}", element.name, element.text.trim(), inside.join(" ")).trim().to_owned()
}

fn cut(words: &str) -> String {
    words.chars().take(WORDS).collect()
}
