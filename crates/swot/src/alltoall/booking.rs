//! Who holds which port of the planes, and until when; and the scheduler that books them for one
//! transfer after another.
//!
//! Modelled: a circuit takes its transmitter and its receiver alone, from when it is set (both ports
//! dark for the reconfiguration time) or, if it stands already, from when both are free, until its
//! last byte has arrived. A transfer is a demand between servers; each entry may be split over planes.
//! It is booked at once and for good, over whatever the ports are booked for already: what was decided
//! before is never changed, unless a port is lost or comes back: then whoever keeps the bookings hands
//! over what has begun ([`Ports::keep`]), and books the rest anew over the ports that work.
//! Data may have to wait longer than circuits: what is not there yet can be set for.
//! The schedule is the best of two kinds. *Filled*: for a completion time T, the entries go one after
//! the other, each to the ports that lose least (idle and dark time) and as many of its bytes there as
//! arrive by T; the least such T is sought by bisection. Planes are filled to the brim one by one, as
//! McNaughton's rule does for machines, so most circuits serve long and few ports change: right for
//! uniform demands. *Dealt*: whichever transmitter is free takes a piece of its fullest receiver, and
//! pieces shrink towards the end, as in guided self-scheduling: right for skewed demands.
//! What tries for longer ([`ports`](super::ports())) is some 5 % shorter at eight servers, but takes a
//! hundred times as long, and a training iteration has thousands of transfers.
//! Circuits may be set for a transfer that is only expected ([`Ports::set_ahead`]).
//! Ignored: giving way to urgent transfers; whoever books what can wait books it in pieces.
//! Checked: bytes add up, no port serves two at once, nothing is set over a standing booking; against
//! the bound of the fullest port on random demands.

use super::hold::Hold;
use crate::problem::Planes;
use lightloom_units::{BitRate, Bytes, Time};
use std::collections::BTreeSet;

/// What one server sends another: (from, to, bytes).
pub type Entry = (u32, u32, u64);

/// One direction of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub free: Time,
    pub peer: u32,
}

pub(super) const NOBODY: u32 = u32::MAX;
/// When a port is free that is lost.
const LOST: Time = Time::MAX;
/// The completion time is sought to this part of the least it could be.
const PRECISION: u64 = 4096;

/// A circuit is set for part of an entry only if it then carries for longer than its dark time over
/// this.
const DARK_SHARE: u64 = 4;
/// How finely entries are dealt out.
const PARTS: [u64; 3] = [1, 2, 4];
/// No smaller piece is dealt, but for what is left of an entry \[B\].
const LEAST_PIECE: u64 = 1 << 16;

/// All ports: transmitters and receivers, by server and plane.
///
/// ```
/// use lightloom_swot::Planes;
/// use lightloom_swot::alltoall::Ports;
/// use lightloom_units::{BitRate, Time};
/// let planes = Planes {
///     planes: 1,
///     rate_bps: BitRate::from_gbps(400),
///     reconfiguration_ps: Time::from_us(200),
///     latency_ps: Time::ZERO,
/// };
/// let mut ports = Ports::dark(2, 1);
/// // 5 MB take 100 us, after the circuit is set; the second time it stands.
/// assert_eq!(ports.book(&[(0, 1, 5_000_000)], Time::ZERO, &planes)[0].end_ps, Time::from_us(300));
/// assert_eq!(ports.book(&[(0, 1, 5_000_000)], Time::ZERO, &planes)[0].end_ps, Time::from_us(400));
/// ```
#[derive(Clone, Debug)]
pub struct Ports {
    planes: u32,
    tx: Vec<End>,
    rx: Vec<End>,
    /// By server and plane.
    lost: Vec<bool>,
}

impl Ports {
    /// Ports that are free and joined to nothing.
    pub fn dark(servers: u32, planes: u32) -> Self {
        let end = End { free: Time::ZERO, peer: NOBODY };
        let ports = vec![end; servers as usize * planes as usize];
        let lost = vec![false; ports.len()];
        Ports { planes, tx: ports.clone(), rx: ports, lost }
    }

