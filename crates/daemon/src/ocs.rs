//! An optical switch, emulated, on TL1 over TCP or TLS.
//!
//! Modelled: the switch of `lightloom_control::ocs` behind `lightloom_control::drivers::tl1`, at the pace of the
//! clock; many sessions at once; patches that outlive the process, in a file, as those of a real switch
//! outlive its controller; what goes wrong, as [`Fault`]s. A session that is not let in, says nothing
//! or does not read is closed in time, and what waits for it is bounded. Ignored: light; nothing shines
//! on its ports. Checked: `tests/ocs.rs`.

mod arguments;
mod fault;
mod kept;
mod session;

pub use arguments::ServeArguments;
pub use fault::{Fault, FaultKind};

use crate::auth::may_listen;
use crate::clock::Clock;
use crate::failure::Failure;
use fault::{Faults, Heard, Said};
use kept::{Kept, restore};
use lightloom_control::Patch;
use lightloom_control::drivers::tl1::{self, Framer, SessionId, Stamp, Tl1Server, User};
use lightloom_control::ocs::{Device, Switch};
use lightloom_units::Time;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use session::Patience;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, sleep_until};
use tokio_rustls::rustls::ServerConfig;

/// What an emulator is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens; with port 0, at one that is free.
    pub listen: SocketAddr,
    /// With these, over TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// The make of the switch.
    pub device: Device,
    /// For its delays and faults.
    pub seed: u64,
    /// Who may use it.
    pub users: Vec<User>,
    /// How many sessions may be open at once.
    pub sessions: usize,
    /// A session must have logged in by then.
    pub login: Duration,
    /// One that says nothing for so long is closed.
    pub idle: Duration,
    /// One that reads nothing for so long is closed.
    pub stall: Duration,
    /// Where patches are kept, if they are.
    pub state: Option<PathBuf>,
    /// Light at every ingress \[dBm\], if there is any.
    pub light: Option<f64>,
    /// What it does wrong.
    pub faults: Vec<Fault>,
}

impl Settings {
    /// A switch of this make on a free port of loopback, for these users, that does nothing wrong.
    pub fn new(device: Device, users: Vec<User>) -> Self {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: None,
            device,
            seed: 1,
            users,
            sessions: 256,
            login: Duration::from_secs(60),
            idle: Duration::from_secs(600),
            stall: Duration::from_secs(10),
            state: None,
            light: None,
            faults: Vec::new(),
        }
    }
}

/// An emulator that listens, and serves while [`Emulator::run`] is awaited.
#[derive(Debug)]
pub struct Emulator {
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    shared: Arc<Shared>,
    sessions: usize,
    patience: Patience,
}

