//! Phases computed by classes of flows that are alike, against flow by flow.

use crate::alone::Alone;
use crate::apart;
use crate::refinement::Worthwhile;
use lightloom_engine::conformance::{Graph, RATE, Script, Work, leaf_spine};
use lightloom_engine::{Engine, EngineError, Observer, Orders, Outcome, Policy, Scenario, TaskId};
use lightloom_fabric::{
    ClosSpec, Cluster, Fabric, FabricSpec, FatTree, GpuId, GraphLink, GraphNode, GraphSpec, Role,
    build,
};
use lightloom_units::{Bytes, Time};
use proptest::prelude::*;

/// The flow engine, which looks for classes where it is told to.
struct Looking {
    flows: usize,
    alike: usize,
    tolerance: f64,
    threads: usize,
}

impl Engine for Looking {
    fn name(&self) -> &'static str {
        "flow"
    }
    fn run(
        &self,
        scenario: &Scenario<'_>,
        policy: &mut dyn Policy,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, EngineError> {
        let worthwhile = Worthwhile { flows: self.flows, alike: self.alike };
        apart::run((self.tolerance, self.threads, worthwhile), scenario, policy, observer)
    }
}

const NOWHERE: Looking = Looking { flows: usize::MAX, alike: 1, tolerance: 0.0, threads: 1 };
const EVERYWHERE: Looking = Looking { flows: 0, ..NOWHERE };
const CREW: Looking = Looking { threads: 3, ..NOWHERE };

mod suite {
    use super::EVERYWHERE;
    lightloom_engine::conformance!(EVERYWHERE);
    lightloom_engine::breakable!(EVERYWHERE, 1e-9);
}

mod suite_on_threads {
    use super::CREW;
    lightloom_engine::conformance!(CREW);
    lightloom_engine::breakable!(CREW, 1e-9);
}

/// Every server on one switch, by a link of its own.
fn star(servers: u32) -> Fabric {
    let names = || (0..servers).map(|server| format!("server{server}"));
    let node = |name, role| GraphNode { name, role };
    let mut nodes: Vec<_> = names().map(|name| node(name, Role::GpuServer)).collect();
    nodes.push(node("switch".into(), Role::Switch));
    let link = |a| {
        let (b, delay_ps) = ("switch".into(), Time::from_us(1));
        GraphLink { a, b, rate_bps: RATE, delay_ps, lanes: 1 }
    };
    let spec = GraphSpec { nodes, links: names().map(link).collect() };
    build(&Cluster::of(servers, 1), &spec.into(), 1, &[]).expect("a valid fabric")
}

fn fabric(which: u8) -> Fabric {
    let tapered = ClosSpec { oversubscription: 2.0, ..ClosSpec::new(RATE, Time::from_us(1)) };
    let cluster = Cluster::of(24, 4);
    match which {
        0 => star(9),
        1 => leaf_spine(),
        2 => build(&cluster, &FabricSpec::fat_tree(RATE, Time::from_us(1)), 1, &[]).expect("valid"),
        _ => build(&cluster, &FatTree(tapered).into(), 1, &[]).expect("valid"),
    }
}

/// Who sends to whom in a phase.
#[derive(Clone, Debug)]
enum Pattern {
    /// Members so far apart send as much as the list says to those one, two, ... further on.
    Circulant { apart: u32, sizes: Vec<u64> },
    /// Any pairs.
    Pairs(Vec<(u32, u32, u64)>),
}

/// Few different sizes.
fn size() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![0, 1, 1_000_003, 4_000_000, 4_000_000, 6_000_000])
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        (1u32..5, prop::collection::vec(size(), 1..9))
            .prop_map(|(apart, sizes)| Pattern::Circulant { apart, sizes }),
        prop::collection::vec((0u32..24, 0u32..24, size()), 1..12).prop_map(Pattern::Pairs),
    ]
}

fn orders(fabric: &Fabric, phases: &[Pattern]) -> Orders {
    let gpus = fabric.cluster().gpus;
    let mut orders = Orders::default();
    for pattern in phases {
        let pairs = match pattern {
            Pattern::Pairs(pairs) => pairs.clone(),
            Pattern::Circulant { apart, sizes } => {
                let members = gpus / apart;
                let to = |from: u32, step: u32| (from + step) % members * apart;
                let row =
                    |from| (1..).zip(sizes).map(move |(n, &b)| (from * apart, to(from, n), b));
                (0..members).flat_map(row).collect()
            }
        };
        for (from, to, bytes) in pairs {
            let (from, to) = (GpuId(from % gpus), GpuId(to % gpus));
            if from != to {
                fabric.route(from, to, 0, orders.path()).expect("GPUs of this fabric");
                orders.flow(Bytes::new(bytes));
            }
        }
        orders.end_phase(Time::from_ns(700));
    }
    orders
}

