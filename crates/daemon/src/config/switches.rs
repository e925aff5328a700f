//! `switches.toml`: where the devices of port maps are, and how patient whoever drives them is.
//!
//! Checked: every key that is wrong is named with its value and what is allowed, below.

use super::file::File;
use super::listen::{Listen, listen};
use super::{raw, switch};
use crate::auth::Tokens;
use crate::failure::Failure;
use crate::wire::Endpoint;
use lightloom_control::Driver;
use lightloom_control::execution::{Limits, Place, PortMaps};
use lightloom_fabric::MOST_PORTS;
use lightloom_units::Time;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;

/// A switch, and how it is driven.
pub struct Driven {
    /// Its name in messages.
    pub name: String,
    /// Its duplex ports.
    pub ports: u16,
    /// Where it is.
    pub endpoint: Endpoint,
    /// The driver of its protocol.
    pub driver: Box<dyn Driver + Send>,
}

/// All that `switches.toml` says, for maps.
pub struct Switches {
    /// Those that hold a device of the maps, or several.
    pub switches: Vec<Driven>,
    /// By device of the maps: where it is.
    pub places: Vec<Place>,
    /// How patient to be.
    pub limits: Limits,
    /// Between two attempts to reach a switch.
    pub reconnect: Time,
    /// Where nodes find us.
    pub address: SocketAddr,
    /// The certificate and key to listen with, if there are any.
    pub tls: Option<Arc<ServerConfig>>,
    /// The tokens of the file; without any, the run makes one of its own.
    pub tokens: Tokens,
    /// Where it writes that, unless where clients of the same user look by themselves.
    pub token_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    listen: raw::Listen,
    #[serde(default)]
    token: Vec<raw::Token>,
    #[serde(default)]
    switch: Vec<Named>,
    #[serde(default)]
    timing: Timing,
}

#[derive(Debug, Deserialize)]
struct Named {
    devices: BTreeMap<String, u16>,
    #[serde(flatten)]
    switch: raw::Switch,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Timing {
    patience: Option<String>,
    lifetime: Option<String>,
    give_up: Option<String>,
    audit: Option<String>,
    reconnect: Option<String>,
    lease: Option<String>,
    grace: Option<String>,
    attempts: Option<u32>,
}

impl Switches {
    /// Reads a file, for the devices of these maps.
    ///
    /// # Errors
    /// [`Failure::Input`] with the file, the key, its value and what is allowed.
    pub fn load(path: &Path, maps: &PortMaps) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|why| Failure::Input(format!("{}: {why}", path.display())))?;
        Switches::read(path, &text, maps)
    }

    /// Reads what a file holds; `path` is for messages, and for what is relative to it.
    ///
    /// # Errors
    /// As [`Switches::load`].
    ///
    /// ```
    /// use lightloom_control::execution::PortMaps;
    /// use lightloom_daemon::config::Switches;
    /// let maps = r#"{"format": "lightloom-port-maps", "version": 1, "made": {"lightloom": "", "by": "an example"},
    ///     "devices": [{"device": "plane 0", "ports": [0, 3], "duplex": false, "attached": [], "initial": [],
    ///     "settings": []}]}"#;
    /// let maps = PortMaps::read(maps).unwrap();
    /// let text = r#"
    /// [[switch]]
    /// protocol = "tl1"
    /// address = "127.0.0.1:3082"
    /// ports = 8
    /// devices = { "plane 0" = 5 }
    /// "#;
    /// let switches = Switches::read("switches.toml".as_ref(), text, &maps).unwrap();
    /// assert_eq!(switches.places[0].first, 5);
    /// let none = Switches::read("switches.toml".as_ref(), &text.replace("plane 0", "plane 1"), &maps);
    /// let why = "switches.toml: switch: no switch has the device \"plane 0\"";
    /// assert_eq!(none.err().unwrap().to_string(), why);
    /// ```
    pub fn read(path: &Path, text: &str, maps: &PortMaps) -> Result<Self, Failure> {
        let file = File { path };
        let raw: Raw = toml::from_str(text).map_err(|why| file.syntax(text, &why))?;
        let (limits, reconnect) = timing(&file, &raw.timing)?;
        let Listen { address, tls, tokens, token_file, .. } =
            listen(&file, &raw.listen, &raw.token, &[])?;
        let mut places: Vec<Option<Place>> = vec![None; maps.devices.len()];
        let mut switches: Vec<Driven> = Vec::new();
        for (at, named) in raw.switch.iter().enumerate() {
            let table = format!("switch[{at}]");
            let slice = slice(&file, &table, named, maps)?;
            // One that has none of these devices is left alone, and yet must be right.
            let (_, endpoint, driver) = switch::read(&file, &table, &named.switch, slice.clone())?;
            if slice.is_empty() {
                continue;
            }
            for (device, &first) in &named.devices {
                let Some(of) = maps.devices.iter().position(|own| own.device == *device) else {
                    continue;
                };
                if places[of].is_some() {
                    let key = format!("{table}.devices");
                    return Err(file.wrong(&key, device, "another switch has this device"));
                }
                places[of] = Some(Place { switch: switches.len(), first });
            }
            let name = named.switch.name.clone().unwrap_or_else(|| endpoint.to_string());
            if switches.iter().any(|known| known.name == name) {
                return Err(file.wrong(
                    &format!("{table}.name"),
                    name,
                    "another switch has this name",
                ));
            }
            switches.push(Driven { name, ports: named.switch.ports, endpoint, driver });
        }
        let places = maps.devices.iter().zip(places).map(|(device, place)| {
            let why = format!("no switch has the device {:?}", device.device);
            place.ok_or_else(|| file.lacks("switch", why))
        });
        let places = places.collect::<Result<_, _>>()?;
        Ok(Switches { switches, places, limits, reconnect, address, tls, tokens, token_file })
    }
}

