//! Rails by turns in an iteration: whose turn it is in each block, and what is patched for the next.
//!
//! Modelled: a block changes its circuits when a transfer of its own is over and the next one of its own is
//! of a kind with another layout, as the task graph says; so the computation between them hides the
//! change. What a transfer waits for beyond that is dark. With the first sum of gradients of a stage its blocks go
//! back to the topology as it was; what is under way goes on over what stands then. Sends between stages take
//! circuits that always stand. Ignored: failures, which such a fabric refuses.

use crate::evenly::{Following, following, inside};
use lightloom_engine::{Patch, Patches, TaskId};
use lightloom_fabric::railx::Layout;
use lightloom_fabric::{Cluster, Fabric, FabricError, GpuId, LinkId, RailXSpec};
use lightloom_railx::turns::Turns;
use lightloom_units::Time;
use lightloom_workload::{BlockId, Comm, Placement, TaskGraph};

/// Circuits of a node: from a link into a switch to one out of it, in rising order.
type Node = Vec<(LinkId, LinkId)>;

pub(super) struct Turning<'a> {
    graph: &'a TaskGraph,
    following: Vec<Option<Following>>,
    /// For what has no turn.
    always: Fabric,
    layouts: Vec<Fabric>,
    /// By layout and node.
    circuits: Vec<Vec<Node>>,
    of_kind: Vec<(u32, usize)>,
    delay: Time,
    /// By block: which layout stands.
    stands: Vec<usize>,
    /// And whether it stands to the end.
    settled: Vec<bool>,
    replicas: u32,
    /// Nodes of a block.
    nodes: u32,
    /// What even traffic takes without turns, with them, and for changes alone \[s\].
    cost_s: [f64; 3],
    /// Of the transfer that is being ordered.
    over: Option<usize>,
}

impl<'a> Turning<'a> {
    pub fn new(
        turns: &Turns,
        (cluster, spec): (&Cluster, &RailXSpec),
        graph: &'a TaskGraph,
        placement: &Placement,
    ) -> Result<Self, FabricError> {
        let build = |layout: &Layout| Fabric::railx(cluster, spec, layout);
        let layouts = turns.layouts.iter().map(build).collect::<Result<Vec<_>, _>>()?;
        let degrees = placement.degrees();
        let circuits = layouts.iter().map(|fabric| by_node(fabric, cluster)).collect();
        Ok(Turning {
            graph,
            following: following(graph, |kind| turns.of_kind.iter().any(|(of, _)| *of == kind)),
            always: build(&turns.always)?,
            layouts,
            circuits,
            of_kind: turns.of_kind.clone(),
            delay: spec.ocs_delay_ps.unwrap_or_default(),
            stands: vec![0; (degrees.pp * degrees.dp) as usize],
            settled: vec![false; (degrees.pp * degrees.dp) as usize],
            replicas: degrees.dp,
            nodes: degrees.block_size() / cluster.gpus_per_server,
            cost_s: [turns.static_s, turns.cost_s, turns.exposed_s],
            over: None,
        })
    }

    /// What a reader must know.
    pub fn note(&self) -> String {
        let [before, after, exposed] = self.cost_s.map(|cost_s| format!("{cost_s:.3} s"));
        format!(
            "railx: rails by turns: even traffic takes {after} an iteration, {exposed} of which for changes, \
             and {before} with circuits that stand"
        )
    }

    /// The network that the transfer being ordered goes over.
    pub fn fabric(&self) -> &Fabric {
        self.over.map_or(&self.always, |layout| &self.layouts[layout])
    }

    /// A transfer is ordered from now on: its circuits are set if they are not.
    pub fn begin(&mut self, task: TaskId, patches: &mut Patches) {
        if let Some(Comm::AllReduce { stage, .. }) = self.graph.communication(task.0) {
            for replica in 0..self.replicas {
                let block = BlockId { replica, stage: *stage };
                self.change(block, 0, patches);
                let at = self.number(block);
                self.settled[at] = true;
            }
            self.over = Some(0);
        } else if let Some((block, layout)) = self.turn(task.0) {
            self.over = Some(layout);
            self.change(block, layout, patches);
        }
    }

    /// It has been ordered.
    pub fn ordered(&mut self) {
        self.over = None;
    }

    /// A transfer is over: circuits are set for what follows in its block.
    pub fn end(&mut self, task: TaskId, patches: &mut Patches) {
        let next = self.following[task.0 as usize].and_then(|next| self.turn(next.task));
        if let Some((block, layout)) = next {
            self.change(block, layout, patches);
        }
    }

    /// The block of a transfer that has turns, and the layout that serves it.
    fn turn(&self, task: u32) -> Option<(BlockId, usize)> {
        let (kind, block) = inside(self.graph.communication(task)?)?;
        let (_, layout) = self.of_kind.iter().find(|(of, _)| *of == kind)?;
        Some((block, if self.settled[self.number(block)] { 0 } else { *layout }))
    }

    fn number(&self, block: BlockId) -> usize {
        (block.stage * self.replicas + block.replica) as usize
    }

    /// A circuit under what a block sends has changed: the way over what stands now.
    pub fn displaced(&self, key: u64, path: &mut Vec<LinkId>) -> bool {
        let (Some(&first), Some(&last)) = (path.first(), path.last()) else { return false };
        let [from, to] = [self.always.link(first).from, self.always.link(last).to];
        let block = from.0 / (self.nodes * self.always.cluster().gpus_per_server);
        path.clear();
        let stands = &self.layouts[self.stands[block as usize]];
        stands.route(GpuId(from.0), GpuId(to.0), key, path).is_ok()
    }

    fn change(&mut self, block: BlockId, layout: usize, patches: &mut Patches) {
        let at = self.number(block);
        let stood = std::mem::replace(&mut self.stands[at], layout);
        if stood == layout {
            return;
        }
        let at = at as u32;
        for node in (at * self.nodes..(at + 1) * self.nodes).map(|node| node as usize) {
            let (old, new) = (&self.circuits[stood][node], &self.circuits[layout][node]);
            let lost = old.iter().filter(|(tx, _)| new.binary_search_by_key(tx, |c| c.0).is_err());
            let lost = lost.map(|&(tx, _)| Patch { tx, rx: None });
            let set = new.iter().filter(|circuit| old.binary_search(circuit).is_err());
            let set = set.map(|&(tx, rx)| Patch { tx, rx: Some(rx) });
            patches.patches.extend(lost.chain(set));
        }
        patches.delay = self.delay;
    }
}

fn by_node(fabric: &Fabric, cluster: &Cluster) -> Vec<Node> {
    let mut nodes = vec![Node::new(); cluster.servers() as usize];
    for (tx, rx) in fabric.wired().expect("RailX").circuits() {
        nodes[(fabric.link(tx).from.0 / cluster.gpus_per_server) as usize].push((tx, rx));
    }
    nodes.iter_mut().for_each(|node| node.sort_unstable());
    nodes
}
