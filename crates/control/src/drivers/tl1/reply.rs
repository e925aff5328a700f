//! What an optical switch says: answers to commands, and messages of its own accord.
//!
//! Modelled: `M  ctag COMPLD` or `DENY` with quoted lines or an error code, autonomous messages with
//! their alarm code, and the acknowledgment `IP ctag`, each under a header with the switch's name and
//! the date. Ignored: years before 1970. Checked: what is written is read back as the same; dates
//! against known ones.

use super::code::Denial;
use lightloom_units::Time;
use std::fmt;

/// The date of a message, by the switch's clock.
///
/// ```
/// use lightloom_control::drivers::tl1::Stamp;
/// assert_eq!(Stamp::from_unix(1_795_282_198).to_string(), "26-11-21 17:29:58");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    /// Seconds since 1970 began.
    pub const fn from_unix(seconds: u64) -> Self {
        Stamp(seconds)
    }

    /// The date and time that are `time` later.
    pub fn after(self, time: Time) -> Self {
        Stamp(self.0.saturating_add(time.ps() / 1_000_000_000_000))
    }

    /// Year, month, day, hour, minute, second. (Days from the civil calendar: Howard Hinnant, 2013.)
    pub(super) fn parts(self) -> [u64; 6] {
        let (days, second) = (self.0 / 86_400 + 719_468, self.0 % 86_400);
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let year = era * 400 + year + u64::from(month >= 10);
        let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
        [year, month, day, second / 3600, second / 60 % 60, second % 60]
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [year, month, day, hour, minute, second] = self.parts();
        let year = year % 100;
        write!(out, "{year:02}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// How grave an autonomous message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// `*C`
    Critical,
    /// `**`
    Major,
    /// `*`
    Minor,
    /// `A`: no alarm.
    Event,
}

/// A message of a switch.
///
/// ```
/// use lightloom_control::drivers::tl1::{Message, lines};
/// let text = "OCS 26-11-21 17:29:58\r\nM  42 COMPLD\r\n   \"1,9\"\r\n   \"2,11\"\r\n";
/// let Ok(Message::Response { ctag: "42", completed: true, text }) = Message::parse(text) else {
///     panic!("this was an answer");
/// };
/// assert_eq!(lines(text).collect::<Vec<_>>(), ["1,9", "2,11"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The answer to a command.
    Response {
        /// The tag of the command that it answers.
        ctag: &'a str,
        /// `COMPLD`, or else `DENY`.
        completed: bool,
        /// The lines after the head.
        text: &'a str,
    },
    /// Something that nobody asked for.
    Autonomous {
        /// How grave it is.
        alarm: Alarm,
        /// The switch's own number of the message.
        atag: &'a str,
        /// `REPT EVT PATCH` and the like.
        what: &'a str,
        /// The lines after the head.
        text: &'a str,
    },
    /// The command was received, and will be answered.
    Acknowledgment {
        /// The tag of the command that it answers.
        ctag: &'a str,
    },
}

impl<'a> Message<'a> {
    /// Reads a message, without its end.
    ///
    /// # Errors
    /// What cannot be made out.
    pub fn parse(message: &'a str) -> Result<Self, String> {
        let mut rest = message;
        let first = line(&mut rest).unwrap_or("");
        let words: Vec<&str> = first.split_whitespace().collect();
        if let ["IP" | "PF" | "OK", ctag] = words[..] {
            return Ok(Message::Acknowledgment { ctag });
        }
        let shown = |text: &str| text.chars().take(40).collect::<String>();
        if words.len() != 3 {
            return Err(format!("no header: {:?}", shown(first)));
        }
        let second = line(&mut rest).unwrap_or("").trim();
        let wrong = || Err(format!("neither an answer nor a report: {:?}", shown(second)));
        let Some((kind, after)) = second.split_once(' ') else { return wrong() };
        let Some((tag, what)) = after.trim().split_once(' ') else { return wrong() };
        let what = what.trim();
        let alarm = match (kind, what) {
            ("M", "COMPLD" | "DENY") => {
                let completed = what == "COMPLD";
                return Ok(Message::Response { ctag: tag, completed, text: rest });
            }
            ("*C", _) => Alarm::Critical,
            ("**", _) => Alarm::Major,
            ("*", _) => Alarm::Minor,
            ("A", _) => Alarm::Event,
            _ => return wrong(),
        };
        Ok(Message::Autonomous { alarm, atag: tag, what, text: rest })
    }
}

/// The next line that is not empty.
fn line<'a>(rest: &mut &'a str) -> Option<&'a str> {
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        *rest = after;
        if !line.trim().is_empty() {
            return Some(line.trim_end());
        }
    }
    None
}

/// The lines in quotes of a message, without them.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix('"'))
}

/// The words of a denial on one line: its code, then its comments.
pub(super) fn denial(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| !matches!(*word, "/*" | "*/"));
    let words = words.collect::<Vec<_>>().join(" ");
    words.chars().take(200).collect()
}

pub(super) fn write_header(out: &mut String, sid: &str, stamp: Stamp) {
    use fmt::Write;
    // A string takes all that is written.
    let _ = write!(out, "\r\n\n   {sid} {stamp}\r\n");
}

pub(super) fn write_response(out: &mut String, ctag: &str, answer: &Result<String, Denial>) {
    use fmt::Write;
    let _ = match answer {
        Ok(lines) => write!(out, "M  {ctag} COMPLD\r\n{lines};"),
        Err(Denial { code, words }) => {
            let letters = code.words().0;
            write!(out, "M  {ctag} DENY\r\n   {letters}\r\n   /* {words} */\r\n;")
        }
    };
}

pub(super) fn write_report(out: &mut String, alarm: Alarm, atag: u64, what: &str, lines: &str) {
    use fmt::Write;
    let alarm = match alarm {
        Alarm::Critical => "*C",
        Alarm::Major => "**",
        Alarm::Minor => "* ",
        Alarm::Event => "A ",
    };
    let _ = write!(out, "{alarm} {atag} REPT {what}\r\n{lines};");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        // From `date -u -d @N +"%y-%m-%d %H:%M:%S"`.
        for (seconds, date) in [
            (0, "70-01-01 00:00:00"),
            (951_782_399, "00-02-28 23:59:59"),
            (951_782_400, "00-02-29 00:00:00"),
            (951_868_800, "00-03-01 00:00:00"),
            (1_798_761_599, "26-12-31 23:59:59"),
            (1_798_761_600, "27-01-01 00:00:00"),
            (4_107_542_400, "00-03-01 00:00:00"),
        ] {
            assert_eq!(Stamp::from_unix(seconds).to_string(), date);
        }
        let late = Stamp::from_unix(59).after(Time::from_ms(1_999));
        assert_eq!(late, Stamp::from_unix(60));
    }
}
