//! What a kind of fabric is: the keys by which a specification asks for it, what it can do, and what
//! builds it. Every kind is a file of its own and a line in [`FABRICS`](crate::FABRICS).

use crate::cluster::Cluster;
use crate::error::{DELAY, FabricError, LINK_RATE};
use crate::graph::{Fabric, Routes};
use crate::ids::ServerId;
use crate::railx::Layout;
use crate::wires::Wires;
use lightloom_units::Bytes;
use lightloom_units::kind::{Form, Key, Kind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A kind of fabric.
#[derive(Debug)]
pub struct FabricKind {
    /// What it says of itself. Of a kind whose keys are tables, no keys: its section is written out
    /// where specifications are read.
    pub about: Kind<Capabilities>,
    /// One on a cluster of its choice, with its circuits: another for each number. Tests of all fabrics
    /// take it.
    pub example: fn(u32) -> Fabric,
    read: fn(Value) -> serde_json::Result<FabricSpec>,
}

/// What the rest of the house must know of a kind of fabric without knowing the kind.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Capabilities {
    /// The medium by which the simulator moves bytes over it.
    pub medium: &'static str,
    /// How all-to-alls can travel over it, besides as its paper has it.
    pub carriers: &'static [&'static str],
    /// Engines that cannot run it, and why.
    pub refuses: &'static [(&'static str, &'static str)],
    /// Kinds of parts whose failures it leads around.
    pub failures: &'static [&'static str],
    /// Whether servers fall into regions, each on an optical switch whose circuits change.
    pub regions: bool,
    /// Whether NIC `i` of every server is on the same switches, so that a balancer can choose rails.
    pub rails: bool,
    /// Whether a GPU may have several NICs.
    pub many_nics: bool,
    /// Whether its paths lead over the inside of servers ([`crate::Host`]).
    pub host: bool,
    /// The table of a specification that says the rate and delay of links at packet switches; a list of
    /// links says them one by one.
    pub switches: Option<&'static str>,
    /// Inner tables for each of which a link setting of the whole fabric stands.
    pub parts: &'static [&'static str],
}

impl Capabilities {
    /// Of packet switches that every engine can run and that lead around failures.
    pub const SWITCHED: Self = Capabilities {
        medium: "packets",
        carriers: &["direct", "relay", "delegate", "rails"],
        refuses: &[],
        failures: &["nic", "link", "switch", "gpu", "server"],
        regions: false,
        rails: false,
        many_nics: false,
        host: true,
        switches: Some("fabric"),
        parts: &[],
    };
}

/// The key `name`.
pub const NAME: Key = Key::new(
    "name",
    Form::Text,
    "What results call the fabric; the kind's name unless a preset brings one.",
);
/// The key `link_bandwidth`.
pub const LINK_BANDWIDTH: Key = Key::new(
    "link_bandwidth",
    LINK_RATE,
    "Rate of every NIC and link, each way. On `mixnet`, `planes`: of parts that do not say. On \
     `railx`: of a rail. On `torus`, `hamming-mesh`: of every NIC; the links of a server's router share \
     the rate of its NICs.",
)
.resolved("link_bps");
/// The key `link_delay`.
pub const LINK_DELAY: Key = Key::new(
    "link_delay",
    DELAY,
    "Delay of every link or fibre, with that of a switch behind it. On `mixnet`: of all parts.",
)
.resolved("link_delay_ps");

/// The key `switch_ports`.
pub(crate) const SWITCH_PORTS: Key = Key::new(
    "switch_ports",
    Form::Count { min: 2, max: 4096 },
    "Ports of a packet switch, of which a rail, or a line of boards, has one.",
);

/// The keys of one kind of fabric, with their values: the type of a kind's table.
pub trait FabricKeys: fmt::Debug + Any + Send + Sync {
    /// Name, keys and capabilities of its kind.
    fn kind(&self) -> &'static FabricKind;

    /// Into how many parts every NIC is split, which count as NICs: the site's cluster has them.
    ///
    /// # Errors
    /// As [`FabricKeys::build`].
    fn breakout(&self) -> Result<u32, FabricError> {
        Ok(1)
    }

    /// The same with each shape that it may have where its keys leave that open, and what the shape is
    /// called; none where they do not.
    ///
    /// # Errors
    /// As [`FabricKeys::build`].
    fn shapes(&self, cluster: &Cluster) -> Result<Vec<(String, FabricSpec)>, FabricError> {
        let _ = cluster;
        Ok(vec![])
    }

