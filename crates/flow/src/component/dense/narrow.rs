//! In place of `wide.rs` where no processor has such registers.

use super::Dense;
use lightloom_units::Time;

/// A processor that can do it, of which there is none.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wide {}

impl Wide {
    pub fn here() -> Option<Wide> {
        None
    }
    pub fn solve(self, _: &mut Dense) {
        match self {}
    }
    pub fn step(self, _: &mut Dense, _: Time, _: &mut Vec<(u32, Time)>) {
        match self {}
    }
    pub fn next_done(self, _: &Dense) -> Option<Time> {
        match self {}
    }
}
