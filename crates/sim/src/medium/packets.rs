//! Packet switches: from GPU to GPU over the fabric's own routes; all-to-alls as their carrier has it.
//!
//! Where a specification leaves the shape of a fabric open, it is the one whose links even traffic of the job
//! loads least: every kind of traffic by itself, over the routes that flows take and the rings that sums
//! take, as long as its most loaded link ([`fit`](lightloom_railx::fit)). It needs no trace, so that the
//! bill is that of the network which is simulated.

use super::form::{Chosen, Decided, Job, Medium, MediumKind, State, Turn, by_packets, laid};
use crate::carried::Carrier;
use crate::demand::AllToAll;
use crate::error::SimError;
use crate::evenly;
use crate::spec::Spec;
use lightloom_engine::Orders;
use lightloom_fabric::{Cluster, FabricError, FabricSpec, Site, build_at};
use lightloom_railx::fit::{Groups, time_s};

pub(crate) static KIND: MediumKind = MediumKind {
    name: "packets",
    decide: shape,
    begin: |setting| {
        let carrier = Carrier::of(setting);
        Ok(Box::new(Packets { carrier, shape: setting.decided.topology.clone() }))
    },
};

/// With a carrier, if not as the paper of the fabric has it, and the shape that was found for the job.
pub(crate) struct Packets {
    pub carrier: Option<Carrier>,
    pub shape: Option<Chosen>,
}

impl Medium for Packets {
    fn topology(&self) -> Option<String> {
        Some(self.shape.as_ref()?.name.clone())
    }

    fn note(&self) -> Option<String> {
        Some(self.shape.as_ref()?.why.clone())
    }

    fn stays_between(&self) -> bool {
        true
    }

    fn all_to_all(
        &mut self,
        state: &mut State<'_>,
        a2a: AllToAll,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<&'static str, String> {
        match &mut self.carrier {
            Some(carrier) if state.spans_servers(a2a.block) => {
                carrier.all_to_all(state, a2a, turn, orders)
            }
            _ => by_packets(self, state, a2a, turn, orders),
        }
    }
}

/// The best shape of a fabric for a job, if it may have several.
fn shape(spec: &Spec, backups: u32, _: Option<&Job<'_>>) -> Result<Decided, SimError> {
    let input = |error: FabricError| SimError::Input(error.to_string());
    let gpus = spec.cluster.gpus + backups * spec.cluster.gpus_per_server;
    let cluster = Cluster { gpus, ..spec.cluster.clone() };
    let shapes = spec.fabric.shapes(&cluster).map_err(input)?;
    let (mut best, mut costs_s): (Option<(f64, String, FabricSpec)>, _) = (None, Vec::new());
    let traffic = if shapes.len() > 1 { evenly::kinds(spec)? } else { vec![] };
    let tried = shapes.len();
    for (name, shape) in shapes {
        let fabric = build_at(&Site::new(&cluster), &shape).map_err(input)?;
        let time = |(around, groups): &(bool, Groups)| match around {
            true => {
                let groups = groups.iter().map(|group| laid(&fabric, group).into_owned());
                time_s(&fabric, &groups.collect())
            }
            false => time_s(&fabric, groups),
        };
        let cost_s = traffic.iter().map(time).sum::<Option<f64>>().unwrap_or(f64::INFINITY);
        costs_s.push(cost_s);
        if best.as_ref().is_none_or(|&(least, ..)| cost_s < least) {
            best = Some((cost_s, name, shape));
        }
    }
    let Some((cost_s, name, shape)) = best else { return Ok(Decided::default()) };
    let worst = costs_s.iter().copied().fold(0.0, f64::max);
    let why = format!(
        "{}: {name} was taken: of {tried} shapes, even traffic of the job loads its links least, \
         {cost_s:.3} s an iteration; {worst:.3} s at the worst",
        spec.fabric.kind().name()
    );
    let topology = (tried > 1).then_some(Chosen { name, why });
    Ok(Decided { fabric: Some(shape), topology, ..Decided::default() })
}