    /// A server's port of a plane is lost, both directions of it, or works again: nothing is booked over
    /// a port that is lost.
    ///
    /// ```
    /// # use lightloom_swot::Planes;
    /// # use lightloom_swot::alltoall::Ports;
    /// # use lightloom_units::{BitRate, Time};
    /// # let planes = Planes {
    /// #     planes: 2,
    /// #     rate_bps: BitRate::from_gbps(400),
    /// #     reconfiguration_ps: Time::from_us(200),
    /// #     latency_ps: Time::ZERO,
    /// # };
    /// let mut ports = Ports::dark(2, 2);
    /// ports.lose(1, 0, true);
    /// // 5 MB take 100 us over the one plane that is left.
    /// let holds = ports.book(&[(0, 1, 5_000_000)], Time::ZERO, &planes);
    /// assert_eq!((holds.len(), holds[0].plane, holds[0].end_ps), (1, 1, Time::from_us(300)));
    /// ports.lose(0, 1, true);
    /// assert!(!ports.joins(0, 1));
    /// ```
    ///
    /// # Panics
    /// If there is no such server.
    pub fn lose(&mut self, server: u32, plane: u32, lost: bool) {
        let port = self.port(server, plane);
        self.lost[port] = lost;
    }

    /// Whether any plane has a port at both servers that works.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn joins(&self, a: u32, b: u32) -> bool {
        let works = |server, plane| !self.lost[self.port(server, plane)];
        (0..self.planes).any(|plane| works(a, plane) && works(b, plane))
    }

    /// A circuit is in use as booked, whoever used its ports before.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn keep(&mut self, hold: &Hold) {
        let (tx, rx) = (self.port(hold.from, hold.plane), self.port(hold.to, hold.plane));
        self.tx[tx] = self.tx[tx].after(hold.end_ps, hold.to);
        self.rx[rx] = self.rx[rx].after(hold.end_ps, hold.from);
    }

    /// A circuit in use ends too soon, at `now`: its ports are free then, and joined to nothing.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn cut(&mut self, hold: &Hold, now: Time) {
        let (tx, rx) = (self.port(hold.from, hold.plane), self.port(hold.to, hold.plane));
        (self.tx[tx], self.rx[rx]) =
            (End { free: now, peer: NOBODY }, End { free: now, peer: NOBODY });
    }

    /// Joins two servers on a plane, in one direction. Whoever either port was joined to before, it is not now:
    /// a circuit stands if both of its ends say so.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn join(&mut self, from: u32, to: u32, plane: u32) {
        let (tx, rx) = (self.port(from, plane), self.port(to, plane));
        self.tx[tx].peer = to;
        self.rx[rx].peer = from;
    }

    /// Whether a circuit leads from a server to another, on any plane.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn stands(&self, from: u32, to: u32) -> bool {
        (0..self.planes).any(|plane| {
            let (tx, rx) = (self.port(from, plane), self.port(to, plane));
            self.tx[tx].peer == to && self.rx[rx].peer == from
        })
    }

    /// Whether a circuit stands as it was booked, and nobody has booked its ports since, beyond `now`.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn goes_on(&self, hold: &Hold, now: Time) -> bool {
        let (tx, rx) = (self.port(hold.from, hold.plane), self.port(hold.to, hold.plane));
        let idle = |end: End, peer: u32| end.peer == peer && end.free <= now;
        idle(self.tx[tx], hold.to) && idle(self.rx[rx], hold.from)
    }

    /// Time begins anew: all ports are free, and joined to whom they are.
    pub fn rest(&mut self) {
        self.tx.iter_mut().chain(&mut self.rx).for_each(|end| end.free = Time::ZERO);
    }

    /// Books a transfer from `now` on; in order of transmitter, then time. Entries without bytes, or
    /// from a server to itself, need no circuit. `planes.planes` is not read: the ports have theirs.
    ///
    /// # Panics
    /// If there is no such server, or no plane [joins](Ports::joins) two that send.
    pub fn book(&mut self, demand: &[Entry], now: Time, planes: &Planes) -> Vec<Hold> {
        self.book_ahead(demand, now, now, planes)
    }

    /// As [`Ports::book`], but nothing can be sent before `ready`: until then circuits may be set. What
    /// is set too soon keeps its ports until then.
    ///
    /// ```
    /// # use lightloom_swot::Planes;
    /// # use lightloom_swot::alltoall::Ports;
    /// # use lightloom_units::{BitRate, Time};
    /// # let planes = Planes {
    /// #     planes: 1,
    /// #     rate_bps: BitRate::from_gbps(400),
    /// #     reconfiguration_ps: Time::from_us(200),
    /// #     latency_ps: Time::ZERO,
    /// # };
    /// let demand = [(0, 1, 5_000_000)]; // 100 us
    /// let ready = Time::from_us(150); // 150 of the 200 us of darkness are gone by then
    /// let holds = Ports::dark(2, 1).book_ahead(&demand, Time::ZERO, ready, &planes);
    /// assert_eq!((holds[0].dark_ps, holds[0].start_ps), (Time::ZERO, Time::from_us(200)));
    /// let ready = Time::from_us(500);
    /// let holds = Ports::dark(2, 1).book_ahead(&demand, Time::ZERO, ready, &planes);
    /// assert_eq!((holds[0].dark_ps, holds[0].start_ps), (Time::ZERO, ready));
    /// ```
    ///
    /// # Panics
    /// As [`Ports::book`].
    pub fn book_ahead(
        &mut self,
        demand: &[Entry],
        now: Time,
        ready: Time,
        planes: &Planes,
    ) -> Vec<Hold> {
        let holds = self.draft(demand, now, ready, planes);
        holds.iter().for_each(|hold| self.keep(hold));
        holds
    }

    /// Sets circuits for a transfer that is expected at `ready`: those that it would be sent over first,
    /// as far as their ports are free now. Nothing else is booked: it is booked when it comes, and what
    /// comes before it may still take them.
    ///
    /// ```
    /// # use lightloom_swot::Planes;
    /// # use lightloom_swot::alltoall::Ports;
    /// # use lightloom_units::{BitRate, Time};
    /// # let planes = Planes {
    /// #     planes: 1,
    /// #     rate_bps: BitRate::from_gbps(400),
    /// #     reconfiguration_ps: Time::from_us(200),
    /// #     latency_ps: Time::ZERO,
    /// # };
    /// let (mut ports, demand) = (Ports::dark(2, 1), [(0, 1, 5_000_000)]); // 100 us
    /// let at = Time::from_us(300);
    /// assert_eq!(ports.set_ahead(&demand, Time::ZERO, at, &planes).len(), 1);
    /// let holds = ports.book(&demand, at, &planes);
    /// assert_eq!((holds[0].set, holds[0].end_ps), (false, Time::from_us(400)));
    /// // It stands: there is nothing to set.
    /// assert!(ports.set_ahead(&demand, holds[0].end_ps, Time::from_ms(1), &planes).is_empty());
    /// ```
    ///
    /// # Panics
    /// As [`Ports::book`].
    pub fn set_ahead(
        &mut self,
        demand: &[Entry],
        now: Time,
        ready: Time,
        planes: &Planes,
    ) -> Vec<Hold> {
        let mut first = self.draft(demand, now, ready, planes);
        let (mut tx, mut rx) = (BTreeSet::new(), BTreeSet::new());
        first.sort_unstable_by_key(|hold| (hold.dark_ps, hold.plane, hold.from, hold.to));
        first.retain(|hold| {
            let own = [tx.insert((hold.from, hold.plane)), rx.insert((hold.to, hold.plane))];
            own == [true; 2] && hold.set && hold.dark_ps == now
        });
        let lit = now + planes.reconfiguration_ps;
        for hold in &mut first {
            (hold.start_ps, hold.end_ps, hold.bytes) = (lit, lit, Bytes::ZERO);
            self.keep(hold);
        }
        first
    }

    /// A transfer's schedule, in order of transmitter, then time.
    fn draft(&self, demand: &[Entry], now: Time, ready: Time, planes: &Planes) -> Vec<Hold> {
        let entries: Vec<Entry> =
            demand.iter().copied().filter(|&(from, to, bytes)| from != to && bytes > 0).collect();
        let mut holds = Draft::new(self, &entries, now, ready).best(&entries, planes);
        holds.sort_unstable_by_key(|hold| (hold.from, hold.plane, hold.dark_ps));
        holds
    }

    fn port(&self, server: u32, plane: u32) -> usize {
        server as usize * self.planes as usize + plane as usize
    }
}

