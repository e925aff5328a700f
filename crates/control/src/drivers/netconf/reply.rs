//! What a server says, taken for what it means.
//!
//! Modelled: the greeting and its capabilities (RFC 6241, Section 8.1), replies with their errors and
//! warnings, the data of the module of the optical switch.
//! Ignored: what else a server tells of itself.
//! Checked: with the driver.

use super::xml::{Element, Space};
use crate::driver::Patch;

const BASE_1_0: &str = "urn:ietf:params:netconf:base:1.0";
const BASE_1_1: &str = "urn:ietf:params:netconf:base:1.1";
const WRITABLE: &str = "urn:ietf:params:netconf:capability:writable-running:1.0";
const CANDIDATE: &str = "urn:ietf:params:netconf:capability:candidate:1.0";
const MODULE: &str = "http://www.polatis.com/yang/optical-switch";
/// The first revision of the module in which the list is called `pair`.
const PAIR_SINCE: &str = "2017-08-04";
/// What a switch says in its own words is cut to this \[characters\].
const WORDS: usize = 400;

/// What the server's hello tells.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Both sides speak version 1.1.
    pub chunks: bool,
    /// The running configuration can be written.
    pub writable: bool,
    /// Of the module of the switch, if it tells.
    pub revision: Option<String>,
    /// The number of this session; 0 if it does not tell.
    pub session: u64,
}

impl Server {
    /// The name of the list of patches.
    pub fn list(&self) -> &'static str {
        let old = self.revision.as_deref().is_some_and(|revision| revision < PAIR_SINCE);
        if old { "pairs" } else { "pair" }
    }
}

/// What a server says to a call.
pub enum Reply {
    /// It is done.
    Ok,
    /// What was asked for.
    Data(Element),
    /// It is not done, for this reason.
    Refused(String),
    /// It is locked by this session, 0 for somebody without one; and in words.
    Locked(u64, String),
}

/// What a server's hello says of it.
pub fn greeted(hello: &Element) -> Result<Server, String> {
    let capabilities = hello.is(Space::Netconf, "hello").then(|| hello.child("capabilities"));
    let Some(Some(capabilities)) = capabilities else {
        return Err(format!("<{}> is no greeting", hello.name));
    };
    let says = |which: &str| capabilities.children.iter().any(|one| one.text.trim() == which);
    let module = capabilities.children.iter().find_map(|one| {
        let rest = one.text.trim().strip_prefix(MODULE)?;
        (rest.is_empty() || rest.starts_with('?')).then_some(rest)
    });
    let module = module.ok_or("it does not serve the module optical-switch")?;
    let revision = module.split(['?', '&']).find_map(|part| part.strip_prefix("revision="));
    let chunks = says(BASE_1_1);
    if !chunks && !says(BASE_1_0) {
        return Err("it speaks neither version 1.0 nor 1.1".into());
    }
    let writable = says(WRITABLE);
    if !writable && !says(CANDIDATE) {
        return Err("its configuration can be written neither at once nor as a candidate".into());
    }
    let session = hello.child("session-id").and_then(|session| session.text.trim().parse().ok());
    let session = session.unwrap_or(0);
    Ok(Server { chunks, writable, revision: revision.map(cut), session })
}

/// What a server says to a call, and what it warns of.
pub fn replied(message: Element) -> Result<(Reply, Option<String>), String> {
    let (mut errors, mut warnings, mut reply) = (Vec::new(), Vec::new(), None);
    let mut holder = None;
    for child in message.children {
        if child.is(Space::Netconf, "rpc-error") {
            let said = |name| child.child(name).map_or("", |of| of.text.trim());
            let words = ["error-tag", "error-app-tag", "error-message", "error-path"].map(said);
            let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
            if said("error-tag") == "lock-denied" {
                let session = child.child("error-info").and_then(|info| info.child("session-id"));
                holder = session.and_then(|session| session.text.trim().parse().ok());
            }
            let list =
                if said("error-severity") == "warning" { &mut warnings } else { &mut errors };
            list.push(words.join(", "));
        } else if child.is(Space::Netconf, "ok") {
            reply = Some(Reply::Ok);
        } else if child.is(Space::Netconf, "data") {
            reply = Some(Reply::Data(child));
        }
    }
    if !errors.is_empty() {
        let words = cut(&errors.join("; "));
        reply = Some(match holder {
            Some(session) => Reply::Locked(session, words),
            None => Reply::Refused(words),
        });
    }
    let warning = (!warnings.is_empty()).then(|| cut(&warnings.join("; ")));
    Ok((reply.ok_or("a reply that says nothing")?, warning))
}

/// What a switch says it is, and how many ports it has if it lists them.
pub fn described(data: &Element) -> Result<(String, Option<u16>), String> {
    let inside = |name| data.children.iter().find(|child| child.is(Space::Switch, name));
    let product = inside("product-information");
    let said = |name| product.and_then(|product| product.child(name)).map(|of| of.text.trim());
    let words: Vec<_> =
        ["manufacturer", "model-name", "software-version"].into_iter().filter_map(said).collect();
    let device = match words[..] {
        [] => "a switch that does not name itself".to_owned(),
        _ => cut(&words.join(" ")),
    };
    let mut highest = 0;
    for port in inside("port-config").map_or(&[][..], |config| &config.children) {
        highest = highest.max(number(port, "port-id")?);
    }
    // Ingresses and egresses are numbered in one row.
    Ok((device, (highest > 1).then_some(highest / 2)))
}

/// The patches that a switch names in a list, in rising order.
pub fn patches(data: &Element, list: &str) -> Result<Vec<Patch>, String> {
    let connects = data.children.iter().find(|child| child.is(Space::Switch, "cross-connects"));
    let mut patches = Vec::new();
    for pair in connects.map_or(&[][..], |connects| &connects.children) {
        if pair.is(Space::Switch, list) {
            patches.push(Patch::new(number(pair, "ingress")?, number(pair, "egress")?));
        }
    }
    patches.sort_unstable();
    Ok(patches)
}

fn number(of: &Element, name: &str) -> Result<u16, String> {
    let text = of.child(name).map_or("", |child| child.text.trim());
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| format!("<{}>: {name} {text:?} is no port", of.name))
}

/// An element and all in it, in words.
pub fn flat(element: &Element) -> String {
    let inside: Vec<_> = element.children.iter().map(flat).collect();
    format!("{} {}{}", element.name, element.text.trim(), inside.join(" ")).trim().to_owned()
}

/// No more than a line's worth.
pub fn cut(words: &str) -> String {
    words.chars().take(WORDS).collect()
}
