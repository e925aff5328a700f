//! Parts one after the other, on any number of threads, against all together.

use super::run;
use crate::refinement::Worthwhile;
use crate::tests::{Ends, near};
use lightloom_engine::conformance::{Graph, RATE, Script, Work, mixnet};
use lightloom_engine::{
    EngineError, Observer, Orders, Outcome, Patch, Patches, Policy, Scenario, Silent, TaskId,
};
use lightloom_fabric::{Cluster, Fabric, FabricSpec, GpuId, NicId, ServerId, build};
use lightloom_units::{Bytes, Time};
use proptest::prelude::*;

const SERVERS: u32 = 2;
const GPUS: u32 = 4;

/// A script for tasks of which each is of a part, or of none.
struct Parted {
    script: Script,
    part: Vec<Option<u32>>,
}

impl Policy for Parted {
    fn begin(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        match self.script.transfers.get(transfer as usize) {
            Some(_) => self.script.begin(task, transfer, now, orders),
            None => Err(format!("no transfer {transfer}")),
        }
    }
    fn end(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        self.script.end(task, transfer, now, patches)
    }
    fn part(&self, task: TaskId) -> Option<u32> {
        self.part.get(task.0 as usize).copied().flatten()
    }
}

/// Parts on two servers each, with an optical switch for both.
fn regions(parts: u32) -> Fabric {
    let cluster = Cluster { gpus: parts * SERVERS * GPUS, ..mixnet().cluster().clone() };
    build(&cluster, &FabricSpec::mixnet(3, RATE, Time::from_us(1)), SERVERS, &[]).expect("valid")
}

/// What a task of a part does.
#[derive(Clone, Debug)]
enum Does {
    Computes(u64),
    /// From and to GPUs of the part, or of all.
    Sends(Vec<(u32, u32, u64)>),
    /// Over a circuit that is joined first, dark for so many microseconds, and goes when that is over.
    Joins {
        nic: usize,
        dark: u64,
        bytes: u64,
    },
}

fn bytes() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![0, 1, 1_000_003, 4_000_000, 6_000_000])
}

/// What tasks of no part do.
fn sum() -> impl Strategy<Value = Does> {
    let pairs = prop::collection::vec((0u32..64, 0u32..64, bytes()), 0..9);
    let times = prop::sample::select(vec![0u64, 10, 90, 90, 400]);
    prop_oneof![times.prop_map(Does::Computes), pairs.prop_map(Does::Sends)]
}

fn does() -> impl Strategy<Value = Does> {
    let joins = (0usize..3, 0u64..70, bytes());
    let joins = joins.prop_map(|(nic, dark, bytes)| Does::Joins { nic, dark, bytes });
    prop_oneof![2 => sum(), 1 => joins]
}

/// The tasks of some parts, two at a time, each after the last but one; then what all wait for, and what comes
/// then.
#[derive(Clone, Debug)]
struct Job {
    parts: Vec<Vec<Does>>,
    /// After which task of each part a sum may begin, counted from the last, and what it sends.
    sums: Vec<(usize, Does)>,
    /// By part, after all sums.
    after: Vec<Does>,
}

fn job() -> impl Strategy<Value = Job> {
    (
        prop::collection::vec(prop::collection::vec(does(), 1..7), 2..5),
        prop::collection::vec((0usize..4, sum()), 0..3),
        prop::collection::vec(does(), 0..4),
    )
        .prop_map(|(parts, sums, after)| Job { parts, sums, after })
}

struct Built {
    graph: Graph,
    policy: Parted,
}

