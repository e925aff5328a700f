//! The task that carries an agent, and what others see of it.

use super::controller::Controller;
use super::link::{Link, News};
use crate::clock::Clock;
use crate::failure::Failure;
use crate::filter::Filter;
use crate::proto::wire::Description;
use lightloom_control::{
    Agent, AgentOutput, AgentSettings, Demand, Mark, PortId, Report, ServerPart, Stage,
};
use lightloom_decide::Traffic;
use lightloom_units::Time;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, timeout};

/// Reports in one lease when nothing happens.
const BEATS: u64 = 6;

/// Which circuits to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Numbers what this agent tells, from 1: for [`AgentClient::using`].
    pub number: u64,
    /// The plan they are of.
    pub mark: Mark,
    /// Demands up to this round have been answered.
    pub round: u64,
    /// By optical port: the port at the other end.
    pub circuits: Vec<Option<PortId>>,
    /// From then on none may be used, whatever is heard or not: CLOCK_BOOTTIME \[ns\].
    pub until_ns: u64,
}

/// Who follows what an agent tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follower {
    /// This process, which looks at [`View`] before it sends: it has followed as soon as that has changed.
    ThisProcess,
    /// Another process, which says itself what it has followed: [`AgentClient::using`].
    Apart,
}

/// What the data plane must know.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The region, once the controller was reached.
    pub region: Option<Arc<Description>>,
    /// Whether the controller is reached now, or why not.
    pub link: Option<Result<(), String>>,
    /// The circuits to use, and no other.
    pub circuits: Use,
    /// How often the controller had that said, changed or not.
    pub said: u64,
    /// Ports to be drained, and the token for [`AgentClient::drained`].
    pub drain: Option<(u64, Vec<u16>)>,
    /// Why the agent has ended, if it has.
    pub ended: Option<String>,
}

/// One server's agent. It ends when this is dropped.
#[derive(Debug)]
pub struct AgentClient {
    calls: mpsc::Sender<Call>,
    views: watch::Receiver<View>,
}

#[derive(Debug)]
enum Call {
    Demand(Demand),
    Traffic(Traffic),
    Drained(u64),
    Using(u64),
    Fault(ServerPart, bool),
}

impl AgentClient {
    /// Starts the agent of a server, within a Tokio runtime.
    ///
    /// # Errors
    /// If the address, the token or the authority cannot be used.
    pub fn start(controller: &Controller, server: &str) -> Result<Self, Failure> {
        AgentClient::begin(controller, server, Follower::ThisProcess, None)
    }

    /// As [`AgentClient::start`], for a runtime that is another process. The filter of the server's optical NICs,
    /// if there is one, is told the lease's end before the runtime is.
    ///
    /// # Errors
    /// As there.
    pub fn start_apart(
        controller: &Controller,
        server: &str,
        filter: Option<Filter>,
    ) -> Result<Self, Failure> {
        AgentClient::begin(controller, server, Follower::Apart, filter)
    }

    fn begin(
        controller: &Controller,
        server: &str,
        follower: Follower,
        filter: Option<Filter>,
    ) -> Result<Self, Failure> {
        let (reports, latest) = watch::channel(None);
        let link = Link::open(controller, server, latest)?;
        let (calls, asked) = mpsc::channel(64);
        let (publish, views) = watch::channel(View::default());
        let clock = Clock::start();
        let task = Task { agent: None, clock, follower, filter, reports, link, asked, publish };
        tokio::spawn(task.run());
        Ok(AgentClient { calls, views })
    }

    /// The server is about to send this.
    ///
    /// # Errors
    /// If the agent has ended; with why.
    pub async fn demand(&self, demand: Demand) -> Result<(), Failure> {
        self.call(Call::Demand(demand)).await
    }

    /// What other traffic has put on the server's packet NICs in an iteration, so far.
    ///
    /// # Errors
    /// As [`AgentClient::demand`].
    pub async fn traffic(&self, record: Traffic) -> Result<(), Failure> {
        self.call(Call::Traffic(record)).await
    }

    /// Nothing is in flight any more on the ports of [`View::drain`].
    ///
    /// # Errors
    /// As [`AgentClient::demand`].
    pub async fn drained(&self, token: u64) -> Result<(), Failure> {
        self.call(Call::Drained(token)).await
    }

    /// The runtime goes by the [`Use`] of this number. Only one that is another process says so:
    /// [`AgentClient::start_apart`].
    ///
    /// # Errors
    /// As [`AgentClient::demand`].
    pub async fn using(&self, number: u64) -> Result<(), Failure> {
        self.call(Call::Using(number)).await
    }

