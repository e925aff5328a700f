//! Several jobs on one grid with failed nodes (RailX, Appendix A.5: ML as a service).
//!
//! A job is some rows times some columns with no failed node in them, not necessarily neighbours:
//! rails are circuits, and a switch holds a ring for each job. Jobs share no node, so two of them
//! share no row or no column.
//! Modelled: cuts. The grid is one region; a job is placed in a region and what is left of it is cut
//! in two, by rows or by columns. The largest jobs are placed first; a beam keeps the placements
//! that use the most nodes, once freely, once dropping columns alone for failed nodes, once rows. Ignored: packings that no sequence of cuts makes; the order in which
//! tenants come. Not optimal; [`Packing::bound`] says by how much it may be off at most.
//! Checked: placements are legal on random grids, and fill what small grids can be seen to hold.

use super::allocation::{Covers, Faults, MOST_LINES};
use serde::{Deserialize, Serialize};
use std::cell::{OnceCell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Placements that are followed at a time.
const BEAM: usize = 24;

/// A job that asks for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Wanted {
    /// So many columns and rows of nodes, or the other way round.
    Shape {
        /// Nodes along a row.
        columns: u32,
        /// Nodes along a column.
        rows: u32,
    },
    /// So many nodes in any shape.
    Nodes(u32),
    /// As many nodes as can be: placed after those of a given size.
    Largest,
}

/// Where a job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placed {
    /// Its rows, rising.
    pub rows: Vec<u32>,
    /// Its columns, rising.
    pub columns: Vec<u32>,
}

/// Where all jobs are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Packing {
    /// By job, as asked; `None` where there was no room.
    pub jobs: Vec<Option<Placed>>,
    /// Nodes that have a job.
    pub used: u64,
    /// Nodes that work.
    pub healthy: u64,
    /// No packing of these jobs uses more.
    pub bound: u64,
}

impl Placed {
    /// Nodes it has.
    pub fn nodes(&self) -> u64 {
        self.rows.len() as u64 * self.columns.len() as u64
    }
}

/// Places jobs.
///
/// ```
/// use lightloom_railx::{Faults, Wanted, pack};
/// // Four failed nodes: one job loses two lines; several use every node that works.
/// let faults = Faults::new(8, 8, vec![(1, 2), (1, 5), (6, 1), (6, 7)]).unwrap();
/// assert_eq!(pack(&faults, &[Wanted::Largest]).used, 6 * 8);
/// let three = pack(&faults, &[Wanted::Largest; 3]);
/// assert_eq!((three.used, three.healthy), (60, 60));
/// ```
pub fn pack(faults: &Faults, jobs: &[Wanted]) -> Packing {
    let whole = Region::new(
        (0..faults.rows()).collect(),
        (0..faults.columns()).collect(),
        faults.at().to_vec(),
    );
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    // Of equally many nodes, the longer is harder to place.
    order.sort_by_key(|&job| match jobs[job] {
        Wanted::Shape { columns, rows } => {
            (0, Reverse((u64::from(columns) * u64::from(rows), columns.max(rows))))
        }
        Wanted::Nodes(nodes) => (0, Reverse((u64::from(nodes), 0))),
        Wanted::Largest => (1, Reverse((0, 0))),
    });
    let whole = Rc::new(whole);
    let menus = [Menu::Some, Menu::Columns, Menu::Rows];
    let found = menus.map(|menu| search(Rc::clone(&whole), jobs, &order, menu));
    let best = found.into_iter().reduce(|a, b| if b.worth() > a.worth() { b } else { a });
    let best = best.expect("there are menus");
    let mut places = vec![None; jobs.len()];
    for (job, placed) in best.placed {
        places[job] = Some((*placed).clone());
    }
    Packing { jobs: places, used: best.used, healthy: faults.healthy(), bound: bound(faults, jobs) }
}

/// How many rows are dropped for a job, and so how many columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Menu {
    /// Several that differ.
    Some,
    /// As few rows as can be.
    Columns,
    /// As few columns as can be.
    Rows,
}