impl Job {
    fn build(&self, fabric: &Fabric) -> Built {
        let (mut work, mut edges, mut part) = (Vec::new(), Vec::new(), Vec::new());
        let mut script = Script::default();
        let mut add = |does: &Does, of: Option<u32>, at: usize| {
            part.push(of);
            // What runs beside one another joins other ports.
            let does = match *does {
                Does::Joins { nic, dark, bytes } => {
                    Does::Joins { nic: [nic % 2, 2][at % 2], dark, bytes }
                }
                ref other => other.clone(),
            };
            work.push(script_of(fabric, &does, of, &mut script));
            work.len() as u32 - 1
        };
        let mut chains: Vec<Vec<u32>> = Vec::new();
        for (of, tasks) in (0..).zip(&self.parts) {
            let tasks = tasks.iter().enumerate();
            let chain: Vec<u32> = tasks.map(|(at, does)| add(does, Some(of), at)).collect();
            edges.extend(chain.windows(3).map(|three| (three[0], three[2])));
            chains.push(chain);
        }
        let sums: Vec<u32> = self.sums.iter().map(|(_, does)| add(does, None, 0)).collect();
        for (&sum, (back, _)) in sums.iter().zip(&self.sums) {
            let before = |chain: &Vec<u32>| chain[chain.len() - 1 - back % chain.len()];
            edges.extend(chains.iter().map(|chain| (before(chain), sum)));
        }
        for (of, does) in (0..).zip(&self.after).take(chains.len()) {
            let task = add(does, Some(of), 0);
            edges.extend(chains[of as usize].iter().rev().take(2).map(|&before| (before, task)));
            edges.extend(sums.iter().map(|&sum| (sum, task)));
        }
        Built { graph: Graph::new(work, edges), policy: Parted { script, part } }
    }
}

fn script_of(fabric: &Fabric, does: &Does, of: Option<u32>, script: &mut Script) -> Work {
    let all = fabric.cluster().gpus;
    let (first, gpus) = of.map_or((0, all), |of| (of * SERVERS * GPUS, SERVERS * GPUS));
    let mut orders = Orders::default();
    match does {
        Does::Computes(us) => return Work::Compute(Time::from_us(*us)),
        Does::Sends(pairs) => {
            for &(from, to, bytes) in pairs {
                let (from, to) = (GpuId(first + from % gpus), GpuId(first + to % gpus));
                if from != to {
                    fabric.route(from, to, 0, orders.path()).expect("GPUs of this fabric");
                    orders.flow(Bytes::new(bytes));
                }
            }
        }
        &Does::Joins { nic, dark, bytes } => {
            let [a, b] = [0, 1].map(|server| {
                let server = ServerId(first / GPUS + server);
                let local = fabric.optical_nics(server)[nic];
                fabric.cluster().nic(server, local)
            });
            let link = |from: NicId, to: NicId| {
                let tx = fabric.circuit_tx(from).expect("on the switch");
                (tx, fabric.circuit_rx(to).expect("on the switch"))
            };
            let patches = [link(a, b), link(b, a)].map(|(tx, rx)| Patch { tx, rx: Some(rx) });
            let away = patches.map(|patch| Patch { rx: None, ..patch });
            orders.patches.patches = patches.into();
            orders.patches.delay = Time::from_us(dark);
            for Patch { tx, rx } in patches {
                orders.path().push(tx);
                orders.path().extend(rx);
                orders.flow(Bytes::new(bytes));
            }
            let delay = Time::from_us(3);
            let gone = Patches { patches: away.into(), delay, ..Patches::default() };
            script.at_end.push((script.transfers.len() as u32, gone));
        }
    }
    orders.end_phase(Time::from_ns(700));
    script.transfers.push(orders);
    Work::Send(script.transfers.len() as u32 - 1)
}

type Ended = (Outcome, Vec<(u32, u64, Time, Time)>);

