//! Components of what memory holds, and their bytes.

/// A component of what memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Holds {
    /// Weights, as products read them.
    Weights,
    /// Gradients of weights.
    Gradients,
    /// The optimizer's state.
    Optimizer,
    /// Inputs of layers that are computed anew.
    LayerInputs,
    /// Activations: inputs and outputs of norms.
    Norms,
    /// Activations of attention.
    Attention,
    /// Those of dense MLPs and shared experts.
    Mlp,
    /// Those of routed experts.
    Experts,
    /// Those of the router.
    Router,
    /// Logits, their gradients, and the final norm.
    Head,
    /// Buffers of one layer's all-to-alls.
    AllToAll,
    /// Gradients of activations, and what a layer works with for a moment.
    Working,
    /// Keys and values of tokens before.
    Cache,
    /// What is there besides tensors.
    Overhead,
}

impl Holds {
    /// All of them, in the order of tables.
    pub const ALL: [Holds; 14] = [
        Holds::Weights,
        Holds::Gradients,
        Holds::Optimizer,
        Holds::LayerInputs,
        Holds::Norms,
        Holds::Attention,
        Holds::Mlp,
        Holds::Experts,
        Holds::Router,
        Holds::Head,
        Holds::AllToAll,
        Holds::Working,
        Holds::Cache,
        Holds::Overhead,
    ];

    /// The name in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Holds::Weights => "weights",
            Holds::Gradients => "gradients",
            Holds::Optimizer => "optimizer",
            Holds::LayerInputs => "layer_inputs",
            Holds::Norms => "norms",
            Holds::Attention => "attention",
            Holds::Mlp => "mlp",
            Holds::Experts => "experts",
            Holds::Router => "router",
            Holds::Head => "head",
            Holds::AllToAll => "all_to_all",
            Holds::Working => "working",
            Holds::Cache => "cache",
            Holds::Overhead => "overhead",
        }
    }
}

/// Bytes of each component: wide, so that no valid job overflows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts([u128; Holds::ALL.len()]);

impl Parts {
    pub fn of(parts: &[(Holds, u128)]) -> Self {
        let mut found = Parts::default();
        for &(holds, bytes) in parts {
            found.0[holds as usize] += bytes;
        }
        found
    }

    pub fn total(&self) -> u128 {
        self.0.iter().sum()
    }

    /// Bytes of a component.
    pub fn get(&self, holds: Holds) -> u128 {
        self.0[holds as usize]
    }

    /// Bytes of the largest component.
    pub fn largest(&self) -> u128 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    fn map(self, other: Parts, with: impl Fn(u128, u128) -> u128) -> Self {
        Parts(std::array::from_fn(|at| with(self.0[at], other.0[at])))
    }

    pub fn plus(self, other: Parts) -> Self {
        self.map(other, |a, b| a + b)
    }

    /// Without `other`, of which no component is greater.
    pub fn minus(self, other: Parts) -> Self {
        self.map(other, u128::saturating_sub)
    }

    pub fn times(self, count: u64) -> Self {
        self.map(self, |a, _| a * u128::from(count))
    }

    /// The one with more bytes.
    pub fn fuller(self, other: Parts) -> Self {
        if other.total() > self.total() { other } else { self }
    }
}
