//! The emulated switch that speaks NETCONF, to several sessions at once.

use lightloom_control::Patch;
use lightloom_control::drivers::netconf::{Element, Manner, NetconfServer, Space, mark};
use lightloom_control::ocs::{Device, Switch};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;

const SPACE: &str = "xmlns=\"urn:ietf:params:xml:ns:netconf:base:1.0\"";
const DELAY: Time = Time::from_ms(25);
const T0: Time = Time::from_ms(1);
const BY_CANDIDATE: Manner = Manner { chunks: false, writable: false, ..Manner::TODAY };
const AT_ONCE: Manner = Manner { chunks: false, ..Manner::TODAY };

fn server(manner: Manner) -> NetconfServer {
    let device = Device {
        name: "in memory".into(),
        ports: 8,
        delay: ReconfigurationDelay::Fixed { ps: DELAY },
    };
    NetconfServer::new(Switch::new(device, 1).expect("it has ports"), manner)
}

/// A session that has greeted.
fn session(server: &mut NetconfServer) -> u64 {
    let session = server.open();
    server.receive(T0, session, &mark(&format!("<hello {SPACE}/>")));
    server.transmit(session).expect("its hello");
    session
}

fn call(server: &mut NetconfServer, now: Time, session: u64, operation: &str) {
    let text = format!("<rpc {SPACE} message-id=\"1\">{operation}</rpc>");
    server.receive(now, session, &mark(&text));
}

/// What is answered: `ok`, or the tag of an error.
fn answer(server: &mut NetconfServer, session: u64) -> Option<String> {
    let message = server.transmit(session)?;
    let text = message.strip_suffix(b"]]>]]>").expect("a whole message");
    let reply = Element::parse(text).expect("XML");
    assert!(reply.is(Space::Netconf, "rpc-reply"));
    let inside = &reply.children[0];
    Some(inside.child("error-tag").map_or(inside.name.clone(), |tag| tag.text.clone()))
}

fn edit(target: &str, ingress: u16, egress: u16) -> String {
    format!(
        "<edit-config><target><{target}/></target><config><cross-connects \
         xmlns=\"http://www.polatis.com/yang/optical-switch\" xmlns:nc=\"urn:ietf:params:xml:ns:netconf:base:1.0\">\
         <pair nc:operation=\"create\"><ingress>{ingress}</ingress><egress>{egress}</egress></pair>\
         </cross-connects></config></edit-config>"
    )
}

#[test]
fn a_change_is_answered_when_it_is_done_and_others_go_on() {
    let mut server = server(AT_ONCE);
    let (one, other) = (session(&mut server), session(&mut server));
    call(&mut server, T0, one, &edit("running", 1, 9));
    call(&mut server, T0, one, &edit("running", 2, 10));
    call(&mut server, T0, other, &edit("running", 3, 11));
    assert_eq!([one, other].map(|session| answer(&mut server, session)), [None, None]);
    assert_eq!(server.next_timeout(), Some(T0 + DELAY));
    server.timeout(T0 + DELAY);
    let said = [one, other].map(|session| answer(&mut server, session));
    assert_eq!(said, [Some("ok".into()), Some("ok".into())]);
    assert_eq!(answer(&mut server, one), None, "one call after the other");
    server.timeout(T0 + DELAY + DELAY);
    assert_eq!(answer(&mut server, one).as_deref(), Some("ok"));
    let patches: Vec<_> = server.switch().patches().collect();
    assert_eq!(patches, [Patch::new(1, 9), Patch::new(2, 10), Patch::new(3, 11)]);
}

#[test]
fn what_cannot_be_is_refused_whole() {
    let mut server = server(AT_ONCE);
    let (one, other) = (session(&mut server), session(&mut server));
    call(&mut server, T0, one, &edit("running", 1, 9));
    for (ingress, egress) in [(2, 9), (9, 10), (2, 2), (1, 10)] {
        call(&mut server, T0, other, &edit("running", ingress, egress));
        assert!(answer(&mut server, other).is_some_and(|said| said != "ok"), "{ingress} {egress}");
    }
    assert_eq!(server.switch().patches().count(), 1);
}

#[test]
fn a_lock_ends_with_its_session() {
    let mut server = server(BY_CANDIDATE);
    let (one, other) = (session(&mut server), session(&mut server));
    let lock = "<lock><target><candidate/></target></lock>";
    call(&mut server, T0, one, lock);
    call(&mut server, T0, one, &edit("candidate", 1, 9));
    call(&mut server, T0, other, lock);
    call(&mut server, T0, other, &edit("candidate", 2, 10));
    assert_eq!(answer(&mut server, other).as_deref(), Some("lock-denied"));
    assert_eq!(answer(&mut server, other).as_deref(), Some("operation-failed"));
    server.close(one);
    call(&mut server, T0, other, lock);
    call(&mut server, T0, other, &edit("candidate", 2, 10));
    call(&mut server, T0, other, "<commit/>");
    server.timeout(T0 + DELAY);
    let said: Vec<_> = std::iter::from_fn(|| answer(&mut server, other)).collect();
    assert_eq!(said, ["ok", "ok", "ok"]);
    let patches: Vec<_> = server.switch().patches().collect();
    assert_eq!(patches, [Patch::new(2, 10)], "what the other had not committed is forgotten");
}
