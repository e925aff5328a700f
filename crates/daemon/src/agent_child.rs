//! The agent of a runtime: a process that the runtime starts, and speaks to in lines of JSON.
//!
//! Checked: `tests/test_lease_bound.py` and `tests/test_collective.py`, where agents are killed and stopped.

use crate::clock::ClockIdentity;
use crate::failure::Failure;
use lightloom_control::{PortId, RuntimeOutput, Stage};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Lines to an agent that may wait for it to read.
const WAITING: usize = 1024;
/// An agent that has ended is started anew after this; ten times this if it has met no controller.
const AGAIN: Duration = Duration::from_millis(100);

/// What an agent says.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Told {
    Agent(ClockIdentity),
    Region(Region),
    Down {
        why: String,
    },
    Drain {
        token: u64,
        ports: Vec<u16>,
    },
    Use {
        number: u64,
        generation: u64,
        stage: Stage,
        round: u64,
        circuits: Vec<Option<PortId>>,
        until_ns: u64,
    },
    Error(String),
}

/// What an agent says of the region.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Region {
    pub server: u16,
    pub ports: u16,
    pub servers: Vec<String>,
}

/// Lines to an agent. One that has left a thousand of them unread has enough to do: it gets no more.
#[derive(Clone)]
pub(crate) struct Lines(SyncSender<String>);

impl Lines {
    pub fn say(&self, line: &Value) {
        let _ = self.0.try_send(line.to_string());
    }

    /// What was done of what the agent said.
    pub fn answer(&self, output: RuntimeOutput) {
        self.say(&match output {
            RuntimeOutput::Using { number } => json!({ "using": { "number": number } }),
            RuntimeOutput::Drained { token } => json!({ "drained": { "token": token } }),
        });
    }
}

/// One life of an agent: starts it, tells it the clock of this process, and hands over what it says until it
/// ends. `begun` is given its process. Says how long to wait before another one is started.
///
/// # Errors
/// It cannot be started; it, or the controller, will have nothing of this runtime.
pub(crate) fn attend(
    command: &mut Command,
    begun: impl FnOnce(u32, &Lines) -> Result<(), Failure>,
    told: impl FnMut(&Lines, Told) -> Result<(), Failure>,
) -> Result<Duration, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let wrong = |why: std::io::Error| Failure::Run(format!("the agent, {program}: {why}"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(wrong)?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::Run("the agent has no pipes".into()));
    };
    let ours = ClockIdentity::of_this_process().map_err(Failure::Run)?;
    let lines = writer(input)?;
    lines.say(&json!({ "runtime": ours }));
    let heard =
        begun(child.id(), &lines).and_then(|()| hear(&lines, &ours, BufReader::new(output), told));
    drop(lines);
    if heard.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|why| Failure::Run(format!("the agent: {why}")))?;
    let met = heard?;
    match status.code() {
        Some(2) => return Err(Failure::Input("the agent was not started: see above".into())),
        Some(code) if code != 0 && !met => {
            return Err(Failure::Run("the agent has ended: see above".into()));
        }
        _ => {}
    }
    tracing::warn!("the agent has ended: another is started");
    Ok(if met { AGAIN } else { 10 * AGAIN })
}

/// Hands over what the agent says until it ends. Says whether it has met a controller.
fn hear(
    to: &Lines,
    ours: &ClockIdentity,
    lines: impl BufRead,
    mut told: impl FnMut(&Lines, Told) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let mut met = false;
    for line in lines.lines() {
        let Ok(line) = line else { return Ok(met) };
        let said = serde_json::from_str(&line);
        let said = said.map_err(|why| Failure::Run(format!("the agent says {line:?}: {why}")))?;
        match said {
            Told::Agent(theirs) => ours.agrees(&theirs).map_err(Failure::Run)?,
            Told::Down { why } => {
                tracing::info!(why, "no controller");
                told(to, Told::Down { why })?;
            }
            Told::Error(why) => tracing::error!(why, "the agent does not understand"),
            said => {
                met |= matches!(said, Told::Region(_));
                told(to, said)?;
            }
        }
    }
    Ok(met)
}

/// Lines are written on a thread: an agent that is stopped stops nobody else.
fn writer(mut input: ChildStdin) -> Result<Lines, Failure> {
    let (lines, waiting) = sync_channel::<String>(WAITING);
    let write = move || {
        while let Ok(line) = waiting.recv() {
            if writeln!(input, "{line}").and_then(|()| input.flush()).is_err() {
                return;
            }
        }
    };
    spawn("agent", write)?;
    Ok(Lines(lines))
}

/// Starts a thread.
///
/// # Errors
/// There is none to be had.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().name(name.into());
    thread.spawn(work).map(|_| ()).map_err(|why| Failure::Run(format!("a thread: {why}")))
}
