//! Which numbers of a line are there: what has come of one source, or which groups were left.

/// Ranges that neither touch nor overlap, in rising order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    spans: Vec<(u64, u64)>,
}

/// How much of a range is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum There {
    Nothing,
    Part,
    All,
}

impl Ranges {
    /// How much of `start..end` is there; the range is not empty.
    pub fn there(&self, start: u64, end: u64) -> There {
        let at = self.spans.partition_point(|span| span.1 <= start);
        match self.spans.get(at) {
            Some(span) if span.0 <= start && end <= span.1 => There::All,
            Some(span) if span.0 < end => There::Part,
            _ => There::Nothing,
        }
    }

    /// Adds `start..end`, of which nothing is there.
    pub fn insert(&mut self, start: u64, end: u64) {
        let at = self.spans.partition_point(|span| span.1 < start);
        let joins = self.spans.get(at).is_some_and(|span| span.1 == start);
        if !joins {
            match self.spans.get_mut(at) {
                Some(next) if next.0 == end => next.0 = start,
                _ => self.spans.insert(at, (start, end)),
            }
            return;
        }
        self.spans[at].1 = end;
        if self.spans.get(at + 1).is_some_and(|next| next.0 == end) {
            self.spans[at].1 = self.spans.remove(at + 1).1;
        }
    }

    /// Where the last of them ends; 0 if there is none.
    pub fn end(&self) -> u64 {
        self.spans.last().map_or(0, |span| span.1)
    }

    /// The sum of all lengths.
    pub fn total(&self) -> u64 {
        self.spans.iter().map(|span| span.1 - span.0).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let mut ranges = Ranges::default();
        ranges.insert(10, 20);
        ranges.insert(30, 40);
        assert_eq!(ranges.there(10, 20), There::All);
        assert_eq!(ranges.there(19, 21), There::Part);
        assert_eq!(ranges.there(20, 30), There::Nothing);
        ranges.insert(20, 30);
        assert_eq!(ranges.spans, [(10, 40)]);
        ranges.insert(5, 10);
        assert_eq!((ranges.spans.as_slice(), ranges.total()), ([(5, 40)].as_slice(), 35));
    }

    proptest! {
        #[test]
        fn they_are_as_a_set_of_numbers(ranges in proptest::collection::vec((0u64..60, 1u64..9), 0..40)) {
            let (mut ours, mut set) = (Ranges::default(), std::collections::BTreeSet::new());
            for (start, length) in ranges {
                let end = start + length;
                let there = (start..end).filter(|it| set.contains(it)).count() as u64;
                let expected = match there {
                    0 => There::Nothing,
                    all if all == length => There::All,
                    _ => There::Part,
                };
                prop_assert_eq!(ours.there(start, end), expected);
                if there == 0 {
                    ours.insert(start, end);
                    set.extend(start..end);
                }
                prop_assert_eq!(ours.total(), set.len() as u64);
                prop_assert!(ours.spans.windows(2).all(|two| two[0].1 < two[1].0));
            }
        }
    }
}
