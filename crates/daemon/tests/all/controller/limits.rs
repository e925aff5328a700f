//! Who asks too much gets less, and the others theirs.

use super::world::*;
use lightloom_control::Demand;
use lightloom_daemon::agent::AgentClient;
use lightloom_daemon::limits::{GUESTS, STAY};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

async fn refused_for(address: &str, reason: &str) -> u64 {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let shown = authorization(address);
    let head =
        format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n{shown}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("it answers");
    let name = format!("lightloom_requests_refused_total{{reason=\"{reason}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_say_nothing_are_few_and_do_not_stay() {
    let folder = Folder::new("guests");
    let ocs = Daemon::ocs(4, &["--delay", "0 ms"]).await;
    let file = folder.write("region.toml", &region(0, &ocs.address, 2, 2, ""));
    let controller = Daemon::controller(&file).await;
    let agent = AgentClient::start(&controller.url(), "node-00").expect("an agent");
    agent.when(LONG, |view| view.said > 0).await.expect("heard");
    let mut idle = Vec::new();
    for _ in 0..GUESTS + 20 {
        idle.push(TcpStream::connect(&controller.address).await.expect("it listens"));
    }
    // The last ones are closed at once,
    for stream in idle.iter_mut().skip(GUESTS) {
        let read = timeout(LONG, stream.read(&mut [0; 8])).await.expect("in time");
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    // who is known is served,
    agent.demand(Demand::new(1, vec![0, 1])).await.expect("it is there");
    agent.answered(1, LONG).await.expect("answered");
    // and the others are closed, too, if nobody says who is there.
    let last = idle.get_mut(GUESTS - 1).expect("there are so many");
    let read = timeout(STAY + LONG, last.read(&mut [0; 8])).await.expect("in time");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    assert!(refused_for(&controller.address, "connections").await >= 20);
    agent.demand(Demand::new(2, vec![0, 1])).await.expect("it is there");
    agent.answered(2, LONG).await.expect("answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_too_often_is_told_to_come_again() {
    let folder = Folder::new("often");
    let ocs = Daemon::ocs(4, &["--delay", "0 ms"]).await;
    let file = folder.write("region.toml", &region(0, &ocs.address, 2, 2, ""));
    let controller = Daemon::controller(&file).await;
    let agent = AgentClient::start(&controller.url(), "node-00").expect("an agent");
    agent.when(LONG, |view| view.said > 0).await.expect("heard");
    let (address, mut codes) = (&controller.address, std::collections::BTreeMap::new());
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let shown = authorization(address);
    let one = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n{shown}\r\n");
    stream.write_all(one.repeat(3000).as_bytes()).await.expect("it reads");
    let last = one.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    stream.write_all(last.as_bytes()).await.expect("it reads");
    let mut text = String::new();
    timeout(LONG, stream.read_to_string(&mut text)).await.expect("in time").expect("answers");
    for line in text.lines().filter(|line| line.contains("HTTP/1.1 ")) {
        let code = line.rsplit("HTTP/1.1 ").next().expect("a code")[..3].to_string();
        *codes.entry(code).or_insert(0) += 1;
    }
    assert!(codes["200"] >= 400 && codes["429"] >= 500, "{codes:?}");
    assert!(text.contains("too many requests: come again in a second"));
    // An agent that is there has its stream.
    agent.demand(Demand::new(1, vec![0, 1])).await.expect("it is there");
    agent.answered(1, LONG).await.expect("answered");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(refused_for(address, "rate").await >= 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_stays_on_this_machine_or_goes_over_tls() {
    let folder = Folder::new("plain");
    let token = folder.write("token", "secret\n");
    let token = token.to_str().expect("UTF-8");
    for url in ["http://192.0.2.1:8470", "http://controller.example:8470", "http://[2001:db8::1]:1"]
    {
        let words = ["agent", "serve", "--controller", url, "--server", "a", "--token-file", token];
        let why = format!("--controller: {url}: a token goes over https:// off this machine");
        assert_eq!(refused(&words).await, (why, Some(2)));
    }
    // On this machine it does: nobody listens there, so the agent says that it is down, and ends with its input.
    for url in ["http://127.0.0.1:9", "http://localhost:9", "http://[::1]:9"] {
        let words = ["agent", "serve", "--controller", url, "--server", "a", "--token-file", token];
        assert_eq!(refused(&words).await.1, Some(0), "{url}");
    }
}
