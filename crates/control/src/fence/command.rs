//! What a controller says to the gateway: lines of the line protocol.

use crate::driver::Patch;
use crate::drivers::line::{parse_patch, parse_ports};

/// A command, without its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// The version.
    Hello(u64),
    Show,
    Claim(Vec<u16>),
    Hold(u64, Vec<u16>),
    Change(Change),
}

/// A patch to set or to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub sets: bool,
    pub patch: Patch,
    pub term: u64,
}

impl Command {
    /// Reads a command for a switch of so many ports. The error is what is wrong, in words.
    pub fn parse(text: &str, ports: u16) -> Result<Command, String> {
        let list = |text: &str| {
            let why = format!("ports are a list like 1-3,5, of 1 to {ports}");
            parse_ports(text, ports).ok_or(why)
        };
        let number = |text: &str| {
            let term = text.parse().ok().filter(|&term| term > 0);
            term.ok_or_else(|| "a term is a number above 0".to_string())
        };
        let words: Vec<&str> = text.split(' ').collect();
        Ok(match words[..] {
            ["hello", version] => Command::Hello(version.parse().unwrap_or(0)),
            ["show"] => Command::Show,
            ["claim", text] => Command::Claim(list(text)?),
            ["hold", term, text] => Command::Hold(number(term)?, list(text)?),
            [word @ ("connect" | "disconnect"), ingress, egress, term] => {
                let patch = parse_patch(&format!("{ingress} {egress}"), ports);
                let patch = patch.ok_or("no such port")?;
                Command::Change(Change { sets: word == "connect", patch, term: number(term)? })
            }
            ["connect" | "disconnect", ..] => {
                return Err("a change is an ingress, an egress and a term".into());
            }
            _ => return Err("there is no such command".into()),
        })
    }
}

/// Words in a line: printable, and no more than fit.
pub(super) fn plain(words: &str) -> String {
    let plain = |byte: char| if (' '..='~').contains(&byte) { byte } else { '?' };
    let words: String = words.chars().take(160).map(plain).collect();
    if words.trim().is_empty() { "no reason is given".into() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_said() {
        for text in [
            "",
            " ",
            "show 1",
            "claim",
            "claim 0",
            "claim 1-17",
            "claim 2,1",
            "hold 1-2",
            "hold x 1-2",
            "connect 1 18",
            "connect 1 18 x",
            "connect 1 2 3",
            "connect 17 18 3",
            "disconnect 1 33 3",
            "connect 1 18 3 4",
            "CLAIM 1",
        ] {
            assert!(Command::parse(text, 16).is_err(), "{text:?}");
        }
        let change = Change { sets: true, patch: Patch::new(1, 18), term: 3 };
        assert_eq!(Command::parse("connect 1 18 3", 16), Ok(Command::Change(change)));
        assert_eq!(plain("a\n\u{fc}"), "a??");
        assert_eq!(plain(""), "no reason is given");
        assert_eq!(plain(&"x".repeat(1000)).len(), 160);
    }
}