fn run_on(
    fabric: &Fabric,
    Built { graph, policy }: &mut Built,
    threads: usize,
) -> Result<Ended, EngineError> {
    let scenario = Scenario { fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
    let mut ends = Ends::default();
    let outcome = run((0.0, threads, Worthwhile::USUAL), &scenario, policy, &mut ends)?;
    ends.0.sort_unstable();
    Ok((outcome, ends.0))
}

proptest! {
    /// Parts of any lengths, which change circuits of their own, end at once or never meet.
    #[test]
    fn parts_end_as_they_would_together(job in job()) {
        let fabric = regions(job.parts.len() as u32);
        let mut built = job.build(&fabric);
        let scenario =
            Scenario { fabric: &fabric, tasks: built.graph.tasks(), circuits: &[], incidents: &[] };
        prop_assert!(scenario.parts(&built.policy).is_some());
        let apart = run_on(&fabric, &mut built, 1).expect("it ends");
        for threads in [2, 3, 8] {
            prop_assert!(run_on(&fabric, &mut built, threads).expect("it ends") == apart, "{threads}");
        }
        built.policy.part.clear();
        let together = run_on(&fabric, &mut built, 1).expect("it ends");
        let (apart, together) = ((apart.0, apart.1), (together.0, together.1));
        for (a, b) in [(&apart.0.start, &together.0.start), (&apart.0.end, &together.0.end)] {
            prop_assert!(a.iter().zip(b).all(|(&a, &b)| near(a, b)), "{a:?} {b:?}");
        }
        prop_assert_eq!(&apart.0.bytes, &together.0.bytes);
        prop_assert_eq!(&apart.0.link_bytes, &together.0.link_bytes);
        prop_assert_eq!(apart.0.flows, together.0.flows);
        prop_assert_eq!(apart.0.reconfigurations.len(), together.0.reconfigurations.len());
        prop_assert_eq!(apart.1.len(), together.1.len());
        for (a, b) in apart.1.iter().zip(&together.1) {
            prop_assert!((a.0, a.1) == (b.0, b.1) && near(a.2, b.2) && near(a.3, b.3), "{a:?} {b:?}");
        }
    }
}

/// A job of parts that compute and send in turns.
fn plain(parts: usize, tasks: usize) -> Job {
    let does = |at: usize| match at % 2 {
        0 => Does::Computes(10),
        _ => Does::Sends((0..8).map(|to| (0, to, 1_000_003 + at as u64)).collect()),
    };
    Job {
        parts: vec![(0..tasks).map(does).collect(); parts],
        sums: vec![(0, does(1))],
        after: vec![],
    }
}

/// A policy that gives up ends the run with its reason, whatever other threads are at.
#[test]
fn what_fails_in_a_part_fails_the_run() {
    let fabric = regions(3);
    for threads in [1, 2, 3] {
        let mut built = plain(3, 9).build(&fabric);
        built.policy.script.transfers.truncate(7); // of the second part's
        let failed = run_on(&fabric, &mut built, threads).expect_err("transfers are missing");
        assert!(matches!(&failed, EngineError::Policy { .. }), "{failed}");
    }
}

/// An observer that has had enough.
struct Enough(u32);

impl Observer for Enough {
    fn keep_going(&mut self, finished: usize, tasks: usize, _: Time) -> bool {
        assert!(finished <= tasks);
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

/// An observer of a run that comes further and further, and not beyond its end.
struct Steady(usize);

impl Observer for Steady {
    fn keep_going(&mut self, finished: usize, tasks: usize, _: Time) -> bool {
        assert!((self.0..=tasks).contains(&finished), "{finished} of {tasks} after {}", self.0);
        self.0 = finished;
        true
    }
}

#[test]
fn what_has_ended_counts_once() {
    let fabric = regions(4);
    for threads in [1, 2, 3, 4] {
        // Half of each part comes after its fence.
        let job = Job { sums: vec![(300, Does::Computes(1))], ..plain(4, 601) };
        let Built { graph, mut policy } = job.build(&fabric);
        let scenario =
            Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
        let (knobs, mut steady) = ((0.0, threads, Worthwhile::USUAL), Steady(0));
        run(knobs, &scenario, &mut policy, &mut steady).expect("it ends");
        assert!(steady.0 > 4 * 590, "it was asked after the fences, too");
    }
}

#[test]
fn a_run_in_parts_can_be_interrupted() {
    let fabric = regions(4);
    for threads in [1, 2, 3] {
        let Built { graph, mut policy } = plain(4, 601).build(&fabric);
        let scenario =
            Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
        let knobs = (0.0, threads, Worthwhile::USUAL);
        let stopped = run(knobs, &scenario, &mut policy, &mut Enough(2));
        assert!(matches!(stopped, Err(EngineError::Interrupted)), "{threads} threads");
        assert!(run(knobs, &scenario, &mut policy, &mut Silent).is_ok());
    }
}

/// More threads than parts, or as many.
#[test]
fn threads_may_be_more_than_parts() {
    let fabric = regions(2);
    let mut built = plain(2, 5).build(&fabric);
    let one = run_on(&fabric, &mut built, 1).expect("it ends");
    for threads in [0, 2, 3, 64] {
        assert_eq!(run_on(&fabric, &mut built, threads).expect("it ends"), one);
    }
}
