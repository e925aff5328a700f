//! What a fault does to the world.

use crate::chance::Chance;
use crate::event::Event;
use crate::node::Node;
use crate::plan::{Fault, Interruption, Loss};
use crate::world::World;
use lightloom_control::{Input, Patch, PortId, ServerPart, Stage};
use lightloom_units::Time;

impl World {
    /// Something goes wrong.
    pub(crate) fn strike(&mut self, fault: Fault) {
        let servers = self.nodes.len() as u64;
        let server = self.chance.below(servers) as u16;
        let port = self.chance.below(self.region.degree() as u64) as u16;
        let node = usize::from(server);
        let lease = self.settings.lease;
        let long = self.chance.tail(Time::from_ps(lease.ps() / 2)) + Time::from_us(10);
        let over = self.now + long;
        match fault {
            Fault::ControllerCrash => self.crash_soon(Loss::Nothing),
            Fault::JournalLost => self.crash_soon(Loss::Whole),
            Fault::JournalCut if self.chance.hit(600) => {
                let stage = self.chance.pick(&[Stage::Hold, Stage::Hold, Stage::Resume]);
                self.ambush_telling = Some((stage, Interruption::Crash(Loss::Tail)));
            }
            Fault::JournalCut => self.crash_soon(Loss::Tail),
            Fault::OldBackup => self.crash_soon(Loss::SinceBackup),
            Fault::ControllerStops => {
                let more = self.chance.up_to(self.settings.patience);
                match self.chance.hit(500) {
                    true => self.pause(long + more, None),
                    false => self.interrupt_soon(Interruption::Pause(long + more)),
                }
            }
            Fault::AgentCrash => {
                self.nodes[node].agent = None;
                self.nodes[node].mail.clear();
                let incarnation = self.nodes[node].incarnation;
                self.post(server, Event::Left { server, incarnation });
                let soon = self.now + self.chance.ms(0, 20);
                let when = if self.chance.hit(500) { soon } else { over };
                self.at(when, Event::AgentStarts(server));
            }
            Fault::Freeze => {
                self.nodes[node].frozen = true;
                self.at(over, Event::Thaw(server));
            }
            Fault::ServerFreezes | Fault::RuntimeFreezes => {
                self.nodes[node].plane.frozen = true;
                self.at(over, Event::RuntimeWell(server));
                if fault == Fault::ServerFreezes {
                    self.nodes[node].frozen = true;
                    self.at(over, Event::Thaw(server));
                }
            }
            Fault::RuntimeDeaf => {
                self.nodes[node].plane.deaf = true;
                let more = self.chance.up_to(lease);
                self.at(over + more, Event::RuntimeWell(server));
            }
            Fault::RuntimeCrash => {
                // The agent's input ends with it. Another starts once what it has sent has arrived.
                let grace = self.settings.grace;
                let by = self.nodes[node].shows(self.now + grace);
                self.nodes[node].plane.dies(by);
                self.nodes[node].agent = None;
                self.nodes[node].mail.clear();
                let down = if self.chance.hit(500) { long } else { self.chance.ms(0, 20) };
                self.at(self.now + grace + down, Event::AgentStarts(server));
            }
            Fault::LinesLate => {
                self.nodes[node].plane.lag = self.chance.up_to(lease + lease);
                self.at(over + lease, Event::RuntimeWell(server));
            }
            Fault::Partition => {
                for other in 0..self.nodes.len() {
                    self.nodes[other].cut |= other == node || self.chance.hit(300);
                }
                let whole = self.chance.between(1, 4);
                self.at(over + Time::from_ps(lease.ps() * whole / 2), Event::Joined);
                if self.chance.hit(400) {
                    self.ambush.push(Event::Joined);
                }
            }
            Fault::SlowDrain => {
                self.nodes[node].slow = true;
                self.at(over + lease, Event::DrainsWell(server));
            }
            Fault::PartFails => {
                let parts = [
                    ServerPart::Nic(port),
                    ServerPart::Link(port),
                    ServerPart::Gpu(port),
                    ServerPart::Server,
                ];
                let part = self.chance.pick(&parts);
                self.part(server, part, false);
                if !self.plan.forever {
                    self.at(over + lease, Event::PartRepaired(server, part));
                }
            }
            Fault::StreamBreaks => {
                let switch = self.chance.below(self.lines.len() as u64) as usize;
                match self.chance.hit(600) {
                    true => self.ambush.push(Event::BreakStream(switch)),
                    false => self.break_stream(switch),
                }
            }
            Fault::SwitchSlow
            | Fault::SwitchSilent
            | Fault::SwitchDenies
            | Fault::SwitchReboots
            | Fault::Lockout
            | Fault::MirrorSticks
            | Fault::CircuitDrops
            | Fault::Tampering
            | Fault::TenantsJoined
            | Fault::Rival => self.strike_switch(fault, (server, port), over),
            Fault::Operator => {
                let all: Vec<PortId> = self.region.ports().collect();
                let some = vec![self.chance.pick(&all)];
                let inputs = [
                    Input::Audit,
                    Input::Unblock { ports: Vec::new() },
                    Input::Unblock { ports: some },
                ];
                let which = self.chance.below(3) as usize;
                self.at(self.now, Event::Told(inputs[which].clone()));
            }
            Fault::Lies => {
                // Whoever lies is most believed in the place of one that is away.
                let away = |node: &Node| node.agent.is_none() || node.frozen || node.cut;
                let gone = self.nodes.iter().position(away);
                let server = gone.filter(|_| self.chance.hit(400)).map_or(server, |at| at as u16);
                let lie = Event::Lie(server, over + lease);
                match self.chance.hit(400) {
                    true => self.ambush.push(lie),
                    false => self.at(self.now, lie),
                }
            }
            Fault::Storm => {
                self.network.lost = self.chance.between(200, 1000);
                self.at(over, Event::StormOver);
            }
        }
    }

