//! Every rule of the exchange, between two endpoints.

mod pair;

use lightloom_control::{Mark, Stage, Use};
use lightloom_runtime::exchange::frame::Frame;
use lightloom_runtime::exchange::*;
use lightloom_units::Time;
use pair::{Pair, lanes, settings};

fn as_is(settings: Settings) -> Settings {
    settings
}

#[test]
fn a_chunk_takes_its_lane_else_a_circuit_else_the_packet_lane_with_least_before_it() {
    let mut pair = Pair::up(as_is);
    let until = Time::from_ms(50);
    pair.light(until);
    pair.connect(2);
    pair.flow();
    // Lane of the plan, what happens first, chunks by lane after it.
    pair.post(0, 300, 1);
    pair.flow();
    assert_eq!(pair.sent(), [0, 3, 0], "as planned");
    pair.post(1, 300, 2);
    pair.flow();
    assert_eq!(pair.sent(), [0, 3, 3], "a circuit that may be used");
    pair.cut(1);
    pair.post(2, 300, 1);
    pair.flow();
    assert_eq!(pair.sent(), [0, 3, 6], "a circuit goes before packets");
    pair.ends[0].exchange.drain(pair.now, 1, &[0]);
    pair.post(3, 300, 2);
    pair.flow();
    assert_eq!(pair.sent(), [3, 3, 6], "a circuit is drained: packets");
    pair.light(until);
    pair.now = until;
    pair.post(4, 300, 2);
    pair.flow();
    assert_eq!(pair.sent(), [6, 3, 6], "at the end of the lease: packets");
    pair.cut(0);
    pair.post(5, 300, 0);
    pair.flow();
    assert_eq!(pair.sent(), [6, 3, 6], "no lane is up: they wait");
    pair.now = pair.now.saturating_add(Time::from_ms(60));
    pair.ends[0].exchange.timeout(pair.now);
    pair.collect();
    pair.connect(1);
    pair.flow();
    assert_eq!(pair.sent(), [6, 6, 6], "the next lane takes them");
    let all: Vec<Statistics> = [0, 1, 2].map(|it| pair.ends[0].exchange.nic_statistics(it)).into();
    assert_eq!(all.iter().map(|it| it.detours).collect::<Vec<_>>(), [6, 3, 3]);
    assert_eq!(all.iter().map(|it| it.bytes_sent).sum::<u64>(), 1_800);
    assert_eq!(pair.said(1).iter().filter(|it| *it == "done").count(), 6);
}

#[test]
fn chunks_are_acknowledged_together_the_last_at_once_and_none_late() {
    let hold = Time::from_ms(5);
    let change = |it| Settings { window: 10_000, together: 300, hold, ..it };
    let mut pair = Pair::up(change);
    // Says whether endpoint 1 has something to say, and lets it.
    let answers = |pair: &mut Pair| {
        pair.collect();
        let outputs = std::mem::take(&mut pair.ends[1].outputs);
        let sends = outputs.iter().any(|it| matches!(it, Output::Send { .. }));
        if sends {
            pair.carry(1, 0);
        }
        sends
    };
    pair.post(0, 1_000, 0);
    answers(&mut pair); // ready
    let said: Vec<bool> = (0..10)
        .map(|_| {
            let chunk = pair.take(0, 0, usize::MAX).expect("within the window");
            pair.give(1, 0, &chunk);
            answers(&mut pair)
        })
        .collect();
    // The first brings the acknowledgement of ready, so its lane has its turn.
    let yes = |at: usize| [0, 3, 6, 9].contains(&at);
    assert_eq!(said, (0..10).map(yes).collect::<Vec<_>>(), "each third, and the last");
    assert_eq!(pair.ends[0].exchange.nic_statistics(0).frames_received, 5, "with ready");
    pair.post(1, 1_000, 0);
    answers(&mut pair);
    pair.ends[1].exchange.timeout(pair.now);
    for says in [true, false] {
        let chunk = pair.take(0, 0, usize::MAX).expect("ten are to come");
        pair.give(1, 0, &chunk);
        assert_eq!(answers(&mut pair), says);
    }
    assert_eq!(pair.ends[1].exchange.next_timeout(), pair.now.saturating_add(hold));
    pair.now = pair.now.saturating_add(hold);
    pair.ends[1].exchange.timeout(pair.now);
    assert!(answers(&mut pair), "but none came");
    assert!(pair.ends[1].exchange.next_timeout() > pair.now);
    pair.flow();
    assert_eq!(pair.said(0)[2..], ["done", "done"]);
}

