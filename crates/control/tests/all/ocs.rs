//! The optical switch against a set of patches.

use lightloom_control::Patch;
use lightloom_control::ocs::{Device, Switch, SwitchError, SwitchEvent};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use proptest::prelude::*;
use std::collections::BTreeSet;

const PORTS: u16 = 6;

fn device(delay: ReconfigurationDelay) -> Device {
    Device { name: "test".into(), ports: PORTS, delay }
}

fn fixed(ms: u64) -> Switch {
    Switch::new(device(ReconfigurationDelay::Fixed { ps: Time::from_ms(ms) }), 1).unwrap()
}

/// MixNet, Appendix C.
fn measured(seed: u64) -> Switch {
    let ms = |values: [f64; 3]| values.map(|v| Time::from_secs_f64(v / 1e3)).to_vec();
    let delay = ReconfigurationDelay::Lognormal {
        pairs: vec![1, 4, 16],
        mean_ps: ms([41.44, 42.44, 46.75]),
        p99_ps: ms([60.0, 62.0, 68.0]),
    };
    Switch::new(device(delay), seed).unwrap()
}

fn all(switch: &Switch) -> Vec<Patch> {
    switch.patches().collect()
}

fn patch() -> impl Strategy<Value = Patch> {
    (0..=PORTS + 1, PORTS..=2 * PORTS + 1).prop_map(|(from, to)| Patch::new(from, to))
}

fn patches() -> impl Strategy<Value = Vec<Patch>> {
    prop::collection::vec(patch(), 0..4)
}

/// What a change makes of a state, by the plainest means.
fn model(state: &BTreeSet<Patch>, end: &[Patch], set: &[Patch]) -> Option<BTreeSet<Patch>> {
    let mut next = state.clone();
    if !end.iter().all(|patch| next.remove(patch)) {
        return None;
    }
    for patch in set {
        let known =
            (1..=PORTS).contains(&patch.ingress) && (PORTS + 1..=2 * PORTS).contains(&patch.egress);
        let free = |other: &Patch| other.ingress != patch.ingress && other.egress != patch.egress;
        if !known || !next.iter().all(free) {
            return None;
        }
        next.insert(*patch);
    }
    Some(next)
}

proptest! {
    #[test]
    fn a_change_does_all_that_it_says_or_nothing(changes in prop::collection::vec((patches(), patches(), 0..60u64), 0..40)) {
        let mut switch = fixed(25);
        let (mut state, mut now) = (BTreeSet::new(), Time::ZERO);
        let mut moving: Vec<(Time, Vec<u16>)> = Vec::new();
        for (mut end, set, wait) in changes {
            now += Time::from_ms(wait);
            // Half of what is to end should stand, or little would ever happen.
            end.extend(state.iter().take(wait as usize % 3).copied());
            switch.advance(now);
            moving.retain(|(until, _)| *until > now);
            let touched: Vec<u16> =
                end.iter().chain(&set).flat_map(|p| [p.ingress, p.egress]).collect();
            let busy = moving.iter().any(|(_, ports)| ports.iter().any(|p| touched.contains(p)));
            let answer = switch.apply(now, &end, &set);
            match model(&state, &end, &set).filter(|_| !busy) {
                Some(next) => {
                    let done = answer.unwrap();
                    prop_assert_eq!(done > now, !set.is_empty());
                    moving.push((done, touched));
                    state = next;
                }
                None => prop_assert!(answer.is_err()),
            }
            prop_assert_eq!(all(&switch), state.iter().copied().collect::<Vec<_>>());
            for ingress in 1..=PORTS {
                let patch = state.iter().find(|patch| patch.ingress == ingress);
                let dark = moving
                    .iter()
                    .any(|(until, ports)| *until > now && ports.contains(&ingress));
                let live = patch.filter(|_| !dark).map(|patch| patch.egress);
                prop_assert_eq!(switch.live_egress(now, ingress), live);
            }
        }
    }

    #[test]
    fn faults_leave_it_legal(
        orders in prop::collection::vec((patches(), patches(), 1..=2 * PORTS, any::<bool>(), any::<bool>()), 0..40),
    ) {
        let mut switch = fixed(0);
        let mut now = Time::ZERO;
        for (mut end, set, port, stuck, tampered) in orders {
            now += Time::from_ms(1);
            switch.stick(port, stuck);
            let kept = switch.patch_of(port);
            end.extend(switch.patches().take(1));
            match tampered {
                true => switch.tamper(&end, &set),
                false => {
                    let _ = switch.apply(now, &end, &set);
                    prop_assert!(!stuck || switch.patch_of(port) == kept);
                }
            }
            let patches = all(&switch);
            let ports: BTreeSet<u16> = patches.iter().flat_map(|p| [p.ingress, p.egress]).collect();
            prop_assert_eq!(ports.len(), 2 * patches.len());
            for patch in patches {
                prop_assert!(patch.ingress <= PORTS && patch.egress > PORTS);
            }
        }
    }
}

