//! A configuration of the emulated switch, and what an `<edit-config>` makes of it.

use super::xml::{Element, Space};
use std::collections::BTreeMap;

/// A configuration: the egress of every ingress in use.
pub(super) type Patches = BTreeMap<u16, u16>;
/// An `<rpc-error>` in the making: its tag and message.
pub(super) type Wrong = (&'static str, String);

pub(super) fn missing(what: &str) -> Wrong {
    ("missing-element", what.into())
}

/// Whether this is about the candidate.
pub(super) fn is_candidate(operation: &Element) -> bool {
    operation.child("target").is_some_and(|target| target.child("candidate").is_some())
}

/// `patches` after an edit of this list, if that can be.
pub(super) fn edited(mut patches: Patches, list: &str, edit: &Element) -> Result<Patches, Wrong> {
    let config = edit.child("config").map(|config| &config.children[..]);
    let Some([connects]) = config else { return Err(missing("config")) };
    if !connects.is(Space::Switch, "cross-connects") {
        return Err(("unknown-element", connects.name.clone()));
    }
    let mut named = Vec::new();
    for pair in &connects.children {
        if !pair.is(Space::Switch, list) {
            return Err(("unknown-element", pair.name.clone()));
        }
        let ingress = number(pair, "ingress")?;
        // netconfd refuses an edit that names an entry twice.
        if named.contains(&ingress) {
            return Err(("data-exists", format!("ingress {ingress} is named twice")));
        }
        named.push(ingress);
        let there = patches.contains_key(&ingress);
        match pair.value("operation") {
            Some("delete") if there => drop(patches.remove(&ingress)),
            Some("delete") => return Err(("data-missing", format!("ingress {ingress}"))),
            Some("create") if there => return Err(("data-exists", format!("ingress {ingress}"))),
            Some("create" | "replace") => drop(patches.insert(ingress, number(pair, "egress")?)),
            other => return Err(("bad-attribute", format!("operation {other:?}"))),
        }
    }
    Ok(patches)
}

fn number(pair: &Element, name: &str) -> Result<u16, Wrong> {
    let leaf = pair.child(name).ok_or_else(|| missing(name))?;
    leaf.text.trim().parse().map_err(|_| ("invalid-value", leaf.text.clone()))
}
