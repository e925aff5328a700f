//! Both ends of every rail: what each NIC sends and receives, how even that is, and the variant of
//! LPT that evens out both.
//!
//! Modelled: [`assign`] deals every domain's chunks by a [`Deal`]. By the sender alone, each domain deals its own and
//! receivers get what comes. By both ends, the chunks of all domains are dealt in one order (size,
//! destination, source domain, GPU, offset), each to the rail whose receiver has least so far, among
//! the rails that keep the sender's loads within one chunk of each other; every sender that knows
//! the demand matrix comes to the same assignment by itself, at M times the work. The sender's bound
//! (RailS, Theorem 4) holds either way.
//! Ignored: that a receiver's load may be known only roughly when a sender decides.
//! Checked: bytes conserved at both ends; the sender's bound; an instance where only one of the two
//! evens out receivers.

use super::deal::Deal;
use super::lpt::{Lpt, Message, sizes};
use super::rates::Rates;
use std::cmp::Reverse;

/// The rail of every chunk of every domain, and the loads that follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RailAssignment {
    /// By domain, message and offset: the rail of each chunk.
    pub rails: Vec<Vec<u16>>,
    /// What each NIC sends \[B\]: domain times the number of rails, plus rail.
    pub sent: Vec<u64>,
    /// What each NIC receives \[B\].
    pub received: Vec<u64>,
}

/// Deals the chunks of all domains: `messages[d]` are domain `d`'s, to other domains. `rates[d]` is what it
/// knows of its rails; without any, all are alike. Only LPT looks at how fast they are; no rule takes one
/// that is down.
///
/// ```
/// use lightloom_rails::{Deal, Message, assign};
/// // Domains 0 and 2 send a chunk each to domain 1, and both begin with rail 0.
/// let one = vec![Message { bytes: 100, destination: 1, source: 0, receiver: 0 }];
/// let messages = [one.clone(), vec![], one];
/// assert_eq!(assign(&messages, 2, 100, Deal::Lpt, &[]).received, [0, 0, 200, 0, 0, 0]);
/// assert_eq!(assign(&messages, 2, 100, Deal::Both, &[]).received, [0, 0, 100, 100, 0, 0]);
/// ```
///
/// # Panics
/// If there are no rails, a chunk has no bytes, a destination is none of the domains, or no rail leads
/// there.
pub fn assign(
    messages: &[Vec<Message>],
    rails: usize,
    chunk: u64,
    deal: Deal,
    rates: &[Rates],
) -> RailAssignment {
    let mut assignment = RailAssignment {
        rails: Vec::with_capacity(messages.len()),
        sent: vec![0; messages.len() * rails],
        received: vec![0; messages.len() * rails],
    };
    if deal == Deal::Both {
        deal_to_both(messages, rails, chunk, rates, &mut assignment);
        return assignment;
    }
    let mut lpt = Lpt::new(rails);
    let domains = messages.len();
    for (domain, messages) in messages.iter().enumerate() {
        let rates = rates.get(domain);
        let mut dealt = match (deal, rates) {
            (Deal::Lpt, Some(rates)) if !rates.are_even() => {
                rates.deal(messages, chunk, domain as u32)
            }
            (Deal::Lpt, _) => {
                lpt.assign(messages, chunk, domain as u32);
                lpt.rails().collect()
            }
            _ => vec![],
        };
        let turns = match deal {
            Deal::Lpt => vec![],
            _ => first_turns(messages, chunk, domain, domains),
        };
        let mut at = 0;
        for (index, message) in messages.iter().enumerate() {
            let to = message.destination as usize * rails;
            for (offset, size) in sizes(message.bytes, chunk).enumerate() {
                if deal != Deal::Lpt {
                    let turn = turns[index] + offset;
                    let rail = deal.blindly(message, (domain, turn, offset), rails);
                    dealt.push(rates.map_or(rail, |r| r.up(message.destination, rail, turn)));
                }
                let rail = usize::from(dealt[at]);
                assignment.sent[domain * rails + rail] += size;
                assignment.received[to + rail] += size;
                at += 1;
            }
        }
        assignment.rails.push(dealt);
    }
    assignment
}

/// By message: how many chunks have their turn before its first. Turns are by source, then by destination from
/// the sender on, so that no one is everyone's first, then by receiver; in whatever order messages are given.
fn first_turns(messages: &[Message], chunk: u64, sender: usize, domains: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..messages.len()).collect();
    // Stable: of messages with the same two ends, the first is at the lower offset.
    order.sort_by_key(|&at| {
        let Message { source, destination, receiver, .. } = messages[at];
        (source, (destination as usize + domains - sender) % domains, receiver)
    });
    let (mut turns, mut turn) = (vec![0; messages.len()], 0);
    for at in order {
        turns[at] = turn;
        turn += messages[at].bytes.div_ceil(chunk) as usize;
    }
    turns
}

