//! Whoever dials and is no peer harms nobody.

use crate::cluster::{Cluster, PATIENCE, Size, calm, nics};
use lightloom_runtime::exchange::{LaneId, LaneSpec, Medium, Settings};
use lightloom_runtime::net::{Config, Event, Listening, Node};
use proptest::prelude::*;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SIZE: Size = |_, _, _| 40_000;

/// Dials from an address.
fn dial(from: [u8; 4], to: SocketAddr) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    let from = SocketAddr::from((Ipv4Addr::from(from), 0));
    socket.bind(&from.into()).ok()?;
    socket.connect_timeout(&to.into(), Duration::from_millis(200)).ok()?;
    Some(socket.into())
}

/// Ends strangers, whatever happens to whoever tests.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn strangers_without_end_keep_no_peer_out() {
    let cluster = Cluster::new(3, 1, calm);
    let at: Vec<SocketAddr> = cluster.addresses.concat();
    let ends = AtomicBool::new(false);
    let mut number = 0;
    thread::scope(|scope| {
        let _ends = Ends(&ends);
        // One from an address of the peers, some from others; they say nothing, or nonsense.
        for stranger in 0..6u8 {
            let (at, ends) = (&at, &ends);
            scope.spawn(move || {
                let mut held = std::collections::VecDeque::new();
                for turn in 0usize.. {
                    if ends.load(Ordering::SeqCst) {
                        return;
                    }
                    let from = if stranger == 0 {
                        [127, 0, 0, 1]
                    } else {
                        [127, 9, turn as u8 % 50, stranger]
                    };
                    if let Some(mut it) = dial(from, at[turn % at.len()]) {
                        if stranger % 2 == 1 {
                            let _ = it.write_all(&[stranger; 200]);
                        }
                        held.push_back(it);
                    }
                    if held.len() > 300 {
                        held.pop_front();
                    }
                    if stranger == 0 {
                        thread::sleep(Duration::from_millis(1)); // not faster than a peer
                    }
                }
            });
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            cluster.post_all(1, number, SIZE);
            cluster.expect_done(3, SIZE);
            number += 1;
        }
    });
    assert!(number >= 2, "only {number} operations"); // strangers take the processor, too
}

#[test]
fn peers_dial_while_strangers_hold_every_place() {
    // Strangers come first: they hold places of endpoint 1 when its peer dials.
    let cluster = Cluster::with_crowd(2, 2, calm, |at| {
        let from = |it: u16| [127, 9, (it >> 8) as u8, it as u8];
        (0..1500).filter_map(|it| dial(from(it), at[1][usize::from(it) % 2])).collect::<Vec<_>>()
    });
    cluster.0.post_all(1, 0, SIZE);
    cluster.0.expect_done(2, SIZE);
    drop(cluster.1);
}

#[test]
fn silent_strangers_are_closed() {
    let cluster = Cluster::new(2, 1, crate::cluster::quick);
    let mut stranger = dial([127, 9, 9, 9], cluster.addresses[1][0]).expect("it listens");
    stranger.set_read_timeout(Some(PATIENCE)).expect("a time");
    let began = Instant::now();
    assert!(matches!(stranger.read(&mut [0; 8]), Ok(0) | Err(_)));
    assert!(began.elapsed() < PATIENCE / 2);
    cluster.post_all(1, 0, SIZE);
    cluster.expect_done(2, SIZE);
}

#[test]
fn who_ends_with_his_last_bytes_is_seen_to_end() {
    let (cluster, mut stranger) = Cluster::with_crowd(2, 1, calm, |at| {
        let mut stranger = dial([127, 9, 9, 8], at[1][0]).expect("it listens");
        stranger.write_all(b"lightlm").expect("it fits");
        stranger.shutdown(std::net::Shutdown::Write).expect("it is open");
        stranger
    });
    let began = Instant::now();
    stranger.set_read_timeout(Some(PATIENCE)).expect("a time");
    assert!(matches!(stranger.read(&mut [0; 8]), Ok(0) | Err(_)));
    // Not only once the settings' `handshake`, 2 s, is over.
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    drop(cluster);
}

#[test]
fn bytes_at_random_harm_nobody() {
    let cluster = Cluster::new(2, 1, calm);
    cluster.await_lanes();
    let next = std::cell::Cell::new(0);
    let hello = |bytes: &mut Vec<u8>| {
        // As a hello begins: magic, version, endpoint 0 to 1.
        let begins = *b"lightlm\0\x01\0\0\0\0\0\x01\0";
        bytes.splice(0..begins.len().min(bytes.len()), begins);
    };
    let strategy = (proptest::collection::vec(any::<u8>(), 0..400), any::<bool>(), 0..2usize);
    proptest!(ProptestConfig::with_cases(64), |((mut bytes, greets, whom) in strategy)| {
        if greets {
            hello(&mut bytes);
        }
        let number = next.replace(next.get() + 1);
        let mut stranger = dial([127, 9, 8, number as u8], cluster.addresses[whom][0]).expect("room");
        let _ = stranger.write_all(&bytes);
        cluster.post_all(1, number, SIZE);
        cluster.expect_done(2, SIZE);
    });
}

#[test]
fn who_has_another_secret_is_told_of() {
    let listening: Vec<_> = (0..2).map(|_| Listening::bind(nics(1)).expect("loopback")).collect();
    let at: Vec<_> = listening.iter().map(|it| it.addresses()[0]).collect();
    let (tell, told) = std::sync::mpsc::channel();
    let open = |(me, listening): (u16, Listening)| {
        let settings = calm(Settings::new(1, me, 1, &[me as u8]));
        let lane = LaneSpec { peer: 1 - me, nic: 0, peer_nic: 0, medium: Medium::Packet, way: 0 };
        let config = Config::new(settings, vec![(lane, at[usize::from(1 - me)])]);
        let tell = tell.clone();
        Node::open(config, listening, move |it| drop(tell.send((me, it)))).expect("it fits")
    };
    let nodes: Vec<_> = (0..).zip(listening).map(open).collect();
    let (me, event) = told.recv_timeout(PATIENCE).expect("it is told");
    let Event::Unreachable(lane, why) = event else { panic!("{event:?}") };
    let said = "endpoint 1 does not prove that it knows the job's secret";
    assert_eq!((me, lane, why.to_string()), (0, LaneId(0), said.to_string()));
    // It is tried again, and not told again.
    let more = told.recv_timeout(Duration::from_millis(300));
    assert!(more.is_err(), "{more:?}");
    drop(nodes);
}
