"""Every constant that decides results and has no outside source.

`KEYS` are keys of a specification whose preset says *chosen here* or *stated assumption*, or whose
default is a number in Rust; `SOURCE` are constants in Rust that no key reaches; `ASKED` are keys
of such presets that say what a user asks for, or that no figure depends on. Checked: that no key
of a preset is missing here, and that each constant in Rust stands where it is said to, in
``tests/test_study.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Key(NamedTuple):
    """A constant that is a key."""

    key: str
    figures: tuple[str, ...]
    """Of `lightloom.studies.constants.figures`."""
    about: str
    others: tuple[object, ...] = ()
    """Other values, of what is no number, or is derived unless given."""


class Source(NamedTuple):
    """A constant in Rust."""

    file: str
    """Below ``crates``."""
    line: str
    """A part of a line, with ``{}`` for the value."""
    value: str
    halved: str
    doubled: str
    figures: tuple[str, ...]
    about: str

    @property
    def name(self) -> str:
        """Where it is, and its name if it has one.

        >>> Source("a/src/b.rs", "const C: usize = {};", "2", "1", "4", (), "").name
        'a/src/b.rs: C'
        """
        found = re.search(r"const (\w+):", self.line)
        return f"{self.file}: {found[1]}" if found else self.file


_TRAINED = ("Mixtral 8x22B", "DeepSeek-R1", "skewed")

KEYS = (
    Key("compute.matmul_efficiency", _TRAINED, "share of a GPU's peak that matrix products reach"),
    Key("compute.memory_efficiency", _TRAINED, "share of a GPU's memory bandwidth that is reached"),
    Key("cluster.scale_up_delay", _TRAINED, "from GPU to GPU of a server"),
    Key("cluster.numa_nodes", ("prototype",), "sockets of a server that is a graph inside"),
    Key("cluster.host.pcie_switches", ("prototype",), "PCIe switches of such a server"),
    Key("cluster.host.nics_at", ("prototype",), "what its NICs hang on", ("numa",)),
    Key("cluster.host.pcie_delay", ("prototype",), "delay of a PCIe link"),
    Key("cluster.host.numa_bandwidth", ("prototype",), "rate between sockets"),
    Key("cluster.host.numa_delay", ("prototype",), "delay between sockets"),
    Key("engine.tolerance", ("DeepSeek-R1",),
        "for how much of its age a flow's rate may be stale, in reproductions of models with "
        "thousands of flows (`lightloom.papers.runs`)"),
    Key("fabric.greedy_continue", _TRAINED,
        "whether Algorithm 1 goes on past a full port", (False,)),
    Key("fabric.share_eps", _TRAINED, "whether pairs with circuits use packet NICs too", (True,)),
    Key("fabric.hysteresis", _TRAINED, "whether circuits change only where that pays", (False,)),
    Key("fabric.decision", _TRAINED, "which rule chooses circuits", ("algorithm-1", "matchings")),
    Key("fabric.reconfigure.start", _TRAINED, "circuits before the first demand", ("dark",)),
    Key("training.overlap_gradients", _TRAINED, "whether gradients are summed under compute",
        (False,)),
    Key("engine.scale_up_mtu", ("spray", "delegated, NDP"), "packets inside servers"),
    Key("engine.transport.decrease", ("spray", "spray, direct"),
        "most of its window that a flow gives up"),
    Key("engine.transport.least_window", ("spray", "spray, direct"), "least window, in packets"),
    Key("engine.transport.retransmit_after", ("spray, direct", "NDP"),
        "silence, then all is sent again"),
    Key("engine.switch.queue", ("spray", "spray, direct", "DCTCP"), "what a queue holds"),
    Key("engine.switch.ecn_low", ("spray", "spray, direct"), "queue from which packets are marked"),
    Key("engine.switch.ecn_high", ("spray", "spray, direct"),
        "queue at which all packets are marked"),
    Key("engine.switch.overflow.xoff", ("DCQCN", "RoCE"), "queue at which a link is paused"),
    Key("engine.switch.overflow.xon", ("DCQCN", "RoCE"), "queue at which it goes on"),
    Key("engine.balancer.paths", ("REPS",), "paths that REPS tries"),
    Key("engine.balancer.chunk", ("RailS",), "pieces that RailS gives to rails"),
    Key("engine.balancer.timeout", ("flowlets",), "gap after which a flow takes another path"),
)  # fmt: skip

ASKED: Mapping[str, str] = {
    "seed": "a draw: figures of several seeds are a sweep of it",
    "failures": "none",
    "training.micro_batch": "the job",
    "training.micro_batches": "the job",
    "training.schedule": "the job",
    "training.virtual_stages": "the job",
    "training.mode": "the job",
    "training.weight_bytes": "the job, where nothing is trained",
    "gating.group_limit": "the trace, and the job; docs/routing.md has all of them",
    "training.overlap": "the job; docs/overlap.md has all of them",
    "training.communication_share": "read with training.overlap only; docs/overlap.md",
    "training.recompute": "the job; docs/memory.md has all of them",
    "memory.expert_load": "no time depends on it",
    "memory.oversize": "what becomes of a job that does not fit",
    "compute.gpu": "the job",
    "compute.table": "the job; validation.md has both",
    "compute.efficiency": "the job; compute.md has both",
    "compute.products": "the job",
    "gating": "the job: what is drawn anew in each micro-batch",
    "cluster.backup_servers": "the job",
    "cluster": "the fabric: domains of as many GPUs as its rival's",
    "fabric": "the fabric",
    "fabric.optical_nics": "the fabric",
    "engine": "the engine",
    "record": "what is written",
    "prices": "which list of prices",
    "power": "which list of watts",
    "money": "which list of prices",
    "money.years": "only money; docs/money.md has others",
    "money.pue": "only money; docs/money.md has others",
    "money.share_chassis": "only money; docs/money.md has both",
    "money.fibre_length": "only money; docs/money.md has others",
    "engine.sample_period": "what is written",
    "engine.ack_every": "1 cannot be halved, and balancers that go by packets refuse 2",
    "engine.train": "how exactly is computed; docs/performance.md has what larger ones leave out",
    "engine.dark": "what NICs do with packets for dark circuits: a kind, docs/specification.md",
    "engine.transport": "the transport",
    "engine.switch.overflow.alpha": "the share of a shared buffer: docs/packets.md has others",
    "engine.balancer": "the balancer; paths and timeouts are listed",
    "engine.switch": "queue and marks are listed",
    "engine.flit_size": "the flit engine; see docs/railx.md for what it measures",
    "engine.credits": "the flit engine",
    "network.lanes": "the network: one for each port of a chip",
    "router": "the network: as another simulator measures it",
    "fabric.cube": "what of a torus is copper: only prices",
    "fabric.ports": "the fabric: RailX at the rate of one NIC a GPU",
    "fabric.switch_ports": "how many servers a rail or a line of boards may have",
    "fabric.ocs.ports": "how large a region may be",
    "fabric.ocs.delay": "the switch: docs/when-reconfiguring-pays.md sweeps it",
    "fabric.ocs.activation": "the switch: the shape of a distribution whose mean and 99th "
    "percentile are MixNet's",
}
"""Keys of presets that are *chosen here* and not swept, and why."""

SOURCE = (
    Source("circuits/src/choose.rs", "const WORK: usize = {};", "1_500", "750", "3_000",
           ("skewed", "skewed, wide", "DeepSeek-R1"), "servers looked at before a search stops"),
    Source("circuits/src/choose.rs", "const STEPS: usize = {};", "8", "4", "16",
           ("skewed", "skewed, wide", "DeepSeek-R1"), "bisections for a deadline"),
    Source("circuits/src/choose.rs", "const SMALL_REGION: usize = {};", "16", "8", "32",
           ("skewed", "skewed, wide"), "servers up to which all starts are searched"),
    Source("decide/src/traffic.rs", "const STEPS: u128 = {};", "16", "8", "32",
           ("Mixtral 8x22B", "DeepSeek-R1"), "steps of what other traffic takes of a packet NIC"),
    Source("decide/src/traffic.rs", "let steps = steps.min({}) as u64;", "STEPS / 2",
           "STEPS * 3 / 4", "0", ("Mixtral 8x22B", "DeepSeek-R1"),
           "least share of a packet NIC that a decision counts on: 1/2; a quarter, all of it"),
    Source("decide/src/memory.rs", "const REMEMBERED: usize = {};", "16", "8", "32",
           ("skewed", "DeepSeek-R1", "Mixtral 8x22B"), "demands that stand for later ones"),
    Source("circuits/src/predict/history.rs", "Window { length: {},", "16", "8", "32",
           ("predicted",), "passes that predictors look back"),
    Source("circuits/src/predict/history.rs", "decay: {} }\n", "0.9", "0.95",
           "0.8", ("predicted",),
           "weight of a pass beside the next: half and twice as much is lost"),
    Source("circuits/src/predict/copilot.rs", "pub const TOLERANCE: f64 = {};", "1e-6", "5e-7",
           "2e-6", ("predicted",), "how exactly MixNet-Copilot's matrix is fitted"),
    Source("circuits/src/inside.rs", "const ROUNDS: usize = {};", "3", "1", "6", ("inside",),
           "how often the share of packet NICs is sought"),
    Source("circuits/src/inside/offload.rs", "const LEAST_PART: f64 = {};", "65_536.0", "32_768.0",
           "131_072.0", ("inside",), "least part of a pair that goes over packet NICs [B]"),
    Source("fabric/src/shortest.rs", "const MOST_PATHS: usize = {};", "16", "8", "32",
           ("TopoOpt",), "paths that an all-to-all is spread over"),
    Source("packet/src/transport/plug.rs", "given.map_or({} * self.bandwidth_delay()", "1.5",
           "0.75", "3.0", ("spray", "spray, direct", "DCTCP"),
           "first window, in bandwidth-delay products"),
    Source("packet/src/transport/spray.rs", "const WEIGHT: f64 = {};", "1.0 / 8.0", "1.0 / 16.0",
           "1.0 / 4.0", ("spray", "spray, direct"), "weight of a packet's delay in the average"),
    Source("packet/src/transport/spray.rs", "const CLEAR: f64 = {};", "1e6", "5e5", "2e6",
           ("spray", "spray, direct"), "delay below which a queue is as good as empty [ps]"),
    Source("packet/src/transport/spray.rs", "const SEVERE: f64 = {};", "1.0 / 8.0", "1.0 / 16.0",
           "1.0 / 4.0", ("spray", "spray, direct"),
           "share that comes through, below which a window falls to it"),
    Source("packet/src/make.rs", "const STAGED: u64 = {};", "1 << 20", "1 << 19", "1 << 21",
           ("delegated, NDP",), "what a NIC holds of other GPUs' bytes"),
    Source("rails/src/rates.rs", "let by_chunks = {} * one", "2.0", "1.0", "4.0",
           ("RailS, slow NIC",), "chunks more or less that say nothing of a rail's rate"),
    Source("sim/src/medium/planes/sums.rs", "const LASTS: u64 = {};", "4", "2", "8", ("planes",),
           "how much longer a piece of a sum lasts than it takes to take it up again"),
    Source("swot/src/overlap.rs", "const EXPANSIONS: usize = {};", "2_000_000", "1_000_000",
           "4_000_000", ("SWOT",), "expansions after which a beam is narrowed"),
    Source("swot/src/overlap.rs", "const CLIMBING: usize = {};", "60_000", "30_000", "120_000",
           ("SWOT",), "programs solved in climbing"),
    Source("swot/src/beam.rs", "const PARTS: f64 = {};", "64.0", "32.0", "128.0", ("SWOT",),
           "parts of a reconfiguration in which readiness is told apart"),
    Source("swot/src/alltoall/ports.rs", "const WORK: usize = {};", "120_000", "60_000", "240_000",
           ("SWOT, uneven",), "circuits scheduled in all tries together"),
    Source("swot/src/alltoall/booking.rs", "const DARK_SHARE: u64 = {};", "4", "2", "8",
           ("SWOT, uneven", "inside"),
           "a part of a pair has a circuit for its dark time over this"),
    Source("swot/src/alltoall/booking.rs", "const LEAST_PIECE: u64 = {};", "1 << 16", "1 << 15",
           "1 << 17", ("SWOT, uneven", "inside"), "least piece of a pair [B]"),
)  # fmt: skip
"""Each in the order of its crate."""
