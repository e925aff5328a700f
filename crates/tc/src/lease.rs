//! The filter of a server's optical NICs: nothing leaves after the lease's end.
//!
//! Modelled: a program at the egress of each NIC, which compares CLOCK_BOOTTIME with the time until which the
//! NIC's circuit may be used, and drops what is late. Who holds the lease (the agent) writes that time; if it
//! is frozen or dead, the filter closes by itself. It begins closed, and it stays when whoever attached it has
//! ended: programs and times are pinned in a directory of a file system of type `bpf`.
//! Ignored: where a frame goes. A frame that has passed may still wait in the NIC's queue: the region's
//! `timing.grace` must be longer than a full queue takes.
//! Checked: `tests/kernel.rs`: veth pairs, and all that arrives at the other end;
//! `tests/lease_bound.py --filter`, where everything around it is stopped and killed.
//!
//! ```no_run
//! use lightloom_tc::LeaseFilter;
//! use std::path::Path;
//! let at = Path::new("/sys/fs/bpf/lightloom-node-00");
//! let filter = LeaseFilter::attach(&["eth1", "eth2"], at)?;
//! filter.open_until(0, 12_000_000_000)?; // eth1, until 12 s after the computer started
//! let state = filter.state()?;
//! assert_eq!((state[0].nic.as_deref(), state[1].until_ns), (Some("eth1"), 0));
//! LeaseFilter::detach(at)?;
//! # Ok::<(), lightloom_tc::Error>(())
//! ```

use crate::assembler::Register::*;
use crate::assembler::{Assembler, Helper, When, Width};
use crate::bpf::{Error, Hook, Link, Map, Program, may_be_pinned};
use std::path::{Path, PathBuf};

/// No server has more optical NICs.
pub const MOST_NICS: usize = 64;

/// The next program or queue of the NIC goes on with the frame.
const NEXT: i32 = -1;
/// The frame is dropped.
const DROP: i32 = 2;

/// What was counted of a NIC: frames that passed, and frames that were refused.
const COUNTS: usize = 16;

/// The filter of one server's optical NICs, numbered as its ports are.
#[derive(Debug)]
pub struct LeaseFilter {
    /// By port: until when its circuit may be used, CLOCK_BOOTTIME \[ns\].
    leases: Map,
    counts: Map,
    links: Vec<Link>,
}

/// What a port's filter is at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortState {
    /// The NIC, unless it is gone or in another network namespace.
    pub nic: Option<String>,
    /// It is open until then: CLOCK_BOOTTIME \[ns\].
    pub until_ns: u64,
    /// Frames that left.
    pub passed: u64,
    /// Frames that were dropped.
    pub refused: u64,
}

impl LeaseFilter {
    /// Puts a closed filter on each NIC, in the order of the server's ports, and pins all in a new directory.
    ///
    /// # Errors
    /// If a NIC is missing, the directory is there already or not in a file system of type `bpf`, or rights are
    /// missing. Then nothing is attached.
    pub fn attach(nics: &[&str], at: &Path) -> Result<Self, Error> {
        let place = |why: String| Error::Place { place: at.display().to_string(), why };
        if nics.is_empty() || nics.len() > MOST_NICS {
            return Err(place(format!("{} NICs: a server has 1 to {MOST_NICS}", nics.len())));
        }
        may_be_pinned(at)?;
        std::fs::create_dir(at).map_err(|why| match why.kind() {
            std::io::ErrorKind::AlreadyExists => place("is there already: detach it first".into()),
            _ => place(why.to_string()),
        })?;
        let made = LeaseFilter::make(nics, at);
        if made.is_err() {
            let _ = LeaseFilter::detach(at); // what is wrong is told already
        }
        made
    }

    fn make(nics: &[&str], at: &Path) -> Result<Self, Error> {
        let ports = nics.len() as u32;
        let leases = Map::array("leases", 8, ports)?;
        let counts = Map::array("counts", COUNTS, ports)?;
        leases.pin(&at.join("leases"))?;
        counts.pin(&at.join("counts"))?;
        let links = nics.iter().zip(0..).map(|(nic, port)| {
            let link = Program::classifier("lease", &program(port, &leases, &counts))?
                .attach(nic, Hook::Egress)?;
            link.pin(&port_at(at, port)).map(|()| link)
        });
        let links = links.collect::<Result<_, _>>()?;
        Ok(LeaseFilter { leases, counts, links })
    }

