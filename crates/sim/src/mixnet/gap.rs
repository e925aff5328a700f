//! What lies ahead of a region, counted from the iteration's end: see [`super::ahead`].

use lightloom_fabric::ReconfigurePolicy;
use lightloom_units::Time;

/// What lies ahead of a region from one of its all-to-alls on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gap {
    /// The computation before it that could hide a change.
    pub hidden: Time,
    /// All-to-alls from it on before a change could be hidden whole.
    pub later: u32,
    /// How often circuits can change for these; none if a demand of them has to take what stands.
    pub changes: Option<u32>,
}

impl Gap {
    /// From an all-to-all on that this follows, the first of a demand or not.
    pub fn after(self, first: bool, when: ReconfigurePolicy) -> Gap {
        let later = self.later + 1;
        if !first {
            return Gap { later, ..self };
        }
        let can = !matches!(when, ReconfigurePolicy::Reuse | ReconfigurePolicy::Inside);
        let changes = self.changes.filter(|_| can).map(|changes| changes + 1);
        Gap { later, changes, ..self }
    }
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
