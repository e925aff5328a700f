//! The terms of a gateway in a file: safe before a claim is answered.

use crate::failure::Failure;
use lightloom_control::fence::Terms;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The file, which no other gateway has.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    /// Locked while it lives.
    _lock: File,
}

impl Kept {
    /// Takes the file and reads it. Without one, terms begin with the time, so that they are greater than those of a
    /// file that was lost.
    ///
    /// # Errors
    /// Another gateway has it; it holds something else, or the terms of another switch.
    pub fn open(path: &Path, ports: u16) -> Result<(Self, Terms), Failure> {
        let broken = |why: io::Error| Failure::Run(format!("{}: {why}", path.display()));
        let lock = File::create(beside(path, "-lock")).map_err(broken)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|why| match why {
            Errno::WOULDBLOCK => {
                let why = "another gateway has these terms: stop it first";
                Failure::Run(format!("{}: {why}", path.display()))
            }
            why => broken(why.into()),
        })?;
        let terms = match std::fs::read(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Terms::new(ports, since_1970_ms()),
            Err(why) => return Err(broken(why)),
            Ok(text) => {
                let terms = serde_json::from_slice(&text).ok();
                terms.filter(|terms: &Terms| terms.fit(ports)).ok_or_else(|| wrong(path, ports))?
            }
        };
        Ok((Kept { path: path.into(), _lock: lock }, terms))
    }

    /// Replaces the file as a whole, and returns once it is safe.
    ///
    /// # Errors
    /// What the disk says. Then it is not known which terms it holds.
    pub fn keep(&self, terms: &Terms) -> io::Result<()> {
        let new = beside(&self.path, ".new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(terms)?)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

fn wrong(path: &Path, ports: u16) -> Failure {
    let why = format!(
        "these are not the terms of a switch of {ports} ports: move the file away (then every controller is stopped \
         until an operator says that it is alone)"
    );
    Failure::Input(format!("{}: {why}", path.display()))
}

fn beside(path: &Path, more: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(more);
    beside.into()
}

fn since_1970_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_those_that_were_kept() {
        let folder = std::env::temp_dir().join(format!("lightloom-terms-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("g.terms");
        let (kept, mut terms) = Kept::open(&path, 8).expect("new");
        let first = terms.claim(&[1, 2]);
        assert!(first > 1_600_000_000_000, "{first}");
        kept.keep(&terms).expect("safe");
        let taken = Kept::open(&path, 8).expect_err("taken").to_string();
        assert!(taken.ends_with("g.terms: another gateway has these terms: stop it first"));
        drop(kept);
        assert_eq!(Kept::open(&path, 8).expect("again").1, terms);
        let other = Kept::open(&path, 9).expect_err("of 8").to_string();
        assert!(other.contains("not the terms of a switch of 9 ports"), "{other}");
        for torn in [
            "",
            "{",
            "{\"last\": 1, \"of_port\": [2]}",
            "{\"last\": 1, \"of_port\": [1], \"x\": 0}",
        ] {
            std::fs::write(&path, torn).expect("written");
            let why = Kept::open(&path, 1).expect_err(torn);
            assert!(matches!(why, Failure::Input(_)), "{torn}: {why}");
        }
        std::fs::remove_dir_all(&folder).expect("gone");
    }
}
