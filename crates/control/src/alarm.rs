//! What an operator should know about.

use crate::message::{PortId, ServerPart};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Something that is not as it should be, from when it is noticed until it is over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Alarm {
    /// No stream to the switch, or it does not let us in.
    SwitchUnreachable {
        /// The switch's number in the region.
        switch: u16,
    },
    /// The switch did not answer in time, or made no sense: no circuit is used.
    SwitchUntrusted {
        /// The switch's number in the region.
        switch: u16,
    },
    /// The switch refuses orders.
    SwitchRefuses {
        /// The switch's number in the region.
        switch: u16,
    },
    /// Its circuits are not those that were verified: someone else changed them.
    CircuitsChanged {
        /// The switch's number in the region.
        switch: u16,
    },
    /// Another controller makes circuits of this region: this one has stopped.
    SecondController,
    /// The circuits of a port are not what the switch was ordered, however often.
    PortStuck {
        /// The server's port.
        port: PortId,
    },
    /// A port of this region is joined to one that is not.
    ForeignPatch {
        /// The server's port.
        port: PortId,
    },
    /// Nothing was heard of an agent for longer than its lease.
    ServerSilent {
        /// The server's number in the region.
        server: u16,
    },
    /// An agent is there but does not let go of circuits that shall change.
    DrainStuck {
        /// The server's number in the region.
        server: u16,
    },
    /// Something of a server has failed, says its agent.
    PartFailed {
        /// The server's number in the region.
        server: u16,
        /// The part that failed, by the index of its optical port.
        part: ServerPart,
    },
    /// An agent sends what makes no sense.
    ReportRefused {
        /// The server's number in the region.
        server: u16,
    },
    /// The circuits that were decided on are none that the region may have.
    DecisionRefused,
    /// The certificate to listen with ends soon, or has ended.
    CertificateExpires,
    /// The journal was emptied, cut or replaced by an older one.
    JournalLost,
}

impl Alarm {
    /// Its name in metrics and in the manual.
    ///
    /// ```
    /// use lightloom_control::Alarm;
    /// assert_eq!(Alarm::ServerSilent { server: 3 }.name(), "server-silent");
    /// assert_eq!(Alarm::ServerSilent { server: 3 }.to_string(), "server 3 is silent");
    /// ```
    pub fn name(&self) -> &'static str {
        match self {
            Alarm::SwitchUnreachable { .. } => "switch-unreachable",
            Alarm::SwitchUntrusted { .. } => "switch-untrusted",
            Alarm::SwitchRefuses { .. } => "switch-refuses",
            Alarm::CircuitsChanged { .. } => "circuits-changed",
            Alarm::SecondController => "second-controller",
            Alarm::PortStuck { .. } => "port-stuck",
            Alarm::ForeignPatch { .. } => "foreign-patch",
            Alarm::ServerSilent { .. } => "server-silent",
            Alarm::DrainStuck { .. } => "drain-stuck",
            Alarm::PartFailed { .. } => "part-failed",
            Alarm::ReportRefused { .. } => "report-refused",
            Alarm::DecisionRefused => "decision-refused",
            Alarm::JournalLost => "journal-lost",
            Alarm::CertificateExpires => "certificate-expires",
        }
    }

    /// The server that it is about, if it is about one.
    pub fn server(&self) -> Option<u16> {
        match *self {
            Alarm::PortStuck { port } | Alarm::ForeignPatch { port } => Some(port.0),
            Alarm::ServerSilent { server }
            | Alarm::DrainStuck { server }
            | Alarm::PartFailed { server, .. }
            | Alarm::ReportRefused { server } => Some(server),
            Alarm::SwitchUnreachable { .. }
            | Alarm::SwitchUntrusted { .. }
            | Alarm::SwitchRefuses { .. }
            | Alarm::CircuitsChanged { .. }
            | Alarm::SecondController
            | Alarm::DecisionRefused
            | Alarm::JournalLost
            | Alarm::CertificateExpires => None,
        }
    }

    /// The switch that it is about, if it is about one.
    pub fn switch(&self) -> Option<u16> {
        match *self {
            Alarm::SwitchUnreachable { switch }
            | Alarm::SwitchUntrusted { switch }
            | Alarm::SwitchRefuses { switch }
            | Alarm::CircuitsChanged { switch } => Some(switch),
            _ => None,
        }
    }

    /// Every name that [`Alarm::name`] gives.
    pub const NAMES: [&'static str; 14] = [
        "switch-unreachable",
        "switch-untrusted",
        "switch-refuses",
        "circuits-changed",
        "second-controller",
        "port-stuck",
        "foreign-patch",
        "server-silent",
        "drain-stuck",
        "part-failed",
        "report-refused",
        "journal-lost",
        "certificate-expires",
        "decision-refused",
    ];
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alarm::SwitchUnreachable { .. } => write!(f, "the switch cannot be reached"),
            Alarm::SwitchUntrusted { .. } => {
                write!(f, "the switch did not answer as it should: none of its circuits is used")
            }
            Alarm::SwitchRefuses { .. } => write!(f, "the switch refuses orders"),
            Alarm::CircuitsChanged { .. } => {
                write!(f, "someone else changed circuits of the switch")
            }
            Alarm::SecondController => {
                write!(f, "another controller is at the switch: this one has stopped")
            }
            Alarm::PortStuck { port: (server, port) } => {
                write!(f, "server {server}, port {port} does not follow the switch's orders")
            }
            Alarm::ForeignPatch { port: (server, port) } => {
                write!(f, "server {server}, port {port} is joined to a port outside the region")
            }
            Alarm::ServerSilent { server } => write!(f, "server {server} is silent"),
            Alarm::DrainStuck { server } => {
                write!(f, "server {server} does not let go of its circuits")
            }
            Alarm::PartFailed { server, part } => match part {
                ServerPart::Nic(port) => {
                    write!(f, "server {server}: the NIC of port {port} has failed")
                }
                ServerPart::Link(port) => {
                    write!(f, "server {server}: the fibre of port {port} is dark")
                }
                ServerPart::Gpu(gpu) => write!(f, "server {server}: GPU {gpu} has failed"),
                ServerPart::Server => write!(f, "server {server} asks to be left out"),
            },
            Alarm::ReportRefused { server } => {
                write!(f, "the agent of server {server} sends what makes no sense")
            }
            Alarm::DecisionRefused => write!(f, "circuits were decided on that cannot be"),
            Alarm::CertificateExpires => write!(f, "the certificate to listen with ends soon"),
            Alarm::JournalLost => write!(f, "the journal was lost, or a part of it"),
        }
    }
}
