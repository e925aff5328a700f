//! RoCEv2 at line rate: no congestion control at all, only priority flow control stops a sender, or
//! a fixed window if one is given. Go-back-N is in [`crate::host`].

use lightloom_units::Bytes;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Roce {
    window: f64,
}

impl Roce {
    pub fn new(window: Option<Bytes>) -> Self {
        Roce { window: window.map_or(f64::INFINITY, |w| w.get() as f64) }
    }
    pub fn window(&self) -> f64 {
        self.window
    }
}
