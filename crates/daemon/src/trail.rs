//! Who asked for what: every call that changes something, and every call that was refused, a line of JSON each.
//!
//! The lines are in a file beside the journal, not in it: what was asked says nothing of circuits, it is read by other
//! programs, and a flood of refused calls must not slow the journal down. A line is written before the answer is
//! given; that of a change is safe on disk by then. The file is begun anew when it is long, and one older is kept.
//!
//! Modelled: one check around all routes, agents' and operators'. Of refused calls, a second has room for a few;
//! the next line says how many were left out. A token is named if it is known, else by the first digits of its
//! SHA-256, so that an old token that is still in use can be found.
//! Ignored: calls that only read, and are answered; what a proxy in front knows of where a call comes from.
//! Checked: below; call by call against a real controller (`tests/all/controller/trail.rs`).

use crate::auth::{Access, Tokens};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

/// The file is begun anew at this length \[B\].
const LONGEST: u64 = 16 << 20;
/// So many refused calls a second are written down, on average, and as many at once.
const REFUSED: f64 = 10.0;
/// Calls that change something.
const CHANGES: [&str; 2] = ["/v1/unblock", "/v1/audit"];

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// When it was answered, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The name of the token, if it is a known one; `own token` of the one that the controller has made.
    pub who: Option<String>,
    /// The first digits of the SHA-256 of a token that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Address and port at the other end of the connection.
    pub from: String,
    /// Method and path.
    pub call: String,
    /// What was asked for, of a call that changes something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Value>,
    /// The status of the answer; of an agent's call that was refused, what it is over HTTP.
    pub answer: u16,
    /// So many refused calls before this one were not written down.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The other end of a connection: for the extensions of a request.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// What a call asks for: for the extensions of its answer.
#[derive(Clone, Debug)]
pub struct Asked(pub Value);

/// The file of a region, open.
#[derive(Clone, Debug)]
pub struct Trail(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    length: u64,
    /// How many refused calls may be written down now, and when that was true.
    room: (f64, Instant),
    left_out: u64,
}

impl Trail {
    /// Goes on with a file, or begins it.
    ///
    /// # Errors
    /// If it cannot be opened for writing.
    ///
    /// ```
    /// use lightloom_daemon::trail::{Entry, Trail, read};
    /// # let path = std::env::temp_dir().join(format!("lightloom-trail-doc-{}", std::process::id()));
    /// let trail = Trail::open(&path).unwrap();
    /// trail.note(Entry {
    ///     unix_ms: 0,
    ///     who: Some("operations".into()),
    ///     sha256: None,
    ///     from: "127.0.0.1:40000".into(),
    ///     call: "POST /v1/audit".into(),
    ///     asked: None,
    ///     answer: 200,
    ///     left_out: 0,
    /// });
    /// assert_eq!(read(&path, 10).unwrap()[0].who.as_deref(), Some("operations"));
    /// # std::fs::remove_file(&path).unwrap();
    /// ```
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file =
            OpenOptions::new().append(true).read(true).create(true).mode(0o600).open(path)?;
        let mut length = file.seek(SeekFrom::End(0))?;
        let mut last = [b'\n'];
        if length > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        if last != [b'\n'] {
            // The last life did not come to the end of its line.
            file.write_all(b"\n")?;
            length += 1;
        }
        let room = (REFUSED, Instant::now());
        let open = Open { path: path.into(), file, length, room, left_out: 0 };
        Ok(Trail(Arc::new(Mutex::new(open))))
    }

    /// Writes a call down, unless too many were refused of late. That of a change is safe on disk afterwards.
    pub fn note(&self, entry: Entry) {
        tracing::info!(
            who = entry.who,
            from = entry.from,
            call = entry.call,
            answer = entry.answer,
            "asked"
        );
        let mut open = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Err(why) = open.note(entry) {
            // What an operator does in need must not depend on it.
            tracing::error!(file = %open.path.display(), %why, "a call could not be written down");
        }
    }

    /// All these routes, with every call noted that must be.
    pub fn around(self, routes: Router, tokens: Arc<Tokens>) -> Router {
        routes.layer(from_fn_with_state((self, tokens), watch))
    }
}

impl Open {
    fn note(&mut self, mut entry: Entry) -> io::Result<()> {
        let change = entry.asked.is_some();
        if !change && !self.has_room() {
            self.left_out += 1;
            return Ok(());
        }
        entry.left_out = std::mem::take(&mut self.left_out);
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        if self.length + line.len() as u64 > LONGEST {
            std::fs::rename(&self.path, older(&self.path))?;
            let options = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path);
            (self.file, self.length) = (options?, 0);
        }
        self.file.write_all(&line)?;
        self.length += line.len() as u64;
        if change { self.file.sync_data() } else { Ok(()) }
    }

    fn has_room(&mut self) -> bool {
        let now = Instant::now();
        let more = (now - self.room.1).as_secs_f64() * REFUSED;
        self.room = ((self.room.0 + more).min(REFUSED), now);
        let has = self.room.0 >= 1.0;
        if has {
            self.room.0 -= 1.0;
        }
        has
    }
}

/// The file beside a journal.
pub fn beside(journal: &Path) -> PathBuf {
    let mut path = journal.as_os_str().to_owned();
    path.push("-trail");
    path.into()
}

