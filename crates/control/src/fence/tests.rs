use super::*;
use crate::Input;
use crate::conformance::Peer;
use crate::driver::{Driver, DriverEvent, Order, Patch};
use crate::drivers::line;
use crate::drivers::tl1::{
    self, Login, Options, Secret, SessionId, Stamp, Tl1Driver, Tl1Server, User,
};
use crate::ocs::{Device, Switch};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// A gateway, and the emulated switch on TL1 behind it.
struct Behind {
    gateway: Gateway,
    driver: Tl1Driver,
    server: Tl1Server,
    stream: SessionId,
    /// By session: what was said.
    said: BTreeMap<u64, VecDeque<Vec<u8>>>,
    /// What a restart would know.
    kept: Terms,
    /// Changes that the switch was ordered, and changes that were refused.
    changes: Vec<(Vec<Patch>, Vec<Patch>)>,
    refused: Vec<(u64, u64)>,
    closed: Vec<u64>,
    /// When the mirrors came to rest.
    still: Time,
    /// The session of the suite.
    session: u64,
}

fn dark(ports: u16) -> Behind {
    let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(2) };
    let device = Device { name: "polatis".into(), ports, delay };
    let user = User { name: "root".into(), password: Secret::new("root"), slice: None };
    let settings =
        tl1::Settings { sid: "OCS".into(), users: vec![user], start: Stamp::from_unix(0) };
    let mut server = Tl1Server::new(Switch::new(device, 1).expect("a switch"), settings);
    let login = Login { user: "root".into(), password: Secret::new("root") };
    let slice: Vec<u16> = (1..=ports).collect();
    let driver = Tl1Driver::new(login, &slice, Options::default()).expect("a login");
    let stream = server.open();
    let (patience, lifetime) = (Time::from_ms(1_000), Time::from_ms(500));
    let kept = Terms::new(ports, 0);
    let gateway = Gateway::new(GatewaySettings { ports, patience, lifetime }, kept.clone());
    let mut behind = Behind {
        gateway,
        driver,
        server,
        stream,
        said: BTreeMap::new(),
        kept,
        changes: Vec::new(),
        refused: Vec::new(),
        closed: Vec::new(),
        still: Time::ZERO,
        session: 0,
    };
    behind.driver.connected(Time::ZERO);
    behind.settle(Time::ZERO);
    behind
}

impl Behind {
    /// Carries everything to where it goes, at once.
    fn settle(&mut self, now: Time) {
        loop {
            let mut still = true;
            while let Some(output) = self.gateway.poll() {
                self.carry_out(now, output);
                still = false;
            }
            while let Some(bytes) = self.driver.transmit() {
                self.server.receive(now, self.stream, &bytes);
                still = false;
            }
            while let Some(bytes) = self.server.transmit(self.stream) {
                self.driver.receive(now, &bytes);
                still = false;
            }
            while let Some(event) = self.driver.event() {
                let input = match event {
                    DriverEvent::Up { device, ports } => {
                        Input::SwitchUp { switch: 0, device, ports }
                    }
                    DriverEvent::Answer { id, answer } => Input::Answer { id, answer },
                    DriverEvent::Down(why) => Input::SwitchDown { switch: 0, why },
                    _ => continue,
                };
                self.gateway.switch(now, input);
                still = false;
            }
            if still {
                return;
            }
        }
    }

    fn carry_out(&mut self, now: Time, output: GatewayOutput) {
        match output {
            GatewayOutput::Keep(terms) => {
                let text = serde_json::to_string(&terms).expect("JSON");
                self.kept = serde_json::from_str(&text).expect("the same");
            }
            GatewayOutput::Say { session, text } => {
                self.said.entry(session).or_default().push_back(text.into_bytes());
            }
            GatewayOutput::Close { session, .. } => self.closed.push(session),
            GatewayOutput::Order { id, order } => {
                if let Order::Apply { end, set } = &order {
                    self.changes.push((end.clone(), set.clone()));
                }
                self.driver.order(now, id, &order);
            }
            GatewayOutput::Reconnect => self.driver.disconnected(now),
            GatewayOutput::Refused { term, last, .. } => self.refused.push((term, last)),
        }
    }

