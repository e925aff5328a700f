//! The tables of a run.

use crate::bound::{busiest_links, name};
use crate::demand::DemandRecord;
use crate::packets::packet_figures;
use crate::record::Recorder;
use crate::table::Table;
use lightloom_engine::{Outcome, Patch, Reconfiguration};
use lightloom_fabric::Fabric;
use lightloom_units::{Bytes, Time};
use lightloom_workload::{Comm, TaskGraph, TaskKind};
use std::collections::BTreeMap;

/// Up to so many messages are kept one by one.
const MOST_MESSAGES: usize = 1 << 17;
/// Links that a collective's result names.
const BUSIEST: usize = 256;

pub(crate) fn figures(
    fabric: &Fabric,
    outcome: &Outcome,
    recorder: &Recorder<'_>,
) -> Vec<(&'static str, f64)> {
    let hidden = |kind: TaskKind| &recorder.histograms[kind as usize];
    let dispatch = hidden(TaskKind::Dispatch);
    let mut figures = vec![
        ("tasks", outcome.end.len() as f64),
        ("flows", outcome.flows as f64),
        ("events", outcome.events as f64),
        ("solves", outcome.solves as f64),
        ("reconfigurations", outcome.reconfigurations.len() as f64),
        ("waited_s", outcome.waited.iter().copied().sum::<Time>().as_secs_f64()),
        ("bytes", outcome.bytes.iter().copied().sum::<Bytes>().get() as f64),
        ("dispatch_flow_p50_s", dispatch.percentile(0.5).as_secs_f64()),
        ("dispatch_flow_p99_s", dispatch.percentile(0.99).as_secs_f64()),
    ];
    figures.extend(packet_figures(fabric, outcome));
    figures
}

pub(crate) fn tasks_table(
    graph: &TaskGraph,
    outcome: &Outcome,
    share: &[Time],
    replicas: u32,
) -> Table {
    let rows: Vec<usize> = (0..graph.len()).filter(|&t| graph.replica[t] < replicas).collect();
    let rows = || rows.iter().copied();
    Table::new("tasks")
        .integers("task", rows().map(|t| t as i64))
        .names("kind", rows().map(|t| graph.kind[t].as_str()))
        .integers("replica", rows().map(|t| i64::from(graph.replica[t])))
        .integers("stage", rows().map(|t| i64::from(graph.stage[t])))
        .integers("layer", rows().map(|t| i64::from(graph.layer[t])))
        .integers("micro_batch", rows().map(|t| i64::from(graph.micro_batch[t])))
        .names("pass", rows().map(|t| graph.pass[t].as_str()))
        .integers("start_ps", rows().map(|t| outcome.start[t].ps() as i64))
        .integers("end_ps", rows().map(|t| outcome.end[t].ps() as i64))
        .integers("waited_ps", rows().map(|t| outcome.waited[t].ps() as i64))
        .integers("bytes", rows().map(|t| outcome.bytes[t].get() as i64))
        .integers("critical_ps", rows().map(|t| share[t].ps() as i64))
}

pub(crate) fn links_table(fabric: &Fabric, outcome: &Outcome) -> Table {
    struct Class {
        links: i64,
        rate: u64,
        bytes: u64,
        utilization: f64,
        fullest: f64,
    }
    let mut classes: BTreeMap<String, Class> = BTreeMap::new();
    let seconds = outcome.makespan.as_secs_f64();
    for (link, bytes) in fabric.links().iter().zip(&outcome.link_bytes) {
        let share = bytes.get() as f64 * 8.0 / (link.rate.bps().max(1) as f64 * seconds.max(1e-12));
        let class = classes.entry(link.class.to_string()).or_insert(Class {
            links: 0,
            rate: 0,
            bytes: 0,
            utilization: 0.0,
            fullest: 0.0,
        });
        class.links += i64::from(link.lanes);
        class.rate = class.rate.saturating_add(link.rate.bps());
        class.bytes += bytes.get();
        class.utilization += share * link.rate.bps() as f64;
        class.fullest = class.fullest.max(share);
    }
    let all = || classes.values();
    Table::new("links")
        .names("class", classes.keys())
        .integers("links", all().map(|c| c.links))
        .integers("capacity_bps", all().map(|c| i64::try_from(c.rate).unwrap_or(i64::MAX)))
        .integers("bytes", all().map(|c| c.bytes as i64))
        .numbers("mean_utilization", all().map(|c| c.utilization / c.rate.max(1) as f64))
        .numbers("max_utilization", all().map(|c| c.fullest))
}