impl End {
    /// The later of two bookings says whom the port is joined to.
    fn after(self, end: Time, peer: u32) -> Self {
        if end > self.free { End { free: end, peer } } else { self }
    }
}

/// The ports of the servers of one transfer, as they stand when it begins.
struct Draft {
    servers: Vec<u32>,
    planes: usize,
    tx: Vec<End>,
    rx: Vec<End>,
    /// Nothing is sent before.
    ready: Time,
}

impl Draft {
    fn new(ports: &Ports, entries: &[Entry], now: Time, ready: Time) -> Self {
        let mut servers: Vec<u32> = entries.iter().flat_map(|&(from, to, _)| [from, to]).collect();
        servers.sort_unstable();
        servers.dedup();
        let planes = ports.planes as usize;
        let joined = |&(from, to, _): &Entry| ports.joins(from, to);
        assert!(entries.iter().all(joined), "a plane joins any two that send");
        let of = |ends: &[End]| {
            let places = servers.iter().flat_map(|&server| {
                let first = server as usize * planes;
                first..first + planes
            });
            let free = |at: usize| if ports.lost[at] { LOST } else { ends[at].free.max(now) };
            places.map(|at| End { free: free(at), ..ends[at] }).collect()
        };
        Draft { planes, tx: of(&ports.tx), rx: of(&ports.rx), servers, ready }
    }

