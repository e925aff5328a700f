//! Two controllers with two journals at one switch over TL1, which cannot refuse either: in turn one is stopped (as by
//! SIGSTOP) while an operator has the other go on, and goes on itself. What of its orders gets through is counted. The
//! same through a gateway, which can refuse: there the one that has been replaced also orders whatever it can.

use super::names;
use super::world::*;
use lightloom_control::Patch;
use lightloom_daemon::emulate::RegionAgents;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const TIMING: &str = "[decision]\nhysteresis = false\n[timing]\nlease = \"600 ms\"\npatience = \"500 ms\"\nlifetime = \"100 ms\"\nreconnect = \"20 ms\"\naudit = \"300 ms\"";
const SERVERS: u16 = 4;
const DEGREE: u16 = 3;

/// A controller and its agents.
struct Side {
    controller: Daemon,
    agents: RegionAgents,
    journal: PathBuf,
}

/// The switch, and the gateway in front of it if there is one, with its log.
struct Switch {
    ocs: Daemon,
    gateway: Option<(Daemon, PathBuf)>,
}

impl Switch {
    async fn start(folder: &Folder, fences: bool) -> Switch {
        let ocs = Daemon::ocs(SERVERS * DEGREE, &["--delay", "5 ms"]).await;
        let text = gateway(0, &ocs.address, SERVERS * DEGREE);
        let (file, log) = (folder.write("gateway.toml", &text), folder.0.join("gateway.log"));
        let gateway = if fences { Some((Daemon::gateway(&file, &log).await, log)) } else { None };
        Switch { ocs, gateway }
    }

    /// Where controllers find it.
    fn reached(&self) -> &str {
        self.gateway.as_ref().map_or(&self.ocs.address, |(gateway, _)| &gateway.address)
    }

    async fn read(&self) -> Vec<Patch> {
        read_switch(&self.ocs.address, SERVERS * DEGREE).await
    }

    /// Changes that the gateway says that it has refused.
    fn refused(&self) -> usize {
        let log =
            self.gateway.as_ref().map(|(_, log)| std::fs::read_to_string(log).expect("a log"));
        log.map_or(0, |log| log.matches("a change with an old term is refused").count())
    }

    /// Orders that were on their way when their controller was replaced: with its term, they end all patches. Says how
    /// many were answered that they are old, and how many anything else.
    async fn late_orders(&self, term: u64) -> (usize, usize) {
        let mut stream = TcpStream::connect(self.reached()).await.expect("it listens");
        let held = self.read().await;
        let ends = (2..).zip(&held).map(|(number, Patch { ingress, egress })| {
            format!("{number} disconnect {ingress} {egress} {term}\n")
        });
        let text: String = ["1 hello 2\n".into()].into_iter().chain(ends).collect();
        stream.write_all(text.as_bytes()).await.expect("it reads");
        let mut lines = BufReader::new(stream).lines();
        let (mut old, mut other) = (0, 0);
        for number in 1..held.len() + 2 {
            let line = timeout(LONG, lines.next_line()).await.expect("in time").expect("readable");
            let line = line.expect("an answer");
            let is_old = line.starts_with(&format!("{number} old "));
            match number {
                1 => assert!(line.starts_with("1 ok 2 "), "{line}"),
                _ => *if is_old { &mut old } else { &mut other } += 1,
            }
        }
        (old, other)
    }
}

impl Side {
    async fn start(folder: &Folder, switch: &Switch, name: &str) -> Side {
        let text = region(free_port(), switch.reached(), SERVERS, DEGREE, TIMING);
        let text = match switch.gateway {
            Some(_) => text.replace("\"tl1\"", "\"line\""),
            None => text,
        };
        let file = folder.write(&format!("{name}.toml"), &text);
        let controller = Daemon::controller(&file).await;
        let agents = RegionAgents::start(&controller.url(), &names(SERVERS), LONG).await;
        let journal = file.with_extension("journal");
        Side { controller, agents: agents.expect("agents"), journal }
    }

    async fn status(&self) -> Value {
        get(&self.controller.address, "/v1/status").await.1
    }

    /// Patches that it has ordered.
    async fn patches(&self) -> u64 {
        self.status().await["counters"]["patches"].as_u64().expect("a count")
    }

    async fn stopped(&self) -> bool {
        alarm(&self.status().await, "second-controller")
    }

    /// An operator says that it is the only one.
    async fn alone(&self) {
        post(&self.controller.address, "/v1/unblock", "{\"ports\": []}").await;
        status_when(&self.controller.address, "alone", |status| {
            !alarm(status, "second-controller") && status["phase"] == "idle"
        })
        .await;
    }

    async fn signal(&self, signal: &str) {
        let process = self.controller.process().to_string();
        let killed = tokio::process::Command::new("kill").args([signal, &process]).status().await;
        assert!(killed.expect("kill").success());
    }
}

/// A demand of two pairs of servers, one of three: its circuits are others than those of the next.
fn demand(which: u64) -> Vec<Vec<u64>> {
    let partner = |server: u64| server ^ (1 + which % 3);
    let bytes = |from, to| if to == partner(from) { 1 << 30 } else { 0 };
    (0..4).map(|from| (0..4).map(|to| bytes(from, to)).collect()).collect()
}

