//! A crossbar of programs in the kernel.
//!
//! Modelled: a program at the ingress of each port's NIC looks up where the port's circuit leads, and from when
//! there is light, by CLOCK_BOOTTIME; before that, and without a circuit, the frame is lost, as light is. Circuits
//! are written for the plan that is not in force, and then that comes into force at once, for both directions of all
//! circuits. What is lost is counted, frames that carry data apart from bare acknowledgements (TCP without payload)
//! and the like.
//! Ignored: what [`crate::crossbar`] ignores.
//! The crossbar is there while the process is that made it; only its counts can be read by others.
//! Checked: `tests/test_crossbar.py`, with veth pairs and an emulated switch that is told by TL1.
//!
//! ```no_run
//! use lightloom_tc::{BpfCrossbar, Crossbar, Light};
//! use std::path::Path;
//! let mut crossbar = BpfCrossbar::attach(&["port1", "port2"], Path::new("/sys/fs/bpf/ocs"))?;
//! let lit = |egress| Light { egress: Some(egress), from_ns: 12_000_000_000 };
//! crossbar.set(&[lit(1), lit(0)], 0)?; // both ways, from 12 s after the computer started
//! let passed = BpfCrossbar::counts(Path::new("/sys/fs/bpf/ocs"))?;
//! assert_eq!(passed.len(), 2);
//! # Ok::<(), lightloom_tc::Error>(())
//! ```

use crate::assembler::Register::*;
use crate::assembler::{Assembler, Helper, When, Width};
use crate::bpf::{Error, Hook, Link, Map, Program, may_be_pinned, number_of};
use crate::crossbar::{Crossbar, Light, MOST_PORTS, Passed};
use std::path::Path;

/// The frame is dropped.
const DROP: i32 = 2;
/// Of an entry of a plan: the NIC's number, 4 bytes that nobody reads, from when there is light.
const CIRCUIT: usize = 16;
/// What is counted of a port, 8 bytes each, in the order of [`Passed`].
const COUNTS: usize = 48;
const FORWARDED: i16 = 0;
const BYTES: i16 = 8;
const DARK: i16 = 16;
const OPEN: i16 = 32;

/// A switch of which this process holds the mirrors.
#[derive(Debug)]
pub struct BpfCrossbar {
    /// Which half of `circuits` is in force.
    plan: Map,
    circuits: Map,
    in_force: u32,
    /// By port: its NIC's number.
    nics: Vec<u32>,
    _links: Vec<Link>,
}

impl BpfCrossbar {
    /// Puts a dark crossbar between NICs of this network namespace, in the order of the switch's ports. What is
    /// counted is pinned as `at`, in place of what an earlier one has left there.
    ///
    /// # Errors
    /// If a NIC is missing, `at` is not in a file system of type `bpf`, or rights are missing.
    pub fn attach(nics: &[&str], at: &Path) -> Result<Self, Error> {
        let place = |why: String| Error::Place { place: at.display().to_string(), why };
        if nics.is_empty() || nics.len() > MOST_PORTS {
            return Err(place(format!("{} NICs: a switch has 1 to {MOST_PORTS}", nics.len())));
        }
        may_be_pinned(at)?;
        let ports = nics.len() as u32;
        let numbers = nics.iter().map(|nic| number_of(nic)).collect::<Result<Vec<_>, _>>()?;
        let (plan, circuits) =
            (Map::array("plan", 4, 1)?, Map::array("circuits", CIRCUIT, 2 * ports)?);
        let counts = Map::array("counts", COUNTS, ports)?;
        match std::fs::remove_file(at) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
                return Err(place(why.to_string()));
            }
            _ => counts.pin(at)?,
        }
        let links = nics.iter().zip(0..).map(|(nic, port)| {
            let code = program(port, ports, [&plan, &circuits, &counts]);
            Program::classifier("crossbar", &code)?.attach(nic, Hook::Ingress)
        });
        let _links = links.collect::<Result<_, _>>()?;
        Ok(BpfCrossbar { plan, circuits, in_force: 0, nics: numbers, _links })
    }

    /// What became of frames, by port.
    ///
    /// # Errors
    /// If no crossbar's counts are pinned there.
    pub fn counts(at: &Path) -> Result<Vec<Passed>, Error> {
        let counts = Map::pinned(at, COUNTS)?;
        (0..counts.entries()).map(|port| Ok(passed(&counts.get(port)?))).collect()
    }
}

impl Crossbar for BpfCrossbar {
    fn ports(&self) -> usize {
        self.nics.len()
    }

    /// All at once.
    fn set(&mut self, lights: &[Light], _now_ns: u64) -> Result<(), Error> {
        assert_eq!(lights.len(), self.nics.len());
        let next = 1 - self.in_force;
        for (port, light) in (0..).zip(lights) {
            let to = light.egress.and_then(|egress| self.nics.get(usize::from(egress)));
            let mut entry = [0; CIRCUIT];
            entry[..4].copy_from_slice(&to.map_or(0, |nic| *nic).to_ne_bytes());
            entry[8..].copy_from_slice(&light.from_ns.to_ne_bytes());
            self.circuits.set(next * self.nics.len() as u32 + port, &entry)?;
        }
        self.plan.set(0, &next.to_ne_bytes())?;
        self.in_force = next;
        Ok(())
    }

