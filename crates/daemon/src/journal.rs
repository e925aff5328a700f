//! The journal of a controller: SQLite, one record a row, safe on disk before it is acted upon.
//!
//! Modelled: a write-ahead log, made safe by one sync a commit; a snapshot of what the records say,
//! after so many of them, so that a start reads few; an exclusive lock, in a file beside it, that the
//! kernel drops when the process dies, however it does. The database itself stays readable to others:
//! `sqlite3 FILE .backup` works while the controller runs. Whether the journal is all that was written
//! says a `mark` beside it.
//! Ignored: a journal and its mark that are both of the same older time, on a machine that has not started anew
//! since; agents tell then, if one has obeyed what is missing.
//! Checked: any record comes back, also after a snapshot; a second controller, another region and
//! another version are refused; real daemons are killed at random moments (`tests/all/controller/kill.rs`);
//! journals that were emptied, cut, replaced or moved (`tests/all/controller/lost.rs`).

mod mark;

use lightloom_control::{Memory, Record};
use mark::Mark;
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use thiserror::Error;

/// What the tables look like. One that is later is refused, an older one is brought here:
/// 1 had no lives, no mark beside it and no word of the machine; 2 had no terms.
const SCHEMA: u64 = 3;
/// After so many records a snapshot is taken, and as many are kept for those who read.
const SNAPSHOT_EVERY: i64 = 4096;
/// The log is made this long at the start: to write over it syncs faster than to make it longer \[B\].
const LOG_BYTES: usize = 1 << 20;

/// With less room than this on its disk the log is not made long, and its pages go to the database early \[B\];
const AMPLE: u64 = 6 << 20;
/// with less than this a journal is not opened \[B\].
const LEAST: u64 = 256 << 10;
/// Pages of the log after which they go to the database, where there is little room.
const EARLY: u32 = 32;

/// A journal that cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Someone else has it.
    #[error("{0}: another controller has this journal open: stop it first")]
    Taken(PathBuf),
    /// It is of another region, or of the same with other wiring.
    #[error(
        "{file}: this is the journal of {what}: move it away (the controller then takes over what the switch holds), or name another under journal.path"
    )]
    Foreign {
        /// Path of the SQLite file.
        file: PathBuf,
        /// The region that the journal is of.
        what: String,
    },
    /// It was written by a later version.
    #[error("{0}: written by a later version of lightloomd (format {1}, known is {SCHEMA})")]
    Later(PathBuf, u64),
    /// There is no room for it.
    #[error(
        "{0}: {free} kB are free on its disk, and a journal needs {least}: make room",
        free = .1 / 1024, least = LEAST / 1024
    )]
    Full(PathBuf, u64),
    /// What SQLite or the disk says.
    #[error("{0}: {1}")]
    Broken(PathBuf, String),
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    database: Connection,
    /// Holds the lock while it lives.
    _lock: Connection,
    number: i64,
    snapshot: i64,
    /// What it says.
    memory: Memory,
    /// None until this life has begun.
    mark: Option<Mark>,
}

impl Journal {
    /// Opens or makes the journal of a region, and says what it knows. `wiring` is any text that is
    /// another for other servers or ports.
    ///
    /// # Errors
    /// If another process has it, or it is not this region's, or not readable.
    ///
    /// ```
    /// use lightloom_control::Record;
    /// use lightloom_daemon::journal::Journal;
    /// # let folder = std::env::temp_dir().join(format!("lightloom-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// let path = folder.join("r.journal");
    /// let (mut journal, memory) = Journal::open(&path, "region-0", "as wired").unwrap();
    /// assert_eq!(memory.generation, 0);
    /// journal.commit(&[Record::Confirmed { generation: 3 }]).unwrap();
    /// drop(journal);
    /// let (_, memory) = Journal::open(&path, "region-0", "as wired").unwrap();
    /// assert_eq!(memory.confirmed, 3);
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// ```
    pub fn open(path: &Path, region: &str, wiring: &str) -> Result<(Self, Memory), JournalError> {
        let broken = |error: rusqlite::Error| JournalError::Broken(path.into(), error.to_string());
        let free = free(path);
        if free < LEAST {
            return Err(JournalError::Full(path.into(), free));
        }
        let lock = lock(path)?;
        let mut database = Connection::open(path).map_err(broken)?;
        prepare(&mut database, free >= AMPLE).map_err(broken)?;
        if free < AMPLE {
            tracing::warn!(
                free_kb = free / 1024,
                "there is little room for the journal on its disk"
            );
        }
        check(&database, path, region, wiring)?;
        let (memory, number, snapshot) = replay(&database, path)?;
        let mut journal = Journal {
            path: path.into(),
            database,
            _lock: lock,
            number,
            snapshot,
            memory,
            mark: None,
        };
        journal.begin()?;
        let known = journal.memory.clone();
        Ok((journal, known))
    }

