//! What a prediction is worth to a region: circuits are chosen from it, and the all-to-all that
//! comes is timed with them.
//!
//! Modelled: EP ranks lie on servers in order, so many a server, or one on several; a rank's tokens
//! are spread over its GPUs evenly. Checked: on demands whose circuits are known.

use crate::decider::Decider;
use crate::question::Question;
use crate::rule::Rule;
use crate::settings::Settings;
use lightloom_circuits::{PortMap, Rates, ServerDemand, all_to_all_time, assign, changed_ports};
use std::sync::Arc;

/// The servers of one block and their NICs.
#[derive(Clone, Debug)]
pub struct Region {
    /// EP ranks.
    pub ranks: usize,
    /// GPUs of a rank: its tensor parallelism.
    pub gpus_per_rank: usize,
    /// GPUs of a server.
    pub gpus_per_server: usize,
    /// Optical NICs of a server.
    pub optical_nics: u32,
    /// What NICs carry.
    pub rates: Rates,
    /// How circuits are chosen; dark time is not weighed.
    pub rule: Arc<dyn Rule>,
    /// Bytes of a token on its way.
    pub token_bytes: u64,
}

impl Region {
    /// How many servers it spans; with fewer than two there is nothing to decide.
    pub fn servers(&self) -> usize {
        (self.ranks * self.gpus_per_rank).div_ceil(self.gpus_per_server.max(1))
    }

    /// No circuits.
    pub fn dark(&self) -> PortMap {
        PortMap::dark(self.servers(), self.optical_nics as usize)
    }

    /// Bytes between servers, of tokens from rank to rank (row-major).
    pub fn demand(&self, tokens: &[f64]) -> ServerDemand {
        let n = self.servers();
        let mut bytes = vec![0.0; n * n];
        for (at, &count) in tokens.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            let (from, to) = (at / self.ranks, at % self.ranks);
            for (source, sent) in self.spread(from) {
                for (destination, received) in self.spread(to) {
                    bytes[source * n + destination] += count * sent * received;
                }
            }
        }
        let whole = |(at, tokens): (usize, f64)| {
            if at / n == at % n { 0 } else { (tokens * self.token_bytes as f64).round() as u64 }
        };
        ServerDemand { n, bytes: bytes.into_iter().enumerate().map(whole).collect() }
    }

    /// The servers of a rank, and the share of its GPUs on each.
    fn spread(&self, rank: usize) -> impl Iterator<Item = (usize, f64)> {
        let (first, end) = (rank * self.gpus_per_rank, (rank + 1) * self.gpus_per_rank);
        let per_server = self.gpus_per_server;
        (first / per_server..=(end - 1) / per_server).map(move |server| {
            let here = end.min((server + 1) * per_server) - first.max(server * per_server);
            (server, here as f64 / (end - first) as f64)
        })
    }

    /// What decides for it.
    pub fn decider(&self) -> Decider {
        let (rule, rates) = (Arc::clone(&self.rule), self.rates);
        let settings = Settings { rule, rates, hysteresis: false, ..Settings::default() };
        Decider::new(settings, &vec![0; self.servers()])
    }

    /// Circuits for a demand, the standing ones in mind.
    ///
    /// # Panics
    /// If the rule has no answer; those of [`crate::rules`] always have one.
    pub fn decide(
        &self,
        decider: &mut Decider,
        demand: &ServerDemand,
        standing: &PortMap,
    ) -> PortMap {
        let question = Question::new(demand.clone(), standing.clone());
        let counts = decider.decide(&question).expect("the rule has an answer");
        assign(&counts, standing, &vec![0; self.optical_nics as usize])
    }

    /// How long an all-to-all takes over circuits \[s\].
    pub fn seconds(&self, demand: &ServerDemand, circuits: &PortMap) -> f64 {
        all_to_all_time(demand, &circuits.counts(), &self.rates).ps() as f64 * 1e-12
    }

    /// Ports that a change of circuits darkens.
    pub fn changed(&self, from: &PortMap, to: &PortMap) -> usize {
        changed_ports(from, to).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Algorithm1;

    fn region(gpus_per_rank: usize) -> Region {
        let rate = 400_000_000_000;
        Region {
            ranks: 4,
            gpus_per_rank,
            gpus_per_server: 8,
            optical_nics: 6,
            rates: Rates { optical_bps: rate, packet_bps: rate, packet_nics: 2, share_eps: false },
            rule: Arc::new(Algorithm1),
            token_bytes: 100,
        }
    }

    #[test]
    fn ranks_lie_on_servers_in_order() {
        let mut tokens = vec![0.0; 16];
        tokens[1] = 6.0; // rank 0 to rank 1
        tokens[4 * 3] = 3.0; // rank 3 to rank 0
        let bytes = |gpus_per_rank| region(gpus_per_rank).demand(&tokens).bytes;
        assert_eq!(bytes(2), [0]);
        assert_eq!(bytes(4), [0, 0, 300, 0]);
        let apart = region(8).demand(&tokens);
        assert_eq!((apart.get(0, 1), apart.get(3, 0)), (600, 300));
        // Rank 0 is on servers 0 and 1 by two to one, rank 1 on 1 and 2 by one to two.
        let halves = region(12).demand(&tokens);
        assert_eq!((halves.n, halves.get(0, 1), halves.get(0, 2)), (6, 133, 267));
    }

    #[test]
    fn the_truth_is_served_better_than_a_mistake() {
        let region = region(8);
        let pair = |a: usize, b: usize| {
            let mut tokens = vec![0.0; 16];
            tokens[a * 4 + b] = 1e6;
            tokens[b * 4 + a] = 1e6;
            region.demand(&tokens)
        };
        let (truth, mistake) = (pair(0, 1), pair(2, 3));
        let mut decider = region.decider();
        let right = region.decide(&mut decider, &truth, &region.dark());
        let wrong = region.decide(&mut decider, &mistake, &region.dark());
        // Six circuits of 50 GB/s, or two packet NICs.
        assert!((region.seconds(&truth, &right) - 1e8 / 3e11).abs() < 1e-9);
        assert!((region.seconds(&truth, &wrong) - 1e8 / 1e11).abs() < 1e-9);
        assert_eq!(region.changed(&right, &wrong), 24);
    }
}
