//! Port maps: what optical devices hold at first, and what they are set to in order.
//!
//! The file format of `docs/port-maps.md`, version 1, as other programs read and write it. What cannot
//! be is refused as a whole, in the words of `lightloom maps check`.
//! Checked: in `tests/test_execution.py`, files are refused here when they are refused there (and, here alone,
//! those with a key twice).

use lightloom_units::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Two ports of a device: the first transmits, the second receives; if circuits are duplex, both do.
pub type Circuit = (u32, u32);

/// What is wrong with port maps, with the key, its value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct MapsError(String);

impl MapsError {
    pub(super) fn new(why: String) -> Self {
        MapsError(why)
    }
}

/// What optical devices hold at first, and what they are set to.
///
/// ```
/// use lightloom_control::execution::PortMaps;
/// let text = r#"{"format": "lightloom-port-maps", "version": 1, "made": {"lightloom": "", "by": "an example"},
///     "devices": [{"device": "a", "ports": [1, 4], "duplex": true, "attached": [], "initial": [[1, 2]],
///     "settings": []}]}"#;
/// assert_eq!(PortMaps::read(text).unwrap().devices[0].initial, [(1, 2)]);
/// let wrong = PortMaps::read(&text.replace("[1, 2]", "[1, 5]")).unwrap_err();
/// assert_eq!(wrong.to_string(), "devices[0].initial[0]: port 5: must be 1 to 4");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortMaps {
    format: Format,
    version: u8,
    /// How the file was made.
    pub made: Made,
    /// The devices, side by side.
    pub devices: Vec<DeviceMaps>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Format {
    #[serde(rename = "lightloom-port-maps")]
    PortMaps,
}

/// How a file was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// Version of the program.
    pub lightloom: String,
    /// What made it, such as a command.
    pub by: String,
}

/// An optical switch, or a plane of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceMaps {
    /// Its name; no other has it.
    pub device: String,
    /// The first and the last port.
    pub ports: (u32, u32),
    /// Whether a circuit joins two ports both ways, and is listed once.
    pub duplex: bool,
    /// Port, node, and the node's port, of each port that is known to lead to a node.
    pub attached: Vec<(u32, u32, u32)>,
    /// The circuits that stand at the beginning.
    pub initial: Vec<Circuit>,
    /// In this order, each after the one before.
    pub settings: Vec<Setting>,
}

/// Circuits of a device set anew; other ports carry on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Not before, from the beginning.
    #[serde(rename = "start_ps")]
    pub start: Time,
    /// When the ports can carry data.
    #[serde(rename = "ready_ps")]
    pub ready: Time,
    /// Each new circuit.
    pub circuits: Vec<Circuit>,
    /// Ports whose nodes must have ended what they send over the circuits that end here.
    pub wait_for: Vec<u32>,
}

impl PortMaps {
    /// Maps of these devices; `by` says what made them.
    pub fn new(by: &str, devices: Vec<DeviceMaps>) -> Self {
        let made = Made { lightloom: env!("CARGO_PKG_VERSION").into(), by: by.into() };
        PortMaps { format: Format::PortMaps, version: 1, made, devices }
    }

    /// Reads the text of a file, and replays every device port by port.
    ///
    /// # Errors
    /// With the first thing that is wrong.
    pub fn read(text: &str) -> Result<Self, MapsError> {
        let maps: PortMaps = serde_json::from_str(text).map_err(|why| wrong(why.to_string()))?;
        if maps.version != 1 {
            return Err(wrong(format!("version = {}: must be 1", maps.version)));
        }
        maps.check()?;
        Ok(maps)
    }

    /// Replays every device port by port.
    ///
    /// # Errors
    /// With the first thing that is wrong.
    pub fn check(&self) -> Result<(), MapsError> {
        for (key, text, most) in
            [("lightloom", &self.made.lightloom, 100), ("by", &self.made.by, 1000)]
        {
            if text.chars().count() > most {
                return Err(wrong(format!("made.{key}: must have at most {most} characters")));
            }
        }
        let (mut names, mut ends) = (BTreeSet::new(), BTreeSet::new());
        for (at, device) in self.devices.iter().enumerate() {
            let place = format!("devices[{at}]");
            if !(1..=200).contains(&device.device.chars().count()) {
                return Err(wrong(format!("{place}.device: must have 1 to 200 characters")));
            }
            if !names.insert(&device.device) {
                let name = serde_json::Value::from(device.device.as_str());
                return Err(wrong(format!("{place}.device = {name}: is the name of another")));
            }
            if device.ports.0 > device.ports.1 {
                return Err(wrong(format!("{place}.ports: the first must not be above the last")));
            }
            let mut taken = BTreeSet::new();
            for (k, &(port, node, end)) in device.attached.iter().enumerate() {
                let own = format!("{place}.attached[{k}]");
                device.in_range(&own, port)?;
                if !taken.insert(port) || !ends.insert((node, end)) {
                    let value = format!("{own} = [{port}, {node}, {end}]");
                    return Err(wrong(format!("{value}: both ends must be attached once")));
                }
            }
            device.replay(&place)?;
        }
        Ok(())
    }
}

