use super::*;
use lightloom_engine::conformance::{Graph, Work};
use lightloom_engine::{Engine, Incident, Outcome, Policy, Scenario, Silent, TaskId};
use lightloom_fabric::{Cluster, FabricSpec, build};
use lightloom_flow::FlowEngine;
use lightloom_units::BitRate;
use lightloom_workload::collective::hierarchical;
use proptest::prelude::*;

const SERVERS: u32 = 4;
const GPUS: u32 = 4;
const RATE: BitRate = BitRate::from_gbps(400);

fn fabric() -> Fabric {
    build(&Cluster::of(SERVERS * GPUS, GPUS), &spec().0, 1, &[]).expect("a valid fabric")
}

fn spec() -> (FabricSpec, PlanesSpec) {
    let spec = PlanesSpec::new(RATE, Time::from_us(1));
    (spec.clone().into(), spec)
}

/// What a transfer is to be.
#[derive(Clone, Debug)]
enum Job {
    Send(Vec<Pair>, u32),
    Sum(Vec<Vec<u32>>, u64),
}

/// Each transfer at its turn, and when its last circuit was to be over.
struct Jobs<'a> {
    planes: Planes<'a>,
    jobs: &'a [Job],
    booked: Vec<Time>,
    /// Whether each transfer is expected back.
    ahead: bool,
    /// By incident: server and plane of the ports that are lost, or work again.
    changes: Vec<Vec<(u32, u32, bool)>>,
}

impl Policy for Jobs<'_> {
    fn begin(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let turn = Turn { task, key: 0, now };
        match &self.jobs[transfer as usize] {
            Job::Send(pairs, steps) => self.planes.exchange(pairs, *steps, turn, orders)?,
            Job::Sum(groups, bytes) => {
                self.planes.sum(&hierarchical(groups, *bytes, GPUS), turn, orders)?;
            }
        }
        self.booked[transfer as usize] =
            self.planes.last.iter().map(|hold| hold.end_ps).max().unwrap_or(now);
        Ok(())
    }

    fn more(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.planes.last.clear();
        self.planes.piece(Turn { task, key: 0, now }, orders)?;
        let end = self.planes.last.iter().map(|hold| hold.end_ps).max();
        self.booked[transfer as usize] =
            self.booked[transfer as usize].max(end.unwrap_or(Time::ZERO));
        Ok(())
    }

    fn end(
        &mut self,
        _: TaskId,
        transfer: u32,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        if let (Job::Send(pairs, _), true) = (&self.jobs[transfer as usize], self.ahead) {
            self.planes.set_ahead(&back(pairs), (now, now + Time::from_us(200)), patches);
        }
        Ok(())
    }

    fn incident(&mut self, index: u32, now: Time, _: &mut Patches) -> Result<(), String> {
        self.planes.bookings.change(self.changes[index as usize].iter().copied(), now);
        Ok(())
    }

    fn renews(&self) -> bool {
        self.planes.renews()
    }

    fn unsent(&mut self, task: TaskId, path: &[LinkId], bytes: Bytes) {
        self.planes.unsent(task, path, bytes);
    }

    fn anew(&mut self, task: TaskId, _: u32, now: Time, orders: &mut Orders) -> Result<(), String> {
        self.planes.again(task, now, orders)
    }
}

/// What comes back of what was sent.
fn back(pairs: &[Pair]) -> Vec<Pair> {
    pairs.iter().map(|&(from, to, bytes)| (to, from, bytes)).collect()
}

/// Runs the jobs, `apart` microseconds one after the other or, beyond that, at once.
fn run(fabric: &Fabric, jobs: &[Job], apart: &[u64]) -> (Outcome, Vec<Time>) {
    run_with(fabric, jobs, apart, (&[], false))
}

/// A port that is lost: its server and plane, when, and until when.
type Failure = (u32, u32, Time, Time);

