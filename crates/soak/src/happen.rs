//! What comes next happens.

use crate::event::Event;
use crate::line::Opened;
use crate::node::Mail;
use crate::plan::Loss;
use crate::world::World;
use lightloom_control::Input;
use lightloom_units::Time;

impl World {
    pub(crate) fn happen(&mut self, event: Event) {
        let now = self.now;
        let Some(event) = self.unless_stopped(event) else { return };
        match event {
            Event::Report(report) => {
                self.input(Input::Report(report));
            }
            Event::Left { server, incarnation } => self.input(Input::Left { server, incarnation }),
            Event::Directive(server, directive) => self.deliver(server, Mail::Directive(directive)),
            Event::ToRuntime(server, word) => self.hear(server, word),
            Event::ToAgent { server, incarnation, said } => {
                if self.nodes[usize::from(server)].incarnation == incarnation {
                    self.deliver(server, Mail::Said(said));
                }
            }
            Event::Landed(server, ports) => {
                let plane = &mut self.nodes[usize::from(server)].plane;
                ports.into_iter().for_each(|port| plane.lose(port));
            }
            Event::Decided { life, question, counts } => {
                if life == self.life && self.controller.is_some() {
                    // An answer that comes late is to another question.
                    if question == self.asked {
                        self.decided = Some(counts.clone());
                    }
                    self.input(Input::Decided { question, counts });
                }
            }
            Event::ControllerStarts => self.start_controller(),
            Event::AgentStarts(server) => self.start_agent(server),
            Event::Connect { switch, life } => {
                if life == self.life && self.controller.is_some() {
                    self.lines[switch].connecting = false;
                    match self.lines[switch].open(now) {
                        Opened::Open => {}
                        Opened::Not => self.connect_soon(switch),
                        Opened::Refused { stream } => {
                            let soon = now + Time::from_ms(1);
                            self.at(soon, Event::StreamGone { switch, stream });
                        }
                    }
                }
            }
            Event::StreamGone { switch, stream } => {
                let open = self.lines[switch].stream.as_ref();
                if open.is_some_and(|open| open.number == stream) {
                    self.hang_up(switch);
                    self.input(Input::SwitchDown { switch, why: "the stream broke".into() });
                }
            }
            Event::ToSwitch(switch, stream) => self.lines[switch].reaches_switch(now, stream),
            Event::ToDriver(switch, stream) => self.lines[switch].reaches_driver(now, stream),
            Event::Late(switch, session, bytes) => self.lines[switch].late(now, session, &bytes),
            Event::Demand(tenant) => {
                self.demand(tenant);
                if !self.calm {
                    let again = self.chance.tail(Time::from_ms(1_000));
                    self.at(now + again, Event::Demand(tenant));
                }
            }
            Event::Strike(kind) => {
                if !self.calm {
                    let (fault, name, mean) = self.plan.kinds[kind];
                    self.note(|| format!("FAULT: {name}"));
                    self.tally(name);
                    self.strike(fault);
                    let again = self.chance.tail(mean);
                    self.at(now + again, Event::Strike(kind));
                }
            }
            Event::Thaw(server) => self.thaw(server),
            Event::RuntimeWell(server) => self.runtime_well(server),
            Event::Joined => self.nodes.iter_mut().for_each(|node| node.cut = false),
            Event::DrainsWell(server) => self.nodes[usize::from(server)].slow = false,
            Event::PartRepaired(server, part) => self.part(server, part, true),
            Event::SwitchWell(switch) => self.lines[switch].mood = Default::default(),
            Event::Unstuck(switch, port) => {
                self.lines[switch].server.switch_mut().stick(port, false)
            }
            Event::Lie(server, until) => self.lie(server, until),
            Event::StormOver if self.calm => {}
            Event::StormOver => self.network = self.plan.network,
            Event::BreakStream(switch) if !self.calm => self.break_stream(switch),
            Event::Crash(loss) if !self.calm && self.controller.is_some() => self.crash(loss),
            Event::BreakStream(_) | Event::Crash(_) => {}
            Event::Told(input) => self.input(input),
            Event::Restart(server) => self.restart_refused(server),
            Event::GoesOn { life } if life == self.life => self.goes_on(),
            Event::GoesOn { .. } => {}
            Event::FaultsStop => self.faults_stop(),
            Event::LastDemand => {
                (0..self.rounds.len() as u16).for_each(|tenant| self.demand(tenant));
                self.last_demand = true;
                if self.chance.hit(125) {
                    let soon = self.now + self.chance.ms(0, 50);
                    self.at(soon, Event::LastCrash);
                }
            }
            Event::LastCrash if self.controller.is_some() => {
                self.deadline = self.deadline + self.settings.lease + self.settings.lease;
                self.last_crash = true;
                self.crash(Loss::Nothing);
            }
            Event::LastCrash => {}
        }
    }
}
