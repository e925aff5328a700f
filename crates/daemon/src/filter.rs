//! `lightloomd filter`: the filter of a server's optical NICs is attached, shown and taken away.
//!
//! Whoever may attach it (root) does so once, when the server starts; its agent writes the lease's end into it
//! (`agent serve --filter`). A filter that an agent opens is [`Filter`].
//! Checked: `tests/test_lease_filter.py`, with veth pairs and what arrives at their other ends.

use crate::clock::{Clock, boottime_ns};
use crate::failure::Failure;
use crate::show::say;
use lightloom_control::Agent;
use lightloom_tc::{Error, LeaseFilter};
use serde_json::json;
use std::path::PathBuf;

/// The filter of a server's optical NICs: nothing leaves after the lease's end
#[derive(Clone, Debug, clap::Subcommand)]
pub enum FilterArguments {
    /// Put a closed filter on each NIC
    Attach {
        /// A new directory in a file system of type bpf, such as /sys/fs/bpf/lightloom
        at: PathBuf,
        /// An optical NIC of this network namespace; in the order of the server's ports
        #[arg(long = "nic", value_name = "NIC", required = true)]
        nics: Vec<String>,
    },
    /// Take the filter away: all leaves
    Detach {
        /// Where it was attached
        at: PathBuf,
    },
    /// Show until when each NIC is open, and how many frames passed and were refused
    Show {
        /// Where it was attached
        at: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl FilterArguments {
    /// Does it.
    ///
    /// # Errors
    /// As [`LeaseFilter`] has them.
    pub fn run(&self) -> Result<(), Failure> {
        match self {
            FilterArguments::Attach { at, nics } => {
                let nics: Vec<&str> = nics.iter().map(String::as_str).collect();
                LeaseFilter::attach(&nics, at).map(drop).map_err(failure)
            }
            FilterArguments::Detach { at } => LeaseFilter::detach(at).map_err(failure),
            FilterArguments::Show { at, json } => {
                show(&LeaseFilter::open(at).map_err(failure)?, *json)
            }
        }
    }
}

/// What was asked makes no sense here, or could not be done.
pub(crate) fn failure(error: Error) -> Failure {
    match error {
        Error::NoNic(_) | Error::Place { .. } => Failure::Input(error.to_string()),
        Error::Kernel { .. } => Failure::Run(error.to_string()),
    }
}

fn show(filter: &LeaseFilter, json: bool) -> Result<(), Failure> {
    let (now, state) = (boottime_ns(), filter.state().map_err(failure)?);
    for (port, state) in state.iter().enumerate() {
        let left_ns = state.until_ns.saturating_sub(now);
        if json {
            say(&json!({
                "port": port, "nic": state.nic, "until_ns": state.until_ns, "open": left_ns > 0,
                "passed": state.passed, "refused": state.refused,
            })
            .to_string());
            continue;
        }
        let open = match left_ns {
            0 => "closed".into(),
            left => format!("open for {:.3} s", left as f64 * 1e-9),
        };
        let nic = state.nic.as_deref().unwrap_or("(gone)");
        let (passed, refused) = (state.passed, state.refused);
        say(&format!("{port:>2} {nic:<15} {open:<18} {passed} passed, {refused} refused"));
    }
    Ok(())
}

/// A filter, as an agent keeps it.
#[derive(Debug)]
pub struct Filter {
    filter: LeaseFilter,
    /// What was written last.
    written: Vec<Option<u64>>,
}

impl Filter {
    /// Opens the filter that was attached there.
    ///
    /// # Errors
    /// If there is none, or this process may not.
    pub fn open(at: &std::path::Path) -> Result<Self, Failure> {
        let filter = LeaseFilter::open(at).map_err(failure)?;
        let written = vec![None; filter.ports()];
        Ok(Filter { filter, written })
    }

    /// Writes until when NICs may let frames out, where that has changed.
    ///
    /// # Errors
    /// If the region has another number of ports, or the filter is gone.
    pub(crate) fn follow(&mut self, agent: &Agent, clock: &Clock) -> Result<(), String> {
        let Some(open) = agent.open() else { return Ok(()) };
        if open.len() != self.written.len() {
            let (filter, region) = (self.written.len(), open.len());
            return Err(format!("the filter is of {filter} NICs, and a server has {region} ports"));
        }
        for ((port, open), written) in (0..).zip(open).zip(&mut self.written) {
            let until_ns = open.circuit.map_or(0, |_| clock.boottime_ns(open.until));
            if *written != Some(until_ns) {
                self.filter
                    .open_until(port, until_ns)
                    .map_err(|why| format!("the filter: {why}"))?;
                *written = Some(until_ns);
            }
        }
        Ok(())
    }
}
