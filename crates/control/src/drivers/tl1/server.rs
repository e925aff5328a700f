//! An optical switch that is spoken to in TL1, by many sessions.
//!
//! Modelled: a session is denied everything before a user is logged in. Commands that change patches
//! begin at once and are answered when the change is done; answers of a session keep the order of its
//! commands, so what was asked after a change is looked up when the change is done; other sessions go
//! on meanwhile. All logged-in sessions hear of changes and of light that comes and goes. A session
//! that piles up work or does not read is closed, so that memory stays bounded. Ignored: managing users, attenuators, labels.
//! Checked: sessions as text, in and out; with the driver of this crate, any legal orders leave the
//! switch as asked; arbitrary bytes leave it legal.

use super::code::{Code, Denial};
use super::command::{Command, Request};
use super::frame::{Frame, Framer};
use super::guarded::{GuardedSwitch, User};
use super::reply::{Alarm, Stamp, write_header, write_report, write_response};
use crate::driver::Patch;
use crate::ocs::{Switch, SwitchEvent};
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// No command may be longer \[B\].
const MOST_COMMAND: usize = 64 << 10;
/// A session with more unanswered commands than this is closed.
const MOST_TURNS: usize = 256;
/// A session with more unread bytes than this is closed.
const MOST_UNREAD: usize = 2 << 20;

/// What a switch is called and who may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its name: the source identifier of all it says, and the target of its commands.
    pub sid: String,
    /// Who may use it.
    pub users: Vec<User>,
    /// What its clock shows at [`Time::ZERO`].
    pub start: Stamp,
}

/// A session of a [`Tl1Server`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u64);

/// A switch, and the sessions over which it is spoken to.
///
/// The caller opens a session for each stream, hands over what comes, sends what
/// [`Tl1Server::transmit`] has for the sessions of [`Tl1Server::waiting`], and calls
/// [`Tl1Server::timeout`] when [`Tl1Server::next_timeout`] comes.
///
/// ```
/// use lightloom_control::ocs::{Device, Switch};
/// use lightloom_control::drivers::tl1::{Secret, Settings, Stamp, Tl1Server, User};
/// use lightloom_fabric::ReconfigurationDelay;
/// use lightloom_units::Time;
/// let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(25) };
/// let switch = Switch::new(Device { name: "polatis".into(), ports: 8, delay }, 1).unwrap();
/// let user = User { name: "root".into(), password: Secret::new("root"), slice: None };
/// let start = Stamp::from_unix(1_795_282_198);
/// let mut server = Tl1Server::new(switch, Settings { sid: "OCS".into(), users: vec![user], start });
/// let session = server.open();
/// server.receive(Time::ZERO, session, b"ACT-USER::root:1::root;ENT-PATCH::1,9:2:;");
/// assert!(server.transmit(session).unwrap().ends_with(b"M  1 COMPLD\r\n;"));
/// server.timeout(Time::from_ms(25));
/// assert!(server.transmit(session).unwrap().ends_with(b"17:29:58\r\nM  2 COMPLD\r\n;"));
/// ```
#[derive(Clone, Debug)]
pub struct Tl1Server {
    guarded: GuardedSwitch,
    sid: String,
    start: Stamp,
    sessions: BTreeMap<SessionId, Session>,
    opened: u64,
    reports: u64,
}

#[derive(Clone, Debug)]
struct Session {
    framer: Framer,
    user: Option<usize>,
    /// Commands that are not answered yet: their tags.
    turns: VecDeque<(String, Turn)>,
    out: String,
    reports: bool,
    closed: bool,
}

#[derive(Clone, Debug)]
enum Turn {
    /// The answer is known.
    Said(Result<String, Denial>),
    /// It is done then.
    Done(Time),
    /// To be looked up when its turn comes, for this user.
    Look(usize, Command),
}

impl Tl1Server {
    /// A server without sessions.
    pub fn new(switch: Switch, settings: Settings) -> Self {
        let Settings { sid, users, start } = settings;
        let guarded = GuardedSwitch::new(switch, users);
        Tl1Server { guarded, sid, start, sessions: BTreeMap::new(), opened: 0, reports: 0 }
    }