    /// Says lines, and gives what is answered once the switch has come to rest.
    fn ask(&mut self, now: Time, session: u64, lines: &str) -> String {
        let now = now.max(self.still);
        self.gateway.receive(now, session, lines.as_bytes());
        self.settle(now);
        self.rest(now);
        self.heard(session)
    }

    fn rest(&mut self, now: Time) {
        while let Some(next) = self.server.next_timeout() {
            self.server.timeout(next);
            self.still = next.max(now);
            self.settle(self.still);
        }
    }

    fn heard(&mut self, session: u64) -> String {
        let said: Vec<u8> = self.said.remove(&session).into_iter().flatten().flatten().collect();
        String::from_utf8(said).expect("ASCII")
    }

    /// A session that is let in.
    fn enter(&mut self, now: Time) -> u64 {
        let session = self.gateway.open();
        let known = concat!("1 ok 2 8 LIGHTLOOM,polatis,OCS,", env!("CARGO_PKG_VERSION"), "\n");
        assert_eq!(self.ask(now, session, "1 hello 2\n"), known);
        session
    }
}

impl Peer for Behind {
    fn open(&mut self, _: Time) {
        self.session = self.gateway.open();
    }

    fn close(&mut self, now: Time) {
        self.gateway.close(self.session);
        self.settle(now);
        self.said.clear();
    }

    fn receive(&mut self, now: Time, bytes: &[u8]) {
        self.gateway.receive(now, self.session, bytes);
        self.settle(now);
    }

    fn transmit(&mut self, _: Time) -> Option<Vec<u8>> {
        self.said.get_mut(&self.session).and_then(VecDeque::pop_front)
    }

    fn next_timeout(&self) -> Option<Time> {
        self.server.next_timeout()
    }

    fn timeout(&mut self, now: Time) {
        self.server.timeout(now);
        self.settle(now);
    }

    fn patches(&self) -> Vec<Patch> {
        self.server.switch().patches().collect()
    }
}

crate::driver_conformance!(line::PROTOCOL, dark);

const T0: Time = Time::ZERO;

#[test]
fn an_order_goes_to_the_switch_as_a_whole() {
    let mut behind = dark(8);
    let session = behind.enter(T0);
    let asked = "2 claim 1-8\n3 connect 1 10 1\n4 connect 2 9 1\n5 show\n";
    let answer = "2 ok 1\n3 ok\n4 ok\n5 patch 1 10\n5 patch 2 9\n5 ok 2\n";
    assert_eq!(behind.ask(T0, session, asked), answer);
    // Ports change partners; what ends a patch after one was set goes with the next order.
    let asked = "6 disconnect 1 10 1\n7 disconnect 2 9 1\n8 connect 1 11 1\n9 connect 3 9 1\n\
                 10 disconnect 1 11 1\n";
    assert_eq!(behind.ask(T0, session, asked), "6 ok\n7 ok\n8 ok\n9 ok\n10 ok\n");
    let orders: Vec<_> = behind.changes.iter().map(|(end, set)| (end.len(), set.len())).collect();
    assert_eq!(orders, [(0, 2), (2, 2), (1, 0)]);
    // What the switch refuses is refused to each.
    let answer = behind.ask(T0, session, "11 connect 3 10 1\n12 connect 4 12 1\n");
    assert!(answer.starts_with("11 err ") && answer.contains("\n12 err "), "{answer}");
}

