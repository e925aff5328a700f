//! By which algorithm a collective is run unless anyone says: the one that takes least by closed form.
//!
//! Modelled: steps follow one another, each as long as its delay and what it sends over the slowest
//! of two levels, the scale-up network of a server and the server's NICs; circuits that follow messages
//! change before every step that joins other servers. Ignored: switches between servers, circuits that
//! stand, steps that overlap. Checked: within a tenth of the best of the house on one fabric,
//! in `tests/test_collective.py`.

use crate::collective::HIERARCHICAL;
use lightloom_units::Bytes;
use lightloom_workload::collective::{Algorithm, Collective, Primitive};

/// How ranks are joined.
#[derive(Clone, Copy, Debug)]
pub struct Levels {
    /// Ranks of a server.
    pub per_server: u32,
    /// bit/s and seconds from rank to rank inside a server.
    pub inside: (f64, f64),
    /// bit/s of a NIC, and seconds from server to server.
    pub between: (f64, f64),
    /// NICs of a server that a collective can use, each for messages of its own.
    pub nics: u32,
    /// Seconds until other servers are joined, where circuits follow messages.
    pub change: f64,
}

/// The name of a primitive's quickest algorithm; of those that are equal, the first.
pub fn quickest(primitive: Primitive, ranks: u32, size: Bytes, levels: &Levels) -> Option<String> {
    let whole = (primitive == Primitive::AllReduce)
        .then(|| (levels.hierarchical(ranks, size), HIERARCHICAL.to_owned()));
    let built = Algorithm::all()
        .filter(|algorithm| algorithm.primitive() == primitive)
        .filter_map(|algorithm| algorithm.build(ranks, size).ok())
        .map(|built| (levels.steps(&built), built.algorithm.to_string()));
    let best = whole.into_iter().chain(built).min_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, name)| name)
}

impl Levels {
    /// The time in which every server sends `count` messages of `bytes` \[s\].
    fn crossing(&self, count: f64, bytes: f64) -> f64 {
        8.0 * bytes * (count / f64::from(self.nics)).max(1.0) / self.between.0
    }

    fn steps(&self, built: &Collective) -> f64 {
        // By pairing: whether any message stays in a server, and how many leave one at most.
        let of_pairing: Vec<(bool, u32)> = built
            .pairings
            .iter()
            .map(|pairing| {
                let mut leave = vec![0; built.nodes.div_ceil(self.per_server) as usize];
                let mut stays = false;
                for node in 0..built.nodes {
                    let Some(peer) = pairing.peer(node, built.nodes) else { continue };
                    let [from, to] = [node, peer].map(|rank| rank / self.per_server);
                    stays |= from == to;
                    leave[from as usize] += u32::from(from != to);
                }
                (stays, leave.into_iter().max().unwrap_or(0))
            })
            .collect();
        let time = |&(stays, leave): &(bool, u32), bytes: f64| {
            let inside = if stays { self.inside.1 + 8.0 * bytes / self.inside.0 } else { 0.0 };
            let between = match leave {
                0 => 0.0,
                _ => self.between.1 + self.crossing(leave.into(), bytes),
            };
            inside.max(between)
        };
        let mut joined = None;
        let mut seconds = 0.0;
        for step in &built.steps {
            let pairing = of_pairing[step.pairing as usize];
            if pairing.1 > 0 && joined.replace(step.pairing) != Some(step.pairing) {
                seconds += self.change;
            }
            seconds += time(&pairing, step.volume.get() as f64);
        }
        seconds
    }

    /// Reduced inside servers, summed around a ring a shard between them, gathered inside.
    fn hierarchical(&self, ranks: u32, size: Bytes) -> f64 {
        let even = ranks % self.per_server == 0 || ranks < self.per_server;
        let members = if even { self.per_server.min(ranks) } else { 1 };
        let (m, s) = (f64::from(members), f64::from(ranks / members));
        let bytes = size.get() as f64;
        let inside = self.inside.1 + 8.0 * bytes * (m - 1.0) / m / self.inside.0;
        let ring =
            2.0 * (s - 1.0) * self.between.1 + self.crossing(m, 2.0 * (s - 1.0) / s * bytes / m);
        (if members > 1 { 2.0 * inside } else { 0.0 })
            + if s > 1.0 { self.change + ring } else { 0.0 }
    }
}
