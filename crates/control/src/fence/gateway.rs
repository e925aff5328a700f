//! The gateway: its sessions, its queue, and the switch behind it.

use super::command::{Command, plain};
use super::terms::Terms;
use crate::controller::Input;
use crate::driver::Order;
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// No line of a controller is longer, with its end \[B\]: one may name 4,096 ports.
const MAX_LINE: usize = 16 << 10;
/// A session has no more commands that are not answered: an order may change all ports of a switch.
const MOST_COMMANDS: usize = 16 << 10;

/// What a gateway must know of its switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewaySettings {
    /// Its duplex ports.
    pub ports: u16,
    /// It has answered an order by then, or is not trusted.
    pub patience: Time,
    /// A command that was sent over a broken stream is carried out by then, or never.
    pub lifetime: Time,
}

/// What a gateway wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayOutput {
    /// Make these safe on disk; not before may any later output be carried out.
    Keep(Terms),
    /// Send this over a session.
    Say {
        /// As [`Gateway::open`] gave it.
        session: u64,
        /// Whole lines.
        text: String,
    },
    /// Close a session, once what was said is sent.
    Close {
        /// As [`Gateway::open`] gave it.
        session: u64,
        /// Why, for the log.
        why: String,
    },
    /// Give the switch an order.
    Order {
        /// For [`Input::Answer`].
        id: u64,
        /// What the switch is to do.
        order: Order,
    },
    /// Close the stream to the switch, and open another.
    Reconnect,
    /// A change was refused.
    Refused {
        /// Whose it was.
        session: u64,
        /// The term that it had, and the last one.
        term: u64,
        /// The last term of its ports.
        last: u64,
    },
}

/// The only client of a switch, for controllers that claim terms from it.
#[derive(Debug)]
pub struct Gateway {
    pub(super) settings: GatewaySettings,
    pub(super) terms: Terms,
    /// What the switch calls itself, or why nobody is let in.
    pub(super) device: Result<String, String>,
    /// Another stream was asked for.
    pub(super) given_up: bool,
    /// The switch may still carry out what was asked over a broken stream.
    pub(super) not_before: Time,
    pub(super) sessions: BTreeMap<u64, Session>,
    opened: u64,
    /// Commands that are not carried out, of sessions that are open, in the order in which they came.
    pub(super) queue: VecDeque<Asked>,
    pub(super) under_way: Option<UnderWay>,
    pub(super) ordered: u64,
    pub(super) outputs: VecDeque<GatewayOutput>,
}

/// A command in the queue.
#[derive(Debug)]
pub(super) struct Asked {
    pub session: u64,
    pub number: u64,
    /// Or why it makes no sense.
    pub command: Result<Command, String>,
}

#[derive(Debug, Default)]
pub(super) struct Session {
    greeted: bool,
    line: Vec<u8>,
    /// The number of the last command.
    number: Option<u64>,
    /// Commands in the queue.
    pub waiting: usize,
}

/// An order that the switch has not answered.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub id: u64,
    pub session: u64,
    /// The commands that it answers.
    pub numbers: Vec<u64>,
    pub changes: bool,
    pub deadline: Time,
}

impl Gateway {
    /// A gateway that has not reached its switch, and has issued these terms.
    pub fn new(settings: GatewaySettings, terms: Terms) -> Self {
        Gateway {
            settings,
            terms,
            device: Err("it has not been reached".into()),
            given_up: false,
            not_before: Time::ZERO,
            sessions: BTreeMap::new(),
            opened: 0,
            queue: VecDeque::new(),
            under_way: None,
            ordered: 0,
            outputs: VecDeque::new(),
        }
    }

    /// A controller connects: the number of its session.
    pub fn open(&mut self) -> u64 {
        self.opened += 1;
        self.sessions.insert(self.opened, Session::default());
        self.opened
    }

