//! The emulated switch over TLS, and as a process: who is let in, and what is refused at the start.

use super::controller::Folder;
use super::ocs_wire::{LONG, next, timing};
use lightloom_control::drivers::tl1::{Login, Options, Secret, Tl1Driver, User};
use lightloom_control::ocs::Device;
use lightloom_control::{Answer, Input, Order, Patch};
use lightloom_daemon::ocs::{Emulator, Settings};
use lightloom_daemon::tls;
use lightloom_daemon::wire::{Endpoint, spawn};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// An authority, and a certificate of `ocs.example` with its key: as files that go when this does.
struct Files(Folder);

impl Files {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let mut params = CertificateParams::new(vec![]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["ocs.example".into()]).expect("a name");
        let certificate = params.signed_by(&key, &authority).expect("a certificate");
        let texts = [authority.pem(), certificate.pem(), key.serialize_pem()];
        for (file, text) in ["ca.pem", "server.pem", "server.key"].iter().zip(texts) {
            folder.write(file, &text);
        }
        Files(folder)
    }

    fn at(&self, file: &str) -> PathBuf {
        self.0.0.join(file)
    }
}

fn driver(password: &str) -> Box<Tl1Driver> {
    let login = Login { user: "blue".into(), password: Secret::new(password) };
    Box::new(Tl1Driver::new(login, &[1, 2], Options::default()).expect("it can be written"))
}

#[tokio::test]
async fn over_tls_with_the_password_and_not_otherwise() {
    let (files, others) = (Files::new("tls"), Files::new("tls-others"));
    let delay = ReconfigurationDelay::Fixed { ps: Time::ZERO };
    let device = Device { name: "polatis".into(), ports: 8, delay };
    let blue =
        User { name: "blue".into(), password: Secret::new("azure"), slice: Some(vec![1, 2]) };
    let server = tls::server(&files.at("server.pem"), &files.at("server.key"), &[]);
    let tls = Some(server.expect("a certificate and its key"));
    // Off loopback, on all there is.
    let listen = "0.0.0.0:0".parse().expect("an address");
    let settings = Settings { tls, listen, ..Settings::new(device, vec![blue]) };
    let emulator = Emulator::bind(settings).await.expect("TLS and a user");
    let port = emulator.address().expect("it listens").port();
    tokio::spawn(emulator.run());
    let endpoint = |name: &str, authority: PathBuf| Endpoint::Tls {
        address: format!("127.0.0.1:{port}"),
        name: tls::name(name).expect("a name"),
        config: tls::client(&authority).expect("an authority"),
    };

    let good = endpoint("ocs.example", files.at("ca.pem"));
    let mut handle = spawn(0, good.clone(), driver("azure"), timing());
    assert!(matches!(next(&mut handle).await, Input::SwitchUp { ports: 8, .. }));
    let set = Patch::pair(8, 1, 2).to_vec();
    handle.order(1, Order::Apply { end: vec![], set: set.clone() }, std::time::Instant::now());
    assert_eq!(next(&mut handle).await, Input::Answer { id: 1, answer: Answer::Done });
    handle.order(2, Order::Read, std::time::Instant::now());
    assert_eq!(next(&mut handle).await, Input::Answer { id: 2, answer: Answer::State(set) });

    let wrong = [
        (good, "guess", "login denied: PIUI"),
        (endpoint("other.example", files.at("ca.pem")), "azure", "certificate"),
        (endpoint("ocs.example", others.at("ca.pem")), "azure", "certificate"),
        (Endpoint::Tcp { address: format!("127.0.0.1:{port}") }, "azure", ""),
    ];
    for (endpoint, password, expected) in wrong {
        match next(&mut spawn(0, endpoint.clone(), driver(password), timing())).await {
            Input::SwitchDown { why, .. } => assert!(why.contains(expected), "{why}"),
            other => panic!("{endpoint:?}: {other:?}"),
        }
    }

    // Nothing is said in the clear.
    let mut bare = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
    bare.write_all(b"ACT-USER::blue:1::azure;RTRV-PATCH:::2:;").await.expect("it is open");
    let mut answer = Vec::new();
    // A stream that is reset has been answered with nothing, too.
    let _ = timeout(LONG, bare.read_to_end(&mut answer)).await.expect("it is closed");
    assert!(!String::from_utf8_lossy(&answer).contains("OCS"), "{answer:?}");
}

