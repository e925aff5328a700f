//! Light through an emulated switch: a crossbar that leads where the switch's patches do.

use crate::clock::Clock;
use crate::failure::Failure;
use crate::filter::failure;
use crate::show::say;
use lightloom_control::ocs::Switch;
use lightloom_tc::{BpfCrossbar, Crossbar, Light, MirredCrossbar};
use lightloom_units::Time;
use serde_json::json;
use std::path::PathBuf;

/// What carries frames through an emulated switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum CrossbarKind {
    /// Programs in the kernel: dark to the microsecond. Needs Linux 6.6 and root
    #[default]
    Bpf,
    /// The kernel's redirections: needs rights in the network namespace alone; what is lost without data is not
    /// told apart
    Mirred,
}

/// The NICs at the ports of an emulated switch.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// What carries frames.
    pub crossbar: CrossbarKind,
    /// In the order of the switch's ports from 1; ports beyond have none.
    pub nics: Vec<String>,
    /// How long they take to become active once they have light.
    pub activation: Time,
    /// Where what goes through is counted.
    pub counts: PathBuf,
}

impl Wiring {
    fn attach(&self) -> Result<Box<dyn Crossbar>, lightloom_tc::Error> {
        let nics: Vec<&str> = self.nics.iter().map(String::as_str).collect();
        Ok(match self.crossbar {
            CrossbarKind::Bpf => Box::new(BpfCrossbar::attach(&nics, &self.counts)?),
            CrossbarKind::Mirred => Box::new(MirredCrossbar::attach(&nics, &self.counts)?),
        })
    }
}

/// The crossbar at a switch's ports, and what it was told.
#[derive(Debug)]
pub(super) struct Mirrors {
    crossbar: Box<dyn Crossbar>,
    clock: Clock,
    /// From light until frames pass.
    activation: Time,
    told: Vec<Light>,
}

impl Mirrors {
    /// Puts a crossbar between NICs.
    ///
    /// # Errors
    /// If there are more NICs than ports, or as [`BpfCrossbar::attach`].
    pub fn attach(wiring: &Wiring, ports: u16, clock: Clock) -> Result<Self, Failure> {
        if wiring.nics.len() > usize::from(ports) {
            let why = format!("--nic: {} NICs: the switch has {ports} ports", wiring.nics.len());
            return Err(Failure::Input(why));
        }
        Ok(Mirrors::new(wiring.attach().map_err(failure)?, clock, wiring.activation))
    }

    fn new(crossbar: Box<dyn Crossbar>, clock: Clock, activation: Time) -> Self {
        let told = vec![Light::default(); crossbar.ports()];
        Mirrors { crossbar, clock, activation, told }
    }

    /// When to `follow` again, though the switch has not changed.
    pub fn next_timeout(&self) -> Option<Time> {
        self.crossbar.due_ns().map(|due| self.clock.time(due))
    }

    /// The switch may have changed, or light may have come: the crossbar is told, before anybody else is.
    pub fn follow(&mut self, switch: &Switch, now: Time) {
        let ports = switch.ports();
        let light = |port: u16| match switch.will_leave(port) {
            None => Light::default(),
            Some((egress, from)) => Light {
                egress: Some(egress - ports - 1),
                from_ns: match from.ps() {
                    0 => 0, // it stood before the emulator began
                    _ => self.clock.boottime_ns(from.saturating_add(self.activation)) + 1,
                },
            },
        };
        let lights: Vec<Light> = (1..).take(self.told.len()).map(light).collect();
        let now_ns = self.clock.boottime_ns(now);
        if lights == self.told && self.crossbar.due_ns().is_none_or(|due| now_ns < due) {
            return;
        }
        match self.crossbar.set(&lights, now_ns) {
            Ok(()) => self.told = lights,
            Err(why) => tracing::error!(%why, "the crossbar does not follow"),
        }
    }
}