/// The best placement that a beam finds.
fn search(whole: Rc<Region>, jobs: &[Wanted], order: &[usize], menu: Menu) -> State {
    let squares = whole.nodes().pow(2);
    let mut beam = vec![State { regions: vec![whole], placed: Vec::new(), used: 0, squares }];
    for &job in order {
        let mut moves = Vec::new();
        for (from, state) in beam.iter().enumerate() {
            for (at, region) in state.regions.iter().enumerate() {
                for of in region.moves(jobs[job], menu).iter() {
                    moves.push((state.worth_after(region, of), from, at, Rc::clone(of)));
                }
            }
        }
        moves.sort_by_key(|&(worth, ..)| Reverse(worth));
        moves.dedup_by_key(|&mut (worth, ..)| worth);
        moves.truncate(BEAM);
        let Some(&(least, ..)) = moves.last() else { continue };
        let mut next: Vec<State> =
            moves.iter().map(|(_, from, at, of)| beam[*from].after(job, *at, of)).collect();
        // A placement where there was no room goes on without the job.
        next.extend(beam.into_iter().filter(|state| state.worth() > least));
        next.sort_by_key(|state| Reverse(state.worth()));
        next.truncate(BEAM);
        beam = next;
    }
    beam.swap_remove(0)
}

/// The most nodes, not above those that work, that a set of jobs asks for, of those that fit alone.
fn bound(faults: &Faults, jobs: &[Wanted]) -> u64 {
    let (room, covers) = (faults.healthy(), Covers::new(faults.at()));
    let (all_rows, all_columns) = (faults.rows(), faults.columns());
    let fits = |rows: u32, columns: u32| {
        let Some(spare) = all_rows.checked_sub(rows) else { return false };
        let floor = covers.floor();
        let least = floor[(spare as usize).min(floor.len() - 1)];
        all_columns.checked_sub(columns).is_some_and(|spare| least <= spare)
    };
    let mut sizes = Vec::new();
    for &job in jobs {
        if job == Wanted::Largest {
            return room;
        }
        if let Some((rows, columns)) = shapes(job).into_iter().find(|&(r, c)| fits(r, c)) {
            sizes.push(u64::from(rows) * u64::from(columns));
        }
    }
    let all: u64 = sizes.iter().sum();
    if all <= room {
        return all;
    }
    // By sum: whether some of the jobs have it together.
    let mut sums = vec![false; room as usize + 1];
    sums[0] = true;
    for size in sizes {
        for sum in (size as usize..sums.len()).rev() {
            sums[sum] |= sums[sum - size as usize];
        }
        if sums[room as usize] {
            break;
        }
    }
    sums.iter().rposition(|&reached| reached).unwrap_or(0) as u64
}

/// Rows and columns that a job may have.
fn shapes(job: Wanted) -> Vec<(u32, u32)> {
    match job {
        Wanted::Shape { columns, rows } if columns == rows => vec![(rows, columns)],
        Wanted::Shape { columns, rows } => vec![(rows, columns), (columns, rows)],
        Wanted::Nodes(nodes) => {
            let divides = |rows: &u32| nodes % rows == 0;
            (1..=nodes.min(MOST_LINES)).filter(divides).map(|rows| (rows, nodes / rows)).collect()
        }
        Wanted::Largest => Vec::new(),
    }
}

/// Rows times columns that no job has yet.
struct Region {
    rows: Vec<u32>,
    columns: Vec<u32>,
    faults: Vec<(u32, u32)>,
    covers: OnceCell<Covers>,
    /// Of the last job that was tried here: many ask for the same.
    tried: RefCell<Option<(Wanted, Menu, Moves)>>,
}

/// A job in a region, and the regions that are left of it.
struct Move {
    placed: Rc<Placed>,
    left: Vec<Rc<Region>>,
}

/// The ways to place a job in a region that are followed.
type Moves = Rc<[Rc<Move>]>;

/// Jobs that have a place, and what is free.
struct State {
    regions: Vec<Rc<Region>>,
    placed: Vec<(usize, Rc<Placed>)>,
    used: u64,
    /// Of the nodes of each job and each region: few large pieces are better than crumbs.
    squares: u64,
}

impl State {
    /// More is better.
    fn worth(&self) -> (u64, u64) {
        (self.used, self.squares)
    }

