//! How patient a controller is.

use lightloom_units::Time;

/// Times and counts that a controller works with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Agents may use circuits for so long after a report that was answered. The same as theirs.
    pub lease: Time,
    /// An agent's clock may be behind by so much at the end of a lease, with what is then in flight.
    pub grace: Time,
    /// How long demands of a round wait for those of other servers.
    pub gather: Time,
    /// A switch that has not answered by then is taken for dead.
    pub patience: Time,
    /// What was sent to a switch over a stream that broke is carried out by then, or never.
    pub lifetime: Time,
    /// How often a change is tried until ports that do not follow are taken out of use.
    pub attempts: u32,
    /// How often the switch is read when nothing happens.
    pub audit: Time,
    /// Ports that did not follow are tried again after so long.
    pub retry: Time,
    /// Between two attempts to reach the switch.
    pub reconnect: Time,
    /// Whether circuits are set for an even demand while none has been reported.
    pub start_even: bool,
}

impl Default for Settings {
    /// For a switch that changes within some 100 ms.
    fn default() -> Self {
        Settings {
            lease: Time::from_ms(3_000),
            grace: Time::from_ms(200),
            gather: Time::from_ms(20),
            patience: Time::from_ms(1_000),
            lifetime: Time::from_ms(1_000),
            attempts: 3,
            audit: Time::from_ms(10_000),
            retry: Time::from_ms(60_000),
            reconnect: Time::from_ms(500),
            start_even: true,
        }
    }
}
