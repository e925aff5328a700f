//! Where several jobs run.

use super::leaves::{Apart, Leaves, Need};
use super::site::{SharedFabric, unit};
use super::spec::{JobsSpec, PlacePolicy, Servers, SharedJob};
use crate::error::SimError;
use serde::Serialize;

/// Where jobs run, by job, in the order of ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Places {
    /// As they were given servers, or found room.
    pub together: Vec<Vec<u32>>,
    /// Each under leaves, or in pods, of its own; none if there are too few.
    pub apart: Option<Vec<Vec<u32>>>,
    /// Among how many such groups; 0 for none.
    pub groups: u32,
}

impl JobsSpec {
    /// Finds servers for jobs that are given none, after those that are; and for all of them apart.
    ///
    /// # Errors
    /// [`SimError::Input`] names the job that has no room, or servers that it cannot have.
    pub fn place(&self) -> Result<Places, SimError> {
        let shared = SharedFabric::of(self)?;
        let leaves = Leaves::of(&shared.fabric);
        let need =
            |job: &SharedJob| Need { servers: shared.needs(&job.spec), unit: unit(&job.spec) };
        let mut free = vec![true; shared.fabric.cluster().servers() as usize];
        let mut together: Vec<Vec<u32>> =
            self.jobs.iter().map(|job| job.servers.listed()).collect();
        for &server in together.iter().flatten() {
            if let Some(free) = free.get_mut(server as usize) {
                *free = false;
            }
        }
        for (number, job) in self.jobs.iter().enumerate() {
            let Servers::Policy(policy) = job.servers else { continue };
            let need = need(job);
            let found = match policy {
                PlacePolicy::Packed => leaves.packed(need, &free),
                PlacePolicy::Spread => leaves.spread(need, &free),
            };
            if (found.len() as u32) < need.servers {
                let whole = match need.unit {
                    1 => String::new(),
                    unit => format!(" in whole regions of {unit}"),
                };
                return Err(SimError::Input(format!(
                    "jobs[{number}].servers = \"{}\": needs {} servers{whole}, and {} of {} are free; \
                     allowed: a larger cluster.gpus, or smaller jobs",
                    policy.name(),
                    need.servers,
                    free.iter().filter(|&&free| free).count(),
                    free.len()
                )));
            }
            found.iter().for_each(|&server| free[server as usize] = false);
            together[number] = found;
        }
        shared.check(&self.jobs, &together)?;
        let needs: Vec<Need> = self.jobs.iter().map(need).collect();
        Ok(match leaves.apart(&needs) {
            Some(Apart { servers, groups }) => Places { together, apart: Some(servers), groups },
            None => Places { together, apart: None, groups: 0 },
        })
    }
}
