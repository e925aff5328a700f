//! What other traffic takes of packet NICs while all-to-alls are under way.
//!
//! Pipelines, gradients and collectives that span servers use the packet NICs, too. Whoever sends them
//! reports, server by server, what they put there while an all-to-all of the region was under way: a
//! [`Traffic`] an iteration and server, by pass and [`Class`] of traffic.
//!
//! Modelled: each pass of a micro-batch through a region's stage is counted apart, since most meet little
//! and the last ones meet all sums of gradients. The rate taken is the sum of bytes over the sum of times, of
//! that pass in the last [`WINDOW`] iterations that have ended and in the one under way as far as it has
//! come; out and in apart, the busier of the two; of all servers that report, the busiest. Where the pass of
//! the next all-to-all is not known, or nothing was reported of it, all passes count as one. A record of
//! iteration 0 is what the job's own task graph says: it counts until an iteration has ended, and then no
//! more. A server that reports nothing is taken to be like the busiest that does; if none does, nothing is
//! taken. No decision counts on less than half of a NIC, the fair share beside one other flow. The average
//! over iterations, and rounding to sixteenths of a NIC's rate, keep a decision from chasing its own
//! effect.
//! Ignored: that beside many flows an all-to-all gets less than half, and that a server's NICs may be
//! loaded unevenly.
//! Checked: sums by hand; a record that comes twice counts once; in a loop of decisions and measurements
//! iterations come to take equally long (`crates/sim/tests/all/traffic.rs`).

use lightloom_circuits::Rates;
use lightloom_units::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// In how many steps of its rate a packet NIC is shared out: to the nearest one. Finer differences are
/// noise, which would move circuits to and fro.
const STEPS: u128 = 16;

/// How many ended iterations count.
pub const WINDOW: usize = 4;

/// What traffic is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Class {
    /// Activations and their gradients, from stage to stage.
    #[serde(rename = "pp")]
    Pipeline,
    /// Sums of gradients.
    #[serde(rename = "dp")]
    Gradients,
    /// Collectives of tensor parallelism that span servers.
    #[serde(rename = "tp")]
    Tensor,
    /// Collectives of context parallelism that span servers.
    #[serde(rename = "cp")]
    Context,
    /// Anything else: checkpoints, data, other jobs.
    #[serde(rename = "other")]
    Other,
}

/// Bytes out of a server and into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bytes {
    /// Sent \[B\].
    #[serde(default)]
    pub out: u64,
    /// Received \[B\].
    #[serde(default)]
    pub into: u64,
}

/// What one server's packet NICs carried of other traffic in one iteration, while all-to-alls of its
/// region were under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Numbers iterations from 1; 0 is what the task graph says before the first.
    pub iteration: u64,
    /// By pass of a micro-batch through the server's stage, in their order in the iteration. Who does not
    /// know passes reports one. Shared, for a record goes through many hands and most only read it.
    #[serde(default, skip_serializing_if = "nothing")]
    pub passes: Arc<Vec<PassTraffic>>,
}

/// A [`Traffic`]'s part of one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassTraffic {
    /// How long all-to-alls were under way in it.
    #[serde(rename = "under_way_ps")]
    pub under_way: Time,
    /// Sends between pipeline stages.
    #[serde(default, skip_serializing_if = "none")]
    pub pp: Bytes,
    /// Sums of gradients.
    #[serde(default, skip_serializing_if = "none")]
    pub dp: Bytes,
    /// Collectives of tensor parallelism.
    #[serde(default, skip_serializing_if = "none")]
    pub tp: Bytes,
    /// Collectives of context parallelism.
    #[serde(default, skip_serializing_if = "none")]
    pub cp: Bytes,
    /// All other traffic.
    #[serde(default, skip_serializing_if = "none")]
    pub other: Bytes,
}

fn nothing(passes: &[PassTraffic]) -> bool {
    passes.is_empty()
}

fn none(bytes: &Bytes) -> bool {
    *bytes == Bytes::default()
}

