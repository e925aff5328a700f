//! Away from marks: a sub-flow keeps its path until so many packets in a row come back marked from it,
//! then draws another.

use super::plug::{Balancer, Capabilities, Heard, Next, Nics, Paths, pick};
use lightloom_units::kind::{Form, Key, Kind};
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "away",
    summary: "Each flow on one path, by a hash, and on another when its packets are marked",
    source: None,
    keys: &[Key::new(
        "marks",
        Form::Count { min: 1, max: 1000 },
        "Marked packets in a row, after which a flow takes another path.",
    )],
    capabilities: Capabilities { keeps_order: true, paths: Paths::One, nics: Nics::Own },
};

/// The keys of [`KIND`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    marks: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Away {
    paths: u16,
    path: u16,
    hash: u64,
    /// Paths before this one.
    left: u64,
    marks: u32,
    /// Marked packets in a row.
    marked: u32,
}

impl Balancer for Away {
    type Settings = Settings;

    fn new(settings: &Settings, paths: u16, hash: u64) -> Self {
        let path = pick(hash, paths);
        Away { paths, path, hash, left: 0, marks: settings.marks, marked: 0 }
    }

    fn path(&mut self, _: Next) -> u16 {
        self.path
    }

    fn acked(&mut self, heard: Heard) {
        if heard.path == self.path {
            self.marked = if heard.marked { self.marked + 1 } else { 0 };
        }
        if self.marked == self.marks {
            (self.left, self.marked) = (self.left + 1, 0);
            self.path = pick(self.hash.wrapping_add(self.left), self.paths);
        }
    }
}