impl Emulator {
    /// Takes up the patches that are kept, and listens.
    ///
    /// # Errors
    /// [`Failure::Input`] for a switch that cannot be, patches that it cannot hold, or an address off
    /// loopback without TLS and users; [`Failure::Run`] if it cannot listen.
    pub async fn bind(settings: Settings) -> Result<Self, Failure> {
        let Settings { listen, tls, device, seed, users, state, light, faults, .. } = settings;
        guard(listen, tls.is_some(), &users)?;
        let mut switch =
            Switch::new(device, seed).map_err(|why| Failure::Input(format!("--ports: {why}")))?;
        let kept = match &state {
            Some(path) => restore(path, &mut switch)?,
            None => Vec::new(),
        };
        (1..=switch.ports()).for_each(|at| switch.illuminate(Time::ZERO, at, light));
        while switch.event().is_some() {} // that it is lit is no news to anyone
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let start = Stamp::from_unix(unix.as_secs());
        let server = Tl1Server::new(switch, tl1::Settings { sid: "OCS".into(), users, start });
        let listener = TcpListener::bind(listen)
            .await
            .map_err(|why| Failure::Run(format!("--listen: {listen}: {why}")))?;
        let faults = Faults::new(faults, ChaCha8Rng::seed_from_u64(seed ^ 0xFA));
        let inner = Inner { server, bells: BTreeMap::new(), faults, state, kept };
        let shared =
            Shared { inner: Mutex::new(inner), sooner: Notify::new(), clock: Clock::start() };
        Ok(Emulator {
            listener,
            tls,
            shared: Arc::new(shared),
            sessions: settings.sessions,
            patience: Patience {
                login: settings.login,
                idle: settings.idle,
                stall: settings.stall,
            },
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not know.
    pub fn address(&self) -> Result<SocketAddr, Failure> {
        self.listener.local_addr().map_err(|why| Failure::Run(why.to_string()))
    }

    /// The patches that stand, or are being set, as nobody but the switch itself can know them.
    pub fn patches(&self) -> impl Fn() -> Vec<Patch> + Send + Sync + use<> {
        let shared = self.shared.clone();
        move || shared.lock().server.switch().patches().collect()
    }

    /// Serves whoever comes, until it is dropped.
    pub async fn run(self) {
        let clock = self.shared.clone();
        tokio::select! {
            never = self.accept() => never,
            never = clock.tick() => never,
        }
    }

    async fn accept(&self) {
        let room = Arc::new(Semaphore::new(self.sessions));
        let mut sessions = tokio::task::JoinSet::new();
        loop {
            // Ended with this loop, and so with whoever runs it.
            while sessions.try_join_next().is_some() {}
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(why) => {
                    // Too many files are open, as a rule: some will be closed.
                    tracing::warn!(%why, "accept");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(seat) = room.clone().try_acquire_owned() else {
                tracing::warn!(%peer, sessions = self.sessions, "no room for another session");
                continue;
            };
            let (shared, tls, patience) = (self.shared.clone(), self.tls.clone(), self.patience);
            sessions.spawn(async move {
                let why = session::serve(stream, tls, &shared, patience).await;
                tracing::debug!(%peer, why, "session ended");
                drop(seat);
            });
        }
    }
}

/// The switch and all that it is to remember.
#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    /// Something is due sooner than it was.
    sooner: Notify,
    clock: Clock,
}

#[derive(Debug)]
struct Inner {
    server: Tl1Server,
    /// Rung when there are bytes for a session.
    bells: BTreeMap<SessionId, Arc<Notify>>,
    faults: Faults,
    state: Option<PathBuf>,
    /// The patches that are in the file.
    kept: Vec<Patch>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The switch is legal after every step, also after the last one of a thread that is no more.
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// Calls the server when it wants to be.
    async fn tick(&self) {
        loop {
            let next = self.lock().server.next_timeout();
            let due = next.map(|at| self.clock.at(at));
            tokio::select! {
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {
                    let mut inner = self.lock();
                    let now = self.now();
                    inner.server.timeout(now);
                    inner.ring(None);
                }
                () = self.sooner.notified() => {}
            }
        }
    }

    /// Bytes have come for a session.
    fn receive(&self, id: SessionId, framer: &mut Framer, bytes: &[u8]) {
        let mut inner = self.lock();
        let (before, now) = (inner.server.next_timeout(), self.now());
        if inner.faults.is_empty() {
            inner.server.receive(now, id, bytes);
        } else {
            for heard in inner.faults.hear(self.clock.elapsed(), framer, bytes) {
                inner.obey(now, id, heard);
            }
        }
        // Before anyone hears that they stand.
        inner.keep();
        inner.ring(Some(id));
        if inner.server.next_timeout() != before {
            self.sooner.notify_one();
        }
    }

    /// What there is for a session, and what is to come.
    fn take(&self, id: SessionId) -> (Said, Still) {
        let mut inner = self.lock();
        let bytes = inner.server.transmit(id).unwrap_or_default();
        let still = Still { open: inner.server.is_open(id), owes: inner.server.owes(id) };
        let said = match bytes.is_empty() || inner.faults.is_empty() {
            true => Said { delay: Duration::ZERO, bytes, broken: false },
            false => inner.faults.say(self.clock.elapsed(), bytes),
        };
        (said, still)
    }
}

/// What is to come of a session: whether it goes on, and whether it waits for answers.
#[derive(Clone, Copy, Debug)]
struct Still {
    open: bool,
    owes: bool,
}

impl Inner {
    fn obey(&mut self, now: Time, id: SessionId, heard: Heard) {
        match heard {
            Heard::Command(text) => self.server.receive(now, id, &text),
            Heard::Pretend(text) => {
                let ports = 1..=2 * self.server.switch().ports();
                ports.clone().for_each(|port| self.server.switch_mut().stick(port, true));
                self.server.receive(now, id, &text);
                ports.for_each(|port| self.server.switch_mut().stick(port, false));
            }
        }
    }

    /// Tells sessions that there is something for them; `but` knows.
    fn ring(&self, but: Option<SessionId>) {
        for id in self.server.waiting().filter(|id| Some(*id) != but) {
            if let Some(bell) = self.bells.get(&id) {
                bell.notify_one();
            }
        }
    }

    fn keep(&mut self) {
        let Some(path) = &self.state else { return };
        let switch = self.server.switch();
        if switch.patches().eq(self.kept.iter().copied()) {
            return;
        }
        self.kept = switch.patches().collect();
        let kept = Kept { ports: switch.ports(), patches: self.kept.clone() };
        if let Err(why) = kept.write(path) {
            tracing::error!(file = %path.display(), %why, "patches are not kept");
        }
    }
}

/// Off loopback only over TLS and for users.
fn guard(listen: SocketAddr, tls: bool, users: &[User]) -> Result<(), Failure> {
    may_listen(listen, tls, !users.is_empty()).map_err(|exposed| {
        Failure::Input(format!("--listen: {}", exposed.asking("a user with a password")))
    })
}
