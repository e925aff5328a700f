//! How an emulated switch speaks NETCONF, and what it tells of itself.

use super::xml::Element;
use crate::ocs::Switch;

/// How the switch speaks.
///
/// ```
/// use lightloom_control::drivers::netconf::Manner;
/// let old = Manner { old: true, inventory: false, ..Manner::TODAY };
/// assert!(old.chunks && old.writable);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Version 1.1: chunks.
    pub chunks: bool,
    /// Its running configuration can be written; else there is a candidate.
    pub writable: bool,
    /// Its module is older than 2017-08-04.
    pub old: bool,
    /// It lists its ports and says who made it.
    pub inventory: bool,
}

impl Manner {
    /// As switches and netconfd speak today.
    pub const TODAY: Manner = Manner { chunks: true, writable: true, old: false, inventory: true };

    /// The name of the list of patches.
    pub(super) fn list(self) -> &'static str {
        if self.old { "pairs" } else { "pair" }
    }

    pub(super) fn hello(self, session: u64) -> Element {
        let revision = if self.old { "2016-01-01" } else { "2018-01-01" };
        let module = format!(
            "http://www.polatis.com/yang/optical-switch?module=optical-switch&revision={revision}"
        );
        let mut says = vec!["urn:ietf:params:netconf:base:1.0", &module];
        if self.chunks {
            says.push("urn:ietf:params:netconf:base:1.1");
        }
        says.push(if self.writable {
            "urn:ietf:params:netconf:capability:writable-running:1.0"
        } else {
            "urn:ietf:params:netconf:capability:candidate:1.0"
        });
        let capabilities = says.into_iter().fold(Element::netconf("capabilities"), |all, one| {
            all.with(Element::netconf("capability").saying(one))
        });
        let number = Element::netconf("session-id").saying(session);
        Element::netconf("hello").with(capabilities).with(number)
    }

    /// What a `<get>` with this filter finds.
    pub(super) fn data(self, switch: &Switch, filter: &Element) -> Element {
        let mut data = Element::netconf("data");
        for wanted in &filter.children {
            let found = self.found(switch, &wanted.name);
            if !found.children.is_empty() {
                data.children.push(found);
            }
        }
        data
    }

    fn found(self, switch: &Switch, name: &str) -> Element {
        let found = Element::switch(name);
        let leaf = |name, value: &dyn ToString| Element::switch(name).saying(value.to_string());
        match name {
            "cross-connects" => switch.patches().fold(found, |all, patch| {
                let pair = Element::switch(self.list()).with(leaf("ingress", &patch.ingress));
                all.with(pair.with(leaf("egress", &patch.egress)))
            }),
            "product-information" if self.inventory => found
                .with(leaf("manufacturer", &"Lightloom"))
                .with(leaf("model-name", &switch.device().name)),
            "port-config" if self.inventory => {
                (1..=2 * switch.ports()).fold(found, |all, port| {
                    all.with(Element::switch("port").with(leaf("port-id", &port)))
                })
            }
            _ => found,
        }
    }
}
