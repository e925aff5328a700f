//! The carrier of a run on packet switches: the one that was asked for, or for each all-to-all the one
//! that the estimate finds soonest over.

use crate::carrier::alike::{Alike, Place};
use crate::carrier::estimate::Estimate;
use crate::carrier::form::{CarrierKind, Split, Stages, Travel, largest, place};
use crate::carrier::soonest::{Ask, Bounds, sooner, soonest};
use crate::carrier::{CARRIERS, NAMES};
use crate::demand::AllToAll;
use crate::error::SimError;
use crate::medium::form::{Setting, State, Turn};
use crate::rails::flows::spreads;
use crate::spec::{EngineSpec, Spec};
use lightloom_engine::Orders;
use lightloom_fabric::{
    CarrierSpec, Cluster, Fabric, FabricKind, GpuId, Link, LinkId, NicId, ServerId,
};
use lightloom_packet::Paths;
use lightloom_units::{BitRate, Bytes, Time};
use lightloom_workload::MatrixId;
use std::collections::HashMap;
use std::ops::Range;

/// GPUs of a server among which bytes are handed over, at most.
const MOST_GPUS: u32 = 1024;

/// What a specification's all-to-alls may travel by; none if as its paper has it.
///
/// # Errors
/// [`SimError::Input`] for a carrier that the fabric cannot have, and for keys that nothing reads.
pub(crate) fn allowed(spec: &Spec) -> Result<Vec<&'static CarrierKind>, SimError> {
    let CarrierSpec { carrier, chunk, store_and_forward } = spec.fabric.carrier();
    let kind = spec.fabric.kind();
    let named = |name: &str| CARRIERS.iter().find(|kind| kind.about.name == name).copied();
    let chosen = kind.can().carriers.iter().filter_map(|name| named(name));
    let by_balancer = match &spec.engine {
        EngineSpec::Packet(packet) if kind.can().rails && spreads(&packet.balancer) => {
            Some(packet.balancer.kind().name)
        }
        _ => None,
    };
    if let (Some(balancer), Some(_)) = (by_balancer, &spec.cluster.host) {
        return Err(SimError::Input(format!(
            "engine.balancer.kind = \"{balancer}\": chooses NICs as if all were near; allowed: a \
             balancer that chooses paths only, or no cluster.host"
        )));
    }
    let found: Vec<_> = match (carrier.as_str(), by_balancer) {
        ("paper", _) | ("auto", Some(_)) => vec![],
        (_, Some(balancer)) => {
            return Err(SimError::Input(format!(
                "fabric.carrier = \"{carrier}\": engine.balancer.kind = \"{balancer}\" chooses NICs \
                 itself; allowed: \"auto\", \"paper\", or another balancer"
            )));
        }
        ("auto", None) => {
            let small = spec.cluster.gpus_per_server <= MOST_GPUS;
            chosen.filter(|kind| small || !kind.hands_over).collect()
        }
        (name, None) => {
            let found: Vec<_> = chosen.filter(|kind| kind.about.name == name).collect();
            if found.is_empty() {
                return Err(refused(name, kind));
            }
            found
        }
    };
    let per_server = spec.cluster.gpus_per_server;
    if carrier != "auto" && found.iter().any(|kind| kind.hands_over) && per_server > MOST_GPUS {
        return Err(SimError::Input(format!(
            "cluster.gpus_per_server = {per_server}: carrier \"{carrier}\" hands over among at most \
             {MOST_GPUS}"
        )));
    }
    let hands_over = found.iter().any(|kind| kind.hands_over);
    let unread = |key: &str, value: String| {
        Err(SimError::Input(format!(
            "fabric.{key} = {value}: nothing is handed over with fabric.carrier = \"{carrier}\" on \
             fabric \"{}\"; allowed: leave it out",
            kind.name()
        )))
    };
    match (chunk, store_and_forward) {
        (Some(chunk), _) if !hands_over => unread("chunk", format!("\"{chunk}\"")),
        (_, Some(value)) if !hands_over => unread("store_and_forward", value.to_string()),
        _ => Ok(found),
    }
}

/// Whether packets of a flow are spread over equal paths, or a flow goes where there is room.
fn spread(engine: &EngineSpec) -> bool {
    matches!(engine, EngineSpec::Packet(packet)
        if packet.balancer.kind().capabilities.paths != Paths::Route)
}

fn refused(name: &str, kind: &FabricKind) -> SimError {
    let can =
        |known: &&&str| ["auto", "paper"].contains(known) || kind.can().carriers.contains(known);
    let able: Vec<String> = NAMES.iter().filter(can).map(|name| format!("\"{name}\"")).collect();
    SimError::Input(format!(
        "fabric.carrier = \"{name}\": fabric \"{}\" cannot have it; allowed: {}",
        kind.name(),
        able.join(", ")
    ))
}

