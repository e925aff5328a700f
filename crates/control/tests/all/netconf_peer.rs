//! A switch that speaks NETCONF, in memory, for tests: what a driver asks for of RFC 6241 and no more.

use lightloom_control::Patch;
use lightloom_control::conformance::Peer;
use lightloom_control::drivers::netconf::{Element, Framer, Space, chunk, mark};
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// How the switch speaks.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Version 1.1: chunks.
    pub chunks: bool,
    /// Its running configuration can be written.
    pub writable: bool,
    /// Its module is older than 2017-08-04.
    pub old: bool,
    /// It lists its ports and says who made it.
    pub inventory: bool,
}

impl Manner {
    /// As switches and netconfd speak today.
    pub const TODAY: Manner = Manner { chunks: true, writable: true, old: false, inventory: true };
}

/// A configuration: the egress of every ingress in use.
type Patches = BTreeMap<u16, u16>;

pub struct Switch {
    ports: u16,
    manner: Manner,
    running: Patches,
    candidate: Option<Patches>,
    framer: Framer,
    greeted: bool,
    /// Nothing more is said: what came made no sense.
    gone: bool,
    out: VecDeque<Vec<u8>>,
}

/// An `<rpc-error>` in the making: its tag and message.
type Wrong = (&'static str, String);

impl Switch {
    /// A dark switch.
    pub fn new(ports: u16, manner: Manner) -> Self {
        Switch {
            ports,
            manner,
            running: Patches::new(),
            candidate: None,
            framer: Framer::default(),
            greeted: false,
            gone: false,
            out: VecDeque::new(),
        }
    }

    fn list(&self) -> &'static str {
        if self.manner.old { "pairs" } else { "pair" }
    }

    fn hello(&self) -> Element {
        let revision = if self.manner.old { "2016-01-01" } else { "2018-01-01" };
        let module = format!(
            "http://www.polatis.com/yang/optical-switch?module=optical-switch&revision={revision}"
        );
        let mut says = vec!["urn:ietf:params:netconf:base:1.0", &module];
        if self.manner.chunks {
            says.push("urn:ietf:params:netconf:base:1.1");
        }
        says.push(if self.manner.writable {
            "urn:ietf:params:netconf:capability:writable-running:1.0"
        } else {
            "urn:ietf:params:netconf:capability:candidate:1.0"
        });
        let capabilities = says.into_iter().fold(Element::netconf("capabilities"), |all, one| {
            all.with(Element::netconf("capability").saying(one))
        });
        Element::netconf("hello").with(capabilities).with(Element::netconf("session-id").saying(7))
    }

    fn answer(&mut self, call: &Element) -> Element {
        let number = call.value("message-id").unwrap_or("none");
        let reply = Element::netconf("rpc-reply").attribute("message-id", number);
        let performed = match &call.children[..] {
            [operation] => self.perform(operation),
            _ => Err(("malformed-message", "one operation a call".into())),
        };
        match performed {
            Ok(None) => reply.with(Element::netconf("ok")),
            Ok(Some(data)) => reply.with(data),
            Err((tag, message)) => reply.with(
                Element::netconf("rpc-error")
                    .with(Element::netconf("error-type").saying("application"))
                    .with(Element::netconf("error-tag").saying(tag))
                    .with(Element::netconf("error-severity").saying("error"))
                    .with(Element::netconf("error-message").saying(message)),
            ),
        }
    }

    fn perform(&mut self, operation: &Element) -> Result<Option<Element>, Wrong> {
        match operation.name.as_str() {
            "get" => {
                let filter = operation.child("filter").ok_or(missing("filter"))?;
                return Ok(Some(self.data(filter)));
            }
            "edit-config" => self.edit(operation)?,
            "lock" if self.candidate.is_some() => {
                return Err(("lock-denied", "somebody else has it".into()));
            }
            "lock" => self.candidate = Some(self.running.clone()),
            "commit" => {
                let candidate = self.candidate.clone().ok_or(unlocked())?;
                self.check(&candidate)?;
                self.running = candidate;
            }
            "discard-changes" => self.candidate = Some(self.running.clone()),
            "unlock" => {
                let left = self.candidate.take().ok_or(unlocked())?;
                if left != self.running {
                    return Err(("operation-failed", "changes are left in the candidate".into()));
                }
            }
            name => return Err(("unknown-element", name.into())),
        }
        Ok(None)
    }

    fn data(&self, filter: &Element) -> Element {
        let mut data = Element::netconf("data");
        for wanted in &filter.children {
            let found = Element::switch(&wanted.name);
            let leaf = |name, value: &dyn ToString| Element::switch(name).saying(value.to_string());
            let found = match wanted.name.as_str() {
                "cross-connects" => self.running.iter().fold(found, |all, (ingress, egress)| {
                    let pair = Element::switch(self.list());
                    all.with(pair.with(leaf("ingress", ingress)).with(leaf("egress", egress)))
                }),
                "product-information" if self.manner.inventory => found
                    .with(leaf("manufacturer", &"Lightloom"))
                    .with(leaf("model-name", &"in memory")),
                "port-config" if self.manner.inventory => (1..=2 * self.ports)
                    .fold(found, |all, port| {
                        all.with(Element::switch("port").with(leaf("port-id", &port)))
                    }),
                _ => found,
            };
            if !found.children.is_empty() {
                data.children.push(found);
            }
        }
        data
    }

    fn edit(&mut self, edit: &Element) -> Result<(), Wrong> {
        let target = if self.manner.writable { "running" } else { "candidate" };
        let target = edit.child("target").and_then(|child| child.child(target));
        target.ok_or(missing("target"))?;
        let config = edit.child("config").map(|config| &config.children[..]);
        let Some([connects]) = config else { return Err(missing("config")) };
        if !connects.is(Space::Switch, "cross-connects") {
            return Err(("unknown-element", connects.name.clone()));
        }
        let mut next = if self.manner.writable {
            self.running.clone()
        } else {
            self.candidate.clone().ok_or(unlocked())?
        };
        let mut named = Vec::new();
        for pair in &connects.children {
            if !pair.is(Space::Switch, self.list()) {
                return Err(("unknown-element", pair.name.clone()));
            }
            let number = |name| -> Result<u16, Wrong> {
                let leaf = pair.child(name).ok_or(("missing-element", name.to_owned()))?;
                leaf.text.parse().map_err(|_| ("invalid-value", leaf.text.clone()))
            };
            let ingress = number("ingress")?;
            // netconfd refuses an edit that names an entry twice.
            if named.contains(&ingress) {
                return Err(("data-exists", format!("ingress {ingress} is named twice")));
            }
            named.push(ingress);
            let there = next.contains_key(&ingress);
            match pair.value("operation") {
                Some("delete") if there => drop(next.remove(&ingress)),
                Some("delete") => return Err(("data-missing", format!("ingress {ingress}"))),
                Some("create") if there => return Err(("data-exists", format!("{ingress}"))),
                Some("create" | "replace") => drop(next.insert(ingress, number("egress")?)),
                other => return Err(("bad-attribute", format!("operation {other:?}"))),
            }
        }
        if self.manner.writable {
            self.check(&next)?;
            self.running = next;
        } else {
            self.candidate = Some(next);
        }
        Ok(())
    }

    fn check(&self, patches: &Patches) -> Result<(), Wrong> {
        let mut egresses: Vec<_> = patches.values().collect();
        egresses.sort_unstable();
        let doubled = egresses.windows(2).find(|two| two[0] == two[1]);
        let no_port = patches.iter().find(|&(&ingress, &egress)| {
            ingress == 0 || ingress > self.ports || egress <= self.ports || egress > 2 * self.ports
        });
        match (doubled, no_port) {
            (Some(egress), _) => Err(("operation-failed", format!("egress {} twice", egress[0]))),
            (_, Some(pair)) => Err(("invalid-value", format!("{pair:?} < a port"))),
            _ => Ok(()),
        }
    }
}

