//! The common form of a kind: what a load balancer, a transport, a fabric, a predictor says of itself,
//! as data.
//!
//! A *family* is what a specification chooses one of: balancers, transports, fabrics. Each of its kinds
//! is one file, which holds the algorithm, its settings as a type, and a [`Kind`]: name, summary, source,
//! keys, capabilities. The family has one list; [`kinds!`](crate::kinds) makes everything else of it.
//! Python makes the section of a specification, its reference page and every list of names from the
//! same data, which travels as JSON. What a key is unless given stands in a preset with its source.
//! Ignored: what values must satisfy together; those rules stand with the specification.
//!
//! ```
//! use lightloom_units::kind::{Form, Key, Kind};
//! #[derive(serde::Serialize)]
//! struct Capabilities {
//!     keeps_order: bool,
//! }
//! static PLB: Kind<Capabilities> = Kind {
//!     name: "plb",
//!     summary: "By a hash that changes at idle moments after congestion",
//!     source: Some("Qureshi et al., SIGCOMM 2022"),
//!     keys: &[Key::new("rounds", Form::Count { min: 1, max: 1000 }, "Congested round trips.")],
//!     capabilities: Capabilities { keeps_order: true },
//! };
//! assert!(PLB.capabilities.keeps_order && !PLB.keys[0].optional);
//! ```

use serde::Serialize;

/// What one may choose among at one place of a specification.
#[derive(Debug, Serialize)]
pub struct Family<C: 'static> {
    /// What code calls it: `balancer`, `transport`.
    pub name: &'static str,
    /// What choosing one decides, as a sentence: the text of the key `kind`.
    pub text: &'static str,
    /// Its kinds, in the order of every list.
    pub kinds: &'static [&'static Kind<C>],
}

/// One kind of a family, as it describes itself.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Kind<C> {
    /// What a specification calls it: `round-robin`.
    pub name: &'static str,
    /// What it does, in one sentence without its full stop.
    pub summary: &'static str,
    /// Who published it.
    pub source: Option<&'static str>,
    /// The keys of its table, besides `kind`.
    pub keys: &'static [Key],
    /// What others must know of it, in the type of its family.
    pub capabilities: C,
}

/// One key of a kind's table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Key {
    /// The name in a specification.
    pub name: &'static str,
    /// What it means, as sentences.
    pub text: &'static str,
    /// What it may be.
    pub form: Form,
    /// Whether it may be left out and then stays without a value; the text says what holds then.
    pub optional: bool,
    /// What the resolved specification calls it, where that is another name.
    pub resolved: Option<&'static str>,
}

impl Key {
    /// A key that must have a value, from the user or from a preset.
    pub const fn new(name: &'static str, form: Form, text: &'static str) -> Self {
        Key { name, text, form, optional: false, resolved: None }
    }
    /// A key that may stay without a value.
    pub const fn optional(name: &'static str, form: Form, text: &'static str) -> Self {
        Key { name, text, form, optional: true, resolved: None }
    }
    /// The same key, which the resolved specification calls by another name: one with a base unit.
    pub const fn resolved(self, name: &'static str) -> Self {
        Key { resolved: Some(name), ..self }
    }
}

/// What the value of a key may be. Limits are inclusive unless they are called otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A whole number.
    Count {
        /// The least value that is allowed.
        min: u64,
        /// The greatest value that is allowed.
        max: u64,
    },
    /// An amount of data, text with a unit \[B\].
    Size {
        /// The least value that is allowed.
        min: u64,
        /// The greatest value that is allowed.
        max: u64,
    },
    /// A time, text with a unit \[ps\].
    Time {
        /// The least value that is allowed.
        min: u64,
        /// The greatest value that is allowed.
        max: u64,
    },
    /// A rate of transmission, text with a unit \[bit/s\].
    Rate {
        /// The least value that is allowed.
        min: u64,
        /// The greatest value that is allowed.
        max: u64,
    },
    /// A number above one limit, up to another.
    Number {
        /// Every value is above this.
        above: f64,
        /// The greatest value that is allowed.
        max: f64,
    },
    /// A number from one limit to another.
    Ratio {
        /// The least value that is allowed.
        min: f64,
        /// The greatest value that is allowed.
        max: f64,
    },
    /// An even number.
    Even {
        /// The least value that is allowed.
        min: u64,
        /// The greatest value that is allowed.
        max: u64,
    },
    /// A list of whole numbers.
    Counts {
        /// The least of each.
        min: u64,
        /// The most of each.
        max: u64,
    },
    /// One of some numbers.
    Numbers(&'static [u32]),
    /// `true` or `false`.
    Bool,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// Any text but none.
    Text,
}

impl Form {
    /// Above 0, up to 1.
    pub const SHARE: Form = Form::Number { above: 0.0, max: 1.0 };
}

/// Makes the settings of a family from the list of its kinds: `module::Type` for each.
///
/// For each, the module is declared, which holds `Settings` (`Copy`, `Deserialize`, refuses keys that it
/// does not know) and `KIND`, a [`Kind`](crate::kind::Kind) of the capabilities given. Made of them: an
/// enum of all settings, which is read from a table by its `kind`, and the [`Family`](crate::kind::Family).
/// The types name the enum's variants, and in kebab-case the kinds.
///
/// `cargo fmt` does not see modules that are declared so; `make lint` formats them file by file.
#[macro_export]
macro_rules! kinds {
    (
        $(#[$settings_doc:meta])* settings $Settings:ident;
        $(#[$family_doc:meta])* family $FAMILY:ident: $Capabilities:ty = $name:literal, $text:literal;
        $($module:ident::$Name:ident),* $(,)?
    ) => {
        $(mod $module;)*

        $(#[$settings_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, ::serde::Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub enum $Settings {
            $(#[allow(missing_docs)] $Name($module::Settings)),*
        }

        $(#[$family_doc])*
        pub static $FAMILY: $crate::kind::Family<$Capabilities> = $crate::kind::Family {
            name: $name,
            text: $text,
            kinds: &[$(&$module::KIND),*],
        };

        impl $Settings {
            /// What it says of itself.
            pub fn kind(&self) -> &'static $crate::kind::Kind<$Capabilities> {
                match self {
                    $($Settings::$Name(_) => &$module::KIND),*
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn travels_as_json() {
        #[derive(Serialize)]
        struct None {}
        static ONLY: Kind<None> = Kind {
            name: "only",
            summary: "The one there is",
            source: Some("hand"),
            keys: &[
                Key::new("share", Form::SHARE, "A share."),
                Key::optional("which", Form::Choice(&["a", "b"]), "One of two."),
                Key::new("on", Form::Bool, "Whether."),
            ],
            capabilities: None {},
        };
        static FAMILY: Family<None> = Family { name: "one", text: "Which.", kinds: &[&ONLY] };
        let json = serde_json::to_string(&FAMILY).expect("plain data");
        assert_eq!(
            json,
            r#"{"name":"one","text":"Which.","kinds":[{"name":"only","summary":"The one there is","#
                .to_string()
                + r#""source":"hand","keys":["#
                + r#"{"name":"share","text":"A share.","form":{"number":{"above":0.0,"max":1.0}},"optional":false,"resolved":null},"#
                + r#"{"name":"which","text":"One of two.","form":{"choice":["a","b"]},"optional":true,"resolved":null},"#
                + r#"{"name":"on","text":"Whether.","form":"bool","optional":false,"resolved":null}"#
                + r#"],"capabilities":{}}]}"#
        );
    }
}
