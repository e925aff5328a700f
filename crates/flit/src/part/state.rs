//! What a part is made of: packets, queues, ports, routers, terminals; and what it is given from outside.

use lightloom_fabric::routers::Choice;

/// A packet, as its head carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    /// The terminal that it is bound for.
    pub to: u32,
    /// The cycle in which it was created.
    pub created: u32,
    /// Whose it is: the source terminal, or a message.
    pub tag: u32,
    /// What it drew; see [`lightloom_fabric::routers::Routing::draws`].
    pub draw: u16,
    /// Length \[flits\].
    pub len: u8,
    /// Channels crossed.
    pub hops: u8,
}

/// Where packets go: a routing function, or paths laid down before. A packet that waits is given the same
/// answer whenever it asks.
pub(crate) trait Guide: Sync {
    fn route(
        &self,
        at: u32,
        came: Option<(u16, u8)>,
        to: u32,
        packet: &Packet,
        choices: &mut Vec<Choice>,
    );
}

/// Where packets come from.
pub(crate) trait Source {
    /// The next packet of a terminal of this part, if it is there by `now`.
    fn poll(&mut self, terminal: u32, now: u64) -> Poll;
    /// The tail of a packet with this tag has left a terminal that was full or would be asked again.
    fn injected(&mut self, terminal: u32, tag: u32) {
        let _ = (terminal, tag);
    }
}

/// What a source has.
pub(crate) enum Poll {
    /// A packet to inject.
    Packet(Packet),
    /// Nothing before that cycle.
    At(u64),
    /// Nothing before another packet of the terminal has left, or [`Part::wake`] is called.
    Full,
    /// Nothing ever.
    Idle,
}

/// Where packets end.
pub(crate) trait Sink {
    /// Flits of a packet left the network in cycle `now`; `tail` if the last one was among them.
    fn ejected(&mut self, packet: &Packet, flits: u16, tail: bool, now: u64);
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Idle,
    /// The packet at the front has not been routed.
    Fresh,
    /// It waits for one of the VCs from `out` on, and for room for one packet or two ahead.
    Routed,
    RoutedForTwo,
    /// It holds `out`, and nothing of it has left.
    Granted,
    /// Its head has left.
    Sending,
}

/// A VC of an input port.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    /// The packet at the front, by its place in the pool.
    pub(super) front: u32,
    /// The output VC that the front packet waits for or holds, by its number in the router.
    pub(super) out: u16,
    /// Flits in the buffer, the front packet's first.
    pub(super) flits: u16,
    /// Packets: the one at the front, and those behind it in the ring from `head` on.
    pub(super) count: u16,
    pub(super) head: u16,
    /// Flits of the front packet that have not left.
    pub(super) left: u8,
    pub(super) state: State,
    /// Output VCs, from `out` on, that the front packet may take.
    pub(super) run: u8,
}

/// A VC of an output port: the free space in the buffer ahead, less what a packet that holds this VC
/// will take; [`BUSY`] while one does.
pub(super) type Out = u16;

pub(super) const BUSY: Out = 1 << 15;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Port {
    /// VCs whose front packet waits for an output.
    pub(super) waiting: u16,
    /// VCs whose front packet holds an output and has flits.
    pub(super) ready: u16,
    pub(super) width_in: u16,
    pub(super) width_out: u16,
    /// The input port that sent here last.
    pub(super) last_in: u16,
    /// The input VC, by its number in the router, that was given one of its VCs last.
    pub(super) last_claim: u16,
    /// The VC that sent last.
    pub(super) last_vc: u8,
    pub(super) down_part: u8,
    pub(super) up_part: u8,
    /// Cycles until a flit may be handled by the next router.
    pub(super) flit_delay: u16,
    /// Cycles until the sender may use a space again.
    pub(super) credit_delay: u16,
    /// The word of its router's masks that it is in, among those of waiting ports; and its bit.
    pub(super) word: u32,
    pub(super) bit: u8,
    pub(super) words: u8,
    pub(super) router: u32,
    /// The port at the other end of the channel out, in its part.
    pub(super) down: u32,
    /// The port at the other end of the channel in.
    pub(super) up: u32,
    /// Flits sent.
    pub(super) carried: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Router {
    pub(super) first: u32,
    pub(super) ports: u16,
    /// Ports with channels; the others are terminals'.
    pub(super) channels: u16,
    /// Where its port masks begin: waiting, then ready.
    pub(super) masks: u32,
    pub(super) words: u16,
    /// How often its switch matches inputs and outputs in a cycle: its widest channel.
    pub(super) rounds: u16,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal {
    pub(super) port: u32,
    /// Slots for a packet under injection that are empty.
    pub(super) free: u16,
    /// The last poll found more packets than slots.
    pub(super) backlogged: bool,
    pub(super) wake: u64,
}

/// Where terminals are; shared by all parts.
#[derive(Debug)]
pub(crate) struct Places {
    pub(super) router: Vec<u32>,
    pub(super) port: Vec<u16>,
}

/// A claim of a packet on an output VC; both by their number in the router.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) out: u16,
    pub(super) queue: u16,
    pub(super) flits: u16,
}

/// Ports whose arrivals are handled together, as a power of two: some hundred kilobytes.
pub(super) const BLOCK: u32 = 9;

/// Cycles that sources may sleep without being asked.
pub(super) const NAP: u64 = 4_095;

/// What holds for all routers of a part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    /// From a queue's number to its port's, as a shift.
    pub(super) shift: u32,
    /// From a queue's number to its stretch of the ring.
    pub(super) ring_shift: u32,
    pub(super) oldest: bool,
    /// Packets of one length fill buffers exactly: then space for a packet is there when one has left
    /// whole and not before, and it comes back at once with the tail.
    pub(super) whole: bool,
    /// A packet takes at least this much of a buffer, however short it is.
    pub(super) least: u8,
    pub(super) ideal: bool,
    pub(super) pipeline: u16,
    pub(super) first_router: u32,
    pub(super) me: u8,
}

/// Packets under way, by their place.
#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) packets: Vec<Packet>,
    pub(super) vacant: Vec<u32>,
}

impl Pool {
    /// Takes a place.
    pub(super) fn keep(&mut self, packet: Packet) -> u32 {
        match self.vacant.pop() {
            Some(place) => {
                self.packets[place as usize] = packet;
                place
            }
            None => {
                self.packets.push(packet);
                self.packets.len() as u32 - 1
            }
        }
    }

    pub(super) fn age(&self, place: u32) -> (u32, u32) {
        let packet = &self.packets[place as usize];
        (packet.created, packet.tag)
    }
}

/// How long after the last winner it is a candidate's turn.
#[inline]
pub(super) fn turn(candidate: u16, last: u16) -> u16 {
    candidate.wrapping_sub(last).wrapping_sub(1)
}
