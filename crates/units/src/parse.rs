//! Unit strings: a decimal number, an optional space, a unit. Parsing is exact: "0.1 ns" is 100 ps,
//! and "0.5 ps" is an error rather than 0 or 1.

use std::fmt;

/// Unit names and how many base units each is, in the order of preference for printing.
pub(crate) type Units = &'static [(&'static str, u64)];

pub(crate) const TIME: Units = &[
    ("s", 1_000_000_000_000),
    ("ms", 1_000_000_000),
    ("us", 1_000_000),
    ("ns", 1_000),
    ("ps", 1),
    ("min", 60_000_000_000_000),
    ("h", 3_600_000_000_000_000),
];
pub(crate) const BYTES: Units = &[
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
    ("TiB", 1 << 40),
    ("KB", 1_000),
];
pub(crate) const RATE: Units = &[
    ("Tbps", 1_000_000_000_000),
    ("Gbps", 1_000_000_000),
    ("Mbps", 1_000_000),
    ("kbps", 1_000),
    ("bps", 1),
    ("TB/s", 8_000_000_000_000),
    ("GB/s", 8_000_000_000),
    ("MB/s", 8_000_000),
    ("kB/s", 8_000),
    ("B/s", 8),
    ("GiB/s", 8 << 30),
];

/// Why a text is not a quantity; the message says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {what}: {reason}; write a number and a unit, such as {example}")]
pub struct ParseError {
    text: String,
    what: &'static str,
    reason: String,
    example: &'static str,
}

/// Parses `text` into base units, exactly; an error names `what` it should be and an `example`.
pub(crate) fn parse(
    text: &str,
    units: Units,
    what: &'static str,
    example: &'static str,
) -> Result<u64, ParseError> {
    base_units(text, units).map_err(|reason| ParseError {
        text: text.to_string(),
        what,
        reason,
        example,
    })
}

fn base_units(text: &str, units: Units) -> Result<u64, String> {
    let text = text.trim();
    let split =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = (text[..split].replace('_', ""), text[split..].trim_start());
    let names = || units.iter().map(|u| u.0).collect::<Vec<_>>().join(", ");
    let Some(&(_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(match unit {
            "" => format!("the unit is missing (one of {})", names()),
            _ => format!("the unit must be one of {}", names()),
        });
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.contains('.') {
        return Err("the number is not a decimal one".into());
    }
    let too_large = || "it does not fit in 64 bits".to_string();
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| too_large())?;
    let divisor = 10u128.checked_pow(fraction.len() as u32).ok_or("it has too many decimals")?;
    let scaled = digits.checked_mul(u128::from(scale)).ok_or_else(too_large)?;
    if scaled % divisor != 0 {
        return Err(format!("it is not a whole number of {}", base_name(units)));
    }
    u64::try_from(scaled / divisor).map_err(|_| too_large())
}

fn base_name(units: Units) -> &'static str {
    units.iter().find(|u| u.1 == 1).map_or("units", |u| u.0)
}

/// Prints `value` in the largest preferred unit that needs at most three decimals, exactly.
pub(crate) fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, units: Units) -> fmt::Result {
    for &(name, scale) in units {
        if value >= scale && (u128::from(value) * 1000) % u128::from(scale) == 0 {
            let thousandths = u128::from(value) * 1000 / u128::from(scale);
            let (whole, rest) = (thousandths / 1000, thousandths % 1000);
            if rest == 0 {
                return write!(f, "{whole} {name}");
            }
            let decimals = format!("{rest:03}");
            return write!(f, "{whole}.{} {name}", decimals.trim_end_matches('0'));
        }
    }
    write!(f, "{value} {}", base_name(units))
}
