//! What the nodes of a plan are told besides it: where their NICs are, and which blocks are in which message.

use lightloom_control::execution::{Plan, Transmission};
use lightloom_runtime::collective::Element;
use lightloom_runtime::exchange::{LaneId, LaneSpec, Medium, Settings};
use lightloom_runtime::net::NicConfig;
use lightloom_runtime::planned::Messages;
use lightloom_units::Time;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::pattern::PRIMITIVES;

/// A job: all its nodes are given the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its number; another job's connections are refused.
    job: u64,
    /// What its nodes know and strangers do not.
    secret: String,
    /// The longest chunk \[B\].
    pub chunk: u32,
    /// A node that is silent for so long is lost \[ms\].
    lost_ms: u64,
    /// What all-reduces add up.
    element: String,
    /// Which blocks are in which message.
    pub messages: Messages,
    /// The nodes, in the plan's order.
    nodes: Vec<Place>,
}

/// Where the NICs of a node are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    /// On packet switches.
    packets: Vec<SocketAddr>,
    /// By plane: what it sends over a circuit comes from there; all to it takes packet switches.
    sends: Vec<SocketAddr>,
    /// By plane: what comes over a circuit goes there; all from it takes packet switches.
    receives: Vec<SocketAddr>,
}

/// A lane, and where its other end listens.
pub type Lane = (LaneSpec, SocketAddr);

/// Where a transmission is in its message: its step, its plane, its time.
pub type Part = (u32, u32, Time);

impl Job {
    /// Reads a job for a plan: bytes of a block, and what its elements are.
    ///
    /// # Errors
    /// What does not fit, with the key and what is allowed.
    pub fn read(text: &str, plan: &Plan) -> Result<(Self, usize, Element), String> {
        let job: Job = serde_json::from_str(text).map_err(|why| why.to_string())?;
        let element: Element =
            job.element.parse().map_err(|why: String| format!("element: {why}"))?;
        let kind = &job.messages.primitive;
        if !PRIMITIVES.contains(&kind.as_str()) {
            let allowed = PRIMITIVES.join(", ");
            return Err(format!("messages.primitive: {kind}: must be one of {allowed}"));
        }
        let (nodes, planes) = (plan.nodes() as usize, plan.planes() as usize);
        if job.nodes.len() != nodes {
            return Err(format!("nodes: has {}; the plan has {nodes}", job.nodes.len()));
        }
        if nodes > 1 << 12 || planes > 1 << 8 || nodes * nodes * planes > 1 << 31 {
            return Err(format!("nodes: {nodes} on {planes} planes are more than there can be"));
        }
        for (at, place) in job.nodes.iter().enumerate() {
            if place.packets.is_empty() || place.packets.len() != job.nodes[0].packets.len() {
                return Err(format!(
                    "nodes[{at}].packets: must be as many as others have, 1 or more"
                ));
            }
            if [&place.sends, &place.receives].iter().any(|all| all.len() != planes) {
                return Err(format!("nodes[{at}]: must send and receive on {planes} planes"));
            }
        }
        if plan.is_over_grid() {
            return Err("the plan is over a grid: only planes that join all nodes can be".into());
        }
        let block = block(&job.messages, plan)?;
        Ok((job, block, element))
    }

    /// How the endpoint of a node behaves.
    ///
    /// # Errors
    /// What does not fit.
    pub fn settings(&self, node: u16) -> Result<Settings, String> {
        let mut settings = Settings::new(self.job, node, 1, self.secret.as_bytes());
        settings.ports = 2 * self.planes();
        settings.chunk = self.chunk;
        settings.window = settings.window.max(self.chunk);
        settings.lost = Time::from_ms(self.lost_ms);
        settings.stall = settings.stall.min(Time::from_ms(self.lost_ms / 2));
        // Who is answered over a circuit that has just ended is answered in the dark, so beats are few.
        settings.beat = Time::from_ps(settings.stall.ps() / 6 * 5);
        settings.relays = false;
        settings.one_way = true;
        settings.check().map_err(|why| why.to_string())?;
        Ok(settings)
    }

    fn planes(&self) -> u16 {
        self.nodes.first().map_or(0, |place| place.sends.len() as u16)
    }

    fn packets(&self) -> u16 {
        self.nodes.first().map_or(0, |place| place.packets.len() as u16)
    }