/// As [`run`], while ports fail, or circuits are set ahead.
fn run_with(
    fabric: &Fabric,
    jobs: &[Job],
    apart: &[u64],
    (failures, ahead): (&[Failure], bool),
) -> (Outcome, Vec<Time>) {
    let (mut incidents, mut changes) = (vec![], vec![]);
    for &(server, plane, at, until) in failures {
        let nic = fabric.cluster().nic(lightloom_fabric::ServerId(server), plane);
        let links: Vec<LinkId> = fabric.cables_of_nic(nic).iter().map(|cut| cut.link).collect();
        incidents.push(Incident { at, down: links.clone(), ..Incident::default() });
        incidents.push(Incident { at: until, up: links, ..Incident::default() });
        changes.extend([vec![(server, plane, true)], vec![(server, plane, false)]]);
    }
    let mut work: Vec<Work> = (0..jobs.len() as u32).map(Work::Send).collect();
    let mut edges = Vec::new();
    for (job, &us) in (0..jobs.len() as u32).zip(apart) {
        edges.push((work.len() as u32, job));
        work.push(Work::Compute(Time::from_us(us)));
    }
    let graph = Graph::new(work, edges);
    let scenario = Scenario { fabric, tasks: graph.tasks(), circuits: &[], incidents: &incidents };
    let planes = Planes::new(fabric, &spec().1, true).expect("a fixed delay");
    let mut policy = Jobs { planes, jobs, booked: vec![Time::ZERO; jobs.len()], ahead, changes };
    let outcome = FlowEngine::default().run(&scenario, &mut policy, &mut Silent);
    (outcome.expect("bookings hold"), policy.booked)
}

fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let gpu = 0..SERVERS * GPUS;
    let pairs = prop::collection::vec((gpu.clone(), gpu, 0u64..20_000_000), 0..40);
    let sum = (1u64..600_000_000, 2..=SERVERS).prop_map(|(bytes, servers)| {
        // GPU i of each server: one group an index.
        let group = |i| (0..servers).map(|s| s * GPUS + i).collect();
        Job::Sum((0..GPUS).map(group).collect(), bytes)
    });
    let send = (pairs, 1u32..4).prop_map(|(pairs, steps)| Job::Send(pairs, steps));
    prop::collection::vec(prop_oneof![3 => send, 1 => sum], 1..6)
}

/// Bytes between servers: in all, and the most that a server sends or receives.
fn between(job: &Job) -> (u64, u64) {
    let pairs = match job {
        Job::Send(pairs, _) => pairs.clone(),
        Job::Sum(groups, bytes) => hierarchical(groups, *bytes, GPUS).ring,
    };
    let (mut lines, mut total) = ([[0; SERVERS as usize]; 2], 0);
    for (from, to, bytes) in pairs.into_iter().filter(|(from, to, _)| from / GPUS != to / GPUS) {
        lines[0][(from / GPUS) as usize] += bytes;
        lines[1][(to / GPUS) as usize] += bytes;
        total += bytes;
    }
    (total, lines.into_iter().flatten().max().unwrap_or(0))
}

/// What circuits carried into the switches, and out of them.
fn carried(fabric: &Fabric, outcome: &Outcome) -> (u64, u64) {
    let circuits = |into: bool| -> u64 {
        let links = fabric.links().iter().zip(&outcome.link_bytes);
        let switch = fabric.nic_node(NicId(0)).0 + fabric.cluster().nics();
        links
            .filter(|(link, _)| link.class == LinkClass::Circuit)
            .filter(|(link, _)| (link.to.0 >= switch) == into)
            .map(|(_, bytes)| bytes.get())
            .sum()
    };
    (circuits(true), circuits(false))
}

/// Ports of planes but for plane 0, so that any two servers stay joined, lost for a while or for good.
fn failures() -> impl Strategy<Value = Vec<Failure>> {
    let us = Time::from_us;
    let port = (0..SERVERS, 1..GPUS, 0u64..6_000, prop_oneof![Just(1 << 30), 1u64..3_000]);
    let port =
        port.prop_map(move |(server, plane, at, lasts)| (server, plane, us(at), us(at + lasts)));
    prop::collection::vec(port, 0..6).prop_map(|mut all| {
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|&(server, plane, ..)| seen.insert((server, plane)));
        all
    })
}