/// What an observer may see: how many flows of each task ended at which time.
#[derive(Default)]
pub(crate) struct Ends(pub Vec<(u32, u64, Time, Time)>);

impl Observer for Ends {
    fn flow_finished(&mut self, task: TaskId, bytes: Bytes, start: Time, end: Time) {
        self.0.push((task.0, bytes.get(), start, end));
    }
}

fn run(engine: &Looking, fabric: &Fabric, jobs: &[(u64, Vec<Pattern>)]) -> (Outcome, Ends) {
    // Each job waits for its time, some for the same; then its phases follow one another.
    let work = jobs
        .iter()
        .zip(0..)
        .flat_map(|((at, _), job)| [Work::Compute(Time::from_us(at * 90)), Work::Send(job)]);
    let edges = (0..jobs.len() as u32).map(|job| (2 * job, 2 * job + 1)).collect();
    let graph = Graph::new(work.collect(), edges);
    let scenario = Scenario { fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
    let transfers = jobs.iter().map(|(_, phases)| orders(fabric, phases)).collect();
    let mut ends = Ends::default();
    let mut script = Script { transfers, at_end: vec![] };
    let outcome = engine.run(&scenario, &mut script, &mut ends).expect("the run finishes");
    ends.0.sort_unstable();
    (outcome, ends)
}

/// The same but for rounding: rates change at whole picoseconds, so that each end before may have made it up
/// to one later.
pub(crate) fn near(a: Time, b: Time) -> bool {
    let apart = a.max(b) - a.min(b);
    apart.ps() as f64 <= 1e-9 * a.ps() as f64 + 64.0
}

proptest! {
    /// Jobs that begin together or while others run, on the same links or on others.
    #[test]
    fn classes_end_as_their_members_would(
        which in 0u8..4,
        alike in 1usize..4,
        jobs in prop::collection::vec((0u64..3, prop::collection::vec(pattern(), 1..4)), 1..5),
    ) {
        let fabric = fabric(which);
        let (each, each_end) = run(&NOWHERE, &fabric, &jobs);
        let looking = Looking { alike, ..EVERYWHERE };
        let (classes, ends) = run(&looking, &fabric, &jobs);
        prop_assert_eq!(&classes.link_bytes, &each.link_bytes);
        prop_assert_eq!(&classes.bytes, &each.bytes);
        prop_assert_eq!((classes.flows, each.flows), (each.flows, each.classes));
        for (a, b) in classes.end.iter().zip(&each.end) {
            prop_assert!(near(*a, *b), "{a} {b}");
        }
        prop_assert_eq!(ends.0.len(), each_end.0.len());
        for (a, b) in ends.0.iter().zip(&each_end.0) {
            prop_assert_eq!((a.0, a.1), (b.0, b.1));
            prop_assert!(near(a.2, b.2) && near(a.3, b.3), "{a:?} {b:?}");
        }
        prop_assert_eq!(run(&looking, &fabric, &jobs).0, classes);
    }
}

/// An all-to-all, even or with a size for each distance: as many classes as sizes, and the same ends to
/// the picosecond where a share is a whole number of bits a second.
#[test]
fn an_all_to_all_on_a_switch_has_a_class_for_each_size() {
    let fabric = star(9);
    for (sizes, classes) in [(vec![4_000_000; 8], 1), ((1..9).map(|n| n * 500_000).collect(), 8)] {
        let jobs = [(0, vec![Pattern::Circulant { apart: 1, sizes }])];
        let (by_classes, _) = run(&EVERYWHERE, &fabric, &jobs);
        let (each, _) = run(&NOWHERE, &fabric, &jobs);
        assert_eq!((by_classes.flows, by_classes.classes), (72, classes));
        assert_eq!(by_classes.end, each.end);
        assert_eq!(by_classes.solves, classes);
    }
}

/// Another flow comes to a link of an all-to-all under way: its members go on one by one.
#[test]
fn what_comes_later_parts_a_class() {
    let fabric = star(9);
    let even = vec![Pattern::Circulant { apart: 1, sizes: vec![4_000_000; 8] }];
    let jobs = [(0, even), (2, vec![Pattern::Pairs(vec![(0, 1, 2_000_000)])])];
    let (by_classes, _) = run(&EVERYWHERE, &fabric, &jobs);
    let (each, _) = run(&NOWHERE, &fabric, &jobs);
    assert_eq!(by_classes.classes, 1 + 1);
    assert!(by_classes.end[1] > by_classes.end[2] + Time::from_us(100));
    assert!(near(by_classes.makespan, each.makespan));
}

/// One round would take flows for alike that are not: their links differ by what the flows beside them
/// share elsewhere.
#[test]
fn links_part_until_no_more_do() {
    let fabric = star(9);
    let even = [(2, 6), (3, 1), (8, 7), (0, 6), (7, 8), (5, 3), (0, 1), (2, 1), (3, 1)];
    let mut pairs: Vec<_> = even.map(|(from, to)| (from, to, 4_000_000)).into();
    pairs.push((1, 4, 1_000_003));
    let jobs = [(0, vec![Pattern::Pairs(pairs)])];
    let (by_classes, ends) = run(&EVERYWHERE, &fabric, &jobs);
    let (_, each) = run(&NOWHERE, &fabric, &jobs);
    assert!(by_classes.classes < by_classes.flows);
    let all = ends.0.iter().zip(&each.0);
    assert!(all.into_iter().all(|(a, b)| near(a.3, b.3)), "{:?} {:?}", ends.0, each.0);
}

/// When all of a phase have arrived, if nothing else is sent.
fn alone(fabric: &Fabric, orders: &Orders, (tolerance, enough): (f64, Time)) -> Time {
    let mut alone = Alone::new(fabric);
    for flow in orders.flows(0) {
        alone.add(orders.links(flow), flow.bytes.get());
    }
    alone.end(tolerance, enough)
}

proptest! {
    /// Flows by themselves take as long as in a run; with a tolerance a little longer, or a little less:
    /// a flow that keeps its rate for too long leaves others more.
    #[test]
    fn alone_is_a_run_of_nothing_else(
        which in 0u8..4,
        pairs in prop::collection::vec((0u32..24, 0u32..24, prop_oneof![size(), 1u64..9_000_000]), 1..80),
        part in 1u64..100,
    ) {
        let fabric = fabric(which);
        let job = [Pattern::Pairs(pairs)];
        let run = run(&NOWHERE, &fabric, &[(0, job.to_vec())]).0.makespan;
        let orders = orders(&fabric, &job);
        prop_assume!(!orders.all_flows().is_empty());
        let (end, latency) = (alone(&fabric, &orders, (0.0, Time::MAX)), Time::from_ns(700));
        prop_assert!(near(end + latency, run), "{end} {run}");
        let late = alone(&fabric, &orders, (0.1, Time::MAX));
        let ratio = late.ps() as f64 / end.ps() as f64;
        prop_assert!((0.9..=1.2).contains(&ratio), "{late} {end}");
        let enough = Time::from_ps(end.ps() / 100 * part);
        let some = alone(&fabric, &orders, (0.0, enough));
        prop_assert!(near(some, end) || enough <= some && some <= end, "{enough} {some} {end}");
    }
}

/// What is left of a component is packed while the next one waits.
#[test]
fn one_that_is_packed_leaves_the_next_alone() {
    let small = [(6, 9), (0, 12), (0, 9), (0, 9), (0, 9), (4, 0)].map(|(a, b)| (a, b, 1));
    let mut pairs = vec![(3, 7, 6_000_000), (9, 6, 7_161_019), (13, 16, 7_952_836)];
    pairs.extend([(0, 6, 4_000_000), (12, 3, 5_648_262), (12, 3, 3_025_645)]);
    pairs.extend(small);
    let (fabric, job) = (fabric(3), [Pattern::Pairs(pairs)]);
    let run = run(&NOWHERE, &fabric, &[(0, job.to_vec())]).0.makespan;
    let alone = alone(&fabric, &orders(&fabric, &job), (0.0, Time::MAX));
    assert!(near(alone + Time::from_ns(700), run), "{alone} {run}");
}

proptest! {
    /// Any number of threads gives the same bits, in classes or not, with a tolerance or without.
    #[test]
    fn threads_change_nothing(
        which in 0u8..4,
        flows in prop::sample::select(vec![0, usize::MAX]),
        tolerance in prop::sample::select(vec![0.0, 0.1]),
        jobs in prop::collection::vec((0u64..3, prop::collection::vec(pattern(), 1..4)), 1..8),
    ) {
        let fabric = fabric(which);
        let run_with = |threads| run(&Looking { flows, tolerance, threads, ..NOWHERE }, &fabric, &jobs);
        let alone = run_with(1);
        for threads in [2, 3, 8] {
            let (outcome, ends) = run_with(threads);
            prop_assert!(outcome == alone.0 && ends.0 == alone.1.0, "{threads} threads");
        }
    }
}
