//! Sums of gradients: reduce inside servers, ring between them, gather inside (MixNet Section 5.3,
//! "DP").
//!
//! Modelled: a group's members in one server, `m` of them, reduce-scatter so that each holds a
//! shard, `1/m` of the sum; shard `i` of every server goes around its own ring over the `s` servers
//! (multi-ring); then the members all-gather. A ring is a reduce-scatter and an all-gather of
//! `s - 1` steps each, its shard cut into `s` pieces: hop `i` carries all pieces but one, twice,
//! which is `2 (s - 1) / s` of the shard. One flow stands for all steps of a hop; the caller adds
//! the latency of the steps. Pieces are whole bytes, and hops add up to `2 (s - 1)` shards exactly.
//! Departures: the paper reduces to one gateway GPU per server; shards use every member's own NIC
//! and less of the scale-up network. A group with unequal numbers of members in its servers has no
//! common shards: its members form one flat ring ([`RingPlan::flat_groups`]).
//! Ignored: time to add; pipelining of steps; in-network reduction.
//! Checked: the shards' way is followed step by step; the closed form; conservation of bytes.

/// `(sending GPU, receiving GPU, bytes)`.
pub type Transfer = (u32, u32, u64);

/// Transfers of an all-reduce in three phases, one after the other. GPUs are numbered globally.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingPlan {
    /// Inside servers: each member's shard, from the others.
    pub reduce: Vec<Transfer>,
    /// The rings, one transfer a hop.
    pub ring: Vec<Transfer>,
    /// Inside servers: each member's shard, to the others.
    pub gather: Vec<Transfer>,
    /// Steps of the longest ring: `2 (s - 1)`, or 0 without rings.
    pub steps: u32,
    /// Groups that fell back to a flat ring.
    pub flat_groups: u32,
}

/// Plans the sum of `bytes_per_gpu` over each of `groups`, GPUs that hold the same parameters; all
/// groups at once. Rings visit servers, and flat rings GPUs, in rising order.
///
/// ```
/// use lightloom_workload::collective::hierarchical;
/// // GPUs 0 and 1 of server 0, 4 and 5 of server 1: shards of 500 bytes in two rings of two.
/// let plan = hierarchical(&[vec![0, 1, 4, 5]], 1000, 4);
/// assert_eq!(plan.reduce, [(0, 1, 500), (1, 0, 500), (4, 5, 500), (5, 4, 500)]);
/// assert_eq!(plan.ring, [(0, 4, 500), (4, 0, 500), (1, 5, 500), (5, 1, 500)]);
/// assert_eq!(plan.gather, [(0, 1, 500), (1, 0, 500), (4, 5, 500), (5, 4, 500)]);
/// assert_eq!(plan.steps, 2);
/// ```
pub fn hierarchical(groups: &[Vec<u32>], bytes_per_gpu: u64, gpus_per_server: u32) -> RingPlan {
    let mut plan = RingPlan::default();
    for group in groups {
        let mut members = group.clone();
        members.sort_unstable();
        members.dedup();
        let same_server =
            |a: &u32, b: &u32| a / gpus_per_server.max(1) == b / gpus_per_server.max(1);
        let servers: Vec<&[u32]> = members.chunk_by(same_server).collect();
        let Some(first) = servers.first() else {
            continue;
        };
        if servers.iter().any(|server| server.len() != first.len()) {
            plan.flat_groups += 1;
            plan.ring_over(&members, bytes_per_gpu);
            continue;
        }
        let shards = first.len();
        let size = |shard| piece(bytes_per_gpu, shards, shard);
        for server in &servers {
            for (i, &from) in server.iter().enumerate() {
                for (j, &to) in server.iter().enumerate().filter(|&(j, _)| j != i) {
                    plan.reduce.push((from, to, size(j)));
                    plan.gather.push((from, to, size(i)));
                }
            }
        }
        for shard in 0..shards {
            let ring: Vec<u32> = servers.iter().map(|server| server[shard]).collect();
            plan.ring_over(&ring, size(shard));
        }
    }
    for transfers in [&mut plan.reduce, &mut plan.ring, &mut plan.gather] {
        transfers.retain(|&(_, _, bytes)| bytes > 0); // fewer bytes than shards or pieces
    }
    plan
}

impl RingPlan {
    fn ring_over(&mut self, members: &[u32], bytes: u64) {
        let n = members.len();
        if n < 2 || bytes == 0 {
            return;
        }
        self.steps = self.steps.max(2 * (n as u32 - 1));
        for i in 0..n {
            // Reducing, member i passes on pieces i, i - 1, ... but never i + 1, which it ends
            // with; gathering, it passes on i + 1, i, ... but never i + 2.
            let kept = piece(bytes, n, (i + 1) % n) + piece(bytes, n, (i + 2) % n);
            self.ring.push((members[i], members[(i + 1) % n], 2 * bytes - kept));
        }
    }
}

