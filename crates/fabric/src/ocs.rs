//! Optical circuit switches in a specification: what one is, how long it takes to change, and when
//! circuits change. Nothing in this crate reads more of it than rates, delays and ports.

use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};

/// An optical circuit switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OcsSpec {
    /// Rate of a circuit \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of each of the two fibres of a circuit \[ps\].
    pub link_delay_ps: Time,
    /// What the device is called.
    pub device: String,
    /// Its ports, of two directions each.
    pub ports: u32,
    /// How long it takes to change. Nothing in this crate reads it, nor the next two.
    pub delay: ReconfigurationDelay,
    /// How long the NICs behind it take to work again once they have light.
    #[serde(default)]
    pub activation: ActivationDelay,
    /// Whether transceivers loop their light back while the switch moves, and so avoid that.
    #[serde(default)]
    pub loopback: bool,
}

/// How long NICs take to work again after their light was gone (MixNet, Appendix C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ActivationDelay {
    /// Always the same.
    Fixed {
        /// The delay \[ps\].
        ps: Time,
    },
    /// Log-normal, through a mean and a 99th percentile.
    Lognormal {
        /// The mean delay \[ps\].
        mean_ps: Time,
        /// The 99th percentile.
        p99_ps: Time,
    },
}

impl Default for ActivationDelay {
    /// None at all.
    fn default() -> Self {
        ActivationDelay::Fixed { ps: Time::ZERO }
    }
}

/// How long an optical switch takes to change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ReconfigurationDelay {
    /// Always the same.
    Fixed {
        /// The delay \[ps\].
        ps: Time,
    },
    /// Log-normal, through a mean and a 99th percentile that depend on how many pairs change.
    Lognormal {
        /// Numbers of pairs that were measured, rising.
        pairs: Vec<u32>,
        /// The mean for each.
        mean_ps: Vec<Time>,
        /// The 99th percentile for each.
        p99_ps: Vec<Time>,
    },
}

/// When circuits change for each all-to-all of a layer (MixNet Sections 5.1, 7.1, B.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconfigure {
    /// Before the first of the forward pass.
    pub first_forward: ReconfigurePolicy,
    /// Before the second of the forward pass.
    pub second_forward: ReconfigurePolicy,
    /// Before both of the backward pass.
    pub backward: ReconfigurePolicy,
    /// The name of who predicts; given if and only if a phase is to be predicted.
    #[serde(default)]
    pub predictor: Option<String>,
    /// The circuits that stand when a region begins.
    #[serde(default)]
    pub start: Start,
}

/// The circuits that stand when a region begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Those of an even demand.
    #[default]
    Even,
    /// No port has a circuit.
    Dark,
}

/// When circuits change for one all-to-all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReconfigurePolicy {
    /// Once the demand is known, and the all-to-all waits.
    Block,
    /// Not at all.
    Reuse,
    /// While the region computes; the demand is taken as known.
    Hide,
    /// While the region computes, for a demand that is predicted.
    Predict,
    /// Again and again during the all-to-all itself.
    Inside,
}
