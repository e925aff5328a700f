//! A region on three emulated switches, one of which is killed while rounds go on.

use super::names;
use super::world::*;
use lightloom_control::{Patch, PortId};
use lightloom_daemon::emulate::RegionAgents;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const SERVERS: u16 = 6;
/// Two ports of each server on each switch.
const DEGREE: u16 = 6;
const PORTS: u16 = 2 * SERVERS;

fn text(switches: &[String]) -> String {
    let switch = |(at, address): (usize, &String)| {
        format!(
            "[[switch]]\nname = \"ocs-{at}\"\nprotocol = \"tl1\"\naddress = \"{address}\"\nports = {PORTS}\n"
        )
    };
    let switches: String = switches.iter().enumerate().map(switch).collect();
    format!(
        "name = \"r\"\n[listen]\naddress = \"127.0.0.1:0\"\n{switches}[servers]\ncount = {SERVERS}\n\
         ports_each = {DEGREE}\n[decision]\nhysteresis = false\n[timing]\npatience = \"500 ms\"\n\
         lifetime = \"100 ms\"\nreconnect = \"20 ms\"\naudit = \"1 s\"\n"
    )
}

async fn ocs_at(place: &str) -> Daemon {
    let ports = PORTS.to_string();
    let begin = ["--log-level", "off", "ocs", "serve", "--delay", "5 ms", "--listen", place];
    Daemon::start(&[&begin[..], &["--ports", &ports]].concat()).await
}

/// The patches of a switch that make these circuits: port p of a server is on switch p mod 3.
fn patches_of(switch: u16, circuits: &[(PortId, PortId)]) -> Vec<Patch> {
    let port = |(server, port): PortId| 2 * server + port / 3 + 1;
    let here = circuits.iter().filter(|(a, _)| a.1 % 3 == switch);
    let mut patches: Vec<Patch> =
        here.flat_map(|&(a, b)| Patch::pair(PORTS, port(a), port(b))).collect();
    patches.sort_unstable();
    patches
}

fn switches_of(circuits: &[(PortId, PortId)]) -> BTreeSet<u16> {
    assert!(circuits.iter().all(|(a, b)| a.1 % 3 == b.1 % 3), "{circuits:?}");
    circuits.iter().map(|(a, _)| a.1 % 3).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_that_dies_takes_its_own_circuits_with_it() {
    let folder = Folder::new("several");
    let mut ocs = Vec::new();
    // The last must be had again at its place.
    let place = format!("127.0.0.1:{}", free_port());
    ocs.push(Daemon::ocs(PORTS, &["--delay", "5 ms"]).await);
    ocs.push(Daemon::ocs(PORTS, &["--delay", "20 ms"]).await);
    ocs.push(ocs_at(&place).await);
    let addresses: Vec<String> = ocs.iter().map(|ocs| ocs.address.clone()).collect();
    let file = folder.write("region.toml", &text(&addresses));
    let controller = Daemon::controller(&file).await;
    let mut agents =
        RegionAgents::start(&controller.url(), &names(SERVERS), LONG).await.expect("agents");
    let mut dice = Dice(3);
    for _ in 0..6 {
        agents.run_round(dice.demand(usize::from(SERVERS)), LONG).await.expect("answered");
        let circuits = agents.circuits();
        assert_eq!(switches_of(&circuits), [0, 1, 2].into(), "{circuits:?}");
        for (switch, address) in (0..).zip(&addresses) {
            let held = read_switch(address, PORTS).await;
            assert_eq!(held, patches_of(switch, &circuits), "switch {switch}");
        }
    }
    ocs.pop().expect("the last").kill().await;
    // It is known to be gone when its stream ends: until then a plan may wait for it, once.
    let (mut longest, mut times) = (Duration::ZERO, Vec::new());
    for _ in 0..12 {
        let began = Instant::now();
        agents.run_round(dice.demand(usize::from(SERVERS)), LONG).await.expect("answered");
        times.push(began.elapsed());
        let circuits = agents.circuits();
        assert!(switches_of(&circuits).is_superset(&[0, 1].into()), "{circuits:?}");
        for (switch, address) in (0..2).zip(&addresses) {
            let held = read_switch(address, PORTS).await;
            assert_eq!(held, patches_of(switch, &circuits), "switch {switch}");
        }
        longest = longest.max(times[times.len() - 1]);
    }
    println!("rounds without one switch: {times:.1?}");
    assert!(longest < Duration::from_secs(3), "{times:?}");
    let status = get(&controller.address, "/v1/status").await.1;
    let words: Vec<_> =
        status["alarms"].as_array().expect("a list").iter().map(|a| &a["text"]).collect();
    assert_eq!(words, ["switch ocs-2 cannot be reached"]);
    // A new one, that holds nothing, takes its place.
    ocs.push(ocs_at(&place).await);
    status_when(&controller.address, "all there", settled).await;
    for _ in 0..50 {
        agents.run_round(dice.demand(usize::from(SERVERS)), LONG).await.expect("answered");
        if switches_of(&agents.circuits()).contains(&2) {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    let circuits = agents.circuits();
    assert!(switches_of(&circuits).contains(&2), "{circuits:?}");
    assert_eq!(read_switch(&place, PORTS).await, patches_of(2, &circuits));
}