/// Piece `at` of `bytes` cut into `pieces`; the first ones take the remainder.
fn piece(bytes: u64, pieces: usize, at: usize) -> u64 {
    let pieces = pieces as u64;
    bytes / pieces + u64::from((at as u64) < bytes % pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A ring all-reduce step by step: what each member has sent when every piece has got around.
    fn stepped(members: usize, bytes: u64) -> Vec<u64> {
        let mut sent = vec![0; members];
        // summed[i][k]: how many members' part of piece k is in i's copy.
        let mut summed = vec![vec![1usize; members]; members];
        for step in 0..2 * (members - 1) {
            let gathering = step >= members - 1;
            let before = summed.clone();
            for i in 0..members {
                let next = (i + 1) % members;
                let k = match gathering {
                    false => (i + members - step) % members,
                    true => (i + 1 + 2 * members - (step + 1)) % members,
                };
                sent[i] += piece(bytes, members, k);
                summed[next][k] = before[i][k] + if gathering { 0 } else { 1 };
            }
        }
        assert!(summed.iter().flatten().all(|&parts| parts == members));
        sent
    }

    /// Distinct GPUs of servers of four: equal numbers in each of some servers.
    fn equal_group() -> impl Strategy<Value = (Vec<u32>, u32, u32)> {
        let servers = prop::collection::btree_set(0u32..50, 1..7);
        (servers, 1u32..=4).prop_map(|(servers, members)| {
            let of = |server: &u32| (0..members).map(move |i| 4 * server + i).collect::<Vec<_>>();
            (servers.iter().flat_map(of).collect(), servers.len() as u32, members)
        })
    }

    proptest! {
        #[test]
        fn hops_carry_what_the_steps_carry(members in 2usize..9, bytes in 0u64..10_000) {
            let group: Vec<u32> = (0..members as u32).collect();
            let plan = hierarchical(&[group], bytes, 1);
            let mut sent = vec![0; members];
            plan.ring.iter().for_each(|&(from, _, bytes)| sent[from as usize] += bytes);
            prop_assert_eq!(sent, stepped(members, bytes));
        }

        #[test]
        fn bytes_follow_the_closed_form(
            (group, servers, members) in equal_group(), bytes in 1u64..1 << 40,
        ) {
            let plan = hierarchical(std::slice::from_ref(&group), bytes, 4);
            let (s, m) = (u64::from(servers), u64::from(members));
            let sum = |legs: &[Transfer]| legs.iter().map(|leg| leg.2).sum::<u64>();
            // Shards of one server add up to the buffer, so rings do to 2 (s - 1) buffers.
            prop_assert_eq!(sum(&plan.ring), 2 * (s - 1) * bytes);
            prop_assert_eq!(sum(&plan.reduce), s * (m - 1) * bytes);
            prop_assert_eq!(sum(&plan.gather), s * (m - 1) * bytes);
            prop_assert_eq!(plan.flat_groups, 0);
            prop_assert_eq!(plan.steps, if s > 1 { 2 * (servers - 1) } else { 0 });
            for &(from, to, carried) in &plan.ring {
                prop_assert_ne!(from / 4, to / 4);
                prop_assert_eq!(from % 4, to % 4);
                // 2 (s - 1) / s of 1 / m, but for whole bytes.
                let exact = 2.0 * (s - 1) as f64 * bytes as f64 / (s * m) as f64;
                prop_assert!((carried as f64 - exact).abs() <= 4.0 + exact * 1e-12);
            }
            for &(from, to, _) in plan.reduce.iter().chain(&plan.gather) {
                prop_assert!(from / 4 == to / 4 && from != to);
            }
            // Every member sends and receives on one ring.
            let mut ends: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            for &(from, to, _) in &plan.ring {
                ends.entry(from).or_default().0 += 1;
                ends.entry(to).or_default().1 += 1;
            }
            prop_assert!(ends.values().all(|&both| both == (1, 1)));
        }

        #[test]
        fn groups_do_not_mix(
            (a, ..) in equal_group(), (b, ..) in equal_group(), bytes in 0u64..1000,
        ) {
            let b: Vec<u32> = b.iter().map(|gpu| gpu + 400).collect();
            let alone = |group| hierarchical(std::slice::from_ref(group), bytes, 4);
            let (one, other) = (alone(&a), alone(&b));
            let both = hierarchical(&[a, b], bytes, 4);
            prop_assert_eq!(both.ring, [one.ring, other.ring].concat());
            prop_assert_eq!(both.reduce, [one.reduce, other.reduce].concat());
            prop_assert_eq!(both.steps, one.steps.max(other.steps));
        }
    }

    #[test]
    fn unequal_servers_fall_back_to_a_flat_ring_and_say_so() {
        // Server 0 holds two members, server 1 one.
        let plan = hierarchical(&[vec![5, 0, 1]], 900, 4);
        assert_eq!(plan.ring, [(0, 1, 1200), (1, 5, 1200), (5, 0, 1200)]);
        assert_eq!((plan.steps, plan.flat_groups), (4, 1));
        assert!(plan.reduce.is_empty() && plan.gather.is_empty());
    }

    #[test]
    fn one_gpu_or_none_has_nothing_to_send() {
        assert_eq!(hierarchical(&[vec![3], vec![]], 1 << 30, 8), RingPlan::default());
        assert_eq!(hierarchical(&[vec![0, 9]], 0, 8), RingPlan::default());
    }
}
