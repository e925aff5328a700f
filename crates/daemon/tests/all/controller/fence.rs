//! A gateway in front of an emulated switch on TL1, as a process: started late, killed, and shared by two regions.

use super::names;
use super::world::*;
use lightloom_daemon::emulate::RegionAgents;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::sleep;

const TIMING: &str = "[decision]\nhysteresis = false\n[timing]\nreconnect = \"20 ms\"\nlifetime = \"100 ms\"\naudit = \"300 ms\"";
const PORTS: u16 = 24;

/// A region of four servers of three ports at the gateway, from this port of the switch on.
fn shared(folder: &Folder, name: &str, gateway: u16, first: u16) -> PathBuf {
    let text = region(free_port(), &format!("127.0.0.1:{gateway}"), 4, 3, TIMING);
    let text = text.replace("\"r\"", &format!("{name:?}")).replace("\"tl1\"", "\"line\"");
    let text = text.replace("ports_each = 3", &format!("ports_each = 3\nfirst_port = {first}"));
    folder.write(&format!("{name}.toml"), &text.replace("\nports = 12", "\nports = 24"))
}

fn term(file: &Path) -> u64 {
    read_journal(&file.with_extension("journal")).terms[&0]
}

/// A demand of pairs of servers.
fn demand(which: u64) -> Vec<Vec<u64>> {
    let bytes = |from: u64, to| if to == from ^ (1 + which % 3) { 1 << 30 } else { 0 };
    (0..4).map(|from| (0..4).map(|to| bytes(from, to)).collect()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regions_share_a_gateway_and_go_on_when_it_was_killed() {
    let folder = Folder::new("fence-shared");
    let (switch, listen) = (free_port(), free_port());
    let text = gateway(listen, &format!("127.0.0.1:{switch}"), PORTS);
    let (file, log) = (folder.write("gateway.toml", &text), folder.0.join("gateway.log"));
    let mut front = Daemon::gateway(&file, &log).await;
    let files = [shared(&folder, "q", listen, 1), shared(&folder, "s", listen, 13)];
    let controllers = [Daemon::controller(&files[0]).await, Daemon::controller(&files[1]).await];
    // The switch is away: nobody is let in.
    let away = |status: &serde_json::Value| alarm(status, "switch-unreachable");
    status_when(&controllers[0].address, "told", away).await;
    let listens = format!("127.0.0.1:{switch}");
    let ports = PORTS.to_string();
    let words = ["--log-level", "off", "ocs", "serve", "--delay", "1 ms", "--ports", &ports];
    let ocs = Daemon::start(&[&words[..], &["--listen", &listens]].concat()).await;
    let mut sides = Vec::new();
    for controller in &controllers {
        let agents = RegionAgents::start(&controller.url(), &names(4), LONG).await;
        sides.push(agents.expect("agents"));
    }
    let mut terms = Vec::new();
    for round in 0..3 {
        let mut circuits = 0;
        for agents in &mut sides {
            let before = agents.circuits();
            for _ in 0..100 {
                agents.run_round(demand(round), LONG).await.expect("answered");
                let circuits = agents.circuits();
                if !circuits.is_empty() && (circuits != before || round == 0) {
                    break;
                }
                // What waits for circuits is answered without them until the switch was read.
                sleep(Duration::from_millis(50)).await;
            }
            assert!(agents.circuits() != before || round == 0, "round {round}");
            circuits += agents.circuits().len();
        }
        assert_eq!(read_switch(&ocs.address, PORTS).await.len(), 2 * circuits, "round {round}");
        terms.push([term(&files[0]), term(&files[1])]);
        // Both go on with the terms that they have.
        front.kill().await;
        for controller in &controllers {
            status_when(&controller.address, "told", away).await;
        }
        front = Daemon::gateway(&file, &log).await;
    }
    assert!(terms.windows(2).all(|pair| pair[0] == pair[1]), "{terms:?}");
    assert_ne!(terms[0][0], terms[0][1]);
    let log = std::fs::read_to_string(&log).expect("a log");
    assert!(!log.contains("is refused"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_cannot_be_says_why() {
    let folder = Folder::new("fence-wrong");
    let good = gateway(0, "127.0.0.1:1", 8);
    let serve = |path: PathBuf| async move {
        refused(&["ocs", "gateway", path.to_str().expect("UTF-8")]).await
    };
    for (old, new, why) in [
        (
            "127.0.0.1:0",
            "0.0.0.0:0",
            "wrong.toml: listen: 0.0.0.0:0: must be an address and a port",
        ),
        ("\"tl1\"", "\"tl2\"", "wrong.toml: switch.protocol: tl2: must be one of tl1, netconf"),
        ("[timing]", "[timing]\nwax = 1", "wrong.toml:7: unknown field `wax`"),
        (
            "ports = 8",
            "ports = 8\npassword = 1",
            "wrong.toml: switch.password: tl1 has no such key",
        ),
    ] {
        let (said, code) = serve(folder.write("wrong.toml", &good.replace(old, new))).await;
        assert!(code == Some(2) && said.contains(why) && said.lines().count() == 1, "{said}");
    }
    let (said, code) = serve(folder.0.join("none.toml")).await;
    assert!(code == Some(2) && said.contains("none.toml: No such file"), "{said}");
    let (said, code) = refused(&["ocs", "gateway"]).await;
    assert!(code == Some(2) && said.contains("<FILE>"), "{said}");
    let file = folder.write("g.toml", &good);
    folder.write("g.terms", "{\"last\": 3}");
    let (said, code) = serve(file.clone()).await;
    assert!(code == Some(2) && said.contains("not the terms of a switch of 8 ports"), "{said}");
    std::fs::remove_file(folder.0.join("g.terms")).expect("gone");
    let _first = Daemon::gateway(&file, &folder.0.join("log")).await;
    let (said, code) = serve(file).await;
    assert!(code == Some(1) && said.contains("another gateway has these terms"), "{said}");
}
