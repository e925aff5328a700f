//! The sending end of a server's runtime: which circuits it may use now, and what it tells its agent.
//!
//! Modelled: it does what its agent tells it, in order. It stops at the end of the lease that it was told,
//! whatever agent and controller do. A port takes nothing new until what was in flight on its last circuit
//! has arrived, and only then is it drained. Under another agent nothing is used, and nothing that the
//! agent says is acknowledged, until all that is in flight has arrived.
//! Ignored: what is sent, and how: the caller asks before each piece. A process that is stopped between the
//! question and the sending sends after the end all the same, and so does a kernel that sends again.
//! Checked: the fault-injecting world of `lightloom-soak`, where agents and runtimes fail apart.
//!
//! ```
//! use lightloom_control::*;
//! use lightloom_units::Time;
//! let mut runtime = Runtime::new(2);
//! let mark = Mark { generation: 1, stage: Stage::Resume };
//! let circuits = vec![None, Some((1, 0))];
//! let until = Time::from_ms(3000);
//! runtime.told(Use { number: 1, mark, round: 1, circuits, until });
//! assert_eq!(runtime.poll(), Some(RuntimeOutput::Using { number: 1 }));
//! assert_eq!(runtime.begin(Time::from_ms(1), 1), Some((1, 0)));
//! runtime.drain(7, &[1]);
//! assert_eq!(runtime.begin(Time::from_ms(2), 1), None);
//! assert_eq!(runtime.poll(), None); // something is in flight
//! runtime.landed(1);
//! assert_eq!(runtime.poll(), Some(RuntimeOutput::Drained { token: 7 }));
//! ```

use crate::message::{Mark, PortId};
use crate::planted::{Bug, Planted};
use lightloom_units::Time;
use std::collections::VecDeque;

/// What an agent tells its runtime: use these circuits, and no other, until the lease ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Numbers what one agent tells, from 1.
    pub number: u64,
    /// The plan they are of.
    pub mark: Mark,
    /// The demand up to this round has been answered.
    pub round: u64,
    /// By optical port: the port at the other end.
    pub circuits: Vec<Option<PortId>>,
    /// From then on none may be used, by the clock that agent and runtime share.
    pub until: Time,
}

/// What a runtime tells its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeOutput {
    /// It goes by the [`Use`] of this number.
    Using {
        /// As in [`Use`].
        number: u64,
    },
    /// Nothing is in flight any more on the ports of this drain, and nothing new is put there.
    Drained {
        /// As in [`crate::AgentOutput::Drain`].
        token: u64,
    },
}

/// What one optical port of the server is at.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    /// The circuit that may be used.
    circuit: Option<PortId>,
    /// Pieces that were sent and may not have arrived.
    flying: u64,
    /// They are of an earlier circuit: nothing new until they have arrived.
    closed: bool,
}

/// The sending end of a server's data plane.
#[derive(Clone, Debug)]
pub struct Runtime {
    ports: Vec<Port>,
    told: Use,
    /// The agent is new, and pieces that an earlier one allowed are in flight.
    left_over: bool,
    /// To be said once it is so.
    drain: Option<(u64, Vec<u16>)>,
    outputs: VecDeque<RuntimeOutput>,
    bug: Bug,
}

impl Runtime {
    /// A runtime of a server with so many optical ports, that has sent nothing yet. What an earlier life of
    /// it may have sent must have arrived.
    pub fn new(ports: u16) -> Self {
        Runtime {
            ports: vec![Port::default(); usize::from(ports)],
            told: Use::default(),
            left_over: false,
            drain: None,
            outputs: VecDeque::new(),
            bug: Bug::default(),
        }
    }

    /// With a bug, for tests that must find it.
    #[cfg(feature = "testing")]
    pub fn plant(&mut self, bug: Option<Planted>) {
        self.bug = Bug(bug);
    }

    /// The agent is gone, or is another: what it allowed is over.
    pub fn forsaken(&mut self) {
        self.told = Use::default();
        (self.drain, self.left_over) = (None, true);
        self.outputs.clear();
        for port in &mut self.ports {
            (port.circuit, port.closed) = (None, true);
        }
        self.settle();
    }

    /// The agent tells which circuits to use, and until when.
    pub fn told(&mut self, told: Use) {
        for (port, circuit) in self.ports.iter_mut().zip(&told.circuits) {
            port.closed |= port.circuit.is_some() && port.circuit != *circuit;
            port.circuit = *circuit;
        }
        let number = told.number;
        self.told = told;
        self.settle();
        if !self.left_over || self.bug.is(Planted::RuntimeForgetsLeftOvers) {
            self.outputs.push_back(RuntimeOutput::Using { number });
        }
    }

    /// The agent wants these ports drained.
    pub fn drain(&mut self, token: u64, ports: &[u16]) {
        for &port in ports {
            if let Some(port) = self.ports.get_mut(usize::from(port)) {
                (port.circuit, port.closed) = (None, true);
            }
        }
        self.drain = Some((token, ports.to_vec()));
        self.settle();
    }

