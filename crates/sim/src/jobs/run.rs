//! Runs several jobs at once.

use super::graph::{Merged, Repeated};
use super::outcome::{JobRun, JobsRun};
use super::policy::Jobs;
use super::site::SharedFabric;
use super::spec::{JobsSpec, SharedJob};
use super::tables::{Carried, iterations_table, jobs_table};
use crate::beside::Beside;
use crate::carried;
use crate::critical::attribute;
use crate::error::SimError;
use crate::failures::{FailurePlan, Health};
use crate::medium::{self, Job, Setting};
use crate::record::{Progress, Watch};
use crate::sender::Sender;
use crate::simulate::{Workload, engine};
use lightloom_engine::{Outcome, Scenario};

impl JobsSpec {
    /// Runs all jobs at once; each is given servers. `workloads` are theirs, in order.
    ///
    /// # Errors
    /// [`SimError::Input`] if the fabric cannot be built or shared, or servers are not a job's to have;
    /// [`SimError::Run`] if the run fails or `progress` says `false`.
    pub fn run(
        &self,
        workloads: &[&Workload],
        progress: &mut Progress<'_>,
    ) -> Result<JobsRun, SimError> {
        if workloads.len() != self.jobs.len() {
            let (given, jobs) = (workloads.len(), self.jobs.len());
            return Err(SimError::Input(format!("{given} workloads for {jobs} jobs")));
        }
        let shared = SharedFabric::of(self)?;
        let servers: Vec<Vec<u32>> = self.jobs.iter().map(|job| job.servers.listed()).collect();
        shared.check(&self.jobs, &servers)?;
        let graphs = self.graphs(workloads)?;
        let merged = Merged::new(&graphs).ok_or_else(too_many)?;
        let (fabric, plan) = (&shared.fabric, FailurePlan::default());
        let rails = self.jobs[0].spec.fabric.kind().can().rails;
        let (mut senders, mut circuits) = (Vec::new(), Vec::new());
        for (number, (job, workload)) in self.jobs.iter().zip(workloads).enumerate() {
            workload.is_of(&job.spec)?;
            let graph = &graphs[number].graph;
            let of = Job { graph, placement: &workload.placement, gating: &workload.gating };
            let setting = Setting {
                spec: &job.spec,
                fabric,
                job: of,
                plan: &plan,
                decided: &shared.decided,
                carriers: carried::allowed(&job.spec)?,
                beside: Beside::default(),
                regions: shared.regions_of(&job.spec, &servers[number]),
            };
            let medium = (medium::of(job.spec.fabric.kind()).begin)(&setting)?;
            circuits.extend(medium.standing());
            let health = Health::new(fabric, rails, vec![]);
            let tokens = (&workload.placement, &workload.gating);
            let mut sender = Sender::new(fabric, graph, tokens, medium, health, &job.spec);
            sender.place(shared.gpus_of(&job.spec, &servers[number]));
            senders.push(sender);
        }
        let names = self.jobs.iter().map(|job| job.name.as_str()).collect();
        let mut policy = Jobs::new(&merged, senders, names, fabric.links().len());
        let scenario =
            Scenario { fabric, tasks: merged.tasks(), circuits: &circuits, incidents: &[] };
        let run_by = engine(&self.jobs[0].spec, Beside::default());
        let outcome = run_by.run(&scenario, &mut policy, &mut Watch(progress))?;
        Ok(self.collect(&shared, (&graphs, workloads), &policy, outcome))
    }

    fn graphs(&self, workloads: &[&Workload]) -> Result<Vec<Repeated>, SimError> {
        let repeated = |(job, workload): (&SharedJob, &&Workload)| {
            Repeated::new(&workload.graph, job.start, job.iterations).ok_or_else(too_many)
        };
        self.jobs.iter().zip(workloads).map(repeated).collect()
    }

    fn collect(
        &self,
        shared: &SharedFabric,
        (graphs, workloads): (&[Repeated], &[&Workload]),
        policy: &Jobs<'_, '_>,
        outcome: Outcome,
    ) -> JobsRun {
        let carried = Carried::new(&shared.fabric, &policy.carried);
        let mut jobs = Vec::with_capacity(self.jobs.len());
        let mut notes = shared.fabric.notes().to_vec();
        for (number, job) in self.jobs.iter().enumerate() {
            let sender = &policy.senders[number];
            let said = [sender.medium.note(), sender.carrier_note(&job.spec)];
            let all = said.into_iter().flatten().chain(workloads[number].notes.iter().cloned());
            notes.extend(all.map(|note| format!("{}: {note}", job.name)));
            let (own, repeated) = (part(&outcome, policy.merged, number), &graphs[number]);
            let (mut breakdown, _) = attribute(&repeated.graph, &own);
            // The wait for its start is no computation.
            breakdown.compute = breakdown.compute.saturating_sub(repeated.start);
            jobs.push(JobRun {
                start: repeated.start,
                ends: repeated.ends.iter().map(|&task| own.end[task as usize]).collect(),
                breakdown,
                bytes: own.bytes.iter().map(|bytes| bytes.get()).sum(),
                between_servers: carried.between_servers(number),
                shared: carried.shared(number),
                reconfigurations: changes(&outcome, policy.merged, number),
                carrier: sender.carrier(),
            });
        }
        let names = &policy.names;
        let tables = vec![
            jobs_table(names, &jobs),
            iterations_table(names, &jobs),
            carried.by_class(names),
            carried.fullest(names),
        ];
        let warnings = outcome.packets.map_or_else(Vec::new, |packets| packets.notes);
        JobsRun { jobs, tables, makespan: outcome.makespan, notes, warnings }
    }
}

fn too_many() -> SimError {
    SimError::Input("jobs: too many tasks in all; allowed: fewer iterations".into())
}

/// What an engine measured of one job's tasks.
fn part(outcome: &Outcome, merged: &Merged, job: usize) -> Outcome {
    let tasks = merged.tasks_of(job);
    let first = tasks.start as u32;
    let cause = |&cause: &u32| if cause == u32::MAX { cause } else { cause - first };
    Outcome {
        start: outcome.start[tasks.clone()].to_vec(),
        end: outcome.end[tasks.clone()].to_vec(),
        cause: outcome.cause[tasks.clone()].iter().map(cause).collect(),
        waited: outcome.waited[tasks.clone()].to_vec(),
        bytes: outcome.bytes[tasks].to_vec(),
        ..Outcome::default()
    }
}

/// Times that a job's circuits changed.
fn changes(outcome: &Outcome, merged: &Merged, job: usize) -> u64 {
    let tasks = merged.tasks_of(job);
    let own = |task: u32| tasks.contains(&(task as usize));
    let all = outcome.reconfigurations.iter().filter_map(|change| change.task);
    all.filter(|&task| own(task)).count() as u64
}