#[test]
fn regions_that_share_a_switch_do_not_fence_each_other() {
    let mut behind = dark(8);
    let (one, two) = (behind.enter(T0), behind.enter(T0));
    assert_eq!(behind.ask(T0, one, "2 claim 1-4\n"), "2 ok 1\n");
    assert_eq!(behind.ask(T0, two, "2 claim 5-8\n"), "2 ok 2\n");
    assert_eq!(behind.ask(T0, one, "3 connect 1 10 1\n4 hold 1 1-4\n"), "3 ok\n4 ok\n");
    assert_eq!(behind.ask(T0, two, "3 connect 5 14 2\n4 hold 2 5-8\n"), "3 ok\n4 ok\n");
    // Nobody changes ports of another, or of two, or that nobody has claimed.
    assert_eq!(behind.ask(T0, one, "5 connect 2 15 1\n6 connect 2 9 2\n"), "5 old 2\n6 old 1\n");
    // A second controller of the first region fences the first one alone.
    let three = behind.enter(T0);
    assert_eq!(behind.ask(T0, three, "2 claim 1-4\n"), "2 ok 3\n");
    assert_eq!(behind.ask(T0, one, "7 disconnect 1 10 1\n8 hold 1 1-4\n"), "7 old 3\n8 old 3\n");
    assert_eq!(behind.ask(T0, two, "5 disconnect 5 14 2\n"), "5 ok\n");
    assert_eq!(behind.refused, [(1, 2), (2, 1), (1, 3)]);
    assert_eq!(behind.server.switch().patches().collect::<Vec<_>>(), [Patch::new(1, 10)]);
}

#[test]
fn nothing_old_comes_after_the_answer_to_a_claim() {
    let mut behind = dark(8);
    let (old, new) = (behind.enter(T0), behind.enter(T0));
    assert_eq!(behind.ask(T0, old, "2 claim 1-8\n"), "2 ok 1\n");
    // The mirrors move; the rest waits.
    behind.gateway.receive(T0, old, b"3 connect 1 10 1\n4 show\n5 connect 2 9 1\n");
    behind.settle(T0);
    behind.gateway.receive(T0, new, b"2 claim 1-8\n");
    behind.gateway.receive(T0, old, b"6 connect 3 12 1\n");
    behind.settle(T0);
    assert_eq!((behind.heard(old), behind.heard(new)), (String::new(), String::new()));
    behind.rest(T0);
    // What was asked before the claim is carried out before it is answered, what came later is refused.
    assert_eq!(behind.heard(old), "3 ok\n4 patch 1 10\n4 ok 1\n5 ok\n6 old 2\n");
    assert_eq!(behind.heard(new), "2 ok 2\n");
}

#[test]
fn terms_rise_after_a_restart_and_are_safe_before_they_are_told() {
    let mut behind = dark(8);
    let session = behind.enter(T0);
    behind.gateway.receive(T0, session, b"2 claim 1-8\n");
    assert!(matches!(behind.gateway.poll(), Some(GatewayOutput::Keep(_))));
    assert!(matches!(behind.gateway.poll(), Some(GatewayOutput::Say { .. })));
    behind.ask(T0, session, "3 claim 1-4\n");
    let (kept, settings) = (behind.kept.clone(), behind.gateway.settings);
    assert!(kept.fit(8) && !kept.fit(9));
    behind.gateway = Gateway::new(settings, kept);
    behind.gateway.switch(T0, Input::SwitchUp { switch: 0, device: "again".into(), ports: 8 });
    let session = behind.gateway.open();
    let asked = "9 hello 2\n10 hold 1 1-4\n11 hold 2 1-4\n12 hold 1 5-8\n13 claim 1\n";
    let answer = "9 ok 2 8 again\n10 old 2\n11 ok\n12 ok\n13 ok 3\n";
    assert_eq!(behind.ask(T0, session, asked), answer);
}

