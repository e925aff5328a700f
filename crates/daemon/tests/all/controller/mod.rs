//! Real daemons on loopback: a controller, an emulated switch, agents.

mod access;
mod border;
mod fence;
mod kill;
mod limits;
mod lost;
mod own_token;
#[path = "../../../../runtime/tests/servers/ports.rs"]
mod ports;
mod rival;
mod rogue;
mod several;
mod switch;
mod trail;
mod versions;
mod world;

use lightloom_circuits::ServerDemand;
use lightloom_control::ocs::{Activation, Device};
use lightloom_control::{Demand, EmulatedRegion, Region};
use lightloom_daemon::emulate::RegionAgents;
use lightloom_daemon::preset;
use lightloom_decide::{Decider, Question};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
pub(super) use world::Folder;
use world::*;

fn names(servers: u16) -> Vec<String> {
    (0..servers).map(|server| format!("node-{server:02}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demand_becomes_circuits_that_are_verified_and_those_of_a_simulated_run() {
    let (servers, degree) = (8, 6);
    let folder = Folder::new("sequence");
    let ocs = Daemon::ocs(48, &["--delay", "1 ms"]).await;
    // Nobody is given up on, however busy the machine is.
    let timing = "[timing]\ngather = \"1 min\"\nlease = \"1 min\"\npatience = \"1 min\"";
    let file = folder.write("region.toml", &region(0, &ocs.address, servers, degree, timing));
    let controller = Daemon::controller(&file).await;
    let mut emulated =
        RegionAgents::start(&controller.url(), &names(servers), LONG).await.expect("agents");
    emulated.rest(LONG).await.expect("rest");

    let layout = Region::in_a_row(servers, degree, 48).expect("ok");
    let mut decider = Decider::new(preset::settings().expect("a preset"), &[0; 8]);
    let mut decide = |question: &Question| decider.decide(question).expect("circuits");
    let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(1) };
    let device = Device { name: "polatis".into(), ports: 48, delay };
    let none = Activation::Loopback { lock: Time::ZERO };
    let settings = EmulatedRegion::settings();
    let mut simulated =
        EmulatedRegion::new(layout, settings, device, none, 1, &mut decide).expect("a region");
    let even: Vec<_> = simulated.standing().circuits().collect();
    assert_eq!(emulated.circuits(), even, "for an even demand");
    assert!(even.len() >= 20, "{}", even.len());

    let mut dice = Dice(7);
    for round in 1..=12 {
        let rows = dice.demand(usize::from(servers));
        let demand = ServerDemand { n: usize::from(servers), bytes: rows.concat() };
        let played = emulated.run_round(rows, LONG).await.expect("answered");
        let change = simulated.round(Time::from_ms(1000 * round), &demand, &mut decide);
        let circuits: Vec<_> = simulated.standing().circuits().collect();
        assert_eq!((played.round, &played.circuits), (round, &circuits));
        assert_eq!(played.generation, change.generation, "round {round}");
        let held = read_switch(&ocs.address, 48).await;
        assert_eq!(held, patches(&circuits, servers, degree), "what the switch holds");
        assert_eq!(read_journal(&folder.0.join("region.journal")).verified, circuits);
    }
    status_when(&controller.address, "settled", settled).await;
    let (code, events) = get(&controller.address, "/v1/events?since=0").await;
    assert_eq!((code, events["events"].is_array()), (200, true), "{events}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_controller_a_journal() {
    let folder = Folder::new("second");
    let ocs = Daemon::ocs(4, &[]).await;
    let file = folder.write("region.toml", &region(0, &ocs.address, 2, 2, ""));
    let controller = Daemon::controller(&file).await;
    let serve = |path: &std::path::Path| {
        let path = path.to_str().expect("UTF-8").to_owned();
        async move { refused(&["controller", "serve", &path]).await }
    };
    let (why, code) = serve(&file).await;
    assert_eq!(code, Some(1));
    assert!(why.contains("another controller has this journal open"), "{why}");
    controller.kill().await;
    // The lock died with its holder.
    Daemon::controller(&file).await.kill().await;
    let wired = region(0, &ocs.address, 4, 1, "");
    folder.write("region.toml", &wired);
    let (why, code) = serve(&file).await;
    assert_eq!(code, Some(2));
    assert!(why.contains("other servers or other switch ports"), "{why}");
    let named = wired.replace("\"r\"", "\"q\"") + "[journal]\npath = \"region.journal\"\n";
    let (why, code) = serve(&folder.write("q.toml", &named)).await;
    assert!(code == Some(2) && why.contains("region \"r\", not of \"q\""), "{why}");
    let wrong = folder.write("wrong.toml", &wired.replace("count = 4", "count = 9"));
    let (why, code) = serve(&wrong).await;
    assert!(code == Some(2) && why.contains("wrong.toml: servers.first_port"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_has_one_agent_and_the_next_waits_until_it_is_gone() {
    use lightloom_daemon::agent::{AgentClient, View};
    let folder = Folder::new("later");
    let ocs = Daemon::ocs(4, &["--delay", "0 ms"]).await;
    let file = folder.write("region.toml", &region(0, &ocs.address, 2, 2, ""));
    let controller = Daemon::controller(&file).await;
    let first = AgentClient::start(&controller.url(), "node-00").expect("an agent");
    first.when(LONG, |view| view.said > 0).await.expect("heard");
    let second = AgentClient::start(&controller.url(), "node-00").expect("an agent");
    let down = |view: &View| matches!(view.link, Some(Err(_)));
    let told = second.when(LONG, down).await.expect("told").link;
    assert_eq!(told, Some(Err("this server has another agent, which speaks for it".into())));
    first.demand(Demand::new(1, vec![0, 1])).await.expect("it is still there");
    first.answered(1, LONG).await.expect("answered");
    assert_eq!(second.view().borrow().said, 0);
    drop(first);
    second.when(LONG, |view| view.said > 0).await.expect("heard, now that the first is gone");
    let third = AgentClient::start(&controller.url(), "node-77").expect("an agent");
    let why = third.when(LONG, |_| false).await.expect_err("no such server").to_string();
    assert_eq!(why, "\"node-77\" is no server of r");
    assert!(second.view().borrow().ended.is_none());
}