    /// A part of the server fails, or works again.
    ///
    /// # Errors
    /// As [`AgentClient::demand`].
    pub async fn fault(&self, part: ServerPart, works: bool) -> Result<(), Failure> {
        self.call(Call::Fault(part, works)).await
    }

    /// The latest view; the receiver is woken when it changes.
    pub fn view(&self) -> watch::Receiver<View> {
        self.views.clone()
    }

    /// The circuits to use for a round, once it is answered.
    ///
    /// # Errors
    /// If that takes longer than `patience`, or the agent has ended.
    pub async fn answered(&self, round: u64, patience: Duration) -> Result<Use, Failure> {
        self.when(patience, |view| {
            view.circuits.round >= round && view.circuits.mark.stage == Stage::Resume
        })
        .await
        .map(|view| view.circuits)
    }

    /// The first view of which this is true.
    ///
    /// # Errors
    /// As [`AgentClient::answered`].
    pub async fn when(
        &self,
        patience: Duration,
        is: impl Fn(&View) -> bool,
    ) -> Result<View, Failure> {
        let mut views = self.view();
        let seen = timeout(patience, views.wait_for(|view| is(view) || view.ended.is_some())).await;
        match seen {
            Ok(Ok(view)) => match &view.ended {
                Some(why) => Err(Failure::Run(why.clone())),
                None => Ok(view.clone()),
            },
            Ok(Err(_)) => Err(Failure::Run("the agent has ended".into())),
            Err(_) => {
                let view = self.views.borrow();
                let why = match &view.link {
                    Some(Err(why)) => why.as_str(),
                    _ => "no answer",
                };
                Err(Failure::Run(format!("the controller: {why} within {patience:?}")))
            }
        }
    }

    async fn call(&self, call: Call) -> Result<(), Failure> {
        let ended = || self.views.borrow().ended.clone();
        let gone =
            |why: Option<String>| Failure::Run(why.unwrap_or_else(|| "the agent has ended".into()));
        if let Some(why) = ended() {
            return Err(gone(Some(why)));
        }
        self.calls.send(call).await.map_err(|_| gone(ended()))
    }
}

struct Task {
    /// Once the region is known.
    agent: Option<(Arc<Description>, Agent)>,
    clock: Clock,
    follower: Follower,
    filter: Option<Filter>,
    reports: watch::Sender<Option<Report>>,
    link: Link,
    asked: mpsc::Receiver<Call>,
    publish: watch::Sender<View>,
}

impl Task {
    async fn run(mut self) {
        // What was said before the region was known.
        let mut waiting: Vec<Call> = Vec::new();
        loop {
            if let Err(why) = self.carry_out() {
                return self.end(why);
            }
            let timer = self.agent.as_ref().map(|(_, agent)| agent.next_timeout());
            let timer = self.clock.at(timer.unwrap_or_default());
            tokio::select! {
                biased;
                () = sleep_until(timer.into()), if self.agent.is_some() => {
                    let now = self.now();
                    if let Some((_, agent)) = &mut self.agent {
                        agent.timeout(now);
                    }
                }
                news = self.link.next() => match self.news(news).and_then(|()| self.check_age()) {
                    Ok(()) => for call in waiting.drain(..) {
                        self.call(call);
                    },
                    Err(why) => return self.end(why),
                },
                call = self.asked.recv() => match call {
                    Some(call) if self.agent.is_some() => self.call(call),
                    Some(call) => {
                        // The latest demand; faults all.
                        if matches!(call, Call::Demand(_)) {
                            waiting.retain(|call| !matches!(call, Call::Demand(_)));
                        }
                        waiting.push(call);
                    }
                    None => return,
                },
            }
        }
    }