/// The ports of a switch that are ports of the maps' devices: rising.
fn slice(
    file: &File<'_>,
    table: &str,
    named: &Named,
    maps: &PortMaps,
) -> Result<Vec<u16>, Failure> {
    let ports = named.switch.ports;
    if !(1..=MOST_PORTS).contains(&u32::from(ports)) {
        let allowed = format!("must be from 1 to {MOST_PORTS}");
        return Err(file.wrong(&format!("{table}.ports"), ports, allowed));
    }
    let mut slice = Vec::new();
    for (name, &first) in &named.devices {
        let key = format!("{table}.devices.{name:?}");
        if first == 0 || first > ports {
            return Err(file.wrong(&key, first, format!("must be a port, from 1 to {ports}")));
        }
        let Some(device) = maps.devices.iter().find(|own| own.device == *name) else { continue };
        let last = u64::from(first) + u64::from(device.ports.1 - device.ports.0);
        if last > u64::from(ports) {
            let allowed = format!("the device would have ports {first} to {last} of 1 to {ports}");
            return Err(file.wrong(&key, first, allowed));
        }
        for port in first..=last as u16 {
            if slice.contains(&port) {
                let allowed = format!("port {port} is another device's");
                return Err(file.wrong(&key, first, allowed));
            }
            slice.push(port);
        }
    }
    slice.sort_unstable();
    Ok(slice)
}

