//! A server of the region: its agent, its clock, and the data plane that uses circuits.

use crate::chance::Chance;
use lightloom_control::{Agent, AgentOutput, AgentSettings, Directive, PortId, Settings};
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

/// What is in flight, or may be put on a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plane {
    /// By port: where bytes went that may not have arrived.
    pub flying: Vec<Option<PortId>>,
    /// By port: it was used since it had to drain.
    used: Vec<bool>,
    /// Drains under way: token, ports.
    drains: VecDeque<(u64, Vec<u16>)>,
}

impl Plane {
    pub fn new(ports: usize) -> Self {
        Plane { flying: vec![None; ports], used: vec![false; ports], drains: VecDeque::new() }
    }

    /// These circuits are in use; `lost` says of which port all that is sent is lost anyway.
    pub fn uses(&mut self, circuits: &[Option<PortId>], lost: impl Fn(u16, PortId) -> bool) {
        for (port, circuit) in circuits.iter().enumerate().filter(|(_, c)| c.is_some()) {
            let flies = circuit.filter(|&peer| !lost(port as u16, peer));
            (self.flying[port], self.used[port]) = (flies, true);
        }
    }

    /// What is in flight over this port is lost.
    pub fn lose(&mut self, port: u16) {
        self.flying[usize::from(port)] = None;
    }

    pub fn drain(&mut self, token: u64, ports: Vec<u16>) {
        ports.iter().for_each(|&port| self.used[usize::from(port)] = false);
        self.drains.push_back((token, ports));
    }

    /// What was in flight when this drain began has arrived.
    pub fn arrived(&mut self, token: u64) {
        let Some(at) = self.drains.iter().position(|drain| drain.0 == token) else { return };
        if let Some((_, ports)) = self.drains.remove(at) {
            for port in ports.into_iter().map(usize::from).filter(|&port| !self.used[port]) {
                self.flying[port] = None;
            }
        }
    }
}

/// What comes to an agent.
#[derive(Clone, Debug)]
pub(crate) enum Mail {
    Directive(Directive),
    Drained(u64),
}

/// A server of the region, its agent and its data plane.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub settings: AgentSettings,
    pub clock: Clock,
    pub agent: Option<Agent>,
    pub incarnation: u64,
    pub plane: Plane,
    /// It does nothing for now; what comes waits.
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
        let until = self.agent.as_ref().map_or(Time::ZERO, Agent::lease_until);
        if self.shows(now) + Time::from_us(1) >= until + left {
            (0..self.settings.ports).for_each(|port| self.plane.lose(port));
        }
    }

    /// The agent, if it does anything.
    pub fn awake(&mut self) -> Option<&mut Agent> {
        self.agent.as_mut().filter(|_| !self.frozen)
    }

    pub fn outputs(&mut self) -> Vec<AgentOutput> {
        let mut outputs = Vec::new();
        if let Some(agent) = self.awake() {
            outputs.extend(std::iter::from_fn(|| agent.poll()));
        }
        outputs
    }
}
