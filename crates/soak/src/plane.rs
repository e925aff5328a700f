//! The data plane of a server: a process of its own, which knows what its agent has told it and no more.

use lightloom_control::{AgentOutput, PortId, Runtime, RuntimeOutput, Use};
use lightloom_units::Time;
use std::collections::VecDeque;

/// What is on its way to a data plane, from which life of the agent.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub incarnation: u64,
    pub says: Says,
}

/// What agents say to data planes.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    /// There is another agent.
    Hello,
    Use(Use),
    Drain(u64, Vec<u16>),
}

impl Says {
    /// What of an agent's output is for its data plane.
    pub fn of(output: AgentOutput) -> Option<Self> {
        match output {
            AgentOutput::Report(_) => None,
            AgentOutput::Use(told) => Some(Says::Use(told)),
            AgentOutput::Drain { token, ports } => Some(Says::Drain(token, ports)),
        }
    }
}

/// A data plane that sends all that it may, all the time.
#[derive(Clone, Debug)]
pub(crate) struct Plane {
    /// None: the process is dead.
    pub runtime: Option<Runtime>,
    /// Which life of the agent it listens to.
    pub agent: u64,
    /// By port: where bytes went that may not have arrived, and when they have, by the server's clock.
    pub flying: Vec<Option<(PortId, Time)>>,
    /// It does nothing for now. What was sent is in flight.
    pub frozen: bool,
    /// It sends, and does not read.
    pub deaf: bool,
    /// What came and was not read.
    pub unread: VecDeque<Word>,
    /// How long lines take, each way, and when the last that was sent arrives.
    pub lag: Time,
    pub down_by: Time,
    pub up_by: Time,
}

impl Plane {
    pub fn new(ports: usize, lag: Time) -> Self {
        Plane {
            runtime: None,
            agent: 0,
            flying: vec![None; ports],
            frozen: false,
            deaf: false,
            unread: VecDeque::new(),
            lag,
            down_by: Time::ZERO,
            up_by: Time::ZERO,
        }
    }

    /// The circuit that it may send over now.
    pub fn circuit(&self, shows: Time, port: u16) -> Option<PortId> {
        self.runtime.as_ref()?.circuit(shows, port)
    }

    /// It sends over all ports that it may send over; `lost` says of which all is lost anyway.
    pub fn send(&mut self, shows: Time, lost: impl Fn(u16, PortId) -> bool) {
        let Some(runtime) = self.runtime.as_mut().filter(|_| !self.frozen) else { return };
        for (port, flying) in (0..).zip(&mut self.flying).filter(|(_, flying)| flying.is_none()) {
            let Some(peer) = runtime.begin(shows, port) else { continue };
            if lost(port, peer) {
                runtime.landed(port);
            } else {
                *flying = Some((peer, Time::ZERO));
            }
        }
    }

    /// What was sent under a lease has arrived `left` after its end.
    pub fn lands(&mut self, shows: Time, left: Time) {
        let until = self.runtime.as_ref().map_or(Time::ZERO, Runtime::until);
        let by = until.saturating_add(left);
        let mut landed = Vec::new();
        for (port, flying) in (0..).zip(&mut self.flying) {
            if let Some((_, when)) = flying {
                *when = by.max(*when);
                if shows + Time::from_us(1) >= *when {
                    landed.push(port);
                }
            }
        }
        landed.into_iter().for_each(|port| self.lose(port));
    }

    /// What is in flight over this port has arrived, or is lost.
    pub fn lose(&mut self, port: u16) {
        if self.flying[usize::from(port)].take().is_some()
            && let Some(runtime) = &mut self.runtime
        {
            runtime.landed(port);
        }
    }

    /// The process dies; what it has sent arrives by then.
    pub fn dies(&mut self, by: Time) {
        self.runtime = None;
        self.unread.clear();
        self.agent = 0;
        for (_, when) in self.flying.iter_mut().flatten() {
            *when = by.min(*when);
        }
    }

    /// What it says to its agent.
    pub fn outputs(&mut self) -> Vec<RuntimeOutput> {
        let runtime = self.runtime.as_mut().filter(|_| !self.frozen);
        runtime.map(|runtime| std::iter::from_fn(|| runtime.poll()).collect()).unwrap_or_default()
    }
}
