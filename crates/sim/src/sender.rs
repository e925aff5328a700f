//! The policy of every run: gives each transfer, when its turn has come, to what carries it
//! ([`crate::medium`]), and keeps what the report shows of demands.

use crate::demand::{AllToAll, Demand, DemandRecord};
use crate::failures::{Health, Moved};
use crate::medium::{Medium, State, Sum, Turn};
use crate::merged::Visits;
use crate::spec::{EngineSpec, Spec};
use lightloom_engine::{Orders, Patches, Policy, TaskId};
use lightloom_fabric::{Fabric, LinkId};
use lightloom_units::{Bytes, Time};
use lightloom_workload::collective::{RingPlan, hierarchical};
use lightloom_workload::{Comm, Gating, Pass, Placement, Scope, TaskGraph};
use std::collections::{BTreeMap, HashMap};

pub(crate) struct Sender<'a> {
    graph: &'a TaskGraph,
    state: State<'a>,
    seed: u64,
    record_replicas: u32,
    rings: HashMap<(u32, Scope, u64), RingPlan>,
    pub medium: Box<dyn Medium + 'a>,
    pub records: Vec<DemandRecord>,
    /// All-to-alls between servers by what carried them.
    pub carried: BTreeMap<&'static str, u64>,
    /// Whether replicas have nothing to do with one another but for sums of gradients.
    apart: bool,
}

impl<'a> Sender<'a> {
    pub fn new(
        fabric: &'a Fabric,
        graph: &'a TaskGraph,
        (placement, gating): (&'a Placement, &'a Gating),
        medium: Box<dyn Medium + 'a>,
        health: Health<'a>,
        spec: &Spec,
    ) -> Self {
        let packets = matches!(spec.engine, EngineSpec::Packet(_));
        let shares = fabric.shares() && !packets && !health.matters();
        let per_server = fabric.cluster().gpus_per_server;
        let demand = Demand::new(placement, gating, per_server);
        // No server is of two replicas then.
        let own = placement.degrees().block_size() % per_server == 0;
        let apart = own && medium.stays_between() && fabric.binds_at_servers();
        Sender {
            graph,
            state: State { fabric, demand, health, shares },
            seed: spec.seed,
            record_replicas: spec.record.replicas,
            rings: HashMap::new(),
            medium,
            records: Vec::new(),
            carried: BTreeMap::new(),
            apart,
        }
    }

    /// Has ranks run on these GPUs, by rank. Hashes pick other paths than those of jobs elsewhere, and the same
    /// whoever else runs.
    pub fn place(&mut self, gpus: Vec<u32>) {
        self.seed = self.seed.wrapping_add(gpus.first().copied().unwrap_or(0).into());
        self.state.demand.moved = Moved::placed(gpus);
        self.apart = false; // servers are another's, too
    }

    /// A key for the hash that picks paths: every transfer hashes anew, as new queue pairs would.
    fn key(&self, transfer: u32) -> u64 {
        self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(transfer)
    }

    /// Keeps the demand between servers of the first micro-batch's forward dispatches.
    fn keep(&mut self, a2a: AllToAll, task: TaskId) {
        let at = task.0 as usize;
        let forward = self.graph.pass[at] == Pass::Forward;
        let first = self.graph.micro_batch[at] == 0 && forward && !a2a.transposed;
        if !first || a2a.block.replica >= self.record_replicas {
            return;
        }
        let per_server = self.state.fabric.cluster().gpus_per_server;
        let mut between: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        self.state.demand.for_each(a2a, |from, to, bytes| {
            *between.entry((from / per_server, to / per_server)).or_default() += bytes;
        });
        for ((source, destination), bytes) in between {
            self.records.push(DemandRecord {
                replica: a2a.block.replica,
                stage: a2a.block.stage,
                layer: self.graph.layer[at],
                micro_batch: 0,
                source,
                destination,
                bytes,
                circuits: self.medium.circuits_between(source, destination),
            });
        }
    }

    /// What carried all-to-alls between servers, the most frequent first.
    pub fn carrier(&self) -> String {
        let mut carried: Vec<_> = self.carried.iter().collect();
        carried.sort_by_key(|&(_, times)| std::cmp::Reverse(times));
        match carried.is_empty() {
            true => "none".into(),
            false => carried.iter().map(|(name, _)| **name).collect::<Vec<_>>().join(", "),
        }
    }

    /// How often which of several carriers was chosen.
    pub fn carrier_note(&self, spec: &Spec) -> Option<String> {
        let chosen = spec.fabric.carrier().carrier == "auto" && self.carried.len() > 1;
        let each = self.carried.iter().map(|(name, times)| format!("{times} by {name}"));
        let each = each.collect::<Vec<_>>().join(", ");
        chosen.then(|| format!("all-to-alls between servers: {each}"))
    }

    /// What a token visits, where it is copied once a server.
    pub fn copies_note(&self, top_k: u32) -> Option<String> {
        let visits = self.state.demand.visits()?;
        let per_server = self.state.fabric.cluster().gpus_per_server;
        let of = (self.state.demand.placement, self.state.demand.gating);
        Some(crate::merged::note(of, visits, (top_k, per_server)))
    }