proptest! {
    /// Whatever fails and heals, every byte between servers is carried once, over ports that work: the
    /// engine sees to that.
    #[test]
    fn whatever_fails_bytes_arrive(
        jobs in jobs(), apart in prop::collection::vec(0u64..2_000, 6), failures in failures(),
        ahead in any::<bool>(),
    ) {
        let fabric = fabric();
        let (outcome, _) = run_with(&fabric, &jobs, &apart, (&failures, ahead));
        let wanted: u64 = jobs.iter().map(|job| between(job).0).sum();
        prop_assert_eq!(carried(&fabric, &outcome), (wanted, wanted));
        for (at, job) in jobs.iter().enumerate() {
            let took = outcome.end[at] - outcome.start[at];
            let line = Bytes::new(between(job).1 / u64::from(GPUS));
            prop_assert!(took >= RATE.time_for(line));
        }
    }

    /// However transfers meet, each is over when it was booked for, no byte is lost, and nothing is
    /// faster than a server's NICs.
    #[test]
    fn bookings_hold(
        jobs in jobs(), apart in prop::collection::vec(0u64..2_000, 6), ahead in any::<bool>(),
    ) {
        let fabric = fabric();
        let (outcome, booked) = run_with(&fabric, &jobs, &apart, (&[], ahead));
        let wanted: u64 = jobs.iter().map(|job| between(job).0).sum();
        prop_assert_eq!(carried(&fabric, &outcome), (wanted, wanted));
        for (at, job) in jobs.iter().enumerate() {
            let took = outcome.end[at] - outcome.start[at];
            let line = Bytes::new(between(job).1 / u64::from(GPUS));
            prop_assert!(took >= RATE.time_for(line));
            prop_assert!(outcome.end[at] >= booked[at]);
            // Hops inside servers end no later than some microseconds after what they carry.
            if let (Job::Send(..), true) = (job, jobs.len() == 1 && between(job).0 > 0) {
                let inside = fabric.cluster().scale_up_bps.time_for(Bytes::new(1_600_000_000));
                prop_assert!(outcome.end[at] <= booked[at] + inside);
            }
        }
    }
}

#[test]
fn a_ring_is_set_up_once_and_pays_a_delay_a_step() {
    let fabric = fabric();
    let next = |gpu: u32| (gpu + GPUS) % (SERVERS * GPUS);
    let ring = (0..SERVERS * GPUS).map(|gpu| (gpu, next(gpu), 5_000_000)).collect();
    let jobs = [Job::Send(ring, 6)];
    let (outcome, _) = run(&fabric, &jobs, &[0]);
    // 200 us dark, six steps of 2 us, 5 MB at 400 Gbps; to the precision of the completion time.
    let ideal = Time::from_us(200 + 12 + 100);
    let took = outcome.end[0];
    assert!(took >= ideal && took <= ideal + Time::from_ns(100), "{took}");
    assert_eq!(outcome.waited[0], Time::from_us(200));
    assert!(outcome.reconfigurations.iter().all(|change| change.at == Time::ZERO));
}

#[test]
fn what_a_lost_plane_had_left_goes_over_the_others() {
    let (fabric, us) = (fabric(), Time::from_us);
    // 20 MB on each of four planes: 200 us dark, 400 us at 400 Gbps, 2 us of delay.
    let jobs = [Job::Send(vec![(0, GPUS, 80_000_000)], 1)];
    let end = |failures: &[Failure]| {
        let (outcome, _) = run_with(&fabric, &jobs, &[0], (failures, false));
        assert_eq!(carried(&fabric, &outcome), (80_000_000, 80_000_000));
        outcome.end[0]
    };
    let close = |time: Time, ideal: Time| {
        assert!(time >= ideal && time <= ideal + us(1), "{time} for {ideal}");
    };
    close(end(&[]), us(602));
    // Before it begins: four thirds of the time. Either end is as good.
    for server in [0, 1] {
        close(end(&[(server, 2, Time::ZERO, us(9_000))]), Time::from_ns(202_000 + 533_333));
    }
    // Halfway: the 10 MB that are left, over three circuits that stand once they are free.
    let third = Time::from_ns(66_666);
    close(end(&[(0, 3, us(400), us(9_000))]), us(602 + 2) + third);
    // In the dark nothing had been sent; all of it is shared.
    close(end(&[(0, 3, us(100), us(9_000))]), us(602 + 2) + third + third);
    // When all is on its way, it arrives.
    close(end(&[(0, 3, us(601), us(9_000))]), us(602));
}

