//! Patches and lists of ports, as they are written in a line.

use crate::driver::Patch;
use std::fmt::Write;

/// `3 21`, of a switch with so many ports.
pub(crate) fn parse_patch(words: &str, ports: u16) -> Option<Patch> {
    let (ingress, egress) = words.split_once(' ')?;
    let (ingress, egress) = (ingress.parse().ok()?, egress.parse().ok()?);
    let known = (1..=ports).contains(&ingress) && (ports + 1..=2 * ports).contains(&egress);
    known.then_some(Patch { ingress, egress })
}

/// `1-3,5` of ports in rising order.
pub(super) fn list(ports: &[u16]) -> String {
    let mut text = String::new();
    for run in ports.chunk_by(|a, b| a + 1 == *b) {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = match run {
            [one] => write!(text, "{comma}{one}"),
            run => write!(text, "{comma}{}-{}", run[0], run[run.len() - 1]),
        };
    }
    text
}

/// The ports of `1-3,5`, which rise, of a switch with so many. None if it makes no sense.
pub(crate) fn parse_ports(text: &str, most: u16) -> Option<Vec<u16>> {
    let mut ports: Vec<u16> = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        if first <= ports.last().copied().unwrap_or(0) || last < first || last > most {
            return None;
        }
        ports.extend(first..=last);
    }
    Some(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_they_are_written() {
        for (ports, text) in [
            (vec![1], "1"),
            (vec![1, 2, 3, 5], "1-3,5"),
            (vec![2, 4, 5, 8], "2,4-5,8"),
            ((1..=4096).collect(), "1-4096"),
        ] {
            assert_eq!(list(&ports), text);
            assert_eq!(parse_ports(text, 4096), Some(ports));
        }
        for wrong in ["", "0", "3-1", "1,1", "2,1", "1-", "1,", "-1", "x", "17", "1-70000", "1 2"] {
            assert_eq!(parse_ports(wrong, 16), None, "{wrong}");
        }
    }
}
