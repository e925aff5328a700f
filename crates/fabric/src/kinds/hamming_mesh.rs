//! HammingMesh: servers as the chips of boards, each with a router; the ends of every row and every column
//! of a board are on a switch of that line (Hoefler et al., 2022).
//!
//! Modelled: the routers and switches of [`HammingMesh`], paths and rings as [`Direct`] has them: the
//! fewest links, so that a packet may also turn twice, or leave its board to come back by the switch. The NICs
//! of a server share its four sides, planes of the paper are one. Servers are numbered by rows of the grid.
//! Bill, in pieces of the NICs' rate: links of a board are traces; from a board to a switch there is a fibre with a
//! transceiver at either end, and a port of the switch (RailX, Section 6.2).
//! Ignored: lines with several tiers of switches.
//! Checked: links against the network's channels, bills against RailX's Table 6, the rest by the crate's
//! properties.

use crate::bill::Item;
use crate::cluster::Cluster;
use crate::direct::{Direct, class, pieces};
use crate::error::FabricError;
use crate::graph::{OwnNics, Routes};
use crate::kind::{
    Capabilities, FabricKeys, FabricKind, FabricSpec, LINK_BANDWIDTH, LINK_DELAY, NAME,
    SWITCH_PORTS, Site, build,
};
use crate::routers::{ChannelKind, HammingMesh};
use crate::wires::{Cable, LinkClass, Wires};
use lightloom_units::kind::{Form, Key, Kind};
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

const ABOUT: Kind<Capabilities> = Kind {
    name: "hamming-mesh",
    summary: "Boards of servers in a mesh, whose rows and columns are each on a switch at both ends",
    source: Some("Hoefler et al., 2022"),
    keys: &[
        NAME,
        LINK_BANDWIDTH,
        LINK_DELAY,
        Key::new("board", Form::Count { min: 1, max: 1024 }, "Servers along a side of a board."),
        Key::optional(
            "columns",
            Form::Count { min: 1, max: 1024 },
            "Boards in a row. Unless given, the grid of boards that serves the job best.",
        ),
        SWITCH_PORTS,
    ],
    capabilities: Capabilities::SWITCHED,
};

/// See [`HammingMeshSpec`].
pub static KIND: FabricKind = FabricKind::of::<HammingMeshSpec>(ABOUT, |n| {
    let (board, columns, rows) =
        [(1, 3, 2), (2, 2, 1), (2, 1, 3), (3, 1, 1), (2, 2, 2)][n as usize % 5];
    let (rate, delay) = (BitRate::from_gbps(100), Time::from_us(1));
    let spec =
        HammingMeshSpec { columns: Some(columns), ..HammingMeshSpec::new(board, rate, delay) };
    let (servers, per_server) = (board * board * columns * rows, 1 + n / 5 % 4);
    build(&Cluster::of(servers * per_server, per_server), &spec.into(), 1, &[])
        .expect("an example fits its cluster")
});

/// Boards of servers, and switches of lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HammingMeshSpec {
    /// Rate of a NIC \[bit/s\].
    pub link_bps: BitRate,
    /// Delay of every link, with that of the router or switch behind it \[ps\].
    pub link_delay_ps: Time,
    /// Servers along a side of a board.
    pub board: u32,
    /// Boards in a row; the squarest grid if not given.
    pub columns: Option<u32>,
    /// Ports of a switch.
    pub switch_ports: u32,
}

impl HammingMeshSpec {
    /// The squarest grid of boards, switches of 128 ports.
    pub fn new(board: u32, rate: BitRate, delay: Time) -> Self {
        let (link_bps, link_delay_ps) = (rate, delay);
        HammingMeshSpec { link_bps, link_delay_ps, board, columns: None, switch_ports: 128 }
    }