    /// Circuits are left first.
    fn end(&self, why: String) {
        self.publish.send_modify(|view| {
            view.circuits.circuits.iter_mut().for_each(|circuit| *circuit = None);
            view.circuits.until_ns = 0;
            (view.said, view.ended) = (view.said + 1, Some(why));
        });
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// A stream opens anew now and then, so this is soon enough asked there.
    fn check_age(&self) -> Result<(), String> {
        match self.clock.is_worn_out() {
            true => Err("this agent has run for 200 days: start it anew".into()),
            false => Ok(()),
        }
    }

    fn news(&mut self, news: News) -> Result<(), String> {
        let now = self.now();
        match news {
            News::Up(description) => {
                match &self.agent {
                    None => {
                        let agent = Agent::new(settings(&description)?, incarnation(), now);
                        let description = Arc::new(description);
                        self.publish.send_modify(|view| view.region = Some(description.clone()));
                        self.agent = Some((description, agent));
                    }
                    Some((known, _)) if **known == description => {}
                    // Its lease is another, or its servers are: nothing that was agreed holds.
                    Some(_) => return Err("the region is another now: start anew".into()),
                }
                if let Some((_, agent)) = &mut self.agent {
                    agent.connected(now);
                }
                self.publish.send_modify(|view| view.link = Some(Ok(())));
            }
            News::Directive(directive) => {
                if let Some((_, agent)) = &mut self.agent {
                    agent.directive(now, directive);
                }
            }
            News::Down(why) => {
                if let Some((_, agent)) = &mut self.agent {
                    agent.disconnected();
                }
                self.publish.send_modify(|view| view.link = Some(Err(why)));
            }
            News::Over(why) => return Err(why),
        }
        Ok(())
    }

    fn call(&mut self, call: Call) {
        let now = self.now();
        let Some((description, agent)) = &mut self.agent else { return };
        match call {
            Call::Demand(demand) if demand.bytes.len() == description.servers.len() => {
                agent.demand(now, demand);
            }
            Call::Demand(demand) => {
                let (given, servers) = (demand.bytes.len(), description.servers.len());
                tracing::error!(given, servers, "a demand needs one number for each server");
            }
            Call::Traffic(record) => agent.traffic(record),
            Call::Drained(token) => agent.drained(now, token),
            Call::Using(number) => agent.using(now, number),
            Call::Fault(part, works) => agent.fault(now, part, works),
        }
    }

    fn carry_out(&mut self) -> Result<(), String> {
        let now = self.now();
        let Some((_, agent)) = &mut self.agent else { return Ok(()) };
        if let Some(filter) = &mut self.filter {
            filter.follow(agent, &self.clock)?;
        }
        // Those who look are woken once for all that is new, and before the controller hears of it.
        let mut fresh = Fresh::default();
        loop {
            match agent.poll() {
                Some(AgentOutput::Drain { token, ports }) => fresh.drain = Some((token, ports)),
                Some(AgentOutput::Use(told)) => {
                    fresh.said += u64::from(told.mark != Mark::default());
                    fresh.told = Some(told);
                }
                Some(AgentOutput::Report(report)) if fresh.is_none() => {
                    self.reports.send_replace(Some(report));
                }
                None if fresh.is_none() => break,
                last => {
                    let number = fresh.publish(&self.publish, &self.clock);
                    if let Some(number) = number.filter(|_| self.follower == Follower::ThisProcess)
                    {
                        agent.using(now, number);
                    }
                    if let Some(AgentOutput::Report(report)) = last {
                        self.reports.send_replace(Some(report));
                    }
                }
            }
        }
        Ok(())
    }
}

/// What is new for the data plane.
#[derive(Default)]
struct Fresh {
    drain: Option<(u64, Vec<u16>)>,
    told: Option<lightloom_control::Use>,
    said: u64,
}

impl Fresh {
    fn is_none(&self) -> bool {
        self.drain.is_none() && self.told.is_none()
    }

    /// Shows it; returns the number of the circuits, if they are new.
    fn publish(&mut self, views: &watch::Sender<View>, clock: &Clock) -> Option<u64> {
        let Fresh { drain, told, said } = std::mem::take(self);
        let told = told.map(|told| {
            let lightloom_control::Use { number, mark, round, circuits, until } = told;
            Use { number, mark, round, circuits, until_ns: clock.boottime_ns(until) }
        });
        let number = told.as_ref().map(|told| told.number);
        views.send_modify(|view| {
            view.said += said;
            if drain.is_some() {
                view.drain = drain;
            }
            if let Some(told) = told {
                view.circuits = told;
            }
        });
        number
    }
}

fn settings(description: &Description) -> Result<AgentSettings, String> {
    let small = |number: u32| u16::try_from(number).map_err(|_| "absurd region".to_string());
    let lease = Time::from_ps(description.lease_ps);
    Ok(AgentSettings {
        server: small(description.number)?,
        ports: small(description.ports)?,
        lease,
        beat: Time::from_ps(lease.ps() / BEATS),
    })
}

/// Another number after every start, which nobody can guess. No clock has a part in it.
fn incarnation() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}