    /// The emulated switch behind the sessions.
    pub fn switch(&self) -> &Switch {
        &self.guarded.switch
    }

    /// The switch, for what comes to it otherwise: light and faults. Call [`Tl1Server::timeout`] after.
    pub fn switch_mut(&mut self) -> &mut Switch {
        &mut self.guarded.switch
    }

    /// A stream is open.
    pub fn open(&mut self) -> SessionId {
        self.opened += 1;
        let session = Session {
            framer: Framer::commands(MOST_COMMAND),
            user: None,
            turns: VecDeque::new(),
            out: String::new(),
            reports: true,
            closed: false,
        };
        self.sessions.insert(SessionId(self.opened), session);
        SessionId(self.opened)
    }

    /// The stream is closed. What its commands began goes on.
    pub fn close(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    /// Whether a session goes on. One that does not should be closed, once its bytes are sent.
    pub fn is_open(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|session| !session.closed)
    }

    /// Whether commands of a session are not answered yet.
    pub fn owes(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|session| !session.turns.is_empty())
    }

    /// Sessions that are open, or still to be closed.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Bytes of a session, in whatever pieces.
    pub fn receive(&mut self, now: Time, id: SessionId, mut bytes: &[u8]) {
        self.timeout(now);
        while let Some(session) = self.sessions.get_mut(&id).filter(|session| !session.closed) {
            let Some(frame) = session.framer.next(&mut bytes) else { break };
            let (ctag, turn) = self.turn(now, id, frame);
            let Some(session) = self.sessions.get_mut(&id) else { break };
            session.turns.push_back((ctag, turn));
            // Answers of what takes no time are not work that piles up.
            self.answer(now, id);
            self.bound(id);
        }
        self.timeout(now);
    }

    /// Bytes for a session.
    pub fn transmit(&mut self, session: SessionId) -> Option<Vec<u8>> {
        let out = &mut self.sessions.get_mut(&session)?.out;
        (!out.is_empty()).then(|| std::mem::take(out).into_bytes())
    }

    /// Sessions that have bytes to be sent.
    pub fn waiting(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.iter().filter(|(_, session)| !session.out.is_empty()).map(|(id, _)| *id)
    }

    /// When [`Tl1Server::timeout`] wants to be called, if ever.
    pub fn next_timeout(&self) -> Option<Time> {
        self.guarded.switch.next_timeout()
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: Time) {
        self.guarded.switch.advance(now);
        while let Some(event) = self.guarded.switch.event() {
            self.report(now, &event);
        }
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.answer(now, id);
            self.bound(id);
        }
    }

    /// What becomes of a command.
    fn turn(&mut self, now: Time, id: SessionId, frame: Frame) -> (String, Turn) {
        let text = match frame {
            Frame::Whole(text, _) => text,
            Frame::TooLong => {
                let words = format!("a command has {MOST_COMMAND} bytes at most");
                return ("0".into(), Turn::Said(Err(Denial::new(Code::Iisp, words))));
            }
        };
        let request = match Request::parse(&text) {
            Ok(request) => request,
            Err((ctag, denial)) => return (ctag, Turn::Said(Err(denial))),
        };
        let turn = self.begin(now, id, request.tid, request.command);
        (request.ctag, turn.unwrap_or_else(|denial| Turn::Said(Err(denial))))
    }

    fn begin(
        &mut self,
        now: Time,
        id: SessionId,
        tid: String,
        command: Command,
    ) -> Result<Turn, Denial> {
        if !tid.is_empty() && !tid.eq_ignore_ascii_case(&self.sid) {
            return Err(Denial::new(Code::Iita, "this is another switch"));
        }
        let done = || Ok(Turn::Said(Ok(String::new())));
        let who = self.sessions.get(&id).and_then(|session| session.user);
        let user = match (&command, who) {
            (Command::Login { user, password }, _) => {
                let user = self.guarded.admit(user, password)?;
                self.session(id, |session| session.user = Some(user));
                return done();
            }
            (_, None) => return Err(Denial::new(Code::Plna, "log in first")),
            (_, Some(user)) => user,
        };
        match command {
            Command::Login { .. } => done(),
            Command::Logout { user: name } => {
                if !name.is_empty() && name != self.guarded.name(user) {
                    return Err(Denial::new(Code::Piui, "another user is logged in"));
                }
                self.session(id, |session| session.user = None);
                done()
            }
            Command::Enter(patches) => self.guarded.enter(now, user, patches).map(Turn::Done),
            Command::Delete(ports) => self.guarded.delete(now, user, &ports).map(Turn::Done),
            Command::Shut(ports) => self.guarded.shut(user, &ports, true).and_then(|()| done()),
            Command::Open(ports) => self.guarded.shut(user, &ports, false).and_then(|()| done()),
            Command::Messages(wanted) => {
                self.session(id, |session| session.reports = wanted);
                done()
            }
            look => Ok(Turn::Look(user, look)),
        }
    }

    /// Answers what can be answered, in order.
    fn answer(&mut self, now: Time, id: SessionId) {
        let stamp = self.start.after(now);
        while let Some(session) = self.sessions.get_mut(&id) {
            let Some((ctag, turn)) = session.turns.pop_front() else { return };
            let answer = match turn {
                Turn::Done(done) if done > now => {
                    session.turns.push_front((ctag, turn));
                    return;
                }
                Turn::Done(_) => Ok(String::new()),
                Turn::Said(answer) => answer,
                Turn::Look(user, command) => self.guarded.look(now, user, &command),
            };
            if let Some(session) = self.sessions.get_mut(&id) {
                write_header(&mut session.out, &self.sid, stamp);
                write_response(&mut session.out, &ctag, &answer);
            }
        }
    }

    /// Tells all that are logged in, as far as it is theirs.
    fn report(&mut self, now: Time, event: &SwitchEvent) {
        let stamp = self.start.after(now);
        let [_, month, day, hour, minute, second] = stamp.parts();
        let when = format!("{month:02}-{day:02},{hour:02}-{minute:02}-{second:02}");
        self.reports += 1;
        let heard = self.sessions.iter().filter_map(|(id, session)| {
            session.user.filter(|_| session.reports && !session.closed).map(|user| (*id, user))
        });
        for (id, user) in heard.collect::<Vec<_>>() {
            let (alarm, what, line) = match event {
                SwitchEvent::Changed { ended, set } => {
                    let seen = |patches: &[Patch]| {
                        let own = |patch: &&Patch| {
                            self.guarded.owns(user, patch.ingress)
                                || self.guarded.owns(user, patch.egress)
                        };
                        patches.iter().filter(own).count()
                    };
                    let (ended, set) = (seen(ended), seen(set));
                    if ended + set == 0 {
                        continue;
                    }
                    let words = format!("{ended} ended, {set} set");
                    (
                        Alarm::Event,
                        "EVT PATCH",
                        format!("SYSTEM:PATCH,TC,{when},,,,:\\\"{words}\\\""),
                    )
                }
                SwitchEvent::Power { port, .. } if !self.guarded.owns(user, *port) => continue,
                SwitchEvent::Power { port, dbm: Some(_) } => {
                    (Alarm::Event, "ALM PORT", format!("{port}:CL,LOS,SA,{when}"))
                }
                SwitchEvent::Power { port, dbm: None } => {
                    (Alarm::Major, "ALM PORT", format!("{port}:MJ,LOS,SA,{when}"))
                }
            };
            let number = self.reports;
            let (sid, line) = (&self.sid, format!("   \"{line}\"\r\n"));
            if let Some(session) = self.sessions.get_mut(&id) {
                write_header(&mut session.out, sid, stamp);
                write_report(&mut session.out, alarm, number, what, &line);
            }
        }
    }

    fn bound(&mut self, id: SessionId) {
        self.session(id, |session| {
            if session.turns.len() > MOST_TURNS || session.out.len() > MOST_UNREAD {
                session.turns = VecDeque::new();
                session.out = String::new();
                session.closed = true;
            }
        });
    }

    fn session(&mut self, id: SessionId, change: impl FnOnce(&mut Session)) {
        if let Some(session) = self.sessions.get_mut(&id) {
            change(session);
        }
    }
}
