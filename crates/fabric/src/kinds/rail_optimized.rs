//! Rail-optimized: NIC `i` of every server is on the switches of rail `i`. Traffic for GPU `j` of
//! another server first goes over the scale-up network to the sender's own GPU `j`, and then stays on
//! rail `j`, so that it is one switch away within k/2 servers ("PXN" in NCCL).
//!
//! Modelled: switches of radix k; k/2 servers form a unit with one switch a rail, pods hold k/2
//! switches, in order. Ignored: rails that are not joined at all (rail-only fabrics).

use crate::clos::{Clos, ClosSpec, KEYS, shape};
use crate::cluster::Cluster;
use crate::error::{FabricError, RouteError};
use crate::graph::{Routes, Switches};
use crate::ids::{GpuId, LinkId, ServerId};
use crate::kind::{Capabilities, FabricKeys, FabricKind, FabricSpec, Site, example};
use crate::wires::Wires;
use lightloom_units::kind::Kind;
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

/// NIC `i` of every server on the switches of rail `i`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RailOptimized(pub ClosSpec);

const ABOUT: Kind<Capabilities> = Kind {
    name: "rail-optimized",
    summary: "NIC i of every server on the switches of rail i",
    source: None,
    keys: KEYS,
    capabilities: Capabilities { medium: "rails", rails: true, ..Capabilities::SWITCHED },
};

/// See [`RailOptimized`].
pub static KIND: FabricKind =
    FabricKind::of::<RailOptimized>(ABOUT, |n| example(n, 1, |_| RailOptimized(shape(n)).into()));

impl FabricKeys for RailOptimized {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let (cluster, mut wires) = (site.cluster, Wires::new(site.cluster));
        let servers = || (0..cluster.servers()).map(ServerId);
        let rail = |i| servers().map(|server| cluster.nic(server, i)).collect();
        let rails = (0..cluster.nics_per_server).map(rail).collect();
        let clos = Clos::build(&self.0, "fabric", &rails, &mut wires)?;
        let nics = (0..cluster.nics_per_server).collect();
        Ok((wires, Arc::new(Rails { clos, nics })))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl FabricSpec {
    /// A non-blocking rail-optimized fabric of three tiers with ideal splitting.
    pub fn rail_optimized(rate: BitRate, delay: Time) -> Self {
        RailOptimized(ClosSpec::new(rate, delay)).into()
    }
}

/// First inside the server to the destination's rail.
#[derive(Debug)]
struct Rails {
    clos: Clos,
    /// All NICs of a server.
    nics: Vec<u32>,
}

impl Routes for Rails {
    fn route(
        &self,
        cluster: &Cluster,
        (source, destination): (GpuId, GpuId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        let entry = cluster.nic_of(destination);
        let exit = cluster.nic(cluster.server_of(source), cluster.local_nic(entry));
        cluster.to_nic(source, exit, path);
        self.clos.route(exit, entry, key, path)?;
        cluster.from_nic(entry, destination, path);
        Ok(())
    }

    fn switches(&self) -> Option<&dyn Switches> {
        Some(&self.clos)
    }

    fn packet_nics(&self, _: ServerId) -> &[u32] {
        &self.nics
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
