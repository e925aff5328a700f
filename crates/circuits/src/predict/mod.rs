//! What the next gate will decide, before it has (MixNet, Section 5.1 and Appendix B.1).
//!
//! Modelled: the share of a source's tokens that each expert of a layer receives, predicted from the
//! layer before in the same pass of the model and from recent passes. A predictor is a file and a line
//! in [`candidates`]; it reads a [`History`], to which loads are added as layers pass. A [`Forecaster`]
//! holds both, and is all that a simulator or a controller needs: [`Forecaster::predict`] before a
//! layer's gate, [`Forecaster::observe`] after it. No clock, no random numbers: the same loads give the
//! same predictions on every machine (`auto`'s to the last bits of the platform's `exp`).
//! Ignored: which tokens chose which experts in the layer before; only their numbers are known.
//! Checked: every prediction is a distribution, whatever was seen; each predictor by its definition;
//! the window forgets.
//!
//! ```
//! use lightloom_circuits::predict::{Copilot, Forecaster, Window};
//! let mut forecaster = Forecaster::new(Box::<Copilot>::default(), 1, 4, Window::default());
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
mod forecaster;
mod form;
mod hedge;
mod history;
mod linear;
mod scores;
mod transition;

pub use auto::{Auto, Mixture, Rows};
pub use forecaster::{Forecaster, Prediction};
pub use form::{Capabilities, Predictor};
pub use hedge::Hedge;
pub use history::{History, Window};
pub use scores::{relative_error, top_k_accuracy};
pub use transition::{Sample, Transition};

/// Declares the files and lists the predictors in them.
macro_rules! predictors {
    ($($file:ident::$Predictor:ident),* $(,)?) => {
        $(mod $file; pub use $file::$Predictor;)*

        /// Whom `auto` mixes; where two weigh the same, the first of them is named.
        pub fn candidates() -> Vec<Box<dyn Predictor>> {
            vec![$(Box::<$Predictor>::default()),*]
        }
    };
}

predictors! {
    copilot::Copilot,
    average::Average,
    previous_iteration::PreviousIteration,
    previous_layer::PreviousLayer,
    uniform::Uniform,
}

/// Every predictor that a specification may name: the candidates, and last `auto`.
pub fn predictors() -> Vec<Box<dyn Predictor>> {
    let mut all = candidates();
    all.push(Box::new(Auto::new(candidates())));
    all
}

/// The predictor of a name.
///
/// # Errors
/// Which there are, if there is none of that name.
///
/// ```
/// use lightloom_circuits::predict::predictor;
/// assert_eq!(predictor("auto").unwrap().name(), "auto");
/// assert!(predictor("best").unwrap_err().starts_with("must be one of copilot, average, "));
/// ```
pub fn predictor(name: &str) -> Result<Box<dyn Predictor>, String> {
    let found = predictors().into_iter().find(|predictor| predictor.name() == name);
    found.ok_or_else(|| {
        let names: Vec<_> = predictors().iter().map(|predictor| predictor.name()).collect();
        format!("must be one of {}", names.join(", "))
    })
}