    fn due_ns(&self) -> Option<u64> {
        None
    }
}

fn passed(bytes: &[u8]) -> Passed {
    let mut words = bytes.chunks_exact(8).map(|word| {
        word.try_into().map_or(0, u64::from_ne_bytes) // eight bytes are eight bytes
    });
    let mut next = || words.next().unwrap_or(0);
    Passed {
        forwarded: next(),
        bytes: next(),
        dark: next(),
        dark_bare: Some(next()),
        unconnected: next(),
        unconnected_bare: Some(next()),
    }
}

/// Sends what comes in at `port` where the plan in force says, or counts it as lost.
fn program(port: u32, ports: u32, [plan, circuits, counts]: [&Map; 3]) -> Vec<u8> {
    let mut code = Assembler::new();
    let [lose, dark, unconnected] = [(); 3].map(|()| code.label());
    code.copy(R6, R1); // the frame
    code.store(Width::Word, R10, -4, 0);
    look_up(&mut code, plan);
    code.jump_if_value(R0, When::Equal, 0, lose);
    code.load(Width::Word, R1, R0, 0);
    code.and(R1, 1);
    code.times(R1, ports as i32);
    code.add(R1, port as i32);
    code.store_register(Width::Word, R10, -4, R1);
    look_up(&mut code, circuits);
    code.jump_if_value(R0, When::Equal, 0, lose);
    code.load(Width::Word, R7, R0, 0); // the NIC
    code.load(Width::Double, R8, R0, 8); // from when there is light
    code.store(Width::Word, R10, -4, port as i32); // for what is counted
    code.jump_if_value(R7, When::Equal, 0, unconnected);
    code.call(Helper::BootTime);
    code.jump_if(R0, When::Less, R8, dark);
    look_up(&mut code, counts);
    code.jump_if_value(R0, When::Equal, 0, lose);
    code.set(R1, 1);
    code.count(R0, FORWARDED, R1);
    code.load(Width::Word, R1, R6, 0); // its length
    code.count(R0, BYTES, R1);
    code.copy(R1, R7);
    code.set(R2, 0);
    code.call(Helper::Redirect);
    code.exit();
    for (label, offset) in [(dark, DARK), (unconnected, OPEN)] {
        code.place(label);
        count_lost(&mut code, counts, offset, lose);
        code.jump(lose);
    }
    code.place(lose);
    code.set(R0, DROP);
    code.exit();
    code.assemble()
}

/// R0 is the entry whose number is on the stack.
fn look_up(code: &mut Assembler, map: &Map) {
    code.map(R1, map);
    code.copy(R2, R10);
    code.add(R2, -4);
    code.call(Helper::MapLookup);
}

/// Counts a frame at `offset` if it carries data, else 8 bytes behind.
fn count_lost(code: &mut Assembler, counts: &Map, offset: i16, lose: crate::assembler::Label) {
    let [bare, data, count] = [(); 3].map(|()| code.label());
    // The last bytes of the Ethernet header, and the first of the IPv4 header, to the stack.
    load_bytes(code, |code| code.set(R2, 12), -40, 22);
    code.jump_if_value(R0, When::Unequal, 0, bare);
    for (at, is) in [(-40, 0x08), (-39, 0x00)] {
        code.load(Width::Byte, R1, R10, at);
        code.jump_if_value(R1, When::Unequal, is, bare); // not IPv4
    }
    code.load(Width::Byte, R1, R10, -29);
    code.jump_if_value(R1, When::Unequal, 6, data); // not TCP
    code.load(Width::Byte, R9, R10, -38);
    code.and(R9, 15);
    code.times(R9, 4); // the IPv4 header
    code.load(Width::Byte, R8, R10, -36);
    code.times(R8, 256);
    code.load(Width::Byte, R1, R10, -35);
    code.add_register(R8, R1);
    code.subtract(R8, R9); // what is behind it
    code.add(R9, 14 + 12);
    load_bytes(code, |code| code.copy(R2, R9), -40, 1);
    code.jump_if_value(R0, When::Unequal, 0, bare);
    code.load(Width::Byte, R1, R10, -40);
    code.and(R1, 0xf0); // the TCP header's words, times 16: four times its bytes
    code.times(R8, 4);
    code.jump_if(R8, When::Greater, R1, data);
    code.place(bare);
    code.set(R7, 8);
    code.jump(count);
    code.place(data);
    code.set(R7, 0);
    code.place(count);
    look_up(code, counts);
    code.jump_if_value(R0, When::Equal, 0, lose);
    code.add_register(R0, R7);
    code.set(R1, 1);
    code.count(R0, offset, R1);
}

/// Copies bytes of the frame to the stack: R2 is set to where they begin.
fn load_bytes(code: &mut Assembler, from: impl FnOnce(&mut Assembler), to: i32, bytes: i32) {
    code.copy(R1, R6);
    from(code);
    code.copy(R3, R10);
    code.add(R3, to);
    code.set(R4, bytes);
    code.call(Helper::LoadBytes);
}
