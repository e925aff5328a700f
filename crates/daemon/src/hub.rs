//! What the parts of a controller's daemon share: a snapshot of the controller that is renewed, what
//! has happened, and a way to ask it something.
//!
//! One task owns the [`Controller`](lightloom_control::Controller); everyone else looks at a
//! [`Snapshot`] that it publishes after every change, and sends it [`Command`]s.

use crate::border::Refused;
use lightloom_control::{Alarm, ControllerEvent, Directive, PortId, Report, Status};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// How many events are kept.
const KEPT: usize = 1024;

/// The controller as it was a moment ago.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// All there is to see; its times are since `started`.
    pub status: Status,
    /// When the controller started.
    pub started: SystemTime,
}

/// Something that has happened.
#[derive(Clone, Debug, Serialize)]
pub struct Logged {
    /// Rises by one from 1, over the life of the daemon.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The event itself.
    #[serde(flatten)]
    pub event: ControllerEvent,
}

/// What an agent hears over a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AgentAnswer {
    /// The controller has not answered yet.
    #[default]
    Nothing,
    /// What it shall do.
    Directive(Directive),
    /// It was silent, and its server has a later agent: it is listened to no more.
    Superseded,
    /// It is not listened to while another agent speaks for its server.
    Taken,
}

/// What a controller can be asked.
#[derive(Debug)]
pub enum Command {
    /// An agent speaks; what the controller has for it goes to `answers`, until another is listened to, or it
    /// speaks over another stream. Only the latest answer matters, so there is room for
    /// one: an agent that does not read holds nobody up.
    Report {
        /// The agent's report.
        report: Report,
        /// Where directives to this agent go.
        answers: watch::Sender<AgentAnswer>,
    },
    /// An agent's stream has ended.
    Left {
        /// The agent's server.
        server: u16,
        /// Where directives to it went.
        answers: watch::Sender<AgentAnswer>,
    },
    /// Something came over an agent's stream that is no report.
    Senseless {
        /// The agent's server.
        server: u16,
        /// What is wrong with it, in words.
        why: String,
    },
    /// Use these ports again; none means all.
    Unblock {
        /// Servers and their optical ports.
        ports: Vec<PortId>,
        /// Told when it is done.
        done: oneshot::Sender<()>,
    },
    /// The certificate to listen with ends soon, or does not.
    Certificate {
        /// It does, or it has ended.
        ends: bool,
    },
    /// Read the switch now.
    Audit {
        /// Told when it was asked.
        done: oneshot::Sender<()>,
    },
}

/// Who is who, for those who read.
#[derive(Clone, Debug, Serialize)]
pub struct Names {
    /// The name of the region.
    pub region: String,
    /// Names of switches, by number.
    pub switches: Vec<String>,
    /// Names of servers, by number.
    pub servers: Vec<String>,
    /// Names of tenants, by number.
    pub tenants: Vec<String>,
    /// By server: its tenant, by number.
    pub tenant_of_server: Vec<u16>,
}

impl Names {
    /// The name of a switch, or its number if it has none.
    pub fn switch(&self, switch: u16) -> String {
        self.switches.get(usize::from(switch)).cloned().unwrap_or_else(|| switch.to_string())
    }

    /// An alarm in words, with names for numbers. If there is one switch, it is "the switch".
    pub fn words(&self, alarm: &Alarm) -> String {
        let text = alarm.to_string();
        if let Some(switch) = alarm.switch().filter(|_| self.switches.len() > 1) {
            return text.replacen("the switch", &format!("switch {}", self.switch(switch)), 1);
        }
        let name = |server| Some((server, self.servers.get(usize::from(server))?));
        let Some((server, name)) = alarm.server().and_then(name) else { return text };
        text.replacen(&format!("server {server}"), name, 1)
    }
}

/// The shared part.
#[derive(Clone, Debug)]
pub struct Hub {
    /// Names of servers and tenants.
    pub names: Arc<Names>,
    /// The controller a moment ago.
    pub snapshot: watch::Receiver<Arc<Snapshot>>,
    /// A way to ask it something.
    pub commands: mpsc::Sender<Command>,
    /// Everything that happens from now on.
    pub news: broadcast::Sender<Logged>,
    /// Requests that were refused before anything read them.
    pub refused: Arc<Refused>,
    /// When the certificate to listen with ends, if there is one.
    pub expiry: Arc<Mutex<Option<SystemTime>>>,
    log: Arc<Mutex<VecDeque<Logged>>>,
}

impl Hub {
    /// A hub around a controller that publishes to `snapshot` and hears from `commands`.
    pub fn new(
        names: Names,
        snapshot: watch::Receiver<Arc<Snapshot>>,
        commands: mpsc::Sender<Command>,
    ) -> Self {
        let (news, _) = broadcast::channel(KEPT);
        let (refused, expiry, log) = (Arc::default(), Arc::default(), Arc::default());
        Hub { names: Arc::new(names), snapshot, commands, news, refused, expiry, log }
    }

    /// Notes that something has happened.
    pub fn log(&self, event: ControllerEvent) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut log = self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let number = log.back().map_or(0, |last| last.number) + 1;
        let logged = Logged { number, unix_ms: now.as_millis() as u64, event };
        if log.len() == KEPT {
            log.pop_front();
        }
        log.push_back(logged.clone());
        drop(log);
        // No one listening is no error.
        let _ = self.news.send(logged);
    }

    /// What has happened after the event of this number, as far as it is kept, oldest first.
    pub fn since(&self, number: u64) -> Vec<Logged> {
        let log = self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        log.iter().filter(|logged| logged.number > number).cloned().collect()
    }
}
