//! The thread that sends, and what it shares with the one that reads.

use crate::agent_child::{Lines, spawn};
use crate::clock::{Clock, boottime_ns};
use crate::failure::Failure;
use lightloom_control::{PortId, Runtime};
use lightloom_units::Time;
use serde_json::json;
use socket2::{Domain, Socket, Type};
use std::io::{BufWriter, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The port at which nobody listens.
const DISCARD: u16 = 9;

/// What the threads of a runtime share.
#[derive(Default)]
pub(super) struct Shared {
    runtime: Option<Runtime>,
    ports: u16,
    /// The server's number, and to whom it sends.
    pub region: Option<(u16, Vec<bool>)>,
    lines: Option<Lines>,
}

/// A piece that may be sent now.
struct Piece {
    ns: u64,
    server: u16,
    port: u16,
    peer: PortId,
    generation: u64,
}

impl Shared {
    /// The shared part, whatever another thread came to.
    pub fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
        shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent has said how many ports there are.
    pub fn meet(&mut self, ports: u16, lines: Lines) {
        if self.ports != ports {
            (self.runtime, self.ports) = (Some(Runtime::new(ports)), ports);
        }
        self.lines = Some(lines);
        self.change(|_| {});
    }

    /// The agent is gone.
    pub fn forsaken(&mut self) {
        self.lines = None;
        self.change(Runtime::forsaken);
    }

    /// Something changes, and the agent hears what came of it.
    pub fn change(&mut self, how: impl FnOnce(&mut Runtime)) {
        let Some(runtime) = &mut self.runtime else { return };
        how(runtime);
        while let Some(output) = runtime.poll() {
            self.lines.iter().for_each(|lines| lines.answer(output));
        }
    }

    /// The check: the clock is read after whatever there was to wait for.
    fn begin(&mut self, clock: Clock, port: u16) -> Option<Piece> {
        let server = self.region.as_ref()?.0;
        let runtime = self.runtime.as_mut()?;
        let ns = boottime_ns();
        let peer = runtime.begin(clock.time(ns), port)?;
        Some(Piece { ns, server, port, peer, generation: runtime.mark().generation })
    }
}

/// Sends all that may be sent.
pub(super) struct Sender {
    pub shared: Arc<Mutex<Shared>>,
    pub clock: Clock,
    pub every: Time,
    /// Between the check and the send, for tests.
    pub dwell: Option<Time>,
    /// By port: where pieces are sent, too.
    pub nics: Vec<UdpSocket>,
}

/// A socket that sends to everybody at the other end of a NIC.
///
/// # Errors
/// If there is no such NIC, or it may not be used.
pub(super) fn broadcast(nic: &str) -> Result<UdpSocket, Failure> {
    let open = || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.bind_device(Some(nic.as_bytes()))?;
        socket.set_broadcast(true)?;
        socket.connect(&SocketAddr::from(([255; 4], DISCARD)).into())?;
        Ok(UdpSocket::from(socket))
    };
    open().map_err(|why: std::io::Error| Failure::Input(format!("--nic: {nic}: {why}")))
}

impl Sender {
    /// Starts the thread.
    ///
    /// # Errors
    /// If there is no thread or no socket to be had.
    pub fn start(self, log: Box<dyn Write + Send>) -> Result<(), Failure> {
        let wrong = |why: std::io::Error| Failure::Run(format!("a socket on loopback: {why}"));
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(wrong)?;
        socket.connect(socket.local_addr().map_err(wrong)?).map_err(wrong)?;
        socket.set_read_timeout(Some(Duration::from_millis(10))).map_err(wrong)?;
        spawn("send", move || {
            if let Err(why) = self.send(&socket, BufWriter::with_capacity(1 << 16, log)) {
                tracing::error!(%why, "sends cannot be logged");
                std::process::exit(1); // nothing is sent that is not logged
            }
        })
    }

    fn send(&self, socket: &UdpSocket, mut log: impl Write) -> std::io::Result<()> {
        let long = |time: Time| Duration::from_nanos(time.ps() / 1000);
        let every = long(self.every);
        loop {
            let ports = Shared::lock(&self.shared).ports;
            for port in 0..ports {
                let begun = Shared::lock(&self.shared).begin(self.clock, port);
                let Some(piece) = begun else { continue };
                self.dwell.into_iter().for_each(|time| std::thread::sleep(long(time)));
                let Piece { ns, server, port, peer, generation } = piece;
                let mut line = json!({
                    "ns": ns, "server": server, "port": port, "peer": peer, "generation": generation,
                });
                if let Some(nic) = self.nics.get(usize::from(port)) {
                    let _ = nic.send(line.to_string().as_bytes()); // a filter may refuse it
                }
                let _ = socket.send(&[0]);
                let sent_ns = boottime_ns();
                let _ = socket.recv(&mut [0]);
                Shared::lock(&self.shared).change(|runtime| runtime.landed(port));
                line["sent_ns"] = sent_ns.into();
                writeln!(log, "{line}")?;
            }
            log.flush()?;
            std::thread::sleep(every);
        }
    }
}