/// Of all-to-alls of more pairs no two carriers' orders are kept at the same time.
const MANY: usize = 1 << 20;

/// Of all-to-alls of more pairs the closed form alone decides: a run does without exact rates from there
/// on, too, unless it is asked for them. Where no carrier can be sooner than the first, but by what paths
/// differ in delay, the others are not looked at.
const FAIR: usize = 1 << 16;

/// What carries the all-to-alls of a run over packet switches.
pub(crate) struct Carrier {
    among: Vec<&'static CarrierKind>,
    stages: Stages,
    /// What was chosen for a demand that comes again: in a block that lies alike, or once more in its own.
    chosen: HashMap<(Place, MatrixId, bool, u64), usize>,
    alike: Alike,
    estimate: Estimate,
    servers: Vec<u32>,
    /// Pairs of GPUs of different servers.
    pairs: usize,
    /// By server, from and to inside it.
    local: Vec<u64>,
    /// By carrier, what it makes of the all-to-all.
    drafts: Vec<Draft>,
    /// By NIC: bytes out and in, of those servers.
    nics: Vec<[u64; 2]>,
    /// By NIC: what its links carry out and in.
    rates: Vec<[u64; 2]>,
    /// By GPU.
    own_nic: Vec<u32>,
}

/// What a carrier makes of an all-to-all, as far as it was asked to.
#[derive(Default)]
struct Draft {
    travel: Travel,
    orders: Orders,
}

impl Carrier {
    /// None if all-to-alls travel as the fabric's paper has it.
    pub fn of(setting: &Setting<'_>) -> Option<Self> {
        (!setting.carriers.is_empty()).then(|| Carrier {
            among: setting.carriers.clone(),
            stages: Stages::new(setting.spec),
            chosen: HashMap::new(),
            alike: Alike::default(),
            estimate: Estimate::new(setting.fabric, spread(&setting.spec.engine)),
            servers: vec![],
            pairs: 0,
            local: vec![],
            drafts: setting.carriers.iter().map(|_| Draft::default()).collect(),
            nics: vec![[0; 2]; setting.fabric.cluster().nics() as usize],
            rates: rates(setting.fabric),
            own_nic: own_nics(setting.fabric.cluster()),
        })
    }

    /// Orders for an all-to-all, and the name of what carries it.
    pub fn all_to_all(
        &mut self,
        state: &State<'_>,
        a2a: AllToAll,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<&'static str, String> {
        self.demand(state, a2a);
        let index = match self.among.len() {
            1 => {
                self.split(0, state, a2a);
                0
            }
            _ => self.chosen(state, a2a, turn.key)?,
        };
        self.order(index, state, a2a, turn.key)?;
        std::mem::swap(orders, &mut self.drafts[index].orders);
        for draft in &mut self.drafts {
            match self.pairs > MANY {
                true => *draft = Draft::default(),
                false => draft.orders.clear(),
            }
        }
        Ok(self.among[index].about.name)
    }

    /// Which carrier is soonest over, and what it makes of the all-to-all; looked up if that has been found out.
    fn chosen(&mut self, state: &State<'_>, a2a: AllToAll, key: u64) -> Result<usize, String> {
        let place = self.alike.place(state, a2a.block, &self.servers);
        let demand = (place, a2a.matrix, a2a.transposed, a2a.bytes_per_token);
        let known = match place {
            Place::Like(_) => self.chosen.get(&demand).copied(),
            Place::Own(_) => self.chosen.remove(&demand),
        };
        let Some(index) = known else {
            let index = self.choose(state, a2a, key)?;
            self.chosen.insert(demand, index);
            return Ok(index);
        };
        if cfg!(debug_assertions) && matches!(place, Place::Like(_)) {
            assert_eq!(self.choose(state, a2a, key), Ok(index), "blocks that lie alike are alike");
        }
        self.split(index, state, a2a);
        Ok(index)
    }