    /// Opens one that was attached.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(at: &Path) -> Result<Self, Error> {
        let leases = Map::pinned(&at.join("leases"), 8)?;
        let counts = Map::pinned(&at.join("counts"), COUNTS)?;
        let links = (0..leases.entries()).map(|port| Link::pinned(&port_at(at, port)));
        let links = links.collect::<Result<_, _>>()?;
        Ok(LeaseFilter { leases, counts, links })
    }

    /// Takes the filter away, what is left of it: then all leaves. Nothing is done where nothing is.
    ///
    /// # Errors
    /// If pins cannot be removed.
    pub fn detach(at: &Path) -> Result<(), Error> {
        let wrong = |path: &Path, why: std::io::Error| Error::Place {
            place: path.display().to_string(),
            why: why.to_string(),
        };
        let entries = match std::fs::read_dir(at) {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(|why| wrong(at, why))?,
        };
        for entry in entries {
            let path = entry.map_err(|why| wrong(at, why))?.path();
            let ours = path.file_name().and_then(|name| name.to_str()).is_some_and(is_pin);
            if !ours {
                let why = std::io::Error::other("is not of a filter: nothing more is removed");
                return Err(wrong(&path, why));
            }
            std::fs::remove_file(&path).map_err(|why| wrong(&path, why))?;
        }
        std::fs::remove_dir(at).map_err(|why| wrong(at, why))
    }

    /// How many ports it has.
    pub fn ports(&self) -> usize {
        self.links.len()
    }

    /// What a port sends leaves until then, and no longer: CLOCK_BOOTTIME \[ns\], 0 to close it.
    ///
    /// # Errors
    /// If there is no such port.
    pub fn open_until(&self, port: u16, until_ns: u64) -> Result<(), Error> {
        self.leases.set(u32::from(port), &until_ns.to_ne_bytes())
    }

    /// What each port is at.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn state(&self) -> Result<Vec<PortState>, Error> {
        let word = |bytes: &[u8], at: usize| {
            let word = bytes.get(8 * at..8 * at + 8).and_then(|word| word.try_into().ok());
            word.map_or(0, u64::from_ne_bytes)
        };
        let state = self.links.iter().zip(0..).map(|(link, port)| {
            let (lease, counts) = (self.leases.get(port)?, self.counts.get(port)?);
            Ok(PortState {
                nic: link.nic()?,
                until_ns: word(&lease, 0),
                passed: word(&counts, 0),
                refused: word(&counts, 1),
            })
        });
        state.collect()
    }
}

fn port_at(at: &Path, port: u32) -> PathBuf {
    at.join(format!("port-{port}"))
}

fn is_pin(name: &str) -> bool {
    let port = name.strip_prefix("port-").is_some_and(|port| port.parse::<u16>().is_ok());
    port || name == "leases" || name == "counts"
}

/// Drops what comes when the port's lease has ended, and counts.
fn program(port: u32, leases: &Map, counts: &Map) -> Vec<u8> {
    let mut code = Assembler::new();
    let (refuse, count, end) = (code.label(), code.label(), code.label());
    // Which entry, on the stack, for both maps.
    code.store(Width::Word, R10, -4, port as i32);
    code.map(R1, leases);
    code.copy(R2, R10);
    code.add(R2, -4);
    code.call(Helper::MapLookup);
    code.set(R6, DROP);
    code.jump_if_value(R0, When::Equal, 0, end);
    code.load(Width::Double, R7, R0, 0);
    code.call(Helper::BootTime);
    code.copy(R8, R0);
    code.map(R1, counts);
    code.copy(R2, R10);
    code.add(R2, -4);
    code.call(Helper::MapLookup);
    code.jump_if_value(R0, When::Equal, 0, end);
    code.set(R1, 1);
    code.jump_if(R8, When::Less, R7, count);
    code.jump(refuse);
    code.place(count);
    code.count(R0, 0, R1);
    code.set(R6, NEXT);
    code.jump(end);
    code.place(refuse);
    code.count(R0, 8, R1);
    code.place(end);
    code.copy(R0, R6);
    code.exit();
    code.assemble()
}
