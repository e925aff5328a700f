//! The emulator: it listens, and gives each session a task.

use super::fault::{Fault, Faults};
use super::kept::restore;
use super::light::{Mirrors, Wiring};
use super::session::{self, Patience};
use super::shared::{Inner, Shared};
use crate::auth::may_listen;
use crate::clock::Clock;
use crate::failure::Failure;
use lightloom_control::Patch;
use lightloom_control::drivers::tl1::{self, Stamp, Tl1Server, User};
use lightloom_control::ocs::{Device, Switch};
use lightloom_units::Time;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::time::sleep;
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
    /// The NICs at its ports, if there are any.
    pub wiring: Option<Wiring>,
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
            wiring: None,
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
        while switch.event().is_some() {} // that there is light is no news to anyone
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let start = Stamp::from_unix(unix.as_secs());
        let server = Tl1Server::new(switch, tl1::Settings { sid: "OCS".into(), users, start });
        let listener = TcpListener::bind(listen)
            .await
            .map_err(|why| Failure::Run(format!("--listen: {listen}: {why}")))?;
        let faults = Faults::new(faults, ChaCha8Rng::seed_from_u64(seed ^ 0xFA));
        let clock = Clock::start();
        let mirrors =
            settings.wiring.map(|wiring| Mirrors::attach(&wiring, server.switch().ports(), clock));
        let mirrors = mirrors.transpose()?;
        let mut inner = Inner { server, wakers: BTreeMap::new(), faults, state, kept, mirrors };
        inner.shine(clock.now());
        let shared = Shared { inner: Mutex::new(inner), sooner: Notify::new(), clock };
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
            let Ok(permit) = room.clone().try_acquire_owned() else {
                tracing::warn!(%peer, sessions = self.sessions, "no room for another session");
                continue;
            };
            let (shared, tls, patience) = (self.shared.clone(), self.tls.clone(), self.patience);
            sessions.spawn(async move {
                let why = session::serve(stream, tls, &shared, patience).await;
                tracing::debug!(%peer, why, "session ended");
                drop(permit);
            });
        }
    }
}

/// Off loopback only over TLS and for users.
pub(super) fn guard(listen: SocketAddr, tls: bool, users: &[User]) -> Result<(), Failure> {
    may_listen(listen, tls, !users.is_empty()).map_err(|exposed| {
        Failure::Input(format!("--listen: {}", exposed.asking("a user with a password")))
    })
}
