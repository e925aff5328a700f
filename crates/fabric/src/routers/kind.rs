//! What a kind of network is: the keys by which it is asked for, and what makes routers of them.

use super::network::Network;
use super::routing::Routing;
use crate::error::FabricError;
use lightloom_units::kind::{Form, Key, Kind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// A network and how packets are routed through it.
pub type Routed = (Network, Box<dyn Routing + Send>);

/// Why a network cannot be: a message that names what.
pub type Refused = Box<dyn std::error::Error + Send + Sync>;

/// A kind of network of routers.
#[derive(Debug)]
pub struct NetworkKind {
    /// What it says of itself.
    pub about: Kind<Routings>,
    /// A small one, another for each number. Tests of all networks take it.
    pub example: fn(u32) -> Arc<dyn NetworkKeys>,
    read: fn(Value) -> serde_json::Result<Arc<dyn NetworkKeys>>,
}

/// What others must know of a kind of network.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Routings {
    /// The routings that it knows, by name: the first unless another is asked for.
    pub routings: &'static [&'static str],
}

/// The keys of one kind of network, with their values.
pub trait NetworkKeys: fmt::Debug + Send + Sync {
    /// Makes the routers, with `vcs` virtual channels a port, for a routing that the kind knows.
    ///
    /// # Errors
    /// Names what cannot be.
    fn build(&self, routing: &str, vcs: u8) -> Result<Routed, Refused>;

    /// Flits a cycle and chip that fill the busiest channel under uniform traffic if nothing ever
    /// waits; none if there is no closed form.
    fn bound(&self) -> Option<f64> {
        None
    }
}

/// The key `width`.
pub(super) const WIDTH: Key = width("width", "Flits a cycle of a channel.");
/// The key `delay`.
pub(super) const DELAY: Key = delay("delay", "Cycles of a channel.");
/// The key `lanes`.
pub(super) const LANES: Key = Key::new(
    "lanes",
    Form::Count { min: 1, max: 1 << 10 },
    "Terminals of a chip: each has its share of what the chip may inject and eject, and a queue of its \
     own, so that one queue does not fill many narrow ports.",
);

/// A key in flits a cycle.
pub const fn width(name: &'static str, text: &'static str) -> Key {
    Key::new(name, Form::Count { min: 1, max: 1 << 15 }, text)
}

/// A key in cycles.
pub const fn delay(name: &'static str, text: &'static str) -> Key {
    Key::new(name, Form::Count { min: 0, max: (1 << 16) - 1 }, text)
}

impl NetworkKind {
    /// A kind whose keys are of a type.
    pub const fn of<K: NetworkKeys + DeserializeOwned + 'static>(
        about: Kind<Routings>,
        example: fn(u32) -> Arc<dyn NetworkKeys>,
    ) -> Self {
        let read = |keys| -> serde_json::Result<Arc<dyn NetworkKeys>> {
            Ok(Arc::new(serde_json::from_value::<K>(keys)?))
        };
        NetworkKind { about, example, read }
    }

    /// Reads the keys of this kind, without `kind` itself.
    ///
    /// # Errors
    /// Names a key that is missing, unknown, or of another type.
    pub fn read(&self, keys: Value) -> serde_json::Result<Arc<dyn NetworkKeys>> {
        (self.read)(keys)
    }

    /// Whether it knows a routing.
    ///
    /// # Errors
    /// Says which it knows.
    pub fn knows(&self, routing: &str) -> Result<(), FabricError> {
        let known = self.about.capabilities.routings;
        if known.contains(&routing) {
            return Ok(());
        }
        let reason = format!("is not known here; allowed: {}", known.join(", "));
        Err(FabricError::new("routing", format!("\"{routing}\""), reason))
    }
}

/// Virtual channels of each class, where deadlocks are avoided by so many classes.
pub(super) fn each(routing: &str, vcs: u8, classes: u8) -> Result<u8, FabricError> {
    match vcs / classes {
        0 => {
            let reason =
                format!("{routing} routing needs {classes} on this network to be free of deadlock");
            Err(FabricError::new("vcs", vcs, reason))
        }
        each => Ok(each),
    }
}
