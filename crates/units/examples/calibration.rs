//! Fixed work that says how fast a machine and its compiler are: `make bench` holds instructions of
//! everything else against this program's. A heap of events, sums of floating-point numbers, a walk over
//! memory: what engines do most. It is never to be changed, for recorded ratios are to it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

fn main() {
    let mut random = 1u64;
    let mut draw = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random >> 33
    };
    let mut heap: BinaryHeap<Reverse<(u64, u32)>> =
        (0..1_000).map(|n| Reverse((draw(), n))).collect();
    let mut sums = vec![0.0f64; 1 << 12];
    for _ in 0..500_000 {
        let Some(Reverse((at, who))) = heap.pop() else { return };
        let place = (at ^ u64::from(who)) as usize % sums.len();
        sums[place] += 1.0 / (1.0 + at as f64);
        heap.push(Reverse((at + draw() % 1_000_000, who)));
    }
    let total: f64 = sums.iter().sum();
    println!("{:016x}", total.to_bits() ^ heap.len() as u64);
}
