//! The endpoints of a scenario, their NICs, lanes and patience.

use super::chance::Chance;
use lightloom_runtime::exchange::{LaneSpec, Medium, Settings};
use lightloom_units::Time;

/// What a scenario's endpoints have.
pub struct Shape {
    pub settings: Vec<Settings>,
    /// By endpoint.
    pub lanes: Vec<Vec<LaneSpec>>,
    /// By endpoint: its optical ports. Their NICs come after those on packet switches.
    pub ports: Vec<u16>,
    pub lease: Time,
    /// The most that a segment is late on its lane.
    pub delay_us: u64,
    /// Bytes that a connection holds.
    pub pipe: usize,
}

pub const SECRET: &[u8] = b"what the endpoints of the job know";

/// Chunks that a NIC's packet lanes begin in a second; 0: as many as they can.
const PACES: [u64; 3] = [0, 400, 3_000];

impl Shape {
    /// 2 to 4 endpoints of 1 to 4 NICs, one of them on packet switches.
    pub fn draw(chance: &mut Chance) -> Self {
        let ends = chance.between(2, 4) as u16;
        let nics: Vec<u16> = (0..ends).map(|_| chance.between(1, 4) as u16).collect();
        let packet: Vec<u16> =
            nics.iter().map(|&all| 1 + chance.below(all.into()) as u16).collect();
        let ports: Vec<u16> = nics.iter().zip(&packet).map(|(all, packet)| all - packet).collect();
        let mesh = chance.hit(300);
        let mut lanes = vec![Vec::new(); usize::from(ends)];
        for a in 0..ends {
            for b in a + 1..ends {
                join(&mut lanes, (a, b), &packet, &ports, mesh);
            }
        }
        let chunk = chance.between(64, 600) as u32;
        let beat = chance.ms(30, 80);
        let stall = beat.saturating_add(chance.ms(60, 200));
        let allowance = if chance.hit(200) { 0 } else { chance.between(257, 4000) as u32 };
        // Without a draw of its own, so that seeds go on to mean what they meant.
        let nic_window = 1 + chunk % 6;
        let base = Settings {
            chunk,
            window: chunk * chance.between(1, 4) as u32,
            nic_window: chunk * nic_window,
            nic_rate: PACES[chunk as usize % PACES.len()] * u64::from(chunk),
            together: chunk * chance.between(0, 4) as u32,
            hold: chance.ms(0, 30),
            allowance,
            small: chance.between(0, 700) as u32,
            beat,
            stall,
            lost: stall.saturating_add(chance.ms(400, 800)),
            handshake: chance.ms(60, 150),
            retry: chance.ms(3, 20),
            relays: chance.hit(800),
            ..Settings::new(7, 0, 1, SECRET)
        };
        let settings = (0..ends).map(|endpoint| Settings {
            endpoint,
            ports: ports[usize::from(endpoint)],
            ..base.clone()
        });
        Shape {
            settings: settings.collect(),
            lanes,
            ports,
            lease: chance.ms(60, 300),
            delay_us: chance.between(10, 4_000),
            pipe: chance.between(40, 2_000) as usize,
        }
    }
}

/// Lanes of two endpoints: packet NICs in turn or each with each, every optical port with each of the other.
fn join(
    lanes: &mut [Vec<LaneSpec>],
    (a, b): (u16, u16),
    packet: &[u16],
    ports: &[u16],
    mesh: bool,
) {
    let (at, bt) = (usize::from(a), usize::from(b));
    let mut add = |nic, peer_nic, here: Medium, there: Medium| {
        lanes[at].push(LaneSpec { peer: b, nic, peer_nic, medium: here, way: 0 });
        lanes[bt].push(LaneSpec { peer: a, nic: peer_nic, peer_nic: nic, medium: there, way: 0 });
    };
    for nic in 0..packet[at].max(packet[bt]) {
        let (one, other) = (nic % packet[at], nic % packet[bt]);
        if !mesh {
            add(one, other, Medium::Packet, Medium::Packet);
        }
    }
    for (one, other) in (0..packet[at]).flat_map(|one| (0..packet[bt]).map(move |it| (one, it))) {
        if mesh {
            add(one, other, Medium::Packet, Medium::Packet);
        }
    }
    for (one, other) in (0..ports[at]).flat_map(|one| (0..ports[bt]).map(move |it| (one, it))) {
        let here = Medium::Circuit { port: one, peer: (b, other) };
        let there = Medium::Circuit { port: other, peer: (a, one) };
        add(packet[at] + one, packet[bt] + other, here, there);
    }
}