    /// Wires the fabric: nodes, links, bill, notes, and how to route over them.
    ///
    /// # Errors
    /// Names a key and its value as in the specification, and what is allowed.
    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError>;

    /// Itself, for whoever knows the type.
    fn as_any(&self) -> &dyn Any;
}

/// How a server that stands in for others is wired (MixNet, Section 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backup {
    /// By its packet NICs only: it can stand in anywhere.
    Packets,
    /// By its optical NICs only, to the switch of this region.
    Circuits(u32),
}

/// Where a fabric is built, and what was decided for it before.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// Servers, GPUs and NICs.
    pub cluster: &'a Cluster,
    /// How many consecutive servers make a region.
    pub region_servers: u32,
    /// How the cluster's last servers are wired, which belong to no region: they stand in for servers
    /// and GPUs that fail.
    pub backups: &'a [Backup],
    /// Circuits of a patch panel, each a pair of servers, several for a pair that has several.
    pub panel: &'a [(ServerId, ServerId)],
    /// Circuits of RailX.
    pub layout: Option<&'a Layout>,
}

impl<'a> Site<'a> {
    /// A cluster, regions of one server, and nothing decided.
    pub fn new(cluster: &'a Cluster) -> Self {
        Site { cluster, region_servers: 1, backups: &[], panel: &[], layout: None }
    }
}

/// A fabric as it is asked for: the `fabric` table of a resolved specification. Every key must be
/// there but those that may be left out, and no other: defaults are filled in before.
///
/// ```
/// use lightloom_fabric::{FabricSpec, TopoOptSpec};
/// let text = r#"{"kind": "topoopt", "link_bps": 400000000000, "link_delay_ps": 1000000,
///                "degree": 8, "panel": "flat", "panel_ports": 1008}"#;
/// let spec: FabricSpec = serde_json::from_str(text).unwrap();
/// assert_eq!(spec.kind().name(), "topoopt");
/// assert_eq!(spec.keys::<TopoOptSpec>().unwrap().degree, 8);
/// assert!(serde_json::from_str::<FabricSpec>(&text.replace("degree", "degrees")).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct FabricSpec {
    keys: Arc<dyn FabricKeys>,
    carrier: CarrierSpec,
}

impl<K: FabricKeys> From<K> for FabricSpec {
    fn from(keys: K) -> Self {
        FabricSpec { keys: Arc::new(keys), carrier: CarrierSpec::default() }
    }
}

/// How all-to-alls travel: the keys that every kind has. Nothing in this crate reads them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CarrierSpec {
    /// Of the kinds of carriers, by name.
    pub carrier: String,
    /// Pieces in which bytes are gathered, sent and scattered.
    #[serde(default)]
    pub chunk: Option<Bytes>,
    /// Whether all is gathered before any is sent, and all has come before any is scattered.
    #[serde(default)]
    pub store_and_forward: Option<bool>,
}

impl CarrierSpec {
    /// The names of its keys.
    pub(crate) const KEYS: [&str; 3] = ["carrier", "chunk", "store_and_forward"];
}

impl Default for CarrierSpec {
    /// As each paper has it.
    fn default() -> Self {
        CarrierSpec { carrier: "paper".into(), chunk: None, store_and_forward: None }
    }
}

impl FabricSpec {
    /// Which kind it is, and what that can do.
    pub fn kind(&self) -> &'static FabricKind {
        self.keys.kind()
    }

    /// How all-to-alls travel over it.
    pub fn carrier(&self) -> &CarrierSpec {
        &self.carrier
    }

    /// The same fabric, over which all-to-alls travel so.
    pub fn carried(self, carrier: CarrierSpec) -> Self {
        FabricSpec { carrier, ..self }
    }

    /// See [`FabricKeys::shapes`].
    ///
    /// # Errors
    /// As [`build_at`].
    pub fn shapes(&self, cluster: &Cluster) -> Result<Vec<(String, FabricSpec)>, FabricError> {
        let shapes = self.keys.shapes(cluster)?.into_iter();
        Ok(shapes.map(|(name, spec)| (name, spec.carried(self.carrier.clone()))).collect())
    }

    /// The keys and their values, if it is of the kind that has them.
    pub fn keys<K: FabricKeys>(&self) -> Option<&K> {
        self.keys.as_any().downcast_ref()
    }
}