    fn place(&self, server: u32) -> usize {
        self.servers.partition_point(|&s| s < server)
    }

    /// The schedule that is over soonest of those tried.
    fn best(&self, entries: &[Entry], planes: &Planes) -> Vec<Hold> {
        let least = self.least(entries, planes);
        let over =
            |holds: &[Hold]| holds.iter().map(|hold| hold.end_ps).max().unwrap_or(Time::ZERO);
        let begin = self.tx.iter().chain(&self.rx).map(|end| end.free.max(self.ready)).min();
        let tolerance = least.saturating_sub(begin.unwrap_or(least)).ps() / PRECISION;
        let tolerance = Time::from_ps(tolerance.max(1));
        let mut best: Option<(Time, Vec<Hold>)> = None;
        let order = self.by_neighbour(entries);
        let (mut low, mut deadline) = (least, Time::MAX);
        loop {
            match self.fill(&order, deadline, planes) {
                Some(holds) => best = Some((over(&holds), holds)),
                None => low = deadline,
            }
            let Some(high) = best.as_ref().map(|(end, _)| *end) else { break };
            if high.saturating_sub(low) <= tolerance {
                break;
            }
            deadline = Time::from_ps(low.ps() + (high.ps() - low.ps()) / 2);
        }
        // A ring, or one pair: filled, nothing is lost but the set-up.
        let short = least.saturating_add(planes.reconfiguration_ps).saturating_add(tolerance);
        let parts =
            if best.as_ref().is_some_and(|(end, _)| *end <= short) { &[] } else { &PARTS[..] };
        for &part in parts {
            let holds = self.deal(entries, part, planes);
            if best.as_ref().is_none_or(|(end, _)| over(&holds) < *end) {
                best = Some((over(&holds), holds));
            }
        }
        best.map_or_else(Vec::new, |(_, holds)| holds)
    }

    /// No schedule is over before: the fullest server's bytes over all its ports, once they are free.
    fn least(&self, entries: &[Entry], planes: &Planes) -> Time {
        let (mut sent, mut received) =
            (vec![0u64; self.servers.len()], vec![0u64; self.servers.len()]);
        for &(from, to, bytes) in entries {
            sent[self.place(from)] += bytes;
            received[self.place(to)] += bytes;
        }
        let line = |bytes: &[u64], ends: &[End]| {
            let each = bytes.iter().zip(ends.chunks(self.planes)).filter(|(bytes, _)| **bytes > 0);
            each.map(|(&bytes, ends)| {
                let free = ends.iter().map(|end| end.free).min().unwrap_or(Time::ZERO);
                let free = free.max(self.ready);
                let share = Bytes::new(bytes / working(ends));
                free + planes.latency_ps + planes.rate_bps.time_for(share)
            })
            .max()
        };
        line(&sent, &self.tx).max(line(&received, &self.rx)).unwrap_or(Time::ZERO)
    }

