//! Endpoints end, in order or not, and start again.

use crate::cluster::{Cluster, PATIENCE, Size, nics, quick};
use lightloom_runtime::exchange::{
    Cause, Endpoint, Failure, LaneError, LaneSpec, Medium, Settings,
};
use lightloom_runtime::net::{
    Config, Event, JoinFailure, Listening, Memory, NicConfig, Node, OpenError, PostFailure,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: Size = |_, _, _| 100_000;
/// The settings' `lost`, and a busy machine.
const LOST: Duration = Duration::from_millis(1500 + 3000);

/// Operations that all fail for one reason.
fn expect_failures(cluster: &Cluster, ends: usize, failure: impl Fn(&Failure) -> bool) {
    for _ in 0..ends {
        match cluster.next_end() {
            (_, _, Err(PostFailure::Failed(why))) if failure(&why) => {}
            (me, number, result) => panic!("{me}, operation {number}: {result:?}"),
        }
    }
}

#[test]
fn a_peer_that_ends_fails_its_groups_everywhere() {
    let mut cluster = Cluster::new(4, 2, quick);
    cluster.post_all(1, 0, SIZE);
    cluster.expect_done(4, SIZE);
    cluster.nodes[2] = None;
    (0..4).filter(|&me| me != 2).for_each(|me| cluster.post(me, 1, 1, SIZE));
    let began = Instant::now();
    expect_failures(&cluster, 3, |why| why.endpoint == 2 && why.cause == Cause::Lost);
    assert!(began.elapsed() < LOST, "{:?}", began.elapsed());
    // The others go on without it.
    let members = vec![(0, 1), (1, 1), (3, 1)];
    for me in [0, 1, 3] {
        cluster.node(me).join(2, members.clone()).expect("a new group");
    }
    let without: Size = |from, to, _| if from == 2 || to == 2 { 0 } else { 50_000 };
    for me in [0, 1, 3] {
        cluster.node(me).lost(9); // whom nobody knows
    }
    for me in [0, 1, 3] {
        // A peer that is no member may not be named, so the operation is posted by hand.
        let peers: Vec<Endpoint> = [0, 1, 3].into_iter().filter(|&it| it != me).collect();
        cluster.post_among(me, 2, 0, without, &peers);
    }
    cluster.expect_done(3, without);
}

#[test]
fn a_drop_in_the_middle_ends_the_thread_and_tells_the_others() {
    let mut cluster = Cluster::new(3, 2, quick);
    let big: Size = |_, _, _| 20_000_000;
    for me in 0..3 {
        cluster.post(me, 1, 0, big);
    }
    std::thread::sleep(Duration::from_millis(20));
    let began = Instant::now();
    cluster.nodes[1] = None; // its operation fails there, too
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    expect_failures(&cluster, 3, |why| why.endpoint == 1 && why.cause == Cause::Aborted);
}

#[test]
fn what_is_acknowledged_last_is_said_before_the_end() {
    for _ in 0..20 {
        let mut cluster = Cluster::new(2, 1, quick);
        cluster.post_all(1, 0, SIZE);
        let (first, _, result) = cluster.next_end();
        result.expect("it is done");
        cluster.nodes[usize::from(first)] = None;
        cluster.expect_done(1, SIZE);
    }
}

#[test]
fn a_peer_that_starts_again_is_another() {
    let mut cluster = Cluster::new(3, 2, quick);
    cluster.post_all(1, 0, SIZE);
    cluster.expect_done(3, SIZE);
    let at = cluster.addresses[1].clone();
    cluster.post(0, 1, 1, SIZE);
    cluster.post(2, 1, 1, SIZE);
    cluster.nodes[1] = None;
    let again = at.iter().map(|&at| NicConfig::at(at)).collect();
    let listening = Listening::bind(again).expect("the ports are free again");
    cluster.nodes[1] = Some(cluster.open(1, 2, listening, |_, _, at| at));
    let began = Instant::now();
    expect_failures(&cluster, 2, |why| {
        why.endpoint == 1 && matches!(why.cause, Cause::Restarted | Cause::Lost)
    });
    assert!(began.elapsed() < LOST, "{:?}", began.elapsed());
    cluster.join(2, &[1, 2, 1]);
    cluster.post_all(2, 0, SIZE);
    cluster.expect_done(3, SIZE);
}

#[test]
fn a_peer_that_is_declared_lost_is_told() {
    let cluster = Cluster::new(2, 1, quick);
    cluster.await_lanes();
    cluster.node(0).lost(1);
    let seen = std::cell::Cell::new((false, false)); // whichever comes first
    cluster.await_event("endpoint 1 is lost, and its lane is down there", |me, it| {
        let (lost, down) = seen.get();
        let lost = lost || me == 0 && matches!(it, Event::Lost(1));
        let down = down || me == 1 && matches!(it, Event::Down(_, LaneError::Closed));
        seen.set((lost, down));
        lost && down
    });
}

#[test]
fn calls_on_the_thread_itself_do_not_wait_for_it() {
    let listening = Listening::bind(nics(1)).expect("loopback");
    let config = Config::new(Settings::new(1, 0, 1, b"secret"), vec![]);
    let node = Arc::new(Node::open(config, listening, |_| {}).expect("it fits"));
    let (tell, told) = std::sync::mpsc::channel();
    let inner = node.clone();
    let memory = Memory::owned(vec![], vec![]);
    node.post(
        9,
        0,
        vec![],
        vec![],
        |_| vec![],
        memory,
        move |_| {
            std::thread::sleep(Duration::from_millis(100));
            let asked = inner.ask(|_| ());
            let joined = inner.join(1, vec![]);
            drop(inner); // the last of them: the node ends
            tell.send((asked, joined)).expect("somebody waits");
        },
    );
    drop(node);
    assert_eq!(told.recv_timeout(PATIENCE), Ok((None, Err(JoinFailure::Ended))));
}

#[test]
fn what_does_not_fit_is_not_opened() {
    let lane = |nic| LaneSpec { peer: 1, nic, peer_nic: 0, medium: Medium::Packet, way: 0 };
    let at = "127.0.0.1:1".parse().expect("an address");
    let open = |lanes: Vec<LaneSpec>, settings| {
        let lanes = lanes.into_iter().map(|lane| (lane, at)).collect();
        let listening = Listening::bind(nics(1)).expect("loopback");
        Node::open(Config::new(settings, lanes), listening, |_| {}).map(drop)
    };
    let settings = || Settings::new(1, 0, 1, b"secret");
    let said = |it: Result<(), OpenError>| it.expect_err("it does not fit").to_string();
    assert_eq!(
        said(open(vec![lane(0), lane(3)], settings())),
        "lane 1 begins at NIC 3; the endpoint has 1 NICs, from 0"
    );
    let said_of_life = said(open(vec![lane(0)], Settings { life: 0, ..settings() }));
    assert_eq!(said_of_life, "`life` is 0; 1 or more is allowed");
    let taken = Listening::bind(nics(1)).expect("loopback");
    let again = Listening::bind(vec![NicConfig::at(taken.addresses()[0])]).map(drop);
    assert!(said(again).contains("in use"));
    let device = Some("no-such-nic".to_string());
    let there = NicConfig { device, ..NicConfig::at(([127, 0, 0, 1], 0).into()) };
    assert!(said(Listening::bind(vec![there]).map(drop)).contains("device no-such-nic: "));
}
