//! Every kind of fabric that a specification can ask for.

use crate::kind::{CarrierSpec, FabricKind, FabricSpec};
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
    rail_only,
    torus,
    hamming_mesh,
    few_nics,
    graph,
    dragonfly,
}

impl<'de> Deserialize<'de> for FabricSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = Map::deserialize(deserializer)?;
        let name = keys.remove("kind").ok_or_else(|| D::Error::missing_field("kind"))?;
        let common = CarrierSpec::KEYS.into_iter().filter_map(|key| keys.remove_entry(key));
        let common: Map<_, _> = common.collect();
        let carrier = match common.is_empty() {
            true => CarrierSpec::default(),
            false => CarrierSpec::deserialize(Value::Object(common)).map_err(D::Error::custom)?,
        };
        match FABRICS.iter().find(|kind| name == kind.name()) {
            Some(kind) => {
                let read = kind.read(Value::Object(keys)).map_err(D::Error::custom)?;
                Ok(read.carried(carrier))
            }
            None => {
                let known: Vec<&str> = FABRICS.iter().map(|kind| kind.name()).collect();
                let known = known.join(", ");
                Err(D::Error::custom(format!("fabric.kind = {name}: allowed: {known}")))
            }
        }
    }
}
