//! Which flows of which tracks have little left, for `ends.rs`.

use crate::conn::Flow;
use crate::packet::NONE;

/// Tracks and their flows that are about to end.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub tracks: Vec<Track>,
    /// Tracks of which every flow is and that lead on, and perhaps others.
    pub close: Vec<u32>,
    /// Tracks of which every flow is and that lead nowhere, and perhaps others: only the end of the last is
    /// of interest, for it may be that of the run.
    pub idle: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    /// Flows of its phase that have not arrived.
    left: usize,
    /// Those of them with little left.
    pub ending: Vec<u32>,
    /// Its end sets something off ([`lightloom_engine::Ledger::leads_on`]).
    pub leads_on: bool,
    /// It is in the list of those that are close, or of those that are idle.
    pub listed: bool,
    pub listed_idle: bool,
}

impl Ends {
    /// A track's phase begins; its end leads on, or nowhere.
    pub fn launches(&mut self, track: u32, leads_on: bool) {
        let at = track as usize;
        self.tracks.resize(self.tracks.len().max(at + 1), Track::default());
        self.tracks[at].leads_on = leads_on;
    }

    /// A flow of a track begins.
    pub fn begins(&mut self, track: u32) {
        self.tracks[track as usize].left += 1;
    }

    /// A flow has little left.
    pub fn ending(&mut self, flows: &mut [Flow], id: u32) {
        let flow = &mut flows[id as usize];
        if flow.over || flow.ending != NONE {
            return;
        }
        let track = &mut self.tracks[flow.track as usize];
        flow.ending = track.ending.len() as u32;
        track.ending.push(id);
        self.look_at(flow.track);
    }

    /// A flow has arrived.
    pub fn over(&mut self, flows: &mut [Flow], id: u32) {
        let Flow { track: name, ending, .. } = flows[id as usize];
        let track = &mut self.tracks[name as usize];
        track.left -= 1;
        flows[id as usize].over = true;
        if ending != NONE {
            track.ending.swap_remove(ending as usize);
            if let Some(&moved) = track.ending.get(ending as usize) {
                flows[moved as usize].ending = ending;
            }
        }
        self.look_at(name);
    }

    fn look_at(&mut self, name: u32) {
        let track = &mut self.tracks[name as usize];
        let is_close = track.is_close();
        let (list, listed) = match track.leads_on {
            true => (&mut self.close, &mut track.listed),
            false => (&mut self.idle, &mut track.listed_idle),
        };
        if !*listed && is_close {
            *listed = true;
            list.push(name);
        }
    }
}

impl Track {
    pub fn is_close(&self) -> bool {
        self.left > 0 && self.ending.len() == self.left
    }
}