    /// The number of this life of the controller: greater than that of every earlier one with this journal, and,
    /// as clocks go, than that of every controller that started earlier with another.
    pub fn term(&self) -> u64 {
        self.mark.as_ref().map_or(0, |mark| mark.life)
    }

    /// Writes records, in order, and returns once they are safe.
    ///
    /// # Errors
    /// If the disk will not. Then it is not known whether they are there.
    pub fn commit(&mut self, records: &[Record]) -> Result<(), JournalError> {
        self.write(records)
            .map_err(|error| JournalError::Broken(self.path.clone(), error.to_string()))?;
        Ok(())
    }

    /// The number of the last record.
    pub fn number(&self) -> i64 {
        self.number
    }

    /// Begins a life: finds out whether the journal is all that was written, notes it if not, and leaves a mark that
    /// says how far it goes.
    fn begin(&mut self) -> Result<(), JournalError> {
        let path = self.path.clone();
        let broken = |error: rusqlite::Error| JournalError::Broken(path.clone(), error.to_string());
        let known = |database: &Connection, key: &str| -> Result<Option<String>, JournalError> {
            let row = "SELECT value FROM meta WHERE key = ?1";
            database.query_row(row, [key], |row| row.get(0)).optional().map_err(broken)
        };
        let last = known(&self.database, "life")?.and_then(|life| life.parse().ok()).unwrap_or(0);
        let boot = mark::boot();
        let same_boot = known(&self.database, "boot")?.as_ref() == Some(&boot);
        let found = mark::read(&path);
        if let Some(doubt) = mark::doubt(found, (last, self.number), same_boot) {
            self.commit(&[Record::Doubtful { doubt }])?;
        }
        let life = mark::life(last.max(found.map_or(0, |mark| mark.life)));
        // The mark last: until then the doubt would come up again.
        for (key, value) in [("life", life.to_string()), ("boot", boot)] {
            let set = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
            self.database.execute(set, [key, &value]).map_err(broken)?;
        }
        let mark = Mark::leave(&path, life, self.number)
            .map_err(|why| JournalError::Broken(mark::beside(&path), why.to_string()))?;
        self.mark = Some(mark);
        Ok(())
    }

    fn write(&mut self, records: &[Record]) -> rusqlite::Result<()> {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let transaction =
            self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut number = self.number;
        {
            let mut insert = transaction
                .prepare_cached("INSERT INTO record (number, at_ms, json) VALUES (?1, ?2, ?3)")?;
            for record in records {
                number += 1;
                insert.execute(params![number, at.as_millis() as i64, json(record)?])?;
                self.memory.note(record.clone());
            }
        }
        let due = number - self.snapshot >= SNAPSHOT_EVERY;
        if due {
            transaction.execute(
                "INSERT OR REPLACE INTO snapshot (id, number, json) VALUES (0, ?1, ?2)",
                params![number, json(&self.memory)?],
            )?;
            transaction
                .execute("DELETE FROM record WHERE number <= ?1", [number - SNAPSHOT_EVERY])?;
        }
        transaction.commit()?;
        self.number = number;
        if due {
            self.snapshot = number;
        }
        if let Some(mark) = &mut self.mark {
            mark.note(number, due);
        }
        Ok(())
    }
}

fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Takes the lock: an empty database beside the journal that is never written.
fn lock(path: &Path) -> Result<Connection, JournalError> {
    let mut file = path.as_os_str().to_owned();
    file.push("-lock");
    let take = || {
        let lock = Connection::open(Path::new(&file))?;
        lock.busy_timeout(Duration::ZERO)?;
        lock.execute_batch("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE")?;
        Ok(lock)
    };
    take().map_err(|error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            JournalError::Taken(path.into())
        }
        _ => JournalError::Broken(path.into(), error.to_string()),
    })
}

/// How much room there is where a file is, or shall be \[B\]; what the file itself takes is not counted.
fn free(path: &Path) -> u64 {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let disk = rustix::fs::statvfs(folder.unwrap_or(Path::new(".")));
    // If it cannot be told, SQLite will say what is wrong.
    disk.map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn prepare(database: &mut Connection, ample: bool) -> rusqlite::Result<()> {
    database.busy_timeout(Duration::from_secs(5))?;
    database.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         BEGIN IMMEDIATE;
         CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
         CREATE TABLE IF NOT EXISTS record
             (number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, json TEXT NOT NULL) STRICT;
         CREATE TABLE IF NOT EXISTS snapshot
             (id INTEGER PRIMARY KEY CHECK (id = 0), number INTEGER NOT NULL, json TEXT NOT NULL) STRICT;
         COMMIT;",
    )?;
    if !ample {
        database.pragma_update(None, "wal_autocheckpoint", EARLY)?;
        return database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
    // Fill the log once, so that later commits write over what is there.
    database
        .execute("INSERT OR REPLACE INTO meta VALUES ('padding', ?1)", [" ".repeat(LOG_BYTES)])?;
    database.execute("DELETE FROM meta WHERE key = 'padding'", [])?;
    database.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))
}

/// Whether this is the journal of the region; it is, if it is nobody's.
fn check(
    database: &Connection,
    path: &Path,
    region: &str,
    wiring: &str,
) -> Result<(), JournalError> {
    let broken = |error: rusqlite::Error| JournalError::Broken(path.into(), error.to_string());
    let known = |key: &str, now: &str| -> Result<String, JournalError> {
        let row = "SELECT value FROM meta WHERE key = ?1";
        let found = database.query_row(row, [key], |row| row.get(0)).optional().map_err(broken)?;
        if let Some(found) = found {
            return Ok(found);
        }
        let insert = "INSERT INTO meta (key, value) VALUES (?1, ?2)";
        database.execute(insert, [key, now]).map_err(broken)?;
        Ok(now.to_string())
    };
    let schema = known("schema", &SCHEMA.to_string())?;
    match schema.parse::<u64>() {
        Ok(SCHEMA) => {}
        // What is new is added when it is first written.
        Ok(older @ 1..SCHEMA) => {
            let set = "UPDATE meta SET value = ?1 WHERE key = 'schema'";
            database.execute(set, [SCHEMA.to_string()]).map_err(broken)?;
            tracing::info!(from = older, to = SCHEMA, "the journal's format is brought up to date");
        }
        Ok(later) => return Err(JournalError::Later(path.into(), later)),
        Err(_) => return Err(JournalError::Broken(path.into(), format!("format {schema:?}"))),
    }
    let foreign = |what| Err(JournalError::Foreign { file: path.into(), what });
    let name = known("region", region)?;
    if name != region {
        return foreign(format!("region {name:?}, not of {region:?}"));
    }
    if known("wiring", wiring)? != wiring {
        return foreign(format!("{region:?} with other servers or other switch ports"));
    }
    Ok(())
}

