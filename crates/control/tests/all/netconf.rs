//! The NETCONF driver against switches in memory of every manner of speaking.

use crate::netconf_peer::Switch;
use lightloom_control::driver_conformance;
use lightloom_control::drivers::netconf::{Manner, PROTOCOL};

fn speaking(manner: Manner) -> impl Fn(u16) -> Switch {
    move |ports| Switch::new(ports, manner)
}

driver_conformance!(today, PROTOCOL, speaking(Manner::TODAY));
driver_conformance!(without_chunks, PROTOCOL, speaking(Manner { chunks: false, ..Manner::TODAY }));
driver_conformance!(by_candidate, PROTOCOL, speaking(Manner { writable: false, ..Manner::TODAY }));
driver_conformance!(
    of_old,
    PROTOCOL,
    speaking(Manner { old: true, inventory: false, ..Manner::TODAY })
);

mod replies {
    //! What a server may say besides what the switches above do.

    use lightloom_control::drivers::netconf::{NetconfDriver, NetconfSettings, chunk, mark};
    use lightloom_control::{Answer, Driver, DriverEvent, Order, Patch};
    use lightloom_units::Time;
    use proptest::prelude::*;

    const BASE: &str = "urn:ietf:params:netconf:base:1.1";
    const WRITABLE: &str = "urn:ietf:params:netconf:capability:writable-running:1.0";
    const CANDIDATE: &str = "urn:ietf:params:netconf:capability:candidate:1.0";
    const MODULE: &str = "http://www.polatis.com/yang/optical-switch?module=optical-switch";
    const SPACE: &str = "xmlns=\"urn:ietf:params:xml:ns:netconf:base:1.0\"";
    const T0: Time = Time::from_ms(1);

    fn hello(says: &[&str]) -> Vec<u8> {
        let says: String =
            says.iter().map(|one| format!("<capability>{one}</capability>")).collect();
        mark(&format!("<hello {SPACE}><capabilities>{says}</capabilities></hello>"))
    }

    /// What is sent, without its frame.
    fn sent(driver: &mut NetconfDriver) -> Vec<String> {
        std::iter::from_fn(|| driver.transmit())
            .map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
            .collect()
    }

    fn heard(driver: &mut NetconfDriver) -> Vec<DriverEvent> {
        std::iter::from_fn(|| driver.event()).collect()
    }

    fn reply(driver: &mut NetconfDriver, call: u64, inside: &str) {
        let text = format!("<rpc-reply {SPACE} message-id=\"{call}\">{inside}</rpc-reply>");
        driver.receive(T0, &chunk(&text));
    }

    fn greeted(says: &[&str]) -> NetconfDriver {
        let mut driver = NetconfDriver::new(NetconfSettings::new(8, (1..=8).collect()));
        driver.connected(T0);
        driver.receive(T0, &hello(says));
        if let Some(next) = driver.next_timeout() {
            driver.timeout(next);
        }
        sent(&mut driver);
        driver
    }

    /// A switch that is up; its first call was number 1.
    fn up(edits: &str) -> NetconfDriver {
        let mut driver = greeted(&[BASE, MODULE, edits]);
        reply(&mut driver, 1, "<data/>");
        let device = "a switch that does not name itself".into();
        assert_eq!(heard(&mut driver), [DriverEvent::Up { device, ports: 8 }]);
        driver
    }

