//! What channels carry under uniform traffic by any routing, every pair walked hop by hop.

use lightloom_fabric::routers::{Choice, Network, Routing};

/// Flits a cycle on every channel of `network` when every terminal sends one flit a cycle, to all
/// others alike; choices of the lowest rank share evenly, as do the numbers that packets draw. For
/// networks of some thousand terminals at most.
///
/// ```
/// use lightloom_fabric::routers::{ChannelKind, Choice, Network, Routing};
/// use lightloom_railx::{channel_loads, throughput};
/// struct Across;
/// impl Routing for Across {
///     fn name(&self) -> &'static str { "across" }
///     fn vcs(&self) -> u8 { 1 }
///     fn route(&self, _: u32, _: Option<(u16, u8)>, _: u32, _: u32, choices: &mut Vec<Choice>) {
///         choices.push(Choice::new(0, 0));
///     }
/// }
/// let mut network = Network::new("pair", 2);
/// network.duplex(0, 1, 2, 10, ChannelKind::Long);
/// for terminal in [0, 0, 1] {
///     network.terminal(terminal);
/// }
/// let loads = channel_loads(&network, &Across).unwrap();
/// assert_eq!(loads, [1.0, 1.0]); // two terminals send half of theirs; one all of its own
/// assert_eq!(throughput(&network, &loads), 2.0);
/// ```
///
/// # Errors
/// If a packet is sent nowhere, or to a port without a channel, or is not there after more hops
/// than there are channels.
pub fn channel_loads(network: &Network, routing: &dyn Routing) -> Result<Vec<f64>, String> {
    let terminals = network.terminals();
    let mut at = vec![0_u32; network.routers() as usize];
    terminals.iter().for_each(|&router| at[router as usize] += 1);
    let held: Vec<u32> = (0..network.routers()).filter(|&r| at[r as usize] > 0).collect();
    let others = terminals.len().saturating_sub(1).max(1) as f64;
    let mut walk = Walk {
        network,
        routing,
        loads: vec![0.0; network.channels().len()],
        now: Vec::new(),
        next: Vec::new(),
        choices: Vec::new(),
    };
    for &from in &held {
        for &to in held.iter().filter(|&&to| to != from) {
            let pairs = f64::from(at[from as usize]) * f64::from(at[to as usize]);
            for draw in 0..routing.draws() {
                walk.pair(from, to, draw, pairs / others / f64::from(routing.draws()))?;
            }
        }
    }
    Ok(walk.loads)
}

/// Flits a cycle and terminal when the busiest channel is full, from [`channel_loads`].
pub fn throughput(network: &Network, loads: &[f64]) -> f64 {
    let full = network.channels().iter().zip(loads).map(|(c, load)| f64::from(c.width) / load);
    full.fold(f64::INFINITY, f64::min)
}

struct Walk<'a> {
    network: &'a Network,
    routing: &'a dyn Routing,
    loads: Vec<f64>,
    /// Where packets of one pair are, how they came, and what share of them.
    now: Vec<State>,
    next: Vec<State>,
    choices: Vec<Choice>,
}

type State = (u32, Option<(u16, u8)>, f64);

impl Walk<'_> {
    fn pair(&mut self, from: u32, to: u32, draw: u32, flits: f64) -> Result<(), String> {
        self.now.clear();
        self.now.push((from, None, flits));
        for _ in 0..=self.loads.len() {
            for (at, came, flits) in self.now.drain(..) {
                self.choices.clear();
                self.routing.route(at, came, to, draw, &mut self.choices);
                let rank = self.choices.iter().map(|c| c.rank).min();
                let best = || self.choices.iter().filter(|c| Some(c.rank) == rank);
                let flits = flits / best().count() as f64;
                if rank.is_none() {
                    return Err(format!("router {at} has no next hop to {to}"));
                }
                for choice in best() {
                    let Some(channel) = self.network.out_index(at, choice.port) else {
                        return Err(format!(
                            "router {at} sends to {to} by port {}, which has no channel",
                            choice.port
                        ));
                    };
                    self.loads[channel as usize] += flits;
                    let end = self.network.channels()[channel as usize].to;
                    if end.router == to {
                        continue;
                    }
                    let came = Some((end.port, choice.vc));
                    let known = |s: &&mut State| (s.0, s.1) == (end.router, came);
                    match self.next.iter_mut().find(known) {
                        Some(state) => state.2 += flits,
                        None => self.next.push((end.router, came, flits)),
                    }
                }
            }
            std::mem::swap(&mut self.now, &mut self.next);
            if self.now.is_empty() {
                return Ok(());
            }
        }
        Err(format!("packets from router {from} to {to} do not arrive"))
    }
}
