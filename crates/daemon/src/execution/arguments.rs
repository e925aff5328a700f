//! `lightloomd controller load`, `controller run` and `node-emulator`, and what can be said to them.

use super::nodes::Followers;
use super::runner::{Outcome, Runner};
use crate::agent::Controller;
use crate::config::Switches;
use crate::failure::Failure;
use crate::serve;
use lightloom_control::execution::{Circuit, NodeRun, Plan, PortMaps, Readiness, Standing, Task};
use lightloom_units::{BitRate, Bytes, Time};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use tokio::sync::oneshot;

/// Where port maps are, where devices are, and what to do with what is found and left
#[derive(Clone, Debug, clap::Args)]
pub struct ExecuteArguments {
    /// Port maps (JSON), or - for standard input
    maps: PathBuf,
    /// A file that says which switch has which device (TOML)
    #[arg(long, value_name = "FILE")]
    switches: PathBuf,
    /// Load so many switches at a time; all without it
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    together: Option<u32>,
    /// Port maps whose initial circuits must stand, and carry on while devices are loaded
    #[arg(long, value_name = "FILE")]
    keep: Vec<PathBuf>,
    /// Write what devices held there, as port maps, before anything is changed
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// Write what stands at the end there, verified, as port maps
    #[arg(long, value_name = "FILE")]
    after: Option<PathBuf>,
    /// Only read the switches, and say what would be changed
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ExecuteArguments {
    /// Loads, or loads and runs; an interrupt takes a load back and lets a run fall back.
    ///
    /// # Errors
    /// [`Failure::Input`] for files that are wrong, [`Failure::Run`] for any end but a complete one.
    pub async fn run(self, task: Task, stop: oneshot::Receiver<()>) -> Result<(), Failure> {
        let maps = read_maps(&self.maps)?;
        if maps.devices.is_empty() {
            let path = self.maps.display();
            return Err(Failure::Input(format!("{path}: devices: must have at least one")));
        }
        let mut keep = Vec::new();
        for path in &self.keep {
            keep.push(read_maps(path)?);
        }
        let mut switches = Switches::load(&self.switches, &maps)?;
        switches.limits.together = self.together.map_or(usize::MAX, |count| count as usize);
        let task = if self.dry_run { Task::Look } else { task };
        let mut runner = Runner::start(maps.clone(), switches, &keep, task).await?;
        if let Some(address) = runner.address() {
            tracing::info!(%address, "nodes may come");
            say(&serve::listening(address, runner.token_file()));
        }
        if let Some(path) = self.before.clone() {
            runner.keep_found(move |found| write_maps("--before", &path, found));
        }
        let outcome = runner.run(stop).await?;
        if let (Some(path), false) = (&self.after, self.dry_run) {
            write_maps("--after", path, &outcome.standing)?;
        }
        self.report(&maps, &outcome, task)
    }

    fn report(&self, maps: &PortMaps, outcome: &Outcome, task: Task) -> Result<(), Failure> {
        let changes = outcome.found.as_ref().map(|found| Changes::between(found, maps));
        if self.json {
            let mut said = serde_json::json!(outcome);
            said["changes"] = serde_json::json!(changes);
            let text = serde_json::to_string(&said).map_err(|why| Failure::Run(why.to_string()))?;
            say(&text);
        } else if let Some(Changes { end, set, keep }) = changes {
            let verb = if task == Task::Look { "to load" } else { "loaded" };
            let devices = maps.devices.len();
            say(&format!(
                "{verb:<9} {devices} devices: {set} circuits set, {end} ended, {keep} kept"
            ));
            if task == Task::Run {
                let worst = outcome.ready.iter().map(|one| one.took_ps).max().unwrap_or(0);
                let all: usize = maps.devices.iter().map(|one| one.settings.len()).sum();
                let (ready, worst) = (outcome.ready.len(), Time::from_ps(worst));
                say(&format!("settings  {ready} of {all} verified, the slowest after {worst}"));
            }
        }
        match &outcome.why {
            None => Ok(()),
            Some(why) => Err(Failure::Run(format!("{}: {why}", outcome.ending.replace('-', " ")))),
        }
    }
}

/// How many circuits differ, each counted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
struct Changes {
    end: usize,
    set: usize,
    keep: usize,
}

impl Changes {
    fn between(found: &PortMaps, wanted: &PortMaps) -> Self {
        let mut changes = Changes { end: 0, set: 0, keep: 0 };
        for (found, wanted) in found.devices.iter().zip(&wanted.devices) {
            let of = |circuits: &[Circuit]| {
                let mut standing = Standing::new(wanted.duplex);
                standing.set(circuits);
                standing.circuits()
            };
            let (found, wanted) = (of(&found.initial), of(&wanted.initial));
            changes.keep += wanted.iter().filter(|one| found.contains(one)).count();
            changes.set += wanted.iter().filter(|one| !found.contains(one)).count();
            changes.end += found.iter().filter(|one| !wanted.contains(one)).count();
        }
        changes
    }
}

/// Nodes that follow a plan, emulated
#[derive(Clone, Debug, clap::Args)]
pub struct NodeArguments {
    /// A plan (JSON); or port maps: then nodes send over every circuit that they get
    plan: PathBuf,
    #[command(flatten)]
    controller: Controller,
    /// The nodes, 0-3,7; all without it
    #[arg(long, value_name = "NODES")]
    nodes: Option<String>,
    /// Rate at which a port sends
    #[arg(long, value_parser = BitRate::from_str, default_value = "100 Gbps", value_name = "RATE")]
    rate: BitRate,
    /// What is sent over each circuit of port maps
    #[arg(long, value_parser = Bytes::from_str, default_value = "1 MB", value_name = "SIZE")]
    size: Bytes,
    /// Send by a plan's times, and this later, whatever is told; by what is told without it
    #[arg(long, value_parser = Time::from_str, value_name = "TIME")]
    guard: Option<Time>,
    /// Have every transmission of a node take longer: 3=50ms
    #[arg(long, value_parser = slow, value_name = "NODE=TIME")]
    slow: Vec<(u32, Time)>,
    /// Write every transmission there, a line of JSON each
    #[arg(long, value_name = "FILE")]
    sends: Option<PathBuf>,
    /// How long an execution is waited for
    #[arg(long, value_parser = Time::from_str, default_value = "30 s", value_name = "TIME")]
    give_up: Time,
}

impl NodeArguments {
    /// Follows to the end.
    ///
    /// # Errors
    /// [`Failure::Input`] for a file or nodes that are wrong, [`Failure::Run`] if the plan falls back.
    pub async fn run(self) -> Result<(), Failure> {
        if self.rate.bps() == 0 {
            return Err(Failure::Input("--rate: must be more than nothing".into()));
        }
        let path = self.plan.display();
        let wrong = |why: &dyn std::fmt::Display| Failure::Input(format!("{path}: {why}"));
        let text = text(&self.plan)?;
        let readiness = self.guard.map_or(Readiness::Signal, |guard| Readiness::Schedule { guard });
        let is_maps = text.contains("\"lightloom-port-maps\"");
        let (all, plan, maps): (Vec<u32>, _, _) = if is_maps {
            if self.guard.is_some() {
                return Err(Failure::Input("--guard: port maps have no times of nodes".into()));
            }
            let maps = PortMaps::read(&text).map_err(|why| wrong(&why))?;
            let nodes = maps.devices.iter().flat_map(|one| &one.attached).map(|(_, node, _)| *node);
            let nodes: std::collections::BTreeSet<u32> = nodes.collect();
            (nodes.into_iter().collect(), None, Some(maps))
        } else {
            let plan = Plan::read(&text).map_err(|why| wrong(&why))?;
            ((0..plan.nodes()).collect(), Some(plan), None)
        };
        let numbers = match &self.nodes {
            None => all.clone(),
            Some(text) => numbers(text)
                .ok_or_else(|| Failure::Input(format!("--nodes: {text}: must be as in 0-3,7")))?,
        };
        if let Some(node) = numbers
            .iter()
            .chain(self.slow.iter().map(|(node, _)| node))
            .find(|node| !all.contains(node))
        {
            return Err(wrong(&format!("node {node}: there is none, only {} nodes", all.len())));
        }
        let mut nodes = Vec::new();
        for &node in &numbers {
            let run = match (&plan, &maps) {
                (Some(plan), _) => NodeRun::new(plan, node, readiness),
                (None, Some(maps)) => NodeRun::of_maps(maps, node, self.size),
                (None, None) => continue,
            };
            nodes.push((node, run.map_err(|why| wrong(&why))?));
        }
        let give_up = Duration::from_nanos(self.give_up.ps() / 1000);
        let mut followers = Followers::new(nodes, &self.controller, self.rate, give_up)?;
        self.slow.iter().for_each(|&(node, by)| followers.slow(node, by));
        if let Some(path) = &self.sends {
            let file = std::fs::File::create(path)
                .map_err(|why| Failure::Input(format!("--sends: {}: {why}", path.display())))?;
            followers.log_to(Box::new(std::io::LineWriter::new(file)));
        }
        if let Some(guard) = self.guard {
            tracing::info!(%guard, "by schedule: what is later than this is sent into the dark");
        }
        let sent = followers.run().await?;
        say(&serde_json::json!({ "nodes": numbers.len(), "sent": sent }).to_string());
        Ok(())
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match path == Path::new("-") {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|why| Failure::Input(format!("{}: {why}", path.display())))?;
    Ok(text)
}

fn read_maps(path: &Path) -> Result<PortMaps, Failure> {
    let wrong = |why| Failure::Input(format!("{}: {why}", path.display()));
    PortMaps::read(&text(path)?).map_err(wrong)
}

/// Whole or not at all.
fn write_maps(option: &str, path: &Path, maps: &PortMaps) -> Result<(), Failure> {
    let wrong = |why: std::io::Error| Failure::Run(format!("{option}: {}: {why}", path.display()));
    let text = serde_json::to_string(maps).map_err(|why| wrong(why.into()))?;
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}.part", std::process::id()));
    let mut file = std::fs::File::create(&draft).map_err(wrong)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.write_all(b"\n"))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&draft, path));
    written.map_err(|why| {
        // Nothing half-written is left.
        let _ = std::fs::remove_file(&draft);
        wrong(why)
    })
}

/// `0-3,7`
fn numbers(text: &str) -> Option<Vec<u32>> {
    let mut all = std::collections::BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        if last < first || last - first > 1 << 16 {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all.into_iter().collect())
}

/// `3=50ms`
fn slow(text: &str) -> Result<(u32, Time), String> {
    let (node, by) = text.split_once('=').ok_or("must be NODE=TIME, as in 3=50ms")?;
    let node = node.trim().parse().map_err(|_| format!("{node}: must be the number of a node"))?;
    Ok((node, by.parse().map_err(|why: lightloom_units::ParseError| why.to_string())?))
}

/// A line on standard output, at once; nobody needs to read it.
fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
