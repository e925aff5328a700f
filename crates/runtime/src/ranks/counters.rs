//! What a server's runtime has counted: by NIC, by peer, and of drains.

use super::heard::Heard;
use super::job::Job;
use crate::exchange::{Endpoint, Exchange, FenceStatistics, Nic, Statistics};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A thread that copies or reduces answers later than this only if it has much to do.
const PATIENCE: Duration = Duration::from_secs(2);

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

/// Reads a runtime's counters, while it is under way and after its end.
#[derive(Clone, Debug)]
pub struct Watch {
    pub(super) heard: Sender<Heard>,
    pub(super) last: Arc<Mutex<Counters>>,
}

impl Watch {
    /// The counters; those that were read last if the runtime has ended, or does not answer within 2 s.
    pub fn counters(&self) -> Counters {
        let (answer, answers) = channel();
        let asked = self.heard.send(Heard::Count(answer));
        let new = asked.ok().and_then(|()| answers.recv_timeout(PATIENCE).ok());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(new) = new {
            *last = new;
        }
        last.clone()
    }
}
