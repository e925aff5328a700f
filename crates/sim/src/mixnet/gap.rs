//! What lies ahead of a region, counted from the last of its all-to-alls: how often the next demand is sent in
//! a row, what hides a change before it, and how long its circuits stay.

use lightloom_decide::Ahead;
use lightloom_fabric::ReconfigurePolicy;
use lightloom_units::Time;
use serde::Deserialize;

/// One of a region's all-to-alls, which follow one another.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coming<D> {
    /// Which demand it sends, or the transpose of.
    pub demand: D,
    /// When circuits change for it.
    pub when: ReconfigurePolicy,
    /// The region's own computation between the one before and this one.
    #[serde(rename = "computed_ps")]
    pub computed: Time,
}

/// What lies ahead from one all-to-all on.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    /// The computation before it that could hide a change.
    hidden: Time,
    /// All-to-alls from it on before a change could be hidden whole.
    later: u32,
    /// How often circuits can change for these; none if a demand of them has to take what stands.
    changes: Option<u32>,
}

impl Gap {
    /// From an all-to-all on that this follows, the first of a demand or not.
    fn after(self, first: bool, when: ReconfigurePolicy) -> Gap {
        let later = self.later + 1;
        if !first {
            return Gap { later, ..self };
        }
        let can = !matches!(when, ReconfigurePolicy::Reuse | ReconfigurePolicy::Inside);
        let changes = self.changes.filter(|_| can).map(|changes| changes + 1);
        Gap { later, changes, ..self }
    }
}

/// What lies ahead of each of a region's all-to-alls, where ports that change are dark for `dark`.
///
/// ```
/// use lightloom_fabric::ReconfigurePolicy::{Block, Hide};
/// use lightloom_sim::{Coming, lookahead};
/// use lightloom_units::Time;
/// let (short, long) = (Time::from_ms(1), Time::from_ms(30));
/// let layer = |demand, computed| [
///     Coming { demand, when: Block, computed: short },
///     Coming { demand, when: Hide, computed },
/// ];
/// let ahead = lookahead(&[layer(0, short), layer(1, long)].concat(), Time::from_ms(25));
/// assert_eq!(ahead.iter().map(|it| it.uses).collect::<Vec<_>>(), [2, 1, 2, 1]);
/// // The first layer's circuits serve the dispatch of the second, too; before its combine a change is free.
/// assert_eq!((ahead[0].later, ahead[0].changes), (1, 1));
/// assert_eq!((ahead[2].later, ahead[3].hidden), (0, long));
/// ```
pub fn lookahead<D: PartialEq>(coming: &[Coming<D>], dark: Time) -> Vec<Ahead> {
    let free = Gap { changes: Some(0), ..Gap::default() };
    let mut gaps = vec![Gap::default(); coming.len() + 1];
    let mut then = free;
    for (at, it) in coming.iter().enumerate().rev() {
        let hides = matches!(it.when, ReconfigurePolicy::Hide | ReconfigurePolicy::Predict);
        let before = at.checked_sub(1).map(|before| &coming[before]);
        let hidden = if hides && before.is_some() { it.computed } else { Time::ZERO };
        let first = before.is_none_or(|before| before.demand != it.demand);
        then = if hides && hidden >= dark { free } else { then.after(first, it.when) };
        gaps[at] = Gap { hidden, ..then };
    }
    let ahead = |at: usize| {
        let first = &coming[at].demand;
        let uses = coming[at..].iter().take_while(|it| it.demand == *first).count();
        let then = gaps[at + uses];
        let (later, changes) = (then.later, then.changes.unwrap_or(0));
        Ahead { uses: uses as u32, hidden: gaps[at].hidden, later, changes, pass: None }
    };
    (0..coming.len()).map(ahead).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted_by_demand_and_only_if_each_may_have_one() {
        let free = Gap { changes: Some(0), ..Gap::default() };
        let hidden_in_part = ReconfigurePolicy::Hide;
        let combine = free.after(false, hidden_in_part);
        let dispatch = combine.after(true, ReconfigurePolicy::Block);
        assert_eq!((dispatch.later, dispatch.changes), (2, Some(1)));
        let taken = combine.after(true, ReconfigurePolicy::Reuse);
        let before = taken.after(true, ReconfigurePolicy::Block);
        assert_eq!((before.later, before.changes), (3, None));
    }
}