#[test]
fn an_acknowledgement_is_asked_for_at_each_quarter_of_the_window() {
    let change = |it| Settings { window: 1_000, nic_window: 10_000, ..it }; // 100 B a chunk
    let mut pair = Pair::up(change);
    pair.post(0, 2_000, 0);
    pair.carry(1, 0);
    let asks: Vec<u8> = (0..10).map(|_| pair.take(0, 0, usize::MAX).expect("it fits")[3]).collect();
    assert_eq!(asks, [0, 0, 1, 0, 0, 1, 0, 0, 1, 0]);
    assert!(
        pair.take(0, 0, usize::MAX).is_none(),
        "the window is full, and most of it was asked for"
    );
}

#[test]
fn a_chunk_after_one_that_lies_behind_it_is_out_of_order() {
    let mut pair = Pair::up(as_is);
    pair.post(0, 300, 2); // two packet lanes share it: the first and the last chunk, and the one between
    pair.carry(1, 0); // ready
    pair.carry(0, 1);
    pair.carry(0, 0);
    pair.flow();
    let of = |end: usize, nic| pair.ends[end].exchange.nic_statistics(nic);
    assert_eq!([0, 1].map(|nic| of(1, nic).chunks_received), [2, 1]);
    assert_eq!([0, 1].map(|nic| of(1, nic).out_of_order), [1, 0]);
    // What one end says that it sent, the other says that it has.
    for nic in [0, 1] {
        let (one, other) = (of(0, nic), of(1, nic));
        assert_eq!(one.stream_bytes_sent, other.stream_bytes_received);
        assert_eq!(other.stream_bytes_sent, one.stream_bytes_received);
        assert_eq!(
            (one.frames_sent, other.frames_sent),
            (other.frames_received, one.frames_received)
        );
    }
}

#[test]
fn two_packet_lanes_share_what_a_third_cannot_take() {
    let mut pair = Pair::up(as_is);
    pair.post(0, 1_000, 2);
    pair.flow();
    assert_eq!(pair.sent(), [5, 5, 0]);
}

#[test]
fn a_lane_has_no_more_in_flight_than_its_window() {
    let mut pair = Pair::up(as_is);
    pair.post(0, 1_000, 0);
    pair.carry(1, 0); // ready
    let mut sent = Vec::new();
    while let Some(bytes) = pair.take(0, 0, usize::MAX) {
        sent.push(bytes);
    }
    assert_eq!((pair.ends[0].exchange.in_flight(LaneId(0)), pair.sent()[0]), (200, 2));
    for bytes in sent {
        pair.give(1, 0, &bytes);
    }
    pair.flow();
    assert_eq!(pair.sent(), [10, 0, 0]);
    assert_eq!(pair.said(0).last().map(String::as_str), Some("done"));
}

#[test]
fn lanes_of_a_nic_share_its_window_and_each_has_two_chunks() {
    // Two lanes between the same NICs: 100 B a chunk, 300 B in flight on the NIC.
    let same = |peer| {
        let mut all = lanes(peer);
        (all[1].nic, all[1].peer_nic, all[1].way) = (0, 0, 1);
        all
    };
    let change = |it| Settings { nic_window: 300, window: 1_000, ..it };
    let mut pair = Pair::over(same, change);
    pair.connect(0);
    pair.connect(1);
    pair.flow();
    pair.post(0, 1_000, 0);
    pair.carry(1, 0); // ready
    pair.carry(1, 1);
    let all = |pair: &mut Pair, lane| {
        std::iter::from_fn(|| pair.take(0, lane, usize::MAX)).collect::<Vec<_>>()
    };
    let flies = |pair: &Pair| [0, 1].map(|it| pair.ends[0].exchange.in_flight(LaneId(it)));
    let mut first = all(&mut pair, 0);
    assert_eq!(flies(&pair), [300, 0], "one alone has the whole window");
    pair.post(1, 1_000, 1);
    pair.carry(1, 0);
    pair.carry(1, 1);
    let second = all(&mut pair, 1);
    assert_eq!(flies(&pair), [300, 200], "one that comes late sends two chunks at once");
    assert_eq!(second[1][3] & 1, 1, "nothing comes behind it: it asks");
    for bytes in first.drain(..) {
        pair.give(1, 0, &bytes);
    }
    pair.carry(1, 0);
    all(&mut pair, 0);
    assert_eq!(flies(&pair), [200, 200], "an even share of 300 B is less than two chunks");
    all(&mut pair, 1);
    assert_eq!(flies(&pair), [200, 200]);
    pair.cut(0); // what was to go there takes the other lane
    second.iter().for_each(|bytes| pair.give(1, 1, bytes));
    pair.carry(1, 1);
    all(&mut pair, 1);
    assert_eq!(flies(&pair), [0, 300], "alone again");
    assert_eq!(pair.ends[0].exchange.nic_in_flight(0), 300);
}

