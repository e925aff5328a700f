use super::dense::Dense;
use super::filling::Scratch;
use super::plan::Plan;
use super::planning::Desk;
use super::*;
use proptest::prelude::*;

#[test]
fn what_is_whole_takes_its_time_to_the_picosecond() {
    // Rates that no float holds exactly; sizes whose times are whole picoseconds, or nearly.
    let mut inexact = 0;
    for bps in [400_000_000_000, 266_666_666_666, 100_000_000_007, 3_600_000_000_000] {
        let rate = BitRate::from_bps(bps);
        for bytes in (1..5_000).map(|n| n * 50_021).chain((1..5_000).map(|n| n * bps / 8)) {
            let exact = rate.time_for(Bytes::new(bytes));
            assert_eq!(time_for(bytes as f64, rate.bytes_per_ps()), exact);
            inexact += u32::from((bytes as f64 / rate.bytes_per_ps()).ceil() as u64 != exact.ps());
        }
    }
    assert!(inexact > 0, "floats alone would do");
    assert_eq!(time_for(1.5, 0.5), Time::from_ps(3));
    assert_eq!(time_for(-1e-9, 0.5), Time::ZERO);
}

/// Two flows from `first` on, over a link of their own each and one together.
fn pair(pool: &mut Pool, first: u32, bytes: f64) -> [u32; 2] {
    [1, 2].map(|own| {
        let tag = Tag { slot: first + own, ..Tag::default() };
        pool.push([first, first + own].into_iter(), bytes * f64::from(own), tag);
        pool.len() as u32 - 1
    })
}

fn begun(pool: &Pool, chosen: &[u32], capacity: &[f64]) -> Plan {
    let mut plan = Plan::default();
    plan.gather(pool, chosen, capacity, &mut vec![0; capacity.len()], (Time::ZERO, Time::ZERO));
    plan
}

fn filled(plan: &Plan) -> Component {
    let mut component = Component::default();
    component.take_up(plan);
    component
}

#[test]
fn twins_do_the_same_each_under_its_own_name() {
    let mut pool = Pool::default();
    let pairs = [(0, 100.0), (3, 100.0), (6, 101.0), (9, 100.0)];
    let pairs = pairs.map(|(first, bytes)| pair(&mut pool, first, bytes));
    let mut capacity = [2.0; 12];
    capacity[10] = 1.0;
    let mut one = begun(&pool, &pairs[0], &capacity);
    assert!(one.absorb(&begun(&pool, &pairs[1], &capacity)));
    assert!(!one.absorb(&begun(&pool, &pairs[2], &capacity)), "another size");
    assert!(!one.absorb(&begun(&pool, &pairs[3], &capacity)), "another capacity");
    assert_eq!(one.links(), [0, 1, 2, 3, 4, 5]);

    let mut one = filled(&one);
    one.solve(&mut Scratch::default());
    let mut done = Vec::new();
    let end = one.next_done(0.0).expect("flows move");
    one.advance(end, &mut done);
    assert_eq!(end, Time::from_ps(100));
    assert_eq!(done.iter().map(|done| done.tag.slot).collect::<Vec<_>>(), [1, 4]);
    pool.clear();
    one.drain_into(&mut pool);
    assert_eq!((pool.links_of(0), pool.links_of(1)), (&[0, 2][..], &[3, 5][..]));
    assert_eq!(pool.remaining, [100.0, 100.0]);
    assert_eq!([pool.tag[0].slot, pool.tag[1].slot], [2, 5]);
}