/// What is written, folded; the number of the last record, and of the last that the snapshot has.
fn replay(database: &Connection, path: &Path) -> Result<(Memory, i64, i64), JournalError> {
    let broken = |why: String| JournalError::Broken(path.into(), why);
    let read = || -> rusqlite::Result<_> {
        let row = "SELECT number, json FROM snapshot WHERE id = 0";
        let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let snapshot: Option<(i64, String)> = database.query_row(row, [], pair).optional()?;
        let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.0);
        let rows = "SELECT number, json FROM record WHERE number > ?1 ORDER BY number";
        let mut rows = database.prepare(rows)?;
        let rows =
            rows.query_map([after], pair)?.collect::<rusqlite::Result<Vec<(i64, String)>>>()?;
        Ok((snapshot, rows))
    };
    let (snapshot, rows) = read().map_err(|error| broken(error.to_string()))?;
    let (mut memory, before) = match snapshot {
        None => (Memory::default(), 0),
        Some((number, json)) => {
            let memory = serde_json::from_str(&json)
                .map_err(|error| broken(format!("the snapshot at record {number}: {error}")))?;
            (memory, number)
        }
    };
    let mut last = before;
    for (number, json) in rows {
        let record = serde_json::from_str(&json)
            .map_err(|error| broken(format!("record {number}: {error}")))?;
        memory.note(record);
        last = number;
    }
    Ok((memory, last, before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_control::Doubt;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("lightloom-journal-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).expect("a folder");
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn open(path: &Path) -> (Journal, Memory) {
        Journal::open(path, "r", "w").expect("a journal")
    }

    fn records(upto: u64) -> Vec<Record> {
        let circuits = |at: u64| vec![((0, at as u16 % 5), (1, at as u16 % 3))];
        (1..=upto)
            .map(|at| match at % 6 {
                0 => Record::Planned { generation: at, rounds: vec![at], circuits: circuits(at) },
                1 => Record::Patching { generation: at, switches: vec![] },
                2 => Record::Verified {
                    generation: at,
                    rounds: vec![at],
                    circuits: circuits(at),
                    unread: vec![],
                },
                3 => Record::Confirmed { generation: at },
                4 => Record::Stuck { ports: vec![(at as u16, 0)] },
                _ => Record::Withdrawn {
                    generation: at,
                    why: "it \"lies\"".into(),
                    circuits: vec![],
                },
            })
            .collect()
    }

    /// What a journal holds that was new.
    fn since_new(upto: u64) -> Vec<Record> {
        [Record::Doubtful { doubt: Doubt::New }].into_iter().chain(records(upto)).collect()
    }

    #[test]
    fn what_was_written_is_read_again() {
        let folder = Folder::new("again");
        let path = folder.0.join("j");
        for upto in 1..30 {
            let all = records(upto);
            let (mut journal, before) = open(&path);
            assert_eq!(before, Memory::replay(since_new(upto - 1)), "{upto}");
            journal.commit(&all[upto as usize - 1..]).expect("written");
            assert_eq!(journal.number(), upto as i64 + 1);
        }
    }

    #[test]
    fn snapshots_bound_what_is_kept() {
        let folder = Folder::new("snapshot");
        let path = folder.0.join("j");
        let (mut journal, _) = open(&path);
        let all = records(3 * SNAPSHOT_EVERY as u64 + 100);
        for chunk in all.chunks(500) {
            journal.commit(chunk).expect("written");
        }
        let kept = |journal: &Journal| -> i64 {
            let count = "SELECT count(*) FROM record";
            journal.database.query_row(count, [], |row| row.get(0)).expect("a count")
        };
        assert!(kept(&journal) <= 2 * SNAPSHOT_EVERY + 500, "{}", kept(&journal));
        drop(journal);
        assert_eq!(open(&path).1, Memory::replay(since_new(all.len() as u64)));
    }

    #[test]
    fn one_controller_at_a_time_and_others_may_read() {
        let folder = Folder::new("lock");
        let path = folder.0.join("j");
        let (mut first, _) = open(&path);
        let error = Journal::open(&path, "r", "w").expect_err("taken");
        assert!(error.to_string().ends_with("stop it first"), "{error}");
        let reader = Connection::open(&path).expect("a reader");
        let count = || reader.query_row("SELECT count(*) FROM record", [], |row| row.get(0));
        assert_eq!(count(), Ok(1));
        first.commit(&[Record::Patching { generation: 1, switches: vec![] }]).expect("written");
        assert_eq!(count(), Ok(2));
        drop(first);
        open(&path);
    }

    #[test]
    fn an_older_format_is_brought_up_to_date() {
        let folder = Folder::new("older");
        let path = folder.0.join("j");
        let (mut journal, _) = open(&path);
        journal.commit(&records(20)).expect("written");
        // As version 1 left it: no lives, no machine, no mark.
        journal
            .database
            .execute("UPDATE meta SET value = '1' WHERE key = 'schema'", [])
            .expect("ok");
        journal.database.execute("DELETE FROM meta WHERE key IN ('life', 'boot')", []).expect("ok");
        journal.database.execute("DELETE FROM record WHERE number = 1", []).expect("ok");
        drop(journal);
        std::fs::remove_file(mark::beside(&path)).expect("gone");
        let mut expected = Memory::replay(records(20));
        expected.note(Record::Doubtful { doubt: Doubt::Moved });
        for time in 1..=2 {
            let (journal, memory) = open(&path);
            assert_eq!(memory, expected, "start {time}");
            let schema = "SELECT value FROM meta WHERE key = 'schema'";
            let schema: String =
                journal.database.query_row(schema, [], |row| row.get(0)).expect("a row");
            assert_eq!((schema, journal.number()), (SCHEMA.to_string(), 22));
        }
    }

    #[test]
    fn lives_rise_and_a_journal_that_goes_back_is_lost() {
        let folder = Folder::new("back");
        let (path, backup) = (folder.0.join("j"), folder.0.join("backup"));
        let (mut journal, _) = open(&path);
        let first = journal.term();
        journal.commit(&records(10)).expect("written");
        journal.database.execute("VACUUM INTO ?1", [backup.to_str()]).expect("a backup");
        journal.commit(&records(5)).expect("written");
        drop(journal);
        let (journal, memory) = open(&path);
        assert!(memory.doubt.is_none() && journal.term() > first, "{memory:?}");
        drop(journal);
        let lost = |what: &str| {
            for file in ["j-wal", "j-shm"] {
                let _ = std::fs::remove_file(folder.0.join(file));
            }
            let (journal, memory) = open(&path);
            let Some(Doubt::Lost(why)) = &memory.doubt else { panic!("{what}: {memory:?}") };
            assert!(why.contains(what), "{why}");
            let term = journal.term();
            drop(journal);
            // It is still lost when it is opened once more.
            assert!(open(&path).1.is_lost(), "{what}");
            term
        };
        std::fs::copy(&backup, &path).expect("restored");
        let second = lost("is an older one: 11 records of 16");
        std::fs::write(&path, "").expect("emptied");
        let third = lost("is empty: 0 records of");
        std::fs::remove_file(&path).expect("gone");
        let last = lost("is empty: 0 records of");
        assert!(first < second && second < third && third < last);
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let folder = Folder::new("foreign");
        let path = folder.0.join("j");
        drop(open(&path));
        let why =
            |region, wiring| Journal::open(&path, region, wiring).expect_err("no").to_string();
        assert!(why("q", "w").contains("region \"r\", not of \"q\""), "{}", why("q", "w"));
        assert!(why("r", "v").contains("other switch ports"));
        let database = Connection::open(&path).expect("a database");
        database.execute("INSERT INTO record VALUES (2, 0, '{\"planned\":{}}')", []).expect("ok");
        assert!(
            why("r", "w").contains("record 2: missing field `generation`"),
            "{}",
            why("r", "w")
        );
        database.execute("UPDATE meta SET value = '4' WHERE key = 'schema'", []).expect("ok");
        assert!(why("r", "w").contains("later version"));
        drop(database);
        std::fs::write(&path, "what a journal is not, and long enough").expect("written");
        let _ = std::fs::remove_file(folder.0.join("j-wal"));
        assert!(why("r", "w").contains("not a database"), "{}", why("r", "w"));
    }
}