    /// Which carrier is soonest over.
    fn choose(&mut self, state: &State<'_>, a2a: AllToAll, key: u64) -> Result<usize, String> {
        let mut floors = vec![];
        if self.pairs > FAIR && !state.health.matters() {
            self.split(0, state, a2a);
            let floor = self.floor(0, state, key)?;
            let least = self.least(state).saturating_add(floor.form.saturating_sub(floor.least));
            self.order(0, state, a2a, key)?;
            let first = self.estimate.bounds(state.fabric, &self.drafts[0].orders);
            if !sooner(least, first.form) {
                return Ok(0);
            }
        }
        for index in 0..self.among.len() {
            self.split(index, state, a2a);
            floors.push(self.floor(index, state, key)?);
            let first = (0..=index).min_by_key(|&at| floors[at].form);
            (0..=index).filter(|&at| Some(at) != first).for_each(|at| self.spare(at));
        }
        soonest(floors, |index, ask| {
            if self.pairs > MANY {
                let others = self.drafts.iter_mut().enumerate().filter(|&(at, _)| at != index);
                others.for_each(|(_, draft)| draft.orders = Orders::default());
            }
            self.order(index, state, a2a, key)?;
            let (fabric, orders) = (state.fabric, &self.drafts[index].orders);
            Ok(match ask {
                Ask::Time(enough) if self.pairs <= FAIR => {
                    let most = self.estimate.time(fabric, orders, enough);
                    Bounds { least: Time::ZERO, form: Time::ZERO, most }
                }
                _ => {
                    let bounds = self.estimate.bounds(fabric, orders);
                    let Bounds { form, .. } = bounds;
                    match self.pairs <= FAIR {
                        true => bounds,
                        false => Bounds { least: form, form, most: form },
                    }
                }
            })
        })
    }

    /// Notes what GPUs send each other inside servers, and how many send to others.
    fn demand(&mut self, state: &State<'_>, a2a: AllToAll) {
        let (demand, per_server) = (&state.demand, state.fabric.cluster().gpus_per_server);
        self.servers = state.servers_of(a2a.block);
        let (gpus, servers) = (per_server as usize, &self.servers);
        self.local.clear();
        self.local.resize(servers.len() * gpus * gpus, 0);
        self.pairs = 0;
        let (pairs, local) = (&mut self.pairs, &mut self.local);
        demand.for_each_in_turn(a2a, |from, to, bytes| {
            if from / per_server != to / per_server {
                *pairs += 1;
                return;
            }
            let (server, from) = place(servers, per_server, from);
            local[(server * gpus + from) * gpus + (to % per_server) as usize] += bytes;
        });
    }

    /// Has a carrier split an all-to-all.
    fn split(&mut self, index: usize, state: &State<'_>, a2a: AllToAll) {
        let split = Split {
            fabric: state.fabric,
            cluster: state.fabric.cluster(),
            servers: &self.servers,
            demand: &state.demand,
            a2a,
            chunk: self.stages.chunk,
        };
        let travel = &mut self.drafts[index].travel;
        travel.reset(&self.local);
        if let Some(carry) = self.among[index].split {
            carry(&split, travel);
        }
    }

    /// What a carrier takes at least: the busiest NIC's bytes, and the chunks before and after. Nothing
    /// where NICs may fail.
    fn floor(&mut self, index: usize, state: &State<'_>, key: u64) -> Result<Bounds, String> {
        let mut floor = Bounds { least: Time::ZERO, form: Time::ZERO, most: Time::MAX };
        let (cluster, travel) = (state.fabric.cluster(), &self.drafts[index].travel);
        if state.health.matters() {
            return Ok(floor);
        }
        let nic = |end: u32| match travel.by_own_nics {
            true => self.own_nic[end as usize] as usize,
            false => end as usize,
        };
        for &server in &self.servers {
            self.nics[nics_of(cluster, server)].fill([0; 2]);
        }
        let (mut most, mut busiest) = (0, None);
        for (at, &(from, to, bytes)) in travel.exchange.iter().enumerate() {
            for (nic, side) in [(nic(from), 0), (nic(to), 1)] {
                self.nics[nic][side] += bytes;
                if self.nics[nic][side] > most {
                    (most, busiest) = (self.nics[nic][side], Some((at, side)));
                }
            }
        }
        let Some((at, side)) = busiest else { return Ok(floor) };
        let mut path = vec![];
        route(travel, state, travel.exchange[at], key, &mut path)?;
        let Some(part) = state.fabric.switched(&path) else { return Ok(floor) };
        let link = state.fabric.link(path[[part.before, path.len() - 1 - part.after][side]]);
        let gpus = cluster.gpus_per_server as usize;
        let pause = |table| self.stages.pause(largest(table, gpus));
        let busy = link.rate.time_for(Bytes::new(most)).saturating_add(pause(&travel.gather));
        let busy = busy.saturating_add(pause(&travel.scatter));
        let delay = path.iter().map(|&link| state.fabric.link(link).delay).sum();
        (floor.least, floor.form) = (busy.saturating_add(link.delay), busy.saturating_add(delay));
        Ok(floor)
    }

