//! Two controllers with two journals at one switch over TL1, which cannot refuse either: in turn one is stopped (as by
//! SIGSTOP) while an operator has the other go on, and goes on itself. What of its orders gets through is counted.

use super::names;
use super::world::*;
use lightloom_control::Patch;
use lightloom_daemon::emulate::RegionAgents;
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;

const TIMING: &str = "[decision]\nhysteresis = false\n[timing]\nlease = \"600 ms\"\npatience = \"500 ms\"\nlifetime = \"100 ms\"\nreconnect = \"20 ms\"\naudit = \"300 ms\"";
const SERVERS: u16 = 4;
const DEGREE: u16 = 3;

/// A controller and its agents.
struct Side {
    controller: Daemon,
    agents: RegionAgents,
}

impl Side {
    async fn start(folder: &Folder, switch: &str, name: &str) -> Side {
        let text = region(free_port(), switch, SERVERS, DEGREE, TIMING);
        let file = folder.write(&format!("{name}.toml"), &text);
        let controller = Daemon::controller(&file).await;
        let agents = RegionAgents::start(&controller.url(), &names(SERVERS), LONG).await;
        Side { controller, agents: agents.expect("agents") }
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
}

async fn rounds(count: u64, seed: u64) -> Through {
    let folder = Folder::new(&format!("rival-{seed}"));
    let ocs = Daemon::ocs(SERVERS * DEGREE, &["--delay", "5 ms"]).await;
    let mut sides = [
        Side::start(&folder, &ocs.address, "first").await,
        Side::start(&folder, &ocs.address, "second").await,
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
        other.signal("-STOP").await;
        // Its agents stop with their leases.
        sleep(Duration::from_millis(900)).await;
        sides[at].alone().await;
        for _ in 0..5 {
            let side = &mut sides[at];
            side.agents.run_round(demand(round + 1), LONG).await.expect("answered");
            if !side.agents.circuits().is_empty() {
                break;
            }
            // What waits for circuits is answered without them until the switch was read.
            sleep(Duration::from_millis(200)).await;
        }
        let circuits = sides[at].agents.circuits();
        assert!(!circuits.is_empty(), "round {round}: {:#}", sides[at].status().await);
        let wanted: Vec<Patch> = patches(&circuits, SERVERS, DEGREE);
        let before = read_switch(&ocs.address, SERVERS * DEGREE).await;
        assert_eq!(before, wanted, "round {round}");
        let other = &sides[1 - at];
        other.signal("-CONT").await;
        let mut ordered = None;
        for _ in 0..20 {
            let held = read_switch(&ocs.address, SERVERS * DEGREE).await;
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
        assert!(other.stopped().await, "round {round}: {:#}", other.status().await);
        assert!(!sides[at].stopped().await, "round {round}: {:#}", sides[at].status().await);
        assert!(other.agents.circuits().is_empty(), "round {round}");
    }
    println!("{count} rounds, what got through: {through:?}");
    through
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_controllers_one_stops() {
    let through = rounds(3, 1).await;
    assert!(through.changed == 0 && through.read > 0, "{through:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a minute: the long tests run it"]
async fn of_two_controllers_one_stops_twenty_times() {
    let through = rounds(20, 2).await;
    assert!(through.changed == 0 && through.read > 0, "{through:?}");
}
