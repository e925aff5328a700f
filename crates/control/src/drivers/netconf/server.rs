//! An optical switch that is spoken to in NETCONF, by many sessions.
//!
//! Modelled: the greeting and both framings; `<get>`, `<edit-config>` on the running configuration or on a
//! candidate that must be locked first, `<commit>`, `<discard-changes>`. Calls of a session are carried out one after the
//! other; a change is answered when the switch has done it, and other sessions go on meanwhile. An edit is
//! whole or not at all. A session that makes no sense, or piles up calls, is over; the lock of one that ends is
//! opened, and its candidate forgotten. Ignored: users, which are SSH's; notifications; what else RFC 6241 has.
//! Checked: by the suite of all drivers, and among faults in `lightloom-soak`.

use super::datastore::{Patches, Wrong, edited, is_candidate, missing};
use super::frame::{Framer, chunk, mark};
use super::manner::Manner;
use super::xml::{Element, Space};
use crate::driver::Patch;
use crate::ocs::Switch;
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// A session with more calls than this, not yet answered, is over.
const MOST_CALLS: usize = 256;

/// A switch, and the sessions over which it is spoken to.
///
/// The caller opens a session for each stream, hands over what comes, sends what [`NetconfServer::transmit`] has
/// for the sessions of [`NetconfServer::waiting`], and calls [`NetconfServer::timeout`] when
/// [`NetconfServer::next_timeout`] comes.
///
/// ```
/// use lightloom_control::drivers::netconf::{Manner, NetconfServer};
/// use lightloom_control::ocs::{Device, Switch};
/// use lightloom_fabric::ReconfigurationDelay;
/// use lightloom_units::Time;
/// let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(25) };
/// let switch = Switch::new(Device { name: "polatis".into(), ports: 8, delay }, 1).unwrap();
/// let mut server = NetconfServer::new(switch, Manner::TODAY);
/// let session = server.open();
/// assert!(server.transmit(session).unwrap().starts_with(b"<hello "));
/// server.receive(Time::ZERO, session, b"<rpc-reply/>]]>]]>");
/// assert!(!server.is_open(session), "that was no greeting");
/// ```
#[derive(Clone, Debug)]
pub struct NetconfServer {
    switch: Switch,
    manner: Manner,
    sessions: BTreeMap<u64, Session>,
    opened: u64,
    candidate: Option<Candidate>,
}

/// A candidate that is locked.
#[derive(Clone, Debug)]
struct Candidate {
    /// By this session.
    owner: u64,
    /// What ran then, and what shall.
    base: Patches,
    next: Patches,
}

#[derive(Clone, Debug, Default)]
struct Session {
    framer: Framer,
    greeted: bool,
    calls: VecDeque<Element>,
    /// The answer to the call that is carried out, and when the switch is done.
    busy: Option<(Time, Vec<u8>)>,
    out: VecDeque<Vec<u8>>,
    closed: bool,
}

/// What comes of a call: when it is done, and what is found.
type Performed = Result<(Time, Option<Element>), Wrong>;

impl NetconfServer {
    /// A server without sessions.
    pub fn new(switch: Switch, manner: Manner) -> Self {
        NetconfServer { switch, manner, sessions: BTreeMap::new(), opened: 0, candidate: None }
    }

    /// The emulated switch behind the sessions.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// The switch, for faults. Call [`NetconfServer::timeout`] after.
    pub fn switch_mut(&mut self) -> &mut Switch {
        &mut self.switch
    }

    /// A stream is open. Returns the session's number.
    pub fn open(&mut self) -> u64 {
        self.opened += 1;
        let hello = mark(&self.manner.hello(self.opened).to_string());
        let session = Session { out: VecDeque::from([hello]), ..Session::default() };
        self.sessions.insert(self.opened, session);
        self.opened
    }

    /// The stream is closed. A change that was begun goes on.
    pub fn close(&mut self, session: u64) {
        self.sessions.remove(&session);
        self.candidate.take_if(|candidate| candidate.owner == session);
    }

    /// Whether a session goes on. One that does not should be closed, once its bytes are sent.
    pub fn is_open(&self, session: u64) -> bool {
        self.sessions.get(&session).is_some_and(|session| !session.closed)
    }

    /// Bytes of a session, in whatever pieces.
    pub fn receive(&mut self, now: Time, id: u64, bytes: &[u8]) {
        self.timeout(now);
        let chunks = self.manner.chunks;
        if let Some(session) = self.sessions.get_mut(&id).filter(|session| !session.closed) {
            session.framer.push(bytes);
            session.closed = session.hear(chunks).is_none();
        }
        self.proceed(now, id);
    }

    /// The next message for a session, in its frame.
    pub fn transmit(&mut self, session: u64) -> Option<Vec<u8>> {
        self.sessions.get_mut(&session)?.out.pop_front()
    }

