//! An agent for runtimes in any language: a line of JSON each way, on standard input and output.
//!
//! Both begin with which clock they read, and end if it is not the same: then times mean nothing. In, after
//! `{"runtime":{"boot":"..","time_namespace":"..","boottime_offset":".."}}`: `{"demand":{"round":1,"bytes":[0,
//! 900]}}`, and with it, if the runtime knows, `"ahead":{"uses":2,"hidden_ps":0,"later":0,"changes":0}`;
//! `{"traffic":{"iteration":1,"passes":[{"under_way_ps":10,"dp":{"out":5,"into":5}}]}}`,
//! `{"using":{"number":1}}`, `{"drained":{"token":1}}`, `{"fault":{"part":{"nic":0},"works":false}}`.
//! Out, after `{"agent":{"boot":..}}`: `{"region":{...}}` and `{"down":{"why":".."}}` when the controller is
//! reached and lost, `{"use":{...}}` some times in a lease and whenever other circuits are to be used or a
//! demand is answered, `{"drain":{"token":1,"ports":[0]}}`, and `{"error":".."}` for a line that makes no
//! sense.
//!
//! Lines are written on a thread of their own, and only the latest waits: a runtime that does not read
//! stops nothing but itself.

use super::client::{AgentClient, View};
use super::controller::Controller;
use crate::clock::ClockIdentity;
use crate::failure::Failure;
use crate::filter::Filter;
use lightloom_control::{Demand, ServerPart};
use lightloom_decide::Traffic;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// No line is longer \[B\].
const LONGEST: u64 = 1 << 20;
/// The last line has been read by then, or will not be.
const LAST_LINE: Duration = Duration::from_millis(500);

/// The agent of one server, in lines of JSON on standard input and output
#[derive(Clone, Debug, clap::Args)]
pub struct AgentArguments {
    #[command(flatten)]
    controller: Controller,
    /// The server's name in the region's file
    #[arg(long, value_name = "NAME")]
    server: String,
    /// Take ports for drained once the runtime is `using` what followed: for one that sends nothing while it
    /// waits for circuits
    #[arg(long)]
    drained: bool,
    /// The filter of the server's optical NICs, as `lightloomd filter attach` left it there: it is told the
    /// lease's end
    #[arg(long, value_name = "DIR")]
    filter: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Line {
    Runtime(ClockIdentity),
    Using { number: u64 },
    Demand(Demand),
    Traffic(Traffic),
    Drained { token: u64 },
    Fault { part: ServerPart, works: bool },
}

impl AgentArguments {
    /// Works until standard input ends.
    ///
    /// # Errors
    /// If the controller will have nothing of this server's agent, or the runtime has another clock.
    pub async fn run(self) -> Result<(), Failure> {
        let clock = ClockIdentity::of_this_process().map_err(Failure::Run)?;
        let filter = self.filter.as_deref().map(Filter::open).transpose()?;
        let agent = AgentClient::start_apart(&self.controller, &self.server, filter)?;
        let mut views = agent.view();
        let mut over = agent.view();
        let (mut input, (output, writer)) = (input()?, output()?);
        // Nobody has begun to write.
        let _ = output.try_send(vec![json!({ "agent": clock })]);
        let (met, drained) = (false, self.drained);
        let (shown, errors) = (View::default(), Vec::new());
        let mut talk = Talk { agent, clock, met, drained, shown, errors };
        let mut unseen = true;
        let last = loop {
            tokio::select! {
                biased;
                ended = over.wait_for(|view| view.ended.is_some()) => {
                    break ended.ok().map(|view| view.clone());
                }
                changed = views.changed(), if !unseen => match changed {
                    Ok(()) => unseen = true,
                    Err(_) => break None,
                },
                room = output.reserve(), if unseen && talk.met || !talk.errors.is_empty() => {
                    let Ok(room) = room else { return Ok(()) };
                    room.send(talk.says(&views.borrow_and_update()));
                    unseen = !talk.met;
                }
                line = input.recv() => {
                    let Some(line) = line else { break None };
                    if let Err(why) = talk.hear(&line?).await? {
                        talk.refuse(&why);
                    }
                }
            }
        };
        // A runtime that reads hears of it.
        if let Ok(Ok(room)) = timeout(LAST_LINE, output.reserve()).await {
            room.send(talk.says(last.as_ref().unwrap_or(&View::default())));
        }
        drop(output);
        let written = async {
            while !writer.is_finished() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = timeout(LAST_LINE, written).await;
        last.and_then(|view| view.ended).map_or(Ok(()), |why| Err(Failure::Run(why)))
    }
}

/// What has been said so far.
struct Talk {
    agent: AgentClient,
    clock: ClockIdentity,
    /// The runtime has said that it reads the same clock.
    met: bool,
    /// As the argument of that name.
    drained: bool,
    /// What has been written.
    shown: View,
    /// Lines that made no sense, to be told.
    errors: Vec<Value>,
}

impl Talk {
    /// What is to be written: errors, and to a runtime that is known what is new in the view.
    fn says(&mut self, view: &View) -> Vec<Value> {
        let mut lines = std::mem::take(&mut self.errors);
        if self.met && view.circuits.number >= self.shown.circuits.number {
            lines.extend(news(&self.shown, view));
            self.shown = view.clone();
        }
        lines
    }

