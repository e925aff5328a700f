//! `lightloomd ocs serve` and what can be said to it.

use super::emulator::{Emulator, Settings, guard};
use super::fault::{Fault, duration};
use super::light::{CrossbarKind, Wiring};
use crate::failure::Failure;
use crate::tls;
use lightloom_control::drivers::tl1::{Secret, User};
use lightloom_control::ocs::{Device, Switch};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// An optical switch, emulated, on TL1
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArguments {
    /// Duplex ports: so many ingresses and as many egresses
    #[arg(long, default_value_t = 384, value_parser = clap::value_parser!(u16).range(1..=4096))]
    ports: u16,
    /// What the switch calls itself
    #[arg(long, default_value = "polatis", value_parser = name)]
    device: String,
    /// How long a change takes
    #[arg(long, value_parser = Time::from_str, default_value = "25 ms", value_name = "TIME")]
    delay: Time,
    /// The same as a distribution, in JSON: {"kind":"lognormal","pairs":[..],"mean_ps":[..],"p99_ps":[..]}
    #[arg(long, value_parser = model, conflicts_with = "delay", value_name = "JSON")]
    delay_model: Option<ReconfigurationDelay>,
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:3082", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// A user, NAME:PASSWORD or NAME:PASSWORD:1-96,100 for one that has no other ports; on loopback
    /// root:root without any
    #[arg(long = "user", value_name = "USER")]
    users: Vec<String>,
    /// A file with a user a line, so that passwords are not seen in the list of processes
    #[arg(long, value_name = "FILE")]
    users_file: Option<PathBuf>,
    /// The certificate to show, with its chain (PEM): TL1 over TLS
    #[arg(long, requires = "key", value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, requires = "certificate", value_name = "FILE")]
    key: Option<PathBuf>,
    /// For delays and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sessions at once
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    sessions: u32,
    /// A session that says nothing for so long is closed
    #[arg(long, value_parser = duration, default_value = "10 min", value_name = "TIME")]
    idle: Duration,
    /// Light at every ingress [dBm], as from transceivers that are on; without it there is none
    #[arg(long, value_parser = light, allow_hyphen_values = true, value_name = "DBM")]
    light: Option<f64>,
    /// The NIC at a port, from port 1 on: frames go where patches lead
    #[arg(long = "nic", requires = "counts", value_name = "NIC")]
    nics: Vec<String>,
    /// What carries frames
    #[arg(long, requires = "nics", value_enum, default_value_t)]
    crossbar: CrossbarKind,
    /// How long NICs take to become active once they have light: frames of a port that was patched are lost so much
    /// longer, and the switch does not know it
    #[arg(long, requires = "nics", value_parser = Time::from_str, default_value = "0 s", value_name = "TIME")]
    nic_activation: Time,
    /// Where frames are counted, for `ocs counts`: with bpf a name in a file system of that type, with mirred a file
    #[arg(long, requires = "nics", value_name = "FILE")]
    counts: Option<PathBuf>,
    /// A file that keeps the patches when the emulator ends
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Something to do wrong: silent, late=2s, refuses=0.1, lies=0.1, garbles=0.1 or drops=0.1, then
    /// @FROM..TO if not always
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<Fault>,
    /// Say what is wrong with these arguments, if anything, and serve nothing
    #[arg(long)]
    check: bool,
}

/// What a transceiver may send, and the switch can tell from darkness.
fn light(text: &str) -> Result<f64, String> {
    let (least, most) = (Switch::FLOOR_DBM, 30.0);
    let dbm = text.parse().ok().filter(|dbm| (least..=most).contains(dbm));
    dbm.ok_or_else(|| format!("must be from {least} to {most} dBm"))
}

impl ServeArguments {
    /// Serves until it is dropped. Prints a line of JSON with the address that it listens on.
    ///
    /// # Errors
    /// As [`Emulator::bind`], and for files that cannot be used.
    pub async fn run(self) -> Result<(), Failure> {
        let (ports, faults, check) = (self.ports, self.faults.clone(), self.check);
        let settings = self.settings()?;
        if check {
            return Ok(());
        }
        let emulator = Emulator::bind(settings).await?;
        let address = emulator.address()?;
        tracing::info!(%address, ports, ?faults, "an emulated switch listens");
        let line = serde_json::json!({ "listening": address.to_string() });
        let mut out = std::io::stdout();
        // Nobody needs to read it.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        emulator.run().await;
        Ok(())
    }

