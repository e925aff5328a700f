use super::*;

fn job() -> Job {
    let nic = |at: u16| NicPlace { address: ([127, 0, 0, 1], at).into(), device: None };
    let server = |name: &str, at: u16| Server {
        name: name.into(),
        life: 1,
        nics: (0..3).map(|nic_at| nic(at + nic_at)).collect(),
    };
    Job {
        job: 1,
        secret: "s".into(),
        servers: vec![server("a", 100), server("b", 200), server("c", 300)],
        ranks_per_server: 2,
        packet_nics: 1,
        optical_nics: 2,
        path: "delegate".into(),
        algorithm: "direct".into(),
        rings: Vec::new(),
        round: 0,
        chunk: 1000,
        unsent: None,
        nic_window: None,
        nic_rate: None,
        lost_ms: 100,
        relays: true,
        parts: None,
        spread: None,
    }
}

/// The same with NICs of ranks' own and no optical ones, for comparing schemes.
fn spread(window: u32) -> Job {
    let balancers = BTreeMap::from([(
        "ecmp".into(),
        serde_json::from_str(r#"{"kind": "ecmp"}"#).expect("ECMP"),
    )]);
    let spread = Some(Spread { ways: 3, window, balancers });
    Job { packet_nics: 3, optical_nics: 0, ranks_per_server: 3, spread, ..job() }
}

#[test]
fn schemes_are_compared_where_each_rank_has_a_nic() {
    let why = |change: &dyn Fn(&mut Job)| {
        let mut job = spread(3000);
        change(&mut job);
        job.check().map_or_else(|why| why, |()| "ok".into())
    };
    assert_eq!(why(&|_| ()), "ok");
    let two = "`spread`: 3 packet NICs and 2 ranks a server; as many are allowed";
    assert_eq!(why(&|job| job.ranks_per_server = 2), two);
    let both = "`nic_window`, `spread`: each bounds what is in flight; one of them is allowed";
    assert_eq!(why(&|job| job.nic_window = Some(3000)), both);
    let both = "`nic_rate`, `spread`: each paces lanes; one of them is allowed";
    assert_eq!(why(&|job| job.nic_rate = Some(3000)), both);
    let none = "`nic_rate` is 0; 1 to 1125899906842624 is allowed";
    assert_eq!(why(&|job| job.nic_rate = Some(0)), none);
    let window = "`spread.window` is 2999; 3000 to 4294967295 is allowed";
    assert_eq!(why(&|job| job.spread = spread(2999).spread), window);
    assert!(matches!(spread(3000).path_of("ecmp"), Ok(Path::Balanced(_))));
    assert!(job().path_of("ecmp").is_err() && spread(3000).path_of("plb").is_err());
}

#[test]
fn all_nics_are_joined_by_all_ways_where_schemes_are_compared() {
    let lanes = spread(3000).lanes(1);
    assert_eq!(lanes.len(), 2 * 3 * 3 * 3);
    let ends = by_ends(&lanes);
    assert_eq!((ends.len(), ends.values().all(|lanes| lanes.len() == 3)), (18, true));
    for lanes_of in ends.values() {
        let ways: Vec<u16> = lanes_of.iter().map(|lane| lanes[lane.0 as usize].0.way).collect();
        assert_eq!(ways, [0, 1, 2]);
    }
    let settings = spread(3000).settings(0).expect("they fit");
    assert!(crate::exchange::Exchange::new(settings, lanes_of(&spread(3000)), Time::ZERO).is_ok());
}

fn lanes_of(job: &Job) -> Vec<LaneSpec> {
    job.lanes(0).into_iter().map(|it| it.0).collect()
}

#[test]
fn what_does_not_fit_is_named() {
    let why = |change: &dyn Fn(&mut Job)| {
        let mut job = job();
        change(&mut job);
        job.check().unwrap_err()
    };
    assert_eq!(why(&|job| job.servers.clear()), "`servers` is 0; 1 to 4096 is allowed");
    assert_eq!(why(&|job| job.packet_nics = 0), "`packet_nics` is 0; 1 to 1024 is allowed");
    assert_eq!(
        why(&|job| job.optical_nics = 5),
        "`servers`: a has 3 NICs; `packet_nics` and `optical_nics` make 6"
    );
    assert_eq!(
        why(&|job| job.path = "x".into()),
        "`path` is \"x\"; it must be one of delegate, rails, stripe, hash, pxn, source"
    );
    assert_eq!(why(&|job| job.servers[2].name = "b".into()), "`servers`: b is there twice");
}

#[test]
fn lanes_lead_from_both_ends_to_the_same_nics() {
    let job = job();
    let ends = |server: Endpoint| -> Vec<_> {
        job.lanes(server).iter().map(|(it, _)| (server, it.nic, it.peer, it.peer_nic)).collect()
    };
    assert_eq!(ends(0).len(), 2 * (1 + 4));
    for (here, nic, peer, peer_nic) in (0..3).flat_map(ends) {
        assert!(ends(peer).contains(&(peer, peer_nic, here, nic)));
    }
}

#[test]
fn parts_are_no_shorter_than_chunks_and_no_more_than_is_said() {
    let mut job = job();
    let parts = |job: &Job, bytes| match job.algorithm(3, bytes) {
        Algorithm::Direct { parts } | Algorithm::Ring { parts, .. } => parts,
    };
    let table = [(0, 1), (3000, 1), (5999, 1), (6000, 2), (11_999, 3), (12_000, 4), (1 << 40, 4)];
    assert_eq!(table.map(|it| parts(&job, it.0)), table.map(|it| it.1));
    job.algorithm = "ring".into();
    assert_eq!([11_999, 12_000, 1 << 40].map(|bytes| parts(&job, bytes)), [1, 2, 2]);
    job.parts = Some(7);
    assert_eq!(parts(&job, 1 << 40), 7);
    job.parts = Some(0);
    assert_eq!(job.check().unwrap_err(), "`parts` is 0; 1 to 64 is allowed");
}

#[test]
fn rings_are_those_of_all_servers_alone_and_go_both_ways() {
    let orders = |job: &Job, servers| match job.algorithm(servers, 0) {
        Algorithm::Ring { orders, .. } => orders,
        Algorithm::Direct { .. } => panic!("a ring was asked for"),
    };
    let mut job = Job { algorithm: "ring".into(), ..job() };
    assert_eq!(orders(&job, 3), [[0, 1, 2], [2, 1, 0]]);
    job.rings = vec![vec![0, 2, 1], vec![1, 0, 2]];
    assert_eq!(job.check(), Ok(()));
    assert_eq!(orders(&job, 3), [[0, 2, 1], [1, 2, 0], [1, 0, 2], [2, 0, 1]]);
    assert_eq!(orders(&job, 2), [[0, 1], [1, 0]]);
    for ring in [vec![0, 1], vec![0, 1, 1], vec![1, 2, 3]] {
        job.rings = vec![vec![2, 0, 1], ring.clone()];
        let message = format!("`rings`: {ring:?}; each server's number once is allowed");
        assert_eq!(job.check().unwrap_err(), message);
    }
}
