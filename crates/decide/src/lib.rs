//! Which circuits a region gets, decided in one place.
//!
//! A [`Decider`] holds all that a decision needs beside the question itself: the [`Rule`], the rates of
//! the NICs, what other traffic takes of them ([`traffic`]), the demands seen so far, tenants, and whether
//! a change must pay for its dark time (hysteresis). The simulator, the controller inside a simulation, the
//! daemon and the scores of predictors all ask it, so the same questions have the same answers
//! everywhere. It reads no clock and draws no random number.
//!
//! ```
//! use lightloom_circuits::{PortMap, ServerDemand};
//! use lightloom_decide::{Decider, Question, Settings};
//! // Three servers of one optical port. By default a change must pay for 25 ms of dark ports.
//! let mut decider = Decider::new(Settings::default(), &[0; 3]);
//! let dark = PortMap::dark(3, 1);
//! let small = ServerDemand::from_gpu_demand(3, 1, [(0, 1, 400_000), (0, 2, 200_000)]);
//! assert_eq!(decider.decide(&Question::new(small, dark.clone())).unwrap().total(), 0);
//! let large = ServerDemand::from_gpu_demand(3, 1, [(0, 1, 4 << 30), (0, 2, 9 << 30)]);
//! assert_eq!(decider.decide(&Question::new(large, dark)).unwrap().get(0, 1), 1);
//! ```

mod dark;
mod decider;
pub mod evaluate;
mod foresight;
mod memory;
mod question;
pub mod region;
pub mod rule;
mod settings;
mod tenant;
pub mod traffic;

pub use dark::{Dark, interpolate};
pub use decider::Decider;
pub use foresight::Foresight;
pub use question::{Ahead, Basis, PacketSide, Question};
pub use rule::{Rule, RuleInput, rule, rules};
pub use settings::{Refusal, Settings};
pub use traffic::{Class, PassTraffic, Traffic, WINDOW};
