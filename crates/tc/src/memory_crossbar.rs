//! A crossbar that carries nothing: it says where a frame would go.

use crate::bpf::Error;
use crate::crossbar::{Crossbar, Light, soonest_ns};

/// Keeps what it was told, and when; it does not look at the clock, as [`crate::MirredCrossbar`] does not.
///
/// ```
/// use lightloom_tc::{Crossbar, Light, MemoryCrossbar};
/// let mut crossbar = MemoryCrossbar::new(2);
/// let lit = |egress| Light { egress: Some(egress), from_ns: 50 };
/// crossbar.set(&[lit(1), lit(0)], 20)?;
/// assert_eq!((crossbar.leads(0), crossbar.due_ns()), (None, Some(50))); // still dark
/// crossbar.set(&[lit(1), lit(0)], 50)?;
/// assert_eq!((crossbar.leads(0), crossbar.due_ns()), (Some(1), None));
/// # Ok::<(), lightloom_tc::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryCrossbar {
    lights: Vec<Light>,
    now_ns: u64,
}

impl MemoryCrossbar {
    /// A dark one of so many ports.
    pub fn new(ports: usize) -> Self {
        MemoryCrossbar { lights: vec![Light::default(); ports], now_ns: 0 }
    }

    /// Where a frame goes that comes in at a port, as of the last call of `set`.
    pub fn leads(&self, port: u16) -> Option<u16> {
        let light = self.lights.get(usize::from(port))?;
        light.egress.filter(|egress| {
            light.from_ns <= self.now_ns && usize::from(*egress) < self.lights.len()
        })
    }
}

impl Crossbar for MemoryCrossbar {
    fn ports(&self) -> usize {
        self.lights.len()
    }

    fn set(&mut self, lights: &[Light], now_ns: u64) -> Result<(), Error> {
        assert_eq!(lights.len(), self.lights.len());
        self.lights = lights.to_vec();
        self.now_ns = now_ns;
        Ok(())
    }

    fn due_ns(&self) -> Option<u64> {
        soonest_ns(&self.lights, self.now_ns)
    }
}
