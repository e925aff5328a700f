//! What is answered over HTTP: to whom, and that it is what the published description says.

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use lightloom_control::{
    Alarm, CircuitView, ControllerEvent, Counters, DemandView, Mark, Reconfiguration, ServerPart,
    ServerView, Status, SwitchView,
};
use lightloom_daemon::auth::{Access, Role, Token, Tokens};
use lightloom_daemon::border::{Border, Refusal};
use lightloom_daemon::gateway::{PHASES, router};
use lightloom_daemon::hub::{Command, Hub, Names, Snapshot};
use lightloom_units::Time;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, watch};
use tower::ServiceExt;

const JSON: &str = "application/json";
const READS: [&str; 5] = ["/v1/status", "/v1/names", "/v1/circuits", "/v1/demand", "/v1/events"];

/// Four servers of two ports, two tenants; server 3 is silent, and port 1 of server 1 is stuck.
fn status() -> Status {
    let server = |server: u16| ServerView {
        server,
        tenant: server / 2,
        present: server != 3,
        heard: (server != 3).then_some(Time::from_ms(900)),
        obeyed: Mark::default(),
        faults: if server == 2 { vec![ServerPart::Link(1), ServerPart::Server] } else { vec![] },
        round: Some(7),
        circuits: vec![Some((server ^ 1, 0)), None],
        blocked: vec![false, server == 1],
    };
    let alarm = |alarm: Alarm| (alarm, Time::from_ms(5));
    let circuit = |a: u16| CircuitView {
        a: (a, 0),
        b: (a + 1, 0),
        switch: 0,
        switch_ports: (2 * a + 1, 2 * a + 3),
    };
    let counters = Counters { plans: 11, ..Counters::default() };
    Status {
        now: Time::from_ms(1000),
        phase: "idle",
        generation: 12,
        verified_generation: 11,
        confirmed_generation: 10,
        switches: vec![SwitchView {
            switch: 0,
            up: true,
            device: Some("LLOOM".into()),
            ports: 16,
            read: true,
        }],
        servers: (0..4).map(server).collect(),
        circuits: vec![circuit(0), circuit(2)],
        demand: DemandView {
            rounds: vec![7, 9],
            bytes: (0..4).map(|a| (0..4).map(|b| 10 * a + b).collect()).collect(),
        },
        alarms: vec![
            alarm(Alarm::PortStuck { port: (1, 1) }),
            alarm(Alarm::SwitchRefuses { switch: 0 }),
            alarm(Alarm::ServerSilent { server: 3 }),
        ],
        counters,
    }
}

struct World {
    hub: Hub,
    commands: mpsc::Receiver<Command>,
    snapshots: watch::Sender<Arc<Snapshot>>,
}

fn world() -> World {
    let names = Names {
        switches: vec!["ocs-0".into()],
        region: "region-0".into(),
        servers: (0..4).map(|at| format!("node-{at:02}")).collect(),
        tenants: vec!["blue".into(), "red".into()],
        tenant_of_server: vec![0, 0, 1, 1],
    };
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    let (snapshots, seen) = watch::channel(Arc::new(Snapshot { status: status(), started }));
    let (to, commands) = mpsc::channel(4);
    World { hub: Hub::new(names, seen, to), commands, snapshots }
}

/// Operator `op`, viewer `eye`, tenant `blue`, and `gone`, whose tenant has no server here.
fn tokens() -> Arc<Tokens> {
    let token = |text: &str, role| {
        let digest: String = Sha256::digest(text).iter().map(|b| format!("{b:02x}")).collect();
        Token::new(Access::new(text, role), &digest).expect("a digest")
    };
    Arc::new(Tokens::new(vec![
        token("op", Role::Operator),
        token("eye", Role::Viewer),
        token("blue", Role::Tenant("blue".into())),
        token("gone", Role::Tenant("gone".into())),
    ]))
}

