//! Who asked for what is written down, and tokens and certificates are read anew while the controller runs.

use super::world::*;
use lightloom_daemon::agent::{AgentClient, Controller};
use lightloom_daemon::tls;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

fn digest(token: &str) -> String {
    Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn token(name: &str, role: &str, text: &str) -> String {
    let sha256 = digest(text);
    format!("[[token]]\nname = \"{name}\"\nrole = \"{role}\"\nsha256 = \"{sha256}\"\n")
}

/// A certificate for this machine that ends after so many days, and its key, in these files.
fn certificate(folder: &Folder, name: &str, days: i64) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut asked = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).expect("a name");
    let now = std::time::SystemTime::now();
    let day = Duration::from_secs(24 * 3600);
    let end =
        if days < 0 { now - day * days.unsigned_abs() as u32 } else { now + day * days as u32 };
    asked.not_before = (now - day * 100).into();
    asked.not_after = end.into();
    let pair = asked.self_signed(&key).expect("a certificate");
    folder.write(&format!("{name}.pem"), &pair.pem());
    folder.write(&format!("{name}.key"), &key.serialize_pem());
}

/// A region with TLS and these tokens.
fn guarded(folder: &Folder, listen: u16, switch: &str, tokens: &str) -> std::path::PathBuf {
    let plain = region(listen, switch, 2, 2, tokens);
    let text = plain
        .replace("[servers]\n", "certificate = \"server.pem\"\nkey = \"server.key\"\n[servers]\n");
    folder.write("region.toml", &text)
}

/// A request over TLS: the status code and the body.
async fn over_tls(address: &str, ca: &Path, request: &str) -> Result<(u16, String), String> {
    let config = tls::client(ca).map_err(|why| why.to_string())?;
    let stream = TcpStream::connect(address).await.map_err(|why| why.to_string())?;
    let name = tls::name("127.0.0.1").expect("an address");
    let connector = tokio_rustls::TlsConnector::from(config);
    let mut stream = connector.connect(name, stream).await.map_err(|why| why.to_string())?;
    stream.write_all(request.as_bytes()).await.map_err(|why| why.to_string())?;
    let mut answer = Vec::new();
    // It need not say goodbye.
    let _ = timeout(LONG, stream.read_to_end(&mut answer)).await.expect("in time");
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no head")?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or("no code")?;
    Ok((code, body.into()))
}

