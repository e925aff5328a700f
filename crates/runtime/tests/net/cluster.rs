//! Endpoints in this process, each joined to each other by a lane for each NIC.

use lightloom_runtime::exchange::{
    Endpoint, LaneId, LaneSpec, Medium, Settings, Transfer, striped,
};
use lightloom_runtime::net::{
    Config, Event, Listening, Memory, NicConfig, Node, PostFailure, Tcp, Transport,
};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Tests wait for so long, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
pub const CHUNK: u32 = 16 << 10;

/// How an operation of an endpoint has ended.
pub type Ended = (Endpoint, u64, Result<Memory, PostFailure>);

/// Endpoints, what happens at them, and operations that have ended.
pub struct Cluster {
    pub nodes: Vec<Option<Node>>,
    pub addresses: Vec<Vec<SocketAddr>>,
    pub nics: u16,
    pub settings: fn(Settings) -> Settings,
    pub events: Receiver<(Endpoint, Event)>,
    pub ended: Receiver<Ended>,
    event: Sender<(Endpoint, Event)>,
    end: Sender<Ended>,
}

/// Settings of tests: an endpoint that says nothing is lost after 1.5 s.
pub fn quick(settings: Settings) -> Settings {
    use lightloom_units::Time;
    Settings {
        chunk: CHUNK,
        window: 8 * CHUNK,
        small: 1000,
        beat: Time::from_ms(150),
        stall: Time::from_ms(800),
        lost: Time::from_ms(1500),
        handshake: Time::from_ms(500),
        retry: Time::from_ms(20),
        ..settings
    }
}

/// As long as the settings' defaults, so that nobody is lost on a busy machine.
pub fn calm(settings: Settings) -> Settings {
    Settings { chunk: CHUNK, window: 8 * CHUNK, small: 1000, ..settings }
}

/// The packet lanes of an endpoint: by peer, then by NIC.
pub fn lanes(me: Endpoint, endpoints: u16, nics: u16) -> Vec<LaneSpec> {
    let peers = (0..endpoints).filter(|&peer| peer != me);
    let lanes = peers.flat_map(|peer| (0..nics).map(move |nic| (peer, nic)));
    lanes
        .map(|(peer, nic)| LaneSpec { peer, nic, peer_nic: nic, medium: Medium::Packet, way: 0 })
        .collect()
}

/// NICs at 127.0.0.1, 127.0.0.2 and so on.
pub fn nics(nics: u16) -> Vec<NicConfig> {
    (0..nics).map(|nic| NicConfig::at(([127, 0, 0, nic as u8 + 1], 0).into())).collect()
}

impl Cluster {
    /// Endpoints that have joined group 1.
    pub fn new(endpoints: u16, nics: u16, settings: fn(Settings) -> Settings) -> Self {
        Cluster::over(endpoints, nics, settings, |_| Tcp::default(), |_, _, at| at)
    }

    /// The same, with a transport for each, which dials `through(me, peer, address)`.
    pub fn over<T: Transport>(
        endpoints: u16,
        nics: u16,
        settings: fn(Settings) -> Settings,
        transport: impl Fn(Endpoint) -> T,
        through: impl Fn(Endpoint, Endpoint, SocketAddr) -> SocketAddr,
    ) -> Self {
        Cluster::build(endpoints, nics, settings, transport, through, |_| ()).0
    }

    /// The same on TCP, once a crowd has gathered at its addresses.
    pub fn with_crowd<C>(
        endpoints: u16,
        nics: u16,
        settings: fn(Settings) -> Settings,
        crowd: impl FnOnce(&[Vec<SocketAddr>]) -> C,
    ) -> (Self, C) {
        Cluster::build(endpoints, nics, settings, |_| Tcp::default(), |_, _, at| at, crowd)
    }

    fn build<T: Transport, C>(
        endpoints: u16,
        nics: u16,
        settings: fn(Settings) -> Settings,
        transport: impl Fn(Endpoint) -> T,
        through: impl Fn(Endpoint, Endpoint, SocketAddr) -> SocketAddr,
        crowd: impl FnOnce(&[Vec<SocketAddr>]) -> C,
    ) -> (Self, C) {
        let ((event, events), (end, ended)) = (channel(), channel());
        let listen = |me| Listening::bind_over(transport(me), self::nics(nics)).expect("loopback");
        let listening: Vec<_> = (0..endpoints).map(listen).collect();
        let addresses: Vec<_> = listening.iter().map(|it| it.addresses().to_vec()).collect();
        let crowd = crowd(&addresses);
        let nodes = Vec::new();
        let mut cluster = Cluster { nodes, addresses, nics, settings, events, ended, event, end };
        for (me, listening) in (0..).zip(listening) {
            let node = cluster.open(me, 1, listening, &through);
            cluster.nodes.push(Some(node));
        }
        cluster.join(1, &vec![1; endpoints.into()]);
        (cluster, crowd)
    }