    /// A node's NICs: on packets, then by plane what it sends from, then by plane what it receives at.
    pub fn nics(&self, node: u16) -> Vec<NicConfig> {
        let Place { packets, sends, receives } = &self.nodes[usize::from(node)];
        [packets, sends, receives].into_iter().flatten().copied().map(NicConfig::at).collect()
    }

    /// A node's lanes: to every other over packets, and for each plane what it sends and what it receives.
    pub fn lanes(&self, node: u16) -> Vec<Lane> {
        let (packets, planes) = (self.packets(), self.planes());
        let mut lanes = Vec::new();
        for (peer, other) in (0..).zip(&self.nodes).filter(|it| it.0 != node) {
            for nic in 0..packets {
                let medium = Medium::Packet;
                let spec = LaneSpec { peer, nic, peer_nic: nic, medium, way: 0 };
                lanes.push((spec, other.packets[usize::from(nic)]));
            }
            for plane in 0..planes {
                let (near, far) = (plane, planes + plane);
                let at = usize::from(plane);
                for (port, peer_port, to) in
                    [(near, far, other.receives[at]), (far, near, other.sends[at])]
                {
                    let medium = Medium::Circuit { port, peer: (peer, peer_port) };
                    let (nic, peer_nic) = (packets + port, packets + peer_port);
                    lanes.push((LaneSpec { peer, nic, peer_nic, medium, way: 0 }, to));
                }
            }
        }
        lanes
    }

    /// By peer and plane: the lane that a node sends over.
    pub fn sending(&self, lanes: &[Lane]) -> BTreeMap<(u32, u32), LaneId> {
        let planes = self.planes();
        let own = |(at, (spec, _)): (u32, &Lane)| {
            let port = spec.port().filter(|port| *port < planes)?;
            Some(((u32::from(spec.peer), u32::from(port)), LaneId(at)))
        };
        (0..).zip(lanes).filter_map(own).collect()
    }

    /// By peer: the lanes over packets.
    pub fn over_packets(&self, lanes: &[Lane]) -> BTreeMap<u32, Vec<LaneId>> {
        let mut found: BTreeMap<u32, Vec<LaneId>> = BTreeMap::new();
        for (at, (spec, _)) in (0..).zip(lanes).filter(|(_, (spec, _))| spec.port().is_none()) {
            found.entry(spec.peer.into()).or_default().push(LaneId(at));
        }
        found
    }

    /// The exchange's group of what one node sends another over one plane.
    pub fn group(&self, from: u32, to: u32, plane: u32) -> u32 {
        let (nodes, planes) = (self.nodes.len() as u32, u32::from(self.planes()));
        (from * nodes + to) * planes + plane + 1
    }
}

/// Where each part of a node's messages begins in its message \[B\]: planes follow each other.
pub fn offsets(plan: &Plan, node: u32) -> BTreeMap<Part, u64> {
    let (mut ends, mut begins) = (BTreeMap::<u32, u64>::new(), BTreeMap::new());
    for one in (0..plan.planes()).flat_map(|plane| plan.over(node, plane)) {
        let end = ends.entry(one.step).or_default();
        begins.insert(part(&one), *end);
        *end += one.bytes.get();
    }
    begins
}

/// Which part of its message a transmission is.
pub fn part(one: &Transmission) -> Part {
    (one.step, one.plane, one.start)
}

