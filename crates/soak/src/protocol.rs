//! What is spoken with a switch, and how bytes of it are made to say something else.

use crate::chance::Chance;
use crate::line_server::LineServer;
use crate::server::{Server, Tl1};
use lightloom_control::Driver;
use lightloom_control::drivers::line;
use lightloom_control::drivers::netconf::{
    Manner, NetconfDriver, NetconfServer, NetconfSettings, chunk, mark,
};
use lightloom_control::drivers::tl1::{self, Login, Options, Secret, Tl1Driver, Tl1Server, User};
use lightloom_control::ocs::Switch;
use lightloom_control::protocol::Connection;
use lightloom_units::Time;

/// The greeting must be over by then.
const PATIENCE: Time = Time::from_ms(2_000);

/// A protocol, with what a scenario draws of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Commands are no longer than this; a user has the region's ports alone, or all.
    Tl1 {
        longest: usize,
        own: bool,
    },
    /// A sign of life is asked for when nothing else was for so long.
    Netconf {
        manner: Manner,
        keepalive: Time,
    },
    Line,
}

impl Protocol {
    pub fn draw(chance: &mut Chance) -> Self {
        match chance.below(100) {
            0..55 => {
                let own = chance.hit(500);
                let longest = if chance.hit(300) { 64 + 5 * 2 * 3 } else { 4096 };
                Protocol::Tl1 { longest, own }
            }
            55..90 => Protocol::Netconf {
                manner: Manner {
                    chunks: chance.hit(700),
                    writable: chance.hit(600),
                    old: chance.hit(200),
                    inventory: chance.hit(700),
                },
                keepalive: chance.ms(200, 5_000),
            },
            _ => Protocol::Line,
        }
    }

    /// What happens in a scenario that has it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Tl1 { .. } => "switch speaks TL1",
            Protocol::Netconf { manner, .. } if manner.writable => "switch speaks NETCONF",
            Protocol::Netconf { .. } => "switch speaks NETCONF, by candidate",
            Protocol::Line => "switch speaks the line protocol",
        }
    }

    /// A driver for these ports of a switch that has so many.
    pub fn driver(self, slice: &[u16], ports: u16) -> Box<dyn Driver> {
        match self {
            Protocol::Tl1 { longest, .. } => {
                let login = Login { user: "soak".into(), password: secret() };
                let options = Options { patience: PATIENCE, longest };
                Box::new(Tl1Driver::new(login, slice, options).expect("both are plain ASCII"))
            }
            Protocol::Netconf { keepalive, .. } => {
                let settings = NetconfSettings::new(ports, slice.to_vec());
                let settings = NetconfSettings { patience: PATIENCE, keepalive, ..settings };
                Box::new(NetconfDriver::new(settings))
            }
            Protocol::Line => {
                let slice = slice.to_vec();
                let connection = Connection { ports, slice, ..Connection::default() };
                (line::PROTOCOL.driver)(&connection).expect("it has no settings")
            }
        }
    }

    pub fn server(self, switch: Switch, slice: &[u16]) -> Box<dyn Server> {
        match self {
            Protocol::Tl1 { own, .. } => {
                let slice = own.then(|| slice.to_vec());
                let user = User { name: "soak".into(), password: secret(), slice };
                let start = tl1::Stamp::from_unix(1_795_282_198);
                let settings = tl1::Settings { sid: "OCS".into(), users: vec![user], start };
                Box::new(Tl1::new(Tl1Server::new(switch, settings)))
            }
            Protocol::Netconf { manner, .. } => Box::new(NetconfServer::new(switch, manner)),
            Protocol::Line => Box::new(LineServer::new(switch)),
        }
    }

    /// Whether one who may not in is told so in the protocol. Else the stream ends at once, as SSH's does.
    pub fn has_login(self) -> bool {
        matches!(self, Protocol::Tl1 { .. })
    }

    /// What the driver says, with a password that is wrong.
    pub fn with_wrong_password(self, bytes: &[u8]) -> Vec<u8> {
        replaced(bytes, b"::sesame;", b"::barley;")
    }

    /// What the switch says, with a no for every yes.
    pub fn denied(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Protocol::Tl1 { .. } => replaced(bytes, b"COMPLD\r\n;", b"DENY\r\n   SROF\r\n;"),
            Protocol::Netconf { .. } => netconf_denied(bytes),
            Protocol::Line => replaced(bytes, b" ok\n", b" err it will not\n"),
        }
    }

    /// Whether a whole command in this may change what stands.
    pub fn changes(self, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        let (end, words): (&str, &[&str]) = match self {
            Protocol::Tl1 { .. } => (";", &["ENT-PATCH", "DLT-PATCH"]),
            Protocol::Netconf { .. } => ("</rpc>", &["<edit-config>", "<commit/>"]),
            Protocol::Line => ("\n", &["connect"]),
        };
        let whole = text.rfind(end).map_or("", |at| &text[..at]);
        words.iter().any(|word| whole.contains(word))
    }
}

/// A message that says no: the server sends one at a time.
fn netconf_denied(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let (Some(from), Some(to)) = (text.find("<rpc-reply"), text.rfind("</rpc-reply>")) else {
        return bytes.to_vec();
    };
    let no = "<rpc-error><error-tag>operation-failed</error-tag>\
              <error-severity>error</error-severity></rpc-error>";
    let message = text[from..to].replace("<ok/>", no) + "</rpc-reply>";
    if bytes.starts_with(b"\n#") { chunk(&message) } else { mark(&message) }
}

fn secret() -> Secret {
    Secret::new("sesame")
}

/// `bytes` with `new` in the place of every `old`.
fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while !rest.is_empty() {
        match rest.strip_prefix(old) {
            Some(after) => {
                out.extend_from_slice(new);
                rest = after;
            }
            None => {
                out.push(rest[0]);
                rest = &rest[1..];
            }
        }
    }
    out
}