    /// The same as figures.
    pub fn copies_figures(&self) -> Vec<(&'static str, f64)> {
        let figures = |visits: Visits| {
            vec![
                ("servers_per_token", visits.servers),
                ("other_servers_per_token", visits.others),
                ("gpus_per_token", visits.gpus),
            ]
        };
        self.state.demand.visits().map_or_else(Vec::new, figures)
    }

    fn all_reduce(
        &mut self,
        (stage, scope, bytes_per_gpu): (u32, Scope, u64),
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let demand = &self.state.demand;
        let plan = self.rings.entry((stage, scope, bytes_per_gpu)).or_insert_with(|| {
            let mut groups = demand.placement.gradient_groups(stage, scope);
            groups.iter_mut().for_each(|group| demand.moved.apply(group));
            hierarchical(&groups, bytes_per_gpu, self.state.fabric.cluster().gpus_per_server)
        });
        self.medium.all_reduce(&self.state, &Sum { stage, scope, plan }, turn, orders)
    }
}

impl Policy for Sender<'_> {
    fn begin(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let turn = Turn { task, key: self.key(transfer), now };
        let comm = self.graph.comms[transfer as usize];
        if !matches!(comm, Comm::AllToAll { .. }) {
            self.medium.other_begins(transfer, now);
        }
        let (placement, moved) = (self.state.demand.placement, &self.state.demand.moved);
        match comm {
            Comm::AllToAll { block, matrix, transposed, bytes_per_token } => {
                let a2a = AllToAll { block, matrix, transposed, bytes_per_token };
                let carrier = self.medium.all_to_all(&mut self.state, a2a, turn, orders)?;
                if self.state.spans_servers(block) {
                    *self.carried.entry(carrier).or_default() += 1;
                }
                self.keep(a2a, task);
                Ok(())
            }
            Comm::Send { from, to, bytes_per_gpu } => {
                let pairs = placement.block_gpus(from).zip(placement.block_gpus(to));
                let pairs: Vec<_> =
                    pairs.map(|(a, b)| (moved.gpu_of(a), moved.gpu_of(b), bytes_per_gpu)).collect();
                self.medium.send(&self.state, &pairs, 1, turn, orders)
            }
            Comm::AllReduce { stage, scope, bytes_per_gpu } => {
                self.all_reduce((stage, scope, bytes_per_gpu), turn, orders)
            }
            Comm::Collective { block, over, bytes_per_gpu, steps } => {
                let mut groups = placement.axis_groups(block, over);
                groups.iter_mut().for_each(|group| moved.apply(group));
                self.medium.collective(&self.state, &groups, (bytes_per_gpu, steps), turn, orders)
            }
            Comm::Exchange { first, end, steps } => {
                let sent = &self.graph.messages[first as usize..end as usize];
                let on = |&(from, to, bytes)| (moved.gpu_of(from), moved.gpu_of(to), bytes);
                let pairs: Vec<_> = sent.iter().map(on).collect();
                self.medium.send(&self.state, &pairs, steps, turn, orders)
            }
        }
    }

    fn more(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        match self.graph.comms[transfer as usize] {
            Comm::AllReduce { .. } => {
                let turn = Turn { task, key: self.key(transfer), now };
                self.medium.more(turn, orders)
            }
            _ => Ok(()),
        }
    }

    fn end(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        self.medium.next(task, now, patches);
        match self.graph.comms[transfer as usize] {
            Comm::AllToAll { block, .. } => self.medium.end(&mut self.state, block, now, patches),
            _ => {
                self.medium.other_ends(transfer, now);
                Ok(())
            }
        }
    }

    fn incident(&mut self, index: u32, now: Time, patches: &mut Patches) -> Result<(), String> {
        let event = self.state.health.change(index);
        if !event.moves.is_empty() {
            self.state.demand.moved.add(&event.moves);
            self.rings.clear();
        }
        self.medium.incident(&mut self.state, &event, now, patches)
    }

    fn displaced(&mut self, _: TaskId, transfer: u32, now: Time, path: &mut Vec<LinkId>) -> bool {
        let key = self.key(transfer);
        if self.medium.displaced(key, path) {
            return true;
        }
        self.state.health.matters() && self.state.health.divert(key, now, path)
    }

    /// Its replica, unless it is of all.
    fn part(&self, task: TaskId) -> Option<u32> {
        let of_all = matches!(self.graph.communication(task.0), Some(Comm::AllReduce { .. }));
        (self.apart && !of_all).then(|| self.graph.replica[task.0 as usize])
    }

    fn renews(&self) -> bool {
        self.medium.renews()
    }

    fn unsent(&mut self, task: TaskId, path: &[LinkId], bytes: Bytes) {
        self.medium.unsent(task, path, bytes);
    }

    fn anew(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let turn = Turn { task, key: self.key(transfer), now };
        self.medium.anew(&self.state, turn, orders)
    }
}
