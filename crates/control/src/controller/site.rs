//! What a controller knows of one of its switches.

use crate::driver::Patch;
use lightloom_units::Time;
use std::collections::BTreeMap;

/// A switch, as the controller knows it.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// It lets us in.
    pub up: bool,
    /// Its own name for itself.
    pub device: Option<String>,
    /// What was read last of the region's ports.
    pub actual: Vec<Patch>,
    /// What is in `actual` may not be so any more.
    pub must_read: bool,
    /// It was ordered to change when a plan was given up, and has not answered: if its stream breaks, it may yet change.
    pub changing: bool,
    /// It has neither been read nor given up since the controller started.
    pub awaited: bool,
    /// It is not read before.
    pub quarantine: Time,
    /// Orders that read it and are not answered, and by when they are: of those that were given up, too.
    pub asked: BTreeMap<u64, Time>,
    /// While it must be read: the order that reads it, and by when it is answered.
    pub reading: Option<(u64, Time)>,
    /// What was read while a plan of other switches was under way.
    pub found: Option<Vec<Patch>>,
    /// Patches that this controller knows to be its own: those that stood when the switch was read last, and those
    /// that were ordered since, in rising order; none before the first reading, when all that stands is taken over.
    pub made: Option<Vec<Patch>>,
}

impl Site {
    /// A switch of which nothing is known.
    pub fn new(quarantine: Time) -> Self {
        Site {
            up: false,
            device: None,
            actual: Vec::new(),
            must_read: true,
            changing: false,
            awaited: true,
            quarantine,
            asked: BTreeMap::new(),
            reading: None,
            found: None,
            made: None,
        }
    }

    /// Whether it can be given orders: it lets us in, and what it holds is known.
    pub fn is_known(&self) -> bool {
        self.up && !self.must_read
    }

    /// What it holds is not known any more.
    pub fn forget(&mut self) {
        self.must_read = true;
        (self.reading, self.found) = (None, None);
    }

    /// Its stream has ended, or is to end: nothing that it was asked is answered any more.
    pub fn leave(&mut self) {
        self.up = false;
        self.asked.clear();
        self.forget();
    }

    /// These are ordered.
    pub fn ordered(&mut self, set: &[Patch]) {
        if let Some(made) = &mut self.made {
            made.extend(set);
            made.sort(); // two parts in order
            made.dedup();
        }
    }
}