    /// Each server's next first, then each one's next but one: of uniform demands all ports of a plane
    /// are filled alike.
    fn by_neighbour(&self, entries: &[Entry]) -> Vec<Entry> {
        let n = self.servers.len();
        let mut order = entries.to_vec();
        order.sort_by_key(|&(from, to, _)| {
            let (from, to) = (self.place(from), self.place(to));
            ((to + n - from) % n, from)
        });
        order
    }

    /// Entries one after the other, each where least is lost and no longer than to the deadline.
    fn fill(&self, order: &[Entry], deadline: Time, planes: &Planes) -> Option<Vec<Hold>> {
        let (mut tx, mut rx) = (self.tx.clone(), self.rx.clone());
        let mut holds = Vec::with_capacity(2 * order.len());
        for &(from, to, bytes) in order {
            let (a, b) = (self.place(from) * self.planes, self.place(to) * self.planes);
            let mut left = bytes;
            while left > 0 {
                let places = (0..self.planes).filter_map(|plane| {
                    let (tx, rx) = (tx[a + plane], rx[b + plane]);
                    let start = tx.free.max(rx.free);
                    if start == LOST {
                        return None;
                    }
                    let set = tx.peer != to || rx.peer != from;
                    let dark = if set { planes.reconfiguration_ps } else { Time::ZERO };
                    let up = (start + dark).max(self.ready);
                    let room =
                        room(deadline.saturating_sub(up + planes.latency_ps), planes.rate_bps);
                    // What is dark for long and serves for short is for what fits nowhere else.
                    let serves = planes.rate_bps.time_for(Bytes::new(room)).ps();
                    let pays = room >= left || serves.saturating_mul(DARK_SHARE) > dark.ps();
                    let idle = |end: End| up - end.free.max(self.ready);
                    let lost = (idle(tx) + idle(rx)).saturating_sub(dark);
                    (room > 0 && pays).then_some((lost, up, plane, room, set, start))
                });
                let (_, up, plane, room, set, start) = places.min()?;
                let bytes = Bytes::new(left.min(room));
                let end = up + planes.latency_ps + planes.rate_bps.time_for(bytes);
                left -= bytes.get();
                tx[a + plane] = End { free: end, peer: to };
                rx[b + plane] = End { free: end, peer: from };
                let plane = plane as u32;
                holds.push(Hold {
                    plane,
                    from,
                    to,
                    dark_ps: start,
                    start_ps: up,
                    end_ps: end,
                    bytes,
                    set,
                });
            }
        }
        Some(holds)
    }

    /// Piece by piece: whichever transmitter is free first takes the fullest receiver of those that
    /// it could reach soonest. A piece is a `part` of what either end has left for one plane, so that
    /// pieces shrink towards the end and all planes are done together.
    fn deal(&self, entries: &[Entry], part: u64, planes: &Planes) -> Vec<Hold> {
        let n = self.servers.len();
        let (mut tx, mut rx) = (self.tx.clone(), self.rx.clone());
        let mut left = vec![0u64; n * n];
        let (mut out, mut into) = (vec![0u64; n], vec![0u64; n]);
        for &(from, to, bytes) in entries {
            let (a, b) = (self.place(from), self.place(to));
            left[a * n + b] += bytes;
            out[a] += bytes;
            into[b] += bytes;
        }
        let least =
            room(planes.reconfiguration_ps + planes.latency_ps, planes.rate_bps).max(LEAST_PIECE);
        let mut last = vec![usize::MAX; tx.len()];
        let mut holds: Vec<Hold> = Vec::new();
        loop {
            let waiting = |&port: &usize| out[port / self.planes] > 0 && tx[port].free < LOST;
            let waiting = (0..tx.len()).filter(waiting);
            let Some(port) = waiting.min_by_key(|&port| (tx[port].free, port)) else {
                return holds;
            };
            let (a, plane) = (port / self.planes, port % self.planes);
            let from = self.servers[a];
            let soon = |b: usize| {
                let (t, r) = (tx[port], rx[b * self.planes + plane]);
                let set = t.peer != self.servers[b] || r.peer != from;
                let start = t.free.max(r.free);
                let dark = if set { planes.reconfiguration_ps } else { Time::ZERO };
                ((start + dark).max(self.ready), start, set)
            };
            let works = |b: usize| rx[b * self.planes + plane].free < LOST;
            let open = || (0..n).filter(|&b| left[a * n + b] > 0 && works(b));
            let soonest = open().map(|b| soon(b).0).min().unwrap_or(Time::MAX);
            let horizon = soonest.saturating_add(planes.reconfiguration_ps);
            let reach = open().filter(|&b| soon(b).0 <= horizon);
            let Some(b) = reach.max_by_key(|&b| (into[b], left[a * n + b], std::cmp::Reverse(b)))
            else {
                // Whoever this server still sends to lost its port of this plane.
                tx[port].free = LOST;
                continue;
            };
            let (up, start, set) = soon(b);
            let rest = &mut left[a * n + b];
            let ways = working(&tx[a * self.planes..][..self.planes]);
            let share = out[a].max(into[b]) / (part * ways);
            let mut bytes = share.max(least).min(*rest);
            if *rest - bytes < least {
                bytes = *rest;
            }
            *rest -= bytes;
            out[a] -= bytes;
            into[b] -= bytes;
            let to = self.servers[b];
            let (from_end, to_end) = (tx[port], rx[b * self.planes + plane]);
            let on = !set && from_end.free == to_end.free && last[port] != usize::MAX;
            if !on {
                last[port] = holds.len();
                let (plane, bytes) = (plane as u32, Bytes::ZERO);
                holds.push(Hold {
                    plane,
                    from,
                    to,
                    dark_ps: start,
                    start_ps: up,
                    end_ps: up,
                    bytes,
                    set,
                });
            }
            let hold = &mut holds[last[port]];
            hold.bytes += Bytes::new(bytes);
            hold.end_ps = hold.start_ps + planes.latency_ps + planes.rate_bps.time_for(hold.bytes);
            tx[port] = End { free: hold.end_ps, peer: to };
            rx[b * self.planes + plane] = End { free: hold.end_ps, peer: from };
        }
    }
}

