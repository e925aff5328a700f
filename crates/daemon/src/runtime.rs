//! The runtime of a server as a process: NICs, ranks and the agent around [`lightloom_runtime::ranks`].
//!
//! Checked: `tests/test_collective.py`.

mod counted;
mod metrics;
mod report;
mod servers;

pub use counted::Counted;
pub use metrics::Place;

use crate::agent_child::{Lines, Told, attend, spawn};
use crate::failure::Failure;
use lightloom_control::{Mark, RuntimeOutput, Use};
use lightloom_runtime::net::Clock;
use lightloom_runtime::ranks::{FromAgent, Job, Service, ServiceError, ToAgent};
use metrics::{Metrics, Source};
use report::Report;
use serde_json::json;
use servers::Servers;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

/// Run the runtime of one server of a job: it moves its ranks' collectives over the server's NICs
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArguments {
    /// The job's file
    #[arg(long, value_name = "FILE")]
    job: PathBuf,
    /// The server's name in the job's file
    #[arg(long, value_name = "NAME")]
    server: String,
    /// Where its ranks connect: a path that is not there yet
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Where Prometheus reads /metrics: an address on loopback, or unix:PATH for a socket that is not there yet
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<Place>,
    /// Let --metrics be off loopback: whoever reaches it can read it
    #[arg(long, requires = "metrics")]
    metrics_anywhere: bool,
    /// A file for what was counted, as JSON, at the end
    #[arg(long, value_name = "FILE")]
    result: Option<PathBuf>,
    /// Say at once that ports are drained, and send on: for a test that must find it
    #[arg(long, hide = true)]
    ignore_drains: bool,
    /// How the server's agent is started; without it no circuit is used
    #[arg(last = true, value_name = "COMMAND")]
    agent: Vec<String>,
}

/// The agent that is at work now, if one is, and the job's servers in its region.
type Agent = Arc<Mutex<Option<(Lines, Servers)>>>;

impl ServeArguments {
    /// Serves until all ranks have come and gone.
    ///
    /// # Errors
    /// A file, a server, an address or a path that does not fit; a rank that ended before it was done; an agent that
    /// cannot be started or will have nothing of this server.
    pub async fn run(self) -> Result<(), Failure> {
        let (job, sha256) = read(&self.job)?;
        let metrics = match &self.metrics {
            Some(place) => Some(Metrics::bind(place, self.metrics_anywhere).await?),
            None => None,
        };
        let agent: Agent = Arc::default();
        let to = agent.clone();
        let says = move |said: ToAgent| {
            let agent = to.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((lines, servers)) = &*agent else { return };
            match said {
                ToAgent::Runtime(output) => lines.answer(output),
                ToAgent::Demand(mut demand) => {
                    demand.bytes = servers.demand(&demand.bytes);
                    lines.say(&json!({ "demand": demand }));
                }
            }
        };
        let names = job.servers.iter().map(|server| server.name.clone()).collect();
        let ports = job.optical_nics;
        let made = report::made(&job, &self.server, &sha256, !self.ignore_drains);
        let with_agent = !self.agent.is_empty();
        let says: Option<Box<dyn FnMut(ToAgent) + Send>> =
            if with_agent { Some(Box::new(says)) } else { None };
        let service = Service::start(job, &self.server, &self.socket, says);
        let service = service.map_err(|why| match why {
            ServiceError::Job(why) => {
                Failure::Input(format!("--job: {}: {why}", self.job.display()))
            }
            ServiceError::Server(_) => Failure::Input(format!("--server: {why}")),
            ServiceError::Socket { .. } => Failure::Input(format!("--socket: {why}")),
            ServiceError::Open(_) => Failure::Run(why.to_string()),
        })?;
        let watch = service.watch();
        let report = self.result.as_deref().map(|path| Report::new(path, watch.clone(), made));
        let report = report.transpose()?;
        let mut out = std::io::stdout();
        if let Some(metrics) = &metrics {
            let _ = writeln!(out, "metrics at {}", metrics.place);
        }
        let _ = writeln!(out, "listening at {}", self.socket.display()).and_then(|()| out.flush());
        let (failed, fails) = tokio::sync::oneshot::channel();
        if with_agent {
            let (to, clock) = (Box::new(service.agent()), service.clock());
            let (command, fences) = (self.agent, !self.ignore_drains);
            let link = Link { command, ports, names, agent, to, clock, fences };
            spawn("agent", move || {
                let _ = failed.send(link.attend());
            })?;
        }
        let _ends = Ends(Box::new(service.ends()));
        let done = tokio::task::spawn_blocking(move || service.wait());
        let source = Source { watch, server: self.server, sha256, started: report::started() };
        let ended = tokio::select! {
            done = done => done.map_err(|why| Failure::Run(why.to_string()))?.map_err(Failure::Run),
            Ok(failure) = fails => Err(failure),
            () = shown(metrics, source) => Ok(()), // which is never
        };
        if let Some(report) = report {
            let why = ended.as_ref().err().map(ToString::to_string);
            report.end(why.as_deref().map_or(Ok(()), Err))?;
        }
        ended
    }
}

