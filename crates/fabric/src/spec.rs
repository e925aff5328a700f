//! What can be asked for: the `fabric` table of a resolved specification, as JSON. Every key must be
//! there but `radix` and `lanes`, and no other may: defaults are filled in before.

use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};

/// A fabric, by kind.
///
/// ```
/// use lightloom_fabric::FabricSpec;
/// let text = r#"{"kind": "topoopt", "link_bps": 400000000000, "link_delay_ps": 1000000,
///                "degree": 8, "panel": "flat", "panel_ports": 1008}"#;
/// let spec: FabricSpec = serde_json::from_str(text).unwrap();
/// assert_eq!(spec.kind(), "topoopt");
/// assert!(serde_json::from_str::<FabricSpec>(&text.replace("degree", "degrees")).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FabricSpec {
    /// A fat-tree of two or three tiers; a GPU sends from its own NIC.
    FatTree(ClosSpec),
    /// A fat-tree of two tiers.
    LeafSpine(LeafSpineSpec),
    /// NIC `i` of every server on the switches of rail `i`.
    RailOptimized(ClosSpec),
    /// Circuits that are set once, on a patch panel (TopoOpt).
    #[serde(rename = "topoopt")]
    TopoOpt(TopoOptSpec),
    /// Regions of optical circuits beside a packet fabric (MixNet).
    #[serde(rename = "mixnet")]
    MixNet(MixNetSpec),
    /// NIC `i` of every server on the optical circuit switch of plane `i` (SWOT).
    Planes(PlanesSpec),
    /// Nodes of chips in a mesh, rows and columns of nodes on optical switches (RailX).
    #[serde(rename = "railx")]
    RailX(RailXSpec),
    /// Any other graph.
    Graph(GraphSpec),
}

/// Switches in tiers (a folded Clos network).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosSpec {
    /// Rate of every link, but for uplinks of an over-subscribed switch \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of every link, with that of the switch behind it \[ps\].
    pub link_delay_ps: Time,
    /// 2 or 3.
    pub tiers: u8,
    /// Rate down over rate up at the first tier, from 1; the tiers above shrink by as much.
    pub oversubscription: f64,
    /// Ports a switch, even; the smallest that fits if not given.
    pub radix: Option<u32>,
    /// How flows share equal paths.
    pub splitting: Splitting,
}

/// Switches in two tiers; see [`ClosSpec`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafSpineSpec {
    /// See [`ClosSpec::link_bps`].
    pub link_bps: BitRate,
    /// See [`ClosSpec::link_delay_ps`].
    pub link_delay_ps: Time,
    /// See [`ClosSpec::oversubscription`].
    pub oversubscription: f64,
    /// See [`ClosSpec::radix`].
    pub radix: Option<u32>,
    /// See [`ClosSpec::splitting`].
    pub splitting: Splitting,
}

/// How flows share paths of equal cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Splitting {
    /// Every flow over all of them evenly, like a fluid. Parallel switches are one node then, and
    /// their links one bundle.
    Ideal,
    /// Each flow over one, by a hash. Switches and links are the physical ones.
    Ecmp,
}

/// TopoOpt: servers joined by circuits on a patch panel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopoOptSpec {
    /// Rate of a circuit \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of each fibre of a circuit: two through a flat panel, four through tiers \[ps\].
    pub link_delay_ps: Time,
    /// NICs a server on the panel.
    pub degree: u32,
    /// One panel, or panels in two tiers.
    pub panel: Panel,
    /// Ports of a panel.
    pub panel_ports: u32,
}

/// What TopoOpt's NICs are plugged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Panel {
    /// One panel, one port a NIC; as large as need be, whatever its limit, but a note says so.
    Flat,
    /// Panels in two tiers (leaves and spines), three ports a NIC.
    MultiTier,
}

/// MixNet: some NICs of a server on its region's optical switch, the others on packet switches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixNetSpec {
    /// NICs a server on the optical switch (the paper's alpha).
    pub optical_nics: u32,
    /// Whether the optical NICs are ports co-packaged with GPUs (MixNet Section 8).
    #[serde(default)]
    pub co_packaged: bool,
    /// The electrical packet switches.
    pub eps: ClosSpec,
    /// The optical circuit switch of each region.
    pub ocs: OcsSpec,
    /// When circuits change. Nothing in this crate reads it.
    pub reconfigure: Reconfigure,
    /// How circuits are chosen for a demand. Nothing in this crate reads it.
    pub decision: CircuitDecision,
    /// Whether circuits change only where that pays for the dark time. Nothing here reads it.
    pub hysteresis: bool,
    /// Whether Algorithm 1 goes on past the first pair without a free port. Nothing here reads it.
    pub greedy_continue: bool,
    /// Whether pairs with circuits use packet switches too. Nothing in this crate reads it.
    pub share_eps: bool,
    /// Where the cluster's last servers are wired, which belong to no region: to stand in for servers
    /// and GPUs that fail. No specification has it; whoever plans for failures sets it.
    #[serde(skip)]
    pub backups: Vec<Backup>,
}

