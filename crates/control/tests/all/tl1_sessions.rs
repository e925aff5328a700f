//! Sessions with the emulated switch, as text: what goes in, what comes out.

use lightloom_control::drivers::tl1::{Secret, SessionId, Settings, Stamp, Tl1Server, User};
use lightloom_control::ocs::{Device, Switch};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;

fn server() -> Tl1Server {
    let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(25) };
    let switch = Switch::new(Device { name: "polatis".into(), ports: 8, delay }, 1).unwrap();
    let user = |name: &str, slice| User {
        name: name.into(),
        password: Secret::new(format!("{name}-pass")),
        slice,
    };
    let users =
        vec![user("root", None), user("red", Some(vec![1, 2, 3])), user("blue", Some(vec![4, 5]))];
    Tl1Server::new(
        switch,
        Settings { sid: "OCS".into(), users, start: Stamp::from_unix(1_795_282_198) },
    )
}

/// What comes, without blank lines, carriage returns and the header's date.
fn heard(server: &mut Tl1Server, session: SessionId) -> Vec<String> {
    let text = String::from_utf8(server.transmit(session).unwrap_or_default()).unwrap();
    assert!(text.is_empty() || text.starts_with("\r\n\n   OCS 26-11-21 17:29:5"), "{text:?}");
    let lines = text.split("\r\n").map(str::trim).filter(|line| !line.is_empty());
    lines.filter(|line| !line.starts_with("OCS ")).map(str::to_owned).collect()
}

/// Says each line at its time [ms] and compares what comes.
fn play(server: &mut Tl1Server, session: SessionId, table: &[(u64, &str, &[&str])]) {
    for (ms, said, expected) in table {
        server.receive(Time::from_ms(*ms), session, said.as_bytes());
        assert_eq!(heard(server, session), *expected, "after {said:?} at {ms} ms");
    }
}

#[test]
fn a_session_by_hand() {
    let mut server = server();
    let session = server.open();
    let quiet: &[&str] = &["M  2 COMPLD", ";"];
    let device = concat!("\"LIGHTLOOM,polatis,OCS,", env!("CARGO_PKG_VERSION"), "\"");
    play(
        &mut server,
        session,
        &[
            (0, "RTRV-NETYPE:::1:;\n", &["M  1 DENY", "PLNA", "/* log in first */", ";"]),
            (
                0,
                "act-user::root:1::wrong;",
                &["M  1 DENY", "PIUI", "/* no such user, or another password */", ";"],
            ),
            (0, "act-user::root:1::root-pass;\r\n", &["M  1 COMPLD", ";"]),
            (0, "INH-MSG-ALL:::2:;", quiet),
            (0, "RTRV-NETYPE:::3:;", &["M  3 COMPLD", device, ";"]),
            (
                0,
                "RTRV-EQPT:ocs:SYSTEM:4:::PARAMETER=SIZE;",
                &["M  4 COMPLD", "\"SYSTEM:SIZE=8x8\"", ";"],
            ),
            // Nothing until the mirrors are still; then the patches, that were asked for meanwhile, too.
            (0, "ENT-PATCH::1&&2&4,9&12&11:5:;RTRV-PATCH:::6:;", &[]),
            (24, "", &[]),
            (25, "", &["M  5 COMPLD", ";", "M  6 COMPLD", "\"1,9\"", "\"2,12\"", "\"4,11\"", ";"]),
            (
                25,
                "RTRV-PATCH::12&4&1:7:;",
                &["M  7 COMPLD", "\"1,9\"", "\"2,12\"", "\"4,11\"", ";"],
            ),
            (25, "ENT-PATCH::1,9:8:;", &["M  8 COMPLD", ";"]),
            (25, "ENT-PATCH::3,9:9:;", &["M  9 DENY", "SNVS", "/* port 9 is in use */", ";"]),
            (25, "DLT-PATCH::1&12:10:;", &["M  10 COMPLD", ";"]),
            (25, "DLT-PATCH::1:11:;", &["M  11 COMPLD", ";"]),
            (25, "RTRV-PATCH::ALL:12:;", &["M  12 COMPLD", "\"4,11\"", ";"]),
            (25, "OPR-PORT-SHUTTER::4&12:13:;", &["M  13 COMPLD", ";"]),
            (
                25,
                "RTRV-PORT-SHUTTER::3&&4:14:;",
                &["M  14 COMPLD", "\"3:OPEN\"", "\"4:CLOSED\"", ";"],
            ),
            (25, "RLS-PORT-SHUTTER::ALL:15:;", &["M  15 COMPLD", ";"]),
            (25, "RTRV-PORT-SHUTTER::4:16:;", &["M  16 COMPLD", "\"4:OPEN\"", ";"]),
            (
                25,
                "DLT-PATCH::ALL:17:;RTRV-PATCH:::18:;",
                &["M  17 COMPLD", ";", "M  18 COMPLD", ";"],
            ),
            (25, "CANC-USER::root:19:;", &["M  19 COMPLD", ";"]),
            (25, "RTRV-PATCH:::20:;", &["M  20 DENY", "PLNA", "/* log in first */", ";"]),
        ],
    );
}

