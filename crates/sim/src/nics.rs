//! Which NICs carry which bytes of an all-to-all: what the media ask their decisions, as a list.
//!
//! Modelled: servers of equal GPUs and NICs. By circuits, what [`Router`] says to MixNet's medium: packet NICs first,
//! then those at optical ports. By rails, what [`lightloom_rails::assign`] says to the rails' medium, chunk by chunk.
//! Ignored: NICs that are down, and what rails gave in earlier all-to-alls.
//! Checked: every byte once; loads, against [`crate::rails::rails_assign`]; and `tests/test_chunk_nics.py`: the same list as a
//! capture on the NICs of a testbed has.

use crate::error::SimError;
use crate::rails::{check, messages};
use lightloom_circuits::{Layout, PortMap, RouteOptions, Router};
use lightloom_control::PortId;
use lightloom_packet::Chunks;
use lightloom_rails::{Deal, assign, lpt::sizes};
use lightloom_units::Bytes;
use serde::Deserialize;

/// Who shares bytes over which NICs, and how.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicsSpec {
    /// Servers of the region.
    pub servers: u16,
    /// GPUs of a server.
    pub gpus_per_server: u16,
    /// NICs of a server on packet switches: the first ones.
    pub packet_nics: u16,
    /// NICs of a server on the optical switch: those after them, by port.
    pub optical_nics: u16,
    /// `delegate`, by circuits; or a [`Deal`], by rails.
    pub rule: String,
    /// What is dealt to a rail as one piece.
    pub chunk: Bytes,
    /// The circuits that stand: both ends, as a server and its optical port.
    pub circuits: Vec<(PortId, PortId)>,
}

/// A part of what one GPU sends another, and the NICs that carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The sending GPU.
    pub source: u32,
    /// The receiving GPU.
    pub destination: u32,
    /// Where it begins in what the one sends the other \[B\].
    pub offset: u64,
    /// How much it is \[B\].
    pub bytes: u64,
    /// The sending NIC, by number in its server.
    pub nic: u16,
    /// The receiving NIC, by number in its server.
    pub peer_nic: u16,
}

/// The parts of an all-to-all between servers, by source, destination and offset. `demand` is from each GPU
/// (row) to each (column) \[B\].
///
/// ```
/// use lightloom_sim::{NicsSpec, alltoall_nics};
/// let spec: NicsSpec = serde_json::from_str(r#"{"servers": 2, "gpus_per_server": 1, "packet_nics": 2,
///     "optical_nics": 1, "rule": "round-robin", "chunk": 100, "circuits": [[[0, 0], [1, 0]]]}"#)?;
/// let nics = |spec: &NicsSpec| -> Vec<_> {
///     let parts = alltoall_nics(spec, &[0, 250, 0, 0]).unwrap();
///     parts.iter().map(|it| (it.offset, it.bytes, it.nic, it.peer_nic)).collect()
/// };
/// assert_eq!(nics(&spec), [(0, 100, 0, 0), (100, 100, 1, 1), (200, 50, 0, 0)]);
/// assert_eq!(nics(&NicsSpec { rule: "delegate".into(), ..spec }), [(0, 250, 2, 2)]);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
/// [`SimError::Input`] if the parts do not fit together.
pub fn alltoall_nics(spec: &NicsSpec, demand: &[u64]) -> Result<Vec<Carried>, SimError> {
    let refused = |what: String| Err(SimError::Input(what));
    let gpus = usize::from(spec.servers) * usize::from(spec.gpus_per_server);
    if gpus == 0 || spec.servers < 2 || spec.packet_nics == 0 {
        return refused(format!(
            "servers = {}, gpus_per_server = {}, packet_nics = {}: must be at least 2, 1 and 1",
            spec.servers, spec.gpus_per_server, spec.packet_nics
        ));
    }
    if demand.len() != gpus * gpus {
        return refused(format!("demand: {} entries: must be {gpus} x {gpus}", demand.len()));
    }
    if spec.rule == "delegate" {
        check(demand, gpus, None)?;
        return by_circuits(spec, demand, gpus);
    }
    let Some(deal) = Deal::named(&spec.rule) else {
        let names = Deal::NAMES.join(", ");
        return refused(format!("rule = {:?}: must be delegate, {names}", spec.rule));
    };
    check(demand, gpus, Some(Chunks { chunk: spec.chunk, queue_pairs: 1, deal }))?;
    Ok(by_rails(spec, demand, gpus, deal))
}

impl NicsSpec {
    /// A NIC belongs to the GPU that [`lightloom_fabric::Cluster::gpu_of`] says, wherever one of the two numbers
    /// divides the other.
    fn layout(&self) -> Layout {
        Layout::even(self.servers, self.gpus_per_server, self.packet_nics, self.optical_nics)
    }

    fn ports(&self) -> Result<PortMap, SimError> {
        let mut ports = PortMap::dark(self.servers.into(), self.optical_nics.into());
        for &(a, b) in &self.circuits {
            let is_free = |(server, port): PortId| {
                server < self.servers
                    && port < self.optical_nics
                    && ports.peer(server.into(), port.into()).is_none()
            };
            if a.0 == b.0 || !is_free(a) || !is_free(b) {
                return Err(SimError::Input(format!(
                    "circuits: {a:?} to {b:?}: must join two of {} servers, each at one of {} \
                     ports that no other circuit has",
                    self.servers, self.optical_nics
                )));
            }
            ports.connect(a, b);
        }
        Ok(ports)
    }
}

