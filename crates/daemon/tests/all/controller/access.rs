//! Who gets an answer: nobody off loopback without TLS and a token, no tenant beyond its servers.

use super::world::*;
use lightloom_control::Demand;
use lightloom_daemon::agent::{AgentClient, Controller};
use sha2::{Digest, Sha256};
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

fn digest(token: &str) -> String {
    Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An address of this machine that is not loopback, if it has one: nothing is sent.
fn outside() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Two tenants of two servers, on an address with TLS; the tokens are `boss` and `azure`.
fn guarded(address: IpAddr, switch: &str, folder: &Folder) -> PathBuf {
    let names = vec!["controller.example".to_string(), address.to_string()];
    let pair = rcgen::generate_simple_self_signed(names).expect("a certificate");
    folder.write("cert.pem", &pair.cert.pem());
    folder.write("key.pem", &pair.signing_key.serialize_pem());
    folder.write("boss", "boss\n");
    folder.write("azure", "azure");
    folder.write("wrong", "guess");
    let server = |name: &str, tenant: &str, port: u16| {
        format!("[[server]]\nname = \"{name}\"\ntenant = \"{tenant}\"\nports = [{port}]\n")
    };
    let token = |name: &str, more: &str| {
        format!("[[token]]\nname = \"{name}\"\n{more}\nsha256 = \"{}\"\n", digest(name))
    };
    let text = format!(
        "name = \"r\"\n[listen]\naddress = \"{address}:0\"\ncertificate = \"cert.pem\"\n\
         key = \"key.pem\"\n{}{}[switch]\nprotocol = \"tl1\"\naddress = \"{switch}\"\nports = 4\n{}{}{}{}[decision]\nhysteresis = false\npacket_bandwidth = \"100 Gbps\"\n",
        token("boss", "role = \"operator\""),
        token("azure", "role = \"tenant\"\ntenant = \"blue\""),
        server("b0", "blue", 1),
        server("b1", "blue", 2),
        server("r0", "red", 3),
        server("r1", "red", 4),
    );
    folder.write("region.toml", &text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_no_answer_and_no_tenant_beyond_its_servers() {
    let Some(address) = outside() else {
        eprintln!("skipped: this machine has no address but loopback");
        return;
    };
    let folder = Folder::new("access");
    let ocs = Daemon::ocs(4, &["--delay", "0 ms"]).await;
    let file = guarded(address, &ocs.address, &folder);
    let controller = Daemon::controller(&file).await;
    let as_one = |token: Option<&str>| Controller {
        url: format!("https://{}", controller.address),
        token_file: token.map(|token| folder.0.join(token)),
        ca: Some(folder.0.join("cert.pem")),
    };
    let refusal = |token: Option<&str>, server: &str| {
        let agent = AgentClient::start(&as_one(token), server).expect("an agent");
        async move { agent.when(LONG, |_| false).await.expect_err("no answer").to_string() }
    };
    assert!(refusal(None, "b0").await.starts_with("a token is required"));
    assert_eq!(refusal(Some("wrong"), "b0").await, "this token is not known here");
    assert_eq!(refusal(Some("azure"), "r0").await, "this token is not of \"r0\"");
    // Whether there is such a server is not said, either.
    assert_eq!(refusal(Some("azure"), "x0").await, "this token is not of \"x0\"");

    let blue = AgentClient::start(&as_one(Some("azure")), "b0").expect("an agent");
    let view = blue.when(LONG, |view| view.said > 0).await.expect("let in");
    let region = view.region.expect("described");
    assert_eq!(region.servers, ["b0", "b1", "", ""], "no names of others");
    // Demand to another tenant's servers is no way to a circuit to them.
    let second = AgentClient::start(&as_one(Some("azure")), "b1").expect("an agent");
    let red = AgentClient::start(&as_one(Some("boss")), "r0").expect("an agent");
    second.when(LONG, |view| view.said > 0).await.expect("let in");
    let last = AgentClient::start(&as_one(Some("boss")), "r1").expect("an agent");
    red.when(LONG, |view| view.said > 0).await.expect("let in");
    last.when(LONG, |view| view.said > 0).await.expect("let in");
    red.demand(Demand::new(1, vec![900, 0, 0, 5])).await.expect("taken");
    let circuits = |agent: &AgentClient| agent.view().borrow().circuits.circuits.clone();
    // The first rounds may be answered before the switch was read: on packet switches.
    for round in 1..=200 {
        second.demand(Demand::new(round, vec![900, 0, 0, 0])).await.expect("taken");
        blue.demand(Demand::new(round, vec![0, 700, 0, 0])).await.expect("taken");
        blue.answered(round, LONG).await.expect("answered");
        if circuits(&blue) == [Some((1, 0))] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(circuits(&red).iter().flatten().all(|peer| peer.0 >= 2), "{:?}", circuits(&red));
    assert_eq!(circuits(&blue), [Some((1, 0))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_said_without_tls_and_nothing_starts_bare() {
    let Some(address) = outside() else {
        eprintln!("skipped: this machine has no address but loopback");
        return;
    };
    let folder = Folder::new("bare");
    let ocs = Daemon::ocs(4, &[]).await;
    let file = guarded(address, &ocs.address, &folder);
    let controller = Daemon::controller(&file).await;
    let plain =
        Controller { url: format!("http://{}", controller.address), token_file: None, ca: None };
    let agent = AgentClient::start(&plain, "b0").expect("an agent");
    let down = agent.when(LONG, |view| matches!(view.link, Some(Err(_)))).await.expect("a view");
    assert!(down.region.is_none());

    let text = std::fs::read_to_string(&file).expect("readable");
    let without =
        text.replace("certificate = \"cert.pem\"\n", "").replace("key = \"key.pem\"\n", "");
    let bare = folder.write("bare.toml", &without);
    let path = bare.to_str().expect("UTF-8");
    let (why, code) = refused(&["controller", "serve", path]).await;
    assert_eq!(code, Some(2), "{why}");
    assert!(why.contains("a certificate and its key are required"), "{why}");
}