    /// The circuit that a port may use now: the port at its other end.
    pub fn circuit(&self, now: Time, port: u16) -> Option<PortId> {
        let port = self.ports.get(usize::from(port)).filter(|port| !port.closed)?;
        let lasts = now < self.told.until || self.bug.is(Planted::RuntimeForgetsLeases);
        port.circuit.filter(|_| lasts)
    }

    /// As [`Runtime::circuit`], and a piece is sent over it at once: [`Runtime::landed`] must follow.
    pub fn begin(&mut self, now: Time, port: u16) -> Option<PortId> {
        let circuit = self.circuit(now, port)?;
        self.ports[usize::from(port)].flying += 1;
        Some(circuit)
    }

    /// A piece that was sent over this port has arrived, or is lost for good.
    pub fn landed(&mut self, port: u16) {
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.flying = port.flying.saturating_sub(1);
        }
        self.settle();
    }

    /// The plan that it goes by.
    pub fn mark(&self) -> Mark {
        self.told.mark
    }

    /// The last demand that was answered.
    pub fn round(&self) -> u64 {
        self.told.round
    }

    /// From then on no circuit is used, unless the agent says more until then.
    pub fn until(&self) -> Time {
        self.told.until
    }

    /// What the agent is to be told, in order.
    pub fn poll(&mut self) -> Option<RuntimeOutput> {
        self.outputs.pop_front()
    }

    /// Opens ports on which nothing is in flight, and says what is done.
    fn settle(&mut self) {
        for port in self.ports.iter_mut().filter(|port| port.flying == 0) {
            port.closed = false;
        }
        if self.left_over && self.ports.iter().all(|port| port.flying == 0) {
            self.left_over = false;
            if self.told.number > 0 {
                self.outputs.push_back(RuntimeOutput::Using { number: self.told.number });
            }
        }
        let clear = |port: &u16| {
            let flying = self.ports.get(usize::from(*port)).map_or(0, |port| port.flying);
            flying == 0 || self.bug.is(Planted::RuntimeDrainsAtOnce)
        };
        if let Some((token, _)) = self.drain.take_if(|drain| drain.1.iter().all(clear)) {
            self.outputs.push_back(RuntimeOutput::Drained { token });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Stage;

    fn told(number: u64, circuits: &[Option<PortId>], until_ms: u64) -> Use {
        let mark = Mark { generation: number, stage: Stage::Resume };
        let until = Time::from_ms(until_ms);
        Use { number, mark, round: 0, circuits: circuits.to_vec(), until }
    }

    fn said(runtime: &mut Runtime) -> Vec<RuntimeOutput> {
        std::iter::from_fn(|| runtime.poll()).collect()
    }

    #[test]
    fn it_stops_at_the_end_of_the_lease_to_the_picosecond() {
        let mut runtime = Runtime::new(1);
        runtime.told(told(1, &[Some((1, 0))], 10));
        let end = Time::from_ms(10);
        assert_eq!(runtime.circuit(Time::from_ps(end.ps() - 1), 0), Some((1, 0)));
        assert_eq!(runtime.circuit(end, 0), None);
        runtime.told(told(2, &[Some((1, 0))], 20));
        assert_eq!(runtime.circuit(end, 0), Some((1, 0)));
    }

    #[test]
    fn a_port_takes_nothing_new_until_its_last_circuit_is_empty() {
        let (mut runtime, now) = (Runtime::new(2), Time::from_ms(1));
        runtime.told(told(1, &[Some((1, 0)), Some((2, 0))], 10));
        assert!(runtime.begin(now, 0).is_some());
        runtime.drain(1, &[0, 1]);
        assert_eq!(runtime.circuit(now, 1), None, "the old circuit is over before the new is told");
        runtime.told(told(2, &[Some((3, 0)), Some((4, 0))], 10));
        assert_eq!([0, 1].map(|port| runtime.circuit(now, port)), [None, Some((4, 0))]);
        let using = |number| RuntimeOutput::Using { number };
        assert_eq!(said(&mut runtime), [using(1), using(2)]);
        runtime.landed(0);
        assert_eq!(runtime.circuit(now, 0), Some((3, 0)));
        assert_eq!(said(&mut runtime), [RuntimeOutput::Drained { token: 1 }]);
    }

    #[test]
    fn another_agent_is_answered_once_nothing_of_the_last_is_in_flight() {
        let (mut runtime, now) = (Runtime::new(1), Time::from_ms(1));
        runtime.told(told(9, &[Some((1, 0))], 10));
        assert!(runtime.begin(now, 0).is_some());
        said(&mut runtime);
        runtime.forsaken();
        assert_eq!(runtime.circuit(now, 0), None);
        runtime.told(told(1, &[None], 0));
        assert_eq!(said(&mut runtime), []);
        runtime.landed(0);
        assert_eq!(said(&mut runtime), [RuntimeOutput::Using { number: 1 }]);
    }
}
