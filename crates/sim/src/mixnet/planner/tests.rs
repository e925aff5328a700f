use super::*;
use lightloom_circuits::Router;
use lightloom_engine::conformance::{Graph, Work};
use lightloom_engine::{Engine, Outcome, Policy, Scenario, Silent, TaskId};
use lightloom_fabric::{Cluster, FabricSpec, LinkClass, build};
use lightloom_flow::FlowEngine;
use proptest::prelude::*;

const SERVERS: u32 = 4;
const GPUS: u32 = 4;

type Pair = (u32, u32, u64);

/// One region after another of four servers; NIC 0 of each on packet switches, the others optical.
fn spec(dark_us: u64, share_eps: bool) -> MixNetSpec {
    let text = format!(
        r#"{{"kind": "mixnet", "optical_nics": 3,
            "eps": {{"link_bps": 400000000000, "link_delay_ps": 1000000, "tiers": 2,
                     "oversubscription": 1.0, "radix": null, "splitting": "ideal"}},
            "ocs": {{"link_bps": 400000000000, "link_delay_ps": 1000000, "device": "any",
                     "ports": 64, "delay": {{"kind": "fixed", "ps": {}}}}},
            "reconfigure": {{"first_forward": "inside", "second_forward": "inside",
                             "backward": "inside"}},
            "decision": "algorithm-1", "hysteresis": false, "greedy_continue": true,
            "share_eps": {share_eps}}}"#,
        dark_us * 1_000_000
    );
    let spec: FabricSpec = serde_json::from_str(&text).expect("a valid table");
    spec.keys::<MixNetSpec>().expect("the kind asked for").clone()
}

/// All-to-alls of one region, one after the other, each by a plan.
struct Plans<'a> {
    fabric: &'a Fabric,
    planner: Planner,
    ports: Ports,
    router: Router,
    demands: &'a [Vec<Pair>],
    plans: Vec<InsidePlan>,
}

impl Policy for Plans<'_> {
    fn begin(
        &mut self,
        _: TaskId,
        transfer: u32,
        _: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let demand = &self.demands[transfer as usize];
        let plan = self.planner.inside.plan(demand, &mut self.ports, &mut self.router);
        self.planner.order(self.fabric, SERVERS, &plan, 7, orders)?;
        self.plans.push(plan);
        Ok(())
    }
}

/// The second region's all-to-alls.
fn run(demands: &[Vec<Pair>], dark_us: u64, share_eps: bool) -> (Fabric, Outcome, Vec<InsidePlan>) {
    let spec = spec(dark_us, share_eps);
    let cluster = Cluster::of(2 * SERVERS * GPUS, GPUS);
    let fabric = build(&cluster, &spec.clone().into(), SERVERS, &[]).expect("valid");
    let layout = Layout {
        servers: SERVERS as u16,
        gpus_per_server: GPUS as u16,
        packet_nics: vec![0],
        optical_nics: vec![1, 2, 3],
        nic_gpu: vec![0, 1, 2, 3],
    };
    let transfers = 0..demands.len() as u32;
    let edges = transfers.clone().skip(1).map(|at| (at - 1, at)).collect();
    let graph = Graph::new(transfers.map(Work::Send).collect(), edges);
    let scenario =
        Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
    let mut policy = Plans {
        fabric: &fabric,
        planner: Planner::new(&fabric, &spec, &layout),
        ports: Ports::dark(SERVERS, 3),
        router: Router::default(),
        demands,
        plans: Vec::new(),
    };
    let outcome = FlowEngine::default().run(&scenario, &mut policy, &mut Silent);
    let (outcome, plans) = (outcome.expect("plans hold"), policy.plans);
    (fabric, outcome, plans)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever stands from before, circuits carry what they were planned for, in time, and
    /// everything is over about when the plan says.
    #[test]
    fn plans_hold(
        demands in prop::collection::vec(
            prop::collection::vec((0..16u32, 0..16u32, 1u64..30_000_000), 1..80), 1..5,
        ),
        dark_us in prop::sample::select(vec![1, 30, 1_000]),
        share_eps in any::<bool>(),
    ) {
        let demands: Vec<Vec<Pair>> = demands
            .into_iter()
            .map(|demand| demand.into_iter().filter(|(a, b, _)| a != b).collect())
            .collect();
        let (fabric, outcome, plans) = run(&demands, dark_us, share_eps);
        let over_circuits: u64 =
            plans.iter().flat_map(|plan| &plan.holds).map(|hold| hold.bytes.get()).sum();
        let links = fabric.links().iter().zip(&outcome.link_bytes);
        let carried: u64 = links
            .filter(|(link, _)| link.class == LinkClass::Circuit)
            .map(|(_, bytes)| bytes.get())
            .sum();
        prop_assert_eq!(carried, 2 * over_circuits); // into the switch and out of it
        for (at, plan) in plans.iter().enumerate() {
            let took = outcome.end[at] - outcome.start[at];
            prop_assert!(took >= plan.carried);
            // Gathering and scattering share their network fairly, which may take a little longer.
            let inside = (plan.gathered + (plan.end - plan.carried)).ps() / 2;
            prop_assert!(took.ps() <= plan.end.ps() + inside + 4_000_000, "{took} {}", plan.end);
        }
    }
}

#[test]
fn what_gathering_hides_is_not_waited_for() {
    // 90 MB go over the scale-up network to the GPUs with the circuits: 200 us.
    let demands = [vec![(0, 4, 90_000_000)]];
    let (_, outcome, plans) = run(&demands, 30, false);
    assert!(plans[0].ready > Time::from_us(60));
    assert_eq!(outcome.waited[0], Time::ZERO);
    let (_, outcome, plans) = run(&demands, 1_000, false);
    assert_eq!(outcome.waited[0], Time::from_ms(1) - plans[0].ready);
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let fixed = spec(1, false);
    assert_eq!(check(&fixed, true, false, false), Ok(()));
    let error = check(&fixed, false, false, false).expect_err("packets take their time");
    assert!(error.starts_with("engine.kind: ") && error.contains("first_forward"), "{error}");
    let error = check(&fixed, true, false, true).expect_err("PCIe is slow");
    assert!(error.ends_with("or no cluster.host"), "{error}");
    let error = check(&fixed, true, true, false).expect_err("something breaks");
    assert!(error.starts_with("--fail: "), "{error}");
    let mut drawn = fixed;
    drawn.ocs.delay =
        ReconfigurationDelay::Lognormal { pairs: vec![1], mean_ps: vec![], p99_ps: vec![] };
    let error = check(&drawn, true, false, false).expect_err("not one time");
    assert!(error.starts_with("fabric.ocs.delay: "), "{error}");
    for policy in [ReconfigurePolicy::Block, ReconfigurePolicy::Reuse, ReconfigurePolicy::Hide] {
        drawn.reconfigure.first_forward = policy;
        drawn.reconfigure.second_forward = policy;
        drawn.reconfigure.backward = policy;
        assert_eq!(check(&drawn, false, true, false), Ok(()));
    }
}
