//! What two exchanges cost for each chunk, without sockets and without a copy of the payload:
//! `exchange_cost CHUNKS LANES`.

use lightloom_runtime::exchange::*;
use lightloom_units::Time;

const CHUNK: u32 = 1 << 18;

/// All that one has to send on its connections goes to the other.
fn carry(from: &mut Exchange, to: &mut Exchange, lanes: &[[ConnectionId; 2]], side: usize) -> bool {
    let mut any = false;
    for lane in lanes {
        let (here, there) = (lane[side], lane[1 - side]);
        while let Some(Transmit { head, body }) = from.transmit(Time::ZERO, here) {
            let (mut bytes, used) = ([0; 96], head.len());
            bytes[..used].copy_from_slice(head);
            let payload = body.map_or(0, |body| body.length as usize);
            from.sent(Time::ZERO, here, used + payload);
            let mut at = 0;
            while at < used + payload {
                let read = match to.space(there).expect("it is up") {
                    Space::Buffer(buffer) => {
                        let read = buffer.len().min(used - at);
                        buffer[..read].copy_from_slice(&bytes[at..at + read]);
                        read
                    }
                    Space::Memory { length, .. } | Space::Sink { length } => length as usize,
                };
                to.filled(Time::ZERO, there, read);
                at += read;
            }
            any = true;
        }
    }
    any
}

fn main() {
    let args: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let (chunks, lanes) =
        (args.first().copied().unwrap_or(1_000_000), args.get(1).copied().unwrap_or(4));
    let end = |me: u16| {
        let settings =
            Settings { chunk: CHUNK, window: 16 * CHUNK, ..Settings::new(1, me, 1, b"secret") };
        let lane =
            |nic| LaneSpec { peer: 1 - me, nic, peer_nic: nic, medium: Medium::Packet, way: 0 };
        let all = (0..lanes as u16).map(lane).collect();
        let mut end = Exchange::new(settings, all, Time::ZERO).expect("settings that fit");
        end.join(Time::ZERO, 1, &[(0, 1), (1, 1)]).expect("a new group");
        end
    };
    let (mut one, mut other) = (end(0), end(1));
    let connect = |lane: u32| {
        let dialed = one.dialed(Time::ZERO, LaneId(lane), [1; 16]).expect("it is asked");
        [dialed, other.accepted(Time::ZERO, lane as u16, [2; 16]).expect("there is room")]
    };
    let wires: Vec<_> = (0..lanes as u32).map(connect).collect();
    let ids: Vec<LaneId> = (0..lanes as u32).map(LaneId).collect();
    let bytes = u64::from(CHUNK) * 1_000;
    let began = std::time::Instant::now();
    for number in 0..chunks / 1_000 {
        let (sends, plan) = (vec![Transfer { peer: 1, bytes }], striped(1, bytes, &ids, CHUNK));
        let operation = Operation { group: 1, number, sends, receives: vec![], plan };
        one.post(Time::ZERO, operation).expect("it fits");
        let receives = vec![Transfer { peer: 0, bytes }];
        let operation = Operation { group: 1, number, receives, ..Operation::default() };
        other.post(Time::ZERO, operation).expect("it fits");
        while carry(&mut one, &mut other, &wires, 0) | carry(&mut other, &mut one, &wires, 1) {}
        while one.poll().is_some() || other.poll().is_some() {}
    }
    let all: u64 = ids.iter().map(|&lane| other.statistics(lane).chunks_received).sum();
    let each = began.elapsed().as_nanos() / u128::from(all.max(1));
    println!(
        "{all} chunks over {lanes} lanes: {each} ns a chunk, both ends and all acknowledgements"
    );
}
