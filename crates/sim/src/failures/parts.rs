//! What a failure takes, by the names of its fabric.

use super::spec::{FailedPart, Failure};
use crate::error::SimError;
use crate::spec::Spec;
use lightloom_fabric::{Cut, Fabric, NicId, ServerId, Switch};

/// What a failure takes.
pub(super) struct Lost {
    /// NICs that can be used no more.
    pub nics: Vec<NicId>,
    /// Cables that carry nothing.
    pub cuts: Vec<Cut>,
}

/// Whether a failure names what there is, of servers and regions.
pub(super) fn within(failure: &Failure, spec: &Spec, regions: u32) -> Result<(), SimError> {
    let cluster = &spec.cluster;
    let servers = cluster.gpus / cluster.gpus_per_server.max(1);
    let (what, index, count) = match failure.part {
        FailedPart::Nic { server, nic }
        | FailedPart::Link { server, nic }
        | FailedPart::OcsPort { server, nic, .. }
            if server < servers =>
        {
            ("NICs of a server", nic, cluster.nics_per_server)
        }
        FailedPart::Gpu { server, gpu } if server < servers => {
            ("GPUs of a server", gpu, cluster.gpus_per_server)
        }
        FailedPart::Nic { server, .. }
        | FailedPart::Link { server, .. }
        | FailedPart::OcsPort { server, .. }
        | FailedPart::Eps { server }
        | FailedPart::Gpu { server, .. }
        | FailedPart::Server { server } => ("servers", server, servers),
        FailedPart::Ocs { region } => ("regions", region, regions),
        FailedPart::Between { .. } | FailedPart::Switch { .. } => return Ok(()),
    };
    if index < count {
        return Ok(());
    }
    Err(SimError::Input(format!(
        "failures: {}: there are {count} {what}; allowed: 0 to {}",
        failure.name,
        count.saturating_sub(1)
    )))
}

/// What a failure takes of a fabric.
///
/// # Errors
/// If it has no such part: what is allowed.
pub(super) fn lost(failure: &Failure, fabric: &Fabric) -> Result<Lost, SimError> {
    let cluster = fabric.cluster();
    let on = |server: u32, locals: &[u32]| -> Vec<NicId> {
        locals.iter().map(|&local| cluster.nic(ServerId(server), local)).collect()
    };
    let nics = match &failure.part {
        &FailedPart::Nic { server, nic } | &FailedPart::Link { server, nic } => {
            plugged(failure, fabric, server, nic)?;
            on(server, &cluster.parts(nic).collect::<Vec<_>>())
        }
        &FailedPart::OcsPort { server, nic, part } => {
            let (optical, parts) = (on_light(fabric, server), cluster.nic_parts);
            if part >= parts {
                return Err(SimError::Input(format!(
                    "failures: {}: a NIC has {parts} parts; allowed: 0 to {}",
                    failure.name,
                    parts - 1
                )));
            }
            if !optical.contains(&cluster.parts(nic).start) {
                let whole = optical.iter().step_by(parts as usize).map(|part| part / parts);
                let names: Vec<String> = whole.map(|nic| nic.to_string()).collect();
                return Err(SimError::Input(format!(
                    "failures: {}: NIC {nic} is not on an optical switch or panel; allowed: {}",
                    failure.name,
                    names.join(", ")
                )));
            }
            on(server, &[cluster.parts(nic).start + part])
        }
        &FailedPart::Eps { server } => on(server, fabric.packet_nics(ServerId(server))),
        &FailedPart::Ocs { region } => fabric
            .servers()
            .filter(|&server| fabric.region_of(server) == Some(region))
            .flat_map(|server| on(server.0, fabric.optical_nics(server)))
            .collect(),
        &FailedPart::Gpu { server, gpu } => {
            let gpu = cluster.gpu(ServerId(server), gpu);
            let own = |&local: &u32| cluster.gpu_of(cluster.nic(ServerId(server), local)) == gpu;
            // In a host NICs hang on switches, and outlive GPUs.
            let nics = if cluster.host.is_none() { cluster.nics_per_server } else { 0 };
            on(server, &(0..nics).filter(own).collect::<Vec<_>>())
        }
        // No rank is left there; what is in flight still leaves and arrives over packet switches.
        &FailedPart::Server { server } => on(server, &on_light(fabric, server)),
        FailedPart::Switch { name } => {
            let switch = named(failure, name, fabric)?;
            return Ok(Lost { nics: fabric.nics_at(switch), cuts: fabric.cables_of(switch) });
        }
        FailedPart::Between { ends } => return between(failure, ends, fabric),
    };
    let cuts = nics.iter().flat_map(|&nic| fabric.cables_of_nic(nic)).collect();
    Ok(Lost { nics, cuts })
}

/// NICs of a server on an optical switch or a patch panel.
fn on_light(fabric: &Fabric, server: u32) -> Vec<u32> {
    let mut nics = fabric.optical_nics(ServerId(server)).to_vec();
    if nics.is_empty() && fabric.packet_nics(ServerId(server)).is_empty() {
        nics.extend(plugged_in(fabric, server));
    }
    nics
}