/// How many ports of a server work, one at least.
fn working(ends: &[End]) -> u64 {
    ends.iter().filter(|end| end.free < LOST).count().max(1) as u64
}

/// The bytes that surely fit into a time.
fn room(time: Time, rate: BitRate) -> u64 {
    let bytes = u128::from(time.ps()) * u128::from(rate.bps()) / 8_000_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const MB: u64 = 1_000_000;

    fn timing_of(dark_us: u64, latency_us: u64) -> Planes {
        Planes {
            planes: 8,
            rate_bps: BitRate::from_gbps(400),
            reconfiguration_ps: Time::from_us(dark_us),
            latency_ps: Time::from_us(latency_us),
        }
    }

    fn over(holds: &[Hold]) -> Time {
        holds.iter().map(|hold| hold.end_ps).max().expect("something is sent")
    }

    fn uniform(servers: u32, bytes: u64) -> Vec<Entry> {
        let all = (0..servers).flat_map(|a| (0..servers).map(move |b| (a, b, bytes)));
        all.filter(|&(a, b, _)| a != b).collect()
    }

    #[test]
    fn one_pair_takes_all_planes_and_standing_circuits_cost_nothing() {
        let mut ports = Ports::dark(4, 8);
        let demand = [(1, 3, 80 * MB)];
        // 10 MB at 400 Gbps on each of eight planes.
        let once = Time::from_us(2 + 200);
        let first = ports.book(&demand, Time::ZERO, &timing_of(10, 2));
        let close = |time: Time, ideal: Time| {
            assert!(time >= ideal && time <= ideal + Time::from_ns(100), "{time} for {ideal}");
        };
        assert_eq!(first.len(), 8);
        close(over(&first), once + Time::from_us(10));
        let again = ports.book(&demand, Time::from_ms(1), &timing_of(10, 2));
        close(over(&again), once + Time::from_ms(1));
        assert!(again.iter().all(|hold| !hold.set));
        // The same receiver from another server: the circuits are gone.
        let other = ports.book(&[(2, 3, 80 * MB)], Time::from_ms(2), &timing_of(10, 2));
        assert!(other.iter().all(|hold| hold.set));
        let back = ports.book(&demand, Time::from_ms(3), &timing_of(10, 2));
        assert!(back.iter().all(|hold| hold.set));
    }

    #[test]
    fn what_is_small_takes_one_circuit() {
        let mut ports = Ports::dark(2, 8);
        // 50 kB take 1 us: no second circuit is worth its 10 us.
        let holds = ports.book(&[(0, 1, 50_000)], Time::ZERO, &timing_of(10, 2));
        assert_eq!((holds.len(), over(&holds)), (1, Time::from_us(13)));
    }

    #[test]
    fn uniform_demands_are_near_their_bound() {
        for servers in [2, 3, 4, 5, 8, 16] {
            for dark in [0, 10, 200] {
                let holds = Ports::dark(servers, 8).book(
                    &uniform(servers, 100 * MB),
                    Time::ZERO,
                    &timing_of(dark, 2),
                );
                let ideal = BitRate::from_gbps(8 * 400)
                    .time_for(Bytes::new(100 * MB * u64::from(servers - 1)));
                // Every port is set at least so often, as seven or fewer pairs share eight of them.
                let sets = servers.saturating_sub(2) / 8 + 1;
                let bound = ideal + Time::from_us(2 + dark * u64::from(sets));
                let ratio = over(&holds).ps() as f64 / bound.ps() as f64;
                assert!((1.0..1.1).contains(&ratio), "{servers} servers, {dark} us: {ratio}");
            }
        }
    }

    #[test]
    fn a_plane_that_is_lost_is_as_one_that_never_was() {
        for (planes, lost) in [(2, 1), (8, 3), (8, 7)] {
            let book = |mut ports: Ports, lost: Option<u32>| {
                if let Some(plane) = lost {
                    (0..5).for_each(|server| ports.lose(server, plane, true));
                }
                ports.book(&uniform(5, 100 * MB), Time::ZERO, &timing_of(200, 2))
            };
            let left = book(Ports::dark(5, planes), Some(lost));
            assert!(left.iter().all(|hold| hold.plane != lost));
            let fewer = book(Ports::dark(5, planes - 1), None);
            let less =
                |hold: &Hold| Hold { plane: hold.plane - u32::from(hold.plane > lost), ..*hold };
            assert_eq!(left.iter().map(less).collect::<Vec<_>>(), fewer);
        }
    }

    #[test]
    fn what_has_begun_is_kept_and_what_is_cut_is_free() {
        let (timing, us) = (timing_of(10, 0), Time::from_us);
        let mut ports = Ports::dark(3, 1);
        let before = ports.clone();
        let holds = ports.book(&[(0, 1, 5 * MB), (0, 2, 5 * MB)], Time::ZERO, &timing);
        assert_eq!(holds.iter().map(|hold| hold.dark_ps).collect::<Vec<_>>(), [us(0), us(110)]);
        // Only the first had begun: the second may as well take its ports in another order.
        let mut ports = before;
        ports.keep(&holds[0]);
        assert_eq!(ports.clone().book(&[(0, 2, 5 * MB)], us(50), &timing), holds[1..]);
        ports.cut(&holds[0], us(50));
        let again = ports.book(&[(0, 1, 5 * MB)], us(50), &timing);
        assert_eq!((again[0].dark_ps, again[0].set), (us(50), true));
    }

    /// Each port serves one at a time, in the order of its holds, and whoever finds its circuit set
    /// finds it as the one before on both ports left it.
    fn check(holds: &[Hold], planes: &Planes) -> Result<(), TestCaseError> {
        let mut ends: BTreeMap<(bool, u32, u32), (Time, u32)> = BTreeMap::new();
        let mut by_start = holds.to_vec();
        by_start.sort_by_key(|hold| hold.dark_ps);
        for hold in by_start {
            let dark = if hold.set { planes.reconfiguration_ps } else { Time::ZERO };
            let needed = dark + planes.latency_ps + planes.rate_bps.time_for(hold.bytes);
            prop_assert_eq!(hold.end_ps, hold.dark_ps + needed);
            let ports = [(true, hold.from, hold.to), (false, hold.to, hold.from)];
            for (sends, server, peer) in ports {
                let before = ends.insert((sends, server, hold.plane), (hold.end_ps, peer));
                let (free, joined) = before.unwrap_or((Time::ZERO, NOBODY));
                prop_assert!(free <= hold.dark_ps);
                prop_assert!(hold.set || joined == peer);
            }
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn bookings_never_meet(
            transfers in prop::collection::vec(
                (prop::collection::vec((0u32..6, 0u32..6, 0u64..50_000_000), 1..20), 0u64..500),
                1..8,
            ),
            planes in 1u32..5,
            dark in prop::sample::select(vec![0, 10, 500]),
            lost in prop::collection::vec((0u32..6, 1u32..5), 0..6),
        ) {
            let timing = timing_of(dark, 2);
            let mut ports = Ports::dark(6, planes);
            // Plane 0 is whole, so that all pairs are joined.
            let lost: Vec<_> = lost.into_iter().filter(|&(_, plane)| plane < planes).collect();
            lost.iter().for_each(|&(server, plane)| ports.lose(server, plane, true));
            let mut all = Vec::new();
            let mut now = Time::ZERO;
            for (demand, later) in transfers {
                let holds = ports.book(&demand, now, &timing);
                let mut wanted: BTreeMap<(u32, u32), u64> = BTreeMap::new();
                for &(from, to, bytes) in demand.iter().filter(|(a, b, n)| a != b && *n > 0) {
                    *wanted.entry((from, to)).or_default() += bytes;
                }
                let mut sent: BTreeMap<(u32, u32), u64> = BTreeMap::new();
                for hold in &holds {
                    prop_assert!(hold.dark_ps >= now && hold.bytes > Bytes::ZERO);
                    let ends = [(hold.from, hold.plane), (hold.to, hold.plane)];
                    prop_assert!(ends.iter().all(|end| !lost.contains(end)));
                    *sent.entry((hold.from, hold.to)).or_default() += hold.bytes.get();
                }
                prop_assert_eq!(wanted, sent);
                all.extend(holds);
                now += Time::from_us(later);
            }
            check(&all, &timing)?;
        }

        #[test]
        fn skewed_demands_stay_within_reach_of_their_bound(
            sizes in prop::collection::vec(0u64..100_000_000, 64),
            planes in prop::sample::select(vec![2u32, 4, 8]),
        ) {
            let demand: Vec<Entry> = (0u32..).zip(sizes).map(|(i, b)| (i / 8, i % 8, b)).collect();
            let timing = timing_of(10, 2);
            let mut ports = Ports::dark(8, planes);
            let holds = ports.book(&demand, Time::ZERO, &timing);
            let entries: Vec<Entry> =
                demand.into_iter().filter(|&(a, b, bytes)| a != b && bytes > 0).collect();
            let least = Draft::new(&Ports::dark(8, planes), &entries, Time::ZERO, Time::ZERO)
                .least(&entries, &timing);
            prop_assert!(over(&holds) >= least);
            prop_assert!(over(&holds).ps() as f64 <= least.ps() as f64 * 1.3);
        }
    }

    /// Circuits that are set ahead are used, their ports serve no two, and what is expected right is over
    /// no later on average, however slow switches are.
    #[test]
    fn what_is_set_ahead_saves_time() {
        for dark in [20, 200, 3_000, 20_000] {
            let timing = timing_of(dark, 2);
            let (mut with, mut without) = (0, 0);
            for seed in 0..40u64 {
                let skewed = |&(a, b, _): &Entry| {
                    (a, b, (60 + (seed + 7 * u64::from(a) + 13 * u64::from(b)) % 80) * MB)
                };
                let there: Vec<Entry> = uniform(4, 1).iter().map(skewed).collect();
                let back: Vec<Entry> = there.iter().map(|&(a, b, bytes)| (b, a, bytes)).collect();
                let mut plain = Ports::dark(4, 8);
                let now = over(&plain.book(&there, Time::ZERO, &timing));
                let ready = now + Time::from_ms(5);
                let mut ports = plain.clone();
                let set = ports.set_ahead(&back, now, ready, &timing);
                let mut ends: Vec<_> = set.iter().map(|hold| (hold.from, hold.plane)).collect();
                assert!(set.iter().all(|hold| hold.start_ps == now + Time::from_us(dark)));
                ends.dedup();
                assert_eq!(ends.len(), set.len());
                with += (over(&ports.book(&back, ready, &timing)) - ready).ps();
                without += (over(&plain.book(&back, ready, &timing)) - ready).ps();
            }
            // In 5 ms a switch of 20 ms does nothing.
            assert!(with < without || dark > 5_000 && with == without, "{dark} us: {with}");
        }
    }
}
