//! The XML of NETCONF's messages, as a small tree.
//!
//! Modelled: elements with their namespace, attributes and text; the five entities and character
//! references of XML. A document type is refused, as RFC 6241, Section 3 asks. A tree has at most
//! [`MAX_ELEMENTS`] elements and [`MAX_DEPTH`] levels, so what a message of the greatest length makes
//! is bounded too.
//! Ignored: comments, processing instructions; which namespace it is when it is neither NETCONF's nor
//! the switch's.
//! Checked: a tree that is written and read is the same; arbitrary bytes make a tree or an error.

use quick_xml::escape::{escape, resolve_predefined_entity};
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::{NsReader, XmlVersion};
use std::fmt::{self, Write as _};

/// Elements in a message: four times what a switch of 4096 ports has to tell.
pub const MAX_ELEMENTS: usize = 100_000;
/// Levels in a message.
pub const MAX_DEPTH: usize = 32;

const NETCONF: &str = "urn:ietf:params:xml:ns:netconf:base:1.0";
const SWITCH: &str = "http://www.polatis.com/yang/optical-switch";

/// Whose name an element has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// NETCONF's own (RFC 6241).
    Netconf,
    /// The module of the optical switch.
    Switch,
    /// Somebody else's, or nobody's.
    Other,
}

/// An element with what is in it.
///
/// ```
/// use lightloom_control::drivers::netconf::{Element, Space};
/// let text = r#"<o:pair xmlns:o="http://www.polatis.com/yang/optical-switch"><o:ingress> 7 </o:ingress></o:pair>"#;
/// let pair = Element::parse(text.as_bytes()).unwrap();
/// assert_eq!(pair.space, Space::Switch);
/// assert_eq!(pair.child("ingress").unwrap().text.trim(), "7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Whose name it has.
    pub space: Space,
    /// Its name, without a prefix.
    pub name: String,
    /// Names, without prefixes, and values; declarations of namespaces are left out.
    pub attributes: Vec<(String, String)>,
    /// The text in it, but not in its children.
    pub text: String,
    /// The elements in it, in order.
    pub children: Vec<Element>,
}

impl Element {
    /// An empty element of NETCONF's.
    pub fn netconf(name: &str) -> Self {
        Element::empty(Space::Netconf, name)
    }

    /// An empty element of the switch's module.
    pub fn switch(name: &str) -> Self {
        Element::empty(Space::Switch, name)
    }

    fn empty(space: Space, name: &str) -> Self {
        let (name, text) = (name.to_owned(), String::new());
        Element { space, name, attributes: Vec::new(), text, children: Vec::new() }
    }

    /// This with a child more.
    #[must_use]
    pub fn with(mut self, child: Element) -> Self {
        self.children.push(child);
        self
    }

    /// This with an attribute more.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes.push((name.to_owned(), value.to_owned()));
        self
    }

    /// This with a text.
    #[must_use]
    pub fn saying(mut self, text: impl ToString) -> Self {
        self.text = text.to_string();
        self
    }

    /// Its first child of a name, of the same namespace.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.is(self.space, name))
    }

    /// The value of an attribute.
    pub fn value(&self, attribute: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(name, _)| name == attribute);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether it has this name.
    pub fn is(&self, space: Space, name: &str) -> bool {
        self.space == space && self.name == name
    }

    /// Reads a message.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub fn parse(message: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(message).map_err(|_| "not UTF-8".to_owned())?;
        let mut reader = NsReader::from_str(text.trim_start());
        let (mut open, mut root, mut elements) = (Vec::<Element>::new(), None, 0);
        loop {
            let event = reader.read_event().map_err(|error| error.to_string())?;
            let whole = match event {
                Event::Start(_) | Event::Empty(_) if root.is_some() => {
                    return Err("more than one element".into());
                }
                Event::Start(start) => {
                    open.push(opened(&reader, &start)?);
                    elements += 1;
                    None
                }
                Event::Empty(start) => {
                    elements += 1;
                    Some(opened(&reader, &start)?)
                }
                // The reader has checked that it ends what began last.
                Event::End(_) => open.pop(),
                Event::Text(text) => {
                    say(&mut open, &text.decode().map_err(|error| error.to_string())?)?;
                    None
                }
                Event::CData(text) => {
                    say(&mut open, &text.decode().map_err(|error| error.to_string())?)?;
                    None
                }
                Event::GeneralRef(reference) => {
                    let character =
                        reference.resolve_char_ref().map_err(|error| error.to_string())?;
                    let name = reference.decode().map_err(|error| error.to_string())?;
                    match character {
                        Some(character) => say(&mut open, character.encode_utf8(&mut [0; 4]))?,
                        None => {
                            say(&mut open, resolve_predefined_entity(&name).ok_or("an entity")?)?
                        }
                    }
                    None
                }
                Event::DocType(_) => return Err("a document type".into()),
                Event::Comment(_) | Event::PI(_) | Event::Decl(_) => None,
                Event::Eof => break,
            };
            if elements > MAX_ELEMENTS || open.len() > MAX_DEPTH {
                return Err(format!("more than {MAX_ELEMENTS} elements or {MAX_DEPTH} levels"));
            }
            match (whole, open.last_mut()) {
                (Some(whole), Some(parent)) => parent.children.push(whole),
                (Some(whole), None) => root = Some(whole),
                (None, _) => {}
            }
        }
        match root {
            Some(root) if open.is_empty() => Ok(root),
            _ => Err("it ends too early".into()),
        }
    }

    fn write(&self, out: &mut String, around: Option<Space>) -> fmt::Result {
        write!(out, "<{}", self.name)?;
        match self.space {
            space if Some(space) == around => {}
            Space::Netconf => write!(out, " xmlns=\"{NETCONF}\"")?,
            Space::Switch => write!(out, " xmlns=\"{SWITCH}\"")?,
            Space::Other => write!(out, " xmlns=\"\"")?,
        }
        for (name, value) in &self.attributes {
            // An operation is NETCONF's even on an element of another's.
            if name == "operation" && self.space != Space::Netconf {
                write!(out, " xmlns:nc=\"{NETCONF}\" nc:operation=\"{}\"", escape(value))?;
            } else {
                write!(out, " {name}=\"{}\"", escape(value))?;
            }
        }
        if self.text.is_empty() && self.children.is_empty() {
            return out.write_str("/>");
        }
        write!(out, ">{}", escape(&self.text))?;
        for child in &self.children {
            child.write(out, Some(self.space))?;
        }
        write!(out, "</{}>", self.name)
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out, None)?;
        f.write_str(&out)
    }
}

