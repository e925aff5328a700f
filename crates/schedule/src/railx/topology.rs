//! Which topology the rails form.

use lightloom_fabric::railx::{Axis, Layout};
use serde::{Deserialize, Serialize};

/// How the nodes of a logical dimension are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wiring {
    /// One ring, the same on each of its rails.
    Ring,
    /// Every two nodes directly, by a Hamiltonian decomposition into rings, one a rail.
    AllToAll,
}

/// A logical dimension: a digit of a node's position along an axis, and the rails that serve it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    /// The axis it is cut from.
    pub axis: Axis,
    /// Nodes in it.
    pub scale: u32,
    /// Positions along the axis between neighbours: the digit is `position / stride % scale`.
    pub stride: u32,
    /// How they are joined.
    pub wiring: Wiring,
    /// The rails of the axis that serve it, rising.
    pub rails: Vec<u32>,
}

/// What the nodes form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// A product of logical dimensions: tori, HyperX, mixtures.
    Product(Vec<Dimension>),
    /// Columns of nodes are groups, joined all to all by their Y-rails; the groups are joined all to
    /// all by X-rails, each row of nodes having some of the rings.
    Dragonfly,
}

/// A topology and the circuits that make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// What the nodes form.
    pub form: Form,
    /// The rings of every switch.
    pub layout: Layout,
}