    fn worth_after(&self, region: &Region, of: &Move) -> (u64, u64) {
        let left: u64 = of.left.iter().map(|region| region.nodes().pow(2)).sum();
        let nodes = of.placed.nodes();
        (self.used + nodes, self.squares - region.nodes().pow(2) + nodes.pow(2) + left)
    }

    fn after(&self, job: usize, at: usize, of: &Move) -> State {
        let (used, squares) = self.worth_after(&self.regions[at], of);
        let (mut regions, mut placed) = (self.regions.clone(), self.placed.clone());
        regions.swap_remove(at);
        regions.extend(of.left.iter().cloned());
        placed.push((job, Rc::clone(&of.placed)));
        State { regions, placed, used, squares }
    }
}

impl Region {
    fn new(rows: Vec<u32>, columns: Vec<u32>, faults: Vec<(u32, u32)>) -> Self {
        Region { rows, columns, faults, covers: OnceCell::new(), tried: RefCell::new(None) }
    }

    /// The ways to place a job here that are followed.
    fn moves(&self, wanted: Wanted, menu: Menu) -> Moves {
        let mut tried = self.tried.borrow_mut();
        match &*tried {
            Some((job, of, moves)) if (*job, *of) == (wanted, menu) => Rc::clone(moves),
            _ => {
                let moves: Moves = self
                    .places(wanted, menu)
                    .into_iter()
                    .map(Rc::new)
                    .flat_map(|placed| {
                        let cuts = self.cuts(&placed).into_iter();
                        cuts.map(move |left| Rc::new(Move { placed: Rc::clone(&placed), left }))
                    })
                    .collect();
                *tried = Some((wanted, menu, Rc::clone(&moves)));
                moves
            }
        }
    }

    fn nodes(&self) -> u64 {
        self.rows.len() as u64 * self.columns.len() as u64
    }

    fn covers(&self) -> &Covers {
        self.covers.get_or_init(|| Covers::new(&self.faults))
    }

    /// Some ways to place a job here: by how many rows are dropped for it.
    fn places(&self, wanted: Wanted, menu: Menu) -> Vec<Placed> {
        let least = self.covers().least();
        let (rows, columns) = (self.rows.len() as u32, self.columns.len() as u32);
        // (rows dropped, rows wanted, columns wanted)
        let mut placed = Vec::new();
        let mut choose = |fit: &[u32], more: &[u32], a: u32, b: u32| {
            let (Some(&first), Some(&last)) = (fit.first(), fit.last()) else { return };
            let chosen = match menu {
                Menu::Some => more.iter().copied().chain([first, last]).collect(),
                Menu::Columns => BTreeSet::from([first]),
                Menu::Rows => BTreeSet::from([last]),
            };
            placed.extend(chosen.into_iter().map(|x| self.place(x, a, b)));
        };
        let options =
            || (0..least.len() as u32).filter(|&x| x < rows && least[x as usize] < columns);
        if wanted == Wanted::Largest {
            let fit: Vec<u32> = options().collect();
            let mut largest = fit.clone();
            let nodes = |&x: &u32| u64::from(rows - x) * u64::from(columns - least[x as usize]);
            largest.sort_by_key(|x| Reverse(nodes(x)));
            largest.truncate(4);
            choose(&fit, &largest, u32::MAX, u32::MAX);
        }
        for (a, b) in shapes(wanted) {
            let fits = |x: &u32| {
                rows.checked_sub(a).is_some_and(|spare| *x <= spare)
                    && columns.checked_sub(b).is_some_and(|spare| least[*x as usize] <= spare)
            };
            let fit: Vec<u32> = options().filter(fits).collect();
            let middle = fit.get(fit.len() / 2).copied();
            choose(&fit, middle.as_slice(), a, b);
        }
        placed
    }

    /// A job of at most so many rows and columns, without the lines of a cover.
    fn place(&self, dropped: u32, rows: u32, columns: u32) -> Placed {
        let (no_rows, no_columns) = self.covers().cover(dropped);
        // Lines with failed nodes first: those nodes are in nobody's way then.
        let take = |lines: &[u32], without: &[u32], count: u32, of: fn(&(u32, u32)) -> u32| {
            let mut free: Vec<u32> =
                lines.iter().copied().filter(|line| without.binary_search(line).is_err()).collect();
            free.sort_by_key(|&line| {
                Reverse(self.faults.iter().filter(|at| of(at) == line).count())
            });
            free.truncate(count as usize);
            free.sort_unstable();
            free
        };
        Placed {
            rows: take(&self.rows, &no_rows, rows, |at| at.0),
            columns: take(&self.columns, &no_columns, columns, |at| at.1),
        }
    }

