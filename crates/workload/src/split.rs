//! A backward pass in two: gradients of activations, on which the stage before waits, and gradients of
//! weights, on which nothing waits but their sum (zero bubble, arXiv 2401.10241, Section 2).
//!
//! Modelled: of the two products that a backward pass takes for each product with weights, one is for
//! weights. Products of attention's scores have no weights, so both are for activations: the shares
//! follow from FLOPs, as in Table 1 of that paper. Ignored: norms' and the router's weights, and the
//! embedding, whose gradients stay with the rest.
//! Checked: shares of the paper's Table 1 by hand.

use crate::component::Component;
use crate::model::Model;
use lightloom_units::Time;

impl Model {
    /// Which share of a component's forward FLOPs are products with weights, where their gradients are
    /// computed apart; else 0.
    pub(crate) fn weight_share(&self, component: Component, sequence_length: u32) -> f64 {
        match component {
            Component::Expert | Component::SharedExpert => 1.0,
            Component::DenseMlp | Component::Head => 1.0,
            Component::Attention => {
                let (split, replicated) = self.attention.matrices(u64::from(self.hidden));
                2.0 * (split + replicated) as f64 / self.attention_flops(sequence_length)
            }
            Component::Gate | Component::Embedding | Component::Optimizer => 0.0,
        }
    }
}

/// The part of a whole backward time that is for weights' gradients, where `share` of the forward pass is
/// products with weights.
pub(crate) fn of_weights(backward: Time, share: f64) -> Time {
    Time::from_secs_f64(backward.as_secs_f64() * share / 2.0).min(backward)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::{Attention, Bias};
    use crate::example;

    /// Attention of the paper's Table 1, whose causal mask halves the scores here: of 8 h^2 + 2 s h FLOPs a
    /// token 8 h^2 are products with weights.
    #[test]
    fn shares_by_hand() {
        let mut model = example::mixtral_8x7b().model;
        (model.hidden, model.experts) = (1024, 8);
        model.attention = Attention::Gqa { heads: 8, kv_heads: 8, head_dim: 128, bias: Bias::None };
        let (h, s) = (1024.0, 4096.0);
        let share = model.weight_share(Component::Attention, 4096);
        assert!((share - 8.0 * h * h / (8.0 * h * h + 2.0 * s * h)).abs() < 1e-12, "{share}");
        assert_eq!(of_weights(Time::from_us(30), share), Time::from_ps(7_500_000));
        assert_eq!(of_weights(Time::from_us(30), 1.0), Time::from_us(15));
    }
}