impl DeviceMaps {
    fn in_range(&self, own: &str, port: u32) -> Result<(), MapsError> {
        let (first, last) = self.ports;
        if (first..=last).contains(&port) {
            return Ok(());
        }
        Err(wrong(format!("{own}: port {port}: must be {first} to {last}")))
    }

    /// Refuses ports that do not exist or are named twice.
    fn legal(&self, place: &str, circuits: &[Circuit]) -> Result<(), MapsError> {
        let (mut sending, mut receiving) = (BTreeSet::new(), BTreeSet::new());
        for (k, &(a, b)) in circuits.iter().enumerate() {
            let own = format!("{place}[{k}]");
            self.in_range(&own, a)?;
            self.in_range(&own, b)?;
            let across = self.duplex && (receiving.contains(&a) || sending.contains(&b));
            if a == b || across || !sending.insert(a) || !receiving.insert(b) {
                let value = format!("{own} = [{a}, {b}]");
                return Err(wrong(format!(
                    "{value}: must be two ports that no other circuit here has"
                )));
            }
        }
        Ok(())
    }

    fn replay(&self, place: &str) -> Result<(), MapsError> {
        self.legal(&format!("{place}.initial"), &self.initial)?;
        let mut standing = Standing::new(self.duplex);
        standing.set(&self.initial);
        // A port transmits and receives apart, unless circuits go both ways.
        let mut ready: BTreeMap<(bool, u32), Time> = BTreeMap::new();
        let mut before = Time::ZERO;
        for (k, one) in self.settings.iter().enumerate() {
            let own = format!("{place}.settings[{k}]");
            let start = one.start.ps();
            if one.start < before {
                let why = "is before that of the one before";
                return Err(wrong(format!("{own}.start_ps = {start}: {why}")));
            }
            if one.ready < one.start {
                let ready = one.ready.ps();
                return Err(wrong(format!("{own}.ready_ps = {ready}: is before start_ps")));
            }
            before = one.start;
            self.legal(&format!("{own}.circuits"), &one.circuits)?;
            let ended = standing.set(&one.circuits);
            let halves: Vec<(bool, u32)> = directed(&one.circuits, self.duplex)
                .flat_map(|(a, b)| [(true, a), (false, b)])
                .collect();
            for half in &halves {
                if let Some(dark) = ready.get(half).filter(|dark| **dark > one.start) {
                    let (port, dark) = (half.1, dark.ps());
                    return Err(wrong(format!("{own}: port {port} is dark until {dark} ps")));
                }
            }
            if let Some(port) = one.wait_for.iter().find(|port| !ended.contains(*port)) {
                let why = "has no circuit that ends here";
                return Err(wrong(format!("{own}.wait_for: port {port} {why}")));
            }
            ready.extend(halves.into_iter().map(|half| (half, one.ready)));
        }
        Ok(())
    }
}

/// The circuits of a device: by transmitting port the receiving one, and the reverse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    duplex: bool,
    to: BTreeMap<u32, u32>,
    from: BTreeMap<u32, u32>,
}

impl Standing {
    /// No circuit.
    pub fn new(duplex: bool) -> Self {
        Standing { duplex, ..Standing::default() }
    }

    /// Sets circuits; returns the ports whose circuits, over which they transmit, end.
    pub fn set(&mut self, circuits: &[Circuit]) -> BTreeSet<u32> {
        let mut ended = BTreeSet::new();
        for (a, b) in directed(circuits, self.duplex) {
            ended.extend(self.to.contains_key(&a).then_some(a));
            ended.extend(self.from.get(&b));
        }
        ended.iter().for_each(|&port| self.end(port));
        for (a, b) in directed(circuits, self.duplex) {
            self.to.insert(a, b);
            self.from.insert(b, a);
        }
        ended
    }

    /// Ends what a port transmits over.
    pub fn end(&mut self, port: u32) {
        if let Some(far) = self.to.remove(&port) {
            self.from.remove(&far);
        }
    }

    /// Whom a port transmits to.
    pub fn to(&self, port: u32) -> Option<u32> {
        self.to.get(&port).copied()
    }

    /// Who transmits to a port.
    pub fn from(&self, port: u32) -> Option<u32> {
        self.from.get(&port).copied()
    }

    /// Every circuit, one way, by rising transmitting port.
    pub fn one_way(&self) -> impl Iterator<Item = Circuit> + '_ {
        self.to.iter().map(|(&a, &b)| (a, b))
    }

    /// Every circuit, each once.
    pub fn circuits(&self) -> Vec<Circuit> {
        let both = |&(a, b): &Circuit| self.duplex && self.to(b) == Some(a) && b < a;
        self.one_way().filter(|circuit| !both(circuit)).collect()
    }
}

/// Transmitting and receiving port of each circuit, both ways where it has two.
pub fn directed(circuits: &[Circuit], duplex: bool) -> impl Iterator<Item = Circuit> + '_ {
    let back = circuits.iter().filter(move |_| duplex).map(|&(a, b)| (b, a));
    circuits.iter().copied().chain(back)
}

fn wrong(why: String) -> MapsError {
    MapsError::new(why)
}
