//! For every number of rows dropped, the fewest columns to drop besides: the covers of all faults.
//!
//! Faults are the edges of a bipartite graph of rows and columns, and what is dropped is a vertex
//! cover. Connected groups are independent: each is enumerated over its smaller side, and the
//! groups' curves are added by dynamic programming. In a group too large for that, weighted minimum
//! covers (by maximum flow) give the corners of the curve's lower hull; between corners a greedy
//! choice gives covers, and the hull itself, rounded up, a floor.

use std::collections::BTreeMap;

/// The curve, and a cover for each of its points.
#[derive(Clone, Debug)]
pub struct Covers {
    groups: Vec<Group>,
    /// By group, by rows dropped in it and those before: rows that it drops itself.
    taken: Vec<Vec<u32>>,
    least: Vec<u32>,
    floor: Vec<u32>,
}

/// Rows and columns that hang together by faults.
#[derive(Clone, Debug)]
struct Group {
    rows: Vec<u32>,
    columns: Vec<u32>,
    /// By row, the columns it has faults in; both as indices into the above.
    of_row: Vec<Vec<u32>>,
    /// By rows dropped at most, a best choice of them (indices), the columns then left, a floor.
    options: Vec<Choice>,
}

#[derive(Clone, Debug)]
struct Choice {
    rows: Vec<u32>,
    columns: u32,
    floor: u32,
}

impl Covers {
    /// A group is solved exactly if it has no more rows than this, or no more columns.
    pub const MOST_LINES: usize = 20;

    /// The covers of faults, as (row, column), all different.
    ///
    /// ```
    /// use lightloom_railx::Covers;
    /// let covers = Covers::new(&[(0, 0), (0, 1), (3, 5)]);
    /// assert_eq!(covers.least(), [3, 1, 0]); // with no row, one, two
    /// assert_eq!(covers.cover(1), (vec![0], vec![5]));
    /// ```
    pub fn new(faults: &[(u32, u32)]) -> Self {
        let groups: Vec<Group> = connected(faults).into_iter().map(Group::new).collect();
        let (mut least, mut floor, mut taken) = (vec![0], vec![0], Vec::new());
        for group in &groups {
            let (curve, chosen) = add(&least, group.options.iter().map(|choice| choice.columns));
            (least, floor) = (curve, add(&floor, group.options.iter().map(|c| c.floor)).0);
            taken.push(chosen);
        }
        Covers { groups, taken, least, floor }
    }

    /// By the number of rows dropped at most, the fewest columns known to be enough besides. It ends
    /// where no column needs to be dropped.
    pub fn least(&self) -> &[u32] {
        &self.least
    }

    /// By the number of rows dropped, columns that are needed at least: equal to
    /// [`least`](Self::least) where all groups were small.
    pub fn floor(&self) -> &[u32] {
        &self.floor
    }

    /// Rows (at most `rows`) and columns that cover every fault, each rising.
    pub fn cover(&self, rows: u32) -> (Vec<u32>, Vec<u32>) {
        let mut left = (rows as usize).min(self.least.len() - 1);
        let (mut dropped_rows, mut dropped_columns) = (Vec::new(), Vec::new());
        for (group, taken) in self.groups.iter().zip(&self.taken).rev() {
            let choice = &group.options[taken[left] as usize];
            left -= taken[left] as usize;
            dropped_rows.extend(choice.rows.iter().map(|&row| group.rows[row as usize]));
            let columns = group.columns_without(&choice.rows);
            dropped_columns.extend(columns.iter().map(|&column| group.columns[column as usize]));
        }
        dropped_rows.sort_unstable();
        dropped_columns.sort_unstable();
        (dropped_rows, dropped_columns)
    }
}

/// Adds a group to the curve of those before; for each sum also what the group takes of it.
fn add(before: &[u32], group: impl ExactSizeIterator<Item = u32>) -> (Vec<u32>, Vec<u32>) {
    let length = before.len() + group.len() - 1;
    let (mut sum, mut taken) = (vec![u32::MAX; length], vec![0; length]);
    for (rows, columns) in group.enumerate() {
        for (others, &other) in before.iter().enumerate() {
            if columns + other < sum[rows + others] {
                (sum[rows + others], taken[rows + others]) = (columns + other, rows as u32);
            }
        }
    }
    (sum, taken)
}

