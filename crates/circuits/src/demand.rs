//! What the servers of a region send each other in one all-to-all (MixNet Section 5.2, Step 1).
//!
//! Modelled: bytes between servers, by direction, and their sum over both directions, because a
//! circuit is provisioned both ways at once. Ignored: traffic inside a server.
//! Checked: sums are conserved; golden examples.

/// Bytes from each server of a region to each other one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerDemand {
    /// The number of servers.
    pub n: usize,
    /// `n * n` entries, row-major: `bytes[from * n + to]` \[B\]. The diagonal is not read.
    pub bytes: Vec<u64>,
}

impl ServerDemand {
    /// No demand between `n` servers.
    pub fn zero(n: usize) -> Self {
        ServerDemand { n, bytes: vec![0; n * n] }
    }

    /// Adds up `(source GPU, destination GPU, bytes)`, with GPUs numbered within the region.
    ///
    /// # Panics
    /// If `gpus_per_server` is zero, or a GPU is not of the region.
    ///
    /// ```
    /// use lightloom_circuits::ServerDemand;
    /// // Two servers of two GPUs; what GPU 0 sends GPU 1 stays inside server 0.
    /// let demand = ServerDemand::from_gpu_demand(2, 2, [(0, 2, 5), (1, 3, 2), (3, 0, 1), (0, 1, 9)]);
    /// assert_eq!(demand.bytes, [0, 7, 1, 0]);
    /// ```
    pub fn from_gpu_demand(
        n: usize,
        gpus_per_server: u32,
        demand: impl IntoIterator<Item = (u32, u32, u64)>,
    ) -> Self {
        let mut servers = ServerDemand::zero(n);
        for (source, destination, bytes) in demand {
            servers.add(source / gpus_per_server, destination / gpus_per_server, bytes);
        }
        servers
    }

    /// Adds bytes from one server to another; nothing if they are the same.
    ///
    /// # Panics
    /// If a server is not of the region.
    pub fn add(&mut self, from: u32, to: u32, bytes: u64) {
        let (from, to) = (from as usize, to as usize);
        assert!(from < self.n && to < self.n, "servers {from}, {to} of {}", self.n);
        if from != to {
            self.bytes[from * self.n + to] += bytes;
        }
    }

    /// Bytes from one server to another.
    pub fn get(&self, from: usize, to: usize) -> u64 {
        self.bytes[from * self.n + to]
    }

    /// Every pair `i < j` in rising order, with the bytes of both directions (Algorithm 1, Step 1).
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        let both = |i, j| self.get(i, j) + self.get(j, i);
        (0..self.n).flat_map(move |i| (i + 1..self.n).map(move |j| (i, j, both(i, j))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_between_servers_are_conserved(
            flows in prop::collection::vec((0u32..12, 0u32..12, 0u64..1 << 40), 0..60),
        ) {
            let demand = ServerDemand::from_gpu_demand(4, 3, flows.iter().copied());
            let crossing = |f: &&(u32, u32, u64)| f.0 / 3 != f.1 / 3;
            let sent: u64 = flows.iter().filter(crossing).map(|f| f.2).sum();
            prop_assert_eq!(demand.bytes.iter().sum::<u64>(), sent);
        }
    }

    #[test]
    #[should_panic(expected = "servers 0, 3 of 3")]
    fn a_gpu_outside_the_region_is_refused() {
        ServerDemand::from_gpu_demand(3, 2, [(0, 6, 1)]);
    }
}