fn timing(file: &File<'_>, raw: &Timing) -> Result<(Limits, Time), Failure> {
    let known = Limits::default();
    let (ms, hour) = (Time::from_ms(1), Time::from_secs_f64(3600.0));
    let time = |key, text, default, least| {
        file.time(&format!("timing.{key}"), text, default, (least, hour))
    };
    let attempts = raw.attempts.unwrap_or(known.attempts);
    if !(1..=100).contains(&attempts) {
        return Err(file.wrong("timing.attempts", attempts, "must be from 1 to 100"));
    }
    let lease = time("lease", &raw.lease, Time::from_ms(3_000), Time::from_ms(100))?;
    let grace = time("grace", &raw.grace, Time::from_ms(200), Time::ZERO)?;
    let limits = Limits {
        patience: time("patience", &raw.patience, known.patience, ms)?,
        lifetime: time("lifetime", &raw.lifetime, known.lifetime, Time::ZERO)?,
        give_up: time("give_up", &raw.give_up, known.give_up, ms)?,
        audit: time("audit", &raw.audit, known.audit, Time::from_ms(100))?,
        lease,
        settle: lease + grace,
        attempts,
        ..known
    };
    let reconnect = time("reconnect", &raw.reconnect, Time::from_ms(500), ms)?;
    Ok((limits, reconnect))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        [[switch]]
        name = "left"
        protocol = "tl1"
        address = "127.0.0.1:3082"
        ports = 8
        devices = { a = 1, b = 5 }
        [[switch]]
        protocol = "line"
        address = "127.0.0.1:3083"
        ports = 16
        devices = { c = 1, other = 7 }
    "#;

    fn maps() -> PortMaps {
        let device = |name: &str| {
            format!(
                r#"{{"device": "{name}", "ports": [0, 3], "duplex": false, "attached": [],
                "initial": [], "settings": []}}"#
            )
        };
        let devices = ["a", "b", "c"].map(device).join(",");
        PortMaps::read(&format!(
            r#"{{"format": "lightloom-port-maps", "version": 1, "made": {{"lightloom": "", "by": ""}},
            "devices": [{devices}]}}"#
        ))
        .expect("maps")
    }

    fn read(text: &str) -> Result<Switches, String> {
        Switches::read("s.toml".as_ref(), text, &maps()).map_err(|why| why.to_string())
    }

    #[test]
    fn a_file_says_where_devices_are() {
        let found = read(GOOD).expect("good");
        let places: Vec<_> = found.places.iter().map(|place| (place.switch, place.first)).collect();
        assert_eq!(places, [(0, 1), (0, 5), (1, 1)]);
        let names: Vec<_> = found.switches.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["left", "127.0.0.1:3083"]);
        assert_eq!(found.limits.settle, Time::from_ms(3_200));
    }

    #[test]
    fn every_wrong_key_is_named() {
        for (old, new, why) in [
            ("b = 5", "b = 4", "switch[0].devices.\"b\": 4: port 4 is another device's"),
            (
                "b = 5",
                "b = 6",
                "switch[0].devices.\"b\": 6: the device would have ports 6 to 9 of 1 to 8",
            ),
            ("a = 1", "a = 0", "switch[0].devices.\"a\": 0: must be a port, from 1 to 8"),
            ("c = 1", "c = 1, a = 9", "switch[1].devices: a: another switch has this device"),
            ("c = 1, ", "", "switch: no switch has the device \"c\""),
            ("\"tl1\"", "\"tl2\"", "switch[0].protocol: tl2: must be one of tl1, netconf, line"),
            ("ports = 16", "ports = 0", "switch[1].ports: 0: must be from 1 to 4096"),
            ("ports = 16", "ports = 16\nwax = 1", "switch[1].wax: line has no such key, only "),
            ("\"left\"", "\"127.0.0.1:3083\"", "switch[1].name: 127.0.0.1:3083: another switch"),
            ("127.0.0.1:3082", "here", "switch[0].address: here: must be host:port"),
        ] {
            let text = GOOD.replace(old, new);
            assert_ne!(text, GOOD, "{old}");
            let found = read(&text).err().unwrap_or_default();
            assert!(found.starts_with(&format!("s.toml: {why}")), "{found}");
        }
        for (more, why) in [
            ("[timing]\ngive_up = \"0 s\"", "timing.give_up: 0 s: must be from 1 ms to 3600 s"),
            ("[timing]\nattempts = 0", "timing.attempts: 0: must be from 1 to 100"),
            ("[timing]\nwax = 1", ": unknown field `wax`"),
            ("[listen]\naddress = \"0.0.0.0:1\"", "listen.address: "),
        ] {
            let found = read(&format!("{GOOD}\n{more}")).err().unwrap_or_default();
            assert!(found.contains(why), "{found}");
        }
    }
}
