//! What a window will touch soon, asked for before it is needed: units first, then what arrives there, then the
//! packets, then what a server looks up for these. Nothing that comes out depends on it.

use crate::agenda::Agenda;
use crate::ahead::{fetch, fetch_whole};
use crate::mail::Sorted;
use crate::packet::{NONE, Packet};
use crate::schedule::Arrival;
use crate::shard::Shard;
use crate::things::Thing;
use crate::transit::Unit;

/// Of so many packets at a server it is asked what they are about.
const HOST: usize = 4;

impl Shard<'_> {
    /// For the units that come after the first of these; of a port's queue also the second packet.
    #[inline]
    pub(crate) fn fetch_ahead(&self, list: &[u32], sorted: &Sorted) {
        let (units, packets) = (&self.transit.units, &self.pool.packets[..]);
        if let Some(&far) = list.get(10) {
            fetch(units, far as usize);
        }
        if let Some(&unit) = list.get(6) {
            let Unit { inbox, link, .. } = &units[unit as usize];
            fetch(&self.links, *link as usize);
            fetch(inbox, 0);
            fetch(inbox, 4);
            fetch(inbox, 8);
        }
        let agendas = &self.transit.agendas[..];
        let agenda = |at: u32| agendas.get(units[at as usize].agenda as usize);
        let planned_links =
            |at: u32| agenda(at).into_iter().flat_map(Agenda::waiting).filter_map(Thing::link);
        if let Some(&at) = list.get(5) {
            fetch_whole(agendas, units[at as usize].agenda as usize);
        }
        if let Some(agenda) = list.get(4).and_then(|&at| agenda(at)) {
            agenda.fetch_later();
        }
        if let Some(&unit) = list.get(3) {
            for arrival in self.arrivals(unit, sorted) {
                fetch(packets, arrival.packet() as usize);
            }
            if let Some(link) = self.links.get(units[unit as usize].link as usize) {
                fetch(packets, link.control.first() as usize);
                fetch(packets, link.data.first() as usize);
            }
        }
        if let Some(&at) = list.get(2) {
            let unit = &units[at as usize];
            for at in planned_links(at) {
                fetch(&self.links, at as usize);
                fetch(&self.tallies, at as usize);
            }
            for packet in self.at_host(at, sorted) {
                match packet.is_control() {
                    true => fetch_whole(&self.senders, packet.from as usize),
                    false => fetch_whole(&self.receivers, packet.to as usize),
                }
            }
            if let Some(link) = self.links.get(unit.link as usize) {
                for queue in [link.control, link.data] {
                    if let Some(first) = packets.get(queue.first() as usize) {
                        fetch(packets, first.next as usize);
                    }
                }
            }
        }
        if let Some(&at) = list.get(1) {
            for at in planned_links(at) {
                if let Some(link) = self.links.get(at as usize) {
                    fetch(packets, link.control.first() as usize);
                    fetch(packets, link.data.first() as usize);
                }
            }
            for packet in self.at_host(at, sorted) {
                if packet.is_control() {
                    if let Some(sender) = self.senders.get(packet.from as usize) {
                        fetch_whole(&self.messages, sender.message as usize);
                    }
                } else if let Some(receiver) = self.receivers.get(packet.to as usize) {
                    fetch_whole(&self.inbounds, receiver.inbound as usize);
                    fetch(&self.pullers, receiver.puller as usize);
                    fetch(&receiver.seen, packet.seq as usize / 64);
                }
            }
        }
    }

    /// What arrives at a unit, or most of it.
    #[inline]
    fn arrivals<'u>(&'u self, unit: u32, sorted: &'u Sorted) -> &'u [Arrival] {
        match &sorted.arrivals[sorted.range(unit)] {
            [] => &self.transit.units[unit as usize].inbox,
            arrivals => arrivals,
        }
    }

    /// The first packets that arrive at a unit that is a server.
    #[inline]
    fn at_host<'u>(&'u self, at: u32, sorted: &'u Sorted) -> impl Iterator<Item = &'u Packet> + 'u {
        let host = if self.transit.units[at as usize].link == NONE { HOST } else { 0 };
        let arrivals = self.arrivals(at, sorted).iter().take(host);
        arrivals.filter_map(|arrival| self.pool.packets.get(arrival.packet() as usize))
    }
}