fn deal_to_both(
    messages: &[Vec<Message>],
    rails: usize,
    chunk: u64,
    rates: &[Rates],
    assignment: &mut RailAssignment,
) {
    assert!(rails > 0 && chunk > 0, "rails there are, and a chunk has bytes");
    // One entry for the whole chunks of a message, one for its rest, in the order of dealing.
    let mut runs = Vec::new();
    for (domain, messages) in messages.iter().enumerate() {
        let mut first = 0;
        for message in messages {
            let (to, from) = (message.destination as usize, message.source);
            let whole = (message.bytes / chunk) as usize;
            let rest = message.bytes % chunk;
            runs.push((Reverse(chunk), to, domain, from, first, whole));
            runs.push((Reverse(rest), to, domain, from, first + whole, usize::from(rest > 0)));
            first += whole + usize::from(rest > 0);
        }
        assignment.rails.push(vec![0; first]);
    }
    runs.sort_unstable();
    let largest = runs.iter().find(|run| run.5 > 0).map_or(0, |run| run.0.0);
    for (Reverse(size), to, domain, _, first, count) in runs {
        let sent = &mut assignment.sent[domain * rails..][..rails];
        let received = &mut assignment.received[to * rails..][..rails];
        let works = |n: usize| {
            rates.get(domain).is_none_or(|rates| rates.weight(to as u32, n as u16) > 0.0)
        };
        for slot in &mut assignment.rails[domain][first..first + count] {
            let up = (0..rails).filter(|&n| works(n));
            let least = up.clone().map(|n| sent[n]).min().expect("a rail leads there");
            let rail = up
                .filter(|&n| sent[n] + size <= least + largest)
                .min_by_key(|&n| (received[n], sent[n], n))
                .expect("the least loaded rail takes any chunk");
            sent[rail] += size;
            received[rail] += size;
            *slot = rail as u16;
        }
    }
}

/// The mean squared error of loads, each divided by the largest, from their mean (RailS, equation
/// 35 with the uniform target); 0 if there is no load. At most 1/4.
///
/// ```
/// use lightloom_rails::mse;
/// assert_eq!(mse(&[4, 4, 4]), 0.0);
/// assert_eq!(mse(&[8, 0]), 0.25);
/// ```
pub fn mse(loads: &[u64]) -> f64 {
    let largest = loads.iter().copied().max().unwrap_or(0);
    if largest == 0 {
        return 0.0;
    }
    let share = |&load: &u64| load as f64 / largest as f64;
    let mean = loads.iter().map(share).sum::<f64>() / loads.len() as f64;
    loads.iter().map(|load| (share(load) - mean).powi(2)).sum::<f64>() / loads.len() as f64
}

