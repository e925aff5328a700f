//! When the flows of a component end, as far as that is known ahead.

use lightloom_units::Time;

/// Instants at which flows end.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// What each flow had to send when it was made; empty where there is none.
    pub begin: Vec<f64>,
    /// When the component began.
    pub began: Time,
    pub ends: Vec<(u32, Time)>,
    pub instants: Vec<Instant>,
    /// How many of them have been told.
    pub told: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant {
    pub at: Time,
    /// So many of the ends are up to here.
    pub ends: u32,
    /// A track has no flow left in the component.
    pub matters: bool,
}

impl Plan {
    pub fn clear(&mut self) {
        self.begin.clear();
        self.ends.clear();
        self.instants.clear();
        self.told = 0;
    }
}