/// What got through in all rounds.
#[derive(Debug, Default)]
struct Through {
    /// Patches that the one that had been stopped meant to change once it went on: an order that it was about to
    /// give when it was stopped. The stream is closed before anything of it is sent.
    meant: u64,
    /// Patches on the switch that were not what the other had verified, of so many that were read.
    changed: usize,
    read: usize,
    /// Through a gateway: late orders that were refused as old, and that were not.
    late_refused: usize,
    late_taken: usize,
    /// Changes that the gateway has refused, those of controllers among them.
    refused: usize,
}

async fn rounds(count: u64, seed: u64, fences: bool) -> Through {
    let folder = Folder::new(&format!("rival-{seed}"));
    let switch = Switch::start(&folder, fences).await;
    let mut sides = [
        Side::start(&folder, &switch, "first").await,
        Side::start(&folder, &switch, "second").await,
    ];
    let mut dice = Dice(seed);
    let mut through = Through::default();
    sides[0].agents.run_round(demand(0), LONG).await.expect("answered");
    for round in 0..count {
        // The one that goes on, and the one that is stopped, whatever it is at.
        let at = usize::from(round % 2 == 0);
        let other = &sides[1 - at];
        for (agent, row) in other.agents.agents().iter().zip(demand(round + 2)) {
            let demand = lightloom_control::Demand::new(1_000 + round, row);
            agent.demand(demand).await.expect("taken");
        }
        sleep(Duration::from_micros(dice.below(30_000))).await;
        // Through a gateway also while it runs, and orders at that very moment.
        let runs = fences && round % 4 > 1;
        if !runs {
            other.signal("-STOP").await;
            // Its agents stop with their leases.
            sleep(Duration::from_millis(900)).await;
        }
        let found = switch.read().await;
        sides[at].alone().await;
        if runs {
            for (agent, row) in sides[1 - at].agents.agents().iter().zip(demand(round)) {
                let demand = lightloom_control::Demand::new(2_000 + round, row);
                agent.demand(demand).await.expect("taken");
            }
        }
        for _ in 0..10 {
            let side = &mut sides[at];
            side.agents.run_round(demand(round + 1), LONG).await.expect("answered");
            let circuits = side.agents.circuits();
            if !circuits.is_empty() && patches(&circuits, SERVERS, DEGREE) != found {
                break;
            }
            // What waits for circuits is answered with what there is until the switch was read.
            sleep(Duration::from_millis(200)).await;
        }
        let circuits = sides[at].agents.circuits();
        assert!(!circuits.is_empty(), "round {round}: {:#}", sides[at].status().await);
        let wanted: Vec<Patch> = patches(&circuits, SERVERS, DEGREE);
        let before = switch.read().await;
        assert_eq!(before, wanted, "round {round}");
        let other = &sides[1 - at];
        other.signal("-CONT").await;
        let mut ordered = None;
        for _ in 0..20 {
            if fences {
                let term = read_journal(&other.journal).terms[&0];
                let (old, taken) = switch.late_orders(term).await;
                through.late_refused += old;
                through.late_taken += taken;
            }
            let held = switch.read().await;
            through.read += held.len();
            through.changed += wanted.iter().filter(|patch| !held.contains(patch)).count();
            through.changed += held.iter().filter(|patch| !wanted.contains(patch)).count();
            let patches = other.patches().await;
            let first = *ordered.get_or_insert(patches);
            through.meant += patches - first;
            ordered = Some(patches);
            sleep(Duration::from_millis(50)).await;
        }
        // One goes on, and one has stopped: more than an audit has passed.
        if !other.stopped().await {
            println!(
                "DEBUG {round} found {found:?} wanted {wanted:?} changed {} now {:?} at stopped {}",
                through.changed,
                switch.read().await,
                sides[at].stopped().await
            );
            println!(
                "{:#}",
                get(&other.controller.address, "/v1/events?since=0").await.1["events"]
                    .as_array()
                    .map(|e| e[e.len() - 14..]
                        .iter()
                        .map(|x| x.to_string() + "\n")
                        .collect::<String>())
                    .unwrap()
            );
            println!(
                "AT {:#}",
                get(&sides[at].controller.address, "/v1/events?since=0").await.1["events"]
                    .as_array()
                    .map(|e| e[e.len() - 14..]
                        .iter()
                        .map(|x| x.to_string() + "\n")
                        .collect::<String>())
                    .unwrap()
            );
        }
        assert!(other.stopped().await, "round {round}: {:#}", other.status().await);
        assert!(!sides[at].stopped().await, "round {round}: {:#}", sides[at].status().await);
        assert!(other.agents.circuits().is_empty(), "round {round}");
    }
    through.refused = switch.refused();
    println!("{count} rounds, what got through: {through:?}");
    through
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_controllers_one_stops() {
    let through = rounds(3, 1, false).await;
    assert!(through.changed == 0 && through.read > 0, "{through:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a minute: the long tests run it"]
async fn of_two_controllers_one_stops_twenty_times() {
    let through = rounds(20, 2, false).await;
    assert!(through.changed == 0 && through.read > 0, "{through:?}");
}

/// Of the one that has been replaced nothing gets through.
async fn fenced(count: u64, seed: u64) {
    let through = rounds(count, seed, true).await;
    assert!(through.changed == 0 && through.read > 0, "{through:?}");
    assert!(through.late_taken == 0 && through.late_refused > 0, "{through:?}");
    assert!(through.refused >= through.late_refused, "{through:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_gateway_nothing_of_the_old_one_gets_through() {
    fenced(4, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a minute: the long tests run it"]
async fn through_a_gateway_nothing_of_the_old_one_gets_through_twenty_times() {
    fenced(20, 4).await;
}
