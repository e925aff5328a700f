//! What a runtime leaves behind: its counters, and what made them.

use crate::failure::Failure;
use lightloom_runtime::ranks::{Job, Watch};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Writes a runtime's Result to a file, at its end at the latest.
pub(super) struct Report {
    path: PathBuf,
    watch: Watch,
    made: Value,
    begun: Instant,
    written: bool,
}

impl Report {
    /// A Result that is to be written to `path`, which is made now, so that it is known that it can be.
    ///
    /// # Errors
    /// A path that cannot be written to.
    pub fn new(path: &Path, watch: Watch, made: Value) -> Result<Self, Failure> {
        let mut report =
            Report { path: path.into(), watch, made, begun: Instant::now(), written: false };
        let wrong = |why| Failure::Input(format!("--result: {}: {why}", path.display()));
        match report.write("is under way") {
            Ok(()) => Ok(report),
            Err(why) => {
                report.written = true; // there is nowhere to write to
                Err(wrong(why))
            }
        }
    }

    /// It is over.
    ///
    /// # Errors
    /// A file that cannot be written any more.
    pub fn end(mut self, outcome: Result<(), &str>) -> Result<(), Failure> {
        let ended = outcome.err().unwrap_or("well");
        self.written = true;
        self.write(ended)
            .map_err(|why| Failure::Run(format!("--result: {}: {why}", self.path.display())))
    }

    /// A whole file is there at any time.
    fn write(&mut self, ended: &str) -> std::io::Result<()> {
        let counters = self.watch.counters();
        let mut said = self.made.clone();
        said["ended"] = ended.into();
        said["seconds"] = self.begun.elapsed().as_secs_f64().into();
        said["nics"] = json!(counters.nics);
        said["peers"] = json!(counters.peers);
        said["fences"] = json!(counters.fences);
        let mut draft = self.path.clone().into_os_string();
        draft.push(".new");
        let mut file = std::fs::File::create(&draft)?;
        serde_json::to_writer_pretty(&mut file, &said)?;
        file.write_all(b"\n")?;
        std::fs::rename(&draft, &self.path)
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.written
            && let Err(why) = self.write("it was told to end")
        {
            tracing::error!(path = %self.path.display(), %why, "the result is not written");
        }
    }
}

/// What makes a Result: the program, the job's file, its settings.
pub(super) fn made(job: &Job, server: &str, sha256: &str, fences: bool) -> Value {
    json!({
        "made_by": "lightloomd runtime serve",
        "version": env!("CARGO_PKG_VERSION"),
        "server": server,
        "job_sha256": sha256,
        "settings": {
            "servers": job.servers.len(),
            "ranks_per_server": job.ranks_per_server,
            "packet_nics": job.packet_nics,
            "optical_nics": job.optical_nics,
            "path": job.path,
            "algorithm": job.algorithm,
            "chunk": job.chunk,
            "parts": job.parts,
            "lost_ms": job.lost_ms,
            "ignore_drains": !fences,
        },
        "started": started(),
    })
}

/// Now, since 1970 \[s\].
pub(super) fn started() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
