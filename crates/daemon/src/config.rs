//! `region.toml`: what a controller knows about its region, read and checked whole before anything
//! starts. Paths in it are relative to the file.
//!
//! Checked: every key that is wrong is named with its value and what is allowed, in the tests below;
//! the files of `examples/` are read.

mod fence;
mod file;
mod listen;
mod raw;
mod servers;
mod summary;
mod switch;
mod switches;

pub use fence::FenceConfig;
pub use summary::{Summary, SwitchSummary};
pub use switches::{Driven, Switches};

use crate::auth::Tokens;
use crate::failure::Failure;
use crate::hub::Names;
use crate::own_token;
use crate::preset;
use file::File;
use lightloom_control::{Region, Settings};
use lightloom_decide::{self as decide, Decider, rule};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use listen::{Listen, listen};
use servers::servers;
use sha2::{Digest, Sha256};
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
    /// The switches, by number.
    pub switches: Vec<Driven>,
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
        let (switches, found) = switches_of(&file, &raw, &region)?;
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
            switches: found,
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
            switches,
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
        let switches = self.region.switches();
        (0..switches).for_each(|at| digest.update(self.region.switch_ports(at).to_le_bytes()));
        for (server, name) in (0..).zip(&self.names.servers) {
            digest.update((name.len() as u64).to_le_bytes());
            digest.update(name);
            digest.update(self.region.tenant(server).to_le_bytes());
            ports(server).for_each(|port| {
                let at = self.region.switch_port(port);
                digest.update(at.port.to_le_bytes());
                // Of one switch as it was when there was never more than one.
                if switches > 1 {
                    digest.update(at.switch.to_le_bytes());
                }
            });
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The switches with their drivers, and in short.
fn switches_of(
    file: &File<'_>,
    raw: &raw::Raw,
    region: &Region,
) -> Result<(Vec<Driven>, Vec<SwitchSummary>), Failure> {
    let (mut switches, mut summaries) = (Vec::new(), Vec::new());
    let names = servers::switch_names(raw);
    for (at, (one, name)) in raw.switch.iter().zip(names).enumerate() {
        let table = servers::table(raw, at);
        let (protocol, endpoint, driver) = switch::read(file, &table, one, region.slice(at))?;
        let of = format!("{} at {endpoint}", protocol.name);
        summaries.push(SwitchSummary { name: name.clone(), at: of, ports: one.ports });
        switches.push(Driven { name, ports: one.ports, endpoint, driver });
    }
    Ok((switches, summaries))
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
    let (delay, activation) = (settings.dark.expected(1), settings.dark.activation);
    let delay = file.time("decision.delay", &raw.delay, delay, most)?;
    settings.dark.switch = ReconfigurationDelay::Fixed { ps: delay };
    settings.dark.activation =
        file.time("decision.activation", &raw.activation, activation, most)?;
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
