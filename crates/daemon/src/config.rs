//! `region.toml`: what a controller knows about its region, read and checked whole before anything
//! starts. Paths in it are relative to the file.
//!
//! Checked: every key that is wrong is named with its value and what is allowed, in the tests below;
//! the files of `examples/` are read.

mod file;
mod listen;
mod raw;
mod summary;
mod switch;
mod switches;

pub use summary::Summary;
pub use switches::{Driven, Switches};

use crate::auth::Tokens;
use crate::failure::Failure;
use crate::hub::Names;
use crate::own_token;
use crate::preset;
use crate::wire::Endpoint;
use file::File;
use lightloom_control::{Driver, Region, Settings};
use lightloom_decide::{self as decide, Decider, rule};
use lightloom_fabric::{MOST_PORTS, ReconfigurationDelay};
use lightloom_units::Time;
use listen::{Listen, listen};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tokio_rustls::rustls::ServerConfig;

/// All that `region.toml` says.
pub struct Config {
    /// Names of servers and tenants.
    pub names: Names,
    /// Servers, tenants, ports.
    pub region: Region,
    /// Leases, time-outs and attempts.
    pub settings: Settings,
    /// How circuits are chosen.
    pub decider: Decider,
    /// The address for agents and operators.
    pub address: SocketAddr,
    /// The certificate and key to listen with, if there are any.
    pub tls: Option<Arc<ServerConfig>>,
    /// When that certificate ends, if it is known.
    pub expiry: Option<SystemTime>,
    /// The tokens of the file; without any, the controller makes one of its own.
    pub tokens: Tokens,
    /// Where it writes that, unless where clients of the same user look by themselves.
    pub token_file: Option<PathBuf>,
    /// How the switch is reached.
    pub endpoint: Endpoint,
    /// The driver of its protocol.
    pub driver: Box<dyn Driver + Send>,
    /// The journal's file.
    pub journal: PathBuf,
    /// What `lightloom controller check` prints.
    pub summary: Summary,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Failure::Input`] with the file, the key, its value and what is allowed.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|why| Failure::Input(format!("{}: {why}", path.display())))?;
        Config::read(path, &text)
    }

    /// Reads what a file holds; `path` is for messages, and for what is relative to it.
    ///
    /// # Errors
    /// As [`Config::load`].
    ///
    /// ```
    /// use lightloom_daemon::config::Config;
    /// let text = r#"
    /// name = "region-0"
    /// [servers]
    /// count = 4
    /// ports_each = 2
    /// [switch]
    /// protocol = "netconf"
    /// command = ["ssh", "-s", "switch", "netconf"]
    /// ports = 8
    /// "#;
    /// let config = Config::read("region.toml".as_ref(), text).unwrap();
    /// assert_eq!((config.region.servers(), config.names.servers[3].as_str()), (4, "node-03"));
    /// let none = Config::read("region.toml".as_ref(), &text.replace("ports = 8", "ports = 0"));
    /// let why = "region.toml: switch.ports: 0: must be from 1 to 4096";
    /// assert_eq!(none.err().unwrap().to_string(), why);
    /// ```
    pub fn read(path: &Path, text: &str) -> Result<Self, Failure> {
        let file = File { path };
        let raw: raw::Raw = toml::from_str(text).map_err(|why| file.syntax(text, &why))?;
        if raw.name.is_empty() || raw.name.len() > 64 || raw.name.chars().any(char::is_control) {
            return Err(file.wrong("name", &raw.name, "must have 1 to 64 characters"));
        }
        let (names, region) = servers(&file, &raw)?;
        let Listen { address, tls, expiry, tokens, token_file } =
            listen(&file, &raw.listen, &raw.token, &names.tenants)?;
        let own_token = || token_file.clone().unwrap_or_else(|| own_token::usual_path(address));
        let own_token = tokens.is_empty().then(|| own_token().display().to_string());
        let (protocol, endpoint, driver) =
            switch::read(&file, "switch", &raw.switch, region.slice())?;
        let journal = raw.journal.path.clone().unwrap_or_else(|| {
            path.file_stem()
                .map_or_else(|| "region".into(), PathBuf::from)
                .with_extension("journal")
        });
        let journal = file.beside(&journal);
        let decision = decision(&file, &raw.decision)?;
        let decider = Decider::new(decision.clone(), &names.tenant_of_server);
        let summary = Summary {
            region: raw.name.clone(),
            servers: region.servers(),
            ports_each: region.degree(),
            tenants: names.tenants.clone(),
            switch: format!("{} at {endpoint}", protocol.name),
            switch_ports: region.switch_ports(),
            listen: address.to_string(),
            tls: tls.is_some(),
            tokens: raw.token.len(),
            own_token,
            decision: decision.rule.name().into(),
            journal: journal.display().to_string(),
        };
        Ok(Config {
            settings: timing(&file, &raw.timing)?,
            decider,
            names,
            region,
            address,
            tls,
            expiry,
            tokens,
            token_file,
            endpoint,
            driver,
            journal,
            summary,
        })
    }