    /// The controller crashes while a switch carries out its next order, or at one of the next things
    /// that it wants done.
    fn crash_soon(&mut self, loss: Loss) {
        match self.chance.hit(400) {
            true => self.ambush.push(Event::Crash(loss)),
            false => self.interrupt_soon(Interruption::Crash(loss)),
        }
    }

    /// This comes to pass at one of the next things that the controller wants done.
    fn interrupt_soon(&mut self, what: Interruption) {
        self.interrupt = Some((self.chance.below(8), what));
    }

    /// Something goes wrong with the optical switch, or with this port of it, until `over` as a rule.
    fn strike_switch(&mut self, fault: Fault, port: (u16, u16), over: Time) {
        let lease = self.settings.lease;
        let place = self.region.switch_port(port);
        let which = usize::from(place.switch);
        let n = self.region.switch_ports(which);
        match fault {
            Fault::SwitchSlow => {
                self.lines[which].mood.slow =
                    self.chance.up_to(Time::from_ps(2 * self.settings.patience.ps()));
                self.at(over, Event::SwitchWell(which));
            }
            Fault::SwitchSilent => {
                self.lines[which].mood.silent = true;
                self.at(over, Event::SwitchWell(which));
            }
            Fault::SwitchDenies => {
                self.lines[which].mood.denies = true;
                self.at(over, Event::SwitchWell(which));
            }
            Fault::SwitchReboots => {
                self.break_stream(which);
                self.lines[which].mood.away = true;
                self.tamper(which, |switch| {
                    let all: Vec<Patch> = switch.patches().collect();
                    switch.tamper(&all, &[]);
                });
                self.at(over, Event::SwitchWell(which));
            }
            Fault::Lockout => {
                self.lines[which].mood.locked = true;
                self.break_stream(which);
                self.at(over, Event::SwitchWell(which));
            }
            Fault::MirrorSticks => {
                let at = place.port + if self.chance.hit(500) { n } else { 0 };
                self.lines[which].server.switch_mut().stick(at, true);
                if !self.plan.forever {
                    self.at(over + lease, Event::Unstuck(which, at));
                }
            }
            Fault::CircuitDrops => {
                let at = place.port;
                let both = self.chance.hit(500);
                self.tamper(which, |switch| {
                    let there = switch.patch_of(at);
                    let back = switch.patch_of(n + at).filter(|_| both);
                    let gone: Vec<Patch> = there.into_iter().chain(back).collect();
                    switch.tamper(&gone, &[]);
                });
            }
            Fault::Tampering => {
                let any = |chance: &mut Chance| {
                    Patch::new(
                        chance.between(1, n.into()) as u16,
                        n + chance.between(1, n.into()) as u16,
                    )
                };
                let set: Vec<Patch> =
                    (0..self.chance.between(1, 3)).map(|_| any(&mut self.chance)).collect();
                self.tamper(which, |switch| switch.tamper(&[], &set));
            }
            Fault::TenantsJoined => {
                let ports = self.region.slice(which);
                let tenant =
                    |at: u16| self.region.port_at(which, at).map(|at| self.region.tenant(at.0));
                let a = self.chance.pick(&ports);
                let others: Vec<u16> =
                    ports.iter().copied().filter(|&b| tenant(b) != tenant(a)).collect();
                if others.is_empty() {
                    return;
                }
                let [there, back] = Patch::pair(n, a, self.chance.pick(&others));
                let set = if self.chance.hit(700) { vec![there, back] } else { vec![there] };
                self.tamper(which, |switch| switch.tamper(&[], &set));
            }
            Fault::Rival => {
                let mut ports = self.region.slice(which);
                self.chance.shuffle(&mut ports);
                let most = ports.len() as u64 / 2;
                if most == 0 {
                    return;
                }
                ports.truncate(2 * self.chance.between(1, most) as usize);
                let pair = |ends: &[u16]| Patch::pair(n, ends[0], ends[1]);
                let set: Vec<Patch> = ports.chunks_exact(2).flat_map(pair).collect();
                self.tamper(which, |switch| switch.tamper(&[], &set));
            }
            _ => unreachable!("faults of the switch alone"),
        }
    }
}
