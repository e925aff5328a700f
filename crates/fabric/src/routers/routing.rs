//! How packets are routed, hop by hop.

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The port of the router that the packet leaves by.
    pub port: u16,
    /// The virtual channel there.
    pub vc: u8,
    /// Of the choices that are free, one of the lowest rank is taken; of equals the one with the most
    /// room, then the first.
    pub rank: u8,
    /// Packets for which there must be room in the buffer ahead: 1; 2 to enter a ring under bubble
    /// flow control.
    pub room: u8,
}

impl Choice {
    /// A choice of the lowest rank that needs room for one packet.
    pub fn new(port: u16, vc: u8) -> Self {
        Choice { port, vc, rank: 0, room: 1 }
    }
}

/// A routing function: pure, so that one packet's next hops depend only on where it is, how it came,
/// where it goes and the number it drew.
pub trait Routing: Sync {
    /// What it is called, as in a specification.
    fn name(&self) -> &'static str;

    /// Virtual channels that it uses at every port.
    fn vcs(&self) -> u8;

    /// How many numbers a packet may draw when it is created: 1 unless paths are chosen at random.
    fn draws(&self) -> u32 {
        1
    }

    /// Appends where a packet at router `at` may go, bound for the router `to`, which is another.
    /// `came` is the port and the virtual channel by which it came, or `None` at the router where it
    /// was injected; `draw` is below [`Routing::draws`]. At least one choice is appended.
    fn route(
        &self,
        at: u32,
        came: Option<(u16, u8)>,
        to: u32,
        draw: u32,
        choices: &mut Vec<Choice>,
    );
}
