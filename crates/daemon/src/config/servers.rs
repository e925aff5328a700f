//! Servers, their tenants, and the ports of switches that are theirs.

use super::file::File;
use super::raw;
use crate::failure::Failure;
use crate::hub::Names;
use lightloom_control::{Region, SwitchPort};
use lightloom_fabric::MOST_PORTS;
use std::collections::BTreeSet;

/// A region has no more switches.
const MOST_SWITCHES: usize = 256;

/// What messages call a switch.
pub(super) fn table(raw: &raw::Raw, at: usize) -> String {
    if raw.switch.len() == 1 { "switch".into() } else { format!("switch[{at}]") }
}

/// Names of the switches: given, or where they are.
pub(super) fn switch_names(raw: &raw::Raw) -> Vec<String> {
    let place = |switch: &raw::Switch| {
        let command = switch.command.as_ref().map(|command| command.join(" "));
        switch.address.clone().or(command).unwrap_or_default()
    };
    let name = |switch: &raw::Switch| switch.name.clone().unwrap_or_else(|| place(switch));
    raw.switch.iter().map(name).collect()
}

/// Reads who is where.
pub(super) fn servers(file: &File<'_>, raw: &raw::Raw) -> Result<(Names, Region), Failure> {
    let switches = switches(file, raw)?;
    let ports: Vec<u16> = raw.switch.iter().map(|switch| switch.ports).collect();
    let listed: Vec<Listed> = match (&raw.servers, raw.server.is_empty()) {
        (None, false) => listed(file, raw, &switches)?,
        (None, true) => return Err(file.lacks("servers", "give [servers], or [[server]] for each")),
        (Some(_), false) => {
            return Err(file.lacks("servers", "give either [servers] or [[server]], not both"));
        }
        (Some(row), true) => in_a_row(file, row, &switches, &ports)?,
    };
    let mut names = Names {
        region: raw.name.clone(),
        switches,
        servers: Vec::new(),
        tenants: Vec::new(),
        tenant_of_server: Vec::new(),
    };
    let (mut wiring, mut seen) = (Vec::new(), BTreeSet::new());
    let degree = listed.first().map_or(0, |server| server.ports.len());
    for (at, server) in listed.iter().enumerate() {
        let key = |key: &str| format!("server[{at}].{key}");
        if server.name.is_empty() || server.name.len() > 64 {
            return Err(file.wrong(&key("name"), &server.name, "must have 1 to 64 characters"));
        }
        if !seen.insert(&server.name) {
            return Err(file.wrong(&key("name"), &server.name, "another server has this name"));
        }
        if server.ports.len() != degree || degree == 0 {
            let found = server.ports.len();
            let allowed = format!("must name as many ports as the first server, {degree}");
            return Err(file.wrong(&key("ports"), format!("{found} ports"), allowed));
        }
        for (said, port) in &server.ports {
            if wiring.contains(port) {
                return Err(file.wrong(&key("ports"), said, "this port is taken already"));
            }
            wiring.push(*port);
        }
        let tenant = server.tenant.as_deref().unwrap_or("default");
        let known = names.tenants.iter().position(|known| known == tenant);
        let number = known.unwrap_or_else(|| {
            names.tenants.push(tenant.into());
            names.tenants.len() - 1
        });
        names.tenant_of_server.push(number as u16);
        names.servers.push(server.name.clone());
    }
    let half = degree.div_ceil(2);
    let even = || (0..degree).map(|port| u8::from(port >= half)).collect();
    let numa = raw.numa_of_port.clone().unwrap_or_else(even);
    if numa.len() != degree {
        let allowed = format!("must have one for each of {degree} ports");
        return Err(file.wrong("numa_of_port", format!("{} entries", numa.len()), allowed));
    }
    let region = Region::over(&ports, wiring, names.tenant_of_server.clone(), numa)
        .map_err(|why| file.lacks("servers", why))?;
    Ok((names, region))
}

/// A server, with its ports as they are written and where they are.
struct Listed {
    name: String,
    ports: Vec<(String, SwitchPort)>,
    tenant: Option<String>,
}

