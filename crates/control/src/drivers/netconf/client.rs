//! The NETCONF driver: orders as remote procedure calls on the module of the optical switch.
//!
//! Modelled: the greeting and both framings (RFC 6241, 6242); the list `cross-connects/pair` with its
//! key `ingress`, called `pairs` before revision 2017-08-04 of the module; one `<edit-config>` for an
//! order, on the running configuration or, where that cannot be written, on the candidate, which is
//! locked, committed and unlocked, and given up whole if any step fails. The switch is up once it
//! has said its maker and ports; while nothing is asked it is asked that again, so that neither side
//! takes the session for dead. One call is under way at a time.
//! Ignored: notifications are handed on as they come, and none are asked for. A pair is deleted by its
//! ingress, whatever its egress is by then; reading back shows what became of it.
//! Checked: against a peer in memory by the suite of all drivers, and against netconfd.

use super::call;
use super::frame::{Framer, chunk, mark};
use super::lock::{Denied, Lock};
use super::reply::{self, Reply, Server, cut};
use super::xml::{Element, Space};
use crate::driver::{Answer, Driver, DriverEvent, Order, Patch};
use crate::protocol::{Connection, Protocol, Reach, Setting, SettingKind, WrongSetting};
use lightloom_units::Time;
use std::collections::VecDeque;

/// netconfd overlooks a call that it reads together with our hello, until more comes: the first call
/// waits for so long after the server's hello, and is repeated if it is not answered for so long.
const SETTLE: Time = Time::from_ms(50);
const REPEAT: Time = Time::from_ms(500);

/// NETCONF in the list of drivers.
pub const PROTOCOL: Protocol = Protocol {
    name: "netconf",
    title: "NETCONF (RFC 6241) with the module optical-switch, as Polatis switches speak it",
    reach: Reach::Ssh { subsystem: "netconf" },
    whole: true,
    fences: false,
    settings: &[Setting {
        key: "lock",
        kind: SettingKind::Text,
        meaning: "change, or session: locked as long as the session lasts, for a region without others at its switch",
        default: "change",
    }],
    driver,
};

fn driver(connection: &Connection) -> Result<Box<dyn Driver + Send>, WrongSetting> {
    let mut settings = NetconfSettings::new(connection.ports, connection.slice.clone());
    settings.exclusive = match connection.values.get("lock").map(String::as_str) {
        None | Some("change") => false,
        Some("session") => true,
        Some(_) => return Err(WrongSetting::new("lock", "must be change or session")),
    };
    Ok(Box::new(NetconfDriver::new(settings)))
}

/// What the driver must know of a switch.
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
    /// No other region shares the switch: it is locked as long as the session lasts, and a session that finds it
    /// locked changes nothing until [`Driver::claim`] ends the other.
    pub exclusive: bool,
}

impl NetconfSettings {
    /// For a switch of `ports` ports that others may share, with 10 s of patience and a sign of life every 5 minutes.
    pub fn new(ports: u16, slice: Vec<u16>) -> Self {
        let (patience, keepalive) = (Time::from_ms(10_000), Time::from_ms(300_000));
        NetconfSettings { ports, slice, patience, keepalive, exclusive: false }
    }
}

/// One session with a switch that speaks NETCONF.
///
/// ```
/// use lightloom_control::Driver;
/// use lightloom_control::drivers::netconf::{NetconfDriver, NetconfSettings};
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
    lock: Lock,
    /// The switch's name, and its ports, once it is up.
    device: String,
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
    /// Nor whether this session has the lock.
    Locking,
    Up,
}

/// A call under way, and what it is for.
#[derive(Clone, Debug)]
struct Job {
    /// The order's number; none asks for a sign of life, or for what the switch is.
    order: Option<u64>,
    step: Step,
    /// The edit of the candidate, until it is made.
    edit: Option<String>,
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
    /// As [`Step::Unlock`], of a lock that was refused: it may be ours all the same.
    Release,
    /// The lock of the session is asked for,
    Hold,
    /// after this session was ended.
    End(u64),
}