    /// What any carrier takes at least, given the bytes of NICs under one: those of a server over all its NICs.
    fn least(&self, state: &State<'_>) -> Time {
        let cluster = state.fabric.cluster();
        let busy = |&server: &u32, side: usize| {
            let all = nics_of(cluster, server);
            let sum = |of: &[[u64; 2]]| of[all.clone()].iter().map(|nic| nic[side]).sum::<u64>();
            let rate = BitRate::from_bps(sum(&self.rates).max(1));
            rate.time_for(Bytes::new(sum(&self.nics)))
        };
        let sides = self.servers.iter().flat_map(|at| [busy(at, 0), busy(at, 1)]);
        sides.max().unwrap_or(Time::ZERO)
    }

    /// Of very many pairs what a carrier has split is not kept, but perhaps split once more.
    fn spare(&mut self, index: usize) {
        if self.pairs > MANY {
            self.drafts[index].travel = Travel::default();
        }
    }

    /// Orders what a carrier has split, unless that has been done.
    fn order(
        &mut self,
        index: usize,
        state: &State<'_>,
        a2a: AllToAll,
        key: u64,
    ) -> Result<(), String> {
        if !self.drafts[index].orders.phases().is_empty() {
            return Ok(());
        }
        if self.pairs > MANY && self.drafts[index].travel.exchange.is_empty() {
            self.split(index, state, a2a);
        }
        let Draft { travel, orders } = &mut self.drafts[index];
        order(travel, state, &self.servers, &self.stages, key, orders)?;
        self.spare(index);
        Ok(())
    }
}

/// The NICs of a server.
fn nics_of(cluster: &Cluster, server: u32) -> Range<usize> {
    let first = cluster.nic(ServerId(server), 0).index();
    first..first + cluster.nics_per_server as usize
}

/// By NIC, what its links out of the server and into it carry.
fn rates(fabric: &Fabric) -> Vec<[u64; 2]> {
    let mut rates = vec![[0; 2]; fabric.cluster().nics() as usize];
    let first = fabric.nic_node(NicId(0)).0;
    let out = |link: &&Link| !link.class.is_inside();
    for link in fabric.links().iter().filter(out) {
        for (side, end) in [link.from, link.to].into_iter().enumerate() {
            let nic = end.0.checked_sub(first).and_then(|at| rates.get_mut(at as usize));
            nic.into_iter().for_each(|nic| nic[side] += link.rate.bps());
        }
    }
    rates
}

/// Puts what a carrier made of an all-to-all into `orders`.
fn order(
    travel: &Travel,
    state: &State<'_>,
    servers: &[u32],
    stages: &Stages,
    key: u64,
    orders: &mut Orders,
) -> Result<(), String> {
    let cluster = state.fabric.cluster();
    let gpus = cluster.gpus_per_server as usize;
    let hand = |bytes: &dyn Fn(usize) -> u64, orders: &mut Orders| {
        for (index, &server) in servers.iter().enumerate() {
            let (first, offset) = (server * cluster.gpus_per_server, index * gpus * gpus);
            for pair in 0..gpus * gpus {
                let (from, to, bytes) = (pair / gpus, pair % gpus, bytes(offset + pair));
                if from != to && bytes > 0 {
                    let [from, to] = [from, to].map(|at| GpuId(first + at as u32));
                    state.fabric.scale_up_path(from, to, orders.path());
                    orders.flow(Bytes::new(bytes));
                }
            }
        }
    };
    stages.begin(largest(&travel.gather, gpus), orders);
    if stages.store_and_forward {
        hand(&|at| travel.gather[at], orders);
        stages.then(orders);
    }
    for &hop in &travel.exchange {
        let first = orders.path().len();
        route(travel, state, hop, key, orders.path())?;
        state.order(first, hop.2, orders);
    }
    match stages.store_and_forward {
        true => {
            hand(&|at| travel.local[at], orders);
            stages.then(orders);
            hand(&|at| travel.scatter[at], orders);
        }
        false => hand(&|at| travel.gather[at] + travel.local[at] + travel.scatter[at], orders),
    }
    stages.end(largest(&travel.scatter, gpus), orders);
    Ok(())
}

fn own_nics(cluster: &Cluster) -> Vec<u32> {
    (0..cluster.gpus).map(|gpu| cluster.nic_of(GpuId(gpu)).0).collect()
}

/// Appends the path of what one NIC sends another, or one GPU by its own NIC.
fn route(
    travel: &Travel,
    state: &State<'_>,
    (from, to, _): (u32, u32, u64),
    key: u64,
    path: &mut Vec<LinkId>,
) -> Result<(), String> {
    if !travel.by_own_nics {
        return state.health.nic_route(NicId(from), NicId(to), key, path);
    }
    let (from, to, cluster) = (GpuId(from), GpuId(to), state.fabric.cluster());
    let nics = (cluster.nic_of(from), cluster.nic_of(to));
    state.health.route_by(|| (from, to), nics, key, path)
}
