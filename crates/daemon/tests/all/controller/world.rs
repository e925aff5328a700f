//! Daemons as processes, a folder for their files, and eyes that are not theirs.

pub use super::ports::free_port;
use lightloom_control::drivers::tl1::{Login, Options, Secret, Tl1Driver};
use lightloom_control::{Answer, Driver, DriverEvent, Memory, Order, Patch, PortId};
use lightloom_daemon::agent::Controller;
use lightloom_units::Time;
use rusqlite::OptionalExtension;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// Nothing here takes so long, unless it hangs.
pub const LONG: Duration = Duration::from_secs(30);

/// By address: where a controller has written the token that it made.
static TOKENS: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// The token that the controller there has made, if it has.
pub fn token(address: &str) -> Option<String> {
    let file = TOKENS.lock().expect("no panic").get(address).cloned();
    file.map(|file| std::fs::read_to_string(file).expect("the token's file").trim().to_owned())
}

/// The line of a request that shows it, with its end.
pub fn authorization(address: &str) -> String {
    token(address).map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"))
}

/// A message that shows it.
pub fn shown<T>(address: &str, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Some(token) = token(address) {
        let header = format!("Bearer {token}").parse().expect("a header");
        request.metadata_mut().insert("authorization", header);
    }
    request
}

/// A folder that goes when the test ends. Nobody else may enter.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let name = format!("lightloom-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        DirBuilder::new().mode(0o700).create(&folder).expect("a folder");
        Folder(folder)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `lightloomd` at work; killed when dropped.
pub struct Daemon {
    child: Child,
    pub address: String,
    /// Where the token is that it has made, if it has.
    pub token_file: Option<PathBuf>,
}

impl Daemon {
    /// Starts one, and waits until it listens.
    pub async fn start(arguments: &[&str]) -> Daemon {
        Daemon::started(command(arguments)).await
    }

    /// A gateway, whose log goes to a file.
    pub async fn gateway(file: &Path, log: &Path) -> Daemon {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log");
        let file = file.to_str().expect("UTF-8");
        let mut command =
            command(&["--log", "json", "--log-level", "warn", "ocs", "gateway", file]);
        command.stderr(log);
        Daemon::started(command).await
    }

    /// As it is.
    pub async fn started(mut command: Command) -> Daemon {
        let mut child = command.spawn().expect("lightloomd");
        let out = child.stdout.take().expect("piped");
        let mut line = String::new();
        let read = timeout(LONG, BufReader::new(out).read_line(&mut line)).await;
        read.expect("a line in time").expect("readable");
        let said: Value = serde_json::from_str(&line).expect("where it listens");
        let address: String = said["listening"].as_str().expect("an address").into();
        let token_file = said["token_file"].as_str().map(PathBuf::from);
        let mut tokens = TOKENS.lock().expect("no panic");
        match token_file.clone() {
            Some(file) => tokens.insert(address.clone(), file),
            None => tokens.remove(&address),
        };
        Daemon { child, address, token_file }
    }

    pub async fn ocs(ports: u16, more: &[&str]) -> Daemon {
        let ports = ports.to_string();
        let begin = ["--log-level", "off", "ocs", "serve", "--listen", "127.0.0.1:0", "--ports"];
        Daemon::start(&[&begin, &[ports.as_str()][..], more].concat()).await
    }

    /// A token that it makes is in the region's folder.
    pub async fn controller(region: &Path) -> Daemon {
        let place = region.parent().expect("a folder");
        let region = region.to_str().expect("UTF-8");
        let level = std::env::var("LIGHTLOOM_LOG").unwrap_or_else(|_| "off".into());
        let mut command = command(&["--log-level", &level, "controller", "serve", region]);
        command.env("XDG_RUNTIME_DIR", place);
        Daemon::started(command).await
    }

    /// As `kill -9` does.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("killed");
    }

    /// The number of the process.
    pub fn process(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    pub fn url(&self) -> Controller {
        Controller {
            url: format!("http://{}", self.address),
            token_file: self.token_file.clone(),
            ca: None,
        }
    }
}

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lightloomd"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    command
}

/// What a daemon says that does not start, and its exit code.
pub async fn refused(arguments: &[&str]) -> (String, Option<i32>) {
    let output = command(arguments).stderr(Stdio::piped()).output();
    let output = timeout(LONG, output).await.expect("in time").expect("lightloomd");
    (String::from_utf8_lossy(&output.stderr).trim().into(), output.status.code())
}

/// `servers` servers of `degree` ports in a row.
pub fn region(listen: u16, switch: &str, servers: u16, degree: u16, more: &str) -> String {
    let ports = servers * degree;
    format!(
        "name = \"r\"\n[listen]\naddress = \"127.0.0.1:{listen}\"\n[servers]\ncount = {servers}\n\
         ports_each = {degree}\n[switch]\nprotocol = \"tl1\"\naddress = \"{switch}\"\n\
         ports = {ports}\n{more}\n"
    )
}

