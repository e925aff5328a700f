//! The NIC pairs that carry what one server sends another, and whose bytes each of them carries.

use super::layout::{Entry, Layout};
use crate::ports::PortMap;

/// A NIC of the sender and one of the receiver, the delegates they belong to, and how many bytes
/// they still take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub nics: (u16, u16),
    pub gpus: (u16, u16),
    pub circuit: bool,
    pub left: u64,
}

/// Opens the lanes from server `a` to server `b` and shares `bytes` over them: `over_packets` evenly
/// over the packet NICs, the rest evenly over the circuits. Without circuits all go over packets.
pub(super) fn open(
    lanes: &mut Vec<Lane>,
    (a, b): (usize, usize),
    bytes: u64,
    over_packets: u64,
    ports: &PortMap,
    layout: &Layout,
) {
    let lane = |nics: (u16, u16), circuit| Lane {
        nics,
        gpus: (layout.nic_gpu[usize::from(nics.0)], layout.nic_gpu[usize::from(nics.1)]),
        circuit,
        left: 0,
    };
    lanes.clear();
    for (port, peer) in ports.ports(a).iter().enumerate() {
        if let Some((_, at)) = peer.filter(|&(server, _)| usize::from(server) == b) {
            let nics = (layout.optical_nics[port], layout.optical_nics[usize::from(at)]);
            lanes.push(lane(nics, true));
        }
    }
    let circuits = lanes.len();
    let over_packets = if circuits == 0 { bytes } else { over_packets };
    share(lanes, bytes - over_packets);
    if over_packets > 0 {
        lanes.extend(layout.packet_nics.iter().map(|&nic| lane((nic, nic), false)));
        share(&mut lanes[circuits..], over_packets);
    }
}

/// Opens the lanes given by their NICs at both ends and shares `bytes` over them evenly.
pub(super) fn open_all(
    lanes: &mut Vec<Lane>,
    nics: impl IntoIterator<Item = (u16, u16)>,
    bytes: u64,
    layout: &Layout,
) {
    let gpu = |nic: u16| layout.nic_gpu[usize::from(nic)];
    let lane =
        |nics: (u16, u16)| Lane { nics, gpus: (gpu(nics.0), gpu(nics.1)), circuit: false, left: 0 };
    lanes.clear();
    lanes.extend(nics.into_iter().map(lane));
    assert!(!lanes.is_empty(), "a lane for every two servers that exchange");
    share(lanes, bytes);
}

/// Shares bytes evenly; the first lanes take the remainder.
fn share(lanes: &mut [Lane], bytes: u64) {
    let count = lanes.len() as u64;
    for (at, lane) in (0..).zip(lanes) {
        lane.left = bytes / count + u64::from(at < bytes % count);
    }
}

/// Fills the lanes exactly with the entries, which are used up; `nearest` are the delegates of GPUs. Tells
/// `each` what goes where: the entry's (source, destination), the lane, and the bytes.
pub(super) fn fill(
    lanes: &mut [Lane],
    entries: &mut [Entry],
    nearest: &[u16],
    mut each: impl FnMut((u16, u16), &Lane, u64),
) {
    if let [lane] = lanes {
        for entry in entries {
            each((entry.source, entry.destination), lane, entry.bytes);
        }
        return;
    }
    // First what needs neither gather nor scatter, or no far one, then what needs one, then the rest.
    type Fits = fn((u16, u16), &Lane) -> bool;
    let rounds: [Fits; 4] = [
        |ends, lane| ends == lane.gpus,
        |ends, lane| ends.0 == lane.gpus.0,
        |ends, lane| ends.1 == lane.gpus.1,
        |_, _| true,
    ];
    for fits in rounds {
        for entry in entries.iter_mut().filter(|entry| entry.bytes > 0) {
            let [source, destination] =
                [entry.source, entry.destination].map(|gpu| nearest[usize::from(gpu)]);
            for lane in lanes.iter_mut().filter(|lane| lane.left > 0) {
                if fits((source, destination), lane) {
                    let bytes = entry.bytes.min(lane.left);
                    entry.bytes -= bytes;
                    lane.left -= bytes;
                    if bytes > 0 {
                        each((entry.source, entry.destination), lane, bytes);
                    }
                }
            }
        }
    }
}