/// When chunks of both packet lanes are begun \[us\], up to `end` after the first; what is sent comes, and is acknowledged, at once.
fn begun(pair: &mut Pair, end: Time) -> [Vec<u64>; 2] {
    let start = pair.now;
    let mut times = [Vec::new(), Vec::new()];
    while pair.now <= start.saturating_add(end) {
        for (lane, times) in times.iter_mut().enumerate() {
            while let Some(bytes) = pair.take(0, lane, usize::MAX) {
                times.push(pair.now.saturating_sub(start).ps() / 1_000_000);
                pair.give(1, lane, &bytes);
            }
        }
        for lane in 0..2 {
            pair.carry(1, lane);
        }
        let ends = &mut pair.ends;
        pair.now = ends[0].exchange.next_timeout().min(ends[1].exchange.next_timeout());
        ends.iter_mut().for_each(|end| end.exchange.timeout(pair.now));
        pair.collect();
    }
    times
}

#[test]
fn a_lane_has_the_share_of_its_busier_nic_that_its_chunks_are_or_an_even_share() {
    let paced = |it| Settings { nic_rate: 100_000, window: 10_000, together: 0, ..it };
    let ms = Time::from_ms;
    // A chunk takes 1 ms. A lane alone: the second makes up for time that nobody used.
    let mut pair = Pair::up(paced);
    pair.now = ms(1_000);
    pair.post(0, 500, 0);
    pair.carry(1, 0);
    assert_eq!(begun(&mut pair, ms(10))[0], [0, 0, 1_000, 2_000, 3_000]);

    // Two lanes from one NIC, 600 B on each; after two of each, 6 and 4 chunks, then 3 and 4, are left of all.
    let same = |peer| {
        let mut all = lanes(peer);
        (all[1].nic, all[1].peer_nic, all[1].way) = (0, 0, 1);
        all
    };
    let one = |lanes: fn(u16) -> Vec<LaneSpec>| {
        let mut pair = Pair::over(lanes, paced);
        pair.connect(0);
        pair.connect(1);
        pair.flow();
        pair.now = ms(1_000);
        pair.post(0, 600, 0);
        pair.post(1, 600, 1);
        pair.carry(1, 0);
        pair.carry(1, 1);
        pair
    };
    let [first, second] = begun(&mut one(same), ms(3));
    // Begun as the second of lane 0: it had 5 of 11 left, and so half of the rate.
    assert_eq!(first, [0, 0, 2_000]);
    // As the second of lane 1: 5 of 9.
    assert_eq!(second, [0, 0, 1_800]);

    // From two NICs to one: nobody knows of the other before the first acknowledgement.
    let to_one = |peer| {
        let mut all = lanes(peer);
        let far = if peer == 1 { &mut all[1].peer_nic } else { &mut all[1].nic };
        *far = 0;
        all
    };
    let [first, second] = begun(&mut one(to_one), ms(4));
    assert_eq!((&first[..3], &second[..3]), (&[0, 0, 1_000][..], &[0, 0, 1_000][..]));
    // With the third chunk 4 + 4 are to come to it, of which each has half.
    assert_eq!((first[3], second[3]), (3_000, 3_000));
}

#[test]
fn a_receiver_that_is_late_gets_small_operations_in_its_allowance_and_nothing_else() {
    let mut pair = Pair::up(|it| Settings { small: 300, ..it });
    // An operation costs its bytes and 256 more; 1,000 are allowed.
    for (number, bytes) in (0..).zip([300, 301, 100, 100, 10]) {
        pair.send(number, bytes, 0);
    }
    pair.flow();
    assert_eq!(pair.sent(), [4, 0, 0], "300 and 100, not 301, and no room is left for 100 and 10");
    assert_eq!(pair.ends[1].exchange.bounced(0), 300 + 100 + 512);
    let done = |pair: &mut Pair, at| pair.said(at).iter().filter(|it| *it == "done").count();
    assert_eq!(done(&mut pair, 0), 2, "what the receiver keeps is acknowledged");
    for (number, bytes) in (0..).zip([300, 301, 100, 100, 10]) {
        pair.expect(number, bytes);
    }
    assert_eq!(pair.ends[1].exchange.bounced(0), 0);
    pair.flow();
    let early = pair.said(1);
    assert_eq!(early.iter().filter(|it| it.starts_with("early")).count(), 2);
    assert_eq!(early.iter().filter(|it| *it == "done").count(), 5);
    assert_eq!(done(&mut pair, 0), 3);
}