    /// A line made no sense. Who does not read that is not told of more than a few.
    fn refuse(&mut self, why: &str) {
        if self.errors.len() < 16 {
            self.errors.push(json!({ "error": why }));
        }
    }

    /// The runtime says something. What makes no sense is told, and the rest goes on.
    async fn hear(&mut self, line: &[u8]) -> Result<Result<(), String>, Failure> {
        let line = match serde_json::from_slice(line) {
            Ok(line) => line,
            Err(why) => return Ok(Err(why.to_string())),
        };
        let agent = &self.agent;
        match line {
            Line::Runtime(theirs) => {
                self.clock.agrees(&theirs).map_err(Failure::Run)?;
                self.met = true;
            }
            _ if !self.met => {
                let why =
                    "the first line of a runtime must be `runtime`, with the clock that it reads";
                return Ok(Err(why.into()));
            }
            Line::Using { number } => {
                if number > self.shown.circuits.number {
                    return Ok(Err(format!("using: {number}: no such `use` was told")));
                }
                let drain = self.shown.drain.as_ref().filter(|_| self.drained);
                if let Some((token, _)) = drain.filter(|_| number == self.shown.circuits.number) {
                    agent.drained(*token).await?;
                }
                agent.using(number).await?;
            }
            Line::Demand(demand) => agent.demand(demand).await?,
            Line::Traffic(record) => agent.traffic(record).await?,
            Line::Drained { token } => agent.drained(token).await?,
            Line::Fault { part, works } => agent.fault(part, works).await?,
        }
        Ok(Ok(()))
    }
}

/// Lines of standard input, read on a thread: it cannot be read without blocking.
fn input() -> Result<mpsc::Receiver<Result<Vec<u8>, Failure>>, Failure> {
    let (tell, lines) = mpsc::channel(16);
    let read = move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = (&mut input).take(LONGEST).read_until(b'\n', &mut line);
            let line = match read {
                Ok(0) => return,
                Ok(_) if line.len() as u64 == LONGEST => {
                    Err(Failure::Run("standard input: a line is too long".into()))
                }
                Ok(_) => Ok(line),
                Err(why) => Err(Failure::Run(format!("standard input: {why}"))),
            };
            let ends = line.is_err();
            if tell.blocking_send(line).is_err() || ends {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("input".into()).spawn(read);
    thread.map_err(|why| Failure::Run(why.to_string()))?;
    Ok(lines)
}

/// What is new in a view.
fn news(last: &View, view: &View) -> Vec<Value> {
    let mut news = Vec::new();
    if view.link != last.link {
        match (&view.link, &view.region) {
            (Some(Ok(())), Some(region)) => news.push(json!({ "region": {
                "name": region.region,
                "server": region.number,
                "ports": region.ports,
                "servers": region.servers,
                "lease_ps": region.lease_ps,
            }})),
            (Some(Err(why)), _) => news.push(json!({ "down": { "why": why } })),
            _ => {}
        }
    }
    if let Some((token, ports)) = view.drain.as_ref().filter(|_| view.drain != last.drain) {
        news.push(json!({ "drain": { "token": token, "ports": ports } }));
    }
    if view.circuits != last.circuits {
        let using = &view.circuits;
        news.push(json!({ "use": {
            "number": using.number,
            "generation": using.mark.generation,
            "stage": using.mark.stage,
            "round": using.round,
            "circuits": using.circuits,
            "until_ns": using.until_ns,
        }}));
    }
    news
}

/// Lines for standard output, written on a thread: whoever does not read them stops nobody else. One batch is
/// written while another waits.
fn output() -> Result<(mpsc::Sender<Vec<Value>>, JoinHandle<()>), Failure> {
    let (tell, mut batches) = mpsc::channel::<Vec<Value>>(1);
    let write = move || {
        let mut out = std::io::stdout();
        while let Some(batch) = batches.blocking_recv() {
            let lines: String = batch.iter().map(|line| format!("{line}\n")).collect();
            // A runtime that is gone ends standard input, too.
            if out.write_all(lines.as_bytes()).and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("output".into()).spawn(write);
    Ok((tell, thread.map_err(|why| Failure::Run(why.to_string()))?))
}
