//! Every kind of fabric that a specification can ask for.

use crate::kind::{FabricKind, FabricSpec};
use crate::{custom, fat_tree, leaf_spine, mixnet, planes, rail_optimized, railx, topoopt};
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::{Map, Value};

/// The kinds of fabrics. A new one is a file of this crate, and a line here.
///
/// ```
/// use lightloom_fabric::FABRICS;
/// let optical = FABRICS.iter().filter(|kind| kind.can.regions).map(|kind| kind.name);
/// assert_eq!(optical.collect::<Vec<_>>(), ["mixnet"]);
/// ```
pub static FABRICS: &[&FabricKind] = &[
    &fat_tree::KIND,
    &leaf_spine::KIND,
    &rail_optimized::KIND,
    &topoopt::KIND,
    &mixnet::KIND,
    &planes::KIND,
    &railx::KIND,
    &custom::KIND,
];

impl<'de> Deserialize<'de> for FabricSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = Map::deserialize(deserializer)?;
        let name = keys.remove("kind").ok_or_else(|| D::Error::missing_field("kind"))?;
        match FABRICS.iter().find(|kind| name == kind.name) {
            Some(kind) => kind.read(Value::Object(keys)).map_err(D::Error::custom),
            None => {
                let known: Vec<&str> = FABRICS.iter().map(|kind| kind.name).collect();
                let known = known.join(", ");
                Err(D::Error::custom(format!("fabric.kind = {name}: allowed: {known}")))
            }
        }
    }
}
