//! What a decider is asked: everything that one decision depends on and that the decider cannot
//! remember by itself.

use crate::traffic::Traffic;
use lightloom_circuits::{PortMap, ServerDemand};
use lightloom_units::Time;
use serde::{Deserialize, Serialize};

/// What lies ahead of a region: whoever knows the job's task graph says it with the demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ahead {
    /// All-to-alls of this demand, or of its transpose, that follow one another from the next on.
    pub uses: u32,
    /// Computation before the first of them, during which ports may be dark at no cost.
    #[serde(rename = "hidden_ps")]
    pub hidden: Time,
    /// All-to-alls of other demands after these, before circuits can change at no cost again.
    pub later: u32,
    /// How often circuits can change for the later ones, at a price, so that each of them has circuits
    /// of its own; 0 if they cannot, or if that is not known.
    #[serde(default)]
    pub changes: u32,
    /// In which pass of a micro-batch through the region's stage the next all-to-all is, counted from the
    /// iteration's first: of this pass what other traffic takes is asked (see [`crate::traffic`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<u32>,
}

impl Default for Ahead {
    /// A dispatch and its combine, no computation that hides a change, and nothing known of what
    /// follows.
    fn default() -> Self {
        Ahead { uses: 2, hidden: Time::ZERO, later: 0, changes: 0, pass: None }
    }
}

/// Where the demand of a question comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// The gate has decided: this will be sent.
    #[default]
    Known,
    /// A predictor expects it. It is not remembered as a demand that was seen.
    Predicted,
    /// Nothing has been asked for yet: an even demand stands for all. Its circuits are set without
    /// weighing, since nothing waits for them.
    Start,
    /// Circuits were lost that had been set for this demand: others are chosen at once, without
    /// weighing, since an all-to-all over what is left has no time that could be compared.
    Repair,
}

/// Whether a server reaches the others over packet switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketSide {
    /// At least one packet NIC works.
    #[default]
    Works,
    /// None works, and the server has something to send: it needs a circuit.
    Broken,
    /// None works, and the server has nothing to send. It cannot pass on what others send.
    BrokenAndIdle,
}

/// A question: circuits for the next all-to-all of a region. Lists are by server, or empty if nothing
/// is known of any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Numbers the questions of one asker.
    pub number: u64,
    /// What servers will send each other.
    pub demand: ServerDemand,
    /// Where that comes from.
    pub basis: Basis,
    /// The same of each server's tenant, where tenants differ.
    pub basis_of: Vec<Basis>,
    /// The circuits that stand, and the ports that must not be used.
    pub standing: PortMap,
    /// What each server says of what lies ahead.
    pub ahead: Vec<Option<Ahead>>,
    /// What each server has measured of other traffic: see [`crate::traffic`].
    pub traffic: Vec<Vec<Traffic>>,
    /// Which servers have lost their packet NICs.
    pub packet_sides: Vec<PacketSide>,
}

impl Question {
    /// A question of which nothing is known but the demand and the circuits that stand.
    pub fn new(demand: ServerDemand, standing: PortMap) -> Self {
        Question {
            number: 1,
            demand,
            basis: Basis::Known,
            basis_of: Vec::new(),
            standing,
            ahead: Vec::new(),
            traffic: Vec::new(),
            packet_sides: Vec::new(),
        }
    }

    /// What this question asks of some servers, in rising order, numbered anew from 0.
    pub(crate) fn of(&self, members: &[usize]) -> Question {
        let standing = &self.standing;
        let n = members.len();
        let mut demand = ServerDemand::zero(n);
        let mut map = PortMap::dark(n, standing.degree());
        for (i, &a) in members.iter().enumerate() {
            for (j, &b) in members.iter().enumerate().filter(|&(j, _)| j != i) {
                demand.add(i as u32, j as u32, self.demand.get(a, b));
            }
            for port in 0..standing.degree() {
                if standing.is_blocked(a, port) {
                    map.block(i, port);
                }
                let peer = standing.peer(a, port);
                let Some((to, at)) = peer else { continue };
                if let Ok(j) = members.binary_search(&usize::from(to)) {
                    map.connect((i as u16, port as u16), (j as u16, at));
                }
            }
        }
        Question {
            number: self.number,
            demand,
            basis: members
                .first()
                .and_then(|&at| self.basis_of.get(at))
                .copied()
                .unwrap_or(self.basis),
            basis_of: Vec::new(),
            standing: map,
            ahead: some_of(&self.ahead, members),
            traffic: some_of(&self.traffic, members),
            packet_sides: some_of(&self.packet_sides, members),
        }
    }
}

fn some_of<T: Clone>(list: &[T], members: &[usize]) -> Vec<T> {
    members.iter().filter_map(|&at| list.get(at).cloned()).collect()
}
