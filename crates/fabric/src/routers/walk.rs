//! All that routing may do on a small network: what tests of this folder stand on.

use super::network::Network;
use super::routing::{Choice, Routing};
use std::collections::{HashMap, HashSet};

/// Channels may wait for each other in a circle.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cycle;

/// From, to, and the fewest and the most channels on a path between them.
pub(super) type Hops = (u32, u32, u32, u32);

/// A routing with all its classes of virtual channels in one.
pub(super) struct Merged<R>(pub(super) R);

impl<R: Routing> Routing for Merged<R> {
    fn name(&self) -> &'static str {
        "merged"
    }
    fn vcs(&self) -> u8 {
        1
    }
    fn route(&self, at: u32, came: Option<(u16, u8)>, to: u32, d: u32, choices: &mut Vec<Choice>) {
        self.0.route(at, came, to, d, choices);
        choices.iter_mut().for_each(|choice| choice.vc = 0);
    }
}

type State = (u32, Option<(u16, u8)>);
type Lane = (u32, u8);

/// Follows every choice of every draw between all terminals.
///
/// # Panics
/// If a packet is led nowhere, off the network or to a virtual channel that is not there.
pub(super) fn walk(network: &Network, routing: &dyn Routing) -> Result<Vec<Hops>, Cycle> {
    let mut waits: HashMap<Lane, HashSet<Lane>> = HashMap::new();
    let mut steps: HashMap<(u32, State), HashSet<State>> = HashMap::new();
    for &to in network.terminals() {
        let sources = network.terminals().iter().filter(|&&from| from != to);
        let mut open: Vec<State> = sources.map(|&from| (from, None)).collect();
        while let Some((at, came)) = open.pop() {
            if at == to || steps.contains_key(&(to, (at, came))) {
                continue;
            }
            let mut next = HashSet::new();
            for draw in 0..routing.draws() {
                let mut choices = Vec::new();
                routing.route(at, came, to, draw, &mut choices);
                assert!(!choices.is_empty(), "{at} {came:?} to {to}");
                for choice in choices {
                    assert!(choice.vc < routing.vcs());
                    let lane =
                        network.out_index(at, choice.port).expect("a channel leaves by that port");
                    if let Some((port, vc)) = came {
                        let back = network.into(at, port).expect("it came by a channel");
                        let from = network.out_index(back.from.router, back.from.port);
                        let from = from.expect("the channel it came by");
                        waits.entry((from, vc)).or_default().insert((lane, choice.vc));
                    }
                    let end = network.channels()[lane as usize].to;
                    next.insert((end.router, Some((end.port, choice.vc))));
                }
            }
            open.extend(&next);
            steps.insert((to, (at, came)), next);
        }
    }
    if circular(&waits) {
        return Err(Cycle);
    }
    let mut known = HashMap::new();
    let mut hops = Vec::new();
    for &to in network.terminals() {
        for &from in network.terminals().iter().filter(|&&from| from != to) {
            let (least, most) = measure(to, (from, None), &steps, &mut known);
            hops.push((from, to, least, most));
        }
    }
    Ok(hops)
}

fn circular(waits: &HashMap<Lane, HashSet<Lane>>) -> bool {
    let mut before: HashMap<Lane, usize> = waits.keys().map(|&lane| (lane, 0)).collect();
    for &lane in waits.values().flatten() {
        *before.entry(lane).or_default() += 1;
    }
    let mut free: Vec<Lane> = before.iter().filter(|&(_, &n)| n == 0).map(|(&l, _)| l).collect();
    let mut seen = 0;
    while let Some(lane) = free.pop() {
        seen += 1;
        for next in waits.get(&lane).into_iter().flatten() {
            let left = before.get_mut(next).expect("counted above");
            *left -= 1;
            if *left == 0 {
                free.push(*next);
            }
        }
    }
    seen < before.len()
}

/// The fewest and the most channels from here on; paths end, as no channels wait in a circle.
fn measure(
    to: u32,
    state: State,
    steps: &HashMap<(u32, State), HashSet<State>>,
    known: &mut HashMap<(u32, State), (u32, u32)>,
) -> (u32, u32) {
    if state.0 == to {
        return (0, 0);
    }
    if let Some(&found) = known.get(&(to, state)) {
        return found;
    }
    let (mut least, mut most) = (u32::MAX, 0);
    for &next in &steps[&(to, state)] {
        let (near, far) = measure(to, next, steps, known);
        (least, most) = (least.min(near + 1), most.max(far + 1));
    }
    known.insert((to, state), (least, most));
    (least, most)
}
