//! The optical switch as a state machine, and how long it and the NICs behind it take.

mod activation;
mod cross;
pub mod delay;
mod switch;

pub use activation::Activation;
pub use cross::SwitchError;
pub use switch::{Device, Switch, SwitchEvent};
