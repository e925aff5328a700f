//! What a web page, or a program that speaks as one, can do at a controller on loopback: nothing. Each is
//! refused with a status that says why, counted, and felt by no agent.

use super::world::*;
use lightloom_daemon::agent::AgentClient;
use lightloom_daemon::proto::wire::DescribeRequest;
use lightloom_daemon::proto::wire::control_client::ControlClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::Endpoint;

const CALL: &str = "/lightloom.control.v1.Control/Attend";

/// One request over HTTP/1.1, as it is written: the status code, and what is said.
async fn raw(address: &str, head: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let length = body.len();
    let head = format!("{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).await.expect("it reads");
    let mut answer = Vec::new();
    let read = timeout(LONG, stream.read_to_end(&mut answer)).await;
    read.expect("in time").expect("it answers");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
    (code, answer)
}

/// An agent's first report, framed as gRPC does: node-00, incarnation 2^64-1, beat 1.
fn report() -> Vec<u8> {
    let mut message = vec![0x0a, 7];
    message.extend(b"node-00");
    message.push(0x10);
    message.extend([0xff; 9]);
    message.extend([0x01, 0x18, 0x01]);
    let mut frame = vec![0, 0, 0, 0, message.len() as u8];
    frame.extend(message);
    frame
}

async fn refused_for(address: &str, reason: &str) -> u64 {
    let shown = authorization(address);
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n{}", shown.trim_end());
    let (_, text) = raw(address, &head, b"").await;
    let name = format!("lightloom_requests_refused_total{{reason=\"{reason}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
}

/// Over HTTP/2, as `origin` names the host, with these headers.
async fn described(
    address: &str,
    host: &str,
    headers: &[(&'static str, &str)],
) -> Result<(), String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let endpoint = endpoint.origin(format!("http://{host}").parse().expect("a host"));
    let mut client = ControlClient::new(endpoint.connect().await.expect("it listens"));
    let asked = DescribeRequest { server: "node-00".into(), version: 0 };
    let mut request = shown(address, asked);
    for (name, value) in headers {
        request.metadata_mut().insert(*name, value.parse().expect("a value"));
    }
    client.describe(request).await.map(|_| ()).map_err(|why| format!("{:?}", why.code()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_cannot_act_as_an_agent() {
    let folder = Folder::new("border");
    let ocs = Daemon::ocs(4, &["--delay", "0 ms"]).await;
    let file = folder.write("region.toml", &region(0, &ocs.address, 2, 2, ""));
    let controller = Daemon::controller(&file).await;
    let at = controller.address.as_str();
    let agent = AgentClient::start(&controller.url(), "node-00").expect("an agent");
    agent.when(LONG, |view| view.said > 0).await.expect("heard");

    let post = |host: &str, more: &str| format!("POST {CALL} HTTP/1.1\r\nHost: {host}\r\n{more}");
    let text = "Content-Type: text/plain";
    let grpc = "Content-Type: application/grpc";
    let evil = "Origin: http://evil.example";
    for (head, code, reason) in [
        (post(at, text), 505, "http-version"),
        (post(at, grpc), 505, "http-version"),
        (post("evil.example", grpc), 403, "host"),
        (post(at, &format!("{text}\r\n{evil}")), 403, "origin"),
        (post(at, &format!("{grpc}\r\nOrigin: null")), 403, "origin"),
        (post(at, &format!("{grpc}\r\nHost: localhost")), 403, "host"),
        (format!("GET /v1/status HTTP/1.1\r\nHost: {at}\r\n{evil}"), 403, "origin"),
    ] {
        let before = refused_for(at, reason).await;
        let (status, answer) = raw(at, &head, &report()).await;
        assert_eq!(status, code, "{head}: {answer}");
        assert!(answer.contains("{\"error\":"), "{answer}");
        assert!(!answer.to_lowercase().contains("access-control-allow"), "{answer}");
        assert_eq!(refused_for(at, reason).await, before + 1, "{head}");
    }
    // Over HTTP/2: what gRPC says of each status.
    assert_eq!(described(at, at, &[]).await, Ok(()));
    for (host, headers, reason) in [
        (at, vec![("origin", "http://evil.example")], "origin"),
        (at, vec![("sec-fetch-site", "cross-site")], "origin"),
        ("evil.example", vec![], "host"),
    ] {
        let before = refused_for(at, reason).await;
        let answer = described(at, host, &headers).await;
        assert_eq!(answer, Err("PermissionDenied".into()), "{host} {headers:?}");
        assert_eq!(refused_for(at, reason).await, before + 1);
    }
    assert_eq!(agent.view().borrow().ended, None, "the agent was not thrown out");
    agent.demand(lightloom_control::Demand::new(1, vec![0, 1])).await.expect("still there");
    agent.answered(1, LONG).await.expect("answered");
}