/// The faults of each connected group, groups in the order of their first fault.
fn connected(faults: &[(u32, u32)]) -> Vec<Vec<(u32, u32)>> {
    let mut group: Vec<usize> = (0..faults.len()).collect();
    fn root(group: &mut [usize], mut at: usize) -> usize {
        while group[at] != at {
            group[at] = group[group[at]];
            at = group[at];
        }
        at
    }
    let (mut by_row, mut by_column) = (BTreeMap::new(), BTreeMap::new());
    for (index, (row, column)) in faults.iter().enumerate() {
        for first in
            [*by_row.entry(row).or_insert(index), *by_column.entry(column).or_insert(index)]
        {
            let (a, b) = (root(&mut group, first), root(&mut group, index));
            group[a.max(b)] = a.min(b);
        }
    }
    let mut groups: BTreeMap<usize, Vec<(u32, u32)>> = BTreeMap::new();
    for (index, &fault) in faults.iter().enumerate() {
        groups.entry(root(&mut group, index)).or_default().push(fault);
    }
    groups.into_values().collect()
}

impl Group {
    fn new(faults: Vec<(u32, u32)>) -> Self {
        let sorted = |lines: Vec<u32>| -> Vec<u32> {
            let mut lines = lines;
            lines.sort_unstable();
            lines.dedup();
            lines
        };
        let rows = sorted(faults.iter().map(|&(row, _)| row).collect());
        let columns = sorted(faults.iter().map(|&(_, column)| column).collect());
        let index = |lines: &[u32], line| lines.partition_point(|&other| other < line);
        let mut of_row = vec![Vec::new(); rows.len()];
        for (row, column) in faults {
            of_row[index(&rows, row)].push(index(&columns, column) as u32);
        }
        let mut group = Group { rows, columns, of_row, options: Vec::new() };
        let few = group.rows.len().min(group.columns.len());
        group.options = if few <= Covers::MOST_LINES { group.all() } else { group.hull() };
        group
    }

    fn of_column(&self) -> Vec<Vec<u32>> {
        let mut of_column = vec![Vec::new(); self.columns.len()];
        for (row, columns) in (0..).zip(&self.of_row) {
            columns.iter().for_each(|&column| of_column[column as usize].push(row));
        }
        of_column
    }

