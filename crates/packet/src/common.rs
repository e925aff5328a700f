//! What all shards of a run read, and what each of them counts.

use crate::layout::Place;
use crate::link::Class;
use crate::packet::LongPaths;
use crate::settings::RunSettings;
use crate::spec::Dark;
use lightloom_engine::Circuits;
use lightloom_fabric::Fabric;
use lightloom_units::mix;

/// What all shards read while a window lasts.
#[derive(Clone, Copy)]
pub(crate) struct Common<'a> {
    pub settings: &'a RunSettings,
    pub fabric: &'a Fabric,
    pub circuits: &'a Circuits,
    pub classes: &'a [Class],
    /// By link: its class.
    pub class_of: &'a [u16],
    pub places: &'a [Place],
    pub units: &'a [Place],
    pub long: &'a LongPaths,
    pub dark: Dark,
    pub seed: u64,
}

impl Common<'_> {
    /// Rate and delay of a link.
    #[inline]
    pub fn class(&self, link: u32) -> Class {
        self.classes[self.class_of[link as usize] as usize]
    }
    /// Whether a packet is marked that finds so much in a queue: at random, by the link, by how many it
    /// has marked, and by the time, whatever else happens.
    pub fn marks(&self, queued: u64, link: u32, marked: u64, now: u64) -> bool {
        if queued >= self.settings.ecn_high {
            return true;
        }
        let share = (queued - self.settings.ecn_low) as f64 * self.settings.ecn_slope;
        let hash = mix(self.seed ^ mix(u64::from(link) << 32 ^ marked) ^ now);
        share >= 1.0 || ((hash >> 11) as f64 / (1u64 << 53) as f64) < share
    }
    /// A link's place in its shard.
    #[inline]
    pub fn at(&self, link: u32) -> u32 {
        self.places[link as usize].at()
    }
}

/// What a run counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub events: u64,
    pub data_packets: u64,
    pub control_packets: u64,
    pub resent: u64,
    pub drops: u64,
    pub pause_frames: u64,
    /// By how far behind the furthest one a data packet came: the number of binary digits.
    pub reorder: Reorder,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.events += other.events;
        self.data_packets += other.data_packets;
        self.control_packets += other.control_packets;
        self.resent += other.resent;
        self.drops += other.drops;
        self.pause_frames += other.pause_frames;
        for (sum, more) in self.reorder.0.iter_mut().zip(&other.reorder.0) {
            *sum += more;
        }
    }
}

/// See [`Counts::reorder`].
#[derive(Debug)]
pub(crate) struct Reorder(pub [u64; 33]);
impl Default for Reorder {
    fn default() -> Self {
        Reorder([0; 33])
    }
}