impl NetconfDriver {
    /// A driver without a stream.
    pub fn new(mut settings: NetconfSettings) -> Self {
        settings.slice.sort_unstable();
        NetconfDriver {
            lock: Lock::new(settings.exclusive),
            settings,
            phase: Phase::Down,
            framer: Framer::default(),
            server: Server::default(),
            device: String::new(),
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
        self.lock.lost();
    }

    fn hear(&mut self, now: Time, message: &[u8]) -> Result<(), String> {
        let message = Element::parse(message)?;
        match self.phase {
            Phase::Greeting => {
                self.server = reply::greeted(&message)?;
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
                let words: Vec<_> = message.children.iter().map(reply::flat).collect();
                self.events.push_back(DriverEvent::Notice(cut(&words.join(" "))));
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
        let (reply, warning) = reply::replied(message)?;
        self.events.extend(warning.map(DriverEvent::Notice));
        let more = !self.under_way.is_empty();
        self.deadline = more.then(|| now.saturating_add(self.settings.patience));
        match (job.order, reply) {
            (None, Reply::Data(data)) => {
                let (device, listed) = reply::described(&data)?;
                (self.device, self.ports) = (device, listed.unwrap_or(self.settings.ports));
                if self.phase == Phase::Asking {
                    self.described();
                }
            }
            (None, Reply::Ok) if job.step == Step::Hold => self.locked(),
            (None, Reply::Locked(holder, words)) if job.step == Step::Hold => {
                self.denied(holder, &words);
            }
            // It may have ended by itself.
            (None, Reply::Ok | Reply::Refused(_)) if matches!(job.step, Step::End(_)) => {
                self.ask(Step::Hold);
            }
            (Some(id), Reply::Data(data)) if job.step == Step::Read => {
                let mut patches = reply::patches(&data, self.server.list())?;
                patches.retain(|patch| self.is_ours(patch));
                let answer = Answer::State(patches);
                self.events.push_back(DriverEvent::Answer { id, answer });
            }
            (None, Reply::Refused(words)) => return Err(words),
            (Some(id), Reply::Refused(words) | Reply::Locked(_, words)) => {
                self.went_wrong(id, job, words)?;
            }
            (Some(id), Reply::Ok) if job.step != Step::Read => self.went_well(id, job),
            _ => return Err("a reply that does not fit its call".into()),
        }
        self.proceed(now);
        Ok(())
    }

    /// The switch has said what it is: it is up, or its lock comes first.
    fn described(&mut self) {
        if self.lock.is_due() {
            self.phase = Phase::Locking;
            return self.ask(Step::Hold);
        }
        self.come_up();
        self.events.extend(self.lock.other.clone().map(DriverEvent::Fenced));
    }

    fn come_up(&mut self) {
        self.phase = Phase::Up;
        let (device, ports) = (self.device.clone(), self.ports);
        self.events.push_back(DriverEvent::Up { device, ports });
    }

    /// This session has the lock: its number is the term.
    fn locked(&mut self) {
        self.lock.got(self.server.session);
        self.events.push_back(DriverEvent::Term(self.server.session));
        if self.phase == Phase::Locking {
            self.come_up();
        }
    }

    /// Another session has the lock.
    fn denied(&mut self, holder: u64, words: &str) {
        match self.lock.denied(holder, words) {
            Denied::End(session) => self.ask(Step::End(session)),
            Denied::Leave(why) => {
                if self.phase == Phase::Locking {
                    self.come_up();
                }
                self.events.push_back(DriverEvent::Fenced(why));
            }
        }
    }

    /// The step after one that the switch has done.
    fn went_well(&mut self, id: u64, job: Job) {
        let next = match job.step {
            Step::Lock => Step::EditCandidate,
            Step::EditCandidate => Step::Commit,
            Step::Commit | Step::Discard if !self.lock.held => Step::Unlock,
            _ => {
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
            Step::Lock => self.begin(Job { step: Step::Release, refused: Some(words), ..job }),
            // What is locked and not ours to open is opened by the end of the session.
            Step::Discard | Step::Unlock => return Err(words),
            _ => {
                let answer = Answer::Refused(job.refused.unwrap_or(words));
                self.events.push_back(DriverEvent::Answer { id, answer });
            }
        }
        Ok(())
    }

    /// Begins the next order, or waits for one.
    fn proceed(&mut self, now: Time) {
        if self.phase == Phase::Locking && self.under_way.len() == 1 {
            self.deadline = Some(self.give_up);
        }
        while self.phase == Phase::Up && self.under_way.is_empty() {
            if self.lock.claimed && self.lock.is_due() {
                self.deadline = Some(now.saturating_add(self.settings.patience));
                return self.ask(Step::Hold);
            }
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
                Order::Apply { .. } if self.lock.wanted && !self.lock.held => {
                    let why = self.lock.other.clone().unwrap_or("the lock is not held".into());
                    self.events.push_back(DriverEvent::Answer { id, answer: Answer::Fenced(why) });
                    continue;
                }
                Order::Apply { end, set } => {
                    let target = if self.server.writable { "running" } else { "candidate" };
                    let step = match (self.server.writable, self.lock.held) {
                        (true, _) => Step::Edit,
                        (false, true) => Step::EditCandidate,
                        (false, false) => Step::Lock,
                    };
                    (step, Some(call::edit(target, self.server.list(), end, set)))
                }
            };
            self.begin(Job { order: Some(id), step, edit, refused: None });
        }
    }

    /// A call that no order needs.
    fn ask(&mut self, step: Step) {
        self.begin(Job { order: None, step, edit: None, refused: None });
    }

    fn begin(&mut self, mut job: Job) {
        let edit = job.edit.take_if(|_| matches!(job.step, Step::Edit | Step::EditCandidate));
        let kill = if let Step::End(session) = job.step { call::kill(session) } else { String::new() };
        let operation = match job.step {
            Step::End(_) => &kill,
            Step::Hold if self.server.writable => call::LOCK_RUNNING,
            Step::Describe => call::DESCRIBE,
            Step::Read => call::READ,
            Step::Edit | Step::EditCandidate => edit.as_deref().unwrap_or_default(),
            Step::Lock | Step::Hold => call::LOCK,
            Step::Unlock | Step::Release => call::UNLOCK,
            Step::Commit => call::COMMIT,
            Step::Discard => call::DISCARD,
        };
        self.call += 1;
        let text = call::numbered(self.call, operation);
        self.outgoing.push_back(if self.server.chunks { chunk(&text) } else { mark(&text) });
        self.under_way.push_back((self.call, job));
    }

    fn is_ours(&self, patch: &Patch) -> bool {
        let ours = |port: u16| self.settings.slice.binary_search(&port).is_ok();
        ours(patch.ingress) || ours(patch.egress.saturating_sub(self.ports))
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
        self.outgoing.push_back(mark(call::HELLO));
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
        self.ask(Step::Describe);
    }

    fn hold(&mut self, term: u64) {
        self.lock.remember(term);
    }

    fn claim(&mut self, now: Time) {
        if !self.lock.wanted {
            return;
        }
        self.lock.claimed = !self.lock.held;
        if self.lock.held {
            self.events.push_back(DriverEvent::Term(self.server.session));
        }
        self.proceed(now);
    }
}
