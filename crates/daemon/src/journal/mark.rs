//! How far a journal goes, in a file beside it: a journal that does not go so far was emptied, cut, or replaced by
//! an older one.
//!
//! The mark is one line: the life of the controller that writes, the number of its last record, and a digest of both.
//! It is written after each commit, and not waited for: one that is older than its journal says no harm. It is made
//! safe at the start and with each snapshot.

use lightloom_control::Doubt;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How far a journal went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    /// The life of the controller that wrote it.
    pub life: u64,
    /// The number of the last record.
    pub number: i64,
}

/// The mark of an open journal.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    /// This life of the controller.
    pub life: u64,
}

impl Mark {
    /// Leaves a mark and makes it safe.
    pub fn leave(journal: &Path, life: u64, number: i64) -> io::Result<Self> {
        let path = beside(journal);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
        let text = line(Reached { life, number });
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)?;
        file.sync_all()?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(Mark { file, life })
    }

    /// The journal goes so far now.
    pub fn note(&mut self, number: i64, safe: bool) {
        let text = line(Reached { life: self.life, number });
        let written = self.file.write_all_at(text.as_bytes(), 0);
        let kept = written.and_then(|()| if safe { self.file.sync_data() } else { Ok(()) });
        if let Err(why) = kept {
            // The journal has the record, and that is what counts.
            tracing::warn!(%why, "the journal's mark cannot be written");
        }
    }
}

/// Where the mark of a journal is.
pub(super) fn beside(journal: &Path) -> PathBuf {
    let mut path = journal.as_os_str().to_owned();
    path.push("-mark");
    path.into()
}

/// The mark of a journal, if there is one that makes sense.
pub(super) fn read(journal: &Path) -> Option<Reached> {
    let text = std::fs::read_to_string(beside(journal)).ok()?;
    let mut words = text.split_whitespace();
    let life = words.next()?.parse().ok()?;
    let number = words.next()?.parse().ok()?;
    let found = Reached { life, number };
    (line(found) == text).then_some(found)
}

/// Of equal length for all, so that a shorter one leaves nothing of a longer.
fn line(Reached { life, number }: Reached) -> String {
    let text = format!("{life:020} {number:020}");
    let digest: String =
        Sha256::digest(&text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{text} {digest}\n")
}

/// What a mark says of a journal whose last life and record are these.
pub(super) fn doubt(
    mark: Option<Reached>,
    (life, number): (u64, i64),
    same_boot: bool,
) -> Option<Doubt> {
    match mark {
        None if life == 0 && number == 0 => Some(Doubt::New),
        Some(mark) if life < mark.life || number < mark.number => {
            let Reached { number: was, .. } = mark;
            let how = if life == 0 && number == 0 { "is empty" } else { "is an older one" };
            let how = if life == mark.life { "was cut" } else { how };
            Some(Doubt::Lost(format!("it {how}: {number} records of {was}")))
        }
        Some(_) if same_boot => None,
        _ => Some(Doubt::Moved),
    }
}

/// The number of a life after `last`: milliseconds since 1970, unless the clock went back.
pub(super) fn life(last: u64) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (last + 1).max(now.as_millis() as u64)
}

/// Another text each time that a machine starts.
pub(super) fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map_or_else(|_| "unknown".into(), |id| id.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_tells_what_is_missing() {
        let mark = |life, number| Some(Reached { life, number });
        for (found, journal, same_boot, name) in [
            (None, (0, 0), true, "new"),
            (None, (5, 7), true, "moved"),
            (mark(5, 7), (5, 7), true, "whole"),
            (mark(5, 7), (5, 9), true, "whole"),
            (mark(5, 7), (6, 7), true, "whole"),
            (mark(5, 7), (5, 7), false, "moved"),
            (mark(5, 7), (5, 6), true, "lost"),
            (mark(5, 7), (4, 9), true, "lost"),
            (mark(5, 7), (0, 0), false, "lost"),
        ] {
            let doubt = doubt(found, journal, same_boot);
            let is = match &doubt {
                None => "whole",
                Some(Doubt::New) => "new",
                Some(Doubt::Moved) => "moved",
                Some(Doubt::Lost(_)) => "lost",
            };
            assert_eq!(is, name, "{found:?} {journal:?} {same_boot}: {doubt:?}");
        }
    }

    #[test]
    fn a_mark_that_is_torn_is_none() {
        let folder = std::env::temp_dir().join(format!("lightloom-mark-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let journal = folder.join("j");
        assert_eq!(read(&journal), None);
        let mut mark = Mark::leave(&journal, 12, 3).expect("written");
        mark.note(1234, false);
        assert_eq!(read(&journal), Some(Reached { life: 12, number: 1234 }));
        let text = std::fs::read_to_string(beside(&journal)).expect("a mark");
        for torn in [&text[..30], &text.replace("1234", "1235"), "", &format!("{text}{text}")] {
            std::fs::write(beside(&journal), torn).expect("written");
            assert_eq!(read(&journal), None, "{torn:?}");
        }
        std::fs::remove_dir_all(&folder).expect("gone");
    }
}