/// NICs of a server that have cables.
fn plugged_in(fabric: &Fabric, server: u32) -> impl Iterator<Item = u32> {
    let nic = move |local| fabric.cluster().nic(ServerId(server), local);
    let cabled = move |&local: &u32| !fabric.cables_of_nic(nic(local)).is_empty();
    (0..fabric.cluster().nics_per_server).filter(cabled)
}

fn plugged(failure: &Failure, fabric: &Fabric, server: u32, nic: u32) -> Result<(), SimError> {
    let parts = fabric.cluster().nic_parts;
    let mut whole: Vec<u32> = plugged_in(fabric, server).map(|local| local / parts).collect();
    whole.dedup();
    if whole.contains(&nic) {
        return Ok(());
    }
    let mut names: Vec<String> = whole.iter().map(|nic| format!("nic{nic}")).collect();
    if let (true, [switch, ..]) = (names.is_empty(), fabric.switches()) {
        names.push(format!("a switch, as server{server}.{}", switch.name));
    }
    Err(SimError::Input(format!(
        "failures: {}: nic{nic} of this server is not plugged in; allowed: {}",
        failure.name,
        names.join(", ")
    )))
}

fn named<'a>(failure: &Failure, name: &str, fabric: &'a Fabric) -> Result<&'a Switch, SimError> {
    fabric.switches().iter().find(|switch| switch.name == name).ok_or_else(|| {
        SimError::Input(format!(
            "failures: {}: there is no switch \"{name}\"; allowed: {}",
            failure.name,
            names(fabric)
        ))
    })
}

/// The cables between two switches, by their names with a dot between, which names may have too; or between
/// a server and a switch.
fn between(failure: &Failure, ends: &str, fabric: &Fabric) -> Result<Lost, SimError> {
    let find = |name: &str| fabric.switches().iter().find(|switch| switch.name == name);
    let dots = ends.match_indices('.').map(|(at, _)| (&ends[..at], &ends[at + 1..]));
    let pair = dots.clone().find_map(|(a, b)| Some((find(a)?, find(b)?)));
    let Some((a, b)) = pair else {
        let (a, b) = dots.clone().next_back().unwrap_or((ends, ""));
        let number = a.strip_prefix("server").and_then(|number| number.parse().ok());
        if let Some(server) = number.filter(|&at: &u32| at < fabric.cluster().servers()) {
            let (server, switch) = (ServerId(server), named(failure, b, fabric)?);
            let cuts = fabric.cables_to(switch, server);
            let mut nics = fabric.nics_at(switch);
            nics.retain(|&nic| fabric.cluster().server_of_nic(nic) == server);
            return match cuts.is_empty() {
                true => Err(SimError::Input(format!(
                    "failures: {}: no cable joins {a} and {b}; allowed: a switch that it is on",
                    failure.name
                ))),
                false => Ok(Lost { nics, cuts }),
            };
        }
        named(failure, a, fabric)?;
        named(failure, b, fabric)?;
        return Ok(Lost { nics: vec![], cuts: vec![] });
    };
    let cuts = fabric.cables_between(a, b);
    if cuts.is_empty() {
        let joined = fabric.switches().iter();
        let joined = joined
            .filter(|&other| other.node != a.node && !fabric.cables_between(a, other).is_empty());
        let joined = ranges(joined.map(|switch| switch.name.as_str()));
        let joined = if joined.is_empty() { "none, only serverN.nicN" } else { &joined };
        return Err(SimError::Input(format!(
            "failures: {}: no cable joins {} and {}; allowed with {}: {joined}",
            failure.name, a.name, b.name, a.name,
        )));
    }
    Ok(Lost { nics: vec![], cuts })
}

/// The names of a fabric's switches, tier by tier.
fn names(fabric: &Fabric) -> String {
    match fabric.switches() {
        [] => "none, as it has no packet switches".into(),
        switches => ranges(switches.iter().map(|switch| switch.name.as_str())),
    }
}

/// Names that end in numbers by the ranges of these.
fn ranges<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let stem = |name: &'a str| name.trim_end_matches(|c: char| c.is_ascii_digit());
    let mut groups: Vec<(&str, Vec<u64>)> = Vec::new();
    for name in names {
        let number = name[stem(name).len()..].parse().unwrap_or(u64::MAX);
        let stem = if number == u64::MAX { name } else { stem(name) };
        match groups.iter_mut().find(|(other, _)| *other == stem) {
            Some((_, numbers)) => numbers.push(number),
            None => groups.push((stem, vec![number])),
        }
    }
    let mut all = Vec::new();
    for (stem, mut numbers) in groups {
        numbers.sort_unstable();
        for run in numbers.chunk_by(|a, b| a + 1 == *b) {
            all.push(match run {
                [u64::MAX] => stem.to_string(),
                [one] => format!("{stem}{one}"),
                [first, .., last] => format!("{stem}{first} to {stem}{last}"),
                [] => unreachable!("no run is empty"),
            });
        }
    }
    all.join(", ")
}
