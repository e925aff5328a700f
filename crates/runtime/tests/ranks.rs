//! Collectives of ranks on several servers, as processes ask for them; and ranks that do harm.

#[allow(dead_code)] // what each test file needs
mod servers;

use proptest::prelude::*;
use serde_json::{Value, json};
use servers::{Made, Rank, Servers, all};

const MADE: Made =
    Made { servers: 3, ranks: 2, nics: 2, path: "rails", algorithm: "direct", lost_ms: 15_000 };

fn world(ranks: &mut [Rank]) {
    let members: Vec<u32> = (0..ranks.len() as u32).collect();
    for joined in all(ranks, |_| json!({ "group": { "group": 0, "ranks": members } })) {
        joined.expect("joined");
    }
}

fn byte(from: u32, to: u32, at: u64) -> u8 {
    (u64::from(from) * 59 + u64::from(to) * 31 + at * 7 + at / 251) as u8
}

/// An all-to-all of the whole job by a matrix; ranks' arenas have twice its largest sum. Returns what ranks were told.
fn all_to_all(ranks: &mut [Rank], matrix: &[Vec<u64>], path: Option<&str>) -> Vec<Value> {
    let n = ranks.len();
    let places = |sizes: Vec<u64>, mut at: u64| {
        let place = |bytes: u64| {
            at += bytes;
            (at - bytes, bytes)
        };
        sizes.into_iter().map(place).collect::<Vec<(u64, u64)>>()
    };
    let half = 1 << 22;
    let sends = |from: usize| places(matrix[from].clone(), 0);
    let receives = |to: usize| places((0..n).map(|from| matrix[from][to]).collect(), half);
    for (from, rank) in ranks.iter().enumerate() {
        for (to, (start, bytes)) in sends(from).into_iter().enumerate() {
            let sent: Vec<u8> = (0..bytes).map(|at| byte(from as u32, to as u32, at)).collect();
            rank.write(start, &sent);
        }
    }
    let call = |at: u32| {
        let at = at as usize;
        let mut call = json!({ "sends": sends(at), "receives": receives(at) });
        if let Some(path) = path {
            call["path"] = path.into();
        }
        json!({ "post": { "group": 0, "call": { "all-to-all": call } } })
    };
    let told = all(ranks, call).into_iter().map(|done| done.expect("done")).collect();
    for (to, rank) in ranks.iter().enumerate() {
        for (from, (start, bytes)) in receives(to).into_iter().enumerate() {
            let wanted: Vec<u8> = (0..bytes).map(|at| byte(from as u32, to as u32, at)).collect();
            assert!(rank.read(start, bytes) == wanted, "from {from} to {to}");
        }
    }
    told
}

/// What the NICs of each server have sent and received; `ranks` are ranks of a server.
fn carried(all_ranks: &mut [Rank], ranks: usize) -> Vec<Vec<(u64, u64)>> {
    let firsts = all_ranks.iter_mut().step_by(ranks);
    let of = |rank: &mut Rank| {
        let said = rank.say(&json!("statistics")).expect("statistics");
        let count = |nic: &Value, key: &str| nic[key].as_u64().expect("a count");
        let nics = said.as_array().expect("NICs").iter();
        nics.map(|nic| (count(nic, "bytes_sent"), count(nic, "bytes_received"))).collect()
    };
    firsts.map(of).collect()
}

