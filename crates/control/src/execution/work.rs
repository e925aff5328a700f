//! One switch of an execution: what it shall hold, and how it is brought there.
//!
//! One order is under way at a time: a change, then a reading of what stands. A stream that breaks in a
//! change is not used again before what was sent over it can no longer be carried out.

use crate::driver::{Answer, Order, Patch};
use lightloom_units::Time;
use std::collections::BTreeSet;

use super::limits::Limits;

/// A switch of an execution.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// Its duplex ports.
    pub ports: u16,
    /// Those of them that are devices' ports.
    pub own: BTreeSet<u16>,
    /// What it held when it was read last, if it has been: rising.
    pub actual: Option<Vec<Patch>>,
    /// What it shall hold between its own ports.
    pub wanted: BTreeSet<Patch>,
    /// What it held between its own ports when it was met.
    found: BTreeSet<Patch>,
    up: bool,
    /// What it holds may have changed since it was read.
    must_read: bool,
    /// It is not touched before.
    quarantine: Time,
    phase: Phase,
    /// Changes in a row after which not all stood that was asked for.
    attempts: u32,
    /// Since when it cannot be asked, and why.
    away: Option<(Time, String)>,
    next_audit: Time,
}

#[derive(Clone, Debug)]
enum Phase {
    Idle,
    Patching {
        id: u64,
        deadline: Time,
        asked: Asked,
    },
    /// The change was answered, one way or the other: it is to be read.
    Patched {
        asked: Asked,
    },
    Reading {
        id: u64,
        deadline: Time,
        asked: Asked,
    },
}

/// What a change was to end and to set.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    end: Vec<Patch>,
    set: Vec<Patch>,
}

/// What comes of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing that matters to others.
    Nothing,
    /// `actual` is what stood when it was read last.
    Read,
    /// It cannot be brought where it shall be.
    Failed(String),
}

/// What is to be done with the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Order(u64, Order),
    Reconnect,
}

impl Work {
    pub fn new(ports: u16, own: BTreeSet<u16>, now: Time) -> Self {
        Work {
            ports,
            own,
            actual: None,
            wanted: BTreeSet::new(),
            found: BTreeSet::new(),
            up: false,
            must_read: true,
            quarantine: now,
            phase: Phase::Idle,
            attempts: 0,
            away: Some((now, "it has not answered".into())),
            next_audit: Time::MAX,
        }
    }

    pub fn came_up(&mut self, ports: u16) -> Told {
        if ports != self.ports {
            return Told::Failed(format!("it has {ports} ports, and shall have {}", self.ports));
        }
        (self.up, self.must_read, self.phase) = (true, true, Phase::Idle);
        Told::Nothing
    }

    pub fn went_down(&mut self, now: Time, limits: &Limits, why: &str) {
        if matches!(self.phase, Phase::Patching { .. }) {
            self.quarantine = now + limits.lifetime;
        }
        (self.up, self.must_read, self.phase) = (false, true, Phase::Idle);
        self.away.get_or_insert_with(|| (now, why.to_owned()));
    }

    /// The answer to an order.
    pub fn answered(&mut self, now: Time, limits: &Limits, id: u64, answer: Answer) -> Told {
        match (std::mem::replace(&mut self.phase, Phase::Idle), answer) {
            (Phase::Patching { id: order, asked, .. }, Answer::Done | Answer::Refused(_))
                if order == id =>
            {
                self.phase = Phase::Patched { asked };
                Told::Nothing
            }
            (Phase::Reading { id: order, asked, .. }, Answer::State(patches)) if order == id => {
                self.read(now, limits, patches, &asked)
            }
            (Phase::Reading { id: order, asked, .. }, Answer::Refused(words)) if order == id => {
                self.phase = Phase::Patched { asked };
                match self.tried(limits, true, &format!("it refuses to be read: {words}")) {
                    Told::Read => Told::Nothing, // not yet
                    failed => failed,
                }
            }
            (Phase::Patching { id: order, .. }, Answer::Fenced(words)) if order == id => {
                Told::Failed(format!("another controller has claimed it: {words}"))
            }
            (Phase::Patching { id: order, .. }, Answer::State(_))
            | (Phase::Reading { id: order, .. }, Answer::Done)
                if order == id =>
            {
                Told::Failed("it answers what was not asked".into())
            }
            (phase, _) => {
                self.phase = phase;
                Told::Nothing
            }
        }
    }

    fn read(&mut self, now: Time, limits: &Limits, mut patches: Vec<Patch>, asked: &Asked) -> Told {
        patches.sort_unstable();
        patches.dedup();
        if !self.possible(&patches) {
            return Told::Failed("it says what cannot be".into());
        }
        let foreign =
            patches.iter().find(|patch| self.own(patch.ingress) != self.own(self.far(patch)));
        if let Some(patch) = foreign {
            let (ours, theirs) = match self.own(patch.ingress) {
                true => (patch.ingress, self.far(patch)),
                false => (self.far(patch), patch.ingress),
            };
            return Told::Failed(format!("port {ours} is joined to port {theirs}, of no device"));
        }
        patches.retain(|patch| self.own(patch.ingress));
        let stands = |patch: &Patch| patches.binary_search(patch).is_ok();
        let failed = asked.end.iter().any(stands) || !asked.set.iter().all(stands);
        (self.actual, self.must_read, self.away) = (Some(patches), false, None);
        self.next_audit = now + limits.audit;
        self.tried(limits, failed, "not all circuits stand")
    }