#[test]
fn only_ports_that_change_are_dark_and_others_may_change_meanwhile() {
    let mut switch = fixed(25);
    let first = switch.apply(Time::ZERO, &[], &[Patch::new(1, 7), Patch::new(2, 8)]).unwrap();
    let (move_, keep) = (Patch::new(1, 7), Patch::new(2, 8));
    let second = switch.apply(first, &[move_], &[Patch::new(1, 9)]).unwrap();
    assert_eq!(
        (switch.live_egress(first, 1), switch.live_egress(first, keep.ingress)),
        (None, Some(8))
    );
    assert_eq!(switch.apply(first, &[], &[Patch::new(3, 7)]), Err(SwitchError::Busy(7)));
    let soon = first + Time::from_ms(10);
    let third = switch.apply(soon, &[], &[Patch::new(4, 10)]).unwrap();
    assert_eq!((second, third), (first + Time::from_ms(25), first + Time::from_ms(35)));
    assert_eq!(switch.next_timeout(), Some(Time::from_ms(25)));
    switch.advance(third);
    let set: Vec<_> = std::iter::from_fn(|| switch.event())
        .map(|event| match event {
            SwitchEvent::Changed { set, .. } => set.len(),
            SwitchEvent::Power { .. } => panic!("no light"),
        })
        .collect();
    assert_eq!((set, switch.next_timeout()), (vec![2, 1, 1], None));
}

#[test]
fn a_circuit_is_one_pair_and_ending_takes_no_time() {
    let (mut one, mut same) = (measured(7), measured(7));
    let pair = Patch::pair(PORTS, 1, 2);
    let done = one.apply(Time::ZERO, &[], &pair).unwrap();
    assert_eq!(same.apply(Time::ZERO, &[], &pair[..1]).unwrap(), done, "one draw for one pair");
    assert_eq!(one.apply(done, &pair, &[]), Ok(done));
    assert_ne!(one.apply(done, &[], &pair).unwrap(), done + done, "delays are drawn anew");
}

#[test]
fn shutters_and_power() {
    let mut switch = fixed(0);
    let now = Time::ZERO;
    switch.apply(now, &[], &[Patch::new(1, 9)]).unwrap();
    switch.advance(now);
    while switch.event().is_some() {}
    switch.illuminate(now, 1, Some(-3.0));
    assert_eq!((switch.power(now, 1), switch.power(now, 9)), (Some(-3.0), Some(-4.5)));
    assert_eq!(
        (switch.power(now, 2), switch.power(now, 8), switch.power(now, 99)),
        (None, None, None)
    );
    for closed in [1, 9] {
        switch.shut(closed, true);
        assert_eq!((switch.live_egress(now, 1), switch.power(now, 9)), (None, None));
        assert_eq!(switch.power(now, 1), Some(-3.0), "it comes, but not through");
        switch.shut(closed, false);
    }
    switch.illuminate(now, 1, Some(-60.0));
    assert_eq!(switch.power(now, 1), None, "too little to be seen");
    switch.illuminate(now, 1, Some(Switch::FLOOR_DBM + 1.0));
    assert_eq!(switch.power(now, 9), None, "lost inside");
    switch.illuminate(now, 0, Some(0.0));
    let seen: Vec<_> = std::iter::from_fn(|| switch.event())
        .map(|event| match event {
            SwitchEvent::Power { port, dbm } => (port, dbm.is_some()),
            SwitchEvent::Changed { .. } => panic!("nothing changed"),
        })
        .collect();
    assert_eq!(seen, [(1, true), (9, true), (1, false), (9, false), (1, true), (9, false)]);
}

#[test]
fn a_stuck_port_lies() {
    let mut switch = fixed(25);
    let old = Patch::pair(PORTS, 1, 2);
    let mut now = switch.apply(Time::ZERO, &[], &old).unwrap();
    switch.stick(1, true);
    now = switch.apply(now, &old, &Patch::pair(PORTS, 1, 3)).unwrap();
    switch.advance(now);
    assert_eq!(all(&switch), [Patch::new(1, 8), Patch::new(3, 7)], "1 stays with 2");
    assert_eq!(
        [switch.event(), switch.event()].map(|event| match event {
            Some(SwitchEvent::Changed { set, .. }) => set.len(),
            _ => 0,
        }),
        [2, 2],
        "and it says that all is done"
    );
}

#[test]
fn switches_that_cannot_be_are_refused() {
    let make = |ports, delay| Switch::new(Device { name: String::new(), ports, delay }, 1);
    let zero = ReconfigurationDelay::Fixed { ps: Time::ZERO };
    for ports in [0, 4097, u16::MAX] {
        assert_eq!(make(ports, zero.clone()).unwrap_err(), SwitchError::Ports(ports));
    }
    assert!(make(4096, zero).is_ok());
    for (pairs, times) in
        [(vec![], vec![]), (vec![1, 1], vec![1, 1]), (vec![1], vec![0]), (vec![1], vec![])]
    {
        let mean_ps: Vec<_> = times.into_iter().map(Time::from_ms).collect();
        let delay = ReconfigurationDelay::Lognormal { pairs, p99_ps: mean_ps.clone(), mean_ps };
        assert_eq!(make(4, delay).unwrap_err(), SwitchError::Delay);
    }
    let mut switch = make(4, ReconfigurationDelay::Fixed { ps: Time::ZERO }).unwrap();
    let text = |patch| switch.clone().apply(Time::ZERO, &[], &[patch]).unwrap_err().to_string();
    assert_eq!(text(Patch::new(5, 5)), "ingress 5: ingresses are 1 to 4");
    assert_eq!(text(Patch::new(4, 4)), "egress 4: egresses are 5 to 8");
    assert_eq!(
        switch.apply(Time::ZERO, &[Patch::new(1, 5)], &[]).unwrap_err().to_string(),
        "ports 1 and 5 are not patched"
    );
}
