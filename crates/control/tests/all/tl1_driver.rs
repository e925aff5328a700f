//! The TL1 driver against the TL1 server, in memory; text both ways; arbitrary bytes.

use lightloom_control::drivers::tl1::{
    Command, Framer, Login, Message, Options, Ports, Request, Secret, Settings, Stamp, Tl1Driver,
    Tl1Server, User, lines,
};
use lightloom_control::ocs::{Device, Switch};
use lightloom_control::{Answer, Driver, DriverEvent, Order, Patch};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const PORTS: u16 = 12;

fn server(ports: u16, delay_ms: u64, slice: Option<Vec<u16>>) -> Tl1Server {
    let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(delay_ms) };
    let switch = Switch::new(Device { name: "polatis".into(), ports, delay }, 1).unwrap();
    let user = User { name: "region".into(), password: Secret::new("a;b:c"), slice };
    let settings = Settings { sid: "OCS".into(), users: vec![user], start: Stamp::from_unix(0) };
    Tl1Server::new(switch, settings)
}

fn driver(slice: &[u16], longest: usize) -> Tl1Driver {
    let login = Login { user: "region".into(), password: Secret::new("a;b:c") };
    let options = Options { longest, ..Options::default() };
    let mut driver = Tl1Driver::new(login, slice, options).unwrap();
    driver.connected(Time::ZERO);
    driver
}

/// Both ends, joined; bytes go in pieces of this size.
struct Link {
    server: Tl1Server,
    session: lightloom_control::drivers::tl1::SessionId,
    driver: Tl1Driver,
    piece: usize,
    now: Time,
}

impl Link {
    fn new(mut server: Tl1Server, driver: Tl1Driver, piece: usize) -> Self {
        let session = server.open();
        Link { server, session, driver, piece, now: Time::ZERO }
    }

    /// Carries bytes and time until nothing moves any more; returns what the driver has to tell.
    fn settle(&mut self) -> Vec<DriverEvent> {
        let mut events = Vec::new();
        loop {
            let mut quiet = true;
            while let Some(bytes) = self.driver.transmit() {
                quiet = false;
                for piece in bytes.chunks(self.piece) {
                    self.server.receive(self.now, self.session, piece);
                }
            }
            while let Some(bytes) = self.server.transmit(self.session) {
                quiet = false;
                for piece in bytes.chunks(self.piece) {
                    self.driver.receive(self.now, piece);
                }
            }
            events.extend(std::iter::from_fn(|| self.driver.event()));
            match self.server.next_timeout() {
                _ if !quiet => {}
                Some(next) => {
                    self.now = next;
                    self.server.timeout(next);
                }
                None => return events,
            }
        }
    }

    fn answers(&mut self) -> Vec<(u64, Answer)> {
        let seen = self.settle().into_iter();
        seen.filter_map(|event| match event {
            DriverEvent::Answer { id, answer } => Some((id, answer)),
            DriverEvent::Down(why) => panic!("{why}"),
            _ => None,
        })
        .collect()
    }
}

/// Egress by ingress, within a slice.
fn state() -> impl Strategy<Value = BTreeMap<u16, u16>> {
    let shuffled = Just((1..=PORTS).collect::<Vec<u16>>()).prop_shuffle();
    (shuffled, prop::collection::vec(any::<bool>(), usize::from(PORTS))).prop_map(|(to, kept)| {
        let pairs = (1..=PORTS).zip(to).zip(kept);
        pairs.filter(|(_, kept)| *kept).map(|((from, to), _)| (from, PORTS + to)).collect()
    })
}

fn patches(state: &BTreeMap<u16, u16>) -> Vec<Patch> {
    state.iter().map(|(from, to)| Patch::new(*from, *to)).collect()
}

