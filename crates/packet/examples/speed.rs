//! Packet-hops a CPU second: a permutation and an all-to-all on a fat-tree of three tiers.
//!
//! `cargo run --release -p lightloom-packet --example speed -- permutation 128 2000000 FILE`, where
//! FILE holds the engine's settings as JSON, and a number of threads may follow; `make bench` runs it with
//! the product's defaults. The
//! ideal is payload and headers at the link's rate, plus the delay of six links.

use lightloom_engine::conformance::{Graph, Script, Work};
use lightloom_engine::{Engine, Orders, Scenario, Silent};
use lightloom_fabric::{ClosSpec, Cluster, FatTree, GpuId, Splitting, build};
use lightloom_packet::{PacketEngine, PacketSpec};
use lightloom_units::{BitRate, Bytes, Time};
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (pattern, hosts, bytes, settings, threads) = match &arguments[..] {
        [pattern, hosts, bytes, settings] => (pattern, hosts, bytes, settings, "1"),
        [pattern, hosts, bytes, settings, threads] => {
            (pattern, hosts, bytes, settings, &threads[..])
        }
        _ => {
            eprintln!("usage: speed permutation|all-to-all HOSTS BYTES SETTINGS.json [THREADS]");
            std::process::exit(2);
        }
    };
    let number = |text: &str| -> u64 { text.parse().expect("a number") };
    let (hosts, bytes) = (number(hosts) as u32, number(bytes));
    let json = std::fs::read_to_string(settings).expect("a file of settings");
    let spec: PacketSpec = serde_json::from_str(&json).expect("settings of the right shape");
    let cluster = Cluster {
        gpus: hosts,
        gpus_per_server: 1,
        nics_per_server: 1,
        numa_nodes: 1,
        scale_up_bps: BitRate::from_gbps(3600),
        scale_up_delay_ps: Time::from_ns(500),
        host: None,
        nic_parts: 1,
    };
    let mut clos = ClosSpec::new(BitRate::from_gbps(100), Time::from_us(1));
    clos.splitting = Splitting::Ecmp;
    let fabric = build(&cluster, &FatTree(clos).into(), 1, &[]).expect("a valid fabric");
    let mut orders = Orders::default();
    let mut flow = |from: u32, to: u32| {
        fabric.route(GpuId(from), GpuId(to), 7, orders.path()).expect("hosts of this fabric");
        orders.flow(Bytes::new(bytes));
    };
    let (per_flow, flows) = match pattern.as_str() {
        // Sattolo's random cycle: everyone sends to one other, and receives from one.
        "permutation" => {
            let mut to: Vec<u32> = (0..hosts).collect();
            let mut state = 1u64;
            for i in (1..hosts as usize).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                to.swap(i, (state >> 33) as usize % i);
            }
            (0..hosts).for_each(|host| flow(host, to[host as usize]));
            (bytes, 1)
        }
        _ => {
            for host in 0..hosts {
                (1..hosts).for_each(|step| flow(host, (host + step) % hosts));
            }
            (bytes, u64::from(hosts - 1))
        }
    };
    orders.end_phase(Time::ZERO);
    let graph = Graph::new(vec![Work::Send(0)], vec![]);
    let scenario =
        Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
    let mut script = Script { transfers: vec![orders], at_end: vec![] };
    let headers = spec.header.get() * per_flow.div_ceil(spec.mtu.get());
    let per_host = Bytes::new(flows * (per_flow + headers));
    let ideal = BitRate::from_gbps(100).time_for(per_host) + Time::from_us(6);
    let mut engine = PacketEngine::new(spec, 1);
    engine.threads = number(threads) as usize;
    let start = Instant::now();
    let outcome = engine.run(&scenario, &mut script, &mut Silent).expect("the run finishes");
    let seconds = start.elapsed().as_secs_f64();
    let packets = outcome.packets.expect("a packet engine counts packets");
    let figures = serde_json::json!({
        "wall_s": seconds,
        "packets": packets.sent,
        "packet_hops": packets.hops,
        "events": outcome.events,
        "completion_us": outcome.makespan.as_secs_f64() * 1e6,
        "over_ideal": outcome.makespan.as_secs_f64() / ideal.as_secs_f64(),
        "longest_queue": packets.links.iter().map(|link| link.peak_queue.get()).max(),
        "resent": packets.resent,
        "drops": packets.drops,
        "trims": packets.trims,
        "marks": packets.marks,
        "pauses": packets.pauses,
        "timeouts": packets.timeouts,
    });
    println!("{figures}");
}