#[test]
fn every_code_has_its_command() {
    let mut server = server();
    let session = server.open();
    let denied = |server: &mut Tl1Server, said: &str| {
        server.receive(Time::ZERO, session, said.as_bytes());
        let heard = heard(server, session);
        assert!(heard[0].ends_with("DENY"), "{said}: {heard:?}");
        heard[1].clone()
    };
    assert_eq!(denied(&mut server, "RTRV-PATCH:::1:;"), "PLNA");
    assert_eq!(denied(&mut server, "ACT-USER::green:1::root-pass;"), "PIUI");
    server.receive(Time::ZERO, session, b"ACT-USER::red:1::\"red-pass\";ENT-PATCH::3,9:1:;");
    heard(&mut server, session);
    let long = format!("RTRV-PATCH::{}:1:;", "1&".repeat(40_000));
    for (said, code) in [
        ("BREW-COFFEE::POT:1:;", "IICM"),
        ("RTRV-PATCH;", "IISP"),
        ("RTRV-PATCH::\u{e9}:1:;", "IISP"),
        (long.as_str(), "IISP"),
        ("RTRV-PATCH:OTHER::1:;", "IITA"),
        ("RTRV-PATCH::17:1:;", "IIAC"),
        ("RTRV-PATCH::0:1:;", "IIAC"),
        ("RTRV-PATCH::4&&2:1:;", "IIAC"),
        ("RTRV-PATCH::1&&:1:;", "IIAC"),
        ("RTRV-PATCH::1&&2&&3:1:;", "IIAC"),
        ("RTRV-PATCH::1&&9000:1:;", "IIAC"),
        ("ENT-PATCH::9,1:1:;", "IIAC"),
        ("RTRV-EQPT::SHELF:1:::PARAMETER=SIZE;", "IIAC"),
        ("RTRV-PATCH:::1234567:;", "IICT"),
        ("RTRV-PATCH:::a-b:;", "IICT"),
        ("ENT-PATCH::1:1:;", "IPMS"),
        ("ACT-USER:::1::x;", "IPMS"),
        ("RTRV-PATCH:::1::MORE;", "IPEX"),
        ("RTRV-EQPT::SYSTEM:1:::PARAMETER=COLOUR;", "IPNV"),
        ("RTRV-PATCH:::1:LATER;", "IPNV"),
        ("ENT-PATCH::1&2,10:1:;", "IDNV"),
        ("ENT-PATCH::1,12:1:;", "PIUC"),
        ("ENT-PATCH::3,10:1:;", "SARB"),
        // It stands, but nobody may rely on it yet.
        ("ENT-PATCH::3,9:1:;", "SARB"),
        ("ENT-PATCH::1&1,10&11:1:;", "SNVS"),
        ("CANC-USER::root:1:;", "PIUI"),
    ] {
        assert_eq!(denied_code(&mut server, session, said), code, "{said:.60}");
    }
}

fn denied_code(server: &mut Tl1Server, session: SessionId, said: &str) -> String {
    // A session of its own would do, but for the patch that moves: answers keep their order.
    let other = server.open();
    server.receive(Time::ZERO, other, b"ACT-USER::red:1::red-pass;");
    heard(server, other);
    server.receive(Time::ZERO, other, said.as_bytes());
    let heard = heard(server, other);
    server.close(other);
    assert!(server.is_open(session) && heard[0].ends_with("DENY"), "{said:.60}: {heard:?}");
    heard[1].clone()
}

