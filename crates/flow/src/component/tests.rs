use super::filling::Scratch;
use super::*;

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
