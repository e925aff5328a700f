//! The driver of an optical switch that speaks TL1.
//!
//! Modelled: it logs in, asks the switch for its make and size, and is up. A change is one `DLT-PATCH`
//! and one `ENT-PATCH`, both sent at once; lists that would make too long a command are cut. What is
//! asked of ports outside the slice is refused here already. Answers must come in the order of the
//! commands: an answer to nothing, one out of order, or what is no TL1 at all ends the session, since
//! none of its answers could be trusted. Ignored: shutters and power. Checked: against the server of
//! this crate, any legal orders leave the switch as asked and read back the same; no bytes panic it.

use super::command::{Command, Ports, Request, Secret};
use super::frame::{Frame, Framer};
use super::reply::{Message, denial, lines};
use crate::driver::{Answer, Driver, DriverEvent, Order, Patch};
use crate::protocol::{Connection, Protocol, Reach, Setting, SettingKind, WrongSetting};
use lightloom_units::Time;
use std::collections::VecDeque;
use thiserror::Error;

/// No message of a switch may be longer \[B\]: all patches of the largest take 60 KiB.
const MOST_REPLY: usize = 1 << 20;

/// TL1 in the list of drivers.
pub const PROTOCOL: Protocol = Protocol {
    name: "tl1",
    title: "TL1 (Telcordia GR-831), as Polatis switches speak it",
    reach: Reach::Tcp,
    whole: false,
    fences: false,
    settings: &[
        Setting {
            key: "user",
            kind: SettingKind::Text,
            meaning: "the user that the controller logs in as",
            default: "root, if the switch is an emulator on loopback",
        },
        Setting {
            key: "password_file",
            kind: SettingKind::File,
            meaning: "a file that holds the user's password",
            default: "given with user",
        },
    ],
    driver,
};

fn driver(connection: &Connection) -> Result<Box<dyn Driver + Send>, WrongSetting> {
    let given = |key| connection.values.get(key).map(String::as_str);
    let (user, password) = match (given("user"), given("password_file")) {
        (Some(user), Some(password)) => (user, password),
        (None, None) if connection.loopback => ("root", "root"),
        (None, _) => {
            return Err(WrongSetting::new("user", "missing: who we are to the switch"));
        }
        (_, None) => {
            return Err(WrongSetting::new("password_file", "missing: a file with the password"));
        }
    };
    let login = Login { user: user.to_owned(), password: Secret::new(password) };
    let driver = Tl1Driver::new(login, &connection.slice, Options::default())
        .map_err(|why| WrongSetting::new(why.key(), why))?;
    Ok(Box::new(driver))
}

/// How to be let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The name of the user.
    pub user: String,
    /// The password of that user.
    pub password: Secret,
}

/// A user or password that cannot be written in TL1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the {0} for a TL1 switch: at most 200 characters of ASCII, without quotes")]
pub struct LoginError(&'static str);

impl LoginError {
    /// The setting that is wrong.
    fn key(self) -> &'static str {
        if self.0 == "user" { "user" } else { "password_file" }
    }
}

/// How patient a driver is, and how terse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The switch must have let us in, and said its size, so long after the stream was open.
    pub patience: Time,
    /// No command is longer \[B\]. TL1 sets no bound; 4096 is what messages of equipment keep to.
    pub longest: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { patience: Time::from_ms(5_000), longest: 4096 }
    }
}

/// A [`Driver`] in TL1.
///
/// ```
/// use lightloom_control::drivers::tl1::{Login, Options, Secret, Tl1Driver};
/// use lightloom_control::{Driver, DriverEvent};
/// use lightloom_units::Time;
/// let login = Login { user: "root".into(), password: Secret::new("pass word") };
/// let mut driver = Tl1Driver::new(login, &[1, 2, 3], Options::default()).unwrap();
/// driver.connected(Time::ZERO);
/// assert_eq!(driver.transmit().unwrap(), b"ACT-USER::root:1::\"pass word\";\r\n");
/// assert_eq!(driver.next_timeout(), Some(Time::from_ms(5000)));
/// driver.receive(Time::ZERO, b"\r\n\n   OCS 26-11-21 17:29:58\r\nM  1 DENY\r\n   PIUI\r\n;");
/// let down = DriverEvent::Down("login denied: PIUI".into());
/// assert_eq!(driver.event(), Some(down));
/// ```
#[derive(Clone, Debug)]
pub struct Tl1Driver {
    login: Login,
    options: Options,
    /// Duplex ports, rising.
    slice: Vec<u16>,
    state: State,
    framer: Framer,
    ctag: u32,
    /// Commands that are not answered, in order.
    asked: VecDeque<(u32, Asked)>,
    orders: VecDeque<Pending>,
    out: Vec<u8>,
    events: VecDeque<DriverEvent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// No stream, or none that makes sense.
    Off,
    /// Until it must have let us in; and its make, once known.
    Entering(Time, Option<String>),
    /// With so many ports.
    Up(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Login,
    Kind,
    Size,
    Order,
}

/// An order that is not answered.
#[derive(Clone, Debug)]
struct Pending {
    id: u64,
    /// Commands of it that are not answered.
    left: usize,
    refused: Option<String>,
    /// What was read, if it is to be read.
    state: Option<Vec<Patch>>,
}

impl Tl1Driver {
    /// A driver for these duplex ports of a switch, from 1.
    ///
    /// # Errors
    /// If the login cannot be written in TL1.
    pub fn new(login: Login, slice: &[u16], options: Options) -> Result<Self, LoginError> {
        if login.user.is_empty() || !Secret::is_writable(&login.user) {
            return Err(LoginError("user"));
        }
        if !Secret::is_writable(login.password.text()) {
            return Err(LoginError("password"));
        }
        let mut slice = slice.to_vec();
        slice.sort_unstable();
        slice.dedup();
        Ok(Tl1Driver {
            login,
            options,
            slice,
            state: State::Off,
            framer: Framer::replies(MOST_REPLY),
            ctag: 0,
            asked: VecDeque::new(),
            orders: VecDeque::new(),
            out: Vec::new(),
            events: VecDeque::new(),
        })
    }

