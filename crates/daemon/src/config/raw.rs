//! `region.toml` as it is written. What each key means is in `docs/operate.md`.

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub name: String,
    #[serde(default)]
    pub listen: Listen,
    #[serde(default)]
    pub token: Vec<Token>,
    #[serde(deserialize_with = "one_or_more")]
    pub switch: Vec<Switch>,
    pub servers: Option<Row>,
    #[serde(default)]
    pub server: Vec<Server>,
    pub numa_of_port: Option<Vec<u8>>,
    #[serde(default)]
    pub decision: Decision,
    #[serde(default)]
    pub timing: Timing,
    #[serde(default)]
    pub journal: Journal,
}

/// `[switch]`, or several `[[switch]]`.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Switch>, D::Error> {
    struct Switches;
    impl<'de> Visitor<'de> for Switches {
        type Value = Vec<Switch>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("[switch], or [[switch]] for each")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<Switch>, A::Error> {
            Ok(vec![Switch::deserialize(MapAccessDeserializer::new(map))?])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<Switch>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }
    from.deserialize_any(Switches)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listen {
    pub address: Option<String>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub token_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RoleName {
    Operator,
    Tenant,
    Viewer,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Token {
    pub name: String,
    pub role: RoleName,
    pub tenant: Option<String>,
    pub sha256: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Switch {
    pub name: Option<String>,
    pub protocol: String,
    pub address: Option<String>,
    pub command: Option<Vec<String>>,
    pub tls: Option<Tls>,
    pub ports: u16,
    /// Keys of the driver's own.
    #[serde(flatten)]
    pub own: BTreeMap<String, toml::Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    pub ca: PathBuf,
    pub server_name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub count: u16,
    pub ports_each: u16,
    #[serde(default = "one")]
    pub first_port: u16,
}

fn one() -> u16 {
    1
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub name: String,
    pub ports: Vec<toml::Value>,
    pub tenant: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Decision {
    pub kind: Option<String>,
    pub hysteresis: Option<bool>,
    pub optical_bandwidth: Option<String>,
    pub packet_bandwidth: Option<String>,
    pub packet_nics: Option<u32>,
    pub share_eps: Option<bool>,
    pub keep_going: Option<bool>,
    pub delay: Option<String>,
    pub activation: Option<String>,
    pub hidden: Option<String>,
    pub uses: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Timing {
    pub lease: Option<String>,
    pub grace: Option<String>,
    pub gather: Option<String>,
    pub patience: Option<String>,
    pub lifetime: Option<String>,
    pub audit: Option<String>,
    pub retry: Option<String>,
    pub reconnect: Option<String>,
    pub attempts: Option<u32>,
    pub start_even: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    pub path: Option<PathBuf>,
}