fn events(hub: &Hub) {
    hub.log(ControllerEvent::Note { text: "red's cable".into() });
    hub.log(ControllerEvent::Raised { alarm: Alarm::ServerSilent { server: 3 } });
    hub.log(ControllerEvent::Raised { alarm: Alarm::PortStuck { port: (1, 1) } });
    hub.log(ControllerEvent::Reconfigured(Reconfiguration {
        generation: 11,
        rounds: vec![7, 9],
        drained: Time::from_ms(2),
        patched: Time::from_ms(27),
        verified: Time::from_ms(30),
        confirmed: Some(Time::from_ms(31)),
        ..Reconfiguration::default()
    }));
    hub.log(ControllerEvent::Withdrawn {
        switches: vec![0],
        generation: 12,
        why: "red pulled it".into(),
    });
}

/// Kind and text of a request's body.
type Sent<'a> = Option<(&'a str, &'a str)>;

/// One request: code, kind, body. `token` is empty for none.
async fn ask(
    hub: &Hub,
    method: &str,
    path: &str,
    token: &str,
    body: Sent<'_>,
) -> (u16, String, String) {
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1");
    if !token.is_empty() {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    if let Some((kind, _)) = body {
        request = request.header(header::CONTENT_TYPE, kind);
    }
    let body = body.map_or_else(Body::empty, |(_, text)| Body::from(text.to_string()));
    let request = request.body(body).expect("a request");
    let answer = router(hub.clone(), tokens()).oneshot(request).await.expect("never fails");
    let code = answer.status().as_u16();
    let kind = answer.headers()[header::CONTENT_TYPE].to_str().expect("text").to_string();
    let body = to_bytes(answer.into_body(), 1 << 24).await.expect("a body");
    (code, kind, String::from_utf8(body.to_vec()).expect("text"))
}

async fn read(hub: &Hub, token: &str, path: &str) -> Value {
    let (code, _, body) = ask(hub, "GET", path, token, None).await;
    assert_eq!(code, 200, "{path}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

/// `key` of each of a list.
fn each<'a>(list: &'a Value, key: &str) -> Vec<&'a Value> {
    list.as_array().expect("a list").iter().map(|item| &item[key]).collect()
}

/// Requests to a path, token and body, and the code that each shall be answered with.
fn requests(path: &str) -> Vec<(&'static str, Sent<'static>, u16)> {
    match path {
        "/v1/unblock" => vec![
            ("op", Some((JSON, r#"{"ports": [[1, 1], [3, 0]]}"#)), 200),
            ("op", Some((JSON, "{}")), 200),
            ("", Some((JSON, "{}")), 401),
            ("eye", Some((JSON, "{}")), 403),
            ("blue", Some((JSON, r#"{"ports": [[1, 1]]}"#)), 403),
            ("op", Some((JSON, r#"{"ports": [[4, 0]]}"#)), 400),
            ("op", Some((JSON, r#"{"ports": [[0, 2]]}"#)), 400),
            ("op", Some((JSON, "{")), 400),
            ("op", Some((JSON, r#"{"port": 1}"#)), 422),
            ("op", Some(("text/plain", "{}")), 415),
        ],
        "/v1/audit" => vec![
            ("op", Some((JSON, "{}")), 200),
            ("", Some((JSON, "{}")), 401),
            ("blue", Some((JSON, "{}")), 403),
            ("op", None, 415),
        ],
        "/metrics" => {
            vec![("op", None, 200), ("eye", None, 200), ("blue", None, 403), ("", None, 401)]
        }
        _ if READS.contains(&path) => {
            vec![("op", None, 200), ("eye", None, 200), ("blue", None, 200), ("guess", None, 401)]
        }
        _ => vec![("", None, 200)],
    }
}

#[tokio::test]
async fn what_is_answered_is_what_the_description_says() {
    let World { hub, mut commands, snapshots } = world();
    tokio::spawn(async move {
        while let Some(command) = commands.recv().await {
            if let Command::Unblock { done, .. } | Command::Audit { done } = command {
                done.send(()).expect("someone waits");
            }
        }
    });
    events(&hub);
    let api: Value = serde_json::from_str(include_str!("../../web/openapi.json")).expect("JSON");
    let mut checked = 0;
    for (path, methods) in api["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            for (token, body, expected) in requests(path) {
                let (code, kind, text) = ask(&hub, &method.to_uppercase(), path, token, body).await;
                let what = format!("{method} {path} as '{token}', {body:?}");
                assert_eq!(code, expected, "{what}: {text}");
                let known = &operation["responses"][code.to_string()]["content"];
                let (name, content) = known.as_object().expect(&what).iter().next().expect(&what);
                assert!(kind.starts_with(name.as_str()), "{what}: {kind}");
                let value = match name.as_str() {
                    JSON => serde_json::from_str(&text).expect("JSON"),
                    _ => Value::String(text),
                };
                fits(&api, &content["schema"], &value)
                    .unwrap_or_else(|why| panic!("{what}: {why}"));
                checked += 1;
            }
        }
    }
    assert!(checked > 35, "{checked}");
    // The same while the controller knows nothing yet.
    snapshots.send_modify(|snapshot| {
        let mut status = status();
        status.phase = "starting";
        (status.switches[0].device, status.switches[0].read) = (None, false);
        *snapshot = Arc::new(Snapshot { status, started: snapshot.started });
    });
    assert_eq!(ask(&hub, "GET", "/readyz", "", None).await.0, 503);
    let status = read(&hub, "op", "/v1/status").await;
    fits(&api, &json!({"$ref": "#/components/schemas/Status"}), &status).expect("fits");
}

#[tokio::test]
async fn every_route_is_described_and_every_name_is_current() {
    let api: Value = serde_json::from_str(include_str!("../../web/openapi.json")).expect("JSON");
    let source = include_str!("../../src/gateway/mod.rs");
    let source: String = source.chars().filter(|c| !c.is_whitespace()).collect();
    let mut routes: BTreeSet<&str> =
        source.split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    for page in ["/", "/page.js", "/docs", "/docs.js", "/style.css"] {
        assert!(routes.remove(page), "{page}");
    }
    let described = api["paths"].as_object().expect("paths").keys();
    assert_eq!(routes, described.map(String::as_str).collect());
    let schemas = &api["components"]["schemas"];
    assert_eq!(schemas["Alarm"]["properties"]["name"]["enum"], json!(Alarm::NAMES));
    assert_eq!(schemas["Status"]["properties"]["phase"]["enum"], json!(PHASES));
}

#[tokio::test]
async fn a_tenant_sees_its_own_and_nothing_else() {
    let World { hub, .. } = world();
    events(&hub);
    let status = read(&hub, "blue", "/v1/status").await;
    assert_eq!(json!(each(&status["servers"], "server")), json!([0, 1]));
    assert_eq!(json!(each(&status["circuits"], "a")), json!([[0, 0]]));
    assert_eq!(status["demand"], json!({"rounds": [7], "bytes": [[0, 1], [10, 11]]}));
    assert_eq!(json!(each(&status["alarms"], "name")), json!(["port-stuck", "switch-refuses"]));
    assert_eq!(status["alarms"][0]["text"], "node-01, port 1 does not follow the switch's orders");
    assert_eq!(status["counters"], Value::Null);
    let demand = read(&hub, "blue", "/v1/demand").await;
    assert_eq!(demand, json!({"servers": [0, 1], "rounds": [7], "bytes": [[0, 1], [10, 11]]}));
    let circuits = read(&hub, "blue", "/v1/circuits").await;
    assert_eq!(json!(each(&circuits["circuits"], "a")), json!([[0, 0]]));
    let news = &read(&hub, "blue", "/v1/events").await["events"];
    assert_eq!(json!(each(news, "event")), json!(["raised", "reconfigured", "withdrawn"]));
    assert_eq!(news[1]["rounds"], json!([7]));
    let names = read(&hub, "blue", "/v1/names").await;
    assert_eq!(names["tenants"], json!([{"tenant": 0, "name": "blue"}]));
    for path in READS {
        let text = read(&hub, "blue", path).await.to_string();
        assert!(!text.contains("red ") && !text.contains("node-03"), "{path}: {text}");
        // A tenant that has no server here sees none.
        let none = read(&hub, "gone", path).await.to_string();
        assert!(!none.contains("node-0") && !none.contains("blue"), "{path}: {none}");
    }
    // Others see all.
    for token in ["op", "eye"] {
        let status = read(&hub, token, "/v1/status").await;
        assert_eq!(each(&status["servers"], "server").len(), 4);
        assert_eq!(status["counters"]["plans"], 11);
        assert_eq!(each(&read(&hub, token, "/v1/events").await["events"], "event").len(), 5);
    }
}

#[tokio::test]
async fn events_go_on_where_one_was() {
    let World { hub, .. } = world();
    assert_eq!(read(&hub, "op", "/v1/events").await["last"], 0);
    events(&hub);
    let two = read(&hub, "op", "/v1/events?since=1&limit=2").await;
    assert_eq!(json!(each(&two["events"], "number")), json!([4, 5]));
    assert_eq!(two["last"], 5);
    let none = read(&hub, "op", "/v1/events?since=5").await;
    assert_eq!((&none["events"], &none["last"]), (&json!([]), &json!(5)));
    for query in ["since=-1", "since=x", "limit=x", "from=1"] {
        let path = format!("/v1/events?{query}");
        let (code, _, body) = ask(&hub, "GET", &path, "op", None).await;
        assert!(code == 400 && body.starts_with("{\"error\":"), "{query}: {code} {body}");
    }
}

#[tokio::test]
async fn without_a_token_nothing_is_said_of_the_region() {
    let World { hub, .. } = world();
    events(&hub);
    let open = ["/", "/docs", "/page.js", "/docs.js", "/style.css", "/openapi.json", "/readyz"];
    for path in open {
        let (code, _, body) = ask(&hub, "GET", path, "", None).await;
        assert_eq!(code, 200, "{path}");
        assert!(!body.contains("region-0") && !body.contains("node-0"), "{path}");
    }
    for token in ["", "guess"] {
        for path in READS.iter().chain(&["/metrics"]) {
            let (code, _, body) = ask(&hub, "GET", path, token, None).await;
            assert!(code == 401 && body.starts_with("{\"error\":"), "{path}: {body}");
        }
    }
    for (method, path, expected) in [("GET", "/v2", 404), ("DELETE", "/v1/status", 405)] {
        let (code, _, body) = ask(&hub, method, path, "op", None).await;
        assert!(code == expected && body.starts_with("{\"error\":"), "{method} {path}: {body}");
    }
}

#[tokio::test]
async fn pages_of_other_sites_cannot_use_an_operators_browser() {
    let World { hub, .. } = world();
    let border = Border { by_address: true, refused: hub.refused.clone() };
    let app = border.around(router(hub.clone(), tokens()));
    let call = async |host: &str, path: &str| {
        let request = Request::get(path).header(header::HOST, host);
        let request = request.header(header::AUTHORIZATION, "Bearer op").body(Body::empty());
        app.clone().oneshot(request.expect("a request")).await.expect("never fails")
    };
    assert_eq!(call("localhost:8470", "/v1/status").await.status(), StatusCode::OK);
    let rebound = call("rebound.example:8470", "/v1/status").await;
    assert_eq!(rebound.status(), StatusCode::FORBIDDEN);
    assert_eq!(hub.refused.of(Refusal::Host), 1);
    let page = call("127.0.0.1:8470", "/").await;
    let policy = page.headers()["content-security-policy"].to_str().expect("text");
    assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"));
    assert!(!page.headers().contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn commands_reach_the_controller_or_are_said_not_to() {
    let World { hub, mut commands, .. } = world();
    let asking = hub.clone();
    let asked = tokio::spawn(async move {
        ask(&asking, "POST", "/v1/unblock", "op", Some((JSON, r#"{"ports": [[1, 1]]}"#))).await
    });
    let Some(Command::Unblock { ports, done }) = commands.recv().await else { panic!() };
    assert_eq!(ports, [(1, 1)]);
    done.send(()).expect("someone waits");
    assert_eq!(asked.await.expect("no panic").2, r#"{"unblocked":[[1,1]]}"#);
    drop(commands);
    let (code, _, body) = ask(&hub, "POST", "/v1/audit", "op", Some((JSON, "{}"))).await;
    assert_eq!((code, body.as_str()), (503, r#"{"error":"the controller does not answer"}"#));
}

#[tokio::test]
async fn metrics_say_what_the_snapshot_says() {
    let World { hub, snapshots, .. } = world();
    let app = router(hub.clone(), tokens());
    let scrape = async || {
        let request = Request::get("/metrics").header(header::HOST, "localhost");
        let request = request.header(header::AUTHORIZATION, "Bearer eye");
        let answer = app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let body = to_bytes(answer.into_body(), 1 << 20).await.expect("a body");
        String::from_utf8(body.to_vec()).expect("text")
    };
    events(&hub);
    let text = scrape().await;
    for line in [
        "lightloom_generation 12.0",
        "lightloom_phase{phase=\"idle\"} 1",
        "lightloom_phase{phase=\"draining\"} 0",
        "lightloom_alarms{alarm=\"server-silent\"} 1",
        "lightloom_alarms{alarm=\"drain-stuck\"} 0",
        "lightloom_servers_present 3.0",
        "lightloom_circuits 2.0",
        "lightloom_ports_blocked 1.0",
        "lightloom_demand_bytes 264.0",
        "lightloom_plans_total 11",
        "lightloom_requests_refused_total{reason=\"origin\"} 0",
        "lightloom_start_time_seconds 1.0",
        "lightloom_reconfiguration_seconds_count{stage=\"total\"} 1",
        "lightloom_reconfiguration_seconds_sum{stage=\"patch\"} 0.025",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    for name in Alarm::NAMES {
        assert!(text.contains(&format!("lightloom_alarms{{alarm=\"{name}\"}}")), "{name}");
    }
    // An event counts once, however often it is asked for; more than are kept count, too.
    for _ in 0..3000 {
        hub.log(ControllerEvent::Reconfigured(Reconfiguration {
            confirmed: Some(Time::from_ms(1)),
            ..Reconfiguration::default()
        }));
        tokio::task::yield_now().await;
    }
    assert_eq!(scrape().await, scrape().await);
    assert!(scrape().await.contains("seconds_count{stage=\"total\"} 3001"));
    snapshots.send_modify(|snapshot| {
        let status = Status { phase: "draining", ..status() };
        *snapshot = Arc::new(Snapshot { status, started: snapshot.started });
    });
    assert!(scrape().await.contains("lightloom_phase{phase=\"draining\"} 1"));
}

/// The part of JSON Schema that the description uses.
fn fits(api: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let target = api.pointer(name.trim_start_matches('#')).ok_or(format!("{name}: unknown"))?;
        return fits(api, target, value).map_err(|why| format!("{name}: {why}"));
    }
    if let Some(options) = schema["oneOf"].as_array() {
        let fitting = options.iter().filter(|option| fits(api, option, value).is_ok()).count();
        let problem = || Err(format!("{value}: fits {fitting} of {schema}"));
        return if fitting == 1 { Ok(()) } else { problem() };
    }
    if schema["const"] != Value::Null && schema["const"] != *value {
        return Err(format!("{value}: not {}", schema["const"]));
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        return Err(format!("{value}: not among {}", schema["enum"]));
    }
    let is = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64(),
        Some("null") => value.is_null(),
        _ => panic!("{name}: a type that this test does not know"),
    };
    let right = match &schema["type"] {
        Value::Null => true,
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    };
    if !right {
        return Err(format!("{value}: not {}", schema["type"]));
    }
    if let (Some(object), Some(known)) = (value.as_object(), schema["properties"].as_object()) {
        for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            object.get(key).ok_or(format!("{key}: missing in {value}"))?;
        }
        for (key, inner) in object {
            match known.get(key) {
                Some(schema) => fits(api, schema, inner).map_err(|why| format!("{key}: {why}"))?,
                None if schema["additionalProperties"] == json!(false) => {
                    return Err(format!("{key}: not described"));
                }
                None => {}
            }
        }
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        let schema = schema["prefixItems"].get(at).unwrap_or(&schema["items"]);
        fits(api, schema, item)?;
    }
    Ok(())
}

#[test]
fn what_does_not_fit_would_be_found() {
    let schema = json!({"type": "object", "properties": {"a": {"type": ["integer", "null"]}},
        "required": ["a"], "additionalProperties": false});
    for (value, good) in [
        (json!({"a": 1}), true),
        (json!({"a": null}), true),
        (json!({"a": "1"}), false),
        (json!({}), false),
        (json!({"a": 1, "b": 1}), false),
    ] {
        assert_eq!(fits(&Value::Null, &schema, &value).is_ok(), good, "{value}");
    }
}