#[test]
fn while_the_switch_is_away_nobody_is_let_in() {
    let mut behind = dark(8);
    let session = behind.enter(T0);
    behind.ask(T0, session, "2 claim 1-8\n");
    // A change that is not answered.
    behind.gateway.receive(T0, session, b"3 connect 1 10 1\n4 show\n");
    behind.settle(T0);
    let late = behind.gateway.next_timeout().expect("a deadline");
    behind.gateway.timeout(late);
    behind.settle(late);
    let away = "err the switch is away: it did not answer in time\n";
    assert_eq!(behind.heard(session), format!("3 {away}4 {away}"));
    assert_eq!(behind.closed, [session]);
    let hello = |behind: &mut Behind, now| {
        let session = behind.gateway.open();
        behind.ask(now, session, "1 hello 2\n")
    };
    assert_eq!(hello(&mut behind, late), format!("1 {away}"));
    // It is back, and late commands may yet be carried out.
    behind.gateway.switch(late, Input::SwitchUp { switch: 0, device: "x".into(), ports: 8 });
    let yet = "1 err the switch is away: it may still carry out what it was asked before\n";
    assert_eq!(hello(&mut behind, late + Time::from_ms(499)), yet);
    assert_eq!(hello(&mut behind, late + Time::from_ms(500)), "1 ok 2 8 x\n");
    // Another switch than that of the file.
    behind.gateway.switch(late, Input::SwitchUp { switch: 0, device: "y".into(), ports: 9 });
    let wrong = "1 err the switch is away: y has 9 ports, not 8\n";
    assert_eq!(hello(&mut behind, late), wrong);
}

#[test]
fn sessions_that_make_no_sense_are_closed() {
    for lines in
        ["show\n", "1 show\n", "x hello 2\n", "\n", "1 hello 2\n3 show\n", "1 hello 2\n1 show\n"]
    {
        let mut behind = dark(8);
        let session = behind.gateway.open();
        behind.ask(T0, session, lines);
        assert_eq!(behind.closed, [session], "{lines:?}");
    }
    let mut behind = dark(8);
    let session = behind.enter(T0);
    let answer = behind.ask(T0, session, "2 hello 2\n3 wax\n4 claim 9\n5 connect 1 10\n6 show\n");
    let (errors, rest) = answer.rsplit_once("6 ok").expect("shown");
    assert!(errors.lines().all(|line| line.contains(" err ")) && rest == " 0\n", "{answer}");
    // Older versions know no terms.
    let old = behind.gateway.open();
    assert_eq!(behind.ask(T0, old, "1 hello 1\n"), "1 err this gateway speaks version 2 alone\n");
    behind.gateway.receive(T0, session, &[b'x'; 16 << 10]);
    behind.settle(T0);
    assert_eq!(behind.closed, [session]);
}

#[test]
fn a_term_of_a_gateway_that_has_lost_its_own_counts_no_more() {
    let mut behind = dark(8);
    let session = behind.enter(T0);
    let answer = behind.ask(T0, session, "2 hold 7 1-4\n3 connect 1 10 7\n4 connect 1 10 0\n");
    // Nobody has claimed these ports.
    assert_eq!(answer, "2 old 0\n3 old 0\n4 err a term is a number above 0\n");
}

proptest! {
    #[test]
    fn whatever_is_said_each_command_has_one_answer(
        words in prop::collection::vec(
            "(show|claim|hold|connect|disconnect|hello|[a-z]{0,3})( [0-9]{1,2}| 1-4| x){0,4}", 0..40
        ),
        cut in 1..50_usize,
    ) {
        let mut behind = dark(8);
        let session = behind.enter(T0);
        let lines: String = (2..).zip(&words).map(|(at, word)| format!("{at} {word}\n")).collect();
        for piece in lines.as_bytes().chunks(cut) {
            behind.gateway.receive(behind.still, session, piece);
            behind.settle(behind.still);
        }
        behind.rest(behind.still);
        prop_assert!(behind.closed.is_empty());
        let said = behind.heard(session);
        let answers = said.lines().filter(|line| !line.contains(" patch "));
        let numbers: Vec<usize> = answers.filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
        prop_assert_eq!(numbers, (2..2 + words.len()).collect::<Vec<_>>(), "{}", said);
    }

    #[test]
    fn arbitrary_bytes_end_a_session_at_most(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        greets in any::<bool>(),
    ) {
        let mut behind = dark(8);
        let session = if greets { behind.enter(T0) } else { behind.gateway.open() };
        behind.gateway.receive(T0, session, &bytes);
        behind.settle(T0);
        prop_assert!(behind.changes.is_empty() && behind.closed.len() <= 1);
    }
}
