//! `[switch]`, or one of `[[switch]]`: the protocol, how the switch is reached, and the settings of the driver.

use crate::config::file::File;
use crate::config::raw;
use crate::failure::Failure;
use crate::tls;
use crate::wire::Endpoint;
use lightloom_control::Driver;
use lightloom_control::drivers::DRIVERS;
use lightloom_control::protocol::{Connection, Protocol, Reach, Setting, SettingKind};
use std::collections::BTreeMap;
use std::path::Path;

/// Keys that are read whatever the protocol.
const COMMON: [&str; 6] = ["name", "protocol", "address", "command", "ports", "tls"];

type Switch = (&'static Protocol, Endpoint, Box<dyn Driver + Send>);

/// Reads a switch of which these ports are of interest; `table` is what messages call it.
pub(super) fn read(
    file: &File<'_>,
    table: &str,
    raw: &raw::Switch,
    slice: Vec<u16>,
) -> Result<Switch, Failure> {
    let found = DRIVERS.iter().copied().find(|protocol| protocol.name == raw.protocol);
    let Some(protocol) = found else {
        let names: Vec<_> = DRIVERS.iter().map(|protocol| protocol.name).collect();
        let allowed = format!("must be one of {}", names.join(", "));
        return Err(file.wrong(&format!("{table}.protocol"), &raw.protocol, allowed));
    };
    let mut reaching = values(file, table, raw, protocol, protocol.reach.settings())?;
    let endpoint = endpoint(file, table, raw, protocol.reach, reaching.remove("user"))?;
    let connection = Connection {
        ports: raw.ports,
        slice,
        loopback: endpoint.is_loopback(),
        values: values(file, table, raw, protocol, protocol.settings)?,
    };
    let driver = (protocol.driver)(&connection)
        .map_err(|wrong| file.lacks(&format!("{table}.{}", wrong.key), wrong.why))?;
    Ok((protocol, endpoint, driver))
}

/// What the file gives of these settings. A key that nobody reads is an error.
fn values(
    file: &File<'_>,
    table: &str,
    raw: &raw::Switch,
    protocol: &Protocol,
    settings: &'static [Setting],
) -> Result<BTreeMap<&'static str, String>, Failure> {
    let own = || protocol.reach.settings().iter().chain(protocol.settings);
    if let Some(key) = raw.own.keys().find(|key| own().all(|setting| setting.key != **key)) {
        let keys: Vec<_> = COMMON.into_iter().chain(own().map(|setting| setting.key)).collect();
        let why = format!("{} has no such key, only {}", protocol.name, keys.join(", "));
        // Its value is not shown: it may be a secret.
        return Err(file.lacks(&format!("{table}.{key}"), why));
    }
    let mut values = BTreeMap::new();
    for setting in settings {
        let Some(value) = raw.own.get(setting.key) else { continue };
        let key = format!("{table}.{}", setting.key);
        let Some(text) = value.as_str() else {
            return Err(file.wrong(&key, value, "must be text"));
        };
        let text = match setting.kind {
            SettingKind::Text => text.to_owned(),
            SettingKind::File => std::fs::read_to_string(file.beside(Path::new(text)))
                .map_err(|why| file.wrong(&key, text, why))?
                .trim_end_matches(['\r', '\n'])
                .to_owned(),
        };
        values.insert(setting.key, text);
    }
    Ok(values)
}

fn endpoint(
    file: &File<'_>,
    table: &str,
    raw: &raw::Switch,
    reach: Reach,
    user: Option<String>,
) -> Result<Endpoint, Failure> {
    let key = |key: &str| format!("{table}.{key}");
    let endpoint = match (&raw.command, &raw.address, &raw.tls, reach) {
        (Some(command), None, None, _) => match command.split_first() {
            Some((program, arguments)) => {
                Endpoint::Command { program: program.clone(), arguments: arguments.to_vec() }
            }
            None => return Err(file.wrong(&key("command"), "[]", "must name a program")),
        },
        (Some(_), _, _, _) => {
            return Err(file.lacks(&key("command"), "give it without an address and tls"));
        }
        (None, None, _, _) => {
            return Err(file.lacks(&key("address"), "missing: the switch's host:port"));
        }
        (None, Some(address), tls, reach) => {
            let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            let Some((host, Ok(port))) = port.map(|(host, port)| (host, port.parse::<u16>()))
            else {
                return Err(file.wrong(&key("address"), address, "must be host:port"));
            };
            match (tls, reach) {
                (Some(tls), _) => {
                    let wrong = |why| file.lacks(&key("tls"), why);
                    let name = tls.server_name.as_deref().unwrap_or(host);
                    let name = tls::name(name).map_err(wrong)?;
                    let config = tls::client(&file.beside(&tls.ca)).map_err(wrong)?;
                    Endpoint::Tls { address: address.clone(), name, config }
                }
                (None, Reach::Ssh { subsystem }) => {
                    let arguments = ssh(user.as_deref(), host, port, subsystem);
                    return Ok(Endpoint::Command { program: "ssh".into(), arguments });
                }
                (None, Reach::Tcp) => Endpoint::Tcp { address: address.clone() },
            }
        }
    };
    match user {
        None => Ok(endpoint),
        Some(_) => Err(file.lacks(&key("user"), "give it with an address, and without tls")),
    }
}

/// The arguments of `ssh` for a subsystem, with keys of the user that the controller runs as.
fn ssh(user: Option<&str>, host: &str, port: u16, subsystem: &str) -> Vec<String> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let target = user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
    let options = ["-s", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-p"];
    let rest = [&port.to_string(), "--", &target, subsystem];
    options.into_iter().chain(rest).map(str::to_owned).collect()
}
