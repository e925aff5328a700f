//! A circuit in use: which ports it holds, from when to when.

use lightloom_units::{Bytes, Time};

/// A circuit in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Index of the plane, from 0.
    pub plane: u32,
    /// The node that sends, from 0.
    pub from: u32,
    /// The node that receives, from 0.
    pub to: u32,
    /// From when on its ports are its own; they are dark until `start_ps` if it is set then \[ps\].
    pub dark_ps: Time,
    /// When it can carry data, and does \[ps\].
    pub start_ps: Time,
    /// When the last byte has arrived \[ps\].
    pub end_ps: Time,
    /// What it carries \[B\].
    pub bytes: Bytes,
    /// Whether it is set; otherwise it stands already.
    pub set: bool,
}

/// When the last byte has arrived; zero of nothing.
pub fn completion(holds: &[Hold]) -> Time {
    holds.iter().map(|hold| hold.end_ps).max().unwrap_or(Time::ZERO)
}
