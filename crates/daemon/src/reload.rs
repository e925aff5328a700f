//! Tokens and the certificate to listen with, read anew on SIGHUP while the controller runs.
//!
//! Either all that is new is taken, or, if the file is wrong, nothing; connections that are open go on. All else that a
//! file says takes effect at a start: what has changed of it is said.

use crate::auth::Tokens;
use crate::config::Config;
use crate::failure::Failure;
use crate::hub::{Command, Hub};
use lightloom_control::ControllerEvent;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// So long before a certificate ends an alarm is raised.
pub const NOTICE: Duration = Duration::from_secs(14 * 24 * 3600);
/// How often it is looked at whether that time has come.
const LOOK: Duration = Duration::from_secs(60);

/// What those who listen go by, and can be replaced.
#[derive(Clone)]
pub struct Shared {
    /// The tokens that are known.
    pub tokens: Arc<Tokens>,
    /// The certificate and its key.
    pub tls: Arc<RwLock<Option<TlsAcceptor>>>,
}

impl Shared {
    /// These tokens, and this certificate and key.
    pub fn new(tokens: Arc<Tokens>, tls: Option<Arc<ServerConfig>>) -> Self {
        Shared { tokens, tls: Arc::new(RwLock::new(tls.map(TlsAcceptor::from))) }
    }

    /// The acceptor of now, if connections use TLS.
    pub fn acceptor(&self) -> Option<TlsAcceptor> {
        self.tls.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// Reads a file again when it is asked.
pub struct Reload {
    file: PathBuf,
    /// All of the file that does not change while the controller runs.
    lasting: String,
    shared: Shared,
    /// The token is the controller's own: the file has none.
    has_own: bool,
    hub: Hub,
    hangup: Signal,
}

impl Reload {
    /// For a controller that was started from this file, which said this. Within a Tokio runtime.
    ///
    /// # Errors
    /// If the system does not let it hear of signals.
    pub fn new(
        file: PathBuf,
        text: &str,
        shared: Shared,
        has_own: bool,
        hub: Hub,
    ) -> Result<Self, Failure> {
        // It was read before: it is TOML.
        let lasting = Config::lasting(text).unwrap_or_default();
        let hangup =
            signal(SignalKind::hangup()).map_err(|why| Failure::Run(format!("signals: {why}")))?;
        Ok(Reload { file, lasting, shared, has_own, hub, hangup })
    }

    /// Waits for signals, and for the end of the certificate, as long as the controller runs.
    pub async fn run(mut self) {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                got = self.hangup.recv() => match got {
                    None => return,
                    Some(()) => {
                        let text = match self.reload() {
                            Ok(text) => text,
                            Err(why) => format!("nothing was read anew: {why}"),
                        };
                        tracing::info!("{text}");
                        self.hub.log(ControllerEvent::Note { text });
                    }
                },
                _ = look.tick() => {}
            }
            let end = *self.hub.expiry.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let ends = end.is_some_and(|end| end <= SystemTime::now() + NOTICE);
            if self.hub.commands.send(Command::Certificate { ends }).await.is_err() {
                return;
            }
        }
    }

    fn reload(&self) -> Result<String, Failure> {
        let file = self.file.display();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|why| Failure::Input(format!("{file}: {why}")))?;
        let config = Config::read(&self.file, &text)?;
        let lasting = Config::lasting(&text).unwrap_or_default();
        let mut tls = self.shared.tls.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (had, has) = (!self.has_own, !config.tokens.is_empty());
        if had != has || tls.is_some() != config.tls.is_some() {
            let what = if had == has { "listen.certificate" } else { "token" };
            let why = "to begin or end with it the controller must be started anew";
            return Err(Failure::Input(format!("{file}: {what}: {why}")));
        }
        let tokens = match config.summary.tokens {
            0 => "no tokens (the controller keeps its own)".into(),
            count => format!("{count} tokens"),
        };
        if !self.has_own {
            self.shared.tokens.replace(config.tokens);
        }
        *tls = config.tls.map(TlsAcceptor::from);
        *self.hub.expiry.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = config.expiry;
        let certificate = if tls.is_some() { " and the certificate" } else { "" };
        let rest = if lasting == self.lasting {
            ""
        } else {
            "; the file has other changes, which take effect when the controller is started anew"
        };
        Ok(format!("{tokens}{certificate} were read anew{rest}"))
    }
}