/// How a server that stands in for others is wired (MixNet, Section 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backup {
    /// By its packet NICs only: it can stand in anywhere.
    Packets,
    /// By its optical NICs only, to the switch of this region.
    Circuits(u32),
}

/// Optical planes, one for each NIC of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanesSpec {
    /// The optical circuit switch of each plane.
    pub ocs: OcsSpec,
}

/// RailX: a server is a node of `mesh` x `mesh` chips, whose own ports are on the rails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RailXSpec {
    /// Rate of a rail \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of each of the two fibres of a circuit \[ps\].
    pub link_delay_ps: Time,
    /// Chips along a side of a node (the paper's m).
    pub mesh: u32,
    /// Rails of an outer chip edge (n).
    pub ports: u32,
    /// Ports of an optical switch (R), even.
    pub ocs_ports: u32,
    /// What the rails form. Nothing in this crate reads it: circuits are decided elsewhere.
    pub topology: RailXTopology,
    /// Nodes in a row; if not given, chosen so that the nodes fill a grid. Nor is this read here.
    pub columns: Option<u32>,
    /// Rate of a mesh link over that of a chip edge's rails together (k).
    pub inside: f64,
    /// Delay of a mesh link \[ps\].
    pub mesh_delay_ps: Time,
}

/// What RailX's rails form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RailXTopology {
    /// Rings.
    Torus,
    /// Rows and columns all to all.
    HyperX,
    /// Columns all to all, and columns with columns.
    Dragonfly,
}

/// An optical circuit switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OcsSpec {
    /// Rate of a circuit \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of each of the two fibres of a circuit \[ps\].
    pub link_delay_ps: Time,
    /// What the device is called.
    pub device: String,
    /// Its ports, of two directions each.
    pub ports: u32,
    /// How long it takes to change. Nothing in this crate reads it, nor the next two.
    pub delay: ReconfigurationDelay,
    /// How long the NICs behind it take to work again once they have light.
    #[serde(default)]
    pub activation: ActivationDelay,
    /// Whether transceivers loop their light back while the switch moves, and so avoid that.
    #[serde(default)]
    pub loopback: bool,
}

/// How long NICs take to work again after their light was gone (MixNet, Appendix C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ActivationDelay {
    /// Always the same.
    Fixed {
        /// The delay.
        ps: Time,
    },
    /// Log-normal, through a mean and a 99th percentile.
    Lognormal {
        /// The mean.
        mean_ps: Time,
        /// The 99th percentile.
        p99_ps: Time,
    },
}

impl Default for ActivationDelay {
    /// None at all.
    fn default() -> Self {
        ActivationDelay::Fixed { ps: Time::ZERO }
    }
}

/// How long an optical switch takes to change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ReconfigurationDelay {
    /// Always the same.
    Fixed {
        /// The delay.
        ps: Time,
    },
    /// Log-normal, through a mean and a 99th percentile that depend on how many pairs change.
    Lognormal {
        /// Numbers of pairs that were measured, rising.
        pairs: Vec<u32>,
        /// The mean for each.
        mean_ps: Vec<Time>,
        /// The 99th percentile for each.
        p99_ps: Vec<Time>,
    },
}

/// When circuits change for each all-to-all of a layer (MixNet Sections 5.1, 7.1, B.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconfigure {
    /// Before the first of the forward pass.
    pub first_forward: ReconfigurePolicy,
    /// Before the second of the forward pass.
    pub second_forward: ReconfigurePolicy,
    /// Before both of the backward pass.
    pub backward: ReconfigurePolicy,
    /// Who predicts; given if and only if a phase is to be predicted.
    #[serde(default)]
    pub predictor: Option<PredictorKind>,
}

/// How circuits are chosen for a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CircuitDecision {
    /// MixNet's Algorithm 1.
    #[serde(rename = "algorithm-1")]
    Algorithm1,
    /// By the time of the whole all-to-all, packets included.
    Timed,
}

impl PredictorKind {
    /// As in a specification.
    pub fn name(self) -> &'static str {
        match self {
            PredictorKind::Copilot => "copilot",
            PredictorKind::PreviousLayer => "previous-layer",
            PredictorKind::PreviousIteration => "previous-iteration",
            PredictorKind::Average => "average",
            PredictorKind::Uniform => "uniform",
            PredictorKind::Auto => "auto",
        }
    }
}

