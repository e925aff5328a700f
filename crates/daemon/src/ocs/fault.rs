//! What an emulated switch does wrong, for drills.

use lightloom_control::drivers::tl1::{Command, Frame, Framer, Request};
use lightloom_units::Time;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use std::str::FromStr;
use std::time::Duration;

/// Something that a switch does wrong, for a while.
///
/// Written `KIND[=VALUE][@FROM[..TO]]`, with times since the start.
///
/// ```
/// use lightloom_daemon::ocs::{Fault, FaultKind};
/// use std::time::Duration;
/// let fault: Fault = "late=2s@10s..1min".parse().unwrap();
/// assert_eq!(fault.kind, FaultKind::Late(Duration::from_secs(2)));
/// assert_eq!((fault.from, fault.to), (Duration::from_secs(10), Some(Duration::from_secs(60))));
/// assert_eq!("lies".parse::<Fault>().unwrap().kind, FaultKind::Lies(1.0));
/// assert!("lies=2".parse::<Fault>().unwrap_err().contains("a share from 0 to 1"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// What it does.
    pub kind: FaultKind,
    /// From so long after the start.
    pub from: Duration,
    /// Until then, or always.
    pub to: Option<Duration>,
}

/// What a switch does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// It hears nothing and says nothing.
    Silent,
    /// It says everything so much later.
    Late(Duration),
    /// It denies this share of changes.
    Refuses(f64),
    /// It says that it did this share of changes, and did not.
    Lies(f64),
    /// This share of what it says is not what it should be.
    Garbles(f64),
    /// It breaks the stream in the midst of this share of what it says.
    Drops(f64),
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (what, when) = text.split_once('@').unwrap_or((text, ""));
        let (name, value) = match what.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (what, None),
        };
        let share = || match value.map_or(Ok(1.0), str::parse) {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(format!("{name}={}: a share from 0 to 1", value.unwrap_or(""))),
        };
        let kind = match (name, value) {
            ("silent", None) => FaultKind::Silent,
            ("late", Some(delay)) => FaultKind::Late(duration(delay)?),
            ("refuses", _) => FaultKind::Refuses(share()?),
            ("lies", _) => FaultKind::Lies(share()?),
            ("garbles", _) => FaultKind::Garbles(share()?),
            ("drops", _) => FaultKind::Drops(share()?),
            _ => {
                let all = "silent, late=2s, refuses=0.1, lies=0.1, garbles=0.1, drops=0.1";
                return Err(format!(
                    "{text}: a fault is one of {all}; then @FROM..TO if not always"
                ));
            }
        };
        let (from, to) = match when.split_once("..") {
            Some((from, to)) => (from, Some(duration(to)?)),
            None => (when, None),
        };
        let from = if from.is_empty() { Duration::ZERO } else { duration(from)? };
        Ok(Fault { kind, from, to })
    }
}

/// A time with its unit, as a clock takes it.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let time: Time = text.parse().map_err(|why| format!("{why}"))?;
    Ok(Duration::from_nanos(time.ps().div_ceil(1000)))
}

/// The faults of a switch, at work.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    all: Vec<Fault>,
    random: ChaCha8Rng,
}

/// What becomes of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// As it came, or as it is made to fail.
    Command(Vec<u8>),
    /// To be answered as if it were done.
    Pretend(Vec<u8>),
}

/// What becomes of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// So much later.
    pub(super) delay: Duration,
    pub(super) bytes: Vec<u8>,
    /// And then nothing more.
    pub(super) broken: bool,
}

impl Faults {
    pub(super) fn new(all: Vec<Fault>, random: ChaCha8Rng) -> Self {
        Faults { all, random }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What the switch hears of what comes over a stream that is cut by `framer`.
    pub(super) fn hear(
        &mut self,
        now: Duration,
        framer: &mut Framer,
        mut bytes: &[u8],
    ) -> Vec<Heard> {
        let mut heard = Vec::new();
        while let Some(frame) = framer.next(&mut bytes) {
            let Frame::Whole(mut text, end) = frame else { continue };
            let change = match Request::parse(&text) {
                Ok(Request { ctag, command: Command::Enter(_) | Command::Delete(_), .. }) => {
                    Some(ctag)
                }
                _ => None,
            };
            text.push(end);
            if self.happens(now, |kind| matches!(kind, FaultKind::Silent)) {
                continue;
            }
            heard.push(match change {
                // No switch knows this word: the answer is a denial, in its turn.
                Some(ctag) if self.drawn(now, |kind| share(kind, FaultKind::Refuses)) => {
                    Heard::Command(format!("REFUSED:::{ctag}:;").into_bytes())
                }
                Some(_) if self.drawn(now, |kind| share(kind, FaultKind::Lies)) => {
                    Heard::Pretend(text)
                }
                _ => Heard::Command(text),
            });
        }
        heard
    }

    /// What comes of what the switch says.
    pub(super) fn say(&mut self, now: Duration, mut bytes: Vec<u8>) -> Said {
        let mut delay = Duration::ZERO;
        for fault in self.active(now) {
            if let FaultKind::Late(late) = fault.kind {
                delay = delay.max(late);
            }
        }
        if self.happens(now, |kind| matches!(kind, FaultKind::Silent)) {
            bytes.clear();
        }
        if self.drawn(now, |kind| share(kind, FaultKind::Garbles)) {
            for byte in bytes.iter_mut().filter(|byte| **byte > b' ') {
                if self.random.next_u32() % 2 == 0 {
                    *byte = (self.random.next_u32() % 256) as u8;
                }
            }
        }
        let broken = self.drawn(now, |kind| share(kind, FaultKind::Drops));
        if broken {
            bytes.truncate(bytes.len() / 2);
        }
        Said { delay, bytes, broken }
    }

    fn active(&self, now: Duration) -> impl Iterator<Item = &Fault> {
        self.all.iter().filter(move |f| f.from <= now && f.to.is_none_or(|to| now < to))
    }

    fn happens(&self, now: Duration, what: impl Fn(FaultKind) -> bool) -> bool {
        self.active(now).any(|fault| what(fault.kind))
    }

    /// Whether one of a kind comes to pass.
    fn drawn(&mut self, now: Duration, share: impl Fn(FaultKind) -> Option<f64>) -> bool {
        let Some(share) = self.active(now).find_map(|fault| share(fault.kind)) else {
            return false;
        };
        f64::from(self.random.next_u32()) < share * 4_294_967_296.0
    }
}

/// The share of a fault, if it is one of these.
fn share(kind: FaultKind, of: fn(f64) -> FaultKind) -> Option<f64> {
    match kind {
        FaultKind::Refuses(share)
        | FaultKind::Lies(share)
        | FaultKind::Garbles(share)
        | FaultKind::Drops(share) => (of(share) == kind).then_some(share),
        FaultKind::Silent | FaultKind::Late(_) => None,
    }
}
