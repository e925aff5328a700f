//! In which order the tasks of slots that go through a block at once take its GPUs and its network.
//!
//! Modelled: a block computes one task at a time and has one all-to-all under way at a time, each kind in
//! an order that is fixed beforehand, as by two CUDA streams (Megatron-Core's `comp_stream` and
//! `comm_stream`; DeepSeek-V3, Figure 4). Slots of one round take turns: a run of computation with the
//! all-to-all behind it, then the other's. With a backward first, which begins with an all-to-all, that is
//! DeepSeek's order: its combine beside the forward's attention, the forward's dispatch beside its experts, its
//! dispatch beside the forward's experts, the forward's combine beside its attention. Collectives of tensor
//! and context parallelism count as computation, which waits for them. Rounds follow one another on each
//! of the two by itself. One all-to-all at a time is also what a region's circuits can be set for.
//! While two slots are in a round, computation is slower by the multiprocessors that communication takes
//! (`training.communication_share`), whatever it is bound by: an upper bound for what waits for memory.
//! Ignored: that all-to-alls are slowed by the memory that computation takes; turns that follow the clock;
//! sends to neighbours leave the round when all of it is over, as in DualPipe's code.
//! Checked: golden orders; both orders keep each slot's own; closed forms in `tests/all/overlap.rs`.

use std::ops::Range;

/// Tasks that begin together: consecutive ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub tasks: Range<u32>,
    /// What it waits for in its own slot.
    pub after: Range<u32>,
    /// An all-to-all, not computation.
    pub exchanges: bool,
}

/// A block's computation and its all-to-alls: what is last in each order.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    computed: Range<u32>,
    exchanged: Range<u32>,
}

impl Resources {
    /// Puts a round's slots behind what is there; `edge` is told which task waits for which.
    pub fn order(&mut self, slots: &[Vec<Unit>], mut edge: impl FnMut(u32, u32)) {
        let kinds: Vec<Vec<bool>> =
            slots.iter().map(|units| units.iter().map(|unit| unit.exchanges).collect()).collect();
        for (slot, unit) in turns(&kinds) {
            let unit = &slots[slot][unit];
            let last = match unit.exchanges {
                true => &mut self.exchanged,
                false => &mut self.computed,
            };
            // What a task waits for in any case needs no second edge.
            for before in last.clone().filter(|before| !unit.after.contains(before)) {
                unit.tasks.clone().for_each(|task| edge(before, task));
            }
            *last = unit.tasks.clone();
        }
    }

    /// The tasks after which the block is done.
    pub fn ends(&self) -> impl Iterator<Item = u32> + use<> {
        self.computed.clone().chain(self.exchanged.clone())
    }
}

/// Slots and the places in them by turns; `slots` say of each unit whether it is an all-to-all.
fn turns(slots: &[Vec<bool>]) -> Vec<(usize, usize)> {
    let mut next = vec![0; slots.len()];
    let units: usize = slots.iter().map(Vec::len).sum();
    let mut order = Vec::with_capacity(units);
    while order.len() < units {
        for (slot, units) in slots.iter().enumerate() {
            while let Some(&exchanges) = units.get(next[slot]) {
                order.push((slot, next[slot]));
                next[slot] += 1;
                if exchanges {
                    break;
                }
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As text, a letter a unit: computation small, all-to-alls large.
    fn text(slots: &[&str]) -> String {
        let kinds: Vec<Vec<bool>> =
            slots.iter().map(|slot| slot.chars().map(|c| c.is_uppercase()).collect()).collect();
        let at = |(slot, unit): (usize, usize)| slots[slot].as_bytes()[unit] as char;
        turns(&kinds).into_iter().map(at).collect()
    }

    /// DeepSeek-V3, Figure 4: a, m, w are attention, experts, weights' gradients of the backward, with
    /// Q and P; f, e, D and C of the forward.
    #[test]
    fn golden_order_of_a_backward_and_a_forward() {
        let order = text(&["PmwQawPmwQaw", "fDeCfDeC"]);
        assert_eq!(order, "PfDmwQeCawPfDmwQeCaw");
    }

    #[test]
    fn golden_order_of_two_forwards() {
        assert_eq!(text(&["aAbBcA", "xXyYzX"]), "aAxXbByYcAzX");
        assert_eq!(text(&["aaA"]), "aaA");
        assert_eq!(text(&["", "aA"]), "aA");
    }

    proptest! {
        #[test]
        fn each_slot_keeps_its_own_order(
            slots in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..9), 1..3),
        ) {
            let order = turns(&slots);
            for (slot, units) in slots.iter().enumerate() {
                let own = order.iter().filter(|at| at.0 == slot).map(|at| at.1);
                prop_assert!(own.eq(0..units.len()));
            }
        }
    }
}