#[test]
fn a_broken_connection_costs_nothing_but_its_bytes_again() {
    let mut pair = Pair::up(as_is);
    pair.post(0, 200, 0);
    pair.carry(1, 0);
    let whole = pair.take(0, 0, usize::MAX).expect("a chunk");
    let half = pair.take(0, 0, 70).expect("half a chunk");
    pair.give(1, 0, &whole);
    pair.give(1, 0, &half);
    pair.cut(0); // before anything is acknowledged
    pair.flow();
    let sender = pair.ends[0].exchange.statistics(LaneId(0));
    assert_eq!((sender.resent, pair.sent()), (2, [2, 2, 0]));
    let receiver = pair.ends[1].exchange.nic_statistics(1);
    assert_eq!((receiver.doubled, receiver.chunks_received, receiver.bytes_received), (1, 1, 100));
    assert!(pair.said(0).contains(&"done".into()) && pair.said(1).contains(&"done".into()));
}

#[test]
fn what_is_doubled_or_late_goes_nowhere() {
    let mut pair = Pair::up(as_is);
    pair.post(0, 100, 0);
    pair.carry(1, 0);
    let begun = pair.take(0, 0, 84).expect("an acknowledgement, a header, a part");
    pair.give(1, 0, &begun);
    // The sender alone thinks that the lane is broken; the chunk comes over another.
    let own = pair.ends[0].connections[0].take().expect("it is up");
    pair.ends[0].exchange.closed(pair.now, own);
    pair.collect();
    pair.flow();
    assert!(pair.said(1).contains(&"done".into()));
    let connection = pair.ends[1].connections[0].expect("it is up");
    assert_eq!(pair.ends[1].exchange.space(connection), Some(Space::Sink { length: 80 }));
}

fn after_an_operation_over_a_circuit(change: impl Fn(Settings) -> Settings) -> Pair {
    let mut pair = Pair::up(change);
    pair.light(Time::from_ms(500));
    pair.connect(2);
    pair.flow();
    pair.post(0, 100, 2);
    pair.flow();
    pair.said(0);
    pair
}

#[test]
fn a_port_is_drained_when_both_marks_are_acknowledged() {
    let mut pair = after_an_operation_over_a_circuit(as_is);
    pair.post(1, 300, 2);
    pair.carry(1, 0);
    let chunk = pair.take(0, 2, usize::MAX).expect("a chunk");
    pair.ends[0].exchange.drain(pair.now, 9, &[0]);
    pair.collect();
    let mark = pair.take(0, 2, usize::MAX).expect("the mark");
    assert_eq!(mark, Frame::Mark { epoch: 0 }.encode());
    assert_eq!(pair.take(0, 2, usize::MAX), None, "nothing new");
    pair.give(1, 2, &chunk);
    pair.carry(1, 2);
    assert!(!pair.said(0).iter().any(|it| it.contains("Drained")), "the mark is in flight");
    pair.give(1, 2, &mark);
    pair.flow();
    assert!(!pair.said(0).iter().any(|it| it.contains("Drained")), "the peer may still send");
    pair.ends[1].exchange.drain(pair.now, 4, &[0]);
    pair.collect();
    let mark = pair.take(1, 2, usize::MAX).expect("its mark");
    pair.give(0, 2, &mark);
    assert!(!pair.said(0).iter().any(|it| it.contains("Drained")), "the answer is not written");
    let answer = pair.take(0, 2, usize::MAX).expect("the acknowledgement");
    assert!(pair.said(0).contains(&"Drained { token: 9 }".into()));
    assert!(!pair.said(1).iter().any(|it| it.contains("Drained")), "that is not acknowledged");
    pair.give(1, 2, &answer);
    pair.flow();
    assert!(pair.said(1).contains(&"Drained { token: 4 }".into()), "a mark had come before");
    // The circuit stands again: the next chunk is of the next epoch, and comes.
    pair.light(Time::from_ms(500));
    pair.post(2, 100, 2);
    pair.flow();
    assert!(pair.said(1).contains(&"done".into()));
    assert_eq!(pair.ends[1].exchange.statistics(LaneId(2)).breaks, 0);
}

