//! The file of a gateway: where it listens, which switch it drives, where it keeps terms.
//!
//! Checked: every key that is wrong is named with its value and what is allowed, below.

use super::file::File;
use super::{raw, switch};
use crate::failure::Failure;
use crate::wire::Endpoint;
use lightloom_control::Driver;
use lightloom_control::fence::GatewaySettings;
use lightloom_fabric::MOST_PORTS;
use lightloom_units::Time;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// All that a gateway's file says.
pub struct FenceConfig {
    /// Where controllers find it: on loopback.
    pub listen: SocketAddr,
    /// The file that keeps the terms.
    pub terms: PathBuf,
    /// How the switch is reached.
    pub endpoint: Endpoint,
    /// The driver of its protocol.
    pub driver: Box<dyn Driver + Send>,
    /// Its ports, and how patient the gateway is.
    pub settings: GatewaySettings,
    /// Between two attempts to reach the switch.
    pub reconnect: Time,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    listen: Option<String>,
    terms: Option<PathBuf>,
    switch: raw::Switch,
    #[serde(default)]
    timing: Timing,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Timing {
    patience: Option<String>,
    lifetime: Option<String>,
    reconnect: Option<String>,
}

impl FenceConfig {
    /// Reads what a file holds; `path` is for messages, and for what is relative to it.
    ///
    /// # Errors
    /// [`Failure::Input`] with the file, the key, its value and what is allowed.
    ///
    /// ```
    /// use lightloom_daemon::config::FenceConfig;
    /// let text = r#"
    /// [switch]
    /// protocol = "tl1"
    /// address = "127.0.0.1:3082"
    /// ports = 384
    /// "#;
    /// let config = FenceConfig::read("left.toml".as_ref(), text).unwrap();
    /// assert_eq!((config.listen.port(), config.settings.ports), (3083, 384));
    /// assert_eq!(config.terms, std::path::Path::new("left.terms"));
    /// let none = FenceConfig::read("left.toml".as_ref(), &text.replace("384", "0"));
    /// assert_eq!(none.err().unwrap().to_string(), "left.toml: switch.ports: 0: must be from 1 to 4096");
    /// ```
    pub fn read(path: &Path, text: &str) -> Result<Self, Failure> {
        let file = File { path };
        let raw: Raw = toml::from_str(text).map_err(|why| file.syntax(text, &why))?;
        let listen = raw.listen.as_deref().unwrap_or("127.0.0.1:3083");
        let allowed = "must be an address and a port on loopback, such as 127.0.0.1:3083; \
                       controllers on other machines come by ssh";
        let address = listen.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback());
        let address = address.ok_or_else(|| file.wrong("listen", listen, allowed))?;
        let ports = raw.switch.ports;
        if !(1..=MOST_PORTS).contains(&u32::from(ports)) {
            let allowed = format!("must be from 1 to {MOST_PORTS}");
            return Err(file.wrong("switch.ports", ports, allowed));
        }
        let slice = (1..=ports).collect();
        let (_, endpoint, driver) = switch::read(&file, "switch", &raw.switch, slice)?;
        let stem = path.file_stem().map_or_else(|| "gateway".into(), PathBuf::from);
        let terms = raw.terms.unwrap_or_else(|| stem.with_extension("terms"));
        let (settings, reconnect) = timing(&file, &raw.timing, ports)?;
        let terms = file.beside(&terms);
        Ok(FenceConfig { listen: address, terms, endpoint, driver, settings, reconnect })
    }
}

fn timing(file: &File<'_>, raw: &Timing, ports: u16) -> Result<(GatewaySettings, Time), Failure> {
    let (ms, hour) = (Time::from_ms(1), Time::from_secs_f64(3600.0));
    let time = |key, text, default, least| {
        file.time(&format!("timing.{key}"), text, Time::from_ms(default), (least, hour))
    };
    let patience = time("patience", &raw.patience, 1_000, ms)?;
    let lifetime = time("lifetime", &raw.lifetime, 1_000, Time::ZERO)?;
    let reconnect = time("reconnect", &raw.reconnect, 500, ms)?;
    Ok((GatewaySettings { ports, patience, lifetime }, reconnect))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        listen = "127.0.0.1:3090"
        terms = "t"
        [switch]
        protocol = "tl1"
        address = "127.0.0.1:3082"
        ports = 8
        [timing]
        patience = "2 s"
    "#;

    #[test]
    fn every_wrong_key_is_named() {
        let read = |text: &str| FenceConfig::read("d/g.toml".as_ref(), text);
        let Ok(good) = read(GOOD) else { panic!("good") };
        assert_eq!((good.terms, good.settings.patience), ("d/t".into(), Time::from_ms(2_000)));
        for (old, new, why) in [
            ("127.0.0.1:3090", "0.0.0.0:3090", ": listen: 0.0.0.0:3090: must be an address and"),
            ("127.0.0.1:3090", "here", ": listen: here: must be an address and"),
            ("ports = 8", "ports = 4097", ": switch.ports: 4097: must be from 1 to 4096"),
            ("\"tl1\"", "\"tl2\"", ": switch.protocol: tl2: must be one of tl1, netconf, line"),
            ("ports = 8", "ports = 8\nwax = 1", ": switch.wax: tl1 has no such key, only "),
            ("127.0.0.1:3082", "here", ": switch.address: here: must be host:port"),
            ("\"2 s\"", "\"0 s\"", ": timing.patience: 0 s: must be from 1 ms to 3600 s"),
            ("\"2 s\"", "\"soon\"", ": timing.patience: "),
            ("patience", "wax", ":9: unknown field `wax`"),
            ("terms", "term", ":3: unknown field `term`"),
            ("[switch]", "[swatch]", ":4: unknown field `swatch`"),
        ] {
            let text = GOOD.replacen(old, new, 1);
            assert_ne!(text, GOOD, "{old}");
            let found = read(&text).err().map(|why| why.to_string()).unwrap_or_default();
            assert!(found.starts_with(&format!("d/g.toml{why}")), "{found}");
        }
    }
}
