//! Two endpoints and what lies between them, with no delay and no faults but those that a test makes.
//! Endpoint 0 has packet NICs 0 and 1 and the optical NIC 2; endpoint 1 has the same. Lanes 0 and 1 are packet
//! lanes, lane 2 is a circuit's. Payload is zeros.

#![allow(dead_code, reason = "each test uses a part")]

use lightloom_control::{Mark, Stage, Use};
use lightloom_runtime::exchange::*;
use lightloom_units::Time;

/// One of the two, and its ends of the connections, by lane.
pub struct End {
    pub exchange: Exchange,
    pub connections: [Option<ConnectionId>; 3],
    pub outputs: Vec<Output>,
}

pub struct Pair {
    pub now: Time,
    /// By lane: the NIC where it is accepted, at endpoint 1.
    nics: [Nic; 3],
    pub ends: [End; 2],
    told: u64,
}

pub fn settings(endpoint: u16) -> Settings {
    let base = Settings::new(7, endpoint, 1, b"secret");
    Settings { ports: 1, chunk: 100, window: 250, allowance: 1_000, small: 0, ..base }
}

pub fn lanes(peer: u16) -> Vec<LaneSpec> {
    let circuit = Medium::Circuit { port: 0, peer: (peer, 0) };
    let media = [Medium::Packet, Medium::Packet, circuit];
    let lane = |(nic, medium)| LaneSpec { peer, nic, peer_nic: nic, medium, way: 0 };
    (0..).zip(media).map(lane).collect()
}

impl Pair {
    /// Two endpoints in group 1; nothing is connected.
    pub fn new(change: impl Fn(Settings) -> Settings) -> Self {
        Pair::over(lanes, change)
    }

    /// The same over other lanes than [`lanes`].
    pub fn over(
        lanes: impl Fn(u16) -> Vec<LaneSpec>,
        change: impl Fn(Settings) -> Settings,
    ) -> Self {
        let now = Time::from_ms(1);
        let end = |me: u16| {
            let exchange = Exchange::new(change(settings(me)), lanes(1 - me), now);
            let mut exchange = exchange.expect("settings that fit");
            exchange.join(now, 1, &[(0, 1), (1, 1)]).expect("a new group");
            End { exchange, connections: [None; 3], outputs: Vec::new() }
        };
        let nics = [0, 1, 2].map(|it| lanes(0)[it].nic);
        let mut pair = Pair { now, nics, ends: [end(0), end(1)], told: 0 };
        pair.collect();
        pair
    }

    /// With both packet lanes up.
    pub fn up(change: impl Fn(Settings) -> Settings) -> Self {
        let mut pair = Pair::new(change);
        pair.connect(0);
        pair.connect(1);
        pair.flow();
        pair
    }

    /// A lane is dialed and accepted.
    pub fn connect(&mut self, lane: u32) {
        let nonce = [lane as u8; 16];
        let dialed =
            self.ends[0].exchange.dialed(self.now, LaneId(lane), nonce).expect("it is asked");
        let accepted = self.ends[1]
            .exchange
            .accepted(self.now, self.nics[lane as usize], nonce)
            .expect("room");
        self.ends[0].connections[lane as usize] = Some(dialed);
        self.ends[1].connections[lane as usize] = Some(accepted);
    }

    /// Both endpoints are told that the circuit stands.
    pub fn light(&mut self, until: Time) {
        self.told += 1;
        for at in 0..2 {
            let mark = Mark { generation: 1, stage: Stage::Resume };
            let circuits = vec![Some((1 - at as u16, 0))];
            let told = Use { number: self.told, mark, round: 0, circuits, until };
            self.ends[at].exchange.told(self.now, told);
        }
        self.collect();
    }

    pub fn collect(&mut self) {
        for end in &mut self.ends {
            while let Some(output) = end.exchange.poll() {
                if let Output::Close { connection, .. } = output {
                    end.connections
                        .iter_mut()
                        .filter(|it| **it == Some(connection))
                        .for_each(|it| *it = None);
                }
                end.outputs.push(output);
            }
        }
    }

