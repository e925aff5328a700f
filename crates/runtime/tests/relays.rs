//! An endpoint without packet NICs reaches those that it has no circuit to by the one that it has a circuit to.

mod trio;

use lightloom_runtime::exchange::{LaneError, Settings};
use trio::{CHUNK, Trio};

fn as_is(settings: Settings) -> Settings {
    settings
}

/// The endpoint's packet NIC is gone; a circuit joins it and the relay, which was found.
fn stranded(at: usize, relay: usize, change: impl Fn(Settings) -> Settings) -> Trio {
    let mut trio = Trio::new((at.min(relay), at.max(relay)), change);
    trio.strand(at);
    trio.all_to_all(1);
    assert!(trio.settle(1, 300), "by a relay");
    assert!(trio.is_right() && trio.relayed(relay) > 0);
    trio
}

#[test]
fn who_has_no_packet_nic_is_relayed_whatever_the_size() {
    // The lesser one dials: who is stranded, or the one that it wants to reach.
    for (at, relay) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let mut trio = stranded(at, relay, as_is);
        let sizes = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5_000, 300_001];
        for (done, bytes) in (2..).zip(sizes) {
            let before = trio.relayed(relay);
            trio.all_to_all(bytes.into());
            assert!(trio.settle(done, 5) && trio.is_right(), "{bytes} B");
            let carried = trio.relayed(relay) - before;
            assert!(carried >= 2 * u64::from(bytes), "both ways: {carried} B of {bytes}");
        }
        assert!(trio.ends.iter().all(|end| end.exchange.kept() == 0 && end.failed.is_empty()));
    }
}

#[test]
fn once_packet_nics_are_back_nothing_is_relayed() {
    let mut trio = stranded(0, 1, as_is);
    trio.stranded = None;
    trio.wait(3_000);
    trio.wait(1_000);
    let unneeded = |it: &(_, LaneError)| it.1 == LaneError::Unneeded;
    assert!(trio.ends[0].downs.iter().any(unneeded), "{:?}", trio.ends[0].downs);
    let before = trio.relayed(1);
    trio.all_to_all(5_000);
    assert!(trio.settle(2, 5) && trio.is_right());
    assert_eq!(trio.relayed(1), before);
}

#[test]
fn what_was_under_way_when_a_tunnel_breaks_is_sent_again() {
    let mut trio = stranded(0, 1, as_is);
    trio.stuck = Some(2); // parts pile up at the relay
    trio.all_to_all(50_000);
    assert!(trio.ends[1].exchange.kept() > 0);
    trio.break_circuit();
    trio.stuck = None;
    assert!(trio.settle(2, 100) && trio.is_right());
    assert!(trio.ends.iter().all(|end| end.exchange.kept() == 0 && end.failed.is_empty()));
}

#[test]
fn a_relay_keeps_no_more_than_its_bound() {
    // So many parts of 100 B; and 1 MiB in larger ones.
    for (chunk, least, most) in [(CHUNK, 20_000, 50_000), (65_536, 900_000, (1 << 20) + 30_000)] {
        let mut trio = stranded(0, 1, |settings| Settings { chunk, window: 8 << 20, ..settings });
        trio.stuck = Some(2);
        trio.all_to_all(4 << 20);
        let kept = trio.ends[1].exchange.kept();
        assert!((least..=most).contains(&kept), "{kept} B");
        let refused = |it: &&(_, LaneError)| matches!(it.1, LaneError::Kept { .. });
        assert_eq!(trio.ends[1].downs.iter().find(refused), None);
        trio.stuck = None;
        assert!(trio.settle(2, 5) && trio.is_right());
    }
}

#[test]
fn without_relays_it_is_lost() {
    let mut trio = Trio::new((0, 1), |settings| Settings { relays: false, ..settings });
    trio.strand(0);
    trio.all_to_all(1);
    assert!(!trio.settle(1, 2_000));
    let why: Vec<String> =
        trio.ends.iter().flat_map(|it| &it.failed).map(|it| it.to_string()).collect();
    assert_eq!(why.len(), 3, "{why:?}");
    assert!(why.iter().all(|why| why.contains("is lost")), "{why:?}");
}

#[test]
fn what_a_relay_has_arrives_when_the_one_who_said_it_has_gone() {
    let mut trio = stranded(0, 1, as_is);
    trio.stuck = Some(2);
    trio.all_to_all(1);
    // Endpoint 0 has said all that it has to say to 2, and 1 keeps it.
    assert!(trio.ends[1].exchange.kept() > 0);
    trio.break_circuit();
    trio.stuck = None;
    trio.flow();
    let from_0 = &trio.ends[2].receives[&0];
    assert_eq!(*from_0, trio.ends[0].sends[&2], "no way back was needed");
}

#[test]
fn memory_is_not_handed_back_while_the_lane_to_a_relay_is_in_the_midst_of_it() {
    let mut trio = stranded(0, 1, as_is);
    let circuit = trio.circuit(0);
    trio.paused = Some(circuit.0);
    trio.all_to_all(100);
    while trio.next_for(circuit.0) != Some(2) {
        assert!(trio.write(circuit, usize::MAX), "what comes before");
    }
    trio.flow();
    assert!(trio.write(circuit, 70), "a part of the header and the chunk");
    // The relay loses endpoint 2; endpoint 0 has its packet NIC again, and sends the chunk over that.
    trio.stranded = None;
    trio.part(1, 2);
    (0..20).for_each(|_| trio.wait(10));
    assert_eq!(trio.ends[2].receives[&0], trio.ends[0].sends[&2]);
    assert_eq!(trio.ends[0].done, 1, "the lane reads it yet");
    trio.paused = None;
    trio.flow();
    assert!(trio.settle(2, 20) && trio.is_right());
}
