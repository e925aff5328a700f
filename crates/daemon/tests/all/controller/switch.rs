//! A switch that answers late, wrongly or never leaves the region on packet switches, with an alarm, and
//! nobody hung; when it answers again, circuits come back.

use super::names;
use super::world::*;
use lightloom_daemon::emulate::RegionAgents;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Demands are small: without hysteresis they are worth a change.
const TIMING: &str = "[decision]\nhysteresis = false\n[timing]\nlifetime = \"100 ms\"\n\
                      reconnect = \"50 ms\"\npatience = \"300 ms\"\naudit = \"500 ms\"\n\
                      retry = \"500 ms\"";

/// Rounds are answered, fast, while the fault lasts; `alarm` is raised; and then all is well.
async fn drill(fault: &str, name: &str) {
    let (servers, degree) = (4, 2);
    let folder = Folder::new(&format!("drill-{fault}"));
    let fault = format!("{fault}@1500ms..5s");
    let ocs = Daemon::ocs(8, &["--delay", "1 ms", "--fault", &fault]).await;
    let began = Instant::now();
    let file = folder.write("region.toml", &region(0, &ocs.address, servers, degree, TIMING));
    let controller = Daemon::controller(&file).await;
    let mut emulated =
        RegionAgents::start(&controller.url(), &names(servers), LONG).await.expect("agents");
    emulated.rest(LONG).await.expect("rest");
    assert!(emulated.circuits().len() >= 3, "circuits for an even demand");
    let mut dice = Dice(3);
    let mut longest = Duration::ZERO;
    while began.elapsed() < Duration::from_secs(4) {
        let asked = Instant::now();
        let round =
            emulated.run_round(dice.demand(usize::from(servers)), LONG).await.expect("answered");
        longest = longest.max(asked.elapsed());
        let (_, status) = get(&controller.address, "/v1/status").await;
        let untrusted = alarm(&status, "switch-untrusted");
        assert!(
            !untrusted || emulated.circuits().is_empty() || round.generation == 0,
            "{status:#}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (_, events) = get(&controller.address, "/v1/events?since=0").await;
    let raised = |event: &Value| event["event"] == "raised" && event["alarm"]["kind"] == name;
    assert!(events["events"].as_array().expect("a list").iter().any(raised), "{events:#}");
    assert!(longest < Duration::from_secs(3), "a round took {longest:?}");
    // A machine that is busy elsewhere may be late, too: then the region is on packet switches once more.
    let (mut played, mut held);
    let again = Instant::now();
    loop {
        status_when(&controller.address, "well again", settled).await;
        played =
            emulated.run_round(dice.demand(usize::from(servers)), LONG).await.expect("answered");
        held = read_switch(&ocs.address, 8).await;
        if played.circuits.len() >= 3 && held == patches(&played.circuits, servers, degree) {
            break;
        }
        assert!(again.elapsed() < LONG, "{played:?} {held:?}");
    }
}

/// All at once, for each of them mostly waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_that_fails_for_a_while() {
    tokio::join!(
        drill("silent", "switch-untrusted"),
        drill("late=1s", "switch-untrusted"),
        drill("refuses", "switch-refuses"),
        drill("lies", "port-stuck"),
        drill("garbles", "switch-unreachable"),
    );
}