fn opened(reader: &NsReader<&[u8]>, start: &BytesStart<'_>) -> Result<Element, String> {
    let (space, local) = reader.resolver().resolve_element(start.name());
    let space = match space {
        ResolveResult::Bound(Namespace(name)) if name == NETCONF.as_bytes() => Space::Netconf,
        ResolveResult::Bound(Namespace(name)) if name == SWITCH.as_bytes() => Space::Switch,
        ResolveResult::Bound(_) | ResolveResult::Unbound => Space::Other,
        ResolveResult::Unknown(_) => return Err("a prefix that nothing declares".into()),
    };
    let mut element = Element::empty(space, &String::from_utf8_lossy(local.as_ref()));
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        if attribute.key.as_namespace_binding().is_none() {
            let name = String::from_utf8_lossy(attribute.key.local_name().as_ref()).into_owned();
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|error| error.to_string())?;
            element.attributes.push((name, value.into_owned()));
        }
    }
    Ok(element)
}

fn say(open: &mut [Element], text: &str) -> Result<(), String> {
    match open.last_mut() {
        // What is between elements is layout.
        Some(_) if text.trim().is_empty() => Ok(()),
        Some(element) => {
            element.text.push_str(text);
            Ok(())
        }
        None if text.trim().is_empty() => Ok(()),
        None => Err("text outside every element".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prefixes_do_not_matter() {
        let plain = r#"<rpc-reply xmlns="urn:ietf:params:xml:ns:netconf:base:1.0" message-id="1"><ok/></rpc-reply>"#;
        let prefixed = r#"<?xml version="1.0" encoding="UTF-8"?>
            <n:rpc-reply xmlns:n='urn:ietf:params:xml:ns:netconf:base:1.0' message-id='1'>
              <!-- said by hand --><n:ok></n:ok>
            </n:rpc-reply>"#;
        assert_eq!(Element::parse(plain.as_bytes()), Element::parse(prefixed.as_bytes()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for wrong in [
            "",
            "text",
            "<a>",
            "</a>",
            "<a></b>",
            "<a/><b/>",
            "<a/>x",
            "<x:a/>",
            "<a b='1' b='2'/>",
            "<a>&nothing;</a>",
            "<a>&#0;</a>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
            "<a",
            "\u{0}",
        ] {
            assert!(Element::parse(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        assert!(Element::parse(b"<a>\xff</a>").is_err());
        assert!(Element::parse("<a>".repeat(MAX_DEPTH + 1).as_bytes()).is_err());
        let many = format!("<a>{}</a>", "<a/>".repeat(MAX_ELEMENTS));
        assert!(Element::parse(many.as_bytes()).is_err());
    }

    fn tree() -> impl Strategy<Value = Element> {
        let leaf = (0..3_u8, "[a-z][a-z-]{0,6}", "[a-z<>&'\"]{0,8}", "[<>&'\"a-z]{0,6}");
        let leaf = leaf.prop_map(|(space, name, text, value)| Element {
            space: [Space::Netconf, Space::Switch, Space::Other][usize::from(space)],
            name,
            attributes: vec![("message-id".into(), value)],
            text,
            children: Vec::new(),
        });
        leaf.prop_recursive(4, 30, 4, |inner| {
            (inner.clone(), prop::collection::vec(inner, 0..4)).prop_map(
                |(mut element, children)| {
                    element.children = children;
                    element
                },
            )
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(tree in tree()) {
            prop_assert_eq!(Element::parse(tree.to_string().as_bytes()), Ok(tree));
        }

        #[test]
        fn arbitrary_bytes_make_a_tree_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            marks in "[<>/a-c:=\"'&;!\\[\\]\\-? xmlns]{0,80}",
        ) {
            let _ = Element::parse(&bytes);
            if let Ok(tree) = Element::parse(marks.as_bytes()) {
                let again = Element::parse(tree.to_string().as_bytes());
                prop_assert!(again.is_ok(), "{tree}");
            }
        }
    }
}
