//! What the exchange refuses, and how it says so: frames, strangers, calls.

mod pair;

use lightloom_runtime::exchange::frame::{ChunkHeader, Frame};
use lightloom_runtime::exchange::*;
use pair::{Pair, lanes, settings};
use proptest::prelude::*;

/// A chunk of what is sent first.
const FIRST: ChunkHeader = ChunkHeader {
    group: 1,
    number: 0,
    source: 0,
    epoch: 0,
    offset: 0,
    length: 10,
    asks: false,
    behind: 0,
};

/// Changes what would fit.
type Change<T> = fn(&mut T);

fn as_is(settings: Settings) -> Settings {
    settings
}

#[test]
fn a_wrong_frame_breaks_its_lane_and_nothing_else() {
    let chunk = FIRST;
    let far = ChunkHeader { number: 5, offset: 900, ..chunk };
    let table: Vec<(Vec<u8>, &str)> = vec![
        (vec![0; 32], "a frame begins with 0x0000, not with 0x4c4c"),
        (
            Frame::Chunk(ChunkHeader { source: 4, ..chunk }).encode().into(),
            "a chunk is from endpoint 4; 0 is allowed on this lane",
        ),
        (
            Frame::Chunk(ChunkHeader { epoch: 1, ..chunk }).encode().into(),
            "a frame is of epoch 1; the lane is at 0",
        ),
        (
            Frame::Ack { count: 9, coming: 0, lanes: 0 }.encode().into(),
            "9 frames are acknowledged; 0 to 0 is allowed",
        ),
        (Frame::Mark { epoch: 3 }.encode().into(), "a frame is of epoch 3; the lane is at 0"),
        (
            Frame::Open(Tunnel { source: 0, target: 1, number: 1 }).encode().into(),
            "a frame goes from endpoint 0 to endpoint 1: not over this lane",
        ),
        (
            Frame::Shut(Tunnel { source: 2, target: 5, number: 1 }).encode().into(),
            "a frame goes from endpoint 2 to endpoint 5: not over this lane",
        ),
        (
            Frame::Relay {
                tunnel: Tunnel { source: 0, target: 5, number: 1 },
                length: 165,
                epoch: 0,
            }
            .encode()
            .into(),
            "a part of a tunnel has 165 B; up to 164 B is allowed",
        ),
        (
            Frame::Chunk(far).encode().into(),
            "early chunks take 1166 B of bounce memory; 1000 B is allowed",
        ),
    ];
    for (bytes, error) in table {
        let mut pair = Pair::up(as_is);
        pair.post(0, 300, 1);
        pair.said(1);
        pair.give(1, 0, &bytes);
        assert_eq!(pair.said(1), [format!("close: {error}"), "lane 0 down".into()]);
        pair.cut(0);
        pair.flow();
        assert_eq!(pair.said(1), ["done"]);
    }
}

#[test]
fn a_chunk_that_has_come_in_part_breaks_its_lane() {
    let mut pair = Pair::up(as_is);
    pair.expect(0, 100);
    let chunk = |offset, length| {
        let header = ChunkHeader { offset, length, ..FIRST };
        let mut bytes = Frame::Chunk(header).encode().to_vec();
        bytes.resize(32 + length as usize, 0);
        bytes
    };
    pair.give(1, 0, &chunk(0, 50));
    pair.said(1);
    pair.give(1, 0, &chunk(40, 20));
    let error = "close: a chunk of group 1, number 0, bytes 40 to 60, has come in part";
    assert_eq!(pair.said(1)[0], error);
}

