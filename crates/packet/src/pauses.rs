//! Priority flow control: what waits of each input port, and frames that pause the port's sender.

use crate::common::Common;
use crate::packet::Kind;
use crate::schedule::Arrival;
use crate::shard::Shard;

impl Shard<'_> {
    /// Charges a packet to the input port that it came by; false if even its headroom is full.
    pub(crate) fn hold(&mut self, c: &Common<'_>, id: u32, size: u64, now: u64) -> bool {
        let packet = &self.pool.packets[id as usize];
        let Some(hop) = packet.hop.checked_sub(1) else { return true };
        let input = packet.link(hop, c.long);
        let port = &mut self.tallies[c.at(input ^ 1) as usize];
        if port.held + size > c.settings.xoff_and_headroom {
            return false;
        }
        port.held += size;
        if port.held > c.settings.xoff && !port.pausing {
            port.pausing = true;
            self.counts.pause_frames += 1;
            self.send_pause(c, input, true, now);
        }
        true
    }

    pub(crate) fn release(&mut self, c: &Common<'_>, id: u32, size: u64, now: u64) {
        let packet = &self.pool.packets[id as usize];
        let Some(hop) = packet.hop.checked_sub(1) else { return };
        let input = packet.link(hop, c.long);
        let port = &mut self.tallies[c.at(input ^ 1) as usize];
        port.held -= size;
        if port.pausing && port.held <= c.settings.xon {
            port.pausing = false;
            self.send_pause(c, input, false, now);
        }
    }

    /// Tells the sender of a link to stand still, or to go on.
    fn send_pause(&mut self, c: &Common<'_>, input: u32, on: bool, now: u64) {
        let id = self.pool.take();
        let packet = &mut self.pool.packets[id as usize];
        packet.set_kind(Kind::Pause);
        (packet.hop, packet.hops) = (0, 0);
        (packet.from, packet.seq) = (c.at(input), u32::from(on));
        let time = now + c.class(input).delay;
        // Where it begins: no data comes over that number.
        let arrival = Arrival::new(time, input | 1 << 31, id);
        self.transit.deposit(&mut self.pool, c.units[input as usize], arrival);
    }

    /// A pause frame, or the end of one, reaches the link's sender.
    pub(crate) fn pause(&mut self, c: &Common<'_>, at: u32, on: bool, now: u64) {
        let link = &mut self.links[at as usize];
        let tally = &mut self.tallies[at as usize];
        match (link.paused, on) {
            (false, true) => tally.paused_since = now,
            (true, false) => tally.paused_for += now - tally.paused_since,
            _ => {}
        }
        link.paused = on;
        if !on {
            self.kick(c, at, now);
        }
    }
}
