//! Whether other circuits pay for their dark time (hysteresis), and how few changes suffice.
//!
//! Modelled: circuits are chosen for the next few all-to-alls of the same demand. The first of them
//! meets the ports that change dark for as long as no computation hides: pairs all of whose circuits
//! stand, and packets, carry on meanwhile; the others begin when their new circuits carry. The
//! all-to-alls thereafter, up to the next change that could be hidden, meet the circuits left to
//! them: theirs not being known, they are weighed by demands that were usual. That they may become
//! faster is no reason to wait for circuits; that they may become slower is one not to, but no
//! more than it costs to change circuits for each of them ([`Prospect::again`]).
//! [`settle`] weighs what stands, every state on the way from there to what no single move improves
//! (so a few changes suffice where a few pay: MixNet, Appendix B.2), what [`choose`] finds for the
//! demand, and circuits for an even demand. Where not even all NICs of every server, each at its full
//! rate, would make up for the dark time, nothing is searched.
//! Ignored: the gathering before the exchange, under which some dark time is hidden too; in the case
//! without search, circuits that are given up and not replaced.
//! Checked: never a worse total than leaving all as it is; against the cases by hand.

use super::choose;
use super::choose::improve;
use super::rows::Rows;
use super::timed::{Pace, whole};
use crate::demand::ServerDemand;
use crate::greedy::{CircuitCounts, allocate};
use crate::timed::{Rates, TimedDemand};
use lightloom_units::Time;
use std::cell::OnceCell;

/// What circuits are chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prospect<'a> {
    /// All-to-alls of this demand, or its transpose, still to come.
    pub uses: u32,
    /// Computation before the first of them, which hides as much dark time.
    pub hidden: Time,
    /// All-to-alls of other demands after these, before circuits can change again at no cost.
    pub later: u32,
    /// What those are taken to send, each as often; nothing if none.
    pub usual: &'a [&'a TimedDemand],
    /// How long those take at most, all of them: with circuits of its own for each demand, and with the
    /// wait for these. No limit if circuits cannot change for each.
    pub again: Option<Time>,
}

/// How long these all-to-alls take together, the wait for dark ports included, if `standing` becomes
/// `new` at a cost of `dark` time.
///
/// # Panics
/// If the arguments are not of as many servers.
///
/// ```
/// use lightloom_circuits::*;
/// use lightloom_units::Time;
/// let rate = 400_000_000_000;
/// let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 1, share_eps: false };
/// let demand = ServerDemand::from_gpu_demand(3, 1, [(0, 1, 400_000), (0, 2, 200_000)]);
/// let (dark, mut one) = (CircuitCounts::dark(3), CircuitCounts::dark(3));
/// one.join(0, 1);
/// let prospect = Prospect { uses: 2, hidden: Time::from_us(15), later: 0, usual: &[], again: None };
/// // As it is, packets take 12 us, twice. With the circuit 8 us, but first 5 us of waiting.
/// let total = |to| total_time(&demand, &dark, to, &rates, Time::from_us(20), prospect);
/// assert_eq!(total(&dark), Time::from_us(24));
/// assert_eq!(total(&one), Time::from_us(5 + 8 + 8));
/// ```
pub fn total_time(
    demand: &ServerDemand,
    standing: &CircuitCounts,
    new: &CircuitCounts,
    rates: &Rates,
    dark: Time,
    prospect: Prospect<'_>,
) -> Time {
    Weighing { demand, standing, rates, prospect, held: OnceCell::new() }.total(new, dark)
}

/// What circuits are weighed for.
struct Weighing<'a> {
    demand: &'a ServerDemand,
    standing: &'a CircuitCounts,
    rates: &'a Rates,
    prospect: Prospect<'a>,
    /// How long the later all-to-alls take with the circuits that stand \[ps\], once that was asked.
    held: OnceCell<f64>,
}

impl Weighing<'_> {
    /// The [`total_time`] if `new` circuits cost `dark`.
    fn total(&self, new: &CircuitCounts, dark: Time) -> Time {
        let Weighing { standing, rates, prospect, .. } = *self;
        let rows = Rows::new(self.demand, new, rates);
        let steady = rows.longest();
        let exposed = dark.saturating_sub(prospect.hidden).ps() as f64;
        let first = if prospect.uses == 0 {
            0.0
        } else if new.beyond(standing) == 0 {
            steady
        } else if rates.share_eps {
            // Packets are shared out as if all new circuits could carry.
            exposed + steady
        } else {
            steady.max(rows.latest(standing, exposed))
        };
        let held = || *self.held.get_or_init(|| prospect.after(standing, rates));
        let later = match new == standing {
            true => held(),
            false if exposed > 0.0 => prospect.after(new, rates).max(held()),
            false => prospect.after(new, rates),
        };
        whole(first + f64::from(prospect.uses.saturating_sub(1)) * steady + later)
    }
}