#[test]
fn over_a_circuit_of_one_direction_no_mark_is_waited_for() {
    let one_way = |it| Settings { one_way: true, ..it };
    let mut pair = after_an_operation_over_a_circuit(one_way);
    pair.ends[0].exchange.drain(pair.now, 9, &[0]);
    pair.collect();
    let mark = pair.take(0, 2, usize::MAX).expect("the mark");
    assert!(!pair.said(0).iter().any(|it| it.contains("Drained")), "the mark is in flight");
    pair.give(1, 2, &mark);
    pair.flow();
    assert!(pair.said(0).contains(&"Drained { token: 9 }".into()));
}

#[test]
fn nobody_waits_for_a_mark_that_will_not_come() {
    let until = Time::from_ms(100);
    type End = fn(&mut Pair);
    let ends: [(End, &str); 4] = [
        (|pair| pair.cut(2), "the connection breaks"),
        (
            |pair| {
                pair.now = Time::from_ms(100);
                pair.ends[0].exchange.timeout(pair.now);
                pair.collect();
            },
            "the lease ends",
        ),
        (|pair| pair.light(Time::from_ms(200)), "the circuit stands again"),
        (|pair| pair.ends[0].exchange.forsaken(pair.now), "the agent is gone"),
    ];
    for (end, what) in ends {
        let mut pair = Pair::up(as_is);
        pair.light(until);
        pair.connect(2);
        pair.flow();
        pair.said(0);
        pair.ends[0].exchange.drain(pair.now, 9, &[0]);
        pair.collect();
        pair.flow();
        assert!(!pair.said(0).iter().any(|it| it.contains("Drained")), "{what}");
        end(&mut pair);
        let drained = pair.said(0).iter().any(|it| it.contains("Drained"));
        assert_eq!(drained, what != "the agent is gone", "{what}");
        if what == "the connection breaks" {
            continue; // a new one has to be dialed
        }
        pair.light(Time::from_ms(300)); // the port can be used again
        pair.post(0, 100, 2);
        pair.flow();
        assert!(pair.said(0).contains(&"done".into()), "{what}");
        assert_eq!(pair.ends[0].exchange.nic_statistics(2).chunks_sent, 1, "{what}");
    }
}

#[test]
fn a_circuit_that_stands_again_carries_on_for_whoever_hears_of_it_later() {
    let mut pair = Pair::up(as_is);
    let until = Time::from_ms(1_000);
    pair.light(until);
    pair.connect(2);
    pair.flow();
    let tell = |pair: &mut Pair, at: usize, number: u64, port: u16| {
        let mark = Mark { generation: 1, stage: Stage::Resume };
        let circuits = vec![Some((1 - at as u16, port))];
        pair.ends[at].exchange.told(pair.now, Use { number, mark, round: 0, circuits, until });
        pair.collect();
    };
    // Both ports lead elsewhere, and then back: endpoint 0 hears it first, and sends.
    (0..2).for_each(|at| tell(&mut pair, at, 10, 7));
    tell(&mut pair, 0, 11, 0);
    pair.post(0, 100, 2);
    pair.flow();
    assert_eq!(pair.sent(), [0, 0, 1]);
    pair.said(0);
    tell(&mut pair, 1, 11, 0);
    pair.flow();
    assert_eq!(pair.said(0), ["done"], "acknowledged over the same connection");
    assert!(!pair.said(1).iter().any(|said| said.starts_with("close")));
}

#[test]
fn at_the_end_of_a_lease_a_circuit_with_anything_on_it_is_closed() {
    let mut pair = Pair::up(as_is);
    let until = Time::from_ms(50);
    pair.light(until);
    pair.connect(2);
    pair.flow();
    pair.post(0, 200, 2);
    pair.carry(1, 0);
    pair.take(0, 2, 10).expect("a part of a header");
    pair.now = Time::from_ps(until.ps() - 1);
    pair.take(0, 2, 10).expect("the lease lasts");
    pair.now = until;
    assert_eq!(pair.take(0, 2, usize::MAX), None);
    assert!(pair.ends[0].exchange.next_timeout() <= until);
    pair.ends[0].exchange.timeout(until);
    pair.collect();
    let closed = "close: the circuit's lease has ended, or another circuit has taken its place";
    assert!(pair.said(0).contains(&closed.into()));
    pair.flow();
    assert_eq!(pair.sent(), [1, 1, 1], "packets take both chunks");
    assert!(pair.said(0).contains(&"done".into()));
}

