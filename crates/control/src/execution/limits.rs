//! How patient an execution is.

use lightloom_units::Time;

/// How patient an execution is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A switch that has not answered by then is asked over another stream.
    pub patience: Time,
    /// What was sent to a switch over a stream that broke is carried out by then, or never.
    pub lifetime: Time,
    /// A switch that cannot be asked for so long, or a node that is silent, is given up.
    pub give_up: Time,
    /// How often a change is tried.
    pub attempts: u32,
    /// How often a switch is read when nothing happens.
    pub audit: Time,
    /// Switches that are loaded at the same time.
    pub together: usize,
    /// What nodes are told holds for so long after they sent the report that was answered.
    pub lease: Time,
    /// Nodes of an execution that is gone have stopped by then: so long is waited before a circuit ends
    /// that was found.
    pub settle: Time,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            patience: Time::from_ms(2_000),
            lifetime: Time::from_ms(1_000),
            give_up: Time::from_ms(30_000),
            attempts: 3,
            audit: Time::from_ms(10_000),
            together: usize::MAX,
            lease: Time::from_ms(3_000),
            settle: Time::from_ms(3_200),
        }
    }
}
