//! The algorithms of an all-reduce.

use serde::{Deserialize, Serialize};

/// How data are reduced and spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// Two rings over all chips that share no link.
    #[serde(rename = "1d-ring")]
    Ring1d,
    /// Rings over the chips of rows and of columns (RailX, equation 7).
    #[serde(rename = "2d-ring")]
    Ring2d,
    /// Rings inside each node, then over the same chip of the nodes of rows and of columns (equation
    /// 8).
    #[serde(rename = "hierarchical")]
    Hierarchical,
    /// As [`Algorithm::Hierarchical`], but to all nodes of a row or column at once (equation 13).
    #[serde(rename = "hyperx")]
    HyperX,
}
