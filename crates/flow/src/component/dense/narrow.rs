//! In place of `wide.rs` where no processor has such registers.

use super::links::Links;
use lightloom_units::Time;

/// A processor that can do it, of which there is none.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wide {}

impl Wide {
    pub fn here() -> Option<Wide> {
        None
    }
    pub fn solve(self, _: &mut Links) {
        match self {}
    }
    pub fn step(self, _: &mut Links, _: Time, _: &mut Vec<(u32, Time)>) {
        match self {}
    }
    pub fn next_done(self, _: &Links) -> Option<Time> {
        match self {}
    }
}
