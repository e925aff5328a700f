//! What a GPU computes of a layer, and where the time of it comes from.

use lightloom_units::Time;
use serde::Deserialize;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// Attention with its norm and residual.
    Attention,
    /// Norm, router, permutation.
    Gate,
    /// Routed experts, balanced.
    Expert,
    /// Shared experts; computed right after the routed ones.
    SharedExpert,
    /// The MLP of a dense layer.
    DenseMlp,
    /// Final norm, logits, loss.
    Head,
    /// Input embedding.
    #[serde(skip_deserializing)]
    Embedding,
    /// Optimizer step of the stage with the most parameters.
    #[serde(skip_deserializing)]
    Optimizer,
}

/// Where a compute time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Computed from shapes and the GPU's rates.
    #[serde(skip_deserializing)]
    Roofline,
    /// Measured on a machine.
    Measured,
    /// Stated by a source.
    Given,
    /// From measured shapes on both sides.
    #[serde(skip_deserializing)]
    Interpolated,
    /// From measured shapes, outside of their range.
    #[serde(skip_deserializing)]
    Extrapolated,
    /// From the curve over shapes.
    #[serde(skip_deserializing)]
    Shape,
    /// Scaled from a measured or given time: another micro-batch, twice the forward pass, or another
    /// component's matrix products.
    #[serde(skip_deserializing)]
    Scaled,
}

impl Component {
    /// The name in specifications and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Component::Attention => "attention",
            Component::Gate => "gate",
            Component::Expert => "expert",
            Component::SharedExpert => "shared_expert",
            Component::DenseMlp => "dense_mlp",
            Component::Head => "head",
            Component::Embedding => "embedding",
            Component::Optimizer => "optimizer",
        }
    }
}

impl Origin {
    /// The name in specifications and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Origin::Roofline => "roofline",
            Origin::Measured => "measured",
            Origin::Given => "given",
            Origin::Interpolated => "interpolated",
            Origin::Extrapolated => "extrapolated",
            Origin::Shape => "shape",
            Origin::Scaled => "scaled",
        }
    }
}

/// No single task may compute longer than this: 10^15 ps, a quarter of an hour.
pub(crate) const LONGEST: Time = Time::from_ps(1_000_000_000_000_000);