    /// Columns with a fault in a row that is kept.
    fn columns_without(&self, dropped_rows: &[u32]) -> Vec<u32> {
        let kept = (0..).zip(&self.of_row).filter(|(row, _)| !dropped_rows.contains(row));
        let mut columns: Vec<u32> = kept.flat_map(|(_, columns)| columns).copied().collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Every set of lines of the smaller side, the lines of the other following.
    fn all(&self) -> Vec<Choice> {
        let by_rows = self.rows.len() <= self.columns.len();
        let of_column = self.of_column();
        let near = if by_rows { &self.of_row } else { &of_column };
        let others = if by_rows { self.columns.len() } else { self.rows.len() };
        // Faults of each line of the other side in lines that are kept: it is dropped if it has any.
        let mut open = vec![0_u32; others];
        near.iter().flatten().for_each(|&other| open[other as usize] += 1);
        let (mut dropped, mut followers) = (0_u32, others as u32);
        let mut best: Vec<Option<(u32, u32)>> = vec![None; self.rows.len() + 1];
        for step in 1_u32..=1 << near.len() {
            let count = dropped.count_ones();
            let (rows, columns) = if by_rows { (count, followers) } else { (followers, count) };
            if best[rows as usize].is_none_or(|(least, _)| columns < least) {
                best[rows as usize] = Some((columns, dropped));
            }
            // Gray's order: the next set differs in one line.
            let line = step.trailing_zeros();
            if line as usize == near.len() {
                break;
            }
            dropped ^= 1 << line;
            let comes = dropped >> line & 1 == 0;
            for &other in &near[line as usize] {
                let open = &mut open[other as usize];
                if comes {
                    followers += u32::from(*open == 0);
                    *open += 1;
                } else {
                    *open -= 1;
                    followers -= u32::from(*open == 0);
                }
            }
        }
        let members = |set: u32| (0..near.len() as u32).filter(move |line| set >> line & 1 == 1);
        let choices = best.into_iter().map(|found| {
            let (columns, set) = found?;
            let rows = if by_rows {
                members(set).collect()
            } else {
                let kept = (0..).zip(&of_column).filter(|(column, _)| set >> column & 1 == 0);
                let mut rows: Vec<u32> = kept.flat_map(|(_, rows)| rows).copied().collect();
                rows.sort_unstable();
                rows.dedup();
                rows
            };
            Some(Choice { rows, columns, floor: columns })
        });
        falling(choices.collect())
    }

    /// Corners of the lower hull, greedy covers between them, and the hull as a floor.
    fn hull(&self) -> Vec<Choice> {
        let all_rows: Vec<u32> = (0..self.rows.len() as u32).collect();
        let mut corners = vec![Vec::new(), all_rows];
        let point = |rows: &Vec<u32>| (rows.len() as u64, self.columns_without(rows).len() as u64);
        let mut at = 0;
        while at + 1 < corners.len() {
            let (a, b) = (point(&corners[at]), point(&corners[at + 1]));
            let (row_weight, column_weight) = (a.1 - b.1, b.0 - a.0);
            let between = self.least_cover(row_weight, column_weight);
            let weight = |(rows, columns)| rows * row_weight + columns * column_weight;
            if weight(point(&between)) < weight(a) {
                corners.insert(at + 1, between);
            } else {
                at += 1;
            }
        }
        let mut choices: Vec<Option<Choice>> = vec![None; self.rows.len() + 1];
        for pair in corners.windows(2) {
            let (a, b) = (point(&pair[0]), point(&pair[1]));
            // Keep again, one by one, the dropped row that costs the fewest columns.
            let mut rows = pair[1].clone();
            for count in (a.0..=b.0).rev() {
                if count == a.0 {
                    rows.clone_from(&pair[0]);
                }
                let columns = self.columns_without(&rows);
                let rise = (b.0 - count) * (a.1 - b.1);
                let floor = (b.1 + rise.div_ceil(b.0 - a.0)) as u32;
                let choice = Choice { rows: rows.clone(), columns: columns.len() as u32, floor };
                choices[count as usize] = Some(choice);
                let cost = |&&row: &&u32| {
                    let new = |column: &&u32| columns.binary_search(column).is_err();
                    self.of_row[row as usize].iter().filter(new).count()
                };
                if let Some(&cheapest) = rows.iter().min_by_key(cost) {
                    rows.retain(|&row| row != cheapest);
                }
            }
        }
        falling(choices)
    }

    /// The rows of a vertex cover of least weight: the source's side of a minimum cut.
    fn least_cover(&self, row_weight: u64, column_weight: u64) -> Vec<u32> {
        let of_column = self.of_column();
        let mut row_left = vec![row_weight; self.rows.len()];
        let mut column_left = vec![column_weight; self.columns.len()];
        let mut flow: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        loop {
            // Breadth first from rows with weight left, forward along faults, back along flow.
            let mut from_row: Vec<Option<u32>> = vec![None; self.columns.len()];
            let mut from_column: Vec<Option<u32>> = vec![None; self.rows.len()];
            let mut seen: Vec<bool> = row_left.iter().map(|&left| left > 0).collect();
            let mut queue: Vec<u32> =
                (0..self.rows.len() as u32).filter(|&row| seen[row as usize]).collect();
            let mut end = None;
            let mut next = 0;
            'search: while next < queue.len() {
                let row = queue[next];
                next += 1;
                for &column in &self.of_row[row as usize] {
                    if from_row[column as usize].is_some() {
                        continue;
                    }
                    from_row[column as usize] = Some(row);
                    if column_left[column as usize] > 0 {
                        end = Some(column);
                        break 'search;
                    }
                    for &back in &of_column[column as usize] {
                        let carries = flow.get(&(back, column)).is_some_and(|&f| f > 0);
                        if carries && !seen[back as usize] {
                            seen[back as usize] = true;
                            from_column[back as usize] = Some(column);
                            queue.push(back);
                        }
                    }
                }
            }
            let Some(end) = end else {
                // A row that is still reached is kept: it can pay for no more columns.
                return (0..self.rows.len() as u32).filter(|&row| !seen[row as usize]).collect();
            };
            let mut path = Vec::new();
            let (mut column, mut amount) = (end, column_left[end as usize]);
            let first = loop {
                let row = from_row[column as usize].expect("a reached column has a row before it");
                path.push((row, column));
                match from_column[row as usize] {
                    None => break row,
                    Some(before) => {
                        amount = amount.min(flow[&(row, before)]);
                        column = before;
                    }
                }
            };
            amount = amount.min(row_left[first as usize]);
            row_left[first as usize] -= amount;
            column_left[end as usize] -= amount;
            for &(row, column) in &path {
                *flow.entry((row, column)).or_insert(0) += amount;
                if let Some(before) = from_column[row as usize] {
                    *flow.get_mut(&(row, before)).expect("it carried flow") -= amount;
                }
            }
        }
    }
}

