//! What agents and controller tell each other: always the whole of what they know, so that a message
//! that is lost, late, doubled or overtaken does no harm. The latest is all that matters.
//!
//! An agent says which directive it has *obeyed*: one that holds ports once nothing is in flight on
//! them, one that resumes once its circuits are in use. Directives are ordered by [`Mark`]; an agent
//! never goes back.
//!
//! A directive repeats the number of the last report that the controller had when it spoke. That is
//! the agent's *lease*: it may use circuits for a set time after it *sent* that report. So an agent
//! that the controller cannot reach stops by itself, and the controller, which knows when it spoke
//! last, knows by when.

use lightloom_decide::{Ahead, Traffic};
use serde::{Deserialize, Serialize};

/// A server of the region and one of its optical ports, both from 0.
pub type PortId = (u16, u16);

/// How far a plan has come. Later plans are greater, and of one plan its later stages.
///
/// ```
/// use lightloom_control::{Mark, Stage};
/// let hold = Mark { generation: 7, stage: Stage::Hold };
/// assert!(hold < Mark { generation: 7, stage: Stage::Resume });
/// assert!(hold > Mark { generation: 6, stage: Stage::Resume });
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Mark {
    /// The number of the plan; none has number 0.
    pub generation: u64,
    /// What is to be done for it.
    pub stage: Stage,
}

/// What a directive asks for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Send nothing more over ports whose circuits will change.
    #[default]
    Hold,
    /// The plan's circuits are verified: use them.
    Resume,
}

/// Something of a server that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerPart {
    /// The NIC of an optical port, or its transceiver.
    Nic(u16),
    /// The fibre of an optical port.
    Link(u16),
    /// A GPU, by its index in the server. The port with the same index can no longer be fed.
    Gpu(u16),
    /// The server as a whole: it asks to be left out.
    Server,
}

impl ServerPart {
    /// The optical port that cannot be used while it fails; none for the whole server.
    pub fn port(self) -> Option<u16> {
        match self {
            ServerPart::Nic(port) | ServerPart::Link(port) | ServerPart::Gpu(port) => Some(port),
            ServerPart::Server => None,
        }
    }
}

/// What a server will send in one all-to-all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// Which all-to-all: rises, and means the same one on every server.
    pub round: u64,
    /// To each server of the region \[B\]; its own entry is not read.
    pub bytes: Vec<u64>,
    /// What lies ahead of the region, as the job's task graph says.
    #[serde(default)]
    pub ahead: Option<Ahead>,
    /// Whether the gate has not decided yet, and this is what a predictor expects.
    #[serde(default)]
    pub predicted: bool,
}

impl Demand {
    /// A demand of which nothing more is known.
    pub fn new(round: u64, bytes: Vec<u64>) -> Self {
        Demand { round, bytes, ahead: None, predicted: false }
    }
}

/// What an agent knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The server, from 0.
    pub server: u16,
    /// Which life of the agent: another number after every start, drawn at random.
    pub incarnation: u64,
    /// Numbers the reports of one life, from 1.
    pub beat: u64,
    /// The last directive that was carried out.
    pub obeyed: Mark,
    /// The last round that was answered.
    pub round: u64,
    /// What has failed, in rising order.
    pub faults: Vec<ServerPart>,
    /// The last demand, answered or not; `None` if the controller has answered a report that said it over the same
    /// stream, or if there is none.
    pub demand: Option<Demand>,
    /// What other traffic put on the server's packet NICs while all-to-alls were under way, in the last
    /// two iterations of which the agent knows.
    pub traffic: Vec<Traffic>,
}

/// What an agent shall do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directive {
    /// For the agent of this life alone.
    pub incarnation: u64,
    /// The last report that the controller had from it.
    pub beat: u64,
    /// The plan that this is of.
    pub mark: Mark,
    /// Demands up to this round have been answered.
    pub round: u64,
    /// By optical port: the port at the other end of a circuit that may be used.
    pub circuits: Vec<Option<PortId>>,
}
