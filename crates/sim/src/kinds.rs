//! The families of kinds that a specification chooses from, as data for those who list them.

use crate::carrier::{CARRIERS, KEYS};
use crate::flits::networks;
use lightloom_circuits::predict::predictors;
use lightloom_fabric::FABRICS;
use lightloom_packet::{BALANCERS, OVERFLOWS, TRANSPORTS};
use lightloom_units::kind::{Family, Key};
use lightloom_workload::collective::Algorithm;
use serde::Serialize;
use serde_json::{Result as Json, Value, json, to_value};

const FAMILIES: &[&dyn Listed] = &[
    &Plugs {
        name: "fabric",
        text: "Which fabric; decides which other keys there are.",
        every: KEYS,
        kinds: || FABRICS.iter().map(|kind| to_value(kind.about)).collect(),
    },
    &Plugs {
        name: "carrier",
        text: "How all-to-alls travel.",
        every: &[],
        kinds: || CARRIERS.iter().map(|kind| to_value(kind.about)).collect(),
    },
    &Plugs {
        name: "decision",
        text: "How circuits are chosen for a demand.",
        every: &[],
        kinds: || lightloom_decide::rules().iter().map(|rule| to_value(rule.kind())).collect(),
    },
    &Plugs {
        name: "predictor",
        text: "Who predicts the demand of a layer's first all-to-all.",
        every: &[],
        kinds: || predictors().iter().map(|predictor| to_value(predictor.kind())).collect(),
    },
    &Plugs {
        name: "network",
        text: "Which network of routers; decides which other keys there are.",
        every: &[],
        kinds: || networks().map(|kind| to_value(kind.about)).collect(),
    },
    &Plugs {
        name: "collective",
        text: "What each node sends in each step of a collective.",
        every: &[],
        kinds: || Algorithm::all().map(|algorithm| to_value(algorithm.kind())).collect(),
    },
    &TRANSPORTS,
    &BALANCERS,
    &OVERFLOWS,
];

/// A family, whatever its capabilities are.
trait Listed: Sync {
    fn name(&self) -> &'static str;
    fn json(&self) -> Json<String>;
}

impl<C: Serialize + Sync> Listed for Family<C> {
    fn name(&self) -> &'static str {
        self.name
    }
    fn json(&self) -> Json<String> {
        serde_json::to_string(self)
    }
}

/// A family whose kinds do things, besides describing themselves.
struct Plugs {
    name: &'static str,
    text: &'static str,
    /// Keys that each of them has besides its own.
    every: &'static [Key],
    kinds: fn() -> Json<Vec<Value>>,
}

impl Listed for Plugs {
    fn name(&self) -> &'static str {
        self.name
    }
    fn json(&self) -> Json<String> {
        let kinds = (self.kinds)()?;
        serde_json::to_string(&json!({
            "name": self.name, "text": self.text, "every": self.every, "kinds": kinds
        }))
    }
}

/// The kinds of a family, a [`Family`] as JSON.
///
/// ```
/// let json = lightloom_sim::kinds("balancer")?;
/// assert!(json.contains(r#""name":"round-robin""#));
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// If there is no such family; the message lists those there are.
pub fn kinds(family: &str) -> Result<String, String> {
    let Some(found) = FAMILIES.iter().find(|listed| listed.name() == family) else {
        let names: Vec<_> = FAMILIES.iter().map(|listed| listed.name()).collect();
        return Err(format!("no family {family:?}; allowed: {}", names.join(", ")));
    };
    found.json().map_err(|error| error.to_string())
}
