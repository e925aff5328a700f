use super::super::plan::Plan;
use super::*;
use crate::pool::{Pool, Tag};
use lightloom_units::Time;
use proptest::prelude::*;

fn rates(component: &Component) -> Vec<f64> {
    let server = component.flows.iter().map(|flow| flow.server as usize);
    server.map(|at| component.links[at].level).collect()
}

/// All flows of a pool.
fn filled(pool: &Pool, capacity: &[f64], now: Time) -> Component {
    let chosen: Vec<u32> = (0..pool.len() as u32).collect();
    let (mut plan, mut component) = (Plan::default(), Component::default());
    plan.gather(pool, &chosen, capacity, &mut vec![0; capacity.len()], (now, now));
    component.take_up(&plan);
    component
}

fn solved(capacity: &[f64], flows: &[Vec<u32>]) -> Component {
    let mut pool = Pool::default();
    for links in flows {
        pool.push(links.iter().copied(), 1e6, Tag::default());
    }
    let mut component = filled(&pool, capacity, Time::ZERO);
    component.solve(&mut Scratch::default());
    component
}

#[test]
fn the_textbook_example() {
    // Two links of 1 and 2; one flow over both, one on each.
    let component = solved(&[1.0, 2.0], &[vec![0, 1], vec![0], vec![1]]);
    assert_eq!(rates(&component), [0.5, 0.5, 1.5]);
}

#[test]
fn a_dark_link_carries_nothing() {
    let component = solved(&[0.0, 2.0], &[vec![0, 1], vec![1]]);
    assert_eq!(rates(&component), [0.0, 2.0]);
    assert_eq!(component.next_done(0.0), Some(Time::from_ps(500_000)));
}

#[test]
fn two_that_leave_and_one_that_changes_its_server() {
    // The second link gives way first; once its own two are gone, the first serves all.
    let mut component = solved(&[4.0, 3.0], &[vec![0, 1], vec![0], vec![1], vec![1]]);
    assert_eq!(rates(&component), [1.0, 3.0, 1.0, 1.0]);
    component.remove(2);
    component.remove(3);
    component.right_below = 1.0;
    component.solve(&mut Scratch::default());
    assert_eq!(rates(&component)[..2], [2.0, 2.0]);
}

proptest! {
    /// As flows leave, one instant after another, the rates of the rest are those that a new
    /// component gives them; and nothing gets lost on the way.
    #[test]
    fn filling_resumed_is_filling_anew(
        capacity in prop::collection::vec(prop::sample::select(vec![0.5, 1.0, 1.3, 2.0, 4.0]), 2..9),
        picks in prop::collection::vec(
            (prop::collection::vec(0u32..8, 1..4), 1u32..40, 0u8..4), 1..40),
    ) {
        let links = capacity.len() as u32;
        let mut pool = Pool::default();
        let mut component = solved(&capacity, &[]);
        let mut scratch = Scratch::default();
        let mut now = Time::ZERO;
        let (mut done, mut gone) = (Vec::new(), 0);
        let mut waiting = picks.iter().peekable();
        while waiting.peek().is_some() || component.live() > 0 {
            // Arrivals, in batches: the component is packed and begins anew.
            for (path, size, pause) in waiting.by_ref() {
                let mut path: Vec<u32> = path.iter().map(|l| l % links).collect();
                path.sort_unstable();
                path.dedup();
                let bytes = f64::from(*size) * 64.0;
                pool.push(path.into_iter(), bytes, Tag::default());
                if *pause == 0 {
                    break;
                }
            }
            component.drain_into(&mut pool);
            component = filled(&pool, &capacity, now);
            component.solve(&mut scratch);
            pool.clear();
            for _ in 0..if waiting.peek().is_some() { 3 } else { usize::MAX } {
                let Some(next) = component.next_done(0.0) else { break };
                prop_assert!(next > now, "nothing ends");
                now = next;
                component.advance(now, &mut done);
                prop_assert!(done.len() > gone, "an end without a flow");
                gone = done.len();
                component.solve(&mut scratch);
                let noted = component.given.from.len();
                prop_assert!(noted <= component.serving.len(), "notes pile up");
                component.drain_into(&mut pool);
                let mut anew = filled(&pool, &capacity, now);
                anew.solve(&mut scratch);
                pool.clear();
                let left = component.flows.iter().zip(rates(&component));
                let left = left.filter(|(flow, _)| flow.mark < f64::INFINITY);
                for ((_, resumed), fresh) in left.zip(rates(&anew)) {
                    prop_assert!((resumed - fresh).abs() <= 1e-9 * fresh, "{resumed} {fresh}");
                }
            }
        }
        prop_assert_eq!(done.len(), picks.len());
    }

    /// The definition: no link is overfull, and every flow crosses a full link on which no
    /// other flow is faster.
    #[test]
    fn rates_are_max_min_fair(
        capacity in prop::collection::vec(0.5f64..8.0, 2..9),
        picks in prop::collection::vec(prop::collection::vec(0u32..8, 1..5), 1..24),
    ) {
        let links = capacity.len() as u32;
        let flows: Vec<Vec<u32>> = picks
            .iter()
            .map(|p| {
                let mut p: Vec<u32> = p.iter().map(|l| l % links).collect();
                p.sort_unstable();
                p.dedup();
                p
            })
            .collect();
        let component = solved(&capacity, &flows);
        let rates = rates(&component);
        let mut used = vec![0.0; capacity.len()];
        let mut fastest = vec![0.0f64; capacity.len()];
        for (flow, links) in flows.iter().enumerate() {
            for &l in links {
                used[l as usize] += rates[flow];
                fastest[l as usize] = fastest[l as usize].max(rates[flow]);
            }
        }
        for l in 0..capacity.len() {
            prop_assert!(used[l] <= capacity[l] * (1.0 + 1e-9));
        }
        for (flow, links) in flows.iter().enumerate() {
            prop_assert!(links.iter().any(|&l| {
                let l = l as usize;
                used[l] >= capacity[l] * (1.0 - 1e-9) && rates[flow] >= fastest[l] * (1.0 - 1e-9)
            }), "flow {flow} of {rates:?} could be faster");
        }
    }
}
