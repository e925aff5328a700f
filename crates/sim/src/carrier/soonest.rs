//! Which of some is soonest over, with no more computed than that takes.

use lightloom_units::Time;

/// What to find out of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// What it takes by the bytes on its links.
    Bounds,
    /// Its time, or some time not before this one if that is later; it is [`Bounds::most`] of the answer.
    Time(Time),
}

/// How long one takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Certainly no less.
    pub least: Time,
    /// By its closed form.
    pub form: Time,
    /// Certainly no more.
    pub most: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Something that its closed form is not below.
    Floor,
    Bounds,
    Time,
}

/// Whether one is sooner over than another by a hundredth at least: for less no other is taken.
pub(crate) fn sooner(a: Time, b: Time) -> bool {
    a.saturating_add(Time::from_ps(a.ps() / 100)) < b
}

/// The one of the least closed form, or the first of several, unless another is [`sooner`]: then the
/// soonest. None is looked at that cannot be.
pub(crate) fn soonest(
    floors: Vec<Bounds>,
    mut ask: impl FnMut(usize, Ask) -> Result<Bounds, String>,
) -> Result<usize, String> {
    let mut all: Vec<_> = floors.into_iter().map(|floor| (Known::Floor, floor)).collect();
    let mut best = (0, Time::MAX);
    loop {
        let open = || {
            let open = all.iter().enumerate();
            open.filter(|(_, (known, bounds))| {
                *known != Known::Time && sooner(bounds.least, best.1)
            })
        };
        let next = open().min_by_key(|(_, (_, bounds))| bounds.form);
        let Some((at, &(known, bounds))) = next else { return Ok(best.0) };
        if known == Known::Floor {
            all[at] = (Known::Bounds, ask(at, Ask::Bounds)?);
            continue;
        }
        let mut others = open().filter(|&(other, _)| other != at);
        if best.1 == Time::MAX && !others.any(|(_, (_, other))| sooner(other.least, bounds.most)) {
            return Ok(at);
        }
        let time = ask(at, Ask::Time(best.1))?.most;
        if sooner(time, best.1) {
            best = (at, time);
        }
        all[at].0 = Known::Time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Of one: what it takes no less than, its closed form, its time, what it takes no more than; and how
    /// far below the first two are known to be before it is looked at.
    fn one() -> impl Strategy<Value = ([Time; 4], u64)> {
        (prop::array::uniform4(0u64..50), 0u64..50).prop_map(|(steps, below)| {
            let mut time = 1_000;
            let times = steps.map(|step| {
                time += step;
                Time::from_ns(time)
            });
            (times, below)
        })
    }

    proptest! {
        #[test]
        fn none_is_sooner(all in prop::collection::vec(one(), 1..6)) {
            let floor = |&([least, form, ..], below): &([Time; 4], u64)| {
                let less = |time: Time| time.saturating_sub(Time::from_ns(below));
                Bounds { least: less(least), form: less(form), most: Time::MAX }
            };
            let found = soonest(all.iter().map(floor).collect(), |at, what| {
                let [least, form, time, most] = all[at].0;
                Ok(match what {
                    Ask::Bounds => Bounds { least, form, most },
                    Ask::Time(enough) => Bounds { least, form, most: time.min(enough.max(least)) },
                })
            });
            let found = found.expect("no one fails");
            let time = |at: usize| all[at].0[2];
            let form = |at: usize| all[at].0[1];
            prop_assert!((0..all.len()).all(|at| !sooner(time(at), time(found))));
            let by_form = (0..all.len()).min_by_key(|&at| form(at)).expect("one at least");
            prop_assert!(found == by_form || sooner(time(found), time(by_form)));
        }
    }
}