#[test]
fn strangers_get_no_lane_and_are_not_waited_for() {
    let mut pair = Pair::new(as_is);
    let patience = settings(1).handshake;
    let mut ids = Vec::new();
    let error = loop {
        match pair.ends[1].exchange.accepted(pair.now, 0, [0; 16]) {
            Ok(id) => ids.push(id),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(error, "64 connections have yet to say hello; no more are allowed");
    pair.now = pair.now.saturating_add(patience);
    pair.ends[1].exchange.timeout(pair.now);
    pair.collect();
    let said = pair.said(1);
    assert_eq!(
        (said.len(), said[0].as_str()),
        (64, "close: no hello came within the settings' `handshake`")
    );
    let tries: [(Change<Settings>, &str); 2] = [
        (|it| it.job = 8, "close: a hello is of job 0x8; 0x7 is allowed"),
        (
            |it| it.secret = b"guess".to_vec(),
            "close: endpoint 1 does not prove that it knows the job's secret",
        ),
    ];
    for (change, error) in tries {
        let (mut pair, mut settings) = (Pair::new(as_is), settings(0));
        change(&mut settings);
        pair.ends[0].exchange = Exchange::new(settings, lanes(1), pair.now).expect("it fits");
        pair.connect(0);
        pair.flow();
        let said = [pair.said(0), pair.said(1)].concat();
        assert!(said.contains(&error.into()), "{said:?}");
        assert!(!said.iter().any(|it| it.contains("up")), "{said:?}");
    }
}

#[test]
fn calls_that_do_not_fit_say_so() {
    let mut pair = Pair::up(as_is);
    let fits = Operation {
        group: 1,
        number: 0,
        sends: vec![Transfer { peer: 1, bytes: 50 }],
        receives: vec![],
        plan: striped(1, 50, &[LaneId(0)], 100),
    };
    let mut said = |change: Change<Operation>| {
        let mut operation = fits.clone();
        change(&mut operation);
        pair.ends[0].exchange.post(pair.now, operation).unwrap_err().to_string()
    };
    let table: [(Change<Operation>, &str); 7] = [
        (|it| it.group = 9, "group 9 is not joined"),
        (|it| it.number = 3, "operation 3 of group 1 is out of order; 0 is allowed"),
        (|it| it.sends[0].peer = 4, "endpoint 4 is named twice, or is no other member of group 1"),
        (
            |it| it.sends.push(it.sends[0]),
            "endpoint 1 is named twice, or is no other member of group 1",
        ),
        (|it| it.plan[0].lane = LaneId(9), "lane 9 does not lead to endpoint 1"),
        (|it| it.plan.clear(), "the chunks to endpoint 1 cover 0 B without a gap; 50 B are sent"),
        (
            |it| it.receives.push(Transfer { peer: 1, bytes: 1 << 50 }),
            "1125899906842624 B from endpoint 1 are expected; 2^48 B are allowed",
        ),
    ];
    for (change, expected) in table {
        assert_eq!(said(change), expected);
    }
    let end = &mut pair.ends[0].exchange;
    let joined = end.join(pair.now, 1, &[(0, 1), (1, 1)]).unwrap_err().to_string();
    assert_eq!(joined, "group 1 was joined before; a group's number is used once");
    let far = end.join(pair.now, 2, &[(0, 1), (6, 1)]).unwrap_err().to_string();
    assert_eq!(far, "endpoint 6 of group 2 has no lane here");
    end.leave(pair.now, 1);
    assert!(end.join(pair.now, 1, &[(0, 1), (1, 1)]).is_err(), "a group's number is used once");
}

proptest! {
    #[test]
    fn nothing_that_a_peer_sends_makes_an_endpoint_panic_or_harms_another_lane(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        kinds in proptest::collection::vec((1u8..9, 0u32..3, 0u64..3, 0u64..1200, 0u32..300, 0u16..2), 0..12),
    ) {
        let mut pair = Pair::up(|it| Settings { small: 300, ..it });
        pair.post(0, 300, 1);
        for (kind, group, number, offset, length, source) in kinds {
            let mut header = [0; 32];
            header[..3].copy_from_slice(&[0x4c, 0x4c, kind]);
            header[4..8].copy_from_slice(&group.to_le_bytes());
            header[8..16].copy_from_slice(&number.to_le_bytes());
            header[16..24].copy_from_slice(&offset.to_le_bytes());
            header[24..28].copy_from_slice(&length.to_le_bytes());
            header[28..30].copy_from_slice(&source.to_le_bytes());
            pair.give(1, 0, &header);
            pair.give(1, 0, &bytes);
        }
        pair.flow();
        // Lane 1 breaks only if what it carries does not fit what the same peer has sent over lane 0.
        let usable = pair.ends[1].exchange.is_usable(LaneId(1));
        prop_assert!(usable || pair.said(1).iter().any(|it| it.contains("has come in part")));
        prop_assert!(pair.ends[1].exchange.bounced(0) <= 1_000);
    }
}
