//! Bills: a golden table, closed forms, and MixNet's cost ratios.

use lightloom_fabric::{
    Bill, ClosSpec, Cluster, FabricSpec, FatTree, Item, MixNetSpec, Panel, RailOptimized,
    Splitting, TopoOptSpec, build,
};
use lightloom_units::{BitRate, Time};
use proptest::prelude::*;

const DELAY: Time = Time::from_us(1);

fn gbps(rate: u64) -> BitRate {
    BitRate::from_gbps(rate)
}

fn bill(gpus: u32, spec: &FabricSpec) -> Bill {
    build(&Cluster::of(gpus, 8), spec, 4, &[]).expect("valid").bill().clone()
}

fn oversubscribed(rate: BitRate, tiers: u8, ratio: f64, splitting: Splitting) -> ClosSpec {
    ClosSpec { tiers, oversubscription: ratio, splitting, ..ClosSpec::new(rate, DELAY) }
}

fn kinds(rate: BitRate) -> [(&'static str, FabricSpec); 9] {
    let topoopt = TopoOptSpec {
        link_bps: rate,
        link_delay_ps: DELAY,
        degree: 8,
        panel: Panel::MultiTier,
        panel_ports: 1008,
    };
    [
        ("fat-tree", FabricSpec::fat_tree(rate, DELAY)),
        ("fat-tree 3:1", FatTree(oversubscribed(rate, 3, 3.0, Splitting::Ideal)).into()),
        ("fat-tree 2 tiers", FatTree(oversubscribed(rate, 2, 1.0, Splitting::Ecmp)).into()),
        ("leaf-spine", FabricSpec::leaf_spine(rate, DELAY)),
        ("rail-optimized", FabricSpec::rail_optimized(rate, DELAY)),
        ("topoopt", FabricSpec::topoopt(8, rate, DELAY)),
        ("topoopt tiers", topoopt.into()),
        ("mixnet", FabricSpec::mixnet(6, rate, DELAY)),
        ("planes", FabricSpec::planes(rate, DELAY)),
    ]
}

/// 1024 GPUs. Counts do not depend on the rate, prices do.
const GOLDEN: &str = "\
fat-tree: nic 1024, transceiver 6144, switch_port 5120
fat-tree 3:1: nic 1024, transceiver 3416, switch_port 2392
fat-tree 2 tiers: nic 1024, transceiver 4118, switch_port 3094
leaf-spine: nic 1024, transceiver 4096, switch_port 3072
rail-optimized: nic 1024, transceiver 6144, switch_port 5120
topoopt: nic 1024, transceiver 1024, patch_port 1024
topoopt tiers: nic 1024, transceiver 1024, patch_port 3072
mixnet: nic 1024, transceiver 2304, switch_port 1280, ocs_port 768
planes: nic 1024, transceiver 1024, ocs_port 1024
";

#[test]
fn the_golden_table_at_four_rates() {
    for rate in [100, 200, 400, 800].map(gbps) {
        let mut table = String::new();
        for (name, spec) in kinds(rate) {
            let bill = bill(1024, &spec);
            assert!(bill.lines().all(|line| line.rate == rate));
            let lines: Vec<_> = bill.lines().map(|l| format!("{} {}", l.item, l.count)).collect();
            table += &format!("{name}: {}\n", lines.join(", "));
        }
        assert_eq!(table, GOLDEN);
    }
}

/// MixNet Table 4 \[$ a unit\]: transceiver, NIC, switch port at 100, 200, 400, 800 Gbps.
const PRICES: [(u64, [u64; 3]); 4] = [
    (100, [99, 659, 187]),
    (200, [239, 1079, 374]),
    (400, [659, 1499, 1090]),
    (800, [1399, 2248, 1400]),
];
const OCS_PORT: u64 = 520;
const PATCH_PORT: u64 = 100;

fn cost(bill: &Bill) -> u64 {
    let price = |item, rate: BitRate| {
        let row = PRICES.iter().find(|(at, _)| gbps(*at) == rate).expect("a rate of the table");
        match item {
            Item::Transceiver => row.1[0],
            Item::Nic => row.1[1],
            Item::SwitchPort => row.1[2],
            Item::OcsPort => OCS_PORT,
            Item::PatchPort => PATCH_PORT,
            Item::OpticalIo | Item::Circulator | Item::CopperCable | Item::BoardLink => {
                panic!("is on none of these bills")
            }
        }
    };
    bill.lines().map(|line| line.count * price(line.item, line.rate)).sum()
}

/// What follows from Table 4's prices and the ports counted: 2.0x on average, 2.3x at 400 Gbps
/// (MixNet Section 7.2).
#[test]
fn mixnet_costs_what_its_paper_says() {
    let ratios = [100, 200, 400, 800].map(|rate| {
        let of = |spec| cost(&bill(1024, &spec)) as f64;
        of(FabricSpec::fat_tree(gbps(rate), DELAY)) / of(FabricSpec::mixnet(6, gbps(rate), DELAY))
    });
    let rounded = ratios.map(|ratio| (ratio * 1000.0).round() / 1000.0);
    assert_eq!(rounded, [1.453, 1.771, 2.303, 2.341]);
}

#[test]
fn mixnet_lists_each_part_at_its_own_rate() {
    let mut spec = MixNetSpec::new(6, gbps(400), DELAY);
    spec.eps.link_bps = gbps(100);
    let bill = bill(1024, &spec.into());
    let lines: Vec<_> = bill.lines().map(|l| (l.item.name(), l.rate, l.count)).collect();
    let (slow, fast) = (gbps(100), gbps(400));
    let expected = [
        ("nic", slow, 256),
        ("nic", fast, 768),
        ("transceiver", slow, 6 * 256),
        ("transceiver", fast, 768),
        ("switch_port", slow, 5 * 256),
        ("ocs_port", fast, 768),
    ];
    assert_eq!(lines, expected);
}

proptest! {
    /// NICs, 1 + 2 (t - 1) / R switch ports and 2 + 2 (t - 1) / R transceivers a NIC, the uplinks
    /// of the whole cluster rounded up; whatever the radix, and how full the last switch is. Where
    /// every cable is one, part-filled switches have all uplinks of a full one besides.
    #[test]
    fn clos_bills_follow_the_closed_form(
        servers in 1u32..60,
        tiers in 2u8..4,
        ratio in prop::sample::select(vec![1.0, 1.5, 2.0, 3.0, 4.0, 7.0]),
        ecmp: bool,
        rails: bool,
    ) {
        let splitting = if ecmp { Splitting::Ecmp } else { Splitting::Ideal };
        let spec = oversubscribed(gbps(400), tiers, ratio, splitting);
        let spec = if rails { RailOptimized(spec).into() } else { FatTree(spec).into() };
        let bill = bill(servers * 8, &spec);
        let hosts = u64::from(servers) * 8;
        let uplinks = |hosts: u64| (hosts as f64 / ratio).ceil() as u64;
        let lists = if rails { 8 } else { 1 };
        let length = hosts / lists;
        let switches = |k: u64| lists * length.div_ceil(k / 2);
        let fits = |k: u64| switches(k) <= if tiers == 2 { k } else { k * k / 2 };
        let k = (2..).step_by(2).find(|&k| fits(k)).expect("some radix fits");
        let (tors, full) = (switches(k), length.min(k / 2));
        let pods = if tiers == 2 { 0 } else { tors.div_ceil(k / 2) };
        let ends = match ecmp {
            false => 2 * u64::from(tiers - 1) * uplinks(hosts),
            true => 2 * (uplinks(tors * full) + uplinks(pods * tors.min(k / 2) * full)),
        };
        prop_assert_eq!(bill.count(Item::Nic, gbps(400)), hosts);
        prop_assert_eq!(bill.count(Item::SwitchPort, gbps(400)), hosts + ends);
        prop_assert_eq!(bill.count(Item::Transceiver, gbps(400)), 2 * hosts + ends);
    }
}