    /// Something was tried, and failed or not.
    fn tried(&mut self, limits: &Limits, failed: bool, why: &str) -> Told {
        self.attempts = if failed { self.attempts + 1 } else { 0 };
        match self.attempts >= limits.attempts {
            true => Told::Failed(format!("{why}, after {} attempts", self.attempts)),
            false => Told::Read,
        }
    }

    /// What is to be asked next, if anything.
    pub fn next(
        &mut self,
        now: Time,
        limits: &Limits,
        may_change: bool,
        last: &mut u64,
    ) -> Option<Ask> {
        match &self.phase {
            Phase::Patching { deadline, .. } | Phase::Reading { deadline, .. }
                if now >= *deadline =>
            {
                let words = "it does not answer".to_owned();
                self.went_down(now, limits, &words);
                return Some(Ask::Reconnect);
            }
            Phase::Patched { asked } => {
                let asked = asked.clone();
                return Some(self.reading(now, limits, last, asked));
            }
            Phase::Idle if self.up && now >= self.quarantine => {}
            _ => return None,
        }
        if self.must_read || now >= self.next_audit {
            return Some(self.reading(now, limits, last, Asked::default()));
        }
        let actual = self.actual.as_ref().filter(|_| may_change)?;
        let end: Vec<Patch> =
            actual.iter().filter(|patch| !self.wanted.contains(patch)).copied().collect();
        let set: Vec<Patch> = self
            .wanted
            .iter()
            .filter(|patch| actual.binary_search(patch).is_err())
            .copied()
            .collect();
        if end.is_empty() && set.is_empty() {
            return None;
        }
        *last += 1;
        let deadline = now + limits.patience;
        let asked = Asked { end: end.clone(), set: set.clone() };
        self.must_read = true;
        self.phase = Phase::Patching { id: *last, deadline, asked };
        Some(Ask::Order(*last, Order::Apply { end, set }))
    }

    fn reading(&mut self, now: Time, limits: &Limits, last: &mut u64, asked: Asked) -> Ask {
        *last += 1;
        self.phase = Phase::Reading { id: *last, deadline: now + limits.patience, asked };
        Ask::Order(*last, Order::Read)
    }

    /// Whether it was read, and held just what it shall, and nothing was asked since.
    pub fn is_settled(&self) -> bool {
        let idle = matches!(self.phase, Phase::Idle) && !self.must_read;
        idle && self.actual.as_ref().is_some_and(|actual| actual.iter().eq(&self.wanted))
    }

    /// Whether it has been read, and nothing was asked since.
    pub fn is_read(&self) -> bool {
        matches!(self.phase, Phase::Idle) && !self.must_read && self.actual.is_some()
    }

    /// Why it cannot be brought on, if it has been away for so long, counted from `from` at the earliest.
    pub fn is_lost(&self, from: Time, now: Time, limits: &Limits) -> Option<String> {
        let (since, why) = self.away.as_ref()?;
        (now >= from.max(*since) + limits.give_up)
            .then(|| format!("away for {}: {why}", limits.give_up))
    }

    /// What stands now is what was found.
    pub fn met(&mut self) {
        self.found = self.actual.iter().flatten().copied().collect();
        self.wanted = self.found.clone();
    }

    /// It shall hold what was found.
    pub fn take_back(&mut self) {
        self.wanted = self.found.clone();
        self.attempts = 0;
    }

    /// It is to be read as soon as it can be.
    pub fn look(&mut self) {
        self.must_read = true;
    }

    /// Holds a patch, in the last reading.
    pub fn holds(&self, patch: &Patch) -> bool {
        self.actual.as_ref().is_some_and(|actual| actual.binary_search(patch).is_ok())
    }

    /// When something is due.
    pub fn next_timeout(&self, from: Time, limits: &Limits, concerned: bool) -> Time {
        let own = match &self.phase {
            Phase::Patching { deadline, .. } => *deadline,
            Phase::Patched { .. } => Time::ZERO,
            Phase::Reading { deadline, .. } => *deadline,
            Phase::Idle if !self.up => Time::MAX,
            Phase::Idle if self.must_read => self.quarantine,
            Phase::Idle => self.next_audit,
        };
        let lost = self.away.as_ref().filter(|_| concerned);
        lost.map_or(own, |(since, _)| own.min(from.max(*since) + limits.give_up))
    }

    fn own(&self, port: u16) -> bool {
        self.own.contains(&port)
    }

    fn far(&self, patch: &Patch) -> u16 {
        patch.egress - self.ports
    }

    /// Whether a switch can be in this state: its own ports, none of them in two patches.
    fn possible(&self, patches: &[Patch]) -> bool {
        let n = self.ports;
        let mut taken = BTreeSet::new();
        patches.iter().all(|patch| {
            let known = (1..=n).contains(&patch.ingress) && (n + 1..=2 * n).contains(&patch.egress);
            known && taken.insert(patch.ingress) && taken.insert(patch.egress)
        })
    }
}