/// Messages of a collective, and an all-to-all as one row of -1 to -1; none if there are too many.
pub(crate) fn messages_table(graph: &TaskGraph, outcome: &Outcome) -> Table {
    let tasks = if graph.len() <= MOST_MESSAGES { graph.len() } else { 0 };
    let rows: Vec<(usize, i64, i64, i64)> = (0..tasks)
        .map(|task| match graph.communication(task as u32) {
            Some(&Comm::Exchange { first, end, steps }) if end - first == 1 => {
                let (from, to, _) = graph.messages[first as usize];
                (task, i64::from(from), i64::from(to), i64::from(steps))
            }
            Some(&Comm::Exchange { steps, .. }) => (task, -1, -1, i64::from(steps)),
            _ => (task, -1, -1, 1),
        })
        .collect();
    let rows = || rows.iter().copied();
    Table::new("messages")
        .integers("source", rows().map(|row| row.1))
        .integers("destination", rows().map(|row| row.2))
        .integers("bytes", rows().map(|row| outcome.bytes[row.0].get() as i64))
        .integers("steps", rows().map(|row| row.3))
        .integers("start_ps", rows().map(|row| outcome.start[row.0].ps() as i64))
        .integers("end_ps", rows().map(|row| outcome.end[row.0].ps() as i64))
        .integers("waited_ps", rows().map(|row| outcome.waited[row.0].ps() as i64))
}

/// The links that carried the most for their rate.
pub(crate) fn busiest_table(fabric: &Fabric, outcome: &Outcome) -> Table {
    let links = busiest_links(fabric, outcome, BUSIEST);
    Table::new("busiest")
        .names("class", links.iter().map(|link| &link.class))
        .names("from", links.iter().map(|link| &link.from))
        .names("to", links.iter().map(|link| &link.to))
        .integers("bytes", links.iter().map(|link| link.bytes as i64))
        .numbers("utilization", links.iter().map(|link| link.utilization))
}

pub(crate) fn transfers_table(recorder: &Recorder<'_>) -> Table {
    let mut kinds: Vec<TaskKind> = recorder.kinds.to_vec();
    kinds.sort_unstable_by_key(|&kind| kind as usize);
    kinds.dedup();
    kinds.retain(|&kind| recorder.histograms[kind as usize].count() > 0);
    let flows = || kinds.iter().map(|&kind| &recorder.histograms[kind as usize]);
    Table::new("transfers")
        .names("kind", kinds.iter().map(|kind| kind.as_str()))
        .integers("count", flows().map(|h| h.count() as i64))
        .integers("bytes", kinds.iter().map(|&kind| recorder.bytes[kind as usize] as i64))
        .integers("p50_ps", flows().map(|h| h.percentile(0.5).ps() as i64))
        .integers("p99_ps", flows().map(|h| h.percentile(0.99).ps() as i64))
        .integers("max_ps", flows().map(|h| h.max().ps() as i64))
}

pub(crate) fn demand_table(records: &[DemandRecord]) -> Table {
    let rows = || records.iter();
    Table::new("demand")
        .integers("replica", rows().map(|r| i64::from(r.replica)))
        .integers("stage", rows().map(|r| i64::from(r.stage)))
        .integers("layer", rows().map(|r| i64::from(r.layer)))
        .integers("micro_batch", rows().map(|r| i64::from(r.micro_batch)))
        .integers("source", rows().map(|r| i64::from(r.source)))
        .integers("destination", rows().map(|r| i64::from(r.destination)))
        .integers("bytes", rows().map(|r| r.bytes as i64))
        .integers("circuits", rows().map(|r| i64::from(r.circuits)))
}

pub(crate) fn reconfigurations_table(graph: &TaskGraph, outcome: &Outcome) -> Table {
    let rows = || outcome.reconfigurations.iter();
    let of = |r: &Reconfiguration, column: &[u32]| {
        r.task.map_or(-1, |task| i64::from(column[task as usize]))
    };
    Table::new("reconfigurations")
        // -1 where a failure was answered.
        .integers("task", rows().map(|r| r.task.map_or(-1, i64::from)))
        .integers("replica", rows().map(|r| of(r, &graph.replica)))
        .integers("stage", rows().map(|r| of(r, &graph.stage)))
        .integers("at_ps", rows().map(|r| r.at.ps() as i64))
        .integers("ready_ps", rows().map(|r| r.ready.ps() as i64))
        .integers("ports", rows().map(|r| i64::from(r.patches)))
}

/// Circuits that stand when the iteration begins, each direction by itself.
pub(crate) fn circuits_table(fabric: &Fabric, circuits: &[Patch]) -> Table {
    let names: BTreeMap<_, _> =
        fabric.switches().iter().map(|switch| (switch.node, &switch.name)).collect();
    let rows = || circuits.iter().filter_map(|patch| Some((fabric.link(patch.tx), patch.rx?)));
    Table::new("circuits")
        .names("switch", rows().map(|(tx, _)| names.get(&tx.to).map_or("", |name| name.as_str())))
        .names("from", rows().map(|(tx, _)| name(fabric, tx.from)))
        .names("to", rows().map(|(_, rx)| name(fabric, fabric.link(rx).to)))
}
