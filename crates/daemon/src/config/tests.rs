use super::*;
use crate::wire::Endpoint;

const GOOD: &str = r#"
name = "region-0"
[listen]
address = "127.0.0.1:0"
[[token]]
name = "trainer"
role = "tenant"
tenant = "blue"
sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
[switch]
protocol = "netconf"
address = "switch.example:830"
ports = 8
[[server]]
name = "one"
ports = [1, 2]
tenant = "blue"
[[server]]
name = "two"
ports = [7, 5]
tenant = "red"
[decision]
kind = "algorithm-1"
delay = "10 ms"
activation = "5 ms"
[timing]
lease = "2 s"
"#;

fn read(text: &str) -> Result<Config, String> {
    Config::read("here/region.toml".as_ref(), text).map_err(|why| why.to_string())
}

#[test]
fn what_is_written_is_what_is_had() {
    let config = read(GOOD).expect("good");
    assert_eq!(config.names.tenants, ["blue", "red"]);
    assert_eq!(config.region.switch_port((1, 0)).port, 7);
    assert_eq!(config.settings.lease, Time::from_ms(2000));
    assert_eq!(config.settings.audit, Settings::default().audit);
    assert_eq!(config.decider.settings().dark.expected(1), Time::from_ms(15));
    assert_eq!(config.journal, Path::new("here/region.journal"));
    assert!(!config.tokens.is_empty());
    assert_eq!((config.summary.tokens, config.summary.own_token), (1, None));
    let Endpoint::Command { program, arguments } = &config.switches[0].endpoint else {
        panic!("no ssh")
    };
    assert_eq!((program.as_str(), arguments.last().map(String::as_str)), ("ssh", Some("netconf")));
}