    /// Its stream is closed: what it asked and is not with the switch never will be.
    pub fn close(&mut self, session: u64) {
        if self.sessions.remove(&session).is_some() {
            self.queue.retain(|asked| asked.session != session);
        }
    }

    /// Bytes of a session.
    pub fn receive(&mut self, now: Time, session: u64, bytes: &[u8]) {
        for &byte in bytes {
            let Some(open) = self.sessions.get_mut(&session) else { return };
            if byte != b'\n' {
                open.line.push(byte);
                if open.line.len() >= MAX_LINE {
                    return self.hang_up(session, &format!("a line of more than {MAX_LINE} bytes"));
                }
                continue;
            }
            let line = std::mem::take(&mut open.line);
            if let Err(why) = self.hear(now, session, &line) {
                return self.hang_up(session, why);
            }
        }
        self.proceed(now);
    }

    /// What the driver of the switch has to tell.
    pub fn switch(&mut self, now: Time, input: Input) {
        match input {
            Input::SwitchUp { device, ports, .. } if ports == self.settings.ports => {
                (self.device, self.given_up) = (Ok(device), false);
            }
            Input::SwitchUp { device, ports, .. } => {
                let expected = self.settings.ports;
                self.give_up(now, &format!("{device} has {ports} ports, not {expected}"));
            }
            // As was asked: why is known.
            Input::SwitchDown { .. } if std::mem::take(&mut self.given_up) => {}
            Input::SwitchDown { why, .. } => self.away(now, &why),
            Input::Answer { id, answer } => self.answered(now, id, answer),
            _ => {}
        }
        self.proceed(now);
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: Time) {
        if self.next_timeout().is_some_and(|deadline| now >= deadline) {
            self.give_up(now, "it did not answer in time");
        }
    }

    /// When [`Gateway::timeout`] wants to be called, if ever.
    pub fn next_timeout(&self) -> Option<Time> {
        self.under_way.as_ref().map(|order| order.deadline)
    }

    /// What is to be done, in order.
    pub fn poll(&mut self) -> Option<GatewayOutput> {
        self.outputs.pop_front()
    }

    /// Hears a line. The error says why the session is to end.
    fn hear(&mut self, now: Time, session: u64, line: &[u8]) -> Result<(), &'static str> {
        let text = std::str::from_utf8(line).ok().and_then(|line| line.split_once(' '));
        let (number, text) = text.ok_or("a line that is no command")?;
        let number: u64 = number.parse().map_err(|_| "a line without a number")?;
        let ports = self.settings.ports;
        let open = self.sessions.get_mut(&session).ok_or("closed")?;
        if open.number.is_some_and(|last| last.checked_add(1) != Some(number)) {
            return Err("a number that does not follow the last");
        }
        open.number = Some(number);
        if !open.greeted {
            let Ok(Command::Hello(version)) = Command::parse(text, ports) else {
                return Err("no greeting");
            };
            self.greet(now, session, number, version);
            return Ok(());
        }
        if open.waiting >= MOST_COMMANDS {
            return Err("too much at once");
        }
        open.waiting += 1;
        // What makes no sense is answered in its turn.
        let command = Command::parse(text, ports);
        self.queue.push_back(Asked { session, number, command });
        Ok(())
    }

    fn greet(&mut self, now: Time, session: u64, number: u64, version: u64) {
        let words = match &self.device {
            Err(why) => Err(format!("the switch is away: {why}")),
            Ok(_) if now < self.not_before => {
                Err("the switch is away: it may still carry out what it was asked before".into())
            }
            Ok(_) if version != 2 => Err("this gateway speaks version 2 alone".to_string()),
            Ok(device) => Ok(format!("2 {} {}", self.settings.ports, plain(device))),
        };
        if let (Ok(_), Some(open)) = (&words, self.sessions.get_mut(&session)) {
            open.greeted = true;
        }
        let line = words.map_or_else(|why| format!("err {}", plain(&why)), |ok| format!("ok {ok}"));
        self.say(session, &[number], &line);
    }
}
