//! Commands to an optical switch, as text and as what they ask.
//!
//! Modelled: `VERB-MODIFIER:tid:aid:ctag:general:parameters;` with lists of ports `1&3`, ranges `1&&4`,
//! and patches as a list of ingresses and one of egresses, `1&2,13&14`. Verbs, names and `ALL` may be
//! in either case. Ignored: the general block (delayed activation), which must be empty, and all
//! commands but those of [`Command`]. Checked: what is written is read back as the same; arbitrary
//! text neither panics nor makes more of a list than a switch has ports.

use super::code::{Code, Denial};
use crate::driver::Patch;
use std::fmt::{self, Write};

/// No list names more ports: the largest switch has 4096 ingresses and as many egresses.
const MOST_PORTS: usize = 8192;

/// What is asked of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `ACT-USER`: lets a user in.
    Login {
        /// The name of the user, without quotes.
        user: String,
        /// What only this user knows.
        password: Secret,
    },
    /// `CANC-USER`: the user leaves. Without a name, whoever is in.
    Logout {
        /// The name of the user, without quotes.
        user: String,
    },
    /// `ENT-PATCH`: sets patches.
    Enter(Vec<Patch>),
    /// `DLT-PATCH`: ends the patches of these ports.
    Delete(Ports),
    /// `RTRV-PATCH`: which patches have these ports.
    Patches(Ports),
    /// `OPR-PORT-SHUTTER`: closes shutters.
    Shut(Ports),
    /// `RLS-PORT-SHUTTER`: opens them.
    Open(Ports),
    /// `RTRV-PORT-SHUTTER`: which are closed.
    Shutters(Ports),
    /// `RTRV-PORT-POWER`: how much light there is.
    Power(Ports),
    /// `RTRV-EQPT` of `SYSTEM`, `PARAMETER=SIZE`: how many ports there are.
    Size,
    /// `RTRV-NETYPE`: who made the switch.
    Kind,
    /// `ALW-MSG-ALL` and `INH-MSG-ALL`: whether messages that nobody asked for are wanted. Polatis
    /// switches also know `OPR-ARC-EQPT` of `REPMGR` for no, which is read as that.
    Messages(bool),
}

/// Ports of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// All ports, ingresses and egresses.
    All,
    /// These, ingresses and egresses.
    These(Vec<u16>),
}

/// A password. It is never printed, and comparing it takes as long for wrong ones of its length.
#[derive(Clone)]
pub struct Secret(String);

/// A command and whom it is for.
///
/// ```
/// use lightloom_control::{Patch, drivers::tl1::{Command, Request}};
/// let request = Request::parse(b"ent-patch::1&&3,9&11&&12:42:").unwrap();
/// let patches = vec![Patch::new(1, 9), Patch::new(2, 11), Patch::new(3, 12)];
/// assert_eq!(request.command, Command::Enter(patches));
/// assert_eq!(request.to_string(), "ENT-PATCH::1&&3,9&11&12:42:;");
/// let (ctag, denial) = Request::parse(b"ENT-PATCH::1&2,9:43:").unwrap_err();
/// assert_eq!((ctag.as_str(), denial.to_string().as_str()), ("43", "IDNV: 2 ingresses for 1 egresses"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The switch that is meant; empty for the one at the other end.
    pub tid: String,
    /// What the answer repeats: letters and digits, 6 at most; `0` where none was given.
    pub ctag: String,
    /// The verb and what it is for.
    pub command: Command,
}

impl Request {
    /// Reads a command, without its `;`.
    ///
    /// # Errors
    /// The tag for the answer, and what the answer is.
    pub fn parse(text: &[u8]) -> Result<Self, (String, Denial)> {
        let none = || "0".to_owned();
        let text = match std::str::from_utf8(text) {
            Ok(text) if text.is_ascii() => text.trim(),
            _ => return Err((none(), Denial::new(Code::Iisp, "a command is of ASCII"))),
        };
        let blocks = blocks(text);
        let &[verb, tid, aid, ctag, ..] = &blocks[..] else {
            let words = "a command is VERB-MODIFIER:tid:aid:ctag:general:parameters;";
            return Err((none(), Denial::new(Code::Iisp, words)));
        };
        if ctag.len() > 6 || !ctag.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err((
                none(),
                Denial::new(Code::Iict, "a ctag is 6 letters and digits at most"),
            ));
        }
        let ctag = if ctag.is_empty() { none() } else { ctag.to_owned() };
        let command = command(verb, aid, &blocks[4..]).map_err(|denial| (ctag.clone(), denial))?;
        Ok(Request { tid: unquoted(tid).to_owned(), ctag, command })
    }
}