#[test]
fn a_slice_is_all_that_its_user_reaches_and_sees() {
    let mut server = server();
    let [root, red, blue] = ["root", "red", "blue"].map(|name| {
        let session = server.open();
        let login = format!("ACT-USER::{name}:1::{name}-pass;INH-MSG-ALL:::2:;");
        server.receive(Time::ZERO, session, login.as_bytes());
        assert_eq!(heard(&mut server, session).len(), 4);
        session
    });
    // Ports 1 to 3 are red, 4 and 5 blue, 6 to 8 nobody's. A patch of both, and one of neither.
    play(
        &mut server,
        root,
        &[(0, "ENT-PATCH::2&4&6,12&13&14:1:;", &[]), (25, "", &["M  1 COMPLD", ";"])],
    );
    let foreign = |port: &str| {
        vec![
            "M  1 DENY".to_owned(),
            "PIUC".into(),
            format!("/* port {port} is not yours */"),
            ";".into(),
        ]
    };
    for (session, said, port) in [
        (red, "ENT-PATCH::1,12:1:;", "12"),
        (red, "ENT-PATCH::4,9:1:;", "4"),
        (red, "DLT-PATCH::2:1:;", "12"),
        (red, "DLT-PATCH::6:1:;", "6"),
        (red, "RTRV-PATCH::1&4:1:;", "4"),
        (red, "OPR-PORT-SHUTTER::1&12:1:;", "12"),
        (red, "RTRV-PORT-POWER::16:1:;", "16"),
        (blue, "DLT-PATCH::12:1:;", "2"),
        (blue, "RTRV-PORT-SHUTTER::1:1:;", "1"),
    ] {
        server.receive(Time::from_ms(25), session, said.as_bytes());
        assert_eq!(heard(&mut server, session), foreign(port), "{said}");
    }
    play(
        &mut server,
        red,
        &[
            (25, "RTRV-PATCH:::1:;", &["M  1 COMPLD", "\"2,12\"", ";"]),
            (25, "DLT-PATCH::ALL:2:;", &["M  2 COMPLD", ";"]),
            (25, "OPR-PORT-SHUTTER::ALL:3:;", &["M  3 COMPLD", ";"]),
        ],
    );
    play(
        &mut server,
        blue,
        &[
            (25, "RTRV-PATCH:::1:;", &["M  1 COMPLD", "\"2,12\"", "\"4,13\"", ";"]),
            (
                25,
                "RTRV-PORT-SHUTTER:::2:;",
                &["M  2 COMPLD", "\"4:OPEN\"", "\"5:OPEN\"", "\"12:OPEN\"", "\"13:OPEN\"", ";"],
            ),
            (
                25,
                "DLT-PATCH::ALL:3:;RTRV-PATCH:::4:;",
                &["M  3 COMPLD", ";", "M  4 COMPLD", "\"2,12\"", ";"],
            ),
        ],
    );
    let closed: Vec<u16> = (1..=16).filter(|port| server.switch().is_closed(*port)).collect();
    assert_eq!(closed, [1, 2, 3, 9, 10, 11]);
    assert_eq!(server.switch().patches().count(), 2, "that of both stays, and nobody's");
}

#[test]
fn what_nobody_asked_for_reaches_all_that_may_see_it() {
    let mut server = server();
    let sessions = ["root", "red", "blue", "red"].map(|name| {
        let session = server.open();
        server.receive(Time::ZERO, session, format!("ACT-USER::{name}:1::{name}-pass;").as_bytes());
        session
    });
    let stranger = server.open();
    server.receive(Time::ZERO, sessions[3], b"OPR-ARC-EQPT::REPMGR:2::IND;");
    server.receive(Time::ZERO, sessions[0], b"ENT-PATCH::1&6,10&14:2:;");
    for session in sessions {
        heard(&mut server, session);
    }
    server.timeout(Time::from_ms(25));
    let report = |counts: &str| {
        let line = format!("\"SYSTEM:PATCH,TC,11-21,17-29-58,,,,:\\\"{counts}\\\"\"");
        vec!["A  1 REPT EVT PATCH".to_owned(), line, ";".into()]
    };
    let mut first = report("0 ended, 2 set");
    first.extend(["M  2 COMPLD".to_owned(), ";".into()]);
    let nothing = Vec::<String>::new();
    let seen = sessions.map(|session| heard(&mut server, session));
    assert_eq!(seen, [first, report("0 ended, 1 set"), nothing.clone(), nothing.clone()]);

    server.switch_mut().illuminate(Time::from_ms(25), 1, Some(0.0));
    server.timeout(Time::from_ms(1500));
    server.switch_mut().illuminate(Time::from_ms(25), 1, None);
    server.timeout(Time::from_ms(1500));
    let seen = heard(&mut server, sessions[1]);
    assert_eq!(seen[..3], ["A  2 REPT ALM PORT", "\"1:CL,LOS,SA,11-21,17-29-59\"", ";"]);
    assert_eq!(seen[6..9], ["** 4 REPT ALM PORT", "\"1:MJ,LOS,SA,11-21,17-29-59\"", ";"]);
    assert_eq!(
        (heard(&mut server, sessions[2]), heard(&mut server, stranger)),
        (nothing.clone(), nothing)
    );
    play(
        &mut server,
        sessions[3],
        &[(1500, "RTRV-PORT-POWER::1:3:;", &["M  3 COMPLD", "\"1:-50.00\"", ";"])],
    );
}