fn older(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".1");
    path.into()
}

/// The last `limit` calls of a file and the one before it, oldest first. A line that was not written to its end is
/// left out.
///
/// # Errors
/// If there is no such file, or it cannot be read.
pub fn read(path: &Path, limit: usize) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (file, must) in [(older(path), false), (path.to_owned(), true)] {
        let lines = match File::open(&file) {
            Ok(file) => BufReader::new(file).lines(),
            Err(why) if !must && why.kind() == io::ErrorKind::NotFound => continue,
            Err(why) => return Err(why),
        };
        for line in lines {
            entries.extend(serde_json::from_str::<Entry>(&line?).ok());
        }
    }
    Ok(entries.split_off(entries.len().saturating_sub(limit)))
}

async fn watch(
    State((trail, tokens)): State<(Trail, Arc<Tokens>)>,
    request: Request,
    next: Next,
) -> Response {
    let call = format!("{} {}", request.method(), request.uri().path());
    let change = CHANGES.contains(&request.uri().path());
    let peer =
        request.extensions().get::<Peer>().map_or_else(String::new, |peer| peer.0.to_string());
    let authorization = request.headers().get(header::AUTHORIZATION).cloned();
    let mut response = next.run(request).await;
    let answer = refusal(&response).unwrap_or(response.status());
    if change || answer.is_client_error() && answer != StatusCode::NOT_FOUND {
        let shown = authorization.as_ref().map(|value| value.to_str().unwrap_or_default());
        let asked = response.extensions_mut().remove::<Asked>().map(|asked| asked.0);
        let (who, sha256) = named(&tokens, shown);
        let unix_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let entry = Entry {
            unix_ms: unix_ms.as_millis() as u64,
            who,
            sha256,
            from: peer,
            call,
            asked,
            answer: answer.as_u16(),
            left_out: 0,
        };
        // Writing blocks.
        let _ = tokio::task::spawn_blocking(move || trail.note(entry)).await;
    }
    response
}

/// The status over HTTP of an agent's call that was refused.
fn refusal(response: &Response) -> Option<StatusCode> {
    let headers: &HeaderMap = response.headers();
    match headers.get("grpc-status")?.as_bytes() {
        b"0" => None,
        _ if response.status() != StatusCode::OK => None,
        b"16" => Some(StatusCode::UNAUTHORIZED),
        b"7" => Some(StatusCode::FORBIDDEN),
        b"8" => Some(StatusCode::TOO_MANY_REQUESTS),
        _ => Some(StatusCode::BAD_REQUEST),
    }
}

/// The name of a token, or the first digits of its digest.
fn named(tokens: &Tokens, shown: Option<&str>) -> (Option<String>, Option<String>) {
    if let Ok(access) = tokens.access(shown) {
        return (Some(Access::name(&access).into()), None);
    }
    let token = shown.and_then(|shown| shown.split_once(' ')).map(|(_, token)| token.trim());
    let digest = |token: &str| {
        Sha256::digest(token).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    };
    (None, token.filter(|token| !token.is_empty()).map(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: u64, asked: Option<Value>) -> Entry {
        let (from, call) = ("127.0.0.1:1".into(), "POST /v1/unblock".into());
        let (who, sha256, left_out) = (None, None, 0);
        Entry { unix_ms: at, who, sha256, from, call, asked, answer: 401, left_out }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("lightloom-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn a_flood_of_refused_calls_is_bounded_and_changes_are_all_there() {
        let folder = folder("trail-flood");
        let path = folder.join("t");
        let trail = Trail::open(&path).expect("a file");
        (0..1000).for_each(|at| trail.note(entry(at, None)));
        (0..50).for_each(|at| trail.note(entry(at, Some("all".into()))));
        let found = read(&path, usize::MAX).expect("readable");
        let changes = found.iter().filter(|entry| entry.asked.is_some()).count();
        let refused = found.len() - changes;
        assert_eq!(changes, 50);
        assert!((10..100).contains(&refused), "{refused}");
        let left_out: u64 = found.iter().map(|entry| entry.left_out).sum();
        assert_eq!(left_out + refused as u64, 1000, "none goes uncounted");
        std::fs::remove_dir_all(&folder).expect("gone");
    }

    #[test]
    fn a_long_file_is_begun_anew_and_a_torn_line_is_left_out() {
        let folder = folder("trail-long");
        let path = folder.join("t");
        let trail = Trail::open(&path).expect("a file");
        trail.note(entry(1, Some("x".into())));
        trail.0.lock().expect("free").length = LONGEST;
        trail.note(entry(2, Some("x".into())));
        drop(trail);
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .expect("it is there")
            .write_all(b"{\"unix_ms\":3,\"wh")
            .expect("torn");
        let all = |limit| -> Vec<u64> {
            read(&path, limit).expect("readable").iter().map(|entry| entry.unix_ms).collect()
        };
        assert_eq!(all(10), [1, 2]);
        Trail::open(&path).expect("a file").note(entry(4, Some("x".into())));
        assert_eq!(all(10), [1, 2, 4]);
        assert_eq!(all(1), [4]);
        std::fs::remove_dir_all(&folder).expect("gone");
    }
}
