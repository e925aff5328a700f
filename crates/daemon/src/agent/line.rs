//! An agent for runtimes in any language: a line of JSON each way, on standard input and output.
//!
//! In: `{"demand":{"round":1,"bytes":[0,900]}}`, and with it, if the runtime knows, `"ahead":{"uses":2,
//! "hidden_ps":0,"later":0,"changes":0}`; `{"traffic":{"iteration":1,"passes":[{"under_way_ps":10,
//! "dp":{"out":5,"into":5}}]}}`, `{"drained":{"token":1}}`, `{"fault":{"part":{"nic":0},"works":false}}`.
//! Out: `{"region":{...}}` and `{"down":{"why":".."}}` when the controller is reached and lost,
//! `{"use":{...}}` whenever other circuits are to be used or a demand is answered,
//! `{"drain":{"token":1,"ports":[0]}}`, and `{"error":".."}` for a line that makes no sense.

use super::client::{AgentClient, View};
use super::link::Controller;
use crate::failure::Failure;
use lightloom_control::{Demand, ServerPart};
use lightloom_decide::Traffic;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, Read, Write};
use tokio::sync::mpsc;

/// No line is longer \[B\].
const LONGEST: u64 = 1 << 20;

/// The agent of one server, in lines of JSON on standard input and output
#[derive(Clone, Debug, clap::Args)]
pub struct AgentArguments {
    #[command(flatten)]
    controller: Controller,
    /// The server's name in the region's file
    #[arg(long, value_name = "NAME")]
    server: String,
    /// Take ports for drained at once: for a runtime that sends nothing while it waits for circuits
    #[arg(long)]
    drained: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Line {
    Demand(Demand),
    Traffic(Traffic),
    Drained { token: u64 },
    Fault { part: ServerPart, works: bool },
}

impl AgentArguments {
    /// Works until standard input ends.
    ///
    /// # Errors
    /// If the controller will have nothing of this server's agent.
    pub async fn run(self) -> Result<(), Failure> {
        let agent = AgentClient::start(&self.controller, &self.server)?;
        let mut views = agent.view();
        let mut shown = View::default();
        let mut input = input()?;
        loop {
            tokio::select! {
                changed = views.changed() => {
                    let view = views.borrow_and_update().clone();
                    news(&shown, &view).iter().for_each(say);
                    if let Some(why) = view.ended {
                        return Err(Failure::Run(why));
                    }
                    if changed.is_err() {
                        return Ok(());
                    }
                    let token = view.drain.as_ref().map(|drain| drain.0);
                    if let Some(token) = token.filter(|_| self.drained && view.drain != shown.drain) {
                        agent.drained(token).await?;
                    }
                    shown = view;
                }
                line = input.recv() => {
                    let Some(line) = line else { return Ok(()) };
                    match serde_json::from_slice(&line?) {
                        Ok(Line::Demand(demand)) => agent.demand(demand).await?,
                        Ok(Line::Traffic(record)) => agent.traffic(record).await?,
                        Ok(Line::Drained { token }) => agent.drained(token).await?,
                        Ok(Line::Fault { part, works }) => agent.fault(part, works).await?,
                        Err(why) => say(&json!({ "error": why.to_string() })),
                    }
                }
            }
        }
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
    if view.said > last.said {
        let using = &view.circuits;
        news.push(json!({ "use": {
            "generation": using.mark.generation,
            "stage": using.mark.stage,
            "round": using.round,
            "circuits": using.circuits,
        }}));
    }
    news
}

/// A line, at once; a runtime that is gone ends standard input, too.
fn say(line: &Value) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
