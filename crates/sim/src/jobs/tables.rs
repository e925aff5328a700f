//! What became of jobs, as tables.

use super::outcome::JobRun;
use crate::bound::name;
use crate::table::Table;
use lightloom_fabric::{Fabric, LinkId, NodeKind};
use std::collections::BTreeMap;

/// Links that a result names.
const NAMED: usize = 256;

/// What links carry, by job.
pub(super) struct Carried<'a> {
    fabric: &'a Fabric,
    /// By job and link: bytes.
    bytes: &'a [Vec<u64>],
    /// By link: whether several jobs use it.
    shared: Vec<bool>,
}

impl<'a> Carried<'a> {
    pub fn new(fabric: &'a Fabric, bytes: &'a [Vec<u64>]) -> Self {
        let users = |link: usize| bytes.iter().filter(|of| of[link] > 0).count();
        let shared = (0..fabric.links().len()).map(|link| users(link) > 1).collect();
        Carried { fabric, bytes, shared }
    }

    /// Bytes of a job that leave NICs.
    pub fn between_servers(&self, job: usize) -> u64 {
        let nic = |link: usize| {
            let link = &self.fabric.links()[link];
            let from = self.fabric.nodes()[link.from.index()].kind;
            from == NodeKind::Nic && !link.class.is_inside()
        };
        self.sum(job, nic)
    }

    /// Bytes of a job on links that others use too, once a link.
    pub fn shared(&self, job: usize) -> u64 {
        self.sum(job, |link| self.shared[link])
    }

    fn sum(&self, job: usize, counts: impl Fn(usize) -> bool) -> u64 {
        let links = self.bytes[job].iter().enumerate();
        links.filter(|&(link, _)| counts(link)).map(|(_, bytes)| bytes).sum()
    }

    /// By job and class of links: bytes, and how many of them on links that several jobs use.
    pub fn by_class(&self, names: &[&str]) -> Table {
        let mut rows: BTreeMap<(usize, String), [u64; 3]> = BTreeMap::new();
        for (job, of) in self.bytes.iter().enumerate() {
            for (at, &bytes) in of.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
                let class = self.fabric.links()[at].class.to_string();
                let row = rows.entry((job, class)).or_default();
                let shared = self.shared[at];
                row[0] += bytes;
                row[1] += if shared { bytes } else { 0 };
                row[2] += u64::from(shared);
            }
        }
        let column = |at: usize| rows.values().map(move |row| row[at] as i64);
        Table::new("links")
            .names("job", rows.keys().map(|(job, _)| names[*job]))
            .names("class", rows.keys().map(|(_, class)| class))
            .integers("bytes", column(0))
            .integers("shared_bytes", column(1))
            .integers("shared_links", column(2))
    }

    /// The links that several jobs use, the fullest for their rate first: bytes of each job.
    pub fn fullest(&self, names: &[&str]) -> Table {
        let links = self.fabric.links();
        let all = |link: usize| self.bytes.iter().map(|of| of[link]).sum::<u64>() as f64;
        let used = |link: usize| all(link) / links[link].rate.bps().max(1) as f64;
        let mut order: Vec<usize> = (0..links.len()).filter(|&link| self.shared[link]).collect();
        order.sort_by(|&a, &b| used(b).total_cmp(&used(a)).then(a.cmp(&b)));
        order.truncate(NAMED);
        let mut rows: Vec<(usize, usize)> = Vec::new();
        for link in order {
            let jobs = (0..self.bytes.len()).filter(|&job| self.bytes[job][link] > 0);
            rows.extend(jobs.map(|job| (link, job)));
        }
        let link = |at: usize| self.fabric.link(LinkId(at as u32));
        Table::new("shared")
            .names("class", rows.iter().map(|&(at, _)| link(at).class.to_string()))
            .names("from", rows.iter().map(|&(at, _)| name(self.fabric, link(at).from)))
            .names("to", rows.iter().map(|&(at, _)| name(self.fabric, link(at).to)))
            .integers("rate_bps", rows.iter().map(|&(at, _)| link(at).rate.bps() as i64))
            .names("job", rows.iter().map(|&(_, job)| names[job]))
            .integers("bytes", rows.iter().map(|&(at, job)| self.bytes[job][at] as i64))
    }
}

/// One row a job; times are of an iteration, on average.
pub(super) fn jobs_table(names: &[&str], jobs: &[JobRun]) -> Table {
    let each = |of: fn(&JobRun) -> u64| {
        jobs.iter().map(move |job| of(job) as f64 / 1e12 / job.ends.len().max(1) as f64)
    };
    Table::new("jobs")
        .names("job", names.iter())
        .integers("iterations", jobs.iter().map(|job| job.ends.len() as i64))
        .numbers("start_s", jobs.iter().map(|job| job.start.as_secs_f64()))
        .numbers("end_s", jobs.iter().map(|job| job.end().as_secs_f64()))
        .numbers("iteration_s", each(|job| (job.end() - job.start).ps()))
        .numbers("compute_s", each(|job| job.breakdown.compute.ps()))
        .numbers("exposed_a2a_s", each(|job| job.breakdown.all_to_all.ps()))
        .numbers("exposed_other_s", each(|job| job.breakdown.other.ps()))
        .numbers("reconfiguration_s", each(|job| job.breakdown.reconfiguration.ps()))
        .integers("bytes", jobs.iter().map(|job| job.bytes as i64))
        .integers("between_servers_bytes", jobs.iter().map(|job| job.between_servers as i64))
        .integers("shared_bytes", jobs.iter().map(|job| job.shared as i64))
        .integers("reconfigurations", jobs.iter().map(|job| job.reconfigurations as i64))
        .names("carrier", jobs.iter().map(|job| &job.carrier))
}

/// One row an iteration.
pub(super) fn iterations_table(names: &[&str], jobs: &[JobRun]) -> Table {
    let rows: Vec<(usize, usize)> = (0..jobs.len())
        .flat_map(|job| (0..jobs[job].ends.len()).map(move |iteration| (job, iteration)))
        .collect();
    Table::new("iterations")
        .names("job", rows.iter().map(|&(job, _)| names[job]))
        .integers("iteration", rows.iter().map(|&(_, iteration)| iteration as i64))
        .integers("begin_ps", rows.iter().map(|&(job, at)| jobs[job].begin_of(at).ps() as i64))
        .integers("end_ps", rows.iter().map(|&(job, at)| jobs[job].ends[at].ps() as i64))
}
