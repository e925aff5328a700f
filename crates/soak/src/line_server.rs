//! An optical switch that is spoken to in the line protocol, by many sessions.
//!
//! Modelled: what `lightloom_control::drivers::line` says; commands begin at once and are answered in their order, each
//! when it is done. Ignored: notes. A session that makes no sense is answered no more.

use lightloom_control::Patch;
use lightloom_control::ocs::Switch;
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// A switch, and the sessions over which it is spoken to.
#[derive(Clone, Debug)]
pub(crate) struct LineServer {
    pub switch: Switch,
    sessions: BTreeMap<u64, Session>,
    opened: u64,
}

#[derive(Clone, Debug, Default)]
struct Session {
    line: Vec<u8>,
    /// Commands that are not answered: their numbers, and what becomes of them.
    turns: VecDeque<(String, Turn)>,
    out: String,
}

#[derive(Clone, Debug)]
enum Turn {
    Said(String),
    /// It is done then.
    Done(Time),
    /// To be looked up when its turn comes.
    Show,
}

impl LineServer {
    pub fn new(switch: Switch) -> Self {
        LineServer { switch, sessions: BTreeMap::new(), opened: 0 }
    }

    pub fn open(&mut self) -> u64 {
        self.opened += 1;
        self.sessions.insert(self.opened, Session::default());
        self.opened
    }

    pub fn close(&mut self, session: u64) {
        self.sessions.remove(&session);
    }

    pub fn receive(&mut self, now: Time, id: u64, bytes: &[u8]) {
        self.timeout(now);
        for &byte in bytes {
            let Some(session) = self.sessions.get_mut(&id) else { return };
            if byte != b'\n' {
                session.line.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut session.line)).into_owned();
            let Some((number, command)) = line.split_once(' ') else { continue };
            let turn = self.begin(now, command);
            let turn = turn.unwrap_or_else(|why| Turn::Said(format!("err {why}")));
            if let Some(session) = self.sessions.get_mut(&id) {
                session.turns.push_back((number.into(), turn));
            }
        }
        self.timeout(now);
    }

    pub fn transmit(&mut self, session: u64) -> Option<Vec<u8>> {
        let out = &mut self.sessions.get_mut(&session)?.out;
        (!out.is_empty()).then(|| std::mem::take(out).into_bytes())
    }

    pub fn waiting(&self) -> impl Iterator<Item = u64> + '_ {
        self.sessions.iter().filter(|(_, session)| !session.out.is_empty()).map(|(id, _)| *id)
    }

    pub fn timeout(&mut self, now: Time) {
        self.switch.advance(now);
        while self.switch.event().is_some() {}
        let patches: Vec<Patch> = self.switch.patches().collect();
        self.sessions.values_mut().for_each(|session| session.answer(now, &patches));
    }

    fn begin(&mut self, now: Time, command: &str) -> Result<Turn, String> {
        let words: Vec<&str> = command.split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u16>().ok());
        let patch = number(1).zip(number(2)).map(|(from, to)| Patch::new(from, to));
        let done = match (words[0], patch) {
            // Version 1: without terms, as a switch that cannot fence.
            ("hello", _) if number(1) == Some(1) => {
                let (ports, name) = (self.switch.ports(), &self.switch.device().name);
                return Ok(Turn::Said(format!("ok 1 {ports} {name}")));
            }
            ("show", _) => return Ok(Turn::Show),
            ("connect", Some(patch)) => self.switch.apply(now, &[], &[patch]),
            ("disconnect", Some(patch)) => self.switch.apply(now, &[patch], &[]),
            _ => return Err(format!("{command} is no command")),
        };
        done.map(Turn::Done).map_err(|error| error.to_string())
    }
}

impl Session {
    /// Answers what can be answered, in order.
    fn answer(&mut self, now: Time, patches: &[Patch]) {
        let ready = |(_, turn): &(String, Turn)| !matches!(turn, Turn::Done(done) if *done > now);
        while self.turns.front().is_some_and(ready) {
            let Some((number, turn)) = self.turns.pop_front() else { return };
            let lines = match turn {
                Turn::Said(words) => vec![words],
                Turn::Done(_) => vec!["ok".into()],
                Turn::Show => {
                    let line = |patch: &Patch| format!("patch {} {}", patch.ingress, patch.egress);
                    let end = format!("ok {}", patches.len());
                    patches.iter().map(line).chain([end]).collect()
                }
            };
            lines.iter().for_each(|line| self.out += &format!("{number} {line}\n"));
        }
    }
}