/// The least that the most loaded NIC can carry \[B\], were bytes divisible: the largest sum of a
/// row or a column of the demand between domains over the number of rails. `P = 1 / N` for every
/// pair attains it (RailS, Theorem 2 with equation 27).
///
/// `demand` is row by row, source domain by destination domain; its diagonal takes no rail.
///
/// ```
/// use lightloom_rails::balance::least_load;
/// // Domain 0 sends 6 to each of two others: 12 over 4 rails.
/// assert_eq!(least_load(&[9, 6, 6, 0, 9, 1, 0, 0, 9], 3, 4), 3.0);
/// ```
pub fn least_load(demand: &[u64], domains: usize, rails: usize) -> f64 {
    let at = |from: usize, to: usize| match from == to {
        true => 0,
        false => u128::from(demand[from * domains + to]),
    };
    let row = |d| (0..domains).map(|other| at(d, other)).sum::<u128>();
    let column = |d| (0..domains).map(|other| at(other, d)).sum::<u128>();
    let most = (0..domains).flat_map(|d| [row(d), column(d)]).max().unwrap_or(0);
    most as f64 / rails as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        /// Messages of three domains to each other.
        fn cluster()(
            list in prop::collection::vec((0u64..3_000, 0u32..3, 1u32..3, 0u32..4), 0..80)
        ) -> Vec<Vec<Message>> {
            let mut messages = vec![vec![]; 3];
            for (bytes, from, hop, source) in list {
                let destination = (from + hop) % 3;
                messages[from as usize].push(Message { bytes, destination, source, receiver: source });
            }
            messages
        }
    }

    fn deals() -> impl Strategy<Value = Deal> {
        prop::sample::select(Deal::NAMES.to_vec())
            .prop_map(|name| Deal::named(name).expect("a rule"))
    }

    proptest! {
        #[test]
        fn bytes_are_conserved_and_senders_are_even(
            messages in cluster(), rails in 1usize..10, chunk in 1u64..900, deal in deals()
        ) {
            let assignment = assign(&messages, rails, chunk, deal, &[]);
            let mut received = [0u64; 3];
            for (domain, messages) in messages.iter().enumerate() {
                let sent = &assignment.sent[domain * rails..][..rails];
                prop_assert_eq!(sent.iter().sum::<u64>(), messages.iter().map(|m| m.bytes).sum());
                let mut loads = vec![0; rails];
                let chunks = messages.iter().flat_map(|m| sizes(m.bytes, chunk));
                for (&rail, size) in assignment.rails[domain].iter().zip(chunks) {
                    loads[usize::from(rail)] += size;
                }
                prop_assert_eq!(sent, &loads[..]);
                let spread = sent.iter().max().unwrap_or(&0) - sent.iter().min().unwrap_or(&0);
                let even = matches!(deal, Deal::Lpt | Deal::Both);
                prop_assert!(!even || spread <= chunk, "{:?}", sent);
                messages.iter().for_each(|m| received[m.destination as usize] += m.bytes);
            }
            for (domain, bytes) in received.into_iter().enumerate() {
                prop_assert_eq!(assignment.received[domain * rails..][..rails].iter().sum::<u64>(), bytes);
            }
        }

        /// No assignment is better than divisible bytes are.
        #[test]
        fn nothing_beats_the_least_load(
            messages in cluster(), rails in 1usize..10, deal in deals()
        ) {
            let mut demand = vec![0; 9];
            for (domain, messages) in messages.iter().enumerate() {
                for m in messages {
                    demand[domain * 3 + m.destination as usize] += m.bytes;
                }
            }
            let least = least_load(&demand, 3, rails);
            let assignment = assign(&messages, rails, 100, deal, &[]);
            let most = assignment.sent.iter().chain(&assignment.received).max().copied().unwrap_or(0);
            prop_assert!(most as f64 >= least);
        }
    }

    /// The simple rules: two chunks, from GPU 1 to GPU 2 of another domain.
    #[test]
    fn simple_rules_look_at_no_loads() {
        let messages =
            [vec![], vec![Message { bytes: 200, destination: 0, source: 1, receiver: 2 }]];
        let sent = |deal| assign(&messages, 4, 100, deal, &[]).sent[4..].to_vec();
        assert_eq!(sent(Deal::Pxn), [0, 0, 200, 0]);
        assert_eq!(sent(Deal::Source), [0, 200, 0, 0]);
        assert_eq!(sent(Deal::RoundRobin), [0, 100, 100, 0]);
        assert_eq!(sent(Deal::Hash).iter().sum::<u64>(), 200);
    }

    /// Turns do not depend on the order in which messages are given: from domain 1 on, by source, destination
    /// from the sender on, and receiver.
    #[test]
    fn turns_are_by_source_then_by_destination_from_the_sender_on() {
        let message =
            |source, destination, receiver| Message { bytes: 150, destination, source, receiver };
        let mut ours = vec![message(0, 2, 0), message(0, 2, 1), message(0, 0, 0), message(1, 2, 0)];
        let dealt = |ours: &[Message]| {
            let all = [vec![], ours.to_vec(), vec![]];
            assign(&all, 3, 100, Deal::RoundRobin, &[]).rails[1].clone()
        };
        assert_eq!(dealt(&ours), [1, 2, 0, 1, 2, 0, 1, 2]);
        ours.reverse();
        assert_eq!(dealt(&ours), [1, 2, 2, 0, 0, 1, 1, 2]);
    }

    /// Domains that send an odd chunk each all begin with rail 0; both ends see it.
    #[test]
    fn receivers_even_out_only_where_they_are_asked() {
        let (domains, rails, chunk) = (16usize, 8usize, 100u64);
        let messages: Vec<Vec<Message>> = (0..domains as u32)
            .map(|from| {
                let to = (0..domains as u32).filter(|&to| to != from);
                to.map(|destination| Message { bytes: 300, destination, source: 0, receiver: 0 })
                    .collect()
            })
            .collect();
        let excess = |deal| {
            let assignment = assign(&messages, rails, chunk, deal, &[]);
            let mean = 300 * (domains as u64 - 1) / rails as u64;
            assignment.received.iter().max().copied().unwrap_or(0).saturating_sub(mean) / chunk
        };
        assert!(excess(Deal::Both) <= 1, "{}", excess(Deal::Both));
        assert!(excess(Deal::Lpt) > excess(Deal::Both), "{}", excess(Deal::Lpt));
    }
}
