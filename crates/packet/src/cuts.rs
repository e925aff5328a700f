//! How fabrics are cut into units and shards.

use crate::layout::{Layout, Place};
use crate::tests::hosts;
use lightloom_engine::conformance::mixnet;
use lightloom_fabric::{LinkClass, NodeKind};

#[test]
fn every_link_has_a_place_of_its_own_near_its_neighbours() {
    let fabric = hosts(54, 3);
    for (groups, shards, joint) in [(1, 1, false), (6, 1, false), (6, 3, true), (9, 20, false)] {
        let layout = Layout::new(&fabric, groups, shards, joint);
        assert_eq!((layout.window, layout.shards.len()), (1_000_000, shards.min(groups)));
        for (shard, units) in layout.shards.iter().enumerate() {
            let mut places = Vec::new();
            for (at, unit) in (0..).zip(units) {
                assert!(!unit.links.is_empty() && (unit.links.len() == 1 || !unit.port));
                for &link in &unit.links {
                    assert_eq!(layout.units[link as usize], Place::new(shard, at));
                    places.push(layout.places[link as usize]);
                }
            }
            places.sort_unstable_by_key(|place| place.at());
            let all: Vec<Place> =
                (0..places.len() as u32).map(|at| Place::new(shard, at)).collect();
            assert_eq!(places, all);
            assert!(units.windows(2).all(|two| two[0].group <= two[1].group));
        }
        // A host and its ToR are in one shard.
        let host = |link: &&lightloom_fabric::Link| link.class == LinkClass::Host;
        let cables = (0usize..).zip(fabric.links()).filter(|(_, link)| host(link));
        for (link, _) in cables {
            let (there, back) = (layout.units[link], layout.units[link ^ 1]);
            assert!(there.shard() == back.shard() && there != back);
        }
    }
}

/// A server is one unit with its NICs and what is between its GPUs; nothing is in an optical switch.
#[test]
fn servers_are_units_and_optical_switches_are_none() {
    let fabric = mixnet();
    let layout = Layout::new(&fabric, 4, 2, false);
    for (id, link) in fabric.links().iter().enumerate() {
        let from = fabric.nodes()[link.from.index()].kind;
        let ocs = matches!(from, NodeKind::Ocs { .. });
        assert_eq!(layout.places[id].shard() == Place::THROUGH, ocs);
        if link.class.is_inside() {
            assert_eq!(layout.units[id], layout.units[id ^ 1]);
        }
    }
}
