//! Transfers under way: their orders, and where each of their tracks stands. Slots are used again.

use crate::orders::{Orders, Patches, Phase};
use lightloom_fabric::LinkId;
use lightloom_units::{Bytes, Time};
use std::ops::Range;

#[derive(Default)]
struct Transfer {
    task: u32,
    orders: Orders,
    /// Tracks that are not over; one more while it is renewed.
    tracks: usize,
    /// What has not begun is forgotten, and what comes instead is not ordered yet.
    renewed: bool,
}

/// Phases of a transfer that follow one another.
#[derive(Default)]
struct Track {
    transfer: u32,
    phase: usize,
    end: usize,
    outstanding: u32,
    /// When the phase began.
    began: Time,
    last_arrival: Time,
    /// What the phase takes after its last arrival.
    pause: Time,
    /// How long dark circuits have held it up.
    waited: Time,
    /// Its pause is no part of the transfer any more.
    forgotten: bool,
}

/// What follows a phase that is over.
pub(crate) enum AfterPhase {
    /// The next phase of its track.
    NextPhase,
    /// Other tracks of the transfer are not over.
    OtherTracks,
    /// What this task's transfer was ordered to send has arrived; dark circuits held up its last track for
    /// so long.
    Over { slot: u32, task: u32, waited: Time },
}

/// All of them. A track is named by its slot.
#[derive(Default)]
pub(crate) struct Transfers {
    transfers: Vec<Transfer>,
    free: Vec<u32>,
    tracks: Vec<Track>,
    free_tracks: Vec<u32>,
}

impl Transfers {
    /// Takes over others; their tracks are called so much more from now on.
    pub fn absorb(&mut self, other: Transfers) -> u32 {
        let (transfers, tracks) = (self.transfers.len() as u32, self.tracks.len() as u32);
        self.transfers.extend(other.transfers);
        self.free.extend(other.free.iter().map(|slot| slot + transfers));
        let moved = |track: Track| Track { transfer: track.transfer + transfers, ..track };
        self.tracks.extend(other.tracks.into_iter().map(moved));
        self.free_tracks.extend(other.free_tracks.iter().map(|track| track + tracks));
        tracks
    }

