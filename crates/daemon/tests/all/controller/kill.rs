//! `kill -9` of the controller in the middle of things: afterwards circuits, journal and agents agree,
//! and nothing that was confirmed is lost.

use super::names;
use super::world::*;
use lightloom_control::Demand;
use lightloom_control::Stage;
use lightloom_daemon::emulate::RegionAgents;
use std::time::Duration;
use tokio::time::sleep;

/// Demands are small: without hysteresis they are worth a change.
const TIMING: &str =
    "[decision]\nhysteresis = false\n[timing]\nlifetime = \"100 ms\"\nreconnect = \"20 ms\"";

async fn kill(times: u64, seed: u64) {
    let (servers, degree) = (8, 6);
    let folder = Folder::new(&format!("kill-{seed}"));
    let ocs = Daemon::ocs(48, &["--delay", "5 ms"]).await;
    let text = region(free_port(), &ocs.address, servers, degree, TIMING);
    let file = folder.write("region.toml", &text);
    let journal = folder.0.join("region.journal");
    let mut controller = Daemon::controller(&file).await;
    let mut emulated =
        RegionAgents::start(&controller.url(), &names(servers), LONG).await.expect("agents");
    emulated.rest(LONG).await.expect("rest");
    let agents = emulated.agents().to_vec();
    let mut dice = Dice(seed);
    // In which state of its work the controller was killed.
    let mut found = [0; 3];
    for time in 1..=times {
        let demand = dice.demand(usize::from(servers));
        let wait = Duration::from_micros(dice.below(25_000));
        let killer = async {
            sleep(wait).await;
            controller.kill().await;
            let memory = read_journal(&journal);
            // What agents have heard of is written down, and what they use was verified.
            for agent in &agents {
                let mark = agent.view().borrow().circuits.mark;
                assert!(mark.generation <= memory.generation, "{mark:?} {memory:?}");
                let verified = memory.verified_generation;
                let uses = mark.stage == Stage::Resume;
                assert!(!uses || mark.generation <= verified, "{mark:?} {memory:?}");
            }
            let state = usize::from(memory.intent.is_some()) + usize::from(memory.touched);
            found[state.min(2)] += 1;
            (Daemon::controller(&file).await, memory)
        };
        let round = emulated.round() + 1;
        let (rounds, (daemon, before)) = tokio::join!(
            async {
                for (agent, row) in agents.iter().zip(demand) {
                    agent.demand(Demand::new(round, row)).await.expect("taken");
                }
                let mut rounds = Vec::new();
                for agent in &agents {
                    rounds.push(agent.answered(round, LONG).await);
                }
                rounds
            },
            killer
        );
        controller = daemon;
        assert!(rounds.iter().all(Result::is_ok), "time {time}: {rounds:?}");
        emulated.rest(LONG).await.expect("rest");
        let status = status_when(&controller.address, "settled", settled).await;
        let after = read_journal(&journal);
        assert!(after.confirmed >= before.confirmed, "{before:?} {after:?}");
        assert!(after.generation >= before.generation);
        assert_eq!(status["verified_generation"].as_u64(), Some(after.verified_generation));
        let circuits = emulated.circuits();
        assert_eq!(circuits, after.verified, "time {time}: agents and journal");
        let held = read_switch(&ocs.address, servers * degree).await;
        assert_eq!(held, patches(&circuits, servers, degree), "time {time}: agents and switch");
        assert!(circuits.len() > 16, "time {time}: {}", circuits.len());
    }
    println!("killed {times} times: {found:?} at rest, on the way, with the switch touched");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_is_killed_loses_nothing() {
    kill(3, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a minute: the long tests run it"]
async fn a_controller_that_is_killed_fifty_times_loses_nothing() {
    kill(50, 2).await;
}
