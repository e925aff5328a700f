//! What is known of a protocol before its driver runs: its name, how a switch that speaks it is reached,
//! the settings that its driver reads.
//!
//! Each driver has a [`Protocol`] beside its code, and [`DRIVERS`](crate::drivers::DRIVERS) lists them all. The
//! daemon's configuration, its messages and `lightloom controller drivers` read the list.

use crate::driver::Driver;
use serde::Serialize;
use std::collections::BTreeMap;

/// A protocol of optical switches.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Protocol {
    /// `switch.protocol` in a region's file.
    pub name: &'static str,
    /// Its full name, and who speaks it.
    pub title: &'static str,
    /// How a switch is reached that is given by its address.
    pub reach: Reach,
    /// A change is done whole or not at all. Otherwise one that is refused may be done in part; the
    /// controller reads and plans anew.
    pub whole: bool,
    /// Its switches may issue terms, and then refuse changes by a controller that has an older one.
    pub fences: bool,
    /// Keys of `[switch]` that the driver reads.
    pub settings: &'static [Setting],
    /// Makes a driver that has no stream yet. The error names the setting that is wrong.
    #[serde(skip)]
    pub driver: fn(&Connection) -> Result<Box<dyn Driver + Send>, WrongSetting>,
}

/// How a switch is reached that is given by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// TCP, with TLS where the region's file says so.
    Tcp,
    /// A subsystem of SSH; TLS instead where the region's file says so.
    Ssh {
        /// Its name: `netconf`.
        subsystem: &'static str,
    },
}

impl Reach {
    /// Keys of `[switch]` for reaching the switch, whatever the driver.
    pub fn settings(self) -> &'static [Setting] {
        match self {
            Reach::Tcp => &[],
            Reach::Ssh { .. } => &[Setting {
                key: "user",
                kind: SettingKind::Text,
                meaning: "the user of ssh, which has its own keys",
                default: "the user that the controller runs as",
            }],
        }
    }
}

/// A key of `[switch]` that not every driver reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name in the table `[switch]`.
    pub key: &'static str,
    /// What the key's value is.
    pub kind: SettingKind,
    /// What the setting is for.
    pub meaning: &'static str,
    /// What holds without it.
    pub default: &'static str,
}

/// What a setting's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingKind {
    /// The value itself.
    Text,
    /// The path of a file that holds the value, such as a password.
    File,
}

/// What a driver is made from.
#[derive(Clone, Default)]
pub struct Connection {
    /// Duplex ports of the switch, as the region's file says.
    pub ports: u16,
    /// The ports whose patches are of interest, from 1, rising.
    pub slice: Vec<u16>,
    /// The switch is reached by TCP without TLS, on this machine: an emulator, as a rule.
    pub loopback: bool,
    /// Values of the protocol's settings by key: texts, and what files hold, without the end of the line.
    pub values: BTreeMap<&'static str, String>,
}

/// A setting whose value will not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongSetting {
    /// The name in the table `[switch]`.
    pub key: &'static str,
    /// What is wrong, and what is allowed; without the value, which may be a secret.
    pub why: String,
}

impl WrongSetting {
    /// What is wrong with a key.
    pub fn new(key: &'static str, why: impl ToString) -> Self {
        WrongSetting { key, why: why.to_string() }
    }
}
