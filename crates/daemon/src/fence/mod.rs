//! A gateway in front of a switch that cannot fence: `lightloomd ocs gateway`.
//!
//! One task owns the machine of [`lightloom_control::fence`]; each session has a task that carries its bytes, within
//! bounds. What the machine wants done is done in its order: terms are safe on disk before anything later is.
//! Checked: real daemons, two controllers and an emulated switch behind (`tests/all/controller/rival.rs`,
//! `tests/all/fence.rs`).

mod kept;
mod session;

use crate::clock::Clock;
use crate::config::FenceConfig;
use crate::failure::Failure;
use crate::wire::{self, SwitchHandle, Timing};
use kept::Kept;
use lightloom_control::Input;
use lightloom_control::fence::{Gateway, GatewayOutput};
use lightloom_units::Time;
use session::Heard;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

/// Sessions at once.
const SESSIONS: usize = 64;
/// Answers that a session has not read: with more it is closed.
const UNREAD: usize = 256;

/// A gateway that listens.
pub struct Fence {
    listener: TcpListener,
    gateway: Gateway,
    kept: Kept,
    switch: SwitchHandle,
    clock: Clock,
    /// By session: who it is, and what it is to be told.
    sessions: BTreeMap<u64, (SocketAddr, mpsc::Sender<String>)>,
    hears: mpsc::Sender<(u64, Heard)>,
    heard: mpsc::Receiver<(u64, Heard)>,
    /// When what is being done was asked for.
    came: Instant,
}

/// Runs the gateway of a file until it fails; prints where it listens.
///
/// # Errors
/// A file that is wrong; as [`Fence::start`] and [`Fence::run`].
pub async fn serve(file: &Path) -> Result<(), Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|why| Failure::Input(format!("{}: {why}", file.display())))?;
    let fence = Fence::start(FenceConfig::read(file, &text)?).await?;
    let line = serde_json::json!({ "listening": fence.address()?.to_string() });
    let mut out = std::io::stdout();
    // Nobody needs to read it.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    fence.run().await
}

impl Fence {
    /// Takes up the terms, listens, and opens a stream to the switch.
    ///
    /// # Errors
    /// Terms that another gateway has, or that are not this switch's; a port that is taken.
    pub async fn start(config: FenceConfig) -> Result<Self, Failure> {
        let FenceConfig { listen, terms, endpoint, driver, settings, reconnect } = config;
        let (kept, terms) = Kept::open(&terms, settings.ports)?;
        let listener = TcpListener::bind(listen)
            .await
            .map_err(|why| Failure::Run(format!("{listen}: {why}")))?;
        let span = |time: Time| Duration::from_nanos(time.ps() / 1000);
        let timing = Timing::new(span(reconnect), span(settings.patience));
        tracing::info!(switch = %endpoint, ports = settings.ports, "a gateway listens");
        let switch = wire::spawn(0, endpoint, driver, timing);
        let (hears, heard) = mpsc::channel(256);
        let (gateway, clock) = (Gateway::new(settings, terms), Clock::start());
        let (sessions, came) = (BTreeMap::new(), Instant::now());
        Ok(Fence { listener, gateway, kept, switch, clock, sessions, hears, heard, came })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn address(&self) -> Result<SocketAddr, Failure> {
        self.listener.local_addr().map_err(|why| Failure::Run(why.to_string()))
    }

    /// Serves whoever comes.
    ///
    /// # Errors
    /// If terms cannot be made safe: nothing can be promised without.
    pub async fn run(mut self) -> Result<(), Failure> {
        loop {
            self.carry_out()?;
            let deadline = self.gateway.next_timeout().map(|at| self.clock.at(at));
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => self.open(stream, peer),
                    // Too many files are open, as a rule: some will be closed.
                    Err(why) => tracing::warn!(%why, "accept"),
                },
                input = self.switch.next() => match input {
                    Some(input) => self.hear_switch(input),
                    None => return Err(Failure::Run("the switch's task is gone".into())),
                },
                heard = self.heard.recv() => if let Some((session, heard)) = heard {
                    self.hear(session, heard);
                },
                () = sleep_until(deadline.unwrap_or_else(Instant::now).into()), if deadline.is_some() => {
                    self.gateway.timeout(self.clock.now());
                }
            }
        }
    }

    fn open(&mut self, stream: TcpStream, peer: SocketAddr) {
        if self.sessions.len() >= SESSIONS {
            tracing::warn!(%peer, sessions = SESSIONS, "no room for another session");
            return;
        }
        let session = self.gateway.open();
        let (tell, told) = mpsc::channel(UNREAD);
        self.sessions.insert(session, (peer, tell));
        tokio::spawn(session::carry(stream, session, self.hears.clone(), told));
        tracing::info!(%peer, session, "a controller connects");
    }

    fn hear(&mut self, session: u64, heard: Heard) {
        self.came = Instant::now();
        match heard {
            Heard::Bytes(bytes) => self.gateway.receive(self.clock.now(), session, &bytes),
            Heard::Closed(why) => {
                self.gateway.close(session);
                if let Some((peer, _)) = self.sessions.remove(&session) {
                    tracing::info!(%peer, session, why, "a controller is gone");
                }
            }
        }
    }

    fn hear_switch(&mut self, input: Input) {
        self.came = Instant::now();
        if let Input::Fenced { why, .. } = &input {
            tracing::error!(why, "another gateway or controller has the switch");
        }
        self.gateway.switch(self.clock.now(), input);
    }

    /// Does what the machine wants done, in order.
    fn carry_out(&mut self) -> Result<(), Failure> {
        while let Some(output) = self.gateway.poll() {
            match output {
                GatewayOutput::Keep(terms) => {
                    self.kept.keep(&terms).map_err(|why| Failure::Run(format!("terms: {why}")))?;
                }
                GatewayOutput::Say { session, text } => self.say(session, text),
                GatewayOutput::Close { session, why } => {
                    // The task says what is left, and ends.
                    if let Some((peer, _)) = self.sessions.remove(&session) {
                        tracing::warn!(%peer, session, why, "a session is closed");
                    }
                }
                GatewayOutput::Order { id, order } => self.switch.order(id, order, self.came),
                GatewayOutput::Reconnect => self.switch.reconnect(),
                GatewayOutput::Refused { session, term, last } => {
                    let peer = self.sessions.get(&session).map(|(peer, _)| peer.to_string());
                    tracing::warn!(
                        peer,
                        session,
                        term,
                        last,
                        "a change with an old term is refused"
                    );
                }
            }
        }
        Ok(())
    }

    fn say(&mut self, session: u64, text: String) {
        let full = match self.sessions.get(&session) {
            Some((_, tell)) => tell.try_send(text).is_err(),
            None => false,
        };
        if full {
            self.gateway.close(session);
            self.sessions.remove(&session);
            tracing::warn!(session, "a controller does not read: its session is closed");
        }
    }
}
