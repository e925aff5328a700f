//! Light through an emulated switch: a crossbar in the kernel that goes where the switch's patches lead.

use crate::clock::Clock;
use crate::failure::Failure;
use crate::filter::failure;
use crate::show::say;
use lightloom_control::ocs::Switch;
use lightloom_tc::{Crossbar, Light};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The NICs at a switch's ports, and what was told to the kernel of them.
#[derive(Debug)]
pub(super) struct Mirrors {
    crossbar: Crossbar,
    clock: Clock,
    told: Vec<Light>,
}

impl Mirrors {
    /// Puts the crossbar between NICs, in the order of the switch's ports from 1; ports beyond have none.
    ///
    /// # Errors
    /// If there are more NICs than ports, or as [`Crossbar::attach`].
    pub fn attach(nics: &[String], at: &Path, ports: u16, clock: Clock) -> Result<Self, Failure> {
        if nics.len() > usize::from(ports) {
            let why = format!("--nic: {} NICs: the switch has {ports} ports", nics.len());
            return Err(Failure::Input(why));
        }
        let nics: Vec<&str> = nics.iter().map(String::as_str).collect();
        let crossbar = Crossbar::attach(&nics, at).map_err(failure)?;
        let told = vec![Light::default(); crossbar.ports()];
        Ok(Mirrors { crossbar, clock, told })
    }

    /// The switch may have changed: the kernel is told, before anybody else is.
    pub fn follow(&mut self, switch: &Switch) {
        let ports = switch.ports();
        let light = |port: u16| match switch.will_leave(port) {
            None => Light::default(),
            Some((egress, from)) => Light {
                egress: Some(egress - ports - 1),
                from_ns: if from.ps() == 0 { 0 } else { self.clock.boottime_ns(from) + 1 },
            },
        };
        let lights: Vec<Light> = (1..).take(self.told.len()).map(light).collect();
        if lights == self.told {
            return;
        }
        match self.crossbar.set(&lights) {
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
        for (port, passed) in (1..).zip(Crossbar::counts(&self.at).map_err(failure)?) {
            if self.json {
                say(&json!({
                    "port": port, "forwarded": passed.forwarded, "bytes": passed.bytes,
                    "dark": passed.dark, "dark_bare": passed.dark_bare,
                    "unconnected": passed.unconnected, "unconnected_bare": passed.unconnected_bare,
                })
                .to_string());
                continue;
            }
            let lost = [passed.dark, passed.dark_bare, passed.unconnected, passed.unconnected_bare];
            let [dark, dark_bare, open, open_bare] = lost;
            say(&format!(
                "port {port:>4}: {} frames of {} B forwarded; lost in the dark {dark} (and {dark_bare} \
                 without data), without a circuit {open} ({open_bare})",
                passed.forwarded, passed.bytes
            ));
        }
        Ok(())
    }
}
