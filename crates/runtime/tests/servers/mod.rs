//! Servers on loopback, and ranks that speak to them as processes would.

mod ports;

use self::ports::free_port;
use lightloom_runtime::ranks::{Job, NicPlace, Server, Service};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A rank: its socket, and its arena, which it reads and writes as a file.
pub struct Rank {
    lines: BufReader<UnixStream>,
    arena: File,
    asked: u64,
}

impl Rank {
    pub fn new(socket: &PathBuf, rank: u32, bytes: u64) -> Self {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let file = memfd_create("arena", flags).expect("memory");
        ftruncate(&file, bytes).expect("room");
        fcntl_add_seals(&file, SealFlags::SHRINK).expect("sealed");
        let mut it = Rank::raw(socket, file);
        it.hello(rank);
        it
    }

    /// One that has not said which it is.
    pub fn raw(socket: &PathBuf, arena: OwnedFd) -> Self {
        let stream = UnixStream::connect(socket).expect("listening");
        // A test that waits for ever says nothing.
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        Rank { lines: BufReader::new(stream), arena: arena.into(), asked: 0 }
    }

    pub fn hello(&mut self, rank: u32) {
        self.asked += 1;
        let line =
            format!("{}\n", json!({ "id": self.asked, "ask": { "hello": { "rank": rank } } }));
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut room);
        let files = [self.arena.as_fd()];
        assert!(beside.push(SendAncillaryMessage::ScmRights(&files)));
        let bytes = [IoSlice::new(line.as_bytes())];
        sendmsg(self.lines.get_ref(), &bytes, &mut beside, SendFlags::empty()).expect("sent");
        assert!(self.answer().is_ok());
    }

    /// Sends what is no question.
    pub fn send(&mut self, line: &str) {
        std::io::Write::write_all(self.lines.get_mut(), line.as_bytes()).expect("sent");
    }

    pub fn ask(&mut self, ask: &Value) -> u64 {
        self.asked += 1;
        let line = format!("{}\n", json!({ "id": self.asked, "ask": ask }));
        std::io::Write::write_all(self.lines.get_mut(), line.as_bytes()).expect("sent");
        self.asked
    }

    /// The next answer.
    pub fn answer(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        self.lines.read_line(&mut line).map_err(|why| why.to_string())?;
        let mut said: Value = serde_json::from_str(&line).map_err(|_| "the end".to_owned())?;
        match said["failed"].as_str() {
            Some(why) => Err(why.to_owned()),
            None => Ok(said["done"].take()),
        }
    }

    pub fn say(&mut self, ask: &Value) -> Result<Value, String> {
        self.ask(ask);
        self.answer()
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.arena.write_all_at(bytes, at).expect("written");
    }

    pub fn read(&self, at: u64, bytes: u64) -> Vec<u8> {
        let mut read = vec![0; bytes as usize];
        self.arena.read_exact_at(&mut read, at).expect("read");
        read
    }
}

/// A job of some servers in this process.
pub struct Servers {
    pub services: Vec<Service>,
    pub sockets: Vec<PathBuf>,
    pub job: Job,
}

/// How a job is shaped.
pub struct Made {
    pub servers: u16,
    pub ranks: u16,
    pub nics: u16,
    pub path: &'static str,
    pub algorithm: &'static str,
    pub lost_ms: u64,
}

impl Servers {
    pub fn start(made: &Made) -> Self {
        Self::start_with(made, |_| ())
    }

    /// The same, with a job that is changed.
    pub fn start_with(made: &Made, change: impl FnOnce(&mut Job)) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let unique = format!("lightloom-ranks-{}-{number}", std::process::id());
        let nic = |_| {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
            NicPlace { address, device: None }
        };
        let server = |at: u16| Server {
            name: format!("s{at}"),
            life: 1,
            nics: (0..made.nics).map(nic).collect(),
        };
        let servers = (0..made.servers).map(server).collect();
        let mut job = Job {
            job: number + 1,
            secret: "secret".into(),
            servers,
            ranks_per_server: made.ranks,
            packet_nics: made.nics,
            optical_nics: 0,
            path: made.path.into(),
            algorithm: made.algorithm.into(),
            rings: Vec::new(),
            round: 0,
            chunk: 1 << 14,
            unsent: None,
            nic_window: None,
            nic_rate: None,
            lost_ms: made.lost_ms,
            spread: None,
            relays: true,
            parts: None,
        };
        change(&mut job);
        let place = |at: u16| std::env::temp_dir().join(format!("{unique}-{at}"));
        let sockets: Vec<PathBuf> = (0..made.servers).map(place).collect();
        let start = |(at, socket): (usize, &PathBuf)| {
            Service::start(job.clone(), &format!("s{at}"), socket, None).expect("started")
        };
        let services = sockets.iter().enumerate().map(start).collect();
        Servers { services, sockets, job }
    }

    /// All ranks, each with an arena of so many bytes.
    pub fn ranks(&self, bytes: u64) -> Vec<Rank> {
        let per = u32::from(self.job.ranks_per_server);
        let rank = |rank: u32| Rank::new(&self.sockets[(rank / per) as usize], rank, bytes);
        (0..self.job.ranks()).map(rank).collect()
    }
}

/// Has all ranks ask, then waits for all answers.
pub fn all(ranks: &mut [Rank], ask: impl Fn(u32) -> Value) -> Vec<Result<Value, String>> {
    for (at, rank) in (0..).zip(ranks.iter_mut()) {
        rank.ask(&ask(at));
    }
    ranks.iter_mut().map(Rank::answer).collect()
}
