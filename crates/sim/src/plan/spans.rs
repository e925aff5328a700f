//! Spans of time.

use lightloom_units::Time;

/// Joins spans that touch, in the order of time.
pub(super) fn merge(spans: &mut Vec<(Time, Time)>) {
    spans.sort_unstable();
    spans.dedup_by(|next, one| {
        let joined = next.0 <= one.1;
        if joined {
            one.1 = one.1.max(next.1);
        }
        joined
    });
}

/// How long of a span none of the others covers; these are merged.
pub(super) fn uncovered((from, to): (Time, Time), spans: &[(Time, Time)]) -> Time {
    let first = spans.partition_point(|span| span.1 <= from);
    let covered: Time = spans[first..]
        .iter()
        .take_while(|span| span.0 < to)
        .map(|span| span.1.min(to).saturating_sub(span.0.max(from)))
        .sum();
    to.saturating_sub(from).saturating_sub(covered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_covers() {
        let time = |(a, b): (u64, u64)| (Time::from_ps(a), Time::from_ps(b));
        let mut spans: Vec<_> = [(30, 40), (0, 10), (5, 12), (12, 15)].map(time).to_vec();
        merge(&mut spans);
        assert_eq!(spans, [(0, 15), (30, 40)].map(time));
        for (span, left) in [((0, 15), 0), ((10, 35), 15), ((50, 60), 10), ((15, 30), 15)] {
            assert_eq!(uncovered(time(span), &spans), Time::from_ps(left), "{span:?}");
        }
    }
}