    fn ask(&mut self, asked: Asked, command: Command) {
        self.ctag = self.ctag % 999_999 + 1;
        let request = Request { tid: String::new(), ctag: self.ctag.to_string(), command };
        self.asked.push_back((self.ctag, asked));
        self.out.extend_from_slice(request.to_string().as_bytes());
        // The line's end is for those who read along.
        self.out.extend_from_slice(b"\r\n");
    }

    /// Nothing of this stream can be trusted any more.
    fn down(&mut self, why: impl Into<String>) {
        self.reset();
        self.events.push_back(DriverEvent::Down(why.into()));
    }

    fn reset(&mut self) {
        self.state = State::Off;
        self.framer = Framer::replies(MOST_REPLY);
        self.asked.clear();
        self.orders.clear();
        self.out.clear();
    }

    /// How many items of so many ports each fit in a command.
    fn room(&self, ports_each: usize) -> usize {
        // The longest port has four digits and a separator; verb, tag and the rest are below 64.
        (self.options.longest.saturating_sub(64) / (5 * ports_each)).max(1)
    }

    /// The duplex port of an ingress or egress is one of the slice.
    fn owns(&self, port: u16, ports: u16) -> bool {
        let duplex = if port > ports { port - ports } else { port };
        self.slice.binary_search(&duplex).is_ok()
    }

    fn begin(&mut self, id: u64, order: &Order) -> Pending {
        let mut pending = Pending { id, left: 0, refused: None, state: None };
        let State::Up(ports) = self.state else {
            pending.refused = Some("the switch is not up".into());
            return pending;
        };
        match order {
            Order::Read => {
                pending.state = Some(Vec::new());
                let egresses = self.slice.iter().map(|port| ports + port);
                let both: Vec<u16> = self.slice.iter().copied().chain(egresses).collect();
                for some in both.chunks(self.room(1)) {
                    self.ask(Asked::Order, Command::Patches(Ports::These(some.to_vec())));
                    pending.left += 1;
                }
            }
            Order::Apply { end, set } => {
                let foreign = |patch: &&Patch| {
                    !(self.owns(patch.ingress, ports) && self.owns(patch.egress, ports))
                };
                if let Some(Patch { ingress, egress }) = end.iter().chain(set).find(foreign) {
                    pending.refused = Some(format!("{ingress},{egress} leaves the slice"));
                    return pending;
                }
                for some in end.chunks(self.room(1)) {
                    let ports = some.iter().map(|patch| patch.ingress).collect();
                    self.ask(Asked::Order, Command::Delete(Ports::These(ports)));
                    pending.left += 1;
                }
                for some in set.chunks(self.room(2)) {
                    self.ask(Asked::Order, Command::Enter(some.to_vec()));
                    pending.left += 1;
                }
            }
        }
        pending
    }

    fn hear(&mut self, frame: Frame) -> Result<(), String> {
        let (text, end) = match frame {
            Frame::Whole(text, end) => (text, end),
            Frame::TooLong => return Err("a message without end".into()),
        };
        let text = std::str::from_utf8(&text).map_err(|_| "bytes that are no text")?;
        match Message::parse(text)? {
            Message::Acknowledgment { .. } => Ok(()),
            Message::Autonomous { what, text, .. } => {
                let text = lines(text).collect::<Vec<_>>().join(" ");
                let text = text.chars().take(200).collect::<String>();
                self.events.push_back(DriverEvent::Notice(format!("{what}: {text}")));
                Ok(())
            }
            Message::Response { ctag, completed, text } => {
                let Some(&(expected, asked)) = self.asked.front() else {
                    return Err(format!("an answer to {ctag:.6}, which was not asked"));
                };
                if ctag.parse() != Ok(expected) {
                    return Err(format!("an answer to {ctag:.6} before that to {expected}"));
                }
                // With `>` there is more of this answer to come.
                if end == b';' {
                    self.asked.pop_front();
                }
                self.answered(asked, completed, text, end == b';')
            }
        }
    }