/// Who predicts the demand of a layer's first all-to-all (MixNet, Appendix B.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredictorKind {
    /// Loads of the layer before, through a fitted transition matrix.
    Copilot,
    /// Loads of the layer before, as they are.
    PreviousLayer,
    /// Loads of this layer in the iteration before.
    PreviousIteration,
    /// An exponential average of this layer's loads.
    Average,
    /// All experts alike.
    Uniform,
    /// Whoever has been best so far.
    Auto,
}

/// When circuits change for one all-to-all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReconfigurePolicy {
    /// Once the demand is known, and the all-to-all waits.
    Block,
    /// Not at all.
    Reuse,
    /// While the region computes; the demand is taken as known.
    Hide,
    /// While the region computes, for a demand that is predicted.
    Predict,
    /// Again and again during the all-to-all itself.
    Inside,
}

/// A graph given node by node and link by link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSpec {
    /// Servers and switches. The servers are the cluster's, in this order.
    pub nodes: Vec<GraphNode>,
    /// What joins them.
    pub links: Vec<GraphLink>,
}

/// A server or a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphNode {
    /// How links name it.
    pub name: String,
    /// What it is.
    pub role: Role,
}

/// What a node of a graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A server of the cluster.
    GpuServer,
    /// A packet switch.
    Switch,
}

/// A duplex link, or several parallel ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphLink {
    /// The name of one end.
    pub a: String,
    /// The name of the other.
    pub b: String,
    /// Rate of each lane and direction \[bit/s\].
    pub rate_bps: BitRate,
    /// Delay \[ps\].
    pub delay_ps: Time,
    /// How many in parallel. At a server each lane takes a NIC.
    #[serde(default = "one")]
    pub lanes: u32,
}

fn one() -> u32 {
    1
}

impl FabricSpec {
    /// The `kind` by which a specification asks for it.
    pub const fn kind(&self) -> &'static str {
        match self {
            FabricSpec::FatTree(_) => "fat-tree",
            FabricSpec::LeafSpine(_) => "leaf-spine",
            FabricSpec::RailOptimized(_) => "rail-optimized",
            FabricSpec::TopoOpt(_) => "topoopt",
            FabricSpec::MixNet(_) => "mixnet",
            FabricSpec::Planes(_) => "planes",
            FabricSpec::RailX(_) => "railx",
            FabricSpec::Graph(_) => "graph",
        }
    }
    /// A non-blocking fat-tree of three tiers with ideal splitting.
    pub fn fat_tree(rate: BitRate, delay: Time) -> Self {
        FabricSpec::FatTree(ClosSpec::new(rate, delay))
    }
    /// A non-blocking leaf-spine network with ideal splitting.
    pub fn leaf_spine(rate: BitRate, delay: Time) -> Self {
        FabricSpec::LeafSpine(LeafSpineSpec {
            link_bps: rate,
            link_delay_ps: delay,
            oversubscription: 1.0,
            radix: None,
            splitting: Splitting::Ideal,
        })
    }
    /// A non-blocking rail-optimized fabric of three tiers with ideal splitting.
    pub fn rail_optimized(rate: BitRate, delay: Time) -> Self {
        FabricSpec::RailOptimized(ClosSpec::new(rate, delay))
    }
    /// TopoOpt with `degree` NICs a server on a flat panel of 1008 ports (MixNet Table 2, Telescent).
    pub fn topoopt(degree: u32, rate: BitRate, delay: Time) -> Self {
        FabricSpec::TopoOpt(TopoOptSpec {
            link_bps: rate,
            link_delay_ps: delay,
            degree,
            panel: Panel::Flat,
            panel_ports: 1008,
        })
    }
    /// MixNet with `optical_nics` a server, both parts at one rate, as the paper simulates it
    /// (Section 7.1: 25 ms, blocking before the first all-to-all of a forward pass, hidden
    /// otherwise; 576 ports of a Polatis).
    pub fn mixnet(optical_nics: u32, rate: BitRate, delay: Time) -> Self {
        FabricSpec::MixNet(MixNetSpec {
            optical_nics,
            co_packaged: false,
            eps: ClosSpec::new(rate, delay),
            ocs: OcsSpec {
                link_bps: rate,
                link_delay_ps: delay,
                device: "polatis".into(),
                ports: 576,
                delay: ReconfigurationDelay::Fixed { ps: Time::from_ms(25) },
                activation: ActivationDelay::default(),
                loopback: false,
            },
            reconfigure: Reconfigure {
                first_forward: ReconfigurePolicy::Block,
                second_forward: ReconfigurePolicy::Hide,
                backward: ReconfigurePolicy::Hide,
                predictor: None,
            },
            decision: CircuitDecision::Algorithm1,
            hysteresis: false,
            greedy_continue: true,
            share_eps: false,
            backups: vec![],
        })
    }
    /// Planes of switches with 320 ports that change in 200 us (SWOT, Section 4.1).
    pub fn planes(rate: BitRate, delay: Time) -> Self {
        FabricSpec::Planes(PlanesSpec {
            ocs: OcsSpec {
                link_bps: rate,
                link_delay_ps: delay,
                device: "swot".into(),
                ports: 320,
                delay: ReconfigurationDelay::Fixed { ps: Time::from_us(200) },
                activation: ActivationDelay::default(),
                loopback: false,
            },
        })
    }
}

