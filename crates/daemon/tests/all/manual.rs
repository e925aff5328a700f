//! The manual, the dashboard and the program say the same.

use lightloom_control::drivers::DRIVERS;
use lightloom_control::{Alarm, Region};
use lightloom_daemon::config::{Config, FenceConfig};
use lightloom_daemon::gateway::Metrics;
use lightloom_daemon::hub::{Hub, Names, Snapshot};
use lightloom_daemon::runtime::Counted;
use lightloom_runtime::exchange::Statistics;
use lightloom_runtime::ranks::{Counters, NicCounters, PeerCounters};
use lightloom_units::Time;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::{mpsc, watch};

const MANUAL: &str = include_str!("../../../../docs/operate.md");

/// The names of all metrics, of controllers and of runtimes.
fn exported() -> BTreeSet<String> {
    let text = of_a_controller() + &of_a_runtime();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(['{', ' ']).next().unwrap_or(line).to_string()).collect()
}

fn of_a_runtime() -> String {
    let statistics = Statistics::default();
    let nic = NicCounters { nic: "a".into(), circuit: false, lanes: 1, lanes_up: 1, statistics };
    let peer = PeerCounters { peer: "b".into(), statistics };
    let counters = Counters { nics: vec![nic], peers: vec![peer], ..Counters::default() };
    let counted = Counted { counters, server: "a".into(), sha256: String::new(), started: 0.0 };
    counted.text().expect("text")
}

fn of_a_controller() -> String {
    let region = Region::in_a_row(2, 1, 2).expect("two servers");
    let controller = lightloom_control::Controller::new(
        region,
        lightloom_control::Settings::default(),
        lightloom_control::Memory::default(),
        Time::ZERO,
    );
    let status = controller.status(Time::ZERO);
    let (_snapshots, seen) =
        watch::channel(Arc::new(Snapshot { status, started: SystemTime::UNIX_EPOCH }));
    let names = Names {
        switches: vec!["ocs".into()],
        region: "r".into(),
        servers: vec!["a".into(), "b".into()],
        tenants: vec!["t".into()],
        tenant_of_server: vec![0, 0],
    };
    let hub = Hub::new(names, seen, mpsc::channel(1).0);
    *hub.expiry.lock().expect("free") = Some(SystemTime::UNIX_EPOCH);
    Metrics::watch(&hub).text(&hub).expect("text")
}

/// The names of metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !word(c)).filter(|name| name.starts_with("lightloom_"));
    words.map(str::to_string).collect()
}

#[test]
fn the_file_of_a_gateway_in_the_manual_is_read() {
    let from = MANUAL.find("listen = \"127.0.0.1:3083\"").expect("a file");
    let text = MANUAL[from..].split("```").next().expect("its end");
    let Ok(config) = FenceConfig::read("gateway.toml".as_ref(), text) else { panic!("{text}") };
    assert_eq!((config.terms, config.settings.ports), ("gateway.terms".into(), 384));
}

#[tokio::test]
async fn the_dashboards_and_the_manual_name_what_is_exported() {
    let exported = exported();
    for dashboard in [
        include_str!("../../../../deploy/grafana.json"),
        include_str!("../../../../deploy/grafana-runtimes.json"),
    ] {
        let dashboard = named(dashboard);
        let unknown: Vec<_> = dashboard.difference(&exported).collect();
        assert!(unknown.is_empty() && dashboard.len() > 12, "{unknown:?}");
    }
    let rules = named(include_str!("../../../../deploy/lightloom-rules.yml"));
    let unknown: Vec<_> = rules.difference(&exported).collect();
    assert!(unknown.is_empty() && rules.len() > 2, "{unknown:?}");
    // A histogram goes by its first name in the manual.
    let family = |name: &String| {
        let ends = ["_bucket", "_sum", "_count"];
        let bare = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        bare.to_string()
    };
    let known: BTreeSet<String> = exported.iter().map(family).collect();
    let manual: BTreeSet<String> = named(MANUAL).iter().map(family).collect();
    assert_eq!(manual, known);
}

#[test]
fn every_alarm_has_its_section_and_says_what_to_do() {
    let sections: Vec<&str> = MANUAL.split("\n### ").skip(1).collect();
    let names: Vec<&str> = sections.iter().filter_map(|section| section.lines().next()).collect();
    assert_eq!(names, Alarm::NAMES);
    for section in sections {
        assert!(section.contains("\n*Do*: "), "{section}");
    }
}

/// The keys that the program reads, as `table.key`, out of the types that it reads them into.
fn keys() -> BTreeSet<String> {
    let source = include_str!("../../src/config/raw.rs");
    let tables = [
        ("Raw", ""),
        ("Listen", "listen."),
        ("Token", "token."),
        ("Switch", "switch."),
        ("Tls", "switch.tls."),
        ("Row", "servers."),
        ("Server", "server."),
        ("Decision", "decision."),
        ("Timing", "timing."),
        ("Journal", "journal."),
    ];
    let mut keys = BTreeSet::new();
    for part in source.split("pub(super) struct ").skip(1) {
        let name = part.split([' ', '{']).next().unwrap_or_default();
        let table = tables.iter().find(|table| table.0 == name).expect(name).1;
        let body = part.split("\n}").next().unwrap_or_default();
        let fields = body.lines().filter_map(|line| line.trim().strip_prefix("pub "));
        let fields = fields.filter_map(|line| line.split_once(": "));
        // A table of its own is named by its keys; a driver's own are said by `controller drivers`.
        let own = fields.filter(|(key, _)| *key != "own").filter(|(_, kind)| {
            let kind = kind.trim_end_matches(',');
            !tables.iter().any(|(name, _)| {
                [format!("Option<{name}>"), format!("Vec<{name}>"), (*name).into()]
                    .contains(&kind.to_string())
            })
        });
        keys.extend(own.map(|(key, _)| format!("{table}{key}")));
    }
    keys
}

#[test]
fn every_key_of_a_region_is_explained_and_no_other() {
    let cells = MANUAL.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let explained: BTreeSet<String> = cells
        .flat_map(|cell| cell.split(", "))
        .map(|key| key.trim_matches('`').to_string())
        .filter(|key| key != "timing.*" && !key.starts_with("lightloom_"))
        .filter(|key| key == "name" || key.contains('.') || key.contains('_'))
        .collect();
    assert_eq!(explained, keys());
}

#[test]
fn the_manual_names_no_key_of_a_driver_as_everyones() {
    let own = DRIVERS.iter().flat_map(|one| one.reach.settings().iter().chain(one.settings));
    let (mut own, keys) = (own.map(|setting| format!("switch.{}", setting.key)), keys());
    assert_eq!(own.find(|key| keys.contains(key)), None);
}

#[test]
fn the_regions_of_the_manual_can_be() {
    let whole = MANUAL.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let config = Config::read("region.toml".as_ref(), whole.expect("an example"))
        .map_err(|why| why.to_string())
        .expect("it can be read");
    assert_eq!((config.region.servers(), config.region.degree()), (2, 2));
}