proptest! {
    #[test]
    fn legal_orders_leave_the_switch_as_asked(
        states in prop::collection::vec(state(), 1..6),
        longest in prop::sample::select(vec![0, 90, 4096]),
        piece in prop::sample::select(vec![1, 7, 100_000]),
        delay in 0..2u64,
    ) {
        let slice: Vec<u16> = (1..=PORTS).collect();
        let mut link = Link::new(server(PORTS, delay, None), driver(&slice, longest), piece);
        let device = concat!("LIGHTLOOM,polatis,OCS,", env!("CARGO_PKG_VERSION"));
        let up = DriverEvent::Up { device: device.into(), ports: PORTS };
        prop_assert_eq!(link.settle(), vec![up]);
        let mut held = BTreeMap::new();
        for (round, wanted) in (0u64..).zip(states) {
            let (old, new) = (patches(&held), patches(&wanted));
            let end = old.iter().copied().filter(|patch| !new.contains(patch)).collect();
            let set = new.iter().copied().filter(|patch| !old.contains(patch)).collect();
            // Both are asked at once: the switch reads back what it was just ordered.
            link.driver.order(link.now, 2 * round, &Order::Apply { end, set });
            link.driver.order(link.now, 2 * round + 1, &Order::Read);
            let expected = vec![(2 * round, Answer::Done), (2 * round + 1, Answer::State(new.clone()))];
            prop_assert_eq!(link.answers(), expected);
            prop_assert_eq!(link.server.switch().patches().collect::<Vec<_>>(), new);
            held = wanted;
        }
    }

    #[test]
    fn commands_read_back_as_they_were_written(request in request()) {
        let text = request.to_string();
        prop_assert_eq!(text.bytes().filter(|byte| *byte == b';').count(), 1 + semicolons(&request));
        let mut framer = Framer::commands(1 << 16);
        let mut input = text.as_bytes();
        let Some(lightloom_control::drivers::tl1::Frame::Whole(frame, b';')) = framer.next(&mut input) else {
            panic!("no frame in {text}");
        };
        prop_assert!(input.is_empty());
        prop_assert_eq!(Request::parse(&frame).unwrap(), request);
    }

    #[test]
    fn bytes_of_any_kind_leave_the_server_legal(
        pieces in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            fragments(),
        ], 0..40),
        logged_in: bool,
    ) {
        let mut server = server(PORTS, 1, Some(vec![1, 2, 3, 4]));
        let session = server.open();
        if logged_in {
            server.receive(Time::ZERO, session, b"ACT-USER::region:1::\"a;b:c\";");
        }
        for (ms, piece) in (0..).zip(pieces) {
            server.receive(Time::from_ms(ms), session, &piece);
            let patches: Vec<Patch> = server.switch().patches().collect();
            let ports: BTreeSet<u16> = patches.iter().flat_map(|p| [p.ingress, p.egress]).collect();
            prop_assert_eq!(ports.len(), 2 * patches.len());
            prop_assert!(patches.iter().all(|p| p.ingress <= 4 && (13..=16).contains(&p.egress)));
            prop_assert!(logged_in || patches.is_empty());
            if let Some(bytes) = server.transmit(session) {
                let mut framer = lightloom_control::drivers::tl1::Framer::replies(1 << 20);
                let mut input = &bytes[..];
                while let Some(lightloom_control::drivers::tl1::Frame::Whole(text, b';')) = framer.next(&mut input) {
                    Message::parse(std::str::from_utf8(&text).unwrap()).unwrap();
                }
                prop_assert!(input.is_empty() && framer.held() == 0);
            }
        }
    }

    #[test]
    fn bytes_of_any_kind_do_not_upset_the_driver(
        pieces in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            said(),
        ], 0..30),
    ) {
        let mut driver = driver(&[1, 2, 3], 4096);
        let (mut downs, mut answered) = (0, 0);
        for (id, piece) in (0..).zip(pieces) {
            driver.receive(Time::ZERO, &piece);
            driver.order(Time::ZERO, id, &Order::Read);
            for event in std::iter::from_fn(|| driver.event()) {
                match event {
                    DriverEvent::Down(_) => downs += 1,
                    DriverEvent::Answer { id: answer, .. } => {
                        prop_assert!(answer >= answered && answer <= id);
                        answered = answer;
                    }
                    DriverEvent::Up { ports, .. } => prop_assert!(downs == 0 && ports >= 3),
                    DriverEvent::Term(_) | DriverEvent::Fenced(_) => {
                        prop_assert!(false, "TL1 has no terms");
                    }
                    DriverEvent::Notice(text) => prop_assert!(text.chars().count() <= 1000),
                }
            }
        }
        prop_assert!(downs <= 1, "down once, and quiet until there is a new stream");
    }
}

