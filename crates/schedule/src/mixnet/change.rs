//! Whether other circuits pay for their dark time (hysteresis), and how few changes suffice.
//!
//! Modelled: circuits are chosen for the next few all-to-alls of the same demand. The first of them
//! meets the ports that change dark for as long as no computation hides: pairs all of whose circuits
//! stand, and packets, carry on meanwhile; the others begin when their new circuits are lit. What
//! comes after these all-to-alls is not known and counts for nothing.
//! [`settle`] weighs what stands, every state on the way from there to what no single move improves
//! (so a few changes suffice where a few pay: MixNet, Appendix B.2), and what [`choose`] finds.
//! Ignored: that ports which stay in circuits but change partners were useful until then; the
//! gathering before the exchange, under which some dark time is hidden too.
//! Checked: never a worse total than leaving all as it is; against the cases by hand.

use super::choose::{changes, improve};
use super::timed::Rows;
use super::{CircuitCounts, Rates, ServerDemand, choose};
use lightloom_units::Time;

/// What circuits are chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prospect {
    /// All-to-alls of this demand, or its transpose, still to come.
    pub uses: u32,
    /// Computation before the first of them, under which ports may be dark for nothing.
    pub hidden: Time,
}

/// How long these all-to-alls take together, the wait for dark ports included, if `standing` becomes
/// `new` at a cost of `dark` time.
///
/// # Panics
/// If the arguments are not of as many servers.
///
/// ```
/// use lightloom_schedule::mixnet::*;
/// use lightloom_units::Time;
/// let rate = 400_000_000_000;
/// let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 1, share_eps: false };
/// let demand = ServerDemand::from_gpu_demand(3, 1, [(0, 1, 400_000), (0, 2, 200_000)]);
/// let (dark, mut one) = (CircuitCounts::dark(3), CircuitCounts::dark(3));
/// one.join(0, 1);
/// let prospect = Prospect { uses: 2, hidden: Time::from_us(15) };
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
    prospect: Prospect,
) -> Time {
    let Some(later) = prospect.uses.checked_sub(1) else { return Time::ZERO };
    let rows = Rows::new(demand, new, rates);
    let usual = rows.longest();
    let exposed = dark.saturating_sub(prospect.hidden).ps() as f64;
    let first = if changes(standing, new) == 0 {
        usual
    } else if rates.share_eps {
        // Packets are dealt for circuits that are lit.
        exposed + usual
    } else {
        usual.max(rows.latest(standing, exposed))
    };
    super::timed::whole(first + f64::from(later) * usual)
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
/// # use lightloom_schedule::mixnet::*;
/// # use lightloom_units::Time;
/// # let rate = 400_000_000_000;
/// # let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 1, share_eps: false };
/// let demand = ServerDemand::from_gpu_demand(3, 1, [(0, 1, 400_000), (0, 2, 200_000)]);
/// let prospect = Prospect { uses: 2, hidden: Time::ZERO };
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
    prospect: Prospect,
) -> CircuitCounts {
    let total = |new: &CircuitCounts| {
        let changed = changes(standing, new);
        (total_time(demand, standing, new, rates, dark(changed), prospect), changed)
    };
    let mut best = (total(standing), standing.clone());
    let mut weigh = |new: &CircuitCounts| {
        let reached = total(new);
        if reached < best.0 {
            best = (reached, new.clone());
        }
    };
    improve(demand, standing, ports, rates, |on_the_way| weigh(on_the_way));
    weigh(&choose(demand, standing, ports, rates));
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixnet::{all_to_all_time, allocate_within};
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
                (ServerDemand { n, bytes }, allocate_within(&before, &vec![4; n], true))
            })
        })
    }

    proptest! {
        #[test]
        fn never_worse_than_what_stands(
            (demand, standing) in demands(), dark in 0u64..1 << 36, hidden in 0u64..1 << 36,
            uses in 0u32..5, share_eps: bool,
        ) {
            let rates = Rates { share_eps, ..RATES };
            let prospect = Prospect { uses, hidden: Time::from_ps(hidden) };
            let ports = vec![4; demand.n];
            let dark = |changed| Time::from_ps(dark + u64::from(changed) * 1000);
            let chosen = settle(&demand, &standing, &ports, &rates, dark, prospect);
            let total = |new: &CircuitCounts| {
                total_time(&demand, &standing, new, &rates, dark(changes(&standing, new)), prospect)
            };
            prop_assert!((0..demand.n).all(|server| chosen.degree(server) <= 4));
            prop_assert!(total(&chosen) <= total(&standing));
            prop_assert!(chosen == standing || total(&chosen) < total(&standing));
            prop_assert!(total(&chosen) <= total(&choose(&demand, &standing, &ports, &rates)));
            let usual = all_to_all_time(&demand, &standing, &rates);
            prop_assert_eq!(total(&standing).ps().abs_diff(usual.ps() * u64::from(uses)) / 8, 0);
        }

        #[test]
        fn what_is_hidden_costs_nothing(
            (demand, standing) in demands(), dark in 0u64..1 << 40,
        ) {
            let prospect = Prospect { uses: 2, hidden: Time::from_ps(dark) };
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
            let prospect = Prospect { uses: 2, hidden: Time::ZERO };
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
        let prospect = Prospect { uses: 1, hidden: Time::from_us(1) };
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
