use super::*;
use crate::exchange::{Chunk, LaneId, Transfer};
use lightloom_circuits::route;
use proptest::prelude::*;
use std::collections::BTreeMap;

const CHUNK: u32 = 1000;

/// A region of odd shape, some circuits of server 1, and what its ranks send.
fn cases() -> impl Strategy<Value = (Shape, Vec<Option<PortId>>, Vec<Block>)> {
    (2u16..6, 1u16..5, 1u16..4, 1u16..4).prop_flat_map(|(servers, ranks, packet, optical)| {
        let shape = Shape { servers, ranks, packet_nics: packet, optical_nics: optical };
        let others = move |at: u16| if at >= 1 { at + 1 } else { at };
        let peers = prop::collection::vec(prop::option::of(0..servers - 1), usize::from(optical));
        let circuits = peers.prop_map(move |peers| {
            let port = |(port, peer): (u16, Option<u16>)| peer.map(|peer| (others(peer), port));
            (0..optical).zip(peers).map(port).collect()
        });
        let ends = (0..ranks, 0..servers - 1, 0..ranks);
        let bytes = prop_oneof![Just(0u64), 1u64..50, 900u64..1100, 0u64..20_000];
        let blocks = prop::collection::btree_map(ends, bytes, 0..30).prop_map(move |map| {
            let block = |((source, server, target), bytes)| Block {
                source,
                server: others(server),
                target,
                bytes,
            };
            map.into_iter().map(block).collect()
        });
        (Just(shape), circuits, blocks)
    })
}

fn loads(ways: &[Way]) -> BTreeMap<(u16, Nic, Nic), u64> {
    let mut loads = BTreeMap::new();
    for way in ways {
        *loads.entry((way.server, way.nic, way.peer_nic)).or_default() += u64::from(way.length);
    }
    loads
}

proptest! {
    #[test]
    fn every_byte_is_in_one_chunk((shape, circuits, blocks) in cases(), path in 0..6usize) {
        let sender = Sender { shape, server: 1, circuits: &circuits, chunk: CHUNK };
        let path: Path = Path::NAMES[path].parse().unwrap();
        let ways = sender.ways(path, &blocks, |_, _| true);
        let sends: Vec<Transfer> = (0..shape.servers).map(|peer| {
            let to = blocks.iter().filter(|it| it.server == peer);
            Transfer { peer, bytes: to.map(|it| it.bytes).sum() }
        }).collect();
        let chunk = |way: &Way| {
            Chunk { peer: way.server, lane: LaneId(0), offset: way.offset, length: way.length }
        };
        let plan: Vec<Chunk> = ways.iter().map(chunk).collect();
        prop_assert_eq!(crate::exchange::check_plan(&sends, &plan, CHUNK), Ok(()));
    }

    /// What the simulator gives each lane is what the runtime gives it.
    #[test]
    fn circuits_carry_what_the_decision_gives_them((shape, circuits, blocks) in cases()) {
        let sender = Sender { shape, server: 1, circuits: &circuits, chunk: CHUNK };
        let ways = sender.ways(Path::Delegate, &blocks, |_, _| true);
        let mut ports = PortMap::dark(shape.servers.into(), shape.optical_nics.into());
        for (port, peer) in (0..).zip(&circuits) {
            peer.iter().for_each(|peer| ports.connect((1, port), *peer));
        }
        let ranks = u32::from(shape.ranks);
        let rank = |server: u16, rank: u16| u32::from(server) * ranks + u32::from(rank);
        let demand: Vec<_> =
            blocks.iter().map(|it| (rank(1, it.source), rank(it.server, it.target), it.bytes)).collect();
        let options = RouteOptions { share_eps: false, optical_bps: 0, packet_bps: 0 };
        let routing = route(&demand, &ports, &shape.layout(), &options);
        let expected: BTreeMap<_, _> = routing.exchange.iter()
            .map(|hop| ((hop.to.0, hop.from.1, hop.to.1), hop.bytes)).collect();
        prop_assert_eq!(loads(&ways), expected);
    }

    /// RailS, Theorem 4: the NICs' loads differ by a chunk at most.
    #[test]
    fn lpt_evens_out_the_nics((shape, circuits, blocks) in cases()) {
        let sender = Sender { shape, server: 1, circuits: &circuits, chunk: CHUNK };
        let mut nics = vec![0; usize::from(shape.packet_nics)];
        for way in sender.ways(Path::Rails(Deal::Lpt), &blocks, |_, _| true) {
            nics[usize::from(way.nic)] += u64::from(way.length);
        }
        let spread = nics.iter().max().unwrap() - nics.iter().min().unwrap();
        prop_assert!(spread <= u64::from(CHUNK), "{nics:?}");
    }

    /// A NIC that leads nowhere is given nothing, unless none leads there.
    #[test]
    fn nics_that_are_down_are_left_out(
        (shape, circuits, blocks) in cases(), down in prop::collection::vec(any::<bool>(), 24),
    ) {
        let sender = Sender { shape, server: 1, circuits: &circuits, chunk: CHUNK };
        let is_up = |server: u16, nic: Nic| !down[usize::from(server * 4 + nic) % 24];
        for way in sender.ways(Path::Rails(Deal::Lpt), &blocks, is_up) {
            let any = (0..shape.packet_nics).any(|nic| is_up(way.server, nic));
            prop_assert!(is_up(way.server, way.nic) || !any, "{way:?}");
        }
    }

    /// Streams have every chunk once, and what is in flight to a NIC is the same whatever the scheme.
    #[test]
    fn every_chunk_is_in_one_stream(
        (shape, circuits, blocks) in cases(), kind in prop::sample::select(vec!["ecmp", "min-rtt", "rails"]),
    ) {
        let shape = Shape { packet_nics: shape.ranks, ..shape };
        let sender = Sender { shape, server: 1, circuits: &circuits, chunk: CHUNK };
        let path = match kind {
            "rails" => Path::Rails(Deal::Lpt),
            kind => Path::Balanced(serde_json::from_str(&format!(r#"{{"kind": {kind:?}}}"#)).expect("one")),
        };
        let window = 1000 * u64::from(shape.ranks);
        let (ways, streams) = sender.streams(path, &blocks, window, |_, _| true);
        let mut chunks: Vec<u32> = streams.iter().flat_map(|it| it.chunks.clone()).collect();
        chunks.sort_unstable();
        prop_assert_eq!(chunks, (0..ways.len() as u32).collect::<Vec<_>>());
        let mut windows: BTreeMap<(u16, Nic), u64> = BTreeMap::new();
        for stream in &streams {
            *windows.entry((stream.server, stream.peer_nic)).or_default() += stream.window;
            prop_assert!(stream.chunks.iter().all(|&at| ways[at as usize].server == stream.server));
            prop_assert!(kind != "min-rtt" || stream.nics.len() == usize::from(shape.packet_nics));
            prop_assert!(kind != "ecmp" || stream.nics.len() == 1);
        }
        prop_assert!(windows.values().all(|&sum| sum <= window), "{:?}", windows);
        let all: Vec<Transfer> = (0..shape.servers).map(|peer| {
            let to = blocks.iter().filter(|it| it.server == peer);
            Transfer { peer, bytes: to.map(|it| it.bytes).sum() }
        }).collect();
        let chunk = |way: &Way| {
            Chunk { peer: way.server, lane: LaneId(0), offset: way.offset, length: way.length }
        };
        let plan: Vec<Chunk> = ways.iter().map(chunk).collect();
        prop_assert_eq!(crate::exchange::check_plan(&all, &plan, CHUNK), Ok(()));
    }
}
