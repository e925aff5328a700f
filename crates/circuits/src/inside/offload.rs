//! Which bytes go over packet NICs where circuits change inside an all-to-all.
//!
//! First, what costs packet NICs less time than its reconfiguration costs a port goes over them. Then
//! they take from whatever line (what a server sends, or receives) is busiest on circuits, as long as
//! they are done before it is: of its pairs, the one that saves circuits most for what it costs packet
//! NICs, as small pairs save a reconfiguration and others relieve a second line.

/// No smaller part of a pair goes over packet NICs \[B\].
const LEAST_PART: f64 = 65_536.0;

/// What each server sends, and then what each receives. A pair of servers `(i, j)` is `i * n + j`, on the
/// lines `i` and `n + j`. Times are in \[ps\].
pub(super) struct ServerLines<'a> {
    /// Servers.
    pub n: usize,
    /// By pair, whether it has a circuit already.
    pub stands: &'a [bool],
    /// What a reconfiguration costs a line, whose other ports go on.
    pub dark: f64,
    /// What a byte takes on a line by circuits.
    pub circuit: f64,
    /// What it takes by packet NICs.
    pub packet: f64,
    /// Whether a pair may use both.
    pub share: bool,
    /// By line, for how long circuits are busy.
    pub light: Vec<f64>,
    /// By line, for how long packet NICs are.
    pub packets: Vec<f64>,
}

impl ServerLines<'_> {
    /// The bytes of each pair that go over packet NICs, and how long the busiest line of circuits takes
    /// for the rest. A pair whose circuit does not stand costs a reconfiguration.
    pub fn offload(mut self, bytes: &[u64]) -> (Vec<u64>, f64) {
        let n = self.n;
        let pairs = || (0..n * n).filter(|&pair| bytes[pair] > 0);
        for pair in pairs() {
            for line in self.of(pair) {
                self.light[line] += bytes[pair] as f64 * self.circuit + self.once(pair);
            }
        }
        let mut left = bytes.to_vec();
        let small = |&pair: &usize| bytes[pair] as f64 * self.packet <= self.once(pair);
        let mut small: Vec<usize> = pairs().filter(small).collect();
        small.sort_by_key(|&pair| (bytes[pair], pair));
        let mut small = small.into_iter();
        loop {
            let lines = (0..2 * n).rev();
            let busiest = lines.max_by(|&a, &b| self.light[a].total_cmp(&self.light[b]));
            let busiest = busiest.unwrap_or(0);
            let until = self.light.get(busiest).copied().unwrap_or(0.0);
            let next = small.next().map(|pair| (pair, left[pair] as f64));
            let fits = |&(pair, part): &(usize, f64)| self.busy(pair) + part * self.packet < until;
            let Some((pair, part)) = next.filter(fits).or_else(|| self.relief(busiest, &left))
            else {
                let over = bytes.iter().zip(&left).map(|(all, left)| all - left);
                return (over.collect(), until);
            };
            left[pair] -= part as u64;
            let saved = part * self.circuit + if left[pair] == 0 { self.once(pair) } else { 0.0 };
            for line in self.of(pair) {
                self.light[line] -= saved;
                self.packets[line] += part * self.packet;
            }
        }
    }

    /// The pair of the busiest line that is relieved best, and how much of it.
    fn relief(&self, busiest: usize, left: &[u64]) -> Option<(usize, f64)> {
        let (n, until) = (self.n, self.light.get(busiest).copied().unwrap_or(0.0));
        let mut best: Option<(f64, usize, f64)> = None;
        for step in 1..n {
            // Nearer in a circle of servers first, so that equal pairs spread over lines.
            let pair = match busiest < n {
                true => busiest * n + (busiest + step) % n,
                false => (busiest - step) % n * n + busiest - n,
            };
            let (rest, busy) = (left[pair] as f64, self.busy(pair));
            let part = match self.share {
                true => rest.min(((until - busy) / (self.circuit + self.packet)).floor()),
                false if busy + rest * self.packet < until => rest,
                false => 0.0,
            };
            if rest == 0.0 || (part < rest && part < LEAST_PART) {
                continue;
            }
            let saved = part * self.circuit + if part == rest { self.once(pair) } else { 0.0 };
            let [from, to] = self.of(pair);
            let other = if busiest < n { self.light[to] } else { self.light[from] };
            let worth = saved / (part * self.packet) * other;
            if best.is_none_or(|(known, ..)| worth > known) {
                best = Some((worth, pair, part));
            }
        }
        best.map(|(_, pair, part)| (pair, part))
    }

    /// The lines of a pair.
    fn of(&self, pair: usize) -> [usize; 2] {
        [pair / self.n, self.n + pair % self.n]
    }

    /// What setting the circuit of a pair costs.
    fn once(&self, pair: usize) -> f64 {
        if self.stands[pair] { 0.0 } else { self.dark }
    }

    /// For how long packet NICs are busy at either end of a pair.
    fn busy(&self, pair: usize) -> f64 {
        let [from, to] = self.of(pair);
        self.packets[from].max(self.packets[to])
    }
}