fn missing(what: &str) -> Wrong {
    ("missing-element", what.into())
}

fn unlocked() -> Wrong {
    ("operation-failed", "the candidate is not locked".into())
}

impl Peer for Switch {
    fn open(&mut self, _: Time) {
        (self.framer, self.greeted, self.gone) = (Framer::default(), false, false);
        self.candidate = None;
        self.out.clear();
        self.out.push_back(mark(&self.hello().to_string()));
    }

    fn close(&mut self, _: Time) {
        self.out.clear();
        self.candidate = None;
    }

    fn receive(&mut self, _: Time, bytes: &[u8]) {
        if self.gone {
            return;
        }
        self.framer.push(bytes);
        loop {
            let message = match self.framer.message() {
                Ok(None) => return,
                Ok(Some(message)) => Element::parse(&message).ok(),
                Err(_) => None,
            };
            match message {
                Some(message) if self.greeted && message.is(Space::Netconf, "rpc") => {
                    let reply = self.answer(&message).to_string();
                    let chunks = self.manner.chunks;
                    self.out.push_back(if chunks { chunk(&reply) } else { mark(&reply) });
                }
                Some(message) if !self.greeted && message.is(Space::Netconf, "hello") => {
                    self.greeted = true;
                    if self.manner.chunks {
                        self.framer.speak_chunks();
                    }
                }
                _ => {
                    self.gone = true;
                    return;
                }
            }
        }
    }

    fn transmit(&mut self, _: Time) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn timeout(&mut self, _: Time) {}

    fn patches(&self) -> Vec<Patch> {
        self.running.iter().map(|(&ingress, &egress)| Patch::new(ingress, egress)).collect()
    }
}
