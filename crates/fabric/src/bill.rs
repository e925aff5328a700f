//! Bill of materials: what must be bought, counted from the ports in use. Fibre is left out, and so
//! is the scale-up network, which comes with the servers. Where chips have ports of their own, each counts
//! as a NIC of its rate, whose work it does; links of a chip's own mesh or board are counted in lanes of a
//! port's rate.
//!
//! A link of packet switches ends in a port and a transceiver on either side; a NIC on an optical
//! switch or patch panel has a transceiver at the NIC alone (MixNet Section 7.2). An optical port
//! co-packaged with its GPU has neither. A NIC that is broken out has one transceiver, of a fibre pair a
//! circuit, and a port of the optical switch for each circuit, at the rate of the whole NIC: light
//! passes a port at any rate.

use lightloom_units::BitRate;
use std::collections::BTreeMap;
use std::fmt;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// A NIC of one port.
    Nic,
    /// An optical transceiver.
    Transceiver,
    /// A port of a packet switch.
    SwitchPort,
    /// A port, of two directions, of an optical circuit switch.
    OcsPort,
    /// A port of a patch panel.
    PatchPort,
    /// A co-packaged optical port of a GPU.
    OpticalIo,
    /// What puts both directions of a circuit's end on one fibre.
    Circulator,
    /// A passive copper cable.
    CopperCable,
    /// A link on a board or in a package.
    BoardLink,
}

impl Item {
    /// The name in tables: `nic`, `transceiver`, `switch_port`, `ocs_port`, `patch_port`,
    /// `optical_io`, `circulator`, `copper_cable`, `board_link`.
    pub const fn name(self) -> &'static str {
        match self {
            Item::Nic => "nic",
            Item::Transceiver => "transceiver",
            Item::SwitchPort => "switch_port",
            Item::OcsPort => "ocs_port",
            Item::PatchPort => "patch_port",
            Item::OpticalIo => "optical_io",
            Item::Circulator => "circulator",
            Item::CopperCable => "copper_cable",
            Item::BoardLink => "board_link",
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// So many of an item at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BillLine {
    /// What is bought.
    pub item: Item,
    /// For which rate \[bit/s\]; prices depend on it.
    pub rate: BitRate,
    /// How many pieces of it.
    pub count: u64,
}

/// Everything to be bought for a fabric.
///
/// ```
/// use lightloom_fabric::{Cluster, FabricSpec, Item, build};
/// use lightloom_units::{BitRate, Time};
/// let rate = BitRate::from_gbps(400);
/// let spec = FabricSpec::fat_tree(rate, Time::from_us(1));
/// let bill = build(&Cluster::of(1024, 8), &spec, 1, &[]).unwrap().bill().clone();
/// assert_eq!(bill.count(Item::SwitchPort, rate), 5 * 1024);
/// assert_eq!(bill.lines().count(), 3); // NICs, transceivers, switch ports
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    counts: BTreeMap<(Item, BitRate), u64>,
}

impl Bill {
    /// The lines, in order of item and rate; none counts zero.
    pub fn lines(&self) -> impl Iterator<Item = BillLine> + '_ {
        self.counts.iter().map(|(&(item, rate), &count)| BillLine { item, rate, count })
    }

    /// How many of an item at a rate.
    pub fn count(&self, item: Item, rate: BitRate) -> u64 {
        self.counts.get(&(item, rate)).copied().unwrap_or(0)
    }

    /// Adds so many of an item at a rate.
    pub fn add(&mut self, item: Item, rate: BitRate, count: u64) {
        if count > 0 {
            *self.counts.entry((item, rate)).or_default() += count;
        }
    }
}