/// The file of a gateway in front of a switch on TL1.
pub fn gateway(listen: u16, switch: &str, ports: u16) -> String {
    format!(
        "listen = \"127.0.0.1:{listen}\"\n[switch]\nprotocol = \"tl1\"\naddress = \"{switch}\"\n\
         ports = {ports}\n[timing]\npatience = \"500 ms\"\nlifetime = \"100 ms\"\nreconnect = \"20 ms\"\n"
    )
}

/// What a switch says that it holds, over a session of our own.
pub async fn read_switch(address: &str, ports: u16) -> Vec<Patch> {
    let login = Login { user: "root".into(), password: Secret::new("root") };
    let slice: Vec<u16> = (1..=ports).collect();
    let mut driver = Tl1Driver::new(login, &slice, Options::default()).expect("a login");
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let mut buffer = vec![0; 65536];
    driver.connected(Time::ZERO);
    loop {
        while let Some(bytes) = driver.transmit() {
            stream.write_all(&bytes).await.expect("it reads");
        }
        let count = timeout(LONG, stream.read(&mut buffer)).await.expect("in time");
        driver.receive(Time::ZERO, &buffer[..count.expect("it answers")]);
        while let Some(event) = driver.event() {
            match event {
                DriverEvent::Up { .. } => driver.order(Time::ZERO, 1, &Order::Read),
                DriverEvent::Answer { answer: Answer::State(patches), .. } => return patches,
                DriverEvent::Notice(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Both patches of each circuit, of servers in a row on a switch that has no other ports.
pub fn patches(circuits: &[(PortId, PortId)], servers: u16, degree: u16) -> Vec<Patch> {
    let port = |(server, port): PortId| server * degree + port + 1;
    let both = |&(a, b): &(PortId, PortId)| Patch::pair(servers * degree, port(a), port(b));
    let mut patches: Vec<Patch> = circuits.iter().flat_map(both).collect();
    patches.sort_unstable();
    patches
}

/// What a journal says, read as an operator would.
pub fn read_journal(path: &Path) -> Memory {
    let database = rusqlite::Connection::open(path).expect("a database");
    let pair = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    let snapshot = database
        .query_row("SELECT number, json FROM snapshot", [], pair)
        .optional()
        .expect("a snapshot, or none");
    let (after, mut memory) = snapshot.map_or((0, Memory::default()), |(number, json)| {
        (number, serde_json::from_str(&json).expect("a memory"))
    });
    let rows = "SELECT number, json FROM record WHERE number > ?1 ORDER BY number";
    let mut rows = database.prepare(rows).expect("a table");
    for row in rows.query_map([after], pair).expect("rows") {
        memory.note(serde_json::from_str(&row.expect("a row").1).expect("a record"));
    }
    memory
}

/// A page over HTTP/1.1: the status code, and the body as JSON.
pub async fn get(address: &str, path: &str) -> (u16, Value) {
    let shown = authorization(address);
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{shown}Connection: close\r\n\r\n");
    asked(address, &request).await
}

/// What is said to JSON that is sent there.
pub async fn post(address: &str, path: &str, body: &str) -> (u16, Value) {
    let (length, shown) = (body.len(), authorization(address));
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\n{shown}Connection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    asked(address, &request).await
}

pub async fn asked(address: &str, request: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = Vec::new();
    let read = timeout(LONG, stream.read_to_end(&mut answer)).await;
    read.expect("in time").expect("it answers");
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
    // Not every answer is JSON.
    (code, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// The first status of which this is true.
pub async fn status_when(address: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let (code, status) = get(address, "/v1/status").await;
        assert_eq!(code, 200);
        if is(&status) {
            return status;
        }
        assert!(began.elapsed() < LONG, "not {what}: {status:#}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Nothing is under way and all is well. (A plan that was verified before its controller was killed is not
/// confirmed any more.)
pub fn settled(status: &Value) -> bool {
    let number = |name: &str| status[name].as_u64();
    status["phase"] == "idle"
        && status["alarms"].as_array().is_some_and(Vec::is_empty)
        && number("generation") == number("verified_generation")
}

pub fn alarm(status: &Value, name: &str) -> bool {
    let alarms = status["alarms"].as_array();
    alarms.is_some_and(|alarms| alarms.iter().any(|alarm| alarm["name"] == name))
}

/// Draws demands from a seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    pub fn demand(&mut self, servers: usize) -> Vec<Vec<u64>> {
        let mut row = |from: usize| {
            (0..servers).map(|to| if to == from { 0 } else { self.below(1 << 30) }).collect()
        };
        (0..servers).map(&mut row).collect()
    }
}