fn command(verb: &str, aid: &str, rest: &[&str]) -> Result<Command, Denial> {
    if rest.first().is_some_and(|general| !general.is_empty()) {
        return Err(Denial::new(Code::Ipnv, "the general block must be empty"));
    }
    let payload = |at: usize| rest.get(at).copied().unwrap_or("");
    let bare = |command| match rest.iter().all(|block| block.is_empty()) {
        true => Ok(command),
        false => Err(Denial::new(Code::Ipex, "this command has no parameters")),
    };
    match verb.to_ascii_uppercase().as_str() {
        "ACT-USER" if aid.is_empty() => Err(Denial::new(Code::Ipms, "a user is missing")),
        "ACT-USER" => {
            let password = Secret::new(unquoted(payload(1)));
            Ok(Command::Login { user: unquoted(aid).to_owned(), password })
        }
        "CANC-USER" => bare(Command::Logout { user: unquoted(aid).to_owned() }),
        "ENT-PATCH" => bare(Command::Enter(patches(aid)?)),
        "DLT-PATCH" => bare(Command::Delete(ports(aid)?)),
        "RTRV-PATCH" => bare(Command::Patches(ports(aid)?)),
        "OPR-PORT-SHUTTER" => bare(Command::Shut(ports(aid)?)),
        "RLS-PORT-SHUTTER" => bare(Command::Open(ports(aid)?)),
        "RTRV-PORT-SHUTTER" => bare(Command::Shutters(ports(aid)?)),
        "RTRV-PORT-POWER" => bare(Command::Power(ports(aid)?)),
        "RTRV-EQPT" if !aid.eq_ignore_ascii_case("SYSTEM") => {
            Err(Denial::new(Code::Iiac, "only SYSTEM is known"))
        }
        "RTRV-EQPT" if payload(2).eq_ignore_ascii_case("PARAMETER=SIZE") => Ok(Command::Size),
        "RTRV-EQPT" => Err(Denial::new(Code::Ipnv, "only PARAMETER=SIZE is known")),
        "RTRV-NETYPE" => bare(Command::Kind),
        "ALW-MSG-ALL" => bare(Command::Messages(true)),
        "INH-MSG-ALL" => bare(Command::Messages(false)),
        "RLS-ARC-EQPT" | "OPR-ARC-EQPT" if !aid.eq_ignore_ascii_case("REPMGR") => {
            Err(Denial::new(Code::Iiac, "only REPMGR is known"))
        }
        "RLS-ARC-EQPT" => Ok(Command::Messages(true)),
        "OPR-ARC-EQPT" => Ok(Command::Messages(false)),
        _ => Err(Denial::new(Code::Iicm, "no such command")),
    }
}

