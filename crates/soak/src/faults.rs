//! What goes wrong, and how often.

use crate::chance::Chance;
use crate::world::{Event, World};
use lightloom_control::{Input, Part, Patch, PortId};
use lightloom_units::Time;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    ControllerCrash,
    JournalLost,
    AgentCrash,
    Freeze,
    Partition,
    SlowDrain,
    PartFails,
    StreamBreaks,
    SwitchSlow,
    SwitchSilent,
    SwitchDenies,
    SwitchReboots,
    Lockout,
    MirrorSticks,
    CircuitDrops,
    Tampering,
    Operator,
    Storm,
}

/// Every kind, its name in summaries, and how often of a thousand seeds have it.
const KINDS: [(Fault, &str, u64); 18] = [
    (Fault::ControllerCrash, "controller crashed", 500),
    (Fault::JournalLost, "journal lost", 120),
    (Fault::AgentCrash, "agent crashed", 300),
    (Fault::Freeze, "agent frozen", 300),
    (Fault::Partition, "servers cut off", 400),
    (Fault::SlowDrain, "slow to drain", 200),
    (Fault::PartFails, "part failed", 300),
    (Fault::StreamBreaks, "stream broken", 400),
    (Fault::SwitchSlow, "switch slow", 250),
    (Fault::SwitchSilent, "switch silent", 250),
    (Fault::SwitchDenies, "switch denied what it did", 200),
    (Fault::SwitchReboots, "switch rebooted", 120),
    (Fault::Lockout, "login refused", 120),
    (Fault::MirrorSticks, "mirror stuck", 250),
    (Fault::CircuitDrops, "circuit dropped", 200),
    (Fault::Tampering, "switch tampered with", 120),
    (Fault::Operator, "operator at work", 200),
    (Fault::Storm, "messages lost in a storm", 250),
];

/// How often each kind strikes in this scenario, and what messages suffer at all times.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Kind, name, mean time between two.
    pub kinds: Vec<(Fault, &'static str, Time)>,
    pub network: Network,
    /// What sticks stays so, what fails stays failed.
    pub forever: bool,
}

/// What happens to messages between agents and controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    /// Of a thousand.
    pub lost: u64,
    pub doubled: u64,
    /// Mean delay; some come much later.
    pub delay: Time,
    pub late: u64,
}

impl Network {
    /// When nothing is wrong.
    pub const FINE: Network = Network { lost: 0, doubled: 0, delay: Time::from_us(200), late: 0 };
}

impl Plan {
    pub fn draw(chance: &mut Chance) -> Self {
        let busy = chance.pick(&[300, 700, 1000, 1500]);
        let kinds = KINDS.iter().filter_map(|&(fault, name, often)| {
            let mean = chance.pick(&[700, 2_000, 6_000]);
            chance.hit(often * busy / 1000).then_some((fault, name, Time::from_ms(mean)))
        });
        let kinds = kinds.collect();
        let network = Network {
            lost: chance.pick(&[0, 0, 10, 100, 300]),
            doubled: chance.pick(&[0, 10, 200]),
            delay: Time::from_us(chance.pick(&[50, 1_000, 20_000])),
            late: chance.pick(&[0, 5, 50, 200]),
        };
        Plan { kinds, network, forever: chance.hit(100) }
    }
}

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
            Fault::ControllerCrash if self.chance.hit(400) => self.ambush = Some(Event::Crash),
            // It comes to pass at one of the next things that the controller wants done.
            Fault::ControllerCrash => self.crash_after = Some((self.chance.below(8), false)),
            Fault::JournalLost => self.crash_after = Some((self.chance.below(8), true)),
            Fault::AgentCrash => {
                self.nodes[node].agent = None;
                self.nodes[node].mail.clear();
                let soon = self.now + self.chance.ms(0, 20);
                let when = if self.chance.hit(500) { soon } else { over };
                self.at(when, Event::AgentStarts(server));
            }
            Fault::Freeze => {
                self.nodes[node].frozen = true;
                self.at(over, Event::Thaw(server));
            }
            Fault::Partition => {
                for other in 0..self.nodes.len() {
                    self.nodes[other].cut |= other == node || self.chance.hit(300);
                }
                let whole = self.chance.between(1, 4);
                self.at(over + Time::from_ps(lease.ps() * whole / 2), Event::Joined);
            }
            Fault::SlowDrain => {
                self.nodes[node].slow = true;
                self.at(over + lease, Event::DrainsWell(server));
            }
            Fault::PartFails => {
                let parts = [Part::Nic(port), Part::Link(port), Part::Gpu(port), Part::Server];
                let part = self.chance.pick(&parts);
                self.part(server, part, false);
                if !self.plan.forever {
                    self.at(over + lease, Event::PartMended(server, part));
                }
            }
            Fault::StreamBreaks if self.chance.hit(600) => self.ambush = Some(Event::BreakStream),
            Fault::StreamBreaks => self.break_stream(),
            Fault::SwitchSlow => {
                self.line.mood.slow =
                    self.chance.up_to(Time::from_ps(2 * self.settings.patience.ps()));
                self.at(over, Event::SwitchWell);
            }
            Fault::SwitchSilent => {
                self.line.mood.silent = true;
                self.at(over, Event::SwitchWell);
            }
            Fault::SwitchDenies => {
                self.line.mood.denies = true;
                self.at(over, Event::SwitchWell);
            }
            Fault::SwitchReboots => {
                self.break_stream();
                self.line.mood.away = true;
                self.tamper(|switch| {
                    let all: Vec<Patch> = switch.patches().collect();
                    switch.tamper(&all, &[]);
                });
                self.at(over, Event::SwitchWell);
            }
            Fault::Lockout => {
                self.line.mood.locked = true;
                self.break_stream();
                self.at(over, Event::SwitchWell);
            }
            Fault::MirrorSticks => {
                let n = self.region.switch_ports();
                let at = self.region.switch_port((server, port))
                    + if self.chance.hit(500) { n } else { 0 };
                self.line.server.switch_mut().stick(at, true);
                if !self.plan.forever {
                    self.at(over + lease, Event::Unstuck(at));
                }
            }
            Fault::CircuitDrops => {
                let n = self.region.switch_ports();
                let at = self.region.switch_port((server, port));
                let both = self.chance.hit(500);
                self.tamper(|switch| {
                    let there = switch.patch_of(at);
                    let back = switch.patch_of(n + at).filter(|_| both);
                    let gone: Vec<Patch> = there.into_iter().chain(back).collect();
                    switch.tamper(&gone, &[]);
                });
            }
            Fault::Tampering => {
                let n = self.region.switch_ports();
                let any = |chance: &mut Chance| {
                    Patch::new(
                        chance.between(1, n.into()) as u16,
                        n + chance.between(1, n.into()) as u16,
                    )
                };
                let set: Vec<Patch> =
                    (0..self.chance.between(1, 3)).map(|_| any(&mut self.chance)).collect();
                self.tamper(|switch| switch.tamper(&[], &set));
            }
            Fault::Operator => {
                let all: Vec<PortId> = self.region.ports().collect();
                let some = vec![self.chance.pick(&all)];
                let inputs = [
                    Input::Audit,
                    Input::Mended { ports: Vec::new() },
                    Input::Mended { ports: some },
                ];
                let which = self.chance.below(3) as usize;
                self.input(inputs[which].clone());
            }
            Fault::Storm => {
                self.network.lost = self.chance.between(200, 1000);
                self.at(over, Event::StormOver);
            }
        }
    }
}