    /// Numbers of columns and rows of boards that can be; at least one.
    fn possible(&self, cluster: &Cluster) -> Result<Vec<[u32; 2]>, FabricError> {
        let (servers, board) = (cluster.servers(), self.board);
        if !(1..=1024).contains(&board) {
            return Err(FabricError::new("fabric.board", board, "must be from 1 to 1024"));
        }
        FabricError::check_switch_ports(self.switch_ports)?;
        let area = board * board;
        if servers % area != 0 {
            let whole = [servers / area * area, (servers / area + 1) * area];
            let near = whole.iter().filter(|&&servers| servers > 0);
            let near: Vec<_> = near.map(|n| (n * cluster.gpus_per_server).to_string()).collect();
            let reason = format!(
                "its {servers} servers fill no boards of {board} x {board}; allowed, nearest: {}",
                near.join(", ")
            );
            return Err(FabricError::new("cluster.gpus", cluster.gpus, reason));
        }
        let boards = servers / area;
        if let Some(columns) = self.columns.filter(|&columns| columns == 0 || boards % columns != 0)
        {
            let reason = format!("must divide the {boards} boards of {board} x {board} servers");
            return Err(FabricError::new("fabric.columns", columns, reason));
        }
        let asked = |columns: &u32| self.columns.is_none_or(|asked| asked == *columns);
        let grids = (1..=boards).filter(|columns| boards % columns == 0).filter(asked);
        let grids: Vec<_> = grids.map(|columns| [columns, boards / columns]).collect();
        let longest = |grid: &[u32; 2]| 2 * grid[0].max(grid[1]);
        let fewest = grids.iter().map(longest).min().unwrap_or(0);
        if fewest > self.switch_ports {
            let reason = format!(
                "must be at least {fewest}: a switch has two ports for each board of its line"
            );
            return Err(FabricError::new("fabric.switch_ports", self.switch_ports, reason));
        }
        Ok(grids.into_iter().filter(|grid| longest(grid) <= self.switch_ports).collect())
    }
}

impl FabricKeys for HammingMeshSpec {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn shapes(&self, cluster: &Cluster) -> Result<Vec<(String, FabricSpec)>, FabricError> {
        if self.columns.is_some() {
            return Ok(vec![]);
        }
        let shape = |[columns, rows]: [u32; 2]| {
            let name = format!("{columns} x {rows} boards of {0} x {0} servers", self.board);
            (name, HammingMeshSpec { columns: Some(columns), ..self.clone() }.into())
        };
        Ok(self.possible(cluster)?.into_iter().map(shape).collect())
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let (cluster, mut wires) = (site.cluster, Wires::new(site.cluster));
        FabricError::check_rate("fabric.link_bandwidth", self.link_bps)?;
        FabricError::check_delay("fabric.link_delay", self.link_delay_ps)?;
        let grids = self.possible(cluster)?;
        let squarest = grids.into_iter().min_by_key(|[columns, rows]| columns.abs_diff(*rows));
        let [columns, rows] = squarest.expect("what is possible is not empty");
        let within =
            |error: FabricError| FabricError { key: format!("fabric.{}", error.key), ..error };
        let mesh = HammingMesh::new(self.board, columns, rows, 1, 1).map_err(within)?;
        let network = mesh.network(1, 1, 1);
        let all = self.link_bps * u64::from(cluster.nics_per_server);
        let rate = BitRate::from_bps(all.bps() / 4);
        let cable = |rate, class| Cable { rate, delay: self.link_delay_ps, class, lanes: 1 };
        let host = cable(self.link_bps, LinkClass::Host);
        let sides = vec![self.board * columns, self.board * rows];
        let direct = Direct::new(
            &network,
            sides,
            cluster,
            host,
            |channel| cable(rate, class(channel.kind == ChannelKind::Short)),
            &mut wires,
        );
        let count = |kind| {
            let links =
                network.channels().iter().filter(|channel| channel.kind == kind).count() as u64 / 2;
            move |ends: u64| pieces(ends * links, rate.bps(), self.link_bps.bps())
        };
        wires.bill.add(Item::Nic, self.link_bps, cluster.nics().into());
        wires.bill.add(Item::BoardLink, self.link_bps, count(ChannelKind::Short)(1));
        wires.bill.add(Item::Transceiver, self.link_bps, count(ChannelKind::Long)(2));
        wires.bill.add(Item::SwitchPort, self.link_bps, count(ChannelKind::Long)(1));
        Ok((wires, Arc::new(OwnNics::new(direct, cluster))))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{NicId, NodeId};
    use proptest::prelude::*;

