use super::named::largest_all_to_all;
use super::*;
use crate::hamiltonian::rings_of;
use lightloom_fabric::railx::Neighbours;
use proptest::prelude::*;
use std::collections::HashMap;

/// How often the + end of one node is joined to the - end of another, by rail and in all.
fn joined(topology: &Topology) -> HashMap<(u32, u32), u32> {
    let grid = topology.layout.grid;
    let neighbours = Neighbours::of(&topology.layout);
    let mut counts = HashMap::new();
    for node in 0..grid.nodes() {
        for (_, _, plus, next) in neighbours.ends(node) {
            if plus {
                *counts.entry((node, next)).or_default() += 1;
            }
        }
    }
    counts
}

/// Every ring of a switch is on positions that differ in one digit, and together they are on all.
fn check_rings(topology: &Topology) -> Result<(), TestCaseError> {
    topology.layout.check().map_err(|e| TestCaseError::fail(e.to_string()))?;
    let Form::Product(dimensions) = &topology.form else { return Ok(()) };
    let grid = topology.layout.grid;
    for (axis, line, rail) in topology.layout.places() {
        let rings = topology.layout.rings(axis, line, rail);
        let of = dimensions.iter().find(|d| d.axis == axis && d.rails.contains(&rail));
        let Some(&Dimension { scale, stride, .. }) = of else {
            prop_assert!(rings.is_empty(), "a rail of no dimension is dark");
            continue;
        };
        if rings.is_empty() {
            continue; // beyond the last whole set, or of scale 1
        }
        let mut seen = rings.concat();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..grid.positions(axis)).collect::<Vec<_>>());
        for ring in rings {
            prop_assert_eq!(ring.len() as u32, scale);
            let rest = |at: u32| (at % stride, at / (stride * scale));
            prop_assert!(ring.iter().all(|&at| rest(at) == rest(ring[0])));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn tori_are_rings_over_all_positions(
        mesh in 1..4_u32, ports in 1..4_u32, columns in 1..9_u32, rows in 1..9_u32,
    ) {
        let torus = Topology::torus(Grid::new(mesh, ports, 16, columns, rows)).expect("it fits");
        check_rings(&torus)?;
        let ends = |positions: u32, lines: u32| if positions > 1 { positions * lines } else { 0 };
        let circuits = (ends(columns, rows) + ends(rows, columns)) * mesh * ports;
        prop_assert_eq!(torus.layout.circuits(), u64::from(circuits));
    }

    #[test]
    fn hyperx_joins_all_pairs_of_a_line_equally(
        mesh in 1..4_u32, ports in 1..8_u32, columns in 1..13_u32, rows in 1..13_u32,
    ) {
        let [columns, rows] = [columns, rows].map(|k| largest_all_to_all(k, mesh * ports));
        let grid = Grid::new(mesh, ports, 32, columns, rows);
        let hyperx = Topology::hyperx(grid).expect("it fits");
        check_rings(&hyperx)?;
        let counts = joined(&hyperx);
        for a in 0..grid.nodes() {
            for b in 0..grid.nodes() {
                let ((ax, ay), (bx, by)) = (grid.place(a), grid.place(b));
                let times = match (ax == bx, ay == by) {
                    (false, true) => grid.rails() / rings_of(columns) * rings_of(columns) / (columns - 1),
                    (true, false) => grid.rails() / rings_of(rows) * rings_of(rows) / (rows - 1),
                    _ => 0,
                };
                // + of a to - of b so often, and, as b is in turn an a, - of a to + of b
                prop_assert_eq!(counts.get(&(a, b)).copied().unwrap_or(0), times);
            }
        }
    }

    #[test]
    fn splits_keep_their_digits_apart(
        mesh in 1..4_u32, parts in prop::collection::vec((1..5_u32, 1..4_u32, any::<bool>()), 1..4),
        balanced in any::<bool>(),
    ) {
        let parts: Vec<DimensionSpec> = parts.into_iter().map(|(scale, rails, ring)| {
            let ring = ring || rings_of(scale) > rails;
            DimensionSpec { wiring: if ring { Wiring::Ring } else { Wiring::AllToAll }, scale, rails }
        }).collect();
        let share = if balanced { Share::Balanced } else { Share::Uneven };
        let hall = Grid::new(mesh, 9, 512, 1, 1);
        let split = Topology::split(hall, &parts, &parts[..1], share).expect("it fits");
        check_rings(&split)?;
        let Form::Product(dimensions) = &split.form else { unreachable!("a split is a product") };
        let of_x: Vec<&Dimension> = dimensions.iter().filter(|d| d.axis == Axis::X).collect();
        let mut rails: Vec<u32> = of_x.iter().flat_map(|d| d.rails.clone()).collect();
        rails.sort_unstable();
        prop_assert!(rails.windows(2).all(|two| two[0] < two[1]), "a rail is of one dimension");
        for (dimension, part) in of_x.iter().zip(&parts) {
            let times = if balanced { mesh } else { 1 };
            prop_assert_eq!(dimension.rails.len() as u32, times * part.rails);
        }
    }

    #[test]
    fn dragonflies_join_groups_and_their_nodes(
        mesh in 1..3_u32, ports in 1..4_u32, rows in 1..9_u32, columns in 1..16_u32,
    ) {
        let rails = mesh * ports;
        let rows = largest_all_to_all(rows, rails);
        let columns = largest_all_to_all(columns, rows * rails);
        let grid = Grid::new(mesh, ports, 32, columns, rows);
        let built = Topology::dragonfly(grid).expect("it fits");
        check_rings(&built)?;
        let mut groups: HashMap<(u32, u32), u32> = HashMap::new();
        let mut nodes = HashMap::new();
        for (&(a, b), &times) in &joined(&built) {
            let ((ax, ay), (bx, by)) = (grid.place(a), grid.place(b));
            if ax == bx {
                nodes.insert((a, b), times);
            } else {
                prop_assert_eq!(ay, by, "a circuit stays in its line");
                *groups.entry((ax, bx)).or_default() += times;
            }
        }
        if columns > 1 {
            prop_assert_eq!(groups.len() as u32, columns * (columns - 1));
            let times = rows * rails / rings_of(columns) * rings_of(columns) / (columns - 1);
            prop_assert!(groups.values().all(|&n| n == times));
        }
        if rows > 1 {
            prop_assert_eq!(nodes.len() as u32, columns * rows * (rows - 1));
            let times = rails / rings_of(rows) * rings_of(rows) / (rows - 1);
            prop_assert!(nodes.values().all(|&n| n == times));
        }
    }
}

