//! A journal that was emptied, cut, replaced or brought from elsewhere: the controller waits for commands that may
//! be late, takes over what the switch holds, and says so.

use super::names;
use super::world::*;
use lightloom_daemon::emulate::RegionAgents;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LIFETIME: Duration = Duration::from_millis(1_500);
const TIMING: &str = "[decision]\nhysteresis = false\n[timing]\nlifetime = \"1500 ms\"\nreconnect = \"20 ms\"\naudit = \"200 ms\"\nretry = \"3 s\"";
const SERVERS: u16 = 4;
const DEGREE: u16 = 3;

/// A region that has changed its circuits a few times, and whose controller is not there.
struct Stopped {
    folder: Folder,
    file: PathBuf,
    journal: PathBuf,
    backup: PathBuf,
    ocs: Daemon,
    emulated: RegionAgents,
    generation: u64,
}

impl Stopped {
    async fn new(name: &str) -> Stopped {
        let folder = Folder::new(name);
        let ocs = Daemon::ocs(SERVERS * DEGREE, &["--delay", "1 ms"]).await;
        let text = region(free_port(), &ocs.address, SERVERS, DEGREE, TIMING);
        let file = folder.write("region.toml", &text);
        let (journal, backup) = (folder.0.join("region.journal"), folder.0.join("backup"));
        let controller = Daemon::controller(&file).await;
        let mut emulated =
            RegionAgents::start(&controller.url(), &names(SERVERS), LONG).await.expect("agents");
        emulated.rest(LONG).await.expect("rest");
        let status = status_when(&controller.address, "settled", settled).await;
        assert!(!seen_alarm(&controller.address).await, "a first start is no loss: {status:#}");
        let mut dice = Dice(11);
        for time in 0..6 {
            if time == 3 {
                let database = rusqlite::Connection::open(&journal).expect("a database");
                database.execute("VACUUM INTO ?1", [backup.to_str()]).expect("a backup");
            }
            emulated.run_round(dice.demand(SERVERS.into()), LONG).await.expect("answered");
        }
        // The last record is that agents have confirmed; its mark is there when the status says so.
        let still = |status: &Value| {
            settled(status) && status["confirmed_generation"] == status["generation"]
        };
        status_when(&controller.address, "confirmed", still).await;
        controller.kill().await;
        let generation = read_journal(&journal).generation;
        Stopped { folder, file, journal, backup, ocs, emulated, generation }
    }

    fn remove(&self, names: &[&str]) {
        for name in names {
            let _ = std::fs::remove_file(self.folder.0.join(name));
        }
    }

    /// Starts the controller; when it has read the switch, and its status then.
    async fn start(&self) -> (Daemon, Duration, Value) {
        let began = Instant::now();
        let controller = Daemon::controller(&self.file).await;
        let status = status_when(&controller.address, "read", |status| {
            status["phase"] != "starting" && status["switches"][0]["read"] == true
        });
        let status = status.await;
        (controller, began.elapsed(), status)
    }

    /// The journal was lost: what must be seen.
    async fn says_lost(mut self, why: &str) {
        let (controller, waited, status) = self.start().await;
        assert!(waited >= LIFETIME, "{why}: late commands were waited for {waited:?} only");
        assert!(alarm(&status, "journal-lost"), "{why}: {status:#}");
        self.emulated.rest(LONG).await.expect("rest");
        let ours = |status: &Value| status["generation"].as_u64() > Some(self.generation);
        let status = status_when(&controller.address, "planned anew", ours).await;
        assert!(alarm(&status, "journal-lost"), "until retry is over: {status:#}");
        // The alarm goes by itself.
        let status = status_when(&controller.address, "settled", settled).await;
        let circuits = self.emulated.circuits();
        assert!(!circuits.is_empty(), "{status:#}");
        let held = read_switch(&self.ocs.address, SERVERS * DEGREE).await;
        assert_eq!(held, patches(&circuits, SERVERS, DEGREE));
        assert_eq!(read_journal(&self.journal).verified, circuits);
        let (_, events) = get(&controller.address, "/v1/events").await;
        assert!(events.to_string().contains("the journal was lost"), "{events:#}");
        controller.kill().await;
        let (_controller, waited, status) = self.start().await;
        assert!(!alarm(&status, "journal-lost") && waited < LIFETIME, "once: {waited:?}");
    }
}

async fn seen_alarm(address: &str) -> bool {
    let (_, events) = get(address, "/v1/events").await;
    events.to_string().contains("journal-lost")
}

const BESIDE: [&str; 2] = ["region.journal-wal", "region.journal-shm"];

fn empty(path: &Path) {
    std::fs::write(path, "").expect("emptied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_was_emptied_is_lost() {
    let stopped = Stopped::new("emptied").await;
    stopped.remove(&BESIDE);
    empty(&stopped.journal);
    stopped.says_lost("emptied").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_whose_end_is_missing_is_lost() {
    let stopped = Stopped::new("cut").await;
    let database = rusqlite::Connection::open(&stopped.journal).expect("a database");
    let last = "DELETE FROM record WHERE number = (SELECT max(number) FROM record)";
    database.execute(last, []).expect("cut");
    drop(database);
    stopped.says_lost("cut").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_backup_is_a_journal_that_was_lost() {
    let stopped = Stopped::new("backup").await;
    stopped.remove(&BESIDE);
    std::fs::copy(&stopped.backup, &stopped.journal).expect("restored");
    stopped.says_lost("an old backup").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_file_the_switch_says_that_there_was_a_journal() {
    let stopped = Stopped::new("gone").await;
    stopped.remove(&BESIDE);
    stopped.remove(&["region.journal", "region.journal-mark", "region.journal-lock"]);
    stopped.says_lost("gone").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_start_of_the_machine_late_commands_are_waited_for_and_nothing_is_lost() {
    let stopped = Stopped::new("moved").await;
    let before = read_journal(&stopped.journal).verified;
    let database = rusqlite::Connection::open(&stopped.journal).expect("a database");
    let set = database.execute("UPDATE meta SET value = 'another' WHERE key = 'boot'", []);
    assert_eq!(set, Ok(1));
    drop(database);
    let (controller, waited, status) = stopped.start().await;
    assert!(waited >= LIFETIME, "{waited:?}");
    assert!(!alarm(&status, "journal-lost"), "{status:#}");
    status_when(&controller.address, "settled", settled).await;
    assert_eq!(stopped.emulated.circuits(), before);
}
