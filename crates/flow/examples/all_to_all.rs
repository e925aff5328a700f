//! Times all-to-alls on the flow engine: `cargo run --release -p lightloom-flow --example all_to_all --
//! [ranks] [even|uneven] [switch|fat-tree] [tolerance] [how many] [slices]`. Prints, as JSON, how many
//! flows there were, with how many the engine computed, how often rates, when all had ended, and the
//! most memory of the process. Each rank is a server of as many GPUs as there are slices, which all
//! send the same.

#[path = "../../../benches/measured.rs"]
#[allow(dead_code)] // each example measures what it needs
mod measured;

use lightloom_engine::conformance::{Graph, Work};
use lightloom_engine::{Engine, Orders, Policy, Scenario, Silent, TaskId};
use lightloom_fabric::{Cluster, Fabric, FabricSpec, GpuId, GraphLink, GraphNode, GraphSpec, Role};
use lightloom_flow::FlowEngine;
use lightloom_units::{BitRate, Bytes, Time};
use measured::peak_mb;

const RATE: BitRate = BitRate::from_gbps(400);
const DELAY: Time = Time::from_us(1);

/// All-to-alls one after another, each ordered when its turn comes.
struct AllToAlls<'a> {
    fabric: &'a Fabric,
    slices: u32,
    even: bool,
    random: u64,
}

impl AllToAlls<'_> {
    fn size(&mut self) -> u64 {
        if self.even {
            return 4_000_000;
        }
        let next = self.random.wrapping_mul(6_364_136_223_846_793_005);
        self.random = next.wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % 10_000_000 + 1_000_000
    }
}

impl Policy for AllToAlls<'_> {
    fn begin(&mut self, _: TaskId, _: u32, _: Time, orders: &mut Orders) -> Result<(), String> {
        let (gpus, slices) = (self.fabric.cluster().gpus, self.slices);
        let starts = || (0..gpus).step_by(slices as usize);
        for (from, to) in starts().flat_map(|from| starts().map(move |to| (from, to))) {
            if from == to {
                continue;
            }
            let bytes = Bytes::new(self.size());
            for slice in 0..slices {
                let (from, to) = (GpuId(from + slice), GpuId(to + slice));
                let routed = self.fabric.route(from, to, 0, orders.path());
                routed.map_err(|error| error.to_string())?;
                orders.flow(bytes);
            }
        }
        orders.end_phase(Time::ZERO);
        Ok(())
    }
}

/// Every NIC of every server on one switch.
fn one_switch(servers: u32, lanes: u32) -> FabricSpec {
    let names = || (0..servers).map(|server| format!("server{server}"));
    let node = |name, role| GraphNode { name, role };
    let mut nodes: Vec<_> = names().map(|name| node(name, Role::GpuServer)).collect();
    nodes.push(node("switch".into(), Role::Switch));
    let link = |a| GraphLink { a, b: "switch".into(), rate_bps: RATE, delay_ps: DELAY, lanes };
    GraphSpec { nodes, links: names().map(link).collect() }.into()
}

fn main() {
    let argument = |at: usize| std::env::args().nth(at).unwrap_or_default();
    let number = |at: usize, default: f64| argument(at).parse().unwrap_or(default);
    let ranks = number(1, 64.0).max(2.0) as u32;
    let even = argument(2) != "uneven";
    let tolerance = number(4, 0.0);
    let times = number(5, 1.0).max(1.0) as u32;
    let slices = number(6, 1.0).max(1.0) as u32;
    let spec = match argument(3).as_str() {
        "fat-tree" => FabricSpec::fat_tree(RATE, DELAY),
        _ => one_switch(ranks, slices),
    };
    let cluster = Cluster {
        gpus: ranks * slices,
        gpus_per_server: slices,
        nics_per_server: slices,
        numa_nodes: 1,
        scale_up_bps: BitRate::from_gbps(3600),
        scale_up_delay_ps: Time::from_ns(500),
        host: None,
        nic_parts: 1,
    };
    let fabric = lightloom_fabric::build(&cluster, &spec, 1, &[]).expect("a valid fabric");
    let work = (0..times).map(Work::Send).collect();
    let graph = Graph::new(work, (1..times).map(|task| (task - 1, task)).collect());
    let scenario =
        Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
    let mut policy = AllToAlls { fabric: &fabric, slices, even, random: 1 };
    let engine = FlowEngine { tolerance, threads: 1 };
    let outcome = engine.run(&scenario, &mut policy, &mut Silent).expect("the run finishes");
    println!(
        r#"{{"flows": {}, "classes": {}, "solves": {}, "makespan_us": {}, "peak_mb": {}}}"#,
        outcome.flows,
        outcome.classes,
        outcome.solves,
        outcome.makespan.ps() as f64 / 1e6,
        peak_mb()
    );
}
