//! An agent that lies, over gRPC: other tenants' rounds take their time, and the server comes back when it goes.

use super::world::*;
use lightloom_daemon::emulate::RegionAgents;
use lightloom_daemon::proto::wire;
use lightloom_daemon::proto::wire::control_client::ControlClient;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::IntervalStream;

/// What the rogue claims, the nth time.
type Lie = fn(&mut wire::Report, u64);

fn asks(report: &mut wire::Report, round: u64, bytes: [u64; 6]) {
    report.demand = Some(wire::Demand { round, bytes: bytes.into(), ..Default::default() });
}

fn obeys(report: &mut wire::Report, generation: u64) {
    report.obeyed = Some(wire::Mark { generation, stage: 1 });
}

const LIES: [(&str, Lie); 9] = [
    ("plans that were never issued", |report, n| obeys(report, 1_000_000 * n)),
    ("the greatest plan", |report, _| obeys(report, u64::MAX)),
    ("the greatest life", |report, _| report.incarnation = u64::MAX),
    ("the greatest beat", |report, _| report.beat = u64::MAX),
    ("the greatest round", |report, _| asks(report, u64::MAX, [0, 5, 5, 0, 0, 0])),
    ("a round far ahead", |report, n| asks(report, (1 << 61) + n, [0, 5, 5, 0, 0, 0])),
    ("the most bytes", |report, _| asks(report, 1, [0, u64::MAX, u64::MAX, 0, 0, 0])),
    ("a NIC that fails and works", |report, n| {
        let nic = |port| wire::Part { part: Some(wire::part::Part::Nic(port)) };
        report.faults = if n % 2 == 0 { vec![nic(0), nic(1)] } else { vec![] };
    }),
    ("what is no report", |report, n| report.incarnation = n % 3),
];

/// It goes when this is dropped.
struct Rogue {
    task: JoinHandle<()>,
    speaks: Arc<AtomicBool>,
}

impl Drop for Rogue {
    fn drop(&mut self) {
        self.task.abort();
        // What is under way over a stream ends with this alone.
        self.speaks.store(false, Relaxed);
    }
}

/// Speaks for r0, a report a millisecond, over a new stream whenever one ends.
fn rogue(address: &str, lie: Lie) -> Rogue {
    let speaks = Arc::new(AtomicBool::new(true));
    let while_it = speaks.clone();
    let (place, address) = (address.to_owned(), format!("http://{address}"));
    let task = tokio::spawn(async move {
        let mut beat = 0;
        loop {
            if let Ok(mut client) = ControlClient::connect(address.clone()).await {
                let mut at = beat;
                let ticks = IntervalStream::new(tokio::time::interval(Duration::from_millis(1)));
                let speaks = while_it.clone();
                let ticks = ticks.take_while(move |_| speaks.load(Relaxed));
                let reports = ticks.map(move |_| {
                    at += 1;
                    let server = "r0".into();
                    let mut report =
                        wire::Report { server, incarnation: 77, beat: at, ..Default::default() };
                    lie(&mut report, at);
                    report
                });
                if let Ok(answers) = client.attend(shown(&place, reports)).await {
                    let mut answers = answers.into_inner();
                    while let Ok(Some(_)) = answers.message().await {}
                }
                beat += 1000;
            }
            sleep(Duration::from_millis(5)).await;
        }
    });
    Rogue { task, speaks }
}

/// Blue's rounds: pairs that change from round to round, so that each is a plan. The time that each took.
async fn rounds(blue: &mut RegionAgents, count: u64) -> Vec<Duration> {
    let mut took = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        let even = blue.round() % 2 == 0;
        let (one, other) = if even { (3, 4) } else { (4, 5) };
        let row = |from: usize| {
            let to = |to: usize| match (from, to) {
                _ if (from, to) == (one, other) || (to, from) == (one, other) => 900_000_000,
                _ => 1000 * u64::from(to >= 3 && from != to),
            };
            (0..6).map(to).collect::<Vec<u64>>()
        };
        blue.run_round((3..6).map(row).collect::<Vec<_>>(), LONG).await.expect("answered");
        took.push(began.elapsed());
    }
    took
}