    fn spec(board: u32, columns: u32) -> HammingMeshSpec {
        let (rate, delay) = (BitRate::from_gbps(400), Time::from_us(1));
        HammingMeshSpec { columns: Some(columns), ..HammingMeshSpec::new(board, rate, delay) }
    }

    /// Hx4Mesh of 16,384 chips of 36 ports: 147,456 links to switches.
    #[test]
    fn the_bill_is_that_of_railx_table_6() {
        let cluster = Cluster { numa_nodes: 1, ..Cluster::of(16_384, 1) };
        let fabric = build(&cluster, &spec(4, 32).into(), 1, &[]).expect("it fits");
        let count = |item| fabric.bill().count(item, BitRate::from_gbps(400));
        assert_eq!(count(Item::Transceiver), 294_912 / 36);
        assert_eq!(count(Item::SwitchPort), 147_456 / 36);
        // 24 traces of a quarter of a chip's ports on each of 1,024 boards.
        assert_eq!(count(Item::BoardLink), 24 * 1024 / 4);
    }

    proptest! {
        #[test]
        fn links_are_the_channels_of_its_network(
            board in 1u32..4, columns in 1u32..4, rows in 1u32..4, ends in (any::<u32>(), any::<u32>()),
        ) {
            let servers = board * board * columns * rows;
            let cluster = Cluster::of(2 * servers, 2);
            let fabric = build(&cluster, &spec(board, columns).into(), 1, &[]).expect("it fits");
            let first = NodeId(cluster.gpus + cluster.servers() + cluster.nics());
            let between = fabric.links().iter().filter(|l| matches!(l.class, LinkClass::Uplink { .. }));
            let mut links: Vec<_> =
                between.map(|l| (l.from.0 - first.0, l.to.0 - first.0)).collect();
            let network = HammingMesh::new(board, columns, rows, 1, 1).expect("small").network(1, 1, 1);
            let channels = network.channels().iter();
            let mut channels: Vec<_> = channels.map(|c| (c.from.router, c.to.router)).collect();
            links.sort_unstable();
            channels.sort_unstable();
            prop_assert_eq!(links, channels);
            // No path is longer than straight lines: over a board, or out of it, over a switch and in again.
            let [a, b] = [ends.0, ends.1].map(|end| end % servers);
            let width = board * columns;
            let out = |along: u32| (along % board).min(board - 1 - along % board);
            let line = |a: u32, b: u32| {
                let over = out(a) + 2 + out(b);
                if a / board == b / board { a.abs_diff(b).min(over) } else { over }
            };
            let hops = line(a % width, b % width) + line(a / width, b / width);
            for index in 0..fabric.nic_paths(NicId(2 * a), NicId(2 * b)) {
                let mut path = Vec::new();
                fabric.nic_path(NicId(2 * a), NicId(2 * b), index, &mut path);
                prop_assert_eq!(path.len() as u32, hops + 2);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_is_allowed() {
        let message = |gpus, spec: HammingMeshSpec| {
            build(&Cluster::of(gpus, 8), &spec.into(), 1, &[]).expect_err("bad").to_string()
        };
        assert_eq!(
            message(104, spec(2, 1)),
            "cluster.gpus = 104: its 13 servers fill no boards of 2 x 2; allowed, nearest: 96, 128"
        );
        assert_eq!(
            message(128, spec(2, 3)),
            "fabric.columns = 3: must divide the 4 boards of 2 x 2 servers"
        );
        assert_eq!(
            message(128, HammingMeshSpec { switch_ports: 4, ..spec(2, 4) }),
            "fabric.switch_ports = 4: must be at least 8: a switch has two ports for each board of its line"
        );
        assert!(message(128, spec(0, 1)).starts_with("fabric.board = 0: must be from 1 to 1024"));
    }
}