    /// Sessions that have bytes to be sent.
    pub fn waiting(&self) -> impl Iterator<Item = u64> + '_ {
        self.sessions.iter().filter(|(_, session)| !session.out.is_empty()).map(|(id, _)| *id)
    }

    /// When [`NetconfServer::timeout`] wants to be called, if ever.
    pub fn next_timeout(&self) -> Option<Time> {
        let busy = self.sessions.values().filter_map(|session| session.busy.as_ref());
        busy.map(|(done, _)| *done).chain(self.switch.next_timeout()).min()
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: Time) {
        self.switch.advance(now);
        while self.switch.event().is_some() {}
        let ids: Vec<u64> = self.sessions.keys().copied().collect();
        ids.into_iter().for_each(|id| self.proceed(now, id));
    }

    /// Carries out the calls of a session, up to one that the switch needs time for.
    fn proceed(&mut self, now: Time, id: u64) {
        while let Some(session) = self.sessions.get_mut(&id) {
            match session.busy.take() {
                Some((done, reply)) if done > now => {
                    session.busy = Some((done, reply));
                    return;
                }
                Some((_, reply)) => session.out.push_back(reply),
                None => {}
            }
            let Some(call) = session.calls.pop_front() else { return };
            let answer = self.answer(now, id, &call);
            if let Some(session) = self.sessions.get_mut(&id) {
                session.busy = Some(answer);
            }
        }
    }

    /// When a call is answered, and how.
    fn answer(&mut self, now: Time, id: u64, call: &Element) -> (Time, Vec<u8>) {
        let number = call.value("message-id").unwrap_or("none");
        let reply = Element::netconf("rpc-reply").attribute("message-id", number);
        let performed = match &call.children[..] {
            [operation] => self.perform(now, id, operation),
            _ => Err(("malformed-message", "one operation a call".into())),
        };
        let (done, reply) = match performed {
            Ok((done, None)) => (done, reply.with(Element::netconf("ok"))),
            Ok((done, Some(data))) => (done, reply.with(data)),
            Err(wrong) => (now, reply.with(error(wrong))),
        };
        let text = reply.to_string();
        (done, if self.manner.chunks { chunk(&text) } else { mark(&text) })
    }

    fn perform(&mut self, now: Time, id: u64, operation: &Element) -> Performed {
        match operation.name.as_str() {
            "get" => {
                let filter = operation.child("filter").ok_or(missing("filter"))?;
                return Ok((now, Some(self.manner.data(&self.switch, filter))));
            }
            "edit-config" => return self.edit(now, id, operation),
            "lock" | "unlock" if !is_candidate(operation) => return Err(missing("candidate")),
            "lock" if self.candidate.is_some() => {
                return Err(("lock-denied", "somebody else has it".into()));
            }
            "lock" => self.candidate = Some(Candidate::new(id, self.running())),
            "commit" => {
                let Candidate { base, next, .. } = self.locked(id)?.clone();
                return self.change(now, &base, &next);
            }
            "discard-changes" => *self.locked(id)? = Candidate::new(id, self.running()),
            "unlock" => {
                self.locked(id)?;
                self.candidate = None;
            }
            name => return Err(("unknown-element", name.into())),
        }
        Ok((now, None))
    }

    fn edit(&mut self, now: Time, id: u64, edit: &Element) -> Performed {
        let (writable, list) = (self.manner.writable, self.manner.list());
        let target = if writable { "running" } else { "candidate" };
        let named = edit.child("target").and_then(|child| child.child(target));
        named.ok_or(missing("target"))?;
        if writable {
            let running = self.running();
            return self.change(now, &running, &edited(running.clone(), list, edit)?);
        }
        let candidate = self.locked(id)?;
        candidate.next = edited(candidate.next.clone(), list, edit)?;
        Ok((now, None))
    }

    /// The switch is told what differs; what others have changed meanwhile stays.
    fn change(&mut self, now: Time, base: &Patches, next: &Patches) -> Performed {
        let not_in = |one: &Patches, other: &Patches| -> Vec<Patch> {
            let differs = |(ingress, egress): &(&u16, &u16)| other.get(ingress) != Some(egress);
            one.iter().filter(differs).map(|(&from, &to)| Patch::new(from, to)).collect()
        };
        let (end, set) = (not_in(base, next), not_in(next, base));
        let done = self.switch.apply(now, &end, &set);
        done.map(|done| (done, None)).map_err(|error| ("operation-failed", error.to_string()))
    }

    fn running(&self) -> Patches {
        self.switch.patches().map(|patch| (patch.ingress, patch.egress)).collect()
    }

    /// The candidate, if this session has it.
    fn locked(&mut self, id: u64) -> Result<&mut Candidate, Wrong> {
        let ours = self.candidate.as_mut().filter(|candidate| candidate.owner == id);
        ours.ok_or_else(|| ("operation-failed", "the candidate is not locked".into()))
    }
}

impl Candidate {
    fn new(owner: u64, base: Patches) -> Self {
        Candidate { owner, next: base.clone(), base }
    }
}

impl Session {
    /// Takes up whole messages. None if one makes no sense.
    fn hear(&mut self, chunks: bool) -> Option<()> {
        while let Some(message) = self.framer.message().ok()? {
            let message = Element::parse(&message).ok()?;
            let expected = if self.greeted { "rpc" } else { "hello" };
            if !message.is(Space::Netconf, expected) || self.calls.len() == MOST_CALLS {
                return None;
            }
            if self.greeted {
                self.calls.push_back(message);
            } else if chunks {
                self.framer.speak_chunks();
            }
            self.greeted = true;
        }
        Some(())
    }
}

fn error((tag, message): Wrong) -> Element {
    Element::netconf("rpc-error")
        .with(Element::netconf("error-type").saying("application"))
        .with(Element::netconf("error-tag").saying(tag))
        .with(Element::netconf("error-severity").saying("error"))
        .with(Element::netconf("error-message").saying(message))
}
