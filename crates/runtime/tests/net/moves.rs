//! Bytes arrive, each at its place.

use crate::cluster::{CHUNK, Cluster, Size, bytes, calm};
use lightloom_runtime::exchange::{Endpoint, LaneId};
use lightloom_runtime::net::{Memory, MemoryError, PostFailure};

/// From nothing to a few hundred chunks.
fn uneven(from: Endpoint, to: Endpoint, number: u64) -> usize {
    let at = (usize::from(from) * 7 + usize::from(to) * 3 + number as usize) % 5;
    [0, 1, 900, 3 * CHUNK as usize + 17, 2_000_003][at]
}

fn small(from: Endpoint, to: Endpoint, number: u64) -> usize {
    (usize::from(from) * 31 + usize::from(to) * 17 + number as usize * 7) % 1500
}

#[test]
fn an_uneven_all_to_all_over_three_lanes_each() {
    let cluster = Cluster::new(4, 3, calm);
    for number in 0..5 {
        cluster.post_all(1, number, uneven);
        cluster.expect_done(4, uneven);
    }
    // Nothing is left: no bounce memory, nothing in flight.
    for me in 0..4 {
        let left = cluster.node(me).ask(move |exchange| {
            let lanes = (0..9).map(|lane| exchange.in_flight(LaneId(lane))).sum::<u64>();
            lanes + (0..4).map(|peer| exchange.bounced(peer)).sum::<u64>()
        });
        assert_eq!(left, Some(0));
    }
}

#[test]
fn many_operations_at_once() {
    let cluster = Cluster::new(4, 3, calm);
    let size: Size = |from, to, number| {
        if number % 50 == 0 { uneven(from, to, number) } else { small(from, to, number) }
    };
    for me in 0..4 {
        (0..300).for_each(|number| cluster.post(me, 1, number, size));
    }
    cluster.expect_done(1200, size);
}

#[test]
fn memory_that_is_lent_is_handed_back() {
    let cluster = Cluster::new(2, 1, calm);
    let size: Size = |_, _, _| 100_000;
    let lent = |me: Endpoint| {
        let mut owner = Box::new((bytes(me, 1 - me, 0, size), vec![0; 100_000]));
        let sends = vec![(1 - me, owner.0.as_ptr(), owner.0.len())];
        let receives = vec![(1 - me, owner.1.as_mut_ptr(), owner.1.len())];
        // Vectors stay where they are as long as their owner, and nobody else uses them.
        #[allow(unsafe_code)]
        unsafe {
            Memory::new(sends, receives, owner)
        }
    };
    (0..2).for_each(|me| cluster.post_memory(me, 1, 0, size, lent(me)));
    for _ in 0..2 {
        let (me, _, result) = cluster.next_end();
        let owner = result.expect("it is done").into_owner().expect("it was lent");
        let owner = owner.downcast::<(Vec<u8>, Vec<u8>)>().expect("as it was lent");
        assert!(owner.1 == bytes(1 - me, me, 0, size));
    }
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let cluster = Cluster::new(2, 1, calm);
    let memory = Memory::owned(vec![(1, vec![0; 9])], vec![(1, 10)]);
    cluster.post_memory(0, 1, 0, |_, _, _| 10, memory);
    let short = MemoryError::Short { sends: true, peer: 1, found: 9, bytes: 10 };
    assert_eq!(cluster.next_end().2.unwrap_err(), PostFailure::Memory(short));
    cluster.post(0, 1, 7, |_, _, _| 10);
    let why = cluster.next_end().2.unwrap_err().to_string();
    assert_eq!(why, "operation 7 of group 1 is out of order; 0 is allowed");
    cluster.post(0, 2, 0, |_, _, _| 10);
    assert_eq!(cluster.next_end().2.unwrap_err().to_string(), "group 2 is not joined");
    let again = cluster.node(0).join(1, vec![(0, 1), (1, 1)]).unwrap_err().to_string();
    assert_eq!(again, "group 1 was joined before; a group's number is used once");
}
