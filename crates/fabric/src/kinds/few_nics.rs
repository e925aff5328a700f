//! A fat-tree of some NICs of each server: the others are not plugged in, and not on the bill. Its GPUs
//! share those that are, as MixNet's share their packet NICs.

use crate::clos::{Clos, ClosSpec, OVERSUBSCRIPTION, RADIX, SPLITTING, Splitting, shape};
use crate::cluster::Cluster;
use crate::error::{FabricError, RouteError};
use crate::gateway::Gateways;
use crate::graph::{Routes, Switches};
use crate::ids::{GpuId, LinkId, ServerId};
use crate::kind::{
    Capabilities, FabricKeys, FabricKind, LINK_BANDWIDTH, LINK_DELAY, NAME, Site, example,
};
use crate::wires::Wires;
use lightloom_units::kind::{Form, Key, Kind};
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

/// Switches as in [`ClosSpec`], with `nics` NICs of each server on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FewNicsSpec {
    /// NICs of a server that are plugged in.
    pub nics: u32,
    /// See [`ClosSpec::link_bps`].
    pub link_bps: BitRate,
    /// See [`ClosSpec::link_delay_ps`].
    pub link_delay_ps: Time,
    /// See [`ClosSpec::tiers`].
    pub tiers: u8,
    /// See [`ClosSpec::oversubscription`].
    pub oversubscription: f64,
    /// See [`ClosSpec::radix`].
    pub radix: Option<u32>,
    /// See [`ClosSpec::splitting`].
    pub splitting: Splitting,
}

const ABOUT: Kind<Capabilities> = Kind {
    name: "few-nics",
    summary: "A fat-tree of some NICs of each server, which its GPUs share",
    source: None,
    keys: &[
        NAME,
        LINK_BANDWIDTH,
        LINK_DELAY,
        Key::new(
            "nics",
            Form::Count { min: 1, max: 1024 },
            "NICs of a server that are plugged in; the others are not on the bill.",
        ),
        Key::new("tiers", Form::Numbers(&[2, 3]), "Tiers of switches."),
        OVERSUBSCRIPTION,
        RADIX,
        SPLITTING,
    ],
    capabilities: Capabilities {
        carriers: &["delegate"],
        many_nics: true,
        ..Capabilities::SWITCHED
    },
};

/// See [`FewNicsSpec`].
pub static KIND: FabricKind = FabricKind::of::<FewNicsSpec>(ABOUT, |n| {
    let ClosSpec { link_bps, link_delay_ps, tiers, oversubscription, radix, splitting } = shape(n);
    example(n, 1, |cluster| {
        let nics = 1 + n % cluster.nics_per_server;
        let spec = FewNicsSpec {
            nics,
            link_bps,
            link_delay_ps,
            tiers,
            oversubscription,
            radix,
            splitting,
        };
        spec.into()
    })
});

impl FabricKeys for FewNicsSpec {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let (cluster, mut wires) = (site.cluster, Wires::new(site.cluster));
        if !(1..=cluster.nics_per_server).contains(&self.nics) {
            let most = cluster.nics_per_server;
            let allowed = format!("must be from 1 to cluster.nics_per_server = {most}");
            return Err(FabricError::new("fabric.nics", self.nics, allowed));
        }
        let spec = ClosSpec {
            link_bps: self.link_bps,
            link_delay_ps: self.link_delay_ps,
            tiers: self.tiers,
            oversubscription: self.oversubscription,
            radix: self.radix,
            splitting: self.splitting,
        };
        let nics = Gateways::spread(self.nics, cluster);
        let servers = (0..cluster.servers()).map(ServerId);
        let hosts = servers.flat_map(|server| Gateways::of(cluster, server, &nics)).collect();
        let clos = Clos::build(&spec, "fabric", &vec![hosts], &mut wires)?;
        Ok((wires, Arc::new(Few(Gateways { clos, nics }))))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[derive(Debug)]
struct Few(Gateways);

impl Routes for Few {
    fn route(
        &self,
        cluster: &Cluster,
        ends: (GpuId, GpuId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        self.0.route(cluster, ends, key, path)
    }

    fn switches(&self) -> Option<&dyn Switches> {
        Some(&self.0.clos)
    }

    fn packet_nics(&self, _: ServerId) -> &[u32] {
        &self.0.nics
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