/// What went through an emulated switch, by port
#[derive(Clone, Debug, clap::Args)]
pub struct CountsArguments {
    /// As `ocs serve --counts`
    at: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl CountsArguments {
    /// Prints it.
    ///
    /// # Errors
    /// If no switch has left counts there.
    pub fn run(&self) -> Result<(), Failure> {
        for (port, passed) in (1..).zip(lightloom_tc::counts(&self.at).map_err(failure)?) {
            if self.json {
                say(&json!({
                    "port": port, "forwarded": passed.forwarded, "bytes": passed.bytes,
                    "dark": passed.dark, "dark_bare": passed.dark_bare,
                    "unconnected": passed.unconnected, "unconnected_bare": passed.unconnected_bare,
                })
                .to_string());
                continue;
            }
            let bare = |frames: Option<u64>| match frames {
                Some(frames) => format!(" (and {frames} without data)"),
                None => String::new(),
            };
            say(&format!(
                "port {port:>4}: {} frames of {} B forwarded; lost in the dark {}{}, without a circuit {}{}",
                passed.forwarded,
                passed.bytes,
                passed.dark,
                bare(passed.dark_bare),
                passed.unconnected,
                bare(passed.unconnected_bare),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Crossbar, Light, Mirrors, Time};
    use lightloom_control::Patch;
    use lightloom_control::ocs::{Device, Switch};
    use lightloom_fabric::ReconfigurationDelay;
    use lightloom_tc::{Error, MemoryCrossbar};
    use std::sync::{Arc, Mutex};

    /// One that the test looks at while mirrors hold it.
    #[derive(Clone, Debug)]
    struct Seen(Arc<Mutex<MemoryCrossbar>>);

    impl Seen {
        fn leads(&self) -> Vec<Option<u16>> {
            let crossbar = self.0.lock().expect("no test panics with it");
            (0..3).map(|port| crossbar.leads(port)).collect()
        }
    }

    impl Crossbar for Seen {
        fn ports(&self) -> usize {
            self.0.lock().expect("no test panics with it").ports()
        }
        fn set(&mut self, lights: &[Light], now_ns: u64) -> Result<(), Error> {
            self.0.lock().expect("no test panics with it").set(lights, now_ns)
        }
        fn due_ns(&self) -> Option<u64> {
            self.0.lock().expect("no test panics with it").due_ns()
        }
    }

    #[test]
    fn a_crossbar_without_a_clock_is_called_when_light_comes() {
        let seen = Seen(Arc::new(Mutex::new(MemoryCrossbar::new(3))));
        let mut mirrors = Mirrors::new(Box::new(seen.clone()), Clock::start(), Time::ZERO);
        let ms = |ms: u64| Time::from_ps(ms * 1_000_000_000);
        let delay = ReconfigurationDelay::Fixed { ps: ms(25) };
        let device = Device { name: "test".into(), ports: 3, delay };
        let mut switch = Switch::new(device, 1).expect("three ports");
        let [there, back, away] = [Patch::new(1, 5), Patch::new(2, 4), Patch::new(1, 6)];
        switch.apply(ms(10), &[], &[there, back]).expect("free ports");
        mirrors.follow(&switch, ms(10));
        assert_eq!(seen.leads(), [None, None, None], "mirrors move");
        let due = mirrors.next_timeout().expect("light comes");
        assert!(ms(35) <= due && due < ms(36), "{due:?}");
        mirrors.follow(&switch, due);
        assert_eq!(seen.leads(), [Some(1), Some(0), None]);
        assert_eq!(mirrors.next_timeout(), None);
        switch.apply(ms(50), &[there], &[away]).expect("a port that is free");
        mirrors.follow(&switch, ms(50));
        assert_eq!(seen.leads(), [None, Some(0), None], "the other direction stands");
        mirrors.follow(&switch, ms(80));
        assert_eq!(seen.leads(), [Some(2), Some(0), None]);
    }

    #[test]
    fn nics_become_active_after_their_light_and_those_of_other_ports_stay_so() {
        let seen = Seen(Arc::new(Mutex::new(MemoryCrossbar::new(3))));
        let ms = |ms: u64| Time::from_ps(ms * 1_000_000_000);
        let mut mirrors = Mirrors::new(Box::new(seen.clone()), Clock::start(), ms(500));
        let delay = ReconfigurationDelay::Fixed { ps: ms(25) };
        let device = Device { name: "test".into(), ports: 3, delay };
        let mut switch = Switch::new(device, 1).expect("three ports");
        let [there, back, other] = [Patch::new(1, 5), Patch::new(2, 4), Patch::new(3, 6)];
        let done = switch.apply(ms(10), &[], &[there, back]).expect("free ports");
        assert_eq!(done, ms(35), "the switch knows nothing of NICs");
        mirrors.follow(&switch, ms(35));
        assert_eq!(seen.leads(), [None, None, None], "there is light, and no NIC is active");
        mirrors.follow(&switch, ms(534));
        assert_eq!(seen.leads(), [None, None, None]);
        let due = mirrors.next_timeout().expect("NICs become active");
        assert!(ms(535) <= due && due < ms(536), "{due:?}");
        mirrors.follow(&switch, due);
        assert_eq!(seen.leads(), [Some(1), Some(0), None]);
        switch.apply(ms(600), &[], &[other]).expect("a free port");
        mirrors.follow(&switch, ms(630));
        assert_eq!(seen.leads(), [Some(1), Some(0), None], "the others are active");
        mirrors.follow(&switch, ms(1126));
        assert_eq!(seen.leads(), [Some(1), Some(0), Some(2)]);
    }
}