impl FabricKind {
    /// The kind whose keys are `K`.
    pub const fn of<K: FabricKeys + DeserializeOwned>(
        about: Kind<Capabilities>,
        example: fn(u32) -> Fabric,
    ) -> Self {
        FabricKind { about, example, read: |keys| Ok(serde_json::from_value::<K>(keys)?.into()) }
    }

    /// The `kind` by which a specification asks for it.
    pub const fn name(&self) -> &'static str {
        self.about.name
    }

    /// What it can do, and what it cannot.
    pub const fn can(&self) -> &Capabilities {
        &self.about.capabilities
    }

    /// Reads the keys of this kind, without `kind` itself.
    ///
    /// # Errors
    /// Names a key that is missing, that no such fabric has, or whose value it cannot be.
    pub fn read(&self, keys: Value) -> serde_json::Result<FabricSpec> {
        (self.read)(keys)
    }

    /// Why an engine cannot run it; none if it can.
    ///
    /// ```
    /// let planes = lightloom_fabric::FABRICS.iter().find(|kind| kind.name() == "planes").unwrap();
    /// assert!(planes.refuses("flit").unwrap().starts_with("books its circuits by the clock"));
    /// assert_eq!(planes.refuses("flow"), None);
    /// ```
    pub fn refuses(&self, engine: &str) -> Option<&'static str> {
        self.can().refuses.iter().find(|(name, _)| *name == engine).map(|(_, why)| *why)
    }
}

/// Builds a fabric: [`Site`] with `region_servers` and `panel`. A panel without circuits has a bill but
/// no routes; RailX needs a layout, which [`build_at`] takes.
///
/// # Errors
/// Names a key and its value as in the specification, and what is allowed.
///
/// ```
/// use lightloom_fabric::{Cluster, FabricSpec, build};
/// use lightloom_units::{BitRate, Time};
/// let spec = FabricSpec::mixnet(8, BitRate::from_gbps(400), Time::from_us(1));
/// let error = build(&Cluster::of(64, 8), &spec, 4, &[]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "fabric.optical_nics = 8: must be from 1 to 7, as one of cluster.nics_per_server = 8 stays \
///      on packets"
/// );
/// ```
pub fn build(
    cluster: &Cluster,
    spec: &FabricSpec,
    region_servers: u32,
    panel: &[(ServerId, ServerId)],
) -> Result<Fabric, FabricError> {
    build_at(&Site { region_servers, panel, ..Site::new(cluster) }, spec)
}

/// What [`FabricKind::example`] builds: a fabric on `1 + n % 13` servers, or on as many as there must be,
/// of up to eight GPUs.
pub(crate) fn example(n: u32, least: u32, spec: impl Fn(&Cluster) -> FabricSpec) -> Fabric {
    let per_server = [8, 4, 2, 3][n as usize / 3 % 4].max(least);
    let cluster = Cluster::of((1 + n % 13) * per_server, per_server);
    build(&cluster, &spec(&cluster), 1, &[]).expect("an example fits its cluster")
}

/// Builds a fabric.
///
/// # Errors
/// As [`build`].
pub fn build_at(site: &Site<'_>, spec: &FabricSpec) -> Result<Fabric, FabricError> {
    let cluster = site.cluster;
    cluster.validate()?;
    if cluster.nics_per_gpu() > 1 && !spec.kind().can().many_nics {
        let allowed = format!(
            "fabric \"{}\" has a NIC each GPU: must equal cluster.gpus_per_server = {}",
            spec.kind().name(),
            cluster.gpus_per_server
        );
        let given = cluster.nics_per_server;
        return Err(FabricError::new("cluster.nics_per_server", given, allowed));
    }
    if cluster.host.is_some() && !spec.kind().can().host {
        let reason = "its paths do not lead over cluster.host; allowed: leave that out";
        let kind = format!("\"{}\"", spec.kind().name());
        return Err(FabricError::new("fabric.kind", kind, reason));
    }
    let breakout = spec.keys.breakout()?;
    if cluster.host.is_some() && breakout > 1 {
        let reason = "parts of a NIC would share its PCIe link of cluster.host; allowed: 1";
        return Err(FabricError::new("fabric.ocs.breakout", breakout, reason));
    }
    let cluster = cluster.split(breakout);
    let (wires, routes) = spec.keys.build(&Site { cluster: &cluster, ..*site })?;
    Ok(Fabric::new(&cluster, wires, routes))
}
