//! A network under a load: how long packets take and how much gets through.

use crate::part::cut::cut;
use crate::part::{Guide, Packet, Part, Places, Sink};
use crate::settings::{Settings, SettingsError};
use crate::source::Bernoulli;
use crate::threads::Post;
use crate::traffic::{Pattern, Traffic, TrafficError};
use lightloom_fabric::routers::{Choice, Network, Routing};
use serde::Serialize;

/// What was measured at one load. Loads are in flits a cycle and terminal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// What sources create.
    pub offered: f64,
    /// What arrived while it was measured.
    pub accepted: f64,
    /// Mean time from a packet's creation until its tail was ejected \[cycles\], over the packets
    /// that were ejected while it was measured; 0 for none.
    pub mean_latency: f64,
    /// The time that 99 of 100 packets kept \[cycles\].
    pub p99_latency: u64,
    /// The shortest time \[cycles\].
    pub least_latency: u64,
    /// Mean channels that a packet crossed.
    pub mean_hops: f64,
    /// Packets ejected while it was measured.
    pub packets: u64,
    /// Flits ejected while it was measured.
    pub flits: u64,
    /// Flits that crossed a channel, from the beginning.
    pub flit_hops: u64,
    /// The busiest channel's share of its width, from the beginning.
    pub busiest: f64,
    /// Whether less than 95 % of what was offered arrived: queues grow, and latencies say only how
    /// long the run was.
    pub unstable: bool,
}

/// Why nothing was measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// A setting that cannot be.
    #[error("{0}")]
    Settings(#[from] SettingsError),
    /// Traffic that does not fit.
    #[error("{0}")]
    Traffic(#[from] TrafficError),
    /// A load that is not a positive number, or more than a terminal can inject.
    #[error("load = {load}: must be above 0 and at most injection = {injection} flits a cycle")]
    Load {
        /// The load, as text.
        load: String,
        /// What a terminal may inject.
        injection: u16,
    },
    /// Nothing moved for so long that nothing will.
    #[error("deadlock: no flit moved from cycle {since} to {now}, and {flits} are in the network")]
    Deadlock {
        /// The last cycle in which one did.
        since: u64,
        /// When it was noticed.
        now: u64,
        /// Flits in buffers.
        flits: u64,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

struct Routed<'a>(&'a dyn Routing);

impl Guide for Routed<'_> {
    fn route(
        &self,
        at: u32,
        came: Option<(u16, u8)>,
        to: u32,
        packet: &Packet,
        choices: &mut Vec<Choice>,
    ) {
        self.0.route(at, came, to, packet.draw.into(), choices);
    }
}

/// Counts of what one part ejected.
#[derive(Debug)]
struct Counts {
    warm_up: u64,
    flits: u64,
    packets: u64,
    latency: u64,
    least: u64,
    hops: u64,
    /// Packets by latency, up to a limit; the rest by powers of two above.
    exact: Vec<u64>,
    above: [u64; 64],
}

/// Latencies that are counted one by one.
const EXACT: usize = 1 << 14;

impl Counts {
    fn new(warm_up: u32) -> Self {
        Counts {
            warm_up: warm_up.into(),
            flits: 0,
            packets: 0,
            latency: 0,
            least: u64::MAX,
            hops: 0,
            exact: vec![0; EXACT],
            above: [0; 64],
        }
    }
    fn add(&mut self, other: &Counts) {
        self.flits += other.flits;
        self.packets += other.packets;
        self.latency += other.latency;
        self.least = self.least.min(other.least);
        self.hops += other.hops;
        self.exact.iter_mut().zip(&other.exact).for_each(|(a, b)| *a += b);
        self.above.iter_mut().zip(&other.above).for_each(|(a, b)| *a += b);
    }
    /// The latency that this share of the packets kept; above [`EXACT`] the next power of two.
    fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.packets as f64 * share).ceil() as u64;
        let exact = self.exact.iter().enumerate().map(|(at, &n)| (at as u64, n));
        let above = self.above.iter().enumerate().map(|(at, &n)| ((2u64 << at) - 1, n));
        let mut seen = 0;
        for (latency, n) in exact.chain(above) {
            seen += n;
            if seen >= wanted.max(1) {
                return latency;
            }
        }
        0
    }
}

impl Sink for Counts {
    #[inline]
    fn ejected(&mut self, packet: &Packet, flits: u16, tail: bool, now: u64) {
        if now < self.warm_up {
            return;
        }
        self.flits += u64::from(flits);
        if tail {
            let latency = now + 1 - u64::from(packet.created);
            self.packets += 1;
            self.latency += latency;
            self.least = self.least.min(latency);
            self.hops += u64::from(packet.hops);
            match self.exact.get_mut(latency as usize) {
                Some(count) => *count += 1,
                None => self.above[latency.ilog2() as usize] += 1,
            }
        }
    }
}

/// Flits that the sources of one thread must create in a cycle for that thread to pay.
const FLITS_PER_THREAD: f64 = if cfg!(test) { 1.0 } else { 300.0 };

/// Cycles without any movement, with flits in buffers, that are taken for a deadlock.
const STILL: u64 = 1_000;