fn request(method: &str, path: &str, address: &str, token: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

async fn trail(file: &Path) -> Vec<Value> {
    let path = file.to_str().expect("UTF-8");
    let output = command(&["controller", "trail", path, "--json", "--limit", "100"]).output();
    let output = timeout(LONG, output).await.expect("in time").expect("lightloomd");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_and_every_refused_call_is_written_down() {
    let folder = Folder::new("trail");
    let ocs = Daemon::ocs(4, &["--delay", "0 ms"]).await;
    let tokens = token("boss", "operator", "b0ss") + &token("screen", "viewer", "look");
    let file = folder.write("region.toml", &region(0, &ocs.address, 2, 2, &tokens));
    let controller = Daemon::controller(&file).await;
    let at = controller.address.clone();
    let ask =
        |method: &'static str, path: &'static str, token: &'static str, body: &'static str| {
            let at = at.clone();
            async move { asked(&at, &request(method, path, &at, token, body)).await.0 }
        };
    assert_eq!(ask("POST", "/v1/unblock", "b0ss", "{\"ports\": [[0, 1]]}").await, 200);
    assert_eq!(ask("POST", "/v1/unblock", "b0ss", "{\"ports\": [[9, 9]]}").await, 400);
    assert_eq!(ask("POST", "/v1/audit", "b0ss", "{}").await, 200);
    assert_eq!(ask("POST", "/v1/audit", "look", "{}").await, 403);
    assert_eq!(ask("GET", "/v1/status", "guess", "").await, 401);
    assert_eq!(ask("GET", "/v1/status", "look", "").await, 200);
    assert_eq!(get(&at, "/v1/status").await.0, 401);
    let page = format!(
        "GET /v1/status HTTP/1.1\r\nHost: {at}\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(asked(&at, &page).await.0, 403);
    folder.write("wrong", "guess");
    let wrong = Controller { token_file: Some(folder.0.join("wrong")), ..controller.url() };
    let agent = AgentClient::start(&wrong, "node-00").expect("an agent");
    agent.when(LONG, |_| false).await.expect_err("refused");
    controller.kill().await;

    let found = trail(&file).await;
    let short = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().unwrap_or("-").to_owned();
        assert!(text("from").starts_with("127.0.0.1:"), "{entry}");
        assert!(entry["unix_ms"].as_u64() > Some(1_700_000_000_000), "{entry}");
        let asked = &entry["asked"];
        let (who, sha256, call) = (text("who"), text("sha256"), text("call"));
        format!("{who} {sha256} {call} {asked} {}", entry["answer"])
    };
    let found: Vec<String> = found.iter().map(short).collect();
    let guess = &digest("guess")[..8];
    assert_eq!(
        found,
        [
            "boss - POST /v1/unblock [[0,1]] 200".to_owned(),
            "boss - POST /v1/unblock null 400".into(),
            "boss - POST /v1/audit {} 200".into(),
            "screen - POST /v1/audit null 403".into(),
            format!("- {guess} GET /v1/status null 401"),
            "- - GET /v1/status null 401".into(),
            "- - GET /v1/status null 403".into(),
            format!("- {guess} POST /lightloom.control.v1.Control/Describe null 401"),
        ]
    );
    let words =
        command(&["controller", "trail", file.to_str().expect("UTF-8"), "--limit", "8"]).output();
    let words = String::from_utf8(words.await.expect("lightloomd").stdout).expect("UTF-8");
    assert!(words.lines().next().expect("a line").contains("Z  200  boss"), "{words}");
    use std::os::unix::fs::PermissionsExt;
    let kept = std::fs::metadata(folder.0.join("region.journal-trail")).expect("a file");
    assert_eq!(kept.permissions().mode() & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_and_the_certificate_are_read_anew() {
    let folder = Folder::new("reload");
    let ocs = Daemon::ocs(4, &["--delay", "0 ms"]).await;
    certificate(&folder, "server", 5);
    std::fs::copy(folder.0.join("server.pem"), folder.0.join("first.pem")).expect("copied");
    let file = guarded(&folder, 0, &ocs.address, &token("boss", "operator", "b0ss"));
    let controller = Daemon::controller(&file).await;
    let at = controller.address.clone();
    let ask = |ca: &'static str, token: &'static str, path: &'static str| {
        let (at, ca) = (at.clone(), folder.0.join(ca));
        async move { over_tls(&at, &ca, &request("GET", path, &at, token, "")).await }
    };
    let until = async |ca, token, path, what: &str, is: &dyn Fn(&str) -> bool| {
        for _ in 0..300 {
            if let Ok((200, body)) = ask(ca, token, path).await
                && is(&body)
            {
                return body;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{what}: {:?}", ask(ca, token, path).await)
    };
    let alarm = |body: &str| body.contains("certificate-expires");
    until("first.pem", "b0ss", "/v1/status", "five days are not long", &alarm).await;
    let left = |body: &str| -> f64 {
        let line =
            body.lines().find(|line| line.starts_with("lightloom_certificate_expiry_seconds "));
        line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a metric")
    };
    let (_, metrics) = ask("first.pem", "b0ss", "/metrics").await.expect("an answer");
    assert!((left(&metrics) / 86_400.0 - 5.0).abs() < 0.1, "{}", left(&metrics));

    let hangup = async || {
        let process = controller.process().to_string();
        let told = tokio::process::Command::new("kill").args(["-HUP", &process]).status().await;
        assert!(told.expect("kill").success());
    };
    // A file that is wrong changes nothing.
    let good = std::fs::read_to_string(&file).expect("readable");
    folder.write("region.toml", &good.replace("role = \"operator\"", "role = \"king\""));
    hangup().await;
    let said = |body: &str| body.contains("nothing was read anew: ");
    let events = until("first.pem", "b0ss", "/v1/events", "said", &said).await;
    assert!(events.contains("king"), "{events}");

    certificate(&folder, "server", 300);
    let changed = good.replace(&digest("b0ss"), &digest("n3w")) + "[timing]\nlease = \"9 s\"\n";
    folder.write("region.toml", &changed);
    hangup().await;
    let said = |body: &str| {
        body.contains("1 tokens and the certificate were read anew; the file has other changes")
    };
    until("server.pem", "n3w", "/v1/events", "the new ones", &said).await;
    until("server.pem", "n3w", "/v1/status", "no alarm any more", &|body| !alarm(body)).await;
    assert_eq!(ask("server.pem", "b0ss", "/v1/status").await.expect("an answer").0, 401);
    ask("first.pem", "n3w", "/v1/status").await.expect_err("another certificate");
    let (_, metrics) = ask("server.pem", "n3w", "/metrics").await.expect("an answer");
    assert!((left(&metrics) / 86_400.0 - 300.0).abs() < 0.1, "{}", left(&metrics));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_has_expired_is_no_certificate() {
    let folder = Folder::new("expired");
    certificate(&folder, "server", -1);
    let file = guarded(&folder, 0, "127.0.0.1:1", &token("boss", "operator", "b0ss"));
    let (why, code) = refused(&["controller", "serve", file.to_str().expect("UTF-8")]).await;
    assert_eq!(code, Some(2), "{why}");
    assert!(
        why.contains("region.toml: listen.certificate: ")
            && why.contains("server.pem: the certificate has expired"),
        "{why}"
    );
    assert_eq!(why.lines().count(), 1, "{why}");
}
