//! Lanes over circuits: they carry while the agent's lease stands, and nothing after.

use crate::cluster::{CHUNK, PATIENCE, nics, quick};
use lightloom_control::{RuntimeOutput, Use};
use lightloom_runtime::exchange::{
    Endpoint, Exchange, LaneId, LaneSpec, Medium, Settings, Transfer, striped,
};
use lightloom_runtime::net::{Config, Event, Listening, Memory, Node};
use lightloom_units::Time;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Two endpoints with a packet lane, 0, and a circuit, 1, at optical port 0 of each.
struct Pair {
    nodes: Vec<Node>,
    events: Receiver<(Endpoint, Event)>,
}

impl Pair {
    fn open() -> Self {
        let (event, events) = channel();
        let listening: Vec<_> =
            (0..2).map(|_| Listening::bind(nics(2)).expect("loopback")).collect();
        let at: Vec<_> = listening.iter().map(|it| it.addresses().to_vec()).collect();
        let open = |(me, listening): (Endpoint, Listening)| {
            let peer = 1 - me;
            let settings = Settings { ports: 1, ..quick(Settings::new(7, me, 1, b"secret")) };
            let lane = |nic, medium| {
                let spec = LaneSpec { peer, nic, peer_nic: nic, medium, way: 0 };
                (spec, at[usize::from(peer)][usize::from(nic)])
            };
            let circuit = Medium::Circuit { port: 0, peer: (peer, 0) };
            let lanes = vec![lane(0, Medium::Packet), lane(1, circuit)];
            let event = event.clone();
            let tell = move |it| drop(event.send((me, it)));
            let node = Node::open(Config::new(settings, lanes), listening, tell).expect("it fits");
            node.join(1, vec![(0, 1), (1, 1)]).expect("a new group");
            node
        };
        let nodes = (0..).zip(listening).map(open).collect();
        Pair { nodes, events }
    }

    /// Both agents give the circuit for so long.
    fn light(&self, number: u64, lease: Time) {
        for (me, node) in (0u16..).zip(&self.nodes) {
            let until = node.clock().now().saturating_add(lease);
            let circuits = vec![Some((1 - me, 0))];
            node.told(Use { number, circuits, until, ..Use::default() });
        }
    }

    fn await_up(&self) {
        let up = |it: &Exchange| it.is_usable(LaneId(1));
        let until = Instant::now() + PATIENCE;
        while !self.nodes.iter().all(|node| node.ask(up) == Some(true)) {
            assert!(Instant::now() < until, "the circuit comes up");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Endpoint 0 sends to 1, by plan over the circuit; waits until both are done.
    fn send(&self, number: u64, bytes: u64) {
        let (done, dones) = channel();
        for (me, node) in (0u16..).zip(&self.nodes) {
            let transfer = vec![Transfer { peer: 1 - me, bytes }];
            let (sends, receives) = if me == 0 { (transfer, vec![]) } else { (vec![], transfer) };
            let planned = if me == 0 { bytes } else { 0 };
            let plan = move |_: &Exchange| striped(1, planned, &[LaneId(1)], CHUNK);
            let data = vec![number as u8 + 1; bytes as usize];
            let memory = match me {
                0 => Memory::owned(vec![(1, data)], vec![]),
                _ => Memory::owned(vec![], vec![(0, bytes as usize)]),
            };
            let done = done.clone();
            let tell = move |result| drop(done.send(result));
            node.post(1, number, sends, receives, plan, memory, tell);
        }
        for _ in 0..2 {
            let memory = dones.recv_timeout(PATIENCE).expect("it ends").expect("it is done");
            for (_, got) in memory.into_received() {
                assert!(got.iter().all(|&byte| byte == number as u8 + 1));
            }
        }
    }

    /// Bytes that the circuit has carried away from endpoint 0.
    fn carried(&self) -> u64 {
        self.nodes[0].ask(|it| it.statistics(LaneId(1)).bytes_sent).expect("it runs")
    }
}

#[test]
fn nothing_goes_over_a_circuit_after_its_lease() {
    let pair = Pair::open();
    pair.send(0, 300_000);
    assert_eq!(pair.carried(), 0, "there is no circuit yet");
    pair.light(1, Time::from_ms(60_000));
    pair.await_up();
    pair.send(1, 300_000);
    assert_eq!(pair.carried(), 300_000);
    // The lease ends while much is to be sent: what is on its way goes over packets.
    pair.light(2, Time::from_ms(20));
    let ends = Instant::now() + Duration::from_millis(20);
    pair.send(2, 200_000_000);
    let carried = pair.carried();
    assert!(Instant::now() > ends && carried < 200_300_000, "{carried}");
    pair.send(3, 300_000);
    assert_eq!(pair.carried(), carried, "the lease has ended");
    let usable = pair.nodes[0].ask(|it| it.is_usable(LaneId(1)));
    assert_eq!(usable, Some(false));
}

#[test]
fn a_port_is_drained_and_given_again() {
    let pair = Pair::open();
    pair.light(1, Time::from_ms(60_000));
    pair.await_up();
    pair.send(0, 2_000_000);
    for (token, node) in (5u64..).zip(&pair.nodes) {
        node.drain(token, vec![0]);
    }
    let mut drained = Vec::new();
    while drained.len() < 2 {
        let (me, event) = pair.events.recv_timeout(PATIENCE).expect("they are drained");
        if let Event::Runtime(RuntimeOutput::Drained { token }) = event {
            drained.push((me, token));
        }
    }
    drained.sort_unstable();
    assert_eq!(drained, [(0, 5), (1, 6)]);
    let before = pair.carried();
    pair.send(1, 300_000);
    assert_eq!(pair.carried(), before);
    pair.light(2, Time::from_ms(60_000));
    pair.await_up();
    pair.send(2, 300_000);
    assert_eq!(pair.carried(), before + 300_000);
    pair.nodes.iter().for_each(Node::forsaken);
    pair.send(3, 300_000);
    assert_eq!(pair.carried(), before + 300_000);
}