fn semicolons(request: &Request) -> usize {
    match &request.command {
        Command::Login { user, .. } | Command::Logout { user } => user.matches(';').count(),
        _ => 0,
    }
}

fn request() -> impl Strategy<Value = Request> {
    let port = prop_oneof![1..30u16, 1..=8192u16];
    let list = prop_oneof![
        prop::collection::vec(port.clone(), 1..40),
        (1..8000u16, 1..100u16).prop_map(|(from, count)| (from..from + count).collect()),
    ];
    let ports = prop_oneof![Just(Ports::All), list.prop_map(Ports::These)];
    let patch = (port.clone(), port).prop_map(|(from, to)| Patch::new(from, to));
    let name = "[a-z:;, ]{0,6}x";
    let login = (name, "[a-zA-Z0-9._@-]{1,8}")
        .prop_map(|(user, password)| Command::Login { user, password: Secret::new(password) });
    let with = |command: fn(Ports) -> Command| ports.clone().prop_map(command);
    let command = prop_oneof![
        login,
        name.prop_map(|user| Command::Logout { user }),
        prop::collection::vec(patch, 1..40).prop_map(Command::Enter),
        with(Command::Delete),
        with(Command::Patches),
        with(Command::Shut),
        with(Command::Open),
        with(Command::Shutters),
        with(Command::Power),
        Just(Command::Size),
        Just(Command::Kind),
        any::<bool>().prop_map(Command::Messages),
    ];
    ("[A-Z0-9-]{0,8}", "[a-zA-Z0-9]{1,6}", command).prop_map(|(tid, ctag, command)| Request {
        tid,
        ctag,
        command,
    })
}

/// Pieces of commands, that now and then make a whole one.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let words = vec![
        "ENT-PATCH::",
        "DLT-PATCH::",
        "RTRV-PATCH::",
        "OPR-PORT-SHUTTER::",
        "1",
        "2",
        "&",
        "&&",
        "4",
        ",",
        "13",
        "14&&16",
        "12",
        "65535",
        ":1:;",
        ":;",
        ";",
        "\"",
        "ALL:2:;",
        "\r\n",
        ":",
        "ENT-PATCH::1&&3,13&&15:1:;",
        "DLT-PATCH:::1:;",
        "ENT-PATCH::1,17:1:;",
        "RTRV-PATCH::1&&65535&1&&65535:1:;",
        "CANC-USER:::1:;",
    ];
    prop::collection::vec(prop::sample::select(words), 1..8)
        .prop_map(|words| words.concat().into_bytes())
}

/// What a switch says, more or less.
fn said() -> impl Strategy<Value = Vec<u8>> {
    let words = vec![
        "\r\n\n   OCS 26-11-21 17:00:00\r\n",
        "M  1 COMPLD\r\n;",
        "M  2 COMPLD\r\n;",
        "M  3 COMPLD\r\n",
        "   \"SYSTEM:SIZE=8x8\"\r\n;",
        "   \"1,9\"\r\n",
        ";",
        ">",
        "<",
        "IP 1\r\n<",
        "\r\n",
        "A  1 REPT EVT PATCH\r\n   \"x\"\r\n;",
        "M  4 DENY\r\n   SARB\r\n;",
        "   \"1,\"\r\n",
        "   \"9,1\"\r\n",
        "\r\n\n   OCS 26-11-21 17:00:00\r\nM  1 COMPLD\r\n;\r\n\n   OCS 26-11-21 17:00:00\r\nM  2 COMPLD\r\n;\r\n\n   OCS 26-11-21 17:00:00\r\nM  3 COMPLD\r\n   \"SYSTEM:SIZE=8x8\"\r\n;",
    ];
    prop::collection::vec(prop::sample::select(words), 1..8)
        .prop_map(|words| words.concat().into_bytes())
}

