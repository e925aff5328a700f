//! The families of kinds that a specification chooses from, as data for those who list them.

use lightloom_fabric::FABRICS;
use lightloom_packet::{BALANCERS, OVERFLOWS, TRANSPORTS};
use lightloom_units::kind::Family;
use serde::Serialize;

const FAMILIES: &[&dyn Listed] = &[&Fabrics, &Rules, &TRANSPORTS, &BALANCERS, &OVERFLOWS];

/// The rules that choose circuits.
struct Rules;

impl Listed for Rules {
    fn name(&self) -> &'static str {
        "decision"
    }
    fn json(&self) -> Result<String, serde_json::Error> {
        let rules = lightloom_decide::rules();
        let kinds: Vec<_> = rules.iter().map(|rule| rule.kind()).collect();
        let text = "How circuits are chosen for a demand.";
        serde_json::to_string(
            &serde_json::json!({ "name": "decision", "text": text, "kinds": kinds }),
        )
    }
}

/// A family, whatever its capabilities are.
trait Listed: Sync {
    fn name(&self) -> &'static str;
    fn json(&self) -> Result<String, serde_json::Error>;
}

impl<C: Serialize + Sync> Listed for Family<C> {
    fn name(&self) -> &'static str {
        self.name
    }
    fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// The family of fabrics.
struct Fabrics;

impl Listed for Fabrics {
    fn name(&self) -> &'static str {
        "fabric"
    }
    fn json(&self) -> Result<String, serde_json::Error> {
        let kinds: Vec<_> = FABRICS.iter().map(|kind| &kind.about).collect();
        let text = "Which fabric; decides which other keys there are.";
        serde_json::to_string(&serde_json::json!({"name": "fabric", "text": text, "kinds": kinds}))
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