/// Chooses circuits that pay for their dark time: of what stands and what could replace it, what has
/// the least [`total_time`]. Of equals what changes least, so what stands if nothing is better.
///
/// `dark` says how long ports are dark if so many circuits are new.
///
/// # Panics
/// As [`choose`].
///
/// ```
/// # use lightloom_circuits::*;
/// # use lightloom_units::Time;
/// # let rate = 400_000_000_000;
/// # let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 1, share_eps: false };
/// let demand = ServerDemand::from_gpu_demand(3, 1, [(0, 1, 400_000), (0, 2, 200_000)]);
/// let prospect = Prospect { uses: 2, hidden: Time::ZERO, later: 0, usual: &[], again: None };
/// let after = |dark| settle(&demand, &CircuitCounts::dark(3), &[1; 3], &rates, |_| dark, prospect);
/// // A circuit to server 2: 11 + 4 us, then 8 us for what goes to server 1; instead of 12 us twice.
/// assert_eq!(after(Time::from_us(11)).get(0, 2), 1);
/// assert_eq!(after(Time::from_us(12)).total(), 0);
/// ```
pub fn settle(
    demand: &ServerDemand,
    standing: &CircuitCounts,
    ports: &[u32],
    rates: &Rates,
    dark: impl Fn(u32) -> Time,
    prospect: Prospect<'_>,
) -> CircuitCounts {
    let exposed = dark(1).saturating_sub(prospect.hidden);
    if exposed > Time::ZERO {
        let known = Prospect { later: 0, ..prospect };
        let stays = total_time(demand, standing, standing, rates, Time::ZERO, known);
        if stays <= bound_of_change(least(demand, ports, rates), exposed, prospect.uses) {
            return standing.clone();
        }
    }
    let weighing = Weighing { demand, standing, rates, prospect, held: OnceCell::new() };
    let total = |new: &CircuitCounts| {
        let changed = new.beyond(standing);
        (weighing.total(new, dark(changed)), changed)
    };
    let mut best = (total(standing), standing.clone());
    let mut weigh = |new: &CircuitCounts| {
        let reached = total(new);
        if reached < best.0 {
            best = (reached, new.clone());
        }
    };
    improve(demand, standing, ports, rates, |between| weigh(between));
    weigh(&choose(demand, standing, ports, rates));
    if prospect.later > 0 {
        let even = ServerDemand { n: demand.n, bytes: vec![1; demand.n * demand.n] };
        weigh(&allocate(&even, ports, true));
    }
    best.1
}

/// A lower bound of the total time with circuits of which at least one is new: their ports are dark
/// for `exposed`, and one all-to-all takes `least` or more.
fn bound_of_change(least: Time, exposed: Time, uses: u32) -> Time {
    let again = least.ps().saturating_mul(uses.saturating_sub(1).into());
    Time::from_ps(exposed.max(least).ps().saturating_add(again))
}

impl Prospect<'_> {
    /// The time of all later all-to-alls with some circuits \[ps\].
    fn after(&self, counts: &CircuitCounts, rates: &Rates) -> f64 {
        if self.usual.is_empty() || self.later == 0 {
            return 0.0;
        }
        let pace = Pace::new(rates);
        let times = self.usual.iter().map(|usual| usual.longest(counts, &pace));
        let held = times.sum::<f64>() / self.usual.len() as f64 * f64::from(self.later);
        self.again.map_or(held, |again| held.min(again.ps() as f64))
    }
}

