//! Networks of routers under a load, by name: what `lightloom railx simulate` runs.
//!
//! Checked: RailX's bounds and BookSim's mesh, through the command line.

use crate::error::SimError;
use lightloom_fabric::routers::{
    NETWORKS, Network, NetworkKeys, NetworkKind, Refused, Routed, Routing,
};
use lightloom_flit::{MeasureError, Measured, Settings, Traffic, measure};
use lightloom_railx::{RAILX, channel_loads, throughput};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What is to be simulated, but for the load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlitSpec {
    /// Routers and channels.
    pub network: NetworkSpec,
    /// How packets are routed.
    pub routing: String,
    /// Who sends to whom.
    pub traffic: TrafficSpec,
    /// How routers work, and for how long.
    pub settings: Settings,
}

/// Routers and channels: a kind of network, and its keys.
#[derive(Clone, Debug)]
pub struct NetworkSpec(&'static NetworkKind, Arc<dyn NetworkKeys>);

/// Every kind of network.
pub(crate) fn networks() -> impl Iterator<Item = &'static NetworkKind> {
    std::iter::once(&RAILX).chain(NETWORKS.iter().copied())
}

impl<'de> Deserialize<'de> for NetworkSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = Map::deserialize(deserializer)?;
        let name = keys.remove("kind").ok_or_else(|| D::Error::missing_field("kind"))?;
        let Some(kind) = networks().find(|kind| name == kind.about.name) else {
            let known: Vec<&str> = networks().map(|kind| kind.about.name).collect();
            let known = known.join(", ");
            return Err(D::Error::custom(format!("network = {name}: allowed: {known}")));
        };
        let keys = kind.read(Value::Object(keys)).map_err(D::Error::custom)?;
        Ok(NetworkSpec(kind, keys))
    }
}

impl NetworkSpec {
    fn build(&self, routing: &str, vcs: u8) -> Result<Routed, Refused> {
        self.0.knows(routing)?;
        self.1.build(routing, vcs)
    }

    /// Flits a cycle and chip, by every pair of terminals.
    fn walked(&self, routing: &str) -> Result<f64, Refused> {
        // As few virtual channels as will do, for each is taken for a choice.
        let built = [1, 2, 3].into_iter().find_map(|vcs| self.build(routing, vcs).ok());
        let (network, routing) = built.map_or_else(|| self.build(routing, 16), Ok)?;
        let loads = channel_loads(&network, routing.as_ref())?;
        let lanes = network.terminals().len() / chips(&network);
        Ok(throughput(&network, &loads) * lanes as f64)
    }
}

/// Routers that have terminals.
fn chips(network: &Network) -> usize {
    let mut routers = network.terminals().to_vec();
    routers.dedup();
    routers.len()
}

/// Who sends to whom.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TrafficSpec {
    /// Every packet to a terminal drawn evenly.
    Uniform {
        /// Whether a terminal may draw itself.
        to_self: bool,
    },
    /// Every terminal to all others in turn.
    AllToAll,
    /// Terminal i to n - 1 - i.
    Complement,
    /// Terminal i of n = w x w to the one mirrored at the diagonal.
    Transpose,
    /// Terminal i to i + n / 2.
    Shift,
    /// A permutation drawn with the settings' seed.
    Permutation,
    /// A share of the packets to the first terminals.
    HotSpot {
        /// How many terminals receive this share.
        terminals: u32,
        /// The share of packets for them, from 0 to 1.
        share: f64,
    },
    /// To the terminals before and after, by number.
    Ring,
    /// In proportion to a matrix \[from, to\], row by row.
    Matrix {
        /// The matrix, row by row.
        weights: Vec<f64>,
    },
}

/// A network and its traffic, ready to be loaded.
pub struct Flits {
    spec: NetworkSpec,
    network: Network,
    routing: Box<dyn Routing + Send>,
    traffic: Traffic,
    settings: Settings,
}

fn input(error: impl std::fmt::Display) -> SimError {
    SimError::Input(error.to_string())
}

impl Flits {
    /// Builds the network.
    ///
    /// # Errors
    /// [`SimError::Input`] names what cannot be.
    pub fn new(spec: &FlitSpec) -> Result<Self, SimError> {
        let built = spec.network.build(&spec.routing, spec.settings.vcs);
        let (network, routing) = built.map_err(input)?;
        spec.settings.check(routing.vcs()).map_err(input)?;
        let terminals = network.terminals().len() as u32;
        let traffic = spec.traffic.pattern(terminals, spec.settings.seed)?;
        let (spec, settings) = (spec.network.clone(), spec.settings.clone());
        Ok(Flits { spec, network, routing, traffic, settings })
    }