/// Runs a network under `load` flits a cycle and terminal, and measures it. The result is the same,
/// bit by bit, for any number of `threads`; small networks take fewer. `progress` is given the share
/// that is done, and ends the run by `false`.
///
/// # Errors
/// [`MeasureError`]; nothing is returned of a run that did not finish.
///
/// ```
/// use lightloom_fabric::routers::Mesh;
/// use lightloom_flit::{Settings, Traffic, measure};
/// let routing = Mesh::new(4, 4, 4).unwrap();
/// let network = routing.network(1, 1);
/// let settings = Settings { warm_up: 100, cycles: 1_000, ..Settings::default() };
/// let traffic = Traffic::Uniform { to_self: false };
/// let at = |threads| measure(&network, &routing, &traffic, 0.1, &settings, threads, &mut |_| true);
/// let measured = at(1).unwrap();
/// assert!((measured.accepted - 0.1).abs() < 0.01 && !measured.unstable);
/// assert_eq!(at(2).unwrap(), measured);
/// ```
pub fn measure(
    network: &Network,
    routing: &dyn Routing,
    traffic: &Traffic,
    load: f64,
    settings: &Settings,
    threads: usize,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Measured, MeasureError> {
    settings.check(routing.vcs())?;
    let terminals = network.terminals().len() as u32;
    let pattern = traffic.pattern(terminals)?;
    if !(load > 0.0 && load <= f64::from(settings.injection)) {
        let injection = settings.injection;
        return Err(MeasureError::Load { load: load.to_string(), injection });
    }
    let guide = Routed(routing);
    let paying = (load * f64::from(terminals) / FLITS_PER_THREAD) as usize;
    let (parts, places) = cut(network, settings, settings.packet, threads.min(paying).max(1));
    let run = Run { guide, pattern, places, settings, load, terminals, draws: routing.draws() };
    let (parts, counts) = run.together(parts, progress)?;
    Ok(run.report(network, &parts, &counts))
}

struct Run<'a> {
    guide: Routed<'a>,
    pattern: Pattern,
    places: Places,
    settings: &'a Settings,
    load: f64,
    terminals: u32,
    draws: u32,
}

impl Run<'_> {
    fn together(
        &self,
        mut parts: Vec<Part>,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<(Vec<Part>, Counts), MeasureError> {
        let post = Post::new(parts.len());
        let mut counts = Counts::new(self.settings.warm_up);
        let (mine, others) = parts.split_at_mut(1);
        let mut finished = true;
        std::thread::scope(|scope| {
            let running: Vec<_> = others
                .iter_mut()
                .enumerate()
                .map(|(at, part)| {
                    let post = &post;
                    scope.spawn(move || self.alone(at + 1, part, post, &mut |_| true))
                })
                .collect();
            let (done, all) = self.alone(0, &mut mine[0], &post, progress);
            finished = all;
            counts.add(&done);
            for thread in running {
                // A panic in a thread is one of the program; pass it on.
                let (done, _) = thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
                counts.add(&done);
            }
        });
        let since = parts.iter().map(|part| part.moved_at).max().unwrap_or(0);
        let (now, flits) = (self.settings.cycles.into(), parts.iter().map(Part::buffered).sum());
        if !finished {
            return Err(MeasureError::Interrupted);
        }
        // What moves at all moves once a round trip and a packet.
        if flits > 0 && since + STILL < now {
            return Err(MeasureError::Deadlock { since, now, flits });
        }
        Ok((parts, counts))
    }

    /// One part's cycles; the counts, and whether it came to the end.
    fn alone(
        &self,
        me: usize,
        part: &mut Part,
        post: &Post,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> (Counts, bool) {
        let mut source = Bernoulli::new(
            &self.pattern,
            (part.first_terminal(), part.terminals(), self.terminals),
            self.load,
            self.settings.packet,
            self.settings.seed,
            self.draws,
        );
        let mut counts = Counts::new(self.settings.warm_up);
        let cycles = u64::from(self.settings.cycles);
        let parts = part.mail.len();
        for now in 0..cycles {
            part.step(now, &self.guide, &self.places, &mut source, &mut counts);
            if me == 0 && now % 64 == 63 && !progress((now + 1) as f64 / cycles as f64) {
                post.stop();
            }
            if parts > 1 {
                for to in (0..parts).filter(|&to| to != me) {
                    post.send(now, me, to, &mut part.mail[to]);
                }
                post.wait();
                for from in (0..parts).filter(|&from| from != me) {
                    part.receive(&mut post.collect(now, from, me));
                }
            }
            if post.stopped() {
                return (counts, false);
            }
        }
        (counts, true)
    }

    fn report(&self, network: &Network, parts: &[Part], counts: &Counts) -> Measured {
        let measured = f64::from(self.settings.cycles - self.settings.warm_up);
        let weight =
            (0..self.terminals).map(|t| self.pattern.weight(self.terminals, t)).sum::<f64>();
        let offered = self.load * weight / f64::from(self.terminals);
        let accepted = counts.flits as f64 / measured / f64::from(self.terminals);
        let packets = counts.packets.max(1) as f64;
        let busiest = parts
            .iter()
            .flat_map(Part::carried)
            .map(|(router, port, flits)| {
                let width = network.out(router, port).map_or(1, |channel| channel.width);
                flits as f64 / f64::from(width) / f64::from(self.settings.cycles)
            })
            .fold(0.0, f64::max);
        Measured {
            offered,
            accepted,
            mean_latency: counts.latency as f64 / packets,
            p99_latency: counts.quantile(0.99),
            least_latency: if counts.packets > 0 { counts.least } else { 0 },
            mean_hops: counts.hops as f64 / packets,
            packets: counts.packets,
            flits: counts.flits,
            flit_hops: parts.iter().map(Part::flit_hops).sum(),
            busiest,
            unstable: accepted < 0.95 * offered,
        }
    }
}