/// The time in which all NICs of the busiest server could carry its bytes.
fn least(demand: &ServerDemand, ports: &[u32], rates: &Rates) -> Time {
    let n = demand.n;
    let packet_bps = u128::from(rates.packet_bps) * u128::from(rates.packet_nics);
    let time = |server: usize| {
        let others = || (0..n).filter(|&other| other != server);
        let out: u128 = others().map(|to| u128::from(demand.get(server, to))).sum();
        let into: u128 = others().map(|from| u128::from(demand.get(from, server))).sum();
        let bps = packet_bps + u128::from(rates.optical_bps) * u128::from(ports[server]);
        (out.max(into) * 8_000_000_000_000).checked_div(bps).unwrap_or(0)
    };
    Time::from_ps((0..n).map(time).max().unwrap_or(0).try_into().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timed::all_to_all_time;
    use proptest::prelude::*;

    const RATES: Rates = Rates {
        optical_bps: 400_000_000_000,
        packet_bps: 400_000_000_000,
        packet_nics: 2,
        share_eps: false,
    };

    fn demands() -> impl Strategy<Value = (ServerDemand, CircuitCounts)> {
        let bytes = prop_oneof![1 => Just(0u64), 4 => 1u64 << 20..1 << 30];
        (2usize..8).prop_flat_map(move |n| {
            let table = prop::collection::vec(bytes.clone(), n * n);
            (table.clone(), table).prop_map(move |(bytes, before)| {
                let before = ServerDemand { n, bytes: before };
                (ServerDemand { n, bytes }, allocate(&before, &vec![4; n], true))
            })
        })
    }

    proptest! {
        #[test]
        fn never_worse_than_what_stands(
            (demand, standing) in demands(), dark in 0u64..1 << 36, hidden in 0u64..1 << 36,
            uses in 1u32..5, later in 0u32..5, again in prop::option::of(0u64..1 << 38), share_eps: bool,
        ) {
            let rates = Rates { share_eps, ..RATES };
            let even = ServerDemand { n: demand.n, bytes: vec![1 << 27; demand.n * demand.n] };
            let usual = TimedDemand::new(even.clone());
            let (usual, again) = (&[&usual], again.map(Time::from_ps));
            let prospect = Prospect { uses, hidden: Time::from_ps(hidden), later, usual, again };
            let ports = vec![4; demand.n];
            let dark = |changed| Time::from_ps(dark + u64::from(changed) * 1000);
            let chosen = settle(&demand, &standing, &ports, &rates, dark, prospect);
            let total = |new: &CircuitCounts| {
                total_time(&demand, &standing, new, &rates, dark(new.beyond(&standing)), prospect)
            };
            prop_assert!((0..demand.n).all(|server| chosen.degree(server) <= 4));
            prop_assert!(total(&chosen) <= total(&standing));
            prop_assert!(chosen == standing || total(&chosen) < total(&standing));
            let best = choose(&demand, &standing, &ports, &rates);
            prop_assert!(best.beyond(&standing) == 0 || total(&chosen) <= total(&best));
            let (once, after) =
                (all_to_all_time(&demand, &standing, &rates), all_to_all_time(&even, &standing, &rates));
            let held = after * u64::from(later);
            let all = (once * u64::from(uses) + again.map_or(held, |again| held.min(again))).ps();
            prop_assert!(total(&standing).ps().abs_diff(all) < 10);
        }

        #[test]
        fn what_is_hidden_costs_nothing(
            (demand, standing) in demands(), dark in 0u64..1 << 40,
        ) {
            let prospect = Prospect { uses: 2, hidden: Time::from_ps(dark), later: 0, usual: &[], again: None };
            let dark = |_| Time::from_ps(dark);
            let ports = vec![4; demand.n];
            let chosen = settle(&demand, &standing, &ports, &RATES, dark, prospect);
            let time = |counts: &CircuitCounts| all_to_all_time(&demand, counts, &RATES);
            prop_assert!(time(&chosen) <= time(&choose(&demand, &standing, &ports, &RATES)));
        }

        #[test]
        fn a_dearer_change_is_never_made_more_readily(
            (demand, standing) in demands(), dark in 0u64..1 << 34, more in 0u64..1 << 34,
        ) {
            let prospect = Prospect { uses: 2, hidden: Time::ZERO, later: 0, usual: &[], again: None };
            let ports = vec![4; demand.n];
            let total = |dark: u64| {
                let dark = |_| Time::from_ps(dark);
                let chosen = settle(&demand, &standing, &ports, &RATES, dark, prospect);
                total_time(&demand, &standing, &chosen, &RATES, dark(0), prospect)
            };
            prop_assert!(total(dark) <= total(dark + more));
        }
    }

    /// Pair 0-1's circuit stays lit while one to server 2 is being set.
    #[test]
    fn only_new_circuits_are_waited_for() {
        let demand = ServerDemand::from_gpu_demand(3, 1, [(0, 1, 500_000), (0, 2, 100_000)]);
        let mut standing = CircuitCounts::dark(3);
        standing.join(0, 1);
        let mut new = standing.clone();
        new.join(0, 2);
        let prospect =
            Prospect { uses: 1, hidden: Time::from_us(1), later: 0, usual: &[], again: None };
        let total = |dark| total_time(&demand, &standing, &new, &RATES, dark, prospect);
        assert_eq!(total(Time::from_us(9)), Time::from_us(10)); // 1's 10 us; 2's 8 + 2
        assert_eq!(total(Time::from_us(10)), Time::from_us(11));
        new.join(0, 1);
        assert_eq!(
            total_time(&demand, &standing, &new, &RATES, Time::from_us(9), prospect),
            Time::from_us(13)
        );
    }
}
