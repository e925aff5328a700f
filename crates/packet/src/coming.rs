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

    /// Adds what is on its way to a unit, unless that has been done in this window.
    pub fn add(
        &mut self,
        unit: u32,
        inbox: &[Arrival],
        packets: &[Packet],
        receivers: &[Receiver],
    ) {
        let at = unit as usize;
        self.units.resize(self.units.len().max(at + 1), 0);
        if std::mem::replace(&mut self.units[at], self.turn) == self.turn {
            return;
        }
        for (inbound, _, size) in data(inbox, packets, receivers, self.end) {
            let at = inbound as usize;
            self.inbounds.resize(self.inbounds.len().max(at + 1), (0, 0));
            let (turn, bytes) = &mut self.inbounds[at];
            if *turn != self.turn {
                (*turn, *bytes) = (self.turn, 0);
            }
            *bytes += size;
        }
    }

    /// Of an inbound, headers included \[B\].
    pub fn of(&self, inbound: u32) -> u64 {
        let known = self.inbounds.get(inbound as usize);
        known.map_or(0, |&(turn, bytes)| if turn == self.turn { bytes } else { 0 })
    }
}

/// The data that arrives before a time: whose it is, when, and how much, headers included \[B\].
pub(crate) fn data<'a>(
    inbox: &'a [Arrival],
    packets: &'a [Packet],
    receivers: &'a [Receiver],
    end: u64,
) -> impl Iterator<Item = (u32, u64, u64)> + 'a {
    inbox.iter().filter_map(move |arrival| {
        let packet = &packets[arrival.packet() as usize];
        if arrival.time >= end || packet.kind() != Kind::Data {
            return None;
        }
        let receiver = &receivers[packet.to as usize];
        let current = receiver.life == packet.life;
        current.then(|| (receiver.inbound, arrival.time, packet.bytes()))
    })
}