#[test]
fn a_slice_reads_its_own_and_refuses_what_leaves_it() {
    let mut server = server(PORTS, 1, Some(vec![2, 4, 6]));
    let foreign = Patch::new(1, PORTS + 3);
    server.switch_mut().tamper(&[], &[foreign]);
    let mut link = Link::new(server, driver(&[2, 4, 6], 4096), 100);
    link.settle();
    let set = Patch::pair(PORTS, 2, 6).to_vec();
    link.driver.order(Time::ZERO, 1, &Order::Apply { end: vec![], set: set.clone() });
    link.driver.order(Time::ZERO, 2, &Order::Apply { end: vec![foreign], set: vec![] });
    link.driver.order(Time::ZERO, 3, &Order::Apply { end: vec![], set: vec![Patch::new(2, 99)] });
    link.driver.order(Time::ZERO, 4, &Order::Read);
    link.driver.order(Time::ZERO, 5, &Order::Apply { end: vec![], set: vec![] });
    let refused = |words: &str| Answer::Refused(words.into());
    let expected = [
        (1, Answer::Done),
        (2, refused("1,15 leaves the slice")),
        (3, refused("2,99 leaves the slice")),
        (4, Answer::State(set)),
        (5, Answer::Done),
    ];
    assert_eq!(link.answers(), expected);
}

#[test]
fn what_the_switch_denies_is_refused_in_its_words() {
    let mut link = Link::new(server(PORTS, 25, None), driver(&[1, 2, 3], 4096), 100);
    link.settle();
    let set = |from, to| Order::Apply { end: vec![], set: vec![Patch::new(from, PORTS + to)] };
    link.driver.order(link.now, 1, &set(1, 2));
    link.driver.order(link.now, 2, &set(3, 2));
    let words = "SARB port 14 is still moving".into();
    assert_eq!(link.answers(), [(1, Answer::Done), (2, Answer::Refused(words))]);
    link.driver.order(link.now, 3, &set(3, 2));
    assert_eq!(link.answers(), [(3, Answer::Refused("SNVS port 14 is in use".into()))]);
}

#[test]
fn a_lying_switch_is_found_by_reading() {
    let mut link = Link::new(server(PORTS, 25, None), driver(&[1, 2, 3], 4096), 100);
    link.settle();
    link.server.switch_mut().stick(1, true);
    let set = Patch::pair(PORTS, 1, 2).to_vec();
    link.driver.order(link.now, 1, &Order::Apply { end: vec![], set: set.clone() });
    link.driver.order(link.now, 2, &Order::Read);
    assert_eq!(link.answers(), [(1, Answer::Done), (2, Answer::State(vec![set[1]]))]);
}

#[test]
fn what_makes_no_sense_ends_the_stream() {
    let header = "\r\n\n   OCS 26-11-21 17:00:00\r\n";
    let entered = format!("{header}M  1 COMPLD\r\n;{header}M  2 COMPLD\r\n   \"a,b\"\r\n;");
    for (said, why) in [
        (format!("{header}M  9 COMPLD\r\n;"), "an answer to 9 before that to 1"),
        (format!("{header}M  1 MAYBE\r\n;"), "neither an answer nor a report: \"M  1 MAYBE\""),
        ("login: \r\n;".into(), "no header: \"login:\""),
        (format!("{header}M  1 DENY\r\n   PIUI\r\n   /* no */\r\n;"), "login denied: PIUI no"),
        (
            format!("{entered}{header}M  3 COMPLD\r\n   \"SYSTEM:SIZE=8x9\"\r\n;"),
            "a size that is none: \"SYSTEM:SIZE=8x9\"",
        ),
        (
            format!("{entered}{header}M  3 COMPLD\r\n   \"SYSTEM:SIZE=2x2\"\r\n;"),
            "it has 2 ports; port 3 is to be one of them",
        ),
        (format!("{entered}{header}M  3 DENY\r\n   IICM\r\n;"), "its make or size denied: IICM"),
        ("x".repeat((1 << 20) + 1) + "\r\n;", "a message without end"),
        ("\u{e9}\r\n;".into(), "no header: \"\u{e9}\""),
    ] {
        let mut driver = driver(&[1, 2, 3], 4096);
        driver.receive(Time::ZERO, said.as_bytes());
        assert_eq!(driver.event(), Some(DriverEvent::Down(why.into())));
        // Whatever comes after it is not heard, until there is a new stream.
        driver.receive(Time::ZERO, said.as_bytes());
        assert_eq!((driver.event(), driver.next_timeout()), (None, None));
        driver.connected(Time::ZERO);
        assert!(driver.transmit().unwrap().starts_with(b"ACT-USER::region:"));
    }
}

