//! Optical circuit switches in a specification: what one is, how long it takes to change, and when
//! circuits change. Nothing in this crate reads more of it than rates, delays and ports.

use crate::error::FabricError;
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};

/// An optical circuit switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OcsSpec {
    /// Rate of an optical NIC, all its circuits together \[bit/s\].
    pub link_bps: BitRate,
    /// Into how many circuits a NIC is broken out, each with a port of the switch: 1, 2, 4 or 8 (SWOT,
    /// Section 2.1.1).
    #[serde(default = "one")]
    pub breakout: u32,
    /// Whether circulators put both directions of a circuit on one fibre.
    #[serde(default)]
    pub circulators: bool,
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

fn one() -> u32 {
    1
}

impl OcsSpec {
    /// Rate of a circuit \[bit/s\].
    pub fn circuit_bps(&self) -> BitRate {
        BitRate::from_bps(self.link_bps.bps() / u64::from(self.breakout))
    }

    /// Ports of the switch for so many ends of circuits: a port has two fibres, an end without a
    /// circulator needs both.
    pub fn ports_for(&self, ends: u64) -> u64 {
        if self.circulators { ends.div_ceil(2) } else { ends }
    }

    /// `breakout`, if it is one of those that there are.
    pub(crate) fn parts(&self) -> Result<u32, FabricError> {
        match self.breakout {
            known @ (1 | 2 | 4 | 8) => Ok(known),
            other => Err(FabricError::new("fabric.ocs.breakout", other, "must be 1, 2, 4 or 8")),
        }
    }

    /// Whether rates and delay can be.
    pub(crate) fn check(&self) -> Result<(), FabricError> {
        FabricError::check_rate("fabric.ocs.link_bandwidth", self.link_bps)?;
        FabricError::check_rate("fabric.ocs.link_bandwidth / breakout", self.circuit_bps())?;
        FabricError::check_delay("fabric.ocs.link_delay", self.link_delay_ps)
    }
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
    /// Whether circuits carry sums of gradients.
    #[serde(default)]
    pub gradients: Gradients,
}

/// Whether circuits form rings for sums of gradients (MixNet Section 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gradients {
    /// Sums take packet switches.
    #[default]
    Off,
    /// They do where that is sooner, dark times included.
    Rings,
    /// They do, whatever it costs.
    Always,
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