/// Fills what was not met, and makes more rows never cost more columns. The curve starts with no
/// row dropped and all columns, which every way of filling it meets.
fn falling(choices: Vec<Option<Choice>>) -> Vec<Choice> {
    let mut curve: Vec<Choice> = Vec::with_capacity(choices.len());
    for choice in choices {
        match (choice, curve.last()) {
            (Some(choice), None) => curve.push(choice),
            (Some(choice), Some(last)) if choice.columns < last.columns => curve.push(choice),
            (choice, Some(last)) => {
                let floor = choice.map_or(last.floor, |choice| choice.floor.min(last.floor));
                let kept = Choice { floor, ..last.clone() };
                curve.push(kept);
            }
            (None, None) => unreachable!("no row dropped is always met"),
        }
    }
    curve
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn groups() -> impl Strategy<Value = Group> {
        prop::collection::btree_set((0_u32..9, 0_u32..7), 1..30).prop_map(|faults| {
            let faults: Vec<(u32, u32)> = faults.into_iter().collect();
            Group::new(connected(&faults).into_iter().max_by_key(Vec::len).unwrap())
        })
    }

    proptest! {
        /// What a large group is bounded by holds the optimum between, and meets it at corners.
        #[test]
        fn hulls_hold_the_curve(group in groups()) {
            let hull = group.hull();
            prop_assert_eq!(hull.len(), group.options.len());
            for (rows, (exact, bounded)) in (0..).zip(group.options.iter().zip(&hull)) {
                prop_assert!(bounded.floor <= exact.columns && exact.columns <= bounded.columns);
                prop_assert!(bounded.rows.len() <= rows);
                let needed = group.columns_without(&bounded.rows).len() as u32;
                prop_assert_eq!(needed, bounded.columns);
            }
            let sum = |at: usize, choice: &Choice| at as u32 + choice.columns;
            let least = |choices: &[Choice]| {
                choices.iter().enumerate().map(|(at, choice)| sum(at, choice)).min()
            };
            prop_assert_eq!(least(&hull), least(&group.options)); // König's minimum cover
        }

        #[test]
        fn exact_choices_cover_what_they_say(group in groups()) {
            for choice in &group.options {
                let needed = group.columns_without(&choice.rows).len() as u32;
                prop_assert_eq!((needed, choice.floor), (choice.columns, choice.columns));
            }
        }
    }

    /// One group of 64 x 64 lines: far too many for all subsets, and the bound is near.
    #[test]
    fn a_dense_grid_is_bounded() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let nodes = (0..64).flat_map(|row| (0..64).map(move |column| (row, column)));
        let faults: Vec<(u32, u32)> = nodes.filter(|_| random.random_bool(0.03)).collect();
        let covers = Covers::new(&faults);
        assert!(covers.groups.iter().any(|group| group.rows.len().min(group.columns.len()) > 20));
        for (rows, (&least, &floor)) in (0..).zip(covers.least().iter().zip(covers.floor())) {
            assert!(floor <= least);
            let (kept, columns) = covers.cover(rows);
            assert!(kept.len() as u32 <= rows && columns.len() as u32 <= least);
            let covered = |&(r, c): &(u32, u32)| kept.contains(&r) || columns.contains(&c);
            assert!(faults.iter().all(covered));
        }
    }
}