impl Traffic {
    /// A record of an iteration in which nothing has been under way yet.
    pub fn new(iteration: u64) -> Self {
        Traffic { iteration, passes: Arc::default() }
    }

    /// The part of a pass, which is made if it is not there yet.
    ///
    /// ```
    /// use lightloom_decide::{Class, Traffic};
    /// let mut record = Traffic::new(1);
    /// record.pass(2).class(Class::Gradients).out += 5;
    /// assert_eq!((record.passes.len(), record.passes[2].dp.out), (3, 5));
    /// ```
    pub fn pass(&mut self, number: u32) -> &mut PassTraffic {
        let at = number as usize;
        let passes = Arc::make_mut(&mut self.passes);
        if passes.len() <= at {
            passes.resize(at + 1, PassTraffic::default());
        }
        &mut passes[at]
    }

    /// The parts that count for an all-to-all of a pass: its own, or all.
    fn parts(&self, pass: Option<u32>) -> &[PassTraffic] {
        match pass {
            Some(number) => self.passes.get(number as usize).map_or(&[], std::slice::from_ref),
            None => &self.passes,
        }
    }
}

impl PassTraffic {
    /// The bytes of a class.
    pub fn class(&mut self, class: Class) -> &mut Bytes {
        match class {
            Class::Pipeline => &mut self.pp,
            Class::Gradients => &mut self.dp,
            Class::Tensor => &mut self.tp,
            Class::Context => &mut self.cp,
            Class::Other => &mut self.other,
        }
    }

    fn all(&self) -> [Bytes; 5] {
        [self.pp, self.dp, self.tp, self.cp, self.other]
    }
}

/// The records of some servers that count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    servers: Vec<VecDeque<Traffic>>,
}

impl Window {
    /// Takes a server's record: the latest of an iteration replaces the one before. An iteration that
    /// comes after a later one is another job's, and all before it is forgotten.
    pub fn observe(&mut self, server: usize, record: &Traffic) {
        if self.servers.len() <= server {
            self.servers.resize(server + 1, VecDeque::new());
        }
        let kept = &mut self.servers[server];
        match kept.iter_mut().find(|known| known.iteration == record.iteration) {
            Some(known) => known.clone_from(record),
            None => {
                if kept.back().is_some_and(|last| last.iteration > record.iteration) {
                    kept.clear();
                }
                kept.push_back(record.clone());
            }
        }
        if kept.back().is_some_and(|last| last.iteration > 1) {
            kept.retain(|known| known.iteration > 0);
        }
        while kept.len() > WINDOW + 1 {
            kept.pop_front();
        }
    }

    /// What is left of a packet NIC for all-to-alls of a pass \[bit/s\].
    pub fn left(&self, pass: Option<u32>, rates: &Rates) -> u64 {
        let of = |records: &VecDeque<Traffic>| {
            taken(records, pass, rates).or_else(|| taken(records, None, rates)).unwrap_or(0)
        };
        let taken = self.servers.iter().map(of).max().unwrap_or(0);
        let steps = (u128::from(taken) * STEPS + u128::from(rates.packet_bps) / 2)
            / u128::from(rates.packet_bps.max(1));
        let steps = steps.min(STEPS / 2) as u64;
        rates.packet_bps - rates.packet_bps / STEPS as u64 * steps
    }
}