    fn is_down(driver: &mut NetconfDriver, words: &str) {
        match &heard(driver)[..] {
            [DriverEvent::Down(why)] => assert!(why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    fn set(ingress: u16, egress: u16) -> Order {
        Order::Apply { end: vec![], set: vec![Patch::new(ingress, egress)] }
    }

    fn refused(words: &str) -> Answer {
        Answer::Refused(words.into())
    }

    /// A driver that wants the lock as long as its session, which is number 7, lasts; its call 1 is answered.
    fn exclusive(driver: &mut NetconfDriver) -> Vec<String> {
        driver.connected(T0);
        let hello = String::from_utf8(hello(&[BASE, MODULE, WRITABLE])).expect("UTF-8");
        let hello = hello.replace("</hello>", "<session-id>7</session-id></hello>");
        driver.receive(T0, hello.as_bytes());
        driver.timeout(driver.next_timeout().expect("it settles"));
        let asked = sent(driver).pop().expect("what the switch is");
        let number = asked.split('"').nth(1).expect("a number").parse().expect("a number");
        reply(driver, number, "<data/>");
        sent(driver)
    }

    fn denied(by: u64) -> String {
        format!(
            "<rpc-error><error-tag>lock-denied</error-tag><error-severity>error</error-severity>\
             <error-info><session-id>{by}</session-id></error-info></rpc-error>"
        )
    }

    fn wants_the_lock() -> NetconfDriver {
        let settings = NetconfSettings::new(8, (1..=8).collect());
        NetconfDriver::new(NetconfSettings { exclusive: true, ..settings })
    }

    #[test]
    fn a_session_with_the_lock_is_ended_only_if_an_operator_says_so() {
        let mut driver = wants_the_lock();
        let asked = exclusive(&mut driver);
        assert!(asked[0].contains("<lock><target><running/></target></lock>"), "{asked:?}");
        reply(&mut driver, 2, &denied(5));
        let why = "session 5 holds the lock: lock-denied".to_string();
        let device = "a switch that does not name itself".to_string();
        let up = DriverEvent::Up { device, ports: 8 };
        assert_eq!(heard(&mut driver), [up.clone(), DriverEvent::Fenced(why.clone())]);
        driver.order(T0, 1, &set(1, 9));
        let answer = DriverEvent::Answer { id: 1, answer: Answer::Fenced(why.clone()) };
        assert_eq!((heard(&mut driver), sent(&mut driver)), (vec![answer], vec![]));
        // Nor does it ask again when the next session begins.
        driver.disconnected(T0);
        assert_eq!(exclusive(&mut driver), Vec::<String>::new());
        assert_eq!(heard(&mut driver), [up, DriverEvent::Fenced(why)]);
        driver.claim(T0);
        assert!(sent(&mut driver)[0].contains("<lock>"));
        reply(&mut driver, 4, &denied(5));
        assert!(sent(&mut driver)[0].contains("<kill-session><session-id>5</session-id>"));
        reply(&mut driver, 5, "<ok/>");
        reply(&mut driver, 6, "<ok/>");
        assert_eq!(heard(&mut driver), [DriverEvent::Term(7)]);
        driver.order(T0, 2, &set(1, 9));
        let asked = sent(&mut driver);
        assert!(asked[0].contains("<lock>") && asked[1].contains("<edit-config>"), "{asked:?}");
    }

    #[test]
    fn a_controllers_own_old_session_is_ended_without_asking() {
        let mut driver = wants_the_lock();
        driver.hold(5);
        exclusive(&mut driver);
        reply(&mut driver, 2, &denied(5));
        assert!(sent(&mut driver)[0].contains("<kill-session><session-id>5</session-id>"));
        // It has ended by itself meanwhile.
        let gone = "<rpc-error><error-tag>invalid-value</error-tag></rpc-error>";
        reply(&mut driver, 3, gone);
        reply(&mut driver, 4, "<ok/>");
        let term = DriverEvent::Term(7);
        assert!(matches!(&heard(&mut driver)[..], [one, DriverEvent::Up { .. }] if *one == term));
        // Who has it without a session cannot be ended, and a server that always denies is left alone.
        for (holder, kills) in [(0, 0), (5, 3)] {
            let mut driver = wants_the_lock();
            exclusive(&mut driver);
            driver.claim(T0);
            let mut ended = 0;
            for call in 2..20 {
                let killed = sent(&mut driver).iter().any(|asked| asked.contains("kill-session"));
                ended += usize::from(killed);
                let said = if killed { "<ok/>".into() } else { denied(holder) };
                if heard(&mut driver).iter().any(|one| matches!(one, DriverEvent::Fenced(_))) {
                    break;
                }
                reply(&mut driver, call, &said);
            }
            assert_eq!(ended, kills, "held by {holder}");
        }
    }

    #[test]
    fn a_lock_is_of_the_session_or_of_the_change() {
        use lightloom_control::protocol::Connection;
        let made = |lock: &str| {
            let values = [("lock", lock.to_string())].into();
            let connection = Connection { ports: 8, values, ..Connection::default() };
            (super::PROTOCOL.driver)(&connection).err().map(|wrong| wrong.why)
        };
        assert_eq!((made("change"), made("session")), (None, None));
        assert_eq!(made("wax").as_deref(), Some("must be change or session"));
    }

    #[test]
    fn a_server_without_what_is_needed_is_refused() {
        is_down(&mut greeted(&[BASE, WRITABLE]), "module optical-switch");
        let other = "http://www.polatis.com/yang/optical-switch-2?revision=2020-01-01";
        is_down(&mut greeted(&[BASE, WRITABLE, other]), "module optical-switch");
        is_down(&mut greeted(&[BASE, MODULE]), "written");
        is_down(&mut greeted(&[WRITABLE, MODULE]), "neither version");
        let mut driver = NetconfDriver::new(NetconfSettings::new(8, vec![1]));
        driver.connected(T0);
        driver.receive(T0, &mark(&format!("<rpc-reply {SPACE}/>")));
        is_down(&mut driver, "no greeting");
    }

    /// netconfd overlooks a call that comes together with our hello, until more comes.
    #[test]
    fn what_is_overlooked_is_asked_again() {
        let mut driver = NetconfDriver::new(NetconfSettings::new(8, vec![1]));
        driver.connected(T0);
        assert_eq!(sent(&mut driver).len(), 1);
        driver.receive(T0, &hello(&[BASE, MODULE, WRITABLE]));
        assert_eq!(sent(&mut driver).len(), 0);
        for _ in 0..2 {
            driver.timeout(driver.next_timeout().expect("it asks"));
            assert_eq!(sent(&mut driver).len(), 1);
        }
        reply(&mut driver, 1, "<data/>");
        assert!(matches!(heard(&mut driver)[..], [DriverEvent::Up { .. }]));
        driver.order(T0, 1, &Order::Read);
        assert_eq!(sent(&mut driver).len(), 0);
        reply(&mut driver, 2, "<data/>");
        assert_eq!(sent(&mut driver).len(), 1);
        reply(&mut driver, 3, "<data/>");
        let answer = Answer::State(Vec::new());
        assert_eq!(heard(&mut driver), [DriverEvent::Answer { id: 1, answer }]);
    }

    #[test]
    fn one_edit_ends_and_sets() {
        let mut driver = up(WRITABLE);
        let (end, wanted) = ([Patch::new(1, 10), Patch::new(3, 12)], [Patch::new(1, 12)]);
        driver.order(T0, 7, &Order::Apply { end: end.to_vec(), set: wanted.to_vec() });
        let text = format!(
            "<rpc message-id=\"2\" {SPACE}><edit-config><target><running/></target><config>\
             <cross-connects xmlns=\"http://www.polatis.com/yang/optical-switch\" \
             xmlns:nc=\"urn:ietf:params:xml:ns:netconf:base:1.0\">\
             <pair nc:operation=\"delete\"><ingress>3</ingress></pair>\
             <pair nc:operation=\"replace\"><ingress>1</ingress><egress>12</egress></pair>\
             </cross-connects></config></edit-config></rpc>"
        );
        assert_eq!(sent(&mut driver), [String::from_utf8(chunk(&text)).expect("UTF-8")]);
    }

    #[test]
    fn the_replies_of_another_call_are_nonsense() {
        for call in [1, 3] {
            let mut driver = up(WRITABLE);
            driver.order(T0, 1, &Order::Read);
            reply(&mut driver, call, "<data/>");
            is_down(&mut driver, "not under way");
            assert_eq!(driver.next_timeout(), None);
        }
        let mut driver = up(WRITABLE);
        reply(&mut driver, 1, "<ok/>");
        is_down(&mut driver, "not under way");
    }

    #[test]
    fn a_reply_fits_its_call() {
        for (order, inside) in [
            (Order::Read, "<ok/>"),
            (Order::Read, ""),
            (set(1, 9), "<data/>"),
            (
                Order::Read,
                "<data><cross-connects xmlns='http://www.polatis.com/yang/optical-switch'>\
                 <pair><ingress>1</ingress></pair></cross-connects></data>",
            ),
        ] {
            let mut driver = up(WRITABLE);
            driver.order(T0, 1, &order);
            reply(&mut driver, 2, inside);
            is_down(&mut driver, "");
        }
    }

    #[test]
    fn patches_are_told_in_order() {
        let mut driver = up(WRITABLE);
        driver.order(T0, 1, &Order::Read);
        let pair =
            |i: u16, e: u16| format!("<pair><egress>{e}</egress><ingress>{i}</ingress></pair>");
        let pairs = [pair(3, 9), pair(1, 12), pair(2, 10)].concat();
        let space = "http://www.polatis.com/yang/optical-switch";
        let data = format!("<cross-connects xmlns='{space}'>{pairs}</cross-connects>");
        reply(&mut driver, 2, &format!("<data>{data}</data>"));
        let answer =
            Answer::State([(1, 12), (2, 10), (3, 9)].map(|(i, e)| Patch::new(i, e)).to_vec());
        assert_eq!(heard(&mut driver), [DriverEvent::Answer { id: 1, answer }]);
    }

    #[test]
    fn warnings_and_notifications_are_told() {
        let mut driver = up(WRITABLE);
        driver.order(T0, 1, &set(1, 9));
        reply(
            &mut driver,
            2,
            "<rpc-error><error-tag>partial</error-tag><error-severity>warning</error-severity>\
             </rpc-error><ok/>",
        );
        let answer = DriverEvent::Answer { id: 1, answer: Answer::Done };
        assert_eq!(heard(&mut driver), [DriverEvent::Notice("partial".into()), answer]);
        let space = "urn:ietf:params:xml:ns:netconf:notification:1.0";
        let text =
            format!("<notification xmlns=\"{space}\"><port><id>3</id></port></notification>");
        driver.receive(T0, &chunk(&text));
        assert_eq!(heard(&mut driver), [DriverEvent::Notice("port id 3".into())]);
    }

    #[test]
    fn a_candidate_is_given_up_whole() {
        const NO: &str = "<rpc-error><error-tag>no</error-tag></rpc-error>";
        const DENIED: &str = "<rpc-error><error-tag>denied</error-tag></rpc-error>";
        // Replies to calls 2, 3, ..., the last operation asked for, and what becomes of the order.
        for (replies, last, answer) in [
            (&["<ok/>", "<ok/>", "<ok/>", "<ok/>"][..], "<unlock>", Some(Answer::Done)),
            // A lock that is refused may be held all the same: whoever asks next would never get it.
            (&[NO, "<ok/>"], "<unlock>", Some(refused("no"))),
            (&[NO, DENIED], "<unlock>", Some(refused("no"))),
            (&["<ok/>", NO, "<ok/>", "<ok/>"], "<unlock>", Some(refused("no"))),
            (&["<ok/>", "<ok/>", NO, "<ok/>", "<ok/>"], "<unlock>", Some(refused("no"))),
            // The session must end for the lock to open.
            (&["<ok/>", NO, NO], "<discard-changes/>", None),
            (&["<ok/>", "<ok/>", "<ok/>", NO], "<unlock>", None),
        ] {
            let mut driver = up(CANDIDATE);
            driver.order(T0, 4, &set(1, 9));
            let mut asked = sent(&mut driver);
            for (call, inside) in replies.iter().enumerate() {
                reply(&mut driver, call as u64 + 2, inside);
                asked.extend(sent(&mut driver));
            }
            assert_eq!(asked.len(), replies.len());
            assert!(asked[asked.len() - 1].contains(last), "{asked:?}");
            match answer {
                Some(answer) => {
                    assert_eq!(heard(&mut driver), [DriverEvent::Answer { id: 4, answer }]);
                }
                None => is_down(&mut driver, "no"),
            }
        }
    }

    #[test]
    fn a_silent_session_is_asked_for_a_sign_of_life() {
        let mut driver = up(WRITABLE);
        let first = driver.next_timeout().expect("a sign of life is due");
        assert_eq!(first, T0.saturating_add(Time::from_ms(300_000)));
        driver.timeout(first);
        assert_eq!(sent(&mut driver).len(), 1);
        reply(&mut driver, 2, "<data/>");
        assert_eq!(heard(&mut driver), []);
        // Not one that is at work: a switch may take its time to do as it is ordered.
        driver.order(T0, 1, &Order::Read);
        assert_eq!(driver.next_timeout(), None);
        reply(&mut driver, 3, "<data/>");
        heard(&mut driver);
        driver.timeout(driver.next_timeout().expect("due again"));
        driver.timeout(driver.next_timeout().expect("the answer is due"));
        is_down(&mut driver, "does not answer");
    }

    #[test]
    fn order_of_a_switch_that_is_not_up_is_forgotten() {
        let mut driver = greeted(&[BASE, MODULE, WRITABLE]);
        driver.order(T0, 1, &Order::Read);
        reply(&mut driver, 1, "<data/>");
        assert_eq!(sent(&mut driver), Vec::<String>::new());
    }

    fn soup() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "<rpc-reply xmlns='urn:ietf:params:xml:ns:netconf:base:1.0' message-id='2'>",
            "<rpc-reply xmlns='urn:ietf:params:xml:ns:netconf:base:1.0'>",
            "</rpc-reply>",
            "<ok/>",
            "<data>",
            "</data>",
            "<rpc-error>",
            "</rpc-error>",
            "<cross-connects xmlns='http://www.polatis.com/yang/optical-switch'>",
            "</cross-connects>",
            "<pair>",
            "</pair>",
            "<ingress>1</ingress>",
            "<ingress>70000</ingress>",
            "<egress>9</egress>",
            "<egress>-1</egress>",
            "&lt;",
            "&x;",
            "<notification>",
            "</notification>",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "<?x?>",
        ]);
        prop::collection::vec(word, 0..16).prop_map(|words| words.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn soups_of_replies_answer_once_or_end_the_session(
            soups in prop::collection::vec(soup(), 1..4), edits in any::<bool>(), wrap in any::<bool>(),
        ) {
            let mut driver = up(if edits { WRITABLE } else { CANDIDATE });
            driver.order(T0, 1, &Order::Read);
            driver.order(T0, 2, &set(1, 9));
            let mut answered = 0;
            for (number, soup) in soups.iter().enumerate() {
                if wrap {
                    reply(&mut driver, number as u64 + 2, soup);
                } else if !soup.is_empty() {
                    driver.receive(T0, &chunk(soup));
                }
                for event in heard(&mut driver) {
                    match event {
                        DriverEvent::Answer { id, .. } => {
                            answered += 1;
                            prop_assert_eq!(id, answered);
                        }
                        DriverEvent::Down(_) => answered = 10,
                        DriverEvent::Notice(_) => {}
                        DriverEvent::Term(_) | DriverEvent::Fenced(_) => {}
                        DriverEvent::Up { .. } => prop_assert!(false, "up twice"),
                    }
                }
            }
        }
    }
}
