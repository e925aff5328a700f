//! What is measured of a run while it lasts, and what it reports.

use crate::common::Counts;
use crate::layout::Place;
use crate::link::Link;
use crate::run::{Far, Run};
use lightloom_engine::{EngineError, Outcome, PacketLink, Packets, QueueSample};
use lightloom_units::{Bytes, Time};

/// Queue samples that are kept.
const MOST_SAMPLES: usize = 1 << 20;

impl Run<'_> {
    /// A link's queue, unless it leads out of an optical switch.
    pub(crate) fn link(&mut self, link: u32) -> Option<&mut Link> {
        let place: Place = self.layout.places[link as usize];
        let shard = self.shards.get_mut(place.shard())?;
        shard.links.get_mut(place.at() as usize)
    }

    pub(crate) fn sample(&mut self, now: Time) {
        for link in 0..self.layout.places.len() as u32 {
            let queued = self.link(link).map_or(0, |link| link.queued);
            if queued > 0 && self.samples.len() < MOST_SAMPLES {
                self.samples.push(QueueSample { at: now, link, queued: Bytes::new(queued) });
            }
        }
        // Only while something else can still happen.
        let length = self.layout.window;
        let waits = self.shards.iter().any(|shard| shard.first_window(length).is_some());
        if self.far.peek_time().is_some() || waits {
            self.far.push(now.saturating_add(self.spec.sample_period), Far::Sample);
        }
    }

    pub(crate) fn report(mut self, now: u64) -> Result<Outcome, EngineError> {
        let mut total = Counts::default();
        for shard in &mut self.shards {
            for (link, tally) in shard.links.iter().zip(&mut shard.tallies) {
                if link.paused {
                    tally.paused_for += now - tally.paused_since;
                }
            }
            total.add(&shard.counts);
        }
        let mut reorder = total.reorder.0.to_vec();
        while reorder.last() == Some(&0) {
            reorder.pop();
        }
        let mut notes = Vec::new();
        if let Some((product, window)) = self.narrow_window {
            notes.push(format!(
                "engine.transport.window = {}: below the bandwidth-delay product of {} of a path, \
                 which one flow alone cannot fill",
                Bytes::new(window),
                Bytes::new(product),
            ));
        }
        if self.samples.len() == MOST_SAMPLES {
            notes.push(format!("queues: only the first {MOST_SAMPLES} samples are kept"));
        }
        let (mut carried, mut links) = (Vec::new(), Vec::new());
        for place in &self.layout.places {
            let at = place.at() as usize;
            if place.shard() == Place::THROUGH {
                let sum = |of: fn(&(u64, u64)) -> u64| -> u64 {
                    self.shards.iter().map(|shard| of(&shard.through[at])).sum()
                };
                carried.push(Bytes::new(sum(|through| through.0)));
                links.push(PacketLink { packets: sum(|through| through.1), ..Default::default() });
                continue;
            }
            let shard = &self.shards[place.shard()];
            let (link, tally) = (&shard.links[at], &shard.tallies[at]);
            carried.push(Bytes::new(link.carried));
            links.push(PacketLink {
                packets: tally.rounds << 32 | u64::from(link.packets),
                drops: tally.drops,
                trims: tally.trims,
                marks: tally.marks,
                peak_queue: Bytes::new(link.peak),
                paused: Time::from_ps(tally.paused_for),
            });
        }
        let mut outcome = self.ledger.close(Time::from_ps(now))?;
        outcome.link_bytes = carried;
        // How often silences are looked at says nothing.
        outcome.events = total.events + self.far_events + self.timeouts;
        outcome.packets = Some(Box::new(Packets {
            sent: total.data_packets + total.control_packets,
            hops: links.iter().map(|link| link.packets).sum(),
            data: total.data_packets,
            resent: total.resent,
            drops: total.drops,
            trims: links.iter().map(|link| link.trims).sum(),
            marks: links.iter().map(|link| link.marks).sum(),
            pauses: total.pause_frames,
            timeouts: self.timeouts,
            reorder,
            links,
            samples: self.samples,
            notes,
        }));
        Ok(outcome)
    }
}
