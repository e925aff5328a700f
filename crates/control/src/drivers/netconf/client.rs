//! The NETCONF driver: orders as remote procedure calls on the module of the optical switch.
//!
//! Modelled: the greeting and both framings (RFC 6241, 6242); the list `cross-connects/pair` with its
//! key `ingress`, called `pairs` before revision 2017-08-04 of the module; one `<edit-config>` for an
//! order, on the running configuration or, where that cannot be written, on the candidate, which is
//! locked, committed and unlocked, and given up whole if any step fails. The switch is up once it
//! has said its maker and ports; while nothing is asked it is asked that again, so that neither side
//! takes the session for dead. One call is under way at a time.
//! A switch that no other region shares may be locked as long as the session lasts.
//! Ignored: notifications are handed on as they come, and none are asked for. A pair is deleted by its
//! ingress, whatever its egress is by then; reading back shows what became of it.
//! Checked: against a peer in memory by the suite of all drivers, and against netconfd.

use super::call;
use super::frame::{Framer, mark};
use super::job::{Job, Phase, Step};
use super::lock::Lock;
use super::reply::{self, Server, cut};
use super::xml::{Element, Space};
use crate::driver::{Driver, DriverEvent, Order};
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
    pub(super) settings: NetconfSettings,
    pub(super) phase: Phase,
    pub(super) framer: Framer,
    pub(super) server: Server,
    pub(super) lock: Lock,
    /// The switch's name, and its ports, once it is up.
    pub(super) device: String,
    pub(super) ports: u16,
    /// The last call's number; they go on over sessions.
    pub(super) call: u64,
    /// Calls without a reply, by number: one, but for what is repeated in the greeting.
    pub(super) under_way: VecDeque<(u64, Job)>,
    pub(super) queue: VecDeque<(u64, Order)>,
    /// When the switch should have answered, or shall be asked for something.
    pub(super) deadline: Option<Time>,
    /// The end of the greeting.
    pub(super) give_up: Time,
    pub(super) outgoing: VecDeque<Vec<u8>>,
    pub(super) events: VecDeque<DriverEvent>,
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
