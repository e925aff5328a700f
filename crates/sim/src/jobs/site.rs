//! The fabric that jobs share, and what cannot be shared.
//!
//! Modelled: packet switches, for which jobs may compete on every link; MixNet's regions, each of which
//! belongs to one job: its circuits are those of one job's blocks, as if nobody else were there.
//! Refused, since what is decided for one job would silently hold for all: TopoOpt's panel, planes and
//! RailX, whose circuits are laid out for a job; shapes of tori and HammingMeshes that are found for a
//! job; failures.

use super::spec::{JobsSpec, SharedJob};
use crate::carried;
use crate::error::SimError;
use crate::medium::{self, Decided};
use crate::simulate::{can_run, fills};
use crate::spec::{Spec, Work};
use lightloom_fabric::{Cluster, FABRICS, Fabric, FabricSpec, Site, build_at};

/// Media whose parts jobs can share, or have for themselves.
const SHARED: [&str; 3] = ["packets", "rails", "circuits"];

/// A fabric with room for several jobs.
pub(super) struct SharedFabric {
    pub fabric: Fabric,
    pub decided: Decided,
}

fn refused<T>(message: String) -> Result<T, SimError> {
    Err(SimError::Input(message))
}

impl SharedFabric {
    /// For these jobs.
    ///
    /// # Errors
    /// [`SimError::Input`] names the job and the key that cannot be.
    pub fn of(jobs: &JobsSpec) -> Result<Self, SimError> {
        let Some(SharedJob { spec: first, .. }) = jobs.jobs.first() else {
            return refused("jobs: none; allowed: at least one".into());
        };
        for (number, job) in jobs.jobs.iter().enumerate() {
            alike(first, &job.spec, number)?;
            alone_only(&job.spec, number)?;
        }
        let region_servers = region_servers(&jobs.jobs)?;
        let cluster = Cluster { gpus: jobs.gpus, ..first.cluster.clone() };
        let decided = Decided { fabric: shape(first, &cluster)?, ..Decided::default() };
        let site = Site { region_servers, ..Site::new(&cluster) };
        let wanted = decided.fabric.as_ref().unwrap_or(&first.fabric);
        let fabric = build_at(&site, wanted).map_err(|why| SimError::Input(why.to_string()))?;
        can_run(first.fabric.kind(), first.engine.name())?;
        Ok(SharedFabric { fabric, decided })
    }

    /// Of a fabric with regions: those that hold a job's blocks, on servers as [`SharedFabric::check`]
    /// allows them. A block that is no larger than a server has that for a region, and no circuits.
    pub fn regions_of(&self, spec: &Spec, servers: &[u32]) -> Vec<u32> {
        let unit = unit(spec);
        match spec.fabric.kind().can().regions {
            true => servers.iter().step_by(unit as usize).map(|server| server / unit).collect(),
            false => vec![],
        }
    }

    /// By rank of a job: its GPU.
    pub fn gpus_of(&self, spec: &Spec, servers: &[u32]) -> Vec<u32> {
        let per_server = self.fabric.cluster().gpus_per_server;
        let rank =
            |rank: u32| servers[(rank / per_server) as usize] * per_server + rank % per_server;
        (0..ranks(spec)).map(rank).collect()
    }

    /// Servers that a job fills.
    pub fn needs(&self, spec: &Spec) -> u32 {
        ranks(spec).div_ceil(self.fabric.cluster().gpus_per_server)
    }

    /// Whether the servers of jobs exist, are as many as they need, each one's own, and whole regions.
    ///
    /// # Errors
    /// [`SimError::Input`] names the job and the server.
    pub fn check(&self, jobs: &[SharedJob], servers: &[Vec<u32>]) -> Result<(), SimError> {
        let all = self.fabric.cluster().servers();
        let mut owner: Vec<Option<usize>> = vec![None; all as usize];
        for (number, (SharedJob { spec, .. }, servers)) in jobs.iter().zip(servers).enumerate() {
            let fail = |what: String| refused(format!("jobs[{number}].servers: {what}"));
            let needed = self.needs(spec);
            if servers.len() as u32 != needed {
                return fail(format!(
                    "{} servers for {} GPUs; allowed: {needed}",
                    servers.len(),
                    ranks(spec)
                ));
            }
            for &server in servers {
                match owner.get_mut(server as usize) {
                    None => {
                        let last = all - 1;
                        return fail(format!("{server}: no such server; allowed: 0 to {last}"));
                    }
                    Some(Some(other)) => {
                        return fail(format!(
                            "{server}: is a server of jobs[{other}]; allowed: servers of no other job"
                        ));
                    }
                    Some(free) => *free = Some(number),
                }
            }
            let unit = unit(spec);
            let whole = |part: &[u32]| {
                part[0] % unit == 0 && (part[0]..).zip(part).all(|(at, &server)| at == server)
            };
            if !servers.chunks(unit as usize).all(whole) {
                return fail(format!(
                    "a block of this job fills a region of {unit} servers; allowed: whole regions, \
                     from a multiple of {unit} on, in order"
                ));
            }
        }
        Ok(())
    }
}