impl RailXSpec {
    /// Nodes of 4 x 4 chips, two rails a chip edge, switches of 128 ports, a mesh four times as fast
    /// as its rails (RailX, Sections 6.1.2 and 6.4).
    pub fn new(topology: RailXTopology, rate: BitRate, delay: Time) -> Self {
        RailXSpec {
            link_bps: rate,
            link_delay_ps: delay,
            mesh: 4,
            ports: 2,
            ocs_ports: 128,
            topology,
            columns: None,
            inside: 4.0,
            mesh_delay_ps: Time::from_ns(10),
        }
    }
}

impl ClosSpec {
    /// Three tiers, non-blocking, ideal splitting, switches as small as can be.
    pub fn new(rate: BitRate, delay: Time) -> Self {
        ClosSpec {
            link_bps: rate,
            link_delay_ps: delay,
            tiers: 3,
            oversubscription: 1.0,
            radix: None,
            splitting: Splitting::Ideal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(spec: &FabricSpec) -> FabricSpec {
        let text = serde_json::to_string(spec).expect("plain data");
        serde_json::from_str(&text).expect("what was written can be read")
    }

    #[test]
    fn every_kind_survives_json_and_refuses_unknown_keys() {
        let (rate, delay) = (BitRate::from_gbps(400), Time::from_us(1));
        let graph = GraphSpec { nodes: vec![], links: vec![] };
        for spec in [
            FabricSpec::fat_tree(rate, delay),
            FabricSpec::leaf_spine(rate, delay),
            FabricSpec::rail_optimized(rate, delay),
            FabricSpec::topoopt(8, rate, delay),
            FabricSpec::mixnet(6, rate, delay),
            FabricSpec::planes(rate, delay),
            FabricSpec::RailX(RailXSpec::new(RailXTopology::HyperX, rate, delay)),
            FabricSpec::Graph(graph),
        ] {
            assert_eq!(round_trip(&spec), spec);
            let mut json = serde_json::to_value(&spec).expect("plain data");
            assert_eq!(json["kind"], spec.kind());
            json["colour"] = "red".into();
            let error = serde_json::from_value::<FabricSpec>(json).expect_err("an unknown key");
            assert!(error.to_string().contains("colour"), "{error}");
        }
    }

    #[test]
    fn the_mixnet_table_as_python_writes_it() {
        let text = r#"{"kind": "mixnet", "optical_nics": 6,
            "eps": {"link_bps": 100000000000, "link_delay_ps": 1000000, "tiers": 3,
                    "oversubscription": 1.0, "radix": null, "splitting": "ideal"},
            "ocs": {"link_bps": 400000000000, "link_delay_ps": 1000000, "device": "polatis",
                    "ports": 576, "delay": {"kind": "lognormal", "pairs": [1, 4],
                    "mean_ps": [41440000000, 42440000000], "p99_ps": [60000000000, 62000000000]}},
            "reconfigure": {"first_forward": "block", "second_forward": "hide",
                            "backward": "reuse"},
            "decision": "algorithm-1", "hysteresis": false,
             "greedy_continue": true, "share_eps": false}"#;
        let FabricSpec::MixNet(spec) = serde_json::from_str(text).expect("valid") else {
            panic!("another kind");
        };
        assert_eq!(spec.eps.link_bps, BitRate::from_gbps(100));
        assert_eq!(spec.reconfigure.backward, ReconfigurePolicy::Reuse);
        assert!(
            matches!(spec.ocs.delay, ReconfigurationDelay::Lognormal { pairs, .. } if pairs == [1, 4])
        );
    }

    #[test]
    fn a_graph_link_has_one_lane_unless_told() {
        let text = r#"{"a": "x", "b": "y", "rate_bps": 1, "delay_ps": 2}"#;
        assert_eq!(serde_json::from_str::<GraphLink>(text).expect("valid").lanes, 1);
    }
}
