use super::*;
use crate::cluster::Cluster;
use crate::kind::build;
use crate::kinds::fat_tree::FatTree;

type Change = fn(&mut ClosSpec);

fn message(gpus: u32, change: Change) -> String {
    let mut spec = ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1));
    change(&mut spec);
    let built = build(&Cluster::of(gpus, 8), &FatTree(spec).into(), 1, &[]);
    built.expect_err("a bad value").to_string()
}

#[test]
fn bad_values_are_named_with_what_is_allowed() {
    let cases: [(Change, &str); 7] = [
        (|s| s.tiers = 4, "fabric.tiers = 4: must be 2 or 3"),
        (|s| s.oversubscription = 0.5, "fabric.oversubscription = 0.5: must be from 1 to 1024"),
        (|s| s.oversubscription = f64::NAN, "fabric.oversubscription = NaN: must be from"),
        (|s| s.radix = Some(7), "fabric.radix = 7: must be an even number from 2 to 65536"),
        (|s| s.radix = Some(8), "fabric.radix = 8: 3 tiers of such switches have no room for"),
        (|s| s.link_bps = BitRate::from_bps(0), "fabric.link_bandwidth = 0 bps: must be from"),
        (|s| s.link_delay_ps = Time::MAX, "fabric.link_delay = "),
    ];
    for (change, start) in cases {
        let message = message(1024, change);
        assert!(message.starts_with(start), "{message}");
    }
}

/// 8 hosts a switch at 3:1: three lanes of 8/9 of the rate each, 8/3 of it in all.
#[test]
fn oversubscribed_lanes_sum_exactly() {
    let mut spec = ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1));
    spec.oversubscription = 3.0;
    let total = 8 * 400_000_000_000 / 3;
    assert_eq!(uplinks(&spec, 8), [(total, 3)]);
    spec.splitting = Splitting::Ecmp;
    let lanes = uplinks(&spec, 8);
    assert_eq!(lanes.len(), 3);
    assert_eq!(lanes.iter().map(|lane| lane.0).sum::<u64>(), total);
    assert!(lanes.iter().all(|lane| lane.0.abs_diff(total / 3) <= 1));
}

/// Rails of three servers with switches of two hosts: full units first, rail by rail.
#[test]
fn rails_fill_switches_unit_by_unit() {
    let rails: Rails = (0..2).map(|i| (0..3).map(|s| NicId(2 * s + i)).collect()).collect();
    let tors: Vec<Vec<u32>> =
        in_order(&rails, 2).map(|tor| tor.iter().map(|nic| nic.0).collect()).collect();
    assert_eq!(tors, [vec![0, 2], vec![1, 3], vec![4], vec![5]]);
}
