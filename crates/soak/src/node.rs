//! A server of the region: its agent, its clock, and the data plane that uses circuits.

use crate::chance::Chance;
use crate::plane::Plane;
use lightloom_control::{
    Agent, AgentOutput, AgentSettings, Directive, Open, RuntimeOutput, Settings,
};
use lightloom_units::Time;
use std::collections::VecDeque;

/// What a clock is compared by.
const MILLION: u128 = 1_000_000;

/// A clock that is not quite right: in a million units it shows `rate`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    rate: u128,
}

impl Clock {
    /// Fast, right, or behind by up to the grace at the end of a lease.
    pub fn draw(chance: &mut Chance, settings: &Settings) -> Self {
        let whole = (settings.lease + settings.grace).ps();
        let slowest = u128::from(settings.lease.ps()) * MILLION / u128::from(whole) + 1;
        let rate = match chance.below(4) {
            0 => MILLION + u128::from(chance.below(100_000)),
            1 => slowest,
            2 => slowest + u128::from(chance.below((MILLION - slowest) as u64 + 1)),
            _ => MILLION,
        };
        Clock { rate }
    }

    /// What it shows.
    pub fn shows(self, now: Time) -> Time {
        Time::from_ps((u128::from(now.ps()) * self.rate / MILLION) as u64)
    }

    /// When it shows at least this.
    pub fn when(self, shown: Time) -> Time {
        let when = (u128::from(shown.ps()) * MILLION).div_ceil(self.rate);
        Time::from_ps(u64::try_from(when).unwrap_or(u64::MAX))
    }
}

/// What comes to an agent.
#[derive(Clone, Debug)]
pub(crate) enum Mail {
    /// Its stream to the controller is open again.
    Connected,
    Directive(Directive),
    Said(RuntimeOutput),
}

/// A server of the region, its agent and its data plane.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub settings: AgentSettings,
    pub clock: Clock,
    pub agent: Option<Agent>,
    /// The number of its agent's life, and how many there were.
    pub incarnation: u64,
    pub lives: u64,
    pub plane: Plane,
    /// The filter of its optical NICs: it goes by what an agent said last, whatever became of that.
    pub filter: Vec<Open>,
    /// The agent does nothing for now; what comes waits.
    pub frozen: bool,
    pub mail: VecDeque<Mail>,
    /// Nothing comes to it or from it.
    pub cut: bool,
    /// Its data plane takes long to drain.
    pub slow: bool,
}

impl Node {
    pub fn shows(&self, now: Time) -> Time {
        self.clock.shows(now)
    }

    /// When its agent wants to be called.
    pub fn next_timeout(&self) -> Time {
        let agent = self.agent.as_ref().filter(|_| !self.frozen);
        agent.map_or(Time::MAX, |agent| self.clock.when(agent.next_timeout()))
    }

    /// What was in flight at the end of a lease has arrived, or is lost, when what the clock leaves of
    /// the grace is over.
    pub fn lands(&mut self, now: Time, settings: &Settings) {
        let left = self.shows(settings.lease + settings.grace).saturating_sub(settings.lease);
        self.plane.lands(self.shows(now), left);
    }

    /// The agent, if it does anything.
    pub fn awake(&mut self) -> Option<&mut Agent> {
        self.agent.as_mut().filter(|_| !self.frozen)
    }

    pub fn outputs(&mut self) -> Vec<AgentOutput> {
        let mut outputs = Vec::new();
        if let Some(agent) = self.agent.as_mut().filter(|_| !self.frozen) {
            if let Some(open) = agent.open() {
                self.filter = open.to_vec();
            }
            outputs.extend(std::iter::from_fn(|| agent.poll()));
        }
        outputs
    }
}