/// How many servers in a row, from a multiple of that on, a job is given at once.
pub(super) fn unit(spec: &Spec) -> u32 {
    if spec.fabric.kind().can().regions { spec.region_servers() } else { 1 }
}

/// GPUs of a job.
fn ranks(spec: &Spec) -> u32 {
    spec.parallelism().gpus()
}

/// Whether servers, fabric and engine are those of the first job.
fn alike(first: &Spec, spec: &Spec, number: usize) -> Result<(), SimError> {
    let cluster = |spec: &Spec| Cluster { gpus: 0, ..spec.cluster.clone() };
    let said = |spec: &Spec| format!("{:?}", (&spec.fabric, &spec.engine));
    let differs = match (cluster(first) == cluster(spec), said(first) == said(spec)) {
        (false, _) => "cluster: its servers",
        (_, false) => "fabric, engine: they",
        _ => return Ok(()),
    };
    refused(format!(
        "jobs[{number}].{differs} differ from those of jobs[0]; allowed: one fabric for all jobs"
    ))
}

/// Refuses what is decided for one job alone.
fn alone_only(spec: &Spec, number: usize) -> Result<(), SimError> {
    let kind = spec.fabric.kind();
    if !SHARED.contains(&medium::of(kind).name) {
        let able = FABRICS.iter().filter(|kind| SHARED.contains(&medium::of(kind).name));
        let able: Vec<String> = able.map(|kind| format!("\"{}\"", kind.name())).collect();
        return refused(format!(
            "fabric.kind = \"{}\": its circuits are laid out for one job; allowed with several: {}",
            kind.name(),
            able.join(", ")
        ));
    }
    if !spec.failures.is_empty() || spec.backup_servers > 0 {
        return refused(format!(
            "jobs[{number}].failures: a failure with several jobs is not modelled; allowed: none"
        ));
    }
    carried::allowed(spec)?;
    match &spec.work {
        Work::Training(training) => fills(&spec.cluster, training.job.parallelism),
        Work::Collective(work) if work.circuits.is_some() => {
            refused("collective.circuits: are of one job; allowed: none".into())
        }
        Work::Collective(_) => Ok(()),
    }
}

/// Servers of a region, as the blocks of all jobs that span servers fill one.
fn region_servers(jobs: &[SharedJob]) -> Result<u32, SimError> {
    let mut found: Option<(usize, u32)> = None;
    for (number, SharedJob { spec, .. }) in jobs.iter().enumerate() {
        let own = unit(spec);
        match found {
            _ if own == 1 => {}
            None => found = Some((number, own)),
            Some((other, size)) if size != own => {
                return refused(format!(
                    "jobs[{number}].parallelism: tp * cp * ep fills {own} servers, in jobs[{other}] \
                     {size}; allowed: one size, that of the regions of fabric \"{}\"",
                    spec.fabric.kind().name()
                ));
            }
            Some(_) => {}
        }
    }
    Ok(found.map_or(1, |(_, size)| size))
}

/// The fabric's one shape, if its keys leave any open.
fn shape(spec: &Spec, cluster: &Cluster) -> Result<Option<FabricSpec>, SimError> {
    let shapes = spec.fabric.shapes(cluster).map_err(|why| SimError::Input(why.to_string()))?;
    let names: Vec<String> = shapes.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    match names.len() {
        0 | 1 => Ok(shapes.into_iter().next().map(|(_, shape)| shape)),
        _ => refused(format!(
            "fabric.kind = \"{}\": its shape is found for one job; allowed with several: keys that say \
             it, one of {}",
            spec.fabric.kind().name(),
            names.join(", ")
        )),
    }
}