/// The mean of all but the slowest quarter, in which others used this machine [s].
fn mean(mut took: Vec<Duration>) -> f64 {
    took.sort();
    took.truncate(took.len() - took.len() / 4);
    took.iter().sum::<Duration>().as_secs_f64() / took.len() as f64
}

/// What part of their time blue's rounds take while a rogue lies: a few without it and a few with it, in turns.
async fn ratio(blue: &mut RegionAgents, address: &str, lie: Lie) -> f64 {
    let (mut alone, mut attacked) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        alone.extend(rounds(blue, 4).await);
        let liar = rogue(address, lie);
        attacked.extend(rounds(blue, 4).await);
        drop(liar);
    }
    mean(attacked) / mean(alone)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rogue_costs_the_others_nothing_and_its_server_comes_back() {
    let folder = Folder::new("rogue");
    let ocs = Daemon::ocs(12, &["--delay", "20 ms"]).await;
    let server = |(at, name): (usize, &str)| {
        let tenant = if name.starts_with('r') { "red" } else { "blue" };
        let ports = [2 * at + 1, 2 * at + 2];
        format!("[[server]]\nname = \"{name}\"\ntenant = \"{tenant}\"\nports = {ports:?}\n")
    };
    let names = ["r0", "r1", "r2", "b0", "b1", "b2"];
    let servers: String = names.into_iter().enumerate().map(server).collect();
    let text = format!(
        "name = \"r\"\n[listen]\naddress = \"127.0.0.1:0\"\n[switch]\nprotocol = \"tl1\"\n\
         address = \"{}\"\nports = 12\n{servers}[decision]\nhysteresis = false\npacket_bandwidth = \"100 Gbps\"\n\
         [timing]\nlease = \"1 s\"\nstart_even = false\n",
        ocs.address
    );
    let controller = Daemon::controller(&folder.write("region.toml", &text)).await;
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
    let url = controller.url();
    let mut red = RegionAgents::start(&url, &of(&["r0", "r1", "r2"]), LONG).await.expect("red");
    let mut blue = RegionAgents::start(&url, &of(&["b0", "b1", "b2"]), LONG).await.expect("blue");
    let rows = || (0..3).map(|at| (0..6).map(|to| u64::from(to < 3 && to != at) * 9000).collect());
    red.run_round(rows().collect::<Vec<Vec<u64>>>(), LONG).await.expect("answered");
    rounds(&mut blue, 10).await;
    drop(red);
    // Each again, if others used this machine while the rogue was there.
    let mut dear = Vec::new();
    for (name, lie) in LIES {
        let mut ratios = Vec::new();
        while ratios.len() < 3 && ratios.iter().all(|&ratio| ratio >= 1.2) {
            ratios.push(ratio(&mut blue, &controller.address, lie).await);
        }
        println!("{name}: blue's rounds take {ratios:.3?} of their time");
        if ratios.iter().all(|&ratio| ratio >= 1.2) {
            dear.push((name, ratios));
        }
    }
    assert!(dear.is_empty(), "{dear:.3?}");
    let (_, status) = get(&controller.address, "/v1/status").await;
    assert!(status["counters"]["refused_reports"].as_u64() > Some(500), "{status:#}");
    // The rogue is gone.
    let mut red = RegionAgents::start(&url, &of(&["r0", "r1", "r2"]), LONG).await.expect("back");
    red.run_round(rows().collect::<Vec<Vec<u64>>>(), LONG).await.expect("answered");
    status_when(&controller.address, "in order", |status| {
        !alarm(status, "report-refused") && !alarm(status, "server-silent")
    })
    .await;
}