    fn answered(&mut self, asked: Asked, done: bool, text: &str, last: bool) -> Result<(), String> {
        match asked {
            Asked::Order => return self.order_answered(done, text, last),
            Asked::Login if !done => return Err(format!("login denied: {}", denial(text))),
            _ if !done => return Err(format!("its make or size denied: {}", denial(text))),
            Asked::Login if last => {
                self.ask(Asked::Kind, Command::Kind);
                self.ask(Asked::Size, Command::Size);
            }
            Asked::Kind => {
                if let State::Entering(_, device @ None) = &mut self.state {
                    *device = lines(text).next().map(|line| line.chars().take(200).collect());
                }
            }
            Asked::Size if last => {
                let size = lines(text).find_map(size);
                let ports =
                    size.ok_or_else(|| format!("a size that is none: {:.80}", text.trim()))?;
                if let Some(port) = self.slice.last().filter(|port| **port > ports) {
                    return Err(format!("it has {ports} ports; port {port} is to be one of them"));
                }
                let device = match std::mem::replace(&mut self.state, State::Up(ports)) {
                    State::Entering(_, device) => device.unwrap_or_default(),
                    _ => String::new(),
                };
                self.events.push_back(DriverEvent::Up { device, ports });
            }
            _ => {}
        }
        Ok(())
    }

    fn order_answered(&mut self, completed: bool, text: &str, last: bool) -> Result<(), String> {
        let State::Up(ports) = self.state else { return Ok(()) };
        // Commands are asked for orders only, and those before it are all answered.
        let Some(pending) = self.orders.front_mut() else { return Ok(()) };
        if last {
            pending.left -= 1;
        }
        match (&mut pending.state, completed) {
            (_, false) => {
                pending.refused.get_or_insert_with(|| denial(text));
            }
            (Some(state), true) => {
                for line in lines(text) {
                    state.extend(patch(line, ports)?);
                }
                if state.len() > 4 * usize::from(ports) {
                    return Err("more patches than it has ports".into());
                }
            }
            (None, true) => {}
        }
        self.answer();
        Ok(())
    }

    /// Answers orders that are done, in order.
    fn answer(&mut self) {
        while self.orders.front().is_some_and(|pending| pending.left == 0) {
            let Some(pending) = self.orders.pop_front() else { return };
            let answer = match (pending.refused, pending.state) {
                (Some(words), _) => Answer::Refused(words),
                (None, None) => Answer::Done,
                (None, Some(mut patches)) => {
                    if let State::Up(ports) = self.state {
                        patches.retain(|patch| {
                            self.owns(patch.ingress, ports) || self.owns(patch.egress, ports)
                        });
                    }
                    patches.sort_unstable();
                    patches.dedup();
                    Answer::State(patches)
                }
            };
            self.events.push_back(DriverEvent::Answer { id: pending.id, answer });
        }
    }
}

impl Driver for Tl1Driver {
    fn connected(&mut self, now: Time) {
        self.reset();
        self.state = State::Entering(now.saturating_add(self.options.patience), None);
        let Login { user, password } = self.login.clone();
        self.ask(Asked::Login, Command::Login { user, password });
    }

    fn disconnected(&mut self, _now: Time) {
        self.reset();
    }

    fn order(&mut self, _now: Time, id: u64, order: &Order) {
        let pending = self.begin(id, order);
        self.orders.push_back(pending);
        self.answer();
    }

    fn receive(&mut self, _now: Time, mut bytes: &[u8]) {
        while self.state != State::Off {
            let Some(frame) = self.framer.next(&mut bytes) else { return };
            if let Err(why) = self.hear(frame) {
                self.down(why);
            }
        }
    }

    fn transmit(&mut self) -> Option<Vec<u8>> {
        (!self.out.is_empty()).then(|| std::mem::take(&mut self.out))
    }

    fn event(&mut self) -> Option<DriverEvent> {
        self.events.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        match self.state {
            State::Entering(deadline, _) => Some(deadline),
            State::Off | State::Up(_) => None,
        }
    }

    fn timeout(&mut self, now: Time) {
        if self.next_timeout().is_some_and(|deadline| deadline <= now) {
            self.down("it did not let us in in time");
        }
    }
}

/// `SYSTEM:SIZE=384x384`: ingresses and egresses, which must be as many.
fn size(line: &str) -> Option<u16> {
    let (ingresses, egresses) = line.strip_prefix("SYSTEM:SIZE=")?.split_once('x')?;
    let ports: u16 = ingresses.parse().ok()?;
    (egresses.parse() == Ok(ports) && (1..=4096).contains(&ports)).then_some(ports)
}

/// `1,385`; a port without a patch may be written as `1,`.
fn patch(line: &str, ports: u16) -> Result<Option<Patch>, String> {
    let wrong = || format!("a patch that is none: {line:.40}");
    let (from, to) = line.split_once(',').ok_or_else(wrong)?;
    if from.is_empty() || to.is_empty() {
        return Ok(None);
    }
    let (Ok(ingress), Ok(egress)) = (from.parse(), to.parse()) else { return Err(wrong()) };
    let known = (1..=ports).contains(&ingress) && (ports + 1..=2 * ports).contains(&egress);
    if known { Ok(Some(Patch { ingress, egress })) } else { Err(wrong()) }
}
