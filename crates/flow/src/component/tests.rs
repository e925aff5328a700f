use super::filling::Scratch;
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

fn filled(pool: &Pool, chosen: &[u32], capacity: &[f64]) -> Component {
    let mut component = Component::default();
    component.fill(pool, chosen, capacity, &mut vec![0; capacity.len()], (Time::ZERO, Time::ZERO));
    component
}

#[test]
fn twins_do_the_same_each_under_its_own_name() {
    let mut pool = Pool::default();
    let pairs = [(0, 100.0), (3, 100.0), (6, 101.0), (9, 100.0)];
    let pairs = pairs.map(|(first, bytes)| pair(&mut pool, first, bytes));
    let mut capacity = [2.0; 12];
    capacity[10] = 1.0;
    let mut one = filled(&pool, &pairs[0], &capacity);
    one.solve(&mut Scratch::default());
    assert!(one.absorb(&filled(&pool, &pairs[1], &capacity)));
    assert!(!one.absorb(&filled(&pool, &pairs[2], &capacity)), "another size");
    assert!(!one.absorb(&filled(&pool, &pairs[3], &capacity)), "another capacity");
    assert_eq!(one.links(), [0, 1, 2, 3, 4, 5]);

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
    /// Disturbed at any time, a component is bit by bit what it would be without a plan, and has told of
    /// the same flows.
    #[test]
    fn a_plan_given_up_was_never_made(
        capacity in prop::collection::vec(prop::sample::select(vec![0.5, 1.0, 1.3, 2.0]), 8),
        picks in prop::collection::vec((prop::collection::btree_set(0u32..8, 1..4), 1u32..40), 1..40),
        share in prop_oneof![Just(1.0), 0.0f64..3.0],
        tolerance in prop::sample::select(vec![0.0, 0.05]),
    ) {
        let mut pool = Pool::default();
        for (slot, (path, size)) in (0..).zip(&picks) {
            let tag = Tag { slot: slot / 3, lane: slot };
            pool.push(path.iter().copied(), f64::from(*size) * 64.0, tag);
        }
        let chosen: Vec<u32> = (0..pool.len() as u32).collect();
        let mut scratch = Scratch::default();
        let mut planned = filled(&pool, &chosen, &capacity);
        let mut stepped = filled(&pool, &chosen, &capacity);
        planned.plan(tolerance, &mut scratch);
        stepped.solve(&mut scratch);
        let (mut told, mut done) = (Vec::new(), Vec::new());
        // The first instant that matters, and more or less.
        let first = planned.next_planned().map_or(0, |(at, _)| at.ps());
        let now = Time::from_ps((first as f64 * share) as u64);
        let _ = planned.tell_planned(now, &mut told);
        let over = !planned.is_planned();
        if !over {
            planned.disturb(now, &mut scratch);
        }
        while let Some(at) = stepped.next_done(tolerance).filter(|&at| at <= now) {
            stepped.advance(at, &mut done);
            if at == now || stepped.live() == 0 || stepped.is_sparse() {
                break;
            }
            stepped.solve(&mut scratch);
        }
        if !over {
            planned.advance(now, &mut told);
            stepped.advance(now, &mut done);
            let state = |component: &Component| {
                let marks = component.flows.iter().map(|flow| (flow.mark.to_bits(), flow.server));
                let links = component.links.iter().map(|link| (link.sent.to_bits(), link.level.to_bits()));
                (marks.collect::<Vec<_>>(), links.collect::<Vec<_>>(), component.live)
            };
            prop_assert_eq!(state(&planned), state(&stepped));
        }
        let ends = |done: &[Done]| done.iter().map(|done| (done.tag.lane, done.drained)).collect::<Vec<_>>();
        prop_assert_eq!(ends(&told), ends(&done));
    }
}
