//! Where every rail of every node leads.

use super::grid::Axis;
use super::layout::Layout;

/// The node at the far end of each rail end, looked up at once.
///
/// ```
/// use lightloom_fabric::railx::{Axis, Grid, Layout, Neighbours};
/// let mut layout = Layout::dark(Grid::new(4, 2, 8, 3, 1));
/// layout.add(Axis::X, 0, 5, vec![0, 2, 1]);
/// let neighbours = Neighbours::of(&layout);
/// assert_eq!(neighbours.next(0, Axis::X, 5, true), Some(2));
/// assert_eq!(neighbours.next(0, Axis::X, 5, false), Some(1));
/// assert_eq!(neighbours.next(0, Axis::X, 4, true), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    rails: u32,
    /// By node, axis, rail, + and -.
    next: Vec<u32>,
}

const DARK: u32 = u32::MAX;

impl Neighbours {
    /// The rails of a layout, whose rings are on nodes that are used ([`Layout::check`]).
    pub fn of(layout: &Layout) -> Self {
        let (grid, rails) = (layout.grid, layout.grid.rails());
        let ends = grid.nodes() as usize * 4 * rails as usize;
        let mut found = Neighbours { rails, next: vec![DARK; ends] };
        for (axis, rail, from, to) in layout.joins() {
            let [plus, minus] =
                [(from, true), (to, false)].map(|(n, end)| found.at(n, axis, rail, end));
            (found.next[plus], found.next[minus]) = (to, from);
        }
        found
    }
    /// The node at the far end of the + or - end of a rail, or `None` if the rail is dark there. It
    /// is entered by the other end of the same rail.
    pub fn next(&self, node: u32, axis: Axis, rail: u32, plus: bool) -> Option<u32> {
        let next = self.next[self.at(node, axis, rail, plus)];
        (next != DARK).then_some(next)
    }
    /// The rail ends of a node that are lit: axis, rail, whether +, and the node at the far end.
    pub fn ends(&self, node: u32) -> impl Iterator<Item = (Axis, u32, bool, u32)> + '_ {
        [Axis::X, Axis::Y].into_iter().flat_map(move |axis| {
            (0..self.rails).flat_map(move |rail| {
                let end = move |plus| Some((axis, rail, plus, self.next(node, axis, rail, plus)?));
                [true, false].into_iter().filter_map(end)
            })
        })
    }

    /// A rail end is dark from now on; that at its far end is not changed.
    pub(crate) fn darken(&mut self, node: u32, axis: Axis, rail: u32, plus: bool) {
        let at = self.at(node, axis, rail, plus);
        self.next[at] = DARK;
    }

    fn at(&self, node: u32, axis: Axis, rail: u32, plus: bool) -> usize {
        let line = node as usize * 2 + usize::from(axis == Axis::Y);
        (line * self.rails as usize + rail as usize) * 2 + usize::from(!plus)
    }
}