    fn settings(self) -> Result<Settings, Failure> {
        let mut users = self.named()?;
        // Before there is a user that nobody has named.
        guard(self.listen, self.certificate.is_some(), &users)?;
        if users.is_empty() {
            users.push(User { name: "root".into(), password: Secret::new("root"), slice: None });
        }
        for user in &users {
            if let Some(port) = user.slice.iter().flatten().find(|port| **port > self.ports) {
                let (name, ports) = (&user.name, self.ports);
                let why = format!("user {name}: port {port}: the switch has 1 to {ports}");
                return Err(Failure::Input(why));
            }
        }
        let tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let config = tls::server(certificate, key, &[]);
                Some(config.map_err(|why| Failure::Input(format!("--certificate: {why}")))?)
            }
            _ => None,
        };
        let delay = self.delay_model.unwrap_or(ReconfigurationDelay::Fixed { ps: self.delay });
        let device = Device { name: self.device, ports: self.ports, delay };
        Ok(Settings {
            listen: self.listen,
            tls,
            seed: self.seed,
            light: self.light,
            sessions: self.sessions as usize,
            idle: self.idle,
            wiring: self.counts.map(|counts| Wiring {
                crossbar: self.crossbar,
                nics: self.nics,
                activation: self.nic_activation,
                counts,
            }),
            state: self.state,
            faults: self.faults,
            ..Settings::new(device, users)
        })
    }

    /// The users that were named. An error does not show the text: it has a password.
    fn named(&self) -> Result<Vec<User>, Failure> {
        let mut users = Vec::new();
        for text in &self.users {
            users.push(user(text).map_err(|why| Failure::Input(format!("--user: {why}")))?);
        }
        if let Some(path) = &self.users_file {
            let file = format!("--users-file: {}", path.display());
            let text = std::fs::read_to_string(path)
                .map_err(|why| Failure::Input(format!("{file}: {why}")))?;
            for (at, line) in text.lines().enumerate() {
                if !line.trim().is_empty() {
                    let wrong = |why| Failure::Input(format!("{file}: line {}: {why}", at + 1));
                    users.push(user(line.trim()).map_err(wrong)?);
                }
            }
        }
        let mut names: Vec<&str> = users.iter().map(|user| user.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Failure::Input(format!("user {}: named twice", pair[0]))),
            None => Ok(users),
        }
    }
}

/// What is written between commas and quotes.
fn name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_. ".contains(&byte);
    match (1..=40).contains(&text.len()) && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("a name of 1 to 40 letters, digits, dashes, dots and blanks".into()),
    }
}

fn model(text: &str) -> Result<ReconfigurationDelay, String> {
    serde_json::from_str(text).map_err(|why| why.to_string())
}

/// `name:password` or `name:password:1-96,100`.
fn user(text: &str) -> Result<User, String> {
    let form = "a user is NAME:PASSWORD or NAME:PASSWORD:1-96,100, without quotes";
    let writable = |text: &&str| {
        !text.is_empty() && text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'"')
    };
    let parts: Vec<&str> = text.split(':').collect();
    let (name, password, slice) = match parts[..] {
        [name, password] => (name, password, None),
        [name, password, slice] => (name, password, Some(ports(slice).ok_or(form)?)),
        _ => return Err(form.into()),
    };
    if !(writable(&name) && writable(&password)) {
        return Err(form.into());
    }
    Ok(User { name: name.into(), password: Secret::new(password), slice })
}

/// `1-96,100`
fn ports(text: &str) -> Option<Vec<u16>> {
    let mut ports = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u16>().ok()?, last.parse().ok()?);
        if first == 0 || last < first || last > 4096 {
            return None;
        }
        ports.extend(first..=last);
    }
    Some(ports)
}