/// The rate that other traffic takes of each of a server's packet NICs \[bit/s\]; none if no all-to-all
/// was under way.
fn taken(records: &VecDeque<Traffic>, pass: Option<u32>, rates: &Rates) -> Option<u64> {
    let parts = || records.iter().flat_map(|record| record.parts(pass));
    let time: u128 = parts().map(|part| u128::from(part.under_way.ps())).sum();
    let sum = |bytes: fn(&Bytes) -> u64| -> u128 {
        parts().map(|part| part.all().iter().map(|b| u128::from(bytes(b))).sum::<u128>()).sum()
    };
    let busier = sum(|bytes| bytes.out).max(sum(|bytes| bytes.into));
    let nics = u128::from(rates.packet_nics);
    let bps = (busier * 8_000_000_000_000).checked_div(time * nics)?;
    Some(bps.try_into().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATES: Rates =
        Rates { optical_bps: 1600, packet_bps: 1600, packet_nics: 2, share_eps: false };

    fn record(iteration: u64, seconds: u64, out: u64) -> Traffic {
        Traffic { iteration, passes: Arc::new(vec![pass(seconds, out)]) }
    }

    fn pass(seconds: u64, out: u64) -> PassTraffic {
        let under_way = Time::from_ms(seconds * 1000);
        PassTraffic { under_way, pp: Bytes { out, into: 0 }, ..PassTraffic::default() }
    }

    #[test]
    fn an_expectation_counts_until_an_iteration_has_ended() {
        let mut window = Window::default();
        assert_eq!(window.left(None, &RATES), 1600);
        window.observe(0, &record(0, 10, 500)); // 50 B/s on two NICs: 200 bit/s each
        assert_eq!(window.left(None, &RATES), 1400);
        window.observe(0, &record(1, 10, 0));
        assert_eq!(window.left(None, &RATES), 1500);
        window.observe(0, &record(2, 0, 0));
        assert_eq!(window.left(None, &RATES), 1600);
    }

    #[test]
    fn the_busiest_server_and_direction_count_and_half_is_always_left() {
        let mut window = Window::default();
        window.observe(0, &record(1, 10, 250));
        let dp = Bytes { out: 0, into: 750 };
        let passes = Arc::new(vec![PassTraffic { dp, ..pass(10, 250) }]);
        window.observe(2, &Traffic { iteration: 1, passes });
        assert_eq!(window.left(None, &RATES), 1300);
        window.observe(2, &record(1, 10, 1 << 40));
        assert_eq!(window.left(None, &RATES), 800);
        let none = Rates { packet_nics: 0, ..RATES };
        assert_eq!(window.left(None, &none), 1600);
    }

    #[test]
    fn a_record_of_an_earlier_iteration_begins_anew() {
        let mut window = Window::default();
        (5..9).for_each(|iteration| window.observe(0, &record(iteration, 10, 500)));
        window.observe(0, &record(1, 10, 250));
        assert_eq!(window.left(None, &RATES), 1500);
    }

    #[test]
    fn a_pass_counts_apart_and_all_count_where_nothing_is_known_of_it() {
        let mut window = Window::default();
        let passes = Arc::new(vec![pass(10, 0), pass(0, 0), pass(10, 1000)]); // nothing, and 400 bit/s a NIC
        window.observe(0, &Traffic { iteration: 1, passes });
        let left = |pass| window.left(pass, &RATES);
        assert_eq!([left(Some(0)), left(Some(2))], [1600, 1200]);
        assert_eq!([left(None), left(Some(1)), left(Some(7))], [1400; 3]);
    }

    proptest! {
        #[test]
        fn records_come_in_any_repetition(
            bytes in prop::collection::vec(0u64..1000, 1..12), again in prop::collection::vec(0usize..12, 0..20),
        ) {
            let (mut once, mut often) = (Window::default(), Window::default());
            for (at, &bytes) in bytes.iter().enumerate() {
                let now = record(at as u64 + 1, 1, bytes);
                once.observe(0, &now);
                (0..=again.get(at).copied().unwrap_or(0)).for_each(|_| often.observe(0, &now));
            }
            prop_assert_eq!(once.left(None, &RATES), often.left(None, &RATES));
            let last = &bytes[bytes.len().saturating_sub(WINDOW + 1)..];
            let mean = last.iter().sum::<u64>() * 8 / (2 * last.len() as u64);
            prop_assert_eq!(once.left(None, &RATES), 1600 - ((mean + 50) / 100 * 100).min(800));
        }
    }
}