/// Waits until all lanes are up, so that no chunk takes another.
fn settle(all_ranks: &mut [Rank], ranks: usize) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    for rank in all_ranks.iter_mut().step_by(ranks) {
        loop {
            let said = rank.say(&json!("statistics")).expect("statistics");
            let nics = said.as_array().expect("NICs");
            if nics.iter().all(|nic| nic["lanes"] == nic["lanes_up"]) {
                break;
            }
            assert!(std::time::Instant::now() < until, "lanes stay down: {said}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// An odd number of servers, of ranks and of NICs, and a rank that sends nothing.
#[test]
fn every_scheme_puts_every_byte_in_its_place_by_the_nics_that_are_its_own() {
    let (servers, n) = (3, 3);
    let made = Made { servers, ranks: 3, nics: 3, lost_ms: 15_000, ..MADE };
    let balancers = json!({
        "ecmp": { "kind": "ecmp" }, "round-robin": { "kind": "round-robin" },
        "plb": { "kind": "plb", "marked_share": 0.5, "rounds": 3, "rounds_busy": 12 },
        "reps": { "kind": "reps", "paths": 8 }, "min-rtt": { "kind": "min-rtt" },
    });
    let job = Servers::start_with(&made, |job| {
        let spread = json!({ "ways": 2, "window": 3 << 14, "balancers": balancers });
        job.spread = serde_json::from_value(spread).expect("it fits");
    });
    let mut ranks = job.ranks(1 << 23);
    world(&mut ranks);
    settle(&mut ranks, n);
    let mut matrix = skewed(9, 20_011);
    matrix[4] = vec![0; 9];
    let between = |from: usize, to: usize| if from / n == to / n { 0 } else { matrix[from][to] };
    let sends = |rank: usize| (0..9).map(|to| between(rank, to)).sum::<u64>();
    let receives = |rank: usize| (0..9).map(|from| between(from, rank)).sum::<u64>();
    for path in ["ecmp", "round-robin", "plb", "reps", "min-rtt", "rails", "hash", "pxn", "source"]
    {
        let before = carried(&mut ranks, n);
        let told = all_to_all(&mut ranks, &matrix, Some(path));
        let after = carried(&mut ranks, n);
        let load = |rank: usize| {
            let (now, then) = (after[rank / n][rank % n], before[rank / n][rank % n]);
            (now.0 - then.0, now.1 - then.1)
        };
        for rank in 0..9 {
            let (sent, received) = load(rank);
            if ["ecmp", "round-robin", "plb", "source"].contains(&path) {
                assert_eq!(sent, sends(rank), "{path}: rank {rank} sends by its own NIC");
            }
            if !["rails", "hash", "source"].contains(&path) {
                assert_eq!(received, receives(rank), "{path}: rank {rank} receives at its own NIC");
            }
        }
        if path == "reps" || path == "min-rtt" {
            assert!(
                load(4).0 > 0,
                "{path}: the NIC of a rank that sends nothing carries for others"
            );
        }
        for (at, said) in told.iter().enumerate() {
            let mut pairs: Vec<(usize, usize)> = said["landed_ns"]
                .as_array()
                .expect("rows")
                .iter()
                .map(|row| {
                    (
                        row[0].as_u64().expect("a rank") as usize,
                        row[1].as_u64().expect("a rank") as usize,
                    )
                })
                .collect();
            pairs.sort_unstable();
            let here = at / n * n..at / n * n + n;
            let its = |&(from, to): &(usize, usize)| here.contains(&to) && between(from, to) > 0;
            let wanted: Vec<_> = (0..81).map(|at| (at / 9, at % 9)).filter(its).collect();
            assert_eq!(pairs, wanted, "{path}: what has come");
        }
    }
    let unknown =
        json!({ "sends": vec![(0, 0); 9], "receives": vec![(0, 0); 9], "path": "flowlets" });
    let why = ranks[0].say(&json!({ "post": { "group": 0, "call": { "all-to-all": unknown } } }));
    assert!(why.unwrap_err().contains("must be one of"));
}

fn skewed(n: u64, unit: u64) -> Vec<Vec<u64>> {
    (0..n)
        .map(|from| (0..n).map(|to| (from * from + 3 * to) % 7 * unit + from % 2).collect())
        .collect()
}

#[test]
fn all_to_alls_put_every_byte_in_its_place_by_every_path() {
    let servers = Servers::start(&MADE);
    let mut ranks = servers.ranks(1 << 23);
    world(&mut ranks);
    for path in [None, Some("delegate"), Some("stripe"), Some("hash"), Some("pxn"), Some("source")]
    {
        all_to_all(&mut ranks, &skewed(6, 9_999), path);
    }
    all_to_all(&mut ranks, &skewed(6, 0), None);
    all_to_all(&mut ranks, &vec![vec![0; 6]; 6], None);
    let statistics = ranks[0].say(&json!("statistics")).expect("statistics");
    let sent = |nic: usize| statistics[nic]["bytes_sent"].as_u64().expect("a count");
    assert!(sent(0) > 0 && sent(1) > 0, "{statistics}");
    for bye in all(&mut ranks, |_| json!("bye")) {
        bye.expect("gone");
    }
    drop(ranks);
    for service in servers.services {
        assert_eq!(service.wait(), Ok(()));
    }
}

fn floats(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_ne_bytes).collect()
}

#[test]
fn reductions_gathers_and_broadcasts_give_what_the_definition_says() {
    for algorithm in ["direct", "ring"] {
        let servers = Servers::start(&Made { algorithm, ..MADE });
        let mut ranks = servers.ranks(1 << 20);
        world(&mut ranks);
        let n = ranks.len() as u32;
        // More elements than ranks and no multiple; one; none.
        for elements in [5_003u64, 1, 0] {
            let (bytes, of) = (4 * elements, |rank: u32, at: u64| (rank + 1) as f32 * at as f32);
            let own = |rank: u32| floats((0..elements).map(|at| of(rank, at)));
            let fill = |ranks: &[Rank]| {
                (0..).zip(ranks).for_each(|(rank, it)| it.write(100, &own(rank)));
            };
            let post = |call: Value| json!({ "post": { "group": 0, "call": call } });
            let sum = floats((0..elements).map(|at| (0..n).map(|rank| of(rank, at)).sum()));
            fill(&ranks);
            let call = json!({ "all-reduce": {
                "at": [100, bytes], "element": "float32", "reduction": "sum" } });
            all(&mut ranks, |_| post(call.clone()))
                .into_iter()
                .for_each(|it| drop(it.expect("done")));
            assert!(ranks.iter().all(|rank| rank.read(100, bytes) == sum));

            // Shards of uneven sizes, one of them empty.
            let mut shards = vec![4 * (elements / u64::from(n)); n as usize];
            shards[2] = 0;
            shards[5] = bytes - shards[..5].iter().sum::<u64>();
            let begin = |rank: usize| shards[..rank].iter().sum::<u64>();
            fill(&ranks);
            let call = json!({ "reduce-scatter": { "at": [100, bytes], "shards": shards,
                "element": "float32", "reduction": "sum" } });
            all(&mut ranks, |_| post(call.clone()))
                .into_iter()
                .for_each(|it| drop(it.expect("done")));
            for (at, rank) in ranks.iter().enumerate() {
                let (begin, end) = (begin(at) as usize, begin(at) as usize + shards[at] as usize);
                assert_eq!(rank.read(100 + begin as u64, shards[at]), sum[begin..end]);
            }

            fill(&ranks);
            let call = json!({ "all-gather": { "at": [100, bytes], "shards": shards } });
            all(&mut ranks, |_| post(call.clone()))
                .into_iter()
                .for_each(|it| drop(it.expect("done")));
            let part = |rank: usize| {
                own(rank as u32)[begin(rank) as usize..][..shards[rank] as usize].to_vec()
            };
            let gathered: Vec<u8> = (0..n as usize).flat_map(part).collect();
            assert!(ranks.iter().all(|rank| rank.read(100, bytes) == gathered));

            for root in [0, 3, 5] {
                fill(&ranks);
                let call = json!({ "broadcast": { "root": root, "at": [100, bytes] } });
                all(&mut ranks, |_| post(call.clone()))
                    .into_iter()
                    .for_each(|it| drop(it.expect("done")));
                assert!(ranks.iter().all(|rank| rank.read(100, bytes) == own(root)));
            }
        }
        let barrier = json!({ "post": { "group": 0, "call": "barrier" } });
        assert!(all(&mut ranks, |_| barrier.clone()).iter().all(Result::is_ok));
    }
}

#[test]
fn groups_of_some_ranks_and_many_at_once() {
    let servers = Servers::start(&MADE);
    let mut ranks = servers.ranks(1 << 20);
    // One rank a server; two of one server; a single one.
    for (group, members) in [(1, vec![0, 2, 4]), (2, vec![2, 3]), (3, vec![5])] {
        for &rank in &members {
            ranks[rank].ask(&json!({ "group": { "group": group, "ranks": members } }));
        }
        for &rank in &members {
            ranks[rank].answer().expect("joined");
        }
        for &rank in &members {
            ranks[rank].write(8, &[rank as u8 + 1; 1000]);
            // Twenty one after the other, without waiting.
            for _ in 0..20 {
                ranks[rank].ask(&json!({ "post": { "group": group, "call": { "all-reduce": {
                    "at": [8, 1000], "element": "uint8", "reduction": "max" } } } }));
            }
        }
        let most = *members.last().expect("one") as u8 + 1;
        for &rank in &members {
            (0..20).for_each(|_| drop(ranks[rank].answer().expect("done")));
            assert_eq!(ranks[rank].read(8, 1000), [most; 1000]);
            ranks[rank].ask(&json!({ "leave": { "group": group } }));
        }
        for &rank in &members {
            ranks[rank].answer().expect("left");
        }
    }
}

#[test]
fn a_server_that_calls_early_keeps_the_order_of_the_others() {
    let servers = Servers::start(&MADE);
    let mut ranks = servers.ranks(1 << 20);
    world(&mut ranks);
    ranks.iter().for_each(|rank| rank.write(0, &[1; 9000]));
    let sum = |at: u64, bytes: u64| {
        json!({ "post": { "group": 0, "call": { "all-reduce": {
            "at": [at, bytes], "element": "uint8", "reduction": "sum" } } } })
    };
    // Two rounds each. Server 0 has called the second when the first begins, the others when it is over.
    for early in &mut ranks[..2] {
        early.ask(&sum(0, 6000));
        early.ask(&sum(6000, 3000));
    }
    for late in &mut ranks[2..] {
        late.ask(&sum(0, 6000));
    }
    for late in &mut ranks[2..] {
        late.answer().expect("done");
        late.ask(&sum(6000, 3000));
    }
    for (at, rank) in ranks.iter_mut().enumerate() {
        (0..if at < 2 { 2 } else { 1 }).for_each(|_| drop(rank.answer().expect("done")));
        assert_eq!(rank.read(0, 9000), [6; 9000]);
    }
}

#[test]
fn bytes_pass_from_rank_to_rank() {
    let servers = Servers::start(&MADE);
    let mut ranks = servers.ranks(1 << 20);
    for (from, to) in [(0u32, 5u32), (5, 0), (2, 3), (0, 5)] {
        let sent: Vec<u8> = (0..70_000).map(|at| byte(from, to, at)).collect();
        ranks[from as usize].write(0, &sent);
        ranks[from as usize].ask(&json!({ "send": { "to": to, "at": [0, 70_000] } }));
        ranks[to as usize].ask(&json!({ "receive": { "from": from, "at": [100_000, 70_000] } }));
        ranks[from as usize].answer().expect("sent");
        ranks[to as usize].answer().expect("received");
        assert_eq!(ranks[to as usize].read(100_000, 70_000), sent);
    }
}

#[test]
fn a_rank_that_dies_fails_its_groups_everywhere() {
    let servers = Servers::start(&Made { lost_ms: 4000, ..MADE });
    let mut ranks = servers.ranks(1 << 20);
    world(&mut ranks);
    let call = json!({ "post": { "group": 0, "call": { "all-reduce": {
        "at": [0, 4000], "element": "int32", "reduction": "sum" } } } });
    for rank in &mut ranks[..5] {
        rank.ask(&call);
    }
    let dead = ranks.pop();
    drop(dead);
    for (at, rank) in ranks.iter_mut().enumerate() {
        let why = rank.answer().unwrap_err();
        assert!(
            why.contains(if at == 4 { "rank 5 has ended" } else { "endpoint 2" }),
            "{at}: {why}"
        );
        assert!(rank.say(&call).is_err(), "the group stays failed");
    }
    // Who does not need the dead one goes on.
    for rank in [0usize, 2] {
        ranks[rank].ask(&json!({ "group": { "group": 9, "ranks": [0, 2] } }));
    }
    assert!(ranks[0].answer().is_ok() && ranks[2].answer().is_ok());
}

#[test]
fn what_makes_no_sense_is_refused_and_harms_nobody() {
    let servers = Servers::start(&MADE);
    let mut ranks = servers.ranks(1 << 23);
    world(&mut ranks);
    let place = |bytes: u64| vec![(0u64, bytes); 6];
    let table = [
        (json!({ "post": { "group": 7, "call": "barrier" } }), "group 7 is not joined"),
        (
            json!({ "group": { "group": 1, "ranks": [0, 9] } }),
            "a group's ranks must rise, and be from 0 to 5",
        ),
        (
            json!({ "group": { "group": 1, "ranks": [2, 1] } }),
            "a group's ranks must rise, and be from 0 to 5",
        ),
        (json!({ "group": { "group": 1, "ranks": [1, 2] } }), "rank 0 is none of the group's"),
        (
            json!({ "group": { "group": 0, "ranks": [0, 1, 2, 3, 4, 5] } }),
            "group 0 was joined before",
        ),
        (
            json!({ "post": { "group": 0, "call": { "all-to-all": { "sends": [], "receives": [] } } } }),
            "`sends` has 0 entries; the group has 6 ranks",
        ),
        (
            json!({ "post": { "group": 0, "call": { "all-to-all": {
                "sends": place(1 << 30), "receives": place(0) } } } }),
            "1073741824 B at 0 are beyond the arena",
        ),
        (
            json!({ "post": { "group": 0, "call": { "all-to-all": {
                "sends": place(1), "receives": place(0), "path": "x" } } } }),
            "`path` must be one of delegate, rails, stripe, hash, pxn, source",
        ),
        (
            json!({ "post": { "group": 0, "call": { "all-reduce": {
                "at": [u64::MAX, 8], "element": "float64", "reduction": "sum" } } } }),
            "8 B at 18446744073709551615 are beyond the arena",
        ),
        (
            json!({ "post": { "group": 0, "call": { "all-reduce": {
                "at": [0, 7], "element": "float64", "reduction": "sum" } } } }),
            "`at` is 7 B: no whole elements",
        ),
        (
            json!({ "post": { "group": 0, "call": { "all-gather": { "at": [0, 7], "shards": [1, 1, 1, 1, 1, 1] } } } }),
            "`shards` are 6 B in all; `at` has 7 B",
        ),
        (
            json!({ "send": { "to": 0, "at": [0, 1] } }),
            "the other end must be another rank, from 0 to 5",
        ),
        (
            json!({ "demand": { "round": 1, "bytes": [1] } }),
            "`bytes` has 1 entries; the job has 6 ranks",
        ),
    ];
    for (ask, why) in table {
        assert_eq!(ranks[0].say(&ask).unwrap_err(), why, "{ask}");
    }
    // Nobody has lost anything by it.
    all_to_all(&mut ranks, &skewed(6, 99), None);
    // Ranks of one server that differ.
    let differ = |at: u32| match at {
        0 => json!({ "post": { "group": 0, "call": "barrier" } }),
        _ => {
            json!({ "post": { "group": 0, "call": { "broadcast": { "root": 1, "at": [0, 10] } } } })
        }
    };
    let why = all(&mut ranks, differ)[0].clone().unwrap_err();
    assert!(why.starts_with("ranks of one server have called barrier and broadcast"), "{why}");
}

#[test]
fn whoever_is_no_rank_gets_nothing() {
    let servers = Servers::start(&MADE);
    let ranks = servers.ranks(1 << 16);
    for line in [
        "nonsense\n",
        "{\"id\":1,\"ask\":\"statistics\"}\n",
        "{\"id\":1,\"ask\":{\"hello\":{\"rank\":0}}}\n",
    ] {
        let file =
            rustix::fs::memfd_create("none", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
        let mut stranger = Rank::raw(&servers.sockets[0], file);
        stranger.send(line);
        assert!(stranger.answer().is_err());
    }
    drop(ranks);
}

#[test]
fn demands_are_answered_where_there_are_no_circuits() {
    let servers = Servers::start(&MADE);
    let mut ranks = servers.ranks(1 << 16);
    let answers =
        all(&mut ranks, |_| json!({ "demand": { "round": 1, "bytes": [1, 2, 3, 4, 5, 6] } }));
    assert!(answers.iter().all(|it| it.as_ref().is_ok_and(|it| it["circuits"] == 0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Shapes that suit nobody.
    #[test]
    fn all_to_alls_of_any_shape(
        servers in 1u16..5, count in 1u16..4, nics in 1u16..4, seed in prop::collection::vec(0u64..30_000, 16),
        path in 0usize..3,
    ) {
        let path = ["rails", "stripe", "delegate"][path];
        let servers = Servers::start(&Made { servers, ranks: count, nics, path, ..MADE });
        let mut ranks = servers.ranks(1 << 23);
        world(&mut ranks);
        let n = ranks.len();
        let bytes = |from: usize, to: usize| seed[(from * 5 + to * 3) % 16] * u64::from(from != to + 1);
        let matrix: Vec<Vec<u64>> = (0..n).map(|from| (0..n).map(|to| bytes(from, to)).collect()).collect();
        all_to_all(&mut ranks, &matrix, None);
    }
}
