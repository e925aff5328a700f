//! The examples of `docs/extend.md`, and a predictor: a kind of each family, written as it would lie in
//! its crate, in the suite that every kind of its family must pass and in a simulation. None of them is
//! in a list here, so each shows that its interface is enough.

mod balancer {
    pub mod away;
    mod plug {
        pub use lightloom_packet::BalancerCapabilities as Capabilities;
        pub use lightloom_packet::{Balancer, Heard, Next, Nics, Paths, pick};
    }
}
mod checks;
mod drivers {
    mod plain;
}
mod kinds {
    pub mod one_switch;
}
mod predict {
    use lightloom_circuits::predict as form;
    use lightloom_circuits::predict as history;
    pub mod trend;
}
mod rule {
    use crate::interfaces as form;
    pub mod heaviest_first;
}

/// What the files name by its place in their crates.
mod interfaces {
    pub use lightloom_control::{Answer, Driver, DriverEvent, Order, Patch};
    pub use lightloom_decide::{Rule, RuleInput};
}
use interfaces as driver;
use lightloom_control::{conformance, driver_conformance, protocol};
use lightloom_fabric::plug;
