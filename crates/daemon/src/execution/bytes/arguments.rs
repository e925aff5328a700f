//! `lightloomd node`, and what can be said to it.

use super::super::link::{Said, link};
use super::carrier::{Carrier, Happened, Parts};
use super::job::{Job, offsets};
use super::pattern;
use crate::agent::Controller;
use crate::failure::Failure;
use lightloom_control::execution::{NodeRun, Plan, Readiness};
use lightloom_runtime::net::{Config, Event, Listening, NicConfig, Node};
use lightloom_runtime::planned::Member;
use lightloom_units::Time;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use tokio::sync::mpsc;

/// Be a node of a plan: send its bytes, each over the plan's circuit once that stands, and check what comes
#[derive(Clone, Debug, clap::Args)]
pub struct CarryArguments {
    /// A plan (JSON)
    plan: PathBuf,
    /// Where nodes are, and which blocks are in which message (JSON)
    #[arg(long, value_name = "FILE")]
    job: PathBuf,
    /// Which node this is, from 0
    #[arg(long, value_name = "NUMBER")]
    node: u32,
    #[command(flatten)]
    controller: Controller,
    /// The network namespace that its NICs are in; the controller is reached from this one
    #[arg(long, value_name = "PATH")]
    nics_in: Option<PathBuf>,
    /// What it begins with: its blocks, one after the other; without it, bytes that are checked at the end
    #[arg(long, value_name = "FILE", requires = "end")]
    begin: Option<PathBuf>,
    /// Where to write what it has at the end: the blocks that it must have, one after the other
    #[arg(long, value_name = "FILE", requires = "begin")]
    end: Option<PathBuf>,
    /// Use no circuits, and ask no controller, for this reason
    #[arg(long, value_name = "WHY")]
    alone: Option<String>,
    /// After which silence of the controller, or of a circuit twice as long, it goes on without circuits
    #[arg(long, value_parser = Time::from_str, default_value = "10 s", value_name = "TIME")]
    give_up: Time,
}

impl CarryArguments {
    /// Follows the plan to the end, and prints a line of JSON: what was sent when, and over what.
    ///
    /// # Errors
    /// [`Failure::Input`] for files that are wrong or do not fit, before anything is sent; [`Failure::Run`] if other
    /// nodes cannot be reached, or a byte is not what it must be.
    pub async fn run(self) -> Result<(), Failure> {
        let plan = Plan::read(&text(&self.plan)?)
            .map_err(|why| Failure::Input(format!("{}: {why}", self.plan.display())))?;
        let wrong = |why: String| Failure::Input(format!("--job: {}: {why}", self.job.display()));
        let (job, block, element) = Job::read(&text(&self.job)?, &plan).map_err(wrong)?;
        let run = NodeRun::new(&plan, self.node, Readiness::Signal)
            .map_err(|why| Failure::Input(format!("{}: {why}", self.plan.display())))?;
        let (me, nodes) = (self.node as u16, plan.nodes());
        let held = match &self.begin {
            None => pattern::held(&job.messages, self.node, nodes, block),
            Some(path) => begun(path, &pattern::first(&job.messages, self.node, nodes), block)?,
        };
        let member = Member::new(&job.messages, self.node, block, element, held);
        let lanes = job.lanes(me);
        let config = Config::new(job.settings(me).map_err(wrong)?, lanes.clone());
        let (happen, happens) = mpsc::unbounded_channel();
        let tell = happen.clone();
        let events = move |event: Event| {
            let _ = tell.send(Happened::Net(event));
        };
        let net = open(self.nics_in.clone(), job.nics(me), config, events)?;
        let (tells, news) = mpsc::channel(1024);
        self.controller.endpoint()?;
        let linked = match self.alone.clone() {
            None => link(&self.controller, 0, tells.clone()),
            Some(why) => Err(Failure::Run(why)),
        };
        // A controller that has ended has taken its token with it.
        let (says, alone) = match linked {
            Ok(says) => (says, None),
            Err(why) => (Said::default(), Some(why.to_string())),
        };
        let parts = Parts {
            node: self.node,
            offsets: (0..nodes).map(|node| offsets(&plan, node)).collect(),
            sending: job.sending(&lanes),
            packets: job.over_packets(&lanes),
            plan,
            job: job.clone(),
            run,
            member,
            net,
            happens,
            happen,
            says,
            news,
            give_up: Duration::from_nanos(self.give_up.ps() / 1000),
        };
        let mut carrier = Carrier::new(parts);
        if let Some(why) = &alone {
            carrier.leave(why);
        }
        let (record, member) = carrier.run().await?;
        match &self.end {
            Some(path) => end(path, &pattern::last(&job.messages, self.node, nodes), &member)?,
            None => {
                let wanted = pattern::wanted(&job.messages, self.node, nodes, block, element);
                let wrong = wanted.iter().find(|(at, wanted)| member.block(**at) != Some(wanted));
                if let Some((at, _)) = wrong {
                    let why = format!("node {}: block {at} is not what it must be", self.node);
                    return Err(Failure::Run(why));
                }
            }
        }
        let line = serde_json::to_string(&record).map_err(|why| Failure::Run(why.to_string()))?;
        let mut out = std::io::stdout();
        writeln!(out, "{line}")
            .and_then(|()| out.flush())
            .map_err(|why| Failure::Run(why.to_string()))
    }
}

/// Opens an endpoint whose NICs may be in another network namespace: its sockets are made by threads that are there.
fn open(
    namespace: Option<PathBuf>,
    nics: Vec<NicConfig>,
    config: Config,
    events: impl FnMut(Event) + Send + 'static,
) -> Result<Node, Failure> {
    let begin = move || {
        if let Some(path) = &namespace {
            let wrong = |why: std::io::Error| {
                Failure::Input(format!("--nics-in: {}: {why}", path.display()))
            };
            let file = std::fs::File::open(path).map_err(wrong)?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|why| wrong(why.into()))?;
        }
        let failed = |why: &dyn std::fmt::Display| Failure::Run(why.to_string());
        let listening = Listening::bind(nics).map_err(|why| failed(&why))?;
        Node::open(config, listening, events).map_err(|why| failed(&why))
    };
    let thread = std::thread::Builder::new().name("lightloom-open".into()).spawn(begin);
    let thread = thread.map_err(|why| Failure::Run(why.to_string()))?;
    thread.join().unwrap_or_else(|_| Err(Failure::Run("the endpoint has panicked".into())))
}

/// Blocks from a file.
fn begun(path: &Path, blocks: &[u64], bytes: usize) -> Result<pattern::Blocks, Failure> {
    let wrong = |why: String| Failure::Input(format!("--begin: {}: {why}", path.display()));
    let read = std::fs::read(path).map_err(|why| wrong(why.to_string()))?;
    let all = blocks.len() * bytes;
    if read.len() != all {
        return Err(wrong(format!("has {} B; the plan's blocks have {all} B", read.len())));
    }
    Ok(blocks.iter().copied().zip(read.chunks(bytes).map(<[u8]>::to_vec)).collect())
}

/// Blocks to a file.
fn end(path: &Path, blocks: &[u64], member: &Member) -> Result<(), Failure> {
    let all: Option<Vec<&[u8]>> = blocks.iter().map(|&block| member.block(block)).collect();
    let all = all.ok_or_else(|| Failure::Run("a block has not come".into()))?;
    std::fs::write(path, all.concat())
        .map_err(|why| Failure::Run(format!("--end: {}: {why}", path.display())))
}

fn text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|why| Failure::Input(format!("{}: {why}", path.display())))
}