proptest! {
    /// A plan says what steps lead to, and is taken up at any time as if there had been steps all along.
    #[test]
    fn a_plan_is_what_steps_lead_to(
        (capacities, flows) in links_and_flows(),
        tolerance in prop::sample::select(vec![0.0, 0.05]),
        part in 0u64..110,
    ) {
        let (mut scratch, mut desk) = (Scratch::default(), Desk::new(tolerance));
        let mut plan = Plan::default();
        let planned = random((&capacities, &flows), 0, Time::ZERO, |track| track);
        let quiet = planned.quiet_until(&mut Vec::new());
        plan.begin_as(&planned);
        let solves = desk.plan(&mut plan);
        prop_assert!(plan.next().is_none_or(|(at, _)| at >= quiet));

        // Step by step, to the same end and to some time before.
        let mut stepped = filled(&planned);
        let (mut ends, mut instants) = (Vec::new(), Vec::new());
        stepped.solve(&mut scratch);
        while let Some(at) = stepped.next_done(tolerance) {
            stepped.advance(at, &mut ends);
            instants.push((at, ends.len()));
            if stepped.live() == 0 || stepped.is_sparse() {
                break;
            }
            stepped.solve(&mut scratch);
        }
        prop_assert_eq!(solves, instants.len() as u64);
        let last = instants[instants.len() - 1].0;
        let now = Time::from_ps(last.ps() * part / 100);
        let (mut told, mut events, mut awaited) = (Vec::new(), 0, true);
        while let Some((at, _)) = plan.next().filter(|&(at, _)| at <= now) {
            awaited = at < now;
            events += plan.tell(&mut told);
            prop_assert_eq!(instants[events as usize - 1].1, told.len());
        }
        let left = |component: &Component| {
            let mut pool = Pool::default();
            component.drain_into(&mut pool);
            (pool.tag, pool.remaining, pool.links)
        };
        // Those that end at one instant are named in any order.
        let of = |done: &[Done]| {
            let mut ends: Vec<_> = done.iter().map(|d| (d.drained, d.tag.lane)).collect();
            ends.sort_unstable();
            ends
        };
        if plan.is_over() {
            let mut pool = Pool::default();
            plan.drain_into(&mut pool);
            prop_assert_eq!((pool.tag, pool.remaining, pool.links), left(&stepped));
            prop_assert_eq!(of(&told), of(&ends));
            return Ok(());
        }
        awaited &= plan.next().is_some();
        let (mut by_plan, mut by_steps) = (Component::default(), filled(&planned));
        let (more, _) = by_plan.follow(&mut plan, now, (tolerance, &mut scratch), &mut told);
        let mut done = Vec::new();
        by_steps.solve(&mut scratch);
        let before = instants.iter().take_while(|(at, _)| *at <= now);
        let mut count = 0;
        for &(at, _) in before {
            by_steps.advance(at, &mut done);
            count += 1;
            if at < now {
                by_steps.solve(&mut scratch);
            }
        }
        by_steps.advance(now, &mut done);
        prop_assert_eq!(of(&told), of(&done));
        prop_assert_eq!(left(&by_plan), left(&by_steps));
        // Something was awaited in vain, unless flows have just ended; and so it is of a plan.
        let vain = instants.get(count).is_some_and(|_| instants[..count].iter().all(|i| i.0 < now));
        let came_to = events + more + u64::from(awaited);
        prop_assert_eq!(came_to, count as u64 + u64::from(vain));
    }
}

/// Of a random flow: its links, bytes and track.
type Random = (usize, usize, u32, u32);

/// Capacities of some links, and flows over them.
fn links_and_flows() -> impl Strategy<Value = (Vec<u32>, Vec<Random>)> {
    let flow = (0usize..24, 0usize..24, 1u32..1_000, 0u32..3);
    (prop::collection::vec(1u32..20, 3..24), prop::collection::vec(flow, 1..48))
}

/// A component of random flows over links from `first` on, which begins at `now`; flows are on the track that
/// `slot` says.
fn random(
    (capacities, flows): (&[u32], &[Random]),
    first: u32,
    now: Time,
    slot: impl Fn(u32) -> u32,
) -> Plan {
    let mut pool = Pool::default();
    let mut capacity = vec![1.0; first as usize];
    capacity.extend(capacities.iter().map(|&c| f64::from(c) / 8.0));
    for (lane, &(one, other, bytes, track)) in (0..).zip(flows) {
        let (one, other) = (one % capacities.len(), other % capacities.len());
        let links = [one, other].into_iter().take(1 + usize::from(one != other));
        let tag = Tag { slot: slot(track), lane };
        pool.push(links.map(|link| first + link as u32), f64::from(bytes), tag);
    }
    let all: Vec<u32> = (0..pool.len() as u32).collect();
    let mut plan = Plan::default();
    let local = &mut vec![0; capacity.len()];
    plan.gather(&pool, &all, &capacity, local, (now.saturating_sub(Time::from_ps(7)), now));
    plan
}

