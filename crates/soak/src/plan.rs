//! What goes wrong in a scenario, and how often.

use crate::chance::Chance;
use lightloom_units::Time;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    ControllerCrash,
    ControllerStops,
    JournalLost,
    JournalCut,
    OldBackup,
    AgentCrash,
    Freeze,
    ServerFreezes,
    RuntimeFreezes,
    RuntimeDeaf,
    RuntimeCrash,
    LinesLate,
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
    TenantsJoined,
    Rival,
    Operator,
    Lies,
    Storm,
}

/// What a journal loses when its controller crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Nothing,
    /// All of it.
    Whole,
    /// The last records: the disk had not kept what it said that it had, or the file was cut.
    Tail,
    /// All since some time.
    SinceBackup,
}

/// What comes between a controller and what it is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    Crash(Loss),
    /// It is stopped for so long.
    Pause(Time),
}

/// How the numbers of an agent's lives go on: they are names, and order nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lives {
    Rise,
    Fall,
    /// At random, as the daemon draws them.
    Drawn,
}

/// Every kind, its name in summaries, and how often of a thousand seeds have it.
const KINDS: [(Fault, &str, u64); 29] = [
    (Fault::ControllerCrash, "controller crashed", 500),
    (Fault::ControllerStops, "controller stopped", 250),
    (Fault::JournalLost, "journal lost", 120),
    (Fault::JournalCut, "journal cut", 120),
    (Fault::OldBackup, "old backup restored", 60),
    (Fault::AgentCrash, "agent crashed", 300),
    (Fault::Freeze, "agent frozen", 300),
    (Fault::ServerFreezes, "server frozen", 200),
    (Fault::RuntimeFreezes, "runtime frozen", 200),
    (Fault::RuntimeDeaf, "runtime does not read", 200),
    (Fault::RuntimeCrash, "runtime crashed", 200),
    (Fault::LinesLate, "agent's lines late", 200),
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
    (Fault::TenantsJoined, "tenants joined by another hand", 100),
    (Fault::Rival, "another controller at the switch", 80),
    (Fault::Operator, "operator at work", 200),
    (Fault::Lies, "server's agent lied", 150),
    (Fault::Storm, "messages lost in a storm", 250),
];

/// How often each kind strikes in this scenario, and what messages suffer at all times.
#[derive(Clone, Debug)]
pub(crate) struct FaultPlan {
    /// Kind, name, mean time between two.
    pub kinds: Vec<(Fault, &'static str, Time)>,
    pub network: Network,
    /// Mean delay of a line between an agent and its data plane.
    pub lag: Time,
    pub lives: Lives,
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

impl FaultPlan {
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
        let lag = Time::from_us(chance.pick(&[20, 1_000, 20_000]));
        let lives = chance.pick(&[Lives::Rise, Lives::Fall, Lives::Drawn]);
        FaultPlan { kinds, network, lag, lives, forever: chance.hit(100) }
    }
}