    /// Bytes flow both ways until none do.
    pub fn flow(&mut self) {
        while (0..3).any(|lane| self.carry(0, lane) | self.carry(1, lane)) {}
    }

    /// All that one has to send over a lane.
    pub fn carry(&mut self, from: usize, lane: usize) -> bool {
        let mut any = false;
        while let Some(bytes) = self.take(from, lane, usize::MAX) {
            any = true;
            self.give(1 - from, lane, &bytes);
        }
        any
    }

    /// What one sends next over a lane.
    pub fn take(&mut self, from: usize, lane: usize, most: usize) -> Option<Vec<u8>> {
        let end = &mut self.ends[from];
        let connection = end.connections[lane]?;
        let Transmit { head, body } = end.exchange.transmit(self.now, connection)?;
        let mut bytes = head.to_vec();
        bytes.resize(bytes.len() + body.map_or(0, |body| body.length as usize), 0);
        bytes.truncate(most);
        end.exchange.sent(self.now, connection, bytes.len());
        self.collect();
        Some(bytes)
    }

    /// One reads these bytes from a lane.
    pub fn give(&mut self, to: usize, lane: usize, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = &mut self.ends[to];
            let Some(connection) = end.connections[lane] else { return };
            let Some(space) = end.exchange.space(connection) else { return };
            let read = match space {
                Space::Buffer(buffer) => {
                    let read = buffer.len().min(rest.len());
                    buffer[..read].copy_from_slice(&rest[..read]);
                    read
                }
                Space::Memory { length, .. } | Space::Sink { length } => {
                    rest.len().min(length as usize)
                }
            };
            rest = &rest[read..];
            end.exchange.filled(self.now, connection, read);
            self.collect();
        }
    }

    /// A lane breaks, and both hear of it.
    pub fn cut(&mut self, lane: usize) {
        for end in &mut self.ends {
            if let Some(connection) = end.connections[lane].take() {
                end.exchange.closed(self.now, connection);
            }
        }
        self.collect();
    }

    /// Endpoint 0 sends so much to 1 in chunks of 100 B, all of them planned for `lane`.
    pub fn post(&mut self, number: u64, bytes: u64, lane: u32) -> OperationId {
        self.expect(number, bytes);
        self.send(number, bytes, lane)
    }

    pub fn send(&mut self, number: u64, bytes: u64, lane: u32) -> OperationId {
        let plan = striped(1, bytes, &[LaneId(lane)], 100);
        let sends = vec![Transfer { peer: 1, bytes }];
        let operation = Operation { group: 1, number, sends, receives: vec![], plan };
        let id = self.ends[0].exchange.post(self.now, operation).expect("it fits");
        self.collect();
        id
    }

    pub fn expect(&mut self, number: u64, bytes: u64) -> OperationId {
        let receives = vec![Transfer { peer: 0, bytes }];
        let operation = Operation { group: 1, number, sends: vec![], receives, plan: vec![] };
        let id = self.ends[1].exchange.post(self.now, operation).expect("it fits");
        self.collect();
        id
    }

    /// By lane: chunks that endpoint 0 has begun.
    pub fn sent(&self) -> [u64; 3] {
        [0, 1, 2].map(|lane| self.ends[0].exchange.statistics(LaneId(lane)).chunks_sent)
    }

    /// What an endpoint has said since the last time, in words.
    pub fn said(&mut self, at: usize) -> Vec<String> {
        let words = |output: Output| match output {
            Output::Send { .. } | Output::Dial { .. } => None,
            Output::Close { error, .. } => Some(format!("close: {error}")),
            Output::Up { lane } => Some(format!("lane {} up", lane.0)),
            Output::Down { lane, .. } => Some(format!("lane {} down", lane.0)),
            Output::Early { bytes, .. } => Some(format!("early: {} B", bytes.len())),
            Output::Done { .. } => Some("done".into()),
            Output::Failed { .. } => Some("failed".into()),
            Output::GroupFailed(failure) => Some(failure.to_string()),
            Output::Lost { endpoint } => Some(format!("{endpoint} lost")),
            Output::Runtime(said) => Some(format!("{said:?}")),
        };
        std::mem::take(&mut self.ends[at].outputs).into_iter().filter_map(words).collect()
    }
}
