//! What only an engine of packets measures, as figures and tables; nothing of other engines' runs.

use crate::table::Table;
use lightloom_engine::{Outcome, PacketLink};
use lightloom_fabric::Fabric;
use lightloom_units::{Bytes, Time};
use std::collections::BTreeMap;

/// Figures of a whole run; none without packets.
pub(crate) fn packet_figures(fabric: &Fabric, outcome: &Outcome) -> Vec<(&'static str, f64)> {
    let Some(packets) = &outcome.packets else { return Vec::new() };
    let paused: Time = packets.links.iter().map(|link| link.paused).sum();
    // Queues inside servers never overflow, and would hide the others.
    let peak = fabric
        .links()
        .iter()
        .zip(&packets.links)
        .filter(|(link, _)| !link.class.is_inside())
        .map(|(_, measured)| measured.peak_queue)
        .max()
        .unwrap_or(Bytes::ZERO);
    vec![
        ("packets", packets.sent as f64),
        ("packet_hops", packets.hops as f64),
        ("data_packets", packets.data as f64),
        ("resent", packets.resent as f64),
        ("drops", packets.drops as f64),
        ("trims", packets.trims as f64),
        ("ecn_marks", packets.marks as f64),
        ("pauses", packets.pauses as f64),
        ("pause_s", paused.as_secs_f64()),
        ("timeouts", packets.timeouts as f64),
        ("peak_queue_bytes", peak.get() as f64),
    ]
}

/// The table of links, by class, with what packets did there.
pub(crate) fn with_packets(table: Table, fabric: &Fabric, outcome: &Outcome) -> Table {
    let Some(packets) = &outcome.packets else { return table };
    let mut classes: BTreeMap<String, PacketLink> = BTreeMap::new();
    for (link, measured) in fabric.links().iter().zip(&packets.links) {
        let class = classes.entry(link.class.to_string()).or_default();
        class.packets += measured.packets;
        class.drops += measured.drops;
        class.trims += measured.trims;
        class.marks += measured.marks;
        class.peak_queue = class.peak_queue.max(measured.peak_queue);
        class.paused += measured.paused;
    }
    let all = || classes.values();
    table
        .integers("packets", all().map(|c| c.packets as i64))
        .integers("drops", all().map(|c| c.drops as i64))
        .integers("trims", all().map(|c| c.trims as i64))
        .integers("ecn_marks", all().map(|c| c.marks as i64))
        .integers("peak_queue_bytes", all().map(|c| c.peak_queue.get() as i64))
        .integers("paused_ps", all().map(|c| c.paused.ps() as i64))
}

/// Sampled queues: when, the link that they lead to, its class, what waits.
pub(crate) fn queues_table(fabric: &Fabric, outcome: &Outcome) -> Table {
    let samples = outcome.packets.as_ref().map_or(&[][..], |packets| &packets.samples);
    let class = |link: u32| fabric.links()[link as usize].class.to_string();
    Table::new("queues")
        .integers("at_ps", samples.iter().map(|s| s.at.ps() as i64))
        .integers("link", samples.iter().map(|s| i64::from(s.link)))
        .names("class", samples.iter().map(|s| class(s.link)))
        .integers("queued_bytes", samples.iter().map(|s| s.queued.get() as i64))
}

/// How many packets arrived at least so far, in packets, behind the furthest of their flow, and less
/// far than the next row's.
pub(crate) fn reorder_table(outcome: &Outcome) -> Table {
    let counts = outcome.packets.as_ref().map_or(&[][..], |packets| &packets.reorder);
    let behind = |at: usize| if at == 0 { 0 } else { 1i64 << (at - 1) };
    Table::new("reorder")
        .integers("behind_packets", (0..counts.len()).map(behind))
        .integers("packets", counts.iter().map(|&count| count as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;
    use lightloom_engine::Packets;

    #[test]
    fn nothing_without_packets() {
        let outcome = Outcome::default();
        let table = reorder_table(&outcome);
        assert!(table.columns.iter().all(|(_, c)| *c == Column::Integers(vec![])));
    }

    #[test]
    fn bounds_of_the_reorder_histogram() {
        let packets = Packets { reorder: vec![7, 1, 2, 4], ..Packets::default() };
        let outcome = Outcome { packets: Some(Box::new(packets)), ..Outcome::default() };
        let table = reorder_table(&outcome);
        assert_eq!(table.columns[0].1, Column::Integers(vec![0, 1, 2, 4]));
        assert_eq!(table.columns[1].1, Column::Integers(vec![7, 1, 2, 4]));
    }
}