/// The bytes of a block, if what the plan sends is what the messages say.
fn block(messages: &Messages, plan: &Plan) -> Result<usize, String> {
    let mut planned: BTreeMap<(u32, u32, u32), u64> = BTreeMap::new();
    for node in 0..plan.nodes() {
        for one in (0..plan.planes()).flat_map(|plane| plan.over(node, plane)) {
            *planned.entry((one.step, node, one.peer)).or_default() += one.bytes.get();
        }
    }
    let mut size = None;
    for (step, messages) in (0..).zip(&messages.steps) {
        for one in messages {
            let place = format!("step {step}, node {} to {}", one.node, one.peer);
            let bytes = planned.remove(&(step, one.node, one.peer)).unwrap_or(0);
            let blocks = one.blocks.len() as u64;
            let each = bytes / blocks.max(1);
            let same = size.is_none_or(|size| size == each);
            if each == 0 || each * blocks != bytes || !same {
                return Err(format!("{place}: the plan sends {bytes} B, of {blocks} blocks"));
            }
            size = Some(each);
        }
    }
    match planned.first_key_value() {
        Some(((step, node, peer), bytes)) => Err(format!(
            "step {step}, node {node} to {peer}: the plan sends {bytes} B, the collective nothing"
        )),
        None => size.map(|each| each as usize).ok_or_else(|| "the plan sends nothing".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"{"format": "lightloom-plan", "version": 1, "machine": {"nodes": 2, "planes": 2},
        "planes": [{"initial": [1, 0], "reconfigurations": []}, {"initial": [1, 0], "reconfigurations": []}],
        "nodes": [{"transmissions": [
            {"step": 0, "peer": 1, "plane": 1, "bytes": 3, "start_ps": 0, "after_step": null},
            {"step": 0, "peer": 1, "plane": 0, "bytes": 5, "start_ps": 0, "after_step": null}]},
            {"transmissions": [{"step": 0, "peer": 0, "plane": 0, "bytes": 8, "start_ps": 0, "after_step": null}]}]}"#;
    const JOB: &str = r#"{"job": 1, "secret": "s", "chunk": 1024, "lost_ms": 1000, "element": "int32",
        "messages": {"primitive": "all-reduce", "blocks": 2, "steps": [[
            {"node": 0, "peer": 1, "blocks": [0, 1], "reduce": true},
            {"node": 1, "peer": 0, "blocks": [0, 1], "reduce": true}]]},
        "nodes": [
            {"packets": ["10.0.0.1:1"], "sends": ["10.1.0.1:1", "10.1.0.2:1"], "receives": ["10.2.0.1:1", "10.2.0.2:1"]},
            {"packets": ["10.0.1.1:1"], "sends": ["10.1.1.1:1", "10.1.1.2:1"], "receives": ["10.2.1.1:1", "10.2.1.2:1"]}]}"#;

    fn read(plan: &str, job: &str) -> Result<(Job, usize, Element), String> {
        Job::read(job, &Plan::read(plan).expect("a plan"))
    }

    #[test]
    fn lanes_meet_at_both_ends() {
        let (job, block, element) = read(PLAN, JOB).expect("they fit");
        assert_eq!((block, element), (4, Element::I32));
        let lanes = job.lanes(0);
        assert_eq!(lanes.len(), 5);
        let end = |spec: &LaneSpec| (spec.nic, spec.peer_nic);
        let there: Vec<_> =
            job.lanes(1).iter().map(|(spec, _)| (spec.peer_nic, spec.nic)).collect();
        assert!(lanes.iter().all(|(spec, _)| there.contains(&end(spec))));
        let (spec, to) = lanes[job.sending(&lanes)[&(1, 1)].0 as usize];
        assert_eq!((spec.nic, spec.peer_nic, to.to_string()), (2, 4, "10.2.1.2:1".into()));
        assert_eq!(job.over_packets(&lanes)[&1], [LaneId(0)]);
        let (plan, zero) = (Plan::read(PLAN).expect("a plan"), Time::ZERO);
        assert_eq!(offsets(&plan, 0), [((0, 0, zero), 0), ((0, 1, zero), 5)].into());
    }

    #[test]
    fn what_the_plan_does_not_send_is_refused() {
        for (old, new, why) in [
            (
                "\"blocks\": [0, 1], \"reduce\": true},",
                "\"blocks\": [0], \"reduce\": true},",
                "step 0, node 1 to 0: the plan sends 8 B, of 2 blocks",
            ),
            (
                "\"blocks\": [0, 1], \"reduce\": true},",
                "\"blocks\": [0, 1, 1], \"reduce\": true},",
                "step 0, node 0 to 1: the plan sends 8 B, of 3 blocks",
            ),
            (
                "{\"node\": 1, \"peer\": 0",
                "{\"node\": 0, \"peer\": 0",
                "step 0, node 0 to 0: the plan sends 0 B, of 2 blocks",
            ),
            (
                "all-reduce",
                "broadcast",
                "messages.primitive: broadcast: must be one of all-reduce, all-to-all",
            ),
            (
                "int32",
                "word",
                "element: must be one of float32, float64, bfloat16, int32, int64, uint8",
            ),
            (", \"10.2.1.2:1\"", "", "nodes[1]: must send and receive on 2 planes"),
        ] {
            let job = JOB.replacen(old, new, 1);
            assert_ne!(job, JOB, "{old}");
            assert_eq!(read(PLAN, &job).err().as_deref(), Some(why));
        }
    }
}