#[test]
fn sessions_do_not_wait_for_each_other() {
    let mut server = server();
    let sessions: Vec<SessionId> = (0..200).map(|_| server.open()).collect();
    for (n, session) in sessions.iter().enumerate() {
        server.receive(Time::ZERO, *session, b"ACT-USER::root:1::root-pass;INH-MSG-ALL:::1:;");
        assert_eq!(heard(&mut server, *session).len(), 4);
        if n < 8 {
            let change = format!("ENT-PATCH::{},{}:2:;", n + 1, 16 - n);
            server.receive(Time::from_ms(n as u64), *session, change.as_bytes());
        }
    }
    server.receive(Time::from_ms(10), sessions[199], b"RTRV-PATCH:::3:;");
    assert_eq!(heard(&mut server, sessions[199]).len(), 10);
    assert_eq!(server.next_timeout(), Some(Time::from_ms(25)));
    server.timeout(Time::from_ms(28));
    let waiting: Vec<SessionId> = server.waiting().collect();
    assert_eq!(waiting, sessions[..4], "the first four are done");
    sessions.iter().for_each(|session| server.close(*session));
    assert_eq!((server.sessions(), server.switch().patches().count()), (0, 8));
}

#[test]
fn a_session_that_does_not_read_is_closed_and_the_others_are_not() {
    let mut server = server();
    let [deaf, other] = [server.open(), server.open()];
    server.receive(Time::ZERO, deaf, b"ACT-USER::root:1::root-pass;");
    let ask = b"RTRV-PORT-SHUTTER:::2:;".repeat(1000);
    for _ in 0..20 {
        server.receive(Time::ZERO, deaf, &ask);
    }
    assert!(!server.is_open(deaf) && server.is_open(other));
    assert_eq!(server.transmit(deaf), None);
    // So is one that asks for ever more while a change is under way.
    let eager = server.open();
    server.receive(Time::ZERO, eager, b"ACT-USER::root:1::root-pass;ENT-PATCH::1,9:2:;");
    server.receive(Time::ZERO, eager, &b"RTRV-NETYPE:::3:;".repeat(255));
    assert!(server.is_open(eager));
    server.receive(Time::ZERO, eager, &b"RTRV-NETYPE:::3:;".repeat(10));
    assert!(!server.is_open(eager));
    server.receive(Time::ZERO, eager, b"RTRV-NETYPE:::3:;");
    server.timeout(Time::from_ms(25));
    assert_eq!(server.switch().patches().count(), 1, "what was begun goes on");
}

#[test]
fn a_session_of_the_documentation() {
    let text = include_str!("../../../../docs/tl1.md");
    let (_, session) = text.split_once("```text\n").unwrap();
    let (session, _) = session.split_once("```").unwrap();
    let mut server = documented();
    let id = server.open();
    let mut now = Time::ZERO;
    let mut steps = 0;
    for step in session.split("> ").skip(1) {
        let (typed, expected) = step.split_once('\n').unwrap();
        server.receive(now, id, format!("{typed}\n").as_bytes());
        if let Some(next) = server.next_timeout() {
            now = next;
            server.timeout(now);
        }
        let heard = String::from_utf8(server.transmit(id).unwrap()).unwrap();
        assert_eq!(heard.replace("\r\n\n", "\n").replace("\r\n", "\n") + "\n", expected);
        steps += 1;
    }
    assert_eq!(steps, 7);
    // Every code and its words are in the table of the page.
    for code in lightloom_control::drivers::tl1::Code::ALL {
        let (letters, words) = code.words();
        assert!(text.contains(&format!("| `{letters}` | {words} |")), "{letters}");
    }
    // And the message that the session did without.
    let (_, message) = text.split_once("```text\n   OCS").unwrap();
    let (message, _) = message.split_once("```").unwrap();
    server.receive(now, id, b"ALW-MSG-ALL:::8:;ENT-PATCH::1&5,13&9:9:;");
    server.transmit(id);
    server.timeout(now + Time::from_ms(25));
    let heard = String::from_utf8(server.transmit(id).unwrap()).unwrap().replace("\r\n", "\n");
    let report = heard.lines().find(|line| line.contains("SYSTEM:PATCH")).unwrap();
    assert!(message.contains(report), "{report}");
}

/// As the page has it: root may do all, and says so.
fn documented() -> Tl1Server {
    let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(25) };
    let switch = Switch::new(Device { name: "polatis".into(), ports: 8, delay }, 1).unwrap();
    let user = User { name: "root".into(), password: Secret::new("root"), slice: None };
    let start = Stamp::from_unix(1_795_282_198);
    Tl1Server::new(switch, Settings { sid: "OCS".into(), users: vec![user], start })
}
