//! An optical switch for frames: what comes in at a port leaves where its circuit leads, while that is lit.
//!
//! Modelled: each port is a NIC, as a rule one end of a veth pair; without light a frame is lost, and counted.
//! Three crossbars stand behind one interface: programs in the kernel ([`crate::BpfCrossbar`]), which look at the clock
//! for each frame; the kernel's own redirections ([`crate::MirredCrossbar`]), for who may not load programs; and one that
//! carries nothing ([`crate::MemoryCrossbar`]), for tests.
//! Ignored: attenuation, power, frames in the air when a mirror moves.
//! Checked: `tests/test_crossbar.py`, with veth pairs and an emulated switch that is told by TL1.

use crate::bpf::Error;
use std::fmt::Debug;

/// No crossbar has more ports.
pub const MOST_PORTS: usize = 1024;

/// Where a port's light goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Light {
    /// The port, from 0, at which it leaves.
    pub egress: Option<u16>,
    /// From then on: CLOCK_BOOTTIME \[ns\].
    pub from_ns: u64,
}

/// What became of frames that came in at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Frames that left at the other end of the circuit.
    pub forwarded: u64,
    /// Their bytes, with headers \[B\].
    pub bytes: u64,
    /// Frames that came before there was light: those with data, if they are told apart.
    pub dark: u64,
    /// Others, as bare acknowledgements; none where they are not told apart.
    pub dark_bare: Option<u64>,
    /// Frames that came when the port had no circuit: those with data, if they are told apart.
    pub unconnected: u64,
    /// Others; none where they are not told apart.
    pub unconnected_bare: Option<u64>,
}

/// A switch of which this process holds the mirrors.
pub trait Crossbar: Debug + Send {
    /// How many ports it has.
    fn ports(&self) -> usize;

    /// Where the light of each port goes from `now_ns` on. What leads to a port that is none is lost.
    ///
    /// # Errors
    /// If the kernel will not.
    ///
    /// # Panics
    /// If `lights` is not as long as there are ports.
    fn set(&mut self, lights: &[Light], now_ns: u64) -> Result<(), Error>;

    /// When `set` must be called again for light to be there in time, CLOCK_BOOTTIME \[ns\]; none if the crossbar
    /// looks at the clock itself, or no light is to come.
    fn due_ns(&self) -> Option<u64>;
}

/// When the next light comes, of those that are to come: CLOCK_BOOTTIME \[ns\].
pub fn soonest_ns(lights: &[Light], now_ns: u64) -> Option<u64> {
    let to_come = lights.iter().filter(|light| light.egress.is_some() && light.from_ns > now_ns);
    to_come.map(|light| light.from_ns).min()
}