    /// A slot for a task's transfer, and its orders, still empty.
    pub fn open(&mut self, task: u32) -> (u32, &mut Orders) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.transfers.push(Transfer::default());
            self.transfers.len() as u32 - 1
        });
        let transfer = &mut self.transfers[slot as usize];
        transfer.task = task;
        transfer.orders.clear();
        (slot, &mut transfer.orders)
    }

    /// The orders of a transfer are there: names its tracks, in order, and gives what is patched first and
    /// how much is sent.
    pub fn begin(&mut self, slot: u32, track: impl FnMut(u32)) -> (Patches, Bytes) {
        let Transfer { orders, tracks, .. } = &mut self.transfers[slot as usize];
        *tracks = orders.tracks();
        let bytes = orders.all_flows().iter().map(|flow| flow.bytes).sum();
        let patches = std::mem::take(&mut orders.patches);
        self.add_tracks(slot, 0, track);
        (patches, bytes)
    }

    /// Names the tracks of a transfer's orders from `first` on, in order.
    fn add_tracks(&mut self, slot: u32, first: usize, mut track: impl FnMut(u32)) {
        let tracks = self.transfers[slot as usize].orders.tracks();
        for index in first..tracks {
            let phases = self.transfers[slot as usize].orders.track(index);
            track(self.add_track(slot, phases));
        }
    }

    /// A number for a track of these phases.
    fn add_track(&mut self, slot: u32, phases: Range<usize>) -> u32 {
        let id = self.free_tracks.pop().unwrap_or_else(|| {
            self.tracks.push(Track::default());
            self.tracks.len() as u32 - 1
        });
        self.tracks[id as usize] =
            Track { transfer: slot, phase: phases.start, end: phases.end, ..Track::default() };
        id
    }

    /// Forgets phases that have not begun, and pauses; `unsent` hears of task, path and bytes of each flow.
    /// Transfers stay open until they are [renewed](Transfers::renew).
    pub fn forget(&mut self, mut unsent: impl FnMut(u32, &[LinkId], Bytes)) {
        let goes_on = |track: &&mut Track| track.phase < track.end && !track.forgotten;
        for track in self.tracks.iter_mut().filter(goes_on) {
            let transfer = &mut self.transfers[track.transfer as usize];
            if !std::mem::replace(&mut transfer.renewed, true) {
                transfer.tracks += 1;
            }
            let orders = &transfer.orders;
            for flow in (track.phase + 1..track.end).flat_map(|phase| orders.flows(phase)) {
                unsent(transfer.task, orders.links(flow), flow.bytes);
            }
            track.end = track.phase + 1;
            if transfer.orders.flows(track.phase).is_empty() {
                track.forgotten = true;
                transfer.tracks -= 1;
            }
        }
    }

    /// Transfers to be renewed, with their tasks.
    pub fn renewed(&self) -> Vec<(u32, u32)> {
        let slots = (0..).zip(&self.transfers).filter(|(_, transfer)| transfer.renewed);
        slots.map(|(slot, transfer)| (slot, transfer.task)).collect()
    }

    /// Adds tracks to a transfer, which `order` writes: names them, in order.
    ///
    /// # Errors
    /// As `order` has it.
    pub fn renew(
        &mut self,
        slot: u32,
        order: impl FnOnce(&mut Orders) -> Result<(), String>,
        mut track: impl FnMut(u32),
    ) -> Result<Bytes, String> {
        let Transfer { orders, tracks, renewed, .. } = &mut self.transfers[slot as usize];
        *renewed = false;
        orders.end_track();
        let (first, flows) = (orders.tracks(), orders.all_flows().len());
        order(orders)?;
        orders.end_track();
        *tracks += orders.tracks() - first;
        let more = orders.all_flows()[flows..].iter().map(|flow| flow.bytes).sum();
        self.add_tracks(slot, first, &mut track);
        // What kept it open is a track without phases.
        track(self.add_track(slot, 0..0));
        Ok(more)
    }

    /// A track's current phase begins: its task, and what it patches. None if the track has no phase.
    pub fn launch(&mut self, track: u32, now: Time) -> Option<(u32, Patches)> {
        let track = &mut self.tracks[track as usize];
        if track.phase >= track.end {
            return None;
        }
        let transfer = &self.transfers[track.transfer as usize];
        let Phase { dark, latency, claims, .. } = transfer.orders.phases()[track.phase];
        (track.began, track.last_arrival, track.pause) = (now, now, latency);
        let patches = transfer.orders.circuits(track.phase).to_vec();
        Some((
            transfer.task,
            Patches { patches, delay: dark, waits: claims.is_some(), keeps: claims == Some(true) },
        ))
    }

    /// The phase of a track, and how long it takes after its last arrival.
    pub fn phase(&self, track: u32) -> (usize, Time) {
        let Track { phase, pause, .. } = self.tracks[track as usize];
        (phase, pause)
    }

    /// Whether a track is all that is left of its transfer, and in its last phase.
    pub fn is_last(&self, track: u32) -> bool {
        let track = &self.tracks[track as usize];
        let Transfer { tracks, renewed, .. } = self.transfers[track.transfer as usize];
        track.phase + 1 >= track.end && tracks == 1 && !renewed
    }

    /// When the phase of a track began.
    #[inline]
    pub fn began(&self, track: u32) -> Time {
        self.tracks[track as usize].began
    }

    /// The orders of a track's transfer.
    pub fn orders(&self, track: u32) -> &Orders {
        &self.transfers[self.tracks[track as usize].transfer as usize].orders
    }

    /// As [`Transfers::orders`], to be written to.
    pub fn orders_mut(&mut self, track: u32) -> &mut Orders {
        &mut self.transfers[self.tracks[track as usize].transfer as usize].orders
    }

    /// The task whose transfer a track is part of.
    #[inline]
    pub fn task(&self, track: u32) -> u32 {
        self.transfers[self.tracks[track as usize].transfer as usize].task
    }

    /// As many flows of a track's phase have been started, with `orders`; dark circuits held them up.
    pub fn sent(&mut self, track: u32, orders: Orders, flows: u32, held_up: Time) {
        let track = &mut self.tracks[track as usize];
        track.outstanding = flows;
        track.waited += held_up;
        self.transfers[track.transfer as usize].orders = orders;
    }

    /// As many flows have arrived; when the phase is over, if they were its last.
    pub fn arrived(&mut self, track: u32, flows: u32, arrival: Time) -> Option<Time> {
        let track = &mut self.tracks[track as usize];
        track.last_arrival = track.last_arrival.max(arrival);
        track.outstanding -= flows;
        (track.outstanding == 0).then(|| track.last_arrival.saturating_add(track.pause))
    }

    /// A track's phase is over.
    pub fn phase_over(&mut self, id: u32) -> AfterPhase {
        let track = &mut self.tracks[id as usize];
        track.phase += 1;
        if track.phase < track.end {
            return AfterPhase::NextPhase;
        }
        let Track { transfer: slot, waited, forgotten, .. } = *track;
        self.free_tracks.push(id);
        if forgotten {
            return AfterPhase::OtherTracks;
        }
        let transfer = &mut self.transfers[slot as usize];
        transfer.tracks -= 1;
        if transfer.tracks > 0 {
            return AfterPhase::OtherTracks;
        }
        AfterPhase::Over { slot, task: transfer.task, waited }
    }

    /// The orders of a transfer that has sent all it was to, empty again.
    pub fn emptied(&mut self, slot: u32) -> &mut Orders {
        let orders = &mut self.transfers[slot as usize].orders;
        orders.clear();
        orders
    }

    /// A transfer sends nothing more.
    pub fn close(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// The path of a lane of a track's phase.
    pub fn lane(&self, track: u32, lane: u32) -> &[LinkId] {
        self.orders(track).lane_links(lane)
    }
}
