//! A network of routers as links: what runs hop by hop on one engine runs as a [`Fabric`] on the others.
//!
//! Modelled: chips as GPUs, a server each; channels as links of the same number; routes hop by hop as the
//! network's own routing says, of the choices that are best the one that a hash picks.
//! Ignored: virtual channels, bubbles, and what is free: a route is chosen before it is taken.
//! Checked: every route is a chain of links between its ends, as long as the routing's own paths.

use super::kind::Routed;
use super::network::Network;
use super::routing::Routing;
use crate::cluster::Cluster;
use crate::error::{FabricError, RouteError};
use crate::graph::{Fabric, Routes};
use crate::hash::Choice;
use crate::ids::{GpuId, LinkId, NodeId};
use crate::wires::{Link, LinkClass, NodeKind, Wires};
use lightloom_units::{BitRate, Time};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The links of a network whose channels carry `flit_bps` for each flit of width, and whose cycles are so
/// long.
///
/// # Errors
/// A network whose chips are not its first routers, or more chips than a cluster has GPUs.
///
/// ```
/// use lightloom_fabric::{GpuId, routers::{Torus, fabric}};
/// use lightloom_units::{BitRate, Time};
/// let torus = Torus::new(&[4, 4], 1).unwrap();
/// let routed = (torus.network(1, 10, 1), Box::new(torus) as Box<_>);
/// let fabric = fabric(routed, BitRate::from_gbps(400), Time::from_ns(1)).unwrap();
/// let mut path = Vec::new();
/// fabric.route(GpuId(0), GpuId(5), 7, &mut path).unwrap();
/// assert_eq!(path.len(), 2);
/// assert_eq!(fabric.link(path[0]).delay, Time::from_ns(10));
/// ```
pub fn fabric(routed: Routed, flit_bps: BitRate, cycle: Time) -> Result<Fabric, FabricError> {
    let (network, routing) = routed;
    let mut chips: Vec<u32> = network.terminals().to_vec();
    chips.dedup();
    if chips.iter().enumerate().any(|(at, &router)| at as u32 != router) {
        let reason = "must have its chips as its first routers, to be links";
        return Err(FabricError::new("network", network.name(), reason));
    }
    let chips = chips.len() as u32;
    let cluster = Cluster::of(chips, 1);
    cluster.validate()?;
    let mut wires = Wires::bare(&cluster);
    let first = wires.nodes.len() as u32;
    (chips..network.routers()).for_each(|_| _ = wires.node(NodeKind::Switch { tier: 0 }));
    let node = |router: u32| match router.checked_sub(chips) {
        Some(switch) => NodeId(first + switch),
        None => NodeId(router),
    };
    wires.links.extend(network.channels().iter().map(|channel| Link {
        from: node(channel.from.router),
        to: node(channel.to.router),
        rate: flit_bps * u64::from(channel.width),
        delay: cycle * u64::from(channel.delay),
        class: LinkClass::Custom,
        lanes: 1,
    }));
    Ok(Fabric::new(&cluster, wires, Arc::new(Hops { network, routing })))
}

/// Where packets go, hop by hop.
struct Hops {
    network: Network,
    routing: Box<dyn Routing + Send>,
}

impl fmt::Debug for Hops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, routed {}", self.network.name(), self.routing.name())
    }
}

impl Routes for Hops {
    fn route(
        &self,
        _: &Cluster,
        (source, destination): (GpuId, GpuId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        let mut hash = Choice::new(source.0, destination.0, key);
        let draw = hash.of(self.routing.draws() as usize) as u32;
        let (mut at, mut came, mut choices) = (source.0, None, Vec::new());
        while at != destination.0 {
            choices.clear();
            self.routing.route(at, came, destination.0, draw, &mut choices);
            let best = choices.iter().map(|choice| choice.rank).min().unwrap_or(0);
            choices.retain(|choice| choice.rank == best);
            choices.dedup_by_key(|choice| choice.port);
            let choice = choices[hash.of(choices.len())];
            let index = self.network.out_index(at, choice.port);
            let index = index.expect("a routing leads over channels that there are");
            path.push(LinkId(index));
            let to = self.network.channels()[index as usize].to;
            (at, came) = (to.router, Some((to.port, choice.vc)));
        }
        Ok(())
    }

    /// A chip is a server of its own.
    fn scale_up_path(&self, _: GpuId, _: GpuId, _: &mut Vec<LinkId>) {}

    fn as_any(&self) -> &dyn Any {
        self
    }
}