    /// What a file says but for its tokens and the certificate to listen with, which can be read anew: another text
    /// for everything else.
    ///
    /// # Errors
    /// If it is no TOML.
    pub fn lasting(text: &str) -> Result<String, toml::de::Error> {
        let mut all: toml::Table = toml::from_str(text)?;
        all.remove("token");
        if let Some(toml::Value::Table(listen)) = all.get_mut("listen") {
            for key in ["certificate", "key"] {
                listen.remove(key);
            }
        }
        Ok(all.to_string())
    }

    /// Another text for every other wiring: what a journal is good for.
    pub fn wiring(&self) -> String {
        let ports = |server: u16| (0..self.region.degree() as u16).map(move |port| (server, port));
        let mut digest = Sha256::new();
        digest.update(self.region.switch_ports().to_le_bytes());
        for (server, name) in (0..).zip(&self.names.servers) {
            digest.update((name.len() as u64).to_le_bytes());
            digest.update(name);
            digest.update(self.region.tenant(server).to_le_bytes());
            ports(server).for_each(|port| {
                digest.update(self.region.switch_port(port).to_le_bytes());
            });
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn servers(file: &File<'_>, raw: &raw::Raw) -> Result<(Names, Region), Failure> {
    let ports = raw.switch.ports;
    if !(1..=MOST_PORTS).contains(&u32::from(ports)) {
        return Err(file.wrong("switch.ports", ports, format!("must be from 1 to {MOST_PORTS}")));
    }
    let listed: Vec<raw::Server> = match (&raw.servers, raw.server.is_empty()) {
        (None, false) => raw.server.clone(),
        (None, true) => return Err(file.lacks("servers", "give [servers], or [[server]] for each")),
        (Some(_), false) => {
            return Err(file.lacks("servers", "give either [servers] or [[server]], not both"));
        }
        (Some(row), true) => in_a_row(file, row, ports)?,
    };
    let mut names = Names {
        region: raw.name.clone(),
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
        for &port in &server.ports {
            if port == 0 || port > ports {
                let allowed = format!("must be a port of the switch, from 1 to {ports}");
                return Err(file.wrong(&key("ports"), port, allowed));
            }
            if wiring.contains(&port) {
                return Err(file.wrong(&key("ports"), port, "this port is taken already"));
            }
            wiring.push(port);
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
    let region = Region::new(ports, wiring, names.tenant_of_server.clone(), numa)
        .map_err(|why| file.lacks("servers", why))?;
    Ok((names, region))
}

fn in_a_row(file: &File<'_>, row: &raw::Row, ports: u16) -> Result<Vec<raw::Server>, Failure> {
    if !(2..=4096).contains(&row.count) {
        return Err(file.wrong("servers.count", row.count, "must be from 2 to 4096"));
    }
    if row.ports_each == 0 || row.ports_each > ports {
        let allowed = format!("must be from 1 to {ports}");
        return Err(file.wrong("servers.ports_each", row.ports_each, allowed));
    }
    let first = u32::from(row.first_port);
    let last = first + u32::from(row.count) * u32::from(row.ports_each) - 1;
    if first == 0 || last > u32::from(ports) {
        let allowed = format!("the ports would be {first} to {last}; the switch has 1 to {ports}");
        return Err(file.wrong("servers.first_port", first, allowed));
    }
    let width = (row.count - 1).to_string().len().max(2);
    let server = |at: u16| {
        let from = row.first_port + at * row.ports_each;
        let ports = (from..from + row.ports_each).collect();
        raw::Server { name: format!("node-{at:0width$}"), ports, tenant: None }
    };
    Ok((0..row.count).map(server).collect())
}

/// The preset's settings, but for what the file says.
fn decision(file: &File<'_>, raw: &raw::Decision) -> Result<decide::Settings, Failure> {
    let mut settings = preset::settings().map_err(Failure::Run)?;
    let rates = &mut settings.rates;
    let optical = &raw.optical_bandwidth;
    rates.optical_bps = file.rate("decision.optical_bandwidth", optical, rates.optical_bps)?;
    let packet = &raw.packet_bandwidth;
    rates.packet_bps = file.rate("decision.packet_bandwidth", packet, rates.packet_bps)?;
    rates.packet_nics = raw.packet_nics.unwrap_or(rates.packet_nics);
    if rates.packet_nics > 4096 {
        let value = rates.packet_nics;
        return Err(file.wrong("decision.packet_nics", value, "must be from 0 to 4096"));
    }
    rates.share_eps = raw.share_eps.unwrap_or(rates.share_eps);
    if let Some(kind) = &raw.kind {
        settings.rule = rule(kind).map_err(|allowed| file.wrong("decision.kind", kind, allowed))?;
    }
    settings.keep_going = raw.keep_going.unwrap_or(settings.keep_going);
    settings.hysteresis = raw.hysteresis.unwrap_or(settings.hysteresis);
    let most = (Time::ZERO, Time::from_secs_f64(3600.0));
    let delay = settings.dark.expected(1);
    let delay = file.time("decision.delay", &raw.delay, delay, most)?;
    settings.dark.switch = ReconfigurationDelay::Fixed { ps: delay };
    let ahead = &mut settings.ahead;
    ahead.hidden = file.time("decision.hidden", &raw.hidden, ahead.hidden, most)?;
    ahead.uses = raw.uses.unwrap_or(ahead.uses);
    if ahead.uses == 0 {
        return Err(file.wrong("decision.uses", 0, "must be 1 or more"));
    }
    Ok(settings)
}

fn timing(file: &File<'_>, raw: &raw::Timing) -> Result<Settings, Failure> {
    let known = Settings::default();
    let (ms, hour) = (Time::from_ms(1), Time::from_secs_f64(3600.0));
    let time = |key, text, default, least| {
        file.time(&format!("timing.{key}"), text, default, (least, hour))
    };
    let attempts = raw.attempts.unwrap_or(known.attempts);
    if !(1..=100).contains(&attempts) {
        return Err(file.wrong("timing.attempts", attempts, "must be from 1 to 100"));
    }
    Ok(Settings {
        lease: time("lease", &raw.lease, known.lease, Time::from_ms(100))?,
        grace: time("grace", &raw.grace, known.grace, Time::ZERO)?,
        gather: time("gather", &raw.gather, known.gather, Time::ZERO)?,
        patience: time("patience", &raw.patience, known.patience, ms)?,
        lifetime: time("lifetime", &raw.lifetime, known.lifetime, Time::ZERO)?,
        audit: time("audit", &raw.audit, known.audit, Time::from_ms(100))?,
        retry: time("retry", &raw.retry, known.retry, ms)?,
        reconnect: time("reconnect", &raw.reconnect, known.reconnect, ms)?,
        attempts,
        start_even: raw.start_even.unwrap_or(known.start_even),
    })
}

#[cfg(test)]
mod tests;