#[test]
fn an_earlier_life_is_refused_and_a_later_one_fails_its_groups() {
    let mut pair = Pair::up(as_is);
    pair.expect(0, 100);
    pair.said(1);
    // Endpoint 0 starts again; its old connections are not known to be gone.
    let life = |life| {
        Exchange::new(Settings { life, ..settings(0) }, lanes(1), Time::ZERO).expect("it fits")
    };
    pair.ends[0].exchange = life(3);
    pair.ends[0].connections = [None; 3];
    pair.connect(0);
    pair.flow();
    let expected = [
        "close: the peer has started again",
        "lane 0 down",
        "close: the peer has started again",
        "lane 1 down",
        "failed",
        "group 1 has failed: endpoint 0 has started again, as endpoint 1 found",
        "lane 0 up",
    ];
    assert_eq!(pair.said(1), expected);
    pair.ends[0].exchange = life(2);
    pair.ends[0].connections = [None; 3];
    pair.connect(1);
    pair.flow();
    assert_eq!(pair.said(1), ["close: endpoint 0 has life 2; 3 or more is allowed"]);
}

#[test]
fn a_lost_peer_fails_groups_and_its_life_is_over() {
    let mut pair = Pair::up(as_is);
    pair.post(0, 100, 0);
    pair.said(0);
    pair.ends[0].exchange.lost(pair.now, 1);
    pair.collect();
    let said = pair.said(0);
    let failed = "group 1 has failed: endpoint 1 is lost, as endpoint 0 found";
    assert_eq!(said[said.len() - 3..], ["failed", failed, "1 lost"]);
    let operation = Operation { group: 1, number: 1, ..Operation::default() };
    let refused = pair.ends[0].exchange.post(pair.now, operation).unwrap_err();
    assert_eq!(refused.to_string(), failed);
    let joined = pair.ends[0].exchange.join(pair.now, 2, &[(0, 1), (1, 1)]);
    assert_eq!((joined, pair.ends[0].exchange.failure(2).is_some()), (Ok(()), true));
    assert_eq!(pair.ends[0].exchange.join(pair.now, 3, &[(0, 1), (1, 2)]), Ok(()));
    assert_eq!(pair.ends[0].exchange.failure(3), None, "a later life is waited for");
}

#[test]
fn a_silent_peer_is_lost_and_not_for_what_this_endpoint_has_slept() {
    let mut pair = Pair::up(as_is);
    let settings = settings(0);
    let until = |pair: &mut Pair, end: Time| {
        while pair.ends[0].exchange.next_timeout() < end {
            pair.now = pair.now.max(pair.ends[0].exchange.next_timeout());
            pair.ends[0].exchange.timeout(pair.now);
            pair.collect();
        }
    };
    let slept = pair.now.saturating_add(settings.lost).saturating_add(settings.lost);
    pair.now = slept;
    pair.ends[0].exchange.timeout(slept);
    pair.collect();
    assert!(!pair.said(0).contains(&"1 lost".into()), "it slept itself");
    until(
        &mut pair,
        slept.saturating_add(Time::from_ps(settings.lost.ps() - settings.beat.ps() * 2)),
    );
    assert!(!pair.said(0).contains(&"1 lost".into()));
    until(&mut pair, slept.saturating_add(settings.lost).saturating_add(settings.beat));
    assert!(pair.said(0).contains(&"1 lost".into()));
}

#[test]
fn what_differs_fails_the_group_at_both() {
    let table = [(100, 101), (101, 100), (0, 1), (1, 0), (300, 200)];
    for small in [0, 1_000] {
        for (sent, expected) in table {
            for late in [false, true] {
                let mut pair = Pair::up(|it| Settings { small, ..it });
                if late {
                    pair.send(0, sent, 0);
                    pair.flow();
                }
                pair.expect(0, expected);
                pair.flow();
                if !late {
                    pair.send(0, sent, 0);
                    pair.flow();
                }
                for at in 0..2 {
                    let failure = pair.ends[at].exchange.failure(1).map(|it| it.cause);
                    // Nothing is expected, and that is over: small bytes are dropped, others wait.
                    let waits = expected == 0 && !(late && small > 0);
                    let allowed = if waits { None } else { Some(Cause::Differs) };
                    assert_eq!(failure, allowed, "{sent} {expected} {small} {late} {at}");
                }
            }
        }
    }
}