#[test]
fn an_answer_may_come_in_parts_and_acknowledged() {
    let header = "\r\n\n   OCS 26-11-21 17:00:00\r\n";
    let mut driver = driver(&[1, 2, 3], 4096);
    driver.receive(Time::ZERO, format!("IP 1\r\n<{header}M  1 COMPLD\r\n;").as_bytes());
    let rest = format!(
        "{header}M  2 COMPLD\r\n   \"a,b\"\r\n;{header}M  3 COMPLD\r\n   \"SYSTEM:SIZE=8x8\"\r\n;"
    );
    driver.receive(Time::ZERO, rest.as_bytes());
    assert_eq!(driver.event(), Some(DriverEvent::Up { device: "a,b".into(), ports: 8 }));
    driver.order(Time::ZERO, 7, &Order::Read);
    let parts = format!(
        "{header}M  4 COMPLD\r\n   \"3,9\"\r\n   \"2,\"\r\n>{header}A  5 REPT EVT PATCH\r\n   \"SYSTEM:PATCH,TC\"\r\n;{header}M  4 COMPLD\r\n   \"1,10\"\r\n;"
    );
    driver.receive(Time::ZERO, parts.as_bytes());
    assert_eq!(driver.event(), Some(DriverEvent::Notice("REPT EVT PATCH: SYSTEM:PATCH,TC".into())));
    let answer = Answer::State(vec![Patch::new(1, 10), Patch::new(3, 9)]);
    assert_eq!(driver.event(), Some(DriverEvent::Answer { id: 7, answer }));
}

#[test]
fn a_switch_that_does_not_let_us_in_is_given_up() {
    let mut driver = driver(&[1], 4096);
    driver.timeout(Time::from_ms(4999));
    assert_eq!(driver.event(), None);
    driver.timeout(Time::from_ms(5000));
    assert_eq!(driver.event(), Some(DriverEvent::Down("it did not let us in in time".into())));
    driver.order(Time::ZERO, 1, &Order::Read);
    let answer = Answer::Refused("the switch is not up".into());
    assert_eq!(driver.event(), Some(DriverEvent::Answer { id: 1, answer }));
}

#[test]
fn logins_that_cannot_be_written_are_refused() {
    let make = |user: &str, password: &str| {
        let login = Login { user: user.into(), password: Secret::new(password) };
        Tl1Driver::new(login, &[1], Options::default())
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(make("a b", ""), Ok(()));
    for (user, password, what) in [
        ("", "", "user"),
        ("a\"b", "", "user"),
        ("a", "x\n", "password"),
        ("a", "\u{e9}", "password"),
    ] {
        let words = "at most 200 characters of ASCII, without quotes";
        assert_eq!(make(user, password), Err(format!("the {what} for a TL1 switch: {words}")));
    }
    assert_eq!(format!("{:?}", Secret::new("hidden")), "Secret");
    assert_eq!(lines("   \"a\"\r\n b\r\n\"c\"").collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn a_new_stream_forgets_the_last() {
    let header = "\r\n\n   OCS 26-11-21 17:00:00\r\n";
    let mut driver = driver(&[1], 4096);
    driver.receive(Time::ZERO, format!("{header}M  1 COMPLD\r\n   \"half").as_bytes());
    driver.connected(Time::ZERO);
    driver.receive(Time::ZERO, format!("{header}M  2 COMPLD\r\n;").as_bytes());
    assert_eq!(driver.event(), None, "let in by the answer to the second login");
    let asked = String::from_utf8(driver.transmit().unwrap()).unwrap();
    assert_eq!(asked.matches("ACT-USER").count(), 1, "{asked}");
    assert!(asked.contains("RTRV-NETYPE:::3:;"), "{asked}");
}
