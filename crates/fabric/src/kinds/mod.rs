//! Every kind of fabric that a specification can ask for.

use crate::kind::{FabricKind, FabricSpec};
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::{Map, Value};

macro_rules! fabrics {
    ($($module:ident),* $(,)?) => {
        $(pub(crate) mod $module;)*

        /// The kinds of fabrics.
        ///
        /// ```
        /// use lightloom_fabric::FABRICS;
        /// let optical = FABRICS.iter().filter(|kind| kind.can().regions);
        /// assert_eq!(optical.map(|kind| kind.name()).collect::<Vec<_>>(), ["mixnet"]);
        /// ```
        pub static FABRICS: &[&FabricKind] = &[$(&$module::KIND),*];
    };
}

// A new kind is a file of this folder, and a name here.
fabrics! {
    fat_tree,
    leaf_spine,
    rail_optimized,
    topoopt,
    mixnet,
    planes,
    railx,
    graph,
    dragonfly,
}

impl<'de> Deserialize<'de> for FabricSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = Map::deserialize(deserializer)?;
        let name = keys.remove("kind").ok_or_else(|| D::Error::missing_field("kind"))?;
        match FABRICS.iter().find(|kind| name == kind.name()) {
            Some(kind) => kind.read(Value::Object(keys)).map_err(D::Error::custom),
            None => {
                let known: Vec<&str> = FABRICS.iter().map(|kind| kind.name()).collect();
                let known = known.join(", ");
                Err(D::Error::custom(format!("fabric.kind = {name}: allowed: {known}")))
            }
        }
    }
}