    pub fn open<T: Transport>(
        &self,
        me: Endpoint,
        life: u64,
        listening: Listening<T>,
        through: impl Fn(Endpoint, Endpoint, SocketAddr) -> SocketAddr,
    ) -> Node {
        let settings = (self.settings)(Settings::new(7, me, life, b"secret"));
        let lanes = lanes(me, self.addresses.len() as u16, self.nics);
        let at = |it: &LaneSpec| self.addresses[usize::from(it.peer)][usize::from(it.peer_nic)];
        let lanes = lanes.into_iter().map(|it| (it, through(me, it.peer, at(&it)))).collect();
        let event = self.event.clone();
        let tell = move |it| drop(event.send((me, it)));
        Node::open(Config::new(settings, lanes), listening, tell).expect("it fits")
    }

    pub fn endpoints(&self) -> u16 {
        self.addresses.len() as u16
    }

    pub fn node(&self, me: Endpoint) -> &Node {
        self.nodes[usize::from(me)].as_ref().expect("it runs")
    }

    /// All that run join a group of all, each in a life.
    pub fn join(&self, group: u32, lives: &[u64]) {
        let members: Vec<_> = (0..).zip(lives.iter().copied()).collect();
        for node in self.nodes.iter().flatten() {
            node.join(group, members.clone()).expect("a new group");
        }
    }

    /// Posts an endpoint's part of an all-to-all.
    pub fn post(&self, me: Endpoint, group: u32, number: u64, size: Size) {
        let peers: Vec<_> = (0..self.endpoints()).filter(|&it| it != me).collect();
        self.post_among(me, group, number, size, &peers);
    }

    /// The same, with this memory.
    pub fn post_memory(&self, me: Endpoint, group: u32, number: u64, size: Size, memory: Memory) {
        let peers: Vec<_> = (0..self.endpoints()).filter(|&it| it != me).collect();
        self.post_to(me, group, number, size, &peers, memory);
    }

    /// Posts an endpoint's part of an all-to-all with some peers.
    pub fn post_among(
        &self,
        me: Endpoint,
        group: u32,
        number: u64,
        size: Size,
        peers: &[Endpoint],
    ) {
        let sends = peers.iter().map(|&it| (it, bytes(me, it, number, size))).collect();
        let receives = peers.iter().map(|&it| (it, size(it, me, number))).collect();
        self.post_to(me, group, number, size, peers, Memory::owned(sends, receives));
    }

    fn post_to(
        &self,
        me: Endpoint,
        group: u32,
        number: u64,
        size: Size,
        peers: &[Endpoint],
        memory: Memory,
    ) {
        let transfer = |peer, bytes| Transfer { peer, bytes: bytes as u64 };
        let sends: Vec<_> = peers.iter().map(|&it| transfer(it, size(me, it, number))).collect();
        let receives = peers.iter().map(|&it| transfer(it, size(it, me, number))).collect();
        let nics = u32::from(self.nics);
        let plan = sends.clone();
        let plan = move |_: &_| {
            let lanes = |peer: Endpoint| {
                let at = u32::from(if peer > me { peer - 1 } else { peer });
                (0..nics).map(move |nic| LaneId(at * nics + nic)).collect::<Vec<_>>()
            };
            let chunks =
                plan.iter().flat_map(|it| striped(it.peer, it.bytes, &lanes(it.peer), CHUNK));
            chunks.collect::<Vec<_>>()
        };
        let end = self.end.clone();
        let done = move |result| drop(end.send((me, number, result)));
        self.node(me).post(group, number, sends, receives, plan, memory, done);
    }

    /// All post their parts.
    pub fn post_all(&self, group: u32, number: u64, size: Size) {
        (0..self.endpoints()).for_each(|me| self.post(me, group, number, size));
    }

    /// The next operation that ends.
    pub fn next_end(&self) -> Ended {
        self.ended.recv_timeout(PATIENCE).expect("an operation ends in time")
    }

    /// So many operations end well, with the right bytes.
    pub fn expect_done(&self, operations: usize, size: Size) {
        for _ in 0..operations {
            let (me, number, result) = self.next_end();
            let memory = result.unwrap_or_else(|why| panic!("{me}, operation {number}: {why}"));
            for (from, got) in memory.into_received() {
                assert!(got == bytes(from, me, number, size), "{from} to {me}, {number}");
            }
        }
    }

    /// Waits for an event.
    pub fn await_event(&self, what: &str, is: impl Fn(Endpoint, &Event) -> bool) {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let (me, event) = self.events.recv_timeout(left).unwrap_or_else(|_| panic!("{what}"));
            if is(me, &event) {
                return;
            }
        }
    }

    /// Waits until all lanes are up.
    pub fn await_lanes(&self) {
        let lanes = u32::from(self.endpoints() - 1) * u32::from(self.nics);
        let until = Instant::now() + PATIENCE;
        for node in self.nodes.iter().flatten() {
            let up = move |it: &_| (0..lanes).all(|lane| usable(it, lane));
            while node.ask(up) != Some(true) {
                assert!(Instant::now() < until, "lanes come up");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn usable(exchange: &lightloom_runtime::exchange::Exchange, lane: u32) -> bool {
    exchange.is_usable(LaneId(lane))
}

/// What an endpoint sends to another in an operation \[B\].
pub type Size = fn(Endpoint, Endpoint, u64) -> usize;

/// Those bytes.
pub fn bytes(from: Endpoint, to: Endpoint, number: u64, size: Size) -> Vec<u8> {
    let mut state = u64::from(from) << 40 | u64::from(to) << 20 | number;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..size(from, to, number)).map(|_| next()).collect()
}