proptest! {
    /// What came before is told as if it were planned anew: at another time, of other links, on other tracks.
    #[test]
    fn what_comes_again_is_what_is_planned_anew(
        (capacities, flows) in links_and_flows(),
        tolerance in prop::sample::select(vec![0.0, 0.05]),
        others in 0u32..200,
        later in 0u64..1 << 40,
        first in 0u32..9,
    ) {
        let mut desk = Desk::new(tolerance);
        let what = (&capacities[..], &flows[..]);
        desk.plan(&mut random(what, 0, Time::ZERO, |track| track));
        // So many others in between that it is on the older shelf, or nowhere any more.
        for other in 0..others {
            let mut flows = flows.clone();
            flows[0].2 += 1 + other;
            desk.plan(&mut random((&capacities, &flows), 0, Time::ZERO, |track| track));
        }
        prop_assert_eq!(desk.repeats.found, 0);

        let again = || random(what, first, Time::from_ps(later), |track| (track * 7) % 2);
        let (mut again, mut anew) = (again(), again());
        let solves = desk.plan(&mut again);
        // The first was of age 0, for there is no time before.
        let same = tolerance == 0.0 || later == 0;
        prop_assert!(desk.repeats.found == u32::from(same) || others > 0);
        prop_assert_eq!(Desk::new(tolerance).plan(&mut anew), solves);
        prop_assert_eq!(format!("{:?}", again), format!("{:?}", anew));
    }

    /// A dense plan is what any other would be, but for the order of what ends at one instant; and the same
    /// whether its links go at once or flow by flow, that order too.
    #[test]
    fn a_dense_plan_is_a_plan(
        capacities in prop::collection::vec(0u32..20, 2..17),
        flows in prop::collection::btree_map((0usize..16, 0usize..16), 1u32..1_000, 1..64),
        (alike, equal) in (any::<bool>(), any::<bool>()),
    ) {
        let links = capacities.len();
        // Links that differ little are often narrowest together.
        let capacities: Vec<u32> = capacities.iter().map(|&c| if alike { 6 + c % 2 * 6 } else { c }).collect();
        let pair = |one: usize, other: usize| (one.min(other) % links, one.max(other) % links);
        let mut chosen = std::collections::BTreeMap::new();
        for (&(one, other), &bytes) in flows.iter().filter(|((one, other), _)| one % links != other % links) {
            let (one, other) = pair(one, other);
            let key = (one.min(other), one.max(other));
            chosen.insert(key, ((one, other), if equal { 500 } else { bytes }));
        }
        let flows: Vec<Random> =
            chosen.into_values().map(|((one, other), bytes)| (one, other, bytes, bytes % 3)).collect();
        prop_assume!(!flows.is_empty());
        let random = || random((&capacities, &flows), 0, Time::ZERO, |track| track);
        let (mut dense, mut any) = (random(), random());
        let (mut of_dense, mut of_any) = (Vec::new(), Vec::new());
        let solves = Dense::default().plan(&mut dense, &mut of_dense);
        let by_steps = filled(&any).plan(&mut any, 0.0, &mut Scratch::default(), &mut of_any);
        prop_assert_eq!(solves, Some(by_steps));
        let (mut by_bits, mut of_bits) = (random(), Vec::new());
        prop_assert_eq!(solves, Dense::by_bits().plan(&mut by_bits, &mut of_bits));
        prop_assert_eq!(format!("{:?}{:?}", &dense, &of_dense), format!("{:?}{:?}", &by_bits, &of_bits));
        prop_assert_eq!(format!("{:?}", &of_dense), format!("{:?}", &of_any));
        for plan in [&mut dense, &mut any] {
            plan.ends.sort_by_key(|&(flow, at)| (at, flow));
        }
        prop_assert_eq!(format!("{:?}", &dense), format!("{:?}", &any));
    }
}

#[test]
fn what_is_no_dense_component_is_left_alone() {
    let fits = |links: u32, flows: &[(usize, usize)]| {
        let flows: Vec<Random> = flows.iter().map(|&(one, other)| (one, other, 9, 0)).collect();
        let mut plan = random((&vec![8; links as usize], &flows), 0, Time::ZERO, |_| 0);
        Dense::default().plan(&mut plan, &mut Vec::new()).is_some()
    };
    let ring = |links: usize| (0..links).map(|at| (at, (at + 1) % links)).collect::<Vec<_>>();
    assert!(fits(2, &[(0, 1)]) && fits(3, &ring(3)) && fits(16, &ring(16)));
    assert!(!fits(17, &ring(17)), "too many links");
    assert!(!fits(3, &[(0, 1), (1, 2), (1, 0)]), "the same links twice");
    assert!(!fits(3, &[(0, 1), (1, 1)]), "one link");
}
