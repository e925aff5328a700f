//! What a server's runtime has counted: by NIC, by peer, and of drains.

use super::job::Job;
use crate::exchange::{Endpoint, Exchange, FenceStatistics, Nic, Statistics};
use serde::Serialize;
use std::collections::BTreeSet;

/// What a NIC has carried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NicCounters {
    /// Its device, or its address if it has none of its own.
    pub nic: String,
    /// It is on the optical switch.
    pub circuit: bool,
    /// Its lanes.
    pub lanes: usize,
    /// Those of them that may take chunks now.
    pub lanes_up: usize,
    /// The counts.
    #[serde(flatten)]
    pub statistics: Statistics,
}

/// What went to another server and came from it, over all NICs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerCounters {
    /// Its name.
    pub peer: String,
    /// The counts.
    #[serde(flatten)]
    pub statistics: Statistics,
}

/// All counts of a runtime since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// In the order of the job's file.
    pub nics: Vec<NicCounters>,
    /// All other servers of the job, in its order.
    pub peers: Vec<PeerCounters>,
    /// Drains of optical ports.
    pub fences: FenceStatistics,
}

impl Counters {
    /// The counts of a server's endpoint.
    pub(super) fn new(exchange: &Exchange, nics: &[String], packet: Nic, peers: &Names) -> Self {
        let nic = |(nic, name): (Nic, &String)| {
            let (lanes, lanes_up) = exchange.nic_lanes(nic);
            NicCounters {
                nic: name.clone(),
                circuit: nic >= packet,
                lanes,
                lanes_up,
                statistics: exchange.nic_statistics(nic),
            }
        };
        let peer = |(endpoint, name): &(Endpoint, String)| PeerCounters {
            peer: name.clone(),
            statistics: exchange.peer_statistics(*endpoint),
        };
        Counters {
            nics: (0..).zip(nics).map(nic).collect(),
            peers: peers.iter().map(peer).collect(),
            fences: exchange.fences(),
        }
    }
}

/// Servers and their names.
pub(super) type Names = Vec<(Endpoint, String)>;

/// What a server's NICs are called, each differently: by device, or by address where that is no name of one alone.
pub(super) fn nic_names(job: &Job, server: Endpoint) -> Vec<String> {
    let nics = &job.servers[usize::from(server)].nics;
    let devices: BTreeSet<_> = nics.iter().filter_map(|nic| nic.device.as_ref()).collect();
    nics.iter()
        .map(|nic| match &nic.device {
            Some(device) if devices.len() == nics.len() => device.clone(),
            _ => nic.address.to_string(),
        })
        .collect()
}

/// The servers other than this one.
pub(super) fn peers(job: &Job, server: Endpoint) -> Names {
    let all = (0..).zip(&job.servers).filter(|it| it.0 != server);
    all.map(|(endpoint, it)| (endpoint, it.name.clone())).collect()
}