#[test]
fn another_wiring_is_another() {
    let of = |text: &str| read(text).expect("good").wiring();
    assert_eq!(of(GOOD), of(&GOOD.replace("2 s", "3 s").replace("algorithm-1", "timed")));
    for (from, to) in [("[7, 5]", "[5, 7]"), ("\"two\"", "\"three\""), ("ports = 8", "ports = 9")] {
        assert_ne!(of(GOOD), of(&GOOD.replace(from, to)), "{to}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    let cases = [
        ("ports = 8", "ports = 5000", "switch.ports: 5000: must be from 1 to 4096"),
        ("[7, 5]", "[7, 9]", "server[1].ports: 9: must be a port of the switch, from 1 to 8"),
        ("[7, 5]", "[7, 1]", "server[1].ports: 1: this port is taken already"),
        (
            "[7, 5]",
            "[7]",
            "server[1].ports: 1 ports: must name as many ports as the first server, 2",
        ),
        ("\"two\"", "\"one\"", "server[1].name: one: another server has this name"),
        (
            "tenant = \"red\"",
            "tenant = \"blue\"\n[servers]\ncount = 2\nports_each = 1",
            "servers: give either [servers] or [[server]], not both",
        ),
        (
            "127.0.0.1:0",
            "localhost",
            "listen.address: localhost: must be an IP address and a port: 127.0.0.1:8470",
        ),
        (
            "127.0.0.1:0",
            "0.0.0.0:1",
            "listen.address: 0.0.0.0:1 is not loopback: a certificate and its key are required",
        ),
        (
            "127.0.0.1:0\"",
            "127.0.0.1:0\"\ntoken_file = \"t\"",
            "listen.token_file: t: is for a controller without [[token]], which makes one",
        ),
        (
            "tenant = \"blue\"\nsha",
            "tenant = \"green\"\nsha",
            "token[0].tenant: green: must be one of blue, red",
        ),
        (
            digest,
            "secret",
            "token[0].sha256: the SHA-256 of a token has 64 hexadecimal digits (printf %s TOKEN | sha256sum)",
        ),
        ("switch.example:830", "switch", "switch.address: switch: must be host:port"),
        ("2 s", "2", "timing.lease: \"2\" is not a time: "),
        ("2 s", "2 ms", "timing.lease: 2 ms: must be from 100 ms to 3600 s"),
        ("10 ms\"", "10 ms\"\nuses = 0", "decision.uses: 0: must be 1 or more"),
        ("\"netconf\"", "\"tl1\"", "switch.user: missing: who we are to the switch"),
        ("\"netconf\"", "\"snmp\"", "switch.protocol: snmp: must be one of tl1, netconf"),
        (
            "ports = 8",
            "ports = 8\npassword = \"secret\"",
            "switch.password: netconf has no such key, only name, protocol, address, command, ports, tls, user",
        ),
        ("ports = 8", "ports = 8\nuser = 7", "switch.user: 7: must be text"),
        (
            "address = \"switch.example:830\"",
            "command = [\"ssh\"]\nuser = \"me\"",
            "switch.user: give it with an address, and without tls",
        ),
        (
            "\"netconf\"",
            "\"tl1\"\nuser = \"me\"\npassword_file = \"none\"",
            "switch.password_file: none: No such file",
        ),
    ];
    for (from, to, why) in cases {
        assert!(GOOD.contains(from), "{from}");
        let found = read(&GOOD.replacen(from, to, 1)).err().unwrap_or_default();
        let expected = format!("here/region.toml: {why}");
        assert!(found.starts_with(&expected) && !found.contains('\n'), "{found}\n{expected}");
    }
}

#[test]
fn what_is_no_key_is_named_with_its_line() {
    let text = GOOD.replace("kind =", "knd =");
    let why = read(&text).err().unwrap_or_default();
    assert!(why.starts_with("here/region.toml:23: unknown field `knd`, expected one of"), "{why}");
    let why = read("name = [").err().unwrap_or_default();
    assert!(why.starts_with("here/region.toml:1: ") && !why.contains('\n'), "{why}");
    let why = read("name = \"a\"").err().unwrap_or_default();
    assert!(why.contains("missing field `switch`"), "{why}");
}

const SEVERAL: &str = r#"
name = "region-0"
[[switch]]
name = "left"
protocol = "line"
address = "127.0.0.1:3082"
ports = 8
[[switch]]
protocol = "line"
address = "127.0.0.1:3083"
ports = 9
[[server]]
name = "one"
ports = ["left:1", "127.0.0.1:3083:9"]
[[server]]
name = "two"
ports = ["127.0.0.1:3083:1", "left:8"]
"#;

#[test]
fn ports_of_several_switches_are_named_with_them() {
    let config = read(SEVERAL).expect("good");
    assert_eq!(config.names.switches, ["left", "127.0.0.1:3083"]);
    let at = |server, port| {
        let at = config.region.switch_port((server, port));
        (at.switch, at.port)
    };
    assert_eq!([at(0, 0), at(0, 1), at(1, 0), at(1, 1)], [(0, 1), (1, 9), (1, 1), (0, 8)]);
    assert_eq!(config.summary.switches[1].at, "line at 127.0.0.1:3083");
    let other = SEVERAL.replace("left:8", "left:7");
    assert_ne!(config.wiring(), read(&other).expect("good").wiring());
    for (from, to, why) in [
        (
            "\"left:1\"",
            "1",
            "server[0].ports: 1: must be \"SWITCH:PORT\", for there are several switches",
        ),
        (
            "left:8",
            "right:8",
            "server[1].ports: right:8: must be a port of one of the switches left, 127.0.0.1:3083",
        ),
        ("left:8", "left:9", "server[1].ports: left:9: must be a port of the switch, from 1 to 8"),
        ("left:8", "left:1", "server[1].ports: left:1: this port is taken already"),
        ("left:8", "left:x", "server[1].ports: left:x: must be a port of the switch, from 1 to 8"),
        (
            "\"left\"",
            "\"127.0.0.1:3083\"",
            "switch[1].name: 127.0.0.1:3083: another switch has this name",
        ),
        ("ports = 9", "ports = 0", "switch[1].ports: 0: must be from 1 to 4096"),
        ("\"left:8\"", "true", "server[1].ports: true: must be a port of a switch"),
    ] {
        assert!(SEVERAL.contains(from), "{from}");
        let found = read(&SEVERAL.replacen(from, to, 1)).err().unwrap_or_default();
        let expected = format!("here/region.toml: {why}");
        assert!(found.starts_with(&expected) && !found.contains('\n'), "{found}\n{expected}");
    }
}

#[test]
fn servers_in_a_row_are_spread_over_switches_in_turn() {
    let head = &SEVERAL[..SEVERAL.find("[[server]]").expect("servers")];
    let config = read(&format!("{head}[servers]\ncount = 4\nports_each = 3\n")).expect("good");
    let at = |server, port| {
        let at = config.region.switch_port((server, port));
        (at.switch, at.port)
    };
    assert_eq!([at(0, 0), at(0, 1), at(0, 2)], [(0, 1), (1, 1), (0, 2)]);
    assert_eq!([at(3, 0), at(3, 1), at(3, 2)], [(0, 7), (1, 4), (0, 8)]);
    let many = read(&format!("{head}[servers]\ncount = 5\nports_each = 3\n")).err();
    let why = "here/region.toml: servers.first_port: 1: the ports of left would be 1 to 10; it has 1 to 8";
    assert_eq!(many.as_deref(), Some(why));
}
