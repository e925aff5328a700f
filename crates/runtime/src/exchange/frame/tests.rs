//! Frames as bytes, and bytes that are none.

use super::*;
use proptest::prelude::*;

type Change = fn(&mut [u8; HEADER]);

fn hex(bytes: &[u8]) -> String {
    let quads = bytes.chunks(4).map(|quad| quad.iter().map(|it| format!("{it:02x}")).collect());
    quads.collect::<Vec<String>>().join(" ")
}

#[test]
fn frames_are_these_bytes() {
    let chunk = ChunkHeader {
        group: 1,
        number: 2,
        source: 3,
        epoch: 4,
        offset: 5 << 32,
        length: 6,
        asks: false,
        behind: 0,
    };
    let fail = Frame::Fail { group: 7, cause: Cause::Restarted, endpoint: 8, by: 9 };
    let tunnel = Tunnel { source: 1, target: 2, number: 3 };
    let table = [
        (
            Frame::Chunk(chunk),
            "4c4c0100 01000000 02000000 00000000 00000000 05000000 06000000 03000400",
        ),
        (
            Frame::Chunk(ChunkHeader { asks: true, ..chunk }),
            "4c4c0101 01000000 02000000 00000000 00000000 05000000 06000000 03000400",
        ),
        (
            Frame::Chunk(ChunkHeader { behind: 258, ..chunk }),
            "4c4c0100 01000000 02000000 00000000 00000000 05000201 06000000 03000400",
        ),
        (
            Frame::Ack { count: 300, coming: 5, lanes: 2 },
            "4c4c0200 00000000 2c010000 00000000 05000000 00000000 02000000 00000000",
        ),
        (
            Frame::Ready { group: 1, number: 2, bytes: 3 },
            "4c4c0300 01000000 02000000 00000000 03000000 00000000 00000000 00000000",
        ),
        (fail, "4c4c0400 07000000 00000000 00000000 08000000 00000000 02000000 09000000"),
        (
            Frame::Mark { epoch: 513 },
            "4c4c0500 00000000 00000000 00000000 00000000 00000000 00000000 00000102",
        ),
        (Frame::Beat, "4c4c0600 00000000 00000000 00000000 00000000 00000000 00000000 00000000"),
        (
            Frame::Over { group: 1, number: 2 },
            "4c4c0700 01000000 02000000 00000000 00000000 00000000 00000000 00000000",
        ),
        (
            Frame::Open(tunnel),
            "4c4c0800 02000000 03000000 00000000 00000000 00000000 00000000 01000000",
        ),
        (
            Frame::Relay { tunnel, length: 4, epoch: 5 },
            "4c4c0900 02000000 03000000 00000000 00000000 00000000 04000000 01000500",
        ),
        (
            Frame::Shut(tunnel),
            "4c4c0a00 02000000 03000000 00000000 00000000 00000000 00000000 01000000",
        ),
    ];
    for (frame, bytes) in table {
        assert_eq!(hex(&frame.encode()), bytes, "{frame:?}");
        assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
    }
}

#[test]
fn a_wrong_field_is_named_with_its_value_and_what_is_allowed() {
    let said = |change: Change| {
        let chunk = ChunkHeader {
            group: 1,
            number: 2,
            source: 3,
            epoch: 4,
            offset: 5,
            length: 6,
            asks: false,
            behind: 0,
        };
        let mut bytes = Frame::Chunk(chunk).encode();
        change(&mut bytes);
        Frame::decode(&bytes).unwrap_err().to_string()
    };
    let table: [(Change, &str); 6] = [
        (|it| it[0] = 0, "a frame begins with 0x4c00, not with 0x4c4c"),
        (|it| it[2] = 11, "a frame is of kind 11; kinds are 1 to 10"),
        (|it| it[3] = 2, "flags of a frame of kind 1 is 2; 0 or 1 is allowed"),
        (|it| it[24] = 0, "length of a frame of kind 1 is 0; 1 to 67,108,864 is allowed"),
        (
            |it| it[16..22].fill(255),
            "offset of a frame of kind 1 is 281474976710655; up to 2^48 is allowed",
        ),
        (|it| it[2] = 6, "group of a frame of kind 6 is 1; 0 is allowed"),
    ];
    for (change, expected) in table {
        assert_eq!(said(change), expected);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_frame_or_an_error(mut bytes: [u8; HEADER], magic: bool, kind in 0u8..12) {
        if magic {
            bytes[..4].copy_from_slice(&[0x4c, 0x4c, kind, 0]);
        }
        if let Ok(frame) = Frame::decode(&bytes) {
            prop_assert_eq!(frame.encode(), bytes);
            if let Frame::Chunk(chunk) = frame {
                prop_assert!(chunk.end() <= MOST && chunk.length > 0);
            }
        }
    }

    #[test]
    fn what_is_small_is_read_back(group: u32, number: u64, source: u16, epoch: u16, offset in 0..1u64 << 47, length in 1..=LONGEST, asks: bool, behind: u16) {
        let chunk = Frame::Chunk(ChunkHeader { group, number, source, epoch, offset, length, asks, behind });
        prop_assert_eq!(Frame::decode(&chunk.encode()), Ok(chunk));
    }
}
