//! RoCEv2 at line rate: no congestion control at all, only priority flow control stops a sender, or
//! a fixed window if one is given. Go-back-N is in [`crate::host`].

use super::plug::{Capabilities, PathInfo, RETRANSMIT_AFTER, Transport, UNLIMITED_WINDOW};
use lightloom_units::kind::Kind;
use lightloom_units::{Bytes, Time};
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "roce",
    summary: "RoCEv2 with go-back-N at line rate, held back by priority flow control alone",
    source: None,
    keys: &[UNLIMITED_WINDOW, RETRANSMIT_AFTER],
    capabilities: Capabilities { go_back_n: true, pulls: false, grants: false, train: 4 },
};

/// The keys of [`KIND`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    window: Option<Bytes>,
    retransmit_after: Time,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Roce {
    window: f64,
}

impl Transport for Roce {
    type Settings = Settings;

    fn new(settings: &Settings, _: PathInfo, _: u64) -> Self {
        Roce { window: settings.window.map_or(f64::INFINITY, |w| w.get() as f64) }
    }
    #[inline]
    fn window(&self) -> f64 {
        self.window
    }
    fn given_window(settings: &Settings) -> Option<Bytes> {
        settings.window
    }
    fn retransmit_after(settings: &Settings) -> Time {
        settings.retransmit_after
    }
}