    /// What is left by the cut along rows, and by the cut along columns if that is another.
    fn cuts(&self, placed: &Placed) -> Vec<Vec<Rc<Region>>> {
        let without = |lines: &[u32], taken: &[u32]| -> Vec<u32> {
            lines.iter().copied().filter(|line| taken.binary_search(line).is_err()).collect()
        };
        let rows = without(&self.rows, &placed.rows);
        let columns = without(&self.columns, &placed.columns);
        let part = |rows: &[u32], columns: &[u32]| {
            let within = |&(row, column): &(u32, u32)| {
                rows.binary_search(&row).is_ok() && columns.binary_search(&column).is_ok()
            };
            let faults = self.faults.iter().copied().filter(within).collect();
            Region::new(rows.to_vec(), columns.to_vec(), faults)
        };
        let by_rows = [part(&rows, &self.columns), part(&placed.rows, &columns)];
        let by_columns = [part(&self.rows, &columns), part(&rows, &placed.columns)];
        let cuts = if rows.is_empty() || columns.is_empty() { 1 } else { 2 };
        [by_rows, by_columns]
            .into_iter()
            .take(cuts)
            .map(|parts| parts.into_iter().filter(|part| part.nodes() > 0).map(Rc::new).collect())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_fabric::railx::{Axis, Grid, Layout};
    use lightloom_fabric::{Cluster, Fabric, GpuId, RailXSpec, RailXTopology};
    use lightloom_units::{BitRate, Time};
    use proptest::prelude::*;

    /// Every job a torus of its own, on all rails of the grid that they share.
    fn tori(grid: Grid, jobs: &[&Placed]) -> Layout {
        let mut layout = Layout::dark(grid);
        for (axis, rail) in
            [Axis::X, Axis::Y].iter().flat_map(|a| (0..grid.rails()).map(move |r| (*a, r)))
        {
            for job in jobs {
                let (lines, ring) = match axis {
                    Axis::X => (&job.rows, &job.columns),
                    Axis::Y => (&job.columns, &job.rows),
                };
                lines.iter().for_each(|&line| layout.add(axis, line, rail, ring.clone()));
            }
        }
        layout
    }

    fn grids() -> impl Strategy<Value = Faults> {
        (1_u32..9, 1_u32..9).prop_flat_map(|(rows, columns)| {
            prop::collection::btree_set((0..rows, 0..columns), 0..10)
                .prop_map(move |at| Faults::new(rows, columns, at.into_iter().collect()).unwrap())
        })
    }

    fn wanted() -> impl Strategy<Value = Wanted> {
        prop_oneof![
            (1_u32..5, 1_u32..5).prop_map(|(columns, rows)| Wanted::Shape { columns, rows }),
            (1_u32..13).prop_map(Wanted::Nodes),
            Just(Wanted::Largest),
        ]
    }

    proptest! {
        /// What one job sends takes no link on which another is, and just the links that it would take
        /// with the grid to itself: jobs that run at once are simulated one by one.
        #[test]
        fn jobs_of_one_grid_share_no_link(
            faults in grids(), jobs in prop::collection::vec(wanted(), 1..5),
        ) {
            let packing = pack(&faults, &jobs);
            let placed: Vec<&Placed> = packing.jobs.iter().flatten().collect();
            let grid = Grid::new(2, 1, 32, faults.columns(), faults.rows());
            let (cluster, rate) = (Cluster::of(grid.chips(), 4), BitRate::from_gbps(100));
            let spec = RailXSpec { mesh: 2, ports: 1, ..RailXSpec::new(RailXTopology::Torus, rate, Time::ZERO) };
            let build = |jobs: &[&Placed]| {
                Fabric::railx(&cluster, &spec, &tori(grid, jobs)).expect("a layout that can be set")
            };
            let together = build(&placed);
            let mut taken = BTreeSet::new();
            for &job in &placed {
                let chip = |row: u32, column: u32| GpuId(4 * (row * faults.columns() + column));
                let nodes = job.rows.iter().flat_map(|&row| job.columns.iter().map(move |&c| (row, c)));
                let chips: Vec<GpuId> = nodes.map(|(row, column)| chip(row, column)).collect();
                let alone = build(&[job]);
                let mut own = BTreeSet::new();
                for (&from, &to) in chips.iter().flat_map(|a| chips.iter().map(move |b| (a, b))) {
                    let paths = [&alone, &together].map(|fabric| {
                        let mut path = Vec::new();
                        fabric.route(from, to, 7, &mut path).expect("a torus joins all");
                        path
                    });
                    prop_assert_eq!(&paths[0], &paths[1]);
                    own.extend(paths[1].iter().copied());
                }
                prop_assert!(own.is_disjoint(&taken));
                taken.extend(own);
            }
        }

        #[test]
        fn jobs_share_nothing_and_meet_no_fault(
            faults in grids(),
            jobs in prop::collection::vec(wanted(), 0..7),
        ) {
            let packing = pack(&faults, &jobs);
            let mut taken: BTreeSet<(u32, u32)> = faults.at().iter().copied().collect();
            let mut used = 0;
            for (job, placed) in jobs.iter().zip(&packing.jobs) {
                let Some(placed) = placed else { continue };
                let shape = (placed.rows.len() as u32, placed.columns.len() as u32);
                prop_assert!(*job == Wanted::Largest || shapes(*job).contains(&shape));
                for &row in &placed.rows {
                    for &column in &placed.columns {
                        prop_assert!(row < faults.rows() && column < faults.columns());
                        prop_assert!(taken.insert((row, column)));
                    }
                }
                used += placed.nodes();
            }
            prop_assert_eq!(used, packing.used);
            prop_assert!(used <= packing.bound && packing.bound <= packing.healthy);
        }

        /// A job alone fits if and only if the largest such job does.
        #[test]
        fn a_job_alone_is_placed_if_it_fits(faults in grids(), columns in 1_u32..9, rows in 1_u32..9) {
            let packing = pack(&faults, &[Wanted::Shape { columns, rows }]);
            let fits = |rows: u32, columns: u32| (0_u32..1 << faults.rows()).any(|kept| {
                let bad: BTreeSet<u32> =
                    faults.at().iter().filter(|at| kept >> at.0 & 1 == 1).map(|at| at.1).collect();
                kept.count_ones() >= rows && faults.columns() - bad.len() as u32 >= columns
            });
            prop_assert_eq!(packing.jobs[0].is_some(), fits(rows, columns) || fits(columns, rows));
        }
    }

    #[test]
    fn a_healthy_grid_is_tiled() {
        let healthy = Faults::new(16, 16, Vec::new()).unwrap();
        let jobs = [Wanted::Shape { columns: 8, rows: 8 }; 4];
        assert_eq!(pack(&healthy, &jobs).used, 256);
        let mixed: Vec<Wanted> = [(8, 16), (8, 8), (8, 4), (4, 8)]
            .map(|(columns, rows)| Wanted::Shape { columns, rows })
            .into();
        let packing = pack(&healthy, &mixed);
        assert_eq!((packing.used, packing.bound), (256, 256));
        assert!(packing.jobs.iter().all(Option::is_some));
        assert_eq!(pack(&healthy, &[Wanted::Nodes(60), Wanted::Nodes(64)]).used, 124);
    }

    /// As many jobs as there are failed rows and one use every node that works.
    #[test]
    fn tenants_use_every_healthy_node() {
        let faults = Faults::new(64, 64, (0..4).map(|i| (7 * i, 11 * i)).collect()).unwrap();
        let packing = pack(&faults, &[Wanted::Largest; 5]);
        assert_eq!((packing.used, packing.healthy), (4092, 4092));
        let jobs = vec![Wanted::Shape { columns: 8, rows: 8 }; 64];
        let packing = pack(&faults, &jobs);
        assert!(packing.used >= 62 * 64, "{}", packing.used);
        assert_eq!(packing.bound, 63 * 64);
    }
}
