//! What `lightloomd controller check`, `trail` and `drivers` print.

use crate::config::Config;
use crate::failure::Failure;
use crate::trail;
use lightloom_control::drivers::DRIVERS;
use lightloom_control::protocol::Setting;
use std::io::Write;
use std::path::Path;

/// Prints what a region's file means.
///
/// # Errors
/// As [`Config::load`].
pub fn check(file: &Path, json: bool) -> Result<(), Failure> {
    let summary = Config::load(file)?.summary;
    if json {
        say(&serde_json::to_string_pretty(&summary).map_err(|why| Failure::Run(why.to_string()))?);
        return Ok(());
    }
    let tls = if summary.tls { "with TLS" } else { "without TLS" };
    let tokens = match summary.own_token {
        Some(path) => format!("an operator's token of its own, made at each start: {path}"),
        None => format!("{} tokens", summary.tokens),
    };
    let switches = summary.switches.iter();
    let switches =
        switches.map(|switch| ("switch", format!("{}, {} ports", switch.at, switch.ports)));
    let lines = [
        ("region", summary.region),
        ("servers", format!("{} of {} optical ports", summary.servers, summary.ports_each)),
        ("tenants", summary.tenants.join(", ")),
        ("listens", format!("{} {tls}", summary.listen)),
        ("lets in", tokens),
        ("decides", summary.decision),
        ("journal", summary.journal),
    ];
    let (first, rest) = lines.split_at(3);
    let lines = first.iter().cloned().chain(switches).chain(rest.iter().cloned());
    lines.for_each(|(name, value)| say(&format!("{name:<8} {value}")));
    Ok(())
}

/// Prints the last calls that changed something in a region, or were refused, oldest first.
///
/// # Errors
/// As [`Config::load`]; if no controller has left such a file.
pub fn calls(file: &Path, limit: usize, json: bool) -> Result<(), Failure> {
    let path = trail::beside(&Config::load(file)?.journal);
    let found = trail::read(&path, limit)
        .map_err(|why| Failure::Run(format!("{}: {why}", path.display())))?;
    for entry in found {
        if json {
            say(&serde_json::to_string(&entry).map_err(|why| Failure::Run(why.to_string()))?);
            continue;
        }
        let who = entry.who.unwrap_or_else(|| {
            entry.sha256.map_or_else(|| "no token".into(), |digits| format!("sha256 {digits}..."))
        });
        let asked = entry.asked.map_or_else(String::new, |asked| format!(" {asked}"));
        let more = match entry.left_out {
            0 => String::new(),
            left_out => format!("  ({left_out} refused calls before it were left out)"),
        };
        let trail::Entry { unix_ms, from, call, answer, .. } = entry;
        let at = utc(unix_ms);
        say(&format!("{at}  {answer}  {who:<20}  {from:<21}  {call}{asked}{more}"));
    }
    Ok(())
}

/// A time since 1970 as a date and a time of day.
fn utc(unix_ms: u64) -> String {
    let (days, second) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    // Years begin in March: then a leap day is a year's last.
    let era = days + 719_468;
    let (cycle, day) = (era / 146_097, era % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (year + 400 * cycle + month / 10, (month + 2) % 12 + 1);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Prints the protocols that switches are driven by, each with the keys of `[switch]` that it reads.
///
/// # Errors
/// If they cannot be written as JSON.
pub fn drivers(json: bool) -> Result<(), Failure> {
    if json {
        say(&serde_json::to_string_pretty(DRIVERS).map_err(|why| Failure::Run(why.to_string()))?);
        return Ok(());
    }
    for protocol in DRIVERS {
        say(&format!("{:<8} {}", protocol.name, protocol.title));
        for setting in protocol.reach.settings().iter().chain(protocol.settings) {
            let Setting { key, meaning, default, .. } = setting;
            say(&format!("{:<8} {:<20}  {meaning} ({default})", "", format!("switch.{key}")));
        }
    }
    Ok(())
}

/// A line on standard output, at once; nobody needs to read it.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_s, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_795_478_400, "2026-11-24T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(unix_s * 1000), date);
        }
    }
}