#[test]
fn every_set_has_its_pairs_on_neighbouring_rails() {
    // 7 rings a set: the one without a partner comes after the pairs of all sets
    let hyperx = Topology::hyperx(Grid::new(4, 4, 128, 8, 8)).expect("it fits");
    let ring = |rail| &hyperx.layout.rings(Axis::X, 0, rail)[0];
    for rail in 0..6 {
        assert_eq!(ring(rail), ring(rail + 6));
    }
    assert_eq!(ring(12), ring(13));
    assert!(hyperx.layout.rings(Axis::X, 0, 14).is_empty());
}

#[test]
fn one_cycles_two_directions_are_on_neighbouring_rails() {
    let hyperx = Topology::hyperx(Grid::new(4, 2, 128, 9, 9)).expect("it fits");
    for rail in (0..8).step_by(2) {
        let [one, other] = [rail, rail + 1].map(|r| hyperx.layout.rings(Axis::X, 0, r)[0].clone());
        let mut back: Ring = other.iter().rev().copied().collect();
        let turn = back.iter().position(|&at| at == one[0]).expect("a ring is on all positions");
        back.rotate_left(turn);
        assert_eq!(one, back);
    }
}

#[test]
fn what_cannot_be_built_says_why() {
    let message = |built: Result<Topology, FabricError>| built.expect_err("wrong").to_string();
    let four = message(Topology::hyperx(Grid::new(1, 5, 128, 4, 5)));
    assert_eq!(four, "columns = 4: 5 rails join at most 5 nodes all to all, but 4 take 6");
    Topology::hyperx(Grid::new(1, 6, 128, 4, 5)).expect("six rings join four");
    let odd = message(Topology::torus(Grid::new(4, 2, 127, 4, 5)));
    assert!(odd.starts_with("ocs = 127: must be even"), "{odd}");
    let wide = message(Topology::torus(Grid::new(4, 2, 128, 65, 5)));
    assert!(wide.starts_with("columns = 65: must be from 1 to 64"), "{wide}");
    let part = |wiring, scale, rails| DimensionSpec { wiring, scale, rails };
    let split = |x: &[DimensionSpec], share| {
        message(Topology::split(Grid::new(4, 4, 128, 1, 1), x, &[], share))
    };
    let ring = part(Wiring::Ring, 3, 3);
    assert_eq!(
        split(&[ring, part(Wiring::AllToAll, 3, 2)], Share::Balanced),
        "x = 5 rails: the parts may have at most the 4 rails of a chip edge together"
    );
    assert_eq!(
        split(&[ring, part(Wiring::AllToAll, 9, 7)], Share::Uneven),
        "scale = 9: 7 rails join at most 8 nodes all to all"
    );
    let large = split(&[part(Wiring::Ring, 1 << 20, 1); 3], Share::Balanced);
    assert!(large.starts_with("columns = 4294967295: must be from 1 to 64"), "{large}");
}

#[test]
fn two_radices_make_one_large_dragonfly() {
    let hall = Grid { global_radix: Some(42), ..Grid::new(2, 2, 10, 21, 5) };
    let built = Topology::dragonfly(hall).expect("radices for 5 nodes and 21 groups");
    let ports = |axis, line| built.layout.cross_connect(axis, line, 0).expect("legal").ports();
    assert_eq!((ports(Axis::X, 4), ports(Axis::Y, 20)), (42, 10));
    assert_eq!(built.layout.circuits(), 21 * 5 * 4 * 2); // every rail has circuits
}
