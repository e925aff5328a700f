//! What arrives in a window at most, added up once a unit: a phase may have thousands of flows that are about
//! to end where thousands of packets arrive.

use crate::halves::Receiver;
use crate::packet::{Kind, Packet};
use crate::schedule::Arrival;

#[derive(Debug, Default)]
pub(crate) struct Coming {
    /// The window, by turn, and its end as far as is known \[ps\].
    turn: u64,
    end: u64,
    /// By unit: the window that it was added up for.
    units: Vec<u64>,
    /// By inbound: a window, and what arrives in it \[B\].
    inbounds: Vec<(u64, u64)>,
}

impl Coming {
    /// Another window begins.
    pub fn begin(&mut self, end: u64) {
        (self.turn, self.end) = (self.turn + 1, end);
    }

    /// Whether a unit is yet to be added up.
    pub fn lacks(&mut self, unit: u32) -> bool {
        let at = unit as usize;
        self.units.resize(self.units.len().max(at + 1), 0);
        std::mem::replace(&mut self.units[at], self.turn) != self.turn
    }

    /// Adds what is on its way to a unit.
    pub fn add(&mut self, inbox: &[Arrival], packets: &[Packet], receivers: &[Receiver]) {
        for arrival in inbox {
            let packet = &packets[arrival.packet as usize];
            if arrival.time >= self.end || packet.kind() != Kind::Data {
                continue;
            }
            let receiver = &receivers[packet.to as usize];
            if receiver.life != packet.life {
                continue;
            }
            let at = receiver.inbound as usize;
            self.inbounds.resize(self.inbounds.len().max(at + 1), (0, 0));
            let (turn, bytes) = &mut self.inbounds[at];
            if *turn != self.turn {
                (*turn, *bytes) = (self.turn, 0);
            }
            *bytes += packet.bytes();
        }
    }

    /// Of an inbound, headers included \[B\].
    pub fn of(&self, inbound: u32) -> u64 {
        let known = self.inbounds.get(inbound as usize);
        known.map_or(0, |&(turn, bytes)| if turn == self.turn { bytes } else { 0 })
    }
}
