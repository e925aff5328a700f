//! What the next gate will decide, before it has (MixNet, Section 5.1 and Appendix B.1).
//!
//! Modelled: the share of a source's tokens that each expert of a layer receives, predicted from the
//! layer before in the same pass of the model and from recent passes. One predictor a file; each reads a
//! [`History`], to which loads are added as layers pass. A [`Forecaster`] holds both, and is all that
//! a simulator or a controller needs: [`Forecaster::predict`] before a layer's gate,
//! [`Forecaster::observe`] after it. No clock, no random numbers: the same loads give the same
//! predictions on every machine.
//! Ignored: which tokens chose which experts in the layer before; only their numbers are known.
//! Checked: every prediction is a distribution, whatever was seen; each predictor by its definition;
//! the window forgets.
//!
//! ```
//! use lightloom_circuits::predict::{Forecaster, PredictorKind, Window};
//! let mut forecaster = Forecaster::new(PredictorKind::Copilot, 1, 4, Window::default());
//! // Whatever expert e of layer 0 gets, expert 3 - e of layer 1 gets.
//! for hot in [0, 1, 2, 0, 3, 1] {
//!     let load: Vec<f64> = (0..4).map(|e| if e == hot { 70.0 } else { 10.0 }).collect();
//!     forecaster.observe(0, &load);
//!     forecaster.observe(1, &load.into_iter().rev().collect::<Vec<_>>());
//! }
//! forecaster.observe(0, &[10.0, 10.0, 70.0, 10.0]);
//! let predicted = forecaster.predict(1);
//! assert!((predicted.rows[0][1] - 0.7).abs() < 0.01);
//! ```

mod auto;
mod average;
mod copilot;
mod forecaster;
mod history;
mod linear;
mod previous_iteration;
mod previous_layer;
mod scores;
mod transition;
mod uniform;

pub use auto::{Auto, CANDIDATES};
pub use average::average;
pub use copilot::Copilot;
pub use forecaster::{Forecaster, Prediction};
pub use history::{History, Window};
pub use lightloom_fabric::PredictorKind;
pub use previous_iteration::previous_iteration;
pub use previous_layer::previous_layer;
pub use scores::{relative_error, top_k_accuracy};
pub use transition::{Sample, Transition};
pub use uniform::uniform;
