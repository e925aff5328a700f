//! RailX as the network of a job: which grid its nodes fill, and the circuits that stand on it. All
//! collectives are flows, for a node's mesh carries what passes through too.
//!
//! Circuits are set before the job starts and stay ([`circuits`]), unless blocks have rails by turns
//! ([`turning`]).

mod circuits;
mod turning;

use self::circuits::{Found, circuits, input};
use self::turning::Turning;
use super::form::{
    Chosen, Decided, Medium, MediumKind, Pair, State, Sum, Turn, all_reduce, around, by_packets,
};
use crate::demand::AllToAll;
use lightloom_engine::{Orders, Patch, Patches, TaskId};
use lightloom_fabric::{Fabric, GpuId, LinkId, RailXSpec};
use lightloom_units::{Bytes, Time};

pub(crate) static KIND: MediumKind = MediumKind {
    name: "railx",
    decide: |spec, _, _| {
        let railx: &RailXSpec = spec.fabric.keys().expect("only RailX names this medium");
        let Found { layout, chosen, turns } = circuits(spec, railx)?;
        Ok(Decided { layout: Some(layout), topology: chosen, turns, ..Decided::default() })
    },
    begin: |setting| {
        let spec: &RailXSpec = setting.spec.fabric.keys().expect("only RailX names this medium");
        let topology = setting.decided.topology.clone();
        let (cluster, job) = (setting.fabric.cluster(), setting.job);
        let turning = setting.decided.turns.as_ref();
        let turning =
            turning.map(|turns| Turning::new(turns, (cluster, spec), job.graph, job.placement));
        let turning = turning.transpose().map_err(input)?;
        let stands = spec.ocs_delay_ps.is_some() && turning.is_none();
        Ok(Box::new(RailX { standing: standing(setting.fabric), topology, turning, stands }))
    },
};

/// With its circuits, the topology that was found for the job, if one was, and turns, if there are any.
struct RailX<'a> {
    standing: Vec<Patch>,
    topology: Option<Chosen>,
    turning: Option<Turning<'a>>,
    /// Circuits might change and do not.
    stands: bool,
}

impl RailX<'_> {
    /// Orders a transfer in its turn.
    fn in_turn<T>(
        &mut self,
        task: TaskId,
        orders: &mut Orders,
        order: impl FnOnce(&mut Self, &mut Orders) -> T,
    ) -> T {
        if let Some(turning) = &mut self.turning {
            turning.begin(task, &mut orders.patches);
        }
        let ordered = order(self, orders);
        if let Some(turning) = &mut self.turning {
            turning.ordered();
        }
        ordered
    }
}

impl Medium for RailX<'_> {
    fn standing(&self) -> Vec<Patch> {
        self.standing.clone()
    }

    fn topology(&self) -> Option<String> {
        Some(self.topology.as_ref()?.name.clone())
    }

    fn note(&self) -> Option<String> {
        let chosen = self.topology.iter().map(|chosen| chosen.why.clone());
        let turns = self.turning.iter().map(Turning::note);
        let stands = "railx: circuits stand: to change them would serve this job no better";
        let turns = turns.chain(self.stands.then(|| stands.into()));
        Some(chosen.chain(turns).collect::<Vec<_>>().join("; ")).filter(|note| !note.is_empty())
    }

    fn collective(
        &mut self,
        state: &State<'_>,
        groups: &[Vec<u32>],
        (bytes, steps): (u64, u32),
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.in_turn(turn.task, orders, |medium, orders| {
            medium.send(state, &around(groups, bytes), steps, turn, orders)
        })
    }

    fn all_to_all(
        &mut self,
        state: &mut State<'_>,
        a2a: AllToAll,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<&'static str, String> {
        self.in_turn(turn.task, orders, |medium, orders| {
            by_packets(medium, state, a2a, turn, orders)
        })
    }

    fn flow(
        &self,
        state: &State<'_>,
        (from, to, bytes): Pair,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let (from, to) = (GpuId(from), GpuId(to));
        match &self.turning {
            None => state.health.route(from, to, key, orders.path())?,
            Some(turning) => {
                let routed = turning.fabric().route(from, to, key, orders.path());
                routed.map_err(|error| error.to_string())?;
            }
        }
        orders.flow(Bytes::new(bytes));
        Ok(())
    }

    fn all_reduce(
        &mut self,
        state: &State<'_>,
        sum: &Sum<'_>,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.in_turn(turn.task, orders, |medium, orders| {
            all_reduce(medium, state, sum, turn, orders)
        })
    }

    fn displaced(&self, key: u64, path: &mut Vec<LinkId>) -> bool {
        self.turning.as_ref().is_some_and(|turning| turning.displaced(key, path))
    }

    fn next(&mut self, task: TaskId, _: Time, patches: &mut Patches) {
        if let Some(turning) = &mut self.turning {
            turning.end(task, patches);
        }
    }
}

/// The circuits of a fabric that stand from the beginning; none but on RailX.
pub(crate) fn standing(fabric: &Fabric) -> Vec<Patch> {
    fabric.standing().into_iter().map(|(tx, rx)| Patch { tx, rx: Some(rx) }).collect()
}