    /// How many terminals the network has.
    pub fn terminals(&self) -> usize {
        self.network.terminals().len()
    }

    /// The load \[flits a cycle and chip\] at which the busiest channel is full under uniform traffic,
    /// if nothing ever waits. Where it has no closed form, for some thousand chips at most.
    ///
    /// # Errors
    /// [`SimError::Input`] if a packet does not arrive.
    pub fn bound(&self) -> Result<f64, SimError> {
        let closed = if chips(&self.network) > 1 { self.spec.1.bound() } else { None };
        closed.map_or_else(|| self.spec.walked(self.routing.name()).map_err(input), Ok)
    }

    /// Measures one load.
    ///
    /// # Errors
    /// [`SimError::Input`] for a load that cannot be, [`SimError::Run`] for a run that did not end.
    pub fn measure(
        &self,
        load: f64,
        threads: usize,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Measured, SimError> {
        let (network, routing) = (&self.network, self.routing.as_ref());
        measure(network, routing, &self.traffic, load, &self.settings, threads, progress).map_err(
            |error| match error {
                MeasureError::Interrupted => {
                    SimError::Run(lightloom_engine::EngineError::Interrupted)
                }
                MeasureError::Deadlock { .. } => {
                    SimError::Run(lightloom_engine::EngineError::Policy {
                        task: 0,
                        reason: error.to_string(),
                    })
                }
                wrong => input(wrong),
            },
        )
    }
}

impl TrafficSpec {
    fn pattern(&self, n: u32, seed: u64) -> Result<Traffic, SimError> {
        let each = |to: &dyn Fn(u32) -> u32| Traffic::Permutation((0..n).map(to).collect());
        Ok(match self {
            &TrafficSpec::Uniform { to_self } => Traffic::Uniform { to_self },
            TrafficSpec::AllToAll => Traffic::AllToAll,
            TrafficSpec::Complement => each(&|i| n - 1 - i),
            TrafficSpec::Shift => each(&|i| (i + n / 2) % n),
            TrafficSpec::Transpose => {
                let w = n.isqrt();
                if w * w != n {
                    return Err(input(format!("traffic: transpose of {n} terminals, no square")));
                }
                each(&|i| i % w * w + i / w)
            }
            TrafficSpec::Permutation => Traffic::random_permutation(n, seed),
            &TrafficSpec::HotSpot { terminals, share } => {
                Traffic::HotSpot { terminals: (0..terminals).collect(), share }
            }
            TrafficSpec::Ring => Traffic::Ring { order: (0..n).collect() },
            TrafficSpec::Matrix { weights } => Traffic::Matrix(weights.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_units::kind::Form;

    #[test]
    fn closed_forms_are_what_walking_every_pair_says() {
        for kind in networks() {
            for n in 0..6 {
                let spec = NetworkSpec(kind, (kind.example)(n));
                for routing in kind.about.capabilities.routings {
                    let Some(bound) = spec.1.bound() else { continue };
                    let (network, _) = spec.build(routing, 2).expect("an example is built");
                    let (all, chips) = (network.terminals().len(), chips(&network));
                    // A terminal sends to the other lanes of its chip, too, and crosses no channel.
                    let away = (all - all / chips) as f64 / (all - 1) as f64;
                    let walked = spec.walked(routing).expect("an example is built") * away;
                    let same = bound == walked || (bound / walked - 1.0).abs() < 1e-9;
                    assert!(chips == 1 || same, "{:?}: {bound} or {walked}", spec.1);
                }
            }
        }
    }

    #[test]
    fn every_kind_reads_the_keys_it_names_and_no_other() {
        for kind in networks() {
            let mut keys = Map::new();
            for key in kind.about.keys.iter().filter(|key| !key.optional) {
                let before = kind.read(Value::Object(keys.clone())).expect_err("a key is missing");
                assert!(before.to_string().contains("missing field"), "{before}");
                let value = match key.form {
                    Form::Choice(words) => words[0].into(),
                    Form::Counts { .. } => vec![2, 2].into(),
                    Form::Bool => false.into(),
                    _ => 2.into(),
                };
                keys.insert(key.name.into(), value);
            }
            assert!(kind.read(Value::Object(keys.clone())).is_ok(), "{}", kind.about.name);
            keys.insert("wheels".into(), 4.into());
            let unknown = kind.read(Value::Object(keys)).expect_err("no such key").to_string();
            let known: Vec<_> =
                kind.about.keys.iter().map(|key| format!("`{}`", key.name)).collect();
            assert!(unknown.ends_with(&known.join(", ")), "{unknown}: {known:?}");
        }
    }
}
