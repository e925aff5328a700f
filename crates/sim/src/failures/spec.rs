//! What fails, as a specification says it.

use lightloom_units::Time;
use serde::Deserialize;

/// A part that fails at a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// As the user wrote it, for messages.
    pub name: String,
    /// The part that fails.
    pub part: FailedPart,
    /// When it fails \[ps\].
    pub at_ps: Time,
    /// When it is whole again; of NICs, links and switches.
    #[serde(default)]
    pub until_ps: Option<Time>,
    /// How long a checkpoint takes to restore; of GPUs and servers.
    #[serde(default)]
    pub restore_ps: Time,
    /// How what stands in for a GPU is wired.
    #[serde(default)]
    pub backup: Wired,
}

/// What fails; NICs and GPUs by their index in the server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FailedPart {
    /// A NIC alone.
    Nic {
        /// Index of its server, from 0.
        server: u32,
        /// Which of the server's.
        nic: u32,
    },
    /// The cable of a NIC.
    Link {
        /// The NIC's server.
        server: u32,
        /// Which of the server's NICs.
        nic: u32,
    },
    /// What joins two packet switches.
    Between {
        /// Their names, with a dot between.
        ends: String,
    },
    /// A packet switch.
    Switch {
        /// As its fabric names it.
        name: String,
    },
    /// The port of an optical switch that a NIC is plugged into.
    OcsPort {
        /// The NIC's server.
        server: u32,
        /// Which of the server's NICs.
        nic: u32,
        /// Which of the parts that the NIC is broken out into.
        #[serde(default)]
        part: u32,
    },
    /// All NICs of a server on packet switches.
    Eps {
        /// Index of the server, from 0.
        server: u32,
    },
    /// A region's optical switch.
    Ocs {
        /// Index of the region, from 0.
        region: u32,
    },
    /// A GPU; its rank moves.
    Gpu {
        /// Index of its server, from 0.
        server: u32,
        /// Which of the server's.
        gpu: u32,
    },
    /// A server; all its ranks move.
    Server {
        /// Index of the server, from 0.
        server: u32,
    },
}

impl FailedPart {
    /// Its kind, as a specification has it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            FailedPart::Nic { .. } => "nic",
            FailedPart::Link { .. } | FailedPart::Between { .. } => "link",
            FailedPart::Switch { .. } => "switch",
            FailedPart::OcsPort { .. } => "ocs-port",
            FailedPart::Eps { .. } => "eps",
            FailedPart::Ocs { .. } => "ocs",
            FailedPart::Gpu { .. } => "gpu",
            FailedPart::Server { .. } => "server",
        }
    }
}

/// How a server that stands in is wired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wired {
    /// To packet switches, wherever it is needed.
    #[default]
    Eps,
    /// To the optical switch of the region where it is needed.
    Ocs,
}