/// The switches' names.
fn switches(file: &File<'_>, raw: &raw::Raw) -> Result<Vec<String>, Failure> {
    let many = raw.switch.len();
    if !(1..=MOST_SWITCHES).contains(&many) {
        let allowed = format!("must be from 1 to {MOST_SWITCHES}");
        return Err(file.wrong("switch", format!("{many} of them"), allowed));
    }
    let names = switch_names(raw);
    for (at, switch) in raw.switch.iter().enumerate() {
        let key = |key: &str| format!("{}.{key}", table(raw, at));
        if !(1..=MOST_PORTS).contains(&u32::from(switch.ports)) {
            let allowed = format!("must be from 1 to {MOST_PORTS}");
            return Err(file.wrong(&key("ports"), switch.ports, allowed));
        }
        if switch.name.as_ref().is_some_and(|name| name.is_empty() || name.len() > 64) {
            let name = switch.name.as_deref().unwrap_or_default();
            return Err(file.wrong(&key("name"), name, "must have 1 to 64 characters"));
        }
        if names[..at].contains(&names[at]) {
            return Err(file.wrong(&key("name"), &names[at], "another switch has this name"));
        }
    }
    Ok(names)
}

fn listed(file: &File<'_>, raw: &raw::Raw, names: &[String]) -> Result<Vec<Listed>, Failure> {
    let server = |(at, server): (usize, &raw::Server)| {
        let port = |value: &toml::Value| {
            let said = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let wrong =
                |allowed: String| file.wrong(&format!("server[{at}].ports"), &said, allowed);
            let at = place(raw, names, value).map_err(wrong)?;
            Ok((said, at))
        };
        let ports = server.ports.iter().map(port).collect::<Result<_, Failure>>()?;
        Ok(Listed { name: server.name.clone(), ports, tenant: server.tenant.clone() })
    };
    raw.server.iter().enumerate().map(server).collect()
}

/// Where a port is: its number, or the switch's name and its number; else what is allowed.
fn place(raw: &raw::Raw, names: &[String], value: &toml::Value) -> Result<SwitchPort, String> {
    let (switch, port) = match value {
        toml::Value::Integer(port) if names.len() == 1 => (0, u16::try_from(*port).ok()),
        toml::Value::Integer(_) => {
            return Err("must be \"SWITCH:PORT\", for there are several switches".into());
        }
        toml::Value::String(text) => {
            let (name, port) = text.rsplit_once(':').unwrap_or((text, ""));
            let Some(switch) = names.iter().position(|known| known == name) else {
                let names = names.join(", ");
                return Err(format!("must be a port of one of the switches {names}"));
            };
            (switch, port.parse().ok())
        }
        _ => return Err("must be a port of a switch".into()),
    };
    let ports = raw.switch[switch].ports;
    let port = port.filter(|port| (1..=ports).contains(port));
    let allowed = || format!("must be a port of the switch, from 1 to {ports}");
    Ok(SwitchPort { switch: switch as u16, port: port.ok_or_else(allowed)? })
}

/// So many servers, whose ports are on the switches in turn, and on each switch one after the other.
fn in_a_row(
    file: &File<'_>,
    row: &raw::Row,
    names: &[String],
    ports: &[u16],
) -> Result<Vec<Listed>, Failure> {
    if !(2..=4096).contains(&row.count) {
        return Err(file.wrong("servers.count", row.count, "must be from 2 to 4096"));
    }
    let all: u32 = ports.iter().map(|&ports| u32::from(ports)).sum();
    if row.ports_each == 0 || u32::from(row.ports_each) > all {
        let allowed = format!("must be from 1 to {all}");
        return Err(file.wrong("servers.ports_each", row.ports_each, allowed));
    }
    let switches = ports.len();
    let on = |switch: usize| {
        (0..usize::from(row.ports_each)).filter(|port| port % switches == switch).count() as u32
    };
    let first = u32::from(row.first_port);
    for (switch, &ports) in ports.iter().enumerate() {
        let last = (first + u32::from(row.count) * on(switch)).saturating_sub(1);
        if first == 0 || last > u32::from(ports) {
            let allowed = match switches {
                1 => format!("the ports would be {first} to {last}; the switch has 1 to {ports}"),
                _ => {
                    let name = &names[switch];
                    format!("the ports of {name} would be {first} to {last}; it has 1 to {ports}")
                }
            };
            return Err(file.wrong("servers.first_port", first, allowed));
        }
    }
    let width = (row.count - 1).to_string().len().max(2);
    let server = |at: u16| {
        let port = |of: u16| {
            let (turn, switch) = (usize::from(of) / switches, usize::from(of) % switches);
            let port = first + u32::from(at) * on(switch) + turn as u32;
            let at = SwitchPort { switch: switch as u16, port: port as u16 };
            (port.to_string(), at)
        };
        let ports = (0..row.ports_each).map(port).collect();
        Listed { name: format!("node-{at:0width$}"), ports, tenant: None }
    };
    Ok((0..row.count).map(server).collect())
}
