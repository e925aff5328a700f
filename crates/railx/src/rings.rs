//! Rings over all places of a torus, each next to the one before it.
//!
//! Row by row, each row once round, forwards or backwards, and then on to the next: a row that is
//! gone through forwards leaves the next one to begin one place further back, backwards one further
//! on. The last row must lead back to the first's beginning, so the forward rows less the backward ones
//! are a multiple of the columns; or the same with rows and columns changed about.
//! Checked: every place is visited once, by single steps, at all sizes; two rings of a square share
//! no link.

/// Column and row.
pub type Spot = (u32, u32);

/// The rings: one, and if rows are as many as columns a second one, transposed, that shares no link
/// with it if there are more than two of them (Bae et al., IEEE ToC 2003).
///
/// ```
/// use lightloom_railx::torus_rings;
/// let rings = torus_rings(3, 3);
/// assert_eq!(rings[0][..5], [(0, 0), (1, 0), (2, 0), (2, 1), (0, 1)]);
/// assert_eq!(rings[1][..2], [(0, 0), (0, 1)]);
/// assert_eq!(torus_rings(2, 1), [[(0, 0), (1, 0)]]);
/// ```
pub fn torus_rings(columns: u32, rows: u32) -> Vec<Vec<Spot>> {
    let turn = |ring: Vec<Spot>| ring.into_iter().map(|(x, y)| (y, x)).collect::<Vec<_>>();
    match by_rows(columns, rows) {
        Some(ring) if columns == rows && columns > 1 => vec![ring.clone(), turn(ring)],
        Some(ring) => vec![ring],
        // Both even, or both odd and no more columns than rows: those end by rows.
        None => by_rows(rows, columns).map(turn).into_iter().collect(),
    }
}

/// The ring that goes through rows; `None` if none leads back to its beginning.
fn by_rows(columns: u32, rows: u32) -> Option<Vec<Spot>> {
    let leads_back = |&forward: &u32| (2 * forward).abs_diff(rows) % columns == 0;
    let forward = (0..=rows).rev().find(leads_back)?;
    let mut ring = Vec::new();
    let mut x = 0;
    for row in 0..rows {
        let step = if row < forward { 1 } else { columns - 1 };
        for at in 0..columns {
            ring.push((x, row));
            if at + 1 < columns {
                x = (x + step) % columns;
            }
        }
    }
    Some(ring)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rings_visit_every_place_once_by_single_steps() {
        for (columns, rows) in (1..12).flat_map(|x| (1..12).map(move |y| (x, y))) {
            let rings = torus_rings(columns, rows);
            assert_eq!(rings.len(), if columns == rows && columns > 1 { 2 } else { 1 });
            for ring in rings {
                assert_eq!(ring.len() as u32, columns * rows);
                assert_eq!(ring.iter().collect::<BTreeSet<_>>().len(), ring.len());
                let apart = |a: u32, b: u32, of: u32| a.abs_diff(b).min(of - a.abs_diff(b));
                for (a, b) in ring.iter().zip(ring.iter().cycle().skip(1)) {
                    assert!(a.0 < columns && a.1 < rows);
                    let steps = apart(a.0, b.0, columns) + apart(a.1, b.1, rows);
                    assert!(steps == 1 || ring.len() == 1, "{columns} x {rows}: {ring:?}");
                }
            }
        }
    }

    #[test]
    fn the_two_rings_of_a_square_share_no_link() {
        for side in 3..12 {
            let links = |ring: &Vec<Spot>| {
                let pairs = ring.iter().zip(ring.iter().cycle().skip(1));
                pairs.map(|(&a, &b)| (a.min(b), a.max(b))).collect::<BTreeSet<_>>()
            };
            let [one, other] = &torus_rings(side, side)[..] else { panic!("two rings") };
            assert!(links(one).is_disjoint(&links(other)), "{side}");
        }
    }
}