/// Splits at `:` outside of texts in quotes. Blanks around a block do not count.
fn blocks(text: &str) -> Vec<&str> {
    let (mut blocks, mut from, mut quoted) = (Vec::with_capacity(8), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b':' if !quoted => {
                blocks.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    blocks.push(text[from..].trim());
    blocks
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

fn patches(aid: &str) -> Result<Vec<Patch>, Denial> {
    let Some((from, to)) = aid.split_once(',') else {
        return Err(Denial::new(Code::Ipms, "patches are ingresses,egresses"));
    };
    let (from, to) = (list(from)?, list(to)?);
    if from.len() != to.len() {
        let words = format!("{} ingresses for {} egresses", from.len(), to.len());
        return Err(Denial::new(Code::Idnv, words));
    }
    Ok(from.into_iter().zip(to).map(|(from, to)| Patch::new(from, to)).collect())
}

fn ports(aid: &str) -> Result<Ports, Denial> {
    match aid.is_empty() || aid.eq_ignore_ascii_case("ALL") {
        true => Ok(Ports::All),
        false => list(aid).map(Ports::These),
    }
}

fn list(text: &str) -> Result<Vec<u16>, Denial> {
    let wrong = || Denial::new(Code::Iiac, "ports are numbers, lists 1&3 and ranges 1&&4");
    let mut ports = Vec::new();
    let (mut ranged, mut gap) = (false, false);
    for item in text.split('&') {
        let item = item.trim();
        if item.is_empty() {
            // Between the two of `&&`; there must be something on both sides.
            if gap || ranged || ports.is_empty() {
                return Err(wrong());
            }
            gap = true;
            continue;
        }
        let digits = item.len() <= 5 && item.bytes().all(|byte| byte.is_ascii_digit());
        let port: u16 = digits.then(|| item.parse().ok()).flatten().ok_or_else(wrong)?;
        match (gap, ports.last()) {
            (true, Some(&first)) if first < port => {
                if ports.len() + usize::from(port - first) > MOST_PORTS {
                    return Err(Denial::new(Code::Iiac, "no switch has so many ports"));
                }
                ports.extend(first + 1..=port);
            }
            (true, _) => return Err(wrong()),
            (false, _) if ports.len() == MOST_PORTS => {
                return Err(Denial::new(Code::Iiac, "no switch has so many ports"));
            }
            (false, _) => ports.push(port),
        }
        (ranged, gap) = (gap, false);
    }
    if gap { Err(wrong()) } else { Ok(ports) }
}

impl fmt::Display for Request {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match &self.command {
            Command::Login { .. } => "ACT-USER",
            Command::Logout { .. } => "CANC-USER",
            Command::Enter(_) => "ENT-PATCH",
            Command::Delete(_) => "DLT-PATCH",
            Command::Patches(_) => "RTRV-PATCH",
            Command::Shut(_) => "OPR-PORT-SHUTTER",
            Command::Open(_) => "RLS-PORT-SHUTTER",
            Command::Shutters(_) => "RTRV-PORT-SHUTTER",
            Command::Power(_) => "RTRV-PORT-POWER",
            Command::Size => "RTRV-EQPT",
            Command::Kind => "RTRV-NETYPE",
            Command::Messages(true) => "ALW-MSG-ALL",
            Command::Messages(false) => "INH-MSG-ALL",
        };
        write!(out, "{verb}:{}:", quoted(&self.tid))?;
        match &self.command {
            Command::Login { user, .. } | Command::Logout { user } => {
                write!(out, "{}", quoted(user))?;
            }
            Command::Enter(patches) => {
                write_list(out, patches.iter().map(|patch| patch.ingress))?;
                out.write_char(',')?;
                write_list(out, patches.iter().map(|patch| patch.egress))?;
            }
            Command::Delete(ports)
            | Command::Patches(ports)
            | Command::Shut(ports)
            | Command::Open(ports)
            | Command::Shutters(ports)
            | Command::Power(ports) => match ports {
                Ports::All => out.write_str("ALL")?,
                Ports::These(ports) => write_list(out, ports.iter().copied())?,
            },
            Command::Size => out.write_str("SYSTEM")?,
            Command::Kind | Command::Messages(_) => {}
        }
        write!(out, ":{}:", self.ctag)?;
        match &self.command {
            Command::Login { password, .. } => write!(out, ":{};", quoted(&password.0)),
            Command::Size => out.write_str("::PARAMETER=SIZE;"),
            _ => out.write_char(';'),
        }
    }
}

/// Three in a row and more are written as a range.
fn write_list(out: &mut impl Write, ports: impl Iterator<Item = u16>) -> fmt::Result {
    let mut ports = ports.peekable();
    let mut separator = "";
    while let Some(first) = ports.next() {
        let mut last = first;
        while last < u16::MAX && ports.next_if_eq(&(last + 1)).is_some() {
            last += 1;
        }
        match last - first {
            0 => write!(out, "{separator}{first}")?,
            1 => write!(out, "{separator}{first}&{last}")?,
            _ => write!(out, "{separator}{first}&&{last}")?,
        }
        separator = "&";
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if text.bytes().all(plain) { text.to_owned() } else { format!("\"{text}\"") }
}

impl Secret {
    /// Keeps a password out of logs.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// Whether it, or a name, can be written in a command.
    pub(super) fn is_writable(text: &str) -> bool {
        text.len() <= 200 && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'"')
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.0.as_bytes(), other.0.as_bytes());
        a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}