fn by_circuits(spec: &NicsSpec, demand: &[u64], gpus: usize) -> Result<Vec<Carried>, SimError> {
    let entry = |(at, &bytes): (usize, &u64)| ((at / gpus) as u32, (at % gpus) as u32, bytes);
    let entries = demand.iter().enumerate().filter(|it| *it.1 > 0).map(entry);
    let entries: Vec<_> = entries.collect();
    let options = RouteOptions { share_eps: false, optical_bps: 0, packet_bps: 0 };
    let parts = Router::default().parts(&entries, &spec.ports()?, &spec.layout(), &options);
    let carried = parts.iter().map(|part| Carried {
        source: part.source,
        destination: part.destination,
        offset: part.offset,
        bytes: part.hop.bytes,
        nic: part.hop.from.1,
        peer_nic: part.hop.to.1,
    });
    Ok(carried.collect())
}

fn by_rails(spec: &NicsSpec, demand: &[u64], gpus: usize, deal: Deal) -> Vec<Carried> {
    let (server, rails) = (u32::from(spec.gpus_per_server), usize::from(spec.packet_nics));
    let messages = messages(demand, gpus, server);
    let dealt = assign(&messages, rails, spec.chunk.get(), deal, &[]);
    let mut carried = Vec::new();
    for ((domain, messages), rails) in (0..).zip(&messages).zip(&dealt.rails) {
        let mut rails = rails.iter();
        for message in messages {
            let mut offset = 0;
            for (bytes, &rail) in sizes(message.bytes, spec.chunk.get()).zip(&mut rails) {
                carried.push(Carried {
                    source: domain * server + message.source,
                    destination: message.destination * server + message.receiver,
                    offset,
                    bytes,
                    nic: rail,
                    peer_nic: rail,
                });
                offset += bytes;
            }
        }
    }
    carried.sort_unstable_by_key(|it| (it.source, it.destination, it.offset));
    carried
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_fabric::{Cluster, NicId};
    use proptest::prelude::*;

    fn spec(rule: &str, chunk: u64) -> NicsSpec {
        NicsSpec {
            servers: 3,
            gpus_per_server: 2,
            packet_nics: 2,
            optical_nics: 2,
            rule: rule.into(),
            chunk: Bytes::new(chunk),
            circuits: vec![((0, 0), (1, 1)), ((1, 0), (2, 0))],
        }
    }

    proptest! {
        #[test]
        fn every_byte_is_carried_once(
            demand in prop::collection::vec(prop_oneof![Just(0u64), 1u64..3_000], 36),
            chunk in 1u64..700,
        ) {
            for rule in Deal::NAMES.into_iter().chain(["delegate"]) {
                let parts = alltoall_nics(&spec(rule, chunk), &demand).expect("it fits");
                let mut reached = vec![0; 36];
                let mut sent = [0; 12];
                for part in &parts {
                    let pair = part.source as usize * 6 + part.destination as usize;
                    prop_assert!(part.bytes > 0);
                    prop_assert_eq!(part.offset, reached[pair]);
                    reached[pair] += part.bytes;
                    sent[part.source as usize / 2 * 4 + usize::from(part.nic)] += part.bytes;
                }
                for pair in 0..36 {
                    let stays = pair / 12 == pair % 6 / 2;
                    prop_assert_eq!(reached[pair], if stays { 0 } else { demand[pair] });
                }
                if rule != "delegate" {
                    let loads = crate::rails::rails_assign(&demand, 2, Bytes::new(chunk), rule);
                    let own: Vec<u64> = sent.chunks(4).flat_map(|nics| nics[..2].to_vec()).collect();
                    prop_assert_eq!(own, loads.expect("it fits").0);
                }
            }
        }
    }

    #[test]
    fn nics_belong_to_the_gpus_that_a_cluster_says() {
        for (gpus, nics) in [(1, 3), (2, 4), (2, 2), (3, 3), (4, 2), (8, 4)] {
            let of = NicsSpec {
                gpus_per_server: gpus,
                packet_nics: 1,
                optical_nics: nics - 1,
                ..spec("delegate", 1)
            };
            let cluster = Cluster {
                nics_per_server: nics.into(),
                ..Cluster::of(u32::from(gpus) * 3, gpus.into())
            };
            let gpu = |nic| cluster.local(cluster.gpu_of(NicId(nic))) as u16;
            assert_eq!(of.layout().nic_gpu, (0..nics.into()).map(gpu).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let why = |change: &dyn Fn(&mut NicsSpec)| {
            let mut spec = spec("delegate", 100);
            change(&mut spec);
            alltoall_nics(&spec, &[1; 36]).expect_err("it does not fit").to_string()
        };
        assert!(why(&|it| it.servers = 1).contains("servers = 1"));
        assert!(why(&|it| it.gpus_per_server = 3).contains("must be 9 x 9"));
        assert!(why(&|it| it.rule = "x".into()).contains("rule = \"x\": must be delegate, lpt"));
        assert!(
            why(&|it| it.circuits.push(((0, 0), (2, 1)))).contains("circuits: (0, 0) to (2, 1)")
        );
        assert!(why(&|it| it.circuits.push(((0, 1), (0, 1)))).contains("must join two"));
        assert!(why(&|it| (it.rule, it.chunk) = ("lpt".into(), Bytes::ZERO)).contains("chunk = 0"));
    }
}