/// Circuits are set while servers sum inside: of the two only the longer is waited for.
#[test]
fn sums_come_before_and_after_their_rings() {
    let (fabric, us) = (fabric(), Time::from_us);
    for megabytes in [80, 400] {
        let groups = vec![(0..SERVERS * GPUS).collect()];
        let (outcome, booked) = run(&fabric, &[Job::Sum(groups, megabytes * 1_000_000)], &[0]);
        // A quarter on each GPU: three quarters in and out, at 3.6 Tbps, before and after.
        let bytes = |parts: u64| Bytes::new(megabytes * parts * 1_000_000 / 8);
        let inside = Time::from_us(1) + BitRate::from_gbps(3_600).time_for(bytes(6));
        assert_eq!(outcome.end[0], booked[0] + inside);
        // Six steps of a sixteenth around four servers; three pieces of the larger one, over circuits that
        // stand, with a delay each.
        let ring = Time::from_us(12) + RATE.time_for(bytes(3));
        let took = outcome.end[0] - inside - inside.max(Time::from_us(200));
        let most = ring + Time::from_us(if megabytes == 80 { 1 } else { 6 });
        assert!(took >= ring && took <= most, "{took} for {ring}");
        let dark = us(200).saturating_sub(inside);
        assert_eq!(outcome.waited[0], dark);
    }
}

/// An all-to-all that comes while a sum is under way waits for one piece at most, and the sum takes little
/// longer for it; a sum that comes then goes after the one before.
#[test]
fn what_is_urgent_overtakes_sums() {
    let (fabric, us) = (fabric(), Time::from_us);
    let group: Vec<u32> = (0..SERVERS * GPUS).collect();
    let sum = || Job::Sum(vec![group.clone()], 1_600_000_000);
    let urgent = Job::Send(vec![(0, 2 * GPUS, 40_000_000)], 1);
    let (alone, _) = run(&fabric, &[sum()], &[0]);
    let whole = alone.end[0];
    // 12 ms around the ring, in pieces of four times 212 us.
    assert!(whole > us(12_000), "{whole}");
    for apart in [3_100, 5_555, 8_000] {
        let (outcome, _) = run(&fabric, &[sum(), urgent.clone()], &[0, apart]);
        assert_eq!(carried(&fabric, &outcome).0, between(&sum()).0 + 40_000_000);
        let waits = outcome.end[1] - us(apart);
        // 10 MB on each of four planes, 200 us dark, one piece and its delays.
        assert!(waits < us(202 + 200 + 850 + 14), "{waits}");
        let longer = outcome.end[0] - whole;
        assert!(longer < us(402 + 212), "{longer}");
    }
    let (two, _) = run(&fabric, &[sum(), sum()], &[0, 4_000]);
    assert!(two.end[0] <= whole + us(1), "{} for {whole}", two.end[0]);
    assert!(two.end[1] < whole + whole, "{} for {whole}", two.end[1]);
}

/// What comes back as expected finds its circuits, or waits for what is left of their darkness; what
/// is not expected pays no more than a change again.
#[test]
fn what_is_expected_finds_its_circuits() {
    let (fabric, us) = (fabric(), Time::from_us);
    let out: Vec<Pair> = vec![(0, GPUS, 40_000_000), (2 * GPUS, 3 * GPUS, 40_000_000)];
    let took = |second: &[Pair], apart: u64, ahead: bool| {
        let jobs = [Job::Send(out.clone(), 1), Job::Send(second.to_vec(), 1)];
        let (outcome, _) = run_with(&fabric, &jobs, &[0, apart], (&[], ahead));
        assert_eq!(carried(&fabric, &outcome).0, 160_000_000);
        (outcome.end[1] - us(apart), outcome.waited[1])
    };
    let same = back(&out);
    // 10 MB on each of four planes, 2 us of delay; the first is over after 402 us.
    for (apart, ahead, dark) in [(1_000, false, 200), (1_000, true, 0), (500, true, 102)] {
        let (time, waited) = took(&same, apart, ahead);
        assert!(time >= us(202 + dark) && time < us(203 + dark), "{time}, {dark} us dark");
        assert!(waited >= us(dark) && waited < us(dark + 1), "{waited}, {dark} us dark");
    }
    let other: Vec<Pair> = vec![(0, 2 * GPUS, 40_000_000), (GPUS, 3 * GPUS, 40_000_000)];
    assert_eq!(took(&other, 1_000, true), took(&other, 1_000, false));
}

#[test]
fn a_distribution_of_delays_is_refused() {
    let fabric = fabric();
    let mut spec = spec().1;
    spec.ocs.delay =
        ReconfigurationDelay::Lognormal { pairs: vec![1], mean_ps: vec![], p99_ps: vec![] };
    let error = Planes::new(&fabric, &spec, false).err().expect("not one time");
    assert!(error.starts_with("fabric.ocs.delay: "), "{error}");
}
