//! What a kind of network is: the keys by which it is asked for, and what makes routers of them.

use super::network::Network;
use super::routing::Routing;
use crate::error::FabricError;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// A network and how packets are routed through it.
pub type Routed = (Network, Box<dyn Routing + Send>);

/// Why a network cannot be: a message that names what.
pub type Refused = Box<dyn std::error::Error + Send + Sync>;

/// A kind of network of routers.
pub struct NetworkKind {
    /// The `kind` by which it is asked for.
    pub name: &'static str,
    read: fn(Value) -> serde_json::Result<Arc<dyn NetworkKeys>>,
}

/// The keys of one kind of network, with their values.
pub trait NetworkKeys: fmt::Debug + Send + Sync {
    /// Makes the routers, with `vcs` virtual channels a port.
    ///
    /// # Errors
    /// Names what cannot be: a key, or a routing that this kind does not know.
    fn build(&self, routing: &str, vcs: u8) -> Result<Routed, Refused>;
}

impl NetworkKind {
    /// A kind whose keys are of a type.
    pub const fn of<K: NetworkKeys + DeserializeOwned + 'static>(name: &'static str) -> Self {
        NetworkKind { name, read: |keys| Ok(Arc::new(serde_json::from_value::<K>(keys)?)) }
    }

    /// Reads the keys of this kind, without `kind` itself.
    ///
    /// # Errors
    /// Names a key that is missing, unknown, or of another type.
    pub fn read(&self, keys: Value) -> serde_json::Result<Arc<dyn NetworkKeys>> {
        (self.read)(keys)
    }
}

/// Whether a network knows a routing.
pub(super) fn known(routing: &str, allowed: &[&str]) -> Result<(), FabricError> {
    if allowed.contains(&routing) {
        return Ok(());
    }
    let reason = format!("is not known here; allowed: {}", allowed.join(", "));
    Err(FabricError::new("routing", format!("\"{routing}\""), reason))
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