#[test]
fn files_that_are_no_use_are_named() {
    let (files, others) = (Files::new("files"), Files::new("files-others"));
    let (certificate, key) = (files.at("server.pem"), files.at("server.key"));
    let failure = |certificate: &Path, key: &Path| {
        tls::server(certificate, key, &[]).err().map(|why| why.to_string()).unwrap_or_default()
    };
    assert_eq!(failure(&certificate, &key), "");
    let none = failure(&files.at("no.pem"), &key);
    assert!(none.contains("no.pem: no certificate in PEM: "), "{none}");
    let none = failure(&key, &key);
    assert!(none.ends_with("server.key: no certificate in PEM: there is none"), "{none}");
    let none = failure(&certificate, &certificate);
    assert!(none.contains("server.pem: no private key in PEM: "), "{none}");
    let strangers = failure(&certificate, &others.at("server.key"));
    assert!(strangers.contains("server.pem: "), "{strangers}");
    assert!(tls::client(&key).is_err() && tls::client(&files.at("ca.pem")).is_ok());
}

fn lightloomd(arguments: &[&str]) -> Output {
    let daemon = Command::new(env!("CARGO_BIN_EXE_lightloomd")).args(arguments).output();
    daemon.expect("the daemon can be run")
}

#[test]
fn bad_input_is_one_line_and_exit_code_2() {
    let cases: [(&[&str], &str); 12] = [
        (&["--ports", "0"], "invalid value '0' for '--ports <PORTS>': 0 is not in 1..=4096"),
        (&["--delay", "25"], "the unit is missing"),
        (&["--delay-model", "{\"kind\":\"flat\"}"], "expected `fixed` or `lognormal`"),
        (
            &["--listen", "0.0.0.0:0"],
            "a certificate, its key and a user with a password are required",
        ),
        (&["--listen", "0.0.0.0:0", "--user", "a:b"], "a certificate and its key are required"),
        (&["--listen", "nowhere"], "invalid socket address"),
        (&["--certificate", "a.pem"], "not provided: --key <FILE>"),
        (&["--certificate", "a.pem", "--key", "a.key"], "a.pem: no certificate in PEM"),
        (&["--user", "a:secret:8-1"], "a user is NAME:PASSWORD or NAME:PASSWORD:1-96,100"),
        (&["--user", "a:b:9", "--ports", "8"], "user a: port 9: the switch has 1 to 8"),
        (&["--user", "a:b", "--user", "a:c"], "user a: named twice"),
        (&["--fault", "lies=2"], "lies=2: a share from 0 to 1"),
    ];
    for (arguments, expected) in cases {
        let output = lightloomd(&[&["ocs", "serve"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
        assert!(output.stdout.is_empty() && !error.contains("secret"), "{error}");
    }
}

#[test]
fn signals_end_it_well_and_an_address_in_use_is_a_failure() {
    for (signal, code) in [("-TERM", 0), ("-INT", 130)] {
        let mut daemon = Command::new(env!("CARGO_BIN_EXE_lightloomd"))
            .args(["--log", "json", "ocs", "serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the daemon can be run");
        let mut line = String::new();
        let mut stdout = BufReader::new(daemon.stdout.take().expect("it is piped"));
        stdout.read_line(&mut line).expect("it says where it listens");
        let told: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let address = told["listening"].as_str().expect("an address");
        let second = lightloomd(&["ocs", "serve", "--listen", address]);
        let error = String::from_utf8_lossy(&second.stderr).into_owned();
        assert_eq!(second.status.code(), Some(1), "{error}");
        assert!(error.contains("in use"), "{error}");
        let pid = daemon.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("kill can be run");
        assert!(sent.success());
        assert_eq!(daemon.wait().expect("it ends").code(), Some(code));
        let mut log = String::new();
        let stderr = daemon.stderr.take().expect("it is piped");
        BufReader::new(stderr).read_to_string(&mut log).expect("text");
        for line in log.lines() {
            serde_json::from_str::<serde_json::Value>(line).expect("a log of JSON");
        }
    }
}