/// Answers whoever asks for metrics, if anybody may.
async fn shown(metrics: Option<Metrics>, source: Source) {
    match metrics {
        Some(mut metrics) => metrics.serve(source).await,
        None => std::future::pending().await,
    }
}

/// Ends the service when it is dropped, so that peers hear of it.
struct Ends(Box<dyn Fn() + Send>);

impl Drop for Ends {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The job, and the SHA-256 of its file.
fn read(path: &Path) -> Result<(Job, String), Failure> {
    let wrong =
        |why: &dyn std::fmt::Display| Failure::Input(format!("--job: {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|why| wrong(&why))?;
    let job = serde_json::from_str(&text).map_err(|why| wrong(&why))?;
    let digest = Sha256::digest(text.as_bytes());
    Ok((job, digest.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// What is between the agent and the service.
struct Link {
    command: Vec<String>,
    ports: u16,
    names: Vec<String>,
    agent: Agent,
    to: Box<dyn Fn(FromAgent) + Send>,
    clock: Clock,
    /// Drains are heeded.
    fences: bool,
}

impl Link {
    /// Starts agents, one after the other, until one cannot be had.
    fn attend(self) -> Failure {
        let set = |agent: Option<(Lines, Servers)>| {
            *self.agent.lock().unwrap_or_else(PoisonError::into_inner) = agent;
        };
        loop {
            let mut command = Command::new(&self.command[0]);
            command.args(&self.command[1..]);
            let ended = attend(
                &mut command,
                |_, _| Ok(()),
                |lines, told| self.told(told, lines, |servers| set(Some((lines.clone(), servers)))),
            );
            set(None);
            (self.to)(FromAgent::Forsaken);
            match ended {
                Ok(pause) => std::thread::sleep(pause),
                Err(failure) => return failure,
            }
        }
    }

    fn told(&self, told: Told, lines: &Lines, met: impl FnOnce(Servers)) -> Result<(), Failure> {
        match told {
            Told::Agent(_) | Told::Error(_) => {}
            Told::Down { .. } => (self.to)(FromAgent::Reaches(false)),
            Told::Region(region) => {
                if region.ports != self.ports {
                    return Err(Failure::Input(format!(
                        "the controller's region has servers of {} ports each; the job has {} \
                         optical NICs of each",
                        region.ports, self.ports
                    )));
                }
                met(Servers::find(&self.names, &region.servers).map_err(Failure::Input)?);
                (self.to)(FromAgent::Reaches(true));
                let mut out = std::io::stdout();
                let _ =
                    writeln!(out, "the agent has met the controller").and_then(|()| out.flush());
            }
            Told::Drain { token, ports } if self.fences => {
                (self.to)(FromAgent::Drain { token, ports });
            }
            Told::Drain { token, .. } => lines.answer(RuntimeOutput::Drained { token }),
            Told::Use { number, generation, stage, round, circuits, until_ns } => {
                let (mark, until) = (Mark { generation, stage }, self.clock.time(until_ns));
                let agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
                // Agents tell the region first.
                let Some((_, servers)) = &*agent else { return Ok(()) };
                let circuits = servers.circuits(&circuits);
                (self.to)(FromAgent::Use(Use { number, mark, round, circuits, until }));
            }
        }
        Ok(())
    }
}
