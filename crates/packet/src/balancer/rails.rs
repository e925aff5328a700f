//! RailS: all-to-alls in chunks, dealt to the rails before anything is sent. The decision is
//! `lightloom_rails`; here, what it is asked for, and how packets spread beside it.

use super::plug::{Balancer, Capabilities, Chunks, Next, Nics};
use super::round_robin;
use lightloom_rails::Deal;
use lightloom_units::kind::{Form, Key, Kind};

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "rails",
    summary: "All-to-alls in chunks, each on the rail that LPT gives it; the rest round robin",
    source: Some("RailS"),
    keys: &[
        Key::new("chunk", Form::Size { min: 256, max: 1 << 30 }, "Size of a chunk."),
        Key::new("queue_pairs", Form::Count { min: 1, max: 1 << 20 }, "Queue pairs of a rail."),
        Key::new(
            "deal",
            Form::Choice(&Deal::NAMES),
            "Which rail a chunk takes: by LPT on the sender's loads, on the loads of both ends, in turn, by \
             a hash, its receiver's (NCCL's PXN), its sender's.",
        ),
    ],
    capabilities: Capabilities { nics: Nics::Rails, ..round_robin::KIND.capabilities },
};

pub type Settings = Chunks;

/// Where the plan leaves a choice: round robin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rails(round_robin::RoundRobin);

impl Balancer for Rails {
    type Settings = Settings;

    fn new(_: &Settings, paths: u16, hash: u64) -> Self {
        Rails(Balancer::new(&round_robin::Settings {}, paths, hash))
    }
    #[inline]
    fn path(&mut self, next: Next) -> u16 {
        self.0.path(next)
    }
    fn chunks(settings: &Settings) -> Option<Chunks> {
        Some(*settings)
    }
}
